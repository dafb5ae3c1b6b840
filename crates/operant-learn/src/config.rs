//! The hyperparameters that algorithms share, under CleanRL's names, a row for each; those of an algorithm alone are in its
//! folder. Layering (presets, files, environment, flags) lives in operant-run.

use crate::algorithms::{Algorithm, Ramp};
use crate::{choice, settings};

/// Maximum environments.
pub const MAX_ENVS: i64 = 1 << 22;

/// Maximum blocks of environments for `shuffle = "blocks"`.
pub const MAX_ENV_BLOCKS: usize = 16;
/// A block has a multiple of this number of environments, and a minibatch at least this many samples, or sequences, of it.
pub const BLOCK_ENVS: usize = 16;
/// See [`BLOCK_ENVS`].
const BLOCK_SAMPLES: usize = 64;
/// See [`BLOCK_ENVS`].
const BLOCK_SEQUENCES: usize = 16;

/// A whole number of at least 1.
const COUNT: crate::setting::Kind = crate::setting::Kind::Count { least: 1, most: i64::MAX };

settings! {
    /// Everything that decides what a training run computes. The defaults are those of CleanRL's ppo.py.
    ///
    /// Two runs with equal configurations on one device end in the same bits.
    pub struct Config;
    /// Those of each algorithm; a run uses those of its own.
    with algorithms: crate::algorithms::Settings;

    in KeyGroup::Training;
    /// Learning algorithm; `operant config ENV --algorithm NAME` shows its settings
    algorithm: Algorithm = Algorithm::Ppo,
        flag("--algorithm", "NAME"), fixed("the checkpoint holds weights of that algorithm");
    /// Seed of every random stream
    seed: u64 [Kind::Count { least: 0, most: i64::MAX }] = 1,
        flag("--seed", "S"), fixed("the run's random streams are keyed by it");
    /// Environment steps to train for, over all environments, rounded up to whole updates; `2e5` and `200_000` are both understood
    total_timesteps: u64 [COUNT] = 500_000, flag("--steps", "N");
    /// Learning rate at the start of training
    learning_rate: f64 [Kind::Real(Range::Positive)] = 2.5e-4;
    /// How the learning rate changes. `linear`: falls to zero over the updates. `kl`: after every minibatch, by its `approx_kl`: divided by
    /// 1.5 above twice `desired_kl`, multiplied by 1.5 below half of it, within `lr_min` and `lr_max`. `anneal_lr` of earlier versions is
    /// read as `linear` or `constant`
    lr_schedule: LrSchedule = LrSchedule::Linear, earlier("anneal_lr");
    /// KL divergence of a minibatch that `lr_schedule = "kl"` keeps to
    desired_kl: f64 [Kind::Real(Range::Positive)] = 0.01, needs("lr_schedule", "kl");
    /// Least learning rate of `lr_schedule = "kl"`
    lr_min: f64 [Kind::Real(Range::Positive)] = 1e-5, needs("lr_schedule", "kl");
    /// Greatest learning rate of `lr_schedule = "kl"`
    lr_max: f64 [Kind::Real(Range::Positive)] = 1e-2, needs("lr_schedule", "kl");
    /// Share of `total_timesteps` over which the learning rate first rises linearly to what `lr_schedule` says; 0 with `kl`
    lr_warmup: f64 [Kind::Real(Range::Unit)] = 0.0;
    /// Learning rate of the value's network where it is separate; 0 is `learning_rate`. `linear` and `lr_warmup` change both alike, `kl` that
    /// of the policy alone
    vf_learning_rate: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// Minibatches per epoch; divides N T
    num_minibatches: usize [COUNT] = 4;
    /// Which samples a minibatch has. `samples`: any of the batch. `blocks`: the same share of each block of environments, so that
    /// processes or GPUs can share a run; docs/ppo.md 21 has the number of blocks
    shuffle: ShuffleKind = ShuffleKind::Samples;
    /// Passes over each batch
    update_epochs: usize [Kind::Count { least: 1, most: 10_000 }] = 4;
    /// Before every epoch after the first, compute the values of all samples again with the current network, and advantages and returns by
    /// them
    recompute_advantages: bool = false;
    /// Gradient norm above which gradients are scaled down
    max_grad_norm: f64 [Kind::Real(Range::Positive)] = 0.5;
    /// Gradients whose norm `max_grad_norm` limits: all together, or those of policy and value apart where they have a network each
    clip_grad: ClipGrad = ClipGrad::Global;
    /// Loss of a value: half the squared error (`mse`), or Huber, which is linear above `huber_delta` (`huber`)
    value_loss: ValueLoss = ValueLoss::Mse;
    /// Absolute error above which `value_loss = "huber"` is linear
    huber_delta: f64 [Kind::Real(Range::Positive)] = 1.0, needs("value_loss", "huber");
    /// Optimiser. `radam` (Liu et al. 2020) is Adam with a warm-up computed from `adam_beta2`. `muon` (Jordan et al. 2024) makes the steps of
    /// hidden matrices orthogonal; all other parameters have Adam's. On a GPU it needs the GEMM kernels
    optimizer: Optimizer = Optimizer::Adam, fixed("its moments are those of the checkpoint");
    /// Adam's epsilon
    adam_eps: f64 [Kind::Real(Range::Positive)] = 1e-5;
    /// Adam's decay of the first moment
    adam_beta1: f64 [Kind::Real(Range::BelowOne)] = 0.9;
    /// Adam's decay of the second moment
    adam_beta2: f64 [Kind::Real(Range::BelowOne)] = 0.999;
    /// Muon's decay of the momentum of hidden matrices
    muon_momentum: f64 [Kind::Real(Range::BelowOne)] = 0.95, needs("optimizer", "muon");
    /// Decoupled weight decay (AdamW): before each step all parameters are multiplied by 1 - learning rate x this
    weight_decay: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// Consecutive updates with a non-finite loss or gradient after which training stops
    max_nonfinite_updates: usize [COUNT] = 10;

    in KeyGroup::Collecting;
    /// N: environments stepped in parallel. `auto`: on a GPU as many as fit into `memory_fraction` of its free memory, but few enough
    /// for at least 100 updates within `total_timesteps`; on a CPU the preset's number
    num_envs: usize [Kind::CountOr { word: "auto", least: 1, most: MAX_ENVS }] = 16,
        flag("--envs", "N"), fixed("the checkpoint holds the states of that many environments");
    /// T: steps of each environment per update
    num_steps: usize [Kind::Count { least: 1, most: 1 << 20 }] = 128;
    /// Discount of future rewards
    gamma: f64 [Kind::Real(Range::Unit)] = 0.99;
    /// Reward for exploring that is added to the task's; reported returns are those of the task. `counts`: `intrinsic_coef / sqrt(n)` for an
    /// observation that the episode shows the nth time. `rnd`: `intrinsic_coef` times the normalised error of a
    /// network that is trained to predict a fixed random one, random network distillation (docs/exploration.md)
    intrinsic: Intrinsic = Intrinsic::None, fixed("the checkpoint holds what the run has observed");
    /// Weight of the reward for exploring; `rnd`, whose errors are normalised, learned with 1 what it did not with 0.1
    intrinsic_coef: f64 [Kind::Real(Range::NotNegative)] = 0.01, unless("intrinsic", "none");
    /// Discount of a second value function, of the rewards of `intrinsic = "rnd"`, whose returns go on where episodes end (PPO). 0: one
    /// value function, of the sum of both rewards
    intrinsic_gamma: f64 [Kind::Real(Range::BelowOne)] = 0.0, fixed("the weights were trained for it");
    /// Steps that gradients go back through a core; divides `num_steps`, with a replay `batch_size`. Minibatches are made of whole
    /// sequences of that length, each starting from the state that the rollout had there. 0: the longest length of at least 16 steps that
    /// gives every minibatch at least 16 sequences; docs/ppo.md 22 has the rest of the rule. With a replay 0 is 32
    sequence_length: usize [Kind::Count { least: 0, most: 1 << 20 }] = 0;
    /// Normalise observations by running mean and variance
    norm_obs: bool = false, fixed("the weights were trained for it");
    /// Scale rewards, those for exploring included, by the running deviation of the discounted return
    norm_reward: bool = false;
    /// Normalised observations are clipped to plus or minus this
    clip_obs: f64 [Kind::Real(Range::Positive)] = 10.0;
    /// Normalised rewards are clipped to plus or minus this
    clip_reward: f64 [Kind::Real(Range::Positive)] = 10.0, needs("norm_reward", "true");

    in KeyGroup::Replay;
    /// Transitions that the replay holds; new ones take the place of the oldest
    buffer_size: usize [Kind::Count { least: 1, most: 1 << 32 }] = 1_000_000;
    /// Transitions of a minibatch
    batch_size: usize [Kind::Count { least: 1, most: 1 << 20 }] = 256;
    /// Steps of random actions before learning begins, over all environments; also transitions that the replay has to hold for it
    learning_starts: usize [Kind::Count { least: 1, most: 1 << 32 }] = 5_000;
    /// Minibatches that are learned from for each environment step, over all environments; fractions are carried over
    updates_per_step: f64 [Kind::Real(Range::Positive)] = 1.0;
    /// Learn from more minibatches while environments in worker processes step, up to this many for each environment step. How many depends
    /// on the time that steps take, so the same seed gives other results. 0: those of `updates_per_step` alone
    max_updates_per_step: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// With a core: first steps of a sequence that only bring the memory up to date, before the `sequence_length` that are learned from
    burn_in: usize [Kind::Count { least: 0, most: 1 << 20 }] = 0;
    /// Steps whose rewards a target adds up before it takes the value of a state
    n_step: usize [Kind::Count { least: 1, most: 1_000 }] = 1;
    /// Share of the way that target networks go to the trained ones after each minibatch, or after each one that the policy learns from
    tau: f64 [Kind::Real(Range::Unit)] = 0.005;
    /// Number of these minibatches between two updates of the target networks
    target_network_frequency: usize [COUNT] = 1;
    /// Minibatches of the critics for each one of the policy
    policy_frequency: usize [COUNT] = 1;
    /// Prioritised replay: sample each transition in proportion to this power of its last error (alpha); 0 samples uniformly
    priority_exponent: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// Prioritised replay: exponent of the importance-sampling weights (beta) in the first update; it rises linearly to 1 in the last
    priority_beta: f64 [Kind::Real(Range::Unit)] = 0.4, unless("priority_exponent", "0.0");
    /// Save the replay with checkpoints, so that a resumed run continues bit for bit. Otherwise it fills a new one before it learns on
    checkpoint_replay: bool = false;

    in KeyGroup::ActionValues;
    /// Initial share of random actions (epsilon)
    start_e: f64 [Kind::Real(Range::Unit)] = 1.0;
    /// Final share of random actions (epsilon), and the share in evaluations with sampled actions
    end_e: f64 [Kind::Real(Range::Unit)] = 0.05;
    /// Share of `total_timesteps` over which epsilon falls linearly
    exploration_fraction: f64 [Kind::Real(Range::Unit)] = 0.5;

    in KeyGroup::Network;
    /// How indices of observations enter the network. `auto`: one-hot. `embed`: each index takes a row of its part's table, positions side by
    /// side; `embed_sum`, `embed_mean`: the sum or mean over a part's positions. Bits, bytes and real numbers are not embedded
    encoder: Encoder = Encoder::Auto, fixed("the checkpoint holds weights of that shape");
    /// Columns of the tables of `embed`
    embed_width: usize [Kind::Count { least: 1, most: crate::setting::MAX_WIDTH }] = 16,
        fixed("the checkpoint holds weights of that shape");
    /// Convolutions over the image in the observation: a list of [channels, kernel, stride], without padding. Other inputs skip them
    /// and enter the first hidden layer
    conv: Vec<[usize; 3]> = vec![], fixed("the checkpoint holds weights of that shape");
    /// Widths of the hidden layers
    hidden: Vec<usize> = vec![64, 64], fixed("the checkpoint holds weights of that shape");
    /// Normalise the sums of each hidden layer over its units before the nonlinearity
    layer_norm: bool = false, fixed("the checkpoint holds weights of that shape");
    /// Residual blocks after the hidden layers, whose last one is then linear: each adds W2 f(W1 norm(x)), four times as wide inside, to
    /// its inputs x; a normalisation follows the last block. With `activation = "relu"` and one hidden layer they are SimBa
    residual_blocks: usize [Kind::Count { least: 0, most: crate::setting::MAX_LAYERS as i64 }] = 0,
        fixed("the checkpoint holds weights of that shape");
    /// Layers between the hidden layers and the heads: none (`mlp`), or layers with memory, whose state each environment keeps during an
    /// episode, in self-play each side of it. Setting `mlp` also resets the memory keys of a preset
    core: CoreKind = CoreKind::Mlp, fixed("the checkpoint holds weights of that shape");
    /// Units of each layer of the core; 0 is the width of the last hidden layer
    core_width: usize [Kind::Count { least: 0, most: crate::setting::MAX_WIDTH }] = 0,
        fixed("the checkpoint holds weights of that shape");
    /// Layers of the core
    core_layers: usize [Kind::Count { least: 1, most: crate::setting::MAX_LAYERS as i64 }] = 1,
        fixed("the checkpoint holds weights of that shape");
    /// Nonlinearity of the hidden layers
    activation: Activation = Activation::Tanh, fixed("the weights were trained for it");
    /// One trunk for policy and value, or a network for each
    shared_trunk: bool = false, fixed("the checkpoint holds weights of that shape");
    /// Dueling network: the second half of the last layer's features gives the state's value, the first half the advantages, which are
    /// centred and added to it
    dueling: bool = false, fixed("the checkpoint holds weights of that shape");
    /// Atoms of each value's distribution over the return (C51), evenly spaced from `value_min` to `value_max`; 1 learns the expected value alone
    value_bins: usize [Kind::Count { least: 1, most: 1024 }] = 1,
        fixed("the checkpoint holds weights of that shape");
    /// Smallest atom of `value_bins`
    value_min: f64 [Kind::Real(Range::Any)] = -10.0, fixed("the weights were trained for it"),
        unless("value_bins", "1");
    /// Largest atom of `value_bins`
    value_max: f64 [Kind::Real(Range::Any)] = 10.0, fixed("the weights were trained for it"),
        unless("value_bins", "1");
    /// Score each candidate that the observation lists, one for each action, with the hidden layers that also process the state,
    /// instead of one output for each action
    pointer: bool = false, fixed("the checkpoint holds weights of that shape");
    /// Initial weights. `orthogonal`: biases are zero. `pytorch`: those that PyTorch's layers begin with, weights and biases uniform
    /// within 1 / sqrt(inputs), of gru and lstm within 1 / sqrt(units)
    init: WeightInit = WeightInit::Orthogonal;
    /// Distribution of real actions. `normal`: clipped to the bounds. `tanh`: a normal that tanh squashes into the bounds.
    /// `beta`: a Beta distribution between the bounds
    action_distribution: ActionDistribution = ActionDistribution::Normal, fixed("the weights were trained for it");
    /// Log standard deviations of real actions: parameters, or outputs of the network, between -5 and 2
    log_std: LogStd = LogStd::Parameter, fixed("the checkpoint holds weights of that shape");
    /// Initial log standard deviation of Gaussian policies
    log_std_init: f64 [Kind::Real(Range::Any)] = 0.0;
}

