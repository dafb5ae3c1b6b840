//! Writes films of episodes: GIF, MP4 with ffmpeg, or a sheet of frames as PNG.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use operant_env::{EnvSpec, Scene};
use operant_monitor::theme::FILM;
use operant_run::{Error, ErrorKind};
use tiny_skia::Pixmap;

use super::canvas::{Layout, colour};
use super::episodes::Outcome;

/// Frames of a sheet: per row, and in total.
const SHEET: (usize, usize) = (4, 12);
/// Number of shades from the background to each colour of a GIF.
const SHADES: usize = 20;
/// Palette index of a GIF pixel that did not change.
const UNCHANGED: u8 = 255;
/// Maximum number of frames, because all of them are in memory until the film is written.
const MOST_FRAMES: usize = 20_000;
/// How long the last frame of an episode is shown, in hundredths of a second.
const LAST_FRAME: u16 = 100;

/// A file format, chosen by the file extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Gif,
    Mp4,
    Png,
}

impl Format {
    /// The format of a file. Called before anything is played.
    ///
    /// # Errors
    /// When the extension is unknown, the directory does not exist, or ffmpeg is not installed.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let format = match ending.as_deref() {
            Some("gif") => Format::Gif,
            Some("mp4") => Format::Mp4,
            Some("png") => Format::Png,
            _ => {
                let what = format!("{}: the extension must be .gif, .mp4 or .png", path.display());
                return Err(Error::usage(what)
                    .at("--record")
                    .remedy("name the file after the format, such as film.gif"));
            }
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let problem = match parent {
            Some(parent) if !parent.is_dir() => Some("its directory does not exist"),
            _ => path.is_dir().then_some("the path is a directory"),
        };
        if let Some(problem) = problem {
            let error = Error::new(ErrorKind::Disk, format!("the film cannot be written: {problem}"));
            return Err(error
                .at(path.display().to_string())
                .remedy("give the name of a file in a directory that exists"));
        }
        let has_ffmpeg = || {
            Command::new("ffmpeg")
                .arg("-version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        if format == Format::Mp4 && !has_ffmpeg() {
            let error = Error::usage("an MP4 needs ffmpeg, which is not in PATH");
            return Err(error.at(path.display().to_string()).remedy("install ffmpeg, or record a .gif"));
        }
        Ok(format)
    }
}

/// A frame of a film.
struct Shot {
    scene: Scene,
    /// The right end of the line of text.
    note: String,
    /// Whether this is the last frame of its episode.
    is_last: bool,
}

/// Frames in the order in which they were shown.
pub struct Film {
    env: String,
    fps: f32,
    shots: Vec<Shot>,
}

impl Film {
    /// A film without frames.
    pub fn new(spec: &EnvSpec) -> Self {
        let fps = if spec.fps.is_finite() { spec.fps.clamp(1.0, 100.0) } else { 30.0 };
        Film { env: spec.name.clone(), fps, shots: Vec::new() }
    }

    /// Whether nothing can be added any more.
    pub fn is_full(&self) -> bool {
        self.shots.len() >= MOST_FRAMES
    }

    /// Adds the current state of an episode; a full film stays as it is.
    pub fn add(&mut self, scene: Scene, outcome: &Outcome) {
        if self.is_full() {
            return;
        }
        let note = outcome.note();
        self.shots.push(Shot { scene, note, is_last: outcome.end.is_some() });
    }

    fn layout(&self) -> Layout {
        let view = self.shots.first().map_or(([0.0; 2], [1.0; 2]), |shot| (shot.scene.low, shot.scene.high));
        Layout::of(view.0, view.1)
    }

    fn pixels(&self, layout: &Layout, shot: &Shot) -> Pixmap {
        layout.draw(&shot.scene, &self.env, &shot.note)
    }

