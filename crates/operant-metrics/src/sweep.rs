//! How far a sweep is and what it has found so far: what lists and monitors show of it.

use std::path::PathBuf;

use crate::{Health, RunState};

/// A sweep at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepState {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Its environments.
    pub environments: Vec<String>,
    /// Its state.
    pub health: Health,
    /// Why it ended, one line; empty if unknown or not ended.
    pub reason: String,
    /// When its latest process began, UTC; empty if unknown.
    pub started: String,
    /// The process that carries it out, while it is alive.
    pub pid: Option<u32>,
    /// How it searches: `grid`, `random`, `bayes` or `pbt`.
    pub method: String,
    /// What the search maximises: `eval_return`, `solved_at_step`, `solved_at_s`, a metric of the environment, or its name after a minus sign.
    pub objective: String,
    /// Seeds of a trial.
    pub seeds: usize,
    /// Results so far; a run that was continued has several.
    pub done: usize,
    /// Results that are planned.
    pub planned: usize,
    /// Results with an error.
    pub failed: usize,
    /// Trials whose runs all have the result that was decided last.
    pub trials_done: usize,
    /// Trials that are planned.
    pub trials_planned: usize,
    /// Seconds so far, without pauses and stops.
    pub seconds: f64,
    /// Seconds that are left at the speed so far; None if nothing is measured or left.
    pub left: Option<f64>,
    /// Trials: the environments in their order, the best trial of each first.
    pub trials: Vec<SweepTrial>,
}

impl Default for SweepState {
    /// A sweep of which nothing is known yet.
    fn default() -> Self {
        Self {
            name: String::new(),
            dir: PathBuf::new(),
            environments: Vec::new(),
            health: Health::Reported(RunState::Starting),
            reason: String::new(),
            started: String::new(),
            pid: None,
            method: String::new(),
            objective: String::new(),
            seeds: 0,
            done: 0,
            planned: 0,
            failed: 0,
            trials_done: 0,
            trials_planned: 0,
            seconds: 0.0,
            left: None,
            trials: Vec::new(),
        }
    }
}

impl SweepState {
    /// The best trial of an environment; none if none has a result of every seed.
    pub fn best(&self, env: &str) -> Option<&SweepTrial> {
        self.trials.iter().find(|trial| trial.env == env && trial.objective.is_finite())
    }
}

/// A trial of a sweep.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepTrial {
    /// Its number.
    pub number: usize,
    /// Its environment.
    pub env: String,
    /// Its values, such as `learning_rate` and `0.001`.
    pub settings: Vec<(String, String)>,
    /// What the search maximises, the mean over seeds; NaN until every seed has a result, or where one failed.
    pub objective: f64,
    /// Interquartile mean of its runs' scores; NaN if there is none.
    pub score: f64,
    /// The 95% interval of the score over seeds; None of fewer than two scores, or where it was not computed.
    pub interval: Option<[f64; 2]>,
    /// Interquartile mean of the training return over environment steps, between the ends of its interval: of the best trials, where it
    /// was computed.
    pub curve: Vec<(f64, [f64; 3])>,
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

impl SweepTrial {
    /// Its values in a line, such as `learning_rate=0.001 gamma=0.99`, or its number if nothing varies.
    pub fn label(&self) -> String {
        match self.settings.is_empty() {
            true => format!("trial {}", self.number),
            false => {
                let each = self.settings.iter().map(|(key, value)| format!("{key}={value}"));
                each.collect::<Vec<_>>().join(" ")
            }
        }
    }
}
