//! Renders scenes as pixels: the shapes of an environment with a line of text above them.

use noto_sans_mono_bitmap::RasterHeight;
use operant_metrics::{Point, Shape};
use tiny_skia::{Color, FillRule, LineCap, LineJoin, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};

use crate::pixels::{paint, text_pixels, text_width};
use crate::theme::{FILM, Rgb, contrasting, film_tone};

/// Maximum width and height of the picture, in pixels.
const LARGEST: [f32; 2] = [480.0, 400.0];
/// Minimum width of the canvas, so that the line of text fits.
const LEAST_WIDTH: u32 = 320;
/// Height of the line of text.
const HEADER: u32 = 28;
/// Pixels around the picture.
const MARGIN: u32 = 8;
/// Stroke width.
const LINE_WIDTH: f32 = 3.0;

/// The layout of a film: every frame has the same size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// Pixels across, an even number.
    pub width: u32,
    /// Pixels down, an even number.
    pub height: u32,
    low: Point,
    high: Point,
    /// Pixels per unit of the scene.
    scale: f32,
}

impl Layout {
    /// The layout for scenes with this view; a view without a size becomes a unit square.
    pub fn of(low: Point, high: Point) -> Self {
        let size = [high[0] - low[0], high[1] - low[1]];
        let has_size =
            size.iter().all(|side| side.is_finite() && *side > 1e-6) && low.iter().all(|x| x.is_finite());
        let (low, high, size) = if has_size { (low, high, size) } else { ([0.0; 2], [1.0; 2], [1.0; 2]) };
        let scale = (LARGEST[0] / size[0]).min(LARGEST[1] / size[1]);
        let even = |length: f32| (length.ceil() as u32).next_multiple_of(2).max(2);
        let width = (even(size[0] * scale) + 2 * MARGIN).max(LEAST_WIDTH);
        Layout { width, height: even(size[1] * scale) + HEADER + MARGIN, low, high, scale }
    }

    /// The pixel position of a point of the scene.
    fn place(&self, [x, y]: Point) -> Point {
        let margin = (self.width as f32 - (self.high[0] - self.low[0]) * self.scale) / 2.0;
        [margin + (x - self.low[0]) * self.scale, HEADER as f32 + (self.high[1] - y) * self.scale]
    }

    /// Renders a frame; `left` and `right` are the two ends of the line of text.
    pub fn draw(&self, shapes: &[Shape], left: &str, right: &str) -> Pixmap {
        let mut pixels = Pixmap::new(self.width, self.height).expect("a layout has a size");
        let (background, text, _) = FILM;
        pixels.fill(colour(background));
        for shape in shapes {
            self.shape(shape, &mut pixels);
        }
        // Clip shapes that extend above the view at the line of text.
        fill_rect(&mut pixels, [0.0, 0.0], [self.width as f32, HEADER as f32], background);
        let (size, margin) = (RasterHeight::Size16, MARGIN as i32);
        let width = text_width(right, size) as i32;
        let room = self.width as i32 - width - 3 * margin;
        let fitting = (room / text_width(" ", size) as i32).max(0) as usize;
        let left: String = left.chars().take(fitting).collect();
        let middle = HEADER as i32 / 2;
        write(&mut pixels, &left, size, [margin, middle], text);
        write(&mut pixels, right, size, [self.width as i32 - width - margin, middle], text);
        pixels
    }

