//! operant-lane is the arithmetic of one environment. A rule written once over a [`Lane`] runs as a scalar (`f32`, or
//! `f64` to compare with references), as 8 or 16 environments per instruction ([`Wide`]), and as a recording that is
//! emitted as CUDA C++ ([`trace::Trace`]). It does not depend on environments, policies or devices.
//!
//! Every operation has one definition for all 32-bit lanes, corner cases included, so equal inputs give equal bits on
//! every one of them; `tests/conformance.rs` holds that.

#![forbid(unsafe_code)]

pub mod array;
pub mod bundle;
pub mod draws;
pub mod isa;
pub mod lane;
pub mod math;
pub mod memory;
pub mod philox;
pub mod rows;
mod scalar;
mod script;
mod simd;
pub mod trace;

pub use bundle::{Bundle, Kind, Leaf, Sink, Source};
pub use draws::{ActionDraws, Draws, HeldDraws, Purpose, Turns};
pub use lane::{Float, Int, Lane, Mask, Packed, Rule, Select, Uint};
pub use memory::Memory;
pub use script::Script;
pub use simd::{Mask8, Mask16, Wide};
