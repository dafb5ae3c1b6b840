//! Statistics of the episodes that ended during a rollout, gathered by 16 environments and merged in their order.

use operant_metrics::Record;

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
}

impl Default for EpisodeStats {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY, length: 0 }
    }
}

impl EpisodeStats {
    /// Counts an episode by its undiscounted return and its length in steps.
    pub fn add(&mut self, episodic_return: f64, length: u64) {
        self.merge(&Self {
            count: 1,
            sum: episodic_return,
            squares: episodic_return * episodic_return,
            min: episodic_return,
            max: episodic_return,
            length,
        });
    }

    /// The statistics as numbers, for the exchange between processes.
    pub fn numbers(&self) -> [f64; 6] {
        [self.count as f64, self.sum, self.squares, self.min, self.max, self.length as f64]
    }

    /// The inverse of [`EpisodeStats::numbers`].
    pub fn of([count, sum, squares, min, max, length]: [f64; 6]) -> Self {
        Self { count: count as u64, sum, squares, min, max, length: length as u64 }
    }

    /// Adds the episodes of another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.length += other.length;
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
        }
        first.merge(&second);
        assert_eq!(first, whole);
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
