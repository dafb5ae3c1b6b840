//! A fully connected layer over samples in lanes: weights in panels of four outputs, accumulators in registers.
//!
//! One pass over the inputs feeds a block of 4 outputs x V vectors: each input row is loaded once for four outputs,
//! each weight broadcast once for V vectors, and 16 accumulators (V = 4) are enough chains to hide the latency of the
//! multiply-add. Every output is `bias + w0 x0 + w1 x1 + ..` in that order whatever the blocking, so V, the panels and
//! the instruction set never change a bit.

use wide::f32x16;

use super::tile::{Row, fma, splat};

/// Outputs of a panel.
pub(crate) const PANEL: usize = 4;

/// A layer's weights, input by input in panels of four outputs; the last panel is padded with zeros.
#[derive(Debug, Clone)]
pub(crate) struct Panels {
    inputs: usize,
    outputs: usize,
    /// `[panel][input]`.
    weights: Vec<[f32; PANEL]>,
    /// `[panel]`.
    bias: Vec<[f32; PANEL]>,
}

impl Panels {
    /// Zero weights of the given shape.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let panels = outputs.div_ceil(PANEL);
        Self {
            inputs,
            outputs,
            weights: vec![[0.0; PANEL]; panels * inputs],
            bias: vec![[0.0; PANEL]; panels],
        }
    }

    /// Takes `weight`, row-major `(outputs, inputs)`, and `bias`.
    pub fn pack(&mut self, weight: &[f32], bias: &[f32]) {
        let panels = self.weights.chunks_exact_mut(self.inputs);
        for ((panel, packed_bias), (rows, bias)) in
            panels.zip(&mut self.bias).zip(weight.chunks(PANEL * self.inputs).zip(bias.chunks(PANEL)))
        {
            packed_bias[..bias.len()].copy_from_slice(bias);
            for (r, row) in rows.chunks_exact(self.inputs).enumerate() {
                for (packed, &w) in panel.iter_mut().zip(row) {
                    packed[r] = w;
                }
            }
        }
    }

    /// Takes the transpose of `weight`, which is row-major `(inputs, outputs)` of this layer: the way back. No bias.
    pub fn pack_transposed(&mut self, weight: &[f32]) {
        for (p, panel) in self.weights.chunks_exact_mut(self.inputs).enumerate() {
            let first = p * PANEL;
            let width = PANEL.min(self.outputs - first);
            for (packed, row) in panel.iter_mut().zip(weight.chunks_exact(self.outputs)) {
                packed[..width].copy_from_slice(&row[first..first + width]);
            }
        }
    }

    /// `y[j] = finish(j, bias[j] + W[j] x)`.
    #[inline(always)]
    pub fn apply<const V: usize>(
        &self,
        x: &[Row<V>],
        y: &mut [Row<V>],
        finish: impl Fn(usize, Row<V>) -> Row<V>,
    ) {
        assert_eq!((x.len(), y.len()), (self.inputs, self.outputs));
        let panels = self.weights.chunks_exact(self.inputs).zip(&self.bias);
        for (p, ((weights, bias), y)) in panels.zip(y.chunks_mut(PANEL)).enumerate() {
            let j = p * PANEL;
            match y.len() {
                PANEL => store(j, block::<V, 4>(weights, bias, x), y, &finish),
                3 => store(j, block::<V, 3>(weights, bias, x), y, &finish),
                2 => store(j, block::<V, 2>(weights, bias, x), y, &finish),
                _ => store(j, block::<V, 1>(weights, bias, x), y, &finish),
            }
        }
    }
}

#[inline(always)]
fn store<const V: usize, const R: usize>(
    j: usize,
    sums: [Row<V>; R],
    y: &mut [Row<V>],
    finish: &impl Fn(usize, Row<V>) -> Row<V>,
) {
    for (r, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
        *y = finish(j + r, sum);
    }
}

/// R outputs of a panel.
#[inline(always)]
fn block<const V: usize, const R: usize>(
    weights: &[[f32; PANEL]],
    bias: &[f32; PANEL],
    x: &[Row<V>],
) -> [Row<V>; R] {
    let mut sums: [Row<V>; R] = core::array::from_fn(|r| splat(bias[r]));
    if cfg!(target_feature = "avx512f") {
        for (w, x) in weights.iter().zip(x) {
            for (sums, &w) in sums.iter_mut().zip(w) {
                let w = f32x16::splat(w);
                for (sum, &x) in sums.iter_mut().zip(x) {
                    *sum = fma(w, x, *sum);
                }
            }
        }
    } else {
        // Half the registers, and a vector takes two: one column of the block at a time.
        for v in 0..V {
            let mut column: [f32x16; R] = core::array::from_fn(|r| sums[r][v]);
            for (w, x) in weights.iter().zip(x) {
                for (sum, &w) in column.iter_mut().zip(w) {
                    *sum = fma(f32x16::splat(w), x[v], *sum);
                }
            }
            for (sums, sum) in sums.iter_mut().zip(column) {
                sums[v] = sum;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_packings_match_a_scalar_loop_bit_for_bit() {
        for (inputs, outputs) in [(1, 1), (4, 64), (5, 7), (17, 6), (64, 3)] {
            let weight: Vec<f32> =
                (0..inputs * outputs).map(|k| ((k * 37 % 101) as f32 - 50.0) / 33.0).collect();
            let bias: Vec<f32> = (0..outputs).map(|k| k as f32 / 7.0).collect();
            let x: Vec<Row<2>> = (0..inputs)
                .map(|i| {
                    core::array::from_fn(|v| {
                        f32x16::new(core::array::from_fn(|l| ((i * 5 + v * 16 + l) % 13) as f32 / 3.0))
                    })
                })
                .collect();
            let mut panels = Panels::new(inputs, outputs);
            panels.pack(&weight, &bias);
            let mut y = vec![splat::<2>(0.0); outputs];
            panels.apply(&x, &mut y, |_, sum| sum);
            let transposed: Vec<f32> =
                (0..inputs * outputs).map(|k| weight[(k % outputs) * inputs + k / outputs]).collect();
            let mut back = Panels::new(inputs, outputs);
            back.pack_transposed(&transposed);
            let mut z = vec![splat::<2>(0.0); outputs];
            back.apply(&x, &mut z, |_, sum| sum);
            for j in 0..outputs {
                for s in 0..32 {
                    let sum = |start: f32| {
                        (0..inputs).fold(start, |sum, i| {
                            weight[j * inputs + i].mul_add(x[i][s / 16].as_array()[s % 16], sum)
                        })
                    };
                    assert_eq!(y[j][s / 16].as_array()[s % 16], sum(bias[j]));
                    assert_eq!(z[j][s / 16].as_array()[s % 16], sum(0.0));
                }
            }
        }
    }
}
