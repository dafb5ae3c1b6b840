//! The file `checksums`: one line per file of a checkpoint, `<CRC-32, 8 hex digits> <length in bytes> <name>`.
//!
//! It needs no checksum of its own: a line is accepted only in the exact form in which it would be written for its
//! file, so a change to either is a mismatch.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use super::{CONFIG, CheckpointError, META, STATE};

/// Name of the file.
pub const CHECKSUMS: &str = "checksums";

/// A checkpoint's files by name.
pub type Files = BTreeMap<&'static str, Vec<u8>>;

/// The text of `checksums` for these files.
pub fn render(files: &Files) -> String {
    files.iter().map(|(name, bytes)| line(name, bytes)).collect()
}

/// Reads those files of the checkpoint at `path` that `wanted` names, each checked.
///
/// # Errors
/// `Missing` for an absent directory or file, `Damaged` for one whose content changed, `Io` otherwise.
pub fn read(path: &Path, wanted: &[&'static str]) -> Result<Files, CheckpointError> {
    let list = list(path)?;
    let lines = lines(path, &list)?;
    let mut files = Files::new();
    for &name in wanted {
        let (file, expected) = (path.join(name), lines[name]);
        let bytes = read_file(&file)?;
        compare(&file, &line(name, &bytes), expected)?;
        files.insert(name, bytes);
    }
    Ok(files)
}

/// Checks the file `name` of the checkpoint at `path` without keeping its bytes; false if the checkpoint has none.
///
/// # Errors
/// The errors of [`read`].
pub fn check(path: &Path, name: &str) -> Result<bool, CheckpointError> {
    let list = list(path)?;
    let Some(expected) = lines(path, &list)?.get(name).copied() else { return Ok(false) };
    let (file, mut sum) = (path.join(name), Summed::new(io::sink()));
    let read = operant_metrics::open_file(&file).and_then(|mut from| io::copy(&mut from, &mut sum));
    read.map_err(unread(&file))?;
    compare(&file, &sum.line(name), expected)?;
    Ok(true)
}

fn compare(file: &Path, found: &str, expected: &str) -> Result<(), CheckpointError> {
    let found = found.trim_end();
    if found == expected {
        return Ok(());
    }
    let parts = |line: &str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let problem = match (&parts(found)[..], &parts(expected)[..]) {
        ([_, has], [_, written]) if has != written => {
            format!("{written} bytes were written, and it has {has}")
        }
        ([has, _], [written, _]) => format!("its CRC-32 is {has}, and was {written} when it was written"),
        _ => format!("its line in {CHECKSUMS} is not of the form \"CRC-32 bytes name\""),
    };
    Err(CheckpointError::damaged(file, problem))
}

/// The text of the list.
fn list(path: &Path) -> Result<String, CheckpointError> {
    if !path.try_exists().map_err(CheckpointError::io("read", path))? {
        return Err(CheckpointError::Missing(path.to_owned()));
    }
    let list_path = path.join(CHECKSUMS);
    String::from_utf8(read_file(&list_path)?).map_err(|_| CheckpointError::damaged(&list_path, "not text"))
}

/// Its lines by the name of their file, among them those that every checkpoint has.
fn lines<'a>(path: &Path, list: &'a str) -> Result<BTreeMap<&'a str, &'a str>, CheckpointError> {
    let path = path.join(CHECKSUMS);
    let lines = parse(list).map_err(|problem| CheckpointError::damaged(&path, problem))?;
    for name in [CONFIG, META, STATE] {
        if !lines.contains_key(name) {
            return Err(CheckpointError::damaged(&path, format!("it has no line for {name}")));
        }
    }
    Ok(lines)
}

fn line(name: &str, bytes: &[u8]) -> String {
    let mut sum = Summed::new(io::sink());
    sum.add(bytes);
    sum.line(name)
}

/// A file whose line of `checksums` is known once it is written.
#[derive(Debug)]
pub struct Summed<W> {
    inner: W,
    crc: crc32fast::Hasher,
    length: u64,
}

impl<W> Summed<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, crc: crc32fast::Hasher::new(), length: 0 }
    }

    pub fn inner(&self) -> &W {
        &self.inner
    }

    fn add(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Its line.
    pub fn line(self, name: &str) -> String {
        format!("{:08x} {} {name}\n", self.crc.finalize(), self.length)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The lines by the name of their file.
fn parse(list: &str) -> Result<BTreeMap<&str, &str>, &'static str> {
    let list = list.strip_suffix('\n').ok_or("it is truncated")?;
    let mut lines = BTreeMap::new();
    for line in list.split('\n') {
        let name = line.splitn(3, ' ').nth(2).ok_or("a line is not of the form \"CRC-32 bytes name\"")?;
        if lines.insert(name, line).is_some() {
            return Err("a file is listed twice");
        }
    }
    Ok(lines)
}

fn read_file(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let mut bytes = Vec::new();
    let read = operant_metrics::open_file(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(unread(path))
}

fn unread(path: &Path) -> impl Fn(io::Error) -> CheckpointError + '_ {
    |error| match error.kind() {
        ErrorKind::NotFound => CheckpointError::Missing(path.to_owned()),
        _ => CheckpointError::io("read", path)(error),
    }
}