    /// Writes the film and returns a message about what was written.
    ///
    /// # Errors
    /// When the file cannot be written, or ffmpeg fails.
    pub fn write(&self, format: Format, path: &Path) -> Result<String, Error> {
        let layout = self.layout();
        let frames = self.shots.len();
        let failed = |error: &io::Error| {
            Error::disk("the film cannot be written", path, error).remedy("name a file that can be written")
        };
        let (width, height) = match format {
            Format::Gif => {
                let bytes = self.gif(&layout).map_err(|error| failed(&io::Error::other(error)))?;
                std::fs::write(path, bytes).map_err(|error| failed(&error))?;
                (layout.width, layout.height)
            }
            Format::Png => {
                let sheet = self.sheet(&layout);
                let bytes = sheet.encode_png().map_err(|error| failed(&io::Error::other(error)))?;
                std::fs::write(path, bytes).map_err(|error| failed(&error))?;
                (sheet.width(), sheet.height())
            }
            Format::Mp4 => {
                self.mp4(&layout, path)?;
                (layout.width, layout.height)
            }
        };
        let cut = if self.is_full() { ", the most of a film" } else { "" };
        Ok(format!("{}: {frames} frames{cut}, {width} x {height}\n", path.display()))
    }

    /// Encodes a GIF: one palette for all frames; each frame stores only the pixels that changed.
    fn gif(&self, layout: &Layout) -> Result<Vec<u8>, gif::EncodingError> {
        let palette = palette();
        let mut nearest = Nearest { palette: &palette, known: HashMap::new() };
        let colours: Vec<u8> = palette.iter().flatten().copied().collect();
        let mut encoder = gif::Encoder::new(Vec::new(), layout.width as u16, layout.height as u16, &colours)?;
        encoder.set_repeat(gif::Repeat::Infinite)?;
        let mut before: Vec<u8> = Vec::new();
        for (i, shot) in self.shots.iter().enumerate() {
            let pixels = self.pixels(layout, shot);
            let now: Vec<u8> =
                pixels.pixels().iter().map(|p| nearest.of([p.red(), p.green(), p.blue()])).collect();
            let buffer = match before.is_empty() {
                true => now.clone(),
                false => now
                    .iter()
                    .zip(&before)
                    .map(|(now, old)| if now == old { UNCHANGED } else { *now })
                    .collect(),
            };
            // Rounded so that the total duration is correct.
            let hundredths = |frame: usize| (frame as f64 * 100.0 / f64::from(self.fps)).round();
            let delay = match shot.is_last {
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
            before = now;
        }
        encoder.into_inner()
    }

    /// Up to twelve frames, evenly spaced from the first to the last, four per row.
    fn sheet(&self, layout: &Layout) -> Pixmap {
        let count = self.shots.len().clamp(1, SHEET.1);
        let (columns, rows) = (count.min(SHEET.0), count.div_ceil(SHEET.0));
        let (width, height) = (layout.width as usize, layout.height as usize);
        let mut sheet =
            Pixmap::new((columns * width) as u32, (rows * height) as u32).expect("a layout has a size");
        sheet.fill(colour(FILM.0));
        let row_bytes = 4 * columns * width;
        for k in 0..count {
            let Some(shot) = self.shots.get(k * self.shots.len().saturating_sub(1) / (count - 1).max(1))
            else {
                break;
            };
            let pixels = self.pixels(layout, shot);
            let (x, y) = (k % columns * width, k / columns * height);
            for (row, from) in pixels.data().chunks_exact(4 * width).enumerate() {
                sheet.data_mut()[(y + row) * row_bytes + 4 * x..][..4 * width].copy_from_slice(from);
            }
        }
        sheet
    }

    /// Pipes raw frames into ffmpeg.
    fn mp4(&self, layout: &Layout, path: &Path) -> Result<(), Error> {
        let failed = |what: String| {
            let error = Error::new(ErrorKind::Disk, what).at(path.display().to_string());
            error.remedy("check that the file can be written, or record a .gif")
        };
        let (size, fps) = (format!("{}x{}", layout.width, layout.height), self.fps.to_string());
        let mut child = Command::new("ffmpeg")
            .args([
                "-y",
                "-loglevel",
                "error",
                "-f",
                "rawvideo",
                "-pix_fmt",
                "rgba",
                "-s",
                &size,
                "-r",
                &fps,
                "-i",
                "-",
            ])
            .args(["-pix_fmt", "yuv420p", "-movflags", "+faststart"])
            // A file name that begins with a dash must not be read as an option.
            .arg(Path::new(".").join(path))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("ffmpeg cannot be started: {error}")))?;
        let mut input = child.stdin.take().expect("a pipe");
        // If ffmpeg ends early, its error output gives the reason.
        let seconds = f32::from(LAST_FRAME) / 100.0;
        let _ = self.shots.iter().try_for_each(|shot| {
            let pixels = self.pixels(layout, shot);
            let times = if shot.is_last { (seconds * self.fps).round().max(1.0) as usize } else { 1 };
            (0..times).try_for_each(|_| input.write_all(pixels.data()))
        });
        drop(input);
        let output = child.wait_with_output().map_err(|error| failed(format!("ffmpeg: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(failed(format!("ffmpeg failed ({}): {}", output.status, said.trim())))
    }
}

/// All colours of a film blended with the background: the antialiased edges of shapes and letters need these shades.
fn palette() -> Vec<[u8; 3]> {
    let (background, text, tones) = FILM;
    let shade = |to: u8, from: u8, k: usize| {
        (usize::from(from) + (usize::from(to) * k).saturating_sub(usize::from(from) * k) / SHADES).min(255)
            as u8
    };
    let mut palette = vec![[background.0, background.1, background.2]];
    for colour in tones.into_iter().chain([text]) {
        for k in 1..=SHADES {
            palette.push([
                shade(colour.0, background.0, k),
                shade(colour.1, background.1, k),
                shade(colour.2, background.2, k),
            ]);
        }
    }
    palette
}

/// Finds the nearest palette entry of a colour.
struct Nearest<'a> {
    palette: &'a [[u8; 3]],
    known: HashMap<[u8; 3], u8>,
}

impl Nearest<'_> {
    fn of(&mut self, rgb: [u8; 3]) -> u8 {
        let palette = self.palette;
        *self.known.entry(rgb).or_insert_with(|| {
            let away = |colour: &[u8; 3]| -> i32 {
                colour.iter().zip(rgb).map(|(a, b)| (i32::from(*a) - i32::from(b)).pow(2)).sum()
            };
            (0..palette.len()).min_by_key(|&i| away(&palette[i])).map_or(0, |i| i as u8)
        })
    }
}

