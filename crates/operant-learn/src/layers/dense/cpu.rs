//! A fully connected layer over samples in lanes: weights in panels of four outputs, accumulators in registers.
//!
//! One pass over the inputs feeds a block of 4 outputs x V vectors: each input row is loaded once for four outputs,
//! each weight broadcast once for V vectors, and 16 accumulators (V = 4) are enough chains to hide the latency of the
//! multiply-add. Every output is `bias + w0 x0 + w1 x1 + ..` in that order whatever the blocking, so V, the panels and
//! the instruction set never change a bit.

use operant_lane::isa::f32x16;

use crate::cpu::isa;
use crate::cpu::network::bf16::Bf16;
use crate::cpu::network::bits::BitWeights;
use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope, one_of};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{Row, fma, splat};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::{LayerContext, OnCpu, dense};

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
            let mut rows = rows.chunks_exact(self.inputs);
            if rows.len() == PANEL {
                // All four at once, which compiles to shuffles of whole vectors.
                let [a, b, c, d] = core::array::from_fn(|_| rows.next().unwrap_or_default());
                for ((((packed, &a), &b), &c), &d) in panel.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *packed = [a, b, c, d];
                }
            }
            for (r, row) in rows.enumerate() {
                for (packed, &w) in panel.iter_mut().zip(row) {
                    packed[r] = w;
                }
            }
        }
    }

    /// Sets the transpose of `weight`, which is row-major `(inputs, outputs)` of this layer, for the backward pass. No bias.
    pub fn pack_transposed(&mut self, weight: &[f32]) {
        for (p, panel) in self.weights.chunks_exact_mut(self.inputs).enumerate() {
            let first = p * PANEL;
            for (packed, row) in panel.iter_mut().zip(weight.chunks_exact(self.outputs)) {
                match row[first..].first_chunk() {
                    // A copy of constant size is inlined.
                    Some(row) => *packed = *row,
                    None => packed[..row.len() - first].copy_from_slice(&row[first..]),
                }
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
        self.apply_to::<V, V>(x, y, &finish);
    }

    /// Like `apply`, for the first `vectors` vectors (1, 2, 3 or V) only: the others are neither read nor written.
    #[inline(always)]
    pub fn apply_vectors<const V: usize>(
        &self,
        vectors: usize,
        x: &[Row<V>],
        y: &mut [Row<V>],
        finish: impl Fn(usize, Row<V>) -> Row<V>,
    ) {
        match vectors {
            1 if V > 1 => self.apply_to::<V, 1>(x, y, &finish),
            2 if V > 2 => self.apply_to::<V, 2>(x, y, &finish),
            3 if V > 3 => self.apply_to::<V, 3>(x, y, &finish),
            _ => self.apply_to::<V, V>(x, y, &finish),
        }
    }

    /// The first A of V vectors.
    #[inline(always)]
    fn apply_to<const V: usize, const A: usize>(
        &self,
        x: &[Row<V>],
        y: &mut [Row<V>],
        finish: &impl Fn(usize, Row<V>) -> Row<V>,
    ) {
        assert_eq!((x.len(), y.len()), (self.inputs, self.outputs));
        // With one vector a panel has four chains of sums, half as many as hide the latency; with two vectors it has just enough; if there
        // are enough registers, two panels run side by side.
        let pairs = if A <= 2 && isa::HOLDS_BLOCKS { y.len() / (2 * PANEL) } else { 0 };
        let (abreast, rest) = y.split_at_mut(2 * PANEL * pairs);
        for (p, y) in abreast.chunks_exact_mut(2 * PANEL).enumerate() {
            let sums = pair::<V, A>([self.panel(2 * p), self.panel(2 * p + 1)], x);
            store::<V, A, _>(2 * PANEL * p, sums, y, finish);
        }
        for (p, y) in (2 * pairs..).zip(rest.chunks_mut(PANEL)) {
            let (j, panel) = (PANEL * p, self.panel(p));
            match y.len() {
                PANEL => store::<V, A, _>(j, block::<V, A, 4>(panel, x), y, finish),
                3 => store::<V, A, _>(j, block::<V, A, 3>(panel, x), y, finish),
                2 => store::<V, A, _>(j, block::<V, A, 2>(panel, x), y, finish),
                _ => store::<V, A, _>(j, block::<V, A, 1>(panel, x), y, finish),
            }
        }
    }

    /// Weights, input by input, and biases of four outputs.
    #[inline(always)]
    fn panel(&self, number: usize) -> (&[[f32; PANEL]], &[f32; PANEL]) {
        (&self.weights[number * self.inputs..][..self.inputs], &self.bias[number])
    }
}

one_of! {
    /// A fully connected layer over numbers, with products in f32 or bf16, or over packed bits.
    Connected, ConnectedSums {
        Numbers: Dense;
        Halves: Bf16;
        Bits: BitWeights;
    }
}

impl OnCpu for dense::Dense {
    type Packed = Connected;
    fn on_cpu(&self, at: &LayerContext<'_>) -> Connected {
        if at.bits {
            Connected::Bits(BitWeights::new(at.inputs, self.outputs))
        } else if let Some(layer) = Bf16::new(at.network, at.chain, at.k) {
            Connected::Halves(layer)
        } else {
            Connected::Numbers(Dense::new(at.inputs, self.outputs))
        }
    }
}

/// A fully connected layer over numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    /// W, and its transpose for the gradient of the inputs.
    panels: [Panels; 2],
}

impl Dense {
    /// Zero weights of the given shape.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { panels: [Panels::new(inputs, outputs), Panels::new(outputs, inputs)] }
    }

    fn weights(&self) -> usize {
        self.panels[0].inputs * self.panels[0].outputs
    }
}

