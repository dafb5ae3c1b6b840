//! macOS: a temporary file without a name in place of sealed memory, and polling in place of futexes and descriptors of processes.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process_group};

/// Polls of a word before the first sleep: about ten microseconds.
const SPINS: u32 = 256;
/// The first sleep between two looks at a word; each further one is twice as long, up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_micros(20);
/// The longest sleep between two looks at a word.
const LONGEST: Duration = Duration::from_millis(1);
/// The time between two looks at a process.
const TICK: Duration = Duration::from_millis(2);

/// A file of zeros without a name. The system has no seals: a process that shrinks it ends those that read it.
///
/// # Errors
/// When the disk has no space for it.
pub fn anonymous_file(bytes: u64) -> io::Result<File> {
    let file = tempfile::tempfile()?;
    file.set_len(bytes)?;
    Ok(file)
}

/// Whether [`anonymous_file`] can have made a file: no other program can open it by a name.
///
/// # Errors
/// When it cannot.
pub fn check_anonymous(file: &File) -> io::Result<()> {
    if file.metadata()?.nlink() > 0 {
        return Err(io::Error::other("the file has a name"));
    }
    Ok(())
}

/// Wakes all that wait for a word: they poll it.
pub fn wake(_: &AtomicU32) {}

/// Waits while a word is `seen`, for at most `timeout`.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Duration) {
    let is_seen = || word.load(Ordering::Acquire) == seen;
    for _ in 0..SPINS {
        if !is_seen() {
            return;
        }
        std::hint::spin_loop();
    }
    let (deadline, mut sleep) = (Instant::now() + timeout, SHORTEST);
    while is_seen() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(sleep.min(left));
        sleep = (2 * sleep).min(LONGEST);
    }
}

/// The end of a child process, to wait for.
#[derive(Debug)]
pub struct ChildExit;

impl ChildExit {
    /// That of a child.
    ///
    /// # Errors
    /// None on this system.
    pub fn of(_: &Child) -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the end, for at most `timeout`; returns whether the child has ended. `child` is the one that it was made of.
    pub fn wait(&self, child: &mut Child, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            if !matches!(child.try_wait(), Ok(None)) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(TICK.min(left));
        }
    }
}

/// Removes process groups without a process. One that its parent has not waited for counts.
pub fn remove_ended(groups: &mut Vec<Pid>) {
    groups.retain(|group| test_kill_process_group(*group).is_ok());
}
