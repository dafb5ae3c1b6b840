//! What runs need from the system: one file for each system, with the same functions.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("operant supports Linux and macOS");

pub(crate) use system::{Process, has_open, host_name, is_ignored};
