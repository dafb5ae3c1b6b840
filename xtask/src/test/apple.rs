//! `cargo xtask test --apple`: types of all crates checked for macOS on ARM. Nothing is linked or run.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::cross::Toolchain;
use crate::tools;

const TARGET: &str = "aarch64-apple-darwin";
/// Debian's packages with compiler and standard library's source.
const PACKAGES: &str = "rustc-web cargo-web rust-web-src";
/// Packages that are not checked: measurements and chores on Linux.
const EXCLUDED: [&str; 3] = ["benches", "xtask", "xtask-kernels"];

/// Checks every package but [`EXCLUDED`].
///
/// # Errors
/// When one does not compile.
pub fn run() -> Result<()> {
    let begin = Instant::now();
    let toolchain = Toolchain::of(TARGET, PACKAGES)?;
    let packages: Vec<String> = tools::workspace()?
        .packages
        .iter()
        .map(|package| package.name.to_string())
        .filter(|name| !EXCLUDED.contains(&name.as_str()))
        .collect();
    let mut cargo = toolchain.cargo();
    cargo.args(["check", "--profile", "quick", "--lib", "--bins", "--target", TARGET]);
    toolchain.standard_library(&mut cargo);
    for package in &packages {
        cargo.args(["--package", package]);
    }
    // In place of the flags of .cargo/config.toml, which are for this machine. RUSTFLAGS would win over it.
    cargo.env("CARGO_TARGET_AARCH64_APPLE_DARWIN_RUSTFLAGS", "-C target-cpu=apple-m1");
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    // The C of BLAKE3 and SQLite needs the headers of macOS: `true` in place of its compiler compiles nothing. No Python is needed either.
    for tool in ["CC", "AR", "RANLIB"] {
        cargo.env(format!("{tool}_aarch64_apple_darwin"), "true");
    }
    cargo.env("SDKROOT", "/").env("PYO3_NO_PYTHON", "1");
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "the check for {TARGET} failed ({status})");
    eprintln!(
        "good: {} packages are checked for {TARGET}, {:.1} s; not {}; no C was compiled, nothing was linked or run",
        packages.len(),
        begin.elapsed().as_secs_f64(),
        EXCLUDED.join(", ")
    );
    Ok(())
}
