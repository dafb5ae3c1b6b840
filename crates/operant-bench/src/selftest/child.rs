//! Training runs of the self-test as child processes, in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use operant_run::config::keys;
use operant_run::invocation;
use serde_json::Value;

/// A temporary directory, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates one below `parent`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn below(parent: &Path) -> Result<Self, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("operant-selftest-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    /// Creates one in the system's temporary directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self, String> {
        Scratch::below(&std::env::temp_dir())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed is not an error of the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `operant train` with these arguments and its runs in `place`; only warnings on stderr, the result on a pipe.
///
/// # Errors
/// When this program's file cannot be found.
pub fn training(args: &[&str], place: &Path) -> Result<Command, String> {
    let mut command = this_program()?;
    // The user's files and variables must not affect the test.
    command.current_dir(place).env("XDG_CONFIG_HOME", place);
    for key in keys() {
        command.env_remove(key.variable());
    }
    command.arg("train").args(args).args(["--json", "--quiet", "--run-dir"]).arg(place.join("runs"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// This program.
///
/// # Errors
/// When its file cannot be found.
pub fn this_program() -> Result<Command, String> {
    invocation::this_program().map_err(|error| format!("this program's file: {error}"))
}

/// The result of a training process that has ended.
///
/// # Errors
/// When it failed, with its error message.
pub fn result(output: &std::process::Output) -> Result<Value, String> {
    if !output.status.success() {
        return Err(format!("training failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("its result is not JSON: {error}"))
}

/// Trains in a child process, without a ring, and returns its result.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn train(args: &[&str]) -> Result<Value, String> {
    let place = Scratch::new()?;
    let mut command = training(&[args, &["--no-ring"]].concat(), place.path())?;
    let output = command.output().map_err(|error| format!("training cannot be started: {error}"))?;
    result(&output)
}
