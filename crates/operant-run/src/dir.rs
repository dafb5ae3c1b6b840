//! A run's directory: its name, its files, and the lock that keeps it to one process.
//!
//! ```text
//! runs/<name>/
//!   config.toml       effective configuration        metrics.csv       a row per update
//!   checkpoints/      step_*/                        events.out.*      for TensorBoard
//!   result.json       how it ended                   operant.log       its log
//!   run.json          its identity and state          daemon.out        output of a detached run
//!   .stop             lock of a process that stops it
//! ```

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::checkpoint;
use crate::config::check_run_name;
use crate::error::{Error, Result, did_you_mean};
use crate::path_text;

/// The table of a sweep; a directory with one is a sweep's.
pub const SWEEP_FILE: &str = "sweep.db";

/// The file that carries the run's lock.
const LOG: &str = "operant.log";

/// Follows no symbolic link, since others may write to the directory, and does not block on a pipe.
#[allow(clippy::cast_possible_wrap)] // as the system takes it
pub(crate) const NOFOLLOW: i32 =
    rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits() as i32;

/// Longest time for which a probe holds the lock.
const LOCK_PROBE: Duration = Duration::from_millis(100);

/// A run's directory, locked by this process for as long as the value lives.
#[derive(Debug)]
pub struct RunDir {
    name: String,
    path: PathBuf,
    log: File,
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A child that was forked meanwhile has the file open too, and would keep the lock.
        let _ = self.log.unlock();
    }
}

impl RunDir {
    /// Creates the directory of a new run under `parent`. Without a name, one is generated from environment, seed and time.
    ///
    /// # Errors
    /// Usage when a run of this name exists; disk when the directory cannot be created or written.
    pub fn create(parent: &Path, name: Option<&str>, environment: &str, seed: u64) -> Result<Self> {
        let unwritable = |path: &Path, error: &std::io::Error| {
            Error::disk("the run directory cannot be created", path, error)
                .remedy("choose a writable directory with --run-dir DIR")
        };
        std::fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        let stem = match name {
            Some(name) => {
                check_run_name(name).map_err(|error| error.at("--name"))?;
                name.to_string()
            }
            None => path_text::file_name(&format!("{environment}-{seed}-{}", stamp(SystemTime::now()))),
        };
        for attempt in 1u32.. {
            let own = if attempt == 1 { stem.clone() } else { format!("{stem}-{attempt}") };
            let path = parent.join(&own);
            match std::fs::create_dir(&path) {
                Ok(()) => return RunDir::hold(own, path),
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(unwritable(&path, &error));
                }
                Err(_) if name.is_some() && is_sweep(&path) => {
                    let word = path_text::quoted(&path.to_string_lossy());
                    return Err(Error::usage(format!("a sweep named {own} exists already"))
                        .at(path.display().to_string())
                        .remedy(format!("choose another --name, or continue it: `operant resume {word}`")));
                }
                Err(_) if name.is_some() && checkpoint::is_checkpoint(&path) => {
                    return Err(Error::usage(format!("a saved policy named {own} exists already"))
                        .at(path.display().to_string())
                        .remedy("choose another --name"));
                }
                Err(_) if name.is_some() => {
                    return Err(Error::usage(format!("a run named {own} exists already"))
                        .at(path.display().to_string())
                        .remedy(format!("choose another --name, or continue it with --resume {own}")));
                }
                Err(_) => {} // Two runs in the same second are numbered.
            }
        }
        unreachable!("some number is free")
    }

    /// Takes the directory of an existing run.
    ///
    /// # Errors
    /// Usage when another process holds its lock; disk when it cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        RunDir::hold(name_of(path), path.to_path_buf())
    }

    fn hold(name: String, path: PathBuf) -> Result<Self> {
        let file = log_of(&path);
        let log = open_own(&file).map_err(|error| {
            let strange = std::fs::symlink_metadata(&file).is_ok_and(|found| !found.is_file());
            let remedy = match strange {
                true => "remove what is in the place of operant.log",
                false => "choose a writable directory with --run-dir DIR",
            };
            Error::disk("the run directory cannot be written", &file, &error).remedy(remedy)
        })?;
        let begun = Instant::now();
        loop {
            match log.try_lock() {
                // A file system without locks must not prevent training.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(RunDir { name, path, log }),
                // A probe releases the lock at once.
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PROBE => {
                    std::thread::park_timeout(LOCK_PROBE / 20);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::usage(format!("run {name} is being trained already"))
                        .at(path.display().to_string())
                        .remedy(format!("`operant stop {name}` stops it; or start a new run")));
                }
            }
        }
    }

    /// The run's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of its checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// operant.log, open for appending.
    pub(crate) fn log(&self) -> Option<File> {
        self.log.try_clone().ok()
    }

    /// Writes a whole file into the directory; a reader sees the old one or the new one, never a part.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path.join(file);
        replace(&path, text, true).map_err(|error| {
            Error::disk(format!("{file} cannot be written"), &path, &error)
                .remedy("free some space, or choose another directory with --run-dir DIR")
        })
    }
}

