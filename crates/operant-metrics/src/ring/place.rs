//! Where rings live, and what lies there: `$OPERANT_RING_DIR` alone when it is set; else `/dev/shm/operant-UID`, then
//! `$XDG_RUNTIME_DIR/operant`. A disk behind a mapping can stall its writer, so only memory will do.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::RingError;
use super::text::plain;

/// Extension of a ring file.
pub(super) const EXTENSION: &str = "ring";

/// A ring file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file's stem: the run's name, or `name~2` for a second run of that name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// A directory that may hold rings, and whether it must lie in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub dir: PathBuf,
    pub must_be_memory: bool,
}

/// The places, the preferred one first.
pub(super) fn places() -> Vec<Place> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable("OPERANT_RING_DIR") {
        // Trainer and monitor may work in different directories.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        return vec![Place { dir, must_be_memory: false }];
    }
    let own = format!("operant-{}", rustix::process::getuid().as_raw());
    let runtime = variable("XDG_RUNTIME_DIR").filter(|dir| dir.is_absolute()).map(|dir| dir.join("operant"));
    let dirs = [Some(Path::new("/dev/shm").join(own)), runtime];
    dirs.into_iter().flatten().map(|dir| Place { dir, must_be_memory: true }).collect()
}

impl Place {
    /// Makes the directory where it is missing, and checks that it is ours and in memory. Returns what the user should
    /// know about it.
    pub fn prepare(&self, group_readable: bool) -> Result<Option<String>, RingError> {
        let dir = &self.dir;
        let mode = if group_readable { 0o750 } else { 0o700 };
        let refuse = |problem: String, remedy| Err(RingError::Place { path: dir.clone(), problem, remedy });
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
        let found = fs::symlink_metadata(dir).map_err(|error| RingError::io("cannot look at", dir, error))?;
        if let Some((problem, remedy)) = distrust(&found) {
            return refuse(problem, remedy);
        }
        if group_readable && found.mode() & 0o050 != 0o050 {
            let wider = fs::Permissions::from_mode(found.mode() | 0o050);
            fs::set_permissions(dir, wider)
                .map_err(|error| RingError::io("cannot open to its group", dir, error))?;
        }
        if is_memory(dir) {
            return Ok(None);
        }
        if self.must_be_memory {
            let problem = "does not lie in memory, where a ring must lie so as not to wait for a disk";
            return refuse(problem.to_owned(), "set OPERANT_RING_DIR to a directory on a tmpfs");
        }
        Ok(Some(format!(
            "OPERANT_RING_DIR={} does not lie in memory: training may have to wait for its disk",
            dir.display()
        )))
    }
}

/// Why what lies at a place cannot be trusted to hold this user's rings, and what to do; none when it can.
fn distrust(found: &fs::Metadata) -> Option<(String, &'static str)> {
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return Some(("is no directory".to_owned(), "remove it, or set OPERANT_RING_DIR to another place"));
    }
    if found.uid() != own {
        let problem = format!("belongs to another user (id {}, this is {own})", found.uid());
        return Some((problem, "set OPERANT_RING_DIR to a directory of your own"));
    }
    let open = found.mode() & 0o022 != 0;
    open.then(|| ("can be written by others".to_owned(), "chmod go-w it"))
}

/// Whether a directory lies on a tmpfs or ramfs.
#[cfg(target_os = "linux")]
fn is_memory(dir: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(dir).is_ok_and(|fs| [TMPFS, RAMFS].contains(&(fs.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn is_memory(_: &Path) -> bool {
    false
}

/// Every ring of this user, by name. A place that others could have put something into is passed over, unless it was
/// named by the user.
pub fn rings() -> Vec<Found> {
    let mut places = places();
    places.retain(|place| {
        let own = fs::symlink_metadata(&place.dir).is_ok_and(|found| distrust(&found).is_none());
        own || !place.must_be_memory
    });
    let mut found: Vec<Found> = places.iter().flat_map(|place| rings_in(&place.dir)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Every ring in a directory, by name.
pub fn rings_in(dir: &Path) -> Vec<Found> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let rings = entries.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    let mut found: Vec<Found> =
        rings.filter_map(|path| Some(Found { name: plain(path.file_stem()?.to_str()?), path })).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The ring of a run, given by name or by the path of its file.
///
/// # Errors
/// When there is none; the message suggests what there is.
pub fn find(run: &str) -> Result<Found, RingError> {
    among(rings(), run)
}

/// [`find`] in one directory.
///
/// # Errors
/// As [`find`].
pub fn find_in(dir: &Path, run: &str) -> Result<Found, RingError> {
    among(rings_in(dir), run)
}

fn among(rings: Vec<Found>, run: &str) -> Result<Found, RingError> {
    let path = Path::new(run);
    if path.extension().is_some_and(|extension| extension == EXTENSION) && path.exists() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Found { name, path: path.to_owned() });
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
            0 => "no run has one at present; `operant train ENV` starts one".to_owned(),
            _ => {
                format!("there are rings of {}", names.iter().take(8).cloned().collect::<Vec<_>>().join(", "))
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &Path) -> Place {
        Place { dir: dir.to_owned(), must_be_memory: false }
    }

    #[test]
    fn a_directory_is_made_private_or_for_the_group() {
        let parent = tempfile::tempdir().unwrap();
        for (name, group, mode) in [("own", false, 0o700), ("group", true, 0o750)] {
            let dir = parent.path().join(name);
            place(&dir).prepare(group).unwrap();
            assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, mode);
            place(&dir).prepare(true).unwrap();
            assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o750);
        }
    }

    #[test]
    fn places_that_others_control_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let refused = |dir: &Path| place(dir).prepare(false).unwrap_err().to_string();
        let open = parent.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&open).contains("written by others"));
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(refused(&link).contains("no directory"));
        if rustix::process::geteuid().is_root() {
            let foreign = parent.path().join("foreign");
            fs::create_dir(&foreign).unwrap();
            std::os::unix::fs::chown(&foreign, Some(12_345), None).unwrap();
            assert!(refused(&foreign).contains("another user (id 12345"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_disk_is_not_memory() {
        assert!(is_memory(Path::new("/dev/shm")));
        assert!(!is_memory(Path::new("/proc")));
        let place = Place { dir: PathBuf::from("/proc/self"), must_be_memory: true };
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
        assert_eq!(find_in(Path::new("/nonexistent"), found.path.to_str().unwrap()).unwrap(), found);
        let text = find_in(dir.path(), "cartpole1").unwrap_err().to_string();
        assert!(text.contains("did you mean \"cartpole-1\"?") && text.contains("pendulum-2"), "{text}");
        assert!(find_in(Path::new("/nonexistent"), "x").unwrap_err().to_string().contains("operant train"));
    }
}
