//! Environments on a GPU without a policy: rollouts of uniformly random actions, for benchmarks and bit parity.

use std::ops::Range;

use operant_cuda::{Buffer, Device, Function, LaunchConfig, Program, Stream};
use operant_env::AnyEnv;

use crate::LearnError;
use crate::cuda::common::ahead::{AheadInputs, AheadSizes, NextStates, OwnAhead};
use crate::cuda::common::env::{KernelEnv, words_of};
use crate::cuda::common::structs::{EpisodeTotals, Seed};
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};

/// `random_play.cu`: first states, and rollouts of random actions.
pub const RANDOM_PLAY: KernelText =
    kernel_text!("random_play", "play/random_play.cu", [StartParams, RandomPlayParams]);

fn define(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// `random_play.cu` for an environment.
pub fn play_program(kernel_env: &KernelEnv, threads: u32, writes: bool, hashes: bool) -> Program {
    let bits = !kernel_env.spec.obs.is_real();
    let defines = vec![
        define("THREADS", threads),
        define("OBS_BITS", u8::from(bits)),
        define("WRITES", u8::from(writes)),
        define("HASHES", u8::from(hashes)),
    ];
    ProgramText::of(kernel_env, RANDOM_PLAY, defines)
}

/// Sizes of random play.
#[derive(Debug, Clone, Copy)]
struct PlaySizes {
    num_envs: usize,
    /// T.
    num_steps: usize,
    running_words: usize,
    obs_words: usize,
    /// Blocks of the launch.
    blocks: usize,
    /// Whether every step's outputs are written, and whether they are hashed.
    writes: bool,
    hashes: bool,
    ahead: AheadSizes,
}

impl PlaySizes {
    /// T N where outputs are written.
    fn written(&self) -> usize {
        if self.writes { self.num_steps * self.num_envs } else { 0 }
    }
}

operant_cuda::params! {
    /// Parameters of `start`: a thread writes the rows of its own environment.
    struct StartParams<'a>(of: PlaySizes) for ["start"], blocks usize::MAX, {
        /// (running words, N).
        environments: writes [u32; of.running_words * of.num_envs],
        num_envs: value [u32],
        /// Number of environment 0.
        first_environment: value [u32],
        seed: value [Seed],
    }
}

operant_cuda::params! {
    /// Parameters of `random_play`: threads stay within their environment's columns and the block's entry.
    struct RandomPlayParams<'a>(of: PlaySizes) for ["random_play"], blocks of.blocks, {
        /// (running words, N).
        environments: writes [u32; of.running_words * of.num_envs],
        next: part [NextStates, &of.ahead],
        /// (T, words, N), with WRITES.
        obs: writes_any [u32; of.written() * of.obs_words],
        /// (T, N), with WRITES.
        rewards: writes_any [f32; of.written()],
        /// (T, N), with WRITES: 1 terminated, 2 truncated.
        flags: writes_any [u8; of.written()],
        /// (N), with HASHES: carried on.
        hashes: writes_any [u64; if of.hashes { of.num_envs } else { 0 }],
        /// (blocks).
        partials: writes [EpisodeTotals; of.blocks],
        /// (1): the episodes that ended.
        totals: writes [EpisodeTotals; 1],
        /// (1): the global step.
        clock: writes [u64; 1],
        /// (1): zero.
        ticket: writes [u32; 1],
        num_envs: value [u32],
        num_steps: value [u32],
        seed: value [Seed],
    }
}

/// Options and outputs of random play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlayOptions {
    /// Seed of every stream.
    pub seed: u64,
    /// Write observations, rewards and flags of this many steps, as a policy would read them.
    pub writes: Option<usize>,
    /// Hash the outputs of every step.
    pub hashes: bool,
}

impl PlayOptions {
    /// Neither outputs nor hashes.
    pub fn new(seed: u64) -> Self {
        Self { seed, writes: None, hashes: false }
    }
}

/// Outputs of a rollout.
struct Outputs {
    obs: Buffer<u32>,
    rewards: Buffer<f32>,
    flags: Buffer<u8>,
}

