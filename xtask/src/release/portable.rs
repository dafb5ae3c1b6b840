//! The portable program: the whole of operant compiled for each level of x86-64, and linked into one executable that chooses.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::operant::state;
use crate::wheel::Workshop;

/// The levels of x86-64, as `bin/operant-portable/src/main.rs` knows them.
pub const LEVELS: [&str; 3] = ["v2", "v3", "v4"];

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The oldest glibc that the program runs with, as wheels have it.
const GLIBC: &str = "2.28";
/// The function that is the whole of operant; a copy's has the level's name at its end.
const MAIN: &str = "operant_level_main";

/// Where programs are built, by a Python with cargo-zigbuild, and the profile.
pub struct Place<'a> {
    pub workshop: &'a Workshop<'a>,
    pub profile: &'a str,
}

/// Builds the program; returns its path.
///
/// # Errors
///
/// A step fails.
pub fn build(place: &Place<'_>) -> Result<PathBuf> {
    let objects = place.workshop.emptied("tmp/portable")?;
    let copies: Vec<PathBuf> =
        LEVELS.iter().map(|level| copy(place, level, &objects)).collect::<Result<_>>()?;
    // Its own code is for every x86-64.
    let mut launcher = place.cargo("x86-64", "launcher", &["--bin", "operant-portable"]);
    launcher.arg("--");
    for copy in &copies {
        launcher.arg("-C").arg(format!("link-arg={}", copy.display()));
    }
    place.workshop.step(launcher.args(["-C", "link-arg=-lm"]))?;
    Ok(place.target_of("x86-64").join(TRIPLE).join(place.profile).join("operant-portable"))
}

/// One object with operant for a level, of which the linker sees the main function alone: copies have thousands of names in common.
fn copy(place: &Place<'_>, level: &str, objects: &Path) -> Result<PathBuf> {
    let cpu = format!("x86-64-{level}");
    eprintln!("{cpu}: building");
    place.workshop.step(&mut place.cargo(&cpu, "level", &["--lib", "--crate-type", "staticlib"]))?;
    let library = place.target_of(&cpu).join(TRIPLE).join(place.profile).join("liboperant_portable.a");
    let object = objects.join(format!("{level}.o"));
    let mut ld = Command::new("ld");
    // Groups would be taken for those of the other copies, of which the linker keeps one.
    ld.args(["--relocatable", "--force-group-allocation", "--gc-sections", "--strip-debug"]);
    ld.args(["--entry", MAIN, "--undefined", MAIN]);
    place.workshop.step(ld.arg("--output").arg(&object).arg(&library))?;
    let renamed = format!("{MAIN}=operant_main_{level}");
    let kept = format!("operant_main_{level}");
    place.workshop.step(Command::new("objcopy").args(["--redefine-sym", &renamed]).arg(&object))?;
    place.workshop.step(Command::new("objcopy").args(["--keep-global-symbol", &kept]).arg(&object))?;
    Ok(object)
}

impl Place<'_> {
    /// Where cargo builds for a processor.
    fn target_of(&self, cpu: &str) -> PathBuf {
        self.workshop.target.join(cpu)
    }

    /// `cargo rustc` by zig's linker, for a processor and with a feature of `operant-portable`.
    fn cargo(&self, cpu: &str, feature: &str, what: &[&str]) -> Command {
        let mut cargo = Command::new(self.workshop.python.with_file_name("cargo-zigbuild"));
        cargo
            .args(["rustc", "--quiet", "--package", "operant-portable", "--profile"])
            .args([self.profile, "--features", feature, "--target", &format!("{TRIPLE}.{GLIBC}")])
            .arg("--target-dir")
            .arg(self.target_of(cpu))
            .args(what)
            .env("RUSTFLAGS", format!("-C target-cpu={cpu}"))
            .env("OPERANT_LEVEL", cpu)
            .env("CARGO_ZIGBUILD_PYTHON_PATH", self.workshop.python) // whose package ziglang is meant
            .env_remove("CARGO_ENCODED_RUSTFLAGS"); // it would win over RUSTFLAGS
        cargo
    }
}

/// Runs a training at each level that this processor has and compares the weights; returns the levels.
///
/// # Errors
///
/// No level runs, or two of them compute different bits.
pub fn compare(program: &Path, scratch: &Path) -> Result<Vec<&'static str>> {
    let mut found: Vec<(&str, Vec<u8>)> = Vec::new();
    for level in LEVELS {
        let runs = scratch.join(level);
        let mut train = Command::new(program);
        train.args(
            "train cartpole --seed 1 --steps 4096 --set hidden=[16,16] --no-ring --quiet --name bits"
                .split(' '),
        );
        train.arg("--run-dir").arg(&runs).env("OPERANT_ISA", level);
        let output = train.output().with_context(|| format!("cannot start {}", program.display()))?;
        let problem = String::from_utf8_lossy(&output.stderr);
        if problem.contains("this processor lacks") {
            println!("SKIPPED the program at {level}: {}", problem.lines().next().unwrap_or_default());
            continue;
        }
        ensure!(output.status.success(), "{train:?} failed ({}):\n{problem}", output.status);
        found.push((level, state(&runs.join("bits"))?));
    }
    ensure!(!found.is_empty(), "the program runs at no level");
    for pair in found.windows(2) {
        ensure!(pair[0].1 == pair[1].1, "{} and {} compute different weights", pair[0].0, pair[1].0);
    }
    Ok(found.into_iter().map(|(level, _)| level).collect())
}
