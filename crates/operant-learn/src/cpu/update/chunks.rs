//! The chunks of a minibatch: how many there are, and how their gradients are added.

use std::sync::{PoisonError, RwLock};

use operant_lane::isa::f32x16;
use rayon::prelude::*;

use super::{SUMS, Sums};
use crate::backend::LearnError;
use crate::config::Config;
use crate::cpu::network::tile::{LANES, TILE};
use crate::group::{Group, add_all};
use crate::network::Network;

/// Maximum chunks of a minibatch.
pub const MAX_CHUNKS: usize = 64;
/// Minimum chunks of a minibatch, even for a large network.
pub const MIN_CHUNKS: usize = 8;
/// Minimum tiles per chunk if there are more than [`MIN_CHUNKS`] chunks.
pub const CHUNK_TILES: usize = 4;
/// Maximum floats of all chunks' gradients together, as long as [`MIN_CHUNKS`] remain.
const CHUNK_FLOATS: usize = 1 << 23;
/// Parameters that are summed over the chunks at a time.
const SUM_BLOCK: usize = 1_024;

/// The gradient of one chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// `[parameter]`.
    pub gradient: Vec<f32>,
    pub sums: Sums,
}

impl Chunk {
    /// Zeros for this many parameters.
    pub fn new(parameters: usize) -> Self {
        Self { gradient: vec![0.0; parameters], sums: [0.0; SUMS] }
    }
}

/// Both sums, added.
pub(crate) fn added(a: Sums, b: Sums) -> Sums {
    core::array::from_fn(|k| a[k] + b[k])
}

/// Chunks of the largest minibatch.
pub(crate) fn most_chunks(config: &Config, network: &Network) -> usize {
    config.blocks() * chunks_of_block(config, network, largest_minibatch(config))
}

/// Chunks of each block's share of a minibatch of `samples` samples, of all blocks.
pub(super) fn chunks_of_block(config: &Config, network: &Network, samples: usize) -> usize {
    (Units::of(config, network).chunks(samples, network.len()) / config.blocks()).max(1)
}

/// Samples of the largest minibatch, which are whole sequences.
pub(crate) fn largest_minibatch(config: &Config) -> usize {
    let sequences = config.num_envs * config.num_steps / config.sequence();
    sequences.div_ceil(config.num_minibatches.max(1)) * config.sequence()
}

/// The parts of a chunk of a minibatch: tiles of 64 samples, or groups of 16 sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Units {
    Tiles,
    /// Groups of sequences of this many steps.
    Groups(usize),
}

impl Units {
    /// Those of `config`.
    pub fn of(config: &Config, network: &Network) -> Self {
        if network.states == 0 { Self::Tiles } else { Self::Groups(config.sequence()) }
    }

    /// How many make a minibatch of `samples` samples.
    pub fn count(self, samples: usize) -> usize {
        match self {
            Self::Tiles => samples.div_ceil(TILE),
            Self::Groups(length) => (samples / length).div_ceil(LANES),
        }
    }

    /// Chunks of a minibatch of `samples` samples, for a network of `params` parameters.
    pub fn chunks(self, samples: usize, params: usize) -> usize {
        match self {
            Self::Tiles => chunk_count(self.count(samples), params),
            // A group has many tiles.
            Self::Groups(_) => {
                self.count(samples).min((CHUNK_FLOATS / params.max(1)).clamp(MIN_CHUNKS, MAX_CHUNKS))
            }
        }
    }
}

/// Number of chunks of a minibatch of `tiles` tiles, for a network of `params` parameters. Up to eight tiles, each is a chunk. Beyond that
/// a chunk has four tiles or more, because adding a chunk's sums to the others takes about half the time of a tile.
fn chunk_count(tiles: usize, params: usize) -> usize {
    let most = (CHUNK_FLOATS / params.max(1)).clamp(MIN_CHUNKS, MAX_CHUNKS);
    tiles.min((tiles / CHUNK_TILES).max(MIN_CHUNKS)).min(most)
}

/// Whether this many chunks are worth distributing to threads.
pub(crate) fn adds_in_parallel(chunks: usize, gradient: &[f32]) -> bool {
    chunks * gradient.len() > 1 << 20
}

