//! The file `checksums`: one line per file of a checkpoint, `<CRC-32, 8 hex digits> <length in bytes> <name>`.
//!
//! It needs no checksum of its own: a line is accepted only in the exact form in which it would be written for its
//! file, so a change to either is a mismatch.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
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
    if !path.try_exists().map_err(CheckpointError::io("read", path))? {
        return Err(CheckpointError::Missing(path.to_owned()));
    }
    let list_path = path.join(CHECKSUMS);
    let list = read_file(&list_path)?;
    let list = str::from_utf8(&list).map_err(|_| CheckpointError::damaged(&list_path, "not text"))?;
    let lines = parse(list).map_err(|problem| CheckpointError::damaged(&list_path, problem))?;
    for name in [CONFIG, META, STATE] {
        if !lines.contains_key(name) {
            return Err(CheckpointError::damaged(&list_path, format!("it has no line for {name}")));
        }
    }
    let mut files = Files::new();
    for &name in wanted {
        let (file, expected) = (path.join(name), lines[name]);
        let bytes = read_file(&file)?;
        let found = line(name, &bytes);
        if found.trim_end() != expected {
            let problem = format!("it should be \"{expected}\" and is \"{}\"", found.trim_end());
            return Err(CheckpointError::damaged(&file, problem + " (CRC-32, bytes, name)"));
        }
        files.insert(name, bytes);
    }
    Ok(files)
}

fn line(name: &str, bytes: &[u8]) -> String {
    format!("{:08x} {} {name}\n", crc32fast::hash(bytes), bytes.len())
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
    read.map(|_| bytes).map_err(|error| match error.kind() {
        ErrorKind::NotFound => CheckpointError::Missing(path.to_owned()),
        _ => CheckpointError::io("read", path)(error),
    })
}
