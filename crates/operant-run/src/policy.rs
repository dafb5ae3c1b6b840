//! A trained policy of a run, without its training.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_env::{AnyEnv, Registry};
use operant_learn::{PolicyTensor, Snapshot, Tensor, TrainedPolicy, content_counter};

use crate::checkpoint::{self, Checkpoint};
use crate::config::{self, CommandLine, EnvFacts, Requested};
use crate::device;
use crate::dir;
use crate::error::{Error, Result};
use crate::eval::{EvalTarget, run_of};
use crate::init_from::is_of_policy;
use crate::opponent;
use crate::trust::{self, Trust};
use crate::world;

/// Whose mark a program has.
#[derive(Debug, Clone)]
pub enum Mark {
    /// This user's, who started the program. It is made when the policy is saved.
    Own,
    /// As the checkpoint has it.
    Kept(Option<Vec<u8>>),
}

/// The policy of a checkpoint.
#[derive(Debug, Clone)]
pub struct SavedPolicy {
    /// Name of the run that it belongs to.
    pub run: String,
    /// The checkpoint's directory.
    pub path: PathBuf,
    /// Environment steps that it had trained for.
    pub env_steps: u64,
    /// The policy.
    pub policy: TrainedPolicy,
    /// The environment, with the options that the run was trained with. A Gymnasium environment cannot be stepped.
    pub env: Arc<dyn AnyEnv>,
    /// Those options.
    pub env_options: operant_env::EnvOptions,
    /// The run's seed.
    pub seed: u64,
    /// In a game, who plays the other side of evaluations.
    pub opponent: Option<String>,
    /// The run's configuration, TOML text.
    pub config: String,
    /// The statistics of observations, `norm_obs.*`, as the checkpoint has them.
    pub statistics: Vec<Tensor>,
    /// Whether its arrays are no longer those of the checkpoint.
    pub is_changed: bool,
    /// Of an environment that is a program: the mark of the user who started it.
    pub mark: Mark,
    /// Errors of damaged checkpoints that were skipped.
    pub warnings: Vec<String>,
}

impl SavedPolicy {
    /// The policy with which a run with these settings begins. It belongs to no run, and does not normalise observations.
    ///
    /// # Errors
    /// When the settings do not fit the environment.
    pub fn untrained(env: &dyn AnyEnv, requested: &Requested) -> Result<Self> {
        let settings = &requested.settings;
        if let Some(origin) = requested.weights()?.and(requested.origin("init_from")) {
            return Err(Error::usage("init_from is set, and a new policy has no weights of a run")
                .at(origin.to_string())
                .remedy("load the policy of the run, or leave init_from out"));
        }
        let env = device::with_options(env, settings)?;
        let policy = TrainedPolicy::untrained(&*env, &settings.learner)
            .map_err(|error| device::learn_error(error, |key| settings.origin(key).cloned()))?;
        Ok(SavedPolicy {
            run: String::new(),
            path: PathBuf::new(),
            env_steps: 0,
            policy,
            env,
            env_options: settings.env_options.clone(),
            seed: settings.learner.seed,
            opponent: settings.run.opponent.clone(),
            config: settings.to_saved_toml(),
            statistics: Vec::new(),
            is_changed: false,
            mark: Mark::Own,
            warnings: Vec::new(),
        })
    }

    /// Loads the policy of a checkpoint: by its path, or the latest one of a run (by name under `parent`, or by path).
    ///
    /// # Errors
    /// When there is none, it cannot be read, or its environment is not in the registry.
    pub fn load(registry: &Registry, parent: &Path, what: &str) -> Result<Self> {
        Self::load_with(registry, parent, what, &CommandLine::default())
    }

