//! One update: epochs of minibatches over a batch, each a forward pass, the loss, its gradient and a step of Adam.
//!
//! A minibatch is split into tiles of 64 samples, or with memory into groups of 16 sequences, and those into at most 64 chunks, a number
//! that depends only on the sizes. Workers take chunks; within one, tiles add to the same sums in order; the chunks' gradients are added
//! along a fixed tree. So the result is the same for any number of threads.
//!
//! With `shuffle = "blocks"` a minibatch has the same share of each block of environments, and a chunk is of one block. The blocks' sums are
//! added pairwise. Several processes have neighbouring blocks each, so their sums are branches of that tree: the result is the same for any
//! number of processes.

pub mod adam;
mod loss;
mod statistics;
mod worker;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use operant_metrics::Record;
use rayon::prelude::*;
use wide::f32x16;

use self::adam::learning_rate;
use crate::LearnerState;
use crate::backend::{LearnError, UpdateStats};
use crate::config::Config;
use crate::cpu::batch::Batch;
use crate::cpu::network::policy::Policy;
use crate::cpu::network::tile::{LANES, TILE};
use crate::cpu::threads::balance::Balance;
use crate::cpu::threads::pool::WaitStrategy;
use crate::cpu::threads::team;
use crate::cpu::threads::timers::{Part, PartTimes, PhaseTimer};
use crate::cpu::update::loss::{LossCoefficients, LossSums};
use crate::cpu::update::statistics::{
    EnvBlock, Moments, Order, advantages, errors_and_returns, explained_variance, shift_scale,
};
use crate::cpu::update::worker::{Minibatch, Worker};
use crate::group::{Alone, Group, add_all, gathered};
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
/// Up to this minibatch the leader tries whether it is faster alone.
const TRIED_SAMPLES: usize = 512;
/// Up to this many parameters threads stay awake (see [`AWAKE_SAMPLES`]). For a larger network rayon distributes sums and optimiser steps
/// over the same cores, so threads must not poll then.
const AWAKE_PARAMS: usize = 1 << 16;

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
    /// Of each minibatch's share of each block.
    moments: Vec<Mutex<Moments>>,
    /// The processes that train together.
    group: Arc<dyn Group>,
    /// The progress counter, incremented every few tiles.
    pulse: Arc<AtomicU64>,
    /// The phase timer of the leading thread.
    timer: PhaseTimer,
    /// How threads wait between small minibatches.
    waiting: WaitStrategy,
    /// Whether they share very small ones.
    balance: Balance,
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
    task: Task,
}

/// The items of a round.
enum Task {
    /// Moments of the advantages of each minibatch and block.
    Advantages { epoch: usize },
    /// The gradient of each of `chunks` chunks of a block's share of a minibatch.
    Gradient {
        minibatch: usize,
        epoch: usize,
        advantages: (f32, f32),
        coefficients: LossCoefficients,
        chunks: usize,
    },
}

impl Learner {
    /// The learner of `network` over batches laid out by `layout`.
    pub fn new(network: Network, layout: SampleLayout, config: Config) -> Self {
        let (blocks, chunks) = (config.blocks(), most_chunks(&config, &network));
        let chunk = || Chunk { gradient: vec![0.0; network.len()], losses: LossSums::default() };
        Self {
            policy: Policy::new(&network),
            workers: Vec::new(),
            chunks: (0..chunks).map(|_| RwLock::new(chunk())).collect(),
            gradient: vec![0.0; network.len()],
            moments: (0..config.num_minibatches.max(1) * blocks).map(|_| Mutex::default()).collect(),
            group: Arc::new(Alone),
            config,
            network,
            layout,
            pulse: Arc::default(),
            timer: PhaseTimer::default(),
            waiting: WaitStrategy::default(),
            balance: Balance::default(),
        }
    }

    /// Sets how threads wait for small minibatches.
    pub fn waiting(self, waiting: WaitStrategy) -> Self {
        Self { waiting, ..self }
    }

    /// Trains together with other processes; each has a batch with the same number of neighbouring blocks.
    pub fn in_group(self, group: Arc<dyn Group>) -> Self {
        Self { group, ..self }
    }

    /// Switches phase timers on or off. It has no effect on workers created later, so call it after an update.
    pub(crate) fn time_parts(&mut self, on: bool) {
        self.timer.switch(on);
        for worker in &self.workers {
            lock(worker).timer.switch(on);
        }
    }

