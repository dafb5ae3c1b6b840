//! A layer of a network as the CPU computes it: packed weights, forward pass and gradient, whatever its kind (`layers/`).

use core::ops::Range;

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use crate::config::Activation;
use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, map};
use crate::cpu::network::{bf16, few};
pub(crate) use crate::layers::{Kind, Sums};
use crate::layers::{LayerContext, LayerMemory, LayerSizes};
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
        /// State before the first step; afterwards, after the last. With `sides` that of the side that moves.
        state: &'a mut [Row<1>],
        /// 0 where a step begins an episode, whose state is zero.
        keep: &'a Row<V>,
        /// If each side of a game has a state of its own.
        sides: Option<Sides<'a, V>>,
    },
}

/// The states of the sides of a game, or the gradients of their states, of V steps of 16 sequences.
#[derive(Debug)]
pub(crate) struct Sides<'a, const V: usize> {
    /// `[side][state]`: all layers' one after the other.
    pub states: &'a mut [Row<1>],
    /// Numbers of a side's state.
    pub each: usize,
    /// The side that moves, at each step.
    pub turns: &'a Row<V>,
}

impl<const V: usize> Sides<'_, V> {
    /// A reborrow, to pass to the next layer.
    pub fn reborrow(&mut self) -> Sides<'_, V> {
        Sides { states: self.states, each: self.each, turns: self.turns }
    }

    /// The rows `layer` of the state of the side that makes step `v`, into `state`.
    #[inline]
    pub fn read(&self, v: usize, layer: Range<usize>, state: &mut [Row<1>]) {
        for (side, of_side) in self.states.chunks_exact(self.each).enumerate() {
            let moves = Float::eq(self.turns[v], f32x16::splat(side as f32));
            for (to, from) in state.iter_mut().zip(&of_side[layer.clone()]) {
                to[0] = moves.select(from[0], to[0]);
            }
        }
    }

    /// The inverse of [`Sides::read`]; the states of the others stay as they are.
    #[inline]
    pub fn write(&mut self, v: usize, layer: Range<usize>, state: &[Row<1>]) {
        for (side, of_side) in self.states.chunks_exact_mut(self.each).enumerate() {
            let moves = Float::eq(self.turns[v], f32x16::splat(side as f32));
            for (to, from) in of_side[layer.clone()].iter_mut().zip(state) {
                to[0] = moves.select(from[0], to[0]);
            }
        }
    }

    /// Makes the rows `layer` of every side zero where `keep` is 0.
    #[inline]
    pub fn clear(&mut self, layer: Range<usize>, keep: f32x16) {
        let goes_on = Float::gt(keep, f32x16::ZERO);
        for of_side in self.states.chunks_exact_mut(self.each) {
            for row in &mut of_side[layer.clone()] {
                row[0] = goes_on.select(row[0], f32x16::ZERO);
            }
        }
    }
}

impl<const V: usize> Memory<'_, V> {
    /// A reborrow, to pass to the next layer.
    pub fn reborrow(&mut self) -> Memory<'_, V> {
        match self {
            Self::Step { before, after } => Memory::Step { before, after },
            Self::Sequence { state, keep, sides } => {
                Memory::Sequence { state, keep, sides: sides.as_mut().map(Sides::reborrow) }
            }
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
    /// Vectors that contain samples, from 1 to V; V where layers cannot leave vectors out, see [`supports_partial_tiles`].
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
    /// The gradients of the sides' states, if each has its own; `state` is then to work with.
    pub sides: Option<Sides<'a, TILE_VECTORS>>,
    pub scratch: &'a mut [f32x16],
    /// As of [`Forward`].
    pub vectors: usize,
    /// Whether the gradient of the parameters is of no use; a layer may leave it out.
    pub inputs_only: bool,
}

/// The gradient of input `i` before the nonlinearity, from the input and its gradient.
pub(crate) trait Slope: Fn(usize, &Row<TILE_VECTORS>, Row<TILE_VECTORS>) -> Row<TILE_VECTORS> {}
impl<F: Fn(usize, &Row<TILE_VECTORS>, Row<TILE_VECTORS>) -> Row<TILE_VECTORS>> Slope for F {}

/// A kind of layer with its weights packed.
pub(crate) trait LayerKind: core::fmt::Debug + Clone {
    /// Running sums of its parameters' gradient.
    type Sums: LayerSums;
    /// Sums of zero.
    fn sums(&self) -> Self::Sums;
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
pub(crate) trait LayerSums: core::fmt::Debug + Clone {
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
            Some($crate::config::Activation::Tanh) => {
                let $function = $functions::tanh;
                $body
            }
            Some($crate::config::Activation::Relu) => {
                let $function = $functions::relu;
                $body
            }
        }
    };
}
pub(crate) use with_activation;

