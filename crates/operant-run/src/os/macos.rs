//! macOS, which has no descriptors of processes: a process is known by its id and the microsecond in which it started.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use operant_metrics::process_start;
use rustix::process::{Pid, Signal, kill_process};

/// The time between two looks at a process.
const TICK: Duration = Duration::from_millis(2);

/// A process. Its start is compared before a signal is sent, so that the signal does not reach a later process with the same id.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    start: u64,
}

impl Process {
    /// The process `pid` that started at `start` in the boot `boot_id`; none if it has ended, even if another process has its id now.
    pub fn find(pid: u32, start: u64, boot_id: &str) -> Option<Self> {
        if start == 0 || boot_id != operant_metrics::boot_id() {
            return None;
        }
        let process = Process { pid, start };
        (!process.has_ended()).then_some(process)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has ended (`NotFound`) or belongs to another user.
    pub fn send(&self, signal: Signal) -> std::io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match pid.filter(|_| !self.has_ended()) {
            Some(pid) => Ok(kill_process(pid, signal)?),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        process_start(self.pid) != Some(self.start)
    }

    /// Waits for its end; returns whether it ended in time.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while !self.has_ended() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(TICK.min(left));
        }
        true
    }
}

/// Whether a process has one of the files open: taken for granted. Without namespaces, id and start identify a process.
pub fn has_open(_: u32, _: &[PathBuf]) -> bool {
    true
}

/// Whether this process ignores a signal, as one that `nohup` started does SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call changes nothing and writes the present one, for which zeros are valid as well.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
