//! Toolchains for targets that are not this machine's: rustup's where it has the target, else Debian's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

/// Linux on 64-bit ARM.
pub const AARCH64: &str = "aarch64-unknown-linux-gnu";
pub const LINKER: &str = "aarch64-linux-gnu-gcc";
pub const EMULATOR: &str = "qemu-aarch64-static";
/// The target's C library for the linker. Under QEMU 7.2 no thread starts with it, so the emulator is given that of [`debian`].
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// The release of Debian that is emulated, and its Python.
const RELEASE: &str = "bookworm";
pub const PYTHON: &str = "3.11";
/// Debian's packages with linker, C library and emulator, and with a compiler.
const PACKAGES: &str = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static";
const RUST: &str = "rustc-web cargo-web libstd-rust-web-dev:arm64";

/// The compiler for [`AARCH64`]. Installs what is missing of it, of linker, C library and emulator.
///
/// # Errors
/// When something is missing and cannot be installed.
pub fn aarch64() -> Result<Toolchain> {
    let is_complete =
        runs(&[LINKER, "--version"]) && runs(&[EMULATOR, "--version"]) && Path::new(LIBRARIES).exists();
    if !is_complete {
        install(PACKAGES)?;
    }
    Toolchain::of(AARCH64, RUST)
}

/// Debian's files for 64-bit ARM with Python, below the directory `target`: its C library and programs, unpacked and not installed.
///
/// # Errors
/// When they are missing and cannot be downloaded.
pub fn debian(target: &Path) -> Result<PathBuf> {
    const DEBOOTSTRAP: &str = "/usr/sbin/debootstrap";
    let root = target.join("aarch64-debian");
    if root.exists() {
        return Ok(root);
    }
    // It gets its name when it is whole.
    let part = target.join("aarch64-debian.part");
    if part.exists() {
        std::fs::remove_dir_all(&part)?;
    }
    if !Path::new(DEBOOTSTRAP).exists() {
        install("debootstrap")?;
    }
    let arguments = ["--foreign", "--arch=arm64", "--variant=minbase", "--include=python3", RELEASE];
    let status = Command::new(DEBOOTSTRAP).args(arguments).arg(&part).stdout(Stdio::null()).status();
    ensure!(status.is_ok_and(|status| status.success()), "debootstrap failed: run it as root");
    // Its first stage unpacks only what an installation needs.
    for package in std::fs::read_dir(part.join("var/cache/apt/archives"))? {
        let package = package?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            let status = Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&part).status()?;
            ensure!(status.success(), "{} cannot be unpacked", package.display());
        }
    }
    let python = part.join("usr/bin").join(format!("python{PYTHON}"));
    ensure!(python.exists(), "Debian {RELEASE} has no Python {PYTHON}");
    std::fs::rename(&part, &root)?;
    Ok(root)
}

/// Sets the flags for [`AARCH64`], in place of those of .cargo/config.toml, which are for this machine; and the cross linker.
pub fn flags(cargo: &mut Command, with_linker: bool) {
    const PREFIX: &str = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU";
    cargo.env(format!("{PREFIX}_RUSTFLAGS"), "-C target-cpu=generic");
    // They would win.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    if with_linker {
        cargo.env(format!("{PREFIX}_LINKER"), LINKER).env("CC_aarch64_unknown_linux_gnu", LINKER);
    }
}

/// Debian's programs, which the packages `rustc-web` and `cargo-web` bring.
const CARGO: &str = "/usr/bin/cargo";
const RUSTC: &str = "/usr/bin/rustc";
/// Where Debian's package `rust-web-src` puts the standard library's source.
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";
/// Seconds that rustup has for a download.
const DOWNLOAD: &str = "100";

/// A compiler for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolchain {
    /// The one that compiles for this machine.
    Own,
    /// Debian's, which has the target.
    Debian,
    /// Debian's, which compiles the standard library for the target.
    DebianFromSource,
}

impl Toolchain {
    /// The one that has the target's standard library, which is downloaded where it is missing: by rustup, else from Debian with `packages`.
    ///
    /// # Errors
    /// When neither is possible.
    pub fn of(target: &str, packages: &str) -> Result<Self> {
        if let Some(toolchain) = Self::installed(target) {
            return Ok(toolchain);
        }
        eprintln!("rustup target add {target}: 150 MB on the disk");
        let rustup = ["timeout", DOWNLOAD, "rustup", "target", "add", target];
        if !runs(&rustup) || Self::installed(target).is_none() {
            install(packages)?;
        }
        let found = Self::installed(target);
        ensure!(
            found.is_some(),
            "the standard library for {target} is missing and neither rustup nor apt-get brings it"
        );
        Ok(found.unwrap_or(Self::Own))
    }

    fn installed(target: &str) -> Option<Self> {
        let has = |rustc: &str| {
            let printed = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
            printed.is_ok_and(|output| {
                output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).exists()
            })
        };
        match () {
            () if has("rustc") => Some(Self::Own),
            () if has(RUSTC) => Some(Self::Debian),
            // Debian has no standard library for other systems.
            () if !target.contains("linux") && Path::new(SOURCE).exists() => Some(Self::DebianFromSource),
            () => None,
        }
    }

    /// `cargo` of this toolchain.
    pub fn cargo(self) -> Command {
        if self == Self::Own {
            return Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        }
        let mut cargo = Command::new(CARGO);
        cargo.env("RUSTC", RUSTC).env_remove("CARGO");
        cargo
    }

    /// Lets another program find the compiler and `cargo` of this toolchain.
    pub fn programs(self, program: &mut Command) -> Result<()> {
        if self != Self::Own {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let first = Path::new(CARGO).parent().map(Path::to_path_buf);
            let path = std::env::join_paths(first.into_iter().chain(std::env::split_paths(&path)))?;
            program.env("PATH", path).env("RUSTC", RUSTC).env_remove("CARGO");
        }
        Ok(())
    }

    /// Arguments for a build of the standard library, after cargo's subcommand.
    pub fn standard_library(self, cargo: &mut Command) {
        if self == Self::DebianFromSource {
            // Lets a stable compiler build its own library.
            cargo.env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std");
        }
    }
}

/// Installs packages of Debian; those of another architecture need it to be known.
pub fn install(packages: &str) -> Result<()> {
    eprintln!("apt-get install {packages}: about 1 GB on the disk");
    let apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"];
    let mut is_ready = true;
    if packages.contains(":arm64") {
        is_ready = runs(&["dpkg", "--add-architecture", "arm64"]) && runs(&[&apt[..], &["update"]].concat());
    }
    let install = [&apt[..], &["install", "--yes", "--no-install-recommends"]].concat();
    is_ready = is_ready && runs(&install.into_iter().chain(packages.split(' ')).collect::<Vec<_>>());
    ensure!(is_ready, "install them as root: apt-get install {packages}");
    Ok(())
}

/// Whether a command can be started and succeeds.
fn runs(command: &[&str]) -> bool {
    let status = Command::new(command[0]).args(&command[1..]).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
