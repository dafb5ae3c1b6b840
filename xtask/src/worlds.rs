//! `cargo xtask worlds`: formats the environments, and writes every file that lists them or holds what they emit.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Prints or writes with the example `worlds` of operant-env.
const EXAMPLE: [&str; 8] =
    ["run", "--quiet", "--profile", "quick", "--package", "operant-env", "--example", "worlds"];

/// Runs a program in `place`; returns what it prints where `is_kept`.
pub fn execute(place: &Path, program: &str, args: &[&str], is_kept: bool) -> Result<Vec<u8>> {
    let shell = format!("{program} {}", args.join(" "));
    let output = if is_kept { Stdio::piped() } else { Stdio::inherit() };
    let done = Command::new(program)
        .current_dir(place)
        .args(args)
        .stdout(output)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shell}`"))?;
    ensure!(done.status.success(), "`{shell}` failed ({})", done.status);
    Ok(done.stdout)
}

/// Writes the files that list the environments, or shows how the CUDA text of one differs from the last commit.
pub fn run(args: &[&str]) -> Result<()> {
    let metadata = crate::tools::workspace()?;
    let root = metadata.workspace_root.as_std_path();
    match args {
        [] => write(root),
        ["--diff", name] => difference(root, metadata.target_directory.as_std_path(), name),
        other => bail!("`{}` is not understood; give nothing or --diff NAME", other.join(" ")),
    }
}

fn write(root: &Path) -> Result<()> {
    // A macro declares the environments' modules, and so `cargo fmt` does not find them.
    let mut files = Vec::new();
    let source = root.join("crates/operant-env/src");
    for directory in std::iter::once(source.clone()).chain(subdirectories(&source)?) {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    let files: Vec<&str> =
        ["--edition", "2024"].into_iter().chain(files.iter().map(String::as_str)).collect();
    execute(root, "rustfmt", &files, false)?;
    execute(root, "cargo", &EXAMPLE, false).map(drop)
}

fn subdirectories(source: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = std::fs::read_dir(source)?.collect::<Result<Vec<_>, _>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

/// Shows how an environment's emitted code differs from the last commit, which is checked out and compiled in `target`.
fn difference(root: &Path, target: &Path, name: &str) -> Result<()> {
    let (before, emitted) = (target.join("last-commit"), target.join("emitted"));
    let checkout = before.to_str().context("the target directory is not UTF-8")?;
    if before.exists() {
        let commit = String::from_utf8(execute(root, "git", &["rev-parse", "HEAD"], true)?)?;
        execute(&before, "git", &["checkout", "--quiet", "--force", "--detach", commit.trim()], false)?;
    } else {
        execute(root, "git", &["worktree", "prune"], false)?;
        execute(root, "git", &["worktree", "add", "--quiet", "--detach", checkout], false)?;
    }
    std::fs::create_dir_all(&emitted)?;
    let example: Vec<&str> = EXAMPLE.into_iter().chain(["--", name]).collect();
    let [old, new] = [format!("{name}.last-commit.cuh"), format!("{name}.cuh")];
    for (place, file) in [(before.as_path(), &old), (root, &new)] {
        std::fs::write(emitted.join(file), execute(place, "cargo", &example, true)?)?;
    }
    // Exit code 1: they differ.
    let status = Command::new("git")
        .current_dir(&emitted)
        .args(["diff", "--no-index", &old, &new])
        .status()
        .context("cannot start `git diff`")?;
    ensure!(status.code().is_some_and(|code| code < 2), "`git diff` failed ({status})");
    eprintln!("{old} and {new} are in {}", emitted.display());
    Ok(())
}
