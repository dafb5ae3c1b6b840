//! What each compilation and each test program takes: this program as cargo's wrapper of rustc and of test programs.
//!
//! Cargo starts `xtask rustc ARGS..` for every compilation under `RUSTC_WRAPPER`, and `xtask PROGRAM ARGS..` for every test program
//! under `CARGO_TARGET_<TRIPLE>_RUNNER`. With [`LOG`] set, such a call runs the command and appends one [`Row`] to that file.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

/// Names the file to which rows are appended, and makes this program a wrapper.
pub const LOG: &str = "OPERANT_TEST_TIMES";

/// Runs the command that follows this program's name, and appends what it took.
///
/// # Errors
///
/// A command that cannot be started, or a log that cannot be written.
pub fn wrap(log: &Path, mut args: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let program = args.next().context("nothing to run")?;
    let args: Vec<OsString> = args.collect();
    let mut command = Command::new(&program);
    command.args(&args);
    let start = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    let wall = start.elapsed().as_secs_f64();
    if let Some(name) = name(&program, &args) {
        let row = format!("{name}\t{wall:.2}\t{:.2}\n", children_cpu()?);
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        file.write_all(row.as_bytes())?; // one write: rows of processes side by side stay whole
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// CPU seconds of the children that have ended and of theirs.
fn children_cpu() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields 16 and 17 of proc(5), counted from the third, which follows the name in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0) // USER_HZ is 100 on every Linux
}

/// `compile CRATE KIND` or `run PROGRAM`; nothing for a question to the compiler.
fn name(program: &OsString, args: &[OsString]) -> Option<String> {
    let file = Path::new(program).file_name()?.to_str()?;
    if file != "rustc" && file != "clippy-driver" {
        let stem = file.rsplit_once('-').map_or(file, |(stem, _)| stem); // without cargo's hash
        return Some(format!("run {stem}"));
    }
    let of = |flag: &str| args.iter().position(|arg| arg == flag).and_then(|at| args.get(at + 1)?.to_str());
    let name = of("--crate-name").filter(|name| *name != "___")?;
    let kind = if args.iter().any(|arg| arg == "--test") { "test" } else { of("--crate-type").unwrap_or("test") };
    let what = if args.iter().filter_map(|arg| arg.to_str()).any(|arg| arg.starts_with("--emit=") && !arg.contains("link")) { "check" } else { "compile" };
    Some(format!("{what} {name} {kind}"))
}
