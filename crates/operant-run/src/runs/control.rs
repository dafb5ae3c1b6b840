//! Asking a live run to stop, or to save.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use operant_metrics::{Health, RunState};
use rustix::process::Signal;

use super::process::Process;
use super::report::{self, Run};
use crate::checkpoint;
use crate::error::{Error, ErrorKind, Result};

/// Time from one look for a new checkpoint to the next.
const LOOK: Duration = Duration::from_millis(20);

/// The file in a run's directory whose lock is held by who asks the run to stop. Not the run's own lock: that one means
/// that the run is being trained.
const ASKING: &str = ".stop";

/// How long it may take a run to say that it has heard; it says so four times a second.
const HEARD: Duration = Duration::from_secs(2);

/// How long a process that ends may have let go of its files, and its locks seem held.
const DYING: Duration = Duration::from_millis(200);

/// What a request to stop came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The trainer was sent SIGTERM.
    Now,
    /// It had been asked before: a second SIGTERM would end it at once, without a checkpoint.
    Before,
}

/// A run whose trainer lives on this machine, held so that no signal can reach another process.
#[derive(Debug)]
pub struct Live {
    run: Run,
    process: Process,
}

impl Live {
    /// The trainer of a run; none when it has ended.
    ///
    /// # Errors
    /// When the run is being trained, but not by a process that can be told for its trainer from here.
    pub fn of(run: &Run) -> Result<Option<Self>> {
        if !run.health.is_alive() {
            return Ok(None);
        }
        let (pid, start, boot_id) = &run.process;
        let find = || Process::find(*pid, *start, boot_id).filter(|_| holds(*pid, &report::held_files(run)));
        let deadline = Instant::now() + DYING;
        loop {
            if let Some(process) = find() {
                return Ok(Some(Live { run: run.clone(), process }));
            }
            // It may have ended since it was looked at, or be about to.
            if !report::reload(run).health.is_alive() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let what =
                    format!("run {} is being trained, but process {pid} here is not its trainer", run.run);
                return Err(Error::usage(what).at(run.dir.display().to_string()).remedy(
                    "give the command on the machine, in the container and as the user that train it",
                ));
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// The run, as it was found.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Asks it to finish its update, save a checkpoint and end.
    ///
    /// # Errors
    /// When the system forbids the signal.
    pub fn stop(&self) -> Result<Asked> {
        if self.run.health == Health::Said(RunState::Stopping) || self.is_stopping() {
            return Ok(Asked::Before);
        }
        // One at a time, until the run says that it has heard. Where there can be no lock, the signal goes out all the same.
        let _alone = self.alone();
        if self.is_stopping() {
            return Ok(Asked::Before);
        }
        self.send(Signal::TERM)?;
        let deadline = Instant::now() + HEARD;
        while !self.is_stopping() && Instant::now() < deadline && !self.process.wait(LOOK) {}
        Ok(Asked::Now)
    }

    /// Pauses training after its update, or continues it where it is paused.
    ///
    /// # Errors
    /// When the system forbids the signal.
    pub fn pause(&self) -> Result<()> {
        self.send(Signal::USR2)
    }

    /// Waits until nobody else asks the run to stop. One that hangs while it asks is not waited for.
    fn alone(&self) -> Option<File> {
        let path = self.run.dir.join(ASKING);
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        let deadline = Instant::now() + 2 * HEARD;
        while file.try_lock().is_err() && Instant::now() < deadline && !self.process.wait(LOOK) {}
        Some(file)
    }

    /// Whether this very process has said that it stops, or how it ended. It says so within a quarter second of the signal,
    /// however long the update is.
    fn is_stopping(&self) -> bool {
        let (pid, start, boot_id) = &self.run.process;
        super::RunFile::read(&self.run.dir).is_some_and(|file| {
            (file.pid, file.process_start, &file.boot_id) == (*pid, *start, boot_id)
                && (file.state() == Some(RunState::Stopping) || file.has_ended())
        })
    }

    /// Waits for its end: how it ended, or none when it has not within `timeout`.
    pub fn ended(&self, timeout: Duration) -> Option<Run> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.process.wait(left) {
                return Some(report::reload(&self.run));
            }
            if left.is_zero() {
                return None;
            }
        }
    }

    /// Asks it for a checkpoint and waits until that is there: its step and path.
    ///
    /// # Errors
    /// When it ends instead, when no checkpoint comes within `timeout`, or when the system forbids the signal.
    pub fn checkpoint(&self, timeout: Duration) -> Result<(u64, PathBuf)> {
        let before = latest(&self.run.dir);
        self.send(Signal::USR1)?;
        let deadline = Instant::now() + timeout;
        let name = &self.run.run;
        loop {
            let ended = self.process.wait(LOOK);
            match latest(&self.run.dir) {
                Some((step, path, made)) if before != Some((step, path.clone(), made)) => {
                    return Ok((step, path));
                }
                _ if ended => {
                    let run = report::reload(&self.run);
                    let what =
                        format!("run {name} ended ({}) before it saved a checkpoint", run.health.name());
                    return Err(Error::new(ErrorKind::Disk, what)
                        .at(self.run.dir.display().to_string())
                        .remedy(if run.reason.is_empty() {
                            "see operant.log there".to_string()
                        } else {
                            run.reason
                        }));
                }
                _ if Instant::now() >= deadline => {
                    let what =
                        format!("run {name} has saved no checkpoint within {} s", timeout.as_secs_f64());
                    return Err(Error::new(ErrorKind::Disk, what)
                        .at(self.run.dir.display().to_string())
                        .remedy(
                            "it saves one after its update, unless the disk refuses: see operant.log there",
                        ));
                }
                _ => {}
            }
        }
    }

    fn send(&self, signal: Signal) -> Result<()> {
        match self.process.send(signal) {
            // Ended in this moment: whoever waits for it will see that.
            Ok(()) => Ok(()),
            Err(_) if self.process.has_ended() => Ok(()),
            Err(error) => {
                let what = format!("process {} cannot be sent a signal: {error}", self.run.process.0);
                Err(Error::new(ErrorKind::Device, what)
                    .at(format!("run {}", self.run.run))
                    .remedy("give the command as the user that started the run"))
            }
        }
    }
}

/// Step, path and identity of the latest checkpoint. One that replaces another of the same step is another directory.
fn latest(dir: &Path) -> Option<(u64, PathBuf, (u64, i64, i64))> {
    let (step, path) = checkpoint::steps(&dir.join("checkpoints")).ok()?.pop()?;
    let made = std::fs::metadata(&path).ok()?;
    Some((step, path, (made.ino(), made.ctime(), made.ctime_nsec())))
}

/// Whether a process has one of the files open.
fn holds(pid: u32, files: &[PathBuf]) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let files: Vec<(u64, u64)> = files.iter().filter_map(|path| identity(path)).collect();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| identity(&entry.path())).any(|file| files.contains(&file))
}