/// Writes a whole file of a run: a reader sees the old one or the new one, never a part. A durable one also survives a crash of
/// the machine. A link is replaced and not followed: a stranger's directory may have one.
///
/// # Errors
/// When the file cannot be written; what was there is unchanged then.
pub(crate) fn replace(path: &Path, content: impl AsRef<[u8]>, durable: bool) -> std::io::Result<()> {
    replace_with(path, content.as_ref(), durable, None)
}

fn replace_with(
    path: &Path,
    content: &[u8],
    durable: bool,
    permissions: Option<Permissions>,
) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.tmp"));
    let write = || {
        let mut out = new_file(&temporary)?;
        out.write_all(content)?;
        permissions.map_or(Ok(()), |permissions| out.set_permissions(permissions))?;
        if durable {
            out.sync_all()?;
        }
        std::fs::rename(&temporary, path)?;
        match path.parent().filter(|_| durable) {
            Some(parent) if parent.as_os_str().is_empty() => sync_dir(Path::new(".")),
            Some(parent) => sync_dir(parent),
            None => Ok(()),
        }
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// A new file in place of what a killed process left, or of a link.
pub(crate) fn new_file(path: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// Waits until the directory's entries are on the disk.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Opens a file of a run to add to it; it is made if it is missing. A stranger's directory may have a link to a file of the user's in its
/// place, which is not followed.
///
/// # Errors
/// When it cannot be opened, or is not a regular file.
pub fn open_own(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().create(true).read(true).append(true).custom_flags(NOFOLLOW).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is not a regular file")),
    }
}

/// Writes a file that the user names. A regular file is replaced as a whole, or written to if it has hard links or its directory takes no
/// new file; a link stays and leads to what is written. Anything else, such as a pipe or /dev/stdout, is written to.
///
/// # Errors
/// When it cannot be written.
pub fn write_output(path: &Path, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    let content = content.as_ref();
    // There, a regular file is one that is open already.
    let is_open = ["/dev", "/proc"].iter().any(|special| path.starts_with(special));
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.nlink() == 1 && !is_open => {
            let path = std::fs::canonicalize(path)?;
            match replace_with(&path, content, true, Some(found.permissions())) {
                // A directory without the right to write, and a file that is mounted.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::ResourceBusy
                    ) =>
                {
                    let mut out = File::create(path)?;
                    out.write_all(content)?;
                    out.sync_all()
                }
                written => written,
            }
        }
        Err(_) if std::fs::symlink_metadata(path).is_err() => replace_with(path, content, true, None),
        _ => File::create(path)?.write_all(content),
    }
}

