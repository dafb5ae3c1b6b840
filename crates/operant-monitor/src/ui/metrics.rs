//! Every metric of the ring, as a list that can be scrolled and filtered.

use operant_metrics::MetricKind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::chart::SINGLE_PRECISION;
use super::panel::{self, Context};
use super::table::{self, CellLayout, GAP};
use super::text;
use crate::data::RunView;
use crate::format;

/// Positions of the metrics whose name, group or meaning contains `filter`, in the order of the schema.
pub fn matching(run: &RunView, filter: &str) -> Vec<usize> {
    let filter = filter.to_lowercase();
    let metrics = run.schema().metrics().iter().enumerate();
    let matching = metrics.filter(|(_, metric)| {
        filter.is_empty()
            || [&metric.name, &metric.group, &metric.help]
                .iter()
                .any(|text| text.to_lowercase().contains(&filter))
    });
    matching.map(|(i, _)| i).collect()
}

/// A column of the list.
struct Column {
    title: &'static str,
    width: u16,
    /// The minimum width of a panel that shows it.
    from: u16,
    right: bool,
}

const COLUMNS: [Column; 7] = [
    Column { title: "metric", width: 21, from: 0, right: false },
    Column { title: "last", width: 11, from: 0, right: true },
    Column { title: "min", width: 11, from: 90, right: true },
    Column { title: "mean", width: 11, from: 60, right: true },
    Column { title: "max", width: 11, from: 75, right: true },
    Column { title: "trend", width: 24, from: 60, right: false },
    Column { title: "meaning", width: 200, from: 130, right: false },
];

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    let metrics = context.run.schema().metrics();
    let matching = matching(context.run, &context.view.filter);
    let note = match context.view.filter.as_str() {
        "" => Line::styled(format!("{} metrics", metrics.len()), theme.muted),
        filter => {
            Line::styled(format!("{} of {} with '{filter}'", matching.len(), metrics.len()), theme.accent)
        }
    };
    let inner = panel::frame_with(context, "all metrics", note, area, buffer);
    if inner.height < 2 || inner.width < 12 {
        return;
    }
    if matching.is_empty() {
        return panel::empty(context, "no metric has that in its name or meaning", inner, buffer);
    }
    let layouts = COLUMNS.each_ref().map(|column| CellLayout {
        width: (inner.width >= column.from).then_some(column.width),
        right: column.right,
    });
    let heads = COLUMNS.each_ref().map(|column| (column.title.to_string(), theme.muted));
    table::row(&heads, &layouts, inner, 0, buffer);
    let room = usize::from(inner.height) - 1;
    let selected = context.selected.min(matching.len() - 1);
    let first = (selected + 1).saturating_sub(room).max(selected.saturating_sub(room / 2));
    let first = first.min(matching.len().saturating_sub(room));
    for (line, position) in matching.iter().enumerate().skip(first).take(room) {
        let Some(metric) = metrics.get(*position) else { continue };
        let is_selected = line == selected;
        let at = (line - first) as u16 + 1;
        let summary = context.run.summary_of(*position);
        let last = context.run.latest.get(*position).copied().unwrap_or(f64::NAN);
        // Other units follow from the name or the meaning, so they are not repeated.
        let unit = match metric.unit.as_str() {
            unit @ ("s" | "B" | "W" | "Hz" | "degC") => unit,
            _ => "1",
        };
        let figure = |value: f64| match format::with_unit(value, unit) {
            text if text.is_empty() => (context.symbols.missing.to_string(), theme.faint),
            text => (text, theme.text),
        };
        let name = format!("{}{}", if is_selected { context.symbols.pointer } else { " " }, metric.name);
        let name = text::cut(&name, usize::from(COLUMNS[0].width), context.symbols.ellipsis);
        // The mean of a counter is meaningless.
        let mean = if metric.kind == MetricKind::Counter { f64::NAN } else { summary.mean };
        table::row(
            &[
                (name, if is_selected { theme.accent } else { theme.text }),
                (figure(last).0, if last.is_nan() { theme.faint } else { theme.strong }),
                figure(summary.min),
                figure(mean),
                figure(summary.max),
                (String::new(), theme.text),
                (metric.help.clone(), theme.muted),
            ],
            &layouts,
            inner,
            at,
            buffer,
        );
        let trend =
            COLUMNS[..5].iter().filter(|column| inner.width >= column.from).map(|column| column.width + GAP);
        let trend: u16 = trend.sum();
        if inner.width >= COLUMNS[5].from {
            // A panel that is too narrow for all of it still shows the whole run.
            let width = COLUMNS[5].width.min(inner.width.saturating_sub(trend));
            draw_trend(context, &metric.name, Rect::new(inner.x + trend, inner.y + at, width, 1), buffer);
        }
        if is_selected && context.focused {
            let cells = Rect { y: inner.y + at, height: 1, ..inner };
            if let Some(tint) = theme.selection.bg {
                buffer.set_style(cells, Style::new().bg(tint));
            }
        }
    }
}

/// The metric over what the view shows, in the first row of `area`.
pub fn draw_trend(context: &Context, metric: &str, area: Rect, buffer: &mut Buffer) {
    let spark = context.symbols.spark;
    for (x, share) in (area.x..area.right()).zip(shares(context, metric, area.width)) {
        if !share.is_nan() {
            let symbol = spark[(1.0 + share * (spark.len() - 2) as f64).round() as usize];
            buffer[(x, area.y)].set_symbol(symbol).set_style(context.theme.ramp(share));
        }
    }
}

/// The metric over what the view shows: for each of `width` columns the height of its mean, from 0 (minimum) to 1 (maximum); NaN
/// where nothing was reported.
fn shares(context: &Context, metric: &str, width: u16) -> Vec<f64> {
    let width = usize::from(width);
    if width == 0 {
        return Vec::new();
    }
    let series = context.run.series(context.view, metric, width * 8);
    let values = || series.iter().filter(|point| point.mean.is_finite());
    let (Some(first), Some(last)) = (series.first(), series.last()) else { return Vec::new() };
    let mut sums = vec![(0.0, 0u32); width];
    for point in values() {
        let share = if last.x > first.x { (point.x - first.x) / (last.x - first.x) } else { 0.0 };
        let column = ((share * width as f64) as usize).min(width - 1);
        sums[column].0 += point.mean;
        sums[column].1 += 1;
    }
    let means: Vec<f64> = sums.into_iter().map(|(sum, count)| sum / f64::from(count)).collect();
    let (low, high) =
        means.iter().fold((f64::NAN, f64::NAN), |(low, high), mean| (mean.min(low), mean.max(high)));
    let size = low.abs().max(high.abs());
    // Where all are the same, half way up.
    let share = |mean: f64| {
        if high - low > size * SINGLE_PRECISION { (mean - low) / (high - low) } else { mean * 0.0 + 0.5 }
    };
    means.into_iter().map(share).collect()
}
