//! A worker process's side of the memory that it shares with its trainer: `operant._worker` waits and answers with it.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use operant_gym::shared::{self, SharedWords};
use pyo3::exceptions::{PyIndexError, PyOSError, PySystemExit};
use pyo3::prelude::*;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Interval between two checks that the trainer still runs. The system ends this process with the thread that started it, unless that
/// had ended before.
const LOOK: Duration = Duration::from_secs(1);

/// The shared memory, by standard input.
#[pyclass(module = "operant._core", frozen)]
pub struct WorkerChannel {
    words: SharedWords,
    parent: i32,
}

impl WorkerChannel {
    fn word(&self, word: usize) -> PyResult<&AtomicU32> {
        self.words.words().get(word).ok_or_else(|| PyIndexError::new_err(format!("there is no word {word}")))
    }

    fn check_parent(&self) -> PyResult<()> {
        match getppid() {
            Some(parent) if parent.as_raw_nonzero().get() == self.parent => Ok(()),
            _ => Err(PySystemExit::new_err("the trainer has ended")),
        }
    }
}

#[pymethods]
impl WorkerChannel {
    #[new]
    fn new(parent: i32) -> PyResult<Self> {
        let failed = |error: std::io::Error| {
            PyOSError::new_err(format!("standard input is not memory of a trainer: {error}"))
        };
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(error.into()))?;
        let file = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
        let channel = Self { words: SharedWords::open(&file).map_err(failed)?, parent };
        channel.check_parent()?;
        Ok(channel)
    }

    /// Waits until a word is no longer `seen`, and returns it. The process ends if its trainer has ended.
    fn wait(&self, py: Python<'_>, word: usize, seen: u32) -> PyResult<u32> {
        let word = self.word(word)?;
        loop {
            let now = py.detach(|| shared::wait(word, seen, LOOK));
            if now != seen {
                return Ok(now);
            }
            self.check_parent()?;
        }
    }

    /// Adds 1 to a word, and wakes the trainer.
    fn post(&self, word: usize) -> PyResult<()> {
        shared::post(self.word(word)?);
        Ok(())
    }
}
