//! Writing checkpoints atomically, and removing old ones.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use operant_learn::cpu::off_policy::replay::Replay;

use super::checksums::{self, CHECKSUMS, Files};
use super::load::{self, name};
use super::meta::Meta;
use super::{CONFIG, Checkpoint, CheckpointError, META, REPLAY, STATE, replay, state, swap};
use crate::config::KeepCheckpoints;
use crate::dir::sync_dir;

/// Prefix of a directory that is being written or removed.
const TEMPORARY: &str = ".tmp_step_";

/// The checkpoints of the run that writes them.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    keep: KeepCheckpoints,
    /// The step from which the run continues, until its next save.
    resumed: Option<u64>,
}

impl Store {
    /// Opens `dir` (`RUN/checkpoints`), creating it if needed, and removes what a killed save left there. `keep` are
    /// the checkpoints to keep in addition to the best one.
    ///
    /// # Errors
    /// `Io` when the directory cannot be created or read, `Link` when it is a link.
    pub fn open(dir: impl Into<PathBuf>, keep: KeepCheckpoints) -> Result<Self, CheckpointError> {
        let store = Self { dir: dir.into(), keep, resumed: None };
        store.make_dir()?;
        // The new directory's entry should survive a crash too, if its parent can be opened.
        let _ = store.dir.parent().map(sync_dir);
        for old in store.entries(swap::OLD)? {
            swap::restore(&old).map_err(CheckpointError::io("restore", &old))?;
        }
        store.clear_temporaries();
        Ok(store)
    }

    /// The run continues from its checkpoint of this step: its next save sets those after it aside.
    pub fn resume_from(self, env_steps: Option<u64>) -> Self {
        Self { resumed: env_steps, ..self }
    }

    /// Makes the directory if it is missing. In a stranger's run it may be a link to a directory of the user's, which is not followed.
    fn make_dir(&self) -> Result<(), CheckpointError> {
        if fs::symlink_metadata(&self.dir).is_ok_and(|found| found.is_symlink()) {
            return Err(CheckpointError::Link(self.dir.clone()));
        }
        fs::create_dir_all(&self.dir).map_err(CheckpointError::io("create", &self.dir))
    }

    /// The directory of the checkpoints.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The checkpoint with the highest evaluation mean; see [`super::best`].
    ///
    /// # Errors
    /// `Io` when the directory cannot be read.
    pub fn best(&self) -> Result<Option<PathBuf>, CheckpointError> {
        load::best(&self.dir)
    }

    /// Saves a checkpoint and returns its directory. Its content is on the disk before the directory has its name. A
    /// checkpoint of the same step is replaced. Checkpoints of later steps no longer belong to this run (they were
    /// damaged, or it resumed from an earlier one): they are renamed to `discarded_step_*`. Of the others, all but
    /// the best and those to keep are removed; one that cannot be removed is tried again by the next save.
    ///
    /// # Errors
    /// `Io` when a file operation fails, `Snapshot` when the snapshot is malformed. Earlier checkpoints are unchanged
    /// then, and nothing else is left behind.
    pub fn save(&mut self, checkpoint: &Checkpoint) -> Result<PathBuf, CheckpointError> {
        self.save_with(checkpoint, None)
    }

    /// As [`Store::save`], with a replay.
    ///
    /// # Errors
    /// Those of [`Store::save`].
    pub fn save_with(
        &mut self,
        checkpoint: &Checkpoint,
        replay: Option<&Replay>,
    ) -> Result<PathBuf, CheckpointError> {
        let files = files_of(checkpoint)?;
        // Another process may have removed the directory.
        self.make_dir()?;
        self.clear_temporaries();
        let target = self.dir.join(name(checkpoint.env_steps));
        let temporary = self.create_temporary(&name(checkpoint.env_steps))?;
        self.write(files, replay, &temporary, &target)
            .inspect_err(|_| drop(swap::remove_if_there(&temporary)))?;
        let from =
            self.resumed.take().map_or(checkpoint.env_steps, |resumed| resumed.min(checkpoint.env_steps));
        self.discard_after(from, &target)?;
        self.prune()?;
        Ok(target)
    }

    fn write(
        &self,
        mut files: Files,
        replay: Option<&Replay>,
        temporary: &Path,
        target: &Path,
    ) -> Result<(), CheckpointError> {
        if let Some(replay) = replay {
            let line = replay::write(replay, &temporary.join(REPLAY))?;
            files.entry(CHECKSUMS).or_default().extend(line.into_bytes());
        }
        write_files(&files, temporary)?;
        swap::replace(temporary, target).map_err(CheckpointError::io("rename into place", target))?;
        sync_dir(&self.dir).map_err(CheckpointError::io("sync", &self.dir))
    }

