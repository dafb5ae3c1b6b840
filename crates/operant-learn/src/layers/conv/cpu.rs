//! Convolutions over numbers: the products of a dense layer over patches of an image, one output pixel after the other.
//!
//! Each output is `bias + w0 x0 + w1 x1 + ..` over its patch, row by row and channels last. `cpu/network/sparse.rs` has convolutions over packed bits.

use operant_lane::isa::f32x16;

use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope, one_of};
use crate::cpu::network::policy::Observation;
use crate::cpu::network::sparse::Sparse;
use crate::cpu::network::tile::{Row, TILE_VECTORS};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::layers::conv::{Conv, Items};
use crate::layers::dense::cpu::Panels;
use crate::layers::{LayerContext, OnCpu};

one_of! {
    /// A convolution over numbers or packed bits.
    Convolution, ConvolutionSums {
        Numbers: ConvPanels;
        Bits: Sparse;
    }
}

impl OnCpu for Conv {
    type Packed = Convolution;
    fn on_cpu(&self, at: &LayerContext<'_>) -> Convolution {
        if at.bits {
            Convolution::Bits(Sparse::conv(self, at.inputs))
        } else {
            Convolution::Numbers(ConvPanels::new(self))
        }
    }
}

impl OnCpu for Items {
    type Packed = Convolution;
    fn on_cpu(&self, at: &LayerContext<'_>) -> Convolution {
        self.0.on_cpu(at)
    }
}

/// The patch of an output pixel: a copy, unless it is a single pixel.
fn gather<'a, const V: usize>(
    conv: &Conv,
    place: usize,
    x: &'a [Row<V>],
    patch: &'a mut [Row<V>],
) -> &'a [Row<V>] {
    let run = conv.kernel * conv.image[2];
    if let (1, Some(from)) = (conv.kernel, conv.runs(place).next()) {
        return &x[from..from + run];
    }
    for (to, from) in patch.chunks_exact_mut(run).zip(conv.runs(place)) {
        to.copy_from_slice(&x[from..from + run]);
    }
    patch
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
            self.panels[0].apply(gather(&self.conv, place, x, patch), y, |_, sum| finish(sum));
        }
        passed.iter_mut().zip(self.conv.passed(x.len())).for_each(|(to, from)| *to = x[from]);
    }

    /// The gradient of the inputs, from the gradients of the sums and of the inputs that skip the layer.
    pub fn gradient<const V: usize>(&self, dz: &[Row<V>], dx: &mut [Row<V>], scratch: &mut [f32x16]) {
        dx.fill([f32x16::ZERO; V]);
        let patch = &mut scratch.as_chunks_mut::<V>().0[..self.conv.patch()];
        for (dz, i) in dz[self.conv.outputs()..].iter().zip(self.conv.passed(dx.len())) {
            dx[i] = *dz;
        }
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

    fn sums(&self) -> ConvGradient {
        let sums = WeightGradient::new(self.conv.patch(), self.conv.channels, false);
        ConvGradient { conv: self.conv, sums, patch: vec![[f32x16::ZERO; TILE_VECTORS]; self.conv.patch()] }
    }

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
        let x = pass.x.numbers();
        sums.add(x, pass.dz);
        if let Some(dx) = pass.dx {
            self.gradient(pass.dz, dx, pass.scratch);
            for (i, (dx, x)) in dx.iter_mut().zip(x).enumerate() {
                *dx = slope(i, x, *dx);
            }
        }
    }

    fn finish(&self, sums: &ConvGradient, params: &mut [f32]) {
        let (weight, bias) = params.split_at_mut(self.patched.len());
        let mut patched = vec![0.0; weight.len()];
        sums.sums.write(&mut patched, bias);
        self.conv.from_patches(&patched, weight);
    }
}

/// Running sums of the gradient of a convolution's weights, as of a dense layer over the patches of all pixels.
#[derive(Debug, Clone)]
pub(crate) struct ConvGradient {
    conv: Conv,
    sums: WeightGradient,
    patch: Vec<Row<TILE_VECTORS>>,
}

impl ConvGradient {
    fn add(&mut self, x: &[Row<TILE_VECTORS>], dz: &[Row<TILE_VECTORS>]) {
        let Self { conv, sums, patch } = self;
        for (place, dz) in dz[..conv.outputs()].chunks_exact(conv.channels).enumerate() {
            sums.add(Observation::Dense(gather(conv, place, x, patch)), dz);
        }
    }
}

impl LayerSums for ConvGradient {
    fn clear(&mut self) {
        self.sums.clear();
    }
}
