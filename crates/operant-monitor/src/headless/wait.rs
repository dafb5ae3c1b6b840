//! Waits for the time of the next line, a signal, or the closing of standard output.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::MonitorError;

/// The wait is cut into pieces of this length, so that a signal between two of them is seen soon.
const PIECE: Duration = Duration::from_millis(100);

/// Stores the signal that requested the end.
pub(super) struct Signals(Arc<AtomicUsize>);

impl Signals {
    pub(super) fn install() -> Result<Self, MonitorError> {
        let number = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(signal, Arc::clone(&number), signal as usize)
                .map_err(|source| MonitorError::Signals { source })?;
        }
        Ok(Self(number))
    }

    /// Exit code of the received signal: 128 plus its number.
    fn exit_code(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(u8::try_from(128 + number).unwrap_or(u8::MAX)),
        }
    }
}

/// Keeps an interval without drift; lines that a slow reader missed are skipped.
pub(super) struct Pause {
    interval: Duration,
    next: Instant,
}

impl Pause {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, next: Instant::now() }
    }

    /// Waits for the time of the next line. Returns an exit code if the program should end instead: after a signal, or if the
    /// other end of standard output is closed, which is a clean end.
    pub(super) fn wait(&mut self, signals: &Signals) -> Option<u8> {
        self.next += self.interval;
        let now = Instant::now();
        if self.next < now {
            self.next = now;
        }
        loop {
            if let Some(code) = signals.exit_code() {
                return Some(code);
            }
            let left = self.next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let stdout = io::stdout();
            // No events are requested; poll still reports that the other end is closed.
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            let piece = left.min(PIECE);
            let timeout = Timespec { tv_sec: 0, tv_nsec: piece.as_nanos().min(999_999_999) as _ };
            // Interrupted by a signal, which the loop checks.
            let _ = poll(&mut watched, Some(&timeout));
            if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                return Some(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_the_wait_with_its_code() {
        let signals = Signals(Arc::new(AtomicUsize::new(15)));
        let mut pause = Pause::new(Duration::from_secs(3600));
        assert_eq!(pause.wait(&signals), Some(143));
    }

    #[test]
    fn what_was_missed_is_left_out() {
        let signals = Signals(Arc::default());
        let hour = Duration::from_secs(3600);
        let Some(past) = Instant::now().checked_sub(hour) else { return };
        let mut pause = Pause { interval: Duration::from_millis(1), next: past };
        assert_eq!(pause.wait(&signals), None);
        assert!(pause.next + Duration::from_secs(60) > Instant::now());
    }
}
