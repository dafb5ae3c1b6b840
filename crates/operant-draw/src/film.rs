//! Films of episodes: as a GIF, as a sheet of frames, and frame by frame.

use std::borrow::Cow;
use std::collections::HashMap;

use operant_metrics::{Point, Shape};
use tiny_skia::{Pixmap, PremultipliedColorU8};

use crate::canvas::{Layout, colour};
use crate::theme::{FILM, GUTTER_COLOUR};

/// Frames of a sheet: per row, and in total.
const SHEET: (usize, usize) = (4, 12);
/// Pixels between neighbouring frames of a sheet.
const GUTTER: usize = 4;
/// Number of shades from the background to each colour of a GIF.
const SHADES: usize = 16;
/// Palette index of a GIF pixel that did not change.
const UNCHANGED: u8 = 255;
/// Maximum number of frames, because all of them are in memory until the film is written.
pub const MOST_FRAMES: usize = 20_000;
/// How long the last frame of an episode is shown, in hundredths of a second.
pub const LAST_FRAME: u16 = 100;

/// A return with at most two decimals, for the line of text of a frame.
pub fn return_text(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A frame of a film.
struct Shot {
    shapes: Vec<Shape>,
    /// The right end of the line of text.
    note: String,
    /// Whether this is the last frame of its episode.
    is_last: bool,
}

/// Frames in the order in which they were shown.
pub struct Film {
    title: String,
    fps: f32,
    view: (Point, Point),
    shots: Vec<Shot>,
}

impl Film {
    /// A film without frames. Its title is the left end of the line of text.
    pub fn new(title: &str, fps: f32) -> Self {
        let fps = if fps.is_finite() { fps.clamp(1.0, 100.0) } else { 30.0 };
        Film { title: title.to_owned(), fps, view: ([0.0; 2], [1.0; 2]), shots: Vec::new() }
    }

    pub fn fps(&self) -> f32 {
        self.fps
    }

    /// Number of frames.
    pub fn count(&self) -> usize {
        self.shots.len()
    }

    /// Whether nothing can be added any more.
    pub fn is_full(&self) -> bool {
        self.shots.len() >= MOST_FRAMES
    }

    /// Adds a frame with the right end of its line of text; a full film stays as it is. The view of the first frame is that
    /// of all.
    pub fn add(&mut self, view: (Point, Point), shapes: Vec<Shape>, note: String, is_last: bool) {
        if self.is_full() {
            return;
        }
        if self.shots.is_empty() {
            self.view = view;
        }
        self.shots.push(Shot { shapes, note, is_last });
    }

    /// Width and height of a frame, and where its shapes are.
    pub fn layout(&self) -> Layout {
        Layout::of(self.view.0, self.view.1)
    }

    fn pixels(&self, layout: &Layout, shot: &Shot) -> Pixmap {
        layout.draw(&shot.shapes, &self.title, &shot.note)
    }

    /// The frames, and whether each is the last one of its episode.
    pub fn frames(&self) -> impl Iterator<Item = (Pixmap, bool)> {
        let layout = self.layout();
        self.shots.iter().map(move |shot| (self.pixels(&layout, shot), shot.is_last))
    }

    /// Encodes a GIF: one palette for all frames; each frame stores only the pixels that changed.
    ///
    /// # Errors
    /// When the encoder refuses a frame.
    pub fn gif(&self) -> Result<Vec<u8>, gif::EncodingError> {
        let layout = self.layout();
        let palette = palette();
        let mut known = HashMap::new();
        let mut nearest = |rgb: [u8; 3]| {
            *known.entry(rgb).or_insert_with(|| {
                let away = |colour: &[u8; 3]| -> i32 {
                    colour.iter().zip(rgb).map(|(a, b)| (i32::from(*a) - i32::from(b)).pow(2)).sum()
                };
                (0..palette.len()).min_by_key(|&i| away(&palette[i])).map_or(0, |i| i as u8)
            })
        };
        let colours: Vec<u8> = palette.iter().flatten().copied().collect();
        let mut encoder = gif::Encoder::new(Vec::new(), layout.width as u16, layout.height as u16, &colours)?;
        encoder.set_repeat(gif::Repeat::Infinite)?;
        let mut before: Vec<PremultipliedColorU8> = Vec::new();
        for (i, (pixels, is_last)) in self.frames().enumerate() {
            let now = pixels.pixels();
            let index = |(at, pixel): (usize, &PremultipliedColorU8)| match before.get(at) {
                Some(old) if old == pixel => UNCHANGED,
                _ => nearest([pixel.red(), pixel.green(), pixel.blue()]),
            };
            let buffer: Vec<u8> = now.iter().enumerate().map(index).collect();
            // Rounded so that the total duration is correct.
            let hundredths = |frame: usize| (frame as f64 * 100.0 / f64::from(self.fps)).round();
            let delay = match is_last {
                true => LAST_FRAME,
                false => (hundredths(i + 1) - hundredths(i)) as u16,
            };
            encoder.write_frame(&gif::Frame {
                width: layout.width as u16,
                height: layout.height as u16,
                delay,
                dispose: gif::DisposalMethod::Keep,
                transparent: Some(UNCHANGED),
                buffer: Cow::Owned(buffer),
                ..gif::Frame::default()
            })?;
            before.clear();
            before.extend_from_slice(now);
        }
        encoder.into_inner()
    }

    /// Up to twelve frames, evenly spaced from the first to the last, four per row with a gutter between them.
    pub fn sheet(&self) -> Pixmap {
        let layout = self.layout();
        let count = self.shots.len().clamp(1, SHEET.1);
        let (columns, rows) = (count.min(SHEET.0), count.div_ceil(SHEET.0));
        let (width, height) = (layout.width as usize, layout.height as usize);
        let side = |count: usize, length: usize| count * (length + GUTTER) - GUTTER;
        let mut sheet =
            Pixmap::new(side(columns, width) as u32, side(rows, height) as u32).expect("a layout has a size");
        sheet.fill(colour(GUTTER_COLOUR));
        let row_bytes = 4 * side(columns, width);
        for k in 0..columns * rows {
            let shot = self.shots.get(k * self.shots.len().saturating_sub(1) / (count - 1).max(1));
            let pixels = match shot.filter(|_| k < count) {
                Some(shot) => self.pixels(&layout, shot),
                // The rest of the last row.
                None => layout.draw(&[], "", ""),
            };
            let (x, y) = (k % columns * (width + GUTTER), k / columns * (height + GUTTER));
            for (row, from) in pixels.data().chunks_exact(4 * width).enumerate() {
                sheet.data_mut()[(y + row) * row_bytes + 4 * x..][..4 * width].copy_from_slice(from);
            }
        }
        sheet
    }
}

/// All colours of a film blended with the background: the antialiased edges of shapes and letters need these shades.
fn palette() -> Vec<[u8; 3]> {
    let (background, text, tones) = FILM;
    let channels = |(red, green, blue)| [red, green, blue];
    let shade = |to: u8, from: u8, k: usize| {
        (usize::from(from) + (usize::from(to) * k).saturating_sub(usize::from(from) * k) / SHADES).min(255)
            as u8
    };
    let [background, text] = [background, text].map(channels);
    let mut palette = vec![background];
    for colour in tones.into_iter().map(channels).chain([text]) {
        palette.extend((1..=SHADES).map(|k| [0, 1, 2].map(|i| shade(colour[i], background[i], k))));
    }
    palette
}

#[cfg(test)]
mod tests {
    use operant_metrics::tone::RED;

    use super::*;

    /// A ball that crosses the picture.
    fn film(frames: usize) -> Film {
        let mut film = Film::new("ball", 30.0);
        for step in 0..frames {
            let shapes = vec![Shape::circle([step as f32 / frames as f32, 0.5], 0.1, RED)];
            film.add(([0.0; 2], [1.0; 2]), shapes, format!("step {step}"), step + 1 == frames);
        }
        film
    }

    #[test]
    fn a_gif_has_every_frame_and_lasts_as_long_as_the_episode() {
        let film = film(31);
        let layout = film.layout();
        let bytes = film.gif().expect("encoded");
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(bytes.as_slice()).expect("a GIF");
        let (mut delays, mut canvas) = (Vec::new(), vec![0; (4 * layout.width * layout.height) as usize]);
        while let Some(frame) = decoder.read_next_frame().expect("a frame") {
            delays.push(frame.delay);
            for (pixel, new) in
                canvas.chunks_exact_mut(4).zip(frame.buffer.chunks_exact(4)).filter(|(_, new)| new[3] > 0)
            {
                pixel.copy_from_slice(new);
            }
        }
        assert_eq!((delays.len(), delays[30]), (31, LAST_FRAME));
        assert_eq!(delays[..30].iter().sum::<u16>(), 100);
        // The frames of the GIF applied in order give the last frame, in palette colours.
        let last = film.pixels(&layout, &film.shots[30]);
        let most = last
            .pixels()
            .iter()
            .zip(canvas.chunks_exact(4))
            .map(|(pixel, shown)| pixel.red().abs_diff(shown[0]))
            .max();
        assert!(most < Some(16), "{most:?}");
        assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
    }

    #[test]
    fn a_sheet_has_frames_from_the_first_to_the_last() {
        let size = |frames| {
            let (film, layout) = (film(frames), film(frames).layout());
            let sheet = film.sheet();
            let gutter = GUTTER as u32;
            let frames = [(sheet.width(), layout.width), (sheet.height(), layout.height)];
            assert!(
                frames.iter().all(|(all, one)| (all + gutter).is_multiple_of(one + gutter)),
                "{frames:?}"
            );
            frames.map(|(all, one)| all / one)
        };
        assert_eq!([1, 3, 5, 12, 100].map(size), [[1, 1], [3, 1], [4, 2], [4, 3], [4, 3]]);
        let film = film(100);
        let (layout, sheet) = (film.layout(), film.sheet());
        let last = film.pixels(&layout, &film.shots[99]);
        let [across, down] = [layout.width, layout.height].map(|length| length + GUTTER as u32);
        for (x, y) in [(30, 200), (200, 14), (390, 210)] {
            assert_eq!(sheet.pixel(3 * across + x, 2 * down + y), last.pixel(x, y));
        }
    }

    #[test]
    fn a_gutter_separates_the_frames_of_a_sheet() {
        let film = film(100);
        let (layout, sheet) = (film.layout(), film.sheet());
        let at = |x: u32, y: u32| sheet.pixel(x, y).map(|pixel| (pixel.red(), pixel.green(), pixel.blue()));
        for past in 0..GUTTER as u32 {
            assert!((0..sheet.height()).all(|y| at(layout.width + past, y) == Some(GUTTER_COLOUR)), "{past}");
            assert!((0..sheet.width()).all(|x| at(x, layout.height + past) == Some(GUTTER_COLOUR)), "{past}");
        }
        assert_eq!(at(layout.width + GUTTER as u32, 0), Some(FILM.0));
        // The rest of a last row is empty.
        let five = self::film(5).sheet();
        let last = five.pixel(five.width() - 1, five.height() - 1);
        assert_eq!(last.map(|pixel| (pixel.red(), pixel.green(), pixel.blue())), Some(FILM.0));
    }

    #[test]
    fn the_palette_fits_a_gif() {
        let palette = palette();
        assert!(palette.len() < usize::from(UNCHANGED) && palette[0] == [FILM.0.0, FILM.0.1, FILM.0.2]);
        assert_eq!(palette[SHADES], [FILM.2[0].0, FILM.2[0].1, FILM.2[0].2]);
    }
}
