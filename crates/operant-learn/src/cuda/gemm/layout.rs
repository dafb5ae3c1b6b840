//! The layout of a network's matrices on the GEMM path, which the kernels have as constants (`kernels/gemm/layout.cuh`).

use std::ops::Range;

use operant_cuda::{Element, InputPrecision};

use super::maps::Mapped;
use super::ring::RingSizes;
use crate::config::{Activation, Config, Intrinsic, LrSchedule};
use crate::cpu::rollout::counts;
use crate::cuda::common::text::{owned, shape_defines};
use crate::network::{Cell, CellSpec, Embed, Form, LayerSpec, Network, Outputs, Pointer, Pool};
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// Numbers of a row are a multiple of this.
pub const PAD: usize = 8;
/// Threads of a block.
pub const THREADS: usize = 128;
const WARP: usize = 32;

/// Blocks of an update on a device with `multiprocessors` multiprocessors: two each, but none without one of its samples or parameters.
pub(super) fn blocks_of(multiprocessors: usize, most: usize) -> usize {
    (2 * multiprocessors).clamp(1, most.div_ceil(THREADS))
}

/// The samples of a forward pass: `steps` rows of each sequence, step by step. Without memory a sample is a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// S: sequences.
    pub sequences: usize,
    /// L: steps of a sequence.
    pub steps: usize,
}

impl Extent {
    /// Samples.
    pub fn rows(&self) -> usize {
        self.sequences.saturating_mul(self.steps)
    }
}

/// A matrix product of a layer: W `(outputs, inputs)`, both padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Rows of a sample.
    pub places: usize,
    /// Numbers that it reads, padded.
    pub inputs: usize,
    /// Numbers that it makes, padded.
    pub outputs: usize,
    /// The first element of its matrix.
    pub matrix: usize,
    /// The first of its biases.
    pub bias: usize,
}

impl Product {
    /// Elements of its matrix.
    pub fn elements(&self) -> usize {
        self.inputs * self.outputs
    }
}

/// A layer between rows of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Numbers of a row that it reads, padded.
    pub inputs: usize,
    /// Numbers of a row that it makes, padded.
    pub outputs: usize,
    /// The nonlinearity applies to the first `active` outputs.
    pub active: usize,
    /// Whether the outputs are f32 and not the element type of products: true for the last layer.
    pub wide: bool,
    /// A skip connection: the inputs of the normalisation that many layers earlier are added to the outputs.
    pub adds: Option<usize>,
    /// What it computes.
    pub operation: Operation,
}

/// What a layer computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// A product of whole rows.
    Dense(Product),
    /// A product over places of a row.
    Mapped(Box<Mapped>),
    /// Embedding tables, of each part of the observation.
    Embed(Vec<Lookup>),
    /// Normalisation of the features of each item.
    Norm(Norm),
    /// Scores of candidates.
    Pointer(Product, Pointer),
    /// A layer with memory.
    Cell(CellProducts),
}

/// Normalisation: its weights and biases lie among the biases of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norm {
    /// Items of a row.
    pub items: usize,
    /// Features of an item.
    pub width: usize,
    /// The first weight.
    pub weight: usize,
    /// The first bias.
    pub bias: usize,
}

/// A table (rows, width) of a part of the observation, which lies among the biases of products.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lookup {
    /// The first number of the table.
    pub table: usize,
    pub rows: usize,
    pub width: usize,
    /// The part's first index among all indices of an observation.
    pub first_index: usize,
    /// Vectors that it makes of a sample, side by side.
    pub places: usize,
    /// Indices of each, whose rows are added.
    pub entries: usize,
    /// The factor of their sum.
    pub scale: f32,
    /// The first output.
    pub first: usize,
    /// Elements written to a row of outputs; the last part also writes copied inputs and padding.
    pub columns: usize,
    /// Inputs that are copied after the last part's outputs.
    pub passed: usize,
}

/// A layer with memory: the gates' products with its inputs, and with its state if they see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellProducts {
    pub spec: CellSpec,
    pub of_inputs: Product,
    pub of_state: Option<Product>,
}