impl Config {
    /// The factors of lambda-returns in single precision: gamma, and gamma lambda.
    pub fn discounts(&self) -> [f32; 2] {
        self.factors(self.gamma)
    }

    /// The same of rewards for exploring that have a value function of their own; None if they have none.
    pub fn intrinsic_discounts(&self) -> Option<[f32; 2]> {
        (self.intrinsic_gamma > 0.0).then(|| self.factors(self.intrinsic_gamma))
    }

    fn factors(&self, gamma: f64) -> [f32; 2] {
        let gamma = gamma as f32;
        [gamma, gamma * (self.algorithm.declaration().return_lambda)(self) as f32]
    }

    /// Whether an update computes values and advantages again, for which batches keep the outcomes of their steps.
    pub fn recomputes(&self) -> bool {
        self.recompute_advantages && self.update_epochs + self.algorithms.ppo.vf_epochs > 1
    }

    /// Absolute error above which the value loss is linear; None with `value_loss = "mse"`.
    pub fn huber(&self) -> Option<f32> {
        (self.value_loss == ValueLoss::Huber).then_some(self.huber_delta as f32)
    }

    /// Share of random actions in rollouts, where the network computes action values.
    pub fn epsilon(&self) -> Ramp {
        let Self { start_e, end_e, exploration_fraction, .. } = *self;
        Ramp { start: start_e, end: end_e, updates: exploration_fraction * self.updates() as f64 }
    }

