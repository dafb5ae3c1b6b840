//! Minibatches of transitions: two critics learn the values of actions, and a policy learns to choose those of high value.
//!
//! A minibatch is split into tiles of 64 samples, and those into chunks, whose number depends only on the size. Workers take chunks, and the
//! chunks' gradients are added along a fixed tree, so the result is the same for any number of threads.

use core::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use operant_lane::isa::f32x16;
use operant_lane::{Draws, Float, Lane, Mask, Packed, Purpose, Wide};
use rayon::prelude::*;

use super::replay::{ReplayLayout, Sampling, Transitions};
use super::sequences::{self, Rows};
use crate::LearnerState;
use crate::algorithms::Rules;
use crate::config::Config;
use crate::cpu::network::gradient::{Forwarded, Gradient};
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::{Activations, Observation, Policy};
use crate::cpu::network::tile::{LANES, Row, TILE, TILE_VECTORS, first_lanes, fma, row_sum, splat};
use crate::cpu::threads::timers::{Part, PartTimes, PhaseTimer};
use crate::cpu::update::adam;
use crate::cpu::update::{Chunk, Means, SUMS, Sums, add_chunks, added, adds_in_parallel};
use crate::layers::bins::cpu::{cross_entropy, project, softmax};
use crate::network::Network;

/// A row of a tile.
pub(crate) type TileRow = Row<TILE_VECTORS>;

/// Fewest tiles of a chunk.
const CHUNK_TILES: usize = 2;
/// Most chunks of a minibatch.
const MOST_CHUNKS: usize = 32;

/// What an algorithm decides about the actions of a policy with two critics.
pub(crate) trait ActorCritic: Sync {
    /// Whether the actions after a step are those of the target policy.
    fn has_target_policy(&self) -> bool;

    /// Whether the policy learns from the smaller of both critics' values, and not from the first one's.
    fn takes_least(&self) -> bool;

    /// Whether targets follow only after the minibatches that the policy learns from too.
    fn targets_wait_for_policy(&self) -> bool;

