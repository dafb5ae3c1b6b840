//! Signals as flags that the training loop reads between updates.
//!
//! The first SIGTERM or SIGINT asks the loop to finish its update, save a checkpoint and end (exit code 75). The
//! second ends the process at once, with 143 or 130. SIGUSR1 asks for a checkpoint; training goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

use crate::error::{Error, ErrorKind, Result};

/// What signals have asked for.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    stop: Arc<AtomicUsize>,
    checkpoint: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to no signal; for use inside other programs, which ask through [`Signals::stop`] and
    /// [`Signals::checkpoint`].
    pub fn none() -> Self {
        Signals::default()
    }

    /// Listens to SIGTERM, SIGINT and SIGUSR1 from now on, for the life of the process.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn listen() -> Result<Self> {
        let signals = Signals::default();
        let again = Arc::new(AtomicBool::new(false));
        let register = || -> std::io::Result<()> {
            for (signal, name) in [(SIGTERM, SIGTERM as usize), (SIGINT, SIGINT as usize)] {
                // In this order: the first signal arms what the second one meets.
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))?;
                flag::register(signal, Arc::clone(&again))?;
                flag::register_usize(signal, Arc::clone(&signals.stop), name)?;
            }
            flag::register(SIGUSR1, Arc::clone(&signals.checkpoint))?;
            Ok(())
        };
        register().map_err(|error| {
            Error::new(ErrorKind::Device, format!("signal handlers cannot be installed: {error}"))
        })?;
        Ok(signals)
    }

    /// The name of the signal that asked training to stop, if one has.
    pub fn stopped_by(&self) -> Option<&'static str> {
        match i32::try_from(self.stop.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => None,
            Ok(SIGINT) => Some("SIGINT"),
            Ok(_) => Some("SIGTERM"),
        }
    }

    /// Asks training to stop after its update, as SIGTERM does.
    pub fn stop(&self) {
        self.stop.store(SIGTERM as usize, Ordering::Relaxed);
    }

    /// Asks for a checkpoint, as SIGUSR1 does.
    pub fn checkpoint(&self) {
        self.checkpoint.store(true, Ordering::Relaxed);
    }

    /// Whether a checkpoint was asked for since the last call.
    pub(crate) fn take_checkpoint(&self) -> bool {
        self.checkpoint.swap(false, Ordering::Relaxed)
    }
}
