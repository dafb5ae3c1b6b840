//! Backpropagation of one tile through the actor-critic, and the gradient sums of a chunk of tiles.

use operant_lane::{Float, Mask};
use wide::f32x16;

use crate::config::Activation;
use crate::cpu::network::conv::ConvGradient;
use crate::cpu::network::policy::{Activations, Backward, Layer, Observation, Policy};
use crate::cpu::network::tile::{Row, TILE_VECTORS, fma};
use crate::cpu::network::weight_gradient::{LayerInput, WeightGradient, add_up};
use crate::network::{Form, Input, LayerSpec, Network};

/// Running sums of the gradient of every parameter over the tiles of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Gradient {
    /// `[chain][layer]`.
    chains: Vec<Vec<LayerGradient>>,
    /// The log standard deviations' sums of a Gaussian head, `[action]`, samples in lanes.
    pub log_std: Vec<f32x16>,
}

impl Gradient {
    /// Zero sums for `network`.
    pub fn new(network: &Network) -> Self {
        let packed = matches!(network.architecture.input, Input::Bits(_));
        let chains = network.chains.iter().map(|chain| {
            chain
                .layers
                .iter()
                .enumerate()
                .map(|(k, layer)| LayerGradient::new(layer, packed && k == 0))
                .collect()
        });
        let deviations = network.log_std.map_or(0, |_| network.policy_outputs());
        Self { chains: chains.collect(), log_std: vec![f32x16::ZERO; deviations] }
    }

    /// Resets all sums.
    pub fn clear(&mut self) {
        self.chains.iter_mut().flatten().for_each(LayerGradient::clear);
        self.log_std.fill(f32x16::ZERO);
    }

    /// Adds one tile. `activations` come from the forward pass of `observation`; `deltas` holds the loss's gradient with
    /// respect to the outputs in its last layers, and the hidden layers' gradients afterwards.
    pub fn add(
        &mut self,
        policy: &Policy,
        observation: Observation<'_, TILE_VECTORS>,
        activations: &Activations<TILE_VECTORS>,
        deltas: &mut Activations<TILE_VECTORS>,
    ) {
        let Activations { chains, scratch, .. } = deltas;
        let chains = policy.chains.iter().zip(&mut self.chains).zip(activations.chains.iter().zip(chains));
        for ((layers, sums), (y, deltas)) in chains {
            for k in (0..layers.len()).rev() {
                let (before, after) = deltas.split_at_mut(k);
                let dz = &after[0][..];
                let Some(dx) = before.last_mut() else {
                    sums[0].add(input_of(observation), dz);
                    break;
                };
                let x = &y[k - 1][..];
                sums[k].add(LayerInput::Dense(x), dz);
                let activation = activation(&layers[k - 1]);
                match layers[k].backward.as_ref().expect("later layers have a way back") {
                    Backward::Dense(panels) => match activation {
                        Activation::Tanh => panels.apply(dz, dx, |i, sum| tanh_gradient(&x[i], sum)),
                        Activation::Relu => panels.apply(dz, dx, |i, sum| relu_gradient(&x[i], sum)),
                    },
                    Backward::Conv(panels) => {
                        panels.gradient(dz, dx, scratch);
                        for (dx, x) in dx.iter_mut().zip(x) {
                            *dx = match activation {
                                Activation::Tanh => tanh_gradient(x, *dx),
                                Activation::Relu => relu_gradient(x, *dx),
                            };
                        }
                    }
                }
            }
        }
    }

    /// Writes the sums in the order of the flat parameters.
    pub fn finish(&self, network: &Network, flat: &mut [f32]) {
        for (chain, sums) in network.chains.iter().zip(&self.chains) {
            for (layer, sums) in chain.layers.iter().zip(sums) {
                // Weights and bias are disjoint, biases later.
                let (head, tail) = flat.split_at_mut(layer.bias);
                sums.finish(&mut head[layer.weight_range()], &mut tail[..layer.rows()]);
            }
        }
        if let Some(start) = network.log_std {
            add_up(&self.log_std, &mut flat[start..start + self.log_std.len()]);
        }
    }
}

/// The sums of one layer.
#[derive(Debug, Clone)]
enum LayerGradient {
    Dense(WeightGradient),
    Conv(ConvGradient),
}

impl LayerGradient {
    fn new(layer: &LayerSpec, bits: bool) -> Self {
        match &layer.form {
            Form::Dense => Self::Dense(WeightGradient::new(layer.inputs, layer.outputs, bits)),
            Form::Conv(conv) => Self::Conv(ConvGradient::new(layer, conv, bits)),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Dense(sums) => sums.clear(),
            Self::Conv(sums) => sums.clear(),
        }
    }

    fn add(&mut self, x: LayerInput<'_>, dz: &[Row<TILE_VECTORS>]) {
        match self {
            Self::Dense(sums) => sums.add(x, dz),
            Self::Conv(sums) => sums.add(x, dz),
        }
    }

    fn finish(&self, weight: &mut [f32], bias: &mut [f32]) {
        match self {
            Self::Dense(sums) => sums.finish(weight, bias),
            Self::Conv(sums) => sums.finish(weight, bias),
        }
    }
}

fn input_of(observation: Observation<'_, TILE_VECTORS>) -> LayerInput<'_> {
    match observation {
        Observation::Dense(x) => LayerInput::Dense(x),
        Observation::Bits(x) => LayerInput::Bits(x),
    }
}

fn activation(layer: &Layer) -> Activation {
    layer.spec.activation.expect("hidden layers have a nonlinearity")
}

/// The gradient of y = tanh(z): dy (1 - y^2).
#[inline(always)]
fn tanh_gradient<const V: usize>(y: &Row<V>, dy: Row<V>) -> Row<V> {
    core::array::from_fn(|v| dy[v] * fma(-y[v], y[v], f32x16::ONE))
}

/// The gradient of y = max(z, 0): dy where y > 0.
#[inline(always)]
fn relu_gradient<const V: usize>(y: &Row<V>, dy: Row<V>) -> Row<V> {
    core::array::from_fn(|v| Float::gt(y[v], f32x16::ZERO).select(dy[v], f32x16::ZERO))
}
