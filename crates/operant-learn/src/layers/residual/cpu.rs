//! Residual blocks: a normalisation and two fully connected layers, whose outputs are added to the inputs.
//!
//! Rows kept: those of the normalisation, its outputs, and the outputs of the inner layer.

use super::Residual;
use crate::cpu::network::layers::{
    Backward, Forward, LayerKind, LayerSums, Slope, outputs, slopes, with_activation,
};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{Row, TILE_VECTORS};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::dense::cpu::Panels;
use crate::layers::norm::cpu::{Norm, NormGradient, kept};
use crate::layers::{LayerContext, OnCpu};

/// A block's packed weights.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    residual: Residual,
    norm: Norm,
    /// W1 and W2, and their transposes for the gradients of their inputs.
    up: [Panels; 2],
    down: [Panels; 2],
}

/// Running sums of a block's gradient.
#[derive(Debug, Clone)]
pub(crate) struct BlockGradient {
    norm: NormGradient,
    up: WeightGradient,
    down: WeightGradient,
}

impl OnCpu for Residual {
    type Packed = Block;
    fn on_cpu(&self, _at: &LayerContext<'_>) -> Block {
        let (width, inner) = (self.width, self.inner());
        let pair = |inputs, outputs| [Panels::new(inputs, outputs), Panels::new(outputs, inputs)];
        Block { residual: *self, norm: Norm::new(width), up: pair(width, inner), down: pair(inner, width) }
    }
}

impl Block {
    /// Lengths of the parameters of the normalisation, of W1, b1 and W2.
    fn lengths(&self) -> [usize; 4] {
        let (width, inner) = (self.residual.width, self.residual.inner());
        [2 * width, inner * width, inner, width * inner]
    }

    /// The parameters of the normalisation, W1, b1, W2 and b2.
    fn split<'a>(&self, mut params: &'a [f32]) -> [&'a [f32]; 5] {
        let [norm, up, up_bias, down] = self.lengths().map(|length| {
            let part;
            (part, params) = params.split_at(length);
            part
        });
        [norm, up, up_bias, down, params]
    }
}

/// Each vector of two rows, added.
#[inline(always)]
fn plus<const V: usize>(a: &Row<V>, b: Row<V>) -> Row<V> {
    core::array::from_fn(|v| a[v] + b[v])
}

impl LayerKind for Block {
    type Sums = BlockGradient;

    fn sums(&self) -> BlockGradient {
        let (width, inner) = (self.residual.width, self.residual.inner());
        BlockGradient {
            norm: self.norm.sums(),
            up: WeightGradient::new(width, inner, false),
            down: WeightGradient::new(inner, width, false),
        }
    }

    fn pack(&mut self, params: &[f32]) {
        let [norm, up, up_bias, down, down_bias] = self.split(params);
        self.norm.pack(norm);
        self.up[0].pack(up, up_bias);
        self.down[0].pack(down, down_bias);
    }

    fn pack_backward(&mut self, params: &[f32]) {
        let [_, up, _, down, _] = self.split(params);
        self.up[1].pack_transposed(up);
        self.down[1].pack_transposed(down);
    }

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let Forward { x, y, kept: rows, .. } = pass;
        let (of_norm, rest) = rows.split_at_mut(kept(self.residual.width));
        let (normal, inner) = rest.split_at_mut(self.residual.width);
        self.norm.forward(Forward { y: &mut *normal, kept: of_norm, ..pass }, outputs::identity);
        with_activation!(Some(self.residual.activation), outputs, |f| {
            self.up[0].apply(normal, inner, |_, sum| f(sum));
        });
        let x = x.numbers();
        self.down[0].apply(inner, y, |i, sum| finish(plus(&x[i], sum)));
    }

    fn backward(&self, sums: &mut BlockGradient, pass: Backward<'_>, slope: impl Slope) {
        let Residual { width, activation } = self.residual;
        let Backward { dz, kept: rows, work, .. } = pass;
        let (of_norm, rest) = rows.split_at(kept(width));
        let (normal, inner) = rest.split_at(width);
        let (of_normal, of_inner) = work.split_at_mut(width);
        let of_inner = &mut of_inner[..inner.len()];
        sums.down.add(Observation::Dense(inner), dz);
        with_activation!(Some(activation), slopes, |f| {
            self.down[1].apply(dz, of_inner, |i, sum| f(&inner[i], sum));
        });
        sums.up.add(Observation::Dense(normal), of_inner);
        self.up[1].apply(of_inner, of_normal, |_, sum| sum);
        let pass = Backward { dz: of_normal, kept: of_norm, work: &mut [], ..pass };
        self.norm.backward(&mut sums.norm, pass, |i: usize, x: &Row<TILE_VECTORS>, dx: Row<TILE_VECTORS>| {
            slope(i, x, plus(&dz[i], dx))
        });
    }

    fn finish(&self, sums: &BlockGradient, params: &mut [f32]) {
        let [norm, up, up_bias, _] = self.lengths();
        let (of_norm, rest) = params.split_at_mut(norm);
        let (of_up, of_down) = rest.split_at_mut(up + up_bias);
        self.norm.finish(&sums.norm, of_norm);
        sums.up.finish(of_up);
        sums.down.finish(of_down);
    }
}

impl LayerSums for BlockGradient {
    fn clear(&mut self) {
        self.norm.clear();
        self.up.clear();
        self.down.clear();
    }
}
