//! The runs of this user as other processes see them: [`list`] and [`find`] bring together what a run's directory says
//! (run.json, its lock) and what its ring says; [`Live`] sends signals to a run's trainer, and to nothing else.

mod control;
mod process;
mod report;
mod state_file;

pub use control::{Asked, Live};
pub use report::{Run, config, find, list, live_namesakes};
pub use state_file::{FILE, RunFile};
pub(crate) use state_file::{Reached, StateFile};
