//! Layers with memory, between the hidden layers and the heads: W is row-major `(gates x H, inputs)`. If the gates see the state,
//! `(gates x H, H)` and its bias follow.

pub(crate) mod cpu;

use super::export::{Attribute, Exported, Graph, STATE};
use super::{LayerForm, LayerMemory, LayerSizes};
use crate::backend::LearnError;
use crate::config::{Config, CoreKind};
#[cfg(feature = "cuda")]
use crate::cuda::gemm::layout::{CellProducts, GemmLayout, Layer, Operation};
use crate::network::{Init, LayerSpec, Network};

/// Gain of the weights.
const GAIN: f64 = 1.0;

/// The unit of a layer with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Cell {
    /// Minimal gated recurrent unit (Feng et al. 2024) with a highway gate: gates of the input alone.
    MinGru,
    /// Gated recurrent unit, as PyTorch's GRUCell.
    Gru,
    /// Long short-term memory, as PyTorch's LSTMCell.
    Lstm,
}

impl Cell {
    /// Rows of weights per unit: of mingru candidate, update and highway gate; of gru reset, update and candidate; of lstm input,
    /// forget, candidate and output.
    pub const fn gates(self) -> usize {
        match self {
            Self::MinGru | Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Numbers of state per unit: h, and of lstm c after all h.
    pub const fn states(self) -> usize {
        match self {
            Self::MinGru | Self::Gru => 1,
            Self::Lstm => 2,
        }
    }

    /// Whether gates also see the state, through their own weights.
    pub const fn sees_state(self) -> bool {
        !matches!(self, Self::MinGru)
    }

    /// The word in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinGru => CoreKind::MinGru.name(),
            Self::Gru => CoreKind::Gru.name(),
            Self::Lstm => CoreKind::Lstm.name(),
        }
    }
}

/// Equal layers with memory, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Core {
    /// Their unit.
    pub cell: Cell,
    /// Units of each.
    pub width: usize,
    /// How many.
    pub layers: usize,
}

impl Core {
    /// The core of a configuration; None for `mlp`.
    ///
    /// # Errors
    /// When its keys do not fit each other.
    pub fn of(config: &Config) -> Result<Option<Self>, LearnError> {
        let cell = match config.core {
            CoreKind::Mlp => return no_core(config).map(|()| None),
            CoreKind::MinGru => Cell::MinGru,
            CoreKind::Gru => Cell::Gru,
            CoreKind::Lstm => Cell::Lstm,
        };
        let last = config.hidden.last().copied();
        let width = if config.core_width == 0 { last.unwrap_or(1) } else { config.core_width };
        if let (Cell::MinGru, Some(last)) = (cell, last)
            && width != last
        {
            return Err(LearnError::Config {
                key: "core_width",
                problem: format!(
                    "{width}, but the highway gate of mingru mixes its {width} outputs with the {last} of the last hidden layer"
                ),
                remedy: "set core_width = 0, or the last of hidden to the same width".to_owned(),
            });
        }
        if !config.algorithm.declaration().has_replay() && !config.num_steps.is_multiple_of(config.sequence())
        {
            return Err(LearnError::Config {
                key: "sequence_length",
                problem: format!("{} does not divide num_steps = {}", config.sequence(), config.num_steps),
                remedy: "set a divisor of num_steps, or 0 to choose one".to_owned(),
            });
        }
        Ok(Some(Self { cell, width, layers: config.core_layers }))
    }

    /// Numbers of state of one chain of layers.
    pub fn states(&self) -> usize {
        self.layers * self.width * self.cell.states()
    }
}

/// The keys that mean nothing without memory.
pub const MEMORY_KEYS: [&str; 4] = ["core_width", "core_layers", "sequence_length", "burn_in"];

/// Refuses memory keys that are not at their defaults with `core = "mlp"`.
fn no_core(config: &Config) -> Result<(), LearnError> {
    let defaults = Config::default();
    let values =
        |config: &Config| [config.core_width, config.core_layers, config.sequence_length, config.burn_in];
    let mut keys = MEMORY_KEYS.into_iter().zip(values(config)).zip(values(&defaults));
    match keys.find(|((_, value), default)| value != default) {
        None => Ok(()),
        Some(((key, value), default)) => Err(LearnError::Config {
            key,
            problem: format!("{value}, but core = \"mlp\" has no memory"),
            remedy: format!("set core to mingru, gru or lstm, or {key} = {default}"),
        }),
    }
}

/// A layer with memory: its unit, its width, and the offset of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellSpec {
    /// The unit.
    pub cell: Cell,
    /// H: units, which are the layer's outputs.
    pub width: usize,
    /// The first number of its state in the state of an environment.
    pub state: usize,
}

impl CellSpec {
    /// Rows of weights: gates x H.
    pub fn rows(&self) -> usize {
        self.cell.gates() * self.width
    }

    /// Its part of an environment's state.
    pub fn states(&self) -> core::ops::Range<usize> {
        self.state..self.state + self.width * self.cell.states()
    }
}

impl LayerForm for CellSpec {
    fn outputs(&self, _inputs: usize) -> usize {
        self.width
    }

    /// Under the names of PyTorch's cells where it has them.
    fn lay(&self, network: &mut Network, name: &str, inputs: usize) {
        let suffix = if self.cell.sees_state() { "_ih" } else { "" };
        let bias = if self.cell == Cell::MinGru { Init::Memories } else { Init::Constant(0.0) };
        network.lay(format!("{name}.weight{suffix}"), &[self.rows(), inputs], Init::Orthogonal(GAIN));
        network.lay(format!("{name}.bias{suffix}"), &[self.rows()], bias);
        if self.cell.sees_state() {
            network.lay(format!("{name}.weight_hh"), &[self.rows(), self.width], Init::Orthogonal(GAIN));
            network.lay(format!("{name}.bias_hh"), &[self.rows()], Init::Constant(0.0));
        }
    }

