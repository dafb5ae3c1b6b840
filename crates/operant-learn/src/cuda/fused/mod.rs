//! Networks inside the kernels: one launch a horizon, and one an update.

pub mod rollout;
pub mod specialise;
pub mod update;
