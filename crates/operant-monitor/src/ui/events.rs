//! What happened in the run, newest last. Times of day are UTC.

use operant_metrics::{Event, Level};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::panel::{self, Context};
use super::text;
use crate::date::Date;

/// Columns of the time of day and the blank after it.
const TIME: usize = 9;
/// Narrower panels leave the time out.
const TIME_FITS: u16 = 34;

/// One event, or several consecutive ones that differ only in their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folded<'a> {
    /// The newest of them.
    pub event: &'a Event,
    pub count: usize,
}

impl Folded<'_> {
    /// The newest text, with how many there were.
    pub fn text(&self) -> String {
        match self.count {
            1 => self.event.text.clone(),
            count => format!("{} (x{count})", self.event.text),
        }
    }
}

/// The events, oldest first, with consecutive similar ones folded, so that frequent checkpoints do not displace others.
pub fn folded(events: &[Event]) -> Vec<Folded<'_>> {
    let shape = |event: &Event| -> String { event.text.chars().filter(|c| !c.is_ascii_digit()).collect() };
    let alike = |a: &Event, b: &Event| a.level == b.level && shape(a) == shape(b);
    events
        .chunk_by(alike)
        .filter_map(|group| Some(Folded { event: group.last()?, count: group.len() }))
        .collect()
}

/// Draws the panel into `area`. `context.selected` counts events from the newest, which is how far up it is scrolled.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let events = folded(&context.run.events);
    let newer = context.selected.min(events.len().saturating_sub(1));
    let note = match newer {
        0 => Line::styled("UTC", context.theme.muted),
        _ => Line::styled(format!("{newer} newer below"), context.theme.accent),
    };
    let inside = panel::frame_with(context, "events", note, area, buffer);
    if inside.is_empty() {
        return;
    }
    if events.is_empty() {
        return panel::empty(context, "nothing has happened yet", inside, buffer);
    }
    // From the newest up, until the panel is full; the oldest line shown comes first.
    let mut shown = Vec::with_capacity(usize::from(inside.height));
    for event in events[..events.len() - newer].iter().rev() {
        let room = usize::from(inside.height) - shown.len();
        shown.extend(lines(context, event, inside.width).into_iter().rev().take(room));
        if shown.len() == usize::from(inside.height) {
            break;
        }
    }
    for (row, line) in shown.iter().rev().enumerate() {
        panel::line(line, inside, row as u16, buffer);
    }
}

/// An event as lines of at most `width` columns, those after the first indented.
fn lines(context: &Context, folded: &Folded, width: u16) -> Vec<Line<'static>> {
    let (theme, event) = (context.theme, folded.event);
    let (mark, style) = match event.level {
        Level::Info => ("", theme.text),
        Level::Warning => ("! ", theme.warning),
        Level::Error => ("!! ", theme.bad),
    };
    let mut head = Vec::new();
    if width >= TIME_FITS {
        let time = Date::of_unix_ns(event.unix_ns).time_of_day();
        head.push(Span::styled(format!("{time:<TIME$}"), theme.muted));
    }
    head.push(Span::styled(mark, style));
    let indent = head.iter().map(Span::width).sum::<usize>();
    let room = usize::from(width).saturating_sub(indent).max(1);
    let texts = text::wrap(&folded.text(), room);
    // An event without a text still has its time.
    let texts = if texts.is_empty() { vec![String::new()] } else { texts };
    texts
        .into_iter()
        .enumerate()
        .map(|(i, text)| match i {
            0 => Line::from([head.clone(), vec![Span::styled(text, style)]].concat()),
            _ => indented(indent, text, style),
        })
        .collect()
}

fn indented(indent: usize, text: String, style: Style) -> Line<'static> {
    Line::from(vec![Span::raw(" ".repeat(indent)), Span::styled(text, style)])
}

#[cfg(test)]
mod tests;
