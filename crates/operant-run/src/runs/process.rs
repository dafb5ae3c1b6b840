//! A process, held by a descriptor so that a signal cannot reach a later process with the same id.

pub(super) use system::Process;

#[cfg(target_os = "linux")]
mod system {
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use operant_metrics::process_start;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// A process.
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
            let time =
                Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            // An interrupted wait counts as not ended: the caller retries.
            poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
        }
    }
}

/// Other systems have no such descriptor, so no process is found: a run's lock shows whether it lives, and no signal is sent.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::convert::Infallible;
    use std::time::Duration;

    use rustix::process::Signal;

    /// A process.
    #[derive(Debug)]
    pub struct Process(Infallible);

    impl Process {
        /// None.
        pub fn find(_: u32, _: u64, _: &str) -> Option<Self> {
            None
        }

        /// Sends a signal.
        pub fn send(&self, _: Signal) -> std::io::Result<()> {
            match self.0 {}
        }

        /// Whether it has ended.
        pub fn has_ended(&self) -> bool {
            match self.0 {}
        }

        /// Waits for its end.
        pub fn wait(&self, _: Duration) -> bool {
            match self.0 {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use operant_metrics::process_start;
    use rustix::process::Signal;

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