    /// Like [`SavedPolicy::load`], with options of the environment from the command line.
    ///
    /// # Errors
    /// The errors of [`SavedPolicy::load`]; also when the policy does not fit the environment with these options.
    pub fn load_with(registry: &Registry, parent: &Path, what: &str, line: &CommandLine) -> Result<Self> {
        let target = EvalTarget::find(parent, what)?;
        // It is never stepped.
        let env = target.env(registry, Trust::Nothing)?;
        let mark =
            Mark::Kept(env.file().and_then(|_| dir::read_small(&target.env_dir().join(trust::MARK)).ok()));
        let EvalTarget { run, path, checkpoint, mut warnings } = target;
        if env.spec().family == "Gymnasium" && env.own_spaces().is_none() {
            warnings.push(format!(
                "{}: an earlier version trained it and did not write the environment's own spaces: observations are given and actions \
                 returned in the engine's shapes, whole numbers from 0 on",
                path.display()
            ));
        }
        let at = |error: Error| Error { place: Some(path.display().to_string()), ..error };
        let facts = EnvFacts::of(&env.spec(), registry);
        let requested = config::requested(facts, line, Some((&run, &checkpoint.config)))?;
        let settings = requested.settings;
        let env = device::with_options(&*env, &settings)?;
        let policy = TrainedPolicy::from_snapshot(&*env, &settings.learner, &checkpoint.snapshot)
            .map_err(|error| at(error.into()))?;
        let (env_steps, env_options) = (checkpoint.env_steps, settings.env_options);
        let seed = settings.learner.seed;
        let opponent = match env.spec().players {
            1 => None,
            _ => Some(opponent::evaluated(settings.run.opponent.as_deref()).to_owned()),
        };
        let (config, tensors) = (checkpoint.config, checkpoint.snapshot.tensors);
        let statistics = tensors.into_iter().filter(|tensor| tensor.name.starts_with("norm_obs.")).collect();
        Ok(SavedPolicy {
            run,
            path,
            env_steps,
            policy,
            env,
            env_options,
            seed,
            opponent,
            config,
            statistics,
            is_changed: false,
            mark,
            warnings,
        })
    }

    /// Saves it as a checkpoint of its own, which [`SavedPolicy::load`] takes by its path: weights, statistics of observations, configuration
    /// and, if it is from outside the program, the environment with its mark. A saved policy of that path is replaced.
    ///
    /// # Errors
    /// Usage when something else is there, disk when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        // A link stays; what it leads to is replaced.
        let below_links = || {
            let path = std::path::absolute(path)?;
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path) };
            // A parent that is not there has no links to follow.
            Ok(parent.canonicalize().map_or_else(|_| path.clone(), |parent| parent.join(name)))
        };
        let target = path
            .canonicalize()
            .or_else(|_| below_links())
            .unwrap_or_else(|_: std::io::Error| path.to_path_buf());
        let refused = |what: &str| {
            Err(Error::usage(format!("{} {what}", path.display()))
                .remedy("name a directory that does not exist, or one with a saved policy"))
        };
        if run_of(&target).is_some() {
            return refused("is the place of a checkpoint of a run");
        }
        let is_there = target.symlink_metadata().is_ok();
        if target.file_name().is_none() || is_there && !is_saved(&target) {
            return refused("is there and is not a saved policy, or has other files, too");
        }
        let counters = content_counter(&*self.env).into_iter().collect();
        let checkpoint = Checkpoint {
            env: self.policy.env.clone(),
            config: self.config.clone(),
            env_steps: self.env_steps,
            snapshot: Snapshot { tensors: self.weights(), counters },
            ..Checkpoint::default()
        };
        let env = self.env.file().map(|text| (world::FILE, text.into_bytes()));
        let mark = match &self.mark {
            Mark::Own => self.env.file().and_then(|text| world::mark(&text)),
            Mark::Kept(mark) => mark.clone(),
        };
        let mark = mark.map(|mark| (trust::MARK, mark));
        Ok(checkpoint::save_alone(&checkpoint, &target, env.into_iter().chain(mark))?)
    }

    /// The same policy with these arrays, under the names and with the shapes of [`TrainedPolicy::tensors`].
    ///
    /// # Errors
    /// Usage with each array that is missing, unknown or of another shape.
    pub fn with_tensors(&self, tensors: &[PolicyTensor]) -> Result<Self> {
        let policy = self.policy.with_tensors(tensors).map_err(|problem| {
            Error::usage(problem).remedy("give the arrays of state_dict() of a policy of this network")
        })?;
        Ok(SavedPolicy { is_changed: self.is_changed || policy != self.policy, policy, ..self.clone() })
    }

    /// Its weights and statistics of observations, as a checkpoint has them.
    pub(crate) fn weights(&self) -> Vec<Tensor> {
        self.policy.snapshot_tensors(&self.statistics)
    }
}

/// Whether a directory holds what [`SavedPolicy::save`] writes, and nothing else.
fn is_saved(path: &Path) -> bool {
    checkpoint::is_alone(path, &[world::FILE, trust::MARK], is_of_policy)
}
