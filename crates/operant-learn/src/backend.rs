//! The interface between the training loop and a device.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use operant_env::{EnvCounters, Scene};
use operant_metrics::{MAX_ENV_METRICS, Record};

use crate::cpu::off_policy::given::Given;
use crate::cpu::off_policy::replay::Replay;
use crate::group::Failure;
use crate::snapshot::Snapshot;

/// The number of an enqueued update, from zero in the order of enqueueing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a backend reports of a finished update.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UpdateStats {
    /// The update's number.
    pub ticket: Ticket,
    /// Environment steps taken since training began, this update's included.
    pub env_steps: u64,
    /// Episodes that ended during this update.
    pub episodes: u64,
    /// Epochs done; fewer than `update_epochs` if `target_kl` stopped them.
    pub epochs: usize,
    /// Minibatches skipped for a non-finite loss or gradient, over all epochs.
    pub nonfinite: u64,
    /// Consecutive updates, this one included, with such a minibatch.
    pub nonfinite_in_a_row: u64,
    /// The metrics that the backend measures, by their names; gauges that it does not measure are NaN. Those of episodes are over the ones
    /// that ended during the update's rollout.
    pub metrics: Record,
}

/// A recorded episode of environment 0.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeRecording {
    /// The scene before each step.
    pub frames: Vec<Scene>,
    /// Frames per second for playback.
    pub fps: f32,
    /// Its undiscounted return; NaN if it was too long to be recorded whole.
    pub episodic_return: f64,
}

/// The outcome of the episodes of an evaluation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// Return of each episode, by episode number.
    pub returns: Vec<f64>,
    /// Length of each episode.
    pub lengths: Vec<u64>,
    /// A hash of the observations of each episode: equal for equal episodes.
    pub traces: Vec<u64>,
    /// The environment's own metrics of each episode; those that it does not have are 0.
    pub metrics: Vec<[f32; MAX_ENV_METRICS]>,
}

#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields are")]
pub enum LearnError {
    /// The configuration cannot be trained.
    #[error("{key}: {problem}; {remedy}")]
    Config {
        /// The invalid hyperparameter.
        key: &'static str,
        /// The problem, with the value.
        problem: String,
        remedy: String,
    },
    #[error(transparent)]
    Environment(#[from] operant_env::StepError),
    /// A snapshot does not fit the environment or network.
    #[error("the snapshot does not fit: {0}")]
    Snapshot(String),
    /// An evaluation was ended by its caller.
    #[error("the evaluation was stopped")]
    Stopped,
    /// Another process of the run failed, or was lost.
    #[error("{0}")]
    Process(String),
    /// Another process of the run cannot take part.
    #[error("{0}")]
    Refused(String),
    /// A GPU refused or failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] operant_cuda::CudaError),
}

impl Failure for LearnError {
    fn is_refusal(&self) -> bool {
        match self {
            LearnError::Config { .. } | LearnError::Snapshot(_) | LearnError::Refused(_) => true,
            LearnError::Environment(_) | LearnError::Process(_) | LearnError::Stopped => false,
            #[cfg(feature = "cuda")]
            LearnError::Cuda(error) => error.is_of_the_machine(),
        }
    }
}

/// How the actions of an evaluation are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalActions {
    /// The most probable action, or the mean of a Gaussian.
    Greedy,
    /// Drawn from the policy, as in training.
    Sampled,
}

impl fmt::Display for EvalActions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EvalActions::Greedy => "greedy",
            EvalActions::Sampled => "sampled",
        })
    }
}

/// A device that trains. It is asynchronous, because a GPU must never wait for the host: the loop enqueues updates and
/// collects finished ones. Annealing, `target_kl` and the non-finite guard are part of the backend.
///
/// The CPU runs an update inside `enqueue_update`; the next `poll` returns it.
pub trait Backend: Send {
    /// Enqueues one update: a rollout of T steps in N environments, then the epochs over it.
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError>;
    /// The oldest finished update that is not collected yet. With `wait` it blocks until there is one, if any is enqueued.
    fn poll(&mut self, wait: bool) -> Result<Option<UpdateStats>, LearnError>;
    /// Plays the episodes with these numbers from fresh states; `round` selects the random stream. An episode depends on its number
    /// and the round alone, so a caller may split an evaluation into parts.
    fn evaluate(
        &mut self,
        episodes: Range<usize>,
        round: u64,
        actions: EvalActions,
    ) -> Result<Evaluation, LearnError> {
        self.evaluate_until(episodes, round, actions, &mut || false)
    }
    /// Evaluates as [`Backend::evaluate`] does. Meanwhile it asks `stop` some 50 times a second, on the thread of the caller, and ends
    /// with [`LearnError::Stopped`] when it returns true: an episode may never end.
    fn evaluate_until(
        &mut self,
        episodes: Range<usize>,
        round: u64,
        actions: EvalActions,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Evaluation, LearnError>;
    /// The choices made for the device, in one line; None if there were none.
    fn how(&self) -> Option<String> {
        None
    }
    /// Warnings of environments since the last call.
    fn messages(&mut self) -> Vec<String> {
        Vec::new()
    }
    /// Counters of environments in worker processes, the waiting as a mean over the threads; None without them.
    fn env_counters(&self) -> Option<EnvCounters> {
        None
    }
    /// Seconds spent so far in exchanges with other processes of the run; None without any.
    fn exchange_seconds(&self) -> Option<f64> {
        None
    }
    /// Whether a snapshot holds the running episodes. If not, a resumed run begins new ones.
    fn saves_episodes(&self) -> bool {
        true
    }
    /// A counter of work done, such as steps of a tile: it increases as long as the device works, also within an update.
    fn pulse(&self) -> Arc<AtomicU64>;
    /// An episode of environment 0 that ended since the last call, if it was recorded. Recording is done on demand, because it
    /// has a cost: each call requests a recording of the next episode.
    fn scene(&mut self) -> Option<EpisodeRecording>;
    /// Everything needed to continue, after all enqueued updates have finished.
    fn save(&mut self) -> Result<Snapshot, LearnError>;
    /// Continues from a snapshot of the same environment and configuration, with an empty replay.
    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError>;
    /// Puts given transitions into the replay before the first update; returns their number.
    fn begin_with(&mut self, _given: &Given) -> Result<u64, LearnError> {
        Err(LearnError::Refused("this device does not support a replay".to_owned()))
    }
    /// The replay, which no snapshot holds, or a copy of it; None for an algorithm without one.
    fn replay(&mut self) -> Result<Option<Cow<'_, Replay>>, LearnError> {
        Ok(None)
    }
    /// Fills the replay of a snapshot that was loaded, if the algorithm has one.
    fn fill_replay(
        &mut self,
        _fill: &mut dyn FnMut(&mut Replay) -> Result<(), LearnError>,
    ) -> Result<(), LearnError> {
        Ok(())
    }
}
