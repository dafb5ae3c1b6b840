//! The wheel for all machines: built once for each level of x86-64 with zig's linker, merged into one, tested at each level.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{TESTS, Workshop, licenses, only_entry, pytest};
use crate::tools;

/// The directory of each level in the package, as `python/operant/_isa.py` knows them, and the CPU that the compiler is given.
const LEVELS: [(&str, &str); 2] = [("v3", "x86-64-v3"), ("v4", "x86-64-v4")];

/// The oldest glibc that the wheel runs with; maturin refuses a build that needs a newer one.
pub(super) const GLIBC: &str = "manylinux_2_28";

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The compiled module in a wheel of one level.
const MODULE: &str = "operant/_core.abi3.so";

/// Prints hashes of what the engine computes.
const BITS: &str = "crates/operant-python/tests/bits.py";

/// Builds the wheel with a profile into the folder `out`, installs it into its own environment and tests it at each level that this CPU has;
/// returns its path.
///
/// # Errors
///
/// A step fails, or two levels compute different bits.
pub fn build(workshop: &Workshop<'_>, profile: &str, out: &Path) -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_arch = "x86_64", target_os = "linux")),
        "wheels are built on Linux x86-64 only; `pip install .` builds the package for this machine"
    );
    tools::pip_install(workshop.python, &workshop.root.join("requirements-wheel.txt"))?;
    let scratch = workshop.emptied("tmp/wheel")?;
    let mut trees = Vec::new();
    for (level, cpu) in LEVELS {
        eprintln!("{cpu}: building");
        let place = workshop.target.join(cpu);
        let place = place.to_str().context("the target directory's path is not UTF-8")?;
        let args = [
            "--profile",
            profile,
            "--zig",
            "--compatibility",
            GLIBC,
            "--target",
            TRIPLE,
            "--target-dir",
            place,
        ];
        let flags = format!("-C target-cpu={cpu}");
        let wheel =
            workshop.build(&args, &[("RUSTFLAGS", &flags), ("OPERANT_LEVEL", cpu)], &scratch.join(level))?;
        let unpacked = scratch.join(level).join("unpacked");
        workshop.step(wheel_tool(workshop, "unpack").arg("--dest").arg(&unpacked).arg(&wheel))?;
        trees.push(only_entry(&unpacked, "")?);
    }
    merge(&trees)?;
    licenses::add(workshop, TRIPLE, &trees[0])?;
    // Among the wheels of other versions, each under its own name.
    let packed = scratch.join("packed");
    fs::create_dir(&packed)?;
    workshop.step(wheel_tool(workshop, "pack").arg("--dest-dir").arg(&packed).arg(&trees[0]))?;
    let wheel = only_entry(&packed, ".whl")?;
    test(workshop, &wheel, &scratch.join("venv"))?;
    let kept = out.join(wheel.file_name().context("a wheel has a name")?);
    fs::create_dir_all(out)?;
    fs::copy(&wheel, &kept)?;
    Ok(kept)
}

/// `python -m wheel`, which writes names, tags and RECORD.
pub(super) fn wheel_tool(workshop: &Workshop<'_>, command: &str) -> Command {
    let mut tool = Command::new(workshop.python);
    tool.args(["-m", "wheel", command]).stdout(std::process::Stdio::null());
    tool
}

/// Gathers the modules of all levels in the first unpacked wheel.
fn merge(trees: &[PathBuf]) -> Result<()> {
    for ((level, _), tree) in LEVELS.iter().zip(trees) {
        let package = trees[0].join("operant").join(format!("_{level}"));
        fs::create_dir(&package)?;
        let (from, to) = (tree.join(MODULE), package.join("_core.abi3.so"));
        fs::rename(&from, &to).with_context(|| format!("{} is missing", from.display()))?;
        eprintln!("{level}: {:.1} MB", fs::metadata(&to)?.len() as f64 / 1e6);
    }
    Ok(())
}

/// Installs the wheel, runs the tests at each level that this CPU has, and compares what the levels compute.
fn test(workshop: &Workshop<'_>, wheel: &Path, dir: &Path) -> Result<()> {
    let python = workshop.install(wheel, dir)?;
    let mut found: Vec<(&str, String)> = Vec::new();
    for (level, cpu) in LEVELS {
        if !has(level) {
            println!("SKIPPED the tests of {cpu}: this CPU does not support it");
            continue;
        }
        let isa = ("OPERANT_ISA", level);
        workshop.step(pytest(&python).arg(TESTS).env(isa.0, isa.1))?;
        let bits = workshop.output(Command::new(&python).arg(BITS).env(isa.0, isa.1))?;
        let bits = bits
            .strip_prefix(&format!("{cpu}\n"))
            .with_context(|| format!("{isa:?} took another level:\n{bits}"))?;
        found.push((cpu, bits.to_owned()));
    }
    for pair in found.windows(2) {
        let [(one, bits), (other, others)] = pair else { continue };
        ensure!(bits == others, "{one} and {other} compute different bits:\n{bits}\n{others}");
        println!("{one} and {other}: the same bits\n{bits}");
    }
    Ok(())
}

/// Whether this CPU has the instructions of a level.
#[cfg(target_arch = "x86_64")]
fn has(level: &str) -> bool {
    let v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2");
    let v4 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
    v3 && (level != "v4"
        || v4 && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq"))
}

#[cfg(not(target_arch = "x86_64"))]
fn has(_level: &str) -> bool {
    false
}
