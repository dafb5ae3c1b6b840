//! Requests to a live run: stop, pause, continue, or save a checkpoint.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use operant_metrics::{Health, RunState};
use rustix::process::Signal;

use super::report::{self, Kind, Run};
use crate::checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::os::{Process, has_open};

/// Poll interval.
const POLL: Duration = Duration::from_millis(20);

/// The file in a run's directory whose lock serializes requests to stop and to pause. It is not the run's own lock, which shows that
/// the run is being trained.
const STOP_LOCK: &str = ".stop";

/// What a sweep reports from a request to pause until all its runs have paused.
pub const PAUSING: &str = "pausing";

/// Longest wait for a run to acknowledge the signal; it checks four times a second.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the locks of an exiting process may seem held after it has closed its files.
const EXIT_GRACE: Duration = Duration::from_millis(200);

/// Result of a request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRequest {
    /// The trainer was sent SIGTERM.
    Sent,
    /// The run was stopping already. No signal was sent: a second SIGTERM would end it without a checkpoint.
    AlreadyStopping,
}

/// Result of a request to pause or to continue.
#[derive(Debug, Clone, PartialEq)]
pub enum Paused {
    /// The run has paused, or continues.
    Changed(Run),
    /// It was paused, or training, already, or it is stopping. No signal was sent.
    Unchanged(Run),
}

/// A run or sweep whose trainer is alive on this machine, held by a descriptor so that no signal can reach another process.
#[derive(Debug)]
pub struct LiveRun {
    run: Run,
    process: Process,
}

