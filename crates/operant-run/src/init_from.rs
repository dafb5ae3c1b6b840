//! The weights that a new run begins with: `init_from`, or a policy that the program gives.

use std::path::{Path, PathBuf};

use operant_learn::algorithms::Algorithm;
use operant_learn::{Backend, Config, Snapshot, Tensor, Transfer};
use toml::{Table, Value};

use crate::checkpoint::Checkpoint;
use crate::config::{self, Key, KeyGroup, Settings};
use crate::error::{Error, Result};
use crate::eval::EvalTarget;
use crate::policy::SavedPolicy;
use crate::start::Notice;

/// The weights of a checkpoint or policy, and the configuration that they were trained with.
#[derive(Debug, Clone, PartialEq)]
pub struct InitialWeights {
    /// Where they come from, such as `mine at step 200704`.
    pub source: String,
    /// What the new run records as its `init_from`.
    pub recorded: String,
    /// The checkpoint that they are from.
    path: PathBuf,
    /// The environment that they were trained in.
    env: String,
    /// The configuration.
    config: Table,
    /// The tensors `params.*` and `norm_obs.*`.
    snapshot: Snapshot,
    /// Errors of damaged checkpoints that were skipped.
    warnings: Vec<String>,
}

/// Whether a run takes this setting over together with the weights, unless the user sets it: those of the network, and those that decide
/// what it computes and from what.
pub(crate) fn is_inherited(key: &Key) -> bool {
    key.group == KeyGroup::Network || ["algorithm", "norm_obs", "clip_obs"].contains(&key.name)
}

/// Whether weights cannot be used with another value of this setting.
fn must_agree(key: &Key) -> bool {
    is_inherited(key) && key.fixed.is_some() && key.name != "norm_obs"
}

/// Whether a tensor is one of weights and statistics of observations, and not of the state of a training.
pub(crate) fn is_of_policy(tensor: &str) -> bool {
    ["params.", "norm_obs."].iter().any(|kind| tensor.starts_with(kind))
}

impl InitialWeights {
    /// Those of a checkpoint, found as [`EvalTarget::find`] does.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn find(parent: &Path, what: &str) -> Result<Self> {
        let EvalTarget { run, path, checkpoint, warnings } = EvalTarget::find(parent, what)?;
        let source = format!("{run} at step {}", checkpoint.env_steps);
        let Checkpoint { env, config, snapshot, .. } = checkpoint;
        Self::new(source, path, env, &config, snapshot.tensors, warnings)
    }

    /// Those of a policy in memory.
    ///
    /// # Errors
    /// When the configuration of its checkpoint cannot be read.
    pub fn of_policy(saved: &SavedPolicy) -> Result<Self> {
        let SavedPolicy { run, path, env_steps, config, .. } = saved;
        let is_new = run.is_empty();
        let source = if is_new { "a new policy".to_owned() } else { format!("{run} at step {env_steps}") };
        let env = saved.policy.env.clone();
        let mut weights = Self::new(source, path.clone(), env, config, saved.weights(), Vec::new())?;
        if is_new {
            weights.recorded.clone_from(&weights.source);
        }
        if !saved.is_changed {
            return Ok(weights);
        }
        let changed = |text: &str| format!("{text}, changed by the program");
        Ok(Self { source: changed(&weights.source), recorded: changed(&weights.recorded), ..weights })
    }

    fn new(
        source: String,
        path: PathBuf,
        env: String,
        config: &str,
        tensors: Vec<Tensor>,
        warnings: Vec<String>,
    ) -> Result<Self> {
        let path = std::path::absolute(&path).unwrap_or(path);
        let config = config.parse().map_err(|error: toml::de::Error| {
            Error::usage(format!("the checkpoint's configuration is not valid TOML: {}", error.message()))
                .at(path.display().to_string())
                .remedy("begin with another checkpoint")
        })?;
        let tensors = tensors.into_iter().filter(|tensor| is_of_policy(&tensor.name)).collect();
        let snapshot = Snapshot { tensors, ..Snapshot::default() };
        Ok(Self { recorded: path.display().to_string(), source, path, env, config, snapshot, warnings })
    }

    /// The settings of the weights' algorithm that a run takes over with them. A key that the checkpoint's version did not know has its default.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static Key, Value)> {
        let defaults = Table::try_from(Config::default()).unwrap_or_default();
        let value = move |key: &Key| {
            let value = self.config.get(key.name).or_else(|| defaults.get(key.name))?;
            // A word of an earlier version; what is not valid is refused where it is used.
            config::accepted_value(key.name, value.clone(), "").ok().or_else(|| Some(value.clone()))
        };
        let name = self.config.get("algorithm").and_then(Value::as_str);
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| Some(algorithm.name()) == name);
        let algorithm = algorithm.unwrap_or(Config::default().algorithm);
        let inherited = config::keys().filter(move |key| is_inherited(key) && algorithm.reads(key));
        inherited.filter_map(move |key| Some((key, value(key)?)))
    }

    /// Refuses settings that give another network.
    ///
    /// # Errors
    /// Usage with the first such setting, its origin and both values.
    pub(crate) fn check(&self, settings: &Settings) -> Result<()> {
        for (key, there) in self.settings().filter(|(key, _)| must_agree(key)) {
            let Some(here) = settings.value(key.name).filter(|here| **here != there) else { continue };
            let name = key.name;
            let what = format!(
                "{name} = {here} does not match the weights of {}, which have {name} = {there}",
                self.source
            );
            let error = Error::usage(what).remedy(format!(
                "leave {name} out to use the value of the weights, or leave init_from out to start from new weights"
            ));
            return Err(match settings.origin(name) {
                Some(origin) => error.at(origin.to_string()),
                None => error,
            });
        }
        Ok(())
    }

    /// Gives the weights to a backend of the environment `env` that has not trained yet. Returns the notices for the user.
    ///
    /// # Errors
    /// When no hidden layer fits, or the device fails.
    pub(crate) fn load_into(&self, backend: &mut dyn Backend, env: &str) -> Result<Vec<Notice>> {
        let transfer = Transfer::new(&backend.save()?, &self.snapshot);
        let new = transfer.new_layers();
        if !transfer.has_hidden_layer {
            let what = format!(
                "no hidden layer of {} fits this network; layers that do not fit: {new}",
                self.source
            );
            return Err(Error::usage(what).at(self.path.display().to_string()).remedy(
                "begin with weights of an environment with the same observations, or leave init_from out",
            ));
        }
        backend.load(&transfer.snapshot)?;
        let other = (self.env != env).then(|| {
            let there = &self.env;
            let taken = match &*new {
                "" => "every layer fits and was taken".to_owned(),
                new => format!("new layers: {new}; the others were taken"),
            };
            format!("init_from: {} was trained in {there}, this run trains {env}; {taken}", self.source)
        });
        let new = if new.is_empty() { new } else { format!("; new: {new}") };
        let mut line = format!("weights: from {}{new}", self.source);
        let statistics = transfer.statistics.to_string();
        if !statistics.is_empty() {
            line = format!("{line}; {statistics}");
        }
        let warnings = self.warnings.iter().cloned().map(Notice::Warning);
        Ok(warnings.chain([Notice::Note(line)]).chain(other.map(Notice::Warning)).collect())
    }
}

#[cfg(test)]
#[path = "init_from_tests.rs"]
mod tests;
