//! How this machine is read: one file for each system, with the same functions. The formats of their texts are parsed elsewhere, so that
//! they are tested on any system.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("operant supports Linux and macOS");

pub(crate) use system::{
    memory, processor, read_cpu_times, resident_memory, sampled_cores, topology, usable,
};
