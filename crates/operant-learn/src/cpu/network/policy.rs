//! The network ready to run: weights packed for the kernels, and the forward pass that rollouts, evaluation and the
//! update share.

use core::ops::Range;

use operant_lane::{Float, Mask};
use wide::f32x16;

use crate::config::Activation;
use crate::cpu::network::bits::BitWeights;
use crate::cpu::network::conv::{self, ConvBits, ConvPanels};
use crate::cpu::network::dense::Panels;
use crate::cpu::network::tile::{BitRow, Row, map, splat};
use crate::network::{Form, Input, LayerSpec, Network};

/// Observations of V x 16 environments or samples.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a, const V: usize> {
    /// `[feature]` rows of floats.
    Dense(&'a [Row<V>]),
    /// `[word]` rows of packed bits, 32 features each, the first lowest; bits past the last feature are clear.
    Bits(&'a [BitRow<V>]),
}

/// The packed weights of a first or later layer.
#[derive(Debug, Clone)]
pub(crate) enum Weights {
    /// Dense inputs.
    Dense(Panels),
    /// Packed bits.
    Bits(BitWeights),
    /// A convolution over numbers.
    Conv(ConvPanels),
    /// A convolution over packed bits.
    ConvBits(ConvBits),
}

/// The transposed weights of a layer.
#[derive(Debug, Clone)]
pub(crate) enum Backward {
    /// Of a fully connected layer.
    Dense(Panels),
    /// Of a convolution over numbers.
    Conv(ConvPanels),
}

/// A layer and its packed weights.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// Shape and place of its parameters.
    pub spec: LayerSpec,
    /// For the forward pass.
    pub forward: Weights,
    /// The transpose, for the gradient of the inputs; the first layer does not need it.
    pub backward: Option<Backward>,
}

/// The actor-critic with its weights packed. Pack once per horizon or Adam step, then run any number of tiles.
#[derive(Debug, Clone)]
pub struct Policy {
    network: Network,
    /// `[chain][layer]`.
    pub(crate) chains: Vec<Vec<Layer>>,
    /// Log standard deviations of a Gaussian head.
    pub(crate) log_std: Vec<f32>,
}

/// The activations of a forward pass over V x 16 samples.
#[derive(Debug, Clone)]
pub struct Activations<const V: usize> {
    /// `[chain][layer][output]`.
    pub(crate) chains: Vec<Vec<Vec<Row<V>>>>,
    /// Scratch space of convolutions.
    pub(crate) scratch: Vec<f32x16>,
    policy_outputs: usize,
}

impl<const V: usize> Activations<V> {
    /// Allocates a forward pass of `network`.
    pub fn new(network: &Network) -> Self {
        let chains = network
            .chains
            .iter()
            .map(|chain| chain.layers.iter().map(|layer| vec![splat(0.0); layer.outputs]).collect())
            .collect();
        let scratch = conv::scratch::<V>(&network.architecture);
        Self { chains, scratch: vec![f32x16::ZERO; scratch], policy_outputs: network.policy_outputs() }
    }

    /// `[output]`: logits over all components, or means.
    pub fn policy(&self) -> &[Row<V>] {
        &self.last(0)[..self.policy_outputs]
    }

    /// V(obs).
    pub fn value(&self) -> Row<V> {
        *self.last(self.chains.len() - 1).last().expect("a value output")
    }

    /// The buffer for the gradient of [`Activations::policy`].
    pub(crate) fn policy_mut(&mut self) -> &mut [Row<V>] {
        let outputs = self.policy_outputs;
        &mut self.chains[0].last_mut().expect("an output layer")[..outputs]
    }

    /// Sets the gradient of [`Activations::value`].
    pub(crate) fn set_value(&mut self, value: Row<V>) {
        let chain = self.chains.last_mut().expect("a chain");
        *chain.last_mut().and_then(|outputs| outputs.last_mut()).expect("a value output") = value;
    }

    fn last(&self, chain: usize) -> &[Row<V>] {
        self.chains[chain].last().expect("an output layer")
    }
}

impl Policy {
    /// `network` with zero weights; [`Policy::pack`] sets them.
    pub fn new(network: &Network) -> Self {
        let chains = network
            .chains
            .iter()
            .map(|chain| {
                let layer = |(k, spec): (usize, &LayerSpec)| {
                    let bits = k == 0 && matches!(network.architecture.input, Input::Bits(_));
                    let (inputs, outputs) = (spec.inputs, spec.outputs);
                    let forward = match &spec.form {
                        Form::Dense if bits => Weights::Bits(BitWeights::new(inputs, outputs)),
                        Form::Dense => Weights::Dense(Panels::new(inputs, outputs)),
                        Form::Conv(conv) if bits => Weights::ConvBits(ConvBits::new(conv, inputs)),
                        Form::Conv(conv) => Weights::Conv(ConvPanels::forward(conv)),
                    };
                    let backward = (k > 0).then(|| match &spec.form {
                        Form::Dense => Backward::Dense(Panels::new(outputs, inputs)),
                        Form::Conv(conv) => Backward::Conv(ConvPanels::backward(conv)),
                    });
                    Layer { spec: spec.clone(), forward, backward }
                };
                chain.layers.iter().enumerate().map(layer).collect()
            })
            .collect();
        let deviations = network.log_std.map_or(0, |_| network.policy_outputs());
        Self { network: network.clone(), chains, log_std: vec![0.0; deviations] }
    }

