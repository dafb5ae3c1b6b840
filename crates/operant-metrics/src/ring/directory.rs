//! Directories that hold rings: only `$OPERANT_RING_DIR` if it is set, else `/dev/shm/operant-UID` (on macOS `$TMPDIR/operant-UID`)
//! and then `$XDG_RUNTIME_DIR/operant`. A ring on a disk could stall its writer, so the directory must be in memory.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::os;

use super::error::RingError;
use super::text::plain;

/// Extension of a ring file.
pub(super) const EXTENSION: &str = "ring";

/// An existing ring file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRing {
    /// The file's stem: the run's name, or `name~2` for a second run of that name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// A directory that may hold rings, and whether it must be in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RingDir {
    pub dir: PathBuf,
    pub must_be_memory: bool,
}

/// The candidate directories, the preferred one first.
pub(super) fn ring_dirs() -> Vec<RingDir> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable("OPERANT_RING_DIR") {
        // Trainer and monitor may work in different directories.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        return vec![RingDir { dir, must_be_memory: false }];
    }
    let own = format!("operant-{}", rustix::process::getuid().as_raw());
    let runtime = variable("XDG_RUNTIME_DIR").filter(|dir| dir.is_absolute()).map(|dir| dir.join("operant"));
    let dirs = [Some(os::shared_memory().join(own)), runtime];
    dirs.into_iter().flatten().map(|dir| RingDir { dir, must_be_memory: true }).collect()
}

impl RingDir {
    /// Creates the directory if it is missing, and checks that it belongs to this user and is in memory. Returns a
    /// warning for the user, if there is one.
    pub fn prepare(&self, group_readable: bool) -> Result<Option<String>, RingError> {
        let dir = &self.dir;
        let mode = if group_readable { 0o750 } else { 0o700 };
        let refuse =
            |problem: String, remedy| Err(RingError::Directory { path: dir.clone(), problem, remedy });
        if let Err(error) = fs::DirBuilder::new().mode(mode).create(dir) {
            let taken = error.kind() == std::io::ErrorKind::AlreadyExists;
            let nested = error.kind() == std::io::ErrorKind::NotFound && !self.must_be_memory;
            if nested {
                let made = fs::DirBuilder::new().recursive(true).mode(mode).create(dir);
                made.map_err(|error| RingError::io("cannot make", dir, error))?;
            } else if !taken {
                return Err(RingError::io("cannot make", dir, error));
            }
        }
        let found = fs::symlink_metadata(dir).map_err(|error| RingError::io("cannot examine", dir, error))?;
        if let Some((problem, remedy)) = distrust(&found) {
            return refuse(problem, remedy);
        }
        if group_readable && found.mode() & 0o050 != 0o050 {
            let wider = fs::Permissions::from_mode(found.mode() | 0o050);
            fs::set_permissions(dir, wider)
                .map_err(|error| RingError::io("cannot open to its group", dir, error))?;
        }
        if os::is_memory(dir) {
            return Ok(None);
        }
        if self.must_be_memory {
            let problem = "is not in memory (tmpfs): training would wait for its disk";
            return refuse(problem.to_owned(), "set OPERANT_RING_DIR to a directory on a tmpfs");
        }
        Ok(Some(format!(
            "OPERANT_RING_DIR={} is not in memory (tmpfs): training may have to wait for its disk",
            dir.display()
        )))
    }
}

/// Why a directory cannot be trusted to hold this user's rings, with the remedy; none if it can.
pub(super) fn distrust(found: &fs::Metadata) -> Option<(String, &'static str)> {
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return Some((
            "is not a directory".to_owned(),
            "remove it, or set OPERANT_RING_DIR to another directory",
        ));
    }
    if found.uid() != own {
        let problem = format!("belongs to another user (id {}, this is {own})", found.uid());
        return Some((problem, "set OPERANT_RING_DIR to a directory of your own"));
    }
    let open = found.mode() & 0o022 != 0;
    open.then(|| ("can be written by other users".to_owned(), "chmod go-w it"))
}

