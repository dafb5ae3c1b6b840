//! The canvas of a picture: rasterises shapes in scene units to dots, and dots to terminal cells.
//!
//! A terminal cell is about twice as tall as it is wide, so braille dots (2 x 4 a cell) and half blocks (1 x 2) are square
//! and a single character is not; [`Raster::new`] takes the dots of one cell and keeps the scene's proportions with either.

use std::ops::Range;

use operant_metrics::{Point, Shape};

/// How much taller than wide a terminal cell is.
const CELL_ASPECT: f64 = 2.0;

/// A grid of dots that shows one view, undistorted and centred.
pub(super) struct Raster {
    columns: usize,
    width: usize,
    height: usize,
    dots_per_cell: (usize, usize),
    view: View,
    /// Tone of each dot, plus one; 0 where nothing is.
    dots: Vec<u8>,
    /// Tone drawn last in each cell, plus one: a braille cell has one colour.
    cells: Vec<u8>,
    rectangles: Vec<Drawn>,
}

/// A rectangle that was drawn.
struct Drawn {
    tone: u8,
    /// Where it begins and ends in dots, to the right and down.
    ends: [[f64; 2]; 2],
    /// Its dots, to the right and down.
    spans: [Range<usize>; 2],
}

/// Where the view lies on the dots.
#[derive(Clone, Copy)]
struct View {
    low: [f64; 2],
    high: [f64; 2],
    /// Dots per scene unit, to the right and downward.
    scale: [f64; 2],
    /// Upper left corner, in dots.
    origin: [f64; 2],
}

impl Raster {
    /// A canvas of `columns x rows` cells with `dots_per_cell` dots each (across, down) that shows `low .. high`. `None`
    /// when there is no room, or no view to show.
    pub(super) fn new(
        (columns, rows): (usize, usize),
        dots_per_cell: (usize, usize),
        low: Point,
        high: Point,
    ) -> Option<Self> {
        let (low, high) = (low.map(f64::from), high.map(f64::from));
        let size = [high[0] - low[0], high[1] - low[1]];
        let (width, height) = (columns * dots_per_cell.0, rows * dots_per_cell.1);
        if width == 0 || height == 0 || !size.iter().all(|length| length.is_finite() && *length > 1e-9) {
            return None;
        }
        // How much taller than wide one dot is.
        let aspect = CELL_ASPECT * dots_per_cell.0 as f64 / dots_per_cell.1 as f64;
        let across = (width as f64 / size[0]).min(height as f64 * aspect / size[1]);
        let scale = [across, across / aspect];
        let origin = [
            ((width as f64 - size[0] * scale[0]) / 2.0).floor(),
            ((height as f64 - size[1] * scale[1]) / 2.0).floor(),
        ];
        let view = View { low, high, scale, origin };
        let (dots, cells) = (vec![0; width * height], vec![0; columns * rows]);
        let rectangles = Vec::new();
        Some(Self { columns, width, height, dots_per_cell, view, dots, cells, rectangles })
    }

    /// Tone of the dot at `x` to the right and `y` down, if something is there.
    pub(super) fn dot(&self, x: usize, y: usize) -> Option<u8> {
        let inside = x < self.width && y < self.height;
        inside.then(|| self.dots[y * self.width + x]).filter(|tone| *tone > 0).map(|tone| tone - 1)
    }

    /// Tone drawn last in a cell.
    pub(super) fn cell(&self, column: usize, row: usize) -> Option<u8> {
        self.cells.get(row * self.columns + column).filter(|tone| **tone > 0).map(|tone| tone - 1)
    }