/// A layer that is one of several, and its sums.
macro_rules! one_of {
    ($(#[$doc:meta])* $name:ident, $sums:ident { $($kind:ident: $layer:ty;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(crate) enum $name {
            $($kind($layer),)+
        }

        /// Running sums of its gradient.
        #[derive(Debug, Clone)]
        pub(crate) enum $sums {
            $($kind(<$layer as LayerKind>::Sums),)+
        }

        impl LayerKind for $name {
            type Sums = $sums;

            fn sums(&self) -> $sums {
                match self { $(Self::$kind(layer) => $sums::$kind(layer.sums()),)+ }
            }

            fn pack(&mut self, params: &[f32]) {
                match self { $(Self::$kind(layer) => layer.pack(params),)+ }
            }

            fn pack_backward(&mut self, params: &[f32]) {
                match self { $(Self::$kind(layer) => layer.pack_backward(params),)+ }
            }

            #[inline(always)]
            fn forward<const V: usize>(&self, pass: Forward<'_, V>, finish: impl Fn(Row<V>) -> Row<V>) {
                match self { $(Self::$kind(layer) => layer.forward(pass, finish),)+ }
            }

            #[inline(always)]
            fn backward(&self, sums: &mut $sums, pass: Backward<'_>, slope: impl Slope) {
                match (self, sums) {
                    $((Self::$kind(layer), $sums::$kind(sums)) => layer.backward(sums, pass, slope),)+
                    #[allow(unreachable_patterns)]
                    _ => panic!("the sums are those of another kind of layer"),
                }
            }

            fn finish(&self, sums: &$sums, params: &mut [f32]) {
                match (self, sums) {
                    $((Self::$kind(layer), $sums::$kind(sums)) => layer.finish(sums, params),)+
                    #[allow(unreachable_patterns)]
                    _ => panic!("the sums are those of another kind of layer"),
                }
            }
        }

        impl LayerSums for $sums {
            fn clear(&mut self) {
                match self { $(Self::$kind(sums) => sums.clear(),)+ }
            }
        }
    };
}
pub(crate) use one_of;

impl Kind {
    /// The outputs through this nonlinearity.
    pub fn run<const V: usize>(&self, pass: Forward<'_, V>, activation: Option<Activation>) {
        with_activation!(activation, outputs, |finish| self.forward(pass, finish));
    }

    /// Adds a tile to `sums`, and sets the gradient of the inputs, which had this nonlinearity.
    pub fn run_back(&self, sums: &mut Sums, pass: Backward<'_>, activation: Option<Activation>) {
        let active = pass.active;
        with_activation!(activation, slopes, |slope| {
            self.backward(sums, pass, |i, x, dx| if i < active { slope(x, dx) } else { dx })
        });
    }
}

/// Layer `k` of a chain as it is before its parameters are packed.
pub(crate) fn new(network: &Network, chain: &Chain, k: usize) -> Kind {
    let layer = &chain.layers[k];
    layer.form.on_cpu(&LayerContext { network, chain, k, inputs: layer.inputs, bits: takes_bits(network, k) })
}

/// Whether all layers can leave vectors of a tile out.
pub(crate) fn supports_partial_tiles(network: &Network) -> bool {
    network.bf16.is_none() && network.layers().all(|layer| matches!(layer.form, Form::Dense(_)))
}

/// Whether the inputs of layer `k` of a chain are packed bits.
pub(crate) fn takes_bits(network: &Network, k: usize) -> bool {
    k == 0 && matches!(network.architecture.input, Input::Bits(_))
}

/// Rows of the outputs of layer `k` of a chain, and equally many of their gradient: one per output, unless they are pairs of bf16.
pub(crate) fn rows<const V: usize>(network: &Network, chain: &Chain, k: usize) -> usize {
    bf16::rows::<V>(network, chain, k).unwrap_or(chain.layers[k].outputs)
}

/// What layer `k` of a chain needs for passes over that many vectors of samples.
pub(crate) fn needs(network: &Network, chain: &Chain, k: usize, vectors: usize) -> LayerMemory {
    let LayerSpec { form, inputs, .. } = &chain.layers[k];
    form.kind().needs(&LayerSizes { inputs: *inputs, bits: takes_bits(network, k), vectors })
}

/// What all layers need, for passes over that many vectors of samples.
pub(crate) fn all_needs(network: &Network, vectors: usize) -> impl Iterator<Item = LayerMemory> {
    let of_chain = move |chain| (0..Chain::len(chain)).map(move |k| needs(network, chain, k, vectors));
    network.chains.iter().flat_map(of_chain)
}

/// Vectors of scratch space that the layers of a network need for V x 16 samples.
pub(crate) fn scratch<const V: usize>(network: &Network) -> usize {
    let of_network = bf16::scratch::<V>(network).max(few::scratch(network));
    all_needs(network, V).map(|needs| needs.scratch).max().unwrap_or(0).max(of_network)
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
pub(crate) mod slopes {
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
