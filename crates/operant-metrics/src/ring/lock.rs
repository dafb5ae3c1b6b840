//! The lock that shows whether a trainer is alive: the trainer holds it for as long as it lives, and the kernel
//! releases it however the process ends. Readers test it and never take it.

use std::fs::File;
use std::io;

/// Takes the lock for as long as the file is open; false if another process holds it.
#[cfg(target_os = "linux")]
pub fn hold(file: &File) -> io::Result<bool> {
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    // An open-file-description lock: closing another descriptor of the file does not release it.
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether someone holds the lock.
#[cfg(target_os = "linux")]
pub fn is_held(file: &File) -> io::Result<bool> {
    use nix::fcntl::{FcntlArg, fcntl};
    let mut lock = whole();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// A write lock on the whole file.
#[cfg(target_os = "linux")]
fn whole() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Takes the lock for as long as the file is open; false if another process holds it.
#[cfg(not(target_os = "linux"))]
pub fn hold(file: &File) -> io::Result<bool> {
    use std::fs::TryLockError;
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether a process holds the lock. Where the system has no query, the lock is taken for a moment.
#[cfg(not(target_os = "linux"))]
pub fn is_held(file: &File) -> io::Result<bool> {
    use std::fs::TryLockError;
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_seen_through_another_descriptor_and_ends_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (holder, other) = (open(), File::open(open_path(&path, &open)).unwrap());
        assert!(!is_held(&other).unwrap());
        assert!(hold(&holder).unwrap());
        assert!(is_held(&other).unwrap());
        drop(open());
        assert!(is_held(&other).unwrap(), "another descriptor of the process does not release it");
        assert!(!hold(&open()).unwrap());
        drop(holder);
        assert!(!is_held(&other).unwrap());
    }

    /// The file is there before it is opened for reading.
    fn open_path<'a>(path: &'a std::path::Path, open: &impl Fn() -> File) -> &'a std::path::Path {
        drop(open());
        path
    }
}
