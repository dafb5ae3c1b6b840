//! Normalisation over the features of a sample (Ba et al. 2016), or of each of its items: to mean 0 and variance 1, times a weight,
//! plus a bias.
//!
//! Samples are in the lanes, so a mean is a sum of rows. Rows kept per item: the normalised features, then the reciprocal deviation.

use operant_lane::Float;
use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, splat};
use crate::cpu::network::weight_gradient::add_up;
use crate::layers::{LayerContext, OnCpu, norm};

/// Added to the variance, as in PyTorch.
const EPS: f32 = 1e-5;

/// Rows that an item of this width keeps for its gradient.
pub(crate) fn kept(width: usize) -> usize {
    width + 1
}

/// Weights and biases.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Running sums of their gradient, samples in lanes.
#[derive(Debug, Clone)]
pub(crate) struct NormGradient {
    weight: Vec<f32x16>,
    bias: Vec<f32x16>,
}

impl Norm {
    /// Zero weights for this many features.
    pub fn new(width: usize) -> Self {
        Self { weight: vec![0.0; width], bias: vec![0.0; width] }
    }
}

impl OnCpu for norm::Norm {
    type Packed = Norm;
    fn on_cpu(&self, _at: &LayerContext<'_>) -> Norm {
        Norm::new(self.width)
    }
}

/// The mean over the features, of each sample.
#[inline(always)]
fn mean<const V: usize>(rows: impl ExactSizeIterator<Item = Row<V>>) -> Row<V> {
    let share = f32x16::splat(1.0 / rows.len() as f32);
    let sum = rows.fold(splat(0.0), |sum: Row<V>, row| core::array::from_fn(|v| sum[v] + row[v]));
    sum.map(|sum| sum * share)
}

impl LayerKind for Norm {
    type Sums = NormGradient;

    fn sums(&self) -> NormGradient {
        let zeros = || vec![f32x16::ZERO; self.weight.len()];
        NormGradient { weight: zeros(), bias: zeros() }
    }

    fn pack(&mut self, params: &[f32]) {
        let (weight, bias) = params.split_at(self.weight.len());
        self.weight.copy_from_slice(weight);
        self.bias.copy_from_slice(bias);
    }

    fn pack_backward(&mut self, _params: &[f32]) {}

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let width = self.weight.len();
        let items = pass.x.numbers().chunks_exact(width).zip(pass.y.chunks_exact_mut(width));
        for ((x, y), kept) in items.zip(pass.kept.chunks_exact_mut(kept(width))) {
            let (normal, root) = kept.split_at_mut(width);
            let centre = mean(x.iter().copied());
            let square = |x: &Row<V>| -> Row<V> {
                core::array::from_fn(|v| {
                    let distance = x[v] - centre[v];
                    distance * distance
                })
            };
            let variance = mean(x.iter().map(square));
            root[0] = variance.map(|variance| f32x16::ONE / Float::sqrt(variance + f32x16::splat(EPS)));
            let params = self.weight.iter().zip(&self.bias);
            for (((x, y), normal), (&weight, &bias)) in x.iter().zip(y).zip(normal).zip(params) {
                *normal = core::array::from_fn(|v| (x[v] - centre[v]) * root[0][v]);
                *y = finish(normal.map(|normal| fma(normal, f32x16::splat(weight), f32x16::splat(bias))));
            }
        }
    }

    /// With d = dz weight and n the normalised features: `dx = (d - mean(d) - n mean(d n)) / deviation`.
    fn backward(&self, sums: &mut NormGradient, pass: Backward<'_>, slope: impl Slope) {
        let width = self.weight.len();
        let mut of_inputs = pass.dx;
        let items = pass.x.numbers().chunks_exact(width).zip(pass.dz.chunks_exact(width));
        for (item, ((x, dz), kept)) in items.zip(pass.kept.chunks_exact(kept(width))).enumerate() {
            let (normal, root) = kept.split_at(width);
            let of_params = sums.weight.iter_mut().zip(&mut sums.bias);
            for ((dz, normal), (weight, bias)) in dz.iter().zip(normal).zip(of_params) {
                for v in 0..TILE_VECTORS {
                    *weight = fma(dz[v], normal[v], *weight);
                    *bias += dz[v];
                }
            }
            let Some(dx) = of_inputs.as_deref_mut() else { continue };
            let scaled = |i: usize| dz[i].map(|dz| dz * f32x16::splat(self.weight[i]));
            let level = mean((0..width).map(scaled));
            let along: Row<TILE_VECTORS> = mean((0..width).map(|i| {
                let d = scaled(i);
                core::array::from_fn(|v| d[v] * normal[i][v])
            }));
            for (i, (dx, x)) in dx[item * width..].iter_mut().zip(x).enumerate() {
                let d = scaled(i);
                let by_x =
                    core::array::from_fn(|v| fma(-normal[i][v], along[v], d[v] - level[v]) * root[0][v]);
                *dx = slope(item * width + i, x, by_x);
            }
        }
    }

    fn finish(&self, sums: &NormGradient, params: &mut [f32]) {
        let (weight, bias) = params.split_at_mut(self.weight.len());
        add_up(&sums.weight, weight);
        add_up(&sums.bias, bias);
    }
}

impl LayerSums for NormGradient {
    fn clear(&mut self) {
        self.weight.fill(f32x16::ZERO);
        self.bias.fill(f32x16::ZERO);
    }
}