    /// The actions after a step, and what is added to their values.
    fn next_actions(&self, policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow;

    /// The actions whose values the policy raises, and their log-probabilities.
    fn actions(&self, policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow;

    /// The gradient of the policy's loss with respect to its outputs, where `by_action` is that of the critics' part. `weight` is the weight
    /// of each sample.
    fn gradient(
        &self,
        policy: PolicyTile<'_>,
        actions: &[TileRow],
        by_action: &[TileRow],
        weight: &TileRow,
        d_outputs: &mut [TileRow],
    );

    /// The gradient of the logarithm of the temperature, from the mean log-probability of `actions` components; None if it is fixed.
    fn by_log_alpha(&self, config: &Config, actions: usize, logprob: f64) -> Option<f64>;
}

/// What a policy computed for a tile.
#[derive(Clone, Copy)]
pub(crate) struct PolicyTile<'a> {
    pub config: &'a Config,
    /// Weight of the entropy.
    pub alpha: f32,
    pub outputs: &'a [TileRow],
    /// `[component]`: independent standard normals.
    pub normals: &'a [TileRow],
}

/// The sums of a minibatch's losses, by their places.
pub(crate) mod sums {
    /// Squared errors or cross-entropies, the mean over both critics.
    pub const SQUARES: usize = 0;
    /// Values of the actions taken, of the first critic.
    pub const VALUES: usize = 1;
    /// The policy's loss.
    pub const POLICY: usize = 2;
    /// Log-probabilities of the policy's actions.
    pub const LOGPROBS: usize = 3;
    /// Those of minibatches that train the policy.
    pub const OF_POLICY: core::ops::Range<usize> = POLICY..LOGPROBS + 1;
}

/// The learner and all it needs, allocated once.
#[derive(Debug)]
pub(crate) struct ReplayLearner {
    config: Config,
    network: Network,
    policy: Policy,
    target: Policy,
    workers: Vec<Mutex<Worker>>,
    units: Units,
    /// `[chunk]`: its tiles.
    tiles: Vec<Mutex<Vec<Transitions>>>,
    chunks: Vec<RwLock<Chunk>>,
    gradient: Vec<f32>,
    /// Whether the packed weights are those of the state.
    is_packed: bool,
    pulse: Arc<AtomicU64>,
    /// The phase timer of the leading thread.
    pub timer: PhaseTimer,
}

/// The networks that a pass over a minibatch trains.
#[derive(Clone, Copy)]
enum Pass {
    Critics(&'static dyn ActorCritic),
    Actor(&'static dyn ActorCritic),
    Values,
}

impl Pass {
    fn chains(self) -> Range<usize> {
        match self {
            Self::Critics(_) => 1..3,
            Self::Actor(_) | Self::Values => 0..1,
        }
    }

    /// The first layer whose inputs need a gradient: that of critics is of actions.
    fn back(self) -> usize {
        usize::from(matches!(self, Self::Values))
    }
}

/// What a minibatch reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Learned {
    /// Of the losses, over the samples.
    pub sums: Sums,
    /// Norm of the critics' gradient.
    pub norm: f64,
    /// Whether every step was taken.
    pub is_finite: bool,
    /// Whether the policy was trained.
    pub trains_policy: bool,
}

impl Learned {
    /// Adds a minibatch of `size` samples to means.
    pub fn add_to(&self, means: &mut Means, size: usize) {
        means.add(self.sums, size, self.norm);
        if !self.trains_policy {
            means.had_none(sums::OF_POLICY);
        }
    }
}

impl ReplayLearner {
    pub fn new(network: &Network, layout: &ReplayLayout, config: &Config, pulse: Arc<AtomicU64>) -> Self {
        let units = Units::of(network, config);
        let of_chunk = if network.states > 0 { 1 } else { CHUNK_TILES };
        let chunks = units.count.div_ceil(of_chunk).min(MOST_CHUNKS);
        let of_chunk = |k: usize| units_of(units.count, chunks, k).len() * units.tiles;
        let transitions = Transitions::new(&network.architecture, layout);
        Self {
            policy: Policy::new(network),
            target: Policy::new(network),
            workers: Vec::new(),
            units,
            tiles: (0..chunks).map(|k| Mutex::new(vec![transitions.clone(); of_chunk(k)])).collect(),
            chunks: (0..chunks).map(|_| RwLock::new(Chunk::new(network.len()))).collect(),
            gradient: vec![0.0; network.len()],
            is_packed: false,
            pulse,
            timer: PhaseTimer::default(),
            network: network.clone(),
            config: config.clone(),
        }
    }

    /// The state was replaced.
    pub fn forget(&mut self) {
        self.is_packed = false;
    }

    /// Switches phase timers on or off.
    pub fn time_parts(&mut self, on: bool) {
        self.timer.switch(on);
        self.workers.iter().for_each(|worker| lock(worker).timer.switch(on));
    }

    /// Adds the times since the last call to `times`.
    pub fn drain_times(&mut self, times: &mut PartTimes) {
        self.timer.drain(times);
        self.workers.iter().for_each(|worker| lock(worker).timer.drain(times));
    }

