//! The tools beyond Rust that tests use: a C++ compiler, and a Python with the packages of requirements-test.txt, among them NVRTC.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

/// The Python of the tests; `cargo xtask test` sets it where [`install`] has made one.
const PYTHON: &str = "OPERANT_TEST_PYTHON";

/// The directory of libnvrtc.
const NVRTC: &str = "OPERANT_NVRTC_DIR";

const REQUIREMENTS: &str = "requirements-test.txt";

/// Where the workspace is, and its members.
pub fn workspace() -> Result<Metadata> {
    let metadata = MetadataCommand::new().no_deps().exec();
    metadata.context("cannot read the workspace; run this inside it, where `cargo metadata` works")
}

/// What was found, and what was not.
#[derive(Debug, Default)]
pub struct Tools {
    /// Variables that name what was found.
    pub variables: Vec<(&'static str, OsString)>,
    pub missing: Vec<Missing>,
}

/// A tool that this machine lacks.
#[derive(Debug)]
pub struct Missing {
    pub name: &'static str,
    /// What is skipped without it.
    pub skipped: &'static str,
    /// The command that brings it.
    pub command: &'static str,
}

impl Tools {
    /// Looks for the tools; `target` is where cargo builds.
    pub fn find(target: &Path) -> Tools {
        let mut tools = Tools::default();
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
        if !runs(Command::new(compiler).arg("--version")) {
            tools.missing.push(Missing {
                name: "a C++ compiler",
                skipped: "emitted code against Rust, and every test on the stand-in for a GPU",
                command: "apt-get install g++",
            });
        }
        match python(target) {
            Some(python) => tools.variables.push((PYTHON, python.into())),
            None => tools.missing.push(Missing {
                name: "Python with the packages of requirements-test.txt",
                skipped: "the Python package, event files read by TensorBoard, and checkpoints played in Gymnasium",
                command: "cargo xtask python",
            }),
        }
        match set(NVRTC).or_else(|| nvrtc_of(target)) {
            Some(directory) => tools.variables.push((NVRTC, directory.into())),
            None => tools.missing.push(Missing {
                name: "NVRTC",
                skipped: "kernels by the real compiler: warnings, registers and spills",
                command: "cargo xtask python",
            }),
        }
        tools
    }

    /// Whether there is no NVRTC.
    pub fn lacks_nvrtc(&self) -> bool {
        self.variables.iter().all(|(name, _)| *name != NVRTC)
    }

    /// Whether there is no Python with the packages.
    pub fn lacks_python(&self) -> bool {
        self.variables.iter().all(|(name, _)| *name != PYTHON)
    }
}

/// The Python of the tests, if it has the packages of requirements-test.txt.
pub fn python(target: &Path) -> Option<PathBuf> {
    let python = set(PYTHON).or_else(|| Some(python_of(target)).filter(|python| python.exists()))?;
    // Asked by name, since to import them takes seconds.
    let versions = "from importlib.metadata import version; [version(name) for name in \
                    'basedpyright gymnasium jax maturin mypy numpy onnx onnxruntime pandas pytest safetensors tensorboard'.split()]";
    runs(Command::new(&python).args(["-c", versions])).then_some(python)
}

/// Makes the Python environment of the tests in `target/venv`, or brings it up to date.
pub fn install() -> Result<()> {
    let metadata = workspace()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let python = environment(&target.join("venv"), &root.join(REQUIREMENTS))?;
    println!("{}", python.display());
    Ok(())
}

/// Makes a Python environment with the packages of a file, or brings it up to date; returns its Python.
pub fn environment(venv: &Path, requirements: &Path) -> Result<PathBuf> {
    let python = venv.join("bin/python");
    if !runs(Command::new(&python).args(["-m", "pip", "--version"])) {
        let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv).status();
        let made = made.context("python3 is needed: apt-get install python3 python3-venv")?;
        ensure!(made.success(), "python3 -m venv failed: apt-get install python3-venv");
    }
    pip_install(&python, requirements)?;
    Ok(python)
}

/// Installs the packages of a file of requirements.
pub fn pip_install(python: &Path, requirements: &Path) -> Result<()> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(requirements);
    ensure!(pip.status()?.success(), "the packages of {} cannot be installed", requirements.display());
    Ok(())
}

/// Builds and runs `xtask-kernels`, with the features of the whole workspace, so that it shares what the tests compile.
pub fn kernels(args: &[&str]) -> Result<()> {
    let metadata = workspace()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--workspace", "--profile", "quick", "--bin", "xtask-kernels"]);
    let is_built = build.current_dir(&metadata.workspace_root).status()?.success();
    ensure!(is_built, "xtask-kernels does not compile");
    let program = metadata.target_directory.as_std_path().join("quick/xtask-kernels");
    ensure!(Command::new(program).args(args).status()?.success(), "cargo xtask kernels failed");
    Ok(())
}

fn python_of(target: &Path) -> PathBuf {
    target.join("venv/bin/python")
}

/// The directory of libnvrtc among the packages of [`install`].
fn nvrtc_of(target: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(target.join("venv/lib")).ok()?.flatten();
    let directories = versions.map(|version| version.path().join("site-packages/nvidia/cu13/lib"));
    directories.into_iter().find(|directory| directory.is_dir())
}

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn runs(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