    /// Adds the times since the last call to `times`.
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
    /// The caller adds what it does not know to the report.
    ///
    /// # Errors
    /// When another process of the group is lost.
    pub fn update(
        &mut self,
        state: &mut LearnerState,
        batch: &Batch,
        update: u64,
    ) -> Result<UpdateStats, LearnError> {
        assert_eq!(batch.layout(), &self.layout, "the batch has the layout of another network");
        assert!(
            batch.len() <= self.config.num_envs * self.config.num_steps,
            "the batch is larger than planned"
        );
        // One more than the pool has, for a caller outside the pool.
        while self.workers.len() <= rayon::current_num_threads() {
            self.workers.push(Mutex::new(Worker::new(
                &self.network,
                &self.layout,
                self.config.sequence(),
                &self.pulse,
            )));
        }
        let Self {
            config, network, policy, workers, chunks, gradient, moments, timer, group, balance, ..
        } = self;
        let (group, learning_rate) = (&**group, learning_rate(config, update));
        let blocks = Blocks::of(config, batch, group);
        let length = batch.sequence();
        let count = config.num_minibatches.clamp(1, blocks.sequences);
        let bounds =
            |m: usize| (m * blocks.sequences / count * length, (m + 1) * blocks.sequences / count * length);
        let units = Units::of(config, network);
        let threads = rayon::current_num_threads();
        let order = |epoch: usize, block: usize| Order::new(config.seed, update, epoch, blocks.block(block));
        let work = |round: &Round<'_>, item: usize| match round.task {
            Task::Advantages { epoch } => {
                let (m, block) = (item / blocks.own, item % blocks.own);
                let (first, end) = bounds(m);
                let mut worker = lock(&workers[rayon::current_thread_index().unwrap_or(threads)]);
                worker.timer.start();
                *lock(&moments[item]) = advantages(batch, &order(epoch, block), first, end);
                worker.timer.end(Part::Statistics);
            }
            Task::Gradient { minibatch, epoch, advantages, coefficients, chunks: parts } => {
                let (block, part) = (item / parts, item % parts);
                let (first, end) = bounds(minibatch);
                let minibatch =
                    Minibatch { batch, order: order(epoch, block), first, size: end - first, advantages };
                let mut worker = lock(&workers[rayon::current_thread_index().unwrap_or(threads)]);
                let mut chunk = chunks[item].write().unwrap_or_else(PoisonError::into_inner);
                let tiles = units.count(minibatch.size);
                let range = part * tiles / parts..(part + 1) * tiles / parts;
                let Chunk { gradient, losses } = &mut *chunk;
                *losses = worker.chunk(round.policy, &coefficients, &minibatch, range, gradient);
            }
        };
        let small = batch.len() / count <= AWAKE_SAMPLES && network.len() <= AWAKE_PARAMS;
        let is_tried = small && batch.len() / count <= TRIED_SAMPLES && threads > 1;
        let together = !is_tried || balance.together();
        let waiting = together.then_some(if small { self.waiting } else { WaitStrategy::Sleep });
        let start = Instant::now();
        let first = Round { policy, task: Task::Advantages { epoch: 0 } };
        let (mut nonfinite, mut epochs, mut means) = (0, 0, Means::default());
        team::lead(waiting, first, &work, |team| -> Result<(), LearnError> {
            while epochs < config.update_epochs {
                let mut scales = vec![(0.0, 1.0); count];
                if config.norm_adv {
                    let items = count * blocks.own;
                    team.round(items, |round| round.task = Task::Advantages { epoch: epochs });
                    let own: Vec<[f64; 3]> = moments[..items].iter().map(|it| lock(it).numbers()).collect();
                    let all = gathered(group, &own)?;
                    for (m, scale) in scales.iter_mut().enumerate() {
                        let of_rank = |rank: usize| {
                            let first = rank * items + m * blocks.own;
                            all[first..first + blocks.own].iter().map(|numbers| Moments::of(*numbers))
                        };
                        *scale = shift_scale((0..group.size()).flat_map(of_rank));
                    }
                }
                means = Means::default();
                let mut last_kl = f64::NAN;
                for (m, advantages) in scales.into_iter().enumerate() {
                    let (first, end) = bounds(m);
                    let size = (end - first) * blocks.all();
                    let parts = chunks_of_block(config, network, size).min(units.count(end - first));
                    team.round(parts * blocks.own, |round| {
                        timer.start();
                        round.policy.pack_for_update(&state.params);
                        timer.end(Part::Packing);
                        let coefficients = LossCoefficients::new(config, size);
                        round.task = Task::Gradient {
                            minibatch: m,
                            epoch: epochs,
                            advantages,
                            coefficients,
                            chunks: parts,
                        };
                    });
                    timer.start();
                    let own = &chunks[..parts * blocks.own];
                    let sums = if blocks.all() == 1 {
                        add_chunks(own, gradient)
                    } else {
                        add_blocks(own, parts, gradient, group)?
                    };
                    timer.end_on(
                        Part::Reduction,
                        if adds_in_parallel(own.len(), gradient) { threads } else { 1 },
                    );
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
            Ok(())
        })?;
        if is_tried {
            balance.record(together, batch.len() * epochs, start.elapsed());
        }
        timer.start();
        let samples = blocks.sequences * length;
        let of_block = |block: usize| errors_and_returns(batch, block * samples, (block + 1) * samples);
        let own: Vec<[f64; 6]> = (0..blocks.own)
            .map(|block| {
                let [[a, b, c], [d, e, f]] = of_block(block).map(|moments| moments.numbers());
                [a, b, c, d, e, f]
            })
            .collect();
        let all = gathered(group, &own)?;
        let explained_variance = explained_variance(
            all.iter().map(|[a, b, c, d, e, f]| [Moments::of([*a, *b, *c]), Moments::of([*d, *e, *f])]),
        );
        timer.end_on(Part::Statistics, threads);
        let metrics = Record { explained_variance, learning_rate, ..means.metrics() };
        Ok(UpdateStats { epochs, nonfinite, metrics, ..UpdateStats::default() })
    }
}

/// The blocks of environments of a batch.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    /// Blocks of this process.
    own: usize,
    /// The number of the first of them.
    first: usize,
    processes: usize,
    sequences: usize,
}