impl Norm {
    /// The normalisation of items of this width.
    pub fn of(gemm: &mut GemmLayout, width: usize, items: usize) -> Operation {
        let [weight, bias] = [gemm.lay_vector(width), gemm.lay_vector(width)];
        Operation::Norm(Norm { items, width, weight, bias })
    }

    /// Numbers of an item's share of the gradient.
    pub fn share(&self) -> usize {
        self.width.next_multiple_of(PAD)
    }
}

impl Layer {
    /// The operation that is the whole of a layer.
    pub fn of(layer: &LayerSpec, operation: Operation) -> Self {
        let [inputs, outputs] = [layer.inputs, layer.outputs].map(|count| count.next_multiple_of(PAD));
        let active = if layer.activation.is_some() { layer.active() } else { 0 };
        Self { inputs, outputs, active, wide: false, adds: None, operation }
    }

    /// Its products.
    pub fn products(&self) -> Vec<Product> {
        match &self.operation {
            Operation::Dense(product) | Operation::Pointer(product, _) => vec![*product],
            Operation::Norm(_) | Operation::Embed(_) => vec![],
            Operation::Cell(cell) => [cell.of_inputs].into_iter().chain(cell.of_state).collect(),
            Operation::Mapped(mapped) => vec![mapped.product],
        }
    }

    /// Stride, in numbers, between rows of the input.
    pub fn row(&self, product: &Product) -> usize {
        if matches!(self.operation, Operation::Pointer(..)) { self.inputs } else { product.inputs }
    }

    /// Whether the product multiplies a layer's state, so that each step depends on the previous one.
    pub fn is_of_state(&self, product: &Product) -> bool {
        matches!(&self.operation, Operation::Cell(cell) if cell.of_state.as_ref() == Some(product))
    }

    /// Rows of samples that a product reads at once, each `places` times.
    pub fn rows_at_once(&self, product: &Product, extent: Extent) -> usize {
        if self.is_of_state(product) { extent.sequences } else { extent.rows() }
    }

    /// Whether a nonlinearity follows.
    pub fn hidden(&self) -> bool {
        self.active > 0
    }
}

/// A block of parameters, and where products read it: row r and column c at `place + r row_stride + c column_stride`, among all matrices
/// and then all biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MatrixBlock {
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
    /// In the matrices, or in the biases.
    place: usize,
    is_bias: bool,
}

/// The layers of every chain, and their total sizes.
#[derive(Debug, Clone, PartialEq)]
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
    /// Indices of an observation that look up tables; 0 without embeddings.
    pub indices: usize,
    /// Numbers of state that an environment carries from step to step.
    pub states: usize,
    /// The unit of layers with memory.
    pub cell: Option<Cell>,
    /// Whether the chains after the first read actions too.
    has_critics: bool,
    /// Parameters in their order.
    blocks: Vec<MatrixBlock>,
}

impl GemmLayout {
    /// The layout of a network.
    pub fn new(network: &Network, precision: Precision) -> Self {
        let mut made = Self {
            precision,
            chains: Vec::new(),
            matrix_elements: 0,
            biases: 0,
            relu: network.architecture.activation == Activation::Relu,
            outputs: network.policy_outputs(),
            indices: 0,
            states: network.states,
            cell: network.architecture.core.map(|core| core.cell),
            has_critics: network.architecture.outputs.has_critics(),
            blocks: Vec::new(),
        };
        for chain in &network.chains {
            let layers = chain.layers.iter().flat_map(|layer| layer.form.kind().gemm(&mut made, layer));
            let mut layers: Vec<Layer> = layers.collect();
            layers.last_mut().expect("an output layer").wide = true;
            made.chains.push(layers);
        }
        made
    }

    /// A matrix of `rows` x `columns` parameters, and its biases.
    pub fn lay_product(&mut self, places: usize, [rows, columns]: [usize; 2]) -> Product {
        self.lay_blocks(places, [(rows, columns)])
    }

