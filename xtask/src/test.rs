//! `cargo xtask test`: format, lints, tests, doc tests, compiled kernels and documentation, each announced with its time.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{Missing, Tools};
use crate::{clients, mpi};

/// One cargo command, the variables it runs under, and what it is for.
struct Step {
    name: &'static str,
    env: Vec<(&'static str, String)>,
    args: &'static str,
    /// Whether this machine lacks a tool for it.
    is_missing: bool,
}

impl Step {
    fn new(name: &'static str, args: &'static str) -> Step {
        Step { name, env: Vec::new(), args, is_missing: false }
    }

    fn env(mut self, key: &'static str, value: impl Into<String>) -> Step {
        self.env.push((key, value.into()));
        self
    }

    /// The command as a user types it in the workspace's root.
    fn shell(&self) -> String {
        let env: String = self.env.iter().map(|(key, value)| format!("{key}=\"{value}\" ")).collect();
        format!("{env}cargo {}", self.args)
    }

    /// Runs it and returns the lines of tests that were skipped.
    fn run(&self, root: &Path, xtask: &Path, tools: &Tools) -> Result<Vec<String>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (program, args) = match self.args.strip_prefix("xtask ") {
            // `cargo xtask` would compile this program once more, with the features that it needs by itself.
            Some(args) => (xtask.as_os_str(), args),
            None => (cargo.as_os_str(), self.args),
        };
        let mut command = Command::new(program);
        command.current_dir(root).args(args.split(' ')).stderr(Stdio::piped());
        command.envs(tools.variables.iter().map(|(name, value)| (name, value)));
        if std::io::stderr().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        for (key, value) in &self.env {
            command.env(key, value);
            if *key == "RUSTFLAGS" {
                command.env_remove("CARGO_ENCODED_RUSTFLAGS"); // it would win over RUSTFLAGS
            }
        }
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", self.shell()))?;
        let skipped = child.stderr.take().map(forward).unwrap_or_default();
        let status = child.wait()?;
        if !status.success() {
            bail!("{} failed ({status}); to repeat only this step:\n\n    {}\n", self.name, self.shell());
        }
        Ok(skipped)
    }
}

/// The steps, the quick ones first. `target` is where cargo builds. All use one profile and, but for the last two, the features of the
/// whole workspace, so that they share what they compile.
fn steps(target: &Path, tools: &Tools) -> Vec<Step> {
    let mut steps = vec![
        Step::new("format", "fmt --all --check"),
        Step::new("lints", "clippy --workspace --all-targets --profile quick -- -D warnings"),
        Step::new("tests", "test --workspace --profile quick --lib --bins --tests"),
        Step::new("doc tests", "test --workspace --profile quick --doc"),
        Step { is_missing: tools.lacks_python(), ..Step::new("Python package", "xtask wheel --test") },
        Step { is_missing: tools.lacks_nvrtc(), ..Step::new("kernels", "xtask kernels --check") },
        Step::new("documentation", "doc --workspace --no-deps --document-private-items --profile quick")
            .env("RUSTDOCFLAGS", "-D warnings"),
    ];
    if cfg!(target_arch = "x86_64") {
        // No FMA and no AVX on v2, half as wide lanes on v3: the bits must be the same.
        let on = |level: &str, what: &'static str, args: &'static str| {
            Step::new(what, args)
                .env("RUSTFLAGS", format!("-C target-cpu={level}"))
                .env("CARGO_TARGET_DIR", target.join(level).display().to_string())
        };
        let lanes = "test --package operant-lane --profile quick --lib --tests";
        steps.push(on("x86-64-v2", "lanes on x86-64-v2", lanes));
        let learner = "test --package operant-learn --profile quick --test tests -- backend:: update:: --skip cuda::";
        steps.push(on("x86-64-v3", "learner on x86-64-v3", learner));
    }
    steps
}

/// Tests that say SKIPPED for a reason of the machine, not of a missing tool: `--no-skips` lets them pass.
const OF_THE_MACHINE: &[&str] = &[
    "does not work here",
    "only root",
    "this machine has one",
    "this one has",
    "cuBLASLt",
    "does not support it",
];

/// Runs every step in order. With `--no-skips`, a missing tool or a skipped test is an error.
///
/// # Errors
///
/// The first step that fails, with the command that repeats it; or a workspace that cargo cannot read.
pub fn run(args: &[&str]) -> Result<()> {
    let no_skips = match args {
        [] => false,
        ["--no-skips"] => true,
        ["--clients"] => return clients::run(&clients::TORCH),
        ["--ray"] => return clients::run(&clients::RAY),
        ["--mpi"] => return mpi::run(),
        other => {
            let other = other.join(" ");
            bail!("`{other}` is not understood; give nothing, --no-skips, --clients, --ray or --mpi")
        }
    };
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside it, where `cargo metadata` works")?;
    let target = metadata.target_directory.as_std_path();
    let tools = Tools::find(target);
    for Missing { name, skipped, command } in &tools.missing {
        eprintln!("missing: {name}: {command}\n  skipped without it: {skipped}");
    }
    ensure!(!no_skips || tools.missing.is_empty(), "--no-skips: tools are missing");
    let steps = steps(target, &tools);
    // Asked before a step builds this program again, in the same place.
    let xtask = std::env::current_exe().context("cannot find this program")?;
    let begin = Instant::now();
    let mut skipped: BTreeSet<String> = BTreeSet::new();
    for (index, step) in steps.iter().enumerate() {
        let number = format!("[{}/{}] {}", index + 1, steps.len(), step.name);
        eprintln!("{number}: {}", step.shell());
        if step.is_missing {
            skipped.insert(format!("SKIPPED step {}", step.name));
            continue;
        }
        let start = Instant::now();
        skipped.extend(step.run(metadata.workspace_root.as_std_path(), &xtask, &tools)?);
        eprintln!("{number}: good, {:.1} s", start.elapsed().as_secs_f64());
    }
    for line in &skipped {
        eprintln!("{line}");
    }
    let of_tools = |line: &&String| !OF_THE_MACHINE.iter().any(|reason| line.contains(reason));
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(!no_skips || !skipped.iter().any(|line| of_tools(&line)), "--no-skips: tests were skipped");
    match skipped.len() {
        0 => eprintln!("all good, {seconds:.0} s"),
        count => eprintln!("all good but for {count} skipped, {seconds:.0} s"),
    }
    Ok(())
}

/// Copies what a command writes to its stderr, and keeps the lines that say what was skipped.
fn forward(from: impl std::io::Read) -> Vec<String> {
    let mut skipped = Vec::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        skipped.extend(line.starts_with("SKIPPED ").then(|| line.into_owned()));
    }
    skipped
}
