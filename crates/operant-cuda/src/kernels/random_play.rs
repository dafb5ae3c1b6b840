//! `random_play.cu`: first states, and horizons of uniformly random actions.

use super::{Episodes, Seed, blocks, exactly, optional, rows};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

#[repr(C)]
#[derive(Clone, Copy)]
struct StartParams {
    environments: u64,
    num_envs: u32,
    seed: Seed,
    padding: u32,
}

// SAFETY: numbers; the last word makes the padding explicit.
unsafe impl Plain for StartParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct RandomPlayParams {
    environments: u64,
    obs: u64,
    rewards: u64,
    flags: u64,
    hashes: u64,
    partials: u64,
    totals: u64,
    clock: u64,
    ticket: u64,
    num_envs: u32,
    num_steps: u32,
    seed: Seed,
}

// SAFETY: addresses and numbers, 9 x 8 and 4 x 4 bytes, without padding.
unsafe impl Plain for RandomPlayParams {}

/// What a horizon of random actions reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct PlayBuffers<'a> {
    /// (running words, N): the environments between launches.
    pub environments: &'a Buffer<u32>,
    /// What every step gave, in a program with WRITES.
    pub writes: Option<Writes<'a>>,
    /// (N), in a program with HASHES: carried on from launch to launch.
    pub hashes: Option<&'a Buffer<u64>>,
    /// (at least the blocks).
    pub partials: &'a Buffer<Episodes>,
    /// (1): the episodes that ended.
    pub totals: &'a Buffer<Episodes>,
    /// (1): the lifetime step.
    pub clock: &'a Buffer<u64>,
    /// (1): zero.
    pub ticket: &'a Buffer<u32>,
}

/// What every step gave.
#[derive(Debug, Clone, Copy)]
pub struct Writes<'a> {
    /// (T, words, N).
    pub obs: &'a Buffer<u32>,
    /// (T, N).
    pub rewards: &'a Buffer<f32>,
    /// (T, N): 1 terminated, 2 truncated.
    pub flags: &'a Buffer<u8>,
}

/// The kernels `start` and `random_play`.
#[derive(Debug)]
pub struct RandomPlay {
    start: Function,
    play: Function,
    threads: u32,
    running_words: usize,
    obs_words: usize,
    writes: bool,
    hashes: bool,
}

impl RandomPlay {
    /// From a module of `random_play.cu` that was compiled for `threads` threads a block, WRITES and HASHES.
    ///
    /// # Errors
    /// When the module lacks a kernel.
    pub fn new(
        module: &Module,
        threads: u32,
        [running_words, obs_words]: [usize; 2],
        writes: bool,
        hashes: bool,
    ) -> Result<Self, CudaError> {
        let (start, play) = (module.function("start")?, module.function("random_play")?);
        Ok(Self { start, play, threads, running_words, obs_words, writes, hashes })
    }

    /// Blocks of a launch over N environments.
    pub fn blocks(&self, num_envs: usize) -> usize {
        blocks(num_envs, self.threads) as usize
    }

    /// Puts N environments at the start of their first episodes.
    ///
    /// # Errors
    /// When the buffer has another length, or the launch fails.
    pub fn start(
        &self,
        stream: &Stream,
        environments: &Buffer<u32>,
        num_envs: usize,
        seed: u64,
    ) -> Result<(), CudaError> {
        let params = StartParams {
            environments: rows("environments", environments, self.running_words, num_envs)?,
            num_envs: num_envs as u32,
            seed: seed.into(),
            padding: 0,
        };
        let grid = Grid { blocks: blocks(num_envs, self.threads), threads: self.threads, shared: 0 };
        // SAFETY: the struct is the kernel's; a thread writes the rows of its own environment, whose number is checked there.
        unsafe { self.start.launch(stream, grid, &params) }
    }

    /// Plays T steps of N environments.
    ///
    /// # Errors
    /// When a buffer has another length or is missing, or the launch fails.
    pub fn launch(
        &self,
        stream: &Stream,
        buffers: &PlayBuffers<'_>,
        [num_steps, num_envs]: [usize; 2],
        seed: u64,
    ) -> Result<(), CudaError> {
        if self.writes != buffers.writes.is_some() || self.hashes != buffers.hashes.is_some() {
            return Err(CudaError::refused(
                "the buffers are not those of this program: outputs or hashes are missing, or given without need",
                "give what the program was compiled for",
            ));
        }
        let steps = num_envs * num_steps;
        let writes = buffers.writes;
        let blocks = blocks(num_envs, self.threads);
        if buffers.partials.len() < blocks as usize {
            return Err(CudaError::Length {
                what: "partial episodes",
                given: buffers.partials.len(),
                expected: blocks as usize,
            });
        }
        let params = RandomPlayParams {
            environments: rows("environments", buffers.environments, self.running_words, num_envs)?,
            obs: optional("observations", writes.map(|w| w.obs), steps * self.obs_words)?,
            rewards: optional("rewards", writes.map(|w| w.rewards), steps)?,
            flags: optional("flags", writes.map(|w| w.flags), steps)?,
            hashes: optional("hashes", buffers.hashes, num_envs)?,
            partials: buffers.partials.pointer(),
            totals: exactly("episodes", buffers.totals, 1)?,
            clock: exactly("the clock", buffers.clock, 1)?,
            ticket: exactly("the ticket", buffers.ticket, 1)?,
            num_envs: num_envs as u32,
            num_steps: num_steps as u32,
            seed: seed.into(),
        };
        let shared = 16 + self.threads / 32 * size_of::<Episodes>() as u32;
        let grid = Grid { blocks, threads: self.threads, shared };
        // SAFETY: the struct is the kernel's; threads stay within their environment's columns and the block's entry, and all
        // lengths are checked.
        unsafe { self.play.launch(stream, grid, &params) }
    }
}
