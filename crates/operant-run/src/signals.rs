//! Signals as flags that the training loop reads between updates.
//!
//! Until training begins there is nothing to save, and SIGTERM or SIGINT ends the process at once (143, 130). From then on
//! the first one asks the loop to finish its update, save a checkpoint and end (exit code 75). Another one, a moment later,
//! ends the process at once. SIGUSR1 asks for a checkpoint; training goes on. SIGUSR2
//! holds training between two updates, and the next SIGUSR2 lets it go on; those that come within one update are one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;

use crate::error::{Error, ErrorKind, Result};

/// What signals have asked for.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    stop: Arc<AtomicUsize>,
    checkpoint: Arc<AtomicBool>,
    pause: Arc<AtomicBool>,
    /// Whether the next SIGTERM or SIGINT ends the process at once.
    armed: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to no signal; for use inside other programs, which ask through [`Signals::stop`],
    /// [`Signals::checkpoint`] and [`Signals::pause`].
    pub fn none() -> Self {
        Signals::default()
    }

    /// Listens to SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 from now on, for the life of the process.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn listen() -> Result<Self> {
        let signals = Signals { armed: Arc::new(AtomicBool::new(true)), ..Signals::default() };
        let register = || -> std::io::Result<()> {
            for (signal, name) in [(SIGTERM, SIGTERM as usize), (SIGINT, SIGINT as usize)] {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.armed))?;
                flag::register_usize(signal, Arc::clone(&signals.stop), name)?;
            }
            flag::register(SIGUSR1, Arc::clone(&signals.checkpoint))?;
            flag::register(SIGUSR2, Arc::clone(&signals.pause))?;
            // A handler that does nothing of use: at a limit of file sizes (`ulimit -f`) writes fail instead.
            flag::register(SIGXFSZ, Arc::default())?;
            Ok(())
        };
        register().map_err(|error| refused(&error))?;
        Ok(signals)
    }

    /// From now on a closed terminal (SIGHUP) does not end the process.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn ignore_hangup(&self) -> Result<()> {
        // A handler that does nothing of use: setting the signal to be ignored takes unsafe code.
        flag::register(SIGHUP, Arc::default()).map(drop).map_err(|error| refused(&error))
    }

    /// The name of the signal that asked training to stop, if one has.
    pub fn stopped_by(&self) -> Option<&'static str> {
        match i32::try_from(self.stop.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => None,
            Ok(SIGINT) => Some("SIGINT"),
            Ok(_) => Some("SIGTERM"),
        }
    }

    /// Training begins: a first SIGTERM or SIGINT no longer ends the process at once.
    pub(crate) fn begin(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// From now on a further SIGTERM or SIGINT ends the process at once. Not from the first one on: some senders, such as
    /// `timeout`, send each signal twice, to the process and to its group.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Asks training to stop after its update, as SIGTERM does.
    pub fn stop(&self) {
        self.stop.store(SIGTERM as usize, Ordering::Relaxed);
    }

    /// Asks for a checkpoint, as SIGUSR1 does.
    pub fn checkpoint(&self) {
        self.checkpoint.store(true, Ordering::Relaxed);
    }

    /// Asks training to pause, or to go on where it pauses, as SIGUSR2 does.
    pub fn pause(&self) {
        self.pause.store(true, Ordering::Relaxed);
    }

    /// Whether a pause, or its end, was asked for since the last call.
    pub(crate) fn take_pause(&self) -> bool {
        self.pause.swap(false, Ordering::Relaxed)
    }

    /// Whether a checkpoint was asked for since the last call.
    pub(crate) fn take_checkpoint(&self) -> bool {
        self.checkpoint.swap(false, Ordering::Relaxed)
    }
}

fn refused(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Device, format!("signal handlers cannot be installed: {error}"))
        .remedy("see whether a sandbox forbids sigaction")
}
