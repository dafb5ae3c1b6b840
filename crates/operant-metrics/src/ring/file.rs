//! A ring's file: created under a temporary name, locked, and then renamed, so that no reader sees an incomplete one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::os;

use super::directory::{EXTENSION, RingDir, rings_in};
use super::error::RingError;
use super::identity::Identity;
use super::layout::{Layout, READY, READY_WORD, SectionKind, sample, state};
use super::mapping::Mapping;
use super::schema::Schema;
use super::state::RunState;
use super::{RingOptions, clock, lock, slot, text};

/// Number of rings of ended runs that are kept: each occupies some megabytes of memory.
const KEEP_ENDED: usize = 8;

/// Extension of a ring that is being created.
const TEMPORARY: &str = "tmp";

/// The file in the directory of rings whose lock trainers take in turn.
pub(super) const TURN: &str = ".turn";

/// Longest wait for another trainer that is creating its ring.
const CREATE_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A ring file created by this process.
pub struct RingFile {
    pub path: PathBuf,
    pub mapping: Mapping,
    pub layout: Layout,
}

/// Creates a ring for a run in `dir`: under the run's name, or with a number appended while another live run has that
/// name. A ring of that name that an ended run left behind is removed.
///
/// `own` is the path and the file of this process's ring that the new one replaces. `prepare` writes the initial
/// content before the file becomes visible.
///
/// # Errors
/// When there is no space or no permission.
pub fn make(
    dir: &Path,
    identity: &Identity,
    options: &RingOptions,
    own: Option<(&Path, &File)>,
    prepare: impl FnOnce(&Mapping),
) -> Result<RingFile, RingError> {
    if own.is_some() {
        // The directory may have been removed with the ring. Its path was chosen when the run began.
        RingDir { dir: dir.to_owned(), must_be_memory: false }.prepare(options.group_readable)?;
    }
    // A lock serializes trainers that start at the same time.
    let lock_path = dir.join(TURN);
    let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(&lock_path);
    let lock = lock.map_err(|error| RingError::io("cannot write", &lock_path, error))?;
    // A replacement does not wait: the name belongs to this process already.
    let patience = if own.is_some() { Duration::ZERO } else { CREATE_LOCK_TIMEOUT };
    lock_with_timeout(&lock, patience);

    let path = match own {
        Some((path, file)) if names(path, file) || is_ended(path) => path.to_owned(),
        _ => free_path(dir, &identity.run)?,
    };
    let temporary = dir.join(format!(".{}.{TEMPORARY}", std::process::id()));
    let made = fill(&temporary, identity, options).and_then(|(mapping, layout)| {
        prepare(&mapping);
        fs::rename(&temporary, &path).map_err(|error| RingError::io("cannot make", &path, error))?;
        Ok(RingFile { path, mapping, layout })
    });
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    drop_old(dir);
    made
}

