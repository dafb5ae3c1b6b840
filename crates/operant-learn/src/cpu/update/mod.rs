//! One update: epochs of minibatches over a batch, each a forward pass, the loss of an algorithm, its gradient and a step of Adam.
//!
//! A minibatch is split into tiles of 64 samples, or with memory into groups of 16 sequences, and those into at most 64 chunks, a number
//! that depends only on the sizes. Workers take chunks; within one, tiles add to the same sums in order; the chunks' gradients are added
//! along a fixed tree. So the result is the same for any number of threads.
//!
//! With `shuffle = "blocks"` a minibatch has the same share of each block of environments, and a chunk is of one block. The blocks' sums are
//! added pairwise. Several processes have neighbouring blocks each, so their sums are branches of that tree: the result is the same for any
//! number of processes.

pub mod adam;
mod chunks;
mod muon;
pub mod noise;
mod priority;
mod recompute;
pub(crate) mod statistics;
mod worker;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use operant_metrics::Record;

use self::adam::Stretch;
pub(crate) use self::chunks::adds_in_parallel;
pub use self::chunks::{CHUNK_TILES, MAX_CHUNKS, MIN_CHUNKS};
pub(crate) use self::chunks::{Chunk, Units, add_chunks, added, most_chunks};
use self::chunks::{add_blocks, chunks_of_block};
use self::noise::MeanNoise;
use self::statistics::{EnvBlock, Moments, Order, moments_of};
pub(crate) use self::worker::{Loss, LossTile};
use self::worker::{Minibatch, Worker};
use crate::LearnerState;
pub(crate) use crate::algorithms::SUMS;
use crate::algorithms::{Learns, Measured};
use crate::backend::{LearnError, UpdateStats};
use crate::config::Config;
use crate::cpu::batch::Batch;
use crate::cpu::network::policy::Policy;
use crate::cpu::threads::balance::Balance;
use crate::cpu::threads::pool::WaitStrategy;
use crate::cpu::threads::team::{self, WorkerTeam};
use crate::cpu::threads::timers::{Part, PartTimes, PhaseTimer};
use crate::group::{Alone, Group, gathered};
use crate::network::Network;
use crate::normalise::{NormSums, RunningNorm};
use crate::sample::SampleLayout;

/// Sums over samples, in the order of the loss.
pub(crate) type Sums = [f64; SUMS];

/// Means over the minibatches of an epoch, NaN if every one was skipped.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Means {
    minibatches: f64,
    /// Minibatches without this sum.
    without: [f64; SUMS],
    sums: Sums,
    norms: f64,
}

impl Means {
    /// Whether it has no minibatch.
    pub fn is_empty(&self) -> bool {
        self.minibatches == 0.0
    }

    /// Adds a minibatch of `size` samples, with the sums of its loss and the norm of its gradient.
    pub fn add(&mut self, sums: Sums, size: usize, norm: f64) {
        self.minibatches += 1.0;
        self.norms += norm;
        self.sums.iter_mut().zip(sums).for_each(|(mean, sum)| *mean += sum / size as f64);
    }

    /// The minibatch that was added had none of these sums.
    pub fn had_none(&mut self, sums: std::ops::Range<usize>) {
        self.without[sums].iter_mut().for_each(|minibatches| *minibatches += 1.0);
    }

    /// They, and the rate of the update; the rest is not a number.
    pub fn measured(&self, learning_rate: f64) -> Measured {
        let losses = core::array::from_fn(|k| self.sums[k] / (self.minibatches - self.without[k]));
        let grad_norm = self.norms / self.minibatches;
        Measured { losses, grad_norm, learning_rate, ..Measured::NONE }
    }
}

/// An algorithm's update: its epochs, and what it reports of them.
pub(crate) type Update = fn(&mut Learning<'_>) -> Result<UpdateStats, LearnError>;

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
    stretches: Vec<Stretch>,
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

/// The shared data of a round.
struct Round<'a> {
    policy: &'a mut Policy,
    batch: &'a mut Batch,
    /// The sequences at the positions of an epoch in each block, if they are drawn.
    drawn: Vec<Vec<u32>>,
    task: Task,
}

