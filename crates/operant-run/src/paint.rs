//! Colours of what is printed outside the monitor, as few as cargo has. Text is painted always; the stream of `anstream` that writes it
//! removes the codes where `--color`, NO_COLOR or a pipe asks for none.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use operant_metrics::printable;

/// The word `error:`, and states that need help.
pub const BAD: Style = AnsiColor::BrightRed.on_default().bold();

/// The word `warning:`, and states that may need help.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// What is as it should be.
pub const GOOD: Style = AnsiColor::BrightGreen.on_default().bold();

/// Labels below an error, such as `remedy:`, and words to type.
pub const LABEL: Style = AnsiColor::BrightCyan.on_default().bold();

/// Headers of tables.
pub const HEADER: Style = Style::new().bold();

/// The text in a style.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A warning, without the characters that a terminal obeys.
pub fn warning(text: &str) -> String {
    format!("{} {}", paint(WARNING, "warning:"), printable(text))
}
