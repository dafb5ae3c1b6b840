//! operant.log: the run's `tracing` events, in its directory.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The destination of events: none until a run's log is opened.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Option<File>>>);

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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
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
            Some(file) => file.write_all(bytes).or(Ok(())).map(|()| bytes.len()),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}
