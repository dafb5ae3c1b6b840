//! The seam between the training loop and a device.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use operant_env::Scene;

use crate::snapshot::Snapshot;

/// Names an enqueued update; tickets count from zero in the order of enqueueing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What one finished update reports. Returns and lengths are over the episodes that ended during the update's horizon;
/// NaN where there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateStats {
    /// Which update this is.
    pub ticket: Ticket,
    /// Environment steps taken since training began, this update's included.
    pub env_steps: u64,
    /// Episodes that ended during this update.
    pub episodes: u64,
    /// Mean undiscounted return of those episodes.
    pub episodic_return_mean: f64,
    /// Least return.
    pub episodic_return_min: f64,
    /// Greatest return.
    pub episodic_return_max: f64,
    /// Standard deviation of the returns.
    pub episodic_return_std: f64,
    /// Mean length in steps.
    pub episodic_length_mean: f64,
    /// Clipped policy objective, mean over the last epoch's minibatches (as every loss here).
    pub policy_loss: f64,
    /// Value loss, before its weight.
    pub value_loss: f64,
    /// Mean entropy of the policy.
    pub entropy: f64,
    /// Mean of (ratio - 1) - ln ratio.
    pub approx_kl: f64,
    /// Share of samples whose ratio was clipped.
    pub clipfrac: f64,
    /// 1 - Var(returns - values) / Var(returns).
    pub explained_variance: f64,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Adam's step size in this update.
    pub learning_rate: f64,
    /// Minibatches skipped in this update for a non-finite loss or gradient.
    pub nonfinite: u64,
    /// Consecutive updates, this one included, with such a minibatch.
    pub nonfinite_in_a_row: u64,
    /// Seconds of wall time in rollout (GAE apart), GAE and the epochs.
    pub time_rollout: f64,
    /// See `time_rollout`.
    pub time_gae: f64,
    /// See `time_rollout`.
    pub time_update: f64,
    /// Bytes copied from the host to the device for this update; 0 where both share memory.
    pub bytes_h2d: u64,
    /// Bytes copied the other way.
    pub bytes_d2h: u64,
}

/// An episode of environment 0, as pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// A picture before each step.
    pub frames: Vec<Scene>,
    /// Pictures per second at which a person likes to watch it.
    pub fps: f32,
    /// Its undiscounted return; NaN when it was too long to be kept whole.
    pub episodic_return: f64,
}

/// The outcome of greedy episodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Return of each episode, by episode number.
    pub returns: Vec<f64>,
    /// Length of each episode.
    pub lengths: Vec<u64>,
    /// A hash of what each episode showed the policy: equal for equal episodes.
    pub traces: Vec<u64>,
}

/// Why a device could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// The configuration cannot be trained.
    #[error("{key}: {problem}; {remedy}")]
    Config {
        /// Hyperparameter at fault.
        key: &'static str,
        /// What is wrong with it, with the value.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// An environment failed.
    #[error(transparent)]
    Environment(#[from] operant_env::StepError),
    /// A snapshot does not fit the environment or network.
    #[error("the snapshot does not fit: {0}")]
    Snapshot(String),
    /// A GPU refused or failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] operant_cuda::CudaError),
}

/// A device that trains. Asynchronous, because a GPU must never wait for the host: the loop enqueues updates and
/// collects what has finished. Annealing, `target_kl` and the non-finite guard live below this seam.
///
/// The CPU runs an update inside `enqueue_update`; the next `poll` returns it.
pub trait Backend: Send {
    /// Enqueues one update: a horizon of T steps in N environments, then the epochs over it.
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError>;
    /// The oldest finished update not yet collected, if any. `wait` blocks until one is there when any is enqueued.
    fn poll(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError>;
    /// Plays the greedy episodes of these numbers from fresh states; `round` selects the random stream. An episode depends on its number
    /// and the round alone, so a caller may split an evaluation into parts.
    fn evaluate(&mut self, episodes: Range<usize>, round: u64) -> Result<Evaluation, LearnError>;
    /// What was chosen for the device and is worth knowing, in one line; None where there was nothing to choose.
    fn how(&self) -> Option<String> {
        None
    }
    /// Counts pieces of work done, such as steps of a tile: it moves as long as the device does, also within an update.
    fn pulse(&self) -> Arc<AtomicU64>;
    /// An episode of environment 0 that ended since the last call, if there is one. Recording costs a little, so it
    /// is done on demand: asking makes the next episode be recorded.
    fn scene(&mut self) -> Option<Episode>;
    /// Everything needed to continue, after all enqueued updates have finished.
    fn save(&mut self) -> Result<Snapshot, LearnError>;
    /// Continues from a snapshot of the same environment and configuration.
    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError>;
}