    /// A matrix of blocks of `(rows, columns)` parameters along its diagonal, with zeros around them, and the biases of all.
    pub fn lay_blocks<const N: usize>(&mut self, places: usize, parts: [(usize, usize); N]) -> Product {
        let all = |of: fn(&(usize, usize)) -> usize| parts.iter().map(of).sum::<usize>();
        let (rows, columns) = (all(|part| part.0), all(|part| part.1));
        let (inputs, outputs) = (columns.next_multiple_of(PAD), rows.next_multiple_of(PAD));
        let matrix = self.matrix_elements;
        self.matrix_elements += (inputs * outputs).next_multiple_of(128);
        let mut place = matrix;
        for (rows, columns) in parts {
            self.blocks.push(MatrixBlock {
                rows,
                columns,
                row_stride: inputs,
                column_stride: 1,
                place,
                is_bias: false,
            });
            place += rows * inputs + columns;
        }
        let bias = self.lay_vector(rows);
        Product { places, inputs, outputs, matrix, bias }
    }

    /// A vector of `columns` parameters among the biases.
    pub fn lay_vector(&mut self, columns: usize) -> usize {
        let place = self.biases;
        self.biases += columns.next_multiple_of(64);
        self.blocks.push(MatrixBlock {
            rows: 1,
            columns,
            row_stride: 0,
            column_stride: 1,
            place,
            is_bias: true,
        });
        place
    }

    /// Tables, from a layer's one-hot inputs to its outputs.
    pub fn lay_tables(&mut self, embed: &Embed, [inputs, outputs]: [usize; 2]) -> Vec<Lookup> {
        let (width, passed) = (embed.width, embed.passed(inputs).count());
        let (mut first, mut first_index) = (0, 0);
        let parts = embed.parts.iter().enumerate().map(|(k, part)| {
            let (made, is_last) = (embed.outputs_of(part), k + 1 == embed.parts.len());
            let (places, count) = (made / width, part.positions * part.indices);
            let lookup = Lookup {
                table: self.lay_vector(part.rows * width),
                rows: part.rows,
                width,
                first_index,
                places,
                entries: count / places,
                scale: if embed.pool == Pool::Mean { 1.0 / part.positions as f32 } else { 1.0 },
                first,
                columns: if is_last { outputs.next_multiple_of(PAD) - first } else { made },
                passed: if is_last { passed } else { 0 },
            };
            (first, first_index) = (first + made, first_index + count);
            lookup
        });
        let parts = parts.collect();
        self.indices = first_index;
        parts
    }

    /// The blocks as the kernels read them: parameters, columns, strides, and place among matrices and biases.
    fn blocks(&self) -> String {
        let block = |block: &MatrixBlock| {
            let MatrixBlock { rows, columns, row_stride, column_stride, place, is_bias } = *block;
            let place = place + if is_bias { self.matrix_elements } else { 0 };
            format!("{{{}u, {columns}u, {row_stride}u, {column_stride}u, {place}u}}", rows * columns)
        };
        self.blocks.iter().map(block).collect::<Vec<_>>().join(", ")
    }

