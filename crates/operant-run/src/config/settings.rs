//! The settings of a run: typed, checked, immutable, with the origin of each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use operant_env::EnvOptions;
use operant_learn::Config;
use operant_learn::config::MAX_ENVS;
use operant_learn::setting::Key;
use operant_metrics::RunMetrics;
use toml::{Table, Value};

use super::keys::keys;
use super::layers::option_of_toml;
use super::origin::{Entries, Entry, EnvFacts, Origin};
use super::{RunConfig, default_run_dir};
use crate::error::{Error, Result};

/// Maximum number of samples of one update; more would not fit the memory of any machine.
const MAX_SAMPLES: u64 = 1 << 28;

/// A complete, checked configuration for one environment. It is made by [`super::Requested::resolve`].
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the environment.
    pub environment: String,
    /// Hyperparameters.
    pub learner: Config,
    /// How the run is carried out.
    pub run: RunConfig,
    /// Options of the environment, by name.
    pub env_options: EnvOptions,
    /// The environment that they are for.
    pub(super) facts: EnvFacts,
    /// Every value with its origin, by key.
    pub(super) entries: Entries,
    /// Like `entries`, for environment options.
    pub(super) options: BTreeMap<String, Entry>,
    /// Hyperparameters of a file of RL Baselines3 Zoo that have no counterpart here, `FILE: key: value` each.
    pub untranslated: Vec<String>,
}