    /// Draws a shape over what is there. What is not finite is not drawn.
    pub(super) fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Line { points, tone } => {
                for ends in points.windows(2) {
                    self.segment(ends[0].map(f64::from), ends[1].map(f64::from), *tone);
                }
            }
            Shape::Circle { center, radius, tone } => {
                self.circle(center.map(f64::from), f64::from(*radius), *tone)
            }
            Shape::Rectangle { low, high, tone } => {
                self.rectangle(low.map(f64::from), high.map(f64::from), *tone)
            }
            Shape::Polygon { points, tone } => {
                let points: Vec<_> = points.iter().map(|point| point.map(f64::from)).collect();
                self.polygon(&points, *tone);
            }
            // Text is not drawn with dots.
            Shape::Text { .. } => {}
        }
    }

    /// Column and row of the cell that holds a point; `None` for one outside the view.
    pub(super) fn cell_of(&self, point: Point) -> Option<[usize; 2]> {
        let View { low, high, .. } = self.view;
        let point = point.map(f64::from);
        let inside = (0..2).all(|axis| (low[axis]..=high[axis]).contains(&point[axis]));
        inside.then(|| {
            let (x, y) = self.locate(point);
            [x / self.dots_per_cell.0, y / self.dots_per_cell.1]
        })
    }

    /// Fills the dots whose centre lies inside and draws the outline, so that thin polygons stay visible.
    fn polygon(&mut self, points: &[[f64; 2]], tone: u8) {
        if points.is_empty() || !points.iter().flatten().all(|value| value.is_finite()) {
            return;
        }
        let View { low, high, scale, origin } = self.view;
        let edges = || points.iter().zip(points.iter().cycle().skip(1));
        let [across, (top, bottom)] = self.bounds();
        for y in top..bottom {
            let height = high[1] - (y as f64 + 0.5 - origin[1]) / scale[1];
            let mut crossings: Vec<f64> = edges()
                .filter(|(from, to)| (from[1] > height) != (to[1] > height))
                .map(|(from, to)| from[0] + (height - from[1]) / (to[1] - from[1]) * (to[0] - from[0]))
                .map(|x| origin[0] + (x - low[0]) * scale[0])
                .collect();
            crossings.sort_by(f64::total_cmp);
            for span in crossings.chunks_exact(2) {
                let into = |value: f64| within((value - 0.5).ceil(), across);
                (into(span[0])..into(span[1])).for_each(|x| self.plot(x, y, tone));
            }
        }
        edges().for_each(|(from, to)| self.segment(*from, *to, tone));
    }

    fn plot(&mut self, x: usize, y: usize, tone: u8) {
        if x < self.width && y < self.height {
            let value = tone.saturating_add(1);
            self.dots[y * self.width + x] = value;
            self.cells[y / self.dots_per_cell.1 * self.columns + x / self.dots_per_cell.0] = value;
        }
    }

    /// The part of the dots that the view covers: first and one past the last, to the right and down.
    fn bounds(&self) -> [(usize, usize); 2] {
        let length = [self.width, self.height];
        [0, 1].map(|axis| {
            let size = (self.view.high[axis] - self.view.low[axis]) * self.view.scale[axis];
            let start = self.view.origin[axis].max(0.0) as usize;
            // A sliver of rounding must not open another dot.
            let end = (self.view.origin[axis] + size - 1e-6).ceil().max(0.0) as usize;
            (start, end.clamp(start + 1, length[axis].max(start + 1)))
        })
    }

    /// The dot that holds a point of the view; its edges belong to the dots inside.
    fn locate(&self, point: [f64; 2]) -> (usize, usize) {
        let [x, y] = self.view.place(point);
        let [across, down] = self.bounds().map(|(start, end)| (start, end - 1));
        (within(x, across), within(y, down))
    }

    fn segment(&mut self, from: [f64; 2], to: [f64; 2], tone: u8) {
        let Some((from, to)) = clip(from, to, self.view.low, self.view.high) else { return };
        let ((x0, y0), (x1, y1)) = (self.locate(from), self.locate(to));
        let (dx, dy) = (x1 as f64 - x0 as f64, y1 as f64 - y0 as f64);
        let steps = dx.abs().max(dy.abs()) as usize;
        for step in 0..=steps {
            let share = if steps == 0 { 0.0 } else { step as f64 / steps as f64 };
            let (x, y) = (x0 as f64 + share * dx, y0 as f64 + share * dy);
            self.plot(x.round() as usize, y.round() as usize, tone);
        }
    }

    fn circle(&mut self, center: [f64; 2], radius: f64, tone: u8) {
        if !(center[0].is_finite() && center[1].is_finite() && radius.is_finite()) {
            return;
        }
        let (View { low, high, scale, .. }, radius) = (self.view, radius.abs());
        let (middle, bounds) = (self.view.place(center), self.bounds());
        let [across, down] = [0, 1].map(|axis| {
            let reach = radius * scale[axis];
            let ends = [(middle[axis] - reach).floor(), (middle[axis] + reach).ceil()];
            ends.map(|end| within(end, bounds[axis]))
        });
        for y in down[0]..down[1] {
            for x in across[0]..across[1] {
                let away = [(x as f64 + 0.5 - middle[0]) / scale[0], (y as f64 + 0.5 - middle[1]) / scale[1]];
                if away[0] * away[0] + away[1] * away[1] <= radius * radius {
                    self.plot(x, y, tone);
                }
            }
        }
        // However small, it is seen.
        if (0..2).all(|axis| (low[axis]..=high[axis]).contains(&center[axis])) {
            let (x, y) = self.locate(center);
            self.plot(x, y, tone);
        }
    }

    fn rectangle(&mut self, low: [f64; 2], high: [f64; 2], tone: u8) {
        let view = self.view;
        let mut ends = [[0.0; 2]; 2];
        for axis in 0..2 {
            if !(low[axis].is_finite() && high[axis].is_finite()) {
                return;
            }
            let (from, to) = (low[axis].min(high[axis]), low[axis].max(high[axis]));
            if to < view.low[axis] || from > view.high[axis] {
                return;
            }
            (ends[0][axis], ends[1][axis]) = (from.max(view.low[axis]), to.min(view.high[axis]));
        }
        let ([left, bottom], [right, top]) = (view.place(ends[0]), view.place(ends[1]));
        let span = |start: f64, end: f64, (least, past): (usize, usize)| {
            let start = within(start.round(), (least, past - 1));
            start..within(end.round(), (start + 1, past))
        };
        let ends = [[left, right], [top, bottom]];
        let bounds = self.bounds();
        let mut spans = [0, 1].map(|axis| span(ends[axis][0], ends[axis][1], bounds[axis]));
        for axis in 0..2 {
            self.leave_gaps(axis, tone, ends[axis], &mut spans);
        }
        for y in spans[1].clone() {
            spans[0].clone().for_each(|x| self.plot(x, y, tone));
        }
        self.rectangles.push(Drawn { tone, ends, spans });
    }

    /// Shortens the dots of a rectangle along an axis where less than a dot separates it from another one of its tone, so that
    /// bricks of a wall stay apart. A rectangle that is one dot long stays, and one that touches the other too.
    fn leave_gaps(&self, axis: usize, tone: u8, [start, end]: [f64; 2], spans: &mut [Range<usize>; 2]) {
        let is_level = |other: &&Drawn| {
            let (one, two) = (&other.spans[1 - axis], &spans[1 - axis]);
            other.tone == tone && one.start < two.end && two.start < one.end
        };
        let [mut before, mut after] = [false; 2];
        for other in self.rectangles.iter().filter(is_level) {
            let [from, to] = other.ends[axis];
            before |= to + 1e-3 < start && other.spans[axis].end == spans[axis].start;
            after |= end + 1e-3 < from && other.spans[axis].start == spans[axis].end;
        }
        let span = &mut spans[axis];
        span.start += usize::from(before && span.len() > 1);
        span.end -= usize::from(after && span.len() > 1);
    }
}

