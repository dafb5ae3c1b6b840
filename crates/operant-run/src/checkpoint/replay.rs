//! `replay.safetensors`: the rows of a replay. They can take most of a machine's memory, so they are written and read a piece at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::Path;

use operant_learn::LearnError;
use operant_learn::cpu::off_policy::replay::Replay;
use serde::{Deserialize, Serialize};

use super::checksums::{self, Summed};
use super::{CheckpointError, REPLAY};

/// Words that are written or read at once.
const PIECE: usize = 1 << 16;

/// The longest header.
const LONGEST: u64 = 1 << 12;

/// What safetensors says of a tensor.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// Bytes of the heads and of the rows of this shape: environments, rows of each, words of a row.
fn bytes(shape: [usize; 3]) -> [u64; 2] {
    let product =
        |size: u64, shape: &[usize]| shape.iter().fold(size, |all, &n| all.saturating_mul(n as u64));
    [product(8, &shape[..1]), product(4, &shape)]
}

/// The tensors of this shape.
fn header(shape: [usize; 3]) -> BTreeMap<String, Entry> {
    let [heads, rows] = bytes(shape);
    let entry = |dtype: &str, shape: &[usize], data_offsets| Entry {
        dtype: dtype.to_owned(),
        shape: shape.to_vec(),
        data_offsets,
    };
    BTreeMap::from([
        ("heads".to_owned(), entry("U64", &shape[..1], [0, heads])),
        ("rows".to_owned(), entry("U32", &shape, [heads, heads.saturating_add(rows)])),
    ])
}

/// The rows of a replay's file, and where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayFile {
    /// Rows that each environment ever completed.
    pub heads: Vec<u64>,
    /// Environments, rows of each, words of a row.
    pub shape: [usize; 3],
    /// The first byte of the rows.
    pub first: u64,
}

/// Writes a new file, and waits for the disk. Returns its line of `checksums`.
pub(super) fn write(replay: &Replay, path: &Path) -> Result<String, CheckpointError> {
    let write = || -> io::Result<String> {
        let mut file = Summed::new(File::create_new(path)?);
        let mut text = serde_json::to_vec(&header(replay.shape()))?;
        text.resize(text.len().next_multiple_of(8), b' ');
        file.write_all(&(text.len() as u64).to_le_bytes())?;
        file.write_all(&text)?;
        let heads: Vec<u8> = replay.heads().iter().flat_map(|head| head.to_le_bytes()).collect();
        file.write_all(&heads)?;
        let mut bytes = Vec::with_capacity(4 * PIECE);
        for words in replay.written_rows().flat_map(|rows| rows.chunks(PIECE)) {
            bytes.clear();
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            file.write_all(&bytes)?;
        }
        file.inner().sync_all()?;
        Ok(file.line(REPLAY))
    };
    write().map_err(CheckpointError::io("write", path))
}

/// Opens the file of a checkpoint whose checksum is right, up to its rows; None for a checkpoint without a replay.
fn open(checkpoint: &Path) -> Result<Option<(BufReader<File>, ReplayFile)>, CheckpointError> {
    if !checksums::check(checkpoint, REPLAY)? {
        return Ok(None);
    }
    let path = checkpoint.join(REPLAY);
    let read = || -> io::Result<Result<_, String>> {
        let mut file = BufReader::new(operant_metrics::open_file(&path)?);
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST {
            return Ok(Err(format!("its header has {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        file.read_exact(&mut text)?;
        let found: BTreeMap<String, Entry> = serde_json::from_slice(&text)?;
        let shape = found.get("rows").and_then(|entry| entry.shape.as_slice().try_into().ok());
        let Some(shape) = shape.filter(|&shape| header(shape) == found) else {
            return Ok(Err("its header is not that of a replay".to_owned()));
        };
        let [heads, rows] = bytes(shape);
        let expected = (8 + length).saturating_add(heads).saturating_add(rows);
        let is = file.get_ref().metadata()?.len();
        if is != expected {
            return Ok(Err(format!("rows of shape {shape:?} take {expected} bytes, but it has {is}")));
        }
        let mut bytes = vec![0; heads as usize];
        file.read_exact(&mut bytes)?;
        let heads = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        Ok(Ok((file, ReplayFile { heads, shape, first: expected - rows })))
    };
    match read() {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(problem)) => Err(CheckpointError::damaged(&path, problem)),
        Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::InvalidData].contains(&error.kind()) => {
            Err(CheckpointError::damaged(&path, error.to_string()))
        }
        Err(error) => Err(CheckpointError::io("read", &path)(error)),
    }
}

/// Where the rows of a checkpoint's replay are; None for one without.
///
/// # Errors
/// `Missing`, `Damaged`, or `Io`.
pub fn find_replay(checkpoint: &Path) -> Result<Option<ReplayFile>, CheckpointError> {
    Ok(open(checkpoint)?.map(|(_, file)| file))
}

/// Why the rows were not restored.
enum Failed {
    Read(io::Error),
    Misfit(LearnError),
}

impl From<LearnError> for Failed {
    fn from(error: LearnError) -> Self {
        Self::Misfit(error)
    }
}

/// Fills a replay with the rows of a checkpoint, if it has any.
///
/// # Errors
/// The errors of [`find_replay`]; `Misfit` for rows of another environment or size.
pub fn read_replay(checkpoint: &Path, replay: &mut Replay) -> Result<bool, CheckpointError> {
    let Some((mut file, found)) = open(checkpoint)? else { return Ok(false) };
    let (path, mut bytes) = (checkpoint.join(REPLAY), vec![0; 4 * PIECE]);
    let restored = replay.restore(&found.heads, found.shape, |rows| {
        for words in rows.chunks_mut(PIECE) {
            let bytes = &mut bytes[..4 * words.len()];
            file.read_exact(bytes).map_err(Failed::Read)?;
            let read = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            words.iter_mut().zip(read).for_each(|(to, word)| *to = word);
        }
        Ok(())
    });
    match restored {
        Ok(()) => Ok(true),
        Err(Failed::Read(error)) => Err(CheckpointError::io("read", &path)(error)),
        Err(Failed::Misfit(LearnError::Snapshot(problem))) => Err(CheckpointError::Misfit { path, problem }),
        Err(Failed::Misfit(error)) => Err(CheckpointError::damaged(&path, error.to_string())),
    }
}
