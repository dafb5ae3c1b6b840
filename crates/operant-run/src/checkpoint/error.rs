//! Why a checkpoint could not be saved or loaded, and what the user can do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::sinks::io_remedy;

/// A checkpoint that could not be saved or loaded; says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}; {}", path.display(), io_remedy(source))]
    Io {
        /// What was tried, such as `write`.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file of the checkpoint, or the checkpoint itself, is not there.
    #[error("{} is missing; resume from another checkpoint beside it, or restore the file", .0.display())]
    Missing(PathBuf),
    /// A file of the checkpoint is not what was written.
    #[error("{} is damaged: {problem}; resume from another checkpoint beside it, or restore the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A later version of operant wrote the checkpoint.
    #[error(
        "{} has checkpoint schema {found}, written by operant {operant}; this operant reads up to {}: upgrade operant, or \
         resume a run of this version",
        path.display(),
        super::SCHEMA
    )]
    Newer {
        /// The checkpoint's metadata.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The version that wrote it.
        operant: String,
    },
    /// The checkpoint is of another environment.
    #[error("{} was trained on {found}, not on {expected}; name a checkpoint of {expected}, or use {found}", path.display())]
    WrongEnv {
        /// The checkpoint.
        path: PathBuf,
        /// Its environment.
        found: String,
        /// The environment asked for.
        expected: String,
    },
    /// There is nothing to load.
    #[error("no checkpoint in {}; train until one is saved, or name another run", .0.display())]
    None(PathBuf),
    /// There are checkpoints, and every one of them is damaged.
    #[error("no checkpoint in {} can be loaded; restore one from a backup, or start a new run:{}", dir.display(), Lines(errors))]
    AllDamaged {
        /// The directory of checkpoints.
        dir: PathBuf,
        /// What is wrong with each, newest first.
        errors: Vec<CheckpointError>,
    },
    /// The backend's snapshot cannot be stored; a defect of the backend.
    #[error("the snapshot cannot be stored: {0}; please report this as a bug")]
    Snapshot(String),
}

impl CheckpointError {
    /// Whether the disk is to blame (exit code 1) and not what the user asked for (exit code 2).
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// For `map_err`: wraps an I/O error with what was tried and where.
    pub(super) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    /// Whether an older checkpoint may stand in for this one: when it is broken, but not when it is out of reach.
    pub(super) fn allows_fallback(&self) -> bool {
        match self {
            Self::Missing(_) | Self::Damaged { .. } => true,
            Self::Io { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

/// Errors, each on an indented line of its own.
struct Lines<'a>(&'a [CheckpointError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
