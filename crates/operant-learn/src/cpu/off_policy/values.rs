//! Learning the values of choices (docs/dqn.md).

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use super::learner::{Minibatch, TileRow, Worker, sums, without_memory};
use super::replay::Transitions;
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::Activations;
use crate::cpu::network::tile::{TILE_VECTORS, fma, row_sum, splat};
use crate::cpu::rollout::observation;
use crate::cpu::threads::timers::Part;
use crate::cpu::update::{SUMS, Sums};
use crate::layers::bins::cpu::{cross_entropy, project, softmax};
use crate::network::Bins;

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
        let Self { values, of_target, deltas, gradient, head, shares, timer, .. } = self;
        let (vectors, bins) = (work.vectors(tile), work.policy.network().architecture.bins);
        let Transitions { features, inputs: [_, next], legal, .. } = transitions;
        let (next_obs, next_actions) = next.split_at_mut(*features);
        let next_obs = observation(work.target, next_obs.as_flattened());
        head.set_mask(legal);
        work.target.chain(0, next_obs, vectors, of_target);
        if work.config.algorithms.dqn.double_q {
            work.policy.chain(0, next_obs, vectors, values);
            head.greedy(values.policy(), next_actions);
        } else {
            head.greedy(of_target.policy(), next_actions);
        }
        after(head, bins, of_target, next_actions, &mut shares[0]);
        let obs = observation(work.policy, transitions.obs(0));
        work.policy.chain(0, obs, vectors, values);
        timer.end(Part::Forward);
        let (sums, errors) =
            Taken::of(transitions, &work.weights(tile)).errors(work, head, values, deltas, shares);
        timer.end(Part::Loss);
        gradient.add_chain(work.policy, 0, without_memory(obs, vectors, values), deltas, None);
        timer.end(Part::Backward);
        transitions.errors = errors;
        sums
    }
}

/// What the target network makes of actions: their value in the first of `to`, or its distribution.
pub(super) fn after(
    head: &PolicyHead<TILE_VECTORS>,
    bins: Option<Bins>,
    of_target: &Activations<TILE_VECTORS>,
    actions: &[TileRow],
    to: &mut [TileRow],
) {
    if bins.is_some() {
        chosen(of_target.before_last(0), &actions[0], to);
        softmax(to, |_| splat(0.0));
    } else {
        to[0] = head.value_of(of_target.policy(), actions);
    }
}

/// Actions that were taken, and what came of them.
pub(super) struct Taken<'a> {
    actions: &'a [TileRow],
    reward: &'a TileRow,
    discount: &'a TileRow,
    /// Importance-sampling weights.
    made_up: &'a TileRow,
    /// 0 for padding.
    weight: &'a TileRow,
}

impl<'a> Taken<'a> {
    pub fn of(transitions: &'a Transitions, weight: &'a TileRow) -> Self {
        let Transitions { features, inputs: [now, _], reward, discount, weight: made_up, .. } = transitions;
        Self { actions: &now[*features..], reward, discount, made_up, weight }
    }

    /// The sums of the losses of values, |errors|, and the gradient in `deltas`; the first of `shares` has the values after the steps.
    pub fn errors(
        &self,
        work: &Minibatch<'_>,
        head: &PolicyHead<TILE_VECTORS>,
        values: &Activations<TILE_VECTORS>,
        deltas: &mut Activations<TILE_VECTORS>,
        shares: &mut [Vec<TileRow>; 3],
    ) -> (Sums, TileRow) {
        let Self { actions, reward, discount, made_up, weight } = *self;
        let value = head.value_of(values.policy(), actions);
        let weighted: TileRow = core::array::from_fn(|v| weight[v] * made_up[v]);
        let scale = 1.0 / work.config.batch_size as f32;
        let [next, target, own] = shares;
        let (losses, errors) = if let Some(bins) = work.policy.network().architecture.bins {
            project(bins, next, [reward, discount], target);
            chosen(values.before_last(0), &actions[0], own);
            let scale = f32x16::splat(scale);
            let loss = cross_entropy(own, |k| target[k], &weighted.map(|weight| weight * scale));
            for (k, to) in deltas.before_last_mut(0).iter_mut().enumerate() {
                let (choice, value) = (f32x16::splat((k / bins.count) as f32), k % bins.count);
                *to = core::array::from_fn(|v| {
                    Float::eq(actions[0][v], choice).select(own[value][v], f32x16::ZERO)
                });
            }
            (loss, loss)
        } else {
            let target = |v: usize| fma(discount[v], next[0][v], reward[v]);
            let error: TileRow = core::array::from_fn(|v| value[v] - target(v));
            let slope = match work.config.huber().map(f32x16::splat) {
                Some(delta) => error.map(|error| Float::clamp(error, -delta, delta)),
                None => error,
            };
            head.gradient_of_value(&slope, &weighted, scale, actions, deltas.policy_mut());
            (error.map(|error| error * error), error.map(Float::abs))
        };
        let mut sums = [0.0; SUMS];
        let sum = |of: &dyn Fn(usize) -> f32x16| row_sum::<TILE_VECTORS>(&core::array::from_fn(of));
        sums[sums::SQUARES] = sum(&|v| weight[v] * losses[v]);
        sums[sums::VALUES] = sum(&|v| weight[v] * value[v]);
        (sums, errors)
    }
}
