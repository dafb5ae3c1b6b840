//! A layer of a network as the CPU computes it: packed weights, forward pass and gradient, whatever its kind. Each kind has a file.

use operant_lane::{Float, Mask};
use wide::f32x16;

use crate::config::Activation;
use crate::cpu::network::bf16::{self, Bf16};
use crate::cpu::network::bits::BitWeights;
use crate::cpu::network::cells::{self, CellGradient, CellLayer};
use crate::cpu::network::conv::{self, ConvGradient, ConvPanels};
use crate::cpu::network::dense::Dense;
use crate::cpu::network::few;
use crate::cpu::network::norm::{self, Norm, NormGradient};
use crate::cpu::network::pointer::PointerPanels;
use crate::cpu::network::policy::Observation;
use crate::cpu::network::sparse::{self, Sparse, SparseGradient};
use crate::cpu::network::tables::{self, Tables, TablesGradient};
use crate::cpu::network::tile::{LANES, Row, TILE_VECTORS, fma, map};
use crate::cpu::network::weight_gradient::WeightGradient;
use crate::network::{Chain, Form, Input, LayerSpec, Network};

/// The state of layers with memory in a forward pass over V x 16 samples, all layers' one after the other.
#[derive(Debug)]
pub(crate) enum Memory<'a, const V: usize> {
    /// The samples are V x 16 environments, each at one step.
    Step {
        /// State before the step.
        before: &'a [Row<V>],
        after: &'a mut [Row<V>],
    },
    /// The samples are V steps, one after the other, of 16 sequences.
    Sequence {
        /// State before the first step; afterwards, after the last.
        state: &'a mut [Row<1>],
        /// 0 where a step begins an episode, whose state is zero.
        keep: &'a Row<V>,
    },
}

impl<const V: usize> Memory<'_, V> {
    /// A reborrow, to pass to the next layer.
    pub fn reborrow(&mut self) -> Memory<'_, V> {
        match self {
            Self::Step { before, after } => Memory::Step { before, after },
            Self::Sequence { state, keep } => Memory::Sequence { state, keep },
        }
    }
}

/// A layer's forward pass over V x 16 samples.
pub(crate) struct Forward<'a, const V: usize> {
    pub x: Observation<'a, V>,
    /// `[output]`.
    pub y: &'a mut [Row<V>],
    /// What the gradient needs besides inputs and outputs.
    pub kept: &'a mut [Row<V>],
    /// The state of all layers.
    pub memory: Memory<'a, V>,
    pub scratch: &'a mut [f32x16],
    /// Vectors that contain samples: 1, 2 or V; V where layers cannot leave vectors out, see [`supports_partial_tiles`].
    pub vectors: usize,
}

/// A layer's backward pass over a tile.
pub(crate) struct Backward<'a> {
    pub x: Observation<'a, TILE_VECTORS>,
    /// What the forward pass kept.
    pub kept: &'a [Row<TILE_VECTORS>],
    /// `[output]`: the gradient of the outputs; before the nonlinearity if the layer has one.
    pub dz: &'a [Row<TILE_VECTORS>],
    /// `[input]`: the gradient of the inputs; None for the first layer.
    pub dx: Option<&'a mut [Row<TILE_VECTORS>]>,
    /// How many of the inputs passed a nonlinearity; the inputs after them skipped the previous layer.
    pub active: usize,
    /// As many rows as `kept`, to work with.
    pub work: &'a mut [Row<TILE_VECTORS>],
    /// Gradient of all layers' state after the last step; afterwards, before the first.
    pub state: &'a mut [Row<1>],
    /// 0 where a step begins an episode.
    pub keep: &'a Row<TILE_VECTORS>,
    pub scratch: &'a mut [f32x16],
    /// As of [`Forward`].
    pub vectors: usize,
}

