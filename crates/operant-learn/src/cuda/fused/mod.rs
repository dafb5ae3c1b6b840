//! Networks fused into the kernels: one launch per rollout, and one per update.

pub mod rollout;
pub mod specialise;
pub mod tables;
pub mod update;
