//! Code shared by the fused path, the GEMM path and environments without a network: structs and texts of kernels, memory, graphs,
//! the phases of an update.

pub mod ahead;
pub mod env;
pub mod gae;
pub mod graphs;
pub mod horizon;
pub mod local;
pub mod memory;
pub mod overlap;
pub mod phases;
pub mod structs;
pub mod text;
