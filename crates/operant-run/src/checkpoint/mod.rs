//! Checkpoints: everything a run needs to continue bit for bit, in one directory that is written atomically.
//!
//! ```text
//! checkpoints/
//!   step_000000131072/      one checkpoint, named by its environment steps
//!     state.safetensors     every tensor of the snapshot: policy.*, adam.*, env.*, ...
//!     replay.safetensors    the rows of the replay, on request
//!     config.toml           the run's effective configuration
//!     meta.json             environment, step counts, counters, evaluation, versions
//!     checksums             per file above: CRC-32, length in bytes, name
//!   discarded_step_*/       renamed: later steps than the checkpoint that the run resumed from
//! ```
//!
//! [`Store`] writes and is used by the trainer only; [`load()`], [`load_latest`], [`steps`], [`list()`] and [`best`] only read, so
//! that evaluating a run never affects it.

mod checksums;
mod error;
mod listed;
mod load;
mod meta;
mod replay;
mod schema1;
mod state;
mod store;
mod swap;

use std::path::Path;

use operant_learn::Snapshot;
use serde::{Deserialize, Serialize};

use crate::evaluate::EvalSchedule;

pub use error::CheckpointError;
pub use listed::{Listed, latest_totals, list};
pub(crate) use load::is_alone;
pub use load::{Loaded, best, is_checkpoint, load, load_latest, load_latest_whole, steps};
pub use replay::{ReplayFile, find_replay, read_replay};
pub(crate) use state::{pack, unpack};
pub use store::Store;
pub(crate) use store::save_alone;

/// The checkpoint schema that this version writes. A reader accepts it and every earlier one.
pub const SCHEMA: u32 = 2;

const STATE: &str = "state.safetensors";
const CONFIG: &str = "config.toml";
const META: &str = "meta.json";
const REPLAY: &str = "replay.safetensors";

/// The state of a run after an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checkpoint {
    /// The environment's name, such as `cartpole`.
    pub env: String,
    /// The run's effective configuration, TOML text.
    pub config: String,
    /// Environment steps taken, over all environments; names the directory.
    pub env_steps: u64,
    /// Updates finished.
    pub updates: u64,
    /// Seconds of training so far, including those before a resume.
    pub train_s: f64,
    /// Mean return of the evaluation at this point, if any; determines which checkpoint is the best. A value that is
    /// not finite is stored as none.
    pub eval_mean: Option<f64>,
    /// Totals of the training loop.
    pub totals: Totals,
    /// The backend's state.
    pub snapshot: Snapshot,
}

/// Totals of the training loop, including the processes before a resume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Episodes ended.
    pub episodes: u64,
    /// Updates with a skipped minibatch.
    pub nonfinite_updates: u64,
    /// Number of evaluations during training; selects their random streams.
    pub rounds: u64,
    /// Seconds of wall time.
    pub wall_s: Option<f64>,
    /// Best mean return of those evaluations.
    pub best_mean: Option<f64>,
    /// Environment steps at the first evaluation that reached the threshold.
    pub solved_at_step: Option<u64>,
    /// Seconds at the end of that evaluation.
    pub solved_at_s: Option<f64>,
    /// Schedule of evaluations.
    pub attempts: EvalSchedule,
}

impl Checkpoint {
    /// Refuses a checkpoint of another environment; `path` is where it came from.
    ///
    /// # Errors
    /// [`CheckpointError::WrongEnv`] unless the checkpoint's environment is `env`.
    pub fn expect_env(&self, env: &str, path: &Path) -> Result<(), CheckpointError> {
        if self.env == env {
            return Ok(());
        }
        let (found, expected) = (self.env.clone(), env.to_owned());
        Err(CheckpointError::WrongEnv { path: path.to_owned(), found, expected })
    }
}

#[cfg(test)]
mod tests;
