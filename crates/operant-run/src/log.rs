//! operant.log: the run's `tracing` events, in its directory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The destination of events, and its size in bytes: none until a run's log is opened.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Option<(File, u64)>>>);

/// A log that is larger keeps its last lines only.
const MOST: u64 = 16 << 20;
/// How many bytes of them.
const KEPT: u64 = 1 << 20;

impl Log {
    /// Makes this log the process's subscriber, at the level of `OPERANT_LOG` (default `info`; in the syntax of
    /// tracing's `EnvFilter`). An existing subscriber is kept.
    pub fn install() -> Self {
        let log = Log::default();
        let filter = EnvFilter::try_from_env("OPERANT_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .with_target(false)
            .with_writer(log.clone())
            .try_init();
        log
    }

    /// Sends events to a file for as long as the returned value lives.
    pub(crate) fn open(&self, file: Option<File>) -> Logging {
        self.set(file);
        Logging(self.clone())
    }

    fn set(&self, file: Option<File>) {
        let sized = file.map(|file| {
            let size = file.metadata().map_or(0, |found| found.len());
            (file, size)
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sized;
    }
}

/// Events go to a run's log while this lives. The file also carries the run's lock, which must not outlive the run.
pub(crate) struct Logging(Log);

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // A full disk loses log lines and does not affect training.
            Some((file, size)) => {
                *size += bytes.len() as u64;
                let _ = file.write_all(bytes);
                if *size > MOST {
                    let _ = shorten(file);
                    *size = KEPT;
                }
                Ok(bytes.len())
            }
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the last lines. The file stays the same one, since it carries the run's lock.
fn shorten(file: &mut File) -> io::Result<()> {
    let mut last = Vec::new();
    file.seek(SeekFrom::End(-(KEPT as i64)))?;
    file.read_to_end(&mut last)?;
    let first_line = last.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(0)?;
    file.write_all(b"(earlier lines were removed)\n")?;
    file.write_all(&last[first_line..])
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// Bytes at the end of a log in which [`last_time`] looks.
const TAIL: u64 = 64 << 10;

/// The time of the last event in the log of the run in `dir`, as the log has it: `2026-11-21T10:46:36.120456Z`.
pub fn last_time(dir: &Path) -> Option<String> {
    let mut file = operant_metrics::open_file(&crate::dir::log_of(dir)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let first_words = text.lines().rev().filter_map(|line| line.split(' ').next());
    first_words.filter(|word| is_time(word)).map(str::to_owned).next()
}

/// Whether a word has the shape of a time.
fn is_time(word: &str) -> bool {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z') && word.len() <= 30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_is_that_of_the_last_event() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(last_time(dir.path()), None);
        let log = "2026-11-21T10:46:36.120456Z  INFO begins\n2026-11-21T10:46:37.5Z  WARN two\nlines of it\n";
        std::fs::write(dir.path().join("operant.log"), log).expect("written");
        assert_eq!(last_time(dir.path()).as_deref(), Some("2026-11-21T10:46:37.5Z"));
    }

    #[test]
    fn a_log_that_grows_keeps_its_last_lines_in_the_same_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("operant.log");
        let mut log = Log::default();
        let _open = log.open(crate::dir::open_own(&path).ok());
        let line = format!("{}\n", "x".repeat((KEPT / 4) as usize));
        let lines = 2 * MOST / KEPT * 4;
        for number in 0..lines {
            write!(log, "{number} {line}").expect("written");
            assert!(std::fs::metadata(&path).expect("there").len() <= MOST);
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let numbers: Vec<u64> = text
            .lines()
            .skip(1)
            .map(|line| line.split(' ').next().expect("a number").parse().expect("a number"))
            .collect();
        assert!(text.starts_with("(earlier lines were removed)\n"));
        assert_eq!(numbers, (lines - numbers.len() as u64..lines).collect::<Vec<_>>());
    }
}
