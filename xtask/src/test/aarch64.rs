//! `cargo xtask test --aarch64`: the whole program for 64-bit ARM, its tests under emulation, and a comparison of its bits with this machine's.

use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::cross::{self, AARCH64 as TARGET, EMULATOR, Toolchain};
use crate::operant::state;

/// Builds the program and the tests of all that depends on lanes by one command, so that features agree and nothing is compiled twice.
const BUILD: &str =
    "test -p operant -p operant-lane -p operant-env -p operant-learn --profile quick --test tests --target";
/// The tests that run, few because an operation on an emulated vector of four f32 takes as long as 200 on this machine. `operant`'s own tests
/// start programs, and an emulated program cannot start another.
const TESTS: &[&str] = &[
    "conformance::",
    "philox::",
    "accuracy::edges_are_as_documented",
    "accuracy::sine_and_cosine_keep_their_bits",
    "lanes::briefly",
    "reference::every_environment_with_a_reference",
    "update::bits_are_the_same_on_every_machine",
    "pqn::a_resumed_run",
];

/// Trainings whose states are compared: parameters, moments, environments. The first has 1.1 G multiply-adds.
const TRAININGS: [&str; 4] = [
    "cartpole --steps 4096",
    "pendulum --steps 4096 --set hidden=[16,16]",
    "cartpole --steps 4096 --algorithm pqn --set hidden=[16]",
    "minatar_breakout --steps 2048 --set hidden=[16] --set num_envs=16 --set num_steps=64 --set update_epochs=1",
];
const CASE: &str = r#"{"state":[0,0,0.1,0],"actions":[1,1,0,1,1,0,0,0,1,0,1,1,1,1,1,1]}"#;

/// Builds, runs and compares.
pub fn run() -> Result<()> {
    ensure!(std::env::consts::ARCH == "x86_64", "--aarch64 compares with x86-64: run it on such a machine");
    let toolchain = cross::aarch64()?;
    let target = crate::tools::workspace()?.target_directory.into_std_path_buf();
    let debian = cross::debian(&target)?;
    timed("the program and its tests are built", || {
        cargo(toolchain, &format!("{BUILD} {TARGET} --no-run")).map(drop)
    })?;
    timed("tests pass under emulation", || {
        let output = cargo(toolchain, &format!("{BUILD} {TARGET} -- {}", TESTS.join(" ")))?;
        let ran = |test: &str| output.lines().any(|line| line.starts_with(&format!("test {test}")));
        let missing: Vec<_> = TESTS.iter().filter(|test| !ran(test)).collect();
        ensure!(missing.is_empty(), "there are no tests {missing:?}");
        let passed =
            output.lines().filter(|line| line.starts_with("test ") && line.ends_with("... ok")).count();
        eprintln!("{passed} tests passed");
        Ok(())
    })?;
    // With the features of the whole workspace, to share what other tests compile.
    timed("this machine's program is built", || {
        cargo(Toolchain::Own, "build --workspace --profile quick --bin operant").map(drop)
    })?;
    let here = |args: &str| operant(Command::new(target.join("quick/operant")), args);
    let emulated = |args: &str| {
        let mut emulator = Command::new(EMULATOR);
        emulator.arg("-L").arg(&debian).arg(target.join(TARGET).join("quick/operant"));
        operant(emulator, args)
    };
    timed("`operant info` runs and names the target", || {
        let info = emulated("info")?;
        ensure!(String::from_utf8_lossy(&info).contains("linux aarch64"), "it does not");
        Ok(())
    })?;
    for device in ["scalar --precision f64", "scalar --precision f32", "wide"] {
        let replay = format!("replay cartpole --device {device}");
        timed(&format!("`operant {replay}`: equal bytes"), || {
            ensure!(emulated(&replay)? == here(&replay)?, "other bytes than on x86-64");
            Ok(())
        })?;
    }
    for training in TRAININGS {
        timed(&format!("`operant train {training}`: equal weights"), || {
            let runs = target.join("aarch64-runs");
            let _ = std::fs::remove_dir_all(&runs);
            let arguments = |name| {
                format!(
                    "train {training} --seed 1 --set threads=2 --no-ring --quiet --name {name} --run-dir {}",
                    runs.display()
                )
            };
            here(&arguments("here"))?;
            emulated(&arguments("emulated"))?;
            ensure!(
                state(&runs.join("here"))? == state(&runs.join("emulated"))?,
                "other weights than on x86-64"
            );
            Ok(())
        })?;
    }
    Ok(())
}

/// Says what a step found, and how long that took.
fn timed(what: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    step().with_context(|| format!("failed: {what}"))?;
    eprintln!("good: {what}, {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Runs cargo for either machine, and returns what it prints.
fn cargo(toolchain: Toolchain, arguments: &str) -> Result<String> {
    let mut command = toolchain.cargo();
    command.args(arguments.split(' '));
    if arguments.contains(TARGET) {
        cross::flags(&mut command, true);
        let target = crate::tools::workspace()?.target_directory.into_std_path_buf();
        let runner = format!("{EMULATOR} -L {}", cross::debian(&target)?.display());
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    }
    let Output { status, stdout, .. } =
        command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    ensure!(status.success(), "`cargo {arguments}` failed ({status}):\n{stdout}");
    Ok(stdout)
}

/// What `operant`, here or emulated, prints for these arguments.
fn operant(mut program: Command, arguments: &str) -> Result<Vec<u8>> {
    use std::io::Write;
    program.args(arguments.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().context("cannot start operant")?;
    // A command that reads nothing closes the pipe.
    let _ = child.stdin.take().map(|mut stdin| writeln!(stdin, "{CASE}"));
    let Output { status, stdout, stderr } = child.wait_with_output()?;
    ensure!(
        status.success(),
        "`operant {arguments}` failed ({status}):\n{}",
        String::from_utf8_lossy(&stderr)
    );
    Ok(stdout)
}
