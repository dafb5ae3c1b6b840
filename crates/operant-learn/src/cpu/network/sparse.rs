//! Layers over packed bits that share weights between places: convolutions, and embeddings, whose indices are one-hot bits.
//!
//! Each set bit adds rows of weights, which are along the lanes, to the sums of the places that it belongs to. Bits are added in ascending order, so a
//! convolution's sums equal those over 0/1 inputs, bit for bit. No bit becomes a float, except those that skip the layer.

use operant_lane::isa::{f32x16, u32x16};

use crate::cpu::network::bits::for_each_bit;
use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::tile::{BitRow, LANES, Row, TILE_VECTORS, turn};
use crate::cpu::network::weight_gradient::add_up;
use crate::network::{Conv, Embed, Pool};

/// What the parameters of a layer are.
#[derive(Debug, Clone)]
enum Params {
    /// Weights `(channels, depth, kernel, kernel)`, and a bias for each channel.
    Conv(Conv),
    /// Tables `(rows, width)`; each row counts this much.
    Tables(Vec<f32>),
}

/// Where each input bit goes.
#[derive(Debug, Clone)]
struct Taps {
    params: Params,
    /// Outputs of a place.
    channels: usize,
    /// Vectors of a place's outputs. The slots of a sample are the vectors of all places.
    vectors: usize,
    /// Places with their own outputs.
    places: usize,
    rows: usize,
    /// `taps[starts[b]..starts[b + 1]]` belong to bit b: the first slot of each place that it adds to, and the row of weights.
    taps: Vec<[u32; 2]>,
    starts: Vec<u32>,
    /// Bits that are outputs as they are.
    passed: Vec<usize>,
}

impl Taps {
    fn new(
        params: Params,
        [channels, places, rows]: [usize; 3],
        of_bit: &[Vec<[usize; 2]>],
        passed: Vec<usize>,
    ) -> Self {
        let vectors = channels.div_ceil(LANES);
        let ends = of_bit.iter().scan(0, |end, taps| {
            *end += taps.len() as u32;
            Some(*end)
        });
        let starts = core::iter::once(0).chain(ends).collect();
        let taps = of_bit.iter().flatten().map(|tap| tap.map(|at| (at * vectors) as u32)).collect();
        Self { params, channels, vectors, places, rows, taps, starts, passed }
    }

    fn conv(conv: &Conv, inputs: usize) -> Self {
        let run = conv.kernel * conv.image[2];
        let mut of_bit = vec![Vec::new(); inputs];
        for place in 0..conv.places() {
            for (row, first) in conv.runs(place).enumerate() {
                (0..run).for_each(|k| of_bit[first + k].push([place, row * run + k]));
            }
        }
        let extents = [conv.channels, conv.places(), conv.patch()];
        Self::new(Params::Conv(*conv), extents, &of_bit, conv.passed(inputs).collect())
    }

    fn embed(embed: &Embed, inputs: usize) -> Self {
        let mut of_bit = vec![Vec::new(); inputs];
        let (mut places, mut first_row, mut scales) = (0, 0, Vec::new());
        for part in &embed.parts {
            for position in 0..part.positions {
                let place = if embed.pool == Pool::Concat { places + position } else { places };
                for row in 0..part.rows {
                    of_bit[part.first + position * part.rows + row].push([place, first_row + row]);
                }
            }
            let scale = if embed.pool == Pool::Mean { 1.0 / part.positions as f32 } else { 1.0 };
            scales.resize(scales.len() + part.rows, scale);
            places += embed.outputs_of(part) / embed.width;
            first_row += part.rows;
        }
        let passed = embed.passed(inputs).collect();
        Self::new(Params::Tables(scales), [embed.width, places, first_row], &of_bit, passed)
    }

    /// Vectors of a sample's sums.
    fn slots(&self) -> usize {
        self.places * self.vectors
    }

    fn outputs(&self) -> usize {
        self.places * self.channels
    }

    fn weights(&self) -> usize {
        self.rows * self.channels
    }

