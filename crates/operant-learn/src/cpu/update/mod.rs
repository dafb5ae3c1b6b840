//! One update: epochs of minibatches over a batch, each a forward pass, the loss, its gradient and a step of Adam.
//!
//! A minibatch is split into tiles of 64 samples, or with memory into groups of 16 sequences, and those into at most 64 chunks, a number
//! that depends only on the sizes. Workers take chunks; within one, tiles add to the same sums in order; the chunks' gradients are added
//! along a fixed tree. So the result is the same for any number of threads.

pub mod adam;
mod loss;
mod statistics;
mod worker;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rayon::prelude::*;

use self::adam::learning_rate;
use crate::LearnerState;
use crate::config::Config;
use crate::cpu::batch::Batch;
use crate::cpu::network::policy::Policy;
use crate::cpu::network::tile::{LANES, TILE};
use crate::cpu::threads::pool::WaitStrategy;
use crate::cpu::threads::team;
use crate::cpu::threads::timers::{Part, PartTimes, PhaseTimer};
use crate::cpu::update::loss::{LossCoefficients, LossSums};
use crate::cpu::update::statistics::{Order, advantage_shift_scale, explained_variance};
use crate::cpu::update::worker::{Minibatch, Worker};
use crate::network::Network;
use crate::sample::SampleLayout;

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
/// Up to this minibatch and this network the threads stay awake between minibatches.
const AWAKE_SAMPLES: usize = 8_192;
/// See [`AWAKE_SAMPLES`]; a larger network's sums and steps are spread by rayon, which must find its threads free.
const AWAKE_PARAMS: usize = 1 << 16;

/// Losses and statistics of an update: means over the last epoch's minibatches, without skipped ones.
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
    /// Epochs done; fewer than `update_epochs` if `target_kl` stopped them.
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
    chunks: Vec<RwLock<Chunk>>,
    gradient: Vec<f32>,
    /// `(shift, scale)` of the advantages, per minibatch.
    advantages: Vec<Mutex<(f32, f32)>>,
    /// The progress counter, incremented every few tiles.
    pulse: Arc<AtomicU64>,
    /// The phase timer of the leading thread.
    timer: PhaseTimer,
    /// How threads wait between small minibatches.
    waiting: WaitStrategy,
}

/// The gradient of one chunk.
#[derive(Debug)]
struct Chunk {
    /// `[parameter]`.
    gradient: Vec<f32>,
    losses: LossSums,
}

/// The shared data of a round.
struct Round<'a> {
    policy: &'a mut Policy,
    task: Task<'a>,
}

/// The items of a round.
enum Task<'a> {
    /// Shift and scale of the advantages of each minibatch.
    Advantages { order: Order },
    /// The gradient of each of `chunks` chunks of a minibatch.
    Gradient { minibatch: Minibatch<'a>, coefficients: LossCoefficients, chunks: usize },
}

impl Learner {
    /// The learner of `network` over batches laid out by `layout`.
    pub fn new(network: Network, layout: SampleLayout, config: Config) -> Self {
        let largest = largest_minibatch(&config);
        let chunks = Units::of(&config, &network).chunks(largest, network.len());
        let chunk = || Chunk { gradient: vec![0.0; network.len()], losses: LossSums::default() };
        Self {
            policy: Policy::new(&network),
            workers: Vec::new(),
            chunks: (0..chunks).map(|_| RwLock::new(chunk())).collect(),
            gradient: vec![0.0; network.len()],
            advantages: (0..config.num_minibatches.max(1)).map(|_| Mutex::new((0.0, 1.0))).collect(),
            config,
            network,
            layout,
            pulse: Arc::default(),
            timer: PhaseTimer::default(),
            waiting: WaitStrategy::default(),
        }
    }

    /// Sets how threads wait for small minibatches.
    pub fn waiting(self, waiting: WaitStrategy) -> Self {
        Self { waiting, ..self }
    }

    /// Switches phase timers on or off. It has no effect on workers created later, so call it after an update.
    pub(crate) fn time_parts(&mut self, on: bool) {
        self.timer.switch(on);
        for worker in &self.workers {
            lock(worker).timer.switch(on);
        }
    }

    /// Adds to `account` the times since the last call.
    pub(crate) fn drain_times(&mut self, times: &mut PartTimes) {
        self.timer.drain(times);
        for worker in &self.workers {
            lock(worker).timer.drain(times);
        }
    }

    /// The progress counter, which also increases within an update.
    pub fn pulse(&self) -> &Arc<AtomicU64> {
        &self.pulse
    }

