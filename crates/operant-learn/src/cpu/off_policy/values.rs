//! Learning the values of choices (docs/dqn.md).

use operant_lane::Float;
use operant_lane::isa::f32x16;

use super::learner::{Minibatch, TileRow, Worker, sums, whole};
use super::replay::Transitions;
use crate::cpu::network::tile::{TILE_VECTORS, fma, row_sum};
use crate::cpu::rollout::observation;
use crate::cpu::update::{SUMS, Sums};

impl Worker {
    /// The errors of the values of the actions taken.
    pub(super) fn values(
        &mut self,
        work: &Minibatch<'_>,
        tile: usize,
        transitions: &mut Transitions,
    ) -> Sums {
        let Transitions { features, inputs: [now, next], legal, .. } = transitions;
        let Self { values, of_target, deltas, gradient, head, .. } = self;
        let all = TILE_VECTORS;
        let (next_obs, next_actions) = next.split_at_mut(*features);
        let next_obs = observation(work.target, next_obs.as_flattened());
        head.set_mask(legal);
        work.target.chain(0, next_obs, all, of_target);
        let next_value = if work.config.algorithms.dqn.double_q {
            work.policy.chain(0, next_obs, all, values);
            head.greedy(values.policy(), next_actions);
            head.value_of(of_target.policy(), next_actions)
        } else {
            head.value(of_target)
        };
        let (obs, actions) = now.split_at(*features);
        let obs = observation(work.policy, obs.as_flattened());
        work.policy.chain(0, obs, all, values);
        let value = head.value_of(values.policy(), actions);
        let error: TileRow = core::array::from_fn(|v| {
            value[v] - fma(transitions.discount[v], next_value[v], transitions.reward[v])
        });
        transitions.errors = error.map(Float::abs);
        let slope = match work.config.huber().map(f32x16::splat) {
            Some(delta) => error.map(|error| Float::clamp(error, -delta, delta)),
            None => error,
        };
        let weight = work.weights(tile);
        let weighted = core::array::from_fn(|v| weight[v] * transitions.weight[v]);
        let scale = 1.0 / work.config.batch_size as f32;
        head.gradient_of_value(&slope, &weighted, scale, actions, deltas.policy_mut());
        gradient.add_chain(work.policy, 0, whole(obs, values), deltas, None);
        let mut sums = [0.0; SUMS];
        let sum = |of: &dyn Fn(usize) -> f32x16| row_sum::<TILE_VECTORS>(&core::array::from_fn(of));
        sums[sums::SQUARES] = sum(&|v| weight[v] * (error[v] * error[v]));
        sums[sums::VALUES] = sum(&|v| weight[v] * value[v]);
        sums
    }
}
