//! A file that only grows, and goes on after a disk was full.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes that are kept in this process before they are written.
const BUFFER: usize = 64 << 10;

/// A file opened for appending, so that one that somebody has cut short goes on at its end. What cannot be written is lost; the file
/// then ends with its last whole [`Appender::push`] once [`Appender::recover`] has succeeded.
#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Length of the file up to which it holds whole entries.
    whole: u64,
}

impl Appender {
    /// Starts an empty file, replacing any file there.
    pub fn create(path: &Path) -> io::Result<Self> {
        // O_TRUNC and O_APPEND cannot be asked for together.
        Self::open(path, OpenOptions::new().create(true).append(true)).and_then(|appender| {
            if appender.whole > 0 {
                appender.file.set_len(0)?;
            }
            Ok(Appender { whole: 0, ..appender })
        })
    }

    /// Starts a file that must not be there yet.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().create_new(true).append(true))
    }

    /// Goes on with a file.
    pub fn resume(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().append(true))
    }

    fn open(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let file = options.open(path)?;
        let whole = file.metadata()?.len();
        Ok(Appender { path: path.to_owned(), file, buffer: Vec::with_capacity(BUFFER), whole })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one entry.
    pub fn push(&mut self, entry: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(entry);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Hands everything to the operating system. Where that fails, the entries since the last flush are lost.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written?;
        self.whole = self.file.metadata()?.len();
        Ok(())
    }

    /// Flushes and waits for the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_data()
    }

    /// After a failure: removes the entry that was written in part, so that the next one begins well.
    pub fn recover(&mut self) -> io::Result<()> {
        self.buffer.clear();
        if self.file.metadata()?.len() > self.whole {
            self.file.set_len(self.whole)?;
        }
        Ok(())
    }
}
