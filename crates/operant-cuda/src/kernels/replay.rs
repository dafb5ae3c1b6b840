//! `replay.cu`: given actions from given states.

use super::{blocks, exactly, rows};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

const THREADS: u32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct ReplayParams {
    states: u64,
    actions: u64,
    steps: u64,
    obs: u64,
    rewards: u64,
    flags: u64,
    after: u64,
    played: u64,
    num_cases: u32,
    padding: u32,
}

// SAFETY: addresses and numbers; the last word makes the padding explicit.
unsafe impl Plain for ReplayParams {}

/// What the kernel reads and writes, for C cases of up to S steps.
#[derive(Debug, Clone, Copy)]
pub struct ReplayBuffers<'a> {
    /// (state words, C).
    pub states: &'a Buffer<u32>,
    /// (S, components, C): choices, or floats by their bits.
    pub actions: &'a Buffer<u32>,
    /// (C): actions that each case has, at most S.
    pub steps: &'a Buffer<u32>,
    /// (S, observation words, C).
    pub obs: &'a Buffer<u32>,
    /// (S, C).
    pub rewards: &'a Buffer<f32>,
    /// (S, C): 1 terminated, 2 truncated.
    pub flags: &'a Buffer<u8>,
    /// (S, state words, C): the state after each step.
    pub after: &'a Buffer<u32>,
    /// (C): steps until the first end of the episode.
    pub played: &'a Buffer<u32>,
}

/// The kernel `replay`.
#[derive(Debug)]
pub struct Replay {
    function: Function,
    state_words: usize,
    obs_words: usize,
    components: usize,
}

impl Replay {
    /// From a module of `replay.cu`.
    ///
    /// # Errors
    /// When the module has no such kernel.
    pub fn new(module: &Module, [state_words, obs_words, components]: [usize; 3]) -> Result<Self, CudaError> {
        Ok(Self { function: module.function("replay")?, state_words, obs_words, components })
    }

    /// Plays C cases; `most` is S, and no entry of `steps` may be greater.
    ///
    /// # Errors
    /// When a buffer has another length, or the launch fails.
    pub fn launch(
        &self,
        stream: &Stream,
        buffers: &ReplayBuffers<'_>,
        steps: &[u32],
        most: usize,
    ) -> Result<(), CudaError> {
        let cases = steps.len();
        if let Some(long) = steps.iter().find(|steps| **steps as usize > most) {
            return Err(CudaError::Length { what: "a case", given: *long as usize, expected: most });
        }
        let params = ReplayParams {
            states: rows("states", buffers.states, self.state_words, cases)?,
            actions: exactly("actions", buffers.actions, most * self.components * cases)?,
            steps: exactly("steps", buffers.steps, cases)?,
            obs: exactly("observations", buffers.obs, most * self.obs_words * cases)?,
            rewards: exactly("rewards", buffers.rewards, most * cases)?,
            flags: exactly("flags", buffers.flags, most * cases)?,
            after: exactly("states after", buffers.after, most * self.state_words * cases)?,
            played: exactly("steps played", buffers.played, cases)?,
            num_cases: cases as u32,
            padding: 0,
        };
        buffers.steps.write(stream, steps)?;
        let grid = Grid { blocks: blocks(cases, THREADS), threads: THREADS, shared: 0 };
        // SAFETY: the struct is the kernel's; a thread plays at most `steps` <= S steps of its own case, and all lengths are
        // checked.
        unsafe { self.function.launch(stream, grid, &params) }
    }
}
