//! The part of an update that fused kernels and the GEMM path share: buffers, statistics, state and phases.

use operant_cuda::{
    Buffer, Communicator, CudaError, Function, LaunchConfig, Module, Params, Stream, plain_struct,
};
use operant_metrics::Record;

use super::horizon::{first_states, outcomes};
use super::local::Local;
use super::memory::Allocator;
use super::structs::Seed;
use crate::algorithms::{GpuLoss, Measured, SUMS};
use crate::config::{ClipGrad, Config, LrSchedule, Optimizer};
use crate::cpu::off_policy::learner::sums;
use crate::network::Network;
use crate::normalise::RunningNorm;

plain_struct! {
    /// The report of an update: sums over the last epoch's minibatches of their means, without skipped ones.
    pub struct UpdateReport {
        /// The loss's sums over samples, in the order of the algorithm.
        losses: [f64; SUMS],
        /// Gradient norm before clipping.
        norms: f64,
        /// Minibatches that the sums are over.
        minibatches: f64,
        /// Sums of the advantages and of their squares; without blocks, relative to the first advantage.
        errors: [f64; 2],
        /// Like `errors`, for returns.
        returns: [f64; 2],
        /// Adam's step size.
        learning_rate: f64,
        /// Minibatches skipped, over all epochs.
        nonfinite: u64,
        /// Epochs completed; fewer than update_epochs if target_kl stopped the update.
        epochs: u64,
        /// With a replay: minibatches that trained the policy.
        policy_minibatches: f64,
        /// Rows that samples can begin with.
        replay_size: f64,
        /// Temperature.
        alpha: f64,
    }
}

impl UpdateReport {
    /// The metrics of update number `update` of a run, from the reports of all devices.
    pub fn metrics(reports: &[UpdateReport], config: &Config, update: u64) -> Record {
        let (report, samples) = (reports[0], (config.num_envs * config.num_steps) as f64);
        let declaration = config.algorithm.declaration();
        let variance = |sums: fn(&UpdateReport) -> [f64; 2]| {
            let add = |all: [f64; 2], own: [f64; 2]| [all[0] + own[0], all[1] + own[1]];
            let [sum, squares] = reports.iter().map(sums).fold([0.0; 2], add);
            (squares - sum * sum / samples) / samples
        };
        let (errors, returns) = (variance(|report| report.errors), variance(|report| report.returns));
        let n = report.minibatches;
        let measured = Measured {
            losses: report.losses.map(|sum| sum / n),
            grad_norm: report.norms / n,
            learning_rate: report.learning_rate,
            explained_variance: if returns == 0.0 { f64::NAN } else { 1.0 - errors / returns },
            epsilon: (declaration.exploration)(config).at(update),
            ..Measured::NONE
        };
        if !declaration.has_replay() {
            return (declaration.metrics)(&measured);
        }
        let epsilon = measured.epsilon;
        let mut measured = if n > 0.0 { measured } else { Measured { epsilon, ..Measured::NONE } };
        for k in sums::OF_POLICY {
            measured.losses[k] = report.losses[k] / report.policy_minibatches;
        }
        measured.alpha = if (declaration.temperature)(config).is_some() { report.alpha } else { f64::NAN };
        Record {
            replay_size: report.replay_size,
            minibatches: n + report.nonfinite as f64,
            ..(declaration.metrics)(&measured)
        }
    }
}

plain_struct! {
    /// What is the same for all parameters in a step: `parameter -= step_size m / (root sqrt(v) + eps)`, or without second moments (RAdam's
    /// first steps) a root of 0 and `parameter -= step_size m`.
    #[derive(Default)]
    pub struct AdamRate {
        step_size: f32,
        root: f32,
    }
}

