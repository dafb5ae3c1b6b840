//! The terminal monitor: it maps the rings of training runs read-only and shows them live, and reads the directories of
//! runs that have ended. It does not depend on the trainer's code, writes nothing, and sends no signals.
//!
//! `app` holds the state independent of the screen, `list` the state of the list of runs, `data` the runs, `ui` one
//! file per panel, `player` shows one environment full screen, `terminal` runs the event
//! loop, `headless` prints where there is no terminal, `control` lets the embedding program act on a run.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // an internal crate: documented only where the name is not enough

pub mod app;
mod config;
mod control;
pub mod data;
pub mod date;
pub mod error;
pub mod format;
pub mod headless;
pub mod input;
pub mod layout;
pub mod list;
mod options;
pub mod player;
pub mod sweep;
mod terminal;
#[cfg(test)]
mod tests;
pub mod ui;
pub mod verdict;
pub mod view;

pub use control::{Action, Control};
pub use error::MonitorError;
pub use operant_metrics::printable;
pub use options::Options;

use std::io::IsTerminal;

/// Shows the runs that `options` name until the user quits, or prints them where there is no terminal. Returns the exit
/// code: 0, or 128 and the number of the signal that ended it.
///
/// # Errors
/// A [`MonitorError`], whose text has problem, place and remedy; the terminal is restored first.
pub fn run(options: &Options) -> Result<u8, MonitorError> {
    options.check()?;
    if options.once || options.json || !std::io::stdout().is_terminal() {
        return headless::run(options);
    }
    // Such a terminal cannot move its cursor: new text is printed below the old.
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        let interval = Some(options.interval.unwrap_or(1.0));
        return headless::run(&Options { interval, ..options.clone() });
    }
    terminal::run(options)
}
