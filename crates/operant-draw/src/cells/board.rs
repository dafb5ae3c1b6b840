//! Detects boards: pictures that consist of squares on a small integer grid and of marks within one square.

use operant_metrics::tone::darker;
use operant_metrics::{Frame, Point, Shape};

/// Allowed number of squares per side.
const SIDES: std::ops::RangeInclusive<f32> = 3.0..=40.0;
/// Largest margin between a square and the border of its cell: squares are often drawn slightly smaller.
const INSET: f32 = 0.25;
/// Tolerance for rounded coordinates.
const SLACK: f32 = 1e-3;

/// A grid of squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Board {
    /// Squares from left to right.
    pub(crate) columns: usize,
    /// Squares from top to bottom.
    pub(crate) rows: usize,
    /// Lower left corner of the view.
    low: Point,
    /// Upper right corner of the view.
    high: Point,
}

/// The content of a square.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Square {
    /// Tone of the background.
    pub(super) tone: Option<u8>,
    /// The last shape drawn within the square, and its tone.
    pub(super) mark: Option<(Mark, u8)>,
    /// Whether the background ends before the right and the upper edge of the square, as a brick of a wall does.
    pub(super) gaps: [bool; 2],
}

/// The symbol for a shape within a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Up,
    Right,
    Down,
    Left,
    Circle,
    Rectangle,
    Line,
    Polygon,
}

/// How a shape is shown on a board.
enum Part {
    /// A rectangle of whole squares: column and row ranges, from the upper left.
    Squares([std::ops::Range<usize>; 2]),
    /// A shape within one square: its column and row.
    Mark([usize; 2]),
    Text,
}

