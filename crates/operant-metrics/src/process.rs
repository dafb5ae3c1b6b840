//! Processes as the system describes them.

use crate::os;

/// A process that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Process id of its parent.
    pub parent: u32,
    /// Id of its process group; 0 for a group of another process id namespace.
    pub group: u32,
    /// Id of its session; 0 for a session of another process id namespace, such as that of a shell which a container
    /// runtime starts in a container. (rustix has no such id: its `getsid` panics there.)
    pub session: u32,
    /// Start time: clock ticks after boot on Linux, microseconds since 1970 on macOS.
    pub start: u64,
}

impl ProcessInfo {
    /// This process; none where the system does not describe it.
    pub fn this() -> Option<Self> {
        Self::find(std::process::id())
    }

    /// The process with this id, if there is one.
    pub fn find(pid: u32) -> Option<Self> {
        os::process(pid)
    }
}

/// [`ProcessInfo::start`] of a process; none if there is no such process.
pub fn process_start(pid: u32) -> Option<u64> {
    ProcessInfo::find(pid).map(|process| process.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let this = ProcessInfo::this().expect("alive");
        assert_eq!(this.parent, std::os::unix::process::parent_id());
        assert!(this.start > 0 && process_start(std::process::id()) == Some(this.start));
        assert_eq!(process_start(u32::MAX), None);
    }
}
