//! The start of a run: opens its directory and checkpoint, the files it writes, its ring and run.json, and collects
//! notices about them.

use std::path::PathBuf;
use std::sync::Arc;

use operant_learn::{Backend, Config, LearnError};
use operant_metrics::{Identity, RingOptions, RunFile};

use crate::checkpoint::{self, Checkpoint, Store};
use crate::config::Settings;
use crate::device::Device;
use crate::dir::RunDir;
use crate::error::{Error, Result};
use crate::machine::AppliedPlan;
use crate::progress::Announcer;
use crate::resume::Resume;
use crate::runs::{self, StateFile};
use crate::signals::Signals;
use crate::sinks::{CsvSink, Sinks, TensorBoardSink};
use crate::state::State;
use crate::telemetry::{self, Publisher, RingLocation, SideContext};
use crate::world;

/// A line for the log, for monitors and for the user.
#[derive(Debug)]
pub(crate) enum Notice {
    Note(String),
    /// For the log and for monitors; for the user on request.
    Detail(String),
    Warning(String),
}

/// A run's directory, and the checkpoint that it continues from.
pub(crate) struct OpenRun {
    pub dir: RunDir,
    pub checkpoint: Option<(PathBuf, Checkpoint)>,
    /// Errors of the damaged checkpoints after that one.
    warnings: Vec<String>,
    is_new: bool,
    /// Whether it fills a new replay before it continues to learn.
    refills: bool,
}

impl OpenRun {
    /// The directory of the run to resume, or a new one.
    ///
    /// # Errors
    /// When a new one cannot be created.
    pub fn open(resume: Option<Resume>, settings: &Settings) -> Result<Self> {
        if let Some(Resume { dir, checkpoint, warnings, .. }) = resume {
            return Ok(OpenRun { dir, checkpoint, warnings, is_new: false, refills: false });
        }
        let run = &settings.run;
        let (name, seed) = (run.name.as_deref(), settings.learner.seed);
        let dir = RunDir::create(&run.run_dir, name, &settings.environment, seed)?;
        Ok(OpenRun { dir, checkpoint: None, warnings: Vec::new(), is_new: true, refills: false })
    }

    /// Global steps of the checkpoint.
    pub fn resumed_at(&self) -> Option<u64> {
        self.checkpoint.as_ref().map(|(_, checkpoint)| checkpoint.env_steps)
    }

    /// Loads the checkpoint, if there is one, into the backend.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn restore(&mut self, backend: &mut dyn Backend, settings: &Settings) -> Result<State> {
        let Some((path, checkpoint)) = &self.checkpoint else { return Ok(State::default()) };
        backend.load(&checkpoint.snapshot).map_err(|e| Error::from(e).at(path.display().to_string()))?;
        let mut read = Ok(false);
        let filled = backend.fill_replay(&mut |replay| {
            read = checkpoint::read_replay(path, replay);
            // What failed is in `read`.
            read.as_ref().map(drop).map_err(|_| LearnError::Stopped)
        });
        let has_replay = settings.learner.algorithm.declaration().has_replay();
        self.refills = !read? && has_replay && checkpoint.env_steps > 0;
        filled.map_err(|e| Error::from(e).at(path.display().to_string()))?;
        Ok(State::resume(checkpoint))
    }

    /// Opens every file that the run writes. Rows and events after the checkpoint are removed.
    ///
    /// # Errors
    /// When one of them cannot be opened; a new run's directory is then removed, so that its name is free.
    pub fn open_files(
        &self,
        settings: &Settings,
        saved_config: &str,
        world: Option<&str>,
    ) -> Result<(Store, Sinks)> {
        self.try_to_open_files(settings, saved_config, world).inspect_err(|_| {
            if self.is_new {
                let _ = std::fs::remove_dir_all(self.dir.path());
            }
        })
    }

    fn try_to_open_files(
        &self,
        settings: &Settings,
        saved_config: &str,
        world: Option<&str>,
    ) -> Result<(Store, Sinks)> {
        let (dir, resumed_at, metrics) = (&self.dir, self.resumed_at(), settings.metrics());
        let store = Store::open(dir.checkpoints(), settings.run.keep_checkpoints)?.resume_from(resumed_at);
        dir.write("config.toml", saved_config)?;
        if let Some(world) = world {
            world::keep(world, dir.path())?;
        }
        let mut sinks = Sinks::new();
        if settings.run.csv {
            let path = dir.path().join("metrics.csv");
            sinks.add(match resumed_at {
                Some(steps) => CsvSink::resume(&path, metrics, steps)?,
                None => CsvSink::create(&path, metrics)?,
            });
        }
        if settings.run.tensorboard {
            sinks.add(match resumed_at {
                Some(steps) => {
                    TensorBoardSink::resume(dir.path(), metrics, &settings.hyperparameters(), steps)?
                }
                None => TensorBoardSink::create(dir.path(), metrics, &settings.hyperparameters())?,
            });
        }
        Ok((store, sinks))
    }
}

