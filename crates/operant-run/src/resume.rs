//! Resuming a run from its latest checkpoint, and reading the settings of one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_env::{AnyEnv, Registry};
use operant_metrics::{RunFile, RunState};

use crate::checkpoint::{self, Checkpoint};
use crate::config::{CommandLine, Settings};
use crate::device;
use crate::dir::{self, RunDir};
use crate::error::{Error, Result};
use crate::result::RunResult;
use crate::run::{Outcome, steps_taken};
use crate::train_loop::ExitReason;
use crate::trust::Trust;

/// The settings and the environment of a run, without its weights. The run may be training.
#[derive(Debug)]
pub struct SavedRun {
    /// Its name.
    pub name: String,
    /// Its config.toml, for [`crate::config::requested`].
    pub config: String,
    /// The environment, as the run has it; its options are in `config`.
    pub env: Arc<dyn AnyEnv>,
}

impl SavedRun {
    /// Reads the run of this name under `parent`, or at this path. If its environment is a program, `trust` says whether it may be
    /// started.
    ///
    /// # Errors
    /// When there is no such run, it cannot be read, or its environment cannot be made.
    pub fn open(registry: &Registry, parent: &Path, run: &str, trust: Trust) -> Result<Self> {
        let path = dir::find(parent, run)?;
        let (config, environment) = saved_config(&path, run)?;
        let env = device::find_of_run(registry, &path, &environment, None, trust, false)?;
        Ok(SavedRun { name: dir::name_of(&path), config, env })
    }
}

/// The text of config.toml in a run's directory, and the environment that it names.
fn saved_config(path: &Path, run: &str) -> Result<(String, String)> {
    let file = path.join("config.toml");
    let unusable = |what: String| {
        Error::usage(format!("run {run} has no usable configuration: {what}"))
            .at(file.display().to_string())
            .remedy("start a new run")
    };
    let config = dir::read_text(&file).map_err(|error| unusable(error.to_string()))?;
    let environment = config.parse().ok().as_ref().and_then(crate::config::environment_of);
    let environment = environment.ok_or_else(|| unusable("it names no environment".to_owned()))?;
    Ok((config, environment))
}

/// An existing run, locked by this process to continue it.
#[derive(Debug)]
pub struct Resume {
    pub(crate) dir: RunDir,
    pub(crate) checkpoint: Option<(PathBuf, Checkpoint)>,
    pub(crate) config: String,
    pub(crate) environment: String,
    pub(crate) warnings: Vec<String>,
}

impl Resume {
    /// Takes the run named `run` under `parent` (or at the path `run`) and reads its latest checkpoint; it falls back
    /// past damaged ones. A run killed before its first checkpoint starts over.
    ///
    /// # Errors
    /// When there is no such run, another process holds its lock, or it cannot be read.
    pub fn open(parent: &Path, run: &str) -> Result<Self> {
        let path = dir::find(parent, run)?;
        let dir = RunDir::open(&path)?;
        let checkpoints = dir.checkpoints();
        if checkpoints.is_dir() && !checkpoint::steps(&checkpoints)?.is_empty() {
            let loaded = checkpoint::load_latest_whole(&checkpoints)?;
            let warnings = loaded.warnings();
            let (config, environment) = (loaded.checkpoint.config.clone(), loaded.checkpoint.env.clone());
            return Ok(Resume {
                dir,
                checkpoint: Some((loaded.path, loaded.checkpoint)),
                config,
                environment,
                warnings,
            });
        }
        let (config, environment) = saved_config(&path, run)?;
        let warnings = vec![format!("run {run} has no checkpoint; training starts again at step 0")];
        Ok(Resume { dir, checkpoint: None, config, environment, warnings })
    }

    /// Global steps of the checkpoint; 0 without one.
    pub fn env_steps(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |(_, checkpoint)| checkpoint.env_steps)
    }

    /// The run's name.
    pub fn name(&self) -> &str {
        self.dir.name()
    }

    /// The environment that it trains.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// The environment, as the run has it. If it is a program, `trust` says whether it may be started.
    ///
    /// # Errors
    /// When it is not there any more, is not that of the checkpoint, or is not trusted.
    pub fn env(&self, registry: &Registry, trust: Trust) -> Result<Arc<dyn AnyEnv>> {
        let trained = self.checkpoint.as_ref().map(|(_, checkpoint)| &checkpoint.snapshot);
        device::find_of_run(registry, self.dir.path(), &self.environment, trained, trust, false).map_err(
            |error| {
                let path = self.checkpoint.as_ref().map(|(path, _)| path.display().to_string());
                Error { place: error.place.or(path), ..error }
            },
        )
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

    /// Refuses a command that gives a resumed run other weights.
    ///
    /// # Errors
    /// Usage, if it sets `init_from`.
    pub fn expect_own_weights(&self, line: &CommandLine) -> Result<()> {
        let is_assigned =
            line.set.iter().any(|set| set.split('=').next().is_some_and(|key| key.trim() == "init_from"));
        if !is_assigned && line.weights.is_none() && line.flags.iter().all(|(key, ..)| *key != "init_from") {
            return Ok(());
        }
        let what = format!("run {} continues with its own weights, and --init-from sets others", self.name());
        Err(Error::usage(what)
            .at("--init-from")
            .remedy("leave --init-from out; `operant train ENV --init-from RUN` starts a new run"))
    }

    /// The outcome of a run that has finished and has nothing left to do under these settings, and a line that says why and how to continue
    /// it. None for a run that was killed before it wrote its result: the last evaluation may be missing.
    pub fn ended(&self, settings: &Settings) -> Option<(Outcome, String)> {
        let (_, Checkpoint { env_steps: steps, .. }) = self.checkpoint.as_ref()?;
        let dir = self.dir.path();
        RunFile::read(dir).and_then(|file| file.state()).filter(|state| *state == RunState::Finished)?;
        let result = RunResult::read(dir).filter(|result| result.env_steps == *steps)?;
        let has_all = *steps >= settings.learner.total_timesteps;
        let (exit_reason, why) = match result.solved_at_step {
            _ if has_all => (ExitReason::Finished, steps_taken(*steps)),
            Some(solved) if settings.run.stop_when_solved => {
                let why = format!(
                    "the run was solved at {solved} steps, which ends it; it continues with stop_when_solved=false"
                );
                (ExitReason::Solved, why)
            }
            _ => return None,
        };
        // A run that was renamed or copied has the name of its directory.
        let result = RunResult { run: self.name().to_owned(), ..result };
        Some((Outcome { exit_reason, result, dir: dir.to_path_buf(), unsaved: None }, why))
    }

    /// Name of the device that trained it last; None if it is not recorded.
    pub(crate) fn trained_on(&self) -> Option<String> {
        RunFile::read(self.dir.path()).map(|file| file.device).filter(|device| !device.is_empty())
    }

    /// Its configuration as TOML text, for [`crate::config::requested`].
    pub fn config(&self) -> &str {
        &self.config
    }
}
