//! What the benches share: the spread of repetitions, which `operant bench` uses too.

#![forbid(unsafe_code)]

pub use operant_bench::measure::Spread;