    /// The network it trains.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Runs the epochs of update number `update` (from 0) over `batch`, on the current rayon pool.
    pub fn update(&mut self, state: &mut LearnerState, batch: &Batch, update: u64) -> UpdateLosses {
        assert_eq!(batch.layout(), &self.layout, "the batch has the layout of another network");
        assert!(
            batch.len() <= self.config.num_envs * self.config.num_steps,
            "the batch is larger than planned"
        );
        // One more than the pool has, for a caller outside of it.
        while self.workers.len() <= rayon::current_num_threads() {
            self.workers.push(Mutex::new(Worker::new(
                &self.network,
                &self.layout,
                self.config.sequence(),
                &self.pulse,
            )));
        }
        let Self { config, network, policy, workers, chunks, gradient, advantages, timer, .. } = self;
        let learning_rate = learning_rate(config, update);
        let (sequences, length) = (batch.sequences(), batch.sequence());
        let count = config.num_minibatches.clamp(1, sequences);
        let bounds = |m: usize| (m * sequences / count * length, (m + 1) * sequences / count * length);
        let units = Units::of(config, network);
        let threads = rayon::current_num_threads();
        let work = |round: &Round<'_>, item: usize| match &round.task {
            Task::Advantages { order } => {
                let (first, end) = bounds(item);
                let mut worker = lock(&workers[rayon::current_thread_index().unwrap_or(threads)]);
                worker.timer.start();
                *lock(&advantages[item]) = advantage_shift_scale(batch, order, first, end);
                worker.timer.end(Part::Statistics);
            }
            Task::Gradient { minibatch, coefficients, chunks: parts } => {
                let mut worker = lock(&workers[rayon::current_thread_index().unwrap_or(threads)]);
                let mut chunk = chunks[item].write().unwrap_or_else(PoisonError::into_inner);
                let tiles = units.count(minibatch.size);
                let range = item * tiles / parts..(item + 1) * tiles / parts;
                let Chunk { gradient, losses } = &mut *chunk;
                *losses = worker.chunk(round.policy, coefficients, minibatch, range, gradient);
            }
        };
        let small = batch.len() / count <= AWAKE_SAMPLES && network.len() <= AWAKE_PARAMS;
        let waiting = if small { self.waiting } else { WaitStrategy::Sleep };
        let order = |epoch: usize| Order::new(config.seed, update, epoch, batch);
        let first = Round { policy, task: Task::Advantages { order: order(0) } };
        let (mut nonfinite, mut epochs, mut means) = (0, 0, Means::default());
        team::lead(waiting, first, &work, |team| {
            while epochs < config.update_epochs {
                if config.norm_adv {
                    team.round(count, |round| round.task = Task::Advantages { order: order(epochs) });
                }
                means = Means::default();
                let mut last_kl = f64::NAN;
                for (m, advantages) in advantages.iter().enumerate().take(count) {
                    let (first, end) = bounds(m);
                    let (size, advantages) = (end - first, *lock(advantages));
                    let parts = units.chunks(size, network.len());
                    let minibatch = Minibatch { batch, order: order(epochs), first, size, advantages };
                    team.round(parts, |round| {
                        timer.start();
                        round.policy.pack_for_update(&state.params);
                        timer.end(Part::Packing);
                        let coefficients = LossCoefficients::new(config, size);
                        round.task = Task::Gradient { minibatch, coefficients, chunks: parts };
                    });
                    timer.start();
                    let sums = add_chunks(&chunks[..parts], gradient);
                    timer
                        .end_on(Part::Reduction, if adds_in_parallel(parts, gradient) { threads } else { 1 });
                    let norm = adam::norm(gradient);
                    if norm.is_finite() && (sums.policy + sums.value + sums.entropy).is_finite() {
                        adam::step(state, gradient, norm, learning_rate, config);
                        last_kl = sums.kl / size as f64;
                        means.add(&sums, size, norm);
                    } else {
                        nonfinite += 1;
                    }
                    timer.end_on(Part::Adam, if adam::is_parallel(gradient) { threads } else { 1 });
                }
                epochs += 1;
                if config.target_kl > 0.0 && last_kl > config.target_kl {
                    break;
                }
            }
        });
        timer.start();
        let explained_variance = explained_variance(batch);
        timer.end_on(Part::Statistics, threads);
        UpdateLosses { explained_variance, learning_rate, nonfinite, epochs, ..means.losses() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Samples of the largest minibatch, which are whole sequences.
pub(crate) fn largest_minibatch(config: &Config) -> usize {
    let sequences = config.num_envs * config.num_steps / config.sequence();
    sequences.div_ceil(config.num_minibatches.max(1)) * config.sequence()
}

/// What a chunk of a minibatch is made of: tiles of 64 samples, or groups of 16 sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Units {
    /// Tiles.
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

/// Number of chunks of a minibatch of `tiles` tiles, for a network of `params` parameters: one tile each up to
/// eight, then four tiles or more, because a chunk's sums cost about half a tile to finish.
fn chunk_count(tiles: usize, params: usize) -> usize {
    let most = (CHUNK_FLOATS / params.max(1)).clamp(MIN_CHUNKS, MAX_CHUNKS);
    tiles.min((tiles / CHUNK_TILES).max(MIN_CHUNKS)).min(most)
}

/// Whether this many chunks are worth distributing to threads.
fn adds_in_parallel(chunks: usize, gradient: &[f32]) -> bool {
    chunks * gradient.len() > 1 << 20
}

/// Adds the chunks' gradients along a tree of two levels: eight neighbours one after another, then their sums. Returns
/// the sums of their losses.
fn add_chunks(chunks: &[RwLock<Chunk>], gradient: &mut [f32]) -> LossSums {
    const BRANCHES: usize = 8;
    let read = |chunk: &RwLock<Chunk>, use_it: &mut dyn FnMut(&Chunk)| {
        use_it(&chunk.read().unwrap_or_else(PoisonError::into_inner));
    };
    let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    let parallel = adds_in_parallel(chunks.len(), gradient);
    let block = |(b, out): (usize, &mut [f32])| {
        let range = b * SUM_BLOCK..b * SUM_BLOCK + out.len();
        let mut branch = [0.0; SUM_BLOCK];
        out.fill(0.0);
        for chunks in chunks.chunks(BRANCHES) {
            branch.fill(0.0);
            for chunk in chunks {
                read(chunk, &mut |chunk| add(&mut branch, &chunk.gradient[range.clone()]));
            }
            add(out, &branch);
        }
    };
    if parallel {
        gradient.par_chunks_mut(SUM_BLOCK).enumerate().for_each(block);
    } else {
        gradient.chunks_mut(SUM_BLOCK).enumerate().for_each(block);
    }
    let mut losses = LossSums::default();
    for chunk in chunks {
        read(chunk, &mut |chunk| losses = losses + chunk.losses);
    }
    losses
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

    /// NaN if every minibatch was skipped.
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
