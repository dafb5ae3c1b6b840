//! Learning the values of choices with memory, from sequences of rows (docs/dqn.md).
//!
//! 16 sequences are side by side, and a tile has four rows of each. Networks go over all rows of a sequence once: its values after steps are
//! those of later rows.

use operant_lane::Float;
use operant_lane::isa::f32x16;

use super::learner::{Minibatch, TileRow, Worker};
use super::replay::{Drawn, End, Sampling, Start, Transitions};
use super::values::{Taken, after};
use crate::config::Config;
use crate::cpu::batch::integers;
use crate::cpu::network::gradient::Forwarded;
use crate::cpu::network::policy::Activations;
use crate::cpu::network::tile::{LANES, TILE, TILE_VECTORS, fma, splat};
use crate::cpu::rollout::observation;
use crate::cpu::threads::timers::Part;
use crate::cpu::update::{SUMS, Sums, added};
use crate::network::Network;

/// Share of the greatest error in the priority of a sequence; the rest is that of the mean.
const GREATEST: f32 = 0.9;

/// What networks make of a tile of rows.
#[derive(Debug)]
pub(super) struct Rows {
    activations: Activations<TILE_VECTORS>,
    /// The value after a step to each row, or its distribution.
    values: Vec<TileRow>,
}

impl Rows {
    pub fn new(network: &Network) -> Self {
        let values = vec![splat(0.0); network.architecture.bins.map_or(1, |bins| bins.count)];
        Self { activations: Activations::of_sequence(network), values }
    }
}

/// Tiles of the rows of 16 sequences.
pub(super) fn tiles(config: &Config) -> usize {
    config.sequence_rows().div_ceil(TILE_VECTORS)
}

/// Sequences of a minibatch.
pub(super) fn count(config: &Config) -> usize {
    config.batch_size / config.sequence()
}

impl Sampling<'_> {
    /// The start of a sequence.
    fn start(&self, position: usize) -> Start {
        let Self { config, replay, number, .. } = self;
        match self.chosen.get(position) {
            Some((drawn, _)) => replay.start(drawn.rows[0]),
            None => replay.draw_start(config.seed, *number, position as u32, config.learned_rows()),
        }
    }

    /// The starts of the sequences of a group, and how many there are; the others repeat the last one.
    pub(super) fn starts(&self, group: usize) -> ([Start; LANES], usize) {
        let (first, count) = (group * LANES, count(self.config));
        let starts = core::array::from_fn(|l| self.start((first + l).min(count - 1)));
        (starts, LANES.min(count - first))
    }
}

impl Transitions {
    /// Gathers tile `k` of the rows of the first `count` sequences of a group. Rows after the newest repeat it.
    pub(super) fn gather_rows(
        &mut self,
        of: Sampling<'_>,
        group: usize,
        starts: ([Start; LANES], usize),
        k: usize,
    ) {
        let Sampling { config, replay, chosen, .. } = of;
        let Config { burn_in, n_step, gamma, .. } = *config;
        let (starts, lanes) = starts;
        let [mut counts, mut keep] = [[0.0f32; TILE]; 2];
        for s in 0..TILE {
            let (step, Start { env, number }) = (k * TILE_VECTORS + s / LANES, starts[s % LANES]);
            let at = Start { env, number: (number + step as u64).min(replay.heads()[env]) };
            let row = replay.index(env, at.number);
            let begins = step > 0 && {
                let before = replay.end(replay.index(env, at.number - 1));
                before == End::Terminated as u32 || before == End::Final as u32
            };
            let is_learned = s % LANES < lanes && (burn_in..config.learned_rows()).contains(&step);
            let counted = is_learned && replay.is_step(row);
            let drawn = match counted {
                true => replay.from(at, n_step, gamma as f32),
                false => Drawn { rows: [row; 2], ..Drawn::default() },
            };
            let [first, next] = drawn.rows;
            (counts[s], keep[s]) = (f32::from(counted), f32::from(!begins));
            (self.ahead[s], self.drawn[s]) = ((next + replay.rows() - first) % replay.rows(), drawn);
        }
        let rows = |numbers: &[f32; TILE]| -> TileRow {
            core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| numbers[v * LANES + l])))
        };
        (self.counts, self.keep) = (rows(&counts), rows(&keep));
        if !chosen.is_empty() {
            let weight = |l: usize| chosen.get(group * LANES + l).map_or(0.0, |(_, weight)| *weight);
            self.weight = [f32x16::new(core::array::from_fn(weight)); TILE_VECTORS];
        }
        self.unpack(of, 0);
        let mask = replay.layout().mask;
        self.legal.iter_mut().zip(&self.words[0][mask..]).for_each(|(to, words)| *to = integers(words));
    }
}

