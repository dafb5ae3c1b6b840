//! Whether the other threads help with very small minibatches.
//!
//! On an idle machine two threads need 0.75 of the time of one for minibatches of 128 samples. If another process uses one of the two cores, the
//! leader waits for a thread that does not run, and they need 2.6 times as long as one (docs/results/speed-cpu.md). Both modes compute the same
//! bits, so their times are compared during training.

use std::time::Duration;

/// Updates before the first one by the leader alone, so that short runs have none.
const FIRST_TRIAL: u64 = 16;
/// Minimum updates between two trials of the slower mode.
const BETWEEN_TRIALS: u64 = 32;
/// Updates between two trials, per unit of a trial's extra time. The unit is the time of an update in the faster mode, so trials add about
/// 1/50 to the training time at most.
const INVERSE_COST: f64 = 50.0;
/// The weight of a new time in the moving average.
const WEIGHT: f64 = 0.5;

/// Moving averages of the times of both modes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Balance {
    updates: u64,
    next_trial: u64,
    /// Seconds per sample and epoch: all threads together, and the leader alone.
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

    /// Records the time of an update; `samples` counts a sample once per epoch.
    pub fn record(&mut self, together: bool, samples: usize, time: Duration) {
        let time = time.as_secs_f64() / samples.max(1) as f64;
        let smoothed = &mut self.times[usize::from(!together)];
        *smoothed = Some(smoothed.map_or(time, |before| before + WEIGHT * (time - before)));
        self.updates += 1;
        if let [Some(a), Some(b)] = self.times
            && (a <= b) != together
        {
            let ratio = a.max(b) / a.min(b).max(f64::MIN_POSITIVE);
            self.next_trial = self.updates + BETWEEN_TRIALS.max((INVERSE_COST * (ratio - 1.0)) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of updates, out of `updates`, that used all threads.
    fn run(balance: &mut Balance, updates: usize, times: [u64; 2]) -> usize {
        let update = |_| {
            let together = balance.together();
            balance.record(together, 1_000, Duration::from_micros(times[usize::from(!together)]));
            usize::from(together)
        };
        (0..updates).map(update).sum()
    }

    #[test]
    fn the_faster_mode_is_found_and_found_again_after_a_change() {
        let mut balance = Balance::default();
        assert_eq!(run(&mut balance, 16, [100, 150]), 16, "short runs have no trial");
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
