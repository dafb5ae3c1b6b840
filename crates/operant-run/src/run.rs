//! A run from start to result: directory, backend, loop, last evaluation, last checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::off_policy::given::Given;
use operant_metrics::{Level, Record, RunMetrics, RunState};

use crate::config::Requested;
use crate::device::{self, Built, Device};
use crate::dir::RunDir;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::notes::Notes;
use crate::path_text;
use crate::progress::{Progress, Quiet};
use crate::result::{self, RunResult};
use crate::resume::Resume;
use crate::runs::{FinalCounts, StateFile};
use crate::signals::{CALLER, Signals};
use crate::sinks;
use crate::start::{Notice, OpenRun, RunOutputs, Start};
use crate::train_loop::{Clocks, ExitReason, FINAL_ROUND, Training, diverged_advice};

/// A run to carry out.
pub struct Job {
    /// The requested configuration, checked.
    pub requested: Requested,
    /// The run to continue, if any; `requested` contains its environment and configuration.
    pub resume: Option<Resume>,
    /// Start of the process; times to solve are measured from it.
    pub started: Instant,
    /// Environment steps after which training pauses: the run ends as if it had taken every step, and can be resumed. None trains to the end.
    pub until: Option<u64>,
    /// Transitions that a new run of an algorithm with a replay begins with.
    pub replay: Option<Given>,
    /// Requests to stop, save or pause.
    pub signals: Signals,
    /// Output of progress.
    pub progress: Box<dyn Progress>,
    /// A note and tags to add to those of the run.
    pub notes: Notes,
    /// Whether details of the start are shown too, which otherwise are in the log alone.
    pub verbose: bool,
    /// The log.
    pub log: Log,
    /// The directory for the ring instead of the default one; unused if the settings disable the ring.
    pub ring_dir: Option<PathBuf>,
    /// Called once, when training begins.
    pub ready: Option<OnReady>,
    /// Called after every update, one update late: a record waits for the evaluation that may belong to it.
    pub on_record: Option<OnRecord>,
    /// Called after every checkpoint.
    pub on_checkpoint: Option<OnCheckpoint>,
}

/// Callback for the start of training.
pub type OnReady = Box<dyn FnOnce(&Ready) + Send>;

/// Callback for the metrics of an update. It runs between updates, so it must be quick.
pub type OnRecord = Box<dyn FnMut(RunMetrics, &Record) + Send>;

/// Callback for the directory of a checkpoint, absolute.
pub type OnCheckpoint = Box<dyn FnMut(&Path) + Send>;

/// A run that starts training.
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
    /// A job that starts now, ignores signals and shows warnings only.
    pub fn new(requested: Requested) -> Self {
        Job {
            requested,
            resume: None,
            started: Instant::now(),
            until: None,
            replay: None,
            signals: Signals::none(),
            progress: Box::new(Quiet),
            notes: Notes::default(),
            verbose: false,
            log: Log::default(),
            ring_dir: None,
            ready: None,
            on_record: None,
            on_checkpoint: None,
        }
    }
}

/// Exit reason and result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Exit reason.
    pub exit_reason: ExitReason,
    /// Result.
    pub result: RunResult,
    /// Its directory.
    pub dir: PathBuf,
    /// Why the last checkpoint could not be saved, if that failed.
    pub unsaved: Option<Error>,
}

impl Outcome {
    /// 0 when the run finished, 75 when a signal stopped it with a checkpoint saved, 1 when its last checkpoint could
    /// not be saved.
    pub fn exit_code(&self) -> u8 {
        match (&self.unsaved, self.exit_reason) {
            (Some(error), _) => error.exit_code(),
            (None, ExitReason::Stopped(_)) => 75,
            (None, ExitReason::Finished | ExitReason::Solved) => 0,
        }
    }
}

