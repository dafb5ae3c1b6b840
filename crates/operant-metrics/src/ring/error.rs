//! Why a ring cannot be written or read. Each message says what, where, and after a semicolon what to do.

use std::path::{Path, PathBuf};

/// A ring that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A file or directory refuses.
    #[error("{what} {}: {error}; {remedy}", path.display())]
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
    #[error("{} {problem}; {remedy}", path.display())]
    Place {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Not an operant ring.
    #[error("this is no operant ring: {0}; give the name of a run, or the path of its .ring file")]
    NotARing(String),
    /// Its trainer has not finished writing the header.
    #[error("the ring is not ready yet: its trainer is starting, or died while it did; try again")]
    NotReady,
    /// A layout that this version does not know.
    #[error(
        "the ring has layout version {major}.{minor}, and this operant reads 1.x; use the operant that trains the run"
    )]
    Version {
        /// Its major version.
        major: u64,
        /// Its minor version.
        minor: u64,
    },
    /// Inconsistent.
    #[error("the ring is damaged: {0}; a live trainer writes a new one within a second or two")]
    Damaged(String),
    /// No ring of this name.
    #[error("there is no ring of a run \"{run}\"{hint}; {remedy}")]
    NoSuchRun {
        /// The name asked for.
        run: String,
        /// The nearest name, if any.
        hint: String,
        /// What to do.
        remedy: String,
    },
    /// More mappings than the process may hold.
    #[error("too many rings are open in this process; close some")]
    TooMany,
}

impl RingError {
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
