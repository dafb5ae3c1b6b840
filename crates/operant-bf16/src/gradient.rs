//! Gradients over 64 samples: deltas of features, and sums of products with a layer's inputs.

use crate::activation::Activation;
use crate::layer::Weights;
use crate::unit::Unit;
use crate::{Floats, LANES, TILE_FEATURES, Tile, VECTORS, Words, pair_rows, twin};

/// The gradients of n features before their nonlinearity ("deltas") over 64 samples, in the forms that products need:
///
/// | part | shape | content |
/// | --- | --- | --- |
/// | pairs | `(16 ceil(n / 32), 4)` | like other pairs, for the gradient of the inputs |
/// | samples | `(16 ceil(n / 16), 2)` | pairs of the samples in a lane of vectors 2k and 2k + 1, for the gradient of the weights |
/// | totals | `(16 ceil(n / 16))` | f32: the sum of the four vectors before rounding, for the gradient of the bias |
#[derive(Debug)]
pub struct Deltas<'a> {
    pairs: &'a mut [[Words; VECTORS]],
    samples: &'a mut [[Words; 2]],
    totals: &'a mut [Words],
}

/// The pairs, samples and totals of 16 features, to write to.
pub(crate) type DeltaBlock<'a> =
    (&'a mut [[Words; VECTORS]; LANES / 2], &'a mut [[Words; 2]; LANES], &'a mut [Words; LANES]);

/// [`Deltas`] to read.
#[derive(Debug, Clone, Copy)]
pub struct DeltasView<'a> {
    pairs: &'a [[Words; VECTORS]],
    samples: &'a [[Words; 2]],
    totals: &'a [Words],
}

impl<'a> DeltasView<'a> {
    /// The deltas of a buffer that [`Deltas`] have filled.
    pub fn of(buffer: &'a [Words], features: usize) -> Self {
        let rows = LANES * features.div_ceil(LANES);
        let (pairs, rest) = buffer.split_at(VECTORS * pair_rows(features));
        let (samples, rest) = rest.split_at(2 * rows);
        Self { pairs: pairs.as_chunks().0, samples: samples.as_chunks().0, totals: &rest[..rows] }
    }

    /// The deltas as pairs.
    pub fn pairs(&self) -> &'a [Words] {
        self.pairs.as_flattened()
    }
}

impl<'a> Deltas<'a> {
    /// Vectors of n features' deltas.
    pub const fn vectors(features: usize) -> usize {
        VECTORS * pair_rows(features) + 3 * LANES * features.div_ceil(LANES)
    }

    /// Deltas in a buffer of [`Deltas::vectors`] vectors, zero before its first use.
    pub fn of(buffer: &'a mut [Words], features: usize) -> Self {
        let rows = LANES * features.div_ceil(LANES);
        let (pairs, rest) = buffer.split_at_mut(VECTORS * pair_rows(features));
        let (samples, rest) = rest.split_at_mut(2 * rows);
        Self { pairs: pairs.as_chunks_mut().0, samples: samples.as_chunks_mut().0, totals: &mut rest[..rows] }
    }

    /// Takes deltas in f32, `(features, 4)`.
    pub fn take(&mut self, rows: &[Floats]) {
        let rows = rows.as_chunks::<VECTORS>().0;
        let (pairs, rest) = self.pairs.split_at_mut(rows.len().div_ceil(2));
        rest.fill([[0; LANES]; VECTORS]);
        let places = self.samples.as_chunks_mut().0.iter_mut().zip(self.totals.as_chunks_mut().0);
        for ((rows, pairs), (samples, totals)) in rows.chunks(2).zip(pairs).zip(places) {
            let second = rows.get(1).copied().unwrap_or([[0.0; LANES]; VECTORS]);
            twin::place([rows[0], second], pairs, samples, totals, 0);
        }
    }

