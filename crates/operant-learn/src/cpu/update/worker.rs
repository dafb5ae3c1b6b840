//! The work of one thread: the loss and gradient of a chunk of a minibatch, tile by tile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use operant_lane::isa::f32x16;

use crate::cpu::batch::{Batch, Gathered};
use crate::cpu::network::gradient::{Forwarded, Gradient};
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::layers::Sides;
use crate::cpu::network::policy::{Activations, Policy};
use crate::cpu::network::tile::{LANES, Row, TILE, TILE_VECTORS, splat};
use crate::cpu::threads::timers::{Part, PhaseTimer};
use crate::cpu::update::chunks::added;
use crate::cpu::update::noise::MeanNoise;
use crate::cpu::update::statistics::Order;
use crate::cpu::update::{SUMS, Sums};
use crate::network::Network;
use crate::sample::SampleLayout;

/// Tiles between two increments of the progress counter.
const PULSE_TILES: usize = 8;

/// The loss of a minibatch, computed tile by tile.
pub(crate) trait Loss: Send + Sync {
    /// The sums over a tile. The gradient with respect to the network's outputs is written to the last layers of `deltas`; that with
    /// respect to `log_std` is added to `d_log_std`.
    fn tile(&self, tile: LossTile<'_>) -> Sums;

    /// Whether it has a gradient. If not, the pass is forward only.
    fn has_gradient(&self) -> bool {
        true
    }

    /// Whether the outputs stand for actions, of which some are illegal.
    fn is_of_actions(&self) -> bool {
        true
    }
}

/// A tile of samples, what the network made of them, and where the gradient goes.
pub(crate) struct LossTile<'a> {
    /// Fields of the samples.
    pub samples: &'a Gathered,
    /// Where the fields are.
    pub layout: &'a SampleLayout,
    /// `[component]`.
    pub actions: &'a [Row<TILE_VECTORS>],
    /// 1, or 0 for the padding of a partial tile.
    pub weight: &'a Row<TILE_VECTORS>,
    pub outputs: &'a Activations<TILE_VECTORS>,
    /// Log standard deviations of a Gaussian head.
    pub log_std: &'a [f32],
    /// The head, with the samples' masks.
    pub head: &'a mut PolicyHead<TILE_VECTORS>,
    pub deltas: &'a mut Activations<TILE_VECTORS>,
    pub d_log_std: &'a mut [f32x16],
}

#[derive(Clone)]
pub(crate) struct Minibatch<'a> {
    /// The batch that holds its samples.
    pub batch: &'a Batch,
    pub order: Order<'a>,
    /// Position of its first sample in the epoch's order.
    pub first: usize,
    /// M: samples.
    pub size: usize,
    /// Noise on the means of the policy.
    pub noise: Option<MeanNoise>,
    pub loss: &'a dyn Loss,
}

impl Minibatch<'_> {
    /// Adds its noise, if any, to the means that the policy computed for the samples at these positions of the epoch's order.
    fn disturb(&self, positions: impl Fn(usize) -> usize, activations: &mut Activations<TILE_VECTORS>) {
        if let Some(noise) = &self.noise {
            noise.add(positions, self.batch.layout().components, activations);
        }
    }
}

/// The scratch space of one thread.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Tiles that are kept until their gradient: one, or the tiles of a group of sequences.
    tiles: Vec<Tile>,
    /// The prefetched samples of the next tile.
    next: [u32; TILE],
    /// State of layers with memory, of 16 sequences.
    state: Vec<Row<1>>,
    /// `[side][state]`: the same for each side that has a memory of its own.
    sides: Vec<Row<1>>,
    /// `[component]`: the actions of a tile.
    actions: Vec<Row<TILE_VECTORS>>,
    deltas: Activations<TILE_VECTORS>,
    head: PolicyHead<TILE_VECTORS>,
    gradient: Gradient,
    pulse: Arc<AtomicU64>,
    pub timer: PhaseTimer,
}

