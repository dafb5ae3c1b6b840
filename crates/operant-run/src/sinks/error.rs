//! Why a sink stopped, and what the user can do about it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file of metrics that could not be written. The run goes on without it.
#[derive(Debug, thiserror::Error)]
#[error("{}; {}", self.what(), self.remedy())]
pub struct SinkError {
    /// What was tried, such as `write`.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The operating system's reason.
    pub source: io::Error,
}

impl SinkError {
    /// What is wrong, and where.
    pub fn what(&self) -> String {
        format!("cannot {} {}: {}", self.doing, self.path.display(), self.source)
    }

    /// What to do.
    pub fn remedy(&self) -> &'static str {
        io_remedy(&self.source)
    }

    /// For `map_err`: wraps an I/O error with what was tried and where.
    pub(super) fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self { doing, path: path.to_owned(), source }
    }
}

/// What to do about an I/O error, in a few words.
pub(crate) fn io_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "make room on that disk, or choose another with --run-dir"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "make it writable and readable for this user, or choose another place with --run-dir"
        }
        ErrorKind::NotFound => "check the path, and that nobody removed the run's directory",
        ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::AlreadyExists => {
            "move aside what stands in its place"
        }
        _ => "check the disk and its mount, or choose another with --run-dir",
    }
}
