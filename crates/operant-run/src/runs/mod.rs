//! The runs of this user: [`list`] and [`find`] combine a run's directory (run.json and its lock) with its ring;
//! [`LiveRun`] sends signals to a run's trainer and to no other process.

mod brief;
mod control;
mod remove;
mod report;
mod state_file;

pub use brief::{Brief, brief};
pub use control::{LiveRun, PAUSING, Paused, StopRequest};
pub use remove::Removal;
pub use report::{Kind, Run, config, find, find_any, list, live_namesakes, of_sweep, refuse_slip, sweeps};
pub use state_file::SweepFile;
pub(crate) use state_file::{FinalCounts, StateFile, starting};
