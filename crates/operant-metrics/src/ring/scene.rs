//! The scene: an episode of environment 0 as frames of shapes, which any monitor can draw.

use super::text::{self, plain};
use crate::{Point, Shape};

/// A recorded episode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Episode {
    /// Sequence number within the run, from 1; assigned by the ring.
    pub number: u64,
    /// Playback speed, in frames per second.
    pub fps: f32,
    /// Its undiscounted return; NaN while unknown.
    pub episodic_return: f32,
    /// Lower left corner of the view.
    pub low: Point,
    /// Upper right corner of the view.
    pub high: Point,
    /// The frames, first to last.
    pub frames: Vec<Frame>,
}

/// One frame: what is drawn, in order.
pub type Frame = Vec<Shape>;

const LINE: u32 = 0;
const CIRCLE: u32 = 1;
const RECTANGLE: u32 = 2;
const POLYGON: u32 = 3;
const TEXT: u32 = 4;

/// Maximum number of corners.
const MAX_POINTS: usize = 0xffff;
/// Maximum bytes of a text.
const MAX_TEXT: usize = 256;

impl Shape {
    /// Kind, tone, and points as pairs of 32-bit numbers. A text is its centre and its bytes, eight to a point, padded with zeros.
    fn to_numbers(&self) -> (u32, u8, Vec<u32>) {
        let flat = |points: &[Point]| -> Vec<u32> {
            let points = &points[..points.len().min(MAX_POINTS)];
            points.as_flattened().iter().map(|x| x.to_bits()).collect()
        };
        match self {
            Shape::Line { points, tone } => (LINE, *tone, flat(points)),
            Shape::Circle { center, radius, tone } => (CIRCLE, *tone, flat(&[*center, [*radius, 0.0]])),
            Shape::Rectangle { low, high, tone } => (RECTANGLE, *tone, flat(&[*low, *high])),
            Shape::Polygon { points, tone } => (POLYGON, *tone, flat(points)),
            Shape::Text { center, text, tone } => {
                let mut numbers = flat(&[*center]);
                for word in text::words(&text::line(text, MAX_TEXT)) {
                    numbers.extend([word as u32, (word >> 32) as u32]);
                }
                (TEXT, *tone, numbers)
            }
        }
    }

    /// The shape of that kind; `None` for an unknown kind, and for points that do not fit it.
    fn from_numbers(kind: u32, tone: u8, numbers: &[u32]) -> Option<Self> {
        let points: Vec<Point> =
            numbers.chunks_exact(2).map(|pair| [f32::from_bits(pair[0]), f32::from_bits(pair[1])]).collect();
        Some(match (kind, points.as_slice()) {
            (LINE, _) => Shape::Line { points, tone },
            (CIRCLE, &[center, [radius, _]]) => Shape::Circle { center, radius, tone },
            (RECTANGLE, &[low, high]) => Shape::Rectangle { low, high, tone },
            (POLYGON, _) => Shape::Polygon { points, tone },
            (TEXT, &[center, ..]) => {
                let words: Vec<u64> = numbers[2..]
                    .chunks_exact(2)
                    .map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32)
                    .collect();
                let text = text::from_words(&words, MAX_TEXT as u64);
                Shape::Text { center, text: plain(text.trim_end_matches('\0')), tone }
            }
            _ => return None,
        })
    }
}

impl Episode {
    /// Encodes the episode as words of two 32-bit numbers: frames per second, return, view, number of frames; per frame
    /// its number of shapes; per shape its kind, tone, number of points and coordinates. If that takes more
    /// than `room` words, every second frame is skipped, and then the end.
    pub(super) fn to_words(&self, room: usize) -> Vec<u64> {
        let word = |pair: &[u32]| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 32;
        let (mut stride, mut frames) = (1, self.frames.len());
        loop {
            let numbers = self.to_numbers(stride, frames);
            let words = numbers.len().div_ceil(2);
            if words <= room {
                return numbers.chunks(2).map(word).collect();
            }
            match (stride, frames) {
                (1, _) => stride = 2,
                (_, 0) => return Vec::new(),
                // Slightly less than its share, and always fewer.
                _ => frames = (frames * room / words * 15 / 16).min(frames - 1),
            }
        }
    }

