//! `train --detach`: the same command started again as a daemon, and what the two say to each other.
//!
//! ```text
//! parent  checks the configuration ── starts ──> child  setsid, before any thread
//! parent  reads both pipes <── stderr, then one line of JSON on stdout ── child, when training begins
//! parent  prints the run, exits 0                                         child  output to daemon.out, pipes closed
//! ```
//!
//! A child that ends before its line has failed: what it wrote is its reason, and its exit code the parent's.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use operant_run::{Error, ErrorKind, Ready};
use serde::{Deserialize, Serialize};

use crate::output;

/// Tells a process that it is the daemon.
const VARIABLE: &str = "OPERANT_DETACHED";

/// The flag that the parent has and the child does not.
const FLAG: &str = "--detach";

/// File in the run's directory that takes the daemon's output.
const OUTPUT: &str = "daemon.out";

/// What the daemon says when training begins, and `train --detach --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The run's name.
    pub run: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The run's directory, absolute.
    pub dir: PathBuf,
    /// The ring's file, if there is one.
    pub ring: Option<PathBuf>,
}

/// Whether this process is the daemon.
pub fn is_daemon() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

/// Leaves the session of whoever started this process, so that neither its terminal nor its signals reach the daemon.
/// Called before anything else, and before any thread.
pub fn leave_session() {
    // Refused to a process that leads a group already: one that somebody else has detached.
    let _ = rustix::process::setsid();
}

/// Starts this command again as a daemon and waits until it trains.
///
/// # Errors
/// When it cannot be started. When it fails to begin, its own words are on stderr and its exit code is returned as `Err`
/// of the inner result.
pub fn start() -> anyhow::Result<Result<Started, u8>> {
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Device, format!("the daemon cannot be started: {error}"))
            .remedy("train in the foreground, without --detach")
    };
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != OsStr::new(FLAG));
    let mut child = Command::new(std::env::current_exe().map_err(refused)?)
        .args(arguments)
        .env(VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(refused)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // What it has to say goes on to the user at once, byte by byte, and is never in the way of its line.
    let words = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        let mut pipe = stderr;
        while let Some(Ok(n @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut bytes)) {
            let _ = std::io::stderr().write_all(&bytes[..n]);
        }
    });
    let mut line = String::new();
    if let Some(stdout) = stdout {
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    if let Ok(started) = serde_json::from_str::<Started>(&line) {
        // The pipe ends as soon as the daemon has moved its output.
        let _ = words.join();
        return Ok(Ok(started));
    }
    let status = child.wait().map_err(refused)?;
    let _ = words.join();
    if let Some(code) = status.code() {
        // A daemon that ended well before it trained has not done what was asked.
        return Ok(Err(u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1)));
    }
    Err(Error::new(ErrorKind::Device, format!("the daemon ended before it trained: {status}"))
        .remedy("train in the foreground, without --detach, to see why; `dmesg` tells of memory that ran out")
        .into())
}

/// In the daemon, when training begins: tells the parent, and moves all further output to the run's directory.
pub fn ready(ready: &Ready) {
    let dir = std::fs::canonicalize(&ready.dir).unwrap_or_else(|_| ready.dir.clone());
    let started = Started {
        run: ready.run.clone(),
        pid: std::process::id(),
        ring: ready.ring.clone(),
        dir: dir.clone(),
    };
    // A parent that was killed meanwhile is no reason to stop.
    let _ = output::print(&(serde_json::to_string(&started).unwrap_or_default() + "\n"));
    let output = output_file(&dir);
    if let Ok(file) = File::options().create(true).append(true).open(output).or_else(|_| null()) {
        let _ = rustix::stdio::dup2_stdout(&file);
        let _ = rustix::stdio::dup2_stderr(&file);
    }
}

/// Where a daemon's output goes.
pub fn output_file(dir: &Path) -> PathBuf {
    dir.join(OUTPUT)
}

fn null() -> std::io::Result<File> {
    File::options().write(true).open("/dev/null")
}
