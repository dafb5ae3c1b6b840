//! The GPU: environments, policy, samples and learner live on the device; a horizon is one launch, an update another.
//!
//! What is here turns an environment and a network into specialised kernels ([`specialise`]), holds their buffers
//! ([`CudaRollout`], [`CudaLearner`], [`CudaPlay`], [`replay()`]), and trains with them ([`backend()`]).

mod backend;
mod graphs;
mod layers;
pub mod memory;
mod play;
mod program;
mod replay;
mod rollout;
pub mod specialise;
mod update;

pub use backend::{GpuOptions, backend, choose_num_envs};
pub use layers::{Choice, Form, Kernels, NetworkOptions, choose, fused_up_to};
pub use play::{CudaPlay, HASH, PlayOptions};
pub use program::{
    gae_program, layers_rollout_program, layers_update_program, math_program, pack_program, play_program,
    replay_program, rollout_program, update_program,
};
pub use replay::replay;
pub use rollout::{CudaRollout, Returns};
pub use update::CudaLearner;
