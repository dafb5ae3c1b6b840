//! A run from start to result: directory, backend, loop, last evaluation, last checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use operant_learn::Backend;
use operant_metrics::{Identity, Level, RunState};

use crate::checkpoint::Store;
use crate::config::Settings;
use crate::device::{self, Chosen, Device};
use crate::dir::RunDir;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::Summary;
use crate::log::Log;
use crate::path_text;
use crate::progress::{Progress, Quiet};
use crate::result::RunResult;
use crate::resume::Resume;
use crate::runs::{Reached, RunFile, StateFile};
use crate::signals::Signals;
use crate::sinks::{self, CsvSink, Sinks, TensorBoardSink};
use crate::state::State;
use crate::telemetry::{self, Publisher, RingPlace};
use crate::train_loop::{Clocks, Ending, FINAL_ROUND, Training};

/// A run to be carried out.
pub struct Job {
    /// The configuration, complete and checked.
    pub settings: Settings,
    /// The run to continue, if any; its environment and configuration went into `settings`.
    pub resume: Option<Resume>,
    /// When the process started: times to solve count from here.
    pub started: Instant,
    /// Who may ask the run to stop or save.
    pub signals: Signals,
    /// Who watches.
    pub progress: Box<dyn Progress>,
    /// Where events are logged.
    pub log: Log,
    /// The directory for the ring instead of the usual one; of no matter where the settings want none.
    pub ring_dir: Option<PathBuf>,
    /// Called once, when training begins.
    pub ready: Option<OnReady>,
}

/// Takes note that training begins.
pub type OnReady = Box<dyn FnOnce(&Ready) + Send>;

/// A run that begins to train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its name.
    pub run: String,
    /// Its directory.
    pub dir: PathBuf,
    /// The file of its ring, if it has one.
    pub ring: Option<PathBuf>,
}

impl Job {
    /// A job that starts now, listens to no signal and shows warnings only.
    pub fn new(settings: Settings) -> Self {
        Job {
            settings,
            resume: None,
            started: Instant::now(),
            signals: Signals::none(),
            progress: Box::new(Quiet),
            log: Log::default(),
            ring_dir: None,
            ready: None,
        }
    }
}

/// How a run ended, and what it reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// What it reached.
    pub result: RunResult,
    /// Its directory.
    pub dir: PathBuf,
    /// Why the last checkpoint could not be saved, when it could not.
    pub unsaved: Option<Error>,
}

impl Outcome {
    /// 0 when the run finished, 75 when a signal stopped it with a checkpoint saved, 1 when its last checkpoint could
    /// not be saved.
    pub fn exit_code(&self) -> u8 {
        match (&self.unsaved, self.ending) {
            (Some(error), _) => error.exit_code(),
            (None, Ending::Stopped(_)) => 75,
            (None, Ending::Finished | Ending::Solved) => 0,
        }
    }
}

