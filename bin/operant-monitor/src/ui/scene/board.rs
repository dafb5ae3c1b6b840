//! Boards: a scene of unit squares on a small integer grid, drawn as whole cells instead of dots.

use operant_metrics::{Episode, Frame, Shape};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::brush::Brush;

/// Sides of a board, in squares.
const SIDES: std::ops::RangeInclusive<f32> = 3.0..=40.0;
/// How far a square may stay within its cell: squares are often drawn a little smaller.
const INSET: f32 = 0.25;

/// A grid of squares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Board {
    columns: usize,
    rows: usize,
}

impl Board {
    /// The board that an episode is played on, if it is played on one: its view is a small integer grid, and all its
    /// shapes are squares, or blocks of squares, of it.
    pub(super) fn of(episode: &Episode) -> Option<Self> {
        let whole = |value: f32| (value - value.round()).abs() < 1e-3;
        let size = [0, 1].map(|axis| episode.high[axis] - episode.low[axis]);
        if !(size.iter().all(|side| SIDES.contains(side)) && episode.low.into_iter().chain(size).all(whole)) {
            return None;
        }
        let fits = |low: f32, high: f32| {
            let (start, end) = (low.round(), high.round());
            let inset = 0.0..=INSET;
            end > start && inset.contains(&(low - start + 1e-3)) && inset.contains(&(end - high + 1e-3))
        };
        let square = |shape: &Shape| match shape {
            Shape::Rectangle { low, high, .. } => (0..2).all(|axis| fits(low[axis], high[axis])),
            _ => false,
        };
        let mut shapes = episode.frames.iter().flatten().peekable();
        let (columns, rows) = (size[0].round() as usize, size[1].round() as usize);
        (shapes.peek().is_some() && shapes.all(square)).then_some(Self { columns, rows })
    }

    /// Tone of each square, row by row from the upper left.
    fn squares(&self, episode: &Episode, frame: &Frame) -> Vec<Option<u8>> {
        let mut squares = vec![None; self.columns * self.rows];
        for shape in frame {
            let Shape::Rectangle { low, high, tone } = shape else { continue };
            let range = |from: f32, to: f32, count: usize| {
                let into = |value: f32| (value.round().max(0.0) as usize).min(count);
                into(from)..into(to)
            };
            let down = range(episode.high[1] - high[1], episode.high[1] - low[1], self.rows);
            let across = range(low[0] - episode.low[0], high[0] - episode.low[0], self.columns);
            for row in down {
                squares[row * self.columns..][across.clone()].fill(Some(*tone));
            }
        }
        squares
    }

    /// Area that the board takes in half-block pixels where there is no room for whole cells: one pixel a square, so that
    /// every square has the same size. `None` when even that does not fit.
    pub(super) fn pixels(&self, area: Rect) -> Option<Rect> {
        let (width, height) = (self.columns as u16, self.rows.div_ceil(2) as u16);
        (area.width >= width && area.height >= height && self.rows.is_multiple_of(2))
            .then(|| centered(area, width, height))
    }

    /// Draws a frame with squares of two columns a row, or a multiple. False when there is no room.
    pub(super) fn draw(
        &self,
        episode: &Episode,
        frame: &Frame,
        brush: &Brush,
        area: Rect,
        buffer: &mut Buffer,
    ) -> bool {
        let room = |width: u16, height: u16| {
            (usize::from(width) / (2 * self.columns)).min(usize::from(height) / self.rows)
        };
        let bare = room(area.width, area.height);
        if bare == 0 {
            return false;
        }
        // The border is worth nothing if it makes the squares smaller.
        let border = area.width > 2 && area.height > 2 && room(area.width - 2, area.height - 2) == bare;
        let (width, height) = (2 * bare * self.columns, bare * self.rows);
        let inner = centered(area, width as u16, height as u16);
        if border {
            brush.border(inner, buffer);
        }
        let squares = self.squares(episode, frame);
        for y in 0..height {
            for x in 0..width {
                let position = (inner.x + x as u16, inner.y + y as u16);
                match squares[y / bare * self.columns + x / (2 * bare)] {
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
}

/// A rectangle of this size in the middle of a larger one.
fn centered(area: Rect, width: u16, height: u16) -> Rect {
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}
