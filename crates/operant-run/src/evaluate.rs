//! Evaluations: their summary, and the schedule of greedy ones during training.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use operant_learn::{Backend, EvalActions, Evaluation, LearnError, UpdateStats};
use operant_metrics::{FEW_ENV_METRICS, MAX_ENV_METRICS, Record, RunMetrics};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Episodes over which the training mean is taken.
const WINDOW_EPISODES: u64 = 100;

/// Summary of the episodes of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvalSummary {
    /// Episodes played.
    pub episodes: usize,
    /// Distinct episodes among them.
    pub distinct: usize,
    /// Mean undiscounted return.
    pub mean: f64,
    /// Standard deviation of the returns (of the population).
    pub std: f64,
    /// Minimum return.
    pub min: f64,
    /// Maximum return.
    pub max: f64,
    /// Mean length in steps.
    pub length: f64,
    /// Means of the environment's own metrics, over the episodes that reported them.
    pub metrics: [f64; MAX_ENV_METRICS],
}

impl EvalSummary {
    /// Summarizes an evaluation; all NaN if it has no episodes.
    #[allow(clippy::cast_precision_loss)] // counts of episodes and steps
    pub fn of(evaluation: &Evaluation) -> Self {
        let returns = &evaluation.returns;
        let n = returns.len() as f64;
        let mean = returns.iter().sum::<f64>() / n;
        let variance = returns.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / n;
        EvalSummary {
            episodes: returns.len(),
            distinct: evaluation.traces.iter().collect::<HashSet<_>>().len(),
            mean,
            std: variance.sqrt(),
            min: returns.iter().copied().fold(f64::NAN, f64::min),
            max: returns.iter().copied().fold(f64::NAN, f64::max),
            length: evaluation.lengths.iter().sum::<u64>() as f64 / n,
            metrics: std::array::from_fn(|index| mean_of(evaluation.metrics.iter().map(|of| of[index]))),
        }
    }

    /// Adds this evaluation to the record of the update before it.
    pub fn add_to(&self, record: &mut Record) {
        record.eval_return = self.mean;
        record.eval_return_std = self.std;
    }

    /// `9.50 +- 1.00 over 100 greedy episodes`, and how many were distinct, if not all were.
    pub fn shown(mean: f64, std: f64, episodes: usize, distinct: usize, actions: EvalActions) -> String {
        let repeated = match distinct {
            0 => String::new(),
            _ if distinct == episodes => String::new(),
            _ => format!(" ({distinct} distinct)"),
        };
        format!("{mean:.2} +- {std:.2} over {episodes} {actions} episodes{repeated}")
    }

    /// The means of the environment's own metrics by name, scores included, without those that no episode reported.
    pub fn named(&self, metrics: RunMetrics) -> BTreeMap<String, f64> {
        let mut means = self.metrics;
        metrics.add_scores(&mut means);
        let named = metrics.env().iter().zip(means).filter(|(_, mean)| mean.is_finite());
        named.map(|(metric, mean)| (metric.name.to_owned(), mean)).collect()
    }

    /// Lines of [`EvalSummary::named`], as those of a run's summary: one for each if they are few, otherwise several in a line of 80 columns.
    pub fn lines(named: &BTreeMap<String, f64>) -> Vec<String> {
        let longest = named.keys().map(String::len).max().unwrap_or(0).max(11);
        let abreast = if named.len() > FEW_ENV_METRICS { (80 / (longest + 12)).max(1) } else { 1 };
        let cells: Vec<_> =
            named.iter().map(|(name, mean)| format!("  {name:<longest$} {mean:<9.3}")).collect();
        cells.chunks(abreast).map(|line| line.concat().trim_end().to_owned()).collect()
    }

    /// Whether this evaluation solves the environment.
    pub fn solves(&self, threshold: Option<f64>) -> bool {
        threshold.is_some_and(|threshold| self.mean >= threshold)
    }
}

/// The mean of the numbers that are not NaN; NaN if all are.
fn mean_of(numbers: impl Iterator<Item = f32>) -> f64 {
    let known = numbers.filter(|number| !number.is_nan());
    let (sum, count) = known.fold((0.0, 0.0), |(sum, count), number| (sum + f64::from(number), count + 1.0));
    sum / count
}

/// Episodes of the first block of [`play`].
const FIRST_BLOCK: usize = 256;

/// Blocks that take longer than this do not grow.
const BLOCK_TIME: Duration = Duration::from_millis(100);

/// Plays `episodes` greedy episodes in blocks until `stop` returns true, then None. The block sizes depend on timing, the result does
/// not.
///
/// # Errors
/// When the device fails.
pub(crate) fn play(
    backend: &mut dyn Backend,
    episodes: usize,
    round: u64,
    mut stop: impl FnMut() -> bool,
) -> Result<Option<Evaluation>> {
    let mut all = Evaluation::default();
    let mut size = FIRST_BLOCK;
    while all.returns.len() < episodes {
        if stop() {
            return Ok(None);
        }
        let (first, begun) = (all.returns.len(), Instant::now());
        let numbers = first..episodes.min(first + size);
        let block = match backend.evaluate_until(numbers, round, EvalActions::Greedy, &mut stop) {
            Err(LearnError::Stopped) => return Ok(None),
            block => block?,
        };
        all.returns.extend(block.returns);
        all.lengths.extend(block.lengths);
        all.traces.extend(block.traces);
        all.metrics.extend(block.metrics);
        if begun.elapsed() < BLOCK_TIME {
            size *= 2;
        }
    }
    Ok(Some(all))
}

