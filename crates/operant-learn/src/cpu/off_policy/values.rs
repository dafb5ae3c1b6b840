//! Learning the values of choices (docs/dqn.md).

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use super::learner::{Minibatch, TileRow, Worker, sums, whole};
use super::replay::Transitions;
use crate::cpu::network::tile::{TILE_VECTORS, fma, row_sum, splat};
use crate::cpu::rollout::observation;
use crate::cpu::update::{SUMS, Sums};
use crate::layers::bins::cpu::{cross_entropy, project, softmax};

/// The logits of the action of each sample.
fn chosen(logits: &[TileRow], action: &TileRow, to: &mut [TileRow]) {
    for (choice, of_choice) in logits.chunks_exact(to.len()).enumerate() {
        let is_chosen = action.map(|action| Float::eq(action, f32x16::splat(choice as f32)));
        for (to, logit) in to.iter_mut().zip(of_choice) {
            *to = core::array::from_fn(|v| is_chosen[v].select(logit[v], to[v]));
        }
    }
}

impl Worker {
    /// The errors of the values of the actions taken.
    pub(super) fn values(
        &mut self,
        work: &Minibatch<'_>,
        tile: usize,
        transitions: &mut Transitions,
    ) -> Sums {
        let Transitions { features, inputs: [now, next], legal, .. } = transitions;
        let Self { values, of_target, deltas, gradient, head, shares, .. } = self;
        let all = TILE_VECTORS;
        let (next_obs, next_actions) = next.split_at_mut(*features);
        let next_obs = observation(work.target, next_obs.as_flattened());
        head.set_mask(legal);
        work.target.chain(0, next_obs, all, of_target);
        if work.config.algorithms.dqn.double_q {
            work.policy.chain(0, next_obs, all, values);
            head.greedy(values.policy(), next_actions);
        } else {
            head.greedy(of_target.policy(), next_actions);
        }
        let (obs, actions) = now.split_at(*features);
        let obs = observation(work.policy, obs.as_flattened());
        work.policy.chain(0, obs, all, values);
        let value = head.value_of(values.policy(), actions);
        let weight = work.weights(tile);
        let weighted: TileRow = core::array::from_fn(|v| weight[v] * transitions.weight[v]);
        let scale = 1.0 / work.config.batch_size as f32;
        let losses = if let Some(bins) = work.policy.network().architecture.bins {
            let [next, target, own] = shares;
            chosen(of_target.before_last(0), &next_actions[0], next);
            softmax(next, |_| splat(0.0));
            project(bins, next, [&transitions.reward, &transitions.discount], target);
            chosen(values.before_last(0), &actions[0], own);
            let scale = f32x16::splat(scale);
            let loss = cross_entropy(own, |k| target[k], &weighted.map(|weight| weight * scale));
            for (k, to) in deltas.before_last_mut(0).iter_mut().enumerate() {
                let (choice, value) = (f32x16::splat((k / bins.count) as f32), k % bins.count);
                *to = core::array::from_fn(|v| {
                    Float::eq(actions[0][v], choice).select(own[value][v], f32x16::ZERO)
                });
            }
            transitions.errors = loss;
            loss
        } else {
            let next = head.value_of(of_target.policy(), next_actions);
            let target = |v: usize| fma(transitions.discount[v], next[v], transitions.reward[v]);
            let error: TileRow = core::array::from_fn(|v| value[v] - target(v));
            let slope = match work.config.huber().map(f32x16::splat) {
                Some(delta) => error.map(|error| Float::clamp(error, -delta, delta)),
                None => error,
            };
            head.gradient_of_value(&slope, &weighted, scale, actions, deltas.policy_mut());
            transitions.errors = error.map(Float::abs);
            error.map(|error| error * error)
        };
        gradient.add_chain(work.policy, 0, whole(obs, values), deltas, None);
        let mut sums = [0.0; SUMS];
        let sum = |of: &dyn Fn(usize) -> f32x16| row_sum::<TILE_VECTORS>(&core::array::from_fn(of));
        sums[sums::SQUARES] = sum(&|v| weight[v] * losses[v]);
        sums[sums::VALUES] = sum(&|v| weight[v] * value[v]);
        sums
    }
}