    #[inline(always)]
    fn of(&self, bit: usize) -> &[[u32; 2]] {
        &self.taps[self.starts[bit] as usize..self.starts[bit + 1] as usize]
    }

    fn outputs_of(&self, slot: usize) -> core::ops::Range<usize> {
        let (place, vector) = (slot / self.vectors, slot % self.vectors);
        let first = place * self.channels;
        first + vector * LANES..first + self.channels.min((vector + 1) * LANES)
    }

    /// Calls `f` with the number of each weight among the parameters, its row, its channel and its factor.
    fn each_weight(&self, mut f: impl FnMut(usize, usize, usize, f32)) {
        match &self.params {
            Params::Conv(conv) => {
                conv.reorder(|patched, weight| f(weight, patched % self.rows, patched / self.rows, 1.0));
            }
            Params::Tables(scales) => {
                for (row, &scale) in scales.iter().enumerate() {
                    (0..self.channels).for_each(|c| f(row * self.channels + c, row, c, scale));
                }
            }
        }
    }
}

/// A layer's packed weights.
#[derive(Debug, Clone)]
pub(crate) struct Sparse {
    taps: Taps,
    /// `[row][vector of channels]`.
    rows: Vec<f32x16>,
    /// `[vector of channels]`.
    bias: Vec<f32x16>,
}

impl Sparse {
    /// Zero weights of a convolution over `inputs` bits.
    pub fn conv(conv: &Conv, inputs: usize) -> Self {
        Self::new(Taps::conv(conv, inputs))
    }

    /// Tables of zeros for `inputs` bits.
    pub fn embed(embed: &Embed, inputs: usize) -> Self {
        Self::new(Taps::embed(embed, inputs))
    }

    fn new(taps: Taps) -> Self {
        let zeros = |count| vec![f32x16::ZERO; count];
        Self { rows: zeros(taps.rows * taps.vectors), bias: zeros(taps.vectors), taps }
    }
}

/// Vectors of scratch space that a layer needs, for any number of samples.
pub(crate) fn scratch(places: usize, channels: usize) -> usize {
    LANES * places * channels.div_ceil(LANES)
}

/// Words of memory of a layer's table and of its gradient's buffers, in addition to parameters, activations and scratch space.
pub(crate) fn words(inputs: usize, taps: usize, places: usize, channels: usize) -> [usize; 2] {
    let table = 2 * taps + inputs;
    [table, LANES * scratch(places, channels)]
}

impl LayerKind for Sparse {
    type Sums = SparseGradient;

    fn sums(&self) -> SparseGradient {
        let zeros = |count| vec![f32x16::ZERO; count];
        SparseGradient {
            sums: zeros(self.rows.len()),
            bias: zeros(self.taps.channels),
            turned: zeros(LANES * self.taps.slots()),
        }
    }

    fn pack(&mut self, params: &[f32]) {
        let Self { taps, rows, bias } = self;
        for (vector, bias) in bias.iter_mut().zip(params[taps.weights()..].chunks(LANES)) {
            vector.as_mut_array()[..bias.len()].copy_from_slice(bias);
        }
        taps.each_weight(|weight, row, channel, scale| {
            rows[row * taps.vectors + channel / LANES].as_mut_array()[channel % LANES] =
                scale * params[weight];
        });
    }

    fn pack_backward(&mut self, _params: &[f32]) {}

