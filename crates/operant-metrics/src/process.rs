//! Processes as `/proc` describes them.

use std::path::Path;

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
    /// Start time, in clock ticks after boot.
    pub start: u64,
}

impl ProcessInfo {
    /// This process; none on a system without `/proc`.
    pub fn this() -> Option<Self> {
        Self::find(std::process::id())
    }

    /// The process with this id, if there is one.
    pub fn find(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
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
}

/// Start time of a process, in clock ticks after boot; none if there is no such process.
pub fn process_start(pid: u32) -> Option<u64> {
    ProcessInfo::find(pid).map(|process| process.start)
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
        assert_eq!(ProcessInfo::parse(&line("S", 4)), Some(process));
        // A session of another namespace.
        assert_eq!(ProcessInfo::parse(&line("R", 0)), Some(ProcessInfo { session: 0, ..process }));
        assert_eq!(ProcessInfo::parse(&line("Z", 4)), None);
        for bad in ["", "7 (a)", "7 (a) S 1 2", "7 (a) S 1 2 3 0 -1 0"] {
            assert_eq!(ProcessInfo::parse(bad), None, "{bad}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found() {
        let this = ProcessInfo::this().expect("alive");
        assert_eq!(this.parent, std::os::unix::process::parent_id());
        assert!(this.start > 0 && process_start(std::process::id()) == Some(this.start));
        assert_eq!(process_start(u32::MAX), None);
    }
}