    /// The buffers of features 16 row .. 16 (row + 1).
    fn block(&mut self, row: usize) -> DeltaBlock<'_> {
        (
            &mut self.pairs.as_chunks_mut().0[row],
            &mut self.samples.as_chunks_mut().0[row],
            &mut self.totals.as_chunks_mut().0[row],
        )
    }

    /// To read.
    pub fn view(&self) -> DeltasView<'_> {
        DeltasView { pairs: self.pairs, samples: self.samples, totals: self.totals }
    }
}

/// Running sums of the gradient of a layer's weights and biases.
#[derive(Debug, Clone)]
pub struct Sums {
    inputs: usize,
    outputs: usize,
    /// `[32 inputs][16 outputs][even or odd inputs]`: a row of a tile is an output, a lane an input.
    tiles: Vec<[Tile<f32>; 2]>,
    /// `[output]`, samples in lanes.
    bias: Vec<Floats>,
}

impl Sums {
    /// Zero sums.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let tiles = inputs.div_ceil(TILE_FEATURES) * outputs.div_ceil(LANES);
        Self {
            inputs,
            outputs,
            tiles: vec![[Tile([[0.0; LANES]; LANES]); 2]; tiles],
            bias: vec![[0.0; LANES]; outputs],
        }
    }

    /// Resets all sums.
    pub fn clear(&mut self) {
        self.tiles.fill([Tile([[0.0; LANES]; LANES]); 2]);
        self.bias.fill([0.0; LANES]);
    }

    /// Writes the sums: `weight` row-major `(outputs, inputs)`, `bias` `(outputs)`.
    pub fn write(&self, weight: &mut [f32], bias: &mut [f32]) {
        for (to, sums) in bias.iter_mut().zip(&self.bias) {
            *to = sums.iter().sum();
        }
        let rows = self.outputs.div_ceil(LANES);
        for (o, weight) in weight.chunks_exact_mut(self.inputs).enumerate() {
            for (block, weight) in weight.chunks_mut(TILE_FEATURES).enumerate() {
                let [even, odd] = &self.tiles[block * rows + o / LANES];
                let pairs: [[f32; 2]; LANES] =
                    core::array::from_fn(|i| [even.0[o % LANES][i], odd.0[o % LANES][i]]);
                weight.copy_from_slice(&pairs.as_flattened()[..weight.len()]);
            }
        }
    }
}

impl Unit {
    /// Sets the deltas of a layer's inputs, whose values are the pairs `x`, outputs of a nonlinearity; `transposed` are the layer's weights.
    pub fn deltas_of_inputs(
        self,
        transposed: &Weights,
        deltas: DeltasView<'_>,
        x: &[Words],
        activation: Activation,
        scratch: &mut [Floats],
        to: &mut Deltas<'_>,
    ) {
        let x = x.as_chunks::<VECTORS>().0.as_chunks::<{ LANES / 2 }>().0;
        match self.part::<VECTORS>() {
            2 => self.products::<VECTORS, 2>(transposed, deltas.pairs(), scratch, |row, part, sums| {
                self.deltas(activation, sums, &x[row], to.block(row), part);
            }),
            _ => self.products::<VECTORS, VECTORS>(transposed, deltas.pairs(), scratch, |row, part, sums| {
                self.deltas(activation, sums, &x[row], to.block(row), part);
            }),
        }
    }

    /// Adds the products of 64 samples to a layer's sums: `x` are pairs of its inputs.
    pub fn add_products(self, x: &[Words], deltas: DeltasView<'_>, sums: &mut Sums) {
        let totals = deltas.totals.as_flattened();
        for (sum, total) in sums.bias.as_flattened_mut().iter_mut().zip(totals) {
            *sum += f32::from_bits(*total);
        }
        let mut turned = [[Tile([[0; LANES]; LANES]); 2]; 2];
        let deltas = deltas.samples.as_chunks::<LANES>().0;
        let blocks = x.as_chunks::<VECTORS>().0.as_chunks::<LANES>().0;
        for (x, sums) in blocks.iter().zip(sums.tiles.chunks_exact_mut(deltas.len())) {
            self.transpose(x, &mut turned);
            self.outer(deltas, &turned, sums);
        }
    }
}
