//! Why a ring cannot be written or read. Each error says what is wrong and where, and apart from that what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// A ring that cannot be used.
#[derive(Debug)]
pub enum RingError {
    /// A file or directory refuses.
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The place for rings is not safe or not fit for one.
    Place {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Not an operant ring.
    NotARing(String),
    /// Its trainer has not finished writing the header.
    NotReady,
    /// A layout that this version does not know.
    Version {
        /// Its major version.
        major: u64,
        /// Its minor version.
        minor: u64,
    },
    /// Inconsistent.
    Damaged(String),
    /// No ring of this name.
    NoSuchRun {
        /// The name asked for.
        run: String,
        /// The nearest name, if any.
        hint: String,
        /// What to do.
        remedy: String,
    },
    /// More mappings than the process may hold.
    TooMany,
}

impl RingError {
    /// What is wrong, and where.
    pub fn what(&self) -> String {
        match self {
            RingError::Io { what, path, error, .. } => format!("{what} {}: {error}", path.display()),
            RingError::Place { path, problem, .. } => format!("{} {problem}", path.display()),
            RingError::NotARing(problem) => format!("this is no operant ring: {problem}"),
            RingError::NotReady => {
                "the ring is not ready yet: its trainer is starting, or died while it did".to_owned()
            }
            RingError::Version { major, minor } => {
                format!("the ring has layout version {major}.{minor}, and this operant reads 1.x")
            }
            RingError::Damaged(problem) => format!("the ring is damaged: {problem}"),
            RingError::NoSuchRun { run, hint, .. } => format!("there is no ring of a run \"{run}\"{hint}"),
            RingError::TooMany => "too many rings are open in this process".to_owned(),
        }
    }

    /// What to do.
    pub fn remedy(&self) -> &str {
        match self {
            RingError::Io { remedy, .. } | RingError::Place { remedy, .. } => remedy,
            RingError::NotARing(_) => "give the name of a run, or the path of its .ring file",
            RingError::NotReady => "try again",
            RingError::Version { .. } => "use the operant that trains the run",
            RingError::Damaged(_) => "a live trainer writes a new one within a second or two",
            RingError::NoSuchRun { remedy, .. } => remedy,
            RingError::TooMany => "close some",
        }
    }

    /// A file operation that failed.
    pub(super) fn io(what: &'static str, path: &Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        let remedy = match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => "free some shared memory (ls -l /dev/shm)",
            Kind::PermissionDenied => {
                "it belongs to another user: ask them, or choose a place of your own with OPERANT_RING_DIR"
            }
            Kind::ReadOnlyFilesystem => "mount it writable, or choose another place with OPERANT_RING_DIR",
            Kind::NotFound => "check the path; `operant runs` lists the runs",
            _ => "choose another place with OPERANT_RING_DIR",
        };
        RingError::Io { what, path: path.to_owned(), error, remedy }
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.remedy())
    }
}

impl std::error::Error for RingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RingError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
