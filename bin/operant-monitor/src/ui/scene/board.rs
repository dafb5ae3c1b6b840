//! Draws a board as whole cells instead of dots.

use operant_metrics::{Episode, Frame};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::brush::Brush;
use crate::data::Board;

/// Area that the board takes in half-block pixels where there is no room for whole cells: one pixel a square, so that
/// every square has the same size. `None` when even that does not fit.
pub(super) fn pixels(board: &Board, area: Rect) -> Option<Rect> {
    let (width, height) = (board.columns as u16, board.rows.div_ceil(2) as u16);
    (area.width >= width && area.height >= height && board.rows.is_multiple_of(2))
        .then(|| centered(area, width, height))
}

/// Draws a frame with squares of two columns a row, or a multiple. False when there is no room.
pub(super) fn draw(
    board: &Board,
    episode: &Episode,
    frame: &Frame,
    brush: &Brush,
    area: Rect,
    buffer: &mut Buffer,
) -> bool {
    let room = |width: u16, height: u16| {
        (usize::from(width) / (2 * board.columns)).min(usize::from(height) / board.rows)
    };
    let bare = room(area.width, area.height);
    if bare == 0 {
        return false;
    }
    // The border is worth nothing if it makes the squares smaller.
    let border = area.width > 2 && area.height > 2 && room(area.width - 2, area.height - 2) == bare;
    let (width, height) = (2 * bare * board.columns, bare * board.rows);
    let inner = centered(area, width as u16, height as u16);
    if border {
        brush.border(inner, buffer);
    }
    let squares = board.squares(episode, frame);
    for y in 0..height {
        for x in 0..width {
            let position = (inner.x + x as u16, inner.y + y as u16);
            match squares[y / bare * board.columns + x / (2 * bare)] {
                Some(tone) => brush.fill(tone, position, buffer),
                // One dot in the middle of an empty square, or left of it.
                None if x % (2 * bare) == bare - 1 && y % bare == bare / 2 => {
                    brush.empty(position, buffer);
                }
                None => {}
            }
        }
    }
    true
}

/// A rectangle of this size in the middle of a larger one.
fn centered(area: Rect, width: u16, height: u16) -> Rect {
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}