    /// The outputs: `finish` of the sums of each place, then the other bits, as 0 or 1.
    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let (x, taps) = (pass.x.bits(), &self.taps);
        let (slots, vectors) = (taps.slots(), taps.vectors);
        let (made, passed) = pass.y.split_at_mut(taps.outputs());
        // `[sample][slot]`.
        let sums = &mut pass.scratch[..LANES * slots];
        for v in 0..V {
            for (sample, sums) in sums.chunks_exact_mut(slots).enumerate() {
                sums.chunks_exact_mut(vectors).for_each(|sums| sums.copy_from_slice(&self.bias));
                for_each_bit(x, v, sample, |bit| {
                    for &[slot, row] in taps.of(bit) {
                        let sums = &mut sums[slot as usize..][..vectors];
                        let rows = &self.rows[row as usize..][..vectors];
                        sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += *row);
                    }
                });
            }
            for slot in 0..slots {
                let block: [Row<1>; LANES] = core::array::from_fn(|sample| [sums[sample * slots + slot]]);
                let mut columns = [[f32x16::ZERO]; LANES];
                turn(&block, 0, &mut columns, 0);
                for (y, [column]) in made[taps.outputs_of(slot)].iter_mut().zip(&columns) {
                    y[v] = *column;
                }
            }
        }
        for y in made {
            *y = finish(*y);
        }
        for (to, &bit) in passed.iter_mut().zip(&taps.passed) {
            *to = x[bit / 32].map(|words| {
                let bits: u32x16 = words & u32x16::splat(1 << (bit % 32));
                f32x16::new(bits.to_array().map(|bits| f32::from(bits != 0)))
            });
        }
    }

    fn backward(&self, sums: &mut SparseGradient, pass: Backward<'_>, _slope: impl Slope) {
        sums.add(&self.taps, pass.x.bits(), pass.dz);
    }

    fn finish(&self, sums: &SparseGradient, params: &mut [f32]) {
        let taps = &self.taps;
        let (weights, bias) = params.split_at_mut(taps.weights());
        let count = bias.len();
        add_up(&sums.bias[..count], bias);
        taps.each_weight(|weight, row, channel, scale| {
            let sum = sums.sums[row * taps.vectors + channel / LANES].as_array()[channel % LANES];
            weights[weight] = scale * sum;
        });
    }
}

/// Running sums of a layer's gradient.
#[derive(Debug, Clone)]
pub(crate) struct SparseGradient {
    /// `[row][vector of channels]`.
    sums: Vec<f32x16>,
    /// `[channel]`, samples in lanes.
    bias: Vec<f32x16>,
    /// `[sample][slot]`: gradients of 16 samples with channels in lanes.
    turned: Vec<f32x16>,
}

impl SparseGradient {
    fn add(&mut self, taps: &Taps, x: &[BitRow<TILE_VECTORS>], dz: &[Row<TILE_VECTORS>]) {
        let Self { sums, bias, turned } = self;
        let (vectors, slots, dz) = (taps.vectors, taps.slots(), &dz[..taps.outputs()]);
        for dz in dz.chunks_exact(taps.channels) {
            for (sum, dz) in bias.iter_mut().zip(dz) {
                dz.iter().for_each(|vector| *sum += *vector);
            }
        }
        for v in 0..TILE_VECTORS {
            for slot in 0..slots {
                let mut block = [[f32x16::ZERO]; LANES];
                turn(&dz[taps.outputs_of(slot)], v, &mut block, 0);
                for (sample, [channels]) in block.iter().enumerate() {
                    turned[sample * slots + slot] = *channels;
                }
            }
            for (sample, turned) in turned.chunks_exact(slots).enumerate() {
                for_each_bit(x, v, sample, |bit| {
                    for &[slot, row] in taps.of(bit) {
                        let sums = &mut sums[row as usize..][..vectors];
                        let dz = &turned[slot as usize..][..vectors];
                        sums.iter_mut().zip(dz).for_each(|(sum, dz)| *sum += *dz);
                    }
                });
            }
        }
    }
}

impl LayerSums for SparseGradient {
    fn clear(&mut self) {
        self.sums.fill(f32x16::ZERO);
        self.bias.fill(f32x16::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::network::layers::Memory;
    use crate::cpu::network::policy::Observation;
    use crate::cpu::network::tile::{TILE, splat};
    use crate::layers::conv::cpu::ConvPanels;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|k| ((k * 7919 + seed * 104_729) % 1009) as f32 / 331.0 - 1.5).collect()
    }