    /// Beta, the exponent of the importance-sampling weights of prioritised replay.
    pub fn beta(&self) -> Ramp {
        Ramp { start: self.priority_beta, end: 1.0, updates: self.updates() as f64 - 1.0 }
    }

    /// Updates of the whole training.
    pub fn updates(&self) -> u64 {
        let batch = (self.num_envs * self.num_steps).max(1) as u64;
        self.total_timesteps.div_ceil(batch).max(1)
    }

    /// The units of minibatches in one environment's rollout, for any number of environments: steps, or sequences of a given length.
    pub fn units_per_env(&self) -> usize {
        match (self.core, self.sequence_length) {
            (CoreKind::Mlp, _) | (_, 0) => self.num_steps,
            (_, length) => self.num_steps / length,
        }
    }

    /// Number of blocks of environments; a minibatch has the same share of each. One unless `shuffle` is `blocks`. A power of two that
    /// depends only on the sizes: the largest with whole groups of 16 environments per block, and enough of each block in a minibatch.
    pub fn blocks(&self) -> usize {
        if self.shuffle == ShuffleKind::Samples {
            return 1;
        }
        let sequences = self.num_envs * self.num_steps / self.sequence();
        let share = |blocks: usize| sequences / blocks / self.num_minibatches.max(1);
        let least = if self.core == CoreKind::Mlp { BLOCK_SAMPLES } else { BLOCK_SEQUENCES };
        let fits =
            |blocks: &usize| self.num_envs.is_multiple_of(BLOCK_ENVS * blocks) && share(*blocks) >= least;
        (1..=MAX_ENV_BLOCKS.ilog2()).rev().map(|power| 1 << power).find(fits).unwrap_or(1)
    }