    /// Learns from one minibatch, on the current rayon pool, with this learning rate.
    pub fn learn(
        &mut self,
        rules: Rules,
        state: &mut LearnerState,
        sampling: Sampling<'_>,
        rate: f64,
    ) -> Learned {
        while self.workers.len() <= rayon::current_num_threads() {
            let timer = self.timer.like();
            self.workers.push(Mutex::new(Worker { timer, ..Worker::new(&self.network, self.units) }));
        }
        let of_values = match rules {
            Rules::ActorCritic(rules) => Pass::Critics(rules),
            Rules::ActionValues => Pass::Values,
        };
        if !self.is_packed {
            let chains = 0..self.network.chains.len();
            self.policy.pack_chains(chains, &state.params, of_values.back());
            self.target.pack_chains(self.of_target(rules), &state.targets, usize::MAX);
            self.is_packed = true;
        }
        let (number, delay) = (state.step, self.config.policy_frequency as u64);
        state.step += 1;
        let (mut sums, norm) = self.pass(of_values, state, sampling);
        let mut is_finite = norm.is_finite() && sums[self::sums::SQUARES].is_finite();
        if is_finite {
            let rate = self.config.value_rate(rate);
            self.step(of_values, state, (norm, rate), number + 1);
        }
        let of_policy = match rules {
            Rules::ActorCritic(rules) => Some(rules).filter(|_| is_finite && number.is_multiple_of(delay)),
            Rules::ActionValues => None,
        };
        if let Some(rules) = of_policy {
            let (of_actor, norm) = self.pass(Pass::Actor(rules), state, sampling);
            sums = added(sums, of_actor);
            is_finite = norm.is_finite() && sums[self::sums::POLICY].is_finite();
            if is_finite {
                self.step(Pass::Actor(rules), state, (norm, rate), number / delay + 1);
                let logprob = sums[self::sums::LOGPROBS] / self.config.batch_size as f64;
                let components = self.network.architecture.head.components();
                let by_log_alpha = rules.by_log_alpha(&self.config, components, logprob);
                if let (Some(by), Some(at)) = (by_log_alpha, self.network.log_alpha) {
                    self.gradient[at] = by as f32;
                    let steps = number / delay + 1;
                    self.timer.start();
                    adam::step_of(state, at..at + 1, &self.gradient, (by.abs(), rate), steps, &self.config);
                    self.timer.end(Part::Adam);
                }
            }
        }
        let due = match rules {
            Rules::ActorCritic(rules) if rules.targets_wait_for_policy() => {
                of_policy.map(|_| number / delay + 1)
            }
            _ => Some(number + 1),
        };
        let frequency = self.config.target_network_frequency as u64;
        if due.is_some_and(|due| due.is_multiple_of(frequency)) {
            let targets = self.of_target(rules);
            self.timer.start();
            follow(state, self.params_of(targets.clone()), self.config.tau);
            self.timer.end(Part::Adam);
            self.target.pack_chains(targets, &state.targets, usize::MAX);
            self.timer.end(Part::Packing);
        }
        Learned { sums, norm, is_finite, trains_policy: of_policy.is_some() }
    }

    /// |errors| of the values of the last minibatch's samples or sequences, in their order.
    pub fn errors(&mut self) -> impl Iterator<Item = f32> {
        let Units { tiles, samples, .. } = self.units;
        let chunks =
            self.tiles.iter_mut().map(|tiles| tiles.get_mut().unwrap_or_else(PoisonError::into_inner));
        let units = chunks.flat_map(move |chunk| chunk.iter().step_by(tiles));
        let rows = units.flat_map(move |tile| &tile.errors[..samples / LANES]);
        rows.flat_map(|row| row.to_array()).take(self.config.batch_size)
    }

    /// Chains that have a target.
    fn of_target(&self, rules: Rules) -> Range<usize> {
        match rules {
            Rules::ActorCritic(rules) => usize::from(!rules.has_target_policy())..3,
            Rules::ActionValues => 0..1,
        }
    }

    /// The parameters of neighbouring chains.
    fn params_of(&self, chains: Range<usize>) -> Range<usize> {
        self.network.params_of(chains)
    }

