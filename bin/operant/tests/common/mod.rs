//! A separate directory for each test, in which the real binary runs.
#![allow(dead_code)] // not every test file uses all of it

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use operant_metrics::{Event, Health, RingReader};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// Longest wait for a condition on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// A working directory. On drop, processes started in it are killed and it is removed.
pub struct Sandbox {
    dir: tempfile::TempDir,
    started: RefCell<Vec<OwnedFd>>,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for process in self.started.borrow().iter() {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

impl Sandbox {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Sandbox { dir, started: RefCell::default() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Kills a process when this sandbox is dropped, for example when its test fails.
    pub fn guard(&self, child: &Child) {
        self.started.borrow_mut().push(pidfd_open(pid_of(child), PidfdFlags::empty()).expect("there"));
    }

    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).expect("written");
    }

    /// `operant` with these arguments, isolated from this machine's configuration.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_operant"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OPERANT_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path().join("xdg"));
        command.env_remove("XDG_CACHE_HOME");
        command.env("OPERANT_RING_DIR", self.rings());
        // Behaves the same with and without a GPU; a test of devices sets its own.
        command.env("OPERANT_DEVICE", "cpu");
        command
    }

    /// Like `command`, in a shell that runs `script` first.
    pub fn shell(&self, script: &str, args: &[&str]) -> Command {
        self.by(&["sh", "-c", &format!("{script} && exec \"$0\" \"$@\"")], args)
    }

    /// The same in a shell in namespaces of its own; none, with a line on stderr, where this system forbids them or
    /// `script`. `namespaces` are options of unshare(1).
    pub fn unshared(&self, namespaces: &[&str], script: &str, args: &[&str]) -> Option<Command> {
        let mut before = vec!["unshare", "--map-root-user"];
        before.extend(namespaces);
        let mut probe = Command::new(before[0]);
        probe.args(&before[1..]).args(["sh", "-c", script]).current_dir(self.path());
        if !probe.output().is_ok_and(|output| output.status.success()) {
            // Written directly: the test harness captures `println!`.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED a test of namespaces: `{}` does not work here",
                before.join(" ")
            );
            return None;
        }
        let script = format!("{script} && exec \"$0\" \"$@\"");
        before.extend(["sh", "-c", &script]);
        Some(self.by(&before, args))
    }

    /// `operant` with these arguments, started by the program and arguments of `before`.
    pub fn by(&self, before: &[&str], args: &[&str]) -> Command {
        let operant = self.command(args);
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(operant.get_program()).args(operant.get_args());
        command.current_dir(self.path()).stdin(Stdio::null());
        for (name, value) in operant.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// The directory of this place's rings.
    pub fn rings(&self) -> PathBuf {
        self.path().join("rings")
    }

    /// Waits until the ring of a run can be read.
    pub fn ring(&self, run: &str) -> RingReader {
        wait_for("the ring", || {
            let found = operant_metrics::find_in(&self.rings(), run).ok()?;
            RingReader::open(&found.path).ok()
        })
    }

    /// The content of a run's run.json.
    pub fn run_file(&self, run: &str) -> serde_json::Value {
        let text = std::fs::read_to_string(self.path().join("runs").join(run).join("run.json"));
        serde_json::from_str(&text.expect("run.json")).expect("JSON")
    }

    /// Starts a run as a daemon and returns its message.
    pub fn detach(&self, args: &[&str]) -> Daemon {
        let mut all = vec!["train", "cartpole", "--detach", "--json"];
        all.extend(args);
        let started = self.operant(&all);
        assert_eq!(started.code, Some(0), "{started:#?}");
        Daemon(started.json())
    }

    /// Runs `operant` to its end.
    pub fn operant(&self, args: &[&str]) -> Finished {
        Finished::of(self.command(args).output().expect("started"))
    }

    /// Starts `operant` with its output in pipes.
    pub fn start(&self, args: &[&str]) -> Child {
        let child =
            self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        self.guard(&child);
        child
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
        let timed = |name: &str| {
            ["time", "sps", "comm_share"].iter().any(|start| name.starts_with(start))
                || is_of_the_machine(name)
        };
        let rows = text.lines().skip(1).map(|row| {
            let cells = row.split(',').zip(&header).filter(|(_, name)| !timed(name)).map(|(cell, _)| cell);
            cells.collect::<Vec<_>>().join(",")
        });
        rows.collect()
    }
}

/// Whether a metric measures the machine, which differs between runs.
fn is_of_the_machine(name: &str) -> bool {
    let metric = operant_metrics::METRICS.iter().find(|metric| metric.name == name);
    metric.is_some_and(|metric| ["gpu", "host"].contains(&metric.group))
}

/// A run that is not a child of the test process; killed at the latest when the test ends.
pub struct Daemon(pub serde_json::Value);

impl Daemon {
    pub fn pid(&self) -> Pid {
        let pid = self.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("a pid")
    }

    pub fn send(&self, signal: Signal) {
        let _ = kill_process(self.pid(), signal);
    }

    /// Whether the process is alive and not a zombie.
    pub fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid().as_raw_pid()));
        stat.is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
    }

    pub fn wait(&self) {
        wait_for("the daemon's end", || (!self.is_alive()).then_some(()));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.is_alive() {
            self.send(Signal::KILL);
        }
    }
}

/// Arguments for small updates of 128 environment steps each. The learning rate does not depend on the budget,
/// so that runs of different budgets share their first updates.
pub const SMALL: &[&str] = &[
    "--set",
    "num_envs=8",
    "--set",
    "num_steps=16",
    "--set",
    "num_minibatches=2",
    "--set",
    "hidden=[32]",
    "--set",
    "lr_schedule=constant",
    "--set",
    "eval_episodes=5",
    "--set",
    "solved_at=1e9",
];

/// `operant train cartpole` under this name, with small updates; only a signal ends it.
pub fn endless(name: &str) -> Vec<&str> {
    let mut args = vec!["train", "cartpole", "--name", name, "--steps", "1e12", "--json"];
    args.extend(SMALL);
    args
}

/// Waits until the ring shows this health, and returns how long that took.
pub fn wait_for_health(ring: &RingReader, health: Health) -> Duration {
    let begun = Instant::now();
    wait_for(health.name(), || (ring.status().health == health).then_some(()));
    begun.elapsed()
}

/// Waits until the ring has an event that contains `part`.
pub fn wait_for_event(ring: &RingReader, part: &str) -> Event {
    wait_for(part, || ring.events().into_iter().find(|event| event.text.contains(part)))
}

/// Waits until training has made progress.
pub fn wait_for_progress(ring: &RingReader) {
    let before = ring.published();
    wait_for("another record", || (ring.published() > before).then_some(()));
}

/// Waits until a run that has begun is within an update. A signal before the first one ends it without another word.
pub fn wait_for_work(ring: &RingReader) {
    let mut last = ring.status().since_progress;
    for _ in 0..2 {
        wait_for("progress within an update", || {
            let before = std::mem::replace(&mut last, ring.status().since_progress);
            (last < before).then_some(())
        });
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

    /// Asserts that it printed one error with this exit code, all of `parts` and a remedy, and trained nothing.
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
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begun.elapsed() < DEADLINE, "timed out waiting for {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Sends a signal to a running child.
pub fn send(child: &Child, signal: Signal) {
    // A child that has ended is not reaped yet, so this pid is still its own.
    let _ = kill_process(pid_of(child), signal);
}

/// A child's process id.
pub fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid")
}

/// Waits for a child's end.
pub fn finish(child: Child) -> Finished {
    Finished::of(child.wait_with_output().expect("waited"))
}
