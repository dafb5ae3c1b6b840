//! The phases of an update (the table's group `time`), as shares of the total and as time per update, averaged over
//! the updates that the charts show.

use operant_metrics::{MetricInfo, SeriesPoint};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::chart::Chart;
use super::curves;
use super::panel::{self, Context};
use crate::data::RunView;
use crate::format;
use operant_draw::theme::ThemeName;

/// The group of the table whose metrics are phases, and what their names begin with.
const GROUP: &str = "time";
const PREFIX: &str = "time_";
/// Points for a mean; their number does not change it, because each is weighted by its updates.
const POINTS: usize = 64;
/// Minimum rows of the curves of an expanded panel.
const LEAST_CHART: u16 = 6;
/// Fills that distinguish phases where there is no colour.
const FILLS: [&str; 5] = ["█", "▒", "▓", "░", "·"];

#[derive(Debug, Clone, PartialEq)]
struct Phase {
    /// `rollout`, `gae`...
    name: String,
    /// Seconds of an update, on average.
    seconds: f64,
    /// Share of the update.
    share: f64,
}

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let phases = phases(context);
    let total: f64 = phases.iter().map(|phase| phase.seconds).sum();
    let note = match total > 0.0 {
        true => Line::from(vec![
            Span::styled(format::seconds(total), context.theme.strong),
            Span::styled(" an update", context.theme.muted),
        ]),
        false => Line::default(),
    };
    let inside = panel::frame_with(context, "phases", note, area, buffer);
    if inside.is_empty() {
        return;
    }
    if total <= 0.0 {
        return panel::empty(context, "no update yet", inside, buffer);
    }
    bar(context, &phases, Rect { height: 1, ..inside }, buffer);
    // A blank line under the bar, if all phases still fit.
    let gap = u16::from(usize::from(inside.height) >= phases.len() + 2);
    let rows = inside.height.saturating_sub(1 + gap);
    if rows == 0 {
        return;
    }
    let mut list = Rect { y: inside.y + 1 + gap, height: rows, ..inside };
    let after = phases.len() as u16 + 1;
    if context.expanded && list.height >= after + LEAST_CHART {
        let below = Rect { y: list.y + after, height: list.height - after, ..list };
        list.height = after - 1;
        history(context, below).draw(context.paint(), below, buffer);
    }
    let rows = list.height;
    if usize::from(rows) >= phases.len() {
        for (i, phase) in phases.iter().enumerate() {
            row(context, i, phase, Rect { y: list.y + i as u16, height: 1, ..list }, buffer);
        }
    } else {
        summary(context, &phases, list, buffer);
    }
}

/// The time of each phase over the updates that the charts show, in the colours of the bar.
fn history<'a>(context: &Context<'a>, area: Rect) -> Chart<'a> {
    let names = metrics(context.run).map(|(_, metric)| metric.name.clone());
    let mut chart = curves::chart_of(context, names, area.width);
    for curve in &mut chart.curves {
        curve.name = curve.name.strip_prefix(PREFIX).unwrap_or(&curve.name).to_owned();
    }
    chart.unit = "s";
    chart
}

/// The metrics that are phases, with their positions.
fn metrics(run: &RunView) -> impl Iterator<Item = (usize, &MetricInfo)> {
    let all = run.schema().metrics().iter().enumerate();
    all.filter(|(_, metric)| metric.group == GROUP && metric.unit == "s")
}

/// The phases of the run shown, over the visible window.
fn phases(context: &Context) -> Vec<Phase> {
    let run = context.run;
    let Some(x) = run.position("update") else { return Vec::new() };
    let updates = context.view.window.updates(run.last_update);
    let mut phases: Vec<Phase> = metrics(run)
        .map(|(y, metric)| Phase {
            name: metric.name.strip_prefix(PREFIX).unwrap_or(&metric.name).to_owned(),
            seconds: mean(&run.series_of(x, y, updates.clone(), POINTS)),
            share: 0.0,
        })
        .collect();
    let total: f64 = phases.iter().map(|phase| phase.seconds).sum();
    phases.iter_mut().for_each(|phase| phase.share = if total > 0.0 { phase.seconds / total } else { 0.0 });
    phases
}

