//! Reading checkpoints: every byte is checked before any is used.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use operant_learn::Snapshot;

use super::checksums::{self, CHECKSUMS};
use super::meta::Meta;
use super::{CONFIG, Checkpoint, CheckpointError, META, REPLAY, STATE, schema1, state};

/// Result of [`load_latest`].
#[derive(Debug)]
pub struct Loaded {
    /// The newest intact checkpoint.
    pub checkpoint: Checkpoint,
    /// Its directory.
    pub path: PathBuf,
    /// Errors of the newer checkpoints that were skipped, newest first; to be shown as warnings.
    pub warnings: Vec<CheckpointError>,
}

/// Loads the checkpoint in the directory `path` (`.../checkpoints/step_000000131072`).
///
/// # Errors
/// `Missing`, `Damaged` or `Newer` with the file at fault; `Io` when a file cannot be read.
pub fn load(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let mut files = checksums::read(path, &[CONFIG, META, STATE])?;
    let meta = Meta::decode(path, &files)?;
    let tensors = state::decode(&files[STATE], &meta.tensors)
        .map_err(|problem| CheckpointError::damaged(&path.join(STATE), problem))?;
    let config = String::from_utf8(files.remove(CONFIG).unwrap_or_default())
        .map_err(|_| CheckpointError::damaged(&path.join(CONFIG), "not text"))?;
    let config = if meta.schema == 1 { schema1::config(&meta.env, config) } else { config };
    Ok(Checkpoint {
        env: meta.env,
        config,
        env_steps: meta.env_steps,
        updates: meta.updates,
        train_s: meta.train_s,
        eval_mean: meta.eval_mean,
        totals: meta.totals,
        snapshot: Snapshot { tensors, counters: meta.counters },
    })
}

/// Whether a directory holds the files of a checkpoint, whatever its name.
pub fn is_checkpoint(path: &Path) -> bool {
    [META, STATE].iter().all(|file| path.join(file).exists())
}

/// Whether a directory holds a checkpoint that belongs to no run and whose tensors are all `wanted`: its files, some of `more`, and nothing
/// else.
pub fn is_alone(path: &Path, more: &[&str], wanted: fn(&str) -> bool) -> bool {
    let known = [STATE, CONFIG, META, CHECKSUMS];
    let is_known = |name: OsString| known.iter().chain(more).any(|known| name == **known);
    Meta::read(path).is_ok_and(|meta| meta.tensors.iter().all(|tensor| wanted(tensor)))
        && fs::read_dir(path).is_ok_and(|mut entries| {
            entries.all(|entry| entry.is_ok_and(|entry| is_known(entry.file_name())))
        })
}

/// Loads the newest checkpoint in `dir` (`RUN/checkpoints`), falling back past missing files and damage to the one
/// before. It does not fall back from a checkpoint of a newer version or one that may not be read: those are intact.
///
/// # Errors
/// `None` when there is no checkpoint, `AllDamaged` when none is intact, otherwise the error that forbids falling back.
pub fn load_latest(dir: &Path) -> Result<Loaded, CheckpointError> {
    latest(dir, load)
}

/// As [`load_latest`], but also checks the checkpoint's replay, if it has one.
///
/// # Errors
/// As [`load_latest`].
pub fn load_latest_whole(dir: &Path) -> Result<Loaded, CheckpointError> {
    latest(dir, |path| load(path).and_then(|checkpoint| checksums::check(path, REPLAY).map(|_| checkpoint)))
}

fn latest(
    dir: &Path,
    load: impl Fn(&Path) -> Result<Checkpoint, CheckpointError>,
) -> Result<Loaded, CheckpointError> {
    let mut warnings = Vec::new();
    for (_, path) in steps(dir)?.into_iter().rev() {
        match load(&path) {
            Ok(checkpoint) => {
                return Ok(Loaded { checkpoint, path, warnings });
            }
            Err(error) if error.allows_fallback() => warnings.push(error),
            Err(error) => return Err(error),
        }
    }
    if warnings.is_empty() {
        return Err(CheckpointError::None(dir.to_owned()));
    }
    Err(CheckpointError::AllDamaged { dir: dir.to_owned(), errors: warnings })
}

impl Loaded {
    /// The damaged checkpoints that were skipped, and the one that was loaded instead, for the user.
    pub fn warnings(&self) -> Vec<String> {
        let used = self.path.file_name().unwrap_or_default().display();
        self.warnings.iter().map(|error| format!("{}; {used} is used instead", error.what())).collect()
    }
}

/// The checkpoints in `dir` by their environment steps, oldest first, including damaged ones; none if the directory
/// does not exist.
///
/// # Errors
/// `Io` when the directory cannot be read.
pub fn steps(dir: &Path) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(CheckpointError::io("read", dir))?,
    };
    let mut steps = Vec::new();
    for entry in entries {
        let entry = entry.map_err(CheckpointError::io("read", dir))?;
        let step = entry.file_name().to_str().and_then(parse_name);
        steps.extend(step.map(|step| (step, entry.path())));
    }
    steps.sort();
    Ok(steps)
}

/// The checkpoint in `dir` with the highest evaluation mean, the latest of equal ones; none if none was evaluated. Only
/// the metadata is read; damaged metadata is skipped.
///
/// # Errors
/// `Io` when the directory cannot be read.
pub fn best(dir: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    let mean = |path: &Path| Meta::read(path).ok()?.eval_mean;
    let evaluated = steps(dir)?.into_iter().filter_map(|(_, path)| Some((mean(&path)?, path)));
    Ok(evaluated.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, path)| path))
}

/// `step_000000131072`, which sorts in numerical order.
pub(super) fn name(env_steps: u64) -> String {
    format!("step_{env_steps:012}")
}

/// The inverse of [`name`].
fn parse_name(text: &str) -> Option<u64> {
    let step = text.strip_prefix("step_")?.parse().ok()?;
    (name(step) == text).then_some(step)
}
