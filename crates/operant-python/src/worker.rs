//! A worker process's side of the memory that it shares with its trainer: `operant._worker` waits and answers with it. And its signals.

#![allow(unsafe_code)] // Handlers of signals; every block has a SAFETY comment.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use operant_gym::shared::{self, SharedWords};
use pyo3::exceptions::{PyIndexError, PyOSError, PySystemExit};
use pyo3::prelude::*;
use rustix::process::{Signal, getpgrp, getpid, getppid, kill_current_process_group};
use signal_hook::low_level::{emulate_default_handler, register};

use crate::os::{PARENT_ENDED, signal_end_of_parent};

/// Interval between two checks that the trainer still runs, for environments that replace the handler of [`PARENT_ENDED`] and for systems
/// without such a signal.
const LOOK: Duration = Duration::from_secs(1);

/// The shared memory, of a worker process by standard input.
#[pyclass(module = "operant._core", frozen)]
pub struct WorkerChannel {
    words: SharedWords,
    /// None for a thread of the trainer.
    parent: Option<i32>,
}

impl WorkerChannel {
    /// The channel of a thread of the trainer.
    pub fn of_thread(words: SharedWords) -> Self {
        Self { words, parent: None }
    }

    fn word(&self, word: usize) -> PyResult<&AtomicU32> {
        self.words.words().get(word).ok_or_else(|| PyIndexError::new_err(format!("there is no word {word}")))
    }
}

fn has_parent(parent: i32) -> bool {
    getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent)
}

/// Ends this process and its process group, if its parent has ended.
fn check(parent: i32) -> PyResult<()> {
    if has_parent(parent) {
        return Ok(());
    }
    end_group();
    Err(PySystemExit::new_err("the trainer has ended"))
}

/// Ends this process and its process group as soon as its parent has ended.
#[pyfunction]
pub fn end_with(parent: i32) -> PyResult<()> {
    if let Some(signal) = PARENT_ENDED {
        handle(signal.as_raw(), move || {
            if !has_parent(parent) {
                end_group();
            }
        })?;
    }
    signal_end_of_parent().map_err(|error| PyOSError::new_err(error.to_string()))?;
    check(parent)
}

/// Ends this process and those that its environments started, which are in its process group.
fn end_group() {
    // A process that was forked from a worker does not lead the group.
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
}

/// Installs a handler.
fn handle(signal: i32, handler: impl Fn() + Send + Sync + 'static) -> PyResult<()> {
    // SAFETY: the handlers in this file only make async-signal-safe system calls; they neither allocate, nor
    // lock, nor panic.
    unsafe { register(signal, handler) }.map(drop).map_err(|error| PyOSError::new_err(error.to_string()))
}

#[pymethods]
impl WorkerChannel {
    #[new]
    fn new(parent: i32) -> PyResult<Self> {
        let failed = |error: std::io::Error| {
            PyOSError::new_err(format!("standard input is not memory of a trainer: {error}"))
        };
        end_with(parent)?;
        let file = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
        Ok(Self { words: SharedWords::open(&file).map_err(failed)?, parent: Some(parent) })
    }

    /// From now on a signal does not end this process. Processes that are forked from it, and programs that they run, have the default.
    #[staticmethod]
    fn survive(signal: i32) -> PyResult<()> {
        let worker = getpid();
        handle(signal, move || {
            if getpid() != worker {
                let _ = emulate_default_handler(signal);
            }
        })
    }

    /// Waits until a word is no longer `seen`, and returns it. The process ends if its trainer has ended.
    fn wait(&self, py: Python<'_>, word: usize, seen: u32) -> PyResult<u32> {
        let word = self.word(word)?;
        loop {
            let now = py.detach(|| shared::wait(word, seen, LOOK));
            if now != seen {
                return Ok(now);
            }
            self.parent.map_or(Ok(()), check)?;
        }
    }

    /// Adds 1 to a word, and wakes the trainer.
    fn post(&self, word: usize) -> PyResult<()> {
        shared::post(self.word(word)?);
        Ok(())
    }
}