    /// Steps of a sequence, the unit of minibatches. 1 without memory.
    pub fn sequence(&self) -> usize {
        /// Sequences of a minibatch that fill the vectors, and steps that a gradient should go back.
        const ENOUGH: usize = 16;
        /// With a replay.
        const REPLAYED: usize = 32;
        let (envs, steps, minibatches) = (self.num_envs, self.num_steps, self.num_minibatches.max(1));
        let sequences = |length: &usize| envs * (steps / length);
        let fits =
            |length: &usize| steps.is_multiple_of(*length) && sequences(length).is_multiple_of(minibatches);
        let fitting = || (1..=steps).rev().filter(fits);
        match (self.core, self.sequence_length) {
            (CoreKind::Mlp, _) => 1,
            (_, 0) if self.algorithm.declaration().has_replay() => REPLAYED,
            (_, 0) => (fitting().filter(|length| *length >= ENOUGH))
                .find(|length| sequences(length) / minibatches >= ENOUGH)
                .or_else(|| fitting().rfind(|length| *length >= ENOUGH))
                .or_else(|| fitting().next())
                .unwrap_or(steps),
            (_, length) => length,
        }
    }

    /// Completed rows of a replay that a sample of a minibatch takes; a sequence with memory, otherwise one.
    pub fn learned_rows(&self) -> usize {
        if self.core == CoreKind::Mlp { 1 } else { self.burn_in + self.sequence() }
    }

