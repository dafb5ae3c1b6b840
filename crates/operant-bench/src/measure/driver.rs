//! The loop that trains for measurements: updates are enqueued ahead as `operant train` does, and each is timed.

use std::time::Instant;

use operant_learn::{Backend, InFlight, LearnError, UpdateStats};

use super::{Effort, Phases};

/// A finished update.
#[derive(Debug, Clone)]
pub struct Update {
    /// What it reports.
    pub stats: UpdateStats,
    /// Seconds that [`Driver::next`] waited for it: from one report to the next, where the caller does nothing between.
    pub seconds: f64,
}

/// Trains a backend, update after update.
pub struct Driver<B: Backend + ?Sized = dyn Backend> {
    backend: Box<B>,
    in_flight: InFlight,
    collected: u64,
    updates: u64,
}

impl<B: Backend + ?Sized> Driver<B> {
    /// Enqueues no more than `updates`.
    pub fn new(backend: Box<B>, updates: u64) -> Self {
        Self { backend, in_flight: InFlight::default(), collected: 0, updates }
    }

    /// Updates that have finished.
    pub fn collected(&self) -> u64 {
        self.collected
    }

    /// Whether every update has finished.
    pub fn is_done(&self) -> bool {
        self.collected == self.updates
    }

    /// The backend; it rests only where no update is in flight.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The next update to finish, of those that are left.
    ///
    /// # Errors
    /// When the device fails.
    pub fn next(&mut self) -> Result<Update, LearnError> {
        self.take(self.updates - self.collected)
    }

    /// The updates that are in flight, after which the device rests.
    ///
    /// # Errors
    /// When the device fails.
    pub fn drain(&mut self) -> Result<Vec<Update>, LearnError> {
        (0..self.in_flight.count()).map(|_| self.take(0)).collect()
    }

    /// Trains until `effort` is spent, which began at `begin`. Returns the seconds of an update, each the mean of `together` of
    /// them, and the phases of every one.
    ///
    /// # Errors
    /// When the device fails.
    pub fn measure(
        &mut self,
        together: usize,
        effort: Effort,
        begin: Instant,
    ) -> Result<(Vec<f64>, Vec<Phases>), LearnError> {
        let (mut means, mut phases) = (Vec::new(), Vec::new());
        while means.len() < effort.least.max(1) || begin.elapsed() < effort.budget {
            let mut seconds = 0.0;
            for _ in 0..together {
                let update = self.next()?;
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