    fn to_numbers(&self, stride: usize, frames: usize) -> Vec<u32> {
        let frames = self.frames[..frames].iter().step_by(stride);
        let (low, high) = (self.low, self.high);
        let head = [self.fps / stride as f32, self.episodic_return, low[0], low[1], high[0], high[1]];
        let mut numbers: Vec<u32> = head.into_iter().map(f32::to_bits).collect();
        numbers.push(frames.len() as u32);
        for frame in frames {
            numbers.push(frame.len() as u32);
            for shape in frame {
                let (kind, tone, points) = shape.to_numbers();
                numbers.push(kind | u32::from(tone) << 8 | (points.len() as u32 / 2) << 16);
                numbers.extend(points);
            }
        }
        numbers
    }

    /// Decodes an episode, as far as the words are valid. Unknown shapes are skipped.
    pub(super) fn from_words(number: u64, words: &[u64]) -> Option<Self> {
        let mut numbers = words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
        let mut real = || numbers.next().map(f32::from_bits);
        let (fps, episodic_return) = (real()?, real()?);
        let (low, high) = ([real()?, real()?], [real()?, real()?]);
        let mut episode = Episode { number, fps, episodic_return, low, high, frames: Vec::new() };
        for _ in 0..numbers.next()? {
            let mut frame = Frame::new();
            for _ in 0..numbers.next()? {
                let head = numbers.next()?;
                let (kind, tone) = (head & 0xff, (head >> 8) as u8);
                let count = 2 * (head >> 16) as usize;
                let points: Vec<u32> = numbers.by_ref().take(count).collect();
                if points.len() < count {
                    return None;
                }
                frame.extend(Shape::from_numbers(kind, tone, &points));
            }
            episode.frames.push(frame);
        }
        Some(episode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(frames: usize) -> Episode {
        let frame = |t: usize| {
            let x = t as f32;
            vec![
                Shape::Line { points: vec![[0.0, 0.0], [x, 1.0], [x, 2.0]], tone: 0 },
                Shape::Circle { center: [x, -x], radius: 0.5, tone: 3 },
                Shape::Rectangle { low: [x, 0.0], high: [x + 1.0, 1.0], tone: 1 },
                Shape::Polygon { points: vec![[0.0, 0.0], [x, 1.0], [x, 2.0]], tone: 10 },
                Shape::Text { center: [x, -x], text: format!("tile {t} größer"), tone: 5 },
            ]
        };
        Episode {
            number: 4,
            fps: 50.0,
            episodic_return: 12.5,
            low: [-1.0, -2.0],
            high: [1.0, 2.0],
            frames: (0..frames).map(frame).collect(),
        }
    }

    #[test]
    fn an_episode_reads_back() {
        for frames in [0, 1, 30] {
            let words = episode(frames).to_words(10_000);
            assert_eq!(Episode::from_words(4, &words), Some(episode(frames)));
        }
    }

    #[test]
    fn a_long_episode_is_thinned_and_shortened_to_fit() {
        let read = |frames, room| {
            let words = episode(frames).to_words(room);
            assert!(words.len() <= room);
            Episode::from_words(4, &words).unwrap()
        };
        let (thin, cut) = (read(60, 600), read(1000, 600));
        assert_eq!((thin.frames.len(), thin.fps), (30, 25.0));
        assert_eq!(thin.frames[1], episode(60).frames[2]);
        assert!((28..=34).contains(&cut.frames.len()), "{}", cut.frames.len());
        assert_eq!((cut.fps, &cut.frames[1]), (25.0, &episode(60).frames[2]));
        assert!(episode(5).to_words(3).is_empty());
    }

    #[test]
    fn invalid_words_are_not_an_episode() {
        let words = episode(3).to_words(10_000);
        assert_eq!(Episode::from_words(1, &words[..words.len() - 1]), None);
        assert_eq!(Episode::from_words(1, &[]), None);
        assert_eq!(Episode::from_words(1, &[u64::MAX; 50]), None);
        let mut strange = words;
        strange[4] = (strange[4] & !0xff) | 9;
        assert_eq!(
            Episode::from_words(1, &strange).unwrap().frames[0].len(),
            4,
            "an unknown shape is left out"
        );
    }

    #[test]
    fn a_text_is_short_and_has_no_control_characters() {
        let read = |text: &str| {
            let frames = vec![vec![Shape::Text { center: [0.0; 2], text: text.into(), tone: 0 }]];
            let words = Episode { frames, ..Episode::default() }.to_words(10_000);
            match Episode::from_words(1, &words).unwrap().frames[0].as_slice() {
                [Shape::Text { text, .. }] => text.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read("64"), "64");
        assert_eq!(read("12345678"), "12345678");
        assert_eq!(read(""), "");
        assert_eq!(read("a\u{1b}[2Jb"), "a [2Jb");
        assert!(read(&"long ".repeat(1000)).len() <= MAX_TEXT);
    }
}