    /// The same with the rows whose values its targets have.
    pub fn sequence_rows(&self) -> usize {
        self.learned_rows() + self.n_step
    }

    /// Rows of each environment from which on samples can be drawn. A sequence begins with a step, and of two rows one is a step.
    pub fn rows_to_learn(&self) -> usize {
        if self.core == CoreKind::Mlp { 1 } else { self.learned_rows() + 1 }
    }
}

choice! {
    /// Which samples a minibatch has.
    pub enum ShuffleKind {
        /// Any of the batch.
        Samples = "samples",
        /// The same share of each block of environments.
        Blocks = "blocks",
    }
}

choice! {
    /// The loss of a value's error.
    pub enum ValueLoss {
        /// Half its square.
        Mse = "mse",
        /// Huber: half the square up to `huber_delta`, and linear above it.
        Huber = "huber",
    }
}

choice! {
    /// How the learning rate changes during training.
    pub enum LrSchedule {
        /// Falls linearly to zero.
        Linear = "linear" | "true",
        /// Stays.
        Constant = "constant" | "false",
        /// Follows the divergence of minibatches.
        Kl = "kl",
    }
}

choice! {
    /// The optimiser.
    pub enum Optimizer {
        /// Adam.
        Adam = "adam",
        /// Rectified Adam.
        RAdam = "radam",
        /// Muon for hidden matrices, Adam for the rest.
        Muon = "muon",
    }
}

