//! Dots on terminal cells: braille, half blocks or single characters, in layers of which the higher hides the lower.

use ratatui::style::Style;

use operant_draw::symbols::{BRAILLE, Marker};

/// The visible content of a cell: its highest layer.
#[derive(Debug, Clone, Copy)]
struct Cell {
    dots: u8,
    layer: u8,
    style: Style,
}

/// A grid of dots.
pub struct Raster {
    marker: Marker,
    columns: usize,
    rows: usize,
    cells: Vec<Cell>,
}

impl Raster {
    /// An empty one of `columns x rows` cells.
    pub fn new(marker: Marker, columns: usize, rows: usize) -> Self {
        let empty = Cell { dots: 0, layer: 0, style: Style::new() };
        Raster { marker, columns, rows, cells: vec![empty; columns * rows] }
    }

    /// Width in dots.
    pub fn width(&self) -> usize {
        self.columns * self.marker.dots().0
    }

    /// Height in dots.
    pub fn height(&self) -> usize {
        self.rows * self.marker.dots().1
    }

    /// Sets a dot, counted from the upper left. Outside the grid nothing happens.
    pub fn dot(&mut self, x: i64, y: i64, layer: u8, style: Style) {
        let (across, down) = self.marker.dots();
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= self.width() || y >= self.height() {
            return;
        }
        let cell = &mut self.cells[y / down * self.columns + x / across];
        if layer < cell.layer {
            return;
        }
        if layer > cell.layer {
            cell.dots = 0;
        }
        let bit = match self.marker {
            Marker::Braille => BRAILLE[y % 4][x % 2],
            Marker::Block => 1 << (y % 2),
            Marker::Ascii => 1,
        };
        *cell = Cell { dots: cell.dots | bit, layer, style };
    }

    /// Sets the dots of a line between two points in dots; parts outside the grid are cut off.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), layer: u8, style: impl Fn(i64) -> Style) {
        let height = self.height() as f64;
        let (mut from, mut to) = (from, to);
        if from.0 > to.0 {
            std::mem::swap(&mut from, &mut to);
        }
        let slope = if to.0 > from.0 { (to.1 - from.1) / (to.0 - from.0) } else { 0.0 };
        let (start, end) = (from.0.floor().max(0.0), to.0.floor().min(self.width() as f64 - 1.0));
        if start > end || !(from.1.is_finite() && to.1.is_finite()) {
            return;
        }
        for column in start as i64..=end as i64 {
            // The part of the line inside this column of dots.
            let (left, right) = ((column as f64).max(from.0), (column as f64 + 1.0).min(to.0));
            let (a, b) = match to.0 > from.0 {
                true => (from.1 + (left - from.0) * slope, from.1 + (right - from.0) * slope),
                false => (from.1, to.1),
            };
            let (top, bottom) = (a.min(b), a.max(b));
            if bottom < 0.0 || top >= height {
                continue;
            }
            let (top, bottom) = (top.max(0.0).floor() as i64, bottom.min(height - 1.0).floor() as i64);
            for row in top..=bottom {
                self.dot(column, row, layer, style(row));
            }
        }
    }

    /// The content of the cell at `column`, `row`, if it has a dot.
    pub fn symbol(&self, column: usize, row: usize) -> Option<(char, u8, Style)> {
        let cell = self.cells[row * self.columns + column];
        let symbol = match (self.marker, cell.dots) {
            (_, 0) => return None,
            (Marker::Braille, dots) => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
            (Marker::Block, 1) => '▀',
            (Marker::Block, 2) => '▄',
            (Marker::Block, _) => '█',
            (Marker::Ascii, _) => '*',
        };
        Some((symbol, cell.layer, cell.style))
    }
}
