//! Buffers of every rollout on the fused and the GEMM path: environments, samples, statistics.

use operant_cuda::{Buffer, CudaError, Stream};
use operant_env::EnvSpec;

use super::ahead::{self, AheadMemory, AheadSizes, NextStates};
use super::env::{KernelEnv, words_of};
use super::local::Local;
use super::memory::Allocator;
use super::structs::{Discounts, EpisodeTotals, RunningNorm, Seed};
use crate::config::{Config, Intrinsic};
use crate::network::Network;
use crate::sample::SampleLayout;

/// Initial count of a running statistic, as in Gymnasium.
const FIRST_COUNT: f64 = 1e-4;

/// Most warps of a block.
const MAX_WARPS: usize = 32;

/// Sizes of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HorizonSizes {
    /// N.
    pub num_envs: usize,
    /// T.
    pub num_steps: usize,
    /// Steps whose samples are kept: T, or with a replay one, which nothing reads.
    kept_steps: usize,
    /// Words of a running environment.
    pub running_words: usize,
    /// Words of a sample.
    pub sample_stride: usize,
    /// Numbers of the states that sequences began with; 0 without memory.
    pub first_states: usize,
    /// Numbers of [`outcomes`].
    pub outcomes: usize,
    /// Log standard deviations of a Gaussian head, else 0.
    pub log_std: usize,
    /// Quantities normalised by running statistics.
    pub norms: usize,
    /// Whether rewards are among them, the last.
    pub norm_reward: bool,
    /// The environment's own metrics, and the reward for exploring.
    pub metrics: usize,
    /// Blocks of the launch that merges sums.
    pub blocks: usize,
    /// Devices of the run.
    pub devices: usize,
    /// Number of this device's first environment among those of all devices.
    pub first_environment: usize,
    /// Sizes of the first states that are made ahead of time.
    ahead: AheadSizes,
}

impl HorizonSizes {
    /// The sizes of a configuration, in launches of `blocks` blocks.
    pub fn new(kernel_env: &KernelEnv, network: &Network, local: &Local, blocks: usize) -> Self {
        Self {
            num_envs: local.num_envs,
            num_steps: local.run.num_steps,
            kept_steps: if local.run.algorithm.declaration().has_replay() { 1 } else { local.run.num_steps },
            running_words: kernel_env.running_words(),
            sample_stride: SampleLayout::new(&network.architecture, kernel_env.masked).stride,
            first_states: first_states(network, local),
            outcomes: outcomes(local),
            log_std: network.log_std.map_or(0, |_| network.policy_outputs()),
            norms: norms_of(network, &local.run),
            norm_reward: local.run.norm_reward,
            metrics: metrics_of(&kernel_env.spec, &local.run),
            blocks,
            devices: local.devices,
            first_environment: local.rank * local.num_envs,
            ahead: AheadSizes::new(kernel_env, local.num_envs),
        }
    }

    /// Samples that are kept: T N without a replay.
    pub fn steps(&self) -> usize {
        self.num_envs.saturating_mul(self.kept_steps)
    }

    /// Words of all samples, and of what follows them.
    pub fn sample_words(&self) -> usize {
        let samples = self.steps().saturating_mul(self.sample_stride);
        samples.saturating_add(self.first_states).saturating_add(self.outcomes)
    }

    /// Numbers of the environment's own metrics that the warps of the launch merge: sums and counts.
    pub fn metric_partials(&self) -> usize {
        2 * self.metrics * self.blocks * MAX_WARPS
    }

    /// Words of the scene: environment 0 before each step, the flags and the return after it.
    pub fn scene_words(&self) -> usize {
        self.num_steps.saturating_mul(self.running_words + 2)
    }
}

/// Numbers of the states that sequences began with, (sequences of an environment, N, states), which follow the samples; a replay has them in its rows.
pub fn first_states(network: &Network, local: &Local) -> usize {
    if local.run.algorithm.declaration().has_replay() {
        return 0;
    }
    let sequences = local.num_envs.saturating_mul(local.run.num_steps / local.run.sequence());
    sequences.saturating_mul(network.states)
}

/// Numbers that advantages are computed from again, besides values, which follow the samples and the states of sequences: (T, N, 2) rewards as
/// GAE reads them and 1 where the episode goes on, then (N) values of the observations after the last step. 0 unless they are.
pub fn outcomes(local: &Local) -> usize {
    if local.run.recomputes() { 2 * local.samples() + local.num_envs } else { 0 }
}

/// Quantities that are normalised by running statistics: features, and the reward.
pub fn norms_of(network: &Network, config: &Config) -> usize {
    let features = if config.norm_obs { network.architecture.input.features() } else { 0 };
    features + usize::from(config.norm_reward)
}

