//! The network on the CPU: tiles of 16, 32 or 64 samples along the lanes, forward and backward. With few samples, the forward
//! pass has outputs along the lanes.

mod bf16;
mod bits;
mod cells;
mod conv;
mod dense;
pub(crate) mod few;
pub(crate) mod gradient;
pub mod heads;
pub(crate) mod layers;
mod norm;
mod pointer;
pub mod policy;
mod sparse;
mod tables;
pub mod tile;
mod weight_gradient;
