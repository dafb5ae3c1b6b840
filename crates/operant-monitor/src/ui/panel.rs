//! The context of every panel, and their common parts: frame, title, a line of figures.
//!
//! A panel is a function `draw(context, area, buffer)`. It draws inside `area` and nowhere else, at any size down to
//! nothing, and keeps no state: state between frames is in the [`RunView`] or in the application.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::chart::Paint;
use crate::data::RunView;
use crate::view::View;
use operant_draw::symbols::{Marker, Symbols};
use operant_draw::theme::Theme;

/// Everything that a panel may read.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The run shown.
    pub run: &'a RunView,
    /// Further runs drawn into the same charts.
    pub others: &'a [&'a RunView],
    /// The user's choices for charts: zoom in time, axis, scale, smoothing, filter.
    pub view: &'a View,
    /// Styles by role.
    pub theme: &'a Theme,
    /// Glyphs for borders, bars, arrows.
    pub symbols: &'static Symbols,
    /// What curves and scenes are drawn with.
    pub marker: Marker,
    /// Whether keys go to this panel.
    pub focused: bool,
    /// Whether this panel has the whole screen.
    pub expanded: bool,
    /// The row or figure that the arrows selected in this panel. It may be past the last one: clamp it. Panels that
    /// scroll count from their newest or first row.
    pub selected: usize,
    /// The key that leads to this panel.
    pub key: Option<char>,
    /// Time since the monitor started; it stops while the screen is frozen.
    pub now: Duration,
    /// The wall clock in nanoseconds since 1970; it stops while the screen is frozen.
    pub unix_ns: u64,
}

impl<'a> Context<'a> {
    /// A context with the defaults that a panel is tested with: dark theme, braille, Unicode, neither focused nor
    /// expanded, at time 0.
    pub fn still(run: &'a RunView, view: &'a View, theme: &'a Theme) -> Self {
        Context {
            run,
            others: &[],
            view,
            theme,
            symbols: &operant_draw::symbols::UNICODE,
            marker: Marker::Braille,
            focused: false,
            expanded: false,
            selected: 0,
            key: None,
            now: Duration::ZERO,
            unix_ns: 0,
        }
    }

    /// What charts are painted with.
    pub fn paint(&self) -> Paint<'a> {
        Paint { theme: self.theme, symbols: self.symbols, marker: self.marker }
    }
}

/// Draws the border of a panel with its title at the upper left, and returns the inner area. Too small an area gets no
/// border, and is all inside.
pub fn frame(context: &Context, title: &str, area: Rect, buffer: &mut Buffer) -> Rect {
    frame_with(context, title, Line::default(), area, buffer)
}

/// Like `frame`, with `note` (such as the current value) at the upper right if it fits.
pub fn frame_with(context: &Context, title: &str, note: Line, area: Rect, buffer: &mut Buffer) -> Rect {
    let area = area.intersection(buffer.area);
    if area.width < 8 || area.height < 3 {
        return area;
    }
    let style = if context.focused { context.theme.border_focused } else { context.theme.border };
    context.symbols.border(style, area, buffer);
    let mut spans = Vec::with_capacity(4);
    spans.push(Span::styled(" ", style));
    if let Some(key) = context.key {
        spans.push(Span::styled(key.to_string(), context.theme.accent));
        spans.push(Span::styled(" ", style));
    }
    let title_style = if context.focused { context.theme.accent } else { context.theme.title };
    spans.push(Span::styled(format!("{title} "), title_style));
    // Styles are combined with the style of the border: without an explicit colour the text would have the border's.
    let mut write = |x: u16, line: &Line, room: u16| {
        let width = (line.width() as u16).min(room);
        (x..x + width).for_each(|x| buffer[(x, area.y)].reset());
        buffer.set_line(x, area.y, line, width).0
    };
    let end = write(area.x + 2, &Line::from(spans), area.width.saturating_sub(4));
    let width = note.width() as u16;
    if width > 0 && end + width + 4 < area.right() {
        let mut spans = vec![Span::raw(" ")];
        let style = note.style;
        spans.extend(note.spans.into_iter().map(|span| Span::styled(span.content, style.patch(span.style))));
        spans.push(Span::raw(" "));
        write(area.right() - width - 4, &Line::from(spans), width + 2);
    }
    inside(area)
}

/// The part of a panel inside its border.
pub fn inside(area: Rect) -> Rect {
    match area.width < 8 || area.height < 3 {
        true => area,
        false => Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2),
    }
}

/// One line of the panel, cut at its right edge; nothing where `row` lies below the area.
pub fn line(line: &Line, area: Rect, row: u16, buffer: &mut Buffer) {
    if row < area.height {
        buffer.set_line(area.x, area.y + row, line, area.width);
    }
}

/// A few words in the middle of an empty panel.
pub fn empty(context: &Context, text: &str, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let row = Rect::new(area.x, area.y + area.height / 2, area.width, 1);
    Line::styled(text.to_string(), context.theme.muted).centered().render(row, buffer);
}

/// A horizontal bar of `share` (0 to 1, NaN as nothing) over `area`'s first row.
pub fn bar(context: &Context, share: f64, style: Style, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let bars = context.symbols.bar;
    let parts = bars.len() - 1;
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    let filled = (share * f64::from(area.width) * parts as f64).round() as usize;
    for column in 0..usize::from(area.width) {
        let cell = &mut buffer[(area.x + column as u16, area.y)];
        match filled.saturating_sub(column * parts).min(parts) {
            0 => cell.set_symbol(context.symbols.trough).set_style(context.theme.faint),
            part => cell.set_symbol(bars[part]).set_style(style),
        };
    }
}
