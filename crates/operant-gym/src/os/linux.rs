//! Linux: sealed memfds, futexes, descriptors of processes, `/proc`.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::futex;

/// A file of zeros without a name, in memory; its size cannot change.
///
/// # Errors
/// When the system has no memory for it.
pub fn anonymous_file(bytes: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("operant-environments", flags)?);
    file.set_len(bytes)?;
    fcntl_add_seals(file.as_fd(), SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Whether [`anonymous_file`] can have made a file.
///
/// # Errors
/// When it cannot.
pub fn check_anonymous(file: &File) -> io::Result<()> {
    if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(io::Error::other("the file can shrink"));
    }
    Ok(())
}

/// Wakes all that wait for a word.
pub fn wake(word: &AtomicU32) {
    // It fails only for words that no process can wait for.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// Waits while a word is `seen`, for at most `timeout`. Signals and spurious wake-ups end the wait too.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Duration) {
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timespec(timeout)));
}

/// The end of a child process, to wait for.
#[derive(Debug)]
pub struct ChildExit(OwnedFd);

impl ChildExit {
    /// That of a child.
    ///
    /// # Errors
    /// When the system gives no descriptor.
    pub fn of(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Waits for the end, for at most `timeout`; returns whether the child has ended. `child` is the one that it was made of.
    pub fn wait(&self, _child: &mut Child, timeout: Duration) -> bool {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timespec(timeout))) == Ok(1)
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Removes process groups without a process that has not ended. One that has ended may stay as a zombie: not every first process of a
/// container waits for it.
pub fn remove_ended(groups: &mut Vec<Pid>) {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let group = |stat: String| {
        // PID (NAME) STATE PARENT GROUP
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_alive = !matches!(fields.next()?, "Z" | "X");
        fields.nth(1)?.parse().ok().filter(|_| is_alive)
    };
    let living: HashSet<i32> = processes
        .filter_map(|entry| group(std::fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    groups.retain(|group| living.contains(&group.as_raw_nonzero().get()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_seals_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("unsealed", flags).expect("memory"));
        file.set_len(64).expect("room");
        assert_eq!(check_anonymous(&file).expect_err("it can shrink").to_string(), "the file can shrink");
        check_anonymous(&anonymous_file(64).expect("memory")).expect("sealed");
    }
}
