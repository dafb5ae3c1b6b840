//! operant-learn trains policies: configuration, presets, rollouts, networks, algorithms and Adam behind one interface, [`Backend`]. Run directories, signals and files belong to operant-run.

#![forbid(unsafe_code)]

pub mod algorithms;
pub mod backend;
pub mod config;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub(crate) mod evaluate;
pub mod group;
mod in_flight;
pub mod layers;
pub mod network;
pub mod normalise;
pub mod opponent;
pub mod optimiser;
mod os;
pub mod pool;
pub mod precision;
pub mod presets;
pub(crate) mod recorder;
pub mod sample;
pub mod setting;
pub mod shuffle;
pub mod snapshot;
mod state;
pub mod trained;
pub mod transfer;

pub use backend::{Backend, EpisodeRecording, EvalActions, Evaluation, LearnError, Ticket, UpdateStats};
pub use config::{
    ActionDistribution, Activation, ClipGrad, Config, CoreKind, Encoder, Intrinsic, LogStd, LrSchedule,
    Optimizer, ShuffleKind, ValueLoss, WeightInit,
};
pub use group::{Alone, Group};
pub use in_flight::InFlight;
pub use precision::Precision;
pub use snapshot::{Dtype, Snapshot, Tensor};
pub use state::{LearnerState, check_content, content_counter};
pub use trained::{ObsNorm, PolicyTensor, TrainedPolicy};
pub use transfer::Transfer;
