//! Environments on a GPU without a policy: horizons of uniformly random actions, for benchmarks and bit parity.

use operant_cuda::kernels::{Episodes, PlayBuffers, RandomPlay, Writes};
use operant_cuda::{Buffer, Device, Stream};
use operant_env::{AnyEnv, running_words};

use super::program::play_program;
use crate::LearnError;

/// What a horizon of random actions leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlayOptions {
    /// Seed of every stream.
    pub seed: u64,
    /// Write observations, rewards and flags of so many steps, as a policy would read them.
    pub writes: Option<usize>,
    /// Hash all that every step gave.
    pub hashes: bool,
}

impl PlayOptions {
    /// Neither outputs nor hashes.
    pub fn new(seed: u64) -> Self {
        Self { seed, writes: None, hashes: false }
    }
}

/// Outputs of a horizon.
struct Outputs {
    obs: Buffer<u32>,
    rewards: Buffer<f32>,
    flags: Buffer<u8>,
}

/// N environments of one kind on a GPU.
pub struct CudaPlay {
    play: RandomPlay,
    stream: Stream,
    num_envs: usize,
    seed: u64,
    environments: Buffer<u32>,
    outputs: Option<Outputs>,
    hashes: Option<Buffer<u64>>,
    partials: Buffer<Episodes>,
    totals: Buffer<Episodes>,
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
        let spec = env.spec();
        let play = kernels(device, env, num_envs, &options)?;
        let stream = device.stream()?;
        let outputs = match options.writes {
            None => None,
            Some(steps) => Some(Outputs {
                obs: device.alloc(steps * spec.obs.words() * num_envs)?,
                rewards: device.alloc(steps * num_envs)?,
                flags: device.alloc(steps * num_envs)?,
            }),
        };
        let hashes = if options.hashes { Some(device.alloc(num_envs)?) } else { None };
        let made = Self {
            environments: device.alloc((running_words(env)) * num_envs)?,
            outputs,
            hashes,
            partials: device.alloc(play.blocks(num_envs))?,
            totals: device.alloc(1)?,
            clock: device.alloc(1)?,
            ticket: device.alloc(1)?,
            play,
            stream,
            num_envs,
            seed: options.seed,
        };
        made.clock.fill(&made.stream, 0)?;
        made.ticket.fill(&made.stream, 0)?;
        if let Some(hashes) = &made.hashes {
            hashes.write(&made.stream, &vec![HASH; num_envs])?;
        }
        made.play.start(&made.stream, &made.environments, num_envs, options.seed)?;
        Ok(made)
    }

    /// The stream that horizons run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Enqueues T steps of every environment: one launch. With outputs, T is what was asked for.
    ///
    /// # Errors
    /// When the launch fails.
    pub fn play(&self, num_steps: usize) -> Result<(), LearnError> {
        let writes = self.outputs.as_ref().map(|outputs| Writes {
            obs: &outputs.obs,
            rewards: &outputs.rewards,
            flags: &outputs.flags,
        });
        let buffers = PlayBuffers {
            environments: &self.environments,
            writes,
            hashes: self.hashes.as_ref(),
            partials: &self.partials,
            totals: &self.totals,
            clock: &self.clock,
            ticket: &self.ticket,
        };
        Ok(self.play.launch(&self.stream, &buffers, [num_steps, self.num_envs], self.seed)?)
    }

    /// The episodes that ended in the last horizon; waits for it.
    ///
    /// # Errors
    /// When the device fails, as in everything below.
    pub fn episodes(&self) -> Result<Episodes, LearnError> {
        Ok(self.totals.read(&self.stream)?[0])
    }

    /// One hash an environment over all steps so far, `(N)`; empty unless asked for.
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

    /// Observations `(T, words, N)`, rewards and flags `(T, N)` of the last horizon; None unless asked for.
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

/// The kernels for N environments of this kind.
fn kernels(
    device: &Device,
    env: &dyn AnyEnv,
    num_envs: usize,
    options: &PlayOptions,
) -> Result<RandomPlay, LearnError> {
    // Few environments spread over all multiprocessors, many fill them.
    let multiprocessors = device.properties().multiprocessors as usize;
    let threads = if num_envs <= 64 * 4 * multiprocessors { 64 } else { 128 };
    let (writes, hashes) = (options.writes.is_some(), options.hashes);
    let module = device.load(&play_program(env, threads, writes, hashes)?)?;
    let words = [running_words(env), env.spec().obs.words()];
    Ok(RandomPlay::new(&module, threads, words, writes, hashes)?)
}

/// Puts N environments at the start of their first episodes, `(leaves + 2, N)`; waits for the stream.
pub(super) fn start(
    device: &Device,
    stream: &Stream,
    env: &dyn AnyEnv,
    environments: &Buffer<u32>,
    num_envs: usize,
    seed: u64,
) -> Result<(), LearnError> {
    // The kernels go with the end of this, so their work must be over.
    kernels(device, env, num_envs, &PlayOptions::new(seed))?.start(stream, environments, num_envs, seed)?;
    Ok(stream.synchronize()?)
}
