//! PPO's loss over one tile and its gradient with respect to the network's outputs.

use operant_lane::{Float, Mask};
use wide::f32x16;

use crate::config::Config;
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::Activations;
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, row_sum, splat};

/// A row of a tile.
type TileRow = Row<TILE_VECTORS>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LossCoefficients {
    clip_coef: f32,
    clip_vloss: bool,
    ent_coef: f32,
    vf_coef: f32,
    /// 1 / M.
    scale: f32,
}

impl LossCoefficients {
    /// Those of `config`, for a minibatch of `samples`.
    pub fn new(config: &Config, samples: usize) -> Self {
        Self {
            clip_coef: config.clip_coef as f32,
            clip_vloss: config.clip_vloss,
            ent_coef: config.ent_coef as f32,
            vf_coef: config.vf_coef as f32,
            scale: 1.0 / samples as f32,
        }
    }
}

/// A tile's samples, as the loss needs them in addition to the network's outputs.
#[derive(Debug, Clone)]
pub(crate) struct LossInput {
    /// `[component]`.
    pub actions: Vec<TileRow>,
    /// When the action was taken.
    pub logprob: TileRow,
    /// When the action was taken.
    pub value: TileRow,
    /// Normalised, if advantages are.
    pub advantage: TileRow,
    /// Advantage before normalisation + value.
    pub returns: TileRow,
    /// 1, or 0 for the padding of a partial tile.
    pub weight: TileRow,
}

impl LossInput {
    /// Allocates a tile with `components` action components.
    pub fn new(components: usize) -> Self {
        let zero = splat(0.0);
        Self {
            actions: vec![zero; components],
            logprob: zero,
            value: zero,
            advantage: zero,
            returns: zero,
            weight: zero,
        }
    }
}

/// Sums over samples; divide by their number for means.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LossSums {
    /// Clipped policy objective.
    pub policy: f64,
    pub value: f64,
    pub entropy: f64,
    /// (ratio - 1) - ln ratio.
    pub kl: f64,
    /// 1 where the ratio is outside the clipping range.
    pub clipped: f64,
}

impl LossSums {
    /// The sums as numbers, for the exchange between processes.
    pub fn numbers(&self) -> [f64; 5] {
        [self.policy, self.value, self.entropy, self.kl, self.clipped]
    }

    /// The inverse of [`LossSums::numbers`].
    pub fn of([policy, value, entropy, kl, clipped]: [f64; 5]) -> Self {
        Self { policy, value, entropy, kl, clipped }
    }
}

impl core::ops::Add for LossSums {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            policy: self.policy + other.policy,
            value: self.value + other.value,
            entropy: self.entropy + other.entropy,
            kl: self.kl + other.kl,
            clipped: self.clipped + other.clipped,
        }
    }
}

/// The loss of a tile, `policy - ent_coef entropy + vf_coef value`, each averaged over the minibatch. Its gradient
/// with respect to the outputs is written to the last layers of `deltas`; its gradient with respect to log_std is added to `d_log_std`.
pub(crate) fn tile_loss(
    coefficients: &LossCoefficients,
    input: &LossInput,
    outputs: &Activations<TILE_VECTORS>,
    log_std: &[f32],
    head: &mut PolicyHead<TILE_VECTORS>,
    deltas: &mut Activations<TILE_VECTORS>,
    d_log_std: &mut [f32x16],
) -> LossSums {
    let (logprob, entropy) = head.evaluate(outputs.policy(), log_std, &input.actions);
    let scale = f32x16::splat(coefficients.scale);
    let zero: TileRow = splat(0.0);
    let (mut policy, mut kl, mut clipped, mut by_logprob, mut by_entropy) = (zero, zero, zero, zero, zero);
    let (low, high) =
        (f32x16::splat(1.0 - coefficients.clip_coef), f32x16::splat(1.0 + coefficients.clip_coef));
    for v in 0..TILE_VECTORS {
        let (weight, advantage) = (input.weight[v], input.advantage[v]);
        let log_ratio = logprob[v] - input.logprob[v];
        let ratio = Float::exp(log_ratio);
        let plain = -advantage * ratio;
        let bounded = -advantage * Float::clamp(ratio, low, high);
        policy[v] = weight * Float::max(plain, bounded);
        kl[v] = weight * ((ratio - f32x16::ONE) - log_ratio);
        let outside = Float::abs(ratio - f32x16::ONE);
        clipped[v] = Float::gt(outside, f32x16::splat(coefficients.clip_coef)).select(weight, f32x16::ZERO);
        // Where the clipped objective is selected, it is constant; where both are equal, the ratio is in range or the gradient is 0.
        by_logprob[v] = Float::lt(plain, bounded).select(f32x16::ZERO, plain) * (weight * scale);
        by_entropy[v] = f32x16::splat(-coefficients.ent_coef) * (weight * scale);
    }
    let (value, by_value) = value_loss(coefficients, input, &outputs.value());
    deltas.set_value(core::array::from_fn(|v| by_value[v] * (input.weight[v] * scale)));
    head.gradient(log_std, &input.actions, &by_logprob, &by_entropy, deltas.policy_mut(), d_log_std);
    LossSums {
        policy: row_sum(&policy),
        value: row_sum(&value),
        entropy: row_sum::<TILE_VECTORS>(&core::array::from_fn(|v| entropy[v] * input.weight[v])),
        kl: row_sum(&kl),
        clipped: row_sum(&clipped),
    }
}

/// Weighted value loss of each sample, and the gradient of `vf_coef` times it, not yet weighted.
#[inline(always)]
fn value_loss(coefficients: &LossCoefficients, input: &LossInput, value: &TileRow) -> (TileRow, TileRow) {
    let half = f32x16::splat(0.5);
    let vf_coef = f32x16::splat(coefficients.vf_coef);
    let clip = f32x16::splat(coefficients.clip_coef);
    let (mut losses, mut gradients): (TileRow, TileRow) = (splat(0.0), splat(0.0));
    for v in 0..TILE_VECTORS {
        let error = value[v] - input.returns[v];
        let (mut loss, mut gradient) = (error * error, error);
        if coefficients.clip_vloss {
            let change = value[v] - input.value[v];
            let bounded = input.value[v] + Float::clamp(change, -clip, clip) - input.returns[v];
            let bounded_loss = bounded * bounded;
            let greater = Float::gt(bounded_loss, loss);
            let inside = Float::le(Float::abs(change), clip);
            gradient = greater.select(inside.select(bounded, f32x16::ZERO), gradient);
            loss = greater.select(bounded_loss, loss);
        }
        losses[v] = half * loss * input.weight[v];
        gradients[v] = vf_coef * gradient;
    }
    (losses, gradients)
}

/// `advantage` made zero-mean and unit-deviation by `shift` and `scale`.
#[inline(always)]
pub(crate) fn normalise(advantage: TileRow, shift: f32, scale: f32) -> TileRow {
    let (shift, scale) = (f32x16::splat(shift), f32x16::splat(scale));
    core::array::from_fn(|v| (advantage[v] - shift) * scale)
}

/// `advantage + value`.
#[inline(always)]
pub(crate) fn returns(advantage: &TileRow, value: &TileRow) -> TileRow {
    core::array::from_fn(|v| fma(advantage[v], f32x16::ONE, value[v]))
}
