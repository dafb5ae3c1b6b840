//! Writes films of episodes: GIF, MP4 with ffmpeg, or a sheet of frames as PNG.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use operant_draw::film::{Film, LAST_FRAME};
use operant_run::{Error, ErrorKind, dir};

use crate::output;

/// From this number of frames on, a film takes long enough to say so before it is written.
const MANY: usize = 1000;

/// A file format, chosen by the file extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Gif,
    Mp4,
    Png,
}

impl Format {
    /// The format of a file, whose directory must exist; some need ffmpeg. Called before anything is played.
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
        let has_ffmpeg =
            || Command::new("ffmpeg").arg("-version").output().is_ok_and(|output| output.status.success());
        if format == Format::Mp4 && !has_ffmpeg() {
            let error = Error::usage("an MP4 needs ffmpeg, which is not in PATH");
            return Err(error.at(path.display().to_string()).remedy("install ffmpeg, or record a .gif"));
        }
        Ok(format)
    }
}

/// Writes the film and returns a message about what was written.
pub fn write(film: &Film, format: Format, path: &Path) -> Result<String, Error> {
    let (layout, frames) = (film.layout(), film.count());
    let failed = |error: &io::Error| {
        Error::disk("the film cannot be written", path, error).remedy("name a file that can be written")
    };
    if format != Format::Png && frames >= MANY {
        eprintln!("{}", output::message(&format!("writing {frames} frames to {}", path.display())));
    }
    let (width, height) = match format {
        Format::Gif => {
            let bytes = film.gif().map_err(|error| failed(&io::Error::other(error)))?;
            dir::write_output(path, bytes).map_err(|error| failed(&error))?;
            (layout.width, layout.height)
        }
        Format::Png => {
            let sheet = film.sheet();
            let bytes = sheet.encode_png().map_err(|error| failed(&io::Error::other(error)))?;
            dir::write_output(path, bytes).map_err(|error| failed(&error))?;
            (sheet.width(), sheet.height())
        }
        Format::Mp4 => {
            mp4(film, (layout.width, layout.height), path)?;
            (layout.width, layout.height)
        }
    };
    let cut = if film.is_full() { ", the most of a film" } else { "" };
    Ok(format!("{}: {frames} frames{cut}, {width} x {height}\n", path.display()))
}

/// Pipes raw frames into ffmpeg.
fn mp4(film: &Film, (width, height): (u32, u32), path: &Path) -> Result<(), Error> {
    let failed = |what: String| {
        let error = Error::new(ErrorKind::Disk, what).at(path.display().to_string());
        error.remedy("check that the file can be written, or record a .gif")
    };
    let (size, fps) = (format!("{width}x{height}"), film.fps().to_string());
    let mut child = Command::new("ffmpeg")
        .args("-y -loglevel error -f rawvideo -pix_fmt rgba -s".split(' '))
        .args([&size, "-r", &fps, "-i", "-"])
        .args(["-pix_fmt", "yuv420p", "-movflags", "+faststart"])
        // A file name that begins with a dash must not be read as an option.
        .arg(Path::new(".").join(path))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("ffmpeg cannot be started: {error}")))?;
    let mut input = child.stdin.take().expect("a pipe");
    // stderr is read while frames are written: a full pipe would block ffmpeg, and the text explains an early exit.
    let seconds = f32::from(LAST_FRAME) / 100.0;
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            film.frames().try_for_each(|(pixels, is_last)| {
                let times = if is_last { (seconds * film.fps()).round().max(1.0) as usize } else { 1 };
                (0..times).try_for_each(|_| input.write_all(pixels.data()))
            })
        });
        child.wait_with_output()
    });
    let output = output.map_err(|error| failed(format!("ffmpeg: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let last = &output.stderr[output.stderr.len().saturating_sub(2000)..];
    let said = String::from_utf8_lossy(last);
    Err(failed(format!("ffmpeg failed ({}): {}", output.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

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
