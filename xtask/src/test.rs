//! `cargo xtask test`: format, lints, tests, doc tests, compiled kernels and documentation, each announced with its time.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::kernels;

/// One cargo command, the variables it runs under, and what it is for.
struct Step {
    name: &'static str,
    env: Vec<(&'static str, String)>,
    args: &'static str,
    /// What this machine lacks for it.
    missing: Option<String>,
}

impl Step {
    fn new(name: &'static str, args: &'static str) -> Step {
        Step { name, env: Vec::new(), args, missing: None }
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

    fn run(&self, root: &Path, xtask: &Path) -> Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (program, args) = match self.args.strip_prefix("xtask ") {
            // `cargo xtask` would compile this program once more, with the features that it needs by itself.
            Some(args) => (xtask.as_os_str(), args),
            None => (cargo.as_os_str(), self.args),
        };
        let mut command = Command::new(program);
        command.current_dir(root).args(args.split(' '));
        for (key, value) in &self.env {
            command.env(key, value);
            if *key == "RUSTFLAGS" {
                command.env_remove("CARGO_ENCODED_RUSTFLAGS"); // it would win over RUSTFLAGS
            }
        }
        let status = command.status().with_context(|| format!("cannot start `{}`", self.shell()))?;
        if !status.success() {
            bail!("{} failed ({status}); to repeat only this step:\n\n    {}\n", self.name, self.shell());
        }
        Ok(())
    }
}

/// The steps, the quick ones first. `target` is where cargo builds. All use one profile and, but for the last two, the features of the
/// whole workspace, so that they share what they compile.
fn steps(target: &Path) -> Vec<Step> {
    let mut steps = vec![
        Step::new("format", "fmt --all --check"),
        Step::new("lints", "clippy --workspace --all-targets --profile quick -- -D warnings"),
        Step::new("tests", "test --workspace --profile quick --lib --bins --tests"),
        Step::new("doc tests", "test --workspace --profile quick --doc"),
        Step { missing: kernels::missing(), ..Step::new("kernels", "xtask kernels --check") },
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
        let learner = "test --package operant-learn --profile quick --test backend --test update";
        steps.push(on("x86-64-v3", "learner on x86-64-v3", learner));
    }
    steps
}

/// Runs every step in order.
///
/// # Errors
///
/// The first step that fails, with the command that repeats it; or a workspace that cargo cannot read.
pub fn run() -> Result<()> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside it, where `cargo metadata` works")?;
    let steps = steps(metadata.target_directory.as_std_path());
    // Asked before a step builds this program again, in the same place.
    let xtask = std::env::current_exe().context("cannot find this program")?;
    let begin = Instant::now();
    for (index, step) in steps.iter().enumerate() {
        eprintln!("[{}/{}] {}: {}", index + 1, steps.len(), step.name, step.shell());
        if let Some(missing) = &step.missing {
            eprintln!("[{}/{}] {}: SKIPPED, NOT CHECKED: {missing}", index + 1, steps.len(), step.name);
            continue;
        }
        let start = Instant::now();
        step.run(metadata.workspace_root.as_std_path(), &xtask)?;
        eprintln!(
            "[{}/{}] {}: good, {:.1} s",
            index + 1,
            steps.len(),
            step.name,
            start.elapsed().as_secs_f64()
        );
    }
    eprintln!("all good, {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}