/// The outputs of a run: its ring, run.json and sinks.
pub(crate) struct RunOutputs {
    pub publisher: Publisher,
    pub state_file: Arc<StateFile>,
    /// Outputs that failed; training continues without them.
    pub problems: Vec<Notice>,
}

/// A run whose device and directory are known.
pub(crate) struct Start<'a> {
    pub home: &'a OpenRun,
    pub settings: &'a Settings,
    pub device: &'a Device,
    pub backend: &'a dyn Backend,
    pub applied: &'a AppliedPlan,
    pub signals: &'a Signals,
    /// Whether it begins with given transitions.
    pub is_given: bool,
}

impl Start<'_> {
    /// Creates the ring and run.json. `announce` shows a line to the user; `env_steps` is the count before this process.
    pub fn show(
        &self,
        sinks: Sinks,
        ring_dir: Option<PathBuf>,
        announce: Announcer,
        env_steps: u64,
    ) -> RunOutputs {
        let Self { home, settings, device, .. } = self;
        let identity = self.identity();
        let place = match (settings.run.ring, ring_dir) {
            (false, _) => RingLocation::Nowhere,
            (true, Some(dir)) => RingLocation::In(dir),
            (true, None) => RingLocation::Default,
        };
        let mut problems = Vec::new();
        let losses = settings.learner.algorithm.declaration().losses;
        let options = RingOptions {
            group_readable: settings.run.ring_group,
            losses,
            metrics: settings.metrics(),
            ..RingOptions::default()
        };
        let ring = telemetry::make_ring(&identity, &place, &options).unwrap_or_else(|error| {
            problems.push(Notice::Warning(format!("{error}\ntraining continues without telemetry")));
            None
        });
        problems.extend(ring.as_ref().and_then(|ring| ring.warning.clone()).map(Notice::Note));
        let ring_path = ring.as_ref().map(|ring| ring.writer.path());
        let run_file = RunFile {
            num_envs: settings.learner.num_envs as u64,
            num_envs_chosen: settings.num_envs_chosen().map(str::to_string),
            ..runs::starting(&identity, ring_path)
        };
        let (state_file, written) = StateFile::begin(home.dir.path(), run_file);
        if let Err(error) = written {
            problems.push(Notice::Warning(format!("{error}\ntraining continues without this file")));
        }
        let state_file = Arc::new(state_file);
        let context = SideContext {
            signals: self.signals.clone(),
            state_file: Arc::clone(&state_file),
            gpu: device.uuid.clone(),
            announce,
        };
        let steps = env_steps..settings.steps();
        let publisher = Publisher::start(sinks, ring, self.backend.pulse(), context, steps);
        RunOutputs { publisher, state_file, problems }
    }

    /// The run's identity, for its ring and run.json.
    fn identity(&self) -> Identity {
        let Self { home: OpenRun { dir, .. }, settings, device, .. } = self;
        Identity {
            algorithm: settings.learner.algorithm.to_string(),
            device: device.name.clone(),
            seed: settings.learner.seed,
            // Absolute, since `runs` and monitors compare it.
            dir: std::fs::canonicalize(dir.path()).unwrap_or_else(|_| dir.path().to_path_buf()),
            total_steps: settings.steps(),
            solved_at: settings.run.solved_at,
            ..Identity::of_this_process(dir.name(), &settings.environment)
        }
    }

    /// The notices at the start, in order: the run's directory, its weights, what was chosen for it, and what failed.
    pub fn notices(&self, weights: Vec<Notice>, problems: Vec<Notice>) -> Vec<Notice> {
        let Self { home, settings, device, backend, applied, .. } = self;
        let dir = &home.dir;
        let begun = match &home.checkpoint {
            Some((path, checkpoint)) => {
                let steps = checkpoint.env_steps;
                format!("run {} resumed at {steps} steps from {}", dir.name(), path.display())
            }
            None => format!("run {} in {}", dir.name(), dir.path().display()),
        };
        let mut notices = vec![Notice::Note(self.what())];
        notices.push(Notice::Detail(format!("{begun}: {}", self.description())));
        notices.extend(weights);
        if let Some(reason) = &device.reason {
            notices.push(Notice::Detail(format!("device: {}; {reason}", device.name)));
        }
        let untranslated = settings.untranslated.iter();
        notices.extend(untranslated.map(|what| Notice::Warning(format!("{what} has no counterpart here"))));
        notices.push(Notice::Detail(applied.note.clone()));
        notices.extend(applied.clamped.clone().map(Notice::Warning));
        if let Some(unbound) = &applied.unbound {
            notices.push(Notice::Warning(format!("pin = true: {unbound}")));
        }
        notices.extend(backend.how().map(Notice::Detail));
        if home.checkpoint.is_some() && !backend.saves_episodes() {
            let what = "new episodes begin: the state of Gymnasium environments cannot be saved";
            notices.push(Notice::Note(what.to_owned()));
        }
        let Config { algorithm, learning_starts, .. } = settings.learner;
        // A run takes whole updates.
        let steps = settings.updates() * settings.batch();
        let is_random = algorithm.declaration().has_replay() && learning_starts as u64 >= steps;
        if is_random && home.checkpoint.is_none() && !self.is_given {
            notices.push(Notice::Warning(format!(
                "all of the {steps} steps are random and nothing is learned, because learning_starts = {learning_starts}"
            )));
        }
        notices.extend(settings.without_effect().into_iter().map(Notice::Warning));
        if settings.learner.max_updates_per_step != 0.0 {
            let what = "max_updates_per_step is set: how many minibatches are learned from depends on time, so the same seed gives other results";
            notices.push(Notice::Note(what.to_owned()));
        }
        if home.refills {
            let starts = settings.learner.learning_starts;
            notices.push(Notice::Note(format!(
                "the checkpoint has no replay: a new one is filled with {starts} steps before learning continues; checkpoint_replay = true keeps it"
            )));
        }
        if let Some(reason) = settings.num_envs_chosen() {
            let num_envs = settings.learner.num_envs;
            notices.push(Notice::Detail(format!("num_envs: {num_envs}, which auto chose: {reason}")));
        }
        notices.extend(home.warnings.iter().cloned().map(Notice::Warning));
        notices.extend(problems);
        notices
    }

    /// One line that says what trains: environment, algorithm, device, samples of an update, seed.
    fn what(&self) -> String {
        let Config { algorithm, num_envs, num_steps, seed, .. } = &self.settings.learner;
        let from = match self.home.resumed_at() {
            Some(steps) => format!(", from step {steps}"),
            None => String::new(),
        };
        let algorithm = algorithm.to_string().to_uppercase();
        let (env, on) = (&self.settings.environment, self.place());
        let envs = if *num_envs == 1 { "env" } else { "envs" };
        format!("{env} with {algorithm} on {on}: {num_envs} {envs} x {num_steps} steps, seed {seed}{from}")
    }

    /// The device and its threads.
    fn place(&self) -> String {
        let threads = self.applied.threads;
        let plural = if threads == 1 { "" } else { "s" };
        format!("{} with {threads} thread{plural}", self.device.name)
    }

    /// One line with environment, preset, device and threads.
    fn description(&self) -> String {
        let settings = self.settings;
        let env = &settings.environment;
        let preset = match settings.has_preset() {
            false => "no preset",
            true if settings.uses_gpu_preset() => "its preset for GPUs",
            true => "its preset",
        };
        format!("{env} under {preset}, on {}", self.place())
    }
}