    /// The gradient of a minibatch, its sums and its norm.
    fn pass(&mut self, pass: Pass, state: &LearnerState, sampling: Sampling<'_>) -> (Sums, f64) {
        let alpha = self.network.log_alpha.map_or(0.0, |at| Float::exp(state.params[at]));
        let Self { config, policy, target, workers, tiles, chunks, .. } = &*self;
        let (threads, all) = (rayon::current_num_threads(), self.units.count);
        let work = Minibatch { config, policy, target, alpha, sampling, pulse: &self.pulse };
        let chunk = |k: usize| {
            let mut worker = lock(&workers[rayon::current_thread_index().unwrap_or(threads)]);
            let mut chunk = chunks[k].write().unwrap_or_else(PoisonError::into_inner);
            let Chunk { gradient, sums } = &mut *chunk;
            let first = units_of(all, chunks.len(), k).start;
            *sums = worker.chunk(pass, &work, first, &mut lock(&tiles[k]), gradient);
        };
        if threads == 1 || chunks.len() == 1 {
            (0..chunks.len()).for_each(chunk);
        } else {
            (0..chunks.len()).into_par_iter().with_max_len(1).for_each(chunk);
        }
        let range = self.params_of(pass.chains());
        self.timer.start();
        let gradient = &mut self.gradient[range.clone()];
        let sums = add_chunks(&self.chunks, range.start, gradient);
        let on = |is_parallel: bool| if is_parallel { threads } else { 1 };
        self.timer.end_on(Part::Reduction, on(adds_in_parallel(self.chunks.len(), gradient)));
        let norm = adam::norm(gradient);
        self.timer.end_on(Part::Adam, on(adam::is_parallel(gradient)));
        (sums, norm)
    }

    /// A step of the networks of a pass along their gradient.
    fn step(&mut self, pass: Pass, state: &mut LearnerState, along: (f64, f64), steps: u64) {
        let range = self.params_of(pass.chains());
        self.timer.start();
        adam::decay(&mut state.params[range.clone()], along.1, &self.config);
        adam::step_of(state, range, &self.gradient, along, steps, &self.config);
        self.timer.end(Part::Adam);
        self.policy.pack_chains(pass.chains(), &state.params, pass.back());
        self.timer.end(Part::Packing);
    }
}

/// The targets go a share `tau` of the way to the parameters.
fn follow(state: &mut LearnerState, range: Range<usize>, tau: f64) {
    let tau = tau as f32;
    let LearnerState { params, targets, .. } = state;
    for (target, param) in targets[range.clone()].iter_mut().zip(&params[range]) {
        *target = (*param - *target).mul_add(tau, *target);
    }
}

/// The parts of a minibatch: tiles of samples, or with memory groups of sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    pub count: usize,
    /// Tiles of each.
    pub tiles: usize,
    /// Samples or sequences of each, at most.
    samples: usize,
}

impl Units {
    pub fn of(network: &Network, config: &Config) -> Self {
        match network.states {
            0 => Self { count: config.batch_size.div_ceil(TILE), tiles: 1, samples: TILE },
            _ => Self {
                count: sequences::count(config).div_ceil(LANES),
                tiles: sequences::tiles(config),
                samples: LANES,
            },
        }
    }
}

/// The units of chunk `k`.
fn units_of(units: usize, chunks: usize, k: usize) -> Range<usize> {
    k * units / chunks..(k + 1) * units / chunks
}

/// A pass over a minibatch.
pub(super) struct Minibatch<'a> {
    pub config: &'a Config,
    pub policy: &'a Policy,
    pub target: &'a Policy,
    alpha: f32,
    pub sampling: Sampling<'a>,
    pulse: &'a AtomicU64,
}

impl Minibatch<'_> {
    /// Weight of each sample of a tile, 0 for padding.
    pub fn weights(&self, tile: usize) -> TileRow {
        let bits = first_lanes::<TILE_VECTORS>(self.config.batch_size - tile * TILE);
        bits.map(|bits| Wide::<LANES>::from_bits(u32::from(bits)).select(f32x16::ONE, f32x16::ZERO))
    }

    /// Vectors of a tile that contain samples.
    pub fn vectors(&self, tile: usize) -> usize {
        self.policy.vectors(self.config.batch_size - tile * TILE)
    }

    fn tile<'a>(&'a self, outputs: &'a [TileRow], normals: &'a [TileRow]) -> PolicyTile<'a> {
        PolicyTile { config: self.config, alpha: self.alpha, outputs, normals }
    }
}

