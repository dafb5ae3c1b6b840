//! Errors of sinks, with remedies.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file of metrics could not be written. The run continues without it.
#[derive(Debug, thiserror::Error)]
#[error("{}; {}", self.what(), self.remedy())]
pub struct SinkError {
    /// The operation that failed, such as `write`.
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

    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        io_remedy(&self.source)
    }

    /// For `map_err`: wraps an I/O error with the operation and the path.
    pub(super) fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self { doing, path: path.to_owned(), source }
    }
}

/// The remedy for an I/O error.
pub(crate) fn io_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free space on that disk, or choose another with --run-dir"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "make it writable and readable for this user, or choose another directory with --run-dir"
        }
        ErrorKind::NotFound => "check the path, and whether the run's directory was removed",
        ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::InvalidData => "rename what is in its place",
        _ => "check the disk and its mount, or choose another with --run-dir",
    }
}
