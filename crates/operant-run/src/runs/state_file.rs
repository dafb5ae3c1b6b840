//! run.json: the identity and state of a run. The state is the trainer's last report; a run that is *running* there
//! while no process holds its lock was killed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use operant_metrics::{Identity, RunState, plain};
use serde::{Deserialize, Serialize};

use crate::dir;
use crate::error::{Error, Result};
use crate::path_text;

/// Name of the file in a run's directory.
pub const FILE: &str = "run.json";

/// The file's content. Unknown fields are ignored, missing ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFile {
    /// The run's name.
    pub run: String,
    /// Environment.
    pub env: String,
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
    #[serde(serialize_with = "path_text::serialize_option")]
    pub checkpoint: Option<PathBuf>,
    /// The ring's file, if the run has one.
    #[serde(serialize_with = "path_text::serialize_option")]
    pub ring: Option<PathBuf>,
}

impl RunFile {
    /// Reads the file of the run in `dir`, with its text made safe for a terminal; none if it is missing or cannot be read.
    pub fn read(dir: &Path) -> Option<Self> {
        let file: RunFile = serde_json::from_slice(&dir::read_small(&dir.join(FILE)).ok()?).ok()?;
        Some(file.plain())
    }

    /// Makes its text safe for a terminal: other users may have written it.
    pub(super) fn plain(mut self) -> Self {
        let texts = [
            &mut self.run,
            &mut self.env,
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

    /// The content at the start of training.
    pub(crate) fn of(identity: &Identity, ring: Option<&Path>) -> Self {
        RunFile {
            run: identity.run.clone(),
            env: identity.env.clone(),
            device: identity.device.clone(),
            state: RunState::Running.name().to_string(),
            pid: identity.pid,
            process_start: identity.process_start,
            boot_id: identity.boot_id.clone(),
            started: dir::timestamp(identity.started_unix_ns),
            seed: identity.seed,
            total_steps: identity.total_steps,
            ring: ring.map(Path::to_path_buf),
            ..RunFile::default()
        }
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

/// Final counts of a process, for run.json.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FinalCounts {
    pub env_steps: u64,
    /// Not finite before the first update.
    pub sps: f64,
    pub checkpoint: Option<PathBuf>,
}

/// Writes run.json for the trainer. Failed writes do not affect training.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    content: Mutex<RunFile>,
}

impl StateFile {
    /// Writes the file of a starting run. It does not wait for the disk, so that the start is quick; after a crash of
    /// the machine, an older file is soon rewritten.
    ///
    /// # Errors
    /// When the file cannot be written; the value can be used nevertheless.
    pub fn begin(dir: &Path, content: RunFile) -> (Self, Result<()>) {
        let file = StateFile { path: dir.join(FILE), content: Mutex::new(content) };
        let written = file.write(&file.content(), false);
        (file, written)
    }

    /// Sets the run's state. *Stopping* can only be followed by a final state, and a final state by none: other
    /// processes rely on it to send no second SIGTERM, and two threads set it.
    pub fn set(&self, state: RunState, reason: &str) {
        let mut content = self.content();
        let reported = content.state();
        if reported.is_none_or(|reported| {
            reported != state && reported != RunState::Stopping && !reported.is_final()
        }) {
            (content.state, content.reason) = (state.name().to_string(), reason.to_string());
            if let Err(error) = self.write(&content, false) {
                tracing::warn!("{error}");
            }
        }
    }

    /// Sets the final state and counts.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn end(&self, state: RunState, reason: &str, reached: FinalCounts) -> Result<()> {
        let mut content = self.content();
        (content.state, content.reason) = (state.name().to_string(), reason.to_string());
        content.env_steps = Some(reached.env_steps);
        content.sps = Some(reached.sps).filter(|sps| sps.is_finite());
        content.checkpoint = reached.checkpoint;
        self.write(&content, true)
    }

    fn content(&self) -> std::sync::MutexGuard<'_, RunFile> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, content: &RunFile, durable: bool) -> Result<()> {
        let text = serde_json::to_string(content).map_err(std::io::Error::from);
        text.and_then(|text| dir::replace(&self.path, &(text + "\n"), durable)).map_err(|error| {
            Error::disk(format!("{FILE} cannot be written"), &self.path, &error)
                .remedy("free some space, or choose another directory with --run-dir DIR")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_file_follows_its_states() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(RunFile::read(dir.path()), None);
        let identity = Identity { total_steps: 9, ..Identity::of_this_process("mine", "cartpole") };
        let (file, written) = StateFile::begin(dir.path(), RunFile::of(&identity, None));
        written.expect("written");
        let read = || RunFile::read(dir.path()).expect("there");
        assert_eq!((read().state.as_str(), read().total_steps, read().env_steps), ("running", 9, None));
        assert_eq!(read().pid, std::process::id());
        file.set(RunState::Paused, "");
        assert_eq!(read().state, "paused");
        file.set(RunState::Stopping, "");
        // The loop may set its state after the side thread.
        file.set(RunState::Running, "");
        assert!(!read().has_ended() && read().state == "stopping");
        let reached = FinalCounts { env_steps: 7, sps: f64::NAN, checkpoint: Some("there".into()) };
        file.end(RunState::Preempted, "SIGTERM", reached).expect("written");
        file.set(RunState::Stopping, "too late");
        assert!(read().has_ended() && read().reason == "SIGTERM", "{:?}", read());
        assert_eq!((read().env_steps, read().sps), (Some(7), None));
    }

    #[test]
    fn a_file_of_another_version_is_read_and_garbage_is_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let write = |text: &str| std::fs::write(dir.path().join(FILE), text).expect("written");
        write(r#"{"run":"a","state":"finished","colour":"red"}"#);
        assert!(RunFile::read(dir.path()).is_some_and(|file| file.run == "a" && file.has_ended()));
        for garbage in ["", "{", "[1]", "{\"pid\":-1}"] {
            write(garbage);
            assert_eq!(RunFile::read(dir.path()), None, "{garbage}");
        }
    }
}
