//! run.json: the identity and state of a run, as its trainer writes it and every reader finds it. The state is the trainer's last
//! report; a run that is *running* there while no process holds its lock was killed.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

use crate::{RunState, plain};

/// Name of the file in a run's directory.
pub const RUN_FILE: &str = "run.json";

/// Size limit of the small files in a run's directory: run.json, config.toml, result.json.
pub const MAX_SMALL_FILE: u64 = 1 << 20;

/// The file's content. Unknown fields are ignored, missing ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFile {
    /// The run's name.
    pub run: String,
    /// Environment.
    pub env: String,
    /// Algorithm that learns, `ppo`; empty if an earlier version wrote the file.
    pub algorithm: String,
    /// Device that trains.
    pub device: String,
    /// `running`, `paused`, `stopping`, `finished`, `preempted` or `failed`.
    pub state: String,
    /// Why it ended, one line; empty while it has not.
    pub reason: String,
    /// Process id of the trainer.
    pub pid: u32,
    /// When that process started, in clock ticks after boot.
    pub process_start: u64,
    /// The boot in which it started.
    pub boot_id: String,
    /// When training began in that process, UTC.
    pub started: String,
    /// Seed.
    pub seed: u64,
    /// Environment steps that the run is to take.
    pub total_steps: u64,
    /// Number of environments; 0 if an earlier version wrote the file.
    pub num_envs: u64,
    /// Why `auto` chose that number, if it did.
    pub num_envs_chosen: Option<String>,
    /// Environment steps taken, once the process has ended.
    pub env_steps: Option<u64>,
    /// Environment steps per second of training, once the process has ended.
    pub sps: Option<f64>,
    /// The latest checkpoint, once the process has ended.
    #[serde(serialize_with = "serialize_path")]
    pub checkpoint: Option<PathBuf>,
    /// The ring's file, if the run has one.
    #[serde(serialize_with = "serialize_path")]
    pub ring: Option<PathBuf>,
}

impl RunFile {
    /// Reads the file of the run in `dir`, with its text made safe for a terminal; none if it is missing or cannot be read.
    pub fn read(dir: &Path) -> Option<Self> {
        let file: RunFile =
            serde_json::from_slice(&read_file(&dir.join(RUN_FILE), MAX_SMALL_FILE).ok()?).ok()?;
        Some(file.plain())
    }

    /// Makes its text safe for a terminal: other users may have written it.
    pub fn plain(mut self) -> Self {
        let texts = [
            &mut self.run,
            &mut self.env,
            &mut self.algorithm,
            &mut self.device,
            &mut self.state,
            &mut self.reason,
            &mut self.boot_id,
            &mut self.started,
        ];
        for text in texts.into_iter().chain(&mut self.num_envs_chosen) {
            *text = plain(text);
        }
        self
    }

    /// The state, if this version knows it.
    pub fn state(&self) -> Option<RunState> {
        RunState::ALL.into_iter().find(|state| state.name() == self.state)
    }

    /// Whether the state is final.
    pub fn has_ended(&self) -> bool {
        self.state().is_some_and(RunState::is_final)
    }
}

/// Opens a regular file for reading; other users may have replaced it.
///
/// # Errors
/// When it cannot be opened, or is a pipe, a device or a directory.
pub fn open_file(path: &Path) -> io::Result<File> {
    // Without the flag, opening a pipe would block until its other end is opened.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidData, "it is not a regular file")),
    }
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// When it cannot be opened or read, or is longer.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = format!("it is longer than {} MiB", most >> 20);
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    Ok(bytes)
}

/// Serializes a path with invalid UTF-8 replaced, where serde would fail.
fn serialize_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
