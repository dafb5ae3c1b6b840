//! The CPU backend: SIMD lanes along the batch, rayon over tiles, every sum in an order that is a constant of the program.

pub mod adam;
mod backend;
pub mod batch;
mod bits;
mod crew;
mod dense;
mod episodes;
pub(crate) mod evaluate;
pub mod gae;
mod gradient;
pub mod heads;
mod loss;
pub mod normalise;
pub mod policy;
pub(crate) mod pool;
pub(crate) mod recorder;
pub(crate) mod rollout;
mod state;
mod statistics;
pub mod tile;
pub mod timers;
pub mod update;
mod weight_gradient;
mod worker;

pub use backend::{Instrumented, Started, backend, backend_with};
pub use pool::{CpuOptions, LANE_WIDTHS, ROLLOUT_TILES, Waiting, on_threads};
