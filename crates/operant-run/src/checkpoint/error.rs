//! Errors of saving and loading checkpoints, with remedies.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::sinks::io_remedy;

/// A checkpoint that could not be saved or loaded.
#[derive(Debug)]
#[allow(missing_docs, reason = "the messages show what the fields are")]
pub enum CheckpointError {
    /// A file operation failed.
    Io {
        /// The operation that failed, such as `write`.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The directory to write to is a link.
    Link(PathBuf),
    /// A file of the checkpoint, or the checkpoint itself, is missing.
    Missing(PathBuf),
    /// A file of the checkpoint is damaged.
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The replay of the checkpoint is of another size.
    Misfit {
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// A later version of operant wrote the checkpoint.
    Newer {
        /// The checkpoint's metadata.
        path: PathBuf,
        found: u32,
        /// The version that wrote it.
        operant: String,
    },
    /// The checkpoint is of another environment.
    WrongEnv {
        path: PathBuf,
        /// The environment of the checkpoint.
        found: String,
        /// The requested environment.
        expected: String,
    },
    /// There is nothing to load.
    None(PathBuf),
    /// Every checkpoint is damaged.
    AllDamaged {
        /// The directory of checkpoints.
        dir: PathBuf,
        /// What is wrong with each, newest first.
        errors: Vec<CheckpointError>,
    },
    /// The backend's snapshot cannot be stored: a bug in the backend.
    Snapshot(String),
}

impl CheckpointError {
    /// What is wrong, and where.
    pub fn what(&self) -> String {
        match self {
            Self::Io { doing, path, source } => format!("cannot {doing} {}: {source}", path.display()),
            Self::Link(path) => format!("{} is a link to another directory", path.display()),
            Self::Missing(path) => format!("{} is missing", path.display()),
            Self::Damaged { path, problem } => format!("{} is damaged: {problem}", path.display()),
            Self::Misfit { path, problem } => format!("{} does not fit: {problem}", path.display()),
            Self::Newer { path, found, operant } => {
                format!("{} has checkpoint schema {found}, written by operant {operant}", path.display())
            }
            Self::WrongEnv { path, found, expected } => {
                format!("{} was trained on {found}, not on {expected}", path.display())
            }
            Self::None(dir) => format!("no checkpoint in {}", dir.display()),
            Self::AllDamaged { dir, errors } => {
                let errors: Vec<String> =
                    errors.iter().map(|error| format!("\n  {}", error.what())).collect();
                format!("no checkpoint in {} can be loaded:{}", dir.display(), errors.concat())
            }
            Self::Snapshot(problem) => format!("the snapshot cannot be stored: {problem}"),
        }
    }

    /// What to do.
    pub fn remedy(&self) -> String {
        match self {
            Self::Io { source, .. } => io_remedy(source).into(),
            Self::Link(path) => {
                format!(
                    "replace the link with a copy of the directory (`cp -rL`); no run writes through {}",
                    path.display()
                )
            }
            Self::Missing(_) | Self::Damaged { .. } => {
                "choose another checkpoint of the run, or restore the file".into()
            }
            Self::Misfit { .. } => {
                "resume with the run's own buffer_size, choose another checkpoint, or restore the file".into()
            }
            Self::Newer { .. } => format!(
                "this operant reads up to {}: upgrade operant, or resume a run of this version",
                super::SCHEMA
            ),
            Self::WrongEnv { found, expected, .. } => {
                format!("name a checkpoint of {expected}, or use {found}")
            }
            Self::None(_) => "train until one is saved, or name another run".into(),
            Self::AllDamaged { errors, .. } if errors.iter().any(Self::is_of_replay) => {
                "restore one from a backup, or begin a new run with its weights: --init-from RUN needs no replay".into()
            }
            Self::AllDamaged { .. } => "restore one from a backup, or start a new run".into(),
            Self::Snapshot(_) => "please report this as a bug".into(),
        }
    }

    /// Whether it is the replay that is missing or damaged.
    fn is_of_replay(&self) -> bool {
        matches!(self, Self::Missing(path) | Self::Damaged { path, .. } if path.ends_with(super::REPLAY))
    }

    /// Whether the cause is the disk (exit code 1) and not the request (exit code 2).
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// For `map_err`: wraps an I/O error with the operation and the path.
    pub(super) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    /// Whether an older checkpoint may be loaded instead: if this one is damaged, but not if it cannot be read.
    pub(super) fn allows_fallback(&self) -> bool {
        match self {
            Self::Missing(_) | Self::Damaged { .. } => true,
            Self::Io { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.remedy())
    }
}

impl std::error::Error for CheckpointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
