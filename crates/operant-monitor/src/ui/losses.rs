//! Losses and related metrics, as small charts side by side.

use operant_metrics::{MetricInfo, MetricSummary};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::panel::{self, Context};
use super::{curves, text};
use crate::format;

/// Columns and rows of `count` small charts in a panel of this area, borders included: as many charts as have room at 15 x 3
/// cells each, in the shape nearest to three times as wide as high. Where that is not all of them, the panel shows a page
/// around the selected one.
pub fn grid(count: usize, area: Rect) -> (usize, usize) {
    let (width, height) =
        (usize::from(area.width.saturating_sub(2)), usize::from(area.height.saturating_sub(2)));
    let sizes = (1..=count).flat_map(|columns| (1..=count).map(move |rows| (columns, rows)));
    let fits = |(columns, rows): &(usize, usize)| {
        (*columns == 1 || width / columns >= 15) && (*rows == 1 || height / rows >= 3)
    };
    let shape = |(columns, rows): &(usize, usize)| {
        let ratio = (width * rows) as f64 / (height * columns).max(1) as f64;
        ratio.max(0.01).ln() - 3f64.ln()
    };
    let better = |a: &(usize, usize), b: &(usize, usize)| {
        let held = |(columns, rows): &(usize, usize)| (columns * rows).min(count);
        let by_shape = shape(b).abs().total_cmp(&shape(a).abs());
        // A grid with empty cells wastes space.
        let wasted = |(columns, rows): &(usize, usize)| (columns * rows).saturating_sub(count);
        held(a).cmp(&held(b)).then(wasted(b).cmp(&wasted(a))).then(by_shape)
    };
    sizes.filter(fits).max_by(better).unwrap_or((1, 1))
}

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let shown = context.run.losses();
    let selected = context.selected.min(shown.len().saturating_sub(1));
    let (columns, rows) = grid(shown.len(), area);
    let page = columns * rows;
    let first = selected / page * page;
    let note = match page < shown.len() {
        true => Line::styled(format!("{}/{}", selected + 1, shown.len()), context.theme.muted),
        false => Line::default(),
    };
    let inner = panel::frame_with(context, "losses", note, area, buffer);
    if inner.width < 4 || inner.height < 2 {
        return;
    }
    for (i, metric) in shown.iter().enumerate().skip(first).take(page) {
        let (column, row) = ((i - first) % columns, (i - first) / columns);
        let edge = |length: u16, part: usize, parts: usize| (usize::from(length) * part / parts) as u16;
        let (left, right) = (edge(inner.width, column, columns), edge(inner.width, column + 1, columns));
        let (top, bottom) = (edge(inner.height, row, rows), edge(inner.height, row + 1, rows));
        // A column of air between neighbours.
        let air = u16::from(column > 0);
        let cell =
            Rect::new(inner.x + left + air, inner.y + top, (right - left).saturating_sub(air), bottom - top);
        draw_one(context, metric, i, i == selected && context.focused, cell, buffer);
    }
}

fn draw_one(
    context: &Context,
    metric: &MetricInfo,
    number: usize,
    selected: bool,
    area: Rect,
    buffer: &mut Buffer,
) {
    let theme = context.theme;
    if area.is_empty() {
        return;
    }
    let value = format::short(context.run.value(&metric.name));
    let style = if selected { theme.accent } else { theme.muted };
    let pointer = if selected { context.symbols.pointer } else { "" };
    let room = usize::from(area.width).saturating_sub(value.chars().count() + 1 + pointer.chars().count());
    let name =
        if metric.name.len() <= room { &metric.name } else { metric.loss.as_ref().unwrap_or(&metric.name) };
    let name = text::cut(name, room, context.symbols.ellipsis);
    let name = format!("{pointer}{name} ");
    let line = Line::from(vec![Span::styled(name, style), Span::styled(value, theme.strong)]);
    panel::line(&line, area, 0, buffer);
    let below = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let mut chart = curves::chart(context, &metric.name, None, below.width);
    if let [only] = &mut chart.curves[..] {
        only.number = number;
    }
    // No legend: the colours are the same as in the other charts, and small charts need the space.
    (chart.values, chart.cursor) = (false, None);
    chart.legend = below.width >= 50 && below.height >= 8;
    chart.draw(context.paint(), below, buffer);
}

/// Minimum, mean, maximum and last of a metric, for the line under its chart.
pub fn summary_line<'a>(context: &Context<'a>, summary: &MetricSummary, unit: &str, width: u16) -> Line<'a> {
    let theme = context.theme;
    let figures =
        [("last", summary.last), ("mean", summary.mean), ("min", summary.min), ("max", summary.max)];
    let mut spans = Vec::new();
    for (name, value) in figures {
        let text = format::with_unit(value, unit);
        let text = if text.is_empty() { context.symbols.missing.to_string() } else { text };
        spans.push(Span::styled(format!("{name} "), theme.muted));
        spans.push(Span::styled(format!("{text}   "), theme.strong));
    }
    let over = Span::styled(format!("over {} updates", format::count(summary.count)), theme.muted);
    if Line::from(spans.clone()).width() + over.width() <= usize::from(width) {
        spans.push(over);
    }
    Line::from(spans)
}
