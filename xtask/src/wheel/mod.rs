//! `cargo xtask wheel`: the Python package as a wheel, and its tests.

pub mod aarch64;
pub mod levels;
mod licenses;
#[path = "../../../crates/operant-cuda/tests/support/stand_in.rs"]
mod stand_in;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// The package's sources and tests, below the root.
const SOURCES: &str = "crates/operant-python/python/operant";
const TESTS: &str = "crates/operant-python/tests";

/// Tests and examples that need PyTorch are those of `cargo xtask test --clients`.
const WITHOUT_CLIENTS: [&str; 3] = [
    "--ignore=crates/operant-python/tests/clients",
    "--ignore=crates/operant-python/tests/ray",
    "--ignore=crates/operant-python/tests/trackers",
];
const EXAMPLES: [&str; 7] = [
    "examples/cem_cartpole.py",
    "examples/jax_dlpack.py",
    "examples/train_cartpole.py",
    "examples/worlds/breakout.py",
    "examples/worlds/cartpole.py",
    "examples/worlds/pendulum.py",
    "examples/worlds/snake.py",
];

/// Builds the wheel into `target/wheels` and tests each of its levels; with `--test`, one of this machine's level that is quick to build:
/// its quick tests, or with `--all` the whole suite and arrays on the simulated GPU.
pub fn run(args: &[&str]) -> Result<()> {
    let metadata = tools::workspace()?;
    let (root, target) = (metadata.workspace_root.as_std_path(), metadata.target_directory.as_std_path());
    let (is_test, is_all) = match args {
        ["--aarch64"] => return aarch64::run(root, target, Some(("wheel", &target.join("wheels")))),
        ["--aarch64", "--test"] => return aarch64::run(root, target, None),
        [] => (false, true),
        ["--test"] => (true, false),
        ["--test", "--all"] => (true, true),
        other => bail!(
            "`{}` is not understood; give nothing, --test, --test --all, --aarch64 or --aarch64 --test",
            other.join(" ")
        ),
    };
    let python = tools::python(target).context("there is no Python for it: cargo xtask python makes one")?;
    let workshop = Workshop { root, target, python: &python };
    if !is_test {
        let wheel = levels::build(&workshop, "wheel", &target.join("wheels"))?;
        println!("{}: {:.1} MB", wheel.display(), std::fs::metadata(&wheel)?.len() as f64 / 1e6);
        return Ok(());
    }
    let installed = workshop.install_quickly()?;
    workshop.check_types()?;
    if !is_all {
        return workshop.step(pytest(&installed).args(["-m", "not long", TESTS]));
    }
    workshop.step(pytest(&installed).arg(TESTS))?;
    // In its own process, since a driver stays loaded; with streams that run late.
    let Some(directory) = stand_in::plain("arrays on a GPU") else { return Ok(()) };
    let mut on_stand_in = pytest(&installed);
    on_stand_in.envs(stand_in::environment(&directory)).env("OPERANT_HOST_STREAMS", "3");
    on_stand_in.env("OPERANT_TEST_STAND_IN", &directory).arg(format!("{TESTS}/test_device.py"));
    workshop.step(&mut on_stand_in)
}

/// Tests of the package in the environment of this Python, as many at a time as there are cores.
fn pytest(installed: &Path) -> Command {
    let mut command = Command::new(installed);
    command
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--durations=40", "--durations-min=2"])
        .args(["--numprocesses=auto", "--dist=worksteal"])
        .args(WITHOUT_CLIENTS);
    command
}

/// Where wheels are made: the workspace, where cargo builds, and the Python of the tests.
pub struct Workshop<'a> {
    pub root: &'a Path,
    pub target: &'a Path,
    pub python: &'a Path,
}

