//! Utilization, as the sampler sees it a few times a second.

use std::time::Duration;

/// What kind of core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreKind {
    /// The machine has one kind.
    Uniform = 0,
    /// A fast core of a machine with two kinds.
    Performance = 1,
    /// A frugal core of a machine with two kinds.
    Efficiency = 2,
}

impl CoreKind {
    pub(super) fn of_code(code: u64) -> Self {
        match code {
            1 => CoreKind::Performance,
            2 => CoreKind::Efficiency,
            _ => CoreKind::Uniform,
        }
    }
}

/// One core that the process may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Core {
    /// Its number in the system.
    pub number: u32,
    /// What kind.
    pub kind: CoreKind,
    /// Share of the time in which it was busy, 0 to 1.
    pub utilization: f32,
}

/// What a reader finds in the sampler's slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// A value per metric of the ring's schema; NaN for those that are not sampled.
    pub values: Vec<f64>,
    /// The cores, by number.
    pub cores: Vec<Core>,
    /// How long ago it was taken.
    pub age: Duration,
}
