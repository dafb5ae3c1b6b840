//! Events: one-line messages about a run.

/// Severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Information.
    Info = 0,
    /// Something was lost; training continues.
    Warning = 1,
    /// The error that ended the run.
    Error = 2,
}

impl Level {
    /// `"info"`, `"warning"` or `"error"`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }

    /// The level of a code in the ring; an unknown code of a later version reads as [`Level::Info`].
    pub(super) fn of_code(code: u64) -> Self {
        match code {
            1 => Level::Warning,
            2 => Level::Error,
            _ => Level::Info,
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Sequence number within the run, from 0.
    pub number: u64,
    /// Time, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Severity.
    pub level: Level,
    /// The message.
    pub text: String,
}