/// Every ring of this user, by name. A directory that other users can write to is skipped, unless OPERANT_RING_DIR
/// names it.
pub fn rings() -> Vec<FoundRing> {
    let mut places = ring_dirs();
    places.retain(|place| {
        let own = fs::symlink_metadata(&place.dir).is_ok_and(|found| distrust(&found).is_none());
        own || !place.must_be_memory
    });
    let mut found: Vec<FoundRing> = places.iter().flat_map(|place| rings_in(&place.dir)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Every ring in a directory, by name.
pub fn rings_in(dir: &Path) -> Vec<FoundRing> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let rings = entries.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    let mut found: Vec<FoundRing> =
        rings.filter_map(|path| Some(FoundRing { name: plain(path.file_stem()?.to_str()?), path })).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The ring of a run, given by name or by the path of its file.
///
/// # Errors
/// When there is none; the error suggests the nearest name.
pub fn find(run: &str) -> Result<FoundRing, RingError> {
    among(rings(), run)
}

/// [`find`] in one directory.
///
/// # Errors
/// Same as [`find`].
pub fn find_in(dir: &Path, run: &str) -> Result<FoundRing, RingError> {
    among(rings_in(dir), run)
}

fn among(rings: Vec<FoundRing>, run: &str) -> Result<FoundRing, RingError> {
    let path = Path::new(run);
    if path.extension().is_some_and(|extension| extension == EXTENSION) && path.exists() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(FoundRing { name, path: path.to_owned() });
    }
    let names: Vec<String> = rings.iter().map(|found| found.name.clone()).collect();
    if let Some(found) = rings.into_iter().find(|found| found.name == run) {
        return Ok(found);
    }
    let nearest = names.iter().map(|name| (strsim::jaro_winkler(run, name), name));
    let nearest = nearest.filter(|(near, _)| *near > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
    Err(RingError::NoSuchRun {
        run: run.to_owned(),
        hint: nearest.map(|(_, name)| format!(" (did you mean \"{name}\"?)")).unwrap_or_default(),
        remedy: match names.len() {
            0 => "no run has a ring now; `operant train ENV` starts one".to_owned(),
            _ => {
                format!("there are rings of {}", names.iter().take(8).cloned().collect::<Vec<_>>().join(", "))
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring_dir(dir: &Path) -> RingDir {
        RingDir { dir: dir.to_owned(), must_be_memory: false }
    }

    #[test]
    fn a_directory_is_made_private_or_for_the_group() {
        let parent = tempfile::tempdir().unwrap();
        for (name, group, mode) in [("own", false, 0o700), ("group", true, 0o750)] {
            let dir = parent.path().join(name);
            ring_dir(&dir).prepare(group).unwrap();
            assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, mode);
            ring_dir(&dir).prepare(true).unwrap();
            assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o750);
        }
    }

    #[test]
    fn directories_that_other_users_control_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let refused = |dir: &Path| ring_dir(dir).prepare(false).unwrap_err().to_string();
        let open = parent.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&open).contains("written by other users"));
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(refused(&link).contains("not a directory"));
        if rustix::process::geteuid().is_root() {
            let foreign = parent.path().join("foreign");
            fs::create_dir(&foreign).unwrap();
            std::os::unix::fs::chown(&foreign, Some(12_345), None).unwrap();
            assert!(refused(&foreign).contains("another user (id 12345"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_disk_is_refused() {
        let place = RingDir { dir: PathBuf::from("/proc/self"), must_be_memory: true };
        assert!(place.prepare(false).is_err());
    }

    #[test]
    fn names_are_found_and_typos_get_a_suggestion() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cartpole-1.ring", "pendulum-2.ring", "notes.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let names: Vec<_> = rings_in(dir.path()).into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["cartpole-1", "pendulum-2"]);
        let found = find_in(dir.path(), "pendulum-2").unwrap();
        let missing = dir.path().join("missing");
        assert_eq!(find_in(&missing, found.path.to_str().unwrap()).unwrap(), found);
        let text = find_in(dir.path(), "cartpole1").unwrap_err().to_string();
        assert!(text.contains("did you mean \"cartpole-1\"?") && text.contains("pendulum-2"), "{text}");
        assert!(find_in(&missing, "x").unwrap_err().to_string().contains("operant train"));
    }
}
