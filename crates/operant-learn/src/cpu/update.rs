//! One update: epochs of minibatches over a batch, each a forward pass, the loss, its gradient and a step of Adam.
//!
//! A minibatch is cut into tiles of 64 samples and the tiles into at most 64 chunks, a number that depends on nothing
//! but the sizes. Workers take chunks; within one, tiles add to the same sums in order; the chunks' gradients are added
//! along a fixed tree. So the result is the same for any number of threads.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use wide::f32x16;

use super::adam::{self, LearnerState, learning_rate};
use super::batch::{Batch, Gathered, SampleLayout};
use super::gradient::Gradient;
use super::heads::PolicyHead;
use super::loss::{LossCoefficients, LossInput, LossSums, normalise, returns, tile_loss};
use super::policy::{Activations, Observation, Policy};
use super::statistics::{advantage_shift_scale, explained_variance, shuffled};
use super::tile::{LANES, TILE, TILE_VECTORS};
use crate::config::Config;
use crate::network::{Input, Network};
use crate::shuffle::Shuffle;

/// Most chunks of a minibatch.
const MAX_CHUNKS: usize = 64;
/// Least number of chunks that a large network's minibatch may be cut into.
const MIN_CHUNKS: usize = 8;
/// Floats that the gradients of all chunks may take together, where that leaves [`MIN_CHUNKS`].
const CHUNK_FLOATS: usize = 1 << 23;
/// Below this many samples the statistics passes are not worth spreading over threads.
const PARALLEL_STATISTICS: usize = 4_096;

/// What an update reports; means over the last epoch's minibatches, of which skipped ones are left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateLosses {
    /// Clipped policy objective.
    pub policy_loss: f64,
    /// Value loss, before its weight.
    pub value_loss: f64,
    /// Mean entropy of the policy.
    pub entropy: f64,
    /// Mean of (ratio - 1) - ln ratio.
    pub approx_kl: f64,
    /// Share of samples whose ratio was outside the clipping range.
    pub clipfrac: f64,
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// 1 - Var(returns - values) / Var(returns), of the values that the rollout saw; NaN if all returns are equal.
    pub explained_variance: f64,
    /// Adam's step size.
    pub learning_rate: f64,
    /// Minibatches skipped for a non-finite loss or gradient, over all epochs.
    pub nonfinite: u64,
    /// Epochs done; fewer than asked for when `target_kl` stopped them.
    pub epochs: usize,
}

/// The update and everything it needs, allocated once.
#[derive(Debug)]
pub struct Learner {
    config: Config,
    network: Network,
    layout: SampleLayout,
    policy: Policy,
    workers: Vec<Mutex<Worker>>,
    /// `[chunk][parameter]`.
    chunks: Vec<f32>,
    /// `[chunk]`.
    chunk_sums: Vec<LossSums>,
    gradient: Vec<f32>,
    /// `(shift, scale)` of the advantages, per minibatch.
    advantages: Vec<(f32, f32)>,
}

/// What one thread needs to work on a chunk.
#[derive(Debug)]
struct Worker {
    gathered: Gathered,
    input: LossInput,
    activations: Activations<TILE_VECTORS>,
    deltas: Activations<TILE_VECTORS>,
    head: PolicyHead<TILE_VECTORS>,
    gradient: Gradient,
}

/// One minibatch.
#[derive(Clone, Copy)]
struct Minibatch<'a> {
    batch: &'a Batch,
    shuffle: &'a Shuffle,
    /// Position of its first sample in the epoch's order.
    first: usize,
    /// M: samples.
    size: usize,
    /// `(shift, scale)` of its advantages.
    advantages: (f32, f32),
}

impl Learner {
    /// The learner of `network` over batches laid out by `layout`.
    pub fn new(network: Network, layout: SampleLayout, config: Config) -> Self {
        let batch = config.num_envs * config.num_steps;
        let largest = batch.div_ceil(config.num_minibatches.max(1));
        let chunks = chunk_count(largest.div_ceil(TILE), network.len());
        Self {
            policy: Policy::new(&network),
            workers: Vec::new(),
            chunks: vec![0.0; chunks * network.len()],
            chunk_sums: vec![LossSums::default(); chunks],
            gradient: vec![0.0; network.len()],
            advantages: Vec::new(),
            config,
            network,
            layout,
        }
    }