/// Carries out a run on the backend that `make_backend` builds for the chosen device.
///
/// The device is chosen and the backend built first, so that settings that they refuse leave no files behind.
/// `make_backend` may be called twice: if `auto` chose a GPU that cannot train this, the CPU is next, with the request
/// adapted to it.
///
/// # Errors
/// Before training: invalid settings, checkpoint or directory. During it: a device that fails, or
/// [`crate::ErrorKind::Diverged`].
pub fn train(job: Job, make_backend: impl FnMut(&Requested, &Device) -> Result<Built>) -> Result<Outcome> {
    let Job { mut requested, resume, started, until, signals, mut progress, log, ring_dir, ready, .. } = job;
    let Job { notes, verbose, on_record, on_checkpoint, replay, .. } = job;
    let algorithm = requested.settings.learner.algorithm;
    if replay.is_some() && !algorithm.declaration().has_replay() {
        let with = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.declaration().has_replay());
        let with: Vec<String> = with.map(|algorithm| format!("\"{algorithm}\"")).collect();
        let what = format!("algorithm = \"{algorithm}\" does not use a replay, but one was given");
        return Err(requested
            .placed(Error::usage(what), "algorithm")
            .remedy(format!("set algorithm = {}, or leave replay out", with.join(" or "))));
    }
    if let Some(resume) = &resume {
        resume.expect_env(&requested.settings.environment)?;
        requested = requested.resuming(&resume.config, resume.name())?;
        if until.is_none()
            && let Some((outcome, why)) = resume.ended(&requested.settings)
        {
            notes.add_to(&outcome.dir)?;
            progress.warn(&why);
            progress.finish();
            return Ok(outcome);
        }
    }
    let has_checkpoint = resume.as_ref().is_some_and(|resume| resume.checkpoint.is_some());
    let weights = if has_checkpoint { None } else { requested.weights()? };
    let before = resume.as_ref().and_then(Resume::trained_on);
    let (built, device) = device::start(&requested, before.as_deref(), make_backend)?;
    let Built { mut backend, settings, applied, world } = built;
    let mut begun_with = match &weights {
        Some(weights) => weights.load_into(&mut *backend, &settings.environment)?,
        None => Vec::new(),
    };
    let replay = replay.filter(|_| !has_checkpoint);
    if let Some(given) = &replay {
        let count = backend
            .begin_with(given)
            .map_err(|error| device::learn_error(error, |key| settings.origin(key).cloned()))?;
        let env = &given.env;
        begun_with.push(Notice::Note(format!("replay: begins with the {count} given transitions of {env}")));
    }
    let saved_config = settings.to_saved_toml();
    let mut home = OpenRun::open(resume, &settings)?;
    let _logging = log.open(home.dir.log());
    let state = home.restore(&mut *backend, &settings)?;
    let (store, sinks) = home.open_files(&settings, &saved_config, world.as_deref())?;
    let start = Start {
        home: &home,
        settings: &settings,
        device: &device,
        backend: &*backend,
        applied: &applied,
        signals: &signals,
        is_given: replay.is_some(),
    };
    // From here on the run can be stopped by other processes.
    signals.begin();
    let RunOutputs { publisher, state_file, problems } =
        start.show(sinks, ring_dir, progress.announcer(), state.env_steps);
    let mut notices = start.notices(begun_with, problems);
    notices.extend(notes.add_to(home.dir.path()).err().map(|error| Notice::Warning(error.to_string())));
    tracing::info!(
        seed = settings.learner.seed,
        env = settings.environment,
        threads = applied.threads,
        "begins"
    );

    let resumed_at = home.resumed_at();
    let mut training = Training {
        backend: &mut *backend,
        settings: &settings,
        on_gpu: device.is_gpu(),
        is_given: replay.is_some(),
        saved_config,
        clocks: Clocks::start(&state),
        state,
        store,
        publisher,
        signals: &signals,
        progress: &mut *progress,
        verbose,
        started,
        target: settings.updates().min(until.map_or(u64::MAX, |steps| steps.div_ceil(settings.batch()))),
        // Its tensors are in the backend now; this frees their memory here.
        last_checkpoint: home.checkpoint.take().map(|(path, _)| path),
        held: None,
        on_record,
        on_checkpoint,
    };
    let dir = &home.dir;
    begin(&mut training, dir, notices, resumed_at);
    if let Some(ready) = ready {
        let ring = training.publisher.ring().map(Path::to_path_buf);
        ready(&Ready { run: dir.name().to_string(), dir: dir.path().to_path_buf(), ring });
    }
    if until.is_none() && training.state.updates >= training.target {
        let steps = training.state.env_steps;
        training.warn(&steps_taken(steps));
    }
    // With a checkpoint it can resume where the source of its weights or of its transitions is gone.
    let first = weights.is_some() || replay.is_some() || settings.run.keep_checkpoints.keeps(0);
    let saved = if first && training.state.updates == 0 { training.save(None) } else { Ok(()) };
    let exit_reason = saved.and_then(|()| training.run());
    training.progress.finish();
    let outcome = exit_reason
        .and_then(|exit_reason| finish(&mut training, dir, &device, exit_reason))
        .map_err(|error| {
            with_resume_hint(error, dir, &settings.default_run_dir(), training.last_checkpoint.as_deref())
        });
    if let Ok(outcome) = &outcome {
        if let Err(error) = dir.write(result::FILE, &(outcome.result.to_json() + "\n")) {
            training.warn(&error.to_string());
        }
        let RunResult { env_steps, wall_s, eval_return_mean, .. } = &outcome.result;
        tracing::info!(env_steps, wall_s, eval_return_mean, "ended");
    }
    end(&mut training, &state_file, &outcome);
    outcome
}

