//! The axis labels to the left of and below a chart.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::plot::Plot;
use super::{Chart, Label, Paint};
use crate::view::Axis;

impl Chart<'_> {
    pub(super) fn draw_value_axis(
        &self,
        paint: Paint,
        plot: &Plot,
        ticks: &[(f64, String)],
        named: Option<&(f64, String)>,
        gutter: u16,
        buffer: &mut Buffer,
    ) {
        let row_of = |value: f64| plot.row(value);
        let reserved = named.map(|(value, _)| row_of(*value));
        let mut write = |row: u16, text: &str, style: Style| {
            let width = text.chars().count() as u16;
            let x = plot.area.x.saturating_sub(1 + width).max(plot.area.x - gutter);
            buffer.set_string(x, row, text, style);
        };
        let mut taken = reserved;
        for (value, text) in ticks {
            let row = row_of(*value);
            if Some(row) == taken || Some(row) == reserved {
                continue;
            }
            taken = Some(row);
            write(row, text, paint.theme.muted);
        }
        if let Some((value, text)) = named {
            write(row_of(*value), text, paint.theme.good);
        }
        if plot.area.height >= 8 && plot.area.width >= 24 {
            for (value, _) in ticks {
                let row = row_of(*value);
                for x in plot.area.left()..plot.area.right() {
                    buffer[(x, row)].set_symbol(paint.symbols.grid).set_style(paint.theme.faint);
                }
            }
        }
    }

    pub(super) fn draw_bottom_axis(&self, paint: Paint, plot: &Plot, area: Rect, buffer: &mut Buffer) {
        let row = area.bottom() - 1;
        let style = paint.theme.muted;
        let most = usize::from(plot.area.width / 10).clamp(2, 10);
        let unit = match self.axis {
            Axis::Time => "",
            axis => axis.label(),
        };
        // The unit is at the right end, which no label reaches.
        let unit_width = if usize::from(plot.area.width) > unit.len() + 20 { unit.len() as u16 } else { 0 };
        let mut free = area.x;
        let last = plot.area.right() - unit_width.min(plot.area.width);
        for (value, text) in plot.x.ticks(most, Label::Axis(self.axis)) {
            let share = plot.x.share(value);
            let width = text.len() as u16;
            let center = f64::from(plot.area.x) + share * f64::from(plot.area.width.saturating_sub(1));
            let limit = last.saturating_sub(width + u16::from(unit_width > 0));
            let x = ((center - f64::from(width) / 2.0 + 0.5).max(0.0) as u16).max(plot.area.x).min(limit);
            if x < free || x + width > last || (0.0..=1.0).contains(&share).eq(&false) {
                continue;
            }
            buffer.set_string(x, row, &text, style);
            free = x + width + 2;
        }
        if unit_width > 0 {
            buffer.set_string(last, row, unit, style);
        }
    }
}