    /// The network it trains.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Runs the epochs of update number `update` (from 0) over `batch`, on the current rayon pool.
    pub fn update(&mut self, state: &mut LearnerState, batch: &Batch, update: u64) -> UpdateLosses {
        assert_eq!(batch.layout(), &self.layout, "the batch is laid out for another network");
        assert!(
            batch.len() <= self.config.num_envs * self.config.num_steps,
            "the batch is larger than planned"
        );
        while self.workers.len() < rayon::current_num_threads() {
            self.workers.push(Mutex::new(Worker::new(&self.network, &self.layout)));
        }
        let learning_rate = learning_rate(&self.config, update);
        let count = self.config.num_minibatches.clamp(1, batch.len());
        let mut nonfinite = 0;
        let mut means = Means::default();
        let mut epochs = 0;
        while epochs < self.config.update_epochs {
            let shuffle = Shuffle::new(self.config.seed, update, epochs as u32, batch.len() as u32);
            self.advantage_statistics(batch, &shuffle, count);
            means = Means::default();
            let mut last_kl = f64::NAN;
            for m in 0..count {
                let (first, end) = (m * batch.len() / count, (m + 1) * batch.len() / count);
                let advantages = self.advantages[m];
                let minibatch = Minibatch { batch, shuffle: &shuffle, first, size: end - first, advantages };
                let sums = self.minibatch_gradient(state, minibatch);
                let norm = adam::norm(&self.gradient);
                let loss = sums.policy + sums.value + sums.entropy;
                if norm.is_finite() && loss.is_finite() {
                    adam::step(state, &self.gradient, norm, learning_rate, &self.config);
                    last_kl = sums.kl / minibatch.size as f64;
                    means.add(&sums, minibatch.size, norm);
                } else {
                    nonfinite += 1;
                }
            }
            epochs += 1;
            if self.config.target_kl > 0.0 && last_kl > self.config.target_kl {
                break;
            }
        }
        UpdateLosses {
            explained_variance: explained_variance(batch),
            learning_rate,
            nonfinite,
            epochs,
            ..means.losses()
        }
    }

    /// Shift and scale of every minibatch's advantages, in one pass before the epoch.
    fn advantage_statistics(&mut self, batch: &Batch, shuffle: &Shuffle, count: usize) {
        self.advantages.clear();
        self.advantages.resize(count, (0.0, 1.0));
        if !self.config.norm_adv {
            return;
        }
        let one = |(m, out): (usize, &mut (f32, f32))| {
            let (first, end) = (m * batch.len() / count, (m + 1) * batch.len() / count);
            *out = advantage_shift_scale(batch, shuffle, first, end);
        };
        if batch.len() < PARALLEL_STATISTICS {
            self.advantages.iter_mut().enumerate().for_each(one);
        } else {
            self.advantages.par_iter_mut().enumerate().for_each(one);
        }
    }

    /// Leaves the gradient of one minibatch's mean loss in `self.gradient`; returns the sums of its losses.
    fn minibatch_gradient(&mut self, state: &LearnerState, minibatch: Minibatch<'_>) -> LossSums {
        self.policy.pack_for_update(&state.params);
        let tiles = minibatch.size.div_ceil(TILE);
        let (len, count) = (self.network.len(), chunk_count(tiles, self.network.len()));
        let coefficients = LossCoefficients::new(&self.config, minibatch.size);
        let (policy, workers) = (&self.policy, &self.workers);
        let one = |(c, (flat, sums)): (usize, (&mut [f32], &mut LossSums))| {
            let index = rayon::current_thread_index().unwrap_or(0);
            let mut worker = workers[index].lock().unwrap_or_else(PoisonError::into_inner);
            *sums = worker.chunk(
                policy,
                &coefficients,
                &minibatch,
                c * tiles / count..(c + 1) * tiles / count,
                flat,
            );
        };
        let flat = &mut self.chunks[..count * len];
        let sums = &mut self.chunk_sums[..count];
        if count == 1 || rayon::current_num_threads() == 1 {
            flat.chunks_exact_mut(len).zip(&mut *sums).enumerate().for_each(one);
        } else {
            flat.par_chunks_exact_mut(len).zip(&mut *sums).with_max_len(1).enumerate().for_each(one);
        }
        add_chunks(flat, len, &mut self.gradient);
        sums.iter().fold(LossSums::default(), |total, &sum| total + sum)
    }
}

impl Worker {
    fn new(network: &Network, layout: &SampleLayout) -> Self {
        Self {
            gathered: Gathered::new(&network.architecture.input, layout),
            input: LossInput::new(layout.components),
            activations: Activations::new(network),
            deltas: Activations::new(network),
            head: PolicyHead::new(&network.architecture.head),
            gradient: Gradient::new(network),
        }
    }

    /// The gradient of a minibatch's `tiles`, into `flat`.
    fn chunk(
        &mut self,
        policy: &Policy,
        coefficients: &LossCoefficients,
        minibatch: &Minibatch<'_>,
        tiles: core::ops::Range<usize>,
        flat: &mut [f32],
    ) -> LossSums {
        self.gradient.clear();
        let mut sums = LossSums::default();
        for tile in tiles {
            sums = sums + self.tile(policy, coefficients, minibatch, tile);
        }
        self.gradient.finish(policy.network(), flat);
        sums
    }

