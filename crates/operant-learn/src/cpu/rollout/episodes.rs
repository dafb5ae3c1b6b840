//! Statistics of the episodes that ended during a rollout, gathered by 16 environments and merged in their order.

use operant_metrics::{MAX_ENV_METRICS, Record};

/// Count, sums and extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpisodeStats {
    /// Episodes that ended.
    pub count: u64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
    length: u64,
    /// Sum of the rewards for exploring, over all steps of the rollout.
    pub intrinsic: f64,
    /// Sums of the environment's own metrics, and of how many episodes each: a NaN is not counted.
    metrics: [(f64, u64); MAX_ENV_METRICS],
}

impl Default for EpisodeStats {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0.0,
            squares: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            length: 0,
            intrinsic: 0.0,
            metrics: [(0.0, 0); MAX_ENV_METRICS],
        }
    }
}

impl EpisodeStats {
    /// Counts an episode by its undiscounted return and its length in steps.
    pub fn add(&mut self, episodic_return: f64, length: u64) {
        self.count += 1;
        self.sum += episodic_return;
        self.squares += episodic_return * episodic_return;
        self.min = self.min.min(episodic_return);
        self.max = self.max.max(episodic_return);
        self.length += length;
    }

    /// The sum of the returns.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Counts the environment's own metrics of an episode.
    pub fn measure(&mut self, metrics: impl IntoIterator<Item = f32>) {
        for ((sum, count), value) in self.metrics.iter_mut().zip(metrics).filter(|(_, value)| !value.is_nan())
        {
            *sum += f64::from(value);
            *count += 1;
        }
    }

    /// How many [`EpisodeStats::numbers`] there are with this many metrics of the environment.
    pub const fn count_of_numbers(metrics: usize) -> usize {
        7 + 2 * metrics
    }

    /// The statistics as numbers, for the exchange between processes, with this many metrics of the environment.
    pub fn numbers(&self, metrics: usize) -> impl Iterator<Item = f64> + use<> {
        let own = self.metrics.into_iter().take(metrics).flat_map(|(sum, count)| [sum, count as f64]);
        let Self { count, sum, squares, min, max, length, intrinsic, .. } = *self;
        let all = [count as f64, sum, squares, min, max, length as f64, intrinsic];
        all.into_iter().chain(own)
    }

    /// The inverse of [`EpisodeStats::numbers`].
    pub fn of(numbers: &[f64]) -> Self {
        let (&[count, sum, squares, min, max, length, intrinsic], own) =
            numbers.split_first_chunk().expect("numbers of statistics");
        let (count, length) = (count as u64, length as u64);
        let mut stats = Self { count, sum, squares, min, max, length, intrinsic, ..Self::default() };
        for (to, &[sum, count]) in stats.metrics.iter_mut().zip(own.as_chunks().0) {
            *to = (sum, count as u64);
        }
        stats
    }

    /// Adds the episodes of another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.length += other.length;
        self.intrinsic += other.intrinsic;
        for (into, (sum, count)) in self.metrics.iter_mut().zip(other.metrics) {
            *into = (into.0 + sum, into.1 + count);
        }
    }

    /// Adds the metrics of episodes, if any ended.
    pub fn add_to(&self, metrics: Record) -> Record {
        if self.count == 0 {
            return metrics;
        }
        let count = self.count as f64;
        let mean = self.sum / count;
        Record {
            episodic_return: mean,
            episodic_return_min: self.min,
            episodic_return_max: self.max,
            episodic_return_std: (self.squares / count - mean.powi(2)).max(0.0).sqrt(),
            episodic_length: self.length as f64 / count,
            // 0 / 0 is NaN: nothing to report.
            env: self.metrics.map(|(sum, count)| sum / count as f64),
            ..metrics
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_merge_to_the_whole() {
        let (mut first, mut second, mut whole) =
            (EpisodeStats::default(), EpisodeStats::default(), EpisodeStats::default());
        assert!(whole.add_to(Record::default()).episodic_return.is_nan());
        for (k, x) in [3.0, -1.0, 10.0, 4.0].into_iter().enumerate() {
            if k < 2 { &mut first } else { &mut second }.add(x, k as u64);
            whole.add(x, k as u64);
            // One metric of every episode, one of only the third.
            let metrics = [x as f32 + 1.0, if k == 2 { 5.0 } else { f32::NAN }];
            if k < 2 { &mut first } else { &mut second }.measure(metrics);
            whole.measure(metrics);
        }
        first.merge(&second);
        assert_eq!(first, whole);
        let numbers: Vec<f64> = whole.numbers(2).collect();
        assert_eq!((numbers.len(), EpisodeStats::of(&numbers)), (EpisodeStats::count_of_numbers(2), whole));
        let own = whole.add_to(Record::default()).env;
        assert_eq!(own[..2], [5.0, 5.0]);
        assert!(own[2..].iter().all(|x| x.is_nan()));
        let Record {
            episodic_return,
            episodic_return_min,
            episodic_return_max,
            episodic_return_std,
            episodic_length,
            ..
        } = whole.add_to(Record::default());
        assert_eq!((whole.count, episodic_return, episodic_length), (4, 4.0, 1.5));
        assert_eq!((episodic_return_min, episodic_return_max), (-1.0, 10.0));
        assert!((episodic_return_std - 15.5f64.sqrt()).abs() < 1e-12);
    }
}
