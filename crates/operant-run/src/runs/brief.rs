//! The runs and sweeps by name, for completions: what their run.json, locks and rings show at once.

use std::path::{Path, PathBuf};

use operant_metrics::{RingReader, RunFile, natural};

use super::report::Kind;
use crate::dir;

/// A run or a sweep by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// The name that finds it.
    pub run: String,
    /// Which of them it is.
    pub kind: Kind,
    /// Environment; empty if unknown.
    pub env: String,
    /// When its latest process began to train, UTC; empty if unknown.
    pub started: String,
    /// Whether a process trains it.
    pub is_live: bool,
    /// Its directory.
    pub dir: PathBuf,
}

/// The runs and sweeps in `parent`, and live runs elsewhere that have a ring; the latest first.
pub fn brief(parent: &Path) -> Vec<Brief> {
    let of_dir = |dir: PathBuf, kind| {
        let run = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = RunFile::read(&dir).unwrap_or_default();
        Brief { run, kind, env: file.env, started: file.started, is_live: dir::is_held(&dir), dir }
    };
    let mut runs: Vec<Brief> =
        dir::names(parent).into_iter().map(|run| of_dir(parent.join(run), Kind::Run)).collect();
    runs.extend(dir::sweeps(parent).into_iter().map(|dir| of_dir(dir, Kind::Sweep)));
    for found in operant_metrics::rings() {
        let Some(ring) = RingReader::open(&found.path).ok().filter(|ring| ring.status().health.is_alive())
        else {
            continue;
        };
        if runs.iter().all(|run| run.run != found.name) {
            let (env, dir) = (ring.identity().env.clone(), ring.identity().dir.clone());
            runs.push(Brief {
                run: found.name,
                kind: Kind::Run,
                env,
                started: String::new(),
                is_live: true,
                dir,
            });
        }
    }
    runs.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| natural(&a.run, &b.run)));
    runs
}
