//! The metrics of the environment's own: names, newest values and bars, in as many columns as they need.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::metrics::draw_trend;
use super::panel::{self, Context};
use super::text;
use crate::format;

/// The least width of a column; the width of a value, of the shortest bar and of a trend.
const LEAST: u16 = 36;
const VALUE: u16 = 7;
const BAR: u16 = 6;
const TREND: u16 = 24;

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let own = context.run.own();
    let inside = panel::inside(area);
    let most = usize::from(inside.width / LEAST).max(1);
    let height = usize::from(inside.height).max(1);
    let columns = (1..most).find(|columns| own.len() <= columns * height).unwrap_or(most);
    let page = columns * height;
    let selected = context.selected.min(own.len().saturating_sub(1));
    let note = match page < own.len() {
        true => format!("{}/{}", selected + 1, own.len()),
        false => format!("{} metrics", own.len()),
    };
    let inner =
        panel::frame_with(context, "environment", Line::styled(note, context.theme.muted), area, buffer);
    if own.is_empty() {
        return panel::empty(context, "this environment has no metrics of its own", inner, buffer);
    }
    let first = selected / page * page;
    let shown = &own[first..own.len().min(first + page)];
    // Down the left column, then down the next one.
    let rows = if page < own.len() { height } else { shown.len().div_ceil(columns) };
    let name = |at: &usize| context.run.schema().metrics().get(*at).map_or(0, |metric| metric.name.len());
    let longest = own.iter().map(name).max().unwrap_or(0) as u16 + 1;
    let edge = |column: usize| (usize::from(inner.width) * column / columns) as u16;
    for (i, position) in shown.iter().enumerate() {
        let (column, row) = (i / rows, (i % rows) as u16);
        let air = if column > 0 { 2 } else { 0 };
        let (left, right) = (edge(column) + air, edge(column + 1));
        let cell = Rect::new(inner.x + left, inner.y + row, right.saturating_sub(left), 1);
        let is_selected = context.focused && first + i == selected;
        let name_width = longest.min(cell.width.saturating_sub(VALUE + BAR));
        draw_one(context, *position, name_width, is_selected, cell, buffer);
    }
}

fn draw_one(
    context: &Context,
    position: usize,
    name_width: u16,
    selected: bool,
    area: Rect,
    buffer: &mut Buffer,
) {
    let (theme, run) = (context.theme, context.run);
    let Some(metric) = run.schema().metrics().get(position) else { return };
    let (value, share) = format::own(metric, run.last_reported(&metric.name), &run.summary_of(position));
    let value = if value.is_empty() { context.symbols.missing.to_owned() } else { value };
    let pointer = if selected { context.symbols.pointer } else { " " };
    let name =
        text::cut(&format!("{pointer}{}", metric.name), usize::from(name_width), context.symbols.ellipsis);
    panel::line(&Line::styled(name, if selected { theme.accent } else { theme.text }), area, 0, buffer);
    let value = format!("{value:>0$}", usize::from(VALUE));
    let mut rest = Rect { x: area.x + name_width, width: area.width - name_width, ..area };
    panel::line(&Line::styled(value, theme.strong), rest, 0, buffer);
    (rest.x, rest.width) = (rest.x + VALUE + 1, rest.width.saturating_sub(VALUE + 1));
    if rest.width >= 2 * TREND {
        rest.width -= TREND + 2;
        draw_trend(context, &metric.name, Rect { x: rest.right() + 2, width: TREND, ..rest }, buffer);
    }
    if !share.is_nan() {
        panel::bar(context, share, theme.curve(0), rest, buffer);
    }
}
