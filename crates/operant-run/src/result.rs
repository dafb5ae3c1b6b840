//! The result of a run: the output of `train --json` and the content of result.json.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The result of a run. Numbers that were not measured, or are not finite, are null in JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// The run's name.
    pub run: String,
    /// Environment.
    pub env: String,
    /// Device that trained.
    pub device: String,
    /// Seed.
    pub seed: u64,
    /// Environment steps taken, including those before a resume.
    pub env_steps: u64,
    /// Updates finished.
    pub updates: u64,
    /// Seconds since the start of the process, plus those up to the checkpoint for a resumed run.
    pub wall_s: f64,
    /// Seconds of that spent in updates, without evaluations, checkpoints and start-up.
    pub train_s: f64,
    /// `env_steps / train_s`.
    pub sps: f64,
    /// Mean return of the final greedy evaluation; null when a signal stopped the run before it.
    pub eval_return_mean: Option<f64>,
    /// Standard deviation of those returns.
    pub eval_return_std: Option<f64>,
    /// Episodes of the final evaluation.
    pub eval_episodes: usize,
    /// Distinct episodes among them: 1 for a deterministic policy in an environment with a fixed start.
    pub eval_distinct: usize,
    /// Means of the environment's own metrics over that evaluation, by name.
    pub eval_metrics: BTreeMap<String, f64>,
    /// Environment steps at the first evaluation that reached the threshold.
    pub solved_at_step: Option<u64>,
    /// Seconds at the end of that evaluation, counted as in `wall_s`.
    pub solved_at_s: Option<f64>,
    /// The last checkpoint, absolute.
    pub checkpoint: Option<String>,
    /// The effective configuration, environment included.
    pub config: toml::Table,
}

/// Name of the file in a run's directory.
pub(crate) const FILE: &str = "result.json";

impl RunResult {
    /// The result of the run in `dir`; none if it is missing or cannot be read.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&crate::dir::read_small(&dir.join(FILE)).ok()?).ok()
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct of numbers and strings is JSON")
    }
}