/// Mean over all updates of the points, each of which covers the updates since the previous one; 0 where
/// nothing was reported.
fn mean(points: &[SeriesPoint]) -> f64 {
    let mut before: Option<u64> = None;
    let (mut sum, mut weights) = (0.0, 0.0);
    for (i, point) in points.iter().enumerate() {
        // The number of updates in the first point is unknown: it is assumed to equal the second's, up to the updates before it.
        let since = before.unwrap_or_else(|| {
            let step = points.get(i + 1).map_or(1, |next| next.update.saturating_sub(point.update).max(1));
            point.update.saturating_sub(step)
        });
        before = Some(point.update);
        if point.mean.is_finite() {
            let weight = point.update.saturating_sub(since).max(1) as f64;
            sum += point.mean.max(0.0) * weight;
            weights += weight;
        }
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}

/// Style and glyph of a phase's part of the bar.
fn fill<'a>(context: &Context, number: usize, name: &'a str) -> (Style, &'a str) {
    let style = context.theme.curve(number);
    match (context.symbols.unicode, context.theme.name) {
        // Its initial: R for the rollout.
        (false, _) => (style, name.get(..1).unwrap_or("?")),
        (true, ThemeName::None) => (style, FILLS[number % FILLS.len()]),
        (true, _) => (style, "█"),
    }
}

/// All phases in one bar. Cells go to the phases by largest remainder, so that they always fill it exactly.
fn bar(context: &Context, phases: &[Phase], area: Rect, buffer: &mut Buffer) {
    let mut x = area.x;
    for (i, cells) in apportion(phases, area.width).into_iter().enumerate() {
        let (style, glyph) = fill(context, i, &phases[i].name);
        for _ in 0..cells {
            buffer[(x, area.y)].set_symbol(glyph).set_style(style);
            x += 1;
        }
    }
}

/// How many of `width` cells each phase gets.
fn apportion(phases: &[Phase], width: u16) -> Vec<u16> {
    let exact: Vec<f64> = phases.iter().map(|phase| phase.share * f64::from(width)).collect();
    let mut cells: Vec<u16> = exact.iter().map(|share| share.floor() as u16).collect();
    let mut order: Vec<usize> = (0..phases.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let left = width.saturating_sub(cells.iter().sum());
    for i in order.into_iter().take(usize::from(left)) {
        cells[i] += 1;
    }
    cells
}

/// One phase: sample of its fill, name, share, time, and a bar of its own where there is room.
fn row(context: &Context, number: usize, phase: &Phase, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    let (style, glyph) = fill(context, number, &phase.name);
    let spans = vec![
        Span::styled(glyph.to_owned(), style),
        Span::styled(format!(" {:<8}", phase.name), theme.text),
        Span::styled(format!("{:>6}", share(phase.share)), theme.strong),
        Span::styled(format!("{:>9}", format::seconds(phase.seconds)), theme.muted),
    ];
    let line = Line::from(spans);
    let used = line.width() as u16 + 2;
    panel::line(&line, area, 0, buffer);
    if area.width >= used + 6 {
        let rest = Rect { x: area.x + used, width: area.width - used, ..area };
        panel::bar(context, phase.share, style, rest, buffer);
    }
}

/// A share, with more decimals for small values.
fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// The phases in running text, the longest first: with their times if that leaves room for all, else without, and as
/// many as there is room for.
fn summary(context: &Context, phases: &[Phase], area: Rect, buffer: &mut Buffer) {
    let mut order: Vec<usize> = (0..phases.len()).collect();
    order.sort_by(|a, b| phases[*b].seconds.total_cmp(&phases[*a].seconds));
    let words = |times: bool| -> Vec<Line> {
        let word = |&i: &usize| {
            let (style, glyph) = fill(context, i, &phases[i].name);
            let mut spans = vec![
                Span::styled(glyph.to_owned(), style),
                Span::styled(format!(" {} ", phases[i].name), context.theme.text),
                Span::styled(share(phases[i].share), context.theme.strong),
            ];
            if times {
                let time = format!(" {}", format::seconds(phases[i].seconds));
                spans.push(Span::styled(time, context.theme.muted));
            }
            Line::from(spans)
        };
        order.iter().map(word).collect()
    };
    let places = |words: &[Line]| flow(&words.iter().map(Line::width).collect::<Vec<_>>(), area);
    let mut words_shown = words(true);
    let mut placed = places(&words_shown);
    if placed.len() < words_shown.len() {
        words_shown = words(false);
        placed = places(&words_shown);
    }
    for (line, (x, y)) in words_shown.iter().zip(placed) {
        buffer.set_line(x, y, line, area.right() - x);
    }
}

/// The positions of words of these widths, row by row, two columns apart; as many as fit.
fn flow(widths: &[usize], area: Rect) -> Vec<(u16, u16)> {
    let mut places = Vec::with_capacity(widths.len());
    let (mut x, mut row) = (0, 0);
    for &width in widths {
        if x > 0 && x + width > usize::from(area.width) {
            (x, row) = (0, row + 1);
        }
        if row >= area.height || width > usize::from(area.width) {
            break;
        }
        places.push((area.x + x as u16, area.y + row));
        x += width + 2;
    }
    places
}

#[cfg(test)]
mod tests;