plain_struct! {
    /// Counters of learning.
    #[derive(Default)]
    pub struct Progress {
        /// Updates done.
        update: u64,
        /// Steps of Adam.
        adam_steps: u64,
        /// Consecutive updates with a skipped minibatch, up to the last update.
        nonfinite_in_a_row: u64,
        /// 1 once `target_kl` has ended this update's epochs.
        stopped: u32,
        /// Whether the last minibatch's loss was finite.
        finite: u32,
        /// The mean of the fourth number of its loss.
        last_kl: f64,
        /// From the launch that reduces to the one that steps; not used in a cooperative launch.
        rate: AdamRate,
        /// The learning rate, once `lr_schedule = "kl"` has set it, else 0.
        learning_rate: f64,
        /// With `norm_value`: mean, variance and count of returns; a count of 0 before the first.
        value_norm: [f64; 3],
    }
}

impl Progress {
    /// The statistics of returns; none without `norm_value`.
    pub fn returns(&self) -> RunningNorm {
        match self.value_norm {
            [_, _, 0.0] => RunningNorm::new(0),
            [mean, var, count] => RunningNorm { mean: vec![mean], var: vec![var], count },
        }
    }

    /// With the statistics of returns of a learner's state.
    pub fn with_returns(self, norm: &RunningNorm) -> Self {
        let all = norm.mean.first().zip(norm.var.first());
        Self { value_norm: all.map_or([0.0; 3], |(mean, var)| [*mean, *var, norm.count]), ..self }
    }
}

plain_struct! {
    /// Adam with a clipped norm.
    pub struct Adam {
        max_grad_norm: f64,
        beta1: f64,
        beta2: f64,
        eps: f64,
        /// Whether steps are rectified (RAdam).
        rectified: u64,
        /// At the start of training.
        learning_rate: f64,
        /// Updates over which it falls to zero; 0 keeps it constant.
        updates: u64,
        /// Updates over which it rises first.
        warmup: f64,
        /// At the start of training, of a separate value network; 0 is the same.
        value_learning_rate: f64,
        /// Whether the norms of policy and value are limited apart.
        clips_apart: u64,
        weight_decay: f64,
        muon_momentum: f64,
        /// With `lr_schedule = "kl"`, what it follows, and its bounds.
        desired_kl: f64,
        lr_min: f64,
        lr_max: f64,
    }
}

impl Adam {
    /// That of a run, of which a device has a part.
    pub fn of(run: &Config) -> Self {
        Self {
            max_grad_norm: run.max_grad_norm,
            beta1: run.adam_beta1,
            beta2: run.adam_beta2,
            eps: run.adam_eps,
            rectified: u64::from(run.optimizer == Optimizer::RAdam),
            learning_rate: run.learning_rate,
            updates: if run.lr_schedule == LrSchedule::Linear { run.updates() } else { 0 },
            warmup: run.warmup_updates(),
            value_learning_rate: run.vf_learning_rate,
            clips_apart: u64::from(run.clip_grad == ClipGrad::Network),
            weight_decay: run.weight_decay,
            muon_momentum: run.muon_momentum,
            desired_kl: run.desired_kl,
            lr_min: run.lr_min,
            lr_max: run.lr_max,
        }
    }
}

/// Sizes of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateSizes {
    /// P.
    pub parameters: usize,
    /// B.
    pub num_samples: usize,
    /// Steps of a sequence, the unit of minibatches; 1 without memory.
    pub sequence: usize,
    /// Minibatches per epoch, at least 1 and at most the number of sequences.
    pub num_minibatches: usize,
    /// Words of a sample.
    pub sample_stride: usize,
    /// Numbers of the states that sequences began with, which follow the samples.
    pub first_states: usize,
    /// Numbers of [`outcomes`], which follow those.
    pub outcomes: usize,
    /// Blocks of every launch.
    pub blocks: usize,
    /// Blocks of environments of this device; None unless `shuffle` is `blocks`.
    pub env_blocks: Option<usize>,
    /// Parts in which the norm of the gradient is summed if it is `blocks`.
    pub norm_parts: usize,
    /// Networks whose norms are summed apart.
    pub networks: usize,
    /// Sequences of all blocks if they are drawn by priority, else 0.
    pub draws: usize,
    /// Whether returns are normalised.
    pub norm_value: bool,
    /// Devices of the run.
    pub devices: usize,
    /// Whether the gradients of all devices are collected and added here, not by NCCL.
    pub collects: bool,
}

