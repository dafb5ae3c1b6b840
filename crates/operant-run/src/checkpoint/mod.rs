//! Checkpoints: everything a run needs to go on bit for bit, in one directory that is there whole or not at all.
//!
//! ```text
//! checkpoints/
//!   step_000000131072/      one checkpoint, named by its environment steps
//!     state.safetensors     every tensor of the snapshot: policy.*, adam.*, env.*, ...
//!     config.toml           the run's effective configuration
//!     meta.json             environment, step counts, counters, evaluation, versions
//!     checksums             per file above: CRC-32, length in bytes, name
//!   discarded_step_*/       set aside: of later steps than one at which the run went on
//! ```
//!
//! [`Store`] writes and belongs to the trainer; [`load()`], [`load_latest`], [`steps`] and [`best`] only read, so
//! that evaluating a run never disturbs it.

mod checksums;
mod error;
mod load;
mod meta;
mod schema1;
mod state;
mod store;
mod swap;

use std::path::Path;

use operant_learn::Snapshot;
use serde::{Deserialize, Serialize};

use crate::evaluate::Attempts;

pub use error::CheckpointError;
pub use load::{Loaded, best, is_checkpoint, load, load_latest, steps};
pub use store::Store;

/// The layout of a checkpoint that this version writes. A reader accepts it and every earlier one.
pub const SCHEMA: u32 = 2;

const STATE: &str = "state.safetensors";
const CONFIG: &str = "config.toml";
const META: &str = "meta.json";

/// A run at the end of one update.
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
    /// Seconds of training so far, earlier parts of a resumed run included.
    pub train_s: f64,
    /// Mean return of the evaluation made at this point, if any; decides which checkpoint is the best. A value that
    /// is not finite is stored as none.
    pub eval_mean: Option<f64>,
    /// What the training loop itself counts.
    pub totals: Totals,
    /// The backend's state.
    pub snapshot: Snapshot,
}

/// What the training loop itself counts, those of the processes before a resume included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Episodes ended.
    pub episodes: u64,
    /// Updates with a skipped minibatch.
    pub nonfinite_updates: u64,
    /// Evaluations during training; numbers their random streams.
    pub rounds: u64,
    /// Seconds of wall time.
    pub wall_s: Option<f64>,
    /// Best mean return of those evaluations.
    pub best_mean: Option<f64>,
    /// Environment steps at the first evaluation that reached the threshold.
    pub solved_at_step: Option<u64>,
    /// Seconds at its end.
    pub solved_at_s: Option<f64>,
    /// When to evaluate next.
    pub attempts: Attempts,
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
