//! The state of a run, in the same words wherever it is shown.

/// What the trainer says of itself, as the state word holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Before the first update. However long that takes, it is no stall: a device may have to be built.
    Starting = 1,
    /// Training.
    Running = 2,
    /// Held by SIGUSR2; the same signal lets it go on.
    Paused = 3,
    /// Asked to stop; saving its checkpoint.
    Stopping = 4,
    /// Took every step, or was solved and to stop then.
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

    /// The state of a code, as the ring holds it.
    pub fn of_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u64 == code)
    }

    /// The word for it.
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

    /// Whether nothing comes after it.
    pub const fn is_final(self) -> bool {
        matches!(self, RunState::Finished | RunState::Preempted | RunState::Failed)
    }
}

/// What a reader makes of a run: what the trainer says of itself, and whether it is there to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// As the trainer says.
    Said(RunState),
    /// Alive, and its training has not moved for [`STALL`].
    Stalled,
    /// Gone without a last word: `kill -9`, out of memory, a second signal, a defect.
    Killed,
}

/// How long training may stand still before it counts as stalled.
pub const STALL: std::time::Duration = std::time::Duration::from_secs(3);

impl Health {
    /// The word for it: `running`, `stalled`, `killed`...
    pub const fn name(self) -> &'static str {
        match self {
            Health::Said(state) => state.name(),
            Health::Stalled => "stalled",
            Health::Killed => "killed",
        }
    }

    /// Whether a process is behind it.
    pub const fn is_alive(self) -> bool {
        match self {
            Health::Said(state) => !state.is_final(),
            Health::Stalled => true,
            Health::Killed => false,
        }
    }
}
