//! A run from start to result: directory, backend, loop, last evaluation, last checkpoint.

use std::path::{Path, PathBuf};
use std::time::Instant;

use operant_learn::Backend;

use crate::checkpoint::{self, Checkpoint, Store};
use crate::config::Settings;
use crate::dir::{self, RunDir};
use crate::error::{Error, Result};
use crate::evaluate::Summary;
use crate::log::Log;
use crate::progress::{Progress, Quiet};
use crate::result::RunResult;
use crate::signals::Signals;
use crate::sinks::{CsvSink, Sinks, TensorBoardSink};
use crate::state::State;
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
        }
    }
}

/// An existing run, held by this process so that it can continue.
#[derive(Debug)]
pub struct Resume {
    dir: RunDir,
    checkpoint: Option<(PathBuf, Checkpoint)>,
    config: String,
    environment: String,
    warnings: Vec<String>,
}

impl Resume {
    /// Takes the run named `run` under `parent` (or at the path `run`) and reads its latest checkpoint; past a
    /// damaged one it falls back to the one before. A run killed before its first checkpoint starts over.
    ///
    /// # Errors
    /// When there is no such run, another process holds it, or nothing of it can be read.
    pub fn open(parent: &Path, run: &str) -> Result<Self> {
        let path = dir::find(parent, run)?;
        let dir = RunDir::open(&path)?;
        let checkpoints = dir.checkpoints();
        if checkpoints.is_dir() && !checkpoint::steps(&checkpoints)?.is_empty() {
            let loaded = checkpoint::load_latest(&checkpoints)?;
            let warnings = loaded.warnings.iter().map(ToString::to_string).collect();
            let (config, environment) = (loaded.checkpoint.config.clone(), loaded.checkpoint.env.clone());
            return Ok(Resume {
                dir,
                checkpoint: Some((loaded.path, loaded.checkpoint)),
                config,
                environment,
                warnings,
            });
        }
        let file = path.join("config.toml");
        let config = std::fs::read_to_string(&file).map_err(|error| {
            Error::usage(format!("run {run} has no checkpoint and no configuration: {error}"))
                .at(file.display().to_string())
                .remedy("start a new run")
        })?;
        let environment = crate::config::environment_of(&config).ok_or_else(|| {
            Error::usage(format!("run {run} has no checkpoint, and its configuration names no environment"))
                .at(file.display().to_string())
                .remedy("start a new run")
        })?;
        Ok(Resume { dir, checkpoint: None, config, environment, warnings: Vec::new() })
    }

    /// The run's name.
    pub fn name(&self) -> &str {
        self.dir.name()
    }

    /// The environment that it trains.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// Refuses to train another environment than the run's own.
    ///
    /// # Errors
    /// Usage, unless `env` is the run's environment.
    pub fn expect_env(&self, env: &str) -> Result<()> {
        let own = &self.environment;
        if own == env {
            return Ok(());
        }
        Err(Error::usage(format!("run {} trains {own}, not {env}", self.name()))
            .at(self.dir.path().display().to_string())
            .remedy(format!("resume it with `operant train {own} --resume {}`", self.name())))
    }

    /// Its configuration as TOML text, for [`crate::config::settings`].
    pub fn config(&self) -> &str {
        &self.config
    }
}

/// How a run ended, and what it reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// What it reached.
    pub result: RunResult,
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

/// Carries out a run on the backend that `make_backend` builds from the settings.
///
/// The backend is built first, so that settings it refuses leave nothing behind.
///
/// # Errors
/// Before training: settings, checkpoint or directory that cannot be used. During it: a device that fails, or
/// [`crate::ErrorKind::Diverged`].
pub fn train(job: Job, make_backend: impl FnOnce(&Settings) -> Result<Box<dyn Backend>>) -> Result<Outcome> {
    let Job { settings, resume, started, signals, mut progress, log } = job;
    let saved_config = settings.to_saved_toml();
    if let Some(resume) = &resume {
        resume.expect_env(&settings.environment)?;
        settings.check_resumes(&resume.config, resume.name())?;
    }
    let mut backend = make_backend(&settings)?;
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
    let begun = match &checkpoint {
        Some((path, _)) => {
            format!("run {} resumed at {} steps from {}", dir.name(), state.env_steps, path.display())
        }
        None => format!("run {} in {}", dir.name(), dir.path().display()),
    };
    let begun = format!("{begun}: {}", means(&settings));
    tracing::info!(seed = settings.learner.seed, env = settings.environment, "{begun}");
    progress.note(&begun);

    let last_checkpoint = checkpoint.map(|(path, _)| path);
    let mut training = Training {
        backend: &mut *backend,
        settings: &settings,
        saved_config,
        clocks: Clocks::start(&state),
        state,
        store,
        sinks,
        signals: &signals,
        progress: &mut *progress,
        started,
        last_checkpoint,
    };
    for warning in warnings {
        training.warn(&warning);
    }
    if training.state.updates >= settings.updates() {
        let steps = training.state.env_steps;
        training.warn(&format!(
            "the run has its {steps} steps already; --steps N with a larger N trains it further"
        ));
    }
    let ending = training.run();
    training.progress.finish();
    let outcome = finish(&mut training, &dir, ending?)?;
    if let Err(error) = dir.write("result.json", &(outcome.result.to_json() + "\n")) {
        training.warn(&error.to_string());
    }
    tracing::info!(result = outcome.result.to_json(), "ended");
    Ok(outcome)
}

/// On what a run trains: environment, preset, device, threads.
fn means(settings: &Settings) -> String {
    let preset = operant_learn::presets::preset(&settings.environment).map_or("no preset", |_| "its preset");
    let threads = settings.threads();
    let plural = if threads == 1 { "" } else { "s" };
    let (env, device) = (&settings.environment, settings.device());
    format!("{env} under {preset}, on {device} with {threads} thread{plural}")
}

/// The last evaluation and the last checkpoint; a run that a signal stopped has had both that it gets.
fn finish(training: &mut Training<'_>, dir: &RunDir, ending: Ending) -> Result<Outcome> {
    let (mut summary, mut unsaved) = (None, None);
    if !matches!(ending, Ending::Stopped(_)) {
        let last: Summary = training.evaluate(FINAL_ROUND)?;
        unsaved = training.save(Some(last.mean)).err().map(|error| {
            let again = format!("then `operant train --resume {}` repeats what is missing", dir.name());
            let remedy =
                error.remedy.clone().map_or_else(|| again.clone(), |remedy| format!("{remedy}; {again}"));
            error.remedy(remedy)
        });
        summary = Some(last);
    }
    let lost = training.sinks.sync();
    training.warn_of_lost_sinks(&lost);
    let (state, settings) = (&training.state, training.settings);
    #[allow(clippy::cast_precision_loss)] // steps per second
    let result = RunResult {
        run: dir.name().to_string(),
        env: settings.environment.clone(),
        device: settings.device().to_string(),
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
    Ok(Outcome { ending, result, unsaved })
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
