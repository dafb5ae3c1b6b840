//! What the training loop itself must remember from update to update; saved with every checkpoint.

use std::collections::BTreeMap;

use operant_learn::UpdateStats;

use crate::checkpoint::Checkpoint;
use crate::evaluate::Attempts;

/// Totals and decisions of a run, those of the processes before a resume included.
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
    /// When to try to count as solved.
    pub attempts: Attempts,
    /// Evaluations during training so far; numbers their random streams.
    pub rounds: u64,
    /// Best mean of those evaluations.
    pub best_mean: Option<f64>,
    /// Environment steps at the first one that reached the threshold.
    pub solved_at_step: Option<u64>,
    /// Seconds at its end.
    pub solved_at_s: Option<f64>,
}

impl State {
    /// Takes in one update.
    pub fn record(&mut self, stats: &UpdateStats) {
        self.updates += 1;
        self.env_steps = stats.env_steps;
        self.episodes += stats.episodes;
        self.nonfinite_updates += u64::from(stats.nonfinite > 0);
        self.attempts.record(stats);
    }

    /// The totals of a checkpoint taken `wall_s` seconds into the run; reals are kept by their bits.
    pub fn totals(&self, wall_s: f64) -> BTreeMap<String, u64> {
        let mut totals = BTreeMap::from([
            ("episodes".to_string(), self.episodes),
            ("nonfinite_updates".to_string(), self.nonfinite_updates),
            ("rounds".to_string(), self.rounds),
            ("wall_s".to_string(), wall_s.to_bits()),
        ]);
        let optional = [
            ("best_mean", self.best_mean.map(f64::to_bits)),
            ("solved_at_step", self.solved_at_step),
            ("solved_at_s", self.solved_at_s.map(f64::to_bits)),
        ];
        totals.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
        self.attempts.save(&mut totals);
        totals
    }

    /// The state at a checkpoint.
    pub fn resume(checkpoint: &Checkpoint) -> Self {
        let total = |name: &str| checkpoint.totals.get(name).copied();
        State {
            updates: checkpoint.updates,
            env_steps: checkpoint.env_steps,
            train_s: checkpoint.train_s,
            episodes: total("episodes").unwrap_or(0),
            nonfinite_updates: total("nonfinite_updates").unwrap_or(0),
            wall_before_s: total("wall_s").map_or(checkpoint.train_s, f64::from_bits),
            attempts: Attempts::load(&checkpoint.totals),
            rounds: total("rounds").unwrap_or(0),
            best_mean: total("best_mean").map(f64::from_bits),
            solved_at_step: total("solved_at_step"),
            solved_at_s: total("solved_at_s").map(f64::from_bits),
        }
    }
}