/// Carries out a run on the backend that `make_backend` builds from the settings for the device that was chosen.
///
/// The device is chosen and the backend built first, so that settings they refuse leave nothing behind. It may be asked for
/// twice: where `auto` took a GPU that turns out unable to train this, the CPU is next, with the settings for it.
///
/// # Errors
/// Before training: settings, checkpoint or directory that cannot be used. During it: a device that fails, or
/// [`crate::ErrorKind::Diverged`].
pub fn train(
    job: Job,
    make_backend: impl FnMut(&mut Settings, &Device) -> Result<Box<dyn Backend>>,
) -> Result<Outcome> {
    let Job { mut settings, resume, started, signals, mut progress, log, ring_dir, ready } = job;
    if let Some(resume) = &resume {
        resume.expect_env(&settings.environment)?;
        settings.check_resumes(&resume.config, resume.name())?;
        // The checkpoint holds the states of as many as there were.
        settings.decide_num_envs(None)?;
    }
    let before = resume.as_ref().and_then(Resume::trained_on);
    let Chosen { settings, device, mut backend } = device::start(&settings, before.as_deref(), make_backend)?;
    let saved_config = settings.to_saved_toml();
    let fresh = resume.is_none();
    let (dir, checkpoint, warnings) = match resume {
        Some(resume) => (resume.dir, resume.checkpoint, resume.warnings),
        None => {
            let run = &settings.run;
            let name = run.name.as_deref();
            let dir = RunDir::create(&run.run_dir, name, &settings.environment, settings.learner.seed)?;
            (dir, None, Vec::new())
        }
    };
    let _logging = log.open(dir.log());
    let state = match &checkpoint {
        Some((path, checkpoint)) => {
            backend.load(&checkpoint.snapshot).map_err(|e| Error::from(e).at(path.display().to_string()))?;
            State::resume(checkpoint)
        }
        None => State::default(),
    };
    let resumed_at = checkpoint.as_ref().map(|(_, checkpoint)| checkpoint.env_steps);
    let (store, sinks) = open_files(&dir, &settings, &saved_config, resumed_at).inspect_err(|_| {
        if fresh {
            // A run that never began must not hold on to its name.
            let _ = std::fs::remove_dir_all(dir.path());
        }
    })?;
    let identity = identity(&dir, &settings, &device);
    let place = match (settings.run.ring, ring_dir) {
        (false, _) => RingPlace::Nowhere,
        (true, Some(dir)) => RingPlace::In(dir),
        (true, None) => RingPlace::Usual,
    };
    let (ring, refused) = match telemetry::make_ring(&identity, &place, settings.run.ring_group) {
        Ok(ring) => (ring, None),
        Err(error) => (None, Some(error)),
    };
    let place_warning = ring.as_ref().and_then(|ring| ring.warning.clone());
    let ring_path = ring.as_ref().map(|ring| ring.writer.path());
    let run_file = RunFile {
        num_envs: settings.learner.num_envs as u64,
        num_envs_chosen: settings.num_envs_chosen().map(str::to_string),
        ..RunFile::of(&identity, ring_path)
    };
    let (state_file, written) = StateFile::begin(dir.path(), run_file);
    let state_file = Arc::new(state_file);
    let publisher = Publisher::start(
        sinks,
        ring,
        backend.pulse(),
        &signals,
        &state_file,
        device.uuid.clone(),
        state.env_steps..settings.steps(),
    );
    let begun = match &checkpoint {
        Some((path, _)) => {
            format!("run {} resumed at {} steps from {}", dir.name(), state.env_steps, path.display())
        }
        None => format!("run {} in {}", dir.name(), dir.path().display()),
    };
    let begun = format!("{begun}: {}", means(&settings, &device));
    tracing::info!(
        seed = settings.learner.seed,
        env = settings.environment,
        threads = settings.threads(),
        "begins"
    );

    let last_checkpoint = checkpoint.map(|(path, _)| path);
    let mut training = Training {
        backend: &mut *backend,
        settings: &settings,
        saved_config,
        clocks: Clocks::start(&state),
        state,
        store,
        publisher,
        signals: &signals,
        progress: &mut *progress,
        started,
        last_checkpoint,
    };
    training.note(&begun);
    if let Some(reason) = &device.reason {
        training.note(&format!("device: {}; {reason}", device.name));
    }
    let applied = training.settings.applied();
    if let Some(applied) = applied {
        training.note(&applied.note);
    }
    if let Some(unbound) = applied.and_then(|applied| applied.unbound.as_ref()) {
        training.warn(&format!("pin = true: {unbound}"));
    }
    if let Some(how) = training.backend.how() {
        training.note(&how);
    }
    if let Some(reason) = settings.num_envs_chosen() {
        training.note(&format!("num_envs: {}, which auto chose: {reason}", settings.learner.num_envs));
    }
    for warning in warnings {
        training.warn(&warning);
    }
    if let Some(error) = refused {
        training.warn(&format!("{error}\ntraining goes on without telemetry"));
    }
    if let Some(warning) = place_warning {
        training.note(&warning);
    }
    if let Err(error) = written {
        training.warn(&format!("{error}\ntraining goes on without this file"));
    }
    if let Some(steps) = resumed_at {
        refill(&mut training, &dir, steps);
    }
    training.publisher.ready();
    if let Some(ready) = ready {
        let ring = training.publisher.ring().map(Path::to_path_buf);
        ready(&Ready { run: dir.name().to_string(), dir: dir.path().to_path_buf(), ring });
    }
    if training.state.updates >= settings.updates() {
        let steps = training.state.env_steps;
        training.warn(&format!(
            "the run has its {steps} steps already; --steps N with a larger N trains it further"
        ));
    }
    let ending = training.run();
    training.progress.finish();
    let outcome = ending
        .and_then(|ending| finish(&mut training, &dir, &device, ending))
        .map_err(|error| {
            going_on(error, &dir, &settings.usual_run_dir(), training.last_checkpoint.as_deref())
        });
    if let Ok(outcome) = &outcome {
        if let Err(error) = dir.write("result.json", &(outcome.result.to_json() + "\n")) {
            training.warn(&error.to_string());
        }
        tracing::info!(result = outcome.result.to_json(), "ended");
    }
    end(&mut training, &state_file, &outcome);
    outcome
}

