//! The GPU: environments, policy, samples and learner live on the device; a horizon is one launch, an update another.
//!
//! Two ways run a network, and what they share has a folder of its own: `fused`, with the network inside the kernels, `gemm`, as
//! matrix products, and `common`. `play` is environments without a network. The folders of `kernels/` have the same names.
//! [`CudaRollout`] and [`CudaLearner`] are a rollout and a learner by either way, and [`backend()`] trains with them.

mod backend;
mod choice;
mod common;
pub mod footprint;
mod fused;
mod gemm;
mod learner;
mod play;
mod rollout;
mod slots;

pub use backend::{backend, choose_num_envs};
pub use choice::{Choice, GpuOptions, Kernels, NetworkOptions, choose, fused_up_to};
pub use common::env::KernelEnv;
pub use common::gae::gae_program;
pub use common::phases::{Progress, UpdateReport};
pub use common::structs::{Episodes, RunningNorm};
pub use fused::rollout::{pack_program, rollout_program};
pub use fused::specialise;
pub use fused::update::update_program;
pub use gemm::layout::Form;
pub use gemm::math::gemm_math_program;
pub use gemm::rollout::gemm_rollout_program;
pub use gemm::update::gemm_update_program;
pub use learner::CudaLearner;
pub use play::random_play::{CudaPlay, HASH, PlayOptions, play_program};
pub use play::replay::{replay, replay_program};
pub use rollout::{CudaRollout, Returns};