    /// Where products read the matrix whose first parameter this is: its first element, and elements from one row to the next.
    pub(super) fn matrix_at(&self, mut parameter: usize) -> [usize; 2] {
        for MatrixBlock { rows, columns, row_stride, place, .. } in &self.blocks {
            if parameter < rows * columns {
                return [place + parameter / columns * row_stride, *row_stride];
            }
            parameter -= rows * columns;
        }
        panic!("a parameter behind the layers");
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

    /// Numbers in a row of the inputs of critics of actions, or of a critic.
    pub fn critic_row(&self) -> usize {
        self.chains[self.chains.len() - 1][0].inputs
    }

    /// Whether a chain's inputs are an observation and an action, whose gradient there is.
    pub fn reads_actions(&self, chain: usize) -> bool {
        self.has_critics && chain > 0
    }

    /// The chains of a policy that plays: critics of actions do not.
    pub fn acting(&self) -> Range<usize> {
        0..if self.has_critics { 1 } else { self.chains.len() }
    }

    /// Numbers in a row of policy outputs, and of the critic's outputs.
    pub fn output_rows(&self) -> [usize; 2] {
        let last = |chain: &Vec<Layer>| chain.last().map_or(0, |layer| layer.outputs);
        [last(&self.chains[0]), last(&self.chains[self.chains.len() - 1])]
    }

    /// The position of the value in a row of policy outputs; None where the critic is a separate chain.
    pub fn value_at(&self) -> Option<usize> {
        (self.chains.len() == 1).then_some(self.outputs)
    }

    /// The widest row that a layer makes.
    pub fn widest(&self) -> usize {
        self.chains.iter().flatten().map(|layer| layer.outputs).max().unwrap_or(0)
    }

    /// The layers of all chains that have a gradient of their inputs: all but the first of those that read no action.
    pub fn inner(&self) -> impl Iterator<Item = &Layer> {
        let chains = self.chains.iter().enumerate();
        chains.flat_map(|(number, chain)| &chain[usize::from(!self.reads_actions(number))..])
    }

    /// Bytes of shared memory of an update's block: room for sums of doubles and of log standard deviations.
    pub fn update_shared(&self) -> usize {
        (2 * 8 + self.outputs.next_multiple_of(4)) * 4 * (THREADS / WARP)
    }

    /// Bytes of shared memory of the rollout's last kernel, for the statistics that a warp merges.
    pub fn rollout_shared(&self, norms: usize) -> usize {
        (40 + 8 * (2 * norms).max(1) + 8).next_multiple_of(16) * (THREADS / WARP)
    }

    /// Defines of every program.
    pub(super) fn common(&self, network: &Network, config: &Config) -> Vec<(String, String)> {
        let own = [
            ("PRECISION", self.precision_define()),
            ("THREADS", THREADS.to_string()),
            ("BLOCKS", format!("{{{}}}", self.blocks())),
            ("MATRIX_ELEMENTS", format!("{}u", self.matrix_elements)),
            ("BIASES", format!("{}u", self.biases)),
            ("OBS_ROW", format!("{}u", self.obs_row())),
            ("POLICY_ROW", format!("{}u", self.output_rows()[0])),
            ("VALUE_ROW", format!("{}u", self.output_rows()[1])),
            ("INDICES", format!("{}u", self.indices)),
            ("PASSED", passed(network)),
            ("STATES", format!("{}u", self.states)),
            ("ACTION_VALUES", u8::from(network.architecture.outputs == Outputs::ActionValues).to_string()),
            ("DUELING", u8::from(network.architecture.dueling).to_string()),
            ("SEQUENCE", format!("{}u", config.sequence())),
            ("LEARNED_ROWS", format!("{}u", config.learned_rows())),
            (
                "SEQUENCES",
                format!("{}u", if self.states > 0 { config.num_steps / config.sequence() } else { 1 }),
            ),
            ("FLAT_LOG_STD", format!("{}u", network.log_std.unwrap_or(network.len()))),
        ];
        let recomputes = config.recomputes().then(|| ("RECOMPUTES", "1".to_owned()));
        let two_values = network.architecture.intrinsic_value.then(|| ("INTRINSIC_VALUE", "1".to_owned()));
        let bins = network.architecture.bins.map(|bins| bins.defines()).into_iter().flatten();
        shape_defines(network)
            .into_iter()
            .chain(owned(own))
            .chain(owned(recomputes))
            .chain(owned(two_values))
            .chain(owned(bins))
            .collect()
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

    /// The defines of `lookup.cu`.
    pub fn lookup_defines(&self) -> Vec<(String, String)> {
        vec![("PRECISION".to_owned(), self.precision_define())]
    }

    /// The defines of `muon.cu`.
    pub fn muon_defines(&self, network: &Network, config: &Config) -> Vec<(String, String)> {
        let mut defines = vec![("PRECISION".to_owned(), self.precision_define())];
        defines.extend(step_defines(network, config));
        defines
    }

    /// The defines of `cells.cu`.
    pub fn cell_defines(&self, cell: Cell) -> Vec<(String, String)> {
        let number = match cell {
            Cell::MinGru => "0",
            Cell::Gru => "1",
            Cell::Lstm => "2",
        };
        vec![("PRECISION".to_owned(), self.precision_define()), ("CELL".to_owned(), number.to_owned())]
    }

    /// The defines of `rollout.cu`.
    pub fn rollout_defines(
        &self,
        network: &Network,
        config: &Config,
        layout: &SampleLayout,
        (norms, ring): (usize, RingSizes),
    ) -> Vec<(String, String)> {
        let mut defines = self.common(network, config);
        defines.extend(owned([
            ("SAMPLE_STRIDE", format!("{}u", layout.stride)),
            ("REPLAY_STRIDE", format!("{}u", ring.stride)),
            ("PRIORITIES", u8::from(ring.has_priorities).to_string()),
            ("NORM_OBS", u8::from(config.norm_obs).to_string()),
            ("NORM_REWARD", u8::from(config.norm_reward).to_string()),
            ("COUNTS", format!("{}u", counts::words(config))),
            ("RND", u8::from(config.intrinsic == Intrinsic::Rnd).to_string()),
            ("BLOCK_BYTES", format!("{}u", self.rollout_shared(norms))),
        ]));
        defines
    }

    /// The defines of `update.cu`.
    pub fn update_defines(
        &self,
        network: &Network,
        config: &Config,
        layout: &SampleLayout,
    ) -> Vec<(String, String)> {
        let mut defines = self.common(network, config);
        let counts = [
            ("SAMPLE_STRIDE", layout.stride),
            ("BLOCK_BYTES", self.update_shared()),
            ("EXPECTED_PARAMETERS", network.len()),
        ];
        defines.extend(owned(counts.map(|(name, count)| (name, format!("{count}u")))));
        if config.not_fused().is_some() {
            defines.extend(step_defines(network, config));
        }
        defines
    }
}

/// The defines of steps that the fused kernels do not have (`common/adam.cuh`).
fn step_defines(network: &Network, config: &Config) -> impl Iterator<Item = (String, String)> {
    let (value, ppo) = (network.value_params().unwrap_or_default(), &config.algorithms.ppo);
    let [weights, bias] = network.value_layer();
    let steps = [
        ("OWN_STEPS", 1),
        ("KL_RATE", usize::from(config.lr_schedule == LrSchedule::Kl)),
        ("NETWORKS", if config.networks_apart() { 2 } else { 1 }),
        ("VALUE_FIRST", value.start),
        ("VALUE_END", value.end),
        ("CRITIC_EPOCHS", usize::from(ppo.vf_epochs > 0)),
        ("DRAWS", usize::from(ppo.prio_alpha > 0.0)),
        ("NORM_VALUE", usize::from(ppo.norm_value)),
        ("VALUE_WEIGHT", weights.start),
        ("VALUE_WEIGHTS", weights.len()),
        ("VALUE_BIAS", bias.start),
    ];
    owned(steps.map(|(name, count)| (name, format!("{count}u"))))
}

/// Ranges of features that are not indices, as {first, count}; empty for a network without embeddings.
fn passed(network: &Network) -> String {
    let of = |layer: &LayerSpec| match &layer.form {
        Form::Embed(embed) => Some(embed.passed(layer.inputs).collect()),
        _ => None,
    };
    let features: Vec<usize> = of(&network.chains[0].layers[0]).unwrap_or_default();
    let runs = features.chunk_by(|a, b| a + 1 == *b).map(|run| format!("{{{}u, {}u}}", run[0], run.len()));
    let runs: Vec<String> = runs.collect();
    if runs.is_empty() { "{{0u, 0u}}".to_owned() } else { format!("{{{}}}", runs.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Architecture, Head, Input};

    #[test]
    fn the_worked_example_of_the_kernels_holds() {
        let config = Config { hidden: vec![512, 512], shared_trunk: true, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let gemm_layout = GemmLayout::new(&Network::new(architecture), Precision::Bf16);
        let products = gemm_layout.chains[0].iter().flat_map(Layer::products);
        let matrices: Vec<usize> = products.map(|product| product.matrix).collect();
        assert_eq!(matrices, [0, 4_096, 266_240]);
        assert_eq!((gemm_layout.matrix_elements, gemm_layout.biases), (270_336, 1_088));
    }
}
