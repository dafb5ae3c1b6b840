//! Linux: descriptors of processes, and `/proc`.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use operant_metrics::process_start;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process, held by a descriptor so that a signal cannot reach a later process with the same id.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process `pid` that started `start` clock ticks after the boot `boot_id`; none if it has ended, even if
    /// another process has its id now.
    pub fn find(pid: u32, start: u64, boot_id: &str) -> Option<Self> {
        if start == 0 || boot_id != operant_metrics::boot_id() {
            return None;
        }
        let pid_number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        // The descriptor is opened before the check, so that a reuse of the id in between is detected.
        let held = Process(pidfd_open(pid_number, PidfdFlags::empty()).ok()?);
        (process_start(pid) == Some(start) && !held.has_ended()).then_some(held)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has ended (`NotFound`) or belongs to another user.
    pub fn send(&self, signal: Signal) -> std::io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits for its end; returns whether it ended in time.
    pub fn wait(&self, timeout: Duration) -> bool {
        let time = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        // An interrupted wait counts as not ended: the caller retries.
        poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
    }
}

/// Whether a process has one of the files open.
pub fn has_open(pid: u32, files: &[PathBuf]) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let files: Vec<(u64, u64)> = files.iter().filter_map(|path| identity(path)).collect();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| identity(&entry.path())).any(|file| files.contains(&file))
}

/// Whether this process ignores a signal, as one that `nohup` started does SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The name of this machine; empty where the system does not report it.
pub fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_the_same_process_is_found_and_its_end_detected() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("started");
        let start = process_start(child.id()).expect("a start");
        let boot = operant_metrics::boot_id();
        assert!(Process::find(child.id(), start + 1, &boot).is_none(), "a later process of that id");
        assert!(Process::find(child.id(), start, "another boot").is_none());
        assert!(Process::find(u32::MAX, start, &boot).is_none());
        let process = Process::find(child.id(), start, &boot).expect("found");
        assert!(!process.has_ended());
        process.send(Signal::KILL).expect("sent");
        assert!(process.wait(Duration::from_secs(60)));
        assert!(Process::find(child.id(), start, &boot).is_none(), "a zombie is not a trainer");
        child.wait().expect("waited");
        assert!(process.has_ended() && process.send(Signal::TERM).is_err());
    }
}