impl UpdateSizes {
    /// The sizes of a configuration, in launches of `blocks` blocks.
    pub fn new(network: &Network, local: &Local, sample_stride: usize, blocks: usize) -> Self {
        let num_samples = local.samples();
        let sequence = local.run.sequence();
        let sequences = num_samples / sequence / local.env_blocks();
        let ppo = &local.run.algorithms.ppo;
        Self {
            parameters: network.len(),
            num_samples,
            sequence,
            num_minibatches: local.run.num_minibatches.clamp(1, sequences.max(1)),
            sample_stride,
            first_states: first_states(network, local),
            outcomes: outcomes(local),
            blocks,
            env_blocks: local.blocks,
            norm_parts: local.norm_parts(network.len()),
            networks: if local.run.networks_apart() { 2 } else { 1 },
            draws: if ppo.prio_alpha > 0.0 { sequences * local.env_blocks() } else { 0 },
            norm_value: ppo.norm_value,
            devices: local.devices,
            collects: local.deterministic && local.devices > 1,
        }
    }

    /// M: samples of the longest minibatch.
    pub fn minibatch(&self) -> usize {
        self.sequences().div_ceil(self.num_minibatches) * self.sequence * self.env_blocks.unwrap_or(1)
    }

    /// Sequences of all samples of a block of environments, or of all environments.
    pub fn sequences(&self) -> usize {
        self.num_samples / self.sequence / self.env_blocks.unwrap_or(1)
    }

    /// Parts of a minibatch whose advantages are summed separately: the blocks of environments, or enough parts to occupy all blocks of threads.
    pub fn segments(&self) -> usize {
        self.env_blocks.unwrap_or_else(|| (self.blocks / self.num_minibatches).max(1))
    }

    /// Words of all samples, and of what follows them.
    pub fn sample_words(&self) -> usize {
        self.num_samples * self.sample_stride + self.first_states + self.outcomes
    }

    /// Numbers of `moments`.
    fn moments(&self) -> usize {
        2 * self.num_minibatches * self.segments()
    }

    /// Parts of the norm of the gradient.
    fn norms(&self) -> usize {
        self.blocks.max(self.norm_parts) * self.networks
    }

    /// Numbers that a device knows of its returns.
    pub fn returns(&self) -> usize {
        if self.norm_value { 3 } else { 0 }
    }

    /// Devices whose gradients are collected; 0 if NCCL adds them.
    fn collected(&self) -> usize {
        if self.collects { self.devices } else { 0 }
    }
}