    fn tile(
        &mut self,
        policy: &Policy,
        coefficients: &LossCoefficients,
        minibatch: &Minibatch<'_>,
        tile: usize,
    ) -> LossSums {
        let Minibatch { batch, shuffle, first, size, advantages } = *minibatch;
        let layout = batch.layout();
        let indices = shuffled(shuffle, first + tile * TILE, first + size);
        self.gathered.gather(batch, &indices);
        let input = &mut self.input;
        for (k, action) in input.actions.iter_mut().enumerate() {
            *action = self.gathered.float(layout.actions + k);
        }
        input.logprob = self.gathered.float(layout.logprob);
        input.value = self.gathered.float(layout.value);
        let advantage = self.gathered.float(layout.advantage);
        input.returns = returns(&advantage, &input.value);
        input.advantage = normalise(advantage, advantages.0, advantages.1);
        let remaining = size - tile * TILE;
        input.weight = core::array::from_fn(|v| {
            f32x16::new(core::array::from_fn(|l| if v * LANES + l < remaining { 1.0 } else { 0.0 }))
        });
        self.head.set_mask(&self.gathered.mask);
        let observation = match policy.network().architecture.input {
            Input::Dense(_) => Observation::Dense(&self.gathered.obs),
            Input::Bits(_) => Observation::Bits(&self.gathered.bits),
        };
        policy.forward(observation, &mut self.activations);
        let sums = tile_loss(
            coefficients,
            &self.input,
            &self.activations,
            policy.log_std(),
            &mut self.head,
            &mut self.deltas,
            &mut self.gradient.log_std,
        );
        self.gradient.add(policy, observation, &self.activations, &mut self.deltas);
        sums
    }
}

/// How many chunks a minibatch of `tiles` tiles is cut into, for a network of `params` parameters: one tile each up to
/// eight, then four tiles or more, because a chunk's sums cost about half a tile to finish.
fn chunk_count(tiles: usize, params: usize) -> usize {
    let most = (CHUNK_FLOATS / params.max(1)).clamp(MIN_CHUNKS, MAX_CHUNKS);
    tiles.min((tiles / 4).max(MIN_CHUNKS)).min(most)
}

/// Adds the chunks' gradients along a tree of two levels: eight neighbours one after another, then their sums.
fn add_chunks(chunks: &[f32], len: usize, gradient: &mut [f32]) {
    const BRANCHES: usize = 8;
    let add =
        |to: &mut [f32; TILE], from: &[f32; TILE]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    let block = |(b, out): (usize, &mut [f32])| {
        let (first, width) = (b * TILE, out.len());
        let part = |chunk: &[f32], part: &mut [f32; TILE]| match chunk[first..].first_chunk() {
            Some(whole) => *part = *whole,
            None => part[..width].copy_from_slice(&chunk[first..first + width]),
        };
        let (mut sum, mut branch, mut leaf) = ([0.0; TILE], [0.0; TILE], [0.0; TILE]);
        for chunks in chunks.chunks(BRANCHES * len) {
            branch.fill(0.0);
            for chunk in chunks.chunks_exact(len) {
                part(chunk, &mut leaf);
                add(&mut branch, &leaf);
            }
            add(&mut sum, &branch);
        }
        out.copy_from_slice(&sum[..width]);
    };
    if chunks.len() < 1 << 20 {
        gradient.chunks_mut(TILE).enumerate().for_each(block);
    } else {
        gradient.par_chunks_mut(TILE).with_min_len(16).enumerate().for_each(block);
    }
}

/// Means over the minibatches of an epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Means {
    minibatches: f64,
    sums: LossSums,
    norms: f64,
}

impl Means {
    fn add(&mut self, sums: &LossSums, size: usize, norm: f64) {
        let size = size as f64;
        self.minibatches += 1.0;
        self.norms += norm;
        self.sums = self.sums
            + LossSums {
                policy: sums.policy / size,
                value: sums.value / size,
                entropy: sums.entropy / size,
                kl: sums.kl / size,
                clipped: sums.clipped / size,
            };
    }

    /// NaN where every minibatch was skipped.
    fn losses(&self) -> UpdateLosses {
        let n = self.minibatches;
        UpdateLosses {
            policy_loss: self.sums.policy / n,
            value_loss: self.sums.value / n,
            entropy: self.sums.entropy / n,
            approx_kl: self.sums.kl / n,
            clipfrac: self.sums.clipped / n,
            grad_norm: self.norms / n,
            explained_variance: f64::NAN,
            learning_rate: f64::NAN,
            nonfinite: 0,
            epochs: 0,
        }
    }
}
