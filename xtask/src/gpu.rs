//! `cargo xtask gpu`: a binary that runs on any x86-64-v3 machine, and with it `operant selftest gpu` or a round of measurements
//! where a GPU is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

mod report;

/// The page of the figures, below the root.
const PAGE: &str = "docs/results/gpu.md";

/// The level that the portable binary needs: AVX2 and FMA, which every machine with a recent GPU has.
const LEVEL: &str = "x86-64-v3";

/// The most bytes of that binary, which a round carries to the machine with the GPU.
const MOST_BYTES: u64 = 40_000_000;

/// The script of a round, and the file that it needs besides the binary: PPO in JAX.
const ROUND: &str = include_str!("gpu/round.sh");
const PEER: [&str; 3] = ["ppo_jax.py", "cartpole_jax.py", "worker.py"];

/// Builds the binary. With a GPU, runs the self-test; without one, prints the files to copy to a machine that has one. `--round`
/// does the same with the script of a round; `--report` turns its results into docs/results/gpu.md.
pub fn run(args: &[&str]) -> Result<()> {
    let metadata = crate::tools::workspace()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let folder = target.join("gpu-round");
    match args {
        [] => selftest(root, target, false),
        ["--quick"] => selftest(root, target, true),
        ["--round"] => round(root, &build(root, target)?, &folder),
        ["--report"] => write_report(root, &folder.join("results")),
        ["--report", directory] => write_report(root, Path::new(directory)),
        _ => bail!("`cargo xtask gpu` takes --quick, --round or --report [DIRECTORY]"),
    }
}

/// Builds the binary for any machine with a GPU.
fn build(root: &Path, target: &Path) -> Result<PathBuf> {
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
    Ok(place.join("release").join("operant"))
}

/// Puts all that a round needs into one folder, and runs it where there is a GPU.
fn round(root: &Path, binary: &Path, folder: &Path) -> Result<()> {
    let bytes = std::fs::metadata(binary)?.len();
    ensure!(bytes < MOST_BYTES, "{} has {bytes} bytes, {MOST_BYTES} or more", binary.display());
    std::fs::create_dir_all(folder)?;
    std::fs::copy(binary, folder.join("operant"))?;
    for name in PEER {
        std::fs::copy(root.join("benches/peers").join(name), folder.join(name))?;
    }
    std::fs::write(folder.join("round.sh"), ROUND)?;
    std::fs::write(folder.join("commit"), commit(root))?;
    println!("{}: operant ({:.1} MB), round.sh, PPO in JAX", folder.display(), bytes as f64 / 1e6);
    if let Some(problem) = problem(binary)? {
        println!(
            "No GPU can be used here: {problem}.\n\
             Copy the folder, which needs no toolchain, to a machine with one and Python's nvidia-cuda-nvrtc, nvidia-cublas and, for\n\
             the comparison, jax[cuda13]; run `sh round.sh` there, copy its results back, and run here:\n\n    \
             cargo xtask gpu --report RESULTS"
        );
        return Ok(());
    }
    let status = Command::new("sh").arg(folder.join("round.sh")).status().context("cannot start sh")?;
    ensure!(
        status.success(),
        "the round ended early ({status}); `cargo xtask gpu --report` takes what it measured"
    );
    println!("cargo xtask gpu --report writes docs/results/gpu.md");
    Ok(())
}

/// What prevents the use of a GPU here, if anything.
fn problem(binary: &Path) -> Result<Option<String>> {
    let output = Command::new(binary).args(["info", "--json"]).output().context("cannot start operant")?;
    let info: Value =
        serde_json::from_slice(&output.stdout).context("operant info printed no JSON object")?;
    let parts = ["driver", "compiler"].map(|part| info[part]["problem"].as_str());
    let why = parts.into_iter().flatten().next().unwrap_or("no device was found");
    let has_gpu = info["gpus"].as_array().is_some_and(|gpus| !gpus.is_empty());
    Ok((!has_gpu).then(|| why.to_owned()))
}

/// Writes the page from the results of a round.
fn write_report(root: &Path, results: &Path) -> Result<()> {
    let round = report::Round::read(&|name| std::fs::read_to_string(results.join(name)).ok());
    let round = round.with_context(|| format!("{} cannot be reported", results.display()))?;
    let page = root.join(PAGE);
    let text = report::page(&std::fs::read_to_string(&page)?, &round).with_context(|| PAGE.to_owned())?;
    std::fs::write(&page, text)?;
    println!("{}", page.display());
    Ok(())
}

fn selftest(root: &Path, target: &Path, quick: bool) -> Result<()> {
    let binary = build(root, target)?;
    if let Some(problem) = problem(&binary)? {
        println!(
            "No GPU can be used here: {problem}.\n\
             Copy this file, which needs no toolchain, to a machine with one and Python's nvidia-cuda-nvrtc:\n\n    {}\n\n\
             and run there: ./operant selftest gpu --out gpu.json",
            binary.display()
        );
        return Ok(());
    }
    let mut command = Command::new(&binary);
    command.args(["selftest", "gpu"]).args(quick.then_some("--quick"));
    let status = command.status().with_context(|| format!("cannot start {}", binary.display()))?;
    ensure!(status.success(), "the self-test failed ({status})");
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