impl Blocks {
    fn of(config: &Config, batch: &Batch, group: &dyn Group) -> Self {
        let own = config.blocks() / group.size();
        assert!(own > 0, "{} processes for {} blocks", group.size(), config.blocks());
        let sequences = batch.sequences() / own;
        Self { own, first: group.rank() * own, processes: group.size(), sequences }
    }

    /// Blocks of all processes.
    fn all(&self) -> usize {
        self.own * self.processes
    }

    /// One of this process.
    fn block(&self, own: usize) -> EnvBlock {
        EnvBlock { number: self.first + own, first: own * self.sequences, sequences: self.sequences }
    }
}

/// Chunks of the largest minibatch.
pub(crate) fn most_chunks(config: &Config, network: &Network) -> usize {
    config.blocks() * chunks_of_block(config, network, largest_minibatch(config))
}

/// Chunks of each block's share of a minibatch of `samples` samples, of all blocks.
fn chunks_of_block(config: &Config, network: &Network, samples: usize) -> usize {
    (Units::of(config, network).chunks(samples, network.len()) / config.blocks()).max(1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
fn adds_in_parallel(chunks: usize, gradient: &[f32]) -> bool {
    chunks * gradient.len() > 1 << 20
}

/// Adds the chunks' gradients along a tree of two levels: eight neighbours one after another, then their sums. Returns
/// the sums of their losses.
fn add_chunks(chunks: &[RwLock<Chunk>], gradient: &mut [f32]) -> LossSums {
    let chunks: Vec<_> =
        chunks.iter().map(|chunk| chunk.read().unwrap_or_else(PoisonError::into_inner)).collect();
    let block = |(b, out): (usize, &mut [f32])| {
        let range = b * SUM_BLOCK..b * SUM_BLOCK + out.len();
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
    chunks.iter().fold(LossSums::default(), |losses, chunk| losses + chunk.losses)
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
fn add_blocks(
    chunks: &[RwLock<Chunk>],
    parts: usize,
    gradient: &mut [f32],
    group: &dyn Group,
) -> Result<LossSums, LearnError> {
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
        let mut losses = LossSums::default();
        chunks.iter().for_each(|chunk| read(chunk, &mut |chunk| losses = losses + chunk.losses));
        losses.numbers()
    });
    let add_losses =
        |to: &mut [f64; 5], from: [f64; 5]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    let mut losses = pairwise(losses.collect(), add_losses);
    add_all(group, gradient)?;
    add_all(group, &mut losses)?;
    Ok(LossSums::of(losses))
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

    /// The means, NaN if every minibatch was skipped.
    fn metrics(&self) -> Record {
        let n = self.minibatches;
        Record {
            policy_loss: self.sums.policy / n,
            value_loss: self.sums.value / n,
            entropy: self.sums.entropy / n,
            approx_kl: self.sums.kl / n,
            clipfrac: self.sums.clipped / n,
            grad_norm: self.norms / n,
            ..Record::default()
        }
    }
}
