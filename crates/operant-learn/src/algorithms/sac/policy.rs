//! SAC's policy over one tile: squashed normals whose mean and deviation the network computes, and the gradient through its draws.

use core::f32::consts::TAU;

use operant_lane::Float;
use operant_lane::isa::f32x16;

use crate::cpu::network::reals::{bounded, log_slope, slope_of_bounded};
use crate::cpu::network::tile::{TILE_VECTORS, fma, splat};
use crate::cpu::off_policy::learner::{PolicyTile, TileRow};

/// Draws actions within -1 and 1, and returns their log-probabilities there.
pub fn draw(policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow {
    let constant = f32x16::splat(0.5 * Float::ln(TAU));
    let mut logprob: TileRow = splat(0.0);
    for (k, (action, normal)) in actions.iter_mut().zip(policy.normals).enumerate() {
        let [mean, spread] = outputs(policy, k);
        for v in 0..TILE_VECTORS {
            let log_std = bounded(spread[v]);
            let before = fma(Float::exp(log_std), normal[v], mean[v]);
            action[v] = Float::tanh(before);
            let of_normal = fma(normal[v] * f32x16::splat(-0.5), normal[v], -(log_std + constant));
            logprob[v] += of_normal - log_slope(before);
        }
    }
    logprob
}

/// The gradient of `alpha logprob` and of `by_action` times the actions that [`draw`] drew, weighted by sample.
pub fn gradient(
    policy: PolicyTile<'_>,
    actions: &[TileRow],
    by_action: &[TileRow],
    weight: &TileRow,
    d_outputs: &mut [TileRow],
) {
    let count = actions.len();
    let (d_means, d_spreads) = d_outputs.split_at_mut(count);
    for k in 0..count {
        let [_, spread] = outputs(policy, k);
        for v in 0..TILE_VECTORS {
            let (action, normal) = (actions[k][v], policy.normals[k][v]);
            let alpha = f32x16::splat(policy.alpha) * weight[v];
            // d/dx of -ln(1 - tanh(x)^2) is 2 tanh(x).
            let squashed = fma(-action, action, f32x16::ONE);
            let by_before = fma(by_action[k][v], squashed, alpha * (action + action));
            let log_std = bounded(spread[v]);
            let by_log_std = fma(by_before, normal * Float::exp(log_std), -alpha);
            d_means[k][v] = by_before;
            d_spreads[k][v] = by_log_std * slope_of_bounded(log_std);
        }
    }
}

/// The outputs of action `k`: its mean, and its log standard deviation before it is bounded.
fn outputs(policy: PolicyTile<'_>, k: usize) -> [&TileRow; 2] {
    [&policy.outputs[k], &policy.outputs[policy.normals.len() + k]]
}