/// The gradient of input `i` before the nonlinearity, from the input and its gradient.
pub(crate) trait Slope: Fn(usize, &Row<TILE_VECTORS>, Row<TILE_VECTORS>) -> Row<TILE_VECTORS> {}
impl<F: Fn(usize, &Row<TILE_VECTORS>, Row<TILE_VECTORS>) -> Row<TILE_VECTORS>> Slope for F {}

/// A kind of layer with its weights packed.
pub(crate) trait LayerKind {
    /// Running sums of its parameters' gradient.
    type Sums: LayerSums;
    /// Takes the layer's parameters for forward passes.
    fn pack(&mut self, params: &[f32]);
    /// Takes them for the gradient of the inputs.
    fn pack_backward(&mut self, params: &[f32]);
    /// The outputs, each through `finish`.
    fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>);
    /// Adds a tile to the parameters' gradient, and sets the inputs' gradient through `slope`.
    fn backward(&self, sums: &mut Self::Sums, pass: Backward<'_>, slope: impl Slope);
    /// Writes the sums in the parameters' order.
    fn finish(&self, sums: &Self::Sums, params: &mut [f32]);
}

/// Running sums of the gradient of a layer's parameters.
pub(crate) trait LayerSums {
    /// Resets all sums.
    fn clear(&mut self);
}

/// What `$body` makes of the nonlinearity, in a version for each.
macro_rules! with_activation {
    ($activation:expr, $functions:ident, |$function:ident| $body:expr) => {
        match $activation {
            None => {
                let $function = $functions::identity;
                $body
            }
            Some(Activation::Tanh) => {
                let $function = $functions::tanh;
                $body
            }
            Some(Activation::Relu) => {
                let $function = $functions::relu;
                $body
            }
        }
    };
}
pub(crate) use with_activation;

