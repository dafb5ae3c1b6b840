//! `cargo xtask fuzz [--runs N]`: random inputs for the ring's reader, grown from the corpus that is checked in; with `--seconds N`, for the
//! readers of worlds, of sweeps' tables and of checkpoints.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

const RUNS: u64 = 1_000_000;
const FUZZ: &str = "crates/operant-metrics/fuzz";
const TARGET: &str = "reader";

/// Runs the fuzz target; new inputs are kept below the target directory, those that fail in the fuzz crate's `artifacts`.
pub fn run(args: &[&str]) -> Result<()> {
    let runs: u64 = match *args {
        ["--seconds", seconds] => return files(seconds, None),
        ["--seconds", seconds, "--from", first] => return files(seconds, Some(first)),
        [] => RUNS,
        ["--runs", number] => number
            .parse()
            .ok()
            .filter(|runs| *runs > 0)
            .with_context(|| format!("--runs {number}: give a whole number of inputs, such as {RUNS}"))?,
        _ => bail!(
            "`fuzz {}` is not understood; use: cargo xtask fuzz [--runs N | --seconds N [--from K]]",
            args.join(" ")
        ),
    };
    let metadata = crate::tools::workspace()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let installed = Command::new(&cargo)
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start cargo")?;
    ensure!(installed.success(), "cargo-fuzz is missing; install it with `cargo install cargo-fuzz`");

    let target_dir = metadata.target_directory.join("fuzz");
    let grown = target_dir.join("corpus").join(TARGET);
    std::fs::create_dir_all(&grown)
        .with_context(|| format!("cannot make {grown}; check that the target directory is writable"))?;
    let status = Command::new(cargo)
        .current_dir(&metadata.workspace_root)
        // libFuzzer's instrumentation is behind unstable options of the compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["fuzz", "run", "--fuzz-dir", FUZZ, "--target-dir", target_dir.as_str(), TARGET])
        // New inputs go into the first folder; the second is only read.
        .args([grown.as_str(), &format!("{FUZZ}/corpus/{TARGET}")])
        .args(["--", &format!("-runs={runs}"), "-print_final_stats=1"])
        .status()
        .context("cannot start cargo fuzz")?;
    ensure!(
        status.success(),
        "the reader failed at an input ({status}); libFuzzer names its file above. When it is mended, keep the input as \
         {FUZZ}/corpus/{TARGET}/found-NAME"
    );
    eprintln!("{runs} inputs, none at which the reader fails; those with new coverage are in {grown}");
    Ok(())
}

/// Runs the test that reads files of strangers, each kind for that many seconds, from input `first` on: by default from one that no run
/// before had.
fn files(seconds: &str, first: Option<&str>) -> Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let first = first.map_or_else(|| (now * 1_000_000).to_string(), str::to_owned);
    for number in [seconds, &first] {
        ensure!(number.parse::<u64>().is_ok(), "{number} is not a whole number, such as 600");
    }
    let metadata = crate::tools::workspace()?;
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&metadata.workspace_root)
        .args([
            "test",
            "--workspace",
            "--profile",
            "quick",
            "--tests",
            "files_of_strangers",
            "--",
            "--ignored",
            "--nocapture",
        ])
        .env("FUZZ_SECONDS", seconds)
        .env("FUZZ_FIRST", first)
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "the fuzz test failed ({status}); the output above names the input and its file"
    );
    Ok(())
}
