//! What each compilation and each test program takes: this program as cargo's wrapper of rustc and of test programs.
//!
//! Cargo starts `xtask rustc ARGS..` for every compilation under `RUSTC_WRAPPER`, and the runner of test programs starts
//! `xtask /PROGRAM ARGS..`. With [`LOG`] set, such a call runs the command and appends one [`Row`] to that file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Names the file to which rows are appended.
const LOG: &str = "XTASK_TIMES";

/// The name of a test program in its row.
const NAME: &str = "XTASK_TIMES_NAME";

/// A step, a compilation or a test program: `KIND NAME`, and its seconds.
struct Row {
    name: String,
    wall: f64,
    cpu: f64,
}

impl Row {
    /// Appends itself with one write, so that rows of processes side by side stay whole.
    fn append(&self, log: &Path) -> Result<()> {
        let row = format!("{}\t{:.2}\t{:.2}\n", self.name, self.wall, self.cpu);
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        file.write_all(row.as_bytes()).with_context(|| format!("cannot write {}", log.display()))
    }

    fn parse(line: &str) -> Option<Row> {
        let mut cells = line.split('\t');
        let name = cells.next()?.to_owned();
        Some(Row { name, wall: cells.next()?.parse().ok()?, cpu: cells.next()?.parse().ok()? })
    }
}

/// The file of the last `cargo xtask test`; `target` is where cargo builds.
pub fn log_of(target: &Path) -> PathBuf {
    target.join("test-times.tsv")
}

/// Measures a command if cargo or the runner of tests started this program as a wrapper: `rustc`, or a path. Names of commands have no slash.
pub fn wrapped() -> Option<Result<ExitCode>> {
    let log = std::env::var_os(LOG)?;
    let program = std::env::args_os().nth(1)?;
    let is_command = program == "rustc" || program.as_encoded_bytes().contains(&b'/');
    is_command.then(|| wrap(log.as_ref(), &program, std::env::args_os().skip(2).collect()))
}

/// The path of this program, looked up at the first call: later a step may have built it again, in the same place.
pub fn this_program() -> Result<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::current_exe().ok()).as_deref().context("cannot find this program")
}

/// This program as a wrapper whose row has this name; the command follows as arguments.
pub fn timed(log: &Path, name: &str) -> Result<Command> {
    let mut command = Command::new(this_program()?);
    command.env(LOG, log).env(NAME, name);
    Ok(command)
}

/// Makes cargo measure its compilations, unless RUSTC_WRAPPER is already set.
pub fn time_compilations(cargo: &mut Command, log: &Path) -> Result<()> {
    if std::env::var_os("RUSTC_WRAPPER").is_none() {
        cargo.env("RUSTC_WRAPPER", this_program()?).env(LOG, log);
    }
    Ok(())
}

/// Runs `work` as a step of this name, and appends what it and the processes that it waited for took.
pub fn step<T>(log: &Path, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (start, before) = (Instant::now(), children_cpu()?);
    let result = work()?;
    let row = Row {
        name: format!("step {name}"),
        wall: start.elapsed().as_secs_f64(),
        cpu: children_cpu()? - before,
    };
    row.append(log)?;
    Ok(result)
}

fn wrap(log: &Path, program: &OsStr, args: Vec<OsString>) -> Result<ExitCode> {
    let mut command = Command::new(program);
    command.args(&args);
    let name = std::env::var(NAME).ok().or_else(|| compilation(program, &args));
    command.env_remove(NAME).env_remove(LOG); // of this process alone
    let start = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    if let Some(name) = name {
        Row { name, wall: start.elapsed().as_secs_f64(), cpu: children_cpu()? }.append(log)?;
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// CPU seconds of the children that have ended and of theirs.
fn children_cpu() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default(); // zeros where there is no /proc
    // Fields 16 and 17 of proc(5), counted from the third, which follows the name in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0) // USER_HZ is 100 on every Linux
}

/// `compile PACKAGE CRATE KIND` or `check PACKAGE CRATE KIND`; nothing for a question to the compiler.
fn compilation(program: &OsStr, args: &[OsString]) -> Option<String> {
    let text = |arg: &'_ OsString| arg.to_str().map(str::to_owned);
    let of = |flag: &str| args.iter().position(|arg| arg == flag).and_then(|at| text(args.get(at + 1)?));
    let name = of("--crate-name").filter(|name| name != "___")?;
    let kind = if args.iter().any(|arg| arg == "--test") {
        "test".into()
    } else {
        of("--crate-type").unwrap_or_default()
    };
    let is_check = program.as_encoded_bytes().ends_with(b"clippy-driver")
        || args.iter().filter_map(text).any(|arg| arg.starts_with("--emit=") && !arg.contains("link"));
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default(); // set by cargo
    Some(format!("{} {package} {name} {kind}", if is_check { "check" } else { "compile" }))
}

/// Prints a file of rows: the steps, the sums of each kind, and the dearest compilations and programs.
pub fn print(args: &[&str]) -> Result<()> {
    let (log, most) = match *args {
        [] => (log_of(crate::tools::workspace()?.target_directory.as_std_path()), 40),
        [file] => (PathBuf::from(file), usize::MAX),
        _ => bail!("give nothing, or one file"),
    };
    print!("{}", table(&log, most)?);
    Ok(())
}

/// The table as text, with at most `most` compilations and at most `most` programs.
pub fn table(log: &Path, most: usize) -> Result<String> {
    let text = std::fs::read_to_string(log)
        .with_context(|| format!("cannot read {}: `cargo xtask test` writes it", log.display()))?;
    let mut kinds: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in text.lines().filter_map(Row::parse) {
        let kind = ["step", "check", "compile", "run"].into_iter().find(|kind| row.name.starts_with(kind));
        kinds.entry(kind.unwrap_or("other")).or_default().push(row);
    }
    let mut table = format!("{:<60} {:>8} {:>8}\n", "", "wall s", "CPU s");
    let mut line = |name: &str, wall: f64, cpu: f64| table += &format!("{name:<60} {wall:>8.1} {cpu:>8.1}\n");
    for row in kinds.get("step").into_iter().flatten() {
        line(&row.name, row.wall, row.cpu);
    }
    for kind in ["check", "compile", "run"] {
        let Some(rows) = kinds.get_mut(kind) else { continue };
        let sum = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
        line(&format!("{kind}: {} in all", rows.len()), sum(|row| row.wall), sum(|row| row.cpu));
        rows.sort_by(|a, b| b.cpu.total_cmp(&a.cpu));
        for row in rows.iter().take(most).take_while(|row| row.cpu >= 1.0) {
            line(&format!("  {}", row.name), row.wall, row.cpu);
        }
    }
    Ok(table)
}
