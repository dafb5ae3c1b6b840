//! The checkpoints of a run, without their tensors.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::meta::Meta;
use super::{CheckpointError, Totals, load};

/// A checkpoint on the disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Environment steps taken.
    pub env_steps: u64,
    /// Its directory.
    pub path: PathBuf,
    /// Size of its files.
    pub bytes: u64,
    /// When it was saved, if the file system says.
    pub saved: Option<SystemTime>,
    /// Mean return of the evaluation at this point, if any.
    pub eval_mean: Option<f64>,
    /// Whether its metadata can be read; its tensors are not checked.
    pub is_readable: bool,
}

/// The checkpoints in `dir` (`RUN/checkpoints`), oldest first.
///
/// # Errors
/// `Io` when the directory cannot be read.
pub fn list(dir: &Path) -> Result<Vec<Listed>, CheckpointError> {
    Ok(load::steps(dir)?.into_iter().map(|(step, path)| listed(step, path)).collect())
}

/// The totals of the latest checkpoint in `dir` whose metadata can be read, of at most three.
pub fn latest_totals(dir: &Path) -> Option<Totals> {
    let latest = load::steps(dir).ok()?.into_iter().rev().take(3);
    latest.filter_map(|(_, path)| Meta::read(&path).ok()).map(|meta| meta.totals).next()
}

fn listed(env_steps: u64, path: PathBuf) -> Listed {
    let files = fs::read_dir(&path).into_iter().flatten().flatten();
    let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    let saved = fs::metadata(&path).and_then(|found| found.modified()).ok();
    let meta = Meta::read(&path);
    let eval_mean = meta.as_ref().ok().and_then(|meta| meta.eval_mean);
    Listed { env_steps, bytes: sizes.sum(), saved, eval_mean, is_readable: meta.is_ok(), path }
}
