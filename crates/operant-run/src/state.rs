//! The training loop's state between updates, which is saved with every checkpoint.

use operant_learn::UpdateStats;

use crate::checkpoint::{Checkpoint, Totals};
use crate::evaluate::EvalSchedule;

/// Totals and decisions of a run, including those of the processes before a resume.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct State {
    /// Updates finished.
    pub updates: u64,
    /// Environment steps taken.
    pub env_steps: u64,
    /// Episodes ended.
    pub episodes: u64,
    /// Updates with a skipped minibatch.
    pub nonfinite_updates: u64,
    /// Seconds spent in updates.
    pub train_s: f64,
    /// Seconds of wall time before this process.
    pub wall_before_s: f64,
    /// Schedule of evaluations.
    pub attempts: EvalSchedule,
    /// Number of evaluations during training so far; selects their random streams.
    pub rounds: u64,
    /// Best mean of those evaluations.
    pub best_mean: Option<f64>,
    /// Environment steps at the first one that reached the threshold.
    pub solved_at_step: Option<u64>,
    /// Seconds at the end of that evaluation.
    pub solved_at_s: Option<f64>,
}

impl State {
    /// Adds one update.
    pub fn record(&mut self, stats: &UpdateStats) {
        self.updates += 1;
        self.env_steps = stats.env_steps;
        self.episodes += stats.episodes;
        self.nonfinite_updates += u64::from(stats.nonfinite > 0);
        self.attempts.record(stats);
    }

    /// The totals of a checkpoint taken `wall_s` seconds into the run.
    pub fn totals(&self, wall_s: f64) -> Totals {
        Totals {
            episodes: self.episodes,
            nonfinite_updates: self.nonfinite_updates,
            rounds: self.rounds,
            wall_s: Some(wall_s),
            best_mean: self.best_mean,
            solved_at_step: self.solved_at_step,
            solved_at_s: self.solved_at_s,
            attempts: self.attempts.clone(),
        }
    }

    /// The state at a checkpoint.
    pub fn resume(checkpoint: &Checkpoint) -> Self {
        let totals = checkpoint.totals.clone();
        State {
            updates: checkpoint.updates,
            env_steps: checkpoint.env_steps,
            train_s: checkpoint.train_s,
            episodes: totals.episodes,
            nonfinite_updates: totals.nonfinite_updates,
            wall_before_s: totals.wall_s.unwrap_or(checkpoint.train_s),
            attempts: totals.attempts,
            rounds: totals.rounds,
            best_mean: totals.best_mean,
            solved_at_step: totals.solved_at_step,
            solved_at_s: totals.solved_at_s,
        }
    }
}
