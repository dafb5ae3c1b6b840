//! `cargo xtask test --mpi`: runs of several processes with each MPI library of this machine.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// An MPI library.
struct Library {
    name: &'static str,
    /// Debian's packages.
    packages: &'static str,
    /// Its compiler, by which the build finds it.
    compiler: &'static str,
    /// The launcher of processes, allowed to run as root and with more processes than cores.
    launcher: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library {
        name: "Open MPI",
        packages: "libopenmpi-dev openmpi-bin libclang-dev",
        compiler: "mpicc.openmpi",
        launcher: "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none",
    },
    Library {
        name: "MPICH",
        packages: "libmpich-dev mpich libclang-dev",
        compiler: "mpicc.mpich",
        launcher: "mpirun.mpich",
    },
];

/// The tests, and those of the crate that calls MPI.
const TESTS: [&str; 3] = [
    "clippy --profile quick -p operant-mpi -p operant-cli -p operant --features operant/mpi --all-targets -- -D warnings",
    "test --profile quick -p operant-mpi --features mpi",
    "test --profile quick -p operant --features mpi --test tests mpi:: -- --nocapture --test-threads=1",
];

impl Library {
    fn is_missing(&self) -> bool {
        let probe = Command::new(self.compiler).arg("--version").stdout(Stdio::null()).status();
        !probe.is_ok_and(|status| status.success())
    }

    fn cargo(&self, arguments: &str) -> Result<()> {
        eprintln!(
            "{}: MPICC={} OPERANT_TEST_MPIRUN={:?} cargo {arguments}",
            self.name, self.compiler, self.launcher
        );
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(arguments.split(' '))
            .env("MPICC", self.compiler)
            .env("OPERANT_TEST_MPIRUN", self.launcher)
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "`cargo {arguments}` failed with {} ({status})", self.name);
        Ok(())
    }

    fn test(&self) -> Result<()> {
        // The build of the bindings does not notice another library.
        self.cargo("clean --profile quick -p mpi-sys")?;
        TESTS.iter().try_for_each(|arguments| self.cargo(arguments))
    }
}

/// Tests with every library that is installed.
pub fn run() -> Result<()> {
    let (missing, found): (Vec<_>, Vec<_>) = LIBRARIES.iter().partition(|library| library.is_missing());
    for library in &missing {
        eprintln!("missing: {}: apt install {}", library.name, library.packages);
    }
    ensure!(!found.is_empty(), "there is no MPI library on this machine");
    found.iter().try_for_each(|library| library.test())?;
    let names: Vec<_> = found.iter().map(|library| library.name).collect();
    eprintln!("all good with {}", names.join(" and "));
    Ok(())
}