choice! {
    /// Gradients whose norm is limited together.
    pub enum ClipGrad {
        /// All.
        Global = "global",
        /// Those of policy and value apart.
        Network = "network",
    }
}

choice! {
    /// The initial weights of a network.
    pub enum WeightInit {
        /// Orthogonal matrices, zero biases.
        Orthogonal = "orthogonal",
        /// Uniform, as PyTorch's layers begin.
        PyTorch = "pytorch",
    }
}

choice! {
    /// The reward for exploring.
    pub enum Intrinsic {
        /// Nothing.
        None = "none",
        /// Counts of observations in an episode.
        Counts = "counts",
        /// Random network distillation.
        Rnd = "rnd",
    }
}

choice! {
    /// How the network takes observations.
    pub enum Encoder {
        /// As they are.
        Auto = "auto",
        /// A row of a table for each index.
        Embed = "embed",
        /// The sum of a part's rows.
        EmbedSum = "embed_sum",
        /// The mean of a part's rows.
        EmbedMean = "embed_mean",
    }
}

choice! {
    /// The layers between the hidden layers and the heads.
    pub enum CoreKind {
        /// Nothing.
        Mlp = "mlp",
        /// Minimal gated recurrent units with a highway gate.
        MinGru = "mingru",
        /// Gated recurrent units.
        Gru = "gru",
        /// Long short-term memory.
        Lstm = "lstm",
    }
}

choice! {
    /// The distribution of real actions.
    pub enum ActionDistribution {
        /// Independent normals, clipped to the bounds.
        Normal = "normal",
        /// Independent normals, squashed into the bounds.
        Tanh = "tanh",
        /// Independent Beta distributions between the bounds.
        Beta = "beta",
    }
}

choice! {
    /// What log standard deviations of real actions are.
    pub enum LogStd {
        /// Parameters, the same for all observations.
        Parameter = "parameter",
        /// Outputs of the network.
        Network = "network",
    }
}

impl LogStd {
    /// The centre of what a network computes, and the distance of the bounds from it: `centre + radius tanh((x - centre) / radius)`.
    pub const CENTRE_AND_RADIUS: [f32; 2] = [-1.5, 3.5];

    /// The output x of a network whose log standard deviation is this; None if that is not within the bounds.
    pub fn output(log_std: f64) -> Option<f64> {
        let [centre, radius] = Self::CENTRE_AND_RADIUS.map(f64::from);
        let share = (log_std - centre) / radius;
        let ratio = (1.0 + share) / (1.0 - share);
        (share.abs() < 1.0).then(|| centre + radius * 0.5 * operant_lane::Float::ln(ratio))
    }
}

choice! {
    /// Nonlinearity of the hidden layers.
    pub enum Activation {
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// max(x, 0).
        Relu = "relu",
    }
}