/// The samples of a tile and what the network makes of them.
#[derive(Debug)]
struct Tile {
    gathered: Gathered,
    /// 0 where a step begins an episode; 1 elsewhere, and without memory.
    keep: Row<TILE_VECTORS>,
    /// The side that moves, if each has a memory of its own.
    turn: Option<Row<TILE_VECTORS>>,
    activations: Activations<TILE_VECTORS>,
}

/// Steps of 16 sequences in a tile.
const STEPS: usize = TILE_VECTORS;

impl Worker {
    /// Scratch space for `network` and sequences of this many steps.
    pub fn new(network: &Network, layout: &SampleLayout, sequence: usize, pulse: &Arc<AtomicU64>) -> Self {
        let tile = || Tile {
            gathered: Gathered::new(&network.architecture, layout),
            keep: splat(1.0),
            turn: None,
            activations: match network.states {
                0 => Activations::new(network),
                _ => Activations::of_sequence(network),
            },
        };
        Self {
            tiles: (0..sequence.div_ceil(STEPS)).map(|_| tile()).collect(),
            next: [0; TILE],
            state: vec![splat(0.0); network.states],
            sides: vec![splat(0.0); if layout.side.is_some() { layout.memories * network.states } else { 0 }],
            actions: vec![splat(0.0); layout.components],
            deltas: Activations::new(network),
            head: PolicyHead::of(&network.architecture),
            gradient: Gradient::new(network).of_sides(layout.memories),
            pulse: Arc::clone(pulse),
            timer: PhaseTimer::default(),
        }
    }

    /// The gradient of a minibatch's `units`, tiles or groups of sequences, into `flat`.
    pub fn chunk(
        &mut self,
        policy: &Policy,
        minibatch: &Minibatch<'_>,
        units: core::ops::Range<usize>,
        flat: &mut [f32],
    ) -> Sums {
        let sums = if policy.network().states == 0 {
            self.samples(policy, minibatch, units)
        } else {
            self.sequences(policy, minibatch, units)
        };
        if minibatch.loss.has_gradient() {
            self.gradient.finish(policy, flat);
        }
        self.timer.end(Part::Reduction);
        sums
    }

    /// Samples without memory, tile by tile.
    fn samples(
        &mut self,
        policy: &Policy,
        minibatch: &Minibatch<'_>,
        tiles: core::ops::Range<usize>,
    ) -> Sums {
        self.timer.start();
        self.prefetch(minibatch, tiles.start);
        self.timer.end(Part::Gather);
        self.gradient.clear();
        self.timer.end(Part::Reduction);
        let mut sums = [0.0; SUMS];
        for tile in tiles.clone() {
            if tile.is_multiple_of(PULSE_TILES) {
                self.pulse.fetch_add(1, Ordering::Relaxed);
            }
            self.tiles[0].gathered.gather(minibatch.batch, &self.next);
            if tile + 1 < tiles.end {
                self.prefetch(minibatch, tile + 1);
            }
            let remaining = minibatch.size - tile * TILE;
            self.timer.end(Part::Gather);
            let Tile { gathered, activations, .. } = &mut self.tiles[0];
            let vectors = policy.tile(gathered.observation(), remaining, activations);
            minibatch.disturb(|s| minibatch.first + tile * TILE + s, activations);
            self.timer.end(Part::Forward);
            let of_tile = self.loss_and_gradient(policy, minibatch, (0, vectors), |s| s < remaining);
            sums = added(sums, of_tile);
        }
        sums
    }

    /// Prefetches the samples of the next tile.
    fn prefetch(&mut self, minibatch: &Minibatch<'_>, tile: usize) {
        let Minibatch { batch, ref order, first, size, .. } = *minibatch;
        self.next = order.tile(batch, first + tile * TILE, first + size);
        batch.prefetch(&self.next);
    }

