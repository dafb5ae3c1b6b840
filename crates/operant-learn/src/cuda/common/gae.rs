//! `gae.cu`: advantages from rewards, values and flags.

use operant_cuda::{Buffer, Device, LaunchConfig, Program, Stream};

use super::structs::Discounts;
use super::text::{KernelText, ProgramText, kernel_text};
use crate::LearnError;
use crate::sample::SampleLayout;

/// `gae.cu`: advantages alone.
pub const GAE: KernelText = kernel_text!("gae", "common/gae.cu", [GaeParams]);

/// `gae.cu`, the same for all.
pub fn gae_program() -> Program {
    ProgramText { kernel: GAE, name: "all", environment: None, defines: Vec::new() }.program()
}

const THREADS: u32 = 128;

/// T, N and the words of a sample.
#[derive(Debug, Clone, Copy)]
pub struct GaeSizes {
    pub num_steps: usize,
    pub num_envs: usize,
    pub stride: usize,
}

impl GaeSizes {
    fn samples(&self) -> usize {
        self.num_steps * self.num_envs
    }
}

operant_cuda::params! {
    /// Parameters of the kernel: a thread stays within its environment's column.
    pub struct GaeParams<'a>(of: GaeSizes) for ["gae"], blocks usize::MAX, {
        /// (T, N).
        rewards: reads [f32; of.samples()],
        /// (T, N).
        values: reads [f32; of.samples()],
        /// (T, N): 1 terminated, 2 truncated.
        flags: reads [u8; of.samples()],
        /// (T, N, stride); word `advantage` of each is written.
        samples: writes [u32; of.samples() * of.stride],
        /// (N): V of the observation after the last step.
        next_values: reads [f32; of.num_envs],
        num_envs: value [u32],
        num_steps: value [u32],
        stride: value [u32],
        advantage: value [u32],
        discounts: value [Discounts],
    }
}

/// Buffers that GAE reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct GaeBuffers<'a> {
    pub rewards: &'a Buffer<f32>,
    pub values: &'a Buffer<f32>,
    pub flags: &'a Buffer<u8>,
    pub samples: &'a Buffer<u32>,
    pub next_values: &'a Buffer<f32>,
}

/// Writes the advantages of T steps in N environments.
///
/// # Errors
/// When the kernel does not compile, a buffer has another length, or the launch fails.
pub fn advantages(
    device: &Device,
    stream: &Stream,
    buffers: &GaeBuffers<'_>,
    [num_steps, num_envs]: [usize; 2],
    layout: &SampleLayout,
    discounts: Discounts,
) -> Result<(), LearnError> {
    let kernel = device.load(&gae_program())?.function("gae")?;
    let sizes = GaeSizes { num_steps, num_envs, stride: layout.stride };
    let GaeBuffers { rewards, values, flags, samples, next_values } = *buffers;
    let params = GaeParams {
        rewards,
        values,
        flags,
        samples,
        next_values,
        num_envs: num_envs as u32,
        num_steps: num_steps as u32,
        stride: layout.stride as u32,
        advantage: layout.advantage as u32,
        discounts,
    };
    Ok(kernel.run(stream, LaunchConfig::covering(num_envs, THREADS), &params, &sizes)?)
}
