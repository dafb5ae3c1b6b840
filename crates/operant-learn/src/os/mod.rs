//! What the learner needs from the system: one file for each system, with the same functions.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "macos.rs"]
mod system;

pub(crate) use system::bind;
