//! Utilization over time, from the records: a small chart for each metric that was sampled.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::format;
use crate::ui::chart::Fill;
use crate::ui::curves;
use crate::ui::panel::{self, Context};

/// The metrics, most important first, with their labels.
const SHOWN: [(&str, &str); 6] = [
    ("cpu_utilization", "CPU"),
    ("resident_memory", "RSS"),
    ("gpu_utilization", "GPU"),
    ("gpu_memory", "GPU memory"),
    ("gpu_power", "GPU power"),
    ("gpu_temperature", "GPU temperature"),
];
/// The least size of one chart.
const LEAST: (u16, u16) = (30, 4);

/// Draws as many charts as have room.
pub(super) fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let run = context.run;
    let reported = |(name, _): &&(&str, &str)| run.summary(name).is_some_and(|summary| summary.count > 0);
    let shown: Vec<_> = SHOWN.iter().filter(reported).collect();
    let abreast = usize::from(area.width / LEAST.0).clamp(1, 3).min(shown.len().max(1));
    let most = usize::from(area.height / LEAST.1) * abreast;
    let shown = &shown[..shown.len().min(most)];
    let rows = shown.len().div_ceil(abreast).max(1);
    for (i, (name, label)) in shown.iter().enumerate() {
        let part = |length: u16, at: usize, of: usize| (usize::from(length) * at / of) as u16;
        let (column, row) = (i % abreast, i / abreast);
        let (left, right) = (part(area.width, column, abreast), part(area.width, column + 1, abreast));
        let (top, bottom) = (part(area.height, row, rows), part(area.height, row + 1, rows));
        // A column of space between neighbours.
        let space = u16::from(column > 0);
        let cell = Rect::new(area.x + left + space, area.y + top, right - left - space, bottom - top);
        draw_one(context, i, name, label, cell, buffer);
    }
}

fn draw_one(context: &Context, number: usize, name: &str, label: &str, area: Rect, buffer: &mut Buffer) {
    let (run, theme) = (context.run, context.theme);
    let value = run.last_reported(name);
    // Shares are percentages in this panel.
    let text = match run.unit(name) {
        "1" => format::percent(value),
        unit => format::with_unit(value, unit),
    };
    let title =
        Line::from(vec![Span::styled(format!("{label} "), theme.muted), Span::styled(text, theme.strong)]);
    panel::line(&title, area, 0, buffer);
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let mut chart = curves::chart(context, name, None, below.width);
    if let [only] = &mut chart.curves[..] {
        only.number = number;
    }
    (chart.values, chart.cursor, chart.from_zero) = (false, None, true);
    (chart.fill, chart.legend) = (Fill::Below, below.height >= 8);
    chart.draw(context.paint(), below, buffer);
}
