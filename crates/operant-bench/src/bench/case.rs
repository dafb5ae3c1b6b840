//! A case to measure: a bench of an environment, on a device and threads, with hyperparameters.

use std::sync::Arc;

use operant_env::{AnyEnv, EnvOptions};
use operant_learn::cpu::{CpuOptions, Footprint};
use operant_learn::cuda::NetworkOptions;
use operant_learn::network::Architecture;
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, Precision};
use operant_run::{Error, Result};

use super::Bench;

/// A case to measure.
#[derive(Debug, Clone)]
pub struct Case {
    pub bench: Bench,
    /// The environment, with its options.
    pub env: Arc<dyn AnyEnv>,
    /// The environment's name.
    pub name: String,
    /// Index of the device in the plan.
    pub device: usize,
    /// CPU threads; None on a GPU.
    pub threads: Option<CpuOptions>,
    /// Precision and kernels of the network.
    pub network: NetworkOptions,
    /// The hyperparameters.
    pub config: Config,
    /// Options of the environment.
    pub options: EnvOptions,
    /// The network's shape.
    pub architecture: Architecture,
    pub layout: SampleLayout,
    /// Words per environment's state.
    pub state_words: usize,
}

impl Case {
    /// The same case for another bench. The bench of environments alone always computes in f32.
    #[must_use]
    pub fn of(mut self, bench: Bench) -> Self {
        self.bench = bench;
        if bench == Bench::Env {
            self.network.precision = Precision::F32;
        }
        self
    }

    /// Samples per rollout: N T.
    pub fn samples(&self) -> usize {
        self.config.num_envs * self.config.num_steps
    }

    /// A description of the work; rows with different work are not compared.
    pub fn work(&self) -> String {
        let Config { num_steps, num_minibatches, update_epochs, .. } = &self.config;
        let mut words = match self.bench {
            Bench::Env => format!("{num_steps} steps"),
            Bench::Rollout => format!("{}, {num_steps} steps", self.architecture),
            Bench::Train if self.config.algorithm.declaration().has_replay() => format!(
                "{}, {}, {} minibatches of {} for each step",
                self.config.algorithm,
                self.architecture,
                self.config.updates_per_step,
                self.config.batch_size
            ),
            Bench::Train => format!(
                "{}, {num_steps} steps, {num_minibatches} minibatches, {update_epochs} epochs",
                self.architecture
            ),
        };
        // All other changed settings.
        let defaults = Config {
            num_envs: self.config.num_envs,
            num_steps: *num_steps,
            num_minibatches: *num_minibatches,
            update_epochs: *update_epochs,
            conv: self.config.conv.clone(),
            hidden: self.config.hidden.clone(),
            core: self.config.core,
            core_width: self.config.core_width,
            core_layers: self.config.core_layers,
            shared_trunk: self.config.shared_trunk,
            total_timesteps: self.config.total_timesteps,
            ..Config::default()
        };
        if self.bench != Bench::Env && self.config != defaults {
            words.push_str(", other hyperparameters");
        }
        for (name, value) in &self.options {
            words.push_str(&format!(", {name} = {value}"));
        }
        words
    }

    /// Checks that the case fits into memory.
    ///
    /// # Errors
    /// When the samples of a case on the CPU need more memory than is available.
    pub fn check_memory(&self) -> Result<()> {
        if self.threads.is_none() || self.bench == Bench::Env {
            return Ok(());
        }
        let Some(memory) = operant_host::machine::memory() else { return Ok(()) };
        let threads = self.threads.as_ref().map_or(1, |options| options.threads);
        let required = Footprint::of(&*self.env, &self.config, threads)?.bytes(self.config.num_envs);
        if required <= memory.available {
            return Ok(());
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let (n, t) = (self.config.num_envs, self.config.num_steps);
        Err(Error::usage(format!(
            "{n} environments x {t} steps take {:.1} GiB, and {:.1} GiB are available",
            gib(required),
            gib(memory.available)
        ))
        .at("--envs")
        .remedy("use fewer environments or fewer --steps"))
    }
}
