//! Where the monitor looks for runs: the directory of rings in shared memory, and the directory with one directory per run.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use operant_metrics::{FoundRing, RingError, RingReader};

use super::recorded::{Recorded, is_run, is_sweep};
use super::source::Source;
use crate::MonitorError;

/// Where the monitor looks for runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunLocations {
    /// The directory of rings; `None` means the one that trainers on this machine use by default.
    pub rings: Option<PathBuf>,
    /// The directory with one directory per run; `None` means rings only.
    pub run_dir: Option<PathBuf>,
}

impl RunLocations {
    /// The rings there, by name.
    pub fn rings(&self) -> Vec<FoundRing> {
        match &self.rings {
            None => operant_metrics::rings(),
            Some(dir) => operant_metrics::rings_in(dir),
        }
    }

    /// The directories of runs, most recently written first.
    pub fn run_dirs(&self) -> Vec<PathBuf> {
        let Some(parent) = &self.run_dir else { return Vec::new() };
        let parent = std::fs::canonicalize(parent).unwrap_or_else(|_| parent.clone());
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let dated = |path: PathBuf| {
            let written = |name: &str| path.join(name).metadata().and_then(|file| file.modified()).ok();
            let when = written("run.json").max(written("metrics.csv")).unwrap_or(SystemTime::UNIX_EPOCH);
            (when, path)
        };
        let mut dirs: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| is_run(path)).map(dated).collect();
        dirs.sort_by(|a, b| b.cmp(a));
        dirs.into_iter().map(|(_, path)| path).collect()
    }

    /// The run of [`Self::run_dirs`] that was written last; sweeps are none.
    pub fn newest_dir(&self) -> Option<PathBuf> {
        self.run_dirs().into_iter().find(|dir| !is_sweep(dir))
    }

    /// Opens a run and returns its name too. `run` is a ring's file, a run's directory, a name in the directory of runs,
    /// or the name of a ring. If the run's ring still exists, it is read from the ring.
    ///
    /// # Errors
    /// If there is no such run (the message suggests existing ones), it is a sweep, or it cannot be read.
    pub fn open(&self, run: &str) -> Result<(String, Source), MonitorError> {
        let path = Path::new(run);
        let open = |found: FoundRing| match RingReader::open(&found.path) {
            Ok(ring) => Ok((found.name, Source::Ring(ring))),
            Err(error) => Err(MonitorError::Unreadable { run: run.to_owned(), error }),
        };
        let is_ring_file = path.extension().is_some_and(|extension| extension == "ring") && !path.is_dir();
        let named = self.run_dir.as_ref().map(|parent| parent.join(run)).filter(|_| !run.is_empty());
        let dirs = named.into_iter().chain((!run.is_empty()).then(|| path.to_path_buf()));
        if is_ring_file {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // If another user's directory forbids the look-up, try to open the file: the error is then about permissions.
            if path.try_exists().unwrap_or(true) {
                return open(FoundRing { name, path: path.to_path_buf() });
            }
        } else if let Some(recorded) = dirs.into_iter().find_map(|dir| Recorded::open(&dir)) {
            if recorded.is_sweep() {
                return Err(MonitorError::sweep(recorded.identity()));
            }
            let name = recorded.identity().run.clone();
            return Ok((name, self.ring_of(&recorded).map_or_else(|| recorded.into(), Source::Ring)));
        }
        match self.rings().into_iter().find(|found| found.name == run) {
            Some(found) => open(found),
            None => Err(self.no_such_run(run)),
        }
    }

    /// The ring of a run whose directory is known.
    fn ring_of(&self, recorded: &Recorded) -> Option<RingReader> {
        let name = &recorded.identity().run;
        recorded.ring().or_else(|| {
            let stem = |found: &FoundRing| found.name.split('~').next() == Some(name);
            let mut rings = self.rings().into_iter().filter(stem);
            let open = |found: FoundRing| RingReader::open(&found.path).ok();
            rings.find_map(|found| open(found).filter(|ring| recorded.is_of(ring.identity())))
        })
    }

    fn no_such_run(&self, run: &str) -> MonitorError {
        let name =
            |path: PathBuf| path.file_name().map(|name| operant_metrics::plain(&name.to_string_lossy()));
        let dirs = self.run_dirs().into_iter().filter_map(name);
        let mut names: Vec<String> = self.rings().into_iter().map(|found| found.name).collect();
        let dirs: Vec<String> = dirs.filter(|name| !names.contains(name)).collect();
        names.extend(dirs);
        let nearest = names.iter().map(|name| (strsim::jaro_winkler(run, name), name));
        let nearest = nearest.filter(|(near, _)| *near > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
        MonitorError::NoSuchRun {
            run: run.to_owned(),
            hint: nearest.map(|(_, name)| format!(" (did you mean \"{name}\"?)")).unwrap_or_default(),
            remedy: match names.len() {
                0 => {
                    "`operant train ENV` starts one; --run-dir DIR looks for ended runs elsewhere".to_owned()
                }
                _ => format!("there are {}", names.iter().take(8).cloned().collect::<Vec<_>>().join(", ")),
            },
        }
    }
}

/// Opens a ring that was found.
pub(super) fn open_ring(found: &FoundRing) -> Result<Source, RingError> {
    RingReader::open(&found.path).map(Source::Ring)
}