/// Metrics whose sums and counts a rollout keeps: those of the environment, then the reward for exploring.
pub fn metrics_of(spec: &EnvSpec, config: &Config) -> usize {
    spec.measured() + usize::from(config.intrinsic != Intrinsic::None)
}

operant_cuda::params! {
    /// Normalisation of observations and rewards by statistics that are frozen during a rollout.
    pub struct Normaliser<'a>(of: HorizonSizes) for [], blocks of.blocks, {
        /// (norms): shift and scale; the normalised value is (x - shift) scale, clipped.
        scales: writes_any [f32 as float2; 2 * of.norms],
        /// (norms).
        running: writes_any [RunningNorm; of.norms],
        /// (blocks, norms): sums of x - shift and of its square.
        partials: writes_any [f64 as double2; 2 * of.norms * of.blocks],
        /// (devices, blocks, norms): those of all devices.
        all_partials: reads_any [f64 as double2; 2 * of.norms * of.blocks * of.devices],
        /// (N): discounted return of each environment.
        discounted: writes_any [f32; if of.norm_reward { of.num_envs } else { 0 }],
        clip_obs: value [f32],
        clip_reward: value [f32],
        /// Blocks of the launch that merges sums.
        blocks: value [u32],
        /// Devices of the run.
        devices: value [u32],
    }
}

operant_cuda::params! {
    /// Buffers of a rollout except weights.
    pub struct HorizonParams<'a>(of: HorizonSizes) for [], blocks of.blocks, {
        /// (A) of a Gaussian head.
        log_std: reads_any [f32; of.log_std],
        /// (running words, N).
        environments: writes [u32; of.running_words * of.num_envs],
        /// (T, N, stride); with memory, then (sequences of an environment, N, states); then [`outcomes`].
        samples: writes [u32; of.sample_words()],
        /// (T, N), as GAE reads them: normalised, with the bootstrap of a time limit.
        rewards: writes [f32; of.steps()],
        /// (T, N).
        values: writes [f32; of.steps()],
        /// (T, N): 1 terminated, 2 truncated.
        flags: writes [u8; of.steps()],
        /// (N): V of the observation after the last step.
        next_values: writes [f32; of.num_envs],
        normaliser: part [Normaliser, of],
        next: part [NextStates, &of.ahead],
        /// (blocks).
        partials: writes [EpisodeTotals; of.blocks],
        /// (1): the episodes that ended.
        totals: writes [EpisodeTotals; 1],
        /// (warps, metrics): sums and counts of the environment's own metrics.
        metric_partials: writes_any [f64 as double2; of.metric_partials()],
        /// (metrics): those of all episodes that ended.
        metric_totals: writes_any [f64 as double2; 2 * of.metrics],
        /// (1): the global step.
        clock: writes [u64; 1],
        /// (1): zero.
        ticket: writes [u32; 1],
        /// (T, running words + 2): environment 0 before each step, the flags and the return after it; null unless recorded.
        scene: may_write [u32; of.scene_words()],
        num_envs: value [u32],
        num_steps: value [u32],
        /// Number of environment 0 among those of all devices.
        first_environment: value [u32],
        seed: value [Seed],
        discounts: value [Discounts],
    }
}

impl<'a> HorizonParams<'a> {
    /// The environments, for which first states are made before step `step` of the rollout, the first or a later one.
    pub fn ahead_of(&self, step: usize) -> ahead::AheadInputs<'a> {
        let Self { environments, clock, first_environment, seed, num_steps: since, .. } = *self;
        let (clock, step) = (Some(clock), step as u64);
        ahead::AheadInputs { environments, clock, step, since, first_environment, seed }
    }
}

/// Statistics of normalised quantities, with the scales derived from them.
#[derive(Debug)]
pub struct NormMemory {
    pub scales: Buffer<f32>,
    pub running: Buffer<RunningNorm>,
    pub partials: Buffer<f64>,
    /// The statistics of all devices, if there are several.
    pub all_partials: Option<Buffer<f64>>,
    pub discounted: Option<Buffer<f32>>,
}

/// Memory of a rollout, without weights.
#[derive(Debug)]
pub struct HorizonMemory {
    pub environments: Buffer<u32>,
    /// One buffer, or several that rollouts fill alternately.
    pub samples: Vec<Buffer<u32>>,
    pub rewards: Buffer<f32>,
    pub values: Buffer<f32>,
    pub flags: Buffer<u8>,
    pub next_values: Buffer<f32>,
    pub norms: Option<NormMemory>,
    ahead: Option<AheadMemory>,
    partials: Buffer<EpisodeTotals>,
    pub totals: Buffer<EpisodeTotals>,
    /// Partial sums and totals of the environment's own metrics, if it has some.
    pub metrics: Option<[Buffer<f64>; 2]>,
    pub clock: Buffer<u64>,
    pub ticket: Buffer<u32>,
    pub scene: Buffer<u32>,
}

