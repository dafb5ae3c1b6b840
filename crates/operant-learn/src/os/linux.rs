//! Linux: threads can be bound to CPUs.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Binds the calling thread to a CPU.
///
/// # Errors
/// Why it cannot be bound, in one line.
pub fn bind(cpu: u32) -> Result<(), String> {
    let number = cpu as usize;
    if number >= CpuSet::MAX_CPU {
        return Err(format!(
            "CPU {cpu} is beyond {}, the last that a thread can be bound to",
            CpuSet::MAX_CPU - 1
        ));
    }
    let mut set = CpuSet::new();
    set.set(number);
    sched_setaffinity(None, &set).map_err(|error| format!("no thread can be bound to CPU {cpu}: {error}"))
}