impl Worker {
    /// The errors of the values of the actions taken in the sequences of a group.
    pub(super) fn sequences(
        &mut self,
        work: &Minibatch<'_>,
        group: usize,
        tiles: &mut [Transitions],
    ) -> Sums {
        let Self { rows, states, of_target, deltas, gradient, head, shares, timer, .. } = self;
        let Minibatch { config, policy, target, sampling, .. } = *work;
        let bins = policy.network().architecture.bins;
        let (starts, replay) = (sampling.starts(group), sampling.replay);
        let states_at = starts
            .0
            .map(|Start { env, number }| &replay.row(replay.index(env, number))[replay.layout().state..]);
        for (k, row) in states[0].iter_mut().enumerate() {
            *row = [f32x16::new(states_at.map(|state| f32::from_bits(state[k])))];
        }
        let [state, of_state] = states;
        of_state.copy_from_slice(state);
        for (k, (tile, rows)) in tiles.iter_mut().zip(&mut *rows).enumerate() {
            tile.gather_rows(sampling, group, starts, k);
            timer.end(Part::Gather);
            let (obs, scratch) = (observation(policy, tile.obs(0)), &mut deltas.scratch);
            policy.sequence(obs, state, (&tile.keep, None), scratch, &mut rows.activations);
            target.sequence(obs, of_state, (&tile.keep, None), scratch, of_target);
            let judge = if config.algorithms.dqn.double_q { &rows.activations } else { &*of_target };
            head.set_mask(&tile.legal);
            let actions = &mut tile.inputs[1][tile.features..];
            head.greedy(judge.policy(), actions);
            after(head, bins, of_target, actions, &mut rows.values);
            timer.end(Part::Forward);
        }
        gradient.begin_sequences();
        let (first, end) = (config.burn_in / TILE_VECTORS, config.learned_rows().div_ceil(TILE_VECTORS));
        // The state after the burn-in is a constant.
        tiles[first].keep[config.burn_in % TILE_VECTORS] = f32x16::ZERO;
        let (mut sums, [mut greatest, mut total, mut steps]) = ([0.0; SUMS], [f32x16::ZERO; 3]);
        for k in (first..end).rev() {
            let tile = &mut tiles[k];
            for (share, to) in shares[0].iter_mut().enumerate() {
                let value = |s: usize| {
                    let at = k * TILE + s + tile.ahead[s] * LANES;
                    rows[at / TILE].values[share][at % TILE / LANES].as_array()[s % LANES]
                };
                *to = core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| value(v * LANES + l))));
            }
            let (forward, taken) = (&rows[k].activations, Taken::of(tile, &tile.counts));
            let (of_tile, errors) = taken.errors(work, head, forward, deltas, shares);
            sums = added(sums, of_tile);
            for v in 0..TILE_VECTORS {
                let error = tile.counts[v] * errors[v];
                greatest = Float::max(greatest, error);
                (total, steps) = (total + error, steps + tile.counts[v]);
            }
            let observation = observation(policy, tile.obs(0));
            let forward = Forwarded {
                observation,
                keep: &tile.keep,
                turns: None,
                vectors: TILE_VECTORS,
                activations: forward,
            };
            timer.end(Part::Loss);
            gradient.add_chain(policy, 0, forward, deltas, None);
            timer.end(Part::Backward);
        }
        let mean = total / Float::max(steps, f32x16::ONE);
        tiles[0].errors[0] = fma(f32x16::splat(GREATEST), greatest - mean, mean);
        sums
    }
}
