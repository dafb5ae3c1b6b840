//! `cargo xtask metrics-doc` and `config-doc`: write docs/metrics.md, and docs/configuration.md with the types of the
//! Python keyword arguments, from the tables in the code.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The types of the keywords of `operant.train`.
pub const PYTHON_TYPES: &str = "crates/operant-python/python/operant/_settings.py";

/// Writes to the file `path` what the example prints.
pub fn run(path: &str, example: &str) -> Result<()> {
    let metadata = crate::tools::workspace()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With the features of the workspace, so that nothing is compiled that the tests have compiled.
    let args = ["build", "--quiet", "--workspace", "--profile", "quick", "--example", example];
    let built = Command::new(cargo)
        .current_dir(&metadata.workspace_root)
        .args(args)
        .status()
        .with_context(|| format!("cannot start `cargo {}`", args.join(" ")))?;
    ensure!(built.success(), "`cargo {}` failed ({built}); {path} is as it was", args.join(" "));
    let program = metadata.target_directory.join("quick/examples").join(example);
    let printed = Command::new(&program)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(printed.status.success(), "{program} failed ({}); {path} is as it was", printed.status);
    let path = metadata.workspace_root.join(path);
    std::fs::write(&path, printed.stdout)
        .with_context(|| format!("cannot write {path}; check that its directory is there and writable"))?;
    eprintln!("wrote {path}");
    Ok(())
}
