//! A row of a table: texts left-aligned, numbers right-aligned.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Blank columns between two columns of text.
pub const GAP: u16 = 2;

/// The width and alignment of a cell.
#[derive(Debug, Clone, Copy)]
pub struct CellLayout {
    /// Width in terminal columns; longer texts are cut off. `None` hides the column.
    pub width: Option<u16>,
    /// Whether the text is right-aligned.
    pub right: bool,
}

/// Writes `cells` into the row `at` of `area`, each with its layout.
pub fn row(cells: &[(String, Style)], layouts: &[CellLayout], area: Rect, at: u16, buffer: &mut Buffer) {
    if at >= area.height {
        return;
    }
    let mut x = area.x;
    for ((text, style), layout) in cells.iter().zip(layouts) {
        let Some(width) = layout.width.map(|width| width.min(area.right().saturating_sub(x))) else {
            continue;
        };
        if width == 0 {
            continue;
        }
        let indent = if layout.right { width.saturating_sub(text.chars().count() as u16) } else { 0 };
        buffer.set_stringn(x + indent, area.y + at, text, usize::from(width - indent), *style);
        x += width + GAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_aligned_in_their_columns_and_cut_at_the_area() {
        let cells = ["run", "left out", "12.3", "too long"].map(|text| (text.to_string(), Style::new()));
        let layout = |width, right| CellLayout { width, right };
        let layouts =
            [layout(Some(5), false), layout(None, false), layout(Some(6), true), layout(Some(4), false)];
        let area = Rect::new(1, 0, 18, 1);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 2));
        row(&cells, &layouts, area, 0, &mut buffer);
        row(&cells, &layouts, area, 1, &mut buffer);
        let line = |y: u16| -> String { (0..20).map(|x| buffer[(x, y)].symbol()).collect() };
        assert_eq!(line(0), " run      12.3  too ");
        assert_eq!(line(1).trim(), "");
    }
}
