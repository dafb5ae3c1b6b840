//! Convolutions: the products of a dense layer over patches of an image, one output pixel after the other.
//!
//! Each output is `bias + w0 x0 + w1 x1 + ..` over its patch, row by row and channels last. Over packed bits only the set ones are
//! added, in that order, so the sums are those over 0/1 inputs, bit for bit.

use wide::{f32x16, u32x16};

use crate::cpu::network::bits::for_each_bit;
use crate::cpu::network::dense::Panels;
use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{BitRow, LANES, Row, TILE_VECTORS, turn};
use crate::cpu::network::weight_gradient::{WeightGradient, add_up};
use crate::network::{Architecture, Conv, Input, LayerSpec};

/// Vectors of scratch space that the convolutions of a network need for V x 16 samples.
pub(crate) fn scratch<const V: usize>(network: &Architecture) -> usize {
    let of = |(k, conv): (usize, &Conv)| match network.input {
        Input::Bits(_) if k == 0 => LANES * slots(conv),
        _ => V * conv.patch(),
    };
    network.conv.iter().enumerate().map(of).max().unwrap_or(0)
}

/// Words of memory that the update of a thread needs for convolutions apart from activations, scratch space and parameters.
pub(crate) fn update_words(network: &Architecture) -> usize {
    match (&network.input, network.conv.first()) {
        (Input::Bits(_), Some(conv)) => LANES * LANES * slots(conv) + tap_words(network),
        (_, Some(conv)) => TILE_VECTORS * LANES * conv.patch(),
        (_, None) => 0,
    }
}

/// Words of memory that the table of a convolution over bits takes.
pub(crate) fn tap_words(network: &Architecture) -> usize {
    match (&network.input, network.conv.first()) {
        (&Input::Bits(inputs), Some(conv)) => 2 * conv.places() * conv.patch() + inputs,
        _ => 0,
    }
}

/// Vectors of output channels of all pixels of a sample.
fn slots(conv: &Conv) -> usize {
    conv.places() * conv.channels.div_ceil(LANES)
}

/// Copies the patch of an output pixel.
fn gather<const V: usize>(conv: &Conv, place: usize, x: &[Row<V>], patch: &mut [Row<V>]) {
    let run = conv.kernel * conv.image[2];
    for (to, from) in patch.chunks_exact_mut(run).zip(conv.runs(place)) {
        to.copy_from_slice(&x[from..from + run]);
    }
}

/// A convolution over numbers.
#[derive(Debug, Clone)]
pub(crate) struct ConvPanels {
    conv: Conv,
    /// W over patches, and its transpose for the gradient of the inputs.
    panels: [Panels; 2],
    /// Weights in the order of patches.
    patched: Vec<f32>,
}

impl ConvPanels {
    /// Zero weights.
    pub fn new(conv: &Conv) -> Self {
        let (patch, channels) = (conv.patch(), conv.channels);
        let panels = [Panels::new(patch, channels), Panels::new(channels, patch)];
        Self { conv: *conv, panels, patched: vec![0.0; channels * patch] }
    }

    /// The outputs: `finish` of the sums of each pixel, then the inputs that are not of the image.
    #[inline(always)]
    pub fn apply<const V: usize>(
        &self,
        x: &[Row<V>],
        y: &mut [Row<V>],
        scratch: &mut [f32x16],
        finish: impl Fn(Row<V>) -> Row<V>,
    ) {
        let (image, passed) = y.split_at_mut(self.conv.outputs());
        let patch = &mut scratch.as_chunks_mut::<V>().0[..self.conv.patch()];
        for (place, y) in image.chunks_exact_mut(self.conv.channels).enumerate() {
            gather(&self.conv, place, x, patch);
            self.panels[0].apply(patch, y, |_, sum| finish(sum));
        }
        passed.iter_mut().zip(self.conv.passed(x.len())).for_each(|(to, from)| *to = x[from]);
    }

