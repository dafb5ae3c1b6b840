//! Why the monitor could not go on. Each text says what and where, and after a semicolon what to do.

use std::io;

use operant_metrics::RingError;

/// Why the monitor could not go on.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// A ring cannot be found or read.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The ring of this run is there and cannot be read.
    #[error("{run}: {error}")]
    Unreadable {
        /// Its name, or the path that was given.
        run: String,
        /// Why not.
        error: RingError,
    },
    /// The terminal does not do what a terminal does.
    #[error("cannot {doing} the terminal: {source}; try another terminal, or `operant monitor --once`")]
    Terminal {
        /// What failed: `set up`, `draw on`, `read from`.
        doing: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {source}; check where it is redirected to")]
    Output {
        /// The system's word.
        source: io::Error,
    },
    /// A signal handler cannot be installed.
    #[error("cannot install a signal handler: {source}; the limit of the process may be reached")]
    Signals {
        /// The system's word.
        source: io::Error,
    },
    /// No run to show.
    #[error("{what}; start one with `operant train cartpole --detach`, or list them with `operant runs`")]
    NoRun {
        /// What there is none of.
        what: &'static str,
    },
    /// `--interval` out of range.
    #[error("--interval {seconds} is not between 0.02 and 3600 seconds; try --interval 1")]
    Interval {
        /// What was given.
        seconds: f64,
    },
}

impl MonitorError {
    /// The exit code: 2 for bad usage, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            MonitorError::Interval { .. } => 2,
            MonitorError::Ring(error) | MonitorError::Unreadable { error, .. } => match error {
                RingError::NoSuchRun { .. } | RingError::NotARing(_) => 2,
                _ => 1,
            },
            _ => 1,
        }
    }

    /// What is wrong and where, and what to do about it.
    pub fn what_and_remedy(&self) -> (String, String) {
        let text = self.to_string();
        match text.split_once("; ") {
            Some((what, remedy)) => (what.to_owned(), remedy.to_owned()),
            None => (text, "`operant runs` lists the runs".to_owned()),
        }
    }
}
