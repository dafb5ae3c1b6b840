//! The gradient of one layer's weights, summed over the tiles of a chunk without horizontal sums.
//!
//! | form | when | a sum is |
//! | --- | --- | --- |
//! | lanes | few weights | one vector per weight, samples in lanes; the lanes are added at the end of the chunk |
//! | outer | many weights | `dW[j][i..i+16] += dz[j][s] x[s][i..i+16]`, samples ascending, inputs transposed into lanes |
//! | bits | packed inputs | `dW[..][bit] += dz[..][s]` for the set bits of each sample, outputs transposed into lanes |
//!
//! The form, and with it the order of every sum, depends only on the layer's shape.

use operant_lane::isa::f32x16;

use crate::cpu::isa;
use crate::cpu::network::bits::for_each_bit;
use crate::cpu::network::layers::LayerSums;
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{BitRow, LANES, Row, TILE, TILE_VECTORS, fma, lane_sums, turn};

/// Largest number of weights summed in the lanes form: half a first-level cache of sums.
const LANES_WEIGHTS: usize = 512;
/// Vectors of a panel of inputs in the outer form.
const PANEL_VECTORS: usize = 4;
/// Inputs of a panel.
const PANEL_INPUTS: usize = PANEL_VECTORS * LANES;
/// Outputs of a block of accumulators.
const BLOCK: usize = 4;

/// Sixteen inputs x 4 of one sample, or of one output's weights.
type Panel = [f32x16; PANEL_VECTORS];

#[derive(Debug, Clone)]
enum Sums {
    /// `[output][input]`.
    Lanes(Vec<f32x16>),
    /// `sums` is `[panel][output]`, `x` `[panel][sample]`.
    Outer { sums: Vec<Panel>, x: Vec<Panel> },
    /// `[bit][vector of outputs]`.
    Bits(Vec<f32x16>),
}

/// Running sums of one layer's gradient.
#[derive(Debug, Clone)]
pub(crate) struct WeightGradient {
    inputs: usize,
    outputs: usize,
    sums: Sums,
    /// `[output]`, samples in lanes.
    bias: Vec<f32x16>,
    /// True until a tile is added. Until then the sums are stale, because the first tile overwrites them.
    empty: bool,
}

impl WeightGradient {
    /// Zero sums of this shape; `bits` if the inputs are packed.
    pub fn new(inputs: usize, outputs: usize, bits: bool) -> Self {
        let panels = inputs.div_ceil(PANEL_INPUTS);
        let zero = [f32x16::ZERO; PANEL_VECTORS];
        let sums = if bits {
            Sums::Bits(vec![f32x16::ZERO; inputs * outputs.div_ceil(LANES)])
        } else if inputs * outputs <= LANES_WEIGHTS {
            Sums::Lanes(vec![f32x16::ZERO; inputs * outputs])
        } else {
            Sums::Outer { sums: vec![zero; panels * outputs], x: vec![zero; panels * TILE] }
        };
        Self { inputs, outputs, sums, bias: vec![f32x16::ZERO; outputs], empty: true }
    }

    /// Adds a tile: `x` is the layer's input, `dz` the gradient of its outputs before the nonlinearity, `[output]`.
    pub fn add(&mut self, x: Observation<'_, TILE_VECTORS>, dz: &[Row<TILE_VECTORS>]) {
        self.add_vectors(TILE_VECTORS, x, dz);
    }

    /// Adds the first `vectors` vectors of a tile.
    pub fn add_vectors(
        &mut self,
        vectors: usize,
        x: Observation<'_, TILE_VECTORS>,
        dz: &[Row<TILE_VECTORS>],
    ) {
        match (core::mem::take(&mut self.empty), vectors) {
            (true, 1) => self.add_tile::<true, 1>(x, dz),
            (true, 2) => self.add_tile::<true, 2>(x, dz),
            (true, 3) => self.add_tile::<true, 3>(x, dz),
            (true, _) => self.add_tile::<true, TILE_VECTORS>(x, dz),
            (false, 1) => self.add_tile::<false, 1>(x, dz),
            (false, 2) => self.add_tile::<false, 2>(x, dz),
            (false, 3) => self.add_tile::<false, 3>(x, dz),
            (false, _) => self.add_tile::<false, TILE_VECTORS>(x, dz),
        }
    }

