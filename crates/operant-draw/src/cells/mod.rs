//! Draws a frame of an environment in terminal cells: whole cells for boards, dots for everything else.

mod board;
mod brush;
mod print;
mod raster;
mod squares;

use operant_metrics::{Episode, Frame, Point, Shape};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::board::{Board, Square};
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
        let (all, mut area) = (area, area);
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
        match (&pixels, &self.board) {
            (Some(_), Some(board)) => Self::texts_below(board, frame, brush, area, all, buffer),
            _ => self.texts(frame, brush, area, area, buffer),
        }
    }

    /// Draws the texts below the squares of a board in half blocks that covers `part` of `area`, one in each row of cells that is left.
    fn texts_below(board: &Board, frame: &Frame, brush: &Brush, part: Rect, area: Rect, buffer: &mut Buffer) {
        let squares = board.squares(frame);
        let last =
            squares.iter().rposition(|square| *square != Square::default()).unwrap_or(0) / board.columns;
        let rows = part.y + last as u16 / 2 + 1..area.bottom();
        let texts = frame.iter().filter_map(|shape| match shape {
            Shape::Text { text, tone, .. } if board.row_of(shape) > Some(last) => Some((text, *tone)),
            _ => None,
        });
        for (row, (text, tone)) in rows.zip(texts) {
            brush.text(text, tone, [i32::from(part.x + (part.width - 1) / 2), row.into()], area, buffer);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols;
    use crate::theme::Theme;

    /// Three rows of squares above two lines of text and an empty row.
    fn written(size: (u16, u16)) -> Vec<String> {
        let text = |text: &str, y: f32| Shape::text([2.0, y], text, 1);
        let squares = Shape::Rectangle { low: [0.0, 3.0], high: [4.0, 6.0], tone: 6 };
        let frame = vec![squares, text("first", 2.5), text("  second  ", 1.5)];
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buffer = Buffer::empty(area);
        let theme = Theme::none();
        let brush = Brush::new(&theme, &symbols::UNICODE, Marker::Braille);
        Picture::new([0.0; 2], [4.0, 6.0], std::slice::from_ref(&frame)).paint(
            &frame,
            &brush,
            area,
            &mut buffer,
        );
        let row = |y: u16| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..size.1).map(row).collect()
    }

    #[test]
    fn lines_of_text_below_a_board_have_no_dots_beside_them() {
        assert_eq!(written((8, 6))[2..], ["GGGGGGGG", "  first ", "  second", "· · · · "]);
    }

    #[test]
    fn a_board_in_half_blocks_leaves_rows_for_the_text_below_it() {
        let rows = written((8, 4));
        assert_eq!(rows[2..], [" first  ", " second "]);
        assert_eq!(written((8, 3))[2], " first  ", "the second has no room");
    }
}
