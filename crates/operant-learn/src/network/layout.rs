//! The layout of parameters in the flat vector that Adam, checkpoints and devices share.

use super::{Architecture, Head};
use crate::config::Activation;

/// A named block of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Such as `trunk.0.weight`.
    pub name: String,
    /// Extents, outermost first; weights are `(outputs, inputs)`.
    pub shape: Vec<usize>,
    /// Index of its first element.
    pub offset: usize,
}

impl TensorSpec {
    /// Elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its place in the flat vector.
    pub fn range(&self) -> core::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// A fully connected layer: `y = activation(W x + b)`, W row-major `(outputs, inputs)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dense {
    /// Input features.
    pub inputs: usize,
    /// Output features.
    pub outputs: usize,
    /// Index of W's first element.
    pub weight: usize,
    /// Index of b's first element.
    pub bias: usize,
    /// None for an output layer.
    pub activation: Option<Activation>,
}

impl Dense {
    /// W's place in the flat vector.
    pub fn weight_range(&self) -> core::ops::Range<usize> {
        self.weight..self.weight + self.inputs * self.outputs
    }

    /// b's place in the flat vector.
    pub fn bias_range(&self) -> core::ops::Range<usize> {
        self.bias..self.bias + self.outputs
    }
}

/// Layers from the observation to outputs: A policy outputs, the value, or both in that order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// First to last.
    pub layers: Vec<Dense>,
}

/// The layers of an architecture and their parameters.
///
/// A shared trunk is one chain ending in A + 1 outputs: the policy's and the value's last layers lie side by side, so
/// they are one layer to compute and two tensors to name. Without sharing, chain 0 is the actor and chain 1 the critic.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The architecture.
    pub architecture: Architecture,
    /// One chain, or actor and critic.
    pub chains: Vec<Chain>,
    /// Every block of parameters, in order, without gaps.
    pub tensors: Vec<TensorSpec>,
    /// Index of the first log standard deviation, for a Gaussian head.
    pub log_std: Option<usize>,
}

impl Network {
    /// Lays out `architecture`.
    pub fn new(architecture: Architecture) -> Self {
        let mut network = Self { chains: Vec::new(), tensors: Vec::new(), log_std: None, architecture };
        let outputs = network.architecture.head.outputs();
        if network.architecture.shared_trunk {
            let chain = network.lay_chain("trunk", &[("policy", outputs), ("value", 1)]);
            network.chains.push(chain);
        } else {
            for (trunk, head, outputs) in [("actor", "policy", outputs), ("critic", "value", 1)] {
                let chain = network.lay_chain(trunk, &[(head, outputs)]);
                network.chains.push(chain);
            }
        }
        if let Head::DiagonalGaussian(actions) = network.architecture.head {
            network.log_std = Some(network.lay("log_std".to_owned(), vec![actions]));
        }
        network
    }

    /// Parameters.
    pub fn len(&self) -> usize {
        self.tensors.iter().map(TensorSpec::len).sum()
    }

    /// Whether there is none; never, for a network with outputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A: policy outputs.
    pub fn policy_outputs(&self) -> usize {
        self.architecture.head.outputs()
    }

    /// Multiply-adds x 2 of the matrices in one forward pass of one sample; biases and nonlinearities are not counted.
    pub fn forward_flops(&self) -> u64 {
        2 * self.layers().map(|layer| (layer.inputs * layer.outputs) as u64).sum::<u64>()
    }

    /// The same for one forward and one backward pass: every layer's weight gradient, and the input gradient of every
    /// layer but the first.
    pub fn forward_backward_flops(&self) -> u64 {
        let first: u64 = self.chains.iter().map(|c| (c.layers[0].inputs * c.layers[0].outputs) as u64).sum();
        3 * self.forward_flops() - 2 * first
    }

    fn layers(&self) -> impl Iterator<Item = &Dense> {
        self.chains.iter().flat_map(|chain| &chain.layers)
    }

    fn lay(&mut self, name: String, shape: Vec<usize>) -> usize {
        let offset = self.len();
        self.tensors.push(TensorSpec { name, shape, offset });
        offset
    }

    fn lay_chain(&mut self, trunk: &str, heads: &[(&str, usize)]) -> Chain {
        let mut inputs = self.architecture.input.features();
        let mut layers = Vec::new();
        for (k, outputs) in self.architecture.hidden.clone().into_iter().enumerate() {
            let weight = self.lay(format!("{trunk}.{k}.weight"), vec![outputs, inputs]);
            let bias = self.lay(format!("{trunk}.{k}.bias"), vec![outputs]);
            let activation = Some(self.architecture.activation);
            layers.push(Dense { inputs, outputs, weight, bias, activation });
            inputs = outputs;
        }
        let (weight, bias) = {
            let weight = self.len();
            for (head, outputs) in heads {
                self.lay(format!("{head}.weight"), vec![*outputs, inputs]);
            }
            let bias = self.len();
            for (head, outputs) in heads {
                self.lay(format!("{head}.bias"), vec![*outputs]);
            }
            (weight, bias)
        };
        let outputs = heads.iter().map(|(_, outputs)| outputs).sum();
        layers.push(Dense { inputs, outputs, weight, bias, activation: None });
        Chain { layers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Input;

    fn architecture(shared_trunk: bool, hidden: Vec<usize>, head: Head) -> Architecture {
        let activation = Activation::Tanh;
        Architecture {
            input: Input::Dense(4),
            packing: None,
            hidden,
            activation,
            shared_trunk,
            head,
            log_std_init: 0.0,
        }
    }

    #[test]
    fn cartpole_network_has_the_published_size() {
        let network = Network::new(architecture(true, vec![64, 64], Head::MultiDiscrete(vec![2])));
        assert_eq!(network.len(), 4_675);
        assert_eq!(network.forward_flops(), 9_088);
        assert_eq!(network.forward_backward_flops(), 26_752);
    }

    #[test]
    fn tensors_tile_the_vector() {
        for shared in [true, false] {
            for hidden in [vec![], vec![7], vec![33, 5, 64]] {
                let network = Network::new(architecture(shared, hidden, Head::DiagonalGaussian(3)));
                let mut next = 0;
                for tensor in &network.tensors {
                    assert_eq!(tensor.offset, next, "{}", tensor.name);
                    next += tensor.len();
                }
                assert_eq!(next, network.len());
                let names: std::collections::BTreeSet<_> = network.tensors.iter().map(|t| &t.name).collect();
                assert_eq!(names.len(), network.tensors.len());
            }
        }
    }
}
