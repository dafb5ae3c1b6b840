//! Writes run.json for the trainer.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use operant_metrics::{Identity, RUN_FILE as FILE, RunFile, RunState};

use crate::dir;
use crate::error::{Error, Result};

/// The content of run.json at the start of training.
pub(crate) fn starting(identity: &Identity, ring: Option<&Path>) -> RunFile {
    RunFile {
        run: identity.run.clone(),
        env: identity.env.clone(),
        algorithm: identity.algorithm.clone(),
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
            let is_new = reported != state || content.reason != reason;
            is_new && reported != RunState::Stopping && !reported.is_final()
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
        text.and_then(|text| dir::replace(&self.path, text + "\n", durable)).map_err(|error| {
            Error::disk(format!("{FILE} cannot be written"), &self.path, &error)
                .remedy("free some space, or choose another directory with --run-dir DIR")
        })
    }
}

/// Writes run.json of a sweep for the process that carries it out: its state and process, as of a run.
#[derive(Debug)]
pub struct SweepFile(StateFile);

impl SweepFile {
    /// Writes the file of a sweep that begins or continues.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(dir: &Path, env: &str, device: &str) -> Result<Self> {
        let identity =
            Identity { device: device.to_owned(), ..Identity::of_this_process(&dir::name_of(dir), env) };
        let (file, written) = StateFile::begin(dir, starting(&identity, None));
        written.map(|()| Self(file))
    }

    /// Sets its state.
    pub fn set(&self, state: RunState, reason: &str) {
        self.0.set(state, reason);
    }

    /// Sets its final state.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn end(&self, state: RunState, reason: &str, env_steps: u64, sps: f64) -> Result<()> {
        self.0.end(state, reason, FinalCounts { env_steps, sps, checkpoint: None })
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
        let (file, written) = StateFile::begin(dir.path(), starting(&identity, None));
        written.expect("written");
        let read = || RunFile::read(dir.path()).expect("there");
        assert_eq!((read().state.as_str(), read().total_steps, read().env_steps), ("running", 9, None));
        assert_eq!(read().pid, std::process::id());
        // As a sweep that waits for its runs.
        file.set(RunState::Running, "pausing");
        assert_eq!((read().state, read().reason), ("running".to_owned(), "pausing".to_owned()));
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