/// The items of a round.
enum Task {
    /// Nothing.
    None,
    /// Moments of a field of each minibatch and block.
    Moments { epoch: usize, field: usize },
    /// The gradient of each of `chunks` chunks of a block's share of a minibatch.
    Gradient { minibatch: usize, epoch: usize, loss: Box<dyn Loss>, chunks: usize },
}

impl Learner {
    /// The learner of `network` over batches laid out by `layout`.
    pub fn new(network: Network, layout: SampleLayout, config: Config) -> Self {
        let (blocks, chunks) = (config.blocks(), most_chunks(&config, &network));
        Self {
            policy: Policy::new(&network),
            workers: Vec::new(),
            chunks: (0..chunks).map(|_| RwLock::new(Chunk::new(network.len()))).collect(),
            gradient: vec![0.0; network.len()],
            stretches: Stretch::of(&config, &network),
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

    /// Increments this progress counter.
    pub fn pulsing(self, pulse: &Arc<AtomicU64>) -> Self {
        Self { pulse: Arc::clone(pulse), ..self }
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

    /// The network it trains.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Runs the epochs of update number `update` (from 0) over `batch`, on the current rayon pool. The caller adds what it does not know
    /// to the report.
    ///
    /// # Errors
    /// When another process of the group is lost.
    pub fn update(
        &mut self,
        state: &mut LearnerState,
        batch: &mut Batch,
        update: u64,
    ) -> Result<UpdateStats, LearnError> {
        match self.config.algorithm.declaration().learns {
            Learns::Rollouts(epochs) => self.update_by(epochs, state, batch, update),
            Learns::Replay(_) => panic!("the algorithm learns from a replay"),
        }
    }

    /// As [`Learner::update`], with another update than that of the configuration's algorithm.
    pub(crate) fn update_by(
        &mut self,
        epochs: impl FnOnce(&mut Learning<'_>) -> Result<UpdateStats, LearnError>,
        state: &mut LearnerState,
        batch: &mut Batch,
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
                if self.network.states > 0 { self.config.sequence() } else { 1 },
                &self.pulse,
            )));
        }
        let blocks = Blocks::of(&self.config, batch, &*self.group);
        let plan = Plan {
            units: Units::of(&self.config, &self.network),
            count: self.config.num_minibatches.clamp(1, blocks.sequences),
            length: batch.sequence(),
            blocks,
            update,
        };
        let Self { config, network, policy, workers, chunks, gradient, stretches, moments, .. } = self;
        let Self { group, timer, waiting, balance, .. } = self;
        epochs(&mut Learning {
            config,
            batch,
            network,
            plan,
            policy,
            workers,
            chunks,
            gradient,
            stretches,
            moments,
            group: &**group,
            timer,
            waiting: *waiting,
            balance,
            state,
        })
    }
}

/// How the samples of a batch are divided.
#[derive(Clone, Copy)]
struct Plan {
    blocks: Blocks,
    units: Units,
    /// Minibatches of an epoch.
    count: usize,
    /// Steps of a sequence.
    length: usize,
    update: u64,
}

impl Plan {
    /// The positions of a minibatch's samples in each block.
    fn bounds(&self, minibatch: usize) -> (usize, usize) {
        let at = |minibatch: usize| minibatch * self.blocks.sequences / self.count * self.length;
        (at(minibatch), at(minibatch + 1))
    }

    fn order<'a>(&self, config: &Config, epoch: usize, block: usize, drawn: &'a [Vec<u32>]) -> Order<'a> {
        let drawn = drawn.get(block).map(|drawn| &drawn[..]);
        Order::new(config.seed, self.update, epoch, self.blocks.block(block), drawn)
    }
}