    /// Whole sequences, 16 side by side: forward from the state that the rollout had, then back through time. A tile has four steps.
    fn sequences(
        &mut self,
        policy: &Policy,
        minibatch: &Minibatch<'_>,
        groups: core::ops::Range<usize>,
    ) -> Sums {
        let Minibatch { batch, ref order, first, size, .. } = *minibatch;
        let length = batch.sequence();
        let (first, end) = (first / length, (first + size) / length);
        self.timer.start();
        self.gradient.clear();
        self.timer.end(Part::Reduction);
        let mut sums = [0.0; SUMS];
        for group in groups {
            self.pulse.fetch_add(1, Ordering::Relaxed);
            let position = first + group * LANES;
            let lanes = LANES.min(end - position);
            let sequences: [u32; LANES] = order.sequences(position, end);
            let steps = sequences.map(|sequence| batch.steps_of(sequence as usize));
            let states = sequences.map(|sequence| batch.state(sequence as usize));
            let first_states = if self.sides.is_empty() { &mut self.state } else { &mut self.sides };
            for (k, row) in first_states.iter_mut().enumerate() {
                *row = [f32x16::new(states.map(|state| state[k]))];
            }
            for (k, tile) in self.tiles.iter_mut().enumerate() {
                let samples = core::array::from_fn(|s| {
                    let [first, stride] = steps[s % LANES];
                    // Steps past the end repeat the last one, and carry no weight.
                    (first + (k * STEPS + s / LANES).min(length - 1) * stride) as u32
                });
                tile.gathered.gather(batch, &samples);
                tile.keep = batch.layout().keep.map_or(splat(1.0), |field| tile.gathered.float(field));
                tile.turn = batch.layout().side.map(|field| tile.gathered.float(field));
                self.timer.end(Part::Gather);
                let observation = tile.gathered.observation();
                let Self { state, sides, deltas, .. } = self;
                let each = state.len();
                let sides = tile.turn.as_ref().map(|turns| Sides { states: sides, each, turns });
                let (ends, scratch) = ((&tile.keep, sides), &mut deltas.scratch);
                policy.sequence(observation, state, ends, scratch, &mut tile.activations);
                let at = |s: usize| (position + s % LANES) * length + k * STEPS + s / LANES;
                minibatch.disturb(at, &mut tile.activations);
                self.timer.end(Part::Forward);
            }
            self.gradient.begin_sequences();
            for k in (0..self.tiles.len()).rev() {
                let counts = |s: usize| s % LANES < lanes && k * STEPS + s / LANES < length;
                let of_tile = self.loss_and_gradient(policy, minibatch, (k, TILE_VECTORS), counts);
                sums = added(sums, of_tile);
            }
        }
        sums
    }

    /// Losses and gradient of a tile after the forward pass of `vectors` of its vectors; `counts(s)` is whether sample `s` is not padding.
    fn loss_and_gradient(
        &mut self,
        policy: &Policy,
        minibatch: &Minibatch<'_>,
        (tile, vectors): (usize, usize),
        counts: impl Fn(usize) -> bool,
    ) -> Sums {
        let layout = minibatch.batch.layout();
        let Tile { gathered, keep, turn, activations } = &self.tiles[tile];
        for (k, action) in self.actions.iter_mut().enumerate() {
            *action = gathered.float(layout.actions + k);
        }
        let weight =
            core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| f32::from(counts(v * LANES + l)))));
        self.head.set_mask(if minibatch.loss.is_of_actions() { &gathered.mask } else { &[] });
        self.timer.end(Part::Gather);
        let sums = minibatch.loss.tile(LossTile {
            samples: gathered,
            layout,
            actions: &self.actions,
            weight: &weight,
            outputs: activations,
            log_std: policy.log_std(),
            head: &mut self.head,
            deltas: &mut self.deltas,
            d_log_std: &mut self.gradient.log_std,
        });
        self.timer.end(Part::Loss);
        if !minibatch.loss.has_gradient() {
            return sums;
        }
        let (observation, turns) = (gathered.observation(), turn.as_ref());
        let forward = Forwarded { observation, keep, turns, vectors, activations };
        self.gradient.add(policy, forward, &mut self.deltas);
        self.timer.end(Part::Backward);
        sums
    }
}
