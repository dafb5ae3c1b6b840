//! The command line of the monitor, the same for `operant monitor` and for the slim binary.

use std::time::Duration;

use crate::MonitorError;
use crate::theme::ThemeName;

/// What to show, and how.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// Runs to show, by name or by path of a .ring file; several are drawn over one another. By default the newest
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,

    /// Print one snapshot as text and leave; the default where stdout is not a terminal
    #[arg(long)]
    pub once: bool,

    /// Print one JSON object per run and leave; with --interval, one line each time
    #[arg(long)]
    pub json: bool,

    /// Seconds between frames, or between the lines of --once and --json, which then go on until the run ends
    #[arg(long, value_name = "SECONDS")]
    pub interval: Option<f64>,

    /// Colours: auto looks at COLORTERM, TERM, COLORFGBG and NO_COLOR
    #[arg(long, value_enum, default_value_t = ThemeName::Auto, value_name = "THEME")]
    pub theme: ThemeName,
}

impl Options {
    /// Refuses values that make no sense.
    pub(crate) fn check(&self) -> Result<(), MonitorError> {
        match self.interval {
            Some(seconds) if !(0.02..=3600.0).contains(&seconds) => Err(MonitorError::Interval { seconds }),
            _ => Ok(()),
        }
    }

    /// Time from one frame to the next on a terminal: a tenth of a second unless told otherwise.
    pub(crate) fn frame_period(&self) -> Duration {
        Duration::from_secs_f64(self.interval.unwrap_or(0.1).clamp(0.02, 3600.0))
    }
}
