//! Glyphs of borders, bars and markers, with a set that any locale can show.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Bits of a braille character for its dots, by row and column.
pub const BRAILLE: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// What charts and scenes are drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Eight dots to a cell.
    Braille,
    /// Two half blocks to a cell.
    Block,
    /// One character to a cell.
    Ascii,
}

impl Marker {
    /// Dots in a cell, across and down.
    pub const fn dots(self) -> (usize, usize) {
        match self {
            Marker::Braille => (2, 4),
            Marker::Block => (1, 2),
            Marker::Ascii => (1, 1),
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Marker::Braille => "braille",
            Marker::Block => "block",
            Marker::Ascii => "ascii",
        }
    }

    /// The next one, in a cycle.
    pub const fn next(self) -> Self {
        match self {
            Marker::Braille => Marker::Block,
            Marker::Block => Marker::Ascii,
            Marker::Ascii => Marker::Braille,
        }
    }
}

/// The glyphs of a locale.
#[derive(Debug, PartialEq, Eq)]
pub struct Symbols {
    /// Whether there is more than ASCII.
    pub unicode: bool,
    /// Corners of a panel: upper left, upper right, lower left, lower right.
    pub corners: [&'static str; 4],
    /// Edges of a panel: horizontal, vertical.
    pub edges: [&'static str; 2],
    /// Before what is selected.
    pub pointer: &'static str,
    /// The light of a state: something that lives.
    pub alive: &'static str,
    /// The light of a state: something that ended.
    pub ended: &'static str,
    /// Between two things on a line, with its spaces.
    pub separator: &'static str,
    /// For a value that was not reported.
    pub missing: &'static str,
    /// Where text was cut.
    pub ellipsis: &'static str,
    /// A grid line across a chart.
    pub grid: &'static str,
    /// Bars of increasing fill, from empty to full, horizontally: the last is a full cell.
    pub bar: &'static [&'static str],
    /// The empty part of a bar.
    pub trough: &'static str,
    /// Columns of increasing height, from empty to full.
    pub spark: &'static [&'static str],
    /// Next to the value of a point above (or below) the visible part of a chart.
    pub beyond: [&'static str; 2],
}

impl Symbols {
    /// Draws a border along the inside of `area`, which is at least 2 x 2.
    pub fn border(&self, style: Style, area: Rect, buffer: &mut Buffer) {
        let (right, bottom) = (area.right() - 1, area.bottom() - 1);
        for x in area.x + 1..right {
            for y in [area.y, bottom] {
                buffer[(x, y)].set_symbol(self.edges[0]).set_style(style);
            }
        }
        for y in area.y + 1..bottom {
            for x in [area.x, right] {
                buffer[(x, y)].set_symbol(self.edges[1]).set_style(style);
            }
        }
        let corners = [(area.x, area.y), (right, area.y), (area.x, bottom), (right, bottom)];
        for (corner, at) in self.corners.iter().zip(corners) {
            buffer[at].set_symbol(corner).set_style(style);
        }
    }
}

/// For UTF-8.
pub static UNICODE: Symbols = Symbols {
    unicode: true,
    corners: ["╭", "╮", "╰", "╯"],
    edges: ["─", "│"],
    pointer: "▸",
    alive: "●",
    ended: "■",
    separator: " · ",
    missing: "–",
    ellipsis: "…",
    grid: "┈",
    bar: &["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    trough: "─",
    spark: &[" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    beyond: ["↑", "↓"],
};

/// For everything else.
pub static ASCII: Symbols = Symbols {
    unicode: false,
    corners: ["+", "+", "+", "+"],
    edges: ["-", "|"],
    pointer: ">",
    alive: "*",
    ended: "#",
    separator: " | ",
    missing: "-",
    ellipsis: "~",
    grid: ".",
    bar: &["", "#"],
    trough: ".",
    spark: &[" ", "_", ".", "-", "=", "+", "*", "#"],
    beyond: ["^", "v"],
};

/// Whether this process's locale is UTF-8.
pub fn locale_is_utf8() -> bool {
    utf8(|name| std::env::var(name).ok())
}

/// The first of LC_ALL, LC_CTYPE and LANG that is set decides, as in POSIX. None set is the "C" locale; but a program
/// started by a service manager has none of them and a terminal that shows UTF-8 all the same, so that counts as UTF-8.
fn utf8(get: impl Fn(&str) -> Option<String>) -> bool {
    let value =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| get(name).filter(|v| !v.is_empty()));
    value.is_none_or(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let locale = |pairs: &[(&str, &str)]| {
            utf8(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
        };
        assert!(locale(&[]));
        assert!(locale(&[("LANG", "en_US.UTF-8")]));
        assert!(locale(&[("LANG", "C.utf8")]));
        assert!(!locale(&[("LANG", "C")]));
        assert!(!locale(&[("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")]));
        assert!(locale(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
        assert!(!locale(&[("LC_CTYPE", "de_DE.ISO-8859-1"), ("LANG", "en_US.UTF-8")]));
    }

    #[test]
    fn ascii_is_ascii() {
        let all = ASCII.corners.iter().chain(&ASCII.edges).chain(ASCII.bar).chain(ASCII.spark);
        let all = all.chain(&ASCII.beyond);
        assert!(all.chain([&ASCII.pointer, &ASCII.missing, &ASCII.ellipsis]).all(|symbol| symbol.is_ascii()));
    }
}
