//! Asking a live run to stop, or to save.

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
        let process = Process::find(*pid, *start, boot_id).filter(|_| holds(*pid, &report::held_files(run)));
        match process {
            Some(process) => Ok(Some(Live { run: run.clone(), process })),
            // It may have ended since it was looked at.
            None if !report::reload(run).health.is_alive() => Ok(None),
            None => {
                let what =
                    format!("run {} is being trained, but process {pid} here is not its trainer", run.run);
                Err(Error::usage(what).at(run.dir.display().to_string()).remedy(
                    "give the command on the machine, in the container and as the user that train it",
                ))
            }
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
        self.send(Signal::TERM)?;
        Ok(Asked::Now)
    }

    /// run.json says so within a quarter second of the signal, however long the update is.
    fn is_stopping(&self) -> bool {
        super::RunFile::read(&self.run.dir).is_some_and(|file| file.state == RunState::Stopping.name())
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
