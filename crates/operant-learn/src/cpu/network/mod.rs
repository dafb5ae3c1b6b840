//! The network on the CPU: tiles of 16, 32 or 64 samples along the lanes, forward and backward. With few samples, the forward
//! pass has outputs along the lanes.

pub(crate) mod beta;
pub(crate) mod bf16;
pub(crate) mod bits;
pub(crate) mod few;
pub(crate) mod gradient;
pub mod heads;
pub(crate) mod layers;
pub mod policy;
pub(crate) mod reals;
pub(crate) mod sparse;
pub mod tile;
pub(crate) mod weight_gradient;
