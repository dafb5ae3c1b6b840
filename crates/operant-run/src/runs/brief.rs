//! The runs by name, for completions: what their run.json, locks and rings show at once.

use std::path::{Path, PathBuf};

use operant_metrics::{RingReader, RunFile, natural};

use crate::dir;

/// A run by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// The name that finds it.
    pub run: String,
    /// Environment; empty if unknown.
    pub env: String,
    /// When its latest process began to train, UTC; empty if unknown.
    pub started: String,
    /// Whether a process trains it.
    pub is_live: bool,
    /// Its directory.
    pub dir: PathBuf,
}

/// The runs in `parent`, and live ones elsewhere that have a ring; the latest first.
pub fn brief(parent: &Path) -> Vec<Brief> {
    let of_dir = |run: String| {
        let dir = parent.join(&run);
        let file = RunFile::read(&dir).unwrap_or_default();
        Brief { run, env: file.env, started: file.started, is_live: dir::is_held(&dir), dir }
    };
    let mut runs: Vec<Brief> = dir::names(parent).into_iter().map(of_dir).collect();
    for found in operant_metrics::rings() {
        let Some(ring) = RingReader::open(&found.path).ok().filter(|ring| ring.status().health.is_alive())
        else {
            continue;
        };
        if runs.iter().all(|run| run.run != found.name) {
            let (env, dir) = (ring.identity().env.clone(), ring.identity().dir.clone());
            runs.push(Brief { run: found.name, env, started: String::new(), is_live: true, dir });
        }
    }
    runs.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| natural(&a.run, &b.run)));
    runs
}
