//! Training on a GPU: environments, policy, samples and learner are on the device; a rollout is one launch, an update another.
//!
//! A network runs in one of two ways: `fused`, inside the kernels, or `gemm`, as matrix products; `common` is shared code. `play`
//! has environments without a network. The folders of `kernels/` have the same names. [`CudaRollout`] and [`CudaLearner`] support
//! both ways, and [`backend()`] trains with them.

mod backend;
mod choice;
mod common;
pub mod footprint;
mod fused;
pub(crate) mod gemm;
mod learner;
mod play;
mod rollout;
mod slots;

pub use backend::{backend, backend_in, choose_num_envs};
pub use choice::{GpuOptions, KernelChoice, Kernels, NetworkOptions, choose, fused_up_to};
pub use common::ahead::ahead_program;
pub use common::env::KernelEnv;
pub use common::gae::gae_program;
pub use common::local::Local;
pub use common::phases::{Progress, UpdateReport};
pub use common::structs::{EpisodeTotals, RunningNorm};
pub use fused::rollout::{pack_program, rollout_program};
pub use fused::specialise;
pub use fused::update::update_program;
pub use gemm::layout::GemmLayout;
pub use gemm::math::gemm_math_program;
pub use gemm::minibatch::gemm_minibatch_program;
pub use gemm::muon::gemm_muon_program;
pub use gemm::products::{gemm_cells_program, gemm_lookup_program};
pub use gemm::rnd::gemm_rnd_program;
pub use gemm::rollout::gemm_rollout_program;
pub use gemm::update::gemm_update_program;
pub use learner::CudaLearner;
pub use play::random_play::{CudaPlay, HASH, PlayOptions, play_program};
pub use play::replay::{replay, replay_program};
pub use play::step::{BadAction, CudaEnvs, EnvArrays, GivenActions, step_program};
pub use rollout::{CudaRollout, Returns};
