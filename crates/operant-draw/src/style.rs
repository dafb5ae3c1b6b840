//! The capabilities of a snapshot's output: width, characters, colour.

use std::io::IsTerminal;

use operant_metrics::is_obeyed;

use crate::symbols::{ASCII, Symbols, UNICODE, locale_is_utf8};
use crate::theme::{Depth, Detected, Theme, ThemeName};

/// Widest text.
const WIDTH: usize = 80;

/// The capabilities of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns, at least 20.
    pub width: usize,
    /// ASCII alone.
    pub ascii: bool,
    /// Escape sequences for bold and colour.
    pub colour: bool,
}

impl Style {
    /// The capabilities of standard output: 80 columns if it is not a terminal, and colours as [`anstream`] takes them.
    pub fn of_stdout(theme: ThemeName) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let columns = crossterm::terminal::size().ok().filter(|size| terminal && size.0 > 0);
        let colours = Theme::new(theme, Detected::from_environment()).depth != Depth::None;
        Style {
            width: columns.map_or(WIDTH, |(columns, _)| usize::from(columns)).clamp(40, WIDTH),
            ascii: !locale_is_utf8(),
            colour: takes_colours(&std::io::stdout()) && colours,
        }
    }

    /// The glyphs of its locale.
    pub fn symbols(&self) -> &'static Symbols {
        if self.ascii { &ASCII } else { &UNICODE }
    }

    /// Text without control characters and changes of direction, which a terminal would interpret. A ring is a file that
    /// anyone may have written.
    pub fn clean(&self, text: &str) -> String {
        text.chars().map(|c| if is_obeyed(c) || (self.ascii && !c.is_ascii()) { '?' } else { c }).collect()
    }
}

/// Whether this output takes colours: as the program's `--color` chose, or the environment.
fn takes_colours(out: &std::io::Stdout) -> bool {
    anstream::AutoStream::choice(out) != anstream::ColorChoice::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_ring_is_obeyed() {
        let style = Style { width: 80, ascii: false, colour: false };
        assert_eq!(style.clean("a\u{1b}[2J\u{202e}é"), "a?[2J?é");
        assert_eq!(Style { ascii: true, ..style }.clean("é"), "?");
    }
}
