//! The kernels of `kernels/`: their texts, and one typed function a launch.
//!
//! A kernel takes one struct by value; its twin here has the same fields in the same order. The safe functions check that
//! every buffer has exactly the length that the kernel reads or writes for the given N and T, which is what makes the launch
//! sound. What specialises a kernel (defines, the environment's text) comes from the caller.

mod gae;
mod layers;
mod pack;
mod peak;
mod random_play;
mod replay;
mod rollout;
mod text;
mod update;

pub use gae::{Gae, GaeBuffers};
pub use layers::{
    LayerMath, LayersBuffers, LayersRollout, LayersRolloutShape, LayersUpdate, LayersUpdateBuffers,
};
pub use pack::Pack;
pub use peak::{Multiplier, Peak};
pub use random_play::{PlayBuffers, RandomPlay, Writes};
pub use replay::{Replay, ReplayBuffers};
pub use rollout::{Horizon, Rollout, RolloutBuffers, RolloutShape};
pub use text::{KernelText, ProgramText};
pub use update::{
    Phases, Progress, SUMS, Update, UpdateBuffers, UpdateLaunch, UpdateNumbers, UpdateReport, UpdateShape,
};

use crate::{Buffer, CudaError, Plain};

/// Episodes that ended during a launch, as the kernels merge them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episodes {
    /// Episodes.
    pub count: f64,
    /// Sum of their undiscounted returns.
    pub sum: f64,
    /// Sum of the squares of the returns.
    pub squares: f64,
    /// Sum of their lengths in steps.
    pub length: f64,
    /// Least return; infinity where no episode ended.
    pub min: f32,
    /// Greatest return; minus infinity where no episode ended.
    pub max: f32,
}

// SAFETY: every bit pattern of its fields is a value, and it has no padding.
unsafe impl Plain for Episodes {}

/// Mean and population variance of a quantity, and how many values were seen.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningNorm {
    /// Mean.
    pub mean: f64,
    /// Population variance.
    pub var: f64,
    /// Values seen.
    pub count: f64,
}

// SAFETY: every bit pattern of its fields is a value, and it has no padding.
unsafe impl Plain for RunningNorm {}

/// A seed as the kernels take it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Seed {
    low: u32,
    high: u32,
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self { low: seed as u32, high: (seed >> 32) as u32 }
    }
}

/// Blocks of `size` that cover `count`.
fn blocks(count: usize, size: u32) -> u32 {
    count.div_ceil(size as usize) as u32
}

/// The address of a buffer of exactly `len` elements.
fn exactly<T: Plain>(what: &'static str, buffer: &Buffer<T>, len: usize) -> Result<u64, CudaError> {
    if buffer.len() == len {
        Ok(buffer.pointer())
    } else {
        Err(CudaError::Length { what, given: buffer.len(), expected: len })
    }
}

/// The address of (rows, N) words; kernels count them in 32 bits.
fn rows<T: Plain>(
    what: &'static str,
    buffer: &Buffer<T>,
    rows: usize,
    num_envs: usize,
) -> Result<u64, CudaError> {
    const MOST: usize = u32::MAX as usize;
    if rows.saturating_mul(num_envs) > MOST {
        return Err(CudaError::refused(
            format!("{num_envs} environments take more than {MOST} words of state"),
            "use fewer environments",
        ));
    }
    exactly(what, buffer, rows * num_envs)
}

/// As [`exactly`] for one that may be missing: null, which the kernel takes as "not wanted".
fn optional<T: Plain>(what: &'static str, buffer: Option<&Buffer<T>>, len: usize) -> Result<u64, CudaError> {
    buffer.map_or(Ok(0), |buffer| exactly(what, buffer, len))
}