    /// The network it runs.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Log standard deviations of a Gaussian head, `(A)`; empty for others.
    pub fn log_std(&self) -> &[f32] {
        &self.log_std
    }

    /// Packs the network's flat parameters for forward passes.
    pub fn pack(&mut self, params: &[f32]) {
        for layer in self.chains.iter_mut().flatten() {
            let (weight, bias) = (&params[layer.spec.weight_range()], &params[layer.spec.bias_range()]);
            match &mut layer.forward {
                Weights::Dense(panels) => panels.pack(weight, bias),
                Weights::Bits(bits) => bits.pack(weight, bias),
                Weights::Conv(panels) => panels.pack(weight, bias),
                Weights::ConvBits(bits) => bits.pack(weight, bias),
            }
        }
        if let Some(start) = self.network.log_std {
            let end = start + self.log_std.len();
            self.log_std.copy_from_slice(&params[start..end]);
        }
    }

    /// [`Policy::pack`], and the transposes that gradients need.
    pub(crate) fn pack_for_update(&mut self, params: &[f32]) {
        self.pack(params);
        for layer in self.chains.iter_mut().flatten() {
            let weight = &params[layer.spec.weight_range()];
            match &mut layer.backward {
                None => {}
                Some(Backward::Dense(panels)) => panels.pack_transposed(weight),
                Some(Backward::Conv(panels)) => panels.pack_transposed(weight),
            }
        }
    }

    /// Policy outputs and value of `observation`, into `out`.
    pub fn forward<const V: usize>(&self, observation: Observation<'_, V>, out: &mut Activations<V>) {
        self.run(0..self.chains.len(), observation, out);
    }

    /// Policy outputs of `observation` alone; with a shared trunk the value comes with them.
    pub fn actor<const V: usize>(&self, observation: Observation<'_, V>, out: &mut Activations<V>) {
        self.run(0..1, observation, out);
    }

    /// The value alone, for V(final_obs) and the bootstrap; with a shared trunk the policy's outputs come with it.
    pub fn value<const V: usize>(&self, observation: Observation<'_, V>, out: &mut Activations<V>) -> Row<V> {
        self.run(self.chains.len() - 1..self.chains.len(), observation, out);
        out.value()
    }

    fn run<const V: usize>(
        &self,
        chains: Range<usize>,
        observation: Observation<'_, V>,
        out: &mut Activations<V>,
    ) {
        let Activations { chains: out, scratch, .. } = out;
        for (chain, out) in self.chains[chains.clone()].iter().zip(&mut out[chains]) {
            for (k, layer) in chain.iter().enumerate() {
                let (before, after) = out.split_at_mut(k);
                let y = &mut after[0][..];
                let x = before.last().map_or(observation, |x| Observation::Dense(x));
                match (&layer.forward, x) {
                    (Weights::Dense(panels), Observation::Dense(x)) => {
                        dense(panels, x, y, layer.spec.activation)
                    }
                    (Weights::Bits(bits), Observation::Bits(x)) => match layer.spec.activation {
                        None => bits.apply(x, y, |sum| sum),
                        Some(Activation::Tanh) => bits.apply(x, y, tanh),
                        Some(Activation::Relu) => bits.apply(x, y, relu),
                    },
                    (Weights::Conv(panels), Observation::Dense(x)) => match layer.spec.activation {
                        None => panels.apply(x, y, scratch, |sum| sum),
                        Some(Activation::Tanh) => panels.apply(x, y, scratch, tanh),
                        Some(Activation::Relu) => panels.apply(x, y, scratch, relu),
                    },
                    (Weights::ConvBits(bits), Observation::Bits(x)) => match layer.spec.activation {
                        None => bits.apply(x, y, scratch, |sum| sum),
                        Some(Activation::Tanh) => bits.apply(x, y, scratch, tanh),
                        Some(Activation::Relu) => bits.apply(x, y, scratch, relu),
                    },
                    _ => panic!("the observation's form is not the one the network was laid out for"),
                }
            }
        }
    }
}

/// A dense layer and its nonlinearity in one pass: the nonlinearity of one block overlaps the sums of the next.
fn dense<const V: usize>(panels: &Panels, x: &[Row<V>], y: &mut [Row<V>], activation: Option<Activation>) {
    match activation {
        None => panels.apply(x, y, |_, sum| sum),
        Some(Activation::Tanh) => panels.apply(x, y, |_, sum| tanh(sum)),
        Some(Activation::Relu) => panels.apply(x, y, |_, sum| relu(sum)),
    }
}

#[inline(always)]
fn tanh<const V: usize>(row: Row<V>) -> Row<V> {
    map(row, Float::tanh)
}

#[inline(always)]
fn relu<const V: usize>(row: Row<V>) -> Row<V> {
    // NaN stays NaN, so that a broken network is detected.
    map(row, |x| Float::lt(x, f32x16::ZERO).select(f32x16::ZERO, x))
}