    /// Adds A vectors of a tile, to sums of zero if it is the FIRST one.
    fn add_tile<const FIRST: bool, const A: usize>(
        &mut self,
        x: Observation<'_, TILE_VECTORS>,
        dz: &[Row<TILE_VECTORS>],
    ) {
        for (sum, dz) in self.bias.iter_mut().zip(dz) {
            *sum = dz[..A].iter().fold(before::<FIRST>(*sum), |sum, &vector| sum + vector);
        }
        match (&mut self.sums, x) {
            (Sums::Lanes(sums), Observation::Dense(x)) => add_lanes::<FIRST, A>(sums, x, dz),
            (Sums::Outer { sums, x: turned }, Observation::Dense(x)) => {
                turn_tile::<A>(x, turned);
                let vectors = self.inputs.div_ceil(LANES);
                for (p, (sums, x)) in
                    sums.chunks_exact_mut(self.outputs).zip(turned.chunks_exact(TILE)).enumerate()
                {
                    match vectors - p * PANEL_VECTORS {
                        1 => add_outer::<1, FIRST, A>(sums, x, dz),
                        2 => add_outer::<2, FIRST, A>(sums, x, dz),
                        3 => add_outer::<3, FIRST, A>(sums, x, dz),
                        _ => add_outer::<4, FIRST, A>(sums, x, dz),
                    }
                }
            }
            (Sums::Bits(sums), Observation::Bits(x)) => {
                if FIRST {
                    sums.fill(f32x16::ZERO);
                }
                add_bits::<A>(sums, x, dz);
            }
            _ => panic!("the layer's input is not of the form its gradient was made for"),
        }
    }

    /// Writes the sums in the parameters' order: weights, then biases.
    pub fn finish(&self, params: &mut [f32]) {
        let (weight, bias) = params.split_at_mut(self.inputs * self.outputs);
        self.write(weight, bias);
    }

    /// Writes the sums in the parameters' order: `weight` row-major `(outputs, inputs)`, `bias` `(outputs)`.
    pub fn write(&self, weight: &mut [f32], bias: &mut [f32]) {
        if self.empty {
            weight.fill(0.0);
            return bias.fill(0.0);
        }
        add_up(&self.bias, bias);
        match &self.sums {
            Sums::Lanes(sums) => add_up(sums, weight),
            Sums::Outer { sums, .. } => {
                for (p, sums) in sums.chunks_exact(self.outputs).enumerate() {
                    for (row, panel) in weight.chunks_exact_mut(self.inputs).zip(sums) {
                        let end = self.inputs.min((p + 1) * PANEL_INPUTS);
                        copy(&mut row[p * PANEL_INPUTS..end], panel);
                    }
                }
            }
            Sums::Bits(sums) => {
                let vectors = self.outputs.div_ceil(LANES);
                let mut turned = [[f32x16::ZERO]; LANES];
                for first in (0..self.inputs).step_by(LANES) {
                    let width = LANES.min(self.inputs - first);
                    for (c, rows) in weight.chunks_mut(LANES * self.inputs).enumerate() {
                        let mut bits = [[f32x16::ZERO]; LANES];
                        for (b, vector) in bits.iter_mut().enumerate().take(width) {
                            *vector = [sums[(first + b) * vectors + c]];
                        }
                        turn(&bits, 0, &mut turned, 0);
                        for (row, [column]) in rows.chunks_exact_mut(self.inputs).zip(&turned) {
                            copy(&mut row[first..first + width], &[*column]);
                        }
                    }
                }
            }
        }
    }
}

impl LayerSums for WeightGradient {
    fn clear(&mut self) {
        self.empty = true;
    }
}

/// A sum before a tile is added.
#[inline(always)]
fn before<const FIRST: bool>(sum: f32x16) -> f32x16 {
    if FIRST { f32x16::ZERO } else { sum }
}

/// Adds the lanes of each vector.
pub(crate) fn add_up(vectors: &[f32x16], out: &mut [f32]) {
    let (chunks, rest) = out.as_chunks_mut::<LANES>();
    for (out, vectors) in chunks.iter_mut().zip(vectors.chunks_exact(LANES)) {
        *out = lane_sums(vectors);
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&lane_sums(&vectors[chunks.len() * LANES..])[..rest.len()]);
    }
}

/// Sets `to` to the first elements of the vectors, which have at least `to.len()` elements.
#[inline(always)]
fn copy(to: &mut [f32], vectors: &[f32x16]) {
    // Copies of constant size are inlined.
    let (chunks, rest) = to.as_chunks_mut::<LANES>();
    for (to, from) in chunks.iter_mut().zip(vectors) {
        *to = from.to_array();
    }
    if let Some(from) = vectors.get(chunks.len()) {
        rest.copy_from_slice(&from.as_array()[..rest.len()]);
    }
}

fn add_lanes<const FIRST: bool, const A: usize>(
    sums: &mut [f32x16],
    x: &[Row<TILE_VECTORS>],
    dz: &[Row<TILE_VECTORS>],
) {
    for (sums, dz) in sums.chunks_mut(BLOCK * x.len()).zip(dz.chunks(BLOCK)) {
        // Four outputs share each input row; the rest go one by one.
        if let (Some(dz), [a, b, c, d]) = (dz.first_chunk::<BLOCK>(), split_rows(sums, x.len())) {
            for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
                for (sum, dz) in [a, b, c, d].into_iter().zip(dz) {
                    *sum = dot::<A>(x, dz, before::<FIRST>(*sum));
                }
            }
        } else {
            for (sums, dz) in sums.chunks_exact_mut(x.len()).zip(dz) {
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = dot::<A>(x, dz, before::<FIRST>(*sum));
                }
            }
        }
    }
}