/// An update in progress, as an algorithm sees it.
pub(crate) struct Learning<'a> {
    pub config: &'a Config,
    /// The samples of this process.
    pub batch: &'a mut Batch,
    network: &'a Network,
    plan: Plan,
    policy: &'a mut Policy,
    workers: &'a [Mutex<Worker>],
    chunks: &'a [RwLock<Chunk>],
    gradient: &'a mut [f32],
    stretches: &'a [Stretch],
    moments: &'a [Mutex<Moments>],
    group: &'a dyn Group,
    timer: &'a mut PhaseTimer,
    waiting: WaitStrategy,
    balance: &'a mut Balance,
    state: &'a mut LearnerState,
}

/// The minibatches of the epochs of an update.
pub(crate) struct Minibatches<'a, 'p> {
    team: &'a WorkerTeam<'a, Round<'p>>,
    config: &'a Config,
    network: &'a Network,
    plan: Plan,
    chunks: &'a [RwLock<Chunk>],
    gradient: &'a mut [f32],
    stretches: &'a [Stretch],
    moments: &'a [Mutex<Moments>],
    group: &'a dyn Group,
    timer: &'a mut PhaseTimer,
    state: &'a mut LearnerState,
    /// Samples of this process whose gradient was computed.
    samples: usize,
}

