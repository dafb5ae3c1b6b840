//! The output without a terminal: text snapshots and JSON, once or at an interval.

mod json;
mod page;
mod reading;
mod select;
mod text;
mod wait;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use json::{FIXED, line};
pub use reading::{Figure, Reading};
pub use text::snapshot;

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use crate::data::Source;
use crate::{MonitorError, Options};
use operant_draw::style::Style;
use operant_metrics::printable;
use wait::{Pause, Signals};

/// Prints the runs that `options` name: one snapshot of each, or one per interval until every run has ended, a signal
/// comes, or the pipe is closed. Returns the exit code: 0, or 128 and the number of the signal.
///
/// # Errors
/// When no run is there, its ring cannot be read, or stdout cannot be written.
pub fn run(options: &Options) -> Result<u8, MonitorError> {
    let mut runs = select::runs(&options.locations(), &options.runs)?;
    runs.iter().for_each(select::settle);
    let style = Style::of_stdout(options.theme);
    let print: &dyn Fn(&Reading) -> String = match options.json {
        true => &|reading| printable(&line(reading)) + "\n",
        false => &|reading| snapshot(reading, &style),
    };
    let mut printer = Printer { print, gap: if options.json { "" } else { "\n" }, begun: false };
    match options.interval {
        None => match printer.all(&mut runs) {
            Ok(Some(error)) => Err(error),
            outcome => finish(outcome.map(|_| 0)),
        },
        Some(seconds) => stream(&mut runs, &mut printer, Duration::from_secs_f64(seconds)),
    }
}

/// Prints at an interval.
fn stream(runs: &mut Vec<Source>, printer: &mut Printer, interval: Duration) -> Result<u8, MonitorError> {
    let signals = Signals::install()?;
    let mut pause = Pause::new(interval);
    loop {
        match printer.all(runs) {
            // A live run repairs its ring with its next update, so try again later.
            Ok(Some(error)) => select::note(&error.to_string()),
            Ok(None) => {}
            Err(error) => return finish(Err(error)),
        }
        if runs.is_empty() {
            return Ok(0);
        }
        if let Some(code) = pause.wait(&signals) {
            return Ok(code);
        }
    }
}

/// Prints runs to standard output.
struct Printer<'a> {
    print: &'a dyn Fn(&Reading) -> String,
    /// What stands between two of them.
    gap: &'a str,
    begun: bool,
}

impl Printer<'_> {
    /// Prints every run once, each in one write, and drops those that have ended, after their final state was printed.
    /// Returns the last error of a ring that cannot be read now; the others are printed anyway.
    fn all(&mut self, runs: &mut Vec<Source>) -> io::Result<Option<MonitorError>> {
        let mut out = io::stdout().lock();
        let (mut living, mut refused) = (Vec::with_capacity(runs.len()), None);
        for mut run in runs.drain(..) {
            let health = match select::look(&mut run) {
                Ok(reading) => {
                    if std::mem::replace(&mut self.begun, true) {
                        out.write_all(self.gap.as_bytes())?;
                    }
                    out.write_all((self.print)(&reading).as_bytes())?;
                    reading.status.health
                }
                Err(error) => {
                    refused = Some(error);
                    run.status().health
                }
            };
            if health.is_alive() {
                living.push(run);
            }
        }
        *runs = living;
        out.flush()?;
        Ok(refused)
    }
}

/// A reader that closed the pipe is a clean end.
fn finish(outcome: io::Result<u8>) -> Result<u8, MonitorError> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(0),
        outcome => outcome.map_err(|source| MonitorError::Output { source }),
    }
}