    fn multiply_adds(&self, inputs: usize) -> [usize; 2] {
        [self.rows() * inputs, if self.cell.sees_state() { self.rows() * self.width } else { 0 }]
    }

    fn describe(&self, inputs: usize) -> String {
        format!("{inputs} -> {}, {}", self.width, self.cell.name())
    }

    fn needs(&self, at: &LayerSizes) -> LayerMemory {
        LayerMemory {
            kept: cpu::kept(self),
            scratch: cpu::scratch(self, at.vectors),
            ..LayerMemory::default()
        }
    }

    #[cfg(feature = "cuda")]
    fn gemm(&self, gemm: &mut GemmLayout, layer: &LayerSpec) -> Vec<Layer> {
        let of_inputs = gemm.lay_product(1, [self.rows(), layer.inputs]);
        let of_state = self.cell.sees_state().then(|| gemm.lay_product(1, [self.rows(), self.width]));
        vec![Layer::of(layer, Operation::Cell(CellProducts { spec: *self, of_inputs, of_state }))]
    }

    /// The outputs, and the next state as `LAYER.next`.
    fn export(&self, graph: &mut dyn Graph, of: Exported<'_>) {
        let (width, x, output) = (self.width, of.x, of.output);
        let own = |what: &str| of.own(what);
        let axis = graph.ints(&own("axis"), &[1]);
        let slice = |graph: &mut dyn Graph, from: &str, what: &str, first: usize| {
            let start = graph.ints(&own(&format!("{what}_start")), &[first]);
            let end = graph.ints(&own(&format!("{what}_end")), &[first + width]);
            graph.node("Slice", &[from, &start, &end, &axis], &own(what), &[])
        };
        let two = |graph: &mut dyn Graph, op: &str, a: &str, b: &str, what: &str| {
            graph.node(op, &[a, b], &own(what), &[])
        };
        let one =
            |graph: &mut dyn Graph, op: &str, x: &str, what: &str| graph.node(op, &[x], &own(what), &[]);
        // a + t (b - a)
        let mix = |graph: &mut dyn Graph, a: &str, b: &str, t: &str, what: &str| {
            let change = two(graph, "Sub", b, a, &format!("{what}_change"));
            let change = two(graph, "Mul", t, &change, &format!("{what}_part"));
            two(graph, "Add", a, &change, what)
        };
        let product = |graph: &mut dyn Graph, x: &str, suffix: &str| {
            let (weight, bias) = (own(&format!("weight{suffix}")), own(&format!("bias{suffix}")));
            let transposed = [Attribute::Int("transB", 1)];
            graph.node("Gemm", &[x, &weight, &bias], &own(&format!("sum{suffix}")), &transposed)
        };
        let h = slice(graph, STATE, "h", self.state);
        if self.cell == Cell::MinGru {
            let sums = product(graph, x, "");
            let [z, update, highway] =
                [0, 1, 2].map(|gate| slice(graph, &sums, &format!("gate{gate}"), gate * width));
            let (half, zero) =
                (graph.floats(&own("half"), &[], &[0.5]), graph.floats(&own("zero"), &[], &[0.0]));
            let (above, below) = (two(graph, "Add", &z, &half, "above"), one(graph, "Sigmoid", &z, "below"));
            let is_below = two(graph, "Less", &z, &zero, "is_below");
            let candidate = graph.node("Where", &[&is_below, &below, &above], &own("candidate"), &[]);
            let (update, highway) =
                (one(graph, "Sigmoid", &update, "update"), one(graph, "Sigmoid", &highway, "highway"));
            let next = mix(graph, &h, &candidate, &update, "next");
            let y = mix(graph, x, &next, &highway, "y");
            graph.node("Identity", &[&y], output, &[]);
            return;
        }
        let sums = [product(graph, x, "_ih"), product(graph, &h, "_hh")];
        let gate = |graph: &mut dyn Graph, gate: usize| {
            let both = [0, 1].map(|k| slice(graph, &sums[k], &format!("gate{gate}_{k}"), gate * width));
            let sum = two(graph, "Add", &both[0], &both[1], &format!("gate{gate}_sum"));
            (both, sum)
        };
        let sigmoid = |graph: &mut dyn Graph, k: usize| {
            let (_, sum) = gate(graph, k);
            one(graph, "Sigmoid", &sum, &format!("gate{k}"))
        };
        if self.cell == Cell::Gru {
            let (reset, update) = (sigmoid(graph, 0), sigmoid(graph, 1));
            let ([of_x, of_h], _) = gate(graph, 2);
            let of_h = two(graph, "Mul", &reset, &of_h, "reset_state");
            let sum = two(graph, "Add", &of_x, &of_h, "candidate_sum");
            let candidate = one(graph, "Tanh", &sum, "candidate");
            let next = mix(graph, &candidate, &h, &update, "next");
            graph.node("Identity", &[&next], output, &[]);
            return;
        }
        let c = slice(graph, STATE, "c", self.state + width);
        let (input, forget, out) = (sigmoid(graph, 0), sigmoid(graph, 1), sigmoid(graph, 3));
        let (_, sum) = gate(graph, 2);
        let candidate = one(graph, "Tanh", &sum, "candidate");
        let (keeps, takes) =
            (two(graph, "Mul", &forget, &c, "keeps"), two(graph, "Mul", &input, &candidate, "takes"));
        let cell = two(graph, "Add", &keeps, &takes, "cell");
        let bounded = one(graph, "Tanh", &cell, "bounded");
        graph.node("Mul", &[&out, &bounded], output, &[]);
        graph.along("Concat", &[output, &cell], &own("next"));
    }
}