impl Workshop<'_> {
    /// Builds a wheel for this machine with the quick profile, and installs it into its own environment; returns its Python.
    pub fn install_quickly(&self) -> Result<PathBuf> {
        let out = self.emptied("tmp/python")?;
        // With the features of the workspace's tests, nothing but the package itself is compiled again.
        let features = ["--profile", "quick", "--features", "pyo3/extension-module,test-features"];
        let wheel = self.build(&features, &[], &out.join("wheel"))?;
        self.install(&wheel, &out.join("venv"))
    }

    /// Types of the package, of examples and of the code in README.md and docs; a line of a page's module has its number in the page.
    fn check_types(&self) -> Result<()> {
        let pages = self.emptied("tmp/python-pages")?;
        self.step(Command::new(self.python).arg(format!("{TESTS}/pages.py")).arg(&pages))?;
        let modules = std::fs::read_dir(&pages)?.map(|entry| Ok(entry?.path()));
        let modules: Vec<PathBuf> = modules.collect::<Result<_>>()?;
        let mut mypy = Command::new(self.python);
        mypy.args(["-m", "mypy", "--strict", "--no-error-summary", SOURCES]).args(EXAMPLES).args(&modules);
        self.step(mypy.env("MYPYPATH", "crates/operant-python/python"))?;
        let mut pyright = Command::new(self.python);
        pyright.args(["-m", "basedpyright", "--warnings", "--pythonpath"]).arg(self.python).arg(SOURCES);
        self.step(pyright.args(EXAMPLES).args(modules))
    }

    /// An empty directory below the target directory.
    pub fn emptied(&self, name: &str) -> Result<PathBuf> {
        let dir = self.target.join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Builds a wheel into the empty directory `out` and returns its path.
    fn build(&self, args: &[&str], variables: &[(&str, &str)], out: &Path) -> Result<PathBuf> {
        let mut maturin = Command::new(self.python);
        maturin.args(["-m", "maturin", "build", "--quiet", "--interpreter"]).arg(self.python);
        maturin.args(args).arg("--out").arg(out).envs(variables.iter().copied());
        maturin.env("CARGO_ZIGBUILD_PYTHON_PATH", self.python); // whose package ziglang is meant
        maturin.env_remove("CARGO_ENCODED_RUSTFLAGS"); // it would win over RUSTFLAGS
        self.step(&mut maturin)?;
        only_entry(out, ".whl")
    }

    /// Installs a wheel into its own environment in `dir`, which also sees the packages of the tests; returns its Python.
    fn install(&self, wheel: &Path, dir: &Path) -> Result<PathBuf> {
        self.step(Command::new(self.python).args(["-m", "venv", "--without-pip"]).arg(dir))?;
        let packages = |python: &Path| -> Result<PathBuf> {
            let print = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
            Ok(PathBuf::from(self.output(Command::new(python).args(["-c", print]))?))
        };
        let python = dir.join("bin/python");
        let shared = packages(self.python)?;
        std::fs::write(packages(&python)?.join("shared.pth"), shared.as_os_str().as_encoded_bytes())?;
        // What it depends on is there already.
        let mut pip = Command::new(self.python);
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "--python"]).arg(&python);
        self.step(pip.args(["install", "--no-index"]).arg(wheel))?;
        Ok(python)
    }

    /// Runs a command to its end.
    pub fn step(&self, command: &mut Command) -> Result<()> {
        let status =
            command.current_dir(self.root).status().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(status.success(), "{command:?} failed ({status})");
        Ok(())
    }

    /// What a command prints; its stderr is passed on.
    pub fn output(&self, command: &mut Command) -> Result<String> {
        command.current_dir(self.root).stderr(std::process::Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(output.status.success(), "{command:?} failed ({})", output.status);
        String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no text"))
    }
}

/// The one entry of a directory whose name ends so.
pub fn only_entry(dir: &Path, ending: &str) -> Result<PathBuf> {
    let entries =
        std::fs::read_dir(dir)?.flatten().filter(|it| it.file_name().to_string_lossy().ends_with(ending));
    let entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    ensure!(entries.len() == 1, "one {ending} is expected in {}, found {entries:?}", dir.display());
    Ok(entries[0].clone())
}
