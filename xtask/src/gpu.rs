//! `cargo xtask gpu`: a binary that runs on any x86-64-v3 machine, and `operant selftest gpu` with it where a GPU is.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The level that the portable binary needs: AVX2 and FMA, which every machine with a recent GPU has.
const LEVEL: &str = "x86-64-v3";

/// Builds the binary; runs the self-test and keeps its result under docs/results where there is a GPU, says what to carry
/// where there is none.
///
/// # Errors
///
/// A build or a self-test that fails.
pub fn run(args: &[&str]) -> Result<()> {
    let quick = match args {
        [] => false,
        ["--quick"] => true,
        _ => bail!("`cargo xtask gpu` takes --quick and nothing else"),
    };
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside it, where `cargo metadata` works")?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let place = target.join("portable");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--package", "operant", "--target-dir"])
        .arg(&place)
        .env("RUSTFLAGS", format!("-C target-cpu={LEVEL}"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS") // it would win over RUSTFLAGS
        .env("OPERANT_COMMIT", commit(root))
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the portable build failed ({status})");
    let binary = place.join("release").join("operant");

    if let Err(error) = operant_cuda::Cuda::find() {
        println!(
            "No GPU can be used here: {error}.\n\
             Copy this file, which needs no toolchain, to a machine with one and Python's nvidia-cuda-nvrtc:\n\n    {}\n\n\
             and run there: ./operant selftest gpu --out gpu.json",
            binary.display()
        );
        return Ok(());
    }
    let result = place.join("gpu.json");
    // What an earlier run left is no result of this one.
    if result.exists() {
        std::fs::remove_file(&result).with_context(|| format!("{} cannot be removed", result.display()))?;
    }
    let mut command = Command::new(&binary);
    command.args(["selftest", "gpu", "--out"]).arg(&result).args(quick.then_some("--quick"));
    let status = command.status().with_context(|| format!("cannot start {}", binary.display()))?;
    let text = std::fs::read_to_string(&result).unwrap_or_default();
    let value: Value = serde_json::from_str(&text).context("the self-test left no result")?;
    ensure!(status.success(), "the self-test failed ({status}); {} says where", result.display());
    if !quick {
        let kept = root.join("docs/results").join(format!("gpu-{}.json", slug(&value)));
        std::fs::write(&kept, text).with_context(|| format!("{} cannot be written", kept.display()))?;
        println!("{}", kept.display());
    }
    Ok(())
}

/// The commit that is built, with a mark where the tree differs from it; "unknown" outside a repository.
fn commit(root: &Path) -> String {
    let git = Command::new("git")
        .current_dir(root)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let text = git.ok().filter(|output| output.status.success());
    text.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The device's name as part of a file's name: `nvidia-h200`.
fn slug(result: &Value) -> String {
    let name = result["gpu"]["name"].as_str().unwrap_or("unknown").to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_names_its_file() {
        let result = serde_json::json!({"gpu": {"name": "NVIDIA H200 (SXM)"}});
        assert_eq!(slug(&result), "nvidia-h200-sxm");
    }
}