/// A device that failed, with what is left of the run.
fn going_on(error: Error, dir: &RunDir, runs: &Path, checkpoint: Option<&Path>) -> Error {
    if error.kind != ErrorKind::Device {
        return error;
    }
    let left = match checkpoint {
        Some(path) => {
            let run = path_text::run_word(dir.path(), runs);
            let path = path_text::shown(path);
            format!("`operant train --resume {run}` goes on from the last checkpoint, {path}")
        }
        None => "no checkpoint had been saved".to_string(),
    };
    let remedy = error.remedy.as_ref().map_or_else(|| left.clone(), |remedy| format!("{remedy}; {left}"));
    error.remedy(remedy)
}

/// The run, as its ring and run.json describe it.
fn identity(dir: &RunDir, settings: &Settings, device: &Device) -> Identity {
    Identity {
        device: device.name.clone(),
        seed: settings.learner.seed,
        // As `runs` and monitors compare it.
        dir: std::fs::canonicalize(dir.path()).unwrap_or_else(|_| dir.path().to_path_buf()),
        total_steps: settings.steps(),
        solved_at: settings.run.solved_at,
        ..Identity::of_this_process(dir.name(), &settings.environment)
    }
}

/// Gives the ring what the run reported before this process: its rows up to the checkpoint, and that checkpoint.
fn refill(training: &mut Training<'_>, dir: &RunDir, env_steps: u64) {
    if training.publisher.ring().is_none() {
        return;
    }
    if let Some(path) = &training.last_checkpoint {
        let from_root = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        training.publisher.checkpoint(env_steps, &from_root);
    }
    let publisher = &mut training.publisher;
    let rows = sinks::each_row(&dir.path().join("metrics.csv"), env_steps, |row| publisher.refill(row));
    if let Err(error) = rows {
        training.warn(&format!("monitors see no history from before this process: {error}"));
    }
}

/// The last words: what became of the run, for whoever watches now and whoever asks later.
fn end(training: &mut Training<'_>, state_file: &StateFile, outcome: &Result<Outcome>) {
    let first_line = |error: &Error| error.what.lines().next().unwrap_or_default().to_string();
    let (state, reason) = match outcome {
        Err(error) => (RunState::Failed, first_line(error)),
        Ok(Outcome { unsaved: Some(error), .. }) => (RunState::Failed, first_line(error)),
        Ok(Outcome { ending: Ending::Stopped(signal), .. }) => (RunState::Preempted, (*signal).to_string()),
        Ok(Outcome { ending: Ending::Solved, .. }) => (RunState::Finished, "solved".to_string()),
        Ok(Outcome { ending: Ending::Finished, .. }) => (RunState::Finished, "took every step".to_string()),
    };
    let level = if state == RunState::Failed { Level::Error } else { Level::Info };
    training.publisher.event(level, &format!("{}: {reason}", state.name()));
    // The events first, so that whoever sees the end sees what led to it.
    training.publisher.end();
    training.publisher.state(state, &reason);
    #[allow(clippy::cast_precision_loss)] // steps per second
    let reached = Reached {
        env_steps: training.state.env_steps,
        sps: training.state.env_steps as f64 / training.state.train_s,
        checkpoint: training.last_checkpoint.as_ref().and_then(|path| std::path::absolute(path).ok()),
    };
    if let Err(error) = state_file.end(state, &reason, reached) {
        training.warn(&error.to_string());
    }
}

