//! A fully connected layer over numbers with bf16 operands and f32 sums (crate operant-bf16).
//!
//! Between two such layers a hidden layer's outputs are pairs of bf16 numbers, the next product's operand, and are not kept in another form;
//! their gradients are [`Deltas`]. Next to a layer of another kind, rows of f32 are converted.

use operant_bf16::{Deltas, DeltasView, Floats, Sums, Unit, Weights, Words, pack_pairs, pair_rows};
use operant_lane::isa::f32x16;
use wide::bytemuck::{cast_slice, cast_slice_mut};

use crate::config::Activation;
use crate::cpu::network::layers::{Backward, Forward, LayerKind, LayerSums, Slope, takes_bits};
use crate::cpu::network::tile::{Row, TILE_VECTORS};
use crate::network::{Chain, Form, LayerSpec, Network};

/// A layer and what stands before and after it.
#[derive(Debug, Clone)]
pub(crate) struct Bf16 {
    unit: Unit,
    /// W, and its transpose for the gradient of the inputs.
    weights: [Weights; 2],
    inputs: usize,
    outputs: usize,
    /// The nonlinearity of the inputs, if they are pairs.
    before: Option<operant_bf16::Activation>,
    /// The nonlinearity of the outputs, if they are pairs.
    after: Option<operant_bf16::Activation>,
}

/// Whether layer `k` of a chain is of this kind.
fn is_bf16(network: &Network, chain: &Chain, k: usize) -> bool {
    let is_dense = matches!(chain.layers.get(k), Some(LayerSpec { form: Form::Dense(_), .. }));
    network.bf16.is_some() && is_dense && !takes_bits(network, k)
}

/// The nonlinearity of layer `k`, if its outputs are pairs.
fn pairs(network: &Network, chain: &Chain, k: usize) -> Option<operant_bf16::Activation> {
    let both = is_bf16(network, chain, k) && is_bf16(network, chain, k + 1);
    chain.layers[k].activation.filter(|_| both).map(|activation| match activation {
        Activation::Tanh => operant_bf16::Activation::Tanh,
        Activation::Relu => operant_bf16::Activation::Relu,
    })
}

/// Rows of pairs or deltas in the output of layer `k`; None if its outputs are rows of f32.
pub(crate) fn rows<const V: usize>(network: &Network, chain: &Chain, k: usize) -> Option<usize> {
    let outputs = chain.layers[k].outputs;
    pairs(network, chain, k)?;
    let deltas = if V == TILE_VECTORS { Deltas::vectors(outputs).div_ceil(V) } else { 0 };
    Some(pair_rows(outputs).max(deltas))
}

/// Vectors of scratch space for V x 16 samples.
pub(crate) fn scratch<const V: usize>(network: &Network) -> usize {
    let of_layer = |layer: &LayerSpec| V * pair_rows(layer.inputs) + Deltas::vectors(layer.outputs);
    let vectors = network.layers().map(of_layer).max().unwrap_or(0) + Unit::scratch::<V>();
    if network.bf16.is_some() { vectors } else { 0 }
}

fn floats(vectors: &[f32x16]) -> &[Floats] {
    cast_slice(vectors)
}

fn floats_mut(vectors: &mut [f32x16]) -> &mut [Floats] {
    cast_slice_mut(vectors)
}

fn words(vectors: &[f32x16]) -> &[Words] {
    cast_slice(vectors)
}

fn words_mut(vectors: &mut [f32x16]) -> &mut [Words] {
    cast_slice_mut(vectors)
}

impl Bf16 {
    /// Layer `k` of a chain with zero weights; None if it is of another kind.
    pub fn new(network: &Network, chain: &Chain, k: usize) -> Option<Self> {
        let LayerSpec { inputs, outputs, .. } = chain.layers[k];
        let unit = network.bf16.filter(|_| is_bf16(network, chain, k))?;
        Some(Self {
            unit,
            weights: [Weights::new(inputs, outputs), Weights::new(outputs, inputs)],
            inputs,
            outputs,
            before: k.checked_sub(1).and_then(|before| pairs(network, chain, before)),
            after: pairs(network, chain, k),
        })
    }

    /// The inputs as pairs, which are made in `space` if they are rows of f32.
    fn inputs<'a, const V: usize>(&self, x: &'a [Row<V>], space: &'a mut [f32x16]) -> &'a [Words] {
        if self.before.is_some() {
            return words(x.as_flattened());
        }
        pack_pairs::<V>(floats(x.as_flattened()), words_mut(space));
        words(space)
    }
}

impl LayerKind for Bf16 {
    type Sums = Sums;

    fn sums(&self) -> Sums {
        Sums::new(self.inputs, self.outputs)
    }

    fn pack(&mut self, params: &[f32]) {
        let (weight, bias) = params.split_at(self.inputs * self.outputs);
        self.weights[0].pack(weight, bias);
    }

    fn pack_backward(&mut self, params: &[f32]) {
        self.weights[1].pack_transposed(&params[..self.inputs * self.outputs]);
    }

    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
        let (scratch, rest) = pass.scratch.split_at_mut(Unit::scratch::<V>());
        let (x, scratch) =
            (self.inputs(pass.x.numbers(), &mut rest[..V * pair_rows(self.inputs)]), floats_mut(scratch));
        match self.after {
            Some(after) => {
                let y = words_mut(pass.y.as_flattened_mut());
                self.unit.hidden::<V>(&self.weights[0], x, after, scratch, y);
            }
            None => {
                let y = floats_mut(pass.y.as_flattened_mut());
                self.unit.rows::<V>(&self.weights[0], x, scratch, y);
                pass.y.iter_mut().for_each(|row| *row = finish(*row));
            }
        }
    }

    fn backward(&self, sums: &mut Sums, pass: Backward<'_>, slope: impl Slope) {
        let (scratch, rest) = pass.scratch.split_at_mut(Unit::scratch::<TILE_VECTORS>());
        let (of_inputs, of_deltas) = rest.split_at_mut(TILE_VECTORS * pair_rows(self.inputs));
        let (rows, scratch) = (pass.x.numbers(), floats_mut(scratch));
        let x = self.inputs(rows, of_inputs);
        let deltas = if self.after.is_some() {
            DeltasView::of(words(pass.dz.as_flattened()), self.outputs)
        } else {
            Deltas::of(words_mut(of_deltas), self.outputs).take(floats(pass.dz.as_flattened()));
            DeltasView::of(words(of_deltas), self.outputs)
        };
        if !pass.inputs_only {
            self.unit.add_products(x, deltas, sums);
        }
        let Some(dx) = pass.dx else { return };
        match self.before {
            Some(before) => {
                let dx = &mut Deltas::of(words_mut(dx.as_flattened_mut()), self.inputs);
                self.unit.deltas_of_inputs(&self.weights[1], deltas, x, before, scratch, dx);
            }
            None => {
                let dz = deltas.pairs();
                self.unit.rows::<TILE_VECTORS>(
                    &self.weights[1],
                    dz,
                    scratch,
                    floats_mut(dx.as_flattened_mut()),
                );
                for (i, (dx, x)) in dx.iter_mut().zip(rows).enumerate() {
                    *dx = slope(i, x, *dx);
                }
            }
        }
    }

    fn finish(&self, sums: &Sums, params: &mut [f32]) {
        let (weight, bias) = params.split_at_mut(self.inputs * self.outputs);
        sums.write(weight, bias);
    }
}

impl LayerSums for Sums {
    fn clear(&mut self) {
        Sums::clear(self);
    }
}
