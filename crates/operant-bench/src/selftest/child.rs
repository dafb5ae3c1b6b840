//! Training runs of the self-test as child processes, in a temporary directory.

use std::process::{Command, Stdio};

use operant_run::config::keys;
use operant_run::invocation;
use serde_json::Value;

/// This program.
///
/// # Errors
/// When its file cannot be found.
pub fn this_program() -> Result<Command, String> {
    invocation::this_program().map_err(|error| format!("this program's file: {error}"))
}

/// Trains in a child process with these arguments of `operant train`, without a ring, and returns its result.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn train(args: &[&str]) -> Result<Value, String> {
    let place = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let mut command = this_program()?;
    // The user's files and variables must not affect the test.
    command.current_dir(place.path()).env("XDG_CONFIG_HOME", place.path());
    for key in keys() {
        command.env_remove(key.variable());
    }
    command.arg("train").args(args).args(["--no-ring", "--json", "--quiet", "--run-dir"]);
    command.arg(place.path().join("runs")).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("training cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("training failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("its result is not JSON: {error}"))
}
