//! The service manager (systemd's sd_notify protocol): ready, status, watchdog, stopping. Nothing is sent unless
//! `NOTIFY_SOCKET` names its socket, and no failure to send matters to training.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Time from one status line to the next.
const STATUS_INTERVAL: Duration = Duration::from_secs(20);

/// What this run tells the service manager. Its watchdog is petted by progress, never by the clock: a run that hangs is
/// one that the manager may restart.
pub(super) struct Manager {
    watchdog: Option<Duration>,
    petted: Option<(Instant, u64)>,
    told: Option<Instant>,
}

impl Manager {
    pub fn new() -> Self {
        Manager { watchdog: sd_notify::watchdog_enabled(), petted: None, told: None }
    }

    /// Training begins.
    pub fn ready(&mut self, status: &str) {
        self.told = Some(Instant::now());
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Training ends after this update, or has ended.
    pub fn stopping(&mut self, status: &str) {
        send(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// A few times a second: pets the watchdog when `pulse` has moved, and now and then says where training stands.
    pub fn tick(&mut self, pulse: u64, status: impl FnOnce() -> String) {
        if let Some(patience) = self.watchdog {
            let due = match self.petted {
                // Four times as often as the manager asks for: it counts from when it hears.
                Some((when, last)) => pulse != last && when.elapsed() >= patience / 4,
                None => true,
            };
            if due {
                self.petted = Some((Instant::now(), pulse));
                send(&[NotifyState::Watchdog]);
            }
        }
        if self.told.is_some_and(|when| when.elapsed() >= STATUS_INTERVAL) {
            self.told = Some(Instant::now());
            send(&[NotifyState::Status(&status())]);
        }
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("the service manager was not told: {error}");
    }
}
