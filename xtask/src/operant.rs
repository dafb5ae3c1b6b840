//! The release binary, for the commands that run it: built once, its JSON results read.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The binary and a scratch directory for its runs, which goes when this goes.
pub struct Operant {
    binary: PathBuf,
    /// Where runs are kept.
    pub runs: PathBuf,
    /// Whether runs are kept for the next time.
    keeps: bool,
}

impl Operant {
    /// Builds the release binary. Runs are kept under the target directory, in a folder called `name`.
    pub fn build(name: &str) -> Result<Self> {
        let mut own = Self::build_keeping(name)?;
        own.keeps = false;
        let _ = std::fs::remove_dir_all(&own.runs);
        Ok(own)
    }

    /// The same, where runs of an earlier time are still there, and stay.
    pub fn build_keeping(name: &str) -> Result<Self> {
        let metadata = crate::tools::workspace()?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(&metadata.workspace_root)
            .args(["build", "--release", "--package", "operant"])
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "`cargo build --release --package operant` failed ({status})");
        let target = metadata.target_directory.as_std_path();
        let runs = target.join(name);
        Ok(Self { binary: target.join("release").join("operant"), runs, keeps: true })
    }

    /// Runs `operant train` with `args`, and reads its result.
    pub fn train(&self, args: &[&str]) -> Result<Value> {
        self.json("train", &[args, &["--quiet"]].concat())
    }

    /// Runs `operant eval` with `args`, and reads its result.
    pub fn eval(&self, args: &[&str]) -> Result<Value> {
        self.json("eval", args)
    }

    fn json(&self, command: &str, args: &[&str]) -> Result<Value> {
        let mut operant = Command::new(&self.binary);
        let output = operant.arg(command).args(args).args(["--json", "--run-dir"]).arg(&self.runs).output();
        let output = output.context("cannot start operant")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "operant {command} {} failed:\n{words}", args.join(" "));
        serde_json::from_slice(&output.stdout).context("operant printed no JSON object")
    }

    /// Starts `operant train` with `args`; its result is on its stdout, its stderr is inherited.
    pub fn start(&self, args: &[&str]) -> Result<Child> {
        let mut command = Command::new(&self.binary);
        command.arg("train").args(args).args(["--json", "--quiet", "--run-dir"]).arg(&self.runs);
        command.stdout(Stdio::piped()).spawn().context("cannot start operant")
    }

    /// The names of all environments.
    pub fn envs(&self) -> Result<Vec<String>> {
        let output = Command::new(&self.binary).args(["envs", "--json"]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let name = |line| -> Result<String> {
            let env: Value = serde_json::from_str(line)?;
            Ok(env["env"].as_str().context("an environment without name")?.to_owned())
        };
        text.lines().map(name).collect()
    }

    /// The output of `operant config` with `args`.
    pub fn config(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.binary).arg("config").args(args).output();
        let output = output.context("cannot start operant")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "operant config {} failed:\n{words}", args.join(" "));
        String::from_utf8(output.stdout).context("operant printed no text")
    }

    /// A file of a run.
    pub fn file(&self, run: &str, name: &str) -> PathBuf {
        self.runs.join(run).join(name)
    }
}

impl Drop for Operant {
    fn drop(&mut self) {
        if self.keeps {
            return;
        }
        let _ = std::fs::remove_dir_all(&self.runs);
    }
}

/// This machine in one line, for the head of a table.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": an unnamed processor");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let wide = if cfg!(target_feature = "avx512f") {
        "AVX-512"
    } else if cfg!(target_feature = "avx2") {
        "AVX2"
    } else {
        "no AVX2"
    };
    // Pages and rows of results are no part of what runs.
    let is_changed = !printed("git", &["status", "--porcelain", "-uno", "--", ".", ":!docs"]).is_empty();
    format!(
        "{} with {threads} threads, {wide}; {}; commit {}{}",
        model.trim_start_matches([':', '\t', ' ']),
        printed("date", &["+%Y-%m-%d"]),
        printed("git", &["rev-parse", "--short", "HEAD"]),
        if is_changed { "-dirty" } else { "" }
    )
}

/// What a program prints; empty if it fails.
fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success());
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The stored state of a run's only checkpoint: weights, moments, environments.
pub fn state(run: &Path) -> Result<Vec<u8>> {
    let mut checkpoints = std::fs::read_dir(run.join("checkpoints"))?;
    let checkpoint = checkpoints.next().context("no checkpoint")??.path();
    ensure!(checkpoints.next().is_none(), "several checkpoints in {}", run.display());
    std::fs::read(checkpoint.join("state.safetensors")).context("no state")
}