impl Board {
    /// Detects the board in these frames: the view is a small integer grid, at least one shape covers whole squares,
    /// and every other shape is text or lies within one square.
    pub(crate) fn of<'a>(
        low: Point,
        high: Point,
        frames: impl IntoIterator<Item = &'a Frame>,
    ) -> Option<Self> {
        let whole = |value: f32| (value - value.round()).abs() < SLACK;
        let size = [0, 1].map(|axis| high[axis] - low[axis]);
        if !(size.iter().all(|side| SIDES.contains(side)) && low.into_iter().chain(size).all(whole)) {
            return None;
        }
        let board = Board { columns: size[0].round() as usize, rows: size[1].round() as usize, low, high };
        let mut has_squares = false;
        for shape in frames.into_iter().flatten() {
            has_squares |= matches!(board.part(shape)?, Part::Squares(_));
        }
        has_squares.then_some(board)
    }

    /// Lower left and upper right corners of the view.
    pub(super) fn view(&self) -> (Point, Point) {
        (self.low, self.high)
    }

    /// Whether a frame can be shown on the board.
    pub(crate) fn holds(&self, frame: &Frame) -> bool {
        frame.iter().all(|shape| self.part(shape).is_some())
    }

    /// How a shape is shown on this board; `None` if it does not fit a board.
    fn part(&self, shape: &Shape) -> Option<Part> {
        if let Shape::Text { .. } = shape {
            return Some(Part::Text);
        }
        let (low, high) = extent(shape)?;
        if let Shape::Rectangle { .. } = shape
            && (0..2).all(|axis| is_whole(low[axis], high[axis]))
        {
            let range = |from: f32, to: f32, count: usize| {
                let into = |value: f32| (value.round().max(0.0) as usize).min(count);
                into(from)..into(to)
            };
            let across = range(low[0] - self.low[0], high[0] - self.low[0], self.columns);
            let down = range(self.high[1] - high[1], self.high[1] - low[1], self.rows);
            return Some(Part::Squares([across, down]));
        }
        let middle = [0, 1].map(|axis| (low[axis] + high[axis]) / 2.0);
        let inside = |axis: usize| {
            let start = middle[axis].floor();
            low[axis] > start - SLACK && high[axis] < start + 1.0 + SLACK
        };
        let place = [middle[0] - self.low[0], self.high[1] - middle[1]];
        let sides = [self.columns, self.rows];
        let on_board = |axis: usize| (0.0..sides[axis] as f32).contains(&place[axis]);
        (0..2).all(|axis| inside(axis) && on_board(axis)).then(|| Part::Mark(place.map(|at| at as usize)))
    }

    /// The contents of the squares, row by row from the upper left.
    pub(super) fn squares(&self, frame: &Frame) -> Vec<Square> {
        let mut squares = vec![Square::default(); self.columns * self.rows];
        for shape in frame {
            match self.part(shape) {
                Some(Part::Squares([across, down])) => {
                    let ends = extent(shape)
                        .map_or([false; 2], |(_, high)| high.map(|end| end.round() - end > SLACK));
                    for (row, column) in down.clone().flat_map(|row| across.clone().map(move |x| (row, x))) {
                        let gaps = [ends[0] && column + 1 == across.end, ends[1] && row == down.start];
                        squares[row * self.columns + column] =
                            Square { tone: Some(shape.tone()), mark: None, gaps };
                    }
                }
                Some(Part::Mark([column, row])) => {
                    squares[row * self.columns + column].mark = Some((mark(shape), shape.tone()));
                }
                Some(Part::Text) | None => {}
            }
        }
        squares
    }

    /// The row of a text.
    pub(super) fn row_of(&self, shape: &Shape) -> Option<usize> {
        match shape {
            Shape::Text { center, .. } => Some((self.high[1] - center[1]) as usize),
            _ => None,
        }
    }

    /// The rows that hold text and nothing else.
    pub(super) fn written_rows(&self, frame: &Frame, squares: &[Square]) -> Vec<usize> {
        let is_empty = |row: &usize| {
            let squares = squares.iter().skip(row * self.columns).take(self.columns);
            squares.clone().all(|square| *square == Square::default())
        };
        frame.iter().filter_map(|shape| self.row_of(shape)).filter(is_empty).collect()
    }

    /// The frame with every other square in a darker shade, among neighbours of one tone that are drawn apart.
    pub(super) fn chequered(&self, frame: &Frame) -> Frame {
        let squares = self.squares(frame);
        let tone_at = |column: usize, row: usize| {
            let is_inside = column < self.columns && row < self.rows;
            is_inside.then(|| squares[row * self.columns + column].tone).flatten()
        };
        let shaded = |shape: &Shape| match (shape, self.part(shape)) {
            (Shape::Rectangle { low, high, tone }, Some(Part::Squares([across, down]))) => {
                let (x, y) = (across.start, down.start);
                let is_apart = high.iter().any(|end| end.round() - end > SLACK);
                let around = [(x.wrapping_sub(1), y), (across.end, y), (x, y.wrapping_sub(1)), (x, down.end)];
                let is_one_of_many = around.iter().any(|&(x, y)| tone_at(x, y) == Some(*tone));
                let by = u8::from(is_apart && is_one_of_many && (x + y) % 2 == 1);
                Shape::Rectangle { low: *low, high: *high, tone: darker(*tone, by) }
            }
            _ => shape.clone(),
        };
        frame.iter().map(shaded).collect()
    }

    /// The frame with its squares enlarged to fill their cells.
    pub(super) fn without_gaps(&self, frame: &Frame) -> Frame {
        let grown = |shape: &Shape| match (shape, self.part(shape)) {
            (Shape::Rectangle { low, high, tone }, Some(Part::Squares(_))) => {
                Shape::Rectangle { low: low.map(f32::round), high: high.map(f32::round), tone: *tone }
            }
            _ => shape.clone(),
        };
        frame.iter().map(grown).collect()
    }
}

/// Whether a range starts and ends near whole numbers.
fn is_whole(low: f32, high: f32) -> bool {
    let (start, end) = (low.round(), high.round());
    let inset = 0.0..=INSET;
    end > start && inset.contains(&(low - start + SLACK)) && inset.contains(&(end - high + SLACK))
}

/// The bounding box of a shape; `None` if it is empty or not finite.
fn extent(shape: &Shape) -> Option<(Point, Point)> {
    let points: &[Point] = match shape {
        Shape::Line { points, .. } | Shape::Polygon { points, .. } => points,
        Shape::Rectangle { low, high, .. } => &[*low, *high],
        Shape::Circle { center: [x, y], radius, .. } => &[[x - radius, y - radius], [x + radius, y + radius]],
        Shape::Text { center, .. } => &[*center],
    };
    let corner = |start: f32, pick: fn(f32, f32) -> f32| {
        [0, 1].map(|axis| points.iter().fold(start, |best, point| pick(best, point[axis])))
    };
    let (low, high) = (corner(f32::INFINITY, f32::min), corner(f32::NEG_INFINITY, f32::max));
    let finite = points.iter().flatten().all(|x| x.is_finite());
    (finite && !points.is_empty()).then_some((low, high))
}

