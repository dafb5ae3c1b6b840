//! How far a sweep is and what it has found so far: what monitors show of it.

use std::path::PathBuf;

/// A sweep at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepState {
    /// Its name.
    pub name: String,
    /// Its environments.
    pub environments: Vec<String>,
    /// Results so far; a run that was continued has several.
    pub done: usize,
    /// Results that are planned.
    pub planned: usize,
    /// Results with an error.
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
    /// Runs that have their last result.
    pub done: usize,
    /// Runs.
    pub seeds: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that solved the environment.
    pub solved: usize,
    /// Median of the seconds of training; NaN if there is none.
    pub seconds: f64,
    /// Median of the steps.
    pub steps: f64,
    /// Whether it is on the Pareto front of score and training time in its environment.
    pub pareto: bool,
    /// Directories of its runs.
    pub runs: Vec<PathBuf>,
}