/// The kinds: packed weights and sums of each.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $weights:ty, $sums:ty;)+) => {
        /// The packed weights of a layer.
        #[derive(Debug, Clone)]
        pub(crate) enum Kind {
            $($(#[$doc])* $kind($weights),)+
        }

        /// Running sums of the gradient of a layer.
        #[derive(Debug, Clone)]
        pub(crate) enum Sums {
            $($(#[$doc])* $kind($sums),)+
        }

        impl Kind {
            /// See [`LayerKind::pack`].
            pub fn pack(&mut self, params: &[f32]) {
                match self { $(Self::$kind(layer) => layer.pack(params),)+ }
            }

            /// See [`LayerKind::pack_backward`].
            pub fn pack_backward(&mut self, params: &[f32]) {
                match self { $(Self::$kind(layer) => layer.pack_backward(params),)+ }
            }

            pub fn forward<const V: usize>(&self, pass: Forward<'_, V>, activation: Option<Activation>) {
                match self {
                    $(Self::$kind(layer) => {
                        with_activation!(activation, outputs, |finish| layer.forward(pass, finish))
                    })+
                }
            }

            /// Adds a tile to `sums`, and sets the gradient of the inputs, which had this nonlinearity.
            pub fn backward(&self, sums: &mut Sums, pass: Backward<'_>, activation: Option<Activation>) {
                match (self, sums) {
                    $((Self::$kind(layer), Sums::$kind(sums)) => {
                        let active = pass.active;
                        with_activation!(activation, slopes, |slope| {
                            layer.backward(sums, pass, |i, x, dx| if i < active { slope(x, dx) } else { dx })
                        })
                    })+
                    _ => panic!("the sums are those of another kind of layer"),
                }
            }

            /// Writes the sums in the parameters' order.
            pub fn finish(&self, sums: &Sums, params: &mut [f32]) {
                match (self, sums) {
                    $((Self::$kind(layer), Sums::$kind(sums)) => layer.finish(sums, params),)+
                    _ => panic!("the sums are those of another kind of layer"),
                }
            }
        }

        impl Sums {
            /// Resets all sums.
            pub fn clear(&mut self) {
                match self { $(Self::$kind(sums) => sums.clear(),)+ }
            }
        }
    };
}

kinds! {
    /// Fully connected, over numbers.
    Dense: Dense, WeightGradient;
    /// Fully connected, over numbers, with products in bf16.
    Bf16: Bf16, operant_amx::Sums;
    /// Fully connected, over packed bits.
    Bits: BitWeights, WeightGradient;
    /// A convolution over numbers.
    Conv: ConvPanels, ConvGradient;
    /// A convolution or an embedding over packed bits.
    Sparse: Sparse, SparseGradient;
    /// An embedding over one-hot floats.
    Tables: Tables, TablesGradient;
    /// Normalisation over the features of a sample.
    Norm: Norm, NormGradient;
    /// Units with memory.
    Cell: CellLayer, CellGradient;
    /// Scores of candidates.
    Pointer: PointerPanels, WeightGradient;
}

/// Layer `k` of a chain as it is before its parameters are packed, and its sums; the first layer may have packed bits as its inputs.
pub(crate) fn new(network: &Network, chain: &Chain, k: usize) -> (Kind, Sums) {
    let (layer, bits) = (&chain.layers[k], takes_bits(network, k));
    let (inputs, outputs) = (layer.inputs, layer.outputs);
    if let Some(layer) = Bf16::new(network, chain, k) {
        return (Kind::Bf16(layer), Sums::Bf16(operant_amx::Sums::new(inputs, outputs)));
    }
    let sparse = |layer: Sparse| {
        let sums = layer.gradient();
        (Kind::Sparse(layer), Sums::Sparse(sums))
    };
    match &layer.form {
        Form::Dense if bits => (
            Kind::Bits(BitWeights::new(inputs, outputs)),
            Sums::Bits(WeightGradient::new(inputs, outputs, true)),
        ),
        Form::Dense => (
            Kind::Dense(Dense::new(inputs, outputs)),
            Sums::Dense(WeightGradient::new(inputs, outputs, false)),
        ),
        Form::Conv(conv) | Form::Items(conv) if bits => sparse(Sparse::conv(conv, inputs)),
        Form::Embed(embed) if bits => sparse(Sparse::embed(embed, inputs)),
        Form::Embed(embed) => {
            (Kind::Tables(Tables::new(embed, inputs)), Sums::Tables(TablesGradient::new(embed)))
        }
        Form::Conv(conv) | Form::Items(conv) => {
            (Kind::Conv(ConvPanels::new(conv)), Sums::Conv(ConvGradient::new(conv)))
        }
        Form::Norm(width) => (Kind::Norm(Norm::new(*width)), Sums::Norm(NormGradient::new(*width))),
        Form::Pointer(pointer) => {
            let sums = WeightGradient::new(pointer.width, pointer.rows(), false);
            (Kind::Pointer(PointerPanels::new(pointer)), Sums::Pointer(sums))
        }
        Form::Cell(cell) => {
            assert!(!bits, "units with memory have a hidden layer before them");
            (Kind::Cell(CellLayer::new(cell, inputs)), Sums::Cell(CellGradient::new(cell, inputs)))
        }
    }
}

/// Whether all layers can leave vectors of a tile out.
pub(crate) fn supports_partial_tiles(network: &Network) -> bool {
    network.bf16.is_none() && network.layers().all(|layer| matches!(layer.form, Form::Dense))
}

/// Whether the inputs of layer `k` of a chain are packed bits.
pub(crate) fn takes_bits(network: &Network, k: usize) -> bool {
    k == 0 && matches!(network.architecture.input, Input::Bits(_))
}

/// Rows of the outputs of layer `k` of a chain, and equally many of their gradient: one per output, unless they are pairs of bf16.
pub(crate) fn rows<const V: usize>(network: &Network, chain: &Chain, k: usize) -> usize {
    bf16::rows::<V>(network, chain, k).unwrap_or(chain.layers[k].outputs)
}

/// Rows that a layer keeps from its forward pass for its gradient.
pub(crate) fn kept(layer: &LayerSpec) -> usize {
    match &layer.form {
        Form::Cell(cell) => cells::kept(cell),
        Form::Norm(width) => norm::kept(*width) * (layer.outputs / width),
        Form::Pointer(pointer) => pointer.rows(),
        _ => 0,
    }
}

/// Uses of weights by the bits of a layer over packed bits, its places, and outputs of each; None of other layers.
fn sparse_extents(layer: &LayerSpec, bits: bool) -> Option<[usize; 3]> {
    match &layer.form {
        Form::Conv(conv) | Form::Items(conv) if bits => {
            Some([conv.places() * conv.patch(), conv.places(), conv.channels])
        }
        Form::Embed(embed) if bits => {
            let taps = embed.parts.iter().map(|part| part.positions * part.rows).sum();
            Some([taps, embed.outputs() / embed.width, embed.width])
        }
        _ => None,
    }
}

/// Each layer, and whether its inputs are packed bits.
fn layers(network: &Network) -> impl Iterator<Item = (&LayerSpec, bool)> {
    let of_chain = |(k, layer)| (layer, takes_bits(network, k));
    network.chains.iter().flat_map(move |chain| chain.layers.iter().enumerate().map(of_chain))
}

/// Vectors of scratch space that the layers of a network need for V x 16 samples.
pub(crate) fn scratch<const V: usize>(network: &Network) -> usize {
    let of_layer = |(layer, bits): (&LayerSpec, bool)| match (&layer.form, sparse_extents(layer, bits)) {
        (_, Some([_, places, channels])) => sparse::scratch(places, channels),
        (Form::Conv(conv) | Form::Items(conv), None) => conv::scratch::<V>(conv),
        (Form::Embed(embed), None) => tables::scratch::<V>(embed),
        (Form::Cell(cell), None) => cells::scratch::<V>(cell),
        _ => 0,
    };
    let of_network = bf16::scratch::<V>(network).max(few::scratch(network));
    layers(network).map(of_layer).max().unwrap_or(0).max(of_network)
}

/// Words of memory of the tables of a network's layers, and of a thread's update buffers for them, in addition to parameters,
/// activations and scratch space.
pub(crate) fn words(network: &Network) -> [usize; 2] {
    let of_layer = |(layer, bits): (&LayerSpec, bool)| match (&layer.form, sparse_extents(layer, bits)) {
        (_, Some([taps, places, channels])) => sparse::words(layer.inputs, taps, places, channels),
        (Form::Conv(conv) | Form::Items(conv), None) => [0, TILE_VECTORS * LANES * conv.patch()],
        (Form::Embed(embed), None) => [0, tables::words(embed)],
        _ => [0, 0],
    };
    layers(network).map(of_layer).fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
}

pub(crate) mod outputs {
    use super::*;

    #[inline(always)]
    pub fn identity<const V: usize>(row: Row<V>) -> Row<V> {
        row
    }

    #[inline(always)]
    pub fn tanh<const V: usize>(row: Row<V>) -> Row<V> {
        map(row, Float::tanh)
    }

    #[inline(always)]
    pub fn relu<const V: usize>(row: Row<V>) -> Row<V> {
        // NaN stays NaN, so that a broken network is detected.
        map(row, |x| Float::max(f32x16::ZERO, x))
    }
}

/// The gradients of their inputs z, from their outputs y and dy.
mod slopes {
    use super::*;

    #[inline(always)]
    pub fn identity<const V: usize>(_y: &Row<V>, dy: Row<V>) -> Row<V> {
        dy
    }

    /// dy (1 - y^2).
    #[inline(always)]
    pub fn tanh<const V: usize>(y: &Row<V>, dy: Row<V>) -> Row<V> {
        core::array::from_fn(|v| dy[v] * fma(-y[v], y[v], f32x16::ONE))
    }

    /// dy where y > 0.
    #[inline(always)]
    pub fn relu<const V: usize>(y: &Row<V>, dy: Row<V>) -> Row<V> {
        core::array::from_fn(|v| Float::gt(y[v], f32x16::ZERO).select(dy[v], f32x16::ZERO))
    }
}
