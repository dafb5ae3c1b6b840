//! The progress of a sweep on standard error.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use operant_run::progress::short;
use operant_sweep::spec::Objective;
use operant_sweep::{Status, Watch};

use crate::output;

/// The best trial so far, in a few words.
fn best(status: &Status, objective: &Objective) -> String {
    let Some((trial, value, values)) = &status.best else { return String::new() };
    let value = objective.shown(*value);
    let which = if values.is_empty() { format!("trial {trial}") } else { values.clone() };
    format!("best {value}, {which}")
}

/// Finished, running and failed runs.
fn runs(status: &Status) -> String {
    let running = if status.running > 0 { format!(", {} running", status.running) } else { String::new() };
    let failed = if status.failed > 0 { format!(", {} failed", status.failed) } else { String::new() };
    format!("{}/{} runs{running}{failed}", status.done, status.planned)
}

/// Speed, and the time that is left at it.
fn speed(status: &Status) -> String {
    let sps = status.env_steps as f64 / status.seconds;
    match status.left {
        _ if status.paused => "paused".to_owned(),
        Some(left) => format!("{} steps/s, {} left", short(sps), about(left)),
        None => String::new(),
    }
}

/// A time that was estimated: `40 s`, `12 min`, `3 h 20 min`.
pub fn about(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round();
    match minutes {
        ..2.0 => format!("{seconds:.0} s"),
        ..120.0 => format!("{minutes:.0} min"),
        _ => format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0),
    }
}

/// Shows warnings only.
pub struct Warnings;

impl Watch for Warnings {
    fn status(&mut self, _: &Status) {}

    fn warn(&mut self, line: &str) {
        output::warn(line);
    }
}

/// A line every few seconds.
pub struct Lines {
    last: Instant,
    objective: Objective,
}

impl Watch for Lines {
    fn status(&mut self, status: &Status) {
        if self.last.elapsed() > Duration::from_secs(10) {
            self.last = Instant::now();
            output::note(&format!("{}  {}  {}", runs(status), speed(status), best(status, &self.objective)));
        }
    }

    fn warn(&mut self, line: &str) {
        output::warn(line);
    }
}

impl Lines {
    pub fn new(objective: Objective) -> Self {
        Self { last: Instant::now(), objective }
    }
}

/// A bar on a terminal.
pub struct Bar {
    bar: ProgressBar,
    objective: Objective,
}

impl Bar {
    pub fn new(objective: Objective) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:20} {elapsed}  {wide_msg}");
        bar.set_style(style.expect("the template is valid"));
        Self { bar, objective }
    }
}

impl Watch for Bar {
    fn status(&mut self, status: &Status) {
        self.bar.set_length(status.planned as u64);
        self.bar.set_position(status.done as u64);
        self.bar.set_message(format!(
            "{}  {}  {}",
            runs(status),
            speed(status),
            best(status, &self.objective)
        ));
    }

    fn warn(&mut self, line: &str) {
        self.bar.suspend(|| output::warn(line));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