    /// The gradient of the image's inputs, from that of the sums; the other inputs get zero.
    pub fn gradient<const V: usize>(&self, dz: &[Row<V>], dx: &mut [Row<V>], scratch: &mut [f32x16]) {
        dx.fill([f32x16::ZERO; V]);
        let patch = &mut scratch.as_chunks_mut::<V>().0[..self.conv.patch()];
        let run = self.conv.kernel * self.conv.image[2];
        for (place, dz) in dz[..self.conv.outputs()].chunks_exact(self.conv.channels).enumerate() {
            self.panels[1].apply(dz, patch, |_, sum| sum);
            for (from, to) in patch.chunks_exact(run).zip(self.conv.runs(place)) {
                for (to, from) in dx[to..to + run].iter_mut().zip(from) {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
                }
            }
        }
    }
}

impl LayerKind for ConvPanels {
    type Sums = ConvGradient;

    /// Takes weights `(channels, depth, kernel, kernel)`, and biases.
    fn pack(&mut self, params: &[f32]) {
        let (weight, bias) = params.split_at(self.patched.len());
        self.conv.to_patches(weight, &mut self.patched);
        self.panels[0].pack(&self.patched, bias);
    }

    fn pack_backward(&mut self, params: &[f32]) {
        let weights = self.patched.len();
        self.conv.to_patches(&params[..weights], &mut self.patched);
        self.panels[1].pack_transposed(&self.patched);
    }

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        self.apply(pass.x.numbers(), pass.y, pass.scratch, finish);
    }

    fn backward(&self, sums: &mut ConvGradient, pass: Backward<'_>, slope: impl Slope) {
        sums.add(pass.x, pass.dz);
        if let (Some(dx), Observation::Dense(x)) = (pass.dx, pass.x) {
            self.gradient(pass.dz, dx, pass.scratch);
            for (dx, x) in dx.iter_mut().zip(x) {
                *dx = slope(x, *dx);
            }
        }
    }
}

/// Where each input bit goes.
#[derive(Debug, Clone)]
struct Taps {
    conv: Conv,
    inputs: usize,
    /// Vectors of output channels. The slots of a sample are those of all output pixels.
    vectors: usize,
    /// `taps[starts[b]..starts[b + 1]]` belong to bit b: for each output pixel whose patch contains it, the pixel's first slot and the
    /// row of weights.
    taps: Vec<[u32; 2]>,
    starts: Vec<u32>,
}

impl Taps {
    fn new(conv: &Conv, inputs: usize) -> Self {
        let (run, vectors) = (conv.kernel * conv.image[2], conv.channels.div_ceil(LANES));
        let mut of_bit: Vec<Vec<[u32; 2]>> = vec![Vec::new(); inputs];
        for place in 0..conv.places() {
            for (row, first) in conv.runs(place).enumerate() {
                for k in 0..run {
                    let weight = row * run + k;
                    of_bit[first + k].push([place, weight].map(|at| (at * vectors) as u32));
                }
            }
        }
        let ends = of_bit.iter().scan(0, |end, taps| {
            *end += taps.len() as u32;
            Some(*end)
        });
        let starts = core::iter::once(0).chain(ends).collect();
        Self { conv: *conv, inputs, vectors, starts, taps: of_bit.concat() }
    }

    #[inline(always)]
    fn of(&self, bit: usize) -> &[[u32; 2]] {
        &self.taps[self.starts[bit] as usize..self.starts[bit + 1] as usize]
    }

    /// The rows of `[pixel][channel]` that belong to a slot.
    fn channels(&self, slot: usize) -> core::ops::Range<usize> {
        let (place, vector) = (slot / self.vectors, slot % self.vectors);
        let first = place * self.conv.channels;
        first + vector * LANES..first + self.conv.channels.min((vector + 1) * LANES)
    }
}

/// A convolution over packed bits: the weights of one input of a patch lie in the lanes, and are added where a bit is set.
#[derive(Debug, Clone)]
pub(crate) struct ConvBits {
    taps: Taps,
    /// `[patch input][vector of channels]`.
    rows: Vec<f32x16>,
    /// `[vector of channels]`.
    bias: Vec<f32x16>,
}