operant_cuda::params! {
    /// Buffers of an update except weights and partial gradients.
    pub struct UpdateParams<'a>(of: UpdateSizes) for [], blocks of.blocks, {
        /// (B, stride); with memory, then (sequences of an environment, N, states).
        samples: reads [u32; of.sample_words()],
        /// (P).
        parameters: writes [f32; of.parameters],
        /// (P).
        exp_avg: writes [f32; of.parameters],
        /// (P).
        exp_avg_sq: writes [f32; of.parameters],
        /// (P): the last minibatch's gradient; of matrices that Muon steps, then what it computes with.
        gradient: writes [f32; of.parameters],
        /// (blocks, sums of the loss).
        losses: writes [f64; SUMS * of.blocks],
        /// (blocks, or parts of the norm; networks).
        norms: writes [f64; of.norms()],
        /// (minibatches, segments, 2): sums of advantages and of squares.
        moments: writes [f64; of.moments()],
        /// (devices, minibatches, segments, 2): those of all devices.
        all_moments: reads [f64; of.moments() * of.devices],
        /// (sums of the loss): with blocks of environments, those of a minibatch.
        sums: writes [f64; SUMS],
        /// (devices, P) and (devices, sums of the loss): gradients and sums of all devices, where they are added here.
        all_gradients: reads_any [f32; of.parameters * of.collected()],
        all_sums: reads_any [f64; SUMS * of.collected()],
        /// (blocks, 4).
        spreads: writes [f64; 4 * of.blocks],
        /// (3): sum and squares of the returns about a number, and that number, if they are normalised.
        returns: writes_any [f64; of.returns()],
        /// (blocks of environments, sequences): the sequence at each position of an epoch, if they are drawn; none where each is visited once.
        drawn: may_write [u32; of.draws],
        /// (1).
        report: writes [UpdateReport; 1],
        /// (1).
        progress: writes [Progress; 1],
        /// (1): zero before each launch.
        barrier: writes [u32; 1],
        num_samples: value [u32],
        num_minibatches: value [u32],
        num_epochs: value [u32],
        /// Environments of this device.
        num_envs: value [u32],
        /// Number of this device's first block of environments among those of all devices.
        first_block: value [u32],
        /// Devices of the run.
        devices: value [u32],
        /// Sequences of a minibatch in a block of environments, rounded down.
        minibatch_size: value [u32],
        /// Remaining sequences of an epoch.
        minibatch_rest: value [u32],
        /// Parts in which the norm of the gradient is summed.
        norm_parts: value [u32],
        /// Parts of a minibatch whose advantages are summed separately.
        segments: value [u32],
        /// Blocks of every launch.
        blocks: value [u32],
        /// Epoch of a phase that is launched alone.
        epoch: value [u32],
        /// Like `epoch`: the minibatch.
        minibatch: value [u32],
        /// 1: advantages are normalised per minibatch.
        norm_adv: value [u32],
        /// The seed of the shuffles.
        seed: value [Seed],
        /// Settings of the loss, in the order of the algorithm.
        coefficients: value [[f32; GpuLoss::COEFFICIENTS]],
        /// The divergence that ends the epochs; 0 never does.
        target_kl: value [f64],
        adam: value [Adam],
    }
}

impl UpdateParams<'_> {
    /// A copy for the phase of one minibatch.
    pub fn at(self, epoch: usize, minibatch: usize) -> Self {
        Self { epoch: epoch as u32, minibatch: minibatch as u32, ..self }
    }

    /// Whether the epoch trains the critic alone.
    pub fn is_of_critic(&self) -> bool {
        self.epoch >= self.num_epochs
    }
}

/// Memory of a learner, without weights and partial gradients.
#[derive(Debug)]
pub struct UpdateMemory {
    pub parameters: Buffer<f32>,
    pub exp_avg: Buffer<f32>,
    pub exp_avg_sq: Buffer<f32>,
    pub gradient: Buffer<f32>,
    losses: Buffer<f64>,
    norms: Buffer<f64>,
    moments: Buffer<f64>,
    /// Those of all devices, if there are several.
    all_moments: Option<Buffer<f64>>,
    sums: Buffer<f64>,
    /// Gradients and sums of all devices, if they are added here.
    collected: Option<(Buffer<f32>, Buffer<f64>)>,
    spreads: Buffer<f64>,
    /// Those of this device, and of all if there are several.
    returns: Option<[Buffer<f64>; 2]>,
    pub report: Buffer<UpdateReport>,
    pub progress: Buffer<Progress>,
    pub barrier: Buffer<u32>,
}

impl UpdateMemory {
    /// # Errors
    /// If there is not enough memory.
    pub fn new(allocator: &Allocator, of: &UpdateSizes) -> Result<Self, CudaError> {
        Ok(Self {
            parameters: allocator.alloc(of.parameters)?,
            exp_avg: allocator.alloc(of.parameters)?,
            exp_avg_sq: allocator.alloc(of.parameters)?,
            gradient: allocator.alloc(of.parameters)?,
            losses: allocator.alloc(SUMS * of.blocks)?,
            norms: allocator.alloc(of.norms())?,
            moments: allocator.alloc(of.moments())?,
            all_moments: match of.devices {
                1 => None,
                devices => Some(allocator.alloc(of.moments() * devices)?),
            },
            sums: allocator.alloc(SUMS)?,
            collected: match of.collected() {
                0 => None,
                devices => {
                    Some((allocator.alloc(of.parameters * devices)?, allocator.alloc(SUMS * devices)?))
                }
            },
            spreads: allocator.alloc(4 * of.blocks)?,
            returns: match (of.returns(), of.devices) {
                (0, _) => None,
                (numbers, 1) => {
                    let own = allocator.alloc(numbers)?;
                    Some([own.part(0..numbers)?, own])
                }
                (numbers, devices) => Some([allocator.alloc(numbers)?, allocator.alloc(numbers * devices)?]),
            },
            report: allocator.alloc(1)?,
            progress: allocator.alloc(1)?,
            barrier: allocator.alloc(1)?,
        })
    }

