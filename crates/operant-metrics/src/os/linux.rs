//! Linux: `/proc`, `/dev/shm` and locks of open file descriptions.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use rustix::time::ClockId;

use crate::process::ProcessInfo;

/// Counts suspended time too.
pub const CLOCK: ClockId = ClockId::Boottime;

/// How to get space for a ring.
pub const FREE_SPACE: &str = "free some shared memory (ls -l /dev/shm)";

/// The process with this id, if it has not ended.
pub fn process(pid: u32) -> Option<ProcessInfo> {
    parse_stat(&std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?)
}

fn parse_stat(stat: &str) -> Option<ProcessInfo> {
    // The second field is a name in parentheses that may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [state, parent, group, session, ..] = fields[..] else { return None };
    // A process that has ended remains in the table until its parent reads its exit code.
    if ["Z", "X"].contains(&state) {
        return None;
    }
    Some(ProcessInfo {
        parent: parent.parse().ok()?,
        group: group.parse().ok()?,
        session: session.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Identifies the boot of this machine.
pub fn boot_id() -> String {
    let id = std::fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"));
    id.unwrap_or_default().trim().to_owned()
}

/// Identifies the time namespace of this process; the same text everywhere on a system that has none.
pub fn time_namespace() -> String {
    let namespace = std::fs::read_link("/proc/self/ns/time");
    namespace.map_or_else(|_| "none".to_owned(), |link| link.to_string_lossy().into_owned())
}

/// Takes the lock for as long as the file is open; false if another process holds it.
#[must_use = "false: another process holds it"]
pub fn hold(file: &File) -> io::Result<bool> {
    // An open-file-description lock: closing another descriptor of the file does not release it.
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether someone holds the lock.
pub fn is_held(file: &File) -> io::Result<bool> {
    let mut lock = whole();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// A write lock on the whole file.
fn whole() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Reserves every page now: a page that cannot be allocated later would raise SIGBUS.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
}

/// The directory of shared memory, for all users.
pub fn shared_memory() -> PathBuf {
    PathBuf::from("/dev/shm")
}

/// Whether a directory is on a tmpfs or ramfs.
pub fn is_memory(dir: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(dir).is_ok_and(|fs| [TMPFS, RAMFS].contains(&(fs.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_name() {
        let line = |state: &str, session: i32| {
            format!("7 (a) R (b)) {state} 5 6 {session} 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 2 3\n")
        };
        let process = ProcessInfo { parent: 5, group: 6, session: 4, start: 12_345 };
        assert_eq!(parse_stat(&line("S", 4)), Some(process));
        // A session of another namespace.
        assert_eq!(parse_stat(&line("R", 0)), Some(ProcessInfo { session: 0, ..process }));
        assert_eq!(parse_stat(&line("Z", 4)), None);
        for bad in ["", "7 (a)", "7 (a) S 1 2", "7 (a) S 1 2 3 0 -1 0"] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_disk_is_not_memory() {
        assert!(is_memory(&shared_memory()));
        assert!(!is_memory(Path::new("/proc")));
    }
}
