//! Values of all samples by the current network, and advantages by them: a pass over a batch without a gradient.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use operant_lane::Float;

use super::{Learning, Loss, LossTile, Minibatches, SUMS, Sums, Task};
use crate::cpu::network::tile::{LANES, Row, TILE_VECTORS};

/// What the current network makes of each sample.
pub(crate) struct Recomputed {
    /// `[sample]`: the value.
    values: Vec<AtomicU32>,
    /// `[sample]`: the probability of its action divided by that in the rollout; empty if it has no weight.
    ratios: Vec<AtomicU32>,
    /// [`Declaration::ratio_clips`](crate::algorithms::Declaration::ratio_clips).
    clips: [Option<f32>; 2],
}

impl Recomputed {
    /// Room for a batch of `samples`.
    pub fn new(samples: usize, clips: [Option<f32>; 2]) -> Arc<Self> {
        let room = |samples| (0..samples).map(|_| AtomicU32::new(0)).collect();
        let ratios = if clips == [None; 2] { 0 } else { samples };
        Arc::new(Self { values: room(samples), ratios: room(ratios), clips })
    }

    /// The sample's value and the weights of its TD error and of what comes from later steps.
    fn of(&self, sample: usize) -> [f32; 3] {
        let load = |number: &AtomicU32| f32::from_bits(number.load(Ordering::Relaxed));
        let [rho, c] = self.clips.map(|clip| clip.map_or(1.0, |clip| load(&self.ratios[sample]).min(clip)));
        [load(&self.values[sample]), rho, c]
    }
}

impl Loss for Arc<Recomputed> {
    fn tile(&self, tile: LossTile<'_>) -> Sums {
        let LossTile { samples, layout, actions, weight, outputs, log_std, head, .. } = tile;
        let keep = |to: &[AtomicU32], row: Row<TILE_VECTORS>| {
            for (s, &sample) in samples.indices.iter().enumerate() {
                if weight[s / LANES].as_array()[s % LANES] > 0.0 {
                    to[sample as usize]
                        .store(row[s / LANES].as_array()[s % LANES].to_bits(), Ordering::Relaxed);
                }
            }
        };
        keep(&self.values, head.value(outputs));
        if let Some(field) = layout.logprob.filter(|_| !self.ratios.is_empty()) {
            let (logprob, _) = head.evaluate(outputs.policy(), log_std, actions);
            let before = samples.float(field);
            keep(&self.ratios, core::array::from_fn(|v| Float::exp(logprob[v] - before[v])));
        }
        [0.0; SUMS]
    }

    fn has_gradient(&self) -> bool {
        false
    }
}

impl Learning<'_> {
    /// Room for what is computed again; None if nothing is.
    pub fn recomputed(&self) -> Option<Arc<Recomputed>> {
        let clips = (self.config.algorithm.declaration().ratio_clips)(self.config);
        self.config.recomputes().then(|| Recomputed::new(self.batch.len(), clips))
    }
}

impl Minibatches<'_, '_> {
    /// Before an epoch after the first: computes the values of all samples with the current parameters, and advantages by them. Those of
    /// other processes are their work.
    pub fn recompute(&mut self, epoch: usize, recomputed: &Option<Arc<Recomputed>>) {
        let Some(recomputed) = recomputed.as_ref().filter(|_| epoch > 0) else { return };
        let own = self.plan.blocks.own;
        for minibatch in 0..self.plan.count {
            let chunks = self.chunks_of_block(minibatch);
            self.team.round(chunks * own, |round| {
                if minibatch == 0 {
                    let state = &self.state;
                    round.policy.pack_for_update(&self.network.with_values(&state.params, &state.value_norm));
                }
                let loss = Box::new(Arc::clone(recomputed));
                round.task = Task::Gradient { minibatch, epoch, loss, chunks };
            });
        }
        let discounts = self.config.discounts();
        self.team.round(0, |round| round.batch.recompute(discounts, |sample| recomputed.of(sample)));
    }
}
