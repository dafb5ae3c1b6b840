//! The state of a run.

/// The state that the trainer reports, as stored in the state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Before the first update. It never counts as stalled, however long it takes: kernels may have to be compiled.
    Starting = 1,
    /// Training.
    Running = 2,
    /// Paused by SIGUSR2; the same signal continues it.
    Paused = 3,
    /// Stopping after a signal; saving its checkpoint.
    Stopping = 4,
    /// Took every step, or stopped when solved.
    Finished = 5,
    /// Stopped by a signal with a checkpoint saved.
    Preempted = 6,
    /// Ended with an error.
    Failed = 7,
}

impl RunState {
    /// Every state, in the order of its codes.
    pub const ALL: [RunState; 7] = [
        RunState::Starting,
        RunState::Running,
        RunState::Paused,
        RunState::Stopping,
        RunState::Finished,
        RunState::Preempted,
        RunState::Failed,
    ];

    /// The state of a code in the ring.
    pub fn of_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u64 == code)
    }

    /// Its name in JSON, such as `running`.
    pub const fn name(self) -> &'static str {
        match self {
            RunState::Starting => "starting",
            RunState::Running => "running",
            RunState::Paused => "paused",
            RunState::Stopping => "stopping",
            RunState::Finished => "finished",
            RunState::Preempted => "preempted",
            RunState::Failed => "failed",
        }
    }

    /// Whether the run has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, RunState::Finished | RunState::Preempted | RunState::Failed)
    }
}

/// Health of a run: the state that its trainer reports, unless the trainer is stalled or dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Alive or ended, in the state that the trainer reported.
    Reported(RunState),
    /// Alive, but training has made no progress for [`STALL`].
    Stalled,
    /// Died without reporting a final state: `kill -9`, out of memory, a second signal, a crash.
    Killed,
}

/// Time without progress after which training counts as stalled.
pub const STALL: std::time::Duration = std::time::Duration::from_secs(3);

impl Health {
    /// Its name: `running`, `stalled`, `killed`...
    pub const fn name(self) -> &'static str {
        match self {
            Health::Reported(state) => state.name(),
            Health::Stalled => "stalled",
            Health::Killed => "killed",
        }
    }

    /// Whether its process is alive.
    pub const fn is_alive(self) -> bool {
        match self {
            Health::Reported(state) => !state.is_final(),
            Health::Stalled => true,
            Health::Killed => false,
        }
    }
}
