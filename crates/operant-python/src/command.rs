//! `operant._core.main`: the whole command line, for the `operant` command that `pip install` makes.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// Whether this process is the command.
pub static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Runs the command of these arguments and returns its exit code. `program` are the words that start the command again, without
/// arguments: `--detach` and the self-test do so. A panic ends the process with code 70, as in the `operant` program.
#[pyfunction]
pub fn main(py: Python<'_>, program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    IS_RUNNING.store(true, Ordering::Relaxed);
    operant_cli::ray::set_connect(crate::sweep::connect);
    py.detach(|| operant_cli::main_of(program, arguments, &operant_cli::builtin()))
}