impl Sampling<'_> {
    /// Standard normals for the actions of a tile: a function of the seed, the minibatch, the sample and `turn`.
    pub fn normals(&self, tile: usize, turn: u32, normals: &mut [TileRow]) {
        let word = <Wide<LANES> as Lane>::Uint::splat;
        let (seed, number) = (self.config.seed, self.number);
        let [seed, number] = [seed, number].map(|x| [word(x as u32), word((x >> 32) as u32)]);
        // Far more blocks than actions need.
        let tag = word((Purpose::UpdateAction as u32) << 24 | turn << 20);
        for v in 0..TILE_VECTORS {
            let positions: [u32; LANES] = core::array::from_fn(|l| (tile * TILE + v * LANES + l) as u32);
            let positions = Wide::<LANES>::load_uint(&positions);
            let mut draws = Draws::<Wide<LANES>>::tagged(seed, positions, number, tag);
            normals.iter_mut().for_each(|row| row[v] = draws.normal());
        }
    }
}

/// The scratch space of one thread.
#[derive(Debug)]
pub(super) struct Worker {
    pub values: Activations<TILE_VECTORS>,
    pub of_target: Activations<TILE_VECTORS>,
    pub deltas: Activations<TILE_VECTORS>,
    pub gradient: Gradient,
    pub head: PolicyHead<TILE_VECTORS>,
    /// `[value]`: distributions of what follows a step, of a target, and of the action taken; without distributions the first has a value.
    pub shares: [Vec<TileRow>; 3],
    /// `[tile]` of the rows of sequences.
    pub rows: Vec<Rows>,
    /// State of the layers with memory of 16 sequences, of the trained network and of the target.
    pub states: [Vec<Row<1>>; 2],
    /// `[component]`.
    normals: Vec<TileRow>,
    /// `[component]`: the gradient of a policy's actions.
    by_action: Vec<TileRow>,
    /// `[input]` of a critic.
    d_inputs: Vec<TileRow>,
    pub(super) timer: PhaseTimer,
}

impl Worker {
    fn new(network: &Network, units: Units) -> Self {
        let tiles = if network.states > 0 { units.tiles } else { 0 };
        let (features, actions) =
            (network.architecture.input.features(), network.architecture.head.components());
        Self {
            values: Activations::new(network),
            of_target: Activations::new(network),
            deltas: Activations::new(network),
            gradient: Gradient::new(network),
            head: PolicyHead::of(&network.architecture),
            shares: [0; 3].map(|_| vec![splat(0.0); network.architecture.bins.map_or(1, |bins| bins.count)]),
            rows: (0..tiles).map(|_| Rows::new(network)).collect(),
            states: [0; 2].map(|_| vec![splat(0.0); network.states]),
            normals: vec![splat(0.0); actions],
            by_action: vec![splat(0.0); actions],
            d_inputs: vec![splat(0.0); features + actions],
            timer: PhaseTimer::default(),
        }
    }

    /// The sums of a chunk's losses, and its gradient into `flat`.
    fn chunk(
        &mut self,
        pass: Pass,
        work: &Minibatch<'_>,
        first: usize,
        tiles: &mut [Transitions],
        flat: &mut [f32],
    ) -> Sums {
        self.timer.start();
        self.gradient.clear_chains(pass.chains());
        self.timer.end(Part::Reduction);
        let mut sums = [0.0; SUMS];
        if !self.rows.is_empty() {
            for (group, tiles) in (first..).zip(tiles.chunks_mut(self.rows.len())) {
                work.pulse.fetch_add(1, Ordering::Relaxed);
                sums = added(sums, self.sequences(work, group, tiles));
            }
            self.gradient.finish_chains(work.policy, pass.chains(), flat);
            self.timer.end(Part::Reduction);
            return sums;
        }
        for (tile, transitions) in (first..).zip(tiles) {
            work.pulse.fetch_add(1, Ordering::Relaxed);
            let of_tile = match pass {
                Pass::Critics(rules) => {
                    transitions.gather(work.sampling, tile);
                    self.timer.end(Part::Gather);
                    self.critics(work, rules, tile, transitions)
                }
                Pass::Actor(rules) => self.actor(work, rules, tile, transitions),
                Pass::Values => {
                    transitions.gather(work.sampling, tile);
                    self.timer.end(Part::Gather);
                    self.values(work, tile, transitions)
                }
            };
            sums = added(sums, of_tile);
        }
        self.gradient.finish_chains(work.policy, pass.chains(), flat);
        self.timer.end(Part::Reduction);
        sums
    }

