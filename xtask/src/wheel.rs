//! `cargo xtask wheel`: the Python package as a wheel, and its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// The package's sources and tests, below the root.
const SOURCES: &str = "crates/operant-python/python/operant";
const TESTS: &str = "crates/operant-python/tests";

/// Builds the wheel into `target/wheels`; with `--test`, one that is quick to build, installs it by itself and tests it.
///
/// # Errors
///
/// The Python environment of the tests is missing, or a step fails.
pub fn run(args: &[&str]) -> Result<()> {
    let is_test = match args {
        [] => false,
        ["--test"] => true,
        other => bail!("`{}` is not understood; give nothing or --test", other.join(" ")),
    };
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let python = tools::python(target).context("there is no Python for it: cargo xtask python makes one")?;
    if !is_test {
        let wheel = build(root, &python, "wheel", &target.join("wheels"))?;
        println!("{}", wheel.display());
        return Ok(());
    }
    let out = target.join("tmp/python");
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    let wheel = build(root, &python, "quick", &out.join("wheel"))?;
    // By itself, so that a test can only see what the wheel brings.
    let installed = out.join("installed");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"];
    step(root, Command::new(&python).args(pip).arg(&installed).arg(&wheel))?;
    step(root, Command::new(&python).args(["-m", "mypy", "--strict", "--no-error-summary", SOURCES]))?;
    let pytest = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", TESTS];
    step(root, Command::new(&python).args(pytest).env("PYTHONPATH", &installed))
}

/// Builds one wheel into the empty directory `out` (or among earlier ones) and returns its path.
fn build(root: &Path, python: &Path, profile: &str, out: &Path) -> Result<PathBuf> {
    let maturin = ["-m", "maturin", "build", "--quiet", "--profile", profile, "--interpreter"];
    step(root, Command::new(python).args(maturin).arg(python).arg("--out").arg(out))?;
    let wheels = std::fs::read_dir(out)?.flatten().map(|entry| entry.path());
    let wheels = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let latest = wheels.max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok());
    latest.with_context(|| format!("maturin left no wheel in {}", out.display()))
}

fn step(root: &Path, command: &mut Command) -> Result<()> {
    let status = command.current_dir(root).status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}
