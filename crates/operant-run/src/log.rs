//! operant.log: the run's `tracing` events, in its directory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
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

#[cfg(test)]
mod tests {
    use super::*;

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
