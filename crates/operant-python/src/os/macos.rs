//! macOS, which sends no signal when a parent ends: a worker looks for it while it waits.

use rustix::process::Signal;

/// There is no such signal.
pub const PARENT_ENDED: Option<Signal> = None;

/// Does nothing.
pub fn signal_end_of_parent() -> rustix::io::Result<()> {
    Ok(())
}
