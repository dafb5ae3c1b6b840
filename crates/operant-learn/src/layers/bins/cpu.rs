//! Distributions over samples in lanes, and their expected values. A loss of a distribution is one of its logits, whose gradient it sets itself.

use operant_lane::Float;
use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, splat};
use crate::layers::{LayerContext, OnCpu, bins};

type TileRow = Row<TILE_VECTORS>;

/// The values of each distribution.
#[derive(Debug, Clone)]
pub(crate) struct Bins(Vec<f32>);

impl OnCpu for bins::Bins {
    type Packed = Bins;
    fn on_cpu(&self, _at: &LayerContext<'_>) -> Bins {
        Bins(self.values().collect())
    }
}

/// Nothing has a gradient.
#[derive(Debug, Clone)]
pub(crate) struct NoSums;

impl LayerSums for NoSums {
    fn clear(&mut self) {}
}

impl LayerKind for Bins {
    type Sums = NoSums;

    fn sums(&self) -> NoSums {
        NoSums
    }

    fn pack(&mut self, _params: &[f32]) {}

    fn pack_backward(&mut self, _params: &[f32]) {}

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        for (logits, y) in pass.x.numbers().chunks_exact(self.0.len()).zip(pass.y) {
            let greatest = logits[1..]
                .iter()
                .fold(logits[0], |best, row| core::array::from_fn(|v| Float::max(best[v], row[v])));
            let (mut total, mut sum) = (splat::<V>(0.0), splat::<V>(0.0));
            for (logit, &value) in logits.iter().zip(&self.0) {
                for v in 0..V {
                    let share = Float::exp(logit[v] - greatest[v]);
                    total[v] += share;
                    sum[v] = fma(share, f32x16::splat(value), sum[v]);
                }
            }
            *y = finish(core::array::from_fn(|v| sum[v] / total[v]));
        }
    }

    /// Of the means, where inputs alone have a gradient: a policy's loss is one of means.
    fn backward(&self, _sums: &mut NoSums, pass: Backward<'_>, slope: impl Slope) {
        let Some(dx) = pass.dx.filter(|_| pass.inputs_only) else { return };
        let (count, logits) = (self.0.len(), pass.x.numbers());
        for ((choice, dx), dz) in dx.chunks_exact_mut(count).enumerate().zip(pass.dz) {
            let logits = &logits[choice * count..][..count];
            dx.copy_from_slice(logits);
            softmax(dx, None);
            let mut mean: TileRow = splat(0.0);
            for (share, &value) in dx.iter().zip(&self.0) {
                mean = core::array::from_fn(|v| fma(share[v], f32x16::splat(value), mean[v]));
            }
            for (k, (dx, &value)) in dx.iter_mut().zip(&self.0).enumerate() {
                let by_logit = core::array::from_fn(|v| dx[v] * (f32x16::splat(value) - mean[v]) * dz[v]);
                *dx = slope(choice * count + k, &logits[k], by_logit);
            }
        }
    }

    fn finish(&self, _sums: &NoSums, _params: &mut [f32]) {}
}

/// Puts probabilities in the place of logits. Returns the cross-entropy from `target`, zero without one.
pub(crate) fn softmax(logits: &mut [TileRow], target: Option<&[TileRow]>) -> TileRow {
    let greatest = |best: TileRow, row: &TileRow| core::array::from_fn(|v| Float::max(best[v], row[v]));
    let greatest = logits.iter().fold(logits[0], greatest);
    let (mut total, mut along): (TileRow, TileRow) = (splat(0.0), splat(0.0));
    for (k, row) in logits.iter_mut().enumerate() {
        for v in 0..TILE_VECTORS {
            let over = row[v] - greatest[v];
            along[v] = target.map_or(along[v], |target| fma(target[k][v], over, along[v]));
            row[v] = Float::exp(over);
            total[v] += row[v];
        }
    }
    for row in logits {
        *row = core::array::from_fn(|v| row[v] / total[v]);
    }
    // The target's probabilities add up to 1.
    let loss = |v: usize| if target.is_some() { Float::ln(total[v]) - along[v] } else { f32x16::ZERO };
    core::array::from_fn(loss)
}

/// The distribution of the reward and the discounted value, on the same values: what falls between two is divided between them.
pub(crate) fn project(
    bins: bins::Bins,
    from: &[TileRow],
    [reward, discount]: [&TileRow; 2],
    to: &mut [TileRow],
) {
    let [least, greatest] = bins.bounds().map(f32x16::splat);
    let per_step = f32x16::splat(1.0 / bins.step());
    to.fill(splat(0.0));
    for (value, share) in bins.values().zip(from) {
        for v in 0..TILE_VECTORS {
            let moved = Float::clamp(fma(discount[v], f32x16::splat(value), reward[v]), least, greatest);
            let place = (moved - least) * per_step;
            for (k, to) in to.iter_mut().enumerate() {
                let near =
                    Float::max(f32x16::ONE - Float::abs(place - f32x16::splat(k as f32)), f32x16::ZERO);
                to[v] = fma(share[v], near, to[v]);
            }
        }
    }
}
