//! A progress bar on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use operant_bench::bench::run::Progress;

/// A bar on standard error, or nothing if that is not a terminal.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    const WHOLE: u64 = 1_000;

    /// A bar at 0.
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Bar(None);
        }
        let bar = ProgressBar::with_draw_target(Some(Self::WHOLE), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{bar:32.cyan} {percent:>3}%  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Bar(Some(bar))
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn at(&mut self, what: &str, done: f64) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
            bar.set_position((done * Self::WHOLE as f64) as u64);
        }
    }
}
