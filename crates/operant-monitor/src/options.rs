//! The command line of the monitor, the same for `operant monitor` and for the slim binary.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::data::RunLocations;
use crate::{Control, MonitorError};
use operant_draw::theme::ThemeName;

/// What to show, and how.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// A sweep, or runs to show, by name, directory or path of a .ring file; several runs are drawn in one chart [default: the newest run]
    #[arg(value_name = "RUN|SWEEP")]
    pub runs: Vec<String>,

    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,

    /// Print one snapshot as text and exit; the default where stdout is not a terminal
    #[arg(long)]
    pub once: bool,

    /// Print one JSON object per run and exit; with --interval, one line each time
    #[arg(long)]
    pub json: bool,

    /// Seconds between frames, or between the outputs of --once and --json, which then repeat until the run ends
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<f64>,

    /// Colours: auto follows COLORTERM, TERM, COLORFGBG and NO_COLOR
    #[arg(long, value_enum, default_value_t = ThemeName::Auto, value_name = "THEME")]
    pub theme: ThemeName,

    /// What the list of runs can do to a run; by default it names the command to use.
    #[arg(skip)]
    pub control: Option<Arc<dyn Control>>,
}

impl Options {
    /// Refuses values that make no sense.
    pub(crate) fn check(&self) -> Result<(), MonitorError> {
        match self.interval {
            Some(seconds) if !(0.02..=3600.0).contains(&seconds) => Err(MonitorError::Interval { seconds }),
            _ => Ok(()),
        }
    }

    /// Where the monitor looks for runs.
    pub(crate) fn locations(&self) -> RunLocations {
        let run_dir = self.run_dir.clone().unwrap_or_else(|| PathBuf::from("runs"));
        RunLocations { rings: None, run_dir: Some(run_dir) }
    }

    /// Time from one frame to the next on a terminal: a tenth of a second by default.
    pub(crate) fn frame_period(&self) -> Duration {
        Duration::from_secs_f64(self.interval.unwrap_or(0.1).clamp(0.02, 3600.0))
    }
}