impl Learning<'_> {
    /// The update's number, from 0.
    pub fn number(&self) -> u64 {
        self.plan.update
    }

    /// Merges returns into their statistics, and gives the value layer the parameters with which values are what they were (PopArt; van
    /// Hasselt et al. 2016). Returns the `(shift, scale)` of returns in the network's units.
    pub fn add_returns(&mut self, returns: &Moments) -> (f32, f32) {
        let LearnerState { params, value_norm: norm, .. } = &mut *self.state;
        let mut values = self.network.with_values(params, norm).into_owned();
        if norm.mean.is_empty() {
            *norm = RunningNorm::new(1);
        }
        // One return that is no number would spoil the statistics of all later ones.
        if returns.variance().is_finite() {
            norm.merge(&[NormSums::of(&returns.numbers())]);
        }
        self.network.set_units(&mut values, norm);
        *params = values;
        norm.shift_scale()[0]
    }

    /// The learning rate as this update begins.
    pub fn learning_rate(&self) -> f64 {
        self.config.learning_rate_in(self.plan.update, self.state.rate)
    }

    /// One pass over the samples with the loss that `loss` makes for a minibatch of a size; its first sum is reported as the policy's loss.
    ///
    /// # Errors
    /// When a process is lost.
    pub fn pass(&mut self, loss: &dyn Fn(usize) -> Box<dyn Loss>) -> Result<UpdateStats, LearnError> {
        let learning_rate = self.learning_rate();
        let (mut nonfinite, mut means) = (0, Means::default());
        self.epochs(&mut |minibatches| {
            for minibatch in 0..minibatches.count() {
                let size = minibatches.size(minibatch);
                let (sums, norm) = minibatches.gradient(0, minibatch, loss(size))?;
                if norm.is_finite() && sums[0].is_finite() {
                    minibatches.step(norm, learning_rate);
                    means.add(sums, size, norm);
                } else {
                    minibatches.skip();
                    nonfinite += 1;
                }
            }
            Ok(())
        })?;
        let policy_loss = means.measured(learning_rate).losses[0];
        let metrics = Record { policy_loss, learning_rate, ..Record::default() };
        Ok(UpdateStats { epochs: 1, nonfinite, metrics, ..UpdateStats::default() })
    }

    /// Runs `epochs` with threads that wait for the work of each minibatch.
    ///
    /// # Errors
    /// Those of `epochs`.
    pub fn epochs(
        &mut self,
        epochs: &mut dyn FnMut(&mut Minibatches<'_, '_>) -> Result<(), LearnError>,
    ) -> Result<(), LearnError> {
        let Self { config, network, plan, workers, chunks, stretches, moments, group, .. } = *self;
        let threads = rayon::current_num_threads();
        let work = |round: &Round<'_>, item: usize| {
            let mut worker = lock(&workers[rayon::current_thread_index().unwrap_or(threads)]);
            match &round.task {
                Task::None => {}
                Task::Moments { epoch, field } => {
                    let (minibatch, block) = (item / plan.blocks.own, item % plan.blocks.own);
                    let (first, end) = plan.bounds(minibatch);
                    worker.timer.start();
                    let order = plan.order(config, *epoch, block, &round.drawn);
                    *lock(&moments[item]) = moments_of(round.batch, *field, &order, first, end);
                    worker.timer.end(Part::Statistics);
                }
                Task::Gradient { minibatch, epoch, loss, chunks: parts } => {
                    let (block, part) = (item / parts, item % parts);
                    let (first, end) = plan.bounds(*minibatch);
                    let (batch, loss) = (&*round.batch, &**loss);
                    // What has no gradient visits every sample, and without noise.
                    let (drawn, noise) = match loss.has_gradient() {
                        true => {
                            let number = plan.blocks.block(block).number;
                            (&round.drawn[..], MeanNoise::new(config, plan.update, *epoch, number))
                        }
                        false => (&[][..], None),
                    };
                    let order = plan.order(config, *epoch, block, drawn);
                    let minibatch = Minibatch { batch, order, first, size: end - first, noise, loss };
                    let mut chunk = chunks[item].write().unwrap_or_else(PoisonError::into_inner);
                    let tiles = plan.units.count(minibatch.size);
                    let range = part * tiles / parts..(part + 1) * tiles / parts;
                    let Chunk { gradient, sums } = &mut *chunk;
                    *sums = worker.chunk(round.policy, &minibatch, range, gradient);
                }
            }
        };
        let minibatch = self.batch.len() / plan.count;
        let small = minibatch <= AWAKE_SAMPLES && network.len() <= AWAKE_PARAMS;
        let is_tried = small && minibatch <= TRIED_SAMPLES && threads > 1;
        let together = !is_tried || self.balance.together();
        let waiting = together.then_some(if small { self.waiting } else { WaitStrategy::Sleep });
        let start = Instant::now();
        let first =
            Round { policy: &mut *self.policy, batch: &mut *self.batch, drawn: Vec::new(), task: Task::None };
        let (gradient, timer, state) = (&mut *self.gradient, &mut *self.timer, &mut *self.state);
        let samples = team::lead(waiting, first, &work, |team| {
            let mut minibatches = Minibatches {
                team,
                config,
                network,
                plan,
                chunks,
                gradient,
                stretches,
                moments,
                group,
                timer,
                state,
                samples: 0,
            };
            epochs(&mut minibatches).map(|()| minibatches.samples)
        })?;
        if is_tried {
            self.balance.record(together, samples, start.elapsed());
        }
        Ok(())
    }

    /// Moments of each block of environments, those of other processes too, merged in their order; `of_samples` computes them for samples
    /// `first .. end`.
    ///
    /// # Errors
    /// When a process is lost.
    pub fn moments_of_blocks<const K: usize>(
        &mut self,
        of_samples: fn(&Batch, usize, usize) -> [Moments; K],
    ) -> Result<[Moments; K], LearnError> {
        self.timer.start();
        let (blocks, samples) = (self.plan.blocks, self.plan.blocks.sequences * self.plan.length);
        let of_block = |block: usize| of_samples(self.batch, block * samples, (block + 1) * samples);
        let own = (0..blocks.own).flat_map(of_block).map(|moments| moments.numbers()).collect::<Vec<_>>();
        let all: Vec<Moments> = gathered(self.group, &own)?.into_iter().map(Moments::of).collect();
        let whole = Moments::merged(all.as_chunks().0.iter().copied());
        self.timer.end_on(Part::Statistics, rayon::current_num_threads());
        Ok(whole)
    }
}

impl Minibatches<'_, '_> {
    /// How many an epoch has.
    pub fn count(&self) -> usize {
        self.plan.count
    }

    /// M: samples of a minibatch, those of other processes included.
    pub fn size(&self, minibatch: usize) -> usize {
        let (first, end) = self.plan.bounds(minibatch);
        (end - first) * self.plan.blocks.all()
    }