#[cfg(test)]
mod tests {
    use operant_env::{RED, Shape};

    use super::*;

    /// A ball that crosses the picture.
    fn film(frames: usize) -> Film {
        let mut film = Film::new(&EnvSpec { name: "ball".into(), fps: 30.0, ..EnvSpec::default() });
        for step in 0..frames {
            let shapes = vec![Shape::circle([step as f32 / frames as f32, 0.5], 0.1, RED)];
            let end = (step + 1 == frames).then_some("terminated");
            let outcome = Outcome { number: 0, episodic_return: step as f64 / 4.0, steps: step as u32, end };
            film.add(Scene { low: [0.0; 2], high: [1.0; 2], shapes }, &outcome);
        }
        film
    }

    #[test]
    fn a_gif_has_every_frame_and_lasts_as_long_as_the_episode() {
        let film = film(31);
        let layout = film.layout();
        let bytes = film.gif(&layout).expect("encoded");
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
            let sheet = film.sheet(&layout);
            (sheet.width() / layout.width, sheet.height() / layout.height)
        };
        assert_eq!([1, 3, 5, 12, 100].map(size), [(1, 1), (3, 1), (4, 2), (4, 3), (4, 3)]);
        let film = film(100);
        let (layout, sheet) = (film.layout(), film.sheet(&film.layout()));
        let last = film.pixels(&layout, &film.shots[99]);
        for (x, y) in [(30, 200), (200, 14), (390, 210)] {
            assert_eq!(sheet.pixel(3 * layout.width + x, 2 * layout.height + y), last.pixel(x, y));
        }
    }

    #[test]
    fn the_palette_fits_a_gif() {
        let palette = palette();
        assert!(palette.len() < usize::from(UNCHANGED) && palette[0] == [FILM.0.0, FILM.0.1, FILM.0.2]);
        assert_eq!(palette[SHADES], [FILM.2[0].0, FILM.2[0].1, FILM.2[0].2]);
    }

    #[test]
    fn formats_go_by_the_ending() {
        assert_eq!(Format::of(Path::new("a.GIF")), Ok(Format::Gif));
        assert_eq!(Format::of(Path::new("a.b.png")), Ok(Format::Png));
        for bad in ["film", "film.avi"] {
            let error = Format::of(Path::new(bad)).expect_err("no format");
            assert!(error.exit_code() == 2 && error.what.contains("must be .gif"), "{error}");
        }
        assert_eq!(Format::of(Path::new("/nowhere/at/all/a.gif")).expect_err("no directory").exit_code(), 1);
    }
}
