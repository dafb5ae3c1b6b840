//! Events: short lines about what happened in a run.

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Info = 0,
    /// Something was lost; training goes on.
    Warning = 1,
    /// What ended the run.
    Error = 2,
}

impl Level {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }

    /// The level of a code, as the ring holds it; what a later version adds reads as [`Level::Info`].
    pub(super) fn of_code(code: u64) -> Self {
        match code {
            1 => Level::Warning,
            2 => Level::Error,
            _ => Level::Info,
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Counts the run's events from 0.
    pub number: u64,
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// How much it matters.
    pub level: Level,
    /// What happened.
    pub text: String,
}
