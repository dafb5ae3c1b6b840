//! Networks that no kernel holds: every layer is a matrix product of cuBLASLt, and a horizon or an update is a graph of products
//! and of the small kernels between them.

pub mod layout;
pub mod math;
pub mod products;
pub mod rollout;
pub mod update;
