//! Whether the other threads help with very small minibatches.
//!
//! On an idle machine two cores compute a minibatch of 128 samples in 0.75 of the time of one. If another process takes a core, the leader
//! waits for a thread that does not run, and such minibatches take up to three times as long as on one thread. Both ways compute the same
//! bits, so the faster one is found by trying.

use std::time::Duration;

/// Updates before the leader is tried alone: short trainings do without.
const FIRST_TRIAL: u64 = 16;
/// Minimum updates between two trials of the way that was slower.
const BETWEEN_TRIALS: u64 = 32;
/// The updates between two trials are so many that these cost at most the inverse of this.
const COST: f64 = 50.0;
/// The weight of a new measurement.
const WEIGHT: f64 = 0.5;

/// The smoothed times of both ways, per sample and epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Balance {
    updates: u64,
    next_trial: u64,
    /// Together, and by the leader alone.
    times: [Option<f64>; 2],
}

impl Balance {
    /// Whether the threads work together in this update.
    pub fn together(&self) -> bool {
        match self.times {
            [Some(together), Some(alone)] => (together <= alone) != (self.updates >= self.next_trial),
            _ => self.updates < FIRST_TRIAL,
        }
    }

    /// Takes the time of an update of this many samples, over all epochs.
    pub fn record(&mut self, together: bool, samples: usize, time: Duration) {
        let time = time.as_secs_f64() / samples.max(1) as f64;
        let smoothed = &mut self.times[usize::from(!together)];
        *smoothed = Some(smoothed.map_or(time, |before| before + WEIGHT * (time - before)));
        self.updates += 1;
        if let [Some(a), Some(b)] = self.times
            && (a <= b) != together
        {
            let ratio = a.max(b) / a.min(b).max(f64::MIN_POSITIVE);
            self.next_trial = self.updates + BETWEEN_TRIALS.max((COST * (ratio - 1.0)) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `updates` updates the threads worked together.
    fn run(balance: &mut Balance, updates: usize, times: [u64; 2]) -> usize {
        let update = |_| {
            let together = balance.together();
            balance.record(together, 1_000, Duration::from_micros(times[usize::from(!together)]));
            usize::from(together)
        };
        (0..updates).map(update).sum()
    }

    #[test]
    fn the_faster_way_is_found_and_found_again_after_a_change() {
        let mut balance = Balance::default();
        assert_eq!(run(&mut balance, 16, [100, 150]), 16, "short trainings try nothing");
        let idle = run(&mut balance, 330, [100, 150]);
        assert!((318..330).contains(&idle), "together, but for some trials: {idle}");
        let busy = run(&mut balance, 1_000, [300, 150]);
        assert!((1..30).contains(&busy), "another process took a core: {busy}");
        let back = run(&mut balance, 1_000, [100, 150]);
        assert!((600..1_000).contains(&back), "it is idle again: {back}");
        let mut many_cores = Balance::default();
        let alone = 10_000 - run(&mut many_cores, 10_000, [10, 100]);
        assert!((2..=24).contains(&alone), "trials are rare where they cost much: {alone}");
    }
}