    /// The critics' errors of the values of the actions taken.
    fn critics(
        &mut self,
        work: &Minibatch<'_>,
        rules: &dyn ActorCritic,
        tile: usize,
        transitions: &mut Transitions,
    ) -> Sums {
        let Transitions { features, reward, discount, inputs: [now, next], weight: made_up, errors, .. } =
            transitions;
        let Self {
            values, of_target, deltas, gradient, normals, shares: [next_shares, moved, _], timer, ..
        } = self;
        let vectors = work.vectors(tile);
        let (next_obs, next_actions) = next.split_at_mut(*features);
        let acting = if rules.has_target_policy() { work.target } else { work.policy };
        acting.chain(0, Observation::Dense(next_obs), vectors, of_target);
        timer.end(Part::Forward);
        work.sampling.normals(tile, 0, normals);
        let bonus = rules.next_actions(work.tile(of_target.last(0), normals), next_actions);
        timer.end(Part::Loss);
        (1..3).for_each(|k| work.target.chain(k, Observation::Dense(next), vectors, of_target));
        timer.end(Part::Forward);
        let [a, b] = [1, 2].map(|k| of_target.last(k)[0]);
        let target: TileRow =
            core::array::from_fn(|v| fma(discount[v], Float::min(a[v], b[v]) + bonus[v], reward[v]));
        let bins = work.policy.network().architecture.bins;
        if let Some(bins) = bins {
            let logits = of_target.before_last(1).iter().zip(of_target.before_last(2));
            for (to, (of_a, of_b)) in next_shares.iter_mut().zip(logits) {
                *to = core::array::from_fn(|v| Float::le(a[v], b[v]).select(of_a[v], of_b[v]));
            }
            softmax(next_shares, |_| splat(0.0));
            let reward = core::array::from_fn(|v| fma(discount[v], bonus[v], reward[v]));
            project(bins, next_shares, [&reward, discount], moved);
        }
        let weight = work.weights(tile);
        let scale = f32x16::splat(1.0 / work.config.batch_size as f32);
        let mut sums = [0.0; SUMS];
        *errors = splat(0.0);
        for k in 1..3 {
            timer.end(Part::Loss);
            work.policy.chain(k, Observation::Dense(now), vectors, values);
            timer.end(Part::Forward);
            let value = values.last(k)[0];
            let scaled: TileRow = core::array::from_fn(|v| weight[v] * made_up[v] * scale);
            let (error, losses): (TileRow, TileRow) = if bins.is_some() {
                let logits = deltas.before_last_mut(k);
                logits.copy_from_slice(values.before_last(k));
                let loss = cross_entropy(logits, |k| moved[k], &scaled);
                (loss, loss)
            } else {
                let error: TileRow = core::array::from_fn(|v| value[v] - target[v]);
                deltas.last_mut(k)[0] = core::array::from_fn(|v| error[v] * scaled[v]);
                (error.map(Float::abs), error.map(|error| error * error))
            };
            *errors = core::array::from_fn(|v| errors[v] + error[v] * f32x16::splat(0.5));
            let observation = Observation::Dense(&now[..]);
            timer.end(Part::Loss);
            gradient.add_chain(work.policy, k, without_memory(observation, vectors, values), deltas, None);
            timer.end(Part::Backward);
            let losses = core::array::from_fn(|v| weight[v] * losses[v]);
            sums[self::sums::SQUARES] += 0.5 * row_sum::<TILE_VECTORS>(&losses);
            if k == 1 {
                let values = core::array::from_fn(|v| weight[v] * value[v]);
                sums[self::sums::VALUES] = row_sum::<TILE_VECTORS>(&values);
            }
        }
        timer.end(Part::Loss);
        sums
    }

