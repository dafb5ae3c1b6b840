//! Draws a board as whole cells instead of dots.

use operant_metrics::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::board::{Board, Square};
use super::brush::Brush;
use super::raster::Raster;
use crate::symbols::Marker;

/// The area of the board in half blocks, for areas that are too small for whole cells: one pixel per square, so that
/// all squares have the same size. `None` if that does not fit either.
pub(super) fn pixels(board: &Board, area: Rect) -> Option<Rect> {
    let (width, height) = (board.columns as u16, board.rows.div_ceil(2) as u16);
    (area.width >= width && area.height >= height && board.rows.is_multiple_of(2))
        .then(|| centered(area, width, height))
}

/// Draws a frame with squares of 2k columns by k rows for the largest k that fits, and returns the area of the board.
/// `None` if none fits.
pub(super) fn draw(
    board: &Board,
    frame: &Frame,
    brush: &Brush,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Rect> {
    let room = |width: u16, height: u16| {
        (usize::from(width) / (2 * board.columns)).min(usize::from(height) / board.rows)
    };
    let bare = room(area.width, area.height);
    if bare == 0 {
        return None;
    }
    // Draw the border only if it does not make the squares smaller.
    let border = area.width > 2 && area.height > 2 && room(area.width - 2, area.height - 2) == bare;
    let (width, height) = (2 * bare * board.columns, bare * board.rows);
    let inner = centered(area, width as u16, height as u16);
    if border {
        brush.border(inner, buffer);
    }
    let squares = board.squares(frame);
    let written = board.written_rows(frame, &squares);
    // Squares of at least four columns by two rows show the shape of a mark in half blocks.
    let has_shapes = bare >= 2 && brush.has_colours() && squares.iter().any(|square| square.mark.is_some());
    if has_shapes {
        shapes(board, frame, brush, inner, buffer);
    }
    for (i, square) in squares.iter().enumerate().filter(|(_, square)| !(has_shapes && square.mark.is_some()))
    {
        let (x, y) = (2 * bare * (i % board.columns), bare * (i / board.columns));
        let place = Rect::new(inner.x + x as u16, inner.y + y as u16, 2 * bare as u16, bare as u16);
        if !written.contains(&(i / board.columns)) {
            cells(square, brush, place, buffer);
        }
    }
    Some(inner)
}

/// Draws one square, with its mark as two characters.
fn cells(square: &Square, brush: &Brush, place: Rect, buffer: &mut Buffer) {
    let middle = (place.x + place.width / 2 - 1, place.y + place.height / 2);
    if let Some(tone) = square.tone {
        for at in place.positions() {
            let edges = [at.x + 1 == place.right(), at.y == place.y];
            brush.fill(tone, [0, 1].map(|axis| edges[axis] && square.gaps[axis]), (at.x, at.y), buffer);
        }
    }
    match square.mark {
        Some((mark, tone)) => brush.mark(mark, tone, square.tone, middle, buffer),
        // One dot in the middle of an empty square, or left of the middle.
        None if square.tone.is_none() => brush.empty(middle, buffer),
        None => {}
    }
}

/// Draws the shapes of the whole board in half blocks.
fn shapes(board: &Board, frame: &Frame, brush: &Brush, inner: Rect, buffer: &mut Buffer) {
    let brush = brush.with(Marker::Block);
    let size = (usize::from(inner.width), usize::from(inner.height));
    let (low, high) = board.view();
    let Some(mut raster) = Raster::new(size, Marker::Block.dots(), low, high) else { return };
    board.without_gaps(frame).iter().for_each(|shape| raster.draw(shape));
    brush.dots(&raster, inner, buffer);
}

/// A rectangle of this size, centred in a larger one.
fn centered(area: Rect, width: u16, height: u16) -> Rect {
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}
