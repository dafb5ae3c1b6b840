//! How far a sweep is and what it has found so far: what monitors show of it.

use std::path::PathBuf;

/// A sweep at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepState {
    /// Its name.
    pub name: String,
    /// Its environments.
    pub environments: Vec<String>,
    /// Results so far, results that were decided on, and results with an error.
    pub done: usize,
    /// See `done`.
    pub decided: usize,
    /// See `done`.
    pub failed: usize,
    /// Seconds so far.
    pub seconds: f64,
    /// Whether a process carries it out.
    pub live: bool,
    /// Trials, the best first.
    pub trials: Vec<SweepTrial>,
}

/// A trial of a sweep.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepTrial {
    /// Its number.
    pub number: usize,
    /// Its environment.
    pub env: String,
    /// Its values, such as `learning_rate=0.001`.
    pub values: String,
    /// Interquartile mean of its runs' scores; NaN if there is none.
    pub score: f64,
    /// Runs that have a result, and all.
    pub done: usize,
    /// See `done`.
    pub seeds: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that solved the environment.
    pub solved: usize,
    /// Median of the seconds of training; NaN if there is none.
    pub seconds: f64,
    /// Median of the steps.
    pub steps: f64,
    /// Whether no other trial of its environment has a higher score in less time.
    pub pareto: bool,
    /// Directories of its runs.
    pub runs: Vec<PathBuf>,
}