/// N environments of one kind on a GPU.
pub struct CudaPlay {
    kernels: PlayKernels,
    sizes: PlaySizes,
    stream: Stream,
    seed: u64,
    environments: Buffer<u32>,
    ahead: Option<OwnAhead>,
    outputs: Option<Outputs>,
    hashes: Option<Buffer<u64>>,
    partials: Buffer<EpisodeTotals>,
    totals: Buffer<EpisodeTotals>,
    clock: Buffer<u64>,
    ticket: Buffer<u32>,
}

/// Start of a hash, FNV-1a's offset.
pub const HASH: u64 = 0xcbf2_9ce4_8422_2325;

impl CudaPlay {
    /// N environments at the start of their first episodes.
    ///
    /// # Errors
    /// When the kernels do not compile, or the device has no room.
    pub fn new(
        device: &Device,
        env: &dyn AnyEnv,
        num_envs: usize,
        options: PlayOptions,
    ) -> Result<Self, LearnError> {
        let kernel_env = KernelEnv::of(env)?;
        let kernels = PlayKernels::new(device, &kernel_env, num_envs, &options)?;
        let sizes = kernels.sizes(&kernel_env, num_envs, &options);
        let stream = device.stream()?;
        let outputs = match options.writes {
            None => None,
            Some(_) => Some(Outputs {
                obs: device.alloc(sizes.written() * sizes.obs_words)?,
                rewards: device.alloc(sizes.written())?,
                flags: device.alloc(sizes.written())?,
            }),
        };
        let hashes = if options.hashes { Some(device.alloc(num_envs)?) } else { None };
        let made = Self {
            ahead: OwnAhead::new(device, &stream, &kernel_env, &sizes.ahead)?,
            environments: device.alloc(words_of(sizes.running_words, num_envs)?)?,
            outputs,
            hashes,
            partials: device.alloc(sizes.blocks)?,
            totals: device.alloc(1)?,
            clock: device.alloc(1)?,
            ticket: device.alloc(1)?,
            kernels,
            sizes,
            stream,
            seed: options.seed,
        };
        made.clock.fill(&made.stream, 0)?;
        made.ticket.fill(&made.stream, 0)?;
        if let Some(hashes) = &made.hashes {
            hashes.write(&made.stream, &vec![HASH; num_envs])?;
        }
        made.kernels.start(&made.stream, &made.environments, &sizes, 0, options.seed)?;
        Ok(made)
    }

    /// The stream that rollouts run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Enqueues T steps of every environment: one launch, after one that makes first states ahead of time where they are. With outputs, T is the number of [`PlayOptions`].
    ///
    /// # Errors
    /// When the launch fails.
    pub fn play(&self, num_steps: usize) -> Result<(), LearnError> {
        let (sizes, outputs) = (PlaySizes { num_steps, ..self.sizes }, self.outputs.as_ref());
        let (environments, seed) = (&self.environments, self.seed.into());
        let (clock, since) = (Some(&self.clock), num_steps as u32);
        let of = AheadInputs { environments, clock, step: 0, since, first_environment: 0, seed };
        let next = OwnAhead::make(self.ahead.as_ref(), &self.stream, of)?;
        let params = RandomPlayParams {
            environments,
            next,
            obs: outputs.map(|outputs| &outputs.obs),
            rewards: outputs.map(|outputs| &outputs.rewards),
            flags: outputs.map(|outputs| &outputs.flags),
            hashes: self.hashes.as_ref(),
            partials: &self.partials,
            totals: &self.totals,
            clock: &self.clock,
            ticket: &self.ticket,
            num_envs: sizes.num_envs as u32,
            num_steps: num_steps as u32,
            seed,
        };
        let threads = self.kernels.threads;
        let shared = 16 + threads / 32 * size_of::<EpisodeTotals>() as u32;
        let grid = LaunchConfig { blocks: sizes.blocks as u32, threads, shared };
        Ok(self.kernels.play.run(&self.stream, grid, &params, &sizes)?)
    }

