//! Utilization, sampled a few times a second.

use std::time::Duration;

/// Kind of a CPU core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreKind {
    /// A core of a machine with one kind.
    Uniform = 0,
    /// A performance core of a machine with two kinds.
    Performance = 1,
    /// An efficiency core of a machine with two kinds.
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
    /// The system's number of the core.
    pub number: u32,
    /// Its kind.
    pub kind: CoreKind,
    /// Share of time for which it was busy, 0 to 1.
    pub utilization: f32,
}

/// One sample of utilization.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// A value per metric of the ring's schema; NaN for those that are not sampled.
    pub values: Vec<f64>,
    /// The cores, by number.
    pub cores: Vec<Core>,
    /// Time since it was taken.
    pub age: Duration,
}