    /// Renames the checkpoints past `env_steps`, but for `saved`.
    fn discard_after(&self, env_steps: u64, saved: &Path) -> Result<(), CheckpointError> {
        let later = |(step, path): &(u64, PathBuf)| *step > env_steps && path != saved;
        for (step, path) in load::steps(&self.dir)?.into_iter().filter(later) {
            let aside = self.dir.join(format!("discarded_{}", name(step)));
            let rename = || swap::remove_if_there(&aside).and_then(|()| fs::rename(&path, &aside));
            rename().map_err(CheckpointError::io("set aside", &path))?;
        }
        Ok(())
    }

    /// Removes all but those to keep and the best.
    fn prune(&self) -> Result<(), CheckpointError> {
        let best = self.best()?;
        for (step, path) in load::steps(&self.dir)?.into_iter().rev().skip(self.keep.latest()) {
            if best.as_ref() != Some(&path) && !self.is_milestone(&path) {
                // Renamed first: a partly removed checkpoint must not look like a damaged one.
                let doomed = self.dir.join(format!("{TEMPORARY}{step:012}_removed"));
                let _ = fs::rename(&path, &doomed).and_then(|()| fs::remove_dir_all(&doomed));
            }
        }
        Ok(())
    }

    /// Whether a checkpoint is kept however old it is.
    fn is_milestone(&self, path: &Path) -> bool {
        self.keep == KeepCheckpoints::LOG && Meta::read(path).is_ok_and(|meta| self.keep.keeps(meta.updates))
    }

    /// Creates a new, empty directory, replacing anything of that name.
    fn create_temporary(&self, name: &str) -> Result<PathBuf, CheckpointError> {
        let mut n = 0;
        loop {
            let path = self.dir.join(format!(".tmp_{name}_{n}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => n += 1,
                Err(error) => return Err(CheckpointError::io("create", &path)(error)),
            }
        }
    }

    /// Removes what killed saves left. What cannot be removed does no harm.
    fn clear_temporaries(&self) {
        for path in self.entries(TEMPORARY).unwrap_or_default() {
            let _ = swap::remove(&path);
        }
    }

    /// The entries whose names begin with `prefix`.
    fn entries(&self, prefix: &str) -> Result<Vec<PathBuf>, CheckpointError> {
        entries(&self.dir, prefix).map_err(CheckpointError::io("read", &self.dir))
    }
}

/// Saves a checkpoint that belongs to no run as the directory `target`, with more files. A checkpoint there is replaced.
///
/// # Errors
/// The errors of [`Store::save`].
pub fn save_alone(
    checkpoint: &Checkpoint,
    target: &Path,
    more: impl Iterator<Item = (&'static str, Vec<u8>)>,
) -> Result<(), CheckpointError> {
    let mut files = files_of(checkpoint)?;
    files.extend(more);
    let parent = target.parent().unwrap_or(target);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".tmp_{name}_");
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(&prefix).permissions(Permissions::from_mode(0o777)); // the umask applies
    // Saves into a directory wait for each other, so that what looks unfinished belongs to none that runs.
    let lock = fs::create_dir_all(parent).and_then(|()| File::open(parent));
    if lock.as_ref().is_ok_and(|lock| lock.lock().is_ok()) {
        clear_unfinished(parent, &prefix, target);
    }
    let begun = temporary.tempdir_in(parent);
    // What is left of it is removed at the end.
    let temporary = begun.map_err(CheckpointError::io("create", target))?;
    write_files(&files, temporary.path())?;
    swap::replace(temporary.path(), target).map_err(CheckpointError::io("rename into place", target))?;
    sync_dir(parent).map_err(CheckpointError::io("sync", parent))
}

/// Removes what killed saves of `target` left, and restores the checkpoint that one was replacing. What cannot be removed does no harm.
fn clear_unfinished(parent: &Path, prefix: &str, target: &Path) {
    for leftover in entries(parent, prefix).unwrap_or_default().iter().filter(|path| path.is_dir()) {
        let _ = swap::remove(leftover);
    }
    let old = swap::old_name(target);
    if old.join(META).exists() {
        let _ = swap::restore(&old);
    }
}

/// The entries of a directory whose names begin with `prefix`.
fn entries(dir: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// The files of a checkpoint.
fn files_of(checkpoint: &Checkpoint) -> Result<Files, CheckpointError> {
    let mut files = Files::from([
        (STATE, state::encode(&checkpoint.snapshot, &checkpoint.config)?),
        (CONFIG, checkpoint.config.clone().into_bytes()),
        (META, Meta::of(checkpoint).encode()),
    ]);
    files.insert(CHECKSUMS, checksums::render(&files).into_bytes());
    Ok(files)
}

/// Writes files into a directory, and waits for the disk.
fn write_files(files: &Files, dir: &Path) -> Result<(), CheckpointError> {
    for (name, bytes) in files {
        let path = dir.join(name);
        write_file(&path, bytes).map_err(CheckpointError::io("write", &path))?;
    }
    sync_dir(dir).map_err(CheckpointError::io("sync", dir))
}

/// Writes a new file and waits for the disk.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
