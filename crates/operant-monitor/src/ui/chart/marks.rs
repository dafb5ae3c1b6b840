//! The marks over the curves: the extent of values outside the scale, and the cursor.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::extent::Extent;
use super::plot::Plot;
use super::{Chart, Paint};

impl Chart<'_> {
    /// Marks the extreme values outside the scale, at the upper and the lower edge, near their positions.
    pub(super) fn mark_clipped(&self, paint: Paint, plot: &Plot, values: &Extent, buffer: &mut Buffer) {
        let rows = [plot.area.y, plot.area.bottom() - 1];
        let ends = [values.above, values.below];
        for ((end, arrow), row) in ends.into_iter().zip(paint.symbols.beyond).zip(rows) {
            let Some((x, value)) = end else { continue };
            let text = format!("{arrow}{}", crate::format::short(value));
            let width = text.chars().count() as u16;
            if plot.area.width >= width + 4 && plot.area.height >= 3 {
                let column = (plot.x.share(x).clamp(0.0, 1.0) * f64::from(plot.area.width)) as u16;
                let at = (plot.area.x + column + 1).min(plot.area.right() - width);
                buffer.set_string(at, row, text, paint.theme.warning);
            }
        }
    }

    /// A vertical line at the cursor, with its position below.
    pub(super) fn draw_cursor(
        &self,
        paint: Paint,
        plot: &Plot,
        (column, at): (u16, f64),
        labelled: bool,
        buffer: &mut Buffer,
    ) {
        for row in plot.area.top()..plot.area.bottom() {
            let cell = &mut buffer[(column, row)];
            if [" ", paint.symbols.grid].contains(&cell.symbol()) {
                cell.set_symbol(paint.symbols.edges[1]);
            }
            (cell.fg, cell.modifier) = (Color::Reset, Modifier::empty());
            cell.set_style(paint.theme.accent);
        }
        if labelled {
            let text = format!(" {} ", self.axis.text(at));
            let width = (text.chars().count() as u16).min(plot.area.width);
            let x = column.saturating_sub(width / 2).clamp(plot.area.x, plot.area.right() - width);
            let row = plot.area.bottom();
            // An axis label that it would partly hide is removed.
            let is_blank = |buffer: &Buffer, x: u16| buffer[(x, row)].symbol() == " ";
            let (mut left, mut right) = (x, x + width);
            while left > plot.area.x && !is_blank(buffer, left - 1) {
                left -= 1;
            }
            while right < plot.area.right() && !is_blank(buffer, right) {
                right += 1;
            }
            for x in left..right {
                buffer[(x, row)].set_symbol(" ");
            }
            buffer.set_stringn(x, row, text, usize::from(width), paint.theme.accent);
        }
    }
}
