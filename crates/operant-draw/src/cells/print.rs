//! Prints a picture as text to standard output.

use std::fmt::Write as _;

use operant_metrics::{Frame, Point};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::{Brush, Picture};
use crate::style::Style;
use crate::symbols::Marker;
use crate::theme::{Detected, Theme, ThemeName};

/// Maximum number of rows of a picture.
const ROWS: u16 = 20;

/// The frame in at most 20 rows, each indented by `indent` spaces; coloured if standard output is a terminal with
/// colours.
pub fn print(low: Point, high: Point, frame: &Frame, indent: usize) -> String {
    let style = Style::of_stdout(ThemeName::Auto);
    let theme =
        if style.colour { Theme::new(ThemeName::Auto, Detected::from_environment()) } else { Theme::none() };
    let area = Rect::new(0, 0, style.width.saturating_sub(indent) as u16, ROWS);
    let mut buffer = Buffer::empty(area);
    let brush = Brush::new(&theme, style.symbols(), Marker::Braille);
    Picture::new(low, high, std::slice::from_ref(frame)).paint(frame, &brush, area, &mut buffer);
    lines(&buffer, indent)
}

/// The part of a buffer that is not blank.
fn lines(buffer: &Buffer, indent: usize) -> String {
    let area = buffer.area;
    let blank = |x: u16, y: u16| buffer[(x, y)].symbol().trim().is_empty();
    let (rows, columns) = (area.top()..area.bottom(), area.left()..area.right());
    let filled: Vec<u16> = rows.filter(|&y| !columns.clone().all(|x| blank(x, y))).collect();
    let Some((&top, &bottom)) = filled.first().zip(filled.last()) else { return String::new() };
    let left = columns.clone().find(|&x| !(top..=bottom).all(|y| blank(x, y))).unwrap_or(area.left());
    let mut text = String::new();
    for y in top..=bottom {
        let end = columns.clone().rev().find(|&x| !blank(x, y)).map_or(left, |x| x + 1);
        text.push_str(&" ".repeat(if end > left { indent } else { 0 }));
        let mut before = String::new();
        for x in left..end {
            let codes = codes(&buffer[(x, y)]);
            if codes != before {
                let _ = write!(text, "\u{1b}[0{codes}m");
                before = codes;
            }
            text.push_str(buffer[(x, y)].symbol());
        }
        text.push_str(if before.is_empty() { "\n" } else { "\u{1b}[0m\n" });
    }
    text
}

/// Parameters of the escape sequence for a cell's style, each after a semicolon. Without colour there are none: the
/// characters distinguish the tones.
fn codes(cell: &Cell) -> String {
    let mut codes = String::new();
    if cell.fg != Color::Reset || cell.bg != Color::Reset {
        if cell.modifier.contains(Modifier::BOLD) {
            codes.push_str(";1");
        }
        colour(cell.fg, 30, &mut codes);
        colour(cell.bg, 40, &mut codes);
    }
    codes
}

/// `base` is 30 for the foreground, 40 for the background.
fn colour(colour: Color, base: u8, codes: &mut String) {
    let index = match colour {
        Color::Rgb(r, g, b) => {
            let _ = write!(codes, ";{};2;{r};{g};{b}", base + 8);
            return;
        }
        Color::Indexed(index) => {
            let _ = write!(codes, ";{};5;{index}", base + 8);
            return;
        }
        Color::Reset => return,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
    };
    let _ = write!(codes, ";{}", base + index);
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style as Look;

    use super::*;

    #[test]
    fn blank_margins_are_left_out_and_colours_are_escape_sequences() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 4));
        buffer.set_string(3, 1, "ab", Look::new().fg(Color::Indexed(9)));
        buffer.set_string(2, 2, "c", Look::new().fg(Color::LightRed).bg(Color::Rgb(1, 2, 3)));
        let text = lines(&buffer, 2);
        assert_eq!(text, "   \u{1b}[0;38;5;9mab\u{1b}[0m\n  \u{1b}[0;91;48;2;1;2;3mc\u{1b}[0m\n");
        let mut bare = Buffer::empty(Rect::new(0, 0, 8, 4));
        bare.set_string(1, 1, "x y", Look::new().add_modifier(Modifier::BOLD));
        assert_eq!(lines(&bare, 1), " x y\n");
        assert_eq!(lines(&Buffer::empty(Rect::new(0, 0, 3, 3)), 1), "");
    }
}