/// Adds the chunks' gradients along a tree of two levels: eight neighbours one after another, then their sums. Returns
/// the sums of their losses. `gradient` is of the parameters from `first` on.
pub(crate) fn add_chunks(chunks: &[RwLock<Chunk>], first: usize, gradient: &mut [f32]) -> Sums {
    let chunks: Vec<_> =
        chunks.iter().map(|chunk| chunk.read().unwrap_or_else(PoisonError::into_inner)).collect();
    let block = |(b, out): (usize, &mut [f32])| {
        let range = first + b * SUM_BLOCK..first + b * SUM_BLOCK + out.len();
        let parts = || chunks.iter().map(|chunk| &chunk.gradient[range.clone()]);
        let (vectors, rest) = out.as_chunks_mut::<LANES>();
        let start = vectors.len() * LANES;
        for (k, out) in vectors.iter_mut().enumerate() {
            let all = parts().map(|part| f32x16::new(part.as_chunks().0[k]));
            *out = add_branches(all, f32x16::ZERO).to_array();
        }
        for (k, out) in (start..).zip(rest) {
            *out = add_branches(parts().map(|part| part[k]), 0.0);
        }
    };
    if adds_in_parallel(chunks.len(), gradient) {
        gradient.par_chunks_mut(SUM_BLOCK).enumerate().for_each(block);
    } else {
        gradient.chunks_mut(SUM_BLOCK).enumerate().for_each(block);
    }
    chunks.iter().fold([0.0; SUMS], |sums, chunk| added(sums, chunk.sums))
}

/// Adds eight neighbours one after another, then their sums.
#[inline(always)]
fn add_branches<T: Copy + core::ops::Add<Output = T>>(mut all: impl Iterator<Item = T>, zero: T) -> T {
    const BRANCHES: usize = 8;
    let (mut sum, mut next) = (zero, all.next());
    while let Some(first) = next {
        let branch = all.by_ref().take(BRANCHES - 1).fold(zero + first, |branch, part| branch + part);
        (sum, next) = (sum + branch, all.next());
    }
    sum
}

/// Adds the chunks' gradients of each block one after another, and the blocks pairwise, those of other processes too. Returns the sums of
/// their losses.
pub(super) fn add_blocks(
    chunks: &[RwLock<Chunk>],
    parts: usize,
    gradient: &mut [f32],
    group: &dyn Group,
) -> Result<Sums, LearnError> {
    let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    let blocks = || chunks.chunks(parts);
    let read = |chunk: &RwLock<Chunk>, use_it: &mut dyn FnMut(&Chunk)| {
        use_it(&chunk.read().unwrap_or_else(PoisonError::into_inner));
    };
    let part = |(b, out): (usize, &mut [f32])| {
        let range = b * SUM_BLOCK..b * SUM_BLOCK + out.len();
        let mut sums = vec![[0.0; SUM_BLOCK]; blocks().len()];
        for (sum, chunks) in sums.iter_mut().zip(blocks()) {
            for chunk in chunks {
                read(chunk, &mut |chunk| add(sum, &chunk.gradient[range.clone()]));
            }
        }
        out.copy_from_slice(&pairwise(sums, |to, from| add(to, &from))[..out.len()]);
    };
    if adds_in_parallel(chunks.len(), gradient) {
        gradient.par_chunks_mut(SUM_BLOCK).enumerate().for_each(part);
    } else {
        gradient.chunks_mut(SUM_BLOCK).enumerate().for_each(part);
    }
    let losses = blocks().map(|chunks| {
        let mut losses = [0.0; SUMS];
        chunks.iter().for_each(|chunk| read(chunk, &mut |chunk| losses = added(losses, chunk.sums)));
        losses
    });
    let mut losses = pairwise(losses.collect(), |to, from| *to = added(*to, from));
    add_all(group, gradient)?;
    add_all(group, &mut losses)?;
    Ok(losses)
}

/// Adds a power of two of neighbours pairwise, then their sums, and so on.
fn pairwise<T>(mut all: Vec<T>, add: impl Fn(&mut T, T)) -> T {
    while all.len() > 1 {
        let mut pairs = all.into_iter();
        all = std::iter::from_fn(|| {
            let mut sum = pairs.next()?;
            if let Some(other) = pairs.next() {
                add(&mut sum, other);
            }
            Some(sum)
        })
        .collect();
    }
    all.pop().expect("there is at least one")
}
