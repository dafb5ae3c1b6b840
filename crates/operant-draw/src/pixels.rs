//! Pixels with text in a bitmap font, which charts are drawn on by `plotters`: PNG without fonts of the system.

use std::convert::Infallible;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord as Pixel, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};

use crate::theme::Rgb;

const FONT: RasterHeight = RasterHeight::Size16;

/// A paint of a colour, 255 for opaque.
pub(crate) fn paint((red, green, blue): Rgb, alpha: u8) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, alpha);
    paint
}

/// Width of a text in pixels.
pub(crate) fn text_width(text: &str, size: RasterHeight) -> usize {
    text.chars().count() * get_raster_width(FontWeight::Regular, size)
}

/// The pixels of a text from its upper left corner, to the right and down, with their coverage of up to 255; a character
/// that the font does not have becomes a question mark.
pub(crate) fn text_pixels(text: &str, size: RasterHeight) -> impl Iterator<Item = ([i32; 2], u8)> {
    let advance = get_raster_width(FontWeight::Regular, size) as i32;
    let raster = move |c| get_raster(c, FontWeight::Regular, size);
    let glyphs =
        (0..).zip(text.chars()).filter_map(move |(i, c)| Some((i, raster(c).or_else(|| raster('?'))?)));
    glyphs.flat_map(move |(i, glyph)| {
        let rows = (0..).zip(glyph.rows());
        rows.flat_map(move |(y, row)| {
            (i * advance..).zip(row).filter(|(_, share)| **share > 0).map(move |(x, share)| ([x, y], *share))
        })
    })
}

pub(crate) struct Picture(Pixmap);

type Drawn<T = ()> = Result<T, DrawingErrorKind<Infallible>>;

impl Picture {
    pub(crate) fn new((width, height): (u32, u32)) -> Self {
        let mut pixels = Pixmap::new(width, height).expect("a plot has a size");
        pixels.fill(Color::WHITE);
        Self(pixels)
    }

    pub(crate) fn png(&self) -> Vec<u8> {
        self.0.encode_png().expect("memory takes every picture")
    }

    fn stroke(&mut self, path: Option<Path>, style: &impl BackendStyle) -> Drawn {
        if let Some(path) = path {
            let stroke = Stroke { width: style.stroke_width() as f32, ..Stroke::default() };
            self.0.stroke_path(&path, &paint_of(style.color()), &stroke, Transform::identity(), None);
        }
        Ok(())
    }

    fn fill(&mut self, path: Option<Path>, style: &impl BackendStyle) -> Drawn {
        if let Some(path) = path {
            self.0.fill_path(&path, &paint_of(style.color()), FillRule::Winding, Transform::identity(), None);
        }
        Ok(())
    }

    fn outline(&mut self, path: Option<Path>, style: &impl BackendStyle, fill: bool) -> Drawn {
        if fill { self.fill(path, style) } else { self.stroke(path, style) }
    }
}

fn paint_of(color: BackendColor) -> Paint<'static> {
    paint(color.rgb, (color.alpha * 255.0) as u8)
}

fn path(points: impl IntoIterator<Item = Pixel>, close: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (number, (x, y)) in points.into_iter().enumerate() {
        // The middle of the pixel, so that thin lines are sharp.
        let (x, y) = (x as f32 + 0.5, y as f32 + 0.5);
        if number == 0 { builder.move_to(x, y) } else { builder.line_to(x, y) }
    }
    if close {
        builder.close();
    }
    builder.finish()
}

impl DrawingBackend for &mut Picture {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.0.width(), self.0.height())
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): Pixel, color: BackendColor) -> Drawn {
        let pixel = tiny_skia::Rect::from_xywh(x as f32, y as f32, 1.0, 1.0);
        if let Some(pixel) = pixel {
            self.0.fill_rect(pixel, &paint_of(color), Transform::identity(), None);
        }
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: Pixel, to: Pixel, style: &S) -> Drawn {
        self.stroke(path([from, to], false), style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = Pixel>>(&mut self, points: I, style: &S) -> Drawn {
        self.stroke(path(points, false), style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, low: Pixel, high: Pixel, style: &S, fill: bool) -> Drawn {
        self.outline(path([low, (high.0, low.1), high, (low.0, high.1)], true), style, fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = Pixel>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn {
        self.fill(path(points, true), style)
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: Pixel, radius: u32, style: &S, fill: bool) -> Drawn {
        let circle = PathBuilder::from_circle(center.0 as f32 + 0.5, center.1 as f32 + 0.5, radius as f32);
        self.outline(circle, style, fill)
    }

    fn estimate_text_size<S: BackendTextStyle>(&self, text: &str, _: &S) -> Drawn<(u32, u32)> {
        Ok((text_width(text, FONT) as u32, FONT as u32))
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): Pixel) -> Drawn {
        let (width, height) = (text_width(text, FONT) as i32, FONT as i32);
        let anchor = style.anchor();
        let along = match anchor.h_pos {
            HPos::Left => 0,
            HPos::Center => width / 2,
            HPos::Right => width,
        };
        let across = match anchor.v_pos {
            VPos::Top => 0,
            VPos::Center => height / 2,
            VPos::Bottom => height,
        };
        let color = style.color();
        for ([a, b], shade) in text_pixels(text, FONT) {
            let (a, b) = (a - along, b - across);
            // A turned text runs along other axes.
            let (dx, dy) = match style.transform() {
                FontTransform::None => (a, b),
                FontTransform::Rotate90 => (-b, a),
                FontTransform::Rotate180 => (-a, -b),
                FontTransform::Rotate270 => (b, -a),
            };
            let shade = BackendColor { alpha: color.alpha * f64::from(shade) / 255.0, ..color };
            self.draw_pixel((x + dx, y + dy), shade)?;
        }
        Ok(())
    }
}
