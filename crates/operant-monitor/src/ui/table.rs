//! A row of a table: texts in columns, numbers to the right.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Blank columns between two columns of text.
pub const GAP: u16 = 2;

/// Where a text stands.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Columns that it has; what is longer is cut off. `None` where the whole column is left out.
    pub width: Option<u16>,
    /// Whether it stands at the right end.
    pub right: bool,
}

/// Writes `cells` into the row `at` of `area`, each in its place.
pub fn row(cells: &[(String, Style)], places: &[Place], area: Rect, at: u16, buffer: &mut Buffer) {
    if at >= area.height {
        return;
    }
    let mut x = area.x;
    for ((text, style), place) in cells.iter().zip(places) {
        let Some(width) = place.width.map(|width| width.min(area.right().saturating_sub(x))) else {
            continue;
        };
        if width == 0 {
            continue;
        }
        let indent = if place.right { width.saturating_sub(text.chars().count() as u16) } else { 0 };
        buffer.set_stringn(x + indent, area.y + at, text, usize::from(width - indent), *style);
        x += width + GAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_in_their_columns_and_never_beyond_the_area() {
        let cells = ["run", "left out", "12.3", "too long"].map(|text| (text.to_string(), Style::new()));
        let place = |width, right| Place { width, right };
        let places = [place(Some(5), false), place(None, false), place(Some(6), true), place(Some(4), false)];
        let area = Rect::new(1, 0, 18, 1);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 2));
        row(&cells, &places, area, 0, &mut buffer);
        row(&cells, &places, area, 1, &mut buffer);
        let line = |y: u16| -> String { (0..20).map(|x| buffer[(x, y)].symbol()).collect() };
        assert_eq!(line(0), " run      12.3  too ");
        assert_eq!(line(1).trim(), "");
    }
}