/// Reads a small file of a run.
///
/// # Errors
/// Same as [`operant_metrics::read_file`].
pub(crate) fn read_small(path: &Path) -> std::io::Result<Vec<u8>> {
    operant_metrics::read_file(path, operant_metrics::MAX_SMALL_FILE)
}

/// Reads a small text file that a user names, or that may be a stranger's: a regular one, of at most
/// [`operant_metrics::MAX_SMALL_FILE`] bytes.
///
/// # Errors
/// When it cannot be read, is not such a file, or is not UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    String::from_utf8(read_small(path)?).map_err(|_| std::io::Error::other("it is not UTF-8 text"))
}

/// operant.log of the run in `path`, which carries its lock.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    path.join(LOG)
}

/// Whether a process holds the lock of the run in `path`: it trains it or is about to. False on file systems without locks.
///
/// The probe takes the lock for a moment; [`RunDir::open`] waits for that.
pub fn is_held(path: &Path) -> bool {
    let Ok(log) = operant_metrics::open_file(&log_of(path)) else { return false };
    matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Directory in a sweep that holds the runs.
pub const TRIALS: &str = "trials";

/// Whether there is a run in this directory. A checkpoint has a configuration, too.
pub fn is_run(path: &Path) -> bool {
    let is_begun = path.join("config.toml").is_file() && !checkpoint::is_checkpoint(path);
    is_begun || path.join("checkpoints").is_dir()
}

/// Whether a directory is that of a sweep.
pub fn is_sweep(path: &Path) -> bool {
    path.join(SWEEP_FILE).is_file()
}

/// The directories of the sweeps under `parent`, by name.
pub fn sweeps(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let shown = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut dirs: Vec<PathBuf> = shown.map(|entry| entry.path()).filter(|path| is_sweep(path)).collect();
    dirs.sort();
    dirs
}

/// The directory of a sweep, given by name under `parent` or by path, if there is one.
pub fn locate_sweep(parent: &Path, name: &str) -> Option<PathBuf> {
    let ways = [parent.join(name), PathBuf::from(name)];
    // A run of that name under `parent` comes before a sweep at that path.
    let found = ways.into_iter().find(|path| !name.is_empty() && (is_sweep(path) || is_run(path)));
    found.filter(|path| is_sweep(path))
}

/// The names of the runs under `parent`, sorted. No name of a run begins with a dot; that of a removal that was killed does.
pub(crate) fn names(parent: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    let runs = entries.filter(|entry| !is_hidden(&entry.file_name()) && is_run(&entry.path()));
    let mut names: Vec<String> = runs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The directory of a run, given by name under `parent` or by path, if there is one.
pub(crate) fn locate(parent: &Path, run: &str) -> Option<PathBuf> {
    let ways = [parent.join(run), PathBuf::from(run)];
    ways.into_iter().find(|path| !run.is_empty() && is_run(path))
}

/// The directory of an existing run, given by name under `parent` or by path.
///
/// # Errors
/// Usage when there is none, with the nearest existing name.
pub fn find(parent: &Path, run: &str) -> Result<PathBuf> {
    if let Some(path) = locate(parent, run) {
        return Ok(path);
    }
    if let Some(sweep) = locate_sweep(parent, run) {
        return Err(not_a_run(run, &sweep));
    }
    let names = names(parent);
    let latest: Vec<&str> = names.iter().rev().take(5).map(String::as_str).collect();
    Err(no_run(parent, run, &names, &format!("runs here: {}", latest.join(", "))))
}

/// The error for a run that is not there, with the nearest of the names that are; `remedy` is for where there are some.
pub(crate) fn no_run(parent: &Path, run: &str, names: &[String], remedy: &str) -> Error {
    if let Some(error) = file_in_place(parent, run, "run") {
        return error;
    }
    let mut ways = [PathBuf::from(run), parent.join(run)].into_iter();
    if let Some(path) = ways.find(|path| !run.is_empty() && checkpoint::is_checkpoint(path)) {
        return not_whole(run, "a saved policy or a checkpoint", &path, "its path");
    }
    if let Some((name, _)) = run.rsplit_once('@')
        && let Some(path) = locate(parent, name)
    {
        return not_whole(run, &format!("a checkpoint of {name}"), &path, "it");
    }
    let hint = did_you_mean(run, names.iter().map(String::as_str));
    let remedy =
        if names.is_empty() { "there is no run here yet; `operant train ENV` starts one" } else { remedy };
    Error::usage(format!("there is no run \"{run}\"{hint}"))
        .at(parent.display().to_string())
        .remedy(format!("{remedy}; --run-dir looks elsewhere"))
}

/// The error for weights in place of a run.
fn not_whole(name: &str, what: &str, path: &Path, way: &str) -> Error {
    let word = if way == "it" { name.into() } else { path.to_string_lossy() };
    let word = path_text::quoted(&word);
    Error::usage(format!("{name} is {what}, not a run")).at(path.display().to_string()).remedy(format!(
        "`operant eval {word}`, `play`, `export` and `train ENV --init-from` take {way}; every other command needs a run"
    ))
}

/// The error for a file in place of a run or a sweep, which `what` says; None where there is no such file.
pub fn file_in_place(parent: &Path, name: &str, what: &str) -> Option<Error> {
    let ways = [PathBuf::from(name), parent.join(name)];
    let path = ways.into_iter().find(|path| !name.is_empty() && path.is_file())?;
    let holder = path.ancestors().skip(1).find(|dir| log_of(dir).is_file());
    let remedy = match holder {
        Some(dir) if dir.as_os_str().is_empty() => {
            "it belongs to the run in this directory: name `.`".to_owned()
        }
        Some(dir) => {
            format!("name the directory that it belongs to: {}", path_text::quoted(&dir.to_string_lossy()))
        }
        None => format!("name a {what}'s directory, or one that `operant runs` lists"),
    };
    let error = Error::usage(format!("{name} is a file, not a {what}"));
    Some(error.at(path.display().to_string()).remedy(remedy))
}

/// The error for a sweep in place of a run.
pub(crate) fn not_a_run(name: &str, sweep: &Path) -> Error {
    let error = Error::usage(format!("{name} is a sweep, not a run")).at(sweep.display().to_string());
    let trials = sweep.join(TRIALS);
    match names(&trials).first() {
        Some(first) => {
            let run = path_text::quoted(&trials.join(first).to_string_lossy());
            error.remedy(format!("name one of its runs, such as {run}"))
        }
        None => error.remedy("none of its runs has begun; name one of them later"),
    }
}

/// Copies a run up to its latest checkpoint, for a run that continues from there. The copy appears at once.
///
/// # Errors
/// When it cannot be read or written.
pub fn copy_run(from: &Path, to: &Path) -> Result<()> {
    let (_, latest) = crate::checkpoint::steps(&from.join("checkpoints"))?.pop().ok_or_else(|| {
        Error::new(crate::error::ErrorKind::Disk, "the run has no checkpoint to copy")
            .at(from.display().to_string())
    })?;
    let temporary = to.with_extension("tmp");
    let copy = || -> std::io::Result<()> {
        if temporary.exists() {
            std::fs::remove_dir_all(&temporary)?;
        }
        let checkpoints = temporary.join("checkpoints");
        let checkpoint = checkpoints.join(latest.file_name().unwrap_or_default());
        std::fs::create_dir_all(&checkpoint)?;
        let durable =
            |from: &Path, to: &Path| std::fs::copy(from, to).and_then(|_| File::open(to)?.sync_all());
        for entry in std::fs::read_dir(&latest)? {
            let entry = entry?;
            durable(&entry.path(), &checkpoint.join(entry.file_name()))?;
        }
        for file in ["config.toml", "metrics.csv", crate::world::FILE, crate::trust::MARK] {
            if from.join(file).is_file() {
                durable(&from.join(file), &temporary.join(file))?;
            }
        }
        for dir in [&checkpoint, &checkpoints, &temporary] {
            sync_dir(dir)?;
        }
        std::fs::rename(&temporary, to)?;
        to.parent().map_or(Ok(()), sync_dir)
    };
    copy().map_err(|error| Error::disk("the run cannot be copied", to, &error))
}

/// A run directory's name.
pub fn name_of(path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    path.file_name().map_or_else(|| "run".to_string(), |name| name.to_string_lossy().into_owned())
}

/// `20261121-104636`: a moment in UTC to the second.
fn stamp(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let [year, month, day, hour, minute, second] = calendar(seconds);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// `2026-11-21T10:46:36.120Z`: a moment in UTC, given in nanoseconds since 1970; sorts as the moments do.
pub(crate) fn timestamp(unix_ns: u64) -> String {
    let (seconds, milliseconds) = (unix_ns / 1_000_000_000, unix_ns / 1_000_000 % 1000);
    let [year, month, day, hour, minute, second] = calendar(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// [`timestamp`] of a moment of the system's clock.
pub fn utc(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// `2026-11-21`: the day now, in UTC.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let [year, month, day, ..] = calendar(seconds);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month, day, hour, minute and second in UTC, of seconds since 1970.
fn calendar(seconds: u64) -> [u64; 6] {
    let (year, month, day) = date(seconds / 86_400);
    [year, month, day, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60]
}

/// The Gregorian date of a day counted from 1970-01-01.
fn date(day: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, day);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    #[test]
    fn a_file_of_a_run_replaces_links_and_leaves_what_they_lead_to() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (own, file) = (dir.path().join("own"), dir.path().join("config.toml"));
        std::fs::write(&own, "own").expect("written");
        for link in ["config.toml", ".config.toml.tmp"] {
            symlink(&own, dir.path().join(link)).expect("linked");
        }
        replace(&file, "new", true).expect("written");
        assert_eq!(std::fs::read_to_string(&own).expect("there"), "own");
        assert!(std::fs::symlink_metadata(&file).expect("there").is_file());
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "new");
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 2);
    }

    #[test]
    fn an_output_is_written_where_the_user_says() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| dir.path().join(name);
        let text = |name: &str| std::fs::read_to_string(at(name)).expect("there");
        write_output(&at("file"), "new").expect("written");
        std::fs::set_permissions(at("file"), Permissions::from_mode(0o640)).expect("changed");
        symlink("file", at("link")).expect("linked");
        write_output(&at("link"), "through a link").expect("written");
        assert_eq!((text("file"), text("link")), ("through a link".to_owned(), "through a link".to_owned()));
        assert!(std::fs::symlink_metadata(at("link")).expect("there").is_symlink());
        assert_eq!(std::fs::metadata(at("file")).expect("there").permissions().mode() & 0o777, 0o640);
        symlink("absent", at("dangling")).expect("linked");
        write_output(&at("dangling"), "made").expect("written");
        assert_eq!(text("absent"), "made");

        // A file with two names keeps both, and one in a directory that takes no new file is written to. Root may write to any.
        std::fs::hard_link(at("file"), at("name")).expect("linked");
        write_output(&at("name"), "of both names").expect("written");
        assert_eq!(text("file"), "of both names");
        std::fs::create_dir(at("closed")).expect("made");
        std::fs::write(at("closed/file"), "longer than the new text").expect("written");
        std::fs::set_permissions(at("closed"), Permissions::from_mode(0o555)).expect("changed");
        write_output(&at("closed/file"), "new").expect("written");
        assert_eq!(text("closed/file"), "new");
        std::fs::set_permissions(at("closed"), Permissions::from_mode(0o755)).expect("changed");

        // Special files stay: a device, also behind a link, and a pipe.
        symlink("/dev/null", at("null")).expect("linked");
        write_output(&at("null"), "nothing").expect("written");
        assert!(std::fs::symlink_metadata(at("null")).expect("there").is_symlink());
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo");
        assert!(made.success());
        let pipe = at("pipe");
        let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).expect("read"));
        write_output(&at("pipe"), "through a pipe").expect("written");
        assert_eq!(reader.join().expect("ended"), "through a pipe");
        write_output(&at("absent/file"), "x").expect_err("no directory");
    }

    #[test]
    fn dates_are_gregorian() {
        let at = |seconds| stamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101-000000");
        assert_eq!(at(951_782_399), "20000228-235959");
        assert_eq!(at(951_782_400), "20000229-000000");
        assert_eq!(at(1_795_257_996), "20261121-104636");
        assert_eq!(timestamp(1_795_257_996_120_456_789), "2026-11-21T10:46:36.120Z");
    }

    #[test]
    fn names_are_unique_and_existing_names_are_refused() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let first = RunDir::create(parent.path(), None, "cartpole", 7).expect("made");
        let second = RunDir::create(parent.path(), None, "cartpole", 7).expect("made");
        assert_ne!(first.name(), second.name());
        assert!(first.name().starts_with("cartpole-7-"));
        RunDir::create(parent.path(), Some("mine"), "cartpole", 7).expect("made");
        let taken = RunDir::create(parent.path(), Some("mine"), "cartpole", 7).expect_err("taken");
        assert_eq!(taken.kind, ErrorKind::Usage);
        assert!(taken.remedy.expect("a remedy").contains("--resume mine"));
    }

    #[test]
    fn a_run_belongs_to_one_process_at_a_time() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let held = RunDir::create(parent.path(), Some("held"), "cartpole", 7).expect("made");
        let error = RunDir::open(held.path()).expect_err("held");
        assert!(error.what.contains("trained already"), "{error}");
        assert!(is_held(held.path()));
        let path = held.path().to_path_buf();
        drop(held);
        assert_eq!(RunDir::open(&path).expect("free again").name(), "held");
    }

    #[test]
    fn a_run_without_a_trainer_is_not_held() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        assert!(!is_held(parent.path()));
        std::fs::write(log_of(parent.path()), "").expect("written");
        assert!(!is_held(parent.path()));
    }

    #[test]
    fn probing_a_runs_lock_does_not_prevent_opening_it() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let run = RunDir::create(parent.path(), Some("seen"), "cartpole", 7).expect("made");
        let path = run.path().to_path_buf();
        drop(run);
        let look = File::open(log_of(&path)).expect("opened");
        look.try_lock_shared().expect("free");
        let taker = std::thread::spawn(move || RunDir::open(&path).map(drop));
        std::thread::park_timeout(LOCK_PROBE / 4);
        drop(look);
        taker.join().expect("no panic").expect("taken");
    }

    #[test]
    fn missing_runs_suggest_the_nearest() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let run = RunDir::create(parent.path(), Some("first-run"), "cartpole", 7).expect("made");
        run.write("config.toml", "seed = 1\n").expect("written");
        assert_eq!(find(parent.path(), "first-run").expect("found"), run.path());
        assert_eq!(
            find(&parent.path().join("missing"), run.path().to_str().expect("UTF-8")).expect("found"),
            run.path()
        );
        assert!(
            find(parent.path(), "frist-run").expect_err("none").what.contains("did you mean \"first-run\"")
        );
        assert!(find(parent.path(), "").is_err());
    }

    #[test]
    fn an_unwritable_directory_is_a_disk_error() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("written");
        let error =
            RunDir::create(&file.join("runs"), None, "cartpole", 1).expect_err("a file is in the way");
        assert_eq!((error.kind, error.exit_code()), (ErrorKind::Disk, 1));
        assert!(error.remedy.expect("a remedy").contains("--run-dir"));
    }
}