/// Decides from training statistics alone after which updates to evaluate: when the mean return of the last hundred or
/// so episodes is at least halfway from the first measured mean to the threshold, and `interval` updates have passed
/// since the last evaluation.
///
/// Its state is saved with every checkpoint, so that a resumed run evaluates after the same updates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvalSchedule {
    /// (episodes, mean return) of the latest updates in which episodes ended.
    window: VecDeque<(u64, f64)>,
    episodes: u64,
    first_mean: Option<f64>,
    last_attempt: Option<u64>,
}

impl EvalSchedule {
    /// The state with this window of (episodes, mean return), oldest first.
    pub(crate) fn new(
        window: VecDeque<(u64, f64)>,
        first_mean: Option<f64>,
        last_attempt: Option<u64>,
    ) -> Self {
        let episodes = window.iter().map(|(episodes, _)| episodes).sum();
        EvalSchedule { window, episodes, first_mean, last_attempt }
    }

    /// Adds the episodes of one update.
    pub fn record(&mut self, stats: &UpdateStats) {
        let mean = stats.metrics.episodic_return;
        if stats.episodes == 0 || !mean.is_finite() {
            return;
        }
        self.window.push_back((stats.episodes, mean));
        self.episodes += stats.episodes;
        while let Some((oldest, _)) = self.window.front()
            && self.episodes - oldest >= WINDOW_EPISODES
        {
            self.episodes -= oldest;
            self.window.pop_front();
        }
        if self.first_mean.is_none() {
            self.first_mean = self.mean();
        }
    }

    /// Mean return of the recent episodes.
    #[allow(clippy::cast_precision_loss)] // counts of episodes
    pub fn mean(&self) -> Option<f64> {
        let total: f64 = self.window.iter().map(|(episodes, mean)| *episodes as f64 * mean).sum();
        (self.episodes > 0).then(|| total / self.episodes as f64)
    }

    /// Whether to evaluate after `update` (counted from one).
    pub fn due(&self, update: u64, threshold: Option<f64>, interval: u64) -> bool {
        let (Some(threshold), Some(first), Some(mean)) = (threshold, self.first_mean, self.mean()) else {
            return false;
        };
        let rested = self.last_attempt.is_none_or(|last| update >= last + interval);
        rested && mean >= first + (threshold - first) / 2.0
    }

    /// Records an evaluation after `update`.
    pub fn tried(&mut self, update: u64) {
        self.last_attempt = Some(update);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stats;

    fn seen(means: &[(u64, f64)]) -> EvalSchedule {
        let mut attempts = EvalSchedule::default();
        for (episodes, mean) in means {
            attempts.record(&stats(0, *episodes, *mean));
        }
        attempts
    }

    #[test]
    fn evaluates_from_halfway_on_and_pauses_between() {
        let mut attempts = seen(&[(100, 20.0), (0, f64::NAN), (100, 119.0)]);
        assert!(!attempts.due(3, Some(220.0), 5));
        attempts.record(&stats(0, 100, 120.0));
        assert!(attempts.due(4, Some(220.0), 5));
        assert!(!attempts.due(4, None, 5));
        attempts.tried(4);
        assert!(!attempts.due(8, Some(220.0), 5));
        assert!(attempts.due(9, Some(220.0), 5));
    }

    #[test]
    fn the_mean_is_weighted_over_a_window() {
        assert_eq!(seen(&[]).mean(), None);
        assert_eq!(seen(&[(1, 10.0), (3, 20.0)]).mean(), Some(17.5));
        assert_eq!(seen(&[(90, 0.0), (10, 50.0)]).mean(), Some(5.0));
        assert_eq!(seen(&[(90, 0.0), (10, 50.0), (90, 50.0)]).mean(), Some(50.0));
        assert_eq!(seen(&[(5, 1.0), (500, 2.0)]).mean(), Some(2.0));
    }

    #[test]
    fn a_summary_uses_the_population_deviation() {
        let evaluation = Evaluation {
            returns: vec![1.0, 3.0, 5.0, 7.0],
            lengths: vec![1, 2, 3, 6],
            traces: vec![4, 5, 4, 6],
            metrics: [1.0, f32::NAN, 0.0, 0.5].map(|x| [x; MAX_ENV_METRICS]).to_vec(),
        };
        let summary = EvalSummary::of(&evaluation);
        assert_eq!((summary.mean, summary.std, summary.length), (4.0, 5f64.sqrt(), 3.0));
        assert_eq!((summary.min, summary.max, summary.episodes), (1.0, 7.0, 4));
        assert_eq!((summary.distinct, summary.metrics), (3, [0.5; MAX_ENV_METRICS]));
        let named = summary.named(RunMetrics::new([("success", "")]));
        assert_eq!(named, [("success".to_owned(), 0.5)].into());
        assert_eq!(EvalSummary::lines(&named), ["  success     0.500"]);
        let score = RunMetrics::with_scores([("rate", "", vec![]), ("score", "", vec![0])]);
        assert!((summary.named(score)["score"] - 50.0).abs() < 1e-9);
        let many = EvalSummary::lines(&(0..23).map(|k| (format!("collect_the_{k}th"), 0.5)).collect());
        assert!(many.len() == 12 && many.iter().all(|line| line.len() <= 80), "{many:?}");
        assert!(summary.solves(Some(4.0)) && !summary.solves(Some(4.1)) && !summary.solves(None));
    }
}
