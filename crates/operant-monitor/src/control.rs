//! Actions on runs, implemented by the program that embeds the monitor. The monitor itself sends no signal.

use std::fmt;
use std::path::Path;

use crate::sweep::SweepSource;

/// Actions on a live run from the list of runs, and the sweeps in it.
pub trait Control: fmt::Debug + Send + Sync {
    /// Asks the run in `dir` to finish its update, save a checkpoint and end.
    ///
    /// # Errors
    /// Why it cannot be asked, one line.
    fn stop(&self, dir: &Path) -> Result<String, String>;

    /// Asks the run in `dir` to pause, or to continue where it is paused.
    ///
    /// # Errors
    /// Why it cannot be asked, one line.
    fn pause(&self, dir: &Path) -> Result<String, String>;

    /// The sweep in `dir`, to be shown.
    fn sweep(&self, dir: &Path) -> Box<dyn SweepSource>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// [`Control::stop`].
    Stop,
    /// [`Control::pause`].
    Pause,
}

impl Action {
    pub const fn key(self) -> char {
        match self {
            Action::Stop => 'X',
            Action::Pause => 'p',
        }
    }
}
