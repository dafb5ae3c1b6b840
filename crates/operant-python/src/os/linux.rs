//! Linux: a signal when the parent ends.

use rustix::process::{Signal, set_parent_process_death_signal};

/// The signal when the thread that started this process has ended. Nothing else uses it.
pub const PARENT_ENDED: Option<Signal> = Some(Signal::STKFLT);

/// From now on the system sends [`PARENT_ENDED`].
pub fn signal_end_of_parent() -> rustix::io::Result<()> {
    set_parent_process_death_signal(PARENT_ENDED)
}
