//! The learning algorithms, a folder each. The folder holds what the algorithm alone has: its settings, its loss and its update. Its
//! line below makes it known to configurations, commands and backends.

/// The text of a file in `kernels`.
macro_rules! kernel_file {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/", $name))
    };
}

pub mod ppo;
pub mod pqn;

use operant_metrics::Record;

use crate::choice;
use crate::config::Config;
use crate::cpu::update::Update;
use crate::network::Outputs;
use crate::setting::Key;

/// Numbers that a loss sums over samples, at most.
pub const SUMS: usize = 5;

/// What an algorithm declares.
pub struct Declaration {
    /// The settings that it alone has.
    pub keys: &'static [Key],
    /// What it sets, as TOML, where neither a preset nor the user sets anything else.
    pub preset: &'static str,
    /// The metrics of its updates, which a monitor shows as losses.
    pub losses: &'static [&'static str],
    /// What its network computes.
    pub outputs: Outputs,
    /// Share of random actions in rollouts. Only where the network computes action values.
    pub exploration: fn(&Config) -> Exploration,
    /// Lambda of its returns.
    pub return_lambda: fn(&Config) -> f64,
    /// The greatest weights of TD errors, and of what comes from later steps, in advantages that are computed again: the probability ratio
    /// up to this; None weights none.
    pub ratio_clips: fn(&Config) -> [Option<f32>; 2],
    /// Whether each epoch begins with a pass over a field of all samples, of which `operant bench` counts the bytes.
    pub has_statistics: fn(&Config) -> bool,
    /// A configuration that would learn nothing: the key, what is wrong with it, and what to do.
    pub problem: fn(&Config) -> Option<(&'static str, String, &'static str)>,
    /// The metrics of an update.
    pub metrics: fn(&Measured) -> Record,
    /// Its update on the CPU.
    pub(crate) update: Update,
    /// Its loss on a GPU, where epochs and minibatches are those of every algorithm.
    pub gpu: GpuLoss,
}

/// A share of random actions that changes linearly over the first updates and then stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exploration {
    /// In the rollout of the first update.
    pub start: f64,
    /// Once it has changed.
    pub end: f64,
    /// Updates over which it changes.
    pub updates: f64,
}

impl Exploration {
    /// Without random actions.
    pub const NONE: Self = Self { start: 0.0, end: 0.0, updates: 0.0 };

    /// The share in the rollout of update number `update`.
    pub fn at(&self, update: u64) -> f64 {
        let done = if self.updates > 0.0 { (update as f64 / self.updates).min(1.0) } else { 1.0 };
        self.start + (self.end - self.start) * done
    }
}

/// What a device measured in an update.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Means of the loss's sums over the last epoch, in their order.
    pub losses: [f64; SUMS],
    /// Mean norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Adam's step size.
    pub learning_rate: f64,
    /// 1 - Var(returns - values) / Var(returns).
    pub explained_variance: f64,
    /// Share of random actions in the rollout.
    pub epsilon: f64,
}

/// A setting that a loss reads on a GPU: its name there, and its value.
pub type Coefficient = (&'static str, fn(&Config) -> f64);

/// A loss in the kernels of the GEMM path.
pub struct GpuLoss {
    /// The file in `kernels/algorithms`, which `gemm/update.cu` includes as `loss.cuh`.
    pub text: &'static str,
    /// A setting that no kernels compute, and its value.
    pub refused: fn(&Config) -> Option<(&'static str, String)>,
    /// A preprocessor definition by settings that are off by default.
    pub define: fn(&Config) -> Option<(&'static str, String)>,
    /// At most [`GpuLoss::COEFFICIENTS`].
    pub coefficients: &'static [Coefficient],
    /// Mean of the loss's fourth sum above which an update's epochs end; 0 never ends them.
    pub target_kl: fn(&Config) -> f64,
}

impl GpuLoss {
    /// Numbers that kernels take for the settings of a loss.
    pub const COEFFICIENTS: usize = 5;

    /// Those of a configuration.
    pub fn numbers(&self, config: &Config) -> [f32; Self::COEFFICIENTS] {
        let mut numbers = [0.0; Self::COEFFICIENTS];
        self.coefficients.iter().enumerate().for_each(|(k, (_, value))| numbers[k] = value(config) as f32);
        numbers
    }

    /// The index of each, as a define, and [`GpuLoss::define`].
    pub fn defines(&self, config: &Config) -> impl Iterator<Item = (String, String)> {
        let names =
            self.coefficients.iter().enumerate().map(|(index, (name, _))| (*name, format!("{index}u")));
        names.chain((self.define)(config)).map(|(name, value)| (name.to_owned(), value))
    }
}

/// An enum, its settings and its declarations, from a line for each algorithm: its name in configurations, and its folder.
macro_rules! algorithms {
    ($($(#[doc = $doc:literal])+ $variant:ident = $word:literal in $folder:ident;)+) => {
        choice! {
            /// The learning algorithm.
            pub enum Algorithm {
                $($(#[doc = $doc])+ $variant = $word,)+
            }
        }

        /// The settings of every algorithm.
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        pub struct Settings {
            $($(#[doc = $doc])+ #[serde(flatten)] pub $folder: $folder::Settings,)+
        }

        impl Algorithm {
            /// What it declares.
            pub fn declaration(self) -> &'static Declaration {
                match self {
                    $(Algorithm::$variant => &$folder::DECLARATION,)+
                }
            }
        }
    };
}

algorithms! {
    /// Proximal policy optimisation.
    Ppo = "ppo" in ppo;
    /// Parallelised Q-network.
    Pqn = "pqn" in pqn;
}
