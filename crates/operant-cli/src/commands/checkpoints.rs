//! `--all` of `operant eval` and `play`: every checkpoint of a run, oldest first.

use std::path::Path;

use operant_run::{Error, checkpoint, dir};

/// The checkpoints of a run that can be read, as `RUN@STEP`, oldest first; at least one.
///
/// # Errors
/// Usage when there is no such run, or none of its checkpoints can be read.
pub fn all_of(parent: &Path, run: &str) -> operant_run::Result<Vec<String>> {
    let dir = dir::find(parent, run)?;
    let all = checkpoint::list(&dir.join("checkpoints"))?;
    let readable = all.into_iter().filter(|saved| saved.is_readable);
    let targets: Vec<String> = readable.map(|saved| format!("{run}@{}", saved.env_steps)).collect();
    if targets.is_empty() { Err(none(run, &dir)) } else { Ok(targets) }
}

/// The error for a run in `dir` whose checkpoints cannot be read.
pub fn none(run: &str, dir: &Path) -> Error {
    Error::usage(format!("run {run} has no checkpoint that can be read"))
        .at(dir.display().to_string())
        .remedy("if it is training, `operant checkpoint` saves one now; otherwise restore one from a backup")
}
