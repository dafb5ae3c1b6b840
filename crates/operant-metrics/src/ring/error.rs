//! Errors of writing and reading rings. Each states what is wrong and where, and separately the remedy.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::os;

/// A ring that cannot be used.
#[derive(Debug)]
#[allow(missing_docs, reason = "the messages show what the fields are")]
pub enum RingError {
    /// A file operation failed.
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        error: std::io::Error,
        remedy: &'static str,
    },
    /// It belongs to another user and is not readable.
    Foreign {
        path: PathBuf,
        /// Whose it is.
        owner: String,
    },
    /// The directory for rings is not safe, or not suitable.
    Directory {
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        remedy: &'static str,
    },
    NotARing(String),
    /// The trainer has not finished writing the header.
    NotReady,
    /// A layout version that this version cannot read.
    Version {
        major: u64,
        minor: u64,
    },
    /// The content is inconsistent.
    Damaged(String),
    /// There is no ring of this name.
    NoSuchRun {
        /// The requested name.
        run: String,
        /// The nearest name, if any.
        hint: String,
        remedy: String,
    },
    /// The process has too many rings mapped.
    TooMany,
}

impl RingError {
    /// What is wrong, and where.
    pub fn what(&self) -> String {
        match self {
            RingError::Io { what, path, error, .. } => format!("{what} {}: {error}", path.display()),
            RingError::Foreign { path, owner } => {
                format!("{} belongs to {owner}, who does not share it", path.display())
            }
            RingError::Directory { path, problem, .. } => format!("{} {problem}", path.display()),
            RingError::NotARing(problem) => format!("this is not an operant ring: {problem}"),
            RingError::NotReady => {
                "the ring is not ready: its trainer is still starting, or died during its start".to_owned()
            }
            RingError::Version { major, minor } => {
                format!("the ring has layout version {major}.{minor}, and this operant reads 1.x")
            }
            RingError::Damaged(problem) => format!("the ring is damaged: {problem}"),
            RingError::NoSuchRun { run, hint, .. } => format!("there is no ring of a run \"{run}\"{hint}"),
            RingError::TooMany => "too many rings are open in this process".to_owned(),
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> &str {
        match self {
            RingError::Io { remedy, .. } | RingError::Directory { remedy, .. } => remedy,
            RingError::Foreign { .. } => {
                "with `ring_group = true` in its configuration, a run lets the users of its group read its ring"
            }
            RingError::NotARing(_) => "give the name of a run, or the path of its .ring file",
            RingError::NotReady => "try again",
            RingError::Version { .. } => "use the operant that trains the run",
            RingError::Damaged(_) => "a live trainer writes a new one within a second or two",
            RingError::NoSuchRun { remedy, .. } => remedy,
            RingError::TooMany => "close some",
        }
    }

    /// An error for a failed file operation.
    pub(super) fn io(what: &'static str, path: &Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        if error.kind() == Kind::PermissionDenied
            && let Some(owner) = foreign_owner(path)
        {
            return RingError::Foreign { path: path.to_owned(), owner };
        }
        let remedy = match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => os::FREE_SPACE,
            Kind::PermissionDenied => "choose a place of your own with OPERANT_RING_DIR",
            Kind::ReadOnlyFilesystem => "mount it writable, or choose another place with OPERANT_RING_DIR",
            Kind::NotFound => "check the path; `operant runs` lists the runs",
            _ => "choose another directory with OPERANT_RING_DIR",
        };
        RingError::Io { what, path: path.to_owned(), error, remedy }
    }
}

/// The owner of a file, or of the nearest readable directory above it; none if that is this user.
fn foreign_owner(path: &Path) -> Option<String> {
    let found = path.ancestors().find_map(|path| std::fs::symlink_metadata(path).ok())?;
    let (uid, own) = (found.uid(), rustix::process::geteuid().as_raw());
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| super::text::plain(name))
    });
    (uid != own).then(|| match name {
        Some(name) => format!("user {name} (id {uid})"),
        None => format!("the user of id {uid}"),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_another_user_is_said_to_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("theirs.ring");
        std::fs::write(&path, "").unwrap();
        let denied = || RingError::io("cannot open", &path, std::io::ErrorKind::PermissionDenied.into());
        assert!(matches!(denied(), RingError::Io { .. }), "this user's own");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(54_321), None).unwrap();
            let text = denied().to_string();
            assert!(text.contains("the user of id 54321") && text.contains("ring_group = true"), "{text}");
        } else {
            let text = RingError::io(
                "cannot open",
                Path::new("/root/x"),
                std::io::ErrorKind::PermissionDenied.into(),
            );
            assert!(text.to_string().contains("user root (id 0)"), "{text}");
        }
    }
}
