//! Removal of an ended run or sweep.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use operant_metrics::RingReader;

use super::report::{Kind, Run, find_any, same};
use crate::dir::{self, RunDir};
use crate::error::{Error, Result};
use crate::path_text;

/// What a removal frees.
#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    /// The run or sweep.
    pub run: Run,
    /// Its directory, absolute.
    pub dir: PathBuf,
    /// Rings that its processes left.
    pub rings: Vec<PathBuf>,
    /// Size of all files.
    pub bytes: u64,
}

impl Removal {
    /// Finds an ended run or sweep by name under `parent` or by path, and what its removal would free.
    ///
    /// # Errors
    /// Usage when there is none, it is a link, not a run's directory, or being trained.
    pub fn of(parent: &Path, run: &str) -> Result<Self> {
        // Without a slash at the end, which would follow a link.
        let dir = dir::locate_sweep(parent, run).map_or_else(|| dir::find(parent, run), Ok)?;
        let dir: PathBuf = dir.components().collect();
        let place = |error: Error| error.at(dir.display().to_string());
        if fs::symlink_metadata(&dir).is_ok_and(|found| found.is_symlink()) {
            return Err(place(Error::usage(format!("{run} is a symbolic link")))
                .remedy("name the directory that it leads to; `rm` removes the link itself"));
        }
        // Other programs have a config.toml too.
        let is_file = |file: PathBuf| fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
        if !is_file(dir::log_of(&dir)) {
            return Err(place(Error::usage(format!("{run} has no operant.log, so it may be no run")))
                .remedy("look at it, and remove it with `rm -r` if it is one"));
        }
        let dir = fs::canonicalize(&dir).unwrap_or(dir);
        let run = refuse_live(&dir)?;
        // Its lock shows whether a process trains it.
        drop(RunDir::open(&dir)?);
        let rings = rings_of(&run);
        let bytes = size(&dir) + rings.iter().map(|ring| size(ring)).sum::<u64>();
        Ok(Removal { run, dir, rings, bytes })
    }

    /// Removes the directory and the rings. Symbolic links in it are removed, their targets are not.
    ///
    /// # Errors
    /// Usage when a process has begun to train the run; disk when something cannot be removed.
    pub fn carry_out(&self) -> Result<()> {
        // Before this process holds the lock, which counts as training. Held until all is gone, so that no process resumes the run meanwhile.
        refuse_live(&self.dir)?;
        let held = RunDir::open(&self.dir)?;
        // Renamed first: what a killed removal leaves must not look like a damaged run.
        let doomed = self.dir.with_file_name(format!(".{}.removed", dir::name_of(&self.dir)));
        let clear = || match fs::remove_dir_all(&doomed) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let remove = || clear().and_then(|()| fs::rename(&self.dir, &doomed)).and_then(|()| clear());
        remove().map_err(|error| {
            Error::disk("the run cannot be removed", &self.dir, &error)
                .remedy("its directory and the one around it must be writable")
        })?;
        drop(held);
        for ring in &self.rings {
            // It is in memory, and the next run of this name replaces it.
            let _ = fs::remove_file(ring);
        }
        Ok(())
    }
}

/// Refuses a run that reports to be alive: on a file system without locks the lock does not show it.
fn refuse_live(dir: &Path) -> Result<Run> {
    let run = find_any(dir, &dir.to_string_lossy())?;
    if run.kind == Kind::Sweep {
        // A run of it may train by itself.
        let trials = dir.join(dir::TRIALS);
        let held =
            dir::names(&trials).into_iter().map(|name| trials.join(name)).find(|trial| dir::is_held(trial));
        if let Some(trial) = held {
            let word = path_text::quoted(&trial.to_string_lossy());
            return Err(Error::usage(format!("{} has a run that is being trained", run.title()))
                .at(trial.display().to_string())
                .remedy(format!("`operant stop {word}` ends it")));
        }
    }
    if !run.health.is_alive() {
        return Ok(run);
    }
    let word = path_text::quoted(&dir.to_string_lossy());
    Err(Error::usage(format!("{} is being trained already: {}", run.title(), run.health.name()))
        .at(dir.display().to_string())
        .remedy(format!("`operant stop {word}` ends it")))
}

/// The rings that the processes of this directory left, or those of the runs in a sweep's.
fn rings_of(run: &Run) -> Vec<PathBuf> {
    let rings = operant_metrics::rings().into_iter().filter_map(|found| RingReader::open(&found.path).ok());
    let is_own = |dir: &Path| same(dir, &run.dir) || run.kind == Kind::Sweep && dir.starts_with(&run.dir);
    let left = rings.filter(|ring| is_own(&ring.identity().dir) && !ring.status().health.is_alive());
    left.map(|ring| ring.path().to_path_buf()).collect()
}

/// Bytes of a file, or of all files in a directory; a link counts itself.
fn size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| size(&entry.path())).sum()
        }
        Ok(found) => found.len(),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn run(parent: &Path, name: &str) -> PathBuf {
        let run = RunDir::create(parent, Some(name), "cartpole", 1).expect("made");
        run.write("config.toml", "seed = 1\n").expect("written");
        run.path().to_path_buf()
    }

    #[test]
    fn a_removal_leaves_what_links_lead_to() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let (parent, own) = (place.path().join("runs"), place.path().join("own"));
        fs::create_dir(&own).expect("made");
        fs::write(own.join("thesis"), "text").expect("written");
        let dir = run(&parent, "mine");
        symlink(&own, dir.join("checkpoints")).expect("linked");
        symlink(own.join("thesis"), dir.join("file")).expect("linked");
        let removal = Removal::of(&parent, "mine").expect("found");
        assert!(
            removal.bytes > 0
                && removal.run.run == "mine"
                && removal.dir == fs::canonicalize(&dir).expect("there"),
            "{removal:?}"
        );
        removal.carry_out().expect("removed");
        assert_eq!(fs::read_dir(&parent).expect("read").count(), 0);
        assert_eq!(fs::read_to_string(own.join("thesis")).expect("there"), "text");
    }

    #[test]
    fn what_a_killed_removal_left_is_no_run_and_goes_with_the_next_one() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let parent = place.path().join("runs");
        run(&parent, "mine");
        fs::rename(parent.join("mine"), parent.join(".mine.removed")).expect("left");
        assert_eq!(dir::names(&parent), [""; 0]);
        run(&parent, "mine");
        assert_eq!(dir::names(&parent), ["mine"]);
        Removal::of(&parent, "mine").expect("found").carry_out().expect("removed");
        assert_eq!(fs::read_dir(&parent).expect("read").count(), 0);
    }

    #[test]
    fn links_live_runs_and_other_directories_are_refused() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let parent = place.path().join("runs");
        let dir = run(&parent, "mine");
        symlink(&dir, parent.join("link")).expect("linked");
        let refused = |name: &str| Removal::of(&parent, name).expect_err(name).what;
        assert!(refused("link").contains("symbolic link"));
        assert!(refused(&format!("{}/link/", parent.display())).contains("symbolic link"));
        fs::create_dir(parent.join("other")).expect("made");
        fs::write(parent.join("other/config.toml"), "").expect("written");
        assert!(refused("other").contains("no operant.log"));
        assert!(refused("absent").contains("there is no run"));
        let removal = Removal::of(&parent, "mine").expect("ended");
        let held = RunDir::open(&dir).expect("free");
        assert!(refused("mine").contains("is being trained already"));
        removal.carry_out().expect_err("it has begun to train");
        drop(held);
        assert!(dir.join("config.toml").is_file() && parent.join("other/config.toml").is_file());
    }
}