    fn shape(&self, shape: &Shape, pixels: &mut Pixmap) {
        match shape {
            Shape::Line { points, tone } => {
                let width = Stroke {
                    width: LINE_WIDTH,
                    line_cap: LineCap::Round,
                    line_join: LineJoin::Round,
                    ..Stroke::default()
                };
                if let Some(path) = self.path(points, false) {
                    pixels.stroke_path(
                        &path,
                        &paint(film_tone(*tone), 255),
                        &width,
                        Transform::identity(),
                        None,
                    );
                }
            }
            Shape::Polygon { points, tone } => {
                if let Some(path) = self.path(points, true) {
                    fill(&path, *tone, pixels);
                }
            }
            Shape::Circle { center, radius, tone } => {
                let [x, y] = self.place(*center);
                // Small circles stay visible.
                let radius = (radius.abs() * self.scale).max(1.5);
                if let Some(path) = PathBuilder::from_circle(x, y, radius) {
                    fill(&path, *tone, pixels);
                }
            }
            Shape::Rectangle { low, high, tone } => {
                // Whole pixels, so that neighbours meet without a seam.
                let [[left, bottom], [right, top]] =
                    [low, high].map(|corner| self.place(*corner).map(f32::round));
                fill_rect(
                    pixels,
                    [left, top],
                    [right.max(left + 1.0), bottom.max(top + 1.0)],
                    film_tone(*tone),
                );
            }
            Shape::Text { center, text, tone } => {
                let (size, first) = self.place_text(text, center[0]);
                let [x, y] = self.place(*center).map(|x| x.round() as i32);
                // On a filled shape, what can be read there.
                let (background, light, _) = FILM;
                let below =
                    u32::try_from(x).ok().zip(u32::try_from(y).ok()).and_then(|(x, y)| pixels.pixel(x, y));
                let ground = below.map_or(background, |pixel| (pixel.red(), pixel.green(), pixel.blue()));
                let rgb = match ground == background {
                    true => film_tone(*tone),
                    false => contrasting(ground, background, light),
                };
                write(pixels, text, size, [first, y], rgb);
            }
        }
    }

    /// The size of a text, and where it begins: centred on `x` of the scene, or as near to it as the width of the film allows.
    fn place_text(&self, text: &str, x: f32) -> (RasterHeight, i32) {
        // The largest font size that fits a square of the board and the width of the film.
        let size = [RasterHeight::Size32, RasterHeight::Size24, RasterHeight::Size16]
            .into_iter()
            .find(|size| {
                text_width(text, *size) <= self.width as usize && size.val() as f32 <= 0.8 * self.scale
            })
            .unwrap_or(RasterHeight::Size16);
        let width = text_width(text, size) as i32;
        let middle = self.place([x, 0.0])[0].round() as i32;
        (size, (middle - width / 2).min(self.width as i32 - width).max(0))
    }

