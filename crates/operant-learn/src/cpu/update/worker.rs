//! The work of one thread: the loss and gradient of a chunk of a minibatch, tile by tile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wide::f32x16;

use crate::cpu::batch::{Batch, Gathered};
use crate::cpu::network::gradient::Gradient;
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::{Activations, Observation, Policy};
use crate::cpu::network::tile::{LANES, TILE, TILE_VECTORS};
use crate::cpu::threads::timers::{Part, PhaseTimer};
use crate::cpu::update::loss::{LossCoefficients, LossInput, LossSums, normalise, returns, tile_loss};
use crate::cpu::update::statistics::shuffled;
use crate::network::{Input, Network};
use crate::sample::SampleLayout;
use crate::shuffle::Shuffle;

/// Tiles between two increments of the progress counter.
const PULSE_TILES: usize = 8;

/// One minibatch.
#[derive(Debug, Clone)]
pub(crate) struct Minibatch<'a> {
    /// The batch that holds its samples.
    pub batch: &'a Batch,
    /// The epoch's order.
    pub shuffle: Shuffle,
    /// Position of its first sample in the epoch's order.
    pub first: usize,
    /// M: samples.
    pub size: usize,
    /// `(shift, scale)` of its advantages.
    pub advantages: (f32, f32),
}

/// The scratch space of one thread.
#[derive(Debug)]
pub(crate) struct Worker {
    gathered: Gathered,
    /// The prefetched samples of the next tile.
    next: [u32; TILE],
    input: LossInput,
    activations: Activations<TILE_VECTORS>,
    deltas: Activations<TILE_VECTORS>,
    head: PolicyHead<TILE_VECTORS>,
    gradient: Gradient,
    pulse: Arc<AtomicU64>,
    /// The phase timer.
    pub timer: PhaseTimer,
}

impl Worker {
    /// Scratch space for `network`.
    pub fn new(network: &Network, layout: &SampleLayout, pulse: &Arc<AtomicU64>) -> Self {
        Self {
            gathered: Gathered::new(&network.architecture, layout),
            next: [0; TILE],
            input: LossInput::new(layout.components),
            activations: Activations::new(network),
            deltas: Activations::new(network),
            head: PolicyHead::new(&network.architecture.head),
            gradient: Gradient::new(network),
            pulse: Arc::clone(pulse),
            timer: PhaseTimer::default(),
        }
    }

    /// The gradient of a minibatch's `tiles`, into `flat`.
    pub fn chunk(
        &mut self,
        policy: &Policy,
        coefficients: &LossCoefficients,
        minibatch: &Minibatch<'_>,
        tiles: core::ops::Range<usize>,
        flat: &mut [f32],
    ) -> LossSums {
        self.timer.start();
        self.ask(minibatch, tiles.start);
        self.timer.end(Part::Gather);
        self.gradient.clear();
        self.timer.end(Part::Reduction);
        let mut sums = LossSums::default();
        for tile in tiles.clone() {
            if tile.is_multiple_of(PULSE_TILES) {
                self.pulse.fetch_add(1, Ordering::Relaxed);
            }
            self.gathered.gather(minibatch.batch, &self.next);
            if tile + 1 < tiles.end {
                self.ask(minibatch, tile + 1);
            }
            sums = sums + self.tile(policy, coefficients, minibatch, tile);
        }
        self.gradient.finish(policy.network(), flat);
        self.timer.end(Part::Reduction);
        sums
    }

    /// Prefetches the samples of the next tile.
    fn ask(&mut self, minibatch: &Minibatch<'_>, tile: usize) {
        let Minibatch { batch, ref shuffle, first, size, .. } = *minibatch;
        self.next = shuffled(shuffle, first + tile * TILE, first + size);
        batch.prefetch(&self.next);
    }

    /// Losses and gradient of the tile that has been gathered.
    fn tile(
        &mut self,
        policy: &Policy,
        coefficients: &LossCoefficients,
        minibatch: &Minibatch<'_>,
        tile: usize,
    ) -> LossSums {
        let Minibatch { batch, size, advantages, .. } = *minibatch;
        let layout = batch.layout();
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
        self.timer.end(Part::Gather);
        policy.forward(observation, &mut self.activations);
        self.timer.end(Part::Forward);
        let sums = tile_loss(
            coefficients,
            &self.input,
            &self.activations,
            policy.log_std(),
            &mut self.head,
            &mut self.deltas,
            &mut self.gradient.log_std,
        );
        self.timer.end(Part::Loss);
        self.gradient.add(policy, observation, &self.activations, &mut self.deltas);
        self.timer.end(Part::Backward);
        sums
    }
}
