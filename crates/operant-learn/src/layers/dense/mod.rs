//! Fully connected layers: W is row-major `(outputs, inputs)`.

pub(crate) mod cpu;

use super::LayerForm;
use super::export::{Exported, Graph};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer, Operation};
use crate::network::{HIDDEN_GAIN, Init, LayerSpec, Network};

/// A fully connected layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dense {
    /// Outputs.
    pub outputs: usize,
}

impl LayerForm for Dense {
    fn outputs(&self, _inputs: usize) -> usize {
        self.outputs
    }

    fn lay(&self, network: &mut Network, name: &str, inputs: usize) {
        network.lay(format!("{name}.weight"), &[self.outputs, inputs], Init::Orthogonal(HIDDEN_GAIN));
        network.lay(format!("{name}.bias"), &[self.outputs], Init::Constant(0.0));
    }

    fn multiply_adds(&self, inputs: usize) -> [usize; 2] {
        [inputs * self.outputs, 0]
    }

    fn describe(&self, inputs: usize) -> String {
        format!("{inputs} -> {}", self.outputs)
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        let product = gemm.lay_product(1, [self.outputs, layer.inputs]);
        let made = Layer::of(layer, Operation::Dense(product));
        // The padding of a row passes the nonlinearity with it.
        vec![Layer { active: if made.hidden() { made.outputs } else { 0 }, ..made }]
    }

    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let sum = graph.dense(&of.layer.name, of.x, &of.own("sum"));
        graph.node(of.op, &[&sum], of.output, &[]);
    }
}
