//! Expected values over samples in lanes. The loss of a distribution is one of its logits, whose gradient it sets itself.

use operant_lane::Float;
use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::tile::{Row, fma, splat};
use crate::layers::{LayerContext, OnCpu, bins};

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

    fn backward(&self, _sums: &mut NoSums, _pass: Backward<'_>, _slope: impl Slope) {}

    fn finish(&self, _sums: &NoSums, _params: &mut [f32]) {}
}
