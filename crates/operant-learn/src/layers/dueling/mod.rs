//! Dueling heads (Wang et al. 2016): the first half of the features gives an advantage for each choice, the second half the state's value. An
//! action value is the state's value plus the advantage less the mean advantage.

pub(crate) mod cpu;

use super::LayerForm;
use super::export::{Exported, Graph};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{GemmLayout, Layer, Operation};
use crate::network::{HIDDEN_GAIN, Init, LayerSpec, Network};

/// A head of action values made of advantages and a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dueling {
    /// Choices of each component.
    pub choices: Vec<usize>,
}

impl Dueling {
    /// Features that make advantages, and those that make the value.
    pub fn halves(inputs: usize) -> [usize; 2] {
        [inputs.div_ceil(2), inputs / 2]
    }
}

impl LayerForm for Dueling {
    fn outputs(&self, _inputs: usize) -> usize {
        self.choices.iter().sum()
    }

    fn lay(&self, network: &mut Network, name: &str, inputs: usize) {
        let parts = [("advantage", self.outputs(inputs)), ("value", 1)];
        for ((part, rows), columns) in parts.into_iter().zip(Self::halves(inputs)) {
            network.lay(format!("{name}.{part}.weight"), &[rows, columns], Init::Orthogonal(HIDDEN_GAIN));
        }
        for (part, rows) in parts {
            network.lay(format!("{name}.{part}.bias"), &[rows], Init::Constant(0.0));
        }
    }

    /// Of the matrix that all its parts make together.
    fn multiply_adds(&self, inputs: usize) -> [usize; 2] {
        [inputs * self.outputs(inputs), 0]
    }

    fn describe(&self, inputs: usize) -> String {
        format!("{inputs} -> {}, dueling", self.outputs(inputs))
    }

    /// A row has the advantages and then the value: `kernels/gemm/action_values.cuh` makes action values of them.
    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        let [first, second] = Self::halves(layer.inputs);
        let product = gemm.lay_blocks(1, [(layer.outputs, first), (1, second)]);
        vec![Layer { outputs: product.outputs, ..Layer::of(layer, Operation::Dense(product)) }]
    }

    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let inputs = of.layer.inputs;
        let [first, _] = Self::halves(inputs);
        let [advantages, value] =
            [("advantage", 0..first), ("value", first..inputs)].map(|(part, columns)| {
                let columns = graph.ints(&of.own(&format!("{part}.columns")), &columns.collect::<Vec<_>>());
                let half = graph.along("Gather", &[of.x, &columns], &of.own(&format!("{part}.features")));
                graph.dense(&of.own(part), &half, &of.own(&format!("{part}.out")))
            });
        // Advantages over their mean, by component.
        let count = self.outputs(inputs);
        let component = |k: usize| {
            let mut ends = self.choices.iter().scan(0, |end, count| {
                *end += count;
                Some(*end)
            });
            ends.position(|end| k < end).unwrap_or_default()
        };
        let element = |i: usize, j: usize| {
            let mean = 1.0 / self.choices[component(i)] as f32;
            f32::from(i == j) - if component(i) == component(j) { mean } else { 0.0 }
        };
        let centring: Vec<f32> = (0..count * count).map(|k| element(k / count, k % count)).collect();
        let centring = graph.floats(&of.own("centring"), &[count, count], &centring);
        let over = graph.node("MatMul", &[&advantages, &centring], &of.own("over_mean"), &[]);
        graph.node("Add", &[&over, &value], of.output, &[]);
    }
}
