//! The scene: an episode of environment 0 as frames of drawing primitives, which any monitor can draw.

/// A point: x to the right, y up, in the scene's own units.
pub type Point = [f32; 2];

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
pub type Frame = Vec<Primitive>;

/// A drawing primitive. Tones are palette entries 0 to 4: ground, body, accent, target, faint.
#[derive(Debug, Clone, PartialEq)]
pub enum Primitive {
    /// Connected line segments.
    Line {
        /// Corners.
        points: Vec<Point>,
        /// Palette entry.
        tone: u8,
    },
    /// A circle.
    Circle {
        /// Centre.
        center: Point,
        /// Radius.
        radius: f32,
        /// Palette entry.
        tone: u8,
    },
    /// A filled rectangle.
    Rectangle {
        /// Lower left corner.
        low: Point,
        /// Upper right corner.
        high: Point,
        /// Palette entry.
        tone: u8,
    },
}

const LINE: u32 = 0;
const CIRCLE: u32 = 1;
const RECTANGLE: u32 = 2;

impl Episode {
    /// Encodes the episode as words of two 32-bit numbers: frames per second, return, view, number of frames; per frame
    /// its number of primitives; per primitive its kind, tone, number of points and coordinates. If that takes more
    /// than `room` words, every second frame is left out, and then the end.
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
                let (kind, tone, points): (u32, u8, &[Point]) = match shape {
                    Primitive::Line { points, tone } => (LINE, *tone, &points[..points.len().min(0xffff)]),
                    Primitive::Circle { center, radius, tone } => (CIRCLE, *tone, &[*center, [*radius, 0.0]]),
                    Primitive::Rectangle { low, high, tone } => (RECTANGLE, *tone, &[*low, *high]),
                };
                numbers.push(kind | u32::from(tone) << 8 | (points.len() as u32) << 16);
                numbers.extend(points.as_flattened().iter().map(|x| x.to_bits()));
            }
        }
        numbers
    }

    /// Decodes an episode, as far as the words are valid. Unknown primitives are left out.
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
                let mut points = Vec::new();
                for _ in 0..head >> 16 {
                    points.push([f32::from_bits(numbers.next()?), f32::from_bits(numbers.next()?)]);
                }
                match (kind, points.as_slice()) {
                    (CIRCLE, &[center, [radius, _]]) => {
                        frame.push(Primitive::Circle { center, radius, tone })
                    }
                    (RECTANGLE, &[low, high]) => frame.push(Primitive::Rectangle { low, high, tone }),
                    (LINE, _) => frame.push(Primitive::Line { points, tone }),
                    _ => {}
                }
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
                Primitive::Line { points: vec![[0.0, 0.0], [x, 1.0], [x, 2.0]], tone: 0 },
                Primitive::Circle { center: [x, -x], radius: 0.5, tone: 3 },
                Primitive::Rectangle { low: [x, 0.0], high: [x + 1.0, 1.0], tone: 1 },
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
        let (thin, cut) = (read(60, 300), read(1000, 300));
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
            2,
            "an unknown primitive is left out"
        );
    }
}
