//! A directory of its own for each test, and the real binary run in it.
#![allow(dead_code)] // each test file uses its part

use std::fmt::Debug;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a condition may take to come true on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// A working directory that is removed at the end.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).expect("written");
    }

    /// `operant` with these arguments, seeing nothing of this machine's configuration.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_operant"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OPERANT_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path().join("xdg"));
        command
    }

    /// Runs `operant` to its end.
    pub fn operant(&self, args: &[&str]) -> Finished {
        Finished::of(self.command(args).output().expect("started"))
    }

    /// Starts `operant` with its output in pipes.
    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    }

    /// The step and path of each checkpoint of a run, oldest first.
    pub fn checkpoints(&self, run: &str) -> Vec<(u64, PathBuf)> {
        let Ok(entries) = std::fs::read_dir(self.path().join("runs").join(run).join("checkpoints")) else {
            return Vec::new();
        };
        let mut found: Vec<(u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((name.strip_prefix("step_")?.parse().ok()?, entry.path()))
            })
            .collect();
        found.sort();
        found
    }

    /// The saved state of a run's latest checkpoint, byte for byte.
    pub fn final_state(&self, run: &str) -> Vec<u8> {
        let (_, path) = self.checkpoints(run).pop().expect("a checkpoint");
        std::fs::read(path.join("state.safetensors")).expect("read")
    }

    /// The rows of a run's metrics.csv, without the columns that measure time and memory.
    pub fn metrics(&self, run: &str) -> Vec<String> {
        let path = self.path().join("runs").join(run).join("metrics.csv");
        let text = std::fs::read_to_string(path).expect("metrics.csv");
        let header: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
        let timed =
            |name: &str| name.starts_with("time") || name.starts_with("sps") || name == "resident_memory";
        let rows = text.lines().skip(1).map(|row| {
            let cells = row.split(',').zip(&header).filter(|(_, name)| !timed(name)).map(|(cell, _)| cell);
            cells.collect::<Vec<_>>().join(",")
        });
        rows.collect()
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn of(output: Output) -> Self {
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The single JSON object on stdout.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:#?}");
        let value: serde_json::Value = serde_json::from_str(&self.stdout).expect("JSON");
        assert!(value.is_object(), "{self:#?}");
        value
    }

    /// Asserts one error with this code that says all of `parts`, has a remedy, and trained nothing.
    pub fn assert_error(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{self:#?}");
        for part in parts.iter().chain(&["remedy: "]) {
            assert!(self.stderr.contains(part), "no \"{part}\" in {self:#?}");
        }
        for panic in ["panicked", "bug in operant"] {
            assert!(!self.stderr.contains(panic), "{self:#?}");
        }
    }
}

/// Reads a child's stderr up to the first line that contains `part`.
pub fn read_until(child: &mut Child, part: &str) {
    let stderr = child.stderr.as_mut().expect("piped");
    let mut seen = String::new();
    // Byte by byte, so that what follows stays in the pipe.
    let mut reader = BufReader::with_capacity(1, stderr);
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).expect("read"), 0, "no \"{part}\" in:\n{seen}");
        if line.contains(part) {
            return;
        }
        seen.push_str(&line);
    }
}

/// Waits until `condition` gives a value.
pub fn wait_for<T: Debug>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begun.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Sends a signal to a running child.
pub fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    // A child that has ended is not reaped yet, so this pid is still its own.
    let _ = kill_process(pid, signal);
}

/// The rest of a child's life.
pub fn finish(child: Child) -> Finished {
    Finished::of(child.wait_with_output().expect("waited"))
}
