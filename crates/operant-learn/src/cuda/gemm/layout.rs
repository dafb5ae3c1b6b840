//! The layout of a network's matrices on the GEMM path. Twin of `kernels/gemm/layout.cuh`; the kernels assert that both agree.

use operant_cuda::{Element, InputPrecision};

use crate::config::{Activation, Config};
use crate::network::{Input, Network};
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// Numbers of a row are a multiple of this.
const PAD: usize = 8;
/// Threads of a block.
pub const THREADS: usize = 128;
const WARP: usize = 32;

/// A layer: W `(outputs, inputs)`, both padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Numbers that it reads, padded.
    pub inputs: usize,
    /// Numbers that it makes, padded.
    pub outputs: usize,
    /// The first element of its matrix.
    pub matrix: usize,
    /// The first of its biases.
    pub bias: usize,
    /// Whether the nonlinearity follows.
    pub hidden: bool,
}

impl Layer {
    /// Elements of its matrix.
    pub fn elements(&self) -> usize {
        self.inputs * self.outputs
    }
}

/// The layers of every chain, and their total sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GemmLayout {
    /// The precision of products.
    pub precision: Precision,
    /// First to last.
    pub chains: Vec<Vec<Layer>>,
    /// Elements of all matrices.
    pub matrix_elements: usize,
    /// All biases.
    pub biases: usize,
    /// Whether hidden layers are rectified; else they end in tanh.
    pub relu: bool,
    /// A: policy outputs.
    pub outputs: usize,
}

impl GemmLayout {
    /// The layout of a network.
    pub fn new(network: &Network, precision: Precision) -> Self {
        let (mut matrix_elements, mut biases) = (0, 0);
        let mut chains = Vec::new();
        for chain in &network.chains {
            let mut layers = Vec::new();
            for layer in &chain.layers {
                let (inputs, outputs) =
                    (layer.inputs.next_multiple_of(PAD), layer.outputs.next_multiple_of(PAD));
                let hidden = layer.activation.is_some();
                layers.push(Layer { inputs, outputs, matrix: matrix_elements, bias: biases, hidden });
                matrix_elements += (inputs * outputs).next_multiple_of(128);
                biases += outputs.next_multiple_of(64);
            }
            chains.push(layers);
        }
        let relu = network.architecture.activation == Activation::Relu;
        Self { precision, chains, matrix_elements, biases, relu, outputs: network.policy_outputs() }
    }

    /// Whether what products read is bf16.
    pub fn halves(&self) -> bool {
        self.precision == Precision::Bf16
    }

    /// The precision of the products' inputs.
    pub fn products(&self) -> InputPrecision {
        match self.precision {
            Precision::F32 => InputPrecision::F32,
            Precision::Tf32 => InputPrecision::Tf32,
            Precision::Bf16 => InputPrecision::Bf16,
        }
    }

    /// The element type of the products' inputs.
    pub fn element(&self) -> Element {
        if self.halves() { Element::Bf16 } else { Element::F32 }
    }

    /// 32-bit words of `count` numbers as products read them.
    pub fn words(&self, count: usize) -> usize {
        if self.halves() { count.div_ceil(2) } else { count }
    }

    /// Words of all matrices.
    pub fn matrix_words(&self) -> usize {
        self.words(self.matrix_elements)
    }

    /// Numbers in a row of observations.
    pub fn obs_row(&self) -> usize {
        self.chains[0][0].inputs
    }

    /// Numbers in a row of policy outputs, and of the critic's outputs.
    pub fn output_rows(&self) -> [usize; 2] {
        let last = |chain: &Vec<Layer>| chain.last().map_or(0, |layer| layer.outputs);
        [last(&self.chains[0]), last(&self.chains[self.chains.len() - 1])]
    }

    /// Where the value lies in a row of policy outputs; None where the critic is a chain of its own.
    pub fn value_at(&self) -> Option<usize> {
        (self.chains.len() == 1).then_some(self.outputs)
    }

