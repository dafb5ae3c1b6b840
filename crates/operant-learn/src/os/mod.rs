//! What the learner needs from the system: one file for each system, with the same functions.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("operant supports Linux and macOS");

pub(crate) use system::bind;