impl LayerKind for Dense {
    type Sums = WeightGradient;

    fn sums(&self) -> WeightGradient {
        WeightGradient::new(self.panels[0].inputs, self.panels[0].outputs, false)
    }

    fn pack(&mut self, params: &[f32]) {
        let (weight, bias) = params.split_at(self.weights());
        self.panels[0].pack(weight, bias);
    }

    fn pack_backward(&mut self, params: &[f32]) {
        let weights = self.weights();
        self.panels[1].pack_transposed(&params[..weights]);
    }

    /// Products and nonlinearity in one pass: the nonlinearity of one block overlaps the sums of the next.
    #[inline(always)]
    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        self.panels[0].apply_vectors(pass.vectors, pass.x.numbers(), pass.y, |_, sum| finish(sum));
    }

    #[inline(always)]
    fn backward(&self, sums: &mut WeightGradient, pass: Backward<'_>, slope: impl Slope) {
        if !pass.inputs_only {
            sums.add_vectors(pass.vectors, pass.x, pass.dz);
        }
        if let (Some(dx), Observation::Dense(x)) = (pass.dx, pass.x) {
            self.panels[1].apply_vectors(pass.vectors, pass.dz, dx, |i, sum| slope(i, &x[i], sum));
        }
    }

    fn finish(&self, sums: &WeightGradient, params: &mut [f32]) {
        sums.finish(params);
    }
}

#[inline(always)]
fn store<const V: usize, const A: usize, const R: usize>(
    j: usize,
    sums: [Row<V>; R],
    y: &mut [Row<V>],
    finish: &impl Fn(usize, Row<V>) -> Row<V>,
) {
    for (r, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
        y[..A].copy_from_slice(&finish(j + r, sum)[..A]);
    }
}

/// The outputs of two panels.
#[inline(always)]
fn pair<const V: usize, const A: usize>(
    [(low, low_bias), (high, high_bias)]: [(&[[f32; PANEL]], &[f32; PANEL]); 2],
    x: &[Row<V>],
) -> [Row<V>; 2 * PANEL] {
    let bias = |r: usize| if r < PANEL { low_bias[r] } else { high_bias[r - PANEL] };
    let mut sums: [Row<V>; 2 * PANEL] = core::array::from_fn(|r| splat(bias(r)));
    for ((low, high), x) in low.iter().zip(high).zip(x) {
        for r in 0..PANEL {
            for (v, &x) in x[..A].iter().enumerate() {
                sums[r][v] = fma(f32x16::splat(low[r]), x, sums[r][v]);
                sums[PANEL + r][v] = fma(f32x16::splat(high[r]), x, sums[PANEL + r][v]);
            }
        }
    }
    sums
}

/// R outputs of a panel.
#[inline(always)]
fn block<const V: usize, const A: usize, const R: usize>(
    (weights, bias): (&[[f32; PANEL]], &[f32; PANEL]),
    x: &[Row<V>],
) -> [Row<V>; R] {
    let mut sums: [Row<V>; R] = core::array::from_fn(|r| splat(bias[r]));
    if isa::HOLDS_BLOCKS {
        for (w, x) in weights.iter().zip(x) {
            for (sums, &w) in sums.iter_mut().zip(w) {
                let w = f32x16::splat(w);
                for (sum, &x) in sums.iter_mut().zip(&x[..A]) {
                    *sum = fma(w, x, *sum);
                }
            }
        }
    } else {
        // One column of the block at a time.
        for v in 0..A {
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
        for (inputs, outputs) in [(1, 1), (4, 64), (5, 7), (17, 6), (64, 3), (3, 19)] {
            matches_a_scalar_loop::<1>(inputs, outputs);
            matches_a_scalar_loop::<2>(inputs, outputs);
        }
    }

    fn matches_a_scalar_loop<const V: usize>(inputs: usize, outputs: usize) {
        let weight: Vec<f32> = (0..inputs * outputs).map(|k| ((k * 37 % 101) as f32 - 50.0) / 33.0).collect();
        let bias: Vec<f32> = (0..outputs).map(|k| k as f32 / 7.0).collect();
        let x: Vec<Row<V>> = (0..inputs)
            .map(|i| {
                core::array::from_fn(|v| {
                    f32x16::new(core::array::from_fn(|l| ((i * 5 + v * 16 + l) % 13) as f32 / 3.0))
                })
            })
            .collect();
        let mut panels = Panels::new(inputs, outputs);
        panels.pack(&weight, &bias);
        let mut y = vec![splat::<V>(0.0); outputs];
        panels.apply(&x, &mut y, |_, sum| sum);
        let transposed: Vec<f32> =
            (0..inputs * outputs).map(|k| weight[(k % outputs) * inputs + k / outputs]).collect();
        let mut back = Panels::new(inputs, outputs);
        back.pack_transposed(&transposed);
        let mut z = vec![splat::<V>(0.0); outputs];
        back.apply(&x, &mut z, |_, sum| sum);
        for j in 0..outputs {
            for s in 0..16 * V {
                let sum = |start: f32| {
                    (0..inputs).fold(start, |sum, i| {
                        weight[j * inputs + i].mul_add(x[i][s / 16].as_array()[s % 16], sum)
                    })
                };
                assert_eq!(y[j][s / 16].as_array()[s % 16], sum(bias[j]), "{inputs} x {outputs}");
                assert_eq!(z[j][s / 16].as_array()[s % 16], sum(0.0), "{inputs} x {outputs}");
            }
        }
    }
}
