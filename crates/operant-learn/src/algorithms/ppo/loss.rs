//! PPO's loss over one tile and its gradient with respect to the network's outputs.

use std::sync::Arc;

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use crate::config::Config;
use crate::cpu::network::tile::{LANES, Row, TILE_VECTORS, fma, row_sum, splat};
use crate::cpu::update::{Loss, LossTile, Sums};
use crate::layers::bins::cpu::{cross_entropy, near};
use crate::network::Bins;

/// A row of a tile.
type TileRow = Row<TILE_VECTORS>;

/// The loss of a minibatch, `policy - ent_coef entropy + vf_coef value`, each averaged over it.
#[derive(Debug, Clone)]
pub struct ClippedLoss {
    clip_coef: f32,
    clip_vloss: bool,
    ent_coef: f32,
    vf_coef: f32,
    /// Error from which the value loss is linear.
    huber_delta: Option<f32>,
    /// The distribution whose mean is the value.
    bins: Option<Bins>,
    /// 1 / M.
    scale: f32,
    scales: Scales,
}

/// What makes a minibatch's numbers ready for the loss, `(x - shift) scale` each.
#[derive(Debug, Clone, Default)]
pub struct Scales {
    /// `(shift, scale)` of its advantages; None where the critic is trained alone.
    pub advantages: Option<(f32, f32)>,
    /// Of values and returns, if the network computes normalised values.
    pub values: Option<(f32, f32)>,
    /// `[sample of the batch]`: weights of advantages, where samples are drawn.
    pub importance: Option<Arc<Vec<f32>>>,
}

impl ClippedLoss {
    /// The loss of a minibatch of `samples`.
    pub fn new(config: &Config, samples: usize, scales: Scales) -> Self {
        let settings = &config.algorithms.ppo;
        Self {
            clip_coef: settings.clip_coef as f32,
            clip_vloss: settings.clip_vloss,
            ent_coef: settings.ent_coef as f32,
            vf_coef: settings.vf_coef as f32,
            huber_delta: config.huber(),
            bins: Bins::of(config),
            scale: 1.0 / samples as f32,
            scales,
        }
    }
}

/// Sums over samples; divide by their number for means.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossSums {
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
    /// The sums as numbers.
    pub fn numbers(&self) -> Sums {
        [self.policy, self.value, self.entropy, self.kl, self.clipped]
    }

    /// The inverse of [`LossSums::numbers`].
    pub fn of([policy, value, entropy, kl, clipped]: Sums) -> Self {
        Self { policy, value, entropy, kl, clipped }
    }

    /// Whether the loss is a finite number.
    pub fn is_finite(&self) -> bool {
        (self.policy + self.value + self.entropy).is_finite()
    }
}

