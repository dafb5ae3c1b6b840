//! Backpropagation of one tile through the actor-critic, and the gradient sums of a chunk of tiles.

use wide::f32x16;

use crate::cpu::network::layers::{self, Backward, Sums};
use crate::cpu::network::policy::{Activations, Observation, Policy};
use crate::cpu::network::tile::{Row, TILE_VECTORS, splat};
use crate::cpu::network::weight_gradient::add_up;
use crate::network::{Chain, Network};

/// Running sums of the gradient of every parameter over the tiles of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Gradient {
    /// `[chain][layer]`.
    chains: Vec<Vec<Sums>>,
    /// The log standard deviations' sums of a Gaussian head, `[action]`, samples in lanes.
    pub log_std: Vec<f32x16>,
    /// Gradient of the state of layers with memory, of 16 sequences.
    state: Vec<Row<1>>,
}

impl Gradient {
    /// Zero sums for `network`.
    pub fn new(network: &Network) -> Self {
        let sums =
            |chain: &Chain| (0..chain.layers.len()).map(|k| layers::new(network, chain, k).1).collect();
        let chains = network.chains.iter().map(sums);
        let deviations = network.log_std.map_or(0, |_| network.policy_outputs());
        Self {
            chains: chains.collect(),
            log_std: vec![f32x16::ZERO; deviations],
            state: vec![splat(0.0); network.states],
        }
    }

    /// Resets all sums.
    pub fn clear(&mut self) {
        self.chains.iter_mut().flatten().for_each(Sums::clear);
        self.log_std.fill(f32x16::ZERO);
    }

    /// Begins with the last steps of sequences: nothing after them depends on their state.
    pub fn begin_sequences(&mut self) {
        self.state.fill(splat(0.0));
    }

    /// Adds one tile. `activations` come from the forward pass of `observation`; `deltas` holds the loss's gradient with
    /// respect to the outputs in its last layers, and the hidden layers' gradients afterwards. Tiles of sequences come last to first;
    /// where `keep` is 0 an episode begins.
    pub fn add(
        &mut self,
        policy: &Policy,
        observation: Observation<'_, TILE_VECTORS>,
        keep: &Row<TILE_VECTORS>,
        activations: &Activations<TILE_VECTORS>,
        deltas: &mut Activations<TILE_VECTORS>,
    ) {
        let Activations { chains, scratch, .. } = deltas;
        let state = &mut self.state;
        let chains = policy.chains.iter().zip(&mut self.chains).zip(activations.chains.iter().zip(chains));
        for ((layers, sums), (values, deltas)) in chains {
            for k in (0..layers.len()).rev() {
                let (before, after) = deltas.split_at_mut(k);
                let below = k.checked_sub(1);
                let x = below.map_or(observation, |below| Observation::Dense(&values[below].y));
                let pass = Backward {
                    x,
                    kept: &values[k].kept,
                    dz: &after[0].y,
                    dx: before.last_mut().map(|before| &mut before.y[..]),
                    active: below.map_or(0, |below| layers[below].spec.active()),
                    work: &mut after[0].kept,
                    state,
                    keep,
                    scratch,
                };
                let activation = below.and_then(|below| layers[below].spec.activation);
                layers[k].kind.backward(&mut sums[k], pass, activation);
            }
        }
    }

    /// Writes the sums in the order of the flat parameters.
    pub fn finish(&self, policy: &Policy, flat: &mut [f32]) {
        for (layer, sums) in policy.chains.iter().flatten().zip(self.chains.iter().flatten()) {
            layer.kind.finish(sums, &mut flat[layer.spec.params()]);
        }
        if let Some(start) = policy.network().log_std {
            add_up(&self.log_std, &mut flat[start..start + self.log_std.len()]);
        }
    }
}
