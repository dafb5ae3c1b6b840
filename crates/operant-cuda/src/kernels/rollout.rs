//! `rollout.cu`: a whole horizon with the policy in one launch.

use super::{Episodes, RunningNorm, Seed, exactly, optional, rows};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

/// Environments of a warp.
const TILE: usize = 16;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Normaliser {
    scales: u64,
    running: u64,
    partials: u64,
    discounted: u64,
    clip_obs: f32,
    clip_reward: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RolloutParams {
    weights: u64,
    log_std: u64,
    environments: u64,
    samples: u64,
    rewards: u64,
    values: u64,
    flags: u64,
    next_values: u64,
    normaliser: Normaliser,
    partials: u64,
    totals: u64,
    clock: u64,
    ticket: u64,
    scene: u64,
    num_envs: u32,
    num_steps: u32,
    seed: Seed,
    gamma: f32,
    decay: f32,
}

// SAFETY: addresses and numbers; 17 x 8 and 8 x 4 bytes in pairs leave no padding.
unsafe impl Plain for RolloutParams {}

/// Sizes that the program was specialised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutShape {
    /// Words of the packed weights.
    pub packed_words: usize,
    /// Log standard deviations of a Gaussian head, else 0.
    pub log_std: usize,
    /// Words of a running environment: its state, the episode's length and return.
    pub running_words: usize,
    /// Words of a sample.
    pub sample_stride: usize,
    /// Quantities normalised by running statistics.
    pub norms: usize,
    /// Whether rewards are among them, the last.
    pub norm_reward: bool,
    /// Threads a block, a multiple of 32 that is at most what the program was compiled for.
    pub threads: u32,
    /// Bytes of shared memory a block.
    pub shared: u32,
}

impl RolloutShape {
    /// Blocks of a launch over N environments.
    pub fn blocks(&self, num_envs: usize) -> usize {
        num_envs.div_ceil(self.threads as usize / 32 * TILE)
    }
}

/// What a horizon reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct RolloutBuffers<'a> {
    /// (packed words), of a network that runs in the same launch.
    pub weights: &'a Buffer<f32>,
    /// (A) of a Gaussian head, else None.
    pub log_std: Option<&'a Buffer<f32>>,
    /// (running words, N).
    pub environments: &'a Buffer<u32>,
    /// (T, N, stride).
    pub samples: &'a Buffer<u32>,
    /// (T, N).
    pub rewards: &'a Buffer<f32>,
    /// (T, N).
    pub values: &'a Buffer<f32>,
    /// (T, N): 1 terminated, 2 truncated.
    pub flags: &'a Buffer<u8>,
    /// (N).
    pub next_values: &'a Buffer<f32>,
    /// (norms, 2): shift and scale; None without normalisation, as the next two.
    pub scales: Option<&'a Buffer<f32>>,
    /// (norms).
    pub running: Option<&'a Buffer<RunningNorm>>,
    /// (blocks, norms, 2).
    pub norm_partials: Option<&'a Buffer<f64>>,
    /// (N), with reward normalisation.
    pub discounted: Option<&'a Buffer<f32>>,
    /// (blocks).
    pub partials: &'a Buffer<Episodes>,
    /// (1): the episodes that ended.
    pub totals: &'a Buffer<Episodes>,
    /// (1): the lifetime step.
    pub clock: &'a Buffer<u64>,
    /// (1): zero.
    pub ticket: &'a Buffer<u32>,
    /// (T, running words + 2): environment 0 before each step, the flags and the return after it; None when nobody looks.
    pub scene: Option<&'a Buffer<u32>>,
}

