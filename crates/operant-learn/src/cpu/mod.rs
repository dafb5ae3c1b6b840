//! The CPU backend: SIMD lanes along the batch, rayon over tiles, every sum in an order that is a constant of the program.

mod backend;
pub mod batch;
mod footprint;
pub mod gae;
pub mod imitation;
pub mod inference;
pub mod network;
pub mod off_policy;
pub(crate) mod rnd;
pub(crate) mod rollout;
mod state;
pub mod threads;
pub mod update;

#[cfg(feature = "cuda")]
pub(crate) use backend::check_players;
pub use backend::{Instrumented, StartedBackend, backend, backend_in, backend_with};
pub use footprint::{Footprint, chunks};
pub use operant_bf16::Unit;
pub use operant_lane::isa;
pub use threads::pool::{CpuOptions, LANE_WIDTHS, ROLLOUT_TILES, WaitStrategy, on_threads, unit_for};
