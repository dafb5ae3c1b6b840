//! Updates enqueued ahead of those collected, so that a device never waits for the host.

use crate::backend::{Backend, LearnError, UpdateStats};

/// Updates enqueued before the oldest is collected: enough for a device that must never wait for the host. A CPU finishes each
/// inside [`Backend::enqueue_update`], so there is one.
const AHEAD: u64 = 2;

/// How many updates a backend was given that it has not reported yet.
#[derive(Debug, Default)]
pub struct InFlight(u64);

impl InFlight {
    /// Their number.
    pub fn count(&self) -> u64 {
        self.0
    }

    /// The next update to finish. Meanwhile up to `most` updates are in flight; with 0 only those that are already, of which there
    /// must be one.
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
