//! The wheel for Linux on 64-bit ARM: built with zig's linker (a quick one with the cross linker), and tested under emulation with Debian's Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::levels::{GLIBC, wheel_tool};
use super::{TESTS, Workshop, licenses, only_entry};
use crate::cross::{self, Toolchain};
use crate::tools;

/// The level that the engine names.
const LEVEL: &str = "armv8-a";
/// Packages of requirements-test.txt that the tests need.
const NEEDED: [&str; 3] = ["gymnasium==", "numpy==", "pytest=="];

/// The tests that run, which start no process: an emulated program cannot start another.
const SUBSET: [&str; 10] = [
    "test_algorithms.py",
    "test_collector.py",
    "test_contract.py",
    "test_dlpack.py",
    "test_isa.py",
    "test_observations.py",
    "test_save.py",
    "test_toy_text.py",
    "test_two_players.py",
    "test_vector.py",
];

/// Builds the wheel with a profile into the folder `out` and tests it. Without a folder it is built with the quick profile for this test alone.
///
/// # Errors
/// When a step fails.
pub fn run(root: &Path, target: &Path, out: Option<(&str, &Path)>) -> Result<()> {
    let profile = out.map(|(profile, _)| profile);
    let toolchain = cross::aarch64()?;
    let python = tools::environment(&target.join("aarch64-venv"), &root.join("requirements-wheel.txt"))?;
    let workshop = Workshop { root, target, python: &python };
    let scratch = workshop.emptied("tmp/wheel-aarch64")?;
    let begin = Instant::now();
    let built = build(&workshop, toolchain, &scratch.join("built"), profile)?;
    eprintln!("good: the wheel is built, {:.1} min", begin.elapsed().as_secs_f64() / 60.0);
    let wheel = if profile.is_some() { licensed(&workshop, &built, &scratch)? } else { built };
    test(&workshop, &wheel, &scratch)?;
    if let Some((_, out)) = out {
        let kept = out.join(wheel.file_name().context("a wheel has a name")?);
        fs::create_dir_all(out)?;
        fs::copy(&wheel, &kept)?;
        println!("{}: {:.1} MB", kept.display(), fs::metadata(&kept)?.len() as f64 / 1e6);
    }
    Ok(())
}

/// Builds the wheel into `out`, with a profile or for a test alone.
fn build(
    workshop: &Workshop<'_>,
    toolchain: Toolchain,
    out: &Path,
    profile: Option<&str>,
) -> Result<PathBuf> {
    let mut maturin = Command::new(workshop.python);
    maturin.args(["-m", "maturin", "build", "--quiet", "--target", cross::AARCH64]);
    if let Some(profile) = profile {
        maturin.args(["--profile", profile, "--zig", "--compatibility", GLIBC]);
        maturin.env("CARGO_ZIGBUILD_PYTHON_PATH", workshop.python);
    } else {
        // With the linker and the features of `cargo xtask test --aarch64`, to share what it compiles.
        maturin.args(["--profile", "quick", "--compatibility", "linux"]);
        maturin.args(["--features", "pyo3/extension-module,test-features"]);
    }
    maturin.arg("--out").arg(out).env("OPERANT_LEVEL", LEVEL);
    toolchain.programs(&mut maturin)?;
    cross::flags(&mut maturin, profile.is_none());
    workshop.step(&mut maturin)?;
    only_entry(out, ".whl")
}

/// The wheel with the licences of what is linked.
fn licensed(workshop: &Workshop<'_>, wheel: &Path, scratch: &Path) -> Result<PathBuf> {
    let (unpacked, packed) = (scratch.join("unpacked"), scratch.join("packed"));
    workshop.step(wheel_tool(workshop, "unpack").arg("--dest").arg(&unpacked).arg(wheel))?;
    let tree = only_entry(&unpacked, "")?;
    licenses::add(workshop, cross::AARCH64, &tree)?;
    fs::create_dir(&packed)?;
    workshop.step(wheel_tool(workshop, "pack").arg("--dest-dir").arg(&packed).arg(&tree))?;
    only_entry(&packed, ".whl")
}

/// Installs the wheel beside the packages of the tests and runs [`SUBSET`] with the emulated Python.
fn test(workshop: &Workshop<'_>, wheel: &Path, scratch: &Path) -> Result<()> {
    let debian = cross::debian(workshop.target)?;
    let pins = fs::read_to_string(workshop.root.join("requirements-test.txt"))?;
    let pins = pins.lines().filter(|line| NEEDED.iter().any(|name| line.starts_with(name)));
    let site = scratch.join("site");
    let mut pip = Command::new(workshop.python);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--target"]).arg(&site);
    // The platforms of the wheel's own tag.
    pip.args(["--platform", &format!("{GLIBC}_aarch64"), "--platform", "linux_aarch64"]);
    pip.args(["--python-version", cross::PYTHON]);
    pip.args(["--implementation", "cp", "--only-binary=:all:"]).args(pins).arg(wheel);
    workshop.step(&mut pip)?;
    let begin = Instant::now();
    let mut python = Command::new(cross::EMULATOR);
    python.arg("-L").arg(&debian).arg(debian.join("usr/bin").join(format!("python{}", cross::PYTHON)));
    python.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-m", "not long", "--durations=10"]);
    python.args(SUBSET.map(|file| format!("{TESTS}/{file}")));
    workshop.step(python.env("PYTHONPATH", &site).env("PYTHONDONTWRITEBYTECODE", "1"))?;
    eprintln!(
        "good: {} modules of tests pass under emulation, {:.1} min",
        SUBSET.len(),
        begin.elapsed().as_secs_f64() / 60.0
    );
    Ok(())
}
