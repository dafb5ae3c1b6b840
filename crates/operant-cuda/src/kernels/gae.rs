//! `gae.cu`: advantages from rewards, values and flags.

use super::{blocks, exactly};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

const THREADS: u32 = 128;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct GaeParams {
    rewards: u64,
    values: u64,
    flags: u64,
    samples: u64,
    num_envs: u32,
    num_steps: u32,
    stride: u32,
    advantage: u32,
    gamma: f32,
    decay: f32,
    next_values: u64,
}

// SAFETY: addresses and numbers; 4 x 8, 6 x 4 and 8 bytes leave no padding.
unsafe impl Plain for GaeParams {}

/// What the kernel reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct GaeBuffers<'a> {
    /// (T, N).
    pub rewards: &'a Buffer<f32>,
    /// (T, N).
    pub values: &'a Buffer<f32>,
    /// (T, N): 1 terminated, 2 truncated.
    pub flags: &'a Buffer<u8>,
    /// (T, N, stride); word `advantage` of each is written.
    pub samples: &'a Buffer<u32>,
    /// (N): V of the observation after the last step.
    pub next_values: &'a Buffer<f32>,
}

/// The kernel `gae`.
#[derive(Debug)]
pub struct Gae {
    function: Function,
    stride: usize,
    advantage: usize,
}

impl Gae {
    /// From a module of `gae.cu`, for samples of `stride` words whose word `advantage` is the advantage.
    ///
    /// # Errors
    /// When the module has no such kernel, or the word lies outside the sample.
    pub fn new(module: &Module, stride: usize, advantage: usize) -> Result<Self, CudaError> {
        if advantage >= stride {
            return Err(CudaError::Length { what: "a sample", given: stride, expected: advantage + 1 });
        }
        Ok(Self { function: module.function("gae")?, stride, advantage })
    }

    /// Writes the advantages of T steps in N environments.
    ///
    /// # Errors
    /// When a buffer has another length, or the launch fails.
    pub fn launch(
        &self,
        stream: &Stream,
        buffers: &GaeBuffers<'_>,
        [num_steps, num_envs]: [usize; 2],
        [gamma, gae_lambda]: [f32; 2],
    ) -> Result<(), CudaError> {
        let samples = num_envs * num_steps;
        let params = GaeParams {
            rewards: exactly("rewards", buffers.rewards, samples)?,
            values: exactly("values", buffers.values, samples)?,
            flags: exactly("flags", buffers.flags, samples)?,
            samples: exactly("samples", buffers.samples, samples * self.stride)?,
            num_envs: num_envs as u32,
            num_steps: num_steps as u32,
            stride: self.stride as u32,
            advantage: self.advantage as u32,
            gamma,
            decay: gamma * gae_lambda,
            next_values: exactly("next values", buffers.next_values, num_envs)?,
        };
        let grid = Grid { blocks: blocks(num_envs, THREADS), threads: THREADS, shared: 0 };
        // SAFETY: the struct is the kernel's, a thread stays within its environment's column, and all lengths are checked.
        unsafe { self.function.launch(stream, grid, &params) }
    }
}