    /// Packed bits of 64 samples, and the same as floats.
    fn bits(inputs: usize) -> (Vec<BitRow<TILE_VECTORS>>, Vec<Row<TILE_VECTORS>>) {
        let set = |s: usize, bit: usize| (s * 31 + bit * bit * 7).is_multiple_of(5);
        let word = |s: usize, w: usize| {
            (0..32).filter(|b| w * 32 + b < inputs && set(s, w * 32 + b)).fold(0, |word, b| word | 1 << b)
        };
        let lanes = |v: usize| (0..LANES).map(move |l| v * LANES + l);
        let packed = (0..inputs.div_ceil(32)).map(|w| {
            core::array::from_fn(|v| {
                let mut samples = lanes(v);
                u32x16::new(core::array::from_fn(|_| samples.next().map_or(0, |s| word(s, w))))
            })
        });
        let floats = (0..inputs).map(|bit| {
            core::array::from_fn(|v| {
                let mut samples = lanes(v);
                f32x16::new(core::array::from_fn(|_| samples.next().map_or(0.0, |s| f32::from(set(s, bit)))))
            })
        });
        (packed.collect(), floats.collect())
    }

    #[test]
    fn both_forms_are_those_of_a_scalar_loop_bit_for_bit() {
        for (conv, inputs) in [
            (Conv { first: 0, image: [6, 5, 3], channels: 16, kernel: 3, stride: 1 }, 90),
            (Conv { first: 7, image: [5, 8, 2], channels: 21, kernel: 2, stride: 2 }, 95),
        ] {
            let (weight, bias) = (numbers(conv.channels * conv.patch(), 1), numbers(conv.channels, 2));
            let (packed, floats) = bits(inputs);
            let outputs = conv.outputs() + inputs - conv.image_len();
            let slots = scratch(conv.places(), conv.channels);
            let mut scratch = vec![f32x16::ZERO; slots.max(TILE_VECTORS * conv.patch())];
            let mut y = [vec![splat::<TILE_VECTORS>(0.0); outputs], vec![splat(0.0); outputs]];
            let mut panels = ConvPanels::new(&conv);
            panels.pack(&[&weight[..], &bias].concat());
            panels.apply(&floats, &mut y[0], &mut scratch, |sum| sum);
            let mut sparse = Sparse::conv(&conv, inputs);
            sparse.pack(&[&weight[..], &bias].concat());
            let pass = Forward {
                x: Observation::Bits(&packed),
                y: &mut y[1],
                kept: &mut [],
                memory: Memory::Step { before: &[], after: &mut [] },
                scratch: &mut scratch,
                vectors: TILE_VECTORS,
            };
            sparse.forward(pass, |sum| sum);
            let at =
                |rows: &[Row<TILE_VECTORS>], k: usize, s: usize| rows[k][s / LANES].as_array()[s % LANES];
            let (columns, area) = (conv.extents()[1], conv.kernel * conv.kernel);
            for s in 0..TILE {
                for place in 0..conv.places() {
                    for channel in 0..conv.channels {
                        let mut sum = bias[channel];
                        for pixel in 0..area {
                            for c in 0..conv.image[2] {
                                let row = place / columns * conv.stride + pixel / conv.kernel;
                                let column = place % columns * conv.stride + pixel % conv.kernel;
                                let x = conv.first + (row * conv.image[1] + column) * conv.image[2] + c;
                                let w = weight[(channel * conv.image[2] + c) * area + pixel];
                                sum = w.mul_add(at(&floats, x, s), sum);
                            }
                        }
                        let k = place * conv.channels + channel;
                        assert_eq!([at(&y[0], k, s), at(&y[1], k, s)], [sum, sum]);
                    }
                }
                for (k, x) in conv.passed(inputs).enumerate() {
                    let x = at(&floats, x, s);
                    assert_eq!([at(&y[0], conv.outputs() + k, s), at(&y[1], conv.outputs() + k, s)], [x, x]);
                }
            }
        }
    }
}
