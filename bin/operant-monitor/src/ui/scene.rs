//! The scene: environment 0, drawn as it acts. The ring carries its last episode as frames of a few shapes, so any
//! environment is drawn, known to this program or not.

mod board;
mod brush;
mod raster;

use operant_metrics::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use self::brush::Brush;
use self::raster::Raster;
use super::panel::{self, Context};
use crate::data::Playing;
use crate::format;
use crate::symbols::Marker;

/// Draws the panel into `area`, from `context.run.stage`.
pub fn draw(context: &Context, area: Rect, buffer: &mut Buffer) {
    let Some(playing) = context.run.stage.playing() else {
        let inside = panel::frame(context, "scene", area, buffer);
        let why = match (context.run.is_recorded(), context.run.status.health.is_alive()) {
            (true, _) => "no picture is kept of this run",
            (false, true) => "no episode has ended yet",
            (false, false) => "no episode was shown",
        };
        return panel::empty(context, why, inside, buffer);
    };
    let inside = panel::frame_with(context, "scene", note(context, playing, area.width), area, buffer);
    if let Some(frame) = playing.frame() {
        paint(&Brush::of(context), playing, frame, inside, buffer);
    }
}

/// What is playing: `return 498 · 120/498`, shorter where there is less room.
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
        // As wide at the first frame as at the last: a note that changes its width is hard to read.
        let digits = frames.to_string().len();
        spans.push(Span::styled(format!("frame {:>digits$}/{frames}", playing.number()), theme.muted));
    }
    Line::from(spans)
}

fn paint(brush: &Brush, playing: &Playing, frame: &Frame, area: Rect, buffer: &mut Buffer) {
    let episode = &playing.episode;
    let mut area = area;
    let mut pixels = None;
    if let Some(board) = &playing.board {
        if board::draw(board, episode, frame, brush, area, buffer) {
            return;
        }
        // Too little room for whole cells: half blocks still show every square alike.
        if brush.marker() != Marker::Ascii
            && let Some(part) = board::pixels(board, area)
        {
            area = part;
            pixels = Some(brush.with(Marker::Block));
        }
    }
    let brush = pixels.as_ref().unwrap_or(brush);
    let cells = (usize::from(area.width), usize::from(area.height));
    let Some(mut raster) = Raster::new(cells, brush.marker().dots(), episode.low, episode.high) else {
        return;
    };
    frame.iter().for_each(|shape| raster.draw(shape));
    brush.dots(&raster, area, buffer);
}

#[cfg(test)]
mod tests;
