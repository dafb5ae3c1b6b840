//! `train --detach`: starts the same command again as a daemon, and the protocol between the two processes.
//!
//! ```text
//! parent  checks the configuration ── starts ──> child  setsid, before any thread
//! parent  reads both pipes <── stderr, then one line of JSON on stdout ── child, when training begins
//! parent  prints the run, exits 0                                         child  output to daemon.out, pipes closed
//! ```
//!
//! A child that ends before its line has failed: its stderr is the error, and its exit code becomes the parent's.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use operant_run::{Error, ErrorKind, Ready, invocation, path_text};
use serde::{Deserialize, Serialize};

use crate::output;

/// Variable that marks a process as the daemon.
const VARIABLE: &str = "OPERANT_DETACHED";

/// The flag, which is removed from the child's arguments.
const FLAG: &str = "--detach";

/// File in the run's directory for the daemon's output.
const OUTPUT: &str = "daemon.out";

/// How long a process may take to end once it has closed its output.
const LAST: Duration = Duration::from_secs(5);

/// The daemon's message when training begins, which `train --detach --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The run's name.
    pub run: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The run's directory, absolute.
    #[serde(serialize_with = "path_text::serialize")]
    pub dir: PathBuf,
    /// The ring's file, if there is one.
    #[serde(serialize_with = "path_text::serialize_option")]
    pub ring: Option<PathBuf>,
}

/// Whether this process is the daemon.
pub fn is_daemon() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

/// Starts a new session, so that no signals of the parent's terminal or process group reach the daemon. Called first,
/// before any thread starts.
pub fn leave_session() {
    // setsid fails for a process group leader, which has been detached already.
    let _ = rustix::process::setsid();
}

/// Starts this command again as a daemon and waits until it trains. The inner error is the exit code of one that failed before; it has
/// printed why.
pub fn start() -> anyhow::Result<Result<Started, u8>> {
    let mut command = invocation::this_program().map_err(|error| refused(&error))?;
    let arguments = invocation::arguments();
    command.args(arguments.iter().filter(|argument| argument.as_os_str() != FLAG)).env(VARIABLE, "1");
    begin(command)
}

fn refused(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Device, format!("the daemon cannot be started: {error}"))
        .remedy("train in the foreground, without --detach")
}

/// Starts a daemon, and reads its output until it trains or has closed it.
fn begin(mut command: Command) -> anyhow::Result<Result<Started, u8>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| refused(&error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Its stderr is forwarded to the user at once, separately from its line on stdout.
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
        // The pipe closes as soon as the daemon has redirected its output.
        let _ = words.join();
        return Ok(Ok(started));
    }
    let strange = |what: &str| {
        Error::new(ErrorKind::Device, format!("process {} {what}", child.id()))
            .remedy("`operant runs` shows whether it trains; `kill` with its process id ends it")
    };
    if !line.is_empty() {
        return Err(strange("was started as the daemon, and printed an unexpected line").into());
    }
    let _ = words.join();
    let lost = strange(
        "was started as the daemon; it has closed its output without ending or reporting that it trains",
    );
    let deadline = Instant::now() + LAST;
    let status = loop {
        match child.try_wait().map_err(|error| refused(&error))? {
            Some(status) => break status,
            None if Instant::now() >= deadline => return Err(lost.into()),
            None => std::thread::park_timeout(LAST / 1000),
        }
    };
    if let Some(code) = status.code() {
        // A daemon that exited with 0 before training has failed as well.
        return Ok(Err(u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1)));
    }
    Err(Error::new(ErrorKind::Device, format!("the daemon ended before it trained: {status}"))
        .remedy("train in the foreground, without --detach, to see why; `dmesg` shows whether memory ran out")
        .into())
}

/// In the daemon, when training begins: notifies the parent, and redirects further output to the run's directory.
pub fn ready(ready: &Ready) {
    let dir = std::fs::canonicalize(&ready.dir).unwrap_or_else(|_| ready.dir.clone());
    let started = Started {
        run: ready.run.clone(),
        pid: std::process::id(),
        ring: ready.ring.clone(),
        dir: dir.clone(),
    };
    // The daemon continues if the parent was killed meanwhile.
    if let Ok(line) = serde_json::to_string(&started) {
        let _ = output::print(&(line + "\n"));
    }
    let output = output_file(&dir);
    if let Ok(file) = operant_run::dir::open_own(&output).or_else(|_| null()) {
        let _ = rustix::stdio::dup2_stdout(&file);
        let _ = rustix::stdio::dup2_stderr(&file);
    }
}

/// Path of a daemon's output file.
pub fn output_file(dir: &Path) -> PathBuf {
    dir.join(OUTPUT)
}

fn null() -> std::io::Result<File> {
    File::options().write(true).open("/dev/null")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts this shell script as the daemon.
    fn begin_script(script: &str) -> anyhow::Result<Result<Started, u8>> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        begin(command)
    }

    #[test]
    fn a_daemon_is_waited_for_only_while_it_may_still_report() {
        for (script, part) in [
            ("echo $$ >&2; echo; exec sleep 20", "an unexpected line"),
            ("echo hello; exec sleep 20", "an unexpected line"),
            ("exec >/dev/null 2>&1 sleep 20", "has closed its output"),
            ("kill -9 $$", "ended before it trained"),
        ] {
            let begun = Instant::now();
            let error = begin_script(script).expect_err(script).to_string();
            assert!(error.contains(part), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{script}: {:?}", begun.elapsed());
        }
        assert_eq!(begin_script("exit 3").expect("ended"), Err(3));
        assert_eq!(begin_script("exit 0").expect("ended"), Err(1));
        let line = r#"{"run":"a","pid":7,"dir":"/a","ring":null}"#;
        let started = begin_script(&format!("echo '{line}'")).expect("started").expect("trains");
        assert_eq!((started.run.as_str(), started.pid), ("a", 7));
    }
}
