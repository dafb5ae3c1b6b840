//! The scene: environment 0, drawn as it acts. The ring carries its last episode as frames of a few shapes, so any
//! environment is drawn, known to this program or not.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::panel::{self, Context};
use crate::data::Playing;
use crate::format;
use operant_draw::cells::Brush;

/// Draws the panel into `area`, from `context.run.stage`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let Some(playing) = context.run.stage.playing() else {
        let inside = panel::frame(context, "scene", area, buffer);
        let why = match (context.run.is_recorded(), context.run.status.health.is_alive()) {
            (true, _) => "no picture is kept of this run",
            // Only environments in worker processes are waited for.
            _ if context.run.value("env_wait").is_finite() => "Gymnasium runs have no picture",
            (false, true) => "no episode has ended yet",
            (false, false) => "no episode was shown",
        };
        return panel::empty(context, why, inside, buffer);
    };
    let inside = panel::frame_with(context, "scene", note(context, playing, area.width), area, buffer);
    if let Some(frame) = playing.frame() {
        let brush = Brush::new(context.theme, context.symbols, context.marker);
        playing.picture.paint(frame, &brush, inside, buffer);
    }
}

/// The note on the current episode: `return 498 · 120/498`, shorter where there is less room.
fn note(context: &Context, playing: &Playing, width: u16) -> Line<'static> {
    let (theme, episode) = (context.theme, &playing.episode);
    let mut spans = Vec::new();
    if episode.episodic_return.is_finite() {
        spans.push(Span::styled("return ", theme.muted));
        spans.push(Span::styled(format::short(f64::from(episode.episodic_return)), theme.strong));
    }
    if width >= 44 || spans.is_empty() {
        if !spans.is_empty() {
            spans.push(Span::styled(context.symbols.separator, theme.muted));
        }
        let frames = episode.frames.len();
        // Padded to the width at the last frame, because a note of changing width is hard to read.
        let digits = frames.to_string().len();
        spans.push(Span::styled(format!("frame {:>digits$}/{frames}", playing.number()), theme.muted));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests;
