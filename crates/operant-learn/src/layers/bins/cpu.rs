//! Distributions over samples in lanes, and their expected values. A loss of a distribution is one of its logits, whose gradient it sets itself.

use operant_lane::Float;
use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, splat};
use crate::layers::{LayerContext, OnCpu, bins};

/// A row of a tile.
type TileRow = Row<TILE_VECTORS>;

/// Outputs before the means, and the values of each distribution.
#[derive(Debug, Clone)]
pub(crate) struct Bins(usize, Vec<f32>);

impl OnCpu for bins::Bins {
    type Packed = Bins;
    fn on_cpu(&self, _at: &LayerContext<'_>) -> Bins {
        Bins(self.passed, self.values().collect())
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
        let (passed, logits) = pass.x.numbers().split_at(self.0);
        let (before, means) = pass.y.split_at_mut(self.0);
        before.copy_from_slice(passed);
        for (logits, y) in logits.chunks_exact(self.1.len()).zip(means) {
            let greatest = logits[1..]
                .iter()
                .fold(logits[0], |best, row| core::array::from_fn(|v| Float::max(best[v], row[v])));
            let (mut total, mut sum) = (splat::<V>(0.0), splat::<V>(0.0));
            for (logit, &value) in logits.iter().zip(&self.1) {
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
        let (Some(dx), logits) = (pass.dx, pass.x.numbers()) else { return };
        let (passed, dx) = dx.split_at_mut(self.0);
        passed.copy_from_slice(&pass.dz[..self.0]);
        if !pass.inputs_only {
            return;
        }
        let (count, logits) = (self.1.len(), &logits[self.0..]);
        for ((choice, dx), dz) in dx.chunks_exact_mut(count).enumerate().zip(&pass.dz[self.0..]) {
            let logits = &logits[choice * count..][..count];
            dx.copy_from_slice(logits);
            softmax(dx, |_| splat(0.0));
            let mut mean: TileRow = splat(0.0);
            for (share, &value) in dx.iter().zip(&self.1) {
                mean = core::array::from_fn(|v| fma(share[v], f32x16::splat(value), mean[v]));
            }
            for (k, (dx, &value)) in dx.iter_mut().zip(&self.1).enumerate() {
                let by_logit = core::array::from_fn(|v| dx[v] * (f32x16::splat(value) - mean[v]) * dz[v]);
                *dx = slope(choice * count + k, &logits[k], by_logit);
            }
        }
    }

    fn finish(&self, _sums: &NoSums, _params: &mut [f32]) {}
}

/// Puts probabilities in the place of logits. Returns the cross-entropy from the target's, which add up to 1.
pub(crate) fn softmax(logits: &mut [TileRow], target: impl Fn(usize) -> TileRow) -> TileRow {
    let greatest = |best: TileRow, row: &TileRow| core::array::from_fn(|v| Float::max(best[v], row[v]));
    let greatest = logits.iter().fold(logits[0], greatest);
    let (mut total, mut along): (TileRow, TileRow) = (splat(0.0), splat(0.0));
    for (k, row) in logits.iter_mut().enumerate() {
        let target = target(k);
        for v in 0..TILE_VECTORS {
            let over = row[v] - greatest[v];
            along[v] = fma(target[v], over, along[v]);
            row[v] = Float::exp(over);
            total[v] += row[v];
        }
    }
    for row in logits {
        *row = core::array::from_fn(|v| row[v] / total[v]);
    }
    core::array::from_fn(|v| Float::ln(total[v]) - along[v])
}

/// Puts the gradient of the weighted cross-entropy from the target's probabilities in the place of logits. Returns the cross-entropy.
pub(crate) fn cross_entropy(
    logits: &mut [TileRow],
    target: impl Fn(usize) -> TileRow,
    weight: &TileRow,
) -> TileRow {
    let loss = softmax(logits, &target);
    for (k, row) in logits.iter_mut().enumerate() {
        let target = target(k);
        *row = core::array::from_fn(|v| (row[v] - target[v]) * weight[v]);
    }
    loss
}

impl bins::Bins {
    /// Where a number lies among the values, in steps from the least; outside at the nearest.
    pub(crate) fn place(&self, number: TileRow) -> TileRow {
        let [least, greatest] = self.bounds().map(f32x16::splat);
        let per_step = f32x16::splat(1.0 / self.step());
        number.map(|number| (Float::clamp(number, least, greatest) - least) * per_step)
    }
}

/// The share of value `k` in what is at a place, which is divided between its two neighbours.
pub(crate) fn near(place: &TileRow, k: usize) -> TileRow {
    place.map(|place| Float::max(f32x16::ONE - Float::abs(place - f32x16::splat(k as f32)), f32x16::ZERO))
}

/// The distribution of the reward and the discounted value.
pub(crate) fn project(
    bins: bins::Bins,
    from: &[TileRow],
    [reward, discount]: [&TileRow; 2],
    to: &mut [TileRow],
) {
    to.fill(splat(0.0));
    for (value, share) in bins.values().zip(from) {
        let moved = |v: usize| fma(discount[v], f32x16::splat(value), reward[v]);
        let place = bins.place(core::array::from_fn(moved));
        for (k, to) in to.iter_mut().enumerate() {
            let near = near(&place, k);
            *to = core::array::from_fn(|v| fma(share[v], near[v], to[v]));
        }
    }
}
