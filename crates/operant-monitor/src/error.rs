//! Errors of the monitor, each with its remedy.

use std::borrow::Cow;
use std::{fmt, io};

use operant_metrics::{Identity, RingError};

use crate::verdict::handle;

/// An error that ends the monitor.
#[derive(Debug)]
pub enum MonitorError {
    /// A ring cannot be found or read.
    Ring(RingError),
    /// The ring of this run exists but cannot be read.
    Unreadable {
        /// Its name, or the path that was given.
        run: String,
        error: RingError,
    },
    /// An operation on the terminal failed.
    Terminal {
        /// What failed: `set up`, `draw on`, `read from`.
        doing: &'static str,
        source: io::Error,
    },
    /// Standard output cannot be written.
    Output { source: io::Error },
    /// A signal handler cannot be installed.
    Signals { source: io::Error },
    /// No run of this name or path.
    NoSuchRun {
        /// What was requested.
        run: String,
        /// The nearest name, if any.
        hint: String,
        remedy: String,
    },
    /// A sweep where runs are shown.
    Sweep {
        name: String,
        /// It as an argument of a command.
        word: String,
    },
    /// No run to show.
    NoRun {
        /// The message that no run was found.
        what: &'static str,
    },
    /// The user's operant-monitor.toml cannot be used.
    Config {
        path: std::path::PathBuf,
        /// Why.
        problem: String,
    },
    /// `--interval` out of range.
    Interval {
        /// What was given.
        seconds: f64,
    },
}

impl MonitorError {
    /// That a sweep is shown alone.
    pub(crate) fn sweep(identity: &Identity) -> Self {
        Self::Sweep { name: identity.run.clone(), word: handle(identity) }
    }

    /// The exit code: 2 for bad usage, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            MonitorError::Interval { .. }
            | MonitorError::NoSuchRun { .. }
            | MonitorError::Sweep { .. }
            | MonitorError::Config { .. } => 2,
            MonitorError::Ring(error) | MonitorError::Unreadable { error, .. } => match error {
                RingError::NoSuchRun { .. } | RingError::NotARing(_) => 2,
                _ => 1,
            },
            _ => 1,
        }
    }

    /// What is wrong, and where.
    pub fn what(&self) -> String {
        match self {
            MonitorError::Ring(error) => error.what(),
            // Most errors already name the given path.
            MonitorError::Unreadable { run, error } if error.what().contains(run.as_str()) => error.what(),
            MonitorError::Unreadable { run, error } => format!("{run}: {}", error.what()),
            MonitorError::Terminal { doing, source } => format!("cannot {doing} the terminal: {source}"),
            MonitorError::Output { source } => format!("cannot write to standard output: {source}"),
            MonitorError::Signals { source } => format!("cannot install a signal handler: {source}"),
            MonitorError::NoSuchRun { run, hint, .. } => format!("there is no run \"{run}\"{hint}"),
            MonitorError::Sweep { name, .. } => format!("{name} is a sweep, which is shown alone"),
            MonitorError::NoRun { what } => (*what).to_owned(),
            MonitorError::Config { path, problem } => format!("{}: {problem}", path.display()),
            MonitorError::Interval { seconds } => {
                format!("--interval {seconds} is not between 0.02 and 3600 seconds")
            }
        }
    }

    pub fn remedy(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            MonitorError::Sweep { word, .. } => {
                return Cow::Owned(format!("watch it with `operant monitor {word}`, or name its runs"));
            }
            MonitorError::Ring(error) | MonitorError::Unreadable { error, .. } => error.remedy(),
            MonitorError::Terminal { .. } => "try another terminal, or `operant monitor --once`",
            MonitorError::Output { .. } => "check where it is redirected to",
            MonitorError::Signals { .. } => "the limit of the process may be reached",
            MonitorError::NoSuchRun { remedy, .. } => remedy,
            MonitorError::NoRun { .. } => {
                "start one with `operant train cartpole --detach`, or list them with `operant runs`"
            }
            MonitorError::Config { .. } => "correct the file or rename it; docs/monitor.md lists its keys",
            MonitorError::Interval { .. } => "try --interval 1",
        })
    }
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.remedy())
    }
}

impl std::error::Error for MonitorError {}

impl From<RingError> for MonitorError {
    fn from(error: RingError) -> Self {
        MonitorError::Ring(error)
    }
}