    fn path(&self, points: &[Point], closed: bool) -> Option<Path> {
        let mut path = PathBuilder::new();
        for (i, point) in points.iter().enumerate() {
            let [x, y] = self.place(*point);
            if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if closed {
            path.close();
        }
        // `None` if a coordinate is not finite.
        path.finish()
    }
}

/// An opaque colour.
pub(crate) fn colour((red, green, blue): Rgb) -> Color {
    Color::from_rgba8(red, green, blue, 255)
}

fn fill(path: &Path, tone: u8, pixels: &mut Pixmap) {
    pixels.fill_path(path, &paint(film_tone(tone), 255), FillRule::EvenOdd, Transform::identity(), None);
}

fn fill_rect(pixels: &mut Pixmap, [left, top]: Point, [right, bottom]: Point, rgb: Rgb) {
    if let Some(rect) = Rect::from_ltrb(left, top, right, bottom) {
        pixels.fill_rect(rect, &paint(rgb, 255), Transform::identity(), None);
    }
}

/// Writes text from `x` on, vertically centred on `y`.
fn write(pixels: &mut Pixmap, text: &str, size: RasterHeight, [x, y]: [i32; 2], rgb: Rgb) {
    let (width, height) = (pixels.width() as i32, pixels.height() as i32);
    let data = pixels.data_mut();
    for ([dx, dy], coverage) in text_pixels(text, size) {
        let (column, row) = (x + dx, y - size.val() as i32 / 2 + dy);
        if !((0..width).contains(&column) && (0..height).contains(&row)) {
            continue;
        }
        let pixel = &mut data[4 * (row * width + column) as usize..][..3];
        for (channel, to) in pixel.iter_mut().zip([rgb.0, rgb.1, rgb.2]) {
            let share = u32::from(coverage);
            *channel = ((u32::from(*channel) * (255 - share) + u32::from(to) * share) / 255) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use operant_metrics::tone::{BLUE, GREEN, GREY, PURPLE, RED, YELLOW};

    use super::*;

    /// The colour of the pixel at a point of the scene.
    fn at(layout: &Layout, pixels: &Pixmap, point: Point) -> Rgb {
        let [x, y] = layout.place(point).map(|x| x as u32);
        let pixel = pixels.pixel(x, y).expect("inside");
        (pixel.red(), pixel.green(), pixel.blue())
    }

    #[test]
    fn a_text_stays_within_the_film() {
        let layout = Layout::of([0.0, 0.0], [6.0, 7.0]);
        let width = |text: &str, size| text_width(text, size) as i32;
        for (text, x) in
            [("put the yellow ball near the purple key", 3.0), ("height +0.12 m", 0.1), ("end", 6.0)]
        {
            let (size, first) = layout.place_text(text, x);
            assert!(
                first >= 0 && first + width(text, size) <= layout.width as i32,
                "{text}: {size:?} at {first}"
            );
        }
        let (size, first) = layout.place_text("7", 3.0);
        assert_eq!((size, first + width("7", size) / 2), (RasterHeight::Size32, layout.width as i32 / 2));
    }

    #[test]
    fn every_shape_has_its_place_and_colour() {
        let shapes = vec![
            Shape::rectangle([1.0, 1.0], 2.0, 2.0, GREY),
            Shape::circle([3.0, 1.0], 0.5, RED),
            Shape::polygon([[4.0, 0.0], [5.0, 0.0], [4.5, 1.0]], GREEN),
            Shape::line([[0.0, 3.0], [6.0, 3.0]], BLUE),
            Shape::rectangle([5.5, 5.0], 1.0, 1.0, PURPLE),
            Shape::text([2.0, 5.0], "M", YELLOW),
            Shape::line([[f32::NAN, 0.0], [1.0, 1.0]], RED),
            Shape::circle([-90.0, 90.0], 1.0, RED),
            Shape::rectangle([3.0, 90.0], 1.0, 200.0, RED),
        ];
        let layout = Layout::of([0.0; 2], [6.0; 2]);
        assert_eq!((layout.width, layout.height), (416, 436));
        let pixels = layout.draw(&shapes, "world", "step 3");
        let tones = [
            ([1.0, 1.0], GREY),
            ([3.0, 1.2], RED),
            ([4.5, 0.3], GREEN),
            ([2.0, 3.0], BLUE),
            ([5.5, 5.0], PURPLE),
        ];
        for (point, tone) in tones {
            assert_eq!(at(&layout, &pixels, point), film_tone(tone), "{point:?}");
        }
        assert_eq!(at(&layout, &pixels, [0.5, 4.0]), FILM.0);
        let is = |rgb: Rgb| pixels.pixels().iter().filter(|p| (p.red(), p.green(), p.blue()) == rgb).count();
        assert!(is(film_tone(YELLOW)) > 20, "the text");
        let header = &pixels.pixels()[..(HEADER * layout.width) as usize];
        assert!(header.iter().filter(|pixel| pixel.red() > 128).count() > 40, "the line of text");
        // A shape that extends out of the view ends below the header.
        assert_eq!(pixels.pixel(200, 2).map(|p| (p.red(), p.green(), p.blue())), Some(FILM.0));
    }

    #[test]
    fn any_view_has_a_size() {
        for (low, high) in [
            ([0.0, 0.0], [1e6, 1.0]),
            ([0.0; 2], [f32::NAN, 1.0]),
            ([1.0; 2], [0.0; 2]),
            ([0.0; 2], [1.0, 1e6]),
        ] {
            let layout = Layout::of(low, high);
            assert!(layout.width.is_multiple_of(2) && layout.height.is_multiple_of(2));
            assert!((320..=496).contains(&layout.width) && (38..=436).contains(&layout.height), "{layout:?}");
            layout.draw(&[Shape::circle(low, 1.0, 1)], "a long title that has no room at all", "step 12");
        }
    }
}
