//! Cores: layers with memory between the hidden layers and the heads.

use crate::backend::LearnError;
use crate::config::{Config, CoreKind};

/// The unit of a layer with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        if !config.num_steps.is_multiple_of(config.sequence()) {
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
pub const MEMORY_KEYS: [&str; 3] = ["core_width", "core_layers", "sequence_length"];

/// Refuses memory keys that are not at their defaults with `core = "mlp"`.
fn no_core(config: &Config) -> Result<(), LearnError> {
    let defaults = Config::default();
    let values = |config: &Config| [config.core_width, config.core_layers, config.sequence_length];
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

    /// Parameters from the state to the gates: a matrix `(rows, H)` and `(rows)` biases, or none.
    pub fn state_params(&self) -> usize {
        if self.cell.sees_state() { self.rows() * (self.width + 1) } else { 0 }
    }

    /// Its part of an environment's state.
    pub fn states(&self) -> core::ops::Range<usize> {
        self.state..self.state + self.width * self.cell.states()
    }
}