impl Loss for ClippedLoss {
    fn tile(&self, tile: LossTile<'_>) -> Sums {
        let LossTile { samples, layout, actions, weight, outputs, log_std, head, deltas, d_log_std } = tile;
        let logprob = layout.logprob.expect("samples of a policy");
        let [old_logprob, old_value, raw] =
            [logprob, layout.value, layout.advantage].map(|field| samples.float(field));
        let exploring = layout.intrinsic.map(|field| [field, field + 1].map(|field| samples.float(field)));
        // The advantage before normalisation, without that of a second value function, and the value.
        let task = exploring.map_or(raw, |[_, own]| core::array::from_fn(|v| raw[v] - own[v]));
        let returns: TileRow = core::array::from_fn(|v| fma(task[v], f32x16::ONE, old_value[v]));
        let (old_value, returns) = match self.scales.values {
            Some(values) => (normalised(&old_value, values), normalised(&returns, values)),
            None => (old_value, returns),
        };
        let scale = f32x16::splat(self.scale);
        let value: TileRow = if let Some(bins) = self.bins {
            let (place, vf_coef) = (bins.place(returns), f32x16::splat(self.vf_coef));
            let logits = deltas.value_logits_mut();
            logits.copy_from_slice(outputs.value_logits());
            let by_loss = weight.map(|weight| vf_coef * (weight * scale));
            let loss = cross_entropy(logits, |k| near(&place, k), &by_loss);
            core::array::from_fn(|v| loss[v] * weight[v])
        } else {
            let second =
                exploring.map(|[old, advantage]| (old, core::array::from_fn(|v| old[v] + advantage[v])));
            let targets = [Some((old_value, returns)), second].into_iter().flatten();
            let mut losses: TileRow = splat(0.0);
            for ((old, returns), (value, delta)) in
                targets.zip(outputs.values().iter().zip(deltas.values_mut()))
            {
                let (loss, by_value) = self.value_loss(weight, [value, &old, &returns]);
                *delta = core::array::from_fn(|v| by_value[v] * (weight[v] * scale));
                losses = core::array::from_fn(|v| losses[v] + loss[v]);
            }
            losses
        };
        let zero: TileRow = splat(0.0);
        let Some(advantages) = self.scales.advantages else {
            deltas.policy_mut().fill(zero);
            return LossSums { value: row_sum(&value), ..LossSums::default() }.numbers();
        };
        let mut advantages = normalised(&raw, advantages);
        if let Some(importance) = &self.scales.importance {
            for (s, &sample) in samples.indices.iter().enumerate() {
                advantages[s / LANES].as_mut_array()[s % LANES] *= importance[sample as usize];
            }
        }
        let (logprob, entropy) = head.evaluate(outputs.policy(), log_std, actions);
        let (mut policy, mut kl, mut clipped, mut by_logprob, mut by_entropy) =
            (zero, zero, zero, zero, zero);
        let (low, high) = (f32x16::splat(1.0 - self.clip_coef), f32x16::splat(1.0 + self.clip_coef));
        for v in 0..TILE_VECTORS {
            let (weight, advantage) = (weight[v], advantages[v]);
            let log_ratio = logprob[v] - old_logprob[v];
            let ratio = Float::exp(log_ratio);
            let plain = -advantage * ratio;
            let bounded = -advantage * Float::clamp(ratio, low, high);
            policy[v] = weight * Float::max(plain, bounded);
            kl[v] = weight * ((ratio - f32x16::ONE) - log_ratio);
            let outside = Float::abs(ratio - f32x16::ONE);
            clipped[v] = Float::gt(outside, f32x16::splat(self.clip_coef)).select(weight, f32x16::ZERO);
            // Where the clipped objective is selected, it is constant; where both are equal, the ratio is in range or the gradient is 0.
            by_logprob[v] = Float::lt(plain, bounded).select(f32x16::ZERO, plain) * (weight * scale);
            by_entropy[v] = f32x16::splat(-self.ent_coef) * (weight * scale);
        }
        head.gradient(log_std, actions, &by_logprob, &by_entropy, deltas.policy_mut(), d_log_std);
        let sums = LossSums {
            policy: row_sum(&policy),
            value: row_sum(&value),
            entropy: row_sum::<TILE_VECTORS>(&core::array::from_fn(|v| entropy[v] * weight[v])),
            kl: row_sum(&kl),
            clipped: row_sum(&clipped),
        };
        sums.numbers()
    }
}

impl ClippedLoss {
    /// Weighted value loss of each sample, and the gradient of `vf_coef` times it, not yet weighted.
    #[inline(always)]
    fn value_loss(&self, weight: &TileRow, [value, old_value, returns]: [&TileRow; 3]) -> (TileRow, TileRow) {
        let half = f32x16::splat(0.5);
        let vf_coef = f32x16::splat(self.vf_coef);
        let clip = f32x16::splat(self.clip_coef);
        let (mut losses, mut gradients): (TileRow, TileRow) = (splat(0.0), splat(0.0));
        for v in 0..TILE_VECTORS {
            let error = value[v] - returns[v];
            let (mut loss, mut gradient) = (error * error, error);
            if self.clip_vloss {
                let change = value[v] - old_value[v];
                let bounded = old_value[v] + Float::clamp(change, -clip, clip) - returns[v];
                let bounded_loss = bounded * bounded;
                let greater = Float::gt(bounded_loss, loss);
                let inside = Float::le(Float::abs(change), clip);
                gradient = greater.select(inside.select(bounded, f32x16::ZERO), gradient);
                loss = greater.select(bounded_loss, loss);
            }
            if let Some(delta) = self.huber_delta.map(f32x16::splat) {
                // The greater square is the greater loss. 2 delta (|e| - delta / 2) from delta on.
                let size = Float::sqrt(loss);
                let linear = fma(delta + delta, size, -(delta * delta));
                loss = Float::gt(size, delta).select(linear, loss);
                gradient = Float::clamp(gradient, -delta, delta);
            }
            losses[v] = half * loss * weight[v];
            gradients[v] = vf_coef * gradient;
        }
        (losses, gradients)
    }
}

/// Numbers made zero-mean and unit-deviation by `(shift, scale)`.
#[inline(always)]
fn normalised(numbers: &TileRow, (shift, scale): (f32, f32)) -> TileRow {
    let (shift, scale) = (f32x16::splat(shift), f32x16::splat(scale));
    core::array::from_fn(|v| (numbers[v] - shift) * scale)
}