    /// What all devices know of their returns, if they are normalised.
    pub fn all_returns(&self) -> Option<&Buffer<f64>> {
        self.returns.as_ref().map(|[_, all]| all)
    }

    /// The kernels' parameters for an update over `samples`.
    pub fn params<'a>(
        &'a self,
        local: &Local,
        of: &UpdateSizes,
        samples: &'a Buffer<u32>,
    ) -> UpdateParams<'a> {
        let declaration = local.run.algorithm.declaration();
        UpdateParams {
            samples,
            parameters: &self.parameters,
            exp_avg: &self.exp_avg,
            exp_avg_sq: &self.exp_avg_sq,
            gradient: &self.gradient,
            losses: &self.losses,
            norms: &self.norms,
            moments: &self.moments,
            all_moments: self.all_moments.as_ref().unwrap_or(&self.moments),
            sums: &self.sums,
            all_gradients: self.collected.as_ref().map(|(gradients, _)| gradients),
            all_sums: self.collected.as_ref().map(|(_, sums)| sums),
            spreads: &self.spreads,
            returns: self.returns.as_ref().map(|[own, _]| own),
            drawn: None,
            report: &self.report,
            progress: &self.progress,
            barrier: &self.barrier,
            num_samples: of.num_samples as u32,
            num_minibatches: of.num_minibatches as u32,
            num_epochs: local.run.update_epochs as u32,
            num_envs: local.num_envs as u32,
            first_block: (local.rank * local.env_blocks()) as u32,
            devices: of.devices as u32,
            norm_parts: of.norm_parts as u32,
            minibatch_size: (of.sequences() / of.num_minibatches) as u32,
            minibatch_rest: (of.sequences() % of.num_minibatches) as u32,
            segments: of.segments() as u32,
            blocks: of.blocks as u32,
            epoch: 0,
            minibatch: 0,
            norm_adv: u32::from((declaration.has_statistics)(&local.run)),
            seed: local.run.seed.into(),
            coefficients: declaration.gpu.numbers(&local.run),
            target_kl: (declaration.gpu.target_kl)(&local.run),
            adam: Adam::of(&local.run),
        }
    }
}

/// The exchange between devices in an update; none for one device.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    pub memory: &'a UpdateMemory,
    pub link: Option<&'a Communicator>,
}

impl Exchange<'_> {
    /// The moments of the advantages of all devices.
    pub fn moments(&self, stream: &Stream) -> Result<(), CudaError> {
        let Self { memory, link } = self;
        link.zip(memory.all_moments.as_ref())
            .map_or(Ok(()), |(link, all)| link.gather(stream, &memory.moments, all))
    }

    /// What all devices know of their returns, and returns it; None if they are not normalised.
    pub fn returns(&self, stream: &Stream) -> Result<Option<&Buffer<f64>>, CudaError> {
        let Self { memory, link } = self;
        if let Some((link, [own, all])) = link.zip(memory.returns.as_ref()) {
            link.gather(stream, own, all)?;
        }
        Ok(memory.all_returns())
    }

    /// Adds gradients and sums of losses of all devices, or collects them to be added: whether it does.
    pub fn gradients(&self, stream: &Stream) -> Result<bool, CudaError> {
        let Self { memory, link } = self;
        let Some(link) = link else { return Ok(false) };
        if let Some((gradients, sums)) = &memory.collected {
            link.gather(stream, &memory.gradient, gradients)?;
            link.gather(stream, &memory.sums, sums)?;
            return Ok(true);
        }
        link.sum(stream, &memory.gradient)?;
        link.sum(stream, &memory.sums)?;
        Ok(false)
    }
}