fn mark(shape: &Shape) -> Mark {
    match shape {
        Shape::Circle { .. } => Mark::Circle,
        Shape::Rectangle { .. } => Mark::Rectangle,
        Shape::Line { .. } => Mark::Line,
        Shape::Polygon { points, .. } => facing(points).unwrap_or(Mark::Polygon),
        Shape::Text { .. } => Mark::Polygon,
    }
}

/// The direction in which a triangle or an arrowhead points: from the mean of its corners towards the centre of its
/// bounding box.
fn facing(points: &[Point]) -> Option<Mark> {
    let (low, high) = extent(&Shape::Polygon { points: points.to_vec(), tone: 0 })?;
    let lean = [0, 1].map(|axis| {
        let mean = points.iter().map(|point| point[axis]).sum::<f32>() / points.len() as f32;
        ((low[axis] + high[axis]) / 2.0 - mean) / (high[axis] - low[axis]).max(SLACK)
    });
    let axis = usize::from(lean[1].abs() > lean[0].abs());
    (lean[axis].abs() > 0.05)
        .then(|| [[Mark::Left, Mark::Right], [Mark::Down, Mark::Up]][axis][usize::from(lean[axis] > 0.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrowhead_faces_its_tip() {
        let arrow = |[x, y]: Point| {
            // Tip, two tails, and a notch between them.
            let turned = |ahead: f32, left: f32| [0.5 + ahead * x - left * y, 0.5 + ahead * y + left * x];
            vec![turned(0.4, 0.0), turned(-0.3, 0.3), turned(-0.15, 0.0), turned(-0.3, -0.3)]
        };
        let faces = [
            ([1.0, 0.0], Mark::Right),
            ([-1.0, 0.0], Mark::Left),
            ([0.0, 1.0], Mark::Up),
            ([0.0, -1.0], Mark::Down),
        ];
        for (towards, mark) in faces {
            assert_eq!(facing(&arrow(towards)), Some(mark));
            let triangle: Vec<Point> =
                arrow(towards).into_iter().enumerate().filter(|(i, _)| *i != 2).map(|(_, p)| p).collect();
            assert_eq!(facing(&triangle), Some(mark));
        }
        assert_eq!(facing(&[[0.2, 0.2], [0.8, 0.2], [0.8, 0.8], [0.2, 0.8]]), None);
    }

    #[test]
    fn neighbours_that_are_drawn_apart_alternate_between_two_shades() {
        let square = |x: f32, y: f32, inset: f32| Shape::Rectangle {
            low: [x + inset, y + inset],
            high: [x + 1.0 - inset, y + 1.0 - inset],
            tone: 1,
        };
        let tones = |inset: f32| -> Vec<u8> {
            // Two by two neighbours, and one alone.
            let places = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (4.0, 1.0)];
            let frame: Frame = places.map(|(x, y)| square(x, y, inset)).into();
            let board = Board::of([0.0; 2], [5.0, 4.0], [&frame]).expect("a board");
            board.chequered(&frame).iter().map(Shape::tone).collect()
        };
        let shade = darker(1, 1);
        assert_eq!(tones(0.05), [shade, 1, 1, shade, 1]);
        assert_eq!(tones(0.0), [1; 5]);
    }

    #[test]
    fn a_board_needs_squares_and_every_shape_in_its_place() {
        let square = Shape::Rectangle { low: [1.05, 1.05], high: [1.95, 1.95], tone: 1 };
        let ball = |x: f32| Shape::Circle { center: [x, 2.5], radius: 0.4, tone: 5 };
        let of = |shapes: &[Shape]| Board::of([0.0; 2], [5.0, 4.0], &[shapes.to_vec()]);
        let board = of(&[square.clone(), ball(2.5)]).expect("a board");
        assert_eq!((board.columns, board.rows), (5, 4));
        assert!(of(&[ball(2.5)]).is_none(), "no squares");
        assert!(of(&[square.clone(), ball(3.0)]).is_none(), "a ball between two squares");
        assert!(
            !board.holds(&vec![ball(3.0)]) && board.holds(&vec![ball(4.5)]) && !board.holds(&vec![ball(9.5)])
        );
        let squares = board.squares(&vec![square, ball(1.5)]);
        assert_eq!(squares[2 * 5 + 1], Square { tone: Some(1), mark: None, gaps: [true; 2] });
        let ball = Square { mark: Some((Mark::Circle, 5)), ..Square::default() };
        assert_eq!(squares[5 + 1], ball);
    }
}