impl HorizonMemory {
    /// Allocates the memory, with `sample_buffers` buffers for samples.
    pub fn new(allocator: &Allocator, of: &HorizonSizes, sample_buffers: usize) -> Result<Self, CudaError> {
        let (n, steps) = (of.num_envs, of.steps());
        let norms = match of.norms {
            0 => None,
            norms => Some(NormMemory {
                scales: allocator.alloc(2 * norms)?,
                running: allocator.alloc(norms)?,
                partials: allocator.alloc(2 * norms * of.blocks)?,
                all_partials: match of.devices {
                    1 => None,
                    devices => Some(allocator.alloc(2 * norms * of.blocks * devices)?),
                },
                discounted: if of.norm_reward { Some(allocator.alloc(n)?) } else { None },
            }),
        };
        Ok(Self {
            environments: allocator.alloc(words_of(of.running_words, n)?)?,
            samples: (0..sample_buffers)
                .map(|_| allocator.alloc(of.sample_words()))
                .collect::<Result<_, _>>()?,
            rewards: allocator.alloc(steps)?,
            values: allocator.alloc(steps)?,
            flags: allocator.alloc(steps)?,
            next_values: allocator.alloc(n)?,
            norms,
            ahead: AheadMemory::new(allocator, &of.ahead)?,
            partials: allocator.alloc(of.blocks)?,
            totals: allocator.alloc(1)?,
            metrics: match of.metrics {
                0 => None,
                metrics => Some([allocator.alloc(of.metric_partials())?, allocator.alloc(2 * metrics)?]),
            },
            clock: allocator.alloc(1)?,
            ticket: allocator.alloc(1)?,
            scene: allocator.alloc(of.scene_words())?,
        })
    }

    /// Sets statistics, clock and ticket to their initial values.
    pub fn begin(&self, stream: &Stream, norms: usize) -> Result<(), CudaError> {
        if let Some(ahead) = &self.ahead {
            ahead.clear(stream)?;
        }
        if let Some(own) = &self.norms {
            let first = RunningNorm { mean: 0.0, var: 1.0, count: FIRST_COUNT };
            own.running.write(stream, &vec![first; norms])?;
            own.scales.write(stream, &[0.0, 1.0].repeat(norms))?;
            if let Some(discounted) = &own.discounted {
                discounted.fill(stream, 0)?;
            }
        }
        self.clock.fill(stream, 0)?;
        self.ticket.fill(stream, 0)
    }

    /// The kernels' parameters, with this sample buffer, and the scene if it is recorded.
    pub fn params<'a>(
        &'a self,
        local: &Local,
        of: &HorizonSizes,
        log_std: Option<&'a Buffer<f32>>,
        turn: usize,
        recording: bool,
    ) -> HorizonParams<'a> {
        let norms = self.norms.as_ref();
        HorizonParams {
            log_std,
            environments: &self.environments,
            samples: &self.samples[turn],
            rewards: &self.rewards,
            values: &self.values,
            flags: &self.flags,
            next_values: &self.next_values,
            normaliser: Normaliser {
                scales: norms.map(|norms| &norms.scales),
                running: norms.map(|norms| &norms.running),
                partials: norms.map(|norms| &norms.partials),
                all_partials: norms.map(|norms| norms.all_partials.as_ref().unwrap_or(&norms.partials)),
                discounted: norms.and_then(|norms| norms.discounted.as_ref()),
                clip_obs: local.run.clip_obs as f32,
                clip_reward: local.run.clip_reward as f32,
                blocks: of.blocks as u32,
                devices: of.devices as u32,
            },
            next: AheadMemory::params(self.ahead.as_ref()),
            partials: &self.partials,
            totals: &self.totals,
            metric_partials: self.metrics.as_ref().map(|[partials, _]| partials),
            metric_totals: self.metrics.as_ref().map(|[_, totals]| totals),
            clock: &self.clock,
            ticket: &self.ticket,
            scene: recording.then_some(&self.scene),
            num_envs: local.num_envs as u32,
            num_steps: local.run.num_steps as u32,
            first_environment: of.first_environment as u32,
            seed: local.run.seed.into(),
            discounts: Discounts::of(&local.run),
        }
    }
}