/// Four consecutive rows of `length`; empty ones where there are not four.
fn split_rows(rows: &mut [f32x16], length: usize) -> [&mut [f32x16]; BLOCK] {
    if rows.len() < BLOCK * length {
        return Default::default();
    }
    let (ab, cd) = rows.split_at_mut(2 * length);
    let ((a, b), (c, d)) = (ab.split_at_mut(length), cd.split_at_mut(length));
    [a, b, c, d]
}

/// `sum + a[0] b[0] + a[1] b[1] + ..`, lane by lane.
#[inline(always)]
fn dot<const A: usize>(a: &Row<TILE_VECTORS>, b: &Row<TILE_VECTORS>, mut sum: f32x16) -> f32x16 {
    for (&a, &b) in a[..A].iter().zip(b) {
        sum = fma(b, a, sum);
    }
    sum
}

/// Transposes `[input]` rows of samples into `[panel][sample]` rows of inputs, padded with zeros.
fn turn_tile<const A: usize>(x: &[Row<TILE_VECTORS>], turned: &mut [Panel]) {
    for (panel, x) in turned.chunks_exact_mut(TILE).zip(x.chunks(PANEL_INPUTS)) {
        for (c, x) in x.chunks(LANES).enumerate() {
            for (v, samples) in panel.as_chunks_mut().0.iter_mut().take(A).enumerate() {
                turn(x, v, samples, c);
            }
        }
    }
}

/// Adds the products of 64 samples to one panel of sums, `[output]`; C vectors of the panel are in use.
fn add_outer<const C: usize, const FIRST: bool, const A: usize>(
    sums: &mut [Panel],
    x: &[Panel],
    dz: &[Row<TILE_VECTORS>],
) {
    for (sums, dz) in sums.chunks_mut(BLOCK).zip(dz.chunks(BLOCK)) {
        match (sums.first_chunk_mut::<BLOCK>(), dz.first_chunk::<BLOCK>()) {
            (Some(sums), Some(dz)) => outer_block::<C, BLOCK, FIRST, A>(sums, x, dz),
            _ => {
                for (sum, dz) in sums.iter_mut().zip(dz) {
                    outer_block::<C, 1, FIRST, A>(core::array::from_mut(sum), x, core::array::from_ref(dz));
                }
            }
        }
    }
}

#[inline(always)]
fn outer_block<const C: usize, const R: usize, const FIRST: bool, const A: usize>(
    sums: &mut [Panel; R],
    x: &[Panel],
    dz: &[Row<TILE_VECTORS>; R],
) {
    if isa::HOLDS_BLOCKS {
        let mut block: [[f32x16; C]; R] =
            core::array::from_fn(|r| core::array::from_fn(|c| before::<FIRST>(sums[r][c])));
        for (v, x) in x.chunks_exact(LANES).take(A).enumerate() {
            let dz: [&[f32; LANES]; R] = core::array::from_fn(|r| dz[r][v].as_array());
            for (lane, x) in x.iter().enumerate() {
                for (row, dz) in block.iter_mut().zip(dz) {
                    let dz = f32x16::splat(dz[lane]);
                    for (sum, &x) in row.iter_mut().zip(x) {
                        *sum = fma(dz, x, *sum);
                    }
                }
            }
        }
        for (sums, block) in sums.iter_mut().zip(block) {
            sums[..C].copy_from_slice(&block);
        }
    } else {
        // One vector of the panel at a time.
        for c in 0..C {
            let mut column: [f32x16; R] = core::array::from_fn(|r| before::<FIRST>(sums[r][c]));
            for (v, x) in x.chunks_exact(LANES).take(A).enumerate() {
                for (lane, x) in x.iter().enumerate() {
                    for (sum, dz) in column.iter_mut().zip(dz) {
                        *sum = fma(f32x16::splat(dz[v].as_array()[lane]), x[c], *sum);
                    }
                }
            }
            for (sums, sum) in sums.iter_mut().zip(column) {
                sums[c] = sum;
            }
        }
    }
}

fn add_bits<const A: usize>(sums: &mut [f32x16], x: &[BitRow<TILE_VECTORS>], dz: &[Row<TILE_VECTORS>]) {
    let vectors = dz.len().div_ceil(LANES);
    let mut block = [[f32x16::ZERO]; LANES];
    for (c, dz) in dz.chunks(LANES).enumerate() {
        for v in 0..A {
            turn(dz, v, &mut block, 0);
            for (sample, [column]) in block.iter().enumerate() {
                for_each_bit(x, v, sample, |bit| sums[bit * vectors + c] += *column);
            }
        }
    }
}
