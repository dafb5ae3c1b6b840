//! `cargo xtask release`: all that is published of a version, in one folder, tried in empty environments.

mod portable;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::tools;
use crate::wheel::{self, Workshop};

/// The versions of Python that the package supports.
const PYTHONS: [&str; 5] = ["3.10", "3.11", "3.12", "3.13", "3.14"];

const CHANGELOG: &str = "CHANGELOG.md";

/// What is built and tried.
#[derive(Default)]
struct Request {
    /// The quick profile, to try this command: slower programs, the same bits.
    is_quick: bool,
    /// The wheel for Linux on 64-bit ARM too.
    for_arm: bool,
    /// Commands of further Pythons, each as words: `chroot DIR python3`.
    pythons: Vec<String>,
}

impl Request {
    fn of(args: &[&str]) -> Result<Self> {
        let mut request = Request::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--quick" => request.is_quick = true,
                "--aarch64" => request.for_arm = true,
                "--python" => {
                    let words =
                        args.next().context("--python needs a command such as \"chroot DIR python3\"")?;
                    request.pythons.push((*words).to_owned());
                }
                other => bail!(
                    "unknown argument `{other}`; `cargo xtask release` takes --quick, --aarch64 and --python COMMAND"
                ),
            }
        }
        Ok(request)
    }

    fn profile(&self) -> &'static str {
        if self.is_quick { "quick" } else { "wheel" }
    }
}

/// Builds and tries everything; prints the folder.
///
/// # Errors
///
/// CHANGELOG.md has no entry for the version, a build fails, or what was built does not work somewhere.
pub fn run(args: &[&str]) -> Result<()> {
    let request = Request::of(args)?;
    let metadata = tools::workspace()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let python = tools::python(target).context("there is no Python for it: cargo xtask python makes one")?;
    let workshop = Workshop { root, target, python: &python };
    let version = metadata.packages.iter().find(|package| *package.name == "operant");
    let version = version.context("there is no package operant")?.version.to_string();
    let changes = changes(&fs::read_to_string(root.join(CHANGELOG))?, &version, request.is_quick)?;
    tools::pip_install(&python, &root.join("requirements-wheel.txt"))?;

    let folder = workshop.emptied(&format!("release/{version}"))?;
    let sdist = timed("the source distribution is made", || source(&workshop, &folder))?;
    let wheel = timed("the wheel is built and tested", || {
        wheel::levels::build(&workshop, request.profile(), &folder)
    })?;
    if request.for_arm {
        timed("the wheel for 64-bit ARM is built and tested under emulation", || {
            wheel::aarch64::run(root, target, Some((request.profile(), &folder)))
        })?;
    }
    let program = timed("the portable program is built", || {
        let place = portable::Place { workshop: &workshop, profile: request.profile() };
        let program = folder.join(format!("operant-{version}-linux-x86_64"));
        fs::copy(portable::build(&place)?, &program)?;
        Ok(program)
    })?;
    let levels = timed("the portable program computes the same weights at each level", || {
        portable::compare(&program, &workshop.emptied("tmp/release-runs")?)
    })?;
    let (rows, bits) =
        timed("the wheel works in empty environments", || tried(&workshop, &wheel, &request.pythons))?;
    timed("a wheel is built from the source distribution, and works", || {
        let built = workshop.emptied("tmp/from-source")?;
        from_source(&workshop, &sdist, &built)?;
        let python = python.to_str().context("a path that is UTF-8")?;
        let found = try_in(&workshop, python, &wheel::only_entry(&built, ".whl")?)?;
        ensure!(found["bits"] == bits, "it computes other weights: {} and {bits}", found["bits"]);
        Ok(())
    })?;
    let sizes = checksums(&workshop, &folder)?;
    let notes = format!(
        "# operant {version}\n\n{changes}\n\n## Files\n\n{sizes}\n`sha256sum --check SHA256SUMS` checks them. The program computed the same weights at {}.\n\n\
         ## Tried\n\n{rows}",
        levels.join(", ")
    );
    fs::write(folder.join("NOTES.md"), &notes)?;
    println!("{notes}\n{}", folder.display());
    Ok(())
}

/// Does a step and prints how long it took.
fn timed<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    let done = work().with_context(|| format!("failed: {name}"))?;
    eprintln!("{name} ({:.0} s)", started.elapsed().as_secs_f64());
    Ok(done)
}

/// The entry of a version in the list of changes. One that is not released yet suffices to try this command.
fn changes(changelog: &str, version: &str, is_quick: bool) -> Result<String> {
    let mut entries = changelog.split("\n## ").skip(1);
    let is_of_version = |entry: &&str| entry.split([',', ' ', '\n']).next() == Some(version);
    let entry = entries.find(is_of_version).with_context(|| {
        format!("{CHANGELOG} has no entry for {version}: write one below a heading `## {version}, DATE`")
    })?;
    let (heading, text) = entry.split_once('\n').unwrap_or_default();
    ensure!(
        is_quick || !heading.contains("not released"),
        "{CHANGELOG} says `{heading}`: give the entry its date"
    );
    ensure!(!text.trim().is_empty(), "the entry of {version} in {CHANGELOG} is empty");
    Ok(text.trim().to_owned())
}

