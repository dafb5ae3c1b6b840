//! Residual blocks with layer normalisation, as in SimBa (Lee et al. 2024): `x + W2 f(W1 norm(x) + b1) + b2`, whose inner width is four
//! times the block's. f is the nonlinearity of the network.

mod cpu;

use super::export::{Exported, Graph};
use super::{LayerForm, LayerMemory, LayerSizes, norm};
use crate::config::Activation;
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer, Norm, Operation, PAD};
use crate::network::{Dense, LayerSpec, Network};

/// The inner width over the block's.
const EXPANSION: usize = 4;

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residual {
    /// Inputs, which are also the outputs.
    pub width: usize,
    /// Nonlinearity of the inner layer.
    pub activation: Activation,
}

impl Residual {
    fn inner(&self) -> usize {
        EXPANSION * self.width
    }
}

impl LayerForm for Residual {
    fn outputs(&self, inputs: usize) -> usize {
        inputs
    }

    fn lay(&self, network: &mut Network, name: &str, inputs: usize) {
        norm::Norm { width: inputs }.lay(network, &format!("{name}.norm"), inputs);
        Dense { outputs: self.inner() }.lay(network, &format!("{name}.up"), inputs);
        Dense { outputs: inputs }.lay(network, &format!("{name}.down"), self.inner());
    }

    /// All of them need the gradient of their inputs.
    fn multiply_adds(&self, _inputs: usize) -> [usize; 2] {
        [0, 2 * self.inner() * self.width]
    }

    fn describe(&self, inputs: usize) -> String {
        format!("{inputs} + ({inputs}, normalised -> {} -> {inputs})", self.inner())
    }

    fn needs(&self, _at: &LayerSizes) -> LayerMemory {
        LayerMemory {
            kept: norm::cpu::kept(self.width) + self.width + self.inner(),
            ..LayerMemory::default()
        }
    }

    /// A normalisation, a hidden layer, and a layer to whose outputs the inputs of the normalisation are added.
    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, _layer: &LayerSpec) -> Vec<Layer> {
        let norm = Norm::of(gemm, self.width, 1);
        let up = gemm.lay_product(1, [self.inner(), self.width]);
        let down = gemm.lay_product(1, [self.width, self.inner()]);
        let [row, inner] = [self.width, self.inner()].map(|count| count.next_multiple_of(PAD));
        let layer = |[inputs, outputs]: [usize; 2], operation| Layer {
            inputs,
            outputs,
            active: 0,
            wide: false,
            adds: None,
            operation,
        };
        vec![
            layer([row, row], norm),
            Layer { active: inner, ..layer([row, inner], Operation::Dense(up)) },
            Layer { adds: Some(2), ..layer([inner, row], Operation::Dense(down)) },
        ]
    }

    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let own = |what: &str| of.own(what);
        let (weight, bias) = (own("norm.weight"), own("norm.bias"));
        let normal = graph.along("LayerNormalization", &[of.x, &weight, &bias], &own("norm.sum"));
        let sum = graph.dense(&own("up"), &normal, &own("up.sum"));
        let inner = graph.node(of.network_op, &[&sum], &own("up.out"), &[]);
        let sum = graph.dense(&own("down"), &inner, &own("down.sum"));
        graph.node("Add", &[of.x, &sum], of.output, &[]);
    }
}