impl Settings {
    /// Builds settings from typed entries, without checking that they fit together.
    pub(super) fn of(
        facts: EnvFacts,
        entries: Entries,
        options: BTreeMap<String, Entry>,
    ) -> Result<Settings> {
        let learner = typed(keys().filter(|key| key.group.is_learned()), &entries)?;
        let run = typed(RunConfig::KEYS.iter(), &entries)?;
        let env_options = options
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), option_of_toml(&entry.value)?)))
            .collect();
        let (environment, untranslated) = (facts.name.clone(), Vec::new());
        Ok(Settings { environment, facts, learner, run, env_options, entries, options, untranslated })
    }

    /// The same settings for an environment with these metrics.
    pub(crate) fn with_metrics(mut self, metrics: RunMetrics) -> Self {
        self.facts.metrics = metrics;
        self
    }

    /// The metrics of the run: those of every run, then those of its environment.
    pub fn metrics(&self) -> RunMetrics {
        self.facts.metrics
    }

    /// Where the value of a key came from.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.entries.get(key).map(|entry| &entry.origin)
    }

    /// The value of a key as TOML; None if it has none.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// `key = value` as TOML.
    pub(crate) fn assignment(&self, key: &str) -> String {
        self.value(key).map_or_else(|| key.to_owned(), |value| format!("{key} = {value}"))
    }

    /// Why the device chose this number of environments, if it did.
    pub fn num_envs_chosen(&self) -> Option<&str> {
        match self.origin("num_envs") {
            Some(Origin::Chosen(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Where an environment option came from.
    pub fn option_origin(&self, option: &str) -> Option<&Origin> {
        self.options.get(option).map(|entry| &entry.origin)
    }

    /// Whether any value comes from the `[gpu]` table of the environment's preset.
    pub fn uses_gpu_preset(&self) -> bool {
        let is_gpu = |origin: &Origin| matches!(origin, Origin::PresetGpu(_) | Origin::AlgorithmGpu(_));
        self.entries.values().any(|entry| is_gpu(&entry.origin))
    }

    /// The directory that holds the runs by default.
    pub(crate) fn default_run_dir(&self) -> PathBuf {
        default_run_dir(self.facts.known.clone())
    }

    /// Whether the environment has a preset.
    pub fn has_preset(&self) -> bool {
        self.facts.preset.is_some()
    }

    /// Number of updates that reach `total_timesteps`, rounded up.
    pub fn updates(&self) -> u64 {
        self.learner.total_timesteps.div_ceil(self.batch())
    }

    /// Environment steps that a whole run takes: `total_timesteps`, rounded up to whole updates.
    pub fn steps(&self) -> u64 {
        self.updates() * self.batch()
    }

    /// N T: environment steps per update.
    pub fn batch(&self) -> u64 {
        self.learner.num_envs as u64 * self.learner.num_steps as u64
    }

    /// The most environments that a run may have.
    pub(crate) fn max_envs(&self) -> usize {
        let by_samples = MAX_SAMPLES / (self.learner.num_steps as u64).max(1);
        usize::try_from(by_samples.min(MAX_ENVS as u64)).unwrap_or(usize::MAX)
    }

    /// Refuses a batch that is too large, that the minibatches do not divide, or that they divide into single samples.
    pub(super) fn check_minibatches(&self) -> Result<()> {
        let (n, t) = (self.learner.num_envs as u64, self.learner.num_steps as u64);
        let (batch, minibatches) = (self.batch(), self.learner.num_minibatches as u64);
        let at = |error: Error, key| match self.origin(key) {
            Some(origin) => error.at(origin.to_string()),
            None => error,
        };
        if batch > MAX_SAMPLES {
            let what =
                format!("num_envs x num_steps = {n} x {t} = {batch} samples are too many for one update");
            let is_explicit = self.origin("num_steps").is_some_and(Origin::is_explicit);
            let key = if is_explicit { "num_steps" } else { "num_envs" };
            let remedy = format!("lower num_envs or num_steps until their product is at most {MAX_SAMPLES}");
            return Err(at(Error::usage(what).remedy(remedy), key));
        }
        // With memory, minibatches of rollouts are made of whole sequences.
        let has_replay = self.learner.algorithm.declaration().has_replay();
        let length = if has_replay { 1 } else { self.learner.sequence() as u64 };
        if !t.is_multiple_of(length) {
            let what = format!("sequence_length = {length} does not divide num_steps = {t}");
            let error = Error::usage(what).remedy("set a divisor of num_steps, or 0 to choose one");
            return Err(at(error, "sequence_length"));
        }
        let parts = t / length;
        let count = n * parts;
        if count.is_multiple_of(minibatches) {
            let declaration = self.learner.algorithm.declaration();
            return match (declaration.problem)(&self.learner).or_else(|| self.learner.optimiser_problem()) {
                Some((key, what, remedy)) => {
                    // Of settings that contradict each other, the one that the user set.
                    let is_set = |key: &&str| self.origin(key).is_some_and(Origin::is_explicit);
                    let named =
                        keys().map(|key| key.name).filter(|name| what.contains(&format!("{name} = ")));
                    let key = [key].into_iter().chain(named).find(is_set).unwrap_or(key);
                    Err(at(Error::usage(what).remedy(remedy), key))
                }
                None => Ok(()),
            };
        }
        let divisors = divisors_of_product(n, parts);
        let below = divisors.iter().rev().find(|divisor| **divisor < minibatches);
        let above = divisors.iter().find(|divisor| **divisor > minibatches);
        let choices: Vec<String> = [below, above].into_iter().flatten().map(|m| m.to_string()).collect();
        let what = if length == 1 {
            format!(
                "num_minibatches = {minibatches} does not divide num_envs x num_steps = {n} x {t} = {batch}"
            )
        } else {
            format!(
                "num_minibatches = {minibatches} does not divide the {n} x {parts} = {count} sequences of {length} steps in an update"
            )
        };
        let error = Error::usage(what).remedy(format!("the nearest that do: {}", choices.join(" and ")));
        Err(at(error, "num_minibatches"))
    }
}

/// Deserializes the entries of these keys into their struct.
fn typed<T: serde::de::DeserializeOwned>(
    keys: impl Iterator<Item = &'static Key>,
    entries: &Entries,
) -> Result<T> {
    let values = keys.filter_map(|key| Some((key.name.to_owned(), entries.get(key.name)?.value.clone())));
    Value::Table(values.collect::<Table>()).try_into().map_err(|error: toml::de::Error| {
        Error::usage(format!("the configuration is incomplete: {}", error.message()))
            .remedy("set the key in a file or with --set")
    })
}

/// Every divisor of `n t`, ascending. Trial division of each factor, never of the product, which may be large.
fn divisors_of_product(n: u64, t: u64) -> Vec<u64> {
    let divisors = |x: u64| (1..=x).filter(move |d| x.is_multiple_of(*d));
    let mut products: Vec<u64> = divisors(n).flat_map(|a| divisors(t).map(move |b| a * b)).collect();
    products.sort_unstable();
    products.dedup();
    products
}