/// The warning about a run that is resumed after its last step.
pub(crate) fn steps_taken(steps: u64) -> String {
    format!("the run has taken its {steps} steps already; --steps N with a larger N continues it")
}

/// Reports the notices before the first update, and publishes the updates before `resumed_at` to monitors.
fn begin(training: &mut Training<'_>, dir: &RunDir, notices: Vec<Notice>, resumed_at: Option<u64>) {
    for notice in notices {
        match notice {
            Notice::Note(line) => training.note(&line),
            Notice::Detail(line) => training.detail(&line),
            Notice::Warning(line) => training.warn(&line),
        }
    }
    if let Some(steps) = resumed_at {
        refill(training, dir, steps);
    }
    training.publisher.ready();
}

/// Adds the last checkpoint to the error of a failed device.
fn with_resume_hint(error: Error, dir: &RunDir, runs: &Path, checkpoint: Option<&Path>) -> Error {
    if error.kind != ErrorKind::Device {
        return error;
    }
    let left = match checkpoint {
        Some(path) => {
            let run = path_text::run_word(dir.path(), runs);
            let path = path_text::shown(path);
            format!("`operant train --resume {run}` continues from the last checkpoint, {path}")
        }
        None => "no checkpoint had been saved".to_string(),
    };
    let remedy = error.remedy.as_ref().map_or_else(|| left.clone(), |remedy| format!("{remedy}; {left}"));
    error.remedy(remedy)
}

/// Publishes the run's history to the ring: its rows up to the checkpoint, and that checkpoint.
fn refill(training: &mut Training<'_>, dir: &RunDir, env_steps: u64) {
    if training.publisher.ring().is_none() {
        return;
    }
    if let Some(path) = &training.last_checkpoint {
        let from_root = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        training.publisher.checkpoint(env_steps, &from_root);
    }
    let (publisher, metrics) = (&mut training.publisher, training.settings.metrics());
    let path = dir.path().join("metrics.csv");
    let rows = sinks::each_row_of(&path, metrics, env_steps, |row| publisher.refill(row));
    if let Err(error) = rows {
        training.warn(&format!("monitors see no history from before this process: {error}"));
    }
}