impl RolloutBuffers<'_> {
    /// While the stream is being captured: lets the graph keep all of them.
    pub fn keep_in(&self, stream: &Stream) {
        self.weights.keep_in(stream);
        for words in [self.environments, self.samples, self.ticket].into_iter().chain(self.scene) {
            words.keep_in(stream);
        }
        let optional = [self.log_std, self.scales, self.discounted].into_iter().flatten();
        for floats in [self.rewards, self.values, self.next_values].into_iter().chain(optional) {
            floats.keep_in(stream);
        }
        self.flags.keep_in(stream);
        self.partials.keep_in(stream);
        self.totals.keep_in(stream);
        self.clock.keep_in(stream);
        if let Some(running) = self.running {
            running.keep_in(stream);
        }
        if let Some(partials) = self.norm_partials {
            partials.keep_in(stream);
        }
    }

    /// What a program was specialised for is given, and nothing else.
    pub(super) fn must_suit(&self, log_std: usize, norms: usize, norm_reward: bool) -> Result<(), CudaError> {
        let missing = |what, length: usize, given: bool| {
            if given == (length > 0) {
                Ok(())
            } else {
                Err(CudaError::Length { what, given: 0, expected: length })
            }
        };
        missing("log_std", log_std, self.log_std.is_some())?;
        missing("scales", norms, self.scales.is_some())?;
        missing("running statistics", norms, self.running.is_some())?;
        missing("partial statistics", norms, self.norm_partials.is_some())?;
        missing("discounted returns", usize::from(norm_reward), self.discounted.is_some())
    }

    pub(super) fn normaliser(
        &self,
        horizon: &Horizon,
        norms: usize,
        blocks: usize,
    ) -> Result<Normaliser, CudaError> {
        Ok(Normaliser {
            scales: optional("scales", self.scales, 2 * norms)?,
            running: optional("running statistics", self.running, norms)?,
            partials: optional("partial statistics", self.norm_partials, 2 * norms * blocks)?,
            discounted: optional("discounted returns", self.discounted, horizon.num_envs)?,
            clip_obs: horizon.clip_obs,
            clip_reward: horizon.clip_reward,
        })
    }
}

/// Numbers of a horizon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Horizon {
    /// N.
    pub num_envs: usize,
    /// T.
    pub num_steps: usize,
    /// Seed of every stream.
    pub seed: u64,
    /// Discount.
    pub gamma: f32,
    /// Lambda of GAE.
    pub gae_lambda: f32,
    /// Bound of normalised observations.
    pub clip_obs: f32,
    /// Bound of normalised rewards.
    pub clip_reward: f32,
}

/// The kernel `rollout`.
#[derive(Debug)]
pub struct Rollout {
    function: Function,
    shape: RolloutShape,
}

impl Rollout {
    /// From a module of `rollout.cu` that was specialised for `shape`.
    ///
    /// # Errors
    /// When the module has no such kernel, or the device refuses that much shared memory.
    pub fn new(module: &Module, shape: RolloutShape) -> Result<Self, CudaError> {
        let mut function = module.function("rollout")?;
        function.shared(shape.shared as usize)?;
        Ok(Self { function, shape })
    }

    /// The sizes it was made for.
    pub fn shape(&self) -> &RolloutShape {
        &self.shape
    }

    /// The kernel itself, for its registers and occupancy.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Plays a horizon.
    ///
    /// # Errors
    /// When a buffer has another length, or the launch fails.
    pub fn launch(
        &self,
        stream: &Stream,
        buffers: &RolloutBuffers<'_>,
        horizon: &Horizon,
    ) -> Result<(), CudaError> {
        let (shape, n) = (&self.shape, horizon.num_envs);
        let (steps, blocks) = (n * horizon.num_steps, shape.blocks(n));
        buffers.must_suit(shape.log_std, shape.norms, shape.norm_reward)?;
        let params = RolloutParams {
            weights: exactly("packed weights", buffers.weights, shape.packed_words)?,
            log_std: optional("log_std", buffers.log_std, shape.log_std)?,
            environments: rows("environments", buffers.environments, shape.running_words, n)?,
            samples: exactly("samples", buffers.samples, steps * shape.sample_stride)?,
            rewards: exactly("rewards", buffers.rewards, steps)?,
            values: exactly("values", buffers.values, steps)?,
            flags: exactly("flags", buffers.flags, steps)?,
            next_values: exactly("next values", buffers.next_values, n)?,
            normaliser: buffers.normaliser(horizon, shape.norms, blocks)?,
            partials: exactly("partial episodes", buffers.partials, blocks)?,
            totals: exactly("episodes", buffers.totals, 1)?,
            clock: exactly("the clock", buffers.clock, 1)?,
            ticket: exactly("the ticket", buffers.ticket, 1)?,
            scene: optional("the scene", buffers.scene, horizon.num_steps * (shape.running_words + 2))?,
            num_envs: n as u32,
            num_steps: horizon.num_steps as u32,
            seed: horizon.seed.into(),
            gamma: horizon.gamma,
            decay: horizon.gamma * horizon.gae_lambda,
        };
        let grid = Grid { blocks: blocks as u32, threads: shape.threads, shared: shape.shared };
        // SAFETY: the struct is the kernel's; warps stay within their tile's columns and rows below T, blocks within their
        // entry, and all lengths are checked.
        unsafe { self.function.launch(stream, grid, &params) }
    }
}