    /// The policy's loss: its actions take the place of those of the samples.
    fn actor(
        &mut self,
        work: &Minibatch<'_>,
        rules: &dyn ActorCritic,
        tile: usize,
        transitions: &mut Transitions,
    ) -> Sums {
        let Transitions { features, inputs: [now, _], .. } = transitions;
        let Self { values, deltas, gradient, normals, by_action, d_inputs, timer, .. } = self;
        let vectors = work.vectors(tile);
        let (obs, actions) = now.split_at_mut(*features);
        work.policy.chain(0, Observation::Dense(obs), vectors, values);
        timer.end(Part::Forward);
        work.sampling.normals(tile, 1, normals);
        let logprob = rules.actions(work.tile(values.last(0), normals), actions);
        timer.end(Part::Loss);
        let critics = if rules.takes_least() { 1..3 } else { 1..2 };
        critics.clone().for_each(|k| work.policy.chain(k, Observation::Dense(now), vectors, values));
        timer.end(Part::Forward);
        let (a, b) = (values.last(1)[0], values.last(critics.end - 1)[0]);
        let weight = work.weights(tile);
        let scale = f32x16::splat(1.0 / work.config.batch_size as f32);
        by_action.fill(splat(0.0));
        for k in critics {
            deltas.last_mut(k)[0] = core::array::from_fn(|v| {
                let is_first = Float::le(a[v], b[v]);
                let share = if k == 1 { [f32x16::ONE, f32x16::ZERO] } else { [f32x16::ZERO, f32x16::ONE] };
                -(is_first.select(share[0], share[1]) * weight[v] * scale)
            });
            let observation = Observation::Dense(&now[..]);
            let to = Some(&mut d_inputs[..]);
            timer.end(Part::Loss);
            gradient.add_chain(work.policy, k, without_memory(observation, vectors, values), deltas, to);
            timer.end(Part::Backward);
            for (by, of_critic) in by_action.iter_mut().zip(&d_inputs[*features..]) {
                (0..TILE_VECTORS).for_each(|v| by[v] += of_critic[v]);
            }
        }
        let scaled: TileRow = core::array::from_fn(|v| weight[v] * scale);
        let (obs, actions) = now.split_at(*features);
        let policy = work.tile(values.last(0), normals);
        rules.gradient(policy, actions, by_action, &scaled, deltas.last_mut(0));
        let observation = Observation::Dense(obs);
        timer.end(Part::Loss);
        gradient.add_chain(work.policy, 0, without_memory(observation, vectors, values), deltas, None);
        timer.end(Part::Backward);
        let mut sums = [0.0; SUMS];
        let alpha = f32x16::splat(work.alpha);
        let loss = core::array::from_fn(|v| weight[v] * (alpha * logprob[v] - Float::min(a[v], b[v])));
        let logprobs = core::array::from_fn(|v| weight[v] * logprob[v]);
        sums[self::sums::POLICY] = row_sum::<TILE_VECTORS>(&loss);
        sums[self::sums::LOGPROBS] = row_sum::<TILE_VECTORS>(&logprobs);
        timer.end(Part::Loss);
        sums
    }
}

/// The forward pass of these vectors of a tile.
pub(super) fn without_memory<'a>(
    observation: Observation<'a, TILE_VECTORS>,
    vectors: usize,
    activations: &'a Activations<TILE_VECTORS>,
) -> Forwarded<'a> {
    Forwarded { observation, keep: &NO_ENDS, turns: None, vectors, activations }
}

/// No sample begins an episode.
const NO_ENDS: TileRow = [f32x16::ONE; TILE_VECTORS];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
