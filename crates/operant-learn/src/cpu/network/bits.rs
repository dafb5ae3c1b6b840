//! The first layer over bit-packed observations: an embedding bag. Each sample sums the weight columns of its set bits,
//! with lanes along the outputs, and blocks of 16 x 16 are transposed so that the next layer has samples in lanes.
//!
//! Bits are added in ascending order, so the sums equal those of the dense layer over 0/1 inputs, bit for bit.

use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, Slope};
use crate::cpu::network::tile::{BitRow, LANES, Row, turn};
use crate::cpu::network::weight_gradient::WeightGradient;

/// Weights of the first layer, one row of output vectors per bit.
#[derive(Debug, Clone)]
pub(crate) struct BitWeights {
    inputs: usize,
    outputs: usize,
    /// Vectors per row: outputs / 16, rounded up.
    vectors: usize,
    /// `[bit][vector]`, padded with zeros.
    rows: Vec<f32x16>,
    /// `[vector]`.
    bias: Vec<f32x16>,
}

impl BitWeights {
    /// Zero weights of the given shape.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let vectors = outputs.div_ceil(LANES);
        Self {
            inputs,
            outputs,
            vectors,
            rows: vec![f32x16::ZERO; inputs * vectors],
            bias: vec![f32x16::ZERO; vectors],
        }
    }

    /// `y[j] = finish(bias[j] + sum of W[j][bit] over the set bits of x)`; x is `[word]`, 32 bits each. Bits past the
    /// last input must be clear.
    pub fn apply<const V: usize>(
        &self,
        x: &[BitRow<V>],
        y: &mut [Row<V>],
        vectors: usize,
        finish: impl Fn(Row<V>) -> Row<V>,
    ) {
        assert_eq!((x.len(), y.len()), (self.inputs.div_ceil(32), self.outputs));
        for v in 0..vectors {
            for (c, y) in y.chunks_mut(LANES).enumerate() {
                let mut block = [[f32x16::ZERO]; LANES];
                for (sample, [sum]) in block.iter_mut().enumerate() {
                    *sum = self.bias[c];
                    for_each_bit(x, v, sample, |bit| *sum += self.rows[bit * self.vectors + c]);
                }
                let mut columns = [[f32x16::ZERO]; LANES];
                turn(&block, 0, &mut columns, 0);
                for (y, [column]) in y.iter_mut().zip(&columns) {
                    y[v] = *column;
                }
            }
        }
        for y in y {
            // Also the vectors beyond `vectors`, which are never read.
            *y = finish(*y);
        }
    }
}

impl LayerKind for BitWeights {
    type Sums = WeightGradient;

    fn sums(&self) -> WeightGradient {
        WeightGradient::new(self.inputs, self.outputs, true)
    }

    fn pack(&mut self, params: &[f32]) {
        let (weight, bias) = params.split_at(self.inputs * self.outputs);
        for (vector, bias) in self.bias.iter_mut().zip(bias.chunks(LANES)) {
            vector.as_mut_array()[..bias.len()].copy_from_slice(bias);
        }
        for (j, row) in weight.chunks_exact(self.inputs).enumerate() {
            for (bit, &w) in row.iter().enumerate() {
                self.rows[bit * self.vectors + j / LANES].as_mut_array()[j % LANES] = w;
            }
        }
    }

    fn pack_backward(&mut self, _params: &[f32]) {}

    #[inline(always)]
    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        self.apply(pass.x.bits(), pass.y, pass.vectors, finish);
    }

    fn backward(&self, sums: &mut WeightGradient, pass: Backward<'_>, _slope: impl Slope) {
        sums.add_vectors(pass.vectors, pass.x, pass.dz);
    }

    fn finish(&self, sums: &WeightGradient, params: &mut [f32]) {
        sums.finish(params);
    }
}

/// Calls `f` with the set bits of one sample, ascending.
#[inline(always)]
pub(crate) fn for_each_bit<const V: usize>(x: &[BitRow<V>], v: usize, lane: usize, mut f: impl FnMut(usize)) {
    for (w, word) in x.iter().enumerate() {
        let mut bits = word[v].as_array()[lane];
        while bits != 0 {
            f(w * 32 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::network::tile::splat;
    use crate::layers::dense::cpu::Panels;
    use operant_lane::isa::u32x16;

    #[test]
    fn equals_the_dense_layer_bit_for_bit() {
        let (inputs, outputs) = (75usize, 19);
        let weight: Vec<f32> =
            (0..inputs * outputs).map(|k| ((k * 7919 % 1009) as f32 - 500.0) / 331.0).collect();
        let bias: Vec<f32> = (0..outputs).map(|k| 0.1 + k as f32 / 7.0).collect();
        let set = |s: usize, bit: usize| (s * 31 + bit * bit * 7).is_multiple_of(5);
        let packed: Vec<BitRow<1>> = (0..inputs.div_ceil(32))
            .map(|w| {
                [u32x16::new(core::array::from_fn(|s| {
                    (0..32)
                        .filter(|b| w * 32 + b < inputs && set(s, w * 32 + b))
                        .fold(0, |word, b| word | 1 << b)
                }))]
            })
            .collect();
        let dense: Vec<Row<1>> = (0..inputs)
            .map(|bit| [f32x16::new(core::array::from_fn(|s| if set(s, bit) { 1.0 } else { 0.0 }))])
            .collect();
        let mut bits = BitWeights::new(inputs, outputs);
        bits.pack(&[&weight[..], &bias].concat());
        let mut panels = Panels::new(inputs, outputs);
        panels.pack(&weight, &bias);
        let (mut a, mut b) = (vec![splat::<1>(0.0); outputs], vec![splat::<1>(0.0); outputs]);
        bits.apply(&packed, &mut a, 1, |y| y);
        panels.apply(&dense, &mut b, |_, y| y);
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a[0].to_array(), b[0].to_array());
        }
    }
}
