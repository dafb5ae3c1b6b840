//! Steps per second: over each update, with the average since training began.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::chart::Fill;
use super::curves;
use super::panel::{self, Context};
use crate::format;

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    let now = context.run.value("sps");
    let mut note = Vec::new();
    if !now.is_nan() {
        note.push(Span::styled(format::short(now), theme.strong));
        let average = context.run.value("sps_average");
        if !average.is_nan() {
            note.push(Span::styled(format!("  average {}", format::short(average)), theme.muted));
        }
    }
    let inner = panel::frame_with(context, "steps per second", Line::from(note), area, buffer);
    let mut chart = curves::chart(context, "sps", None, inner.width);
    chart.from_zero = true;
    if chart.fill != Fill::Bands {
        chart.fill = Fill::Below;
    }
    chart.legend = inner.height >= 8;
    chart.ramp = context.others.is_empty();
    chart.draw(context.paint(), inner, buffer);
}
