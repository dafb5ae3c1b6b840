//! What every measurement needs: a clock, the spread of repetitions, and the machine's own limit. They are those of
//! operant-bench, which `operant bench` uses too.

#![forbid(unsafe_code)]

pub use operant_bench::measure::cpu::{CHAINS, peak_flops};
pub use operant_bench::measure::{Spread, time};