impl ConvBits {
    /// Zero weights of a convolution over `inputs` bits.
    pub fn new(conv: &Conv, inputs: usize) -> Self {
        let taps = Taps::new(conv, inputs);
        let vectors = taps.vectors;
        Self { taps, rows: vec![f32x16::ZERO; conv.patch() * vectors], bias: vec![f32x16::ZERO; vectors] }
    }

    /// The outputs: `finish` of the sums of each pixel, then the bits that are not of the image, as 0 or 1; x is `[word]`.
    pub fn apply<const V: usize>(
        &self,
        x: &[BitRow<V>],
        y: &mut [Row<V>],
        scratch: &mut [f32x16],
        finish: impl Fn(Row<V>) -> Row<V>,
    ) {
        let Taps { conv, vectors, .. } = self.taps;
        let slots = slots(&conv);
        let (image, passed) = y.split_at_mut(conv.outputs());
        // `[sample][slot]`.
        let sums = &mut scratch[..LANES * slots];
        for v in 0..V {
            for (sample, sums) in sums.chunks_exact_mut(slots).enumerate() {
                sums.chunks_exact_mut(vectors).for_each(|sums| sums.copy_from_slice(&self.bias));
                for_each_bit(x, v, sample, |bit| {
                    for &[slot, row] in self.taps.of(bit) {
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
                for (y, [column]) in image[self.taps.channels(slot)].iter_mut().zip(&columns) {
                    y[v] = *column;
                }
            }
        }
        for y in image {
            *y = finish(*y);
        }
        for (to, bit) in passed.iter_mut().zip(conv.passed(self.taps.inputs)) {
            *to = x[bit / 32].map(|words| {
                let bits: u32x16 = words & u32x16::splat(1 << (bit % 32));
                f32x16::new(bits.to_array().map(|bits| f32::from(bits != 0)))
            });
        }
    }
}

impl LayerKind for ConvBits {
    type Sums = ConvGradient;

    fn pack(&mut self, params: &[f32]) {
        let (conv, vectors) = (self.taps.conv, self.taps.vectors);
        let (weight, bias) = params.split_at(conv.channels * conv.patch());
        for (vector, bias) in self.bias.iter_mut().zip(bias.chunks(LANES)) {
            vector.as_mut_array()[..bias.len()].copy_from_slice(bias);
        }
        let mut patched = vec![0.0; weight.len()];
        conv.to_patches(weight, &mut patched);
        for (channel, row) in patched.chunks_exact(conv.patch()).enumerate() {
            for (k, &w) in row.iter().enumerate() {
                self.rows[k * vectors + channel / LANES].as_mut_array()[channel % LANES] = w;
            }
        }
    }

    fn pack_backward(&mut self, _params: &[f32]) {}

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        self.apply(pass.x.bits(), pass.y, pass.scratch, finish);
    }

    fn backward(&self, sums: &mut ConvGradient, pass: Backward<'_>, _slope: impl Slope) {
        sums.add(pass.x, pass.dz);
    }
}

/// Running sums of the gradient of a convolution's weights.
#[derive(Debug, Clone)]
pub(crate) enum ConvGradient {
    /// Over numbers: those of a dense layer over the patches of all pixels.
    Dense { conv: Conv, sums: WeightGradient, patch: Vec<Row<TILE_VECTORS>> },
    /// Over packed bits: each set bit adds to the sums of its rows of weights, channels in lanes.
    Bits { taps: Box<TapSums> },
}

/// The sums over packed bits.
#[derive(Debug, Clone)]
pub(crate) struct TapSums {
    taps: Taps,
    /// `[patch input][vector of channels]`.
    sums: Vec<f32x16>,
    /// `[channel]`, samples in lanes.
    bias: Vec<f32x16>,
    /// `[sample][slot]`: gradients of 16 samples with channels in lanes.
    turned: Vec<f32x16>,
}

impl ConvGradient {
    /// Zero sums; `bits` if its inputs are packed.
    pub fn new(layer: &LayerSpec, conv: &Conv, bits: bool) -> Self {
        if bits {
            let taps = Taps::new(conv, layer.inputs);
            let zeros = |count| vec![f32x16::ZERO; count];
            let (sums, turned) = (zeros(conv.patch() * taps.vectors), zeros(LANES * slots(conv)));
            let taps = Box::new(TapSums { taps, sums, bias: zeros(conv.channels), turned });
            return Self::Bits { taps };
        }
        let sums = WeightGradient::new(conv.patch(), conv.channels, false);
        Self::Dense { conv: *conv, sums, patch: vec![[f32x16::ZERO; TILE_VECTORS]; conv.patch()] }
    }

    /// Adds a tile: `x` is the layer's input, `dz` the gradient of its outputs before the nonlinearity.
    pub fn add(&mut self, x: Observation<'_, TILE_VECTORS>, dz: &[Row<TILE_VECTORS>]) {
        match (self, x) {
            (Self::Dense { conv, sums, patch }, Observation::Dense(x)) => {
                for (place, dz) in dz[..conv.outputs()].chunks_exact(conv.channels).enumerate() {
                    gather(conv, place, x, patch);
                    sums.add(Observation::Dense(patch), dz);
                }
            }
            (Self::Bits { taps }, Observation::Bits(x)) => taps.add(x, dz),
            _ => panic!("the layer's input is not of the form its gradient was made for"),
        }
    }
}

impl LayerSums for ConvGradient {
    fn clear(&mut self) {
        match self {
            Self::Dense { sums, .. } => sums.clear(),
            Self::Bits { taps } => {
                taps.sums.fill(f32x16::ZERO);
                taps.bias.fill(f32x16::ZERO);
            }
        }
    }

    fn finish(&self, params: &mut [f32]) {
        let conv = match self {
            Self::Dense { conv, .. } => *conv,
            Self::Bits { taps } => taps.taps.conv,
        };
        let (weight, bias) = params.split_at_mut(conv.channels * conv.patch());
        let mut patched = vec![0.0; weight.len()];
        match self {
            Self::Dense { sums, .. } => sums.write(&mut patched, bias),
            Self::Bits { taps } => {
                let TapSums { taps: Taps { vectors, .. }, sums, bias: sums_of_bias, .. } = &**taps;
                add_up(sums_of_bias, bias);
                for (channel, row) in patched.chunks_exact_mut(conv.patch()).enumerate() {
                    for (k, w) in row.iter_mut().enumerate() {
                        *w = sums[k * vectors + channel / LANES].as_array()[channel % LANES];
                    }
                }
            }
        }
        conv.from_patches(&patched, weight);
    }
}

impl TapSums {
    fn add(&mut self, x: &[BitRow<TILE_VECTORS>], dz: &[Row<TILE_VECTORS>]) {
        let Self { taps, sums, bias, turned } = self;
        let (conv, vectors) = (taps.conv, taps.vectors);
        let (slots, dz) = (slots(&conv), &dz[..conv.outputs()]);
        for dz in dz.chunks_exact(conv.channels) {
            for (sum, dz) in bias.iter_mut().zip(dz) {
                dz.iter().for_each(|vector| *sum += *vector);
            }
        }
        for v in 0..TILE_VECTORS {
            for slot in 0..slots {
                let mut block = [[f32x16::ZERO]; LANES];
                turn(&dz[taps.channels(slot)], v, &mut block, 0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::network::tile::{TILE, splat};

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
            let mut scratch = vec![f32x16::ZERO; (LANES * slots(&conv)).max(TILE_VECTORS * conv.patch())];
            let mut y = [vec![splat::<TILE_VECTORS>(0.0); outputs], vec![splat(0.0); outputs]];
            let mut panels = ConvPanels::new(&conv);
            panels.pack(&[&weight[..], &bias].concat());
            panels.apply(&floats, &mut y[0], &mut scratch, |sum| sum);
            let mut sparse = ConvBits::new(&conv, inputs);
            sparse.pack(&[&weight[..], &bias].concat());
            sparse.apply(&packed, &mut y[1], &mut scratch, |sum| sum);
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
