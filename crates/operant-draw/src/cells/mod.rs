//! Draws a frame of an environment in terminal cells: whole cells for boards, dots for everything else.

mod board;
mod brush;
mod print;
mod raster;
mod squares;

use operant_metrics::{Episode, Frame, Point, Shape};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::board::Board;
pub use self::brush::Brush;
pub use self::print::print;
use self::raster::Raster;
use crate::symbols::Marker;

/// The view of a sequence of frames, and the board if the frames show one.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    low: Point,
    high: Point,
    board: Option<Board>,
}

impl Picture {
    /// The picture for the frames of an episode.
    pub fn of(episode: &Episode) -> Self {
        Self::new(episode.low, episode.high, &episode.frames)
    }

    /// The picture for these frames, whose view extends from `low` to `high`.
    pub fn new(low: Point, high: Point, frames: &[Frame]) -> Self {
        Picture { low, high, board: Board::of(low, high, frames) }
    }

    /// Lower left and upper right corners of the view.
    pub fn view(&self) -> (Point, Point) {
        (self.low, self.high)
    }

    /// Checks another frame against the board. Once a frame does not fit, the picture is no longer drawn as a board.
    pub fn expect(&mut self, frame: &Frame) {
        self.board = self.board.filter(|board| board.holds(frame));
    }

    /// Paints a frame into `area`.
    pub fn paint(&self, frame: &Frame, brush: &Brush, area: Rect, buffer: &mut Buffer) {
        let mut area = area;
        let mut pixels = None;
        if let Some(board) = &self.board {
            if let Some(inner) = squares::draw(board, frame, brush, area, buffer) {
                return self.texts(frame, brush, inner, area, buffer);
            }
            // Too small for whole cells: half blocks still give every square the same size.
            if brush.marker() != Marker::Ascii
                && let Some(part) = squares::pixels(board, area)
            {
                area = part;
                // No room for gaps.
                pixels = Some((brush.with(Marker::Block), board.chequered(frame)));
            }
        }
        let (brush, frame) = pixels.as_ref().map_or((brush, frame), |(brush, frame)| (brush, frame));
        let Some(mut raster) = self.raster(brush, area) else { return };
        frame.iter().for_each(|shape| raster.draw(shape));
        brush.dots(&raster, area, buffer);
        if pixels.is_none() {
            self.texts(frame, brush, area, area, buffer);
        }
    }

    fn raster(&self, brush: &Brush, area: Rect) -> Option<Raster> {
        let cells = (usize::from(area.width), usize::from(area.height));
        Raster::new(cells, brush.marker().dots(), self.low, self.high)
    }

    /// Draws the texts of a frame whose view covers `view`, over everything else. A text that is wider may cover all of `area`.
    fn texts(&self, frame: &Frame, brush: &Brush, view: Rect, area: Rect, buffer: &mut Buffer) {
        if !frame.iter().any(|shape| matches!(shape, Shape::Text { .. })) {
            return;
        }
        let Some(raster) = self.raster(brush, view) else { return };
        for shape in frame {
            let Shape::Text { center, text, tone } = shape else { continue };
            if let Some([column, row]) = raster.cell_of(*center) {
                let at = [i32::from(view.x) + column as i32, i32::from(view.y) + row as i32];
                brush.text(text, *tone, at, area, buffer);
            }
        }
    }
}