    /// The widest row that a layer makes.
    pub fn widest(&self) -> usize {
        self.chains.iter().flatten().map(|layer| layer.outputs.max(layer.inputs)).max().unwrap_or(0)
    }

    /// Bytes of shared memory of an update's block: room for sums of doubles and of log standard deviations.
    pub fn update_shared(&self) -> usize {
        (2 * 8 + self.outputs.next_multiple_of(4)) * 4 * (THREADS / WARP)
    }

    /// Bytes of shared memory of the rollout's last kernel: what a warp merges.
    pub fn rollout_shared(&self, norms: usize) -> usize {
        (40 + 8 * (2 * norms).max(1) + 8).next_multiple_of(16) * (THREADS / WARP)
    }

    /// Defines of every program.
    fn common(&self, network: &Network) -> Vec<(String, String)> {
        let architecture = &network.architecture;
        let widths: Vec<String> = [architecture.input.features()]
            .iter()
            .chain(&architecture.hidden)
            .map(|width| format!("{width}u"))
            .collect();
        let flag = |on: bool| u8::from(on).to_string();
        [
            ("WIDTHS", format!("{{{}}}", widths.join(", "))),
            ("LAYERS", format!("{}u", architecture.hidden.len())),
            ("OUTPUTS", format!("{}u", architecture.head.outputs())),
            ("CHAINS", format!("{}u", network.chains.len())),
            ("OBS_BITS", flag(matches!(architecture.input, Input::Bits(_)))),
            ("PRECISION", self.precision_define()),
            ("THREADS", THREADS.to_string()),
            ("EXPECTED_MATRIX_ELEMENTS", format!("{}u", self.matrix_elements)),
            ("EXPECTED_BIASES", format!("{}u", self.biases)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    fn precision_define(&self) -> String {
        match self.precision {
            Precision::F32 => "0",
            Precision::Tf32 => "1",
            Precision::Bf16 => "2",
        }
        .to_owned()
    }

    /// The defines of `math.cu`.
    pub fn math_defines(&self) -> Vec<(String, String)> {
        let relu = u8::from(self.relu).to_string();
        vec![("PRECISION".to_owned(), self.precision_define()), ("ACTIVATION_RELU".to_owned(), relu)]
    }

    /// The defines of `rollout.cu`.
    pub fn rollout_defines(
        &self,
        network: &Network,
        config: &Config,
        layout: &SampleLayout,
        norms: usize,
    ) -> Vec<(String, String)> {
        let mut defines = self.common(network);
        for (name, value) in [
            ("SAMPLE_STRIDE", format!("{}u", layout.stride)),
            ("NORM_OBS", u8::from(config.norm_obs).to_string()),
            ("NORM_REWARD", u8::from(config.norm_reward).to_string()),
            ("BLOCK_BYTES", format!("{}u", self.rollout_shared(norms))),
        ] {
            defines.push((name.to_owned(), value));
        }
        defines
    }

    /// The defines of `update.cu`.
    pub fn update_defines(&self, network: &Network, layout: &SampleLayout) -> Vec<(String, String)> {
        let mut defines = self.common(network);
        for (name, count) in [
            ("SAMPLE_STRIDE", layout.stride),
            ("BLOCK_BYTES", self.update_shared()),
            ("EXPECTED_PARAMETERS", network.len()),
        ] {
            defines.push((name.to_owned(), format!("{count}u")));
        }
        defines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Architecture, Head};

    #[test]
    fn the_worked_example_of_the_kernels_holds() {
        let config = Config { hidden: vec![512, 512], shared_trunk: true, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let gemm_layout = GemmLayout::new(&Network::new(architecture), Precision::Bf16);
        let matrices: Vec<usize> = gemm_layout.chains[0].iter().map(|layer| layer.matrix).collect();
        assert_eq!(matrices, [0, 4_096, 266_240]);
        assert_eq!((gemm_layout.matrix_elements, gemm_layout.biases), (270_336, 1_088));
    }
}
