//! Counts updates in flight, which are enqueued ahead so that a device never waits for the host.

use crate::backend::{Backend, LearnError, UpdateStats};

/// Updates enqueued before the oldest is collected: enough to keep a GPU busy. A CPU finishes each
/// inside [`Backend::enqueue_update`], so there is one.
const AHEAD: u64 = 2;

/// Number of enqueued updates that are not collected yet.
#[derive(Debug, Default)]
pub struct InFlight(u64);

impl InFlight {
    /// Their number.
    pub fn count(&self) -> u64 {
        self.0
    }

    /// Waits for the next update, with up to `most` updates in flight meanwhile. With 0 nothing is enqueued, and at least one must
    /// be in flight.
    ///
    /// # Errors
    /// When the device fails.
    pub fn next<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        most: u64,
    ) -> Result<UpdateStats, LearnError> {
        let ahead = most.min(AHEAD).max(self.0);
        loop {
            if self.0 < ahead {
                backend.enqueue_update()?;
                self.0 += 1;
            }
            if let Some(stats) = backend.poll(self.0 == ahead)? {
                self.0 -= 1;
                return Ok(stats);
            }
        }
    }
}
