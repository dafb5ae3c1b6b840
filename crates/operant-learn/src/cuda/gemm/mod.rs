//! The GEMM path for networks too large for fused kernels: every layer is a matrix product of cuBLASLt, and a rollout or an
//! update is a graph of products and small kernels between them.

pub mod layout;
pub mod maps;
pub mod math;
pub mod minibatch;
pub mod muon;
pub mod options;
pub mod products;
pub mod ring;
pub mod rnd;
pub mod rollout;
pub mod update;