impl View {
    /// Where a point lies, in dots to the right and down.
    fn place(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let View { low, high, scale, origin } = self;
        [origin[0] + (x - low[0]) * scale[0], origin[1] + (high[1] - y) * scale[1]]
    }
}

/// The number of a dot, between the first and the last.
fn within(value: f64, (first, last): (usize, usize)) -> usize {
    (value.max(0.0) as usize).clamp(first, last)
}

/// The part of a segment inside `low ..= high`; `None` where it misses, or is not finite. An end that is cut lies exactly
/// on the edge that cut it, however far away it was.
fn clip(from: [f64; 2], to: [f64; 2], low: [f64; 2], high: [f64; 2]) -> Option<([f64; 2], [f64; 2])> {
    let mut ends = [from, to];
    if !ends.iter().flatten().all(|value| value.is_finite()) {
        return None;
    }
    for axis in 0..2 {
        let other = 1 - axis;
        for (edge, side) in [(low[axis], -1.0), (high[axis], 1.0)] {
            let beyond = ends.map(|end| (end[axis] - edge) * side > 0.0);
            match beyond {
                [true, true] => return None,
                [false, false] => {}
                _ => {
                    let [a, b] = ends;
                    let share = (edge - a[axis]) / (b[axis] - a[axis]);
                    let end = &mut ends[usize::from(beyond[1])];
                    end[axis] = edge;
                    end[other] = a[other] + share * (b[other] - a[other]);
                }
            }
        }
    }
    Some((ends[0], ends[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRAILLE: (usize, usize) = (2, 4);
    const CHARACTER: (usize, usize) = (1, 1);

    fn canvas(
        cells: (usize, usize),
        dots: (usize, usize),
        low: Point,
        high: Point,
        shapes: &[Shape],
    ) -> Raster {
        let mut raster = Raster::new(cells, dots, low, high).unwrap();
        shapes.iter().for_each(|shape| raster.draw(shape));
        raster
    }

    fn line(points: &[Point]) -> Shape {
        Shape::Line { points: points.to_vec(), tone: 1 }
    }

    fn square(low: Point, high: Point, tone: u8) -> Shape {
        Shape::Rectangle { low, high, tone }
    }

    /// Smallest box around what is drawn: left, top, width, height.
    fn extent(raster: &Raster) -> (usize, usize, usize, usize) {
        let lit: Vec<_> = (0..raster.height)
            .flat_map(|y| (0..raster.width).map(move |x| (x, y)))
            .filter(|(x, y)| raster.dot(*x, *y).is_some())
            .collect();
        let xs = || lit.iter().map(|dot| dot.0);
        let ys = || lit.iter().map(|dot| dot.1);
        let (left, top) = (xs().min().unwrap(), ys().min().unwrap());
        (left, top, xs().max().unwrap() - left + 1, ys().max().unwrap() - top + 1)
    }

    #[test]
    fn a_square_stays_square_on_every_kind_of_dot() {
        let whole = [square([-1.0, -1.0], [1.0, 1.0], 0)];
        // 20 x 10 cells are a square of terminal.
        let braille = canvas((20, 10), BRAILLE, [-1.0, -1.0], [1.0, 1.0], &whole);
        assert_eq!(extent(&braille), (0, 0, 40, 40));
        let halves = canvas((20, 10), (1, 2), [-1.0, -1.0], [1.0, 1.0], &whole);
        assert_eq!(extent(&halves), (0, 0, 20, 20));
        let characters = canvas((20, 10), CHARACTER, [-1.0, -1.0], [1.0, 1.0], &whole);
        assert_eq!(extent(&characters), (0, 0, 20, 10));
    }

    #[test]
    fn a_view_is_centred_where_the_other_side_has_room() {
        let whole = [square([0.0, 0.0], [1.0, 1.0], 0)];
        let wide = canvas((40, 10), BRAILLE, [0.0, 0.0], [1.0, 1.0], &whole);
        assert_eq!(extent(&wide), (20, 0, 40, 40));
        let tall = canvas((20, 20), BRAILLE, [0.0, 0.0], [1.0, 1.0], &whole);
        assert_eq!(extent(&tall), (0, 20, 40, 40));
    }

    #[test]
    fn up_is_up() {
        let raster =
            canvas((10, 5), BRAILLE, [0.0, 0.0], [10.0, 10.0], &[square([0.0, 9.0], [1.0, 10.0], 2)]);
        assert_eq!(raster.dot(0, 0), Some(2));
        assert_eq!(raster.dot(0, 19), None);
        assert_eq!(raster.cell(0, 0), Some(2));
    }

    #[test]
    fn lines_end_at_the_view_wherever_they_lead() {
        // A view in the middle of a wide area: nothing may be drawn outside it.
        for points in [
            [[-100.0, 0.5], [100.0, 0.5]],
            [[0.5, -1e30], [0.5, 1e30]],
            [[-3.0, -3.0], [3.0, 3.0]],
            [[1e30, -1e30], [-1e30, 1e30]],
        ] {
            let raster = canvas((40, 10), BRAILLE, [0.0, 0.0], [1.0, 1.0], &[line(&points)]);
            let (left, _, width, height) = extent(&raster);
            assert!(left >= 20 && left + width <= 60, "{points:?}: {left} {width}");
            assert!(width.max(height) == 40, "{points:?}: {width} x {height}");
        }
    }

    #[test]
    fn what_lies_outside_or_is_not_finite_is_not_drawn() {
        let nan = f32::NAN;
        for shape in [
            line(&[[2.0, 2.0], [3.0, 3.0]]),
            line(&[[nan, 0.0], [1.0, 1.0]]),
            line(&[[0.0, 0.0], [f32::INFINITY, 1.0]]),
            line(&[[0.0, 0.0]]),
            line(&[]),
            square([2.0, 0.0], [3.0, 1.0], 0),
            square([nan, 0.0], [1.0, 1.0], 0),
            Shape::Circle { center: [5.0, 5.0], radius: 1.0, tone: 0 },
            Shape::Circle { center: [0.5, 0.5], radius: nan, tone: 0 },
        ] {
            let raster = canvas((10, 5), BRAILLE, [0.0, 0.0], [1.0, 1.0], std::slice::from_ref(&shape));
            assert!(raster.dots.iter().all(|dot| *dot == 0), "{shape:?}");
        }
    }

    #[test]
    fn views_without_room_or_size_have_no_canvas() {
        let unit = ([0.0, 0.0], [1.0, 1.0]);
        assert!(Raster::new((0, 5), BRAILLE, unit.0, unit.1).is_none());
        assert!(Raster::new((5, 0), BRAILLE, unit.0, unit.1).is_none());
        assert!(Raster::new((5, 5), BRAILLE, unit.0, unit.0).is_none());
        assert!(Raster::new((5, 5), BRAILLE, unit.1, unit.0).is_none());
        assert!(Raster::new((5, 5), BRAILLE, [f32::NAN, 0.0], unit.1).is_none());
        assert!(Raster::new((5, 5), BRAILLE, [f32::NEG_INFINITY, 0.0], unit.1).is_none());
    }

    #[test]
    fn circles_are_round_and_never_vanish() {
        let disc = Shape::Circle { center: [0.0, 0.0], radius: 0.5, tone: 3 };
        let raster = canvas((20, 10), BRAILLE, [-1.0, -1.0], [1.0, 1.0], &[disc]);
        assert_eq!(extent(&raster), (10, 10, 20, 20));
        let lit = raster.dots.iter().filter(|dot| **dot > 0).count() as f64;
        assert!((lit / 400.0 - std::f64::consts::FRAC_PI_4).abs() < 0.03, "{lit}");

        let speck = Shape::Circle { center: [0.0, 0.0], radius: 1e-6, tone: 3 };
        let raster = canvas((3, 2), BRAILLE, [-1.0, -1.0], [1.0, 1.0], &[speck]);
        assert_eq!(raster.dots.iter().filter(|dot| **dot > 0).count(), 1);
    }

    #[test]
    fn polygons_are_filled_and_stay_inside() {
        let polygon = |points: &[Point]| Shape::Polygon { points: points.to_vec(), tone: 4 };
        let view = ([-1.0, -1.0], [1.0, 1.0]);
        let triangle = polygon(&[[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]]);
        let raster = canvas((20, 10), BRAILLE, view.0, view.1, &[triangle]);
        assert_eq!(extent(&raster), (0, 0, 40, 40));
        let lit = raster.dots.iter().filter(|dot| **dot > 0).count() as f64;
        assert!((lit / 1600.0 - 0.5).abs() < 0.04, "{lit}");
        assert_eq!((raster.dot(20, 20), raster.dot(1, 1)), (Some(4), None));
        // Larger than the view on all sides; a sliver; an empty polygon.
        let far = polygon(&[[-9.0, -9.0], [9.0, -9.0], [9.0, 9.0], [-9.0, 9.0]]);
        assert!(canvas((4, 2), BRAILLE, view.0, view.1, &[far]).dots.iter().all(|dot| *dot > 0));
        let sliver = polygon(&[[-0.5, 0.0], [0.5, 0.0], [0.5, 1e-6]]);
        assert_eq!(extent(&canvas((20, 10), BRAILLE, view.0, view.1, &[sliver])).2, 21);
        for none in [polygon(&[]), polygon(&[[f32::NAN, 0.0], [0.0, 0.0], [1.0, 1.0]])] {
            assert!(canvas((4, 2), BRAILLE, view.0, view.1, &[none]).dots.iter().all(|dot| *dot == 0));
        }
    }

    #[test]
    fn a_cell_has_the_tone_that_was_drawn_last() {
        let raster = canvas(
            (10, 5),
            BRAILLE,
            [0.0, 0.0],
            [10.0, 10.0],
            &[square([0.0, 0.0], [10.0, 10.0], 1), line(&[[0.0, 5.0], [10.0, 5.0]])],
        );
        assert_eq!(raster.cell(0, 0), Some(1));
        let other = canvas(
            (10, 5),
            BRAILLE,
            [0.0, 0.0],
            [10.0, 10.0],
            &[
                square([0.0, 0.0], [10.0, 10.0], 4),
                Shape::Circle { center: [5.0, 5.0], radius: 0.1, tone: 2 },
            ],
        );
        assert_eq!(other.cell(5, 2), Some(2));
        assert_eq!(other.cell(0, 0), Some(4));
    }

    #[test]
    fn bricks_less_than_a_dot_apart_have_a_gap_and_touching_ones_none() {
        // Bricks of 4 x 2 dots, in a wall of three rows of five.
        let wall = |inset: f32| -> Vec<Shape> {
            let brick = |i: usize| {
                let low = [(i % 5) as f32 * 4.0, (i / 5) as f32 * 2.0];
                square([low[0] + inset, low[1] + inset], [low[0] + 4.0 - inset, low[1] + 2.0 - inset], 1)
            };
            (0..15).rev().map(brick).collect()
        };
        let lit = |inset: f32| {
            let raster = canvas((10, 5), BRAILLE, [0.0, 0.0], [20.0, 20.0], &wall(inset));
            let row = |y: usize| (0..20).filter(|x| raster.dot(*x, y).is_some()).count();
            (8..20).map(row).collect::<Vec<_>>()
        };
        assert_eq!(lit(0.0), [[0; 6], [20; 6]].concat());
        let gaps = lit(0.2);
        assert_eq!(gaps.iter().filter(|row| **row == 16).count(), 4, "{gaps:?}");
        assert_eq!(gaps.iter().filter(|row| **row == 0).count(), 8, "{gaps:?}");
    }

    #[test]
    fn a_thin_rectangle_is_one_dot_thick() {
        let raster =
            canvas((20, 10), BRAILLE, [0.0, 0.0], [1.0, 1.0], &[square([0.5, 0.2], [0.5001, 0.8], 0)]);
        let (_, _, width, height) = extent(&raster);
        assert_eq!((width, height), (1, 24));
    }
}
