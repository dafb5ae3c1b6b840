//! An append-only file that recovers after a full disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes that are buffered before they are written.
const BUFFER: usize = 64 << 10;

/// A file opened for appending, so that writing continues at the end even if the file was truncated. Entries that
/// cannot be written are lost; after [`Appender::recover`], the file ends with its last complete entry.
#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Length up to which the file holds complete entries.
    whole: u64,
}

impl Appender {
    /// Starts an empty file, replacing any file there.
    pub fn create(path: &Path) -> io::Result<Self> {
        // OpenOptions does not allow truncate and append together.
        Self::open(path, OpenOptions::new().create(true).append(true)).and_then(|appender| {
            if appender.whole > 0 {
                appender.file.set_len(0)?;
            }
            Ok(Appender { whole: 0, ..appender })
        })
    }

    /// Starts a file that must not exist yet.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().create_new(true).append(true))
    }

    /// Continues a file.
    pub fn resume(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().append(true))
    }

    fn open(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        // A stranger's directory may have a link to a file of the user's, or to one that would be made.
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        if is_link && std::fs::metadata(path).map_or(true, |found| found.is_file()) {
            return Err(io::Error::other("it is a link to another file; remove the link"));
        }
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

    /// Writes the buffer to the operating system. If that fails, the entries since the last flush are lost.
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

    /// After a failure: removes a partly written entry.
    pub fn recover(&mut self) -> io::Result<()> {
        self.buffer.clear();
        if self.file.metadata()?.len() > self.whole {
            self.file.set_len(self.whole)?;
        }
        Ok(())
    }
}