/// Takes the lock; gives up after `patience`, since a trainer stopped while creating its ring would hold the lock forever.
fn lock_with_timeout(lock: &File, patience: Duration) {
    let begun = Instant::now();
    while matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) && begun.elapsed() < patience {
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// The first of `run.ring`, `run~2.ring`, ... that no live trainer holds.
fn free_path(dir: &Path, run: &str) -> Result<PathBuf, RingError> {
    let numbered = (2..).map(|number: u32| format!("{run}~{number}"));
    for name in std::iter::once(run.to_owned()).chain(numbered) {
        let path = dir.join(format!("{name}.{EXTENSION}"));
        match is_live(&path) {
            Ok(true) => {}
            Ok(false) => return Ok(path),
            // Without free descriptors, no name can be tested.
            Err(error) => return Err(RingError::io("cannot open", &path, error)),
        }
    }
    unreachable!("some number is free")
}

/// Opens a file for reading without blocking, in case it is a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Whether a trainer holds the lock of the ring at `path`. A ring that this user may not read, or whose lock cannot be tested, counts as
/// held.
///
/// # Errors
/// When the file cannot be opened for another reason, such as a lack of descriptors.
pub fn is_live(path: &Path) -> io::Result<bool> {
    match open(path) {
        Ok(file) => Ok(lock::is_held(&file).unwrap_or(true)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(false),
            io::ErrorKind::PermissionDenied => Ok(true),
            _ => Err(error),
        },
    }
}

/// Whether certainly no trainer holds it.
pub fn is_ended(path: &Path) -> bool {
    is_live(path).is_ok_and(|is_live| !is_live)
}

fn fill(path: &Path, identity: &Identity, options: &RingOptions) -> Result<(Mapping, Layout), RingError> {
    let at = |what| move |error: io::Error| RingError::io(what, path, error);
    let _ = fs::remove_file(path);
    let mode = if options.group_readable { 0o640 } else { 0o600 };
    let file = File::options().read(true).write(true).create_new(true).mode(mode).open(path);
    let file = file.map_err(at("cannot make"))?;
    // The umask may have cleared the group's bit.
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(at("cannot make"))?;
    hold_soon(&file).map_err(at("cannot lock"))?;

    let (who, what) = (identity.to_text(), Schema::text_of(options.metrics, options.losses));
    let layout = Layout::new(&options.capacity, options.metrics.count(), who.len(), what.len());
    os::allocate(&file, layout.words as u64 * 8).map_err(at("there is no space for"))?;
    let mapping = Mapping::writable(file).map_err(at("cannot map"))?.ok_or(RingError::TooMany)?;
    let words = mapping.words();
    let store = |at: usize, values: &mut dyn Iterator<Item = u64>| {
        for (word, value) in words[at..].iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    };
    store(0, &mut layout.header().into_iter());
    for (kind, content) in [(SectionKind::Identity, who), (SectionKind::Schema, what)] {
        let at = layout.section(kind, 1)?.offset;
        store(at, &mut std::iter::once(content.len() as u64).chain(text::words(&content)));
    }
    let now = clock::now();
    let at = layout.section(SectionKind::State, state::WORDS)?.offset;
    store(at, &mut [RunState::Starting as u64, 0, 0, now, now].into_iter());
    let seen = &words[layout.section(SectionKind::Sample, sample::VALUES)?.all()];
    slot::write(seen, 0, [now, 0, now, 0].into_iter().chain(std::iter::repeat(f64::NAN.to_bits())));
    words[READY_WORD].store(READY, Ordering::Release);
    Ok((mapping, layout))
}

/// Takes the lock of a new file. Where a test of a lock takes it for a moment, another process that looks for ended runs may have it now.
fn hold_soon(file: &File) -> io::Result<()> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        if lock::hold(file)? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Err(io::Error::other("another process holds its lock"))
}

/// Removes rings of ended runs, oldest first, down to [`KEEP_ENDED`], and incomplete temporary files.
fn drop_old(dir: &Path) {
    let ended = rings_in(dir).into_iter().filter(|found| is_ended(&found.path));
    let mut ended: Vec<_> = ended
        .filter_map(|found| Some((fs::metadata(&found.path).ok()?.modified().ok()?, found.path)))
        .collect();
    ended.sort();
    let surplus = ended.len().saturating_sub(KEEP_ENDED);
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let half_made = files.filter(|path| path.extension().is_some_and(|extension| extension == TEMPORARY));
    let half_made = half_made.filter(|path| is_ended(path));
    for path in ended.drain(..surplus).map(|(_, path)| path).chain(half_made) {
        let _ = fs::remove_file(path);
    }
}

/// Whether `path` still refers to this file.
pub fn names(path: &Path, file: &File) -> bool {
    match (fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(own)) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_tested_is_an_error_and_not_a_search_without_end() {
        let dir = tempfile::tempdir().unwrap();
        // No file can have such a name, as none can be opened without free descriptors.
        let error = free_path(dir.path(), &"x".repeat(300)).unwrap_err().to_string();
        assert!(error.contains("cannot open"), "{error}");
        assert_eq!(free_path(dir.path(), "mine").unwrap(), dir.path().join("mine.ring"));
    }
}