/// The sources as one archive that pip builds.
fn source(workshop: &Workshop<'_>, folder: &Path) -> Result<PathBuf> {
    let mut maturin = Command::new(workshop.python);
    workshop.step(maturin.args(["-m", "maturin", "sdist", "--out"]).arg(folder))?;
    wheel::only_entry(folder, ".tar.gz")
}

/// Builds a wheel for this machine from the archive alone, with the quick profile.
fn from_source(workshop: &Workshop<'_>, sdist: &Path, out: &Path) -> Result<()> {
    let mut pip = Command::new(workshop.python);
    pip.args([
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--config-settings",
        "build-args=--profile quick",
    ]);
    pip.arg("--wheel-dir").arg(out).arg(sdist);
    workshop.step(pip.env("CARGO_TARGET_DIR", workshop.target.join("from-source")))
}

/// A table of the wheel in an empty environment of each Python, and the hash of what it computes in all of them.
fn tried(workshop: &Workshop<'_>, wheel: &Path, further: &[String]) -> Result<(String, Value)> {
    let mut rows = String::from(
        "| Python | C library | level | installed in | `operant --version` | CartPole, seed 1: weights |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    let named = PYTHONS.iter().map(|version| format!("python{version}"));
    let mut seen: Vec<String> = Vec::new();
    let mut bits: Vec<Value> = Vec::new();
    for command in named.chain(further.iter().cloned()) {
        let mut version = words(&command);
        let Ok(output) = version.arg("--version").output() else { continue };
        if !output.status.success() {
            continue;
        }
        let found = try_in(workshop, &command, wheel)?;
        let text = |key: &str| found[key].as_str().map_or_else(|| found[key].to_string(), str::to_owned);
        rows += &format!(
            "| {} | {} | {} | {} s | {} ms | {} |\n",
            text("python"),
            text("libc"),
            text("level"),
            text("install_s"),
            text("start_ms"),
            text("bits")
        );
        seen.push(text("python"));
        bits.push(found["bits"].clone());
    }
    ensure!(!seen.is_empty(), "none of python{} is in the PATH", PYTHONS.join(", python"));
    ensure!(bits.iter().all(|one| *one == bits[0]), "Pythons compute different weights:\n{rows}");
    let is_missing = |version: &&&str| !seen.iter().any(|one| one.starts_with(&format!("{version}.")));
    let missing: Vec<&str> = PYTHONS.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        rows += &format!("\nNot tried, since this machine has no such Python: {}.\n", missing.join(", "));
    }
    Ok((rows, bits.swap_remove(0)))
}

/// Runs check.py in a Python, which is given as words.
fn try_in(workshop: &Workshop<'_>, python: &str, wheel: &Path) -> Result<Value> {
    let check = workshop.root.join("xtask/src/release/check.py");
    let output = workshop.output(words(python).arg(check).arg(wheel))?;
    serde_json::from_str(output.trim()).with_context(|| format!("{python} printed {output}"))
}

/// A command of words.
fn words(text: &str) -> Command {
    let mut words = text.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Writes SHA256SUMS; returns a table of the files' sizes.
fn checksums(workshop: &Workshop<'_>, folder: &Path) -> Result<String> {
    let mut names: Vec<String> = Vec::new();
    let mut table = String::from("| file | MB |\n| --- | --- |\n");
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in &names {
        table += &format!("| {name} | {:.1} |\n", fs::metadata(folder.join(name))?.len() as f64 / 1e6);
    }
    let mut sums = Command::new("sh");
    sums.args(["-c", "cd \"$0\" && sha256sum \"$@\""]).arg(folder).args(&names);
    let sums = workshop.output(&mut sums)?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_changelog_is_found_by_its_version() {
        let changelog =
            "# Changes\n\nText.\n\n## 0.2.0, 2027-01-01\n\n- New.\n\n## 0.1.0\n\n- Old.\n- Older.\n";
        let of = |version| changes(changelog, version, false);
        assert_eq!(of("0.2.0").expect("an entry"), "- New.");
        assert_eq!(of("0.1.0").expect("an entry"), "- Old.\n- Older.");
        for missing in ["0.3.0", "0.2", "0.2.00", "0.2.0-rc1"] {
            assert!(of(missing).is_err(), "{missing}");
        }
        assert!(changes("# Changes\n\n## 0.3.0\n\n", "0.3.0", false).is_err(), "an empty entry");
        let open = "# Changes\n\n## 0.3.0, not released yet\n\n- New.\n";
        assert!(changes(open, "0.3.0", false).expect_err("no date").to_string().contains("its date"));
        assert_eq!(changes(open, "0.3.0", true).expect("to try the command"), "- New.");
    }
}
