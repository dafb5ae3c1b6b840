//! The learning algorithms, a folder each. The folder holds what the algorithm alone has: its settings, its loss and its update. Its
//! line below makes it known to configurations, commands and backends.

/// The text of a file in `kernels`.
macro_rules! kernel_file {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/", $name))
    };
}

pub mod dqn;
pub mod ppo;
pub mod pqn;
pub mod sac;
pub mod td3;

use operant_metrics::Record;

use crate::choice;
use crate::config::{ActionDistribution, Config, CoreKind, Encoder};
use crate::cpu::off_policy::learner::ActorCritic;
use crate::cpu::update::Update;
use crate::network::Outputs;
use crate::setting::{Key, KeyGroup};

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
    /// Share of random actions in rollouts, where the network computes action values; of a deterministic policy the deviation of its noise.
    pub exploration: fn(&Config) -> Ramp,
    /// Lambda of its returns.
    pub return_lambda: fn(&Config) -> f64,
    /// The greatest weights of TD errors, and of what comes from later steps, in advantages that are computed again: the probability ratio
    /// up to this; None weights none.
    pub ratio_clips: fn(&Config) -> [Option<f32>; 2],
    /// Whether each epoch begins with a pass over a field of all samples, of which `operant bench` counts the bytes.
    pub has_statistics: fn(&Config) -> bool,
    /// A configuration that would learn nothing: the key, what is wrong with it, and what to do.
    pub problem: fn(&Config) -> Option<(&'static str, String, &'static str)>,
    /// Settings of every algorithm that mean nothing to it.
    pub unused: &'static [&'static [&'static str]],
    /// The metrics of an update.
    pub metrics: fn(&Measured) -> Record,
    /// Initial temperature, where it is a parameter.
    pub temperature: fn(&Config) -> Option<f64>,
    /// How it learns on the CPU.
    pub(crate) learns: Learns,
    /// Its loss on a GPU, where epochs and minibatches are those of every algorithm.
    pub gpu: GpuLoss,
}

impl Algorithm {
    /// Whether a key means something to it.
    pub fn reads(self, key: &Key) -> bool {
        let declaration = self.declaration();
        match key.group {
            KeyGroup::Algorithm(algorithm) => algorithm == self,
            KeyGroup::Replay if !declaration.has_replay() => false,
            KeyGroup::ActionValues => declaration.outputs == Outputs::ActionValues,
            _ => !declaration.unused.iter().any(|names| names.contains(&key.name)),
        }
    }
}

/// How an algorithm learns.
pub(crate) enum Learns {
    /// From each rollout once.
    Rollouts(Update),
    /// From a replay.
    Replay(Rules),
}

/// How an algorithm learns from a replay.
#[derive(Clone, Copy)]
pub(crate) enum Rules {
    /// A policy and two critics of its actions.
    ActorCritic(&'static dyn ActorCritic),
    /// The values of choices.
    ActionValues,
}

impl Declaration {
    /// Whether it learns from a replay.
    pub fn has_replay(&self) -> bool {
        matches!(self.learns, Learns::Replay(_))
    }
}

/// A number that changes linearly over the first updates and then stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// In the rollout of the first update.
    pub start: f64,
    /// Once it has changed.
    pub end: f64,
    /// Updates over which it changes.
    pub updates: f64,
}

impl Ramp {
    /// Always 0.
    pub const NONE: Self = Self { start: 0.0, end: 0.0, updates: 0.0 };

    /// The number in the rollout of update number `update`.
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
    /// Temperature.
    pub alpha: f64,
}

impl Measured {
    /// Nothing was measured.
    pub const NONE: Self = Self {
        losses: [f64::NAN; SUMS],
        grad_norm: f64::NAN,
        learning_rate: f64::NAN,
        explained_variance: f64::NAN,
        epsilon: f64::NAN,
        alpha: f64::NAN,
    };
}