impl LiveRun {
    /// The trainer of a run; none when it has ended.
    ///
    /// # Errors
    /// When the run is being trained, but its trainer cannot be identified from here.
    pub fn of(run: &Run) -> Result<Option<Self>> {
        if !run.health.is_alive() {
            return Ok(None);
        }
        let (pid, start, boot_id) = &run.process;
        let find =
            || Process::find(*pid, *start, boot_id).filter(|_| has_open(*pid, &report::held_files(run)));
        let deadline = Instant::now() + EXIT_GRACE;
        loop {
            if let Some(process) = find() {
                return Ok(Some(LiveRun { run: run.clone(), process }));
            }
            // It may have ended since, or be about to.
            if !report::reload(run).health.is_alive() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let what =
                    format!("{} is being trained, but process {pid} here is not its trainer", run.title());
                return Err(Error::usage(what).at(run.dir.display().to_string()).remedy(
                    "give the command on the machine, in the container and as the user that train it",
                ));
            }
            std::thread::park_timeout(POLL);
        }
    }

    /// The run, as it was listed.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Requests that it finish its update, save a checkpoint and end.
    ///
    /// # Errors
    /// When the system forbids the signal.
    pub fn stop(&self) -> Result<StopRequest> {
        if self.run.health == Health::Reported(RunState::Stopping) || self.is_stopping() {
            return Ok(StopRequest::AlreadyStopping);
        }
        // One request at a time, until the run acknowledges it. Without a lock, the signal is sent anyway.
        let _lock = self.stop_lock();
        if self.is_stopping() {
            return Ok(StopRequest::AlreadyStopping);
        }
        self.send(Signal::TERM)?;
        let deadline = Instant::now() + ACK_TIMEOUT;
        while !self.is_stopping() && Instant::now() < deadline && !self.process.wait(POLL) {}
        Ok(StopRequest::Sent)
    }

    /// Pauses training after its update, or continues it where it is paused.
    ///
    /// # Errors
    /// When the system forbids the signal.
    pub fn pause(&self) -> Result<()> {
        self.send(Signal::USR2)
    }

    /// Pauses training after its update, or lets it continue, and waits until the run reports that.
    ///
    /// # Errors
    /// When it ends instead, when it does not follow within `timeout`, or when the system forbids the signal.
    pub fn set_paused(&self, paused: bool, timeout: Duration) -> Result<Paused> {
        let is_paused = |run: &Run| run.health == Health::Reported(RunState::Paused);
        // A sweep that waits for its runs to pause.
        let is_pausing = |run: &Run| is_paused(run) || run.reason == PAUSING;
        let follows = |run: &Run| if paused { is_paused(run) } else { !is_pausing(run) };
        // One request at a time: a second signal would undo the first.
        let _lock = self.stop_lock();
        let before = report::reload(&self.run);
        if follows(&before) || before.health == Health::Reported(RunState::Stopping) {
            return Ok(Paused::Unchanged(before));
        }
        // A second signal would let it continue.
        if !(paused && is_pausing(&before)) {
            self.send(Signal::USR2)?;
        }
        let sent = Instant::now();
        let name = self.run.title();
        loop {
            let ended = self.process.wait(POLL);
            let run = report::reload(&self.run);
            // The lock is held until a sweep has taken the signal, whatever the timeout.
            let is_taken =
                self.run.kind != Kind::Sweep || is_pausing(&run) == paused || sent.elapsed() >= ACK_TIMEOUT;
            let error =
                |what: String| Error::new(ErrorKind::Device, what).at(self.run.dir.display().to_string());
            if ended || !run.health.is_alive() {
                let what = format!("{name} has ended instead: {}", run.health.name());
                return Err(error(what).remedy("`operant show` has its state; `operant resume` continues it"));
            }
            if follows(&run) {
                return Ok(Paused::Changed(run));
            }
            if is_taken && sent.elapsed() >= timeout {
                let what = format!(
                    "{name} has not {} within {} s",
                    if paused { "paused" } else { "continued" },
                    timeout.as_secs_f64()
                );
                return Err(error(what).remedy("it follows after its update; `operant runs` shows its state"));
            }
        }
    }

    /// Takes the lock of requests to stop or pause this run, which is held until the run has acknowledged. A process that hangs with it is
    /// not waited for.
    fn stop_lock(&self) -> Option<File> {
        let path = self.run.dir.join(STOP_LOCK);
        let file = crate::dir::open_own(&path).ok()?;
        let deadline = Instant::now() + 2 * ACK_TIMEOUT;
        while file.try_lock().is_err() && Instant::now() < deadline && !self.process.wait(POLL) {}
        Some(file)
    }

    /// Whether this process has reported that it is stopping or has ended. It reports within a quarter second of the
    /// signal, however long the update is.
    fn is_stopping(&self) -> bool {
        let (pid, start, boot_id) = &self.run.process;
        operant_metrics::RunFile::read(&self.run.dir).is_some_and(|file| {
            (file.pid, file.process_start, &file.boot_id) == (*pid, *start, boot_id)
                && (file.state() == Some(RunState::Stopping) || file.has_ended())
        })
    }

    /// Waits for its end and returns its final state; none if it has not ended within `timeout`.
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

    /// Requests a checkpoint and waits for it; returns its step and path.
    ///
    /// # Errors
    /// When it ends instead, when no checkpoint comes within `timeout`, or when the system forbids the signal.
    pub fn checkpoint(&self, timeout: Duration) -> Result<(u64, PathBuf)> {
        let before = latest(&self.run.dir);
        self.send(Signal::USR1)?;
        let deadline = Instant::now() + timeout;
        let name = self.run.title();
        loop {
            let ended = self.process.wait(POLL);
            match latest(&self.run.dir) {
                Some((step, path, made)) if before != Some((step, path.clone(), made)) => {
                    return Ok((step, path));
                }
                _ if ended => {
                    let run = report::reload(&self.run);
                    let what = format!("{name} ended ({}) before it saved a checkpoint", run.health.name());
                    return Err(Error::new(ErrorKind::Disk, what)
                        .at(self.run.dir.display().to_string())
                        .remedy(if run.reason.is_empty() {
                            "see operant.log there".to_string()
                        } else {
                            run.reason
                        }));
                }
                _ if Instant::now() >= deadline => {
                    let what = format!("{name} has saved no checkpoint within {} s", timeout.as_secs_f64());
                    return Err(Error::new(ErrorKind::Disk, what)
                        .at(self.run.dir.display().to_string())
                        .remedy(
                            "it saves one after its update unless the disk is full: see operant.log there",
                        ));
                }
                _ => {}
            }
        }
    }

    fn send(&self, signal: Signal) -> Result<()> {
        match self.process.send(signal) {
            // It has just ended; the caller will detect that.
            Ok(()) => Ok(()),
            Err(_) if self.process.has_ended() => Ok(()),
            Err(error) => {
                let what = format!("process {} cannot be sent a signal: {error}", self.run.process.0);
                Err(Error::new(ErrorKind::Device, what)
                    .at(self.run.title())
                    .remedy("give the command as the user that started the run"))
            }
        }
    }
}

/// Step, path and identity of the latest checkpoint. A replacement of the same step has another identity.
fn latest(dir: &Path) -> Option<(u64, PathBuf, (u64, i64, i64))> {
    let (step, path) = checkpoint::steps(&dir.join("checkpoints")).ok()?.pop()?;
    let made = std::fs::metadata(&path).ok()?;
    Some((step, path, (made.ino(), made.ctime(), made.ctime_nsec())))
}