/// The kernels that make a minibatch's gradient, and its norm, of parts.
#[derive(Debug)]
enum Reduction {
    /// By blocks of threads, in one step.
    Whole(Function),
    /// By blocks of environments, on several devices.
    Blocks { sum: Function, add: Function, norm: Function },
}

/// What a path does in an update besides the phases that all have.
#[derive(Debug)]
pub enum Work<'a, P> {
    /// Before the epochs.
    Begin,
    /// Before an epoch.
    Epoch(usize),
    /// The gradient of a minibatch.
    Gradient(&'a P),
    /// What Adam's kernel leaves out of a minibatch's step.
    Step(&'a P),
    /// After the epochs.
    End,
}

/// The phases of an update, as kernels of a module.
#[derive(Debug)]
pub struct Phases {
    spread: Function,
    begin: Function,
    advantages: Function,
    reduction: Reduction,
    adam: Function,
    note: Function,
    end: Function,
    grid: LaunchConfig,
}

impl Phases {
    /// Loads the kernels for launches with this configuration.
    pub fn new(module: &Module, grid: LaunchConfig, of: &UpdateSizes) -> Result<Self, CudaError> {
        let function = |name: &str| with_shared(module, name, grid);
        let reduction = match of.env_blocks {
            None => Reduction::Whole(function("update_reduce")?),
            Some(_) => Reduction::Blocks {
                sum: function("update_sum")?,
                add: function("update_add")?,
                norm: function("update_norm")?,
            },
        };
        Ok(Self {
            reduction,
            spread: function("update_spread")?,
            begin: function("update_begin")?,
            advantages: function("update_advantages")?,
            adam: function("update_adam")?,
            note: function("update_note")?,
            end: function("update_end")?,
            grid,
        })
    }

    /// The launch configuration.
    pub fn grid(&self) -> LaunchConfig {
        self.grid
    }

    /// Runs an update: `params` are those of a phase of an epoch's minibatch, and `work` does what the path alone does.
    pub fn run<P: Params, E: From<CudaError>>(
        &self,
        stream: &Stream,
        sizes: &P::Sizes,
        config: &Config,
        (of, exchange): (&UpdateSizes, Exchange<'_>),
        params: impl Fn(usize, usize) -> P,
        work: impl Fn(Work<'_, P>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (all, one) = (self.grid, LaunchConfig { blocks: 1, ..self.grid });
        let phase = |function: &Function, grid, params: &P| function.run(stream, grid, params, sizes);
        let first = params(0, 0);
        phase(&self.spread, all, &first)?;
        phase(&self.begin, one, &first)?;
        work(Work::Begin)?;
        for epoch in 0..config.update_epochs + config.algorithms.ppo.vf_epochs {
            work(Work::Epoch(epoch))?;
            if epoch < config.update_epochs && (config.algorithm.declaration().has_statistics)(config) {
                phase(&self.advantages, all, &params(epoch, 0))?;
                exchange.moments(stream)?;
            }
            for minibatch in 0..of.num_minibatches {
                let params = params(epoch, minibatch);
                work(Work::Gradient(&params))?;
                match &self.reduction {
                    Reduction::Whole(reduce) => phase(reduce, all, &params)?,
                    Reduction::Blocks { sum, add, norm } => {
                        phase(sum, all, &params)?;
                        if exchange.gradients(stream)? {
                            phase(add, all, &params)?;
                        }
                        phase(norm, all, &params)?;
                    }
                }
                phase(&self.adam, all, &params)?;
                work(Work::Step(&params))?;
                phase(&self.note, one, &params)?;
            }
        }
        phase(&self.end, one, &first)?;
        work(Work::End)
    }
}

/// A kernel that is launched with this much shared memory.
///
/// # Errors
/// When the module lacks it, or the device refuses that much.
pub fn with_shared(module: &Module, name: &str, grid: LaunchConfig) -> Result<Function, CudaError> {
    let mut function = module.function(name)?;
    function.shared(grid.shared as usize)?;
    Ok(function)
}
