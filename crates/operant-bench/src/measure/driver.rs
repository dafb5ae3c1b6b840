//! The training loop for measurements: updates are enqueued ahead, as in `operant train`, and each is timed.

use std::time::{Duration, Instant};

use operant_learn::{Backend, InFlight, LearnError, UpdateStats};

use super::{Phases, RepetitionBudget};

/// The fewest repetitions may take this long, or this many budgets: an update of a large environment takes seconds.
const PATIENCE: (Duration, u32) = (Duration::from_secs(10), 10);

/// A finished update.
#[derive(Debug, Clone)]
pub struct Update {
    pub stats: UpdateStats,
    /// Seconds that [`Driver::update`] waited for it: the time between reports, if the caller does nothing in between.
    pub seconds: f64,
}

/// Trains a backend, one update after another.
pub struct Driver<B: Backend + ?Sized = dyn Backend> {
    backend: Box<B>,
    in_flight: InFlight,
    collected: u64,
    updates: u64,
}

impl<B: Backend + ?Sized> Driver<B> {
    /// Makes a driver that enqueues at most `updates` updates.
    pub fn new(backend: Box<B>, updates: u64) -> Self {
        Self { backend, in_flight: InFlight::default(), collected: 0, updates }
    }

    /// Number of finished updates.
    pub fn collected(&self) -> u64 {
        self.collected
    }

    /// Whether every update has finished.
    pub fn is_done(&self) -> bool {
        self.collected == self.updates
    }

    /// The backend; it is idle only if no update is in flight.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Waits for the next update.
    pub fn update(&mut self) -> Result<Update, LearnError> {
        self.take(self.updates - self.collected)
    }

    /// Waits for the updates in flight, after which the device is idle.
    pub fn drain(&mut self) -> Result<Vec<Update>, LearnError> {
        (0..self.in_flight.count()).map(|_| self.take(0)).collect()
    }

    /// Trains until `effort`, counted from `begin`, is spent, but no longer than [`PATIENCE`] for the fewest repetitions. Returns
    /// the seconds per update, each the mean of `together` updates, and the phases of every update.
    pub fn measure(
        &mut self,
        together: usize,
        effort: RepetitionBudget,
        begin: Instant,
    ) -> Result<(Vec<f64>, Vec<Phases>), LearnError> {
        let (mut means, mut phases) = (Vec::new(), Vec::new());
        let may_go_on = |count: usize| {
            let (elapsed, (most, budgets)) = (begin.elapsed(), PATIENCE);
            let is_short = count < effort.min_repetitions && elapsed < most.max(budgets * effort.budget);
            count == 0 || is_short || elapsed < effort.budget
        };
        while may_go_on(means.len()) {
            let mut seconds = 0.0;
            for _ in 0..together {
                let update = self.update()?;
                seconds += update.seconds;
                phases.push(Phases::of(&update.stats));
            }
            means.push(seconds / together as f64);
        }
        Ok((means, phases))
    }

    fn take(&mut self, most: u64) -> Result<Update, LearnError> {
        let start = Instant::now();
        let stats = self.in_flight.next(&mut *self.backend, most)?;
        self.collected += 1;
        Ok(Update { stats, seconds: start.elapsed().as_secs_f64() })
    }
}