/// Reports how the run ended: to monitors, in the log and in run.json.
fn end(training: &mut Training<'_>, state_file: &StateFile, outcome: &Result<Outcome>) {
    training.release();
    let first_line = |error: &Error| error.what.lines().next().unwrap_or_default().to_string();
    let (state, reason) = match outcome {
        Err(error) => (RunState::Failed, first_line(error)),
        Ok(Outcome { unsaved: Some(error), .. }) => (RunState::Failed, first_line(error)),
        Ok(Outcome { exit_reason: ExitReason::Stopped(CALLER), .. }) if training.signals.is_finishing() => {
            (RunState::Preempted, "ended by a callback".to_string())
        }
        Ok(Outcome { exit_reason: ExitReason::Stopped(signal), .. }) => {
            (RunState::Preempted, (*signal).to_string())
        }
        Ok(Outcome { exit_reason: ExitReason::Solved, .. }) => (RunState::Finished, "solved".to_string()),
        Ok(Outcome { exit_reason: ExitReason::Finished, .. }) => {
            (RunState::Finished, "took every step".to_string())
        }
    };
    let level = if state == RunState::Failed { Level::Error } else { Level::Info };
    training.publisher.event(level, &format!("{}: {reason}", state.name()));
    // Events come first, so that a monitor that sees the end sees its cause.
    training.publisher.end();
    training.publisher.state(state, &reason);
    #[allow(clippy::cast_precision_loss)] // steps per second
    let reached = FinalCounts {
        env_steps: training.state.env_steps,
        sps: training.state.env_steps as f64 / training.state.train_s,
        checkpoint: training.last_checkpoint.as_ref().and_then(|path| std::path::absolute(path).ok()),
    };
    if let Err(error) = state_file.end(state, &reason, reached) {
        training.warn(&error.to_string());
    }
}

/// The final evaluation and the last checkpoint, except for a run that was stopped at once, which has saved already.
fn finish(
    training: &mut Training<'_>,
    dir: &RunDir,
    device: &Device,
    exit_reason: ExitReason,
) -> Result<Outcome> {
    let (updates, nonfinite) = (training.state.updates, training.state.nonfinite_updates);
    if updates > 0 && nonfinite == updates {
        let what = format!("training diverged: all {updates} updates had a non-finite loss or gradient");
        return Err(Error::new(ErrorKind::Diverged, what)
            .at(dir.path().display().to_string())
            .remedy(diverged_advice(training.on_gpu)));
    }
    let (mut exit_reason, mut summary, mut unsaved) = (exit_reason, None, None);
    let has_saved = match exit_reason {
        ExitReason::Stopped(signal) => signal != CALLER || !training.signals.is_finishing(),
        _ => false,
    };
    if !has_saved {
        summary = training.evaluate(FINAL_ROUND)?;
        if let (None, Some(signal)) = (&summary, training.signals.stopped_by()) {
            exit_reason = training.stop(signal)?;
        }
    }
    if let Some(last) = summary {
        unsaved = training.save(Some(last.mean)).err().map(|error| {
            let run = path_text::run_word(dir.path(), &training.settings.default_run_dir());
            let again = format!("then `operant train --resume {run}` repeats the missing part");
            let remedy =
                error.remedy.clone().map_or_else(|| again.clone(), |remedy| format!("{remedy}; {again}"));
            error.remedy(remedy)
        });
    }
    let events = training.publisher.sync();
    training.report(events);
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
        eval_distinct: summary.map_or(0, |summary| summary.distinct),
        eval_metrics: summary.map_or_else(BTreeMap::new, |summary| summary.named(settings.metrics())),
        solved_at_step: state.solved_at_step,
        solved_at_s: state.solved_at_s,
        checkpoint: training
            .last_checkpoint
            .as_ref()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()),
        config: settings.to_saved_table(),
    };
    Ok(Outcome { exit_reason, result, dir: dir.path().to_path_buf(), unsaved })
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
