//! macOS: `proc_pidinfo`, `sysctl` and `flock`. There is no directory in memory and no namespace.
#![allow(unsafe_code)]

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::time::ClockId;

use crate::process::ProcessInfo;

/// It counts suspended time too on this system.
pub const CLOCK: ClockId = ClockId::Monotonic;

/// How to get space for a ring.
pub const FREE_SPACE: &str = "free some space on the disk of $TMPDIR";

/// The process with this id, if it has not ended.
pub fn process(pid: u32) -> Option<ProcessInfo> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let size = size_of::<libc::proc_bsdinfo>() as libc::c_int;
    // SAFETY: the structure consists of integers and arrays of them, for which zeros are valid.
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes at most `size` bytes to `info`, which has that size.
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast(), size) };
    if written != size || info.pbi_status == libc::SZOMB {
        return None;
    }
    // SAFETY: the call takes a number and touches no memory of this process.
    let session = unsafe { libc::getsid(pid) };
    Some(ProcessInfo {
        parent: info.pbi_ppid,
        group: info.pbi_pgid,
        session: u32::try_from(session).unwrap_or(0),
        // Microseconds since 1970.
        start: info.pbi_start_tvsec.wrapping_mul(1_000_000).wrapping_add(info.pbi_start_tvusec),
    })
}

/// Identifies the boot of this machine.
pub fn boot_id() -> String {
    let mut text = [0_u8; 64];
    let mut length = text.len();
    // SAFETY: the name ends with a zero; the call writes at most `length` bytes to `text`, which has as many, and their number to
    // `length`.
    let status = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = if status == 0 { text.get(..length).unwrap_or_default() } else { &[] };
    String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
}

/// Identifies the time namespace of this process: the same text everywhere.
pub fn time_namespace() -> String {
    "none".to_owned()
}

/// Takes the lock for as long as the file is open; false if another process holds it.
#[must_use = "false: another process holds it"]
pub fn hold(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether a process holds the lock. The system has no query, so the lock is taken for a moment.
pub fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reserves the file's blocks now: a page without one would raise SIGBUS later.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut store = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: length,
        fst_bytesalloc: 0,
    };
    // SAFETY: the descriptor is open, and the call reads and writes the structure that F_PREALLOCATE takes.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut store) } == -1 {
        return Err(io::Error::last_os_error());
    }
    file.set_len(bytes)
}

/// The directory of temporary files, which the system gives each user.
pub fn shared_memory() -> PathBuf {
    std::env::temp_dir()
}

/// Whether files of a directory are in memory: taken for granted, since all are mapped from the system's cache, and there is no other
/// directory to choose.
pub fn is_memory(_: &Path) -> bool {
    true
}