/// On what a run trains: environment, preset, device, threads.
fn means(settings: &Settings, device: &Device) -> String {
    let preset = match settings.has_preset() {
        false => "no preset",
        true if settings.uses_gpu_preset() => "its preset for GPUs",
        true => "its preset",
    };
    let threads = settings.threads();
    let plural = if threads == 1 { "" } else { "s" };
    let (env, device) = (&settings.environment, &device.name);
    format!("{env} under {preset}, on {device} with {threads} thread{plural}")
}

/// The last evaluation and the last checkpoint; a run that a signal stopped has had both that it gets.
fn finish(training: &mut Training<'_>, dir: &RunDir, device: &Device, ending: Ending) -> Result<Outcome> {
    let (mut summary, mut unsaved) = (None, None);
    if !matches!(ending, Ending::Stopped(_)) {
        let last: Summary = training.evaluate(FINAL_ROUND)?;
        unsaved = training.save(Some(last.mean)).err().map(|error| {
            let run = path_text::run_word(dir.path(), &training.settings.usual_run_dir());
            let again = format!("then `operant train --resume {run}` repeats what is missing");
            let remedy =
                error.remedy.clone().map_or_else(|| again.clone(), |remedy| format!("{remedy}; {again}"));
            error.remedy(remedy)
        });
        summary = Some(last);
    }
    let lost = training.publisher.sync();
    training.warn_of_lost_sinks(&lost);
    let (state, settings) = (&training.state, training.settings);
    #[allow(clippy::cast_precision_loss)] // steps per second
    let result = RunResult {
        run: dir.name().to_string(),
        env: settings.environment.clone(),
        device: device.name.clone(),
        seed: settings.learner.seed,
        env_steps: state.env_steps,
        updates: state.updates,
        wall_s: training.wall_s(),
        train_s: state.train_s,
        sps: state.env_steps as f64 / state.train_s,
        eval_return_mean: summary.map(|summary| summary.mean),
        eval_return_std: summary.map(|summary| summary.std),
        eval_episodes: summary.map_or(0, |summary| summary.episodes),
        solved_at_step: state.solved_at_step,
        solved_at_s: state.solved_at_s,
        checkpoint: training.last_checkpoint.as_ref().map(|path| path.display().to_string()),
    };
    Ok(Outcome { ending, result, dir: dir.path().to_path_buf(), unsaved })
}

/// Everything that a run writes to. The files with a row per update lose the rows after the checkpoint resumed from.
fn open_files(
    dir: &RunDir,
    settings: &Settings,
    saved_config: &str,
    resumed_at: Option<u64>,
) -> Result<(Store, Sinks)> {
    let store = Store::open(dir.checkpoints(), settings.run.keep_checkpoints)?;
    dir.write("config.toml", saved_config)?;
    let mut sinks = Sinks::new();
    if settings.run.csv {
        let path = dir.path().join("metrics.csv");
        sinks.add(match resumed_at {
            Some(steps) => CsvSink::resume(&path, steps)?,
            None => CsvSink::create(&path)?,
        });
    }
    if settings.run.tensorboard {
        sinks.add(match resumed_at {
            Some(steps) => TensorBoardSink::resume(dir.path(), steps)?,
            None => TensorBoardSink::create(dir.path())?,
        });
    }
    Ok((store, sinks))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
