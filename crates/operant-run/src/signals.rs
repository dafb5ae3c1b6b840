//! Signals as flags that the training loop reads between updates.
//!
//! Before training begins, SIGTERM, SIGINT or SIGHUP ends the process at once (143, 130, 129). During training, the first one
//! requests that the loop finish its update, save a checkpoint and end (exit code 75); a later SIGTERM or SIGINT ends it at
//! once. SIGHUP, the signal of a terminal that has been closed, has no effect on a daemon, nor where it was ignored at the start
//! (`nohup`). SIGUSR1 requests a checkpoint; training continues. SIGUSR2 pauses training between two updates, and the next
//! SIGUSR2 continues it; several within one update count as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;

use crate::error::{Error, ErrorKind, Result};
use crate::os::is_ignored;

/// The name of a stop that no signal requested.
pub(crate) const CALLER: &str = "the program";

/// Its number, which no signal has.
const CALLER_STOP: usize = 1 << 16;

/// Requests made by signals.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    stop: Arc<AtomicUsize>,
    finish: Arc<AtomicBool>,
    checkpoint: Arc<AtomicBool>,
    pause: Arc<AtomicBool>,
    /// Whether all runs of these signals pause, and how many do.
    hold: Arc<AtomicBool>,
    held: Arc<AtomicUsize>,
    /// Whether the next SIGTERM or SIGINT ends the process at once.
    armed: Arc<AtomicBool>,
    /// Whether SIGHUP does: only before training, since a terminal that is closed sends it twice.
    hangs_up: Arc<AtomicBool>,
}

impl Signals {
    /// Handles no signal; for other programs, which call [`Signals::stop`],
    /// [`Signals::checkpoint`] and [`Signals::pause`].
    pub fn none() -> Self {
        Signals::default()
    }

    /// Handles SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and, unless this process is a daemon, SIGHUP from now on, for the life of the process.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn listen(is_daemon: bool) -> Result<Self> {
        let signals = Signals::default();
        signals.armed.store(true, Ordering::Relaxed);
        signals.hangs_up.store(true, Ordering::Relaxed);
        let register = || -> std::io::Result<()> {
            let hangup = (!is_daemon && !is_ignored(SIGHUP)).then_some((SIGHUP, &signals.hangs_up));
            for (signal, ends) in [SIGTERM, SIGINT].map(|it| (it, &signals.armed)).into_iter().chain(hangup) {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(ends))?;
                flag::register_usize(signal, Arc::clone(&signals.stop), signal as usize)?;
            }
            if is_daemon {
                // An empty handler, since ignoring the signal would need unsafe code.
                flag::register(SIGHUP, Arc::default())?;
            }
            flag::register(SIGUSR1, Arc::clone(&signals.checkpoint))?;
            flag::register(SIGUSR2, Arc::clone(&signals.pause))?;
            // An empty handler: at a limit on file sizes (`ulimit -f`) writes fail instead of ending the process.
            flag::register(SIGXFSZ, Arc::default())?;
            Ok(())
        };
        register().map_err(|error| refused(&error))?;
        Ok(signals)
    }

    /// The name of the signal that requested a stop, if one did.
    pub fn stopped_by(&self) -> Option<&'static str> {
        const INTERRUPTED: usize = SIGINT as usize;
        const HUNG_UP: usize = SIGHUP as usize;
        match self.stop.load(Ordering::Relaxed) {
            0 => None,
            INTERRUPTED => Some("SIGINT"),
            HUNG_UP => Some("SIGHUP"),
            CALLER_STOP => Some(CALLER),
            _ => Some("SIGTERM"),
        }
    }

    /// Training begins: a first SIGTERM, SIGINT or SIGHUP no longer ends the process at once.
    pub fn begin(&self) {
        self.armed.store(false, Ordering::Relaxed);
        self.hangs_up.store(false, Ordering::Relaxed);
    }

    /// From now on a further SIGTERM or SIGINT ends the process at once. Not from the first one on: some senders, such as
    /// `timeout`, send each signal twice, to the process and to its group.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Requests a stop after the current update, as SIGTERM does; its name is `the program`.
    pub fn stop(&self) {
        self.stop.store(CALLER_STOP, Ordering::Relaxed);
    }

    /// Requests that the run ends after the current update with its final evaluation, as after the last one.
    pub fn finish(&self) {
        self.finish.store(true, Ordering::Relaxed);
    }

    /// Whether [`Signals::finish`] was called.
    pub fn is_finishing(&self) -> bool {
        self.finish.load(Ordering::Relaxed)
    }

    /// Requests a stop as SIGINT does, for a program that handles the signal itself.
    pub fn interrupt(&self) {
        self.stop.store(SIGINT as usize, Ordering::Relaxed);
    }

    /// Requests a stop as SIGTERM does.
    pub fn terminate(&self) {
        self.stop.store(SIGTERM as usize, Ordering::Relaxed);
    }

    /// Requests a stop as SIGHUP does.
    pub fn hang_up(&self) {
        self.stop.store(SIGHUP as usize, Ordering::Relaxed);
    }

    /// Requests a checkpoint, as SIGUSR1 does.
    pub fn checkpoint(&self) {
        self.checkpoint.store(true, Ordering::Relaxed);
    }

    /// Pauses or continues training, as SIGUSR2 does.
    pub fn pause(&self) {
        self.pause.store(true, Ordering::Relaxed);
    }

    /// Pauses every run that has these signals between two updates, or lets all of them continue. Unlike [`Signals::pause`] it sets a
    /// state, so that runs that begin meanwhile pause too.
    pub fn hold(&self, hold: bool) {
        self.hold.store(hold, Ordering::Relaxed);
    }

    /// Whether [`Signals::hold`] pauses runs.
    pub fn is_holding(&self) -> bool {
        self.hold.load(Ordering::Relaxed)
    }

    /// How many runs are paused by [`Signals::hold`].
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts a run that [`Signals::hold`] pauses, or no longer does.
    pub(crate) fn set_held(&self, is_held: bool) {
        match is_held {
            true => self.held.fetch_add(1, Ordering::Relaxed),
            false => self.held.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether a pause or its end was requested since the last call.
    pub fn take_pause(&self) -> bool {
        self.pause.swap(false, Ordering::Relaxed)
    }

    /// Whether a checkpoint was requested since the last call.
    pub(crate) fn take_checkpoint(&self) -> bool {
        self.checkpoint.swap(false, Ordering::Relaxed)
    }
}

fn refused(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Device, format!("signal handlers cannot be installed: {error}"))
        .remedy("check whether a sandbox forbids sigaction")
}
