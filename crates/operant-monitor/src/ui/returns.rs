//! Episodic return: the mean of each update's episodes with their minimum and maximum, and the line at which the
//! environment counts as solved.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::curves::{self, Band};
use super::panel::{self, Context};
use crate::format;

/// Draws the panel into `area`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let theme = context.theme;
    let solved_at = context.run.identity().solved_at.filter(|value| value.is_finite());
    let mut note = Vec::new();
    // An update in which no episode ended has no return: the last one that was reported counts.
    let last = context.run.last_reported("episodic_return");
    let best = context.run.best("episodic_return");
    if !last.is_nan() {
        let solved = solved_at.is_some_and(|threshold| last >= threshold);
        let style = if solved { theme.good } else { theme.text };
        note.push(Span::styled(format::short(last), style.patch(theme.strong).patch(style)));
    }
    if !best.is_nan() {
        note.push(Span::styled(format!("  best {}", format::short(best)), theme.muted));
    }
    if let Some(threshold) = solved_at {
        note.push(Span::styled(format!("  solved at {}", format::short(threshold)), theme.good));
    }
    while Line::from(note.clone()).width() + 24 > usize::from(area.width) && note.len() > 1 {
        note.pop();
    }
    let inner = panel::frame_with(context, "episodic return", Line::from(note), area, buffer);
    let band = Band { low: "episodic_return_min", high: "episodic_return_max" };
    let mut chart = curves::chart(context, "episodic_return", Some(&band), inner.width);
    chart.threshold = solved_at;
    chart.ramp = context.others.is_empty();
    chart.draw(context.paint(), inner, buffer);
}
