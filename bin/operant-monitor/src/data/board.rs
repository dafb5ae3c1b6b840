//! Boards: an episode whose shapes are unit squares on a small integer grid.

use operant_metrics::{Episode, Frame, Primitive};

/// Sides of a board, in squares.
const SIDES: std::ops::RangeInclusive<f32> = 3.0..=40.0;
/// How far a square may stay within its cell: squares are often drawn a little smaller.
const INSET: f32 = 0.25;

/// A grid of squares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Board {
    /// Squares from left to right.
    pub(crate) columns: usize,
    /// Squares from top to bottom.
    pub(crate) rows: usize,
}

impl Board {
    /// The board that an episode is played on, if it is played on one: its view is a small integer grid, and all its
    /// shapes are squares, or blocks of squares, of it.
    pub(crate) fn of(episode: &Episode) -> Option<Self> {
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
        let square = |shape: &Primitive| match shape {
            Primitive::Rectangle { low, high, .. } => (0..2).all(|axis| fits(low[axis], high[axis])),
            _ => false,
        };
        let mut shapes = episode.frames.iter().flatten().peekable();
        let (columns, rows) = (size[0].round() as usize, size[1].round() as usize);
        (shapes.peek().is_some() && shapes.all(square)).then_some(Self { columns, rows })
    }

    /// Tone of each square, row by row from the upper left.
    pub(crate) fn squares(&self, episode: &Episode, frame: &Frame) -> Vec<Option<u8>> {
        let mut squares = vec![None; self.columns * self.rows];
        for shape in frame {
            let Primitive::Rectangle { low, high, tone } = shape else { continue };
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
}
