//! One thing to measure: which bench of which environment, on which device and threads, with which hyperparameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use operant_env::AnyEnv;
use operant_learn::cpu::CpuOptions;
use operant_learn::cuda::NetworkOptions;
use operant_learn::network::Architecture;
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, Precision};
use operant_run::{Error, Result};

use super::Bench;

/// Bytes a sample of a rollout on the CPU takes besides the batch: rewards, values, ends, advantages.
const ROWS: usize = 4 * size_of::<f32>();

/// One thing to measure.
#[derive(Debug, Clone)]
pub struct Case {
    /// What.
    pub bench: Bench,
    /// The environment, with its options.
    pub env: Arc<dyn AnyEnv>,
    /// Its name.
    pub name: String,
    /// Number of the device among the plan's.
    pub place: usize,
    /// Threads of a CPU.
    pub threads: Option<CpuOptions>,
    /// How the network runs.
    pub network: NetworkOptions,
    /// The hyperparameters.
    pub config: Config,
    /// Options of the environment.
    pub options: BTreeMap<String, f64>,
    /// The network's shape.
    pub architecture: Architecture,
    /// Where a sample's numbers lie.
    pub layout: SampleLayout,
    /// Words of a running environment.
    pub state_words: usize,
}

impl Case {
    /// The same for another bench. Environments alone compute in f32 always.
    #[must_use]
    pub fn of(mut self, bench: Bench) -> Self {
        self.bench = bench;
        if bench == Bench::Env {
            self.network.precision = Precision::F32;
        }
        self
    }

    /// N T.
    pub fn samples(&self) -> usize {
        self.config.num_envs * self.config.num_steps
    }

    /// What is measured, in words: rows of other work are not compared.
    pub fn work(&self) -> String {
        let Config { num_steps, num_minibatches, update_epochs, .. } = &self.config;
        let mut words = match self.bench {
            Bench::Env => format!("{num_steps} steps"),
            Bench::Rollout => format!("{}, {num_steps} steps", self.architecture),
            Bench::Train => format!(
                "{}, {num_steps} steps, {num_minibatches} minibatches, {update_epochs} epochs",
                self.architecture
            ),
        };
        // Everything else that was changed.
        let usual = Config {
            num_envs: self.config.num_envs,
            num_steps: *num_steps,
            num_minibatches: *num_minibatches,
            update_epochs: *update_epochs,
            hidden: self.config.hidden.clone(),
            shared_trunk: self.config.shared_trunk,
            total_timesteps: self.config.total_timesteps,
            ..Config::default()
        };
        if self.bench != Bench::Env && self.config != usual {
            words.push_str(", other hyperparameters");
        }
        for (name, value) in &self.options {
            words.push_str(&format!(", {name} = {value}"));
        }
        words
    }

    /// Finds out whether the case fits into memory before it is tried.
    ///
    /// # Errors
    /// When the samples of a case on the CPU need more memory than is available.
    pub fn check_memory(&self) -> Result<()> {
        if self.threads.is_none() || self.bench == Bench::Env {
            return Ok(());
        }
        let Some(memory) = operant_host::machine::memory() else { return Ok(()) };
        let wanted = (self.samples() * (size_of::<u32>() * self.layout.stride + ROWS)) as u64;
        if wanted <= memory.available {
            return Ok(());
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let (n, t) = (self.config.num_envs, self.config.num_steps);
        Err(Error::usage(format!(
            "{n} environments x {t} steps take {:.1} GiB, and {:.1} GiB are available",
            gib(wanted),
            gib(memory.available)
        ))
        .at("--envs")
        .remedy("give fewer environments, or fewer --steps"))
    }
}