    /// The episodes that ended in the last rollout; waits for it.
    ///
    /// # Errors
    /// When the device fails, as in everything below.
    pub fn episodes(&self) -> Result<EpisodeTotals, LearnError> {
        Ok(self.totals.read(&self.stream)?[0])
    }

    /// One hash per environment over all steps so far, `(N)`; empty unless requested.
    ///
    /// # Errors
    /// See [`CudaPlay::episodes`].
    pub fn hashes(&self) -> Result<Vec<u64>, LearnError> {
        self.hashes.as_ref().map_or(Ok(Vec::new()), |hashes| Ok(hashes.read(&self.stream)?))
    }

    /// The running environments, `(leaves + 2, N)`.
    ///
    /// # Errors
    /// See [`CudaPlay::episodes`].
    pub fn environments(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.environments.read(&self.stream)?)
    }

    /// Observations `(T, words, N)`, rewards and flags `(T, N)` of the last rollout; None unless requested.
    ///
    /// # Errors
    /// See [`CudaPlay::episodes`].
    #[allow(clippy::type_complexity)]
    pub fn outputs(&self) -> Result<Option<(Vec<u32>, Vec<f32>, Vec<u8>)>, LearnError> {
        let Some(outputs) = &self.outputs else { return Ok(None) };
        let stream = &self.stream;
        Ok(Some((outputs.obs.read(stream)?, outputs.rewards.read(stream)?, outputs.flags.read(stream)?)))
    }
}

/// The kernels for N environments of one kind.
struct PlayKernels {
    start: Function,
    play: Function,
    threads: u32,
}

impl PlayKernels {
    fn new(
        device: &Device,
        kernel_env: &KernelEnv,
        num_envs: usize,
        options: &PlayOptions,
    ) -> Result<Self, LearnError> {
        // Few environments spread over all multiprocessors, many fill them.
        let multiprocessors = device.properties().multiprocessors as usize;
        let threads = if num_envs <= 64 * 4 * multiprocessors { 64 } else { 128 };
        let module =
            device.load(&play_program(kernel_env, threads, options.writes.is_some(), options.hashes))?;
        Ok(Self { start: module.function("start")?, play: module.function("random_play")?, threads })
    }

    fn sizes(&self, kernel_env: &KernelEnv, num_envs: usize, options: &PlayOptions) -> PlaySizes {
        PlaySizes {
            num_envs,
            num_steps: options.writes.unwrap_or(0),
            running_words: kernel_env.running_words(),
            obs_words: kernel_env.spec.obs.words(),
            blocks: num_envs.div_ceil(self.threads as usize),
            writes: options.writes.is_some(),
            hashes: options.hashes,
            ahead: AheadSizes::new(kernel_env, num_envs),
        }
    }

    fn start(
        &self,
        stream: &Stream,
        environments: &Buffer<u32>,
        sizes: &PlaySizes,
        first: usize,
        seed: u64,
    ) -> Result<(), LearnError> {
        let (num_envs, first_environment) = (sizes.num_envs as u32, first as u32);
        let params = StartParams { environments, num_envs, first_environment, seed: seed.into() };
        Ok(self.start.run(stream, LaunchConfig::covering(sizes.num_envs, self.threads), &params, sizes)?)
    }
}

/// Resets the environments of these numbers to the start of their first episodes, `(leaves + 2, N)`; waits for the stream.
pub(in crate::cuda) fn start(
    device: &Device,
    stream: &Stream,
    kernel_env: &KernelEnv,
    environments: &Buffer<u32>,
    numbers: Range<usize>,
    seed: u64,
) -> Result<(), LearnError> {
    let (options, num_envs) = (PlayOptions::new(seed), numbers.len());
    let kernels = PlayKernels::new(device, kernel_env, num_envs, &options)?;
    kernels.start(
        stream,
        environments,
        &kernels.sizes(kernel_env, num_envs, &options),
        numbers.start,
        seed,
    )?;
    // The kernels are unloaded at the end of this function, so their work must be done.
    Ok(stream.synchronize()?)
}
