//! `cargo xtask metrics-doc`: writes docs/metrics.md from the table of metrics.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Writes what the example `markdown` of operant-metrics prints; xtask itself depends on no crate of the house.
///
/// # Errors
///
/// A workspace that cargo cannot read, an operant-metrics that does not build, or a file that cannot be written.
pub fn run() -> Result<()> {
    const ARGS: &str = "run --quiet --package operant-metrics --example markdown";
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside it, where `cargo metadata` works")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let printed = Command::new(cargo)
        .current_dir(&metadata.workspace_root)
        .args(ARGS.split(' '))
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `cargo {ARGS}`"))?;
    ensure!(
        printed.status.success(),
        "`cargo {ARGS}` failed ({}); docs/metrics.md is as it was",
        printed.status
    );
    let path = metadata.workspace_root.join("docs").join("metrics.md");
    std::fs::write(&path, printed.stdout)
        .with_context(|| format!("cannot write {path}; check that docs/ is there and writable"))?;
    eprintln!("wrote {path}");
    Ok(())
}