/// A setting that a loss reads on a GPU: its name there, and its value.
pub type Coefficient = (&'static str, fn(&Config) -> f64);

/// A loss in the kernels of the GEMM path.
pub struct GpuLoss {
    /// The file in `kernels/algorithms`, which `gemm/update.cu` includes as `loss.cuh`, or with a replay `gemm/minibatch.cu`.
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
    /// Soft actor-critic.
    Sac = "sac" in sac;
    /// Twin delayed deep deterministic policy gradient.
    Td3 = "td3" in td3;
    /// Deep Q-network.
    Dqn = "dqn" in dqn;
}

/// Settings of every algorithm that mean nothing where one learns from a replay.
const UNUSED_BY_REPLAY: &[&str] = &[
    "desired_kl",
    "lr_min",
    "lr_max",
    "num_minibatches",
    "shuffle",
    "update_epochs",
    "recompute_advantages",
    "clip_grad",
    "optimizer",
    "muon_momentum",
    "intrinsic",
    "intrinsic_coef",
    "intrinsic_gamma",
    "norm_reward",
    "clip_reward",
    "shared_trunk",
];

/// Settings that algorithms with two critics do not read.
const UNUSED_BY_CRITICS: &[&str] =
    &["value_loss", "huber_delta", "pointer", "dueling", "sequence_length", "burn_in"];

/// The setting that the kernels of a policy with two critics do not support.
fn actor_critic_refused(config: &Config) -> Option<(&'static str, String)> {
    let Config { encoder, .. } = config;
    let problem = || ("encoder", format!("\"{encoder}\" with critics of actions"));
    (*encoder != Encoder::Auto).then(problem)
}

/// What a policy with two critics does not have.
fn actor_critic_problem(config: &Config) -> Option<(&'static str, String, &'static str)> {
    let Config { algorithm, action_distribution, core, .. } = config;
    if *action_distribution != ActionDistribution::Tanh {
        let problem = format!(
            "action_distribution = \"{action_distribution}\": tanh squashes actions of \"{algorithm}\""
        );
        return Some(("action_distribution", problem, "set action_distribution = \"tanh\""));
    }
    if *core != CoreKind::Mlp {
        let problem = format!("core = \"{core}\": networks with critics of actions have no memory");
        return Some(("core", problem, "set core = \"mlp\", or algorithm = \"ppo\""));
    }
    replay_problem(config)
}

/// What learning from a replay does not support, or what contradicts itself.
fn replay_problem(config: &Config) -> Option<(&'static str, String, &'static str)> {
    let Config { buffer_size, batch_size, learning_starts, num_envs, core, tau, .. } = *config;
    let (length, rows) = (config.sequence(), config.learned_rows());
    if !batch_size.is_multiple_of(length) {
        let problem = format!(
            "batch_size = {batch_size} is no multiple of sequence_length = {length}, so sequences are not whole"
        );
        return Some(("batch_size", problem, "set batch_size to a multiple of sequence_length"));
    }
    if tau == 0.0 {
        let problem = "tau = 0: the target networks would never follow".to_owned();
        return Some(("tau", problem, "give a number above 0, such as 0.005"));
    }
    let (least, most) = (config.updates_per_step, config.max_updates_per_step);
    if most != 0.0 && most < least {
        let problem = format!("max_updates_per_step = {most} is less than updates_per_step = {least}");
        return Some(("max_updates_per_step", problem, "raise max_updates_per_step, or set it to 0"));
    }
    if batch_size > learning_starts {
        let problem = format!("batch_size = {batch_size} is more than learning_starts = {learning_starts}");
        return Some(("batch_size", problem, "lower batch_size, or raise learning_starts"));
    }
    if core != CoreKind::Mlp && learning_starts <= num_envs * rows {
        let problem = format!(
            "learning_starts = {learning_starts} gives num_envs = {num_envs} environments no more than the {rows} steps of a sequence and its burn_in"
        );
        return Some((
            "learning_starts",
            problem,
            "raise learning_starts, or lower num_envs or sequence_length",
        ));
    }
    if buffer_size < learning_starts {
        let problem = format!("buffer_size = {buffer_size} is less than learning_starts = {learning_starts}");
        return Some(("buffer_size", problem, "raise buffer_size, or lower learning_starts"));
    }
    if buffer_size < 2 * num_envs {
        let problem = format!("buffer_size = {buffer_size} is less than two steps of num_envs = {num_envs}");
        return Some(("buffer_size", problem, "raise buffer_size, or lower num_envs"));
    }
    None
}
