//! Layer normalisation over groups of features, the whole sample or each item: W is the scale and b the shift of each feature.

pub(crate) mod cpu;

use super::export::{Exported, Graph};
use super::{LayerForm, LayerMemory, LayerSizes};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{self, GemmLayout, Layer};
use crate::network::{Init, LayerSpec, Network};

/// Normalisation of groups of this many features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norm {
    /// Features of a group.
    pub width: usize,
}

impl LayerForm for Norm {
    fn outputs(&self, inputs: usize) -> usize {
        inputs
    }

    fn lay(&self, network: &mut Network, name: &str, _inputs: usize) {
        network.lay(format!("{name}.weight"), &[self.width], Init::Constant(1.0));
        network.lay(format!("{name}.bias"), &[self.width], Init::Constant(0.0));
    }

    /// Normalisation is no product.
    fn multiply_adds(&self, _inputs: usize) -> [usize; 2] {
        [0, 0]
    }

    fn describe(&self, inputs: usize) -> String {
        let Norm { width } = self;
        if *width < inputs {
            format!("{} x ({width}), normalised", inputs / width)
        } else {
            format!("{inputs}, normalised")
        }
    }

    fn needs(&self, at: &LayerSizes) -> LayerMemory {
        LayerMemory { kept: cpu::kept(self.width) * (at.inputs / self.width), ..LayerMemory::default() }
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        vec![Layer::of(layer, layout::Norm::of(gemm, self.width, layer.inputs / self.width))]
    }

    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let (weight, bias) = (of.own("weight"), of.own("bias"));
        let sum = graph.along("LayerNormalization", &[of.x, &weight, &bias], &of.own("sum"));
        graph.node(of.op, &[&sum], of.output, &[]);
    }
}