    /// Moments of a field (a word of [`SampleLayout`]) of each minibatch of an epoch.
    ///
    /// # Errors
    /// When a process is lost.
    pub fn moments(&self, epoch: usize, field: usize) -> Result<Vec<Moments>, LearnError> {
        let blocks = self.plan.blocks;
        let items = self.plan.count * blocks.own;
        self.team.round(items, |round| round.task = Task::Moments { epoch, field });
        let own: Vec<[f64; 3]> = self.moments[..items].iter().map(|it| lock(it).numbers()).collect();
        let all = gathered(self.group, &own)?;
        let of_minibatch = |minibatch: usize| {
            let of_rank = |rank: usize| {
                let first = rank * items + minibatch * blocks.own;
                all[first..first + blocks.own].iter().map(|numbers| [Moments::of(*numbers)])
            };
            let [whole] = Moments::merged((0..blocks.processes).flat_map(of_rank));
            whole
        };
        Ok((0..self.plan.count).map(of_minibatch).collect())
    }

    /// Computes the gradient of a minibatch of an epoch. Returns the sums of its loss, and the gradient's norm. A step along it
    /// ([`Minibatches::step`]) or none ([`Minibatches::skip`]) follows.
    ///
    /// # Errors
    /// When a process is lost.
    pub fn gradient(
        &mut self,
        epoch: usize,
        minibatch: usize,
        loss: Box<dyn Loss>,
    ) -> Result<(Sums, f64), LearnError> {
        let chunks = self.chunks_of_block(minibatch);
        let Self { plan, group, .. } = *self;
        let Self { timer, state, gradient, .. } = self;
        let (first, end) = plan.bounds(minibatch);
        let blocks = plan.blocks;
        self.samples += (end - first) * blocks.own;
        self.team.round(chunks * blocks.own, |round| {
            timer.start();
            round.policy.pack_for_update(&state.params);
            timer.end(Part::Packing);
            round.task = Task::Gradient { minibatch, epoch, loss, chunks };
        });
        timer.start();
        let own = &self.chunks[..chunks * blocks.own];
        let sums = match blocks.all() {
            1 => add_chunks(own, 0, gradient),
            _ => add_blocks(own, chunks, gradient, group)?,
        };
        let threads = if adds_in_parallel(own.len(), gradient) { rayon::current_num_threads() } else { 1 };
        timer.end_on(Part::Reduction, threads);
        Ok((sums, adam::norm(gradient)))
    }

    /// Chunks of each block's share of a minibatch.
    fn chunks_of_block(&self, minibatch: usize) -> usize {
        let (first, end) = self.plan.bounds(minibatch);
        let most = chunks_of_block(self.config, self.network, self.size(minibatch));
        most.min(self.plan.units.count(end - first))
    }

    /// The learning rate after a minibatch of divergence `kl`, with which its step is taken.
    pub fn rate_after(&mut self, rate: f64, kl: f64) -> f64 {
        let adapted = self.config.rate_after(rate, kl);
        self.state.rate = adapted;
        adapted.unwrap_or(rate)
    }

    /// One step of Adam along the gradient, whose norm this is.
    pub fn step(&mut self, norm: f64, learning_rate: f64) {
        adam::step(self.state, self.gradient, norm, learning_rate, self.config, self.stretches);
        self.end();
    }

    /// A step of a separate critic alone: the other parameters and their moments stay. The gradient is the critic's.
    pub fn step_of_critic(&mut self, norm: f64, learning_rate: f64) {
        let before = self.state.clone();
        self.step(norm, learning_rate);
        let critic = self.network.value_params().unwrap_or_default();
        let LearnerState { params, exp_avg, exp_avg_sq, .. } = &mut *self.state;
        let all = [(params, before.params), (exp_avg, before.exp_avg), (exp_avg_sq, before.exp_avg_sq)];
        for (to, from) in all {
            to[..critic.start].copy_from_slice(&from[..critic.start]);
            to[critic.end..].copy_from_slice(&from[critic.end..]);
        }
    }

    /// Takes no step for a minibatch.
    pub fn skip(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        let threads = if adam::is_parallel(self.gradient) { rayon::current_num_threads() } else { 1 };
        self.timer.end_on(Part::Adam, threads);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
