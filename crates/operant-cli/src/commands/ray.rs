//! `operant sweep --ray`: Ray is a Python package, so Python's process connects to it.

use std::os::unix::process::CommandExt as _;
use std::sync::{Arc, OnceLock};

use operant_run::{Error, Result, invocation, world, world::python};
use operant_sweep::Executor;

/// A cluster, and what each run takes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Resources {
    /// The cluster's address, `auto`, or `local`.
    pub address: String,
    /// CPU cores, and threads, of a run.
    pub cpus_per_run: usize,
    /// GPUs of a run; 0 trains on the CPU.
    pub gpus_per_run: f64,
}

/// Connects this process to a cluster.
pub type Connect = fn(&Resources) -> Result<Arc<dyn Executor>>;

static CONNECT: OnceLock<Connect> = OnceLock::new();

/// Sets how this process connects, if it is Python's; later calls have no effect.
pub fn set_connect(connect: Connect) {
    let _ = CONNECT.set(connect);
}

/// Connects to a cluster. A program that is not Python's becomes the same command of the Python package.
///
/// # Errors
/// When there is no Python with operant and Ray, or no such cluster.
pub fn connect(resources: &Resources) -> Result<Arc<dyn Executor>> {
    if let Some(connect) = CONNECT.get() {
        return connect(resources);
    }
    let python = world::interpreter();
    let missing = |what: String| {
        Error::usage(what).at("--ray").remedy(
            "`pip install '.[ray]'` in the repository installs operant for Python with Ray; activate that environment",
        )
    };
    crate::output::note(&format!("looking for Ray and operant with {}", python.display()));
    let check = "import ray, operant; print(operant.__version__)";
    let found = python::code(&python, check)
        .output()
        .map_err(|error| missing(format!("{} cannot be started: {error}", python.display())))?;
    if !found.status.success() {
        let text = String::from_utf8_lossy(&found.stderr);
        let reason = text.lines().last().unwrap_or("it cannot import them").to_owned();
        return Err(missing(format!("{} has no Ray with operant: {reason}", python.display())));
    }
    let (version, own) = (String::from_utf8_lossy(&found.stdout), env!("CARGO_PKG_VERSION"));
    if version.trim() != own {
        return Err(missing(format!("{} has operant {}, not {own}", python.display(), version.trim())));
    }
    let error = python::module(&python, "operant").args(invocation::arguments()).exec();
    Err(missing(format!("{} cannot be started: {error}", python.display())))
}
