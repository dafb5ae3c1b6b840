//! The service manager (systemd's sd_notify protocol): ready, status, watchdog, stopping. Nothing is sent unless
//! `NOTIFY_SOCKET` names its socket, and a failure to send does not affect training.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Time from one status line to the next.
const STATUS_INTERVAL: Duration = Duration::from_secs(20);

/// Notifications to the service manager. The watchdog is pinged on progress, not by a timer, so that the manager can
/// restart a run that hangs.
pub(super) struct Manager {
    watchdog: Option<Duration>,
    watchdog_pinged: Option<(Instant, u64)>,
    status_sent: Option<Instant>,
}

impl Manager {
    pub fn new() -> Self {
        Manager { watchdog: sd_notify::watchdog_enabled(), watchdog_pinged: None, status_sent: None }
    }

    /// Reports that training begins.
    pub fn ready(&mut self, status: &str) {
        self.status_sent = Some(Instant::now());
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Reports that training ends after this update, or has ended.
    pub fn stopping(&mut self, status: &str) {
        send(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Called a few times a second: pings the watchdog if `pulse` has changed, and sends a status line occasionally.
    pub fn tick(&mut self, pulse: u64, status: impl FnOnce() -> String) {
        if let Some(patience) = self.watchdog {
            let due = match self.watchdog_pinged {
                // Four times as often as required, since the manager counts from the moment it receives a ping.
                Some((when, last)) => pulse != last && when.elapsed() >= patience / 4,
                None => true,
            };
            if due {
                self.watchdog_pinged = Some((Instant::now(), pulse));
                send(&[NotifyState::Watchdog]);
            }
        }
        if self.status_sent.is_some_and(|when| when.elapsed() >= STATUS_INTERVAL) {
            self.status_sent = Some(Instant::now());
            send(&[NotifyState::Status(&status())]);
        }
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("the service manager was not notified: {error}");
    }
}
