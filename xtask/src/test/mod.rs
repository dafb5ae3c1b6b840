//! `cargo xtask test`: the steps of each tier, announced with their times.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::Metadata;

use crate::tools::{Missing, Tools};
use crate::{clients, mpi};

mod aarch64;
mod apple;
mod programs;
pub mod times;

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// `cargo xtask test`: run while working.
    Quick,
    /// `--landing`: what `.ci/run` runs.
    Landing,
    /// `--all`: also the tests marked `#[ignore]`, kernels, documentation and other instruction sets.
    All,
    /// `--nightly`: only the tests whose names contain `nightly_`, and every lane.
    Nightly,
}

impl Tier {
    /// The arguments of a test program. Tests beyond those of `--landing` are marked `#[ignore]`.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Tier::Quick => WITHOUT_SLOW,
            Tier::Landing => &[],
            Tier::All => &["--include-ignored", "--skip", "nightly_"],
            Tier::Nightly => &["--ignored", "nightly_"],
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Tier::Quick => "",
            Tier::Landing => " --landing",
            Tier::All => " --all",
            Tier::Nightly => " --nightly",
        }
    }
}

/// One cargo command, the variables it runs under, and what it is for.
struct Step {
    name: &'static str,
    env: Vec<(&'static str, String)>,
    args: &'static str,
    /// Whether it is `cargo test`, whose programs are run by this program, side by side.
    is_tests: bool,
    /// The arguments of the test programs.
    arguments: &'static [&'static str],
    /// Whether this machine lacks a tool for it.
    is_missing: bool,
}

impl Step {
    fn new(name: &'static str, args: &'static str) -> Step {
        Step { name, env: Vec::new(), args, is_tests: false, arguments: &[], is_missing: false }
    }

    fn tests(name: &'static str, args: &'static str, tier: Tier) -> Step {
        Step { is_tests: true, arguments: tier.arguments(), ..Step::new(name, args) }
    }

    fn env(mut self, key: &'static str, value: impl Into<String>) -> Step {
        self.env.push((key, value.into()));
        self
    }

    /// The command as a user types it in the workspace's root.
    fn shell(&self) -> String {
        let env: String = self.env.iter().map(|(key, value)| format!("{key}=\"{value}\" ")).collect();
        format!("{env}cargo {}{}", self.args, self.dashes())
    }

    /// The arguments of the test programs as a user types them. The slow tests run there too, since naming each would fill the screen.
    fn dashes(&self) -> String {
        if self.arguments == WITHOUT_SLOW { String::new() } else { programs::behind_dashes(self.arguments) }
    }

    /// Runs it and returns the lines of tests that were skipped.
    fn run(&self, metadata: &Metadata, xtask: &Path, log: &Path, tools: &Tools) -> Result<Vec<String>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (program, args) = match self.args.strip_prefix("xtask ") {
            // `cargo xtask` would compile xtask again, because its features alone differ from those of the workspace.
            Some(args) => (xtask.as_os_str(), args),
            None => (cargo.as_os_str(), self.args),
        };
        let mut command = Command::new(program);
        command.current_dir(&metadata.workspace_root).args(args.split(' ')).stderr(Stdio::piped());
        command.envs(tools.variables.iter().map(|(name, value)| (name, value)));
        times::time_compilations(&mut command, log)?;
        if std::io::stderr().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        for (key, value) in &self.env {
            command.env(key, value);
            if *key == "RUSTFLAGS" {
                command.env_remove("CARGO_ENCODED_RUSTFLAGS"); // it would win over RUSTFLAGS
            }
        }
        if self.is_tests {
            command.stderr(Stdio::inherit());
            let repeat = |program: &str| match self.args.contains("--workspace") {
                true => format!("cargo test --profile quick --package {program}{}", self.dashes()),
                false => self.shell(),
            };
            return programs::run(metadata, &mut command, self.arguments, log, &tools.variables, repeat);
        }
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", self.shell()))?;
        let skipped = child.stderr.take().map(forward).unwrap_or_default();
        let status = child.wait()?;
        if !status.success() {
            bail!("{} failed ({status}); to repeat only this step:\n\n    {}\n", self.name, self.shell());
        }
        Ok(skipped)
    }
}

/// The steps, the quick ones first. `target` is where cargo builds. All but those of other lanes use the features of the whole workspace,
/// so that they share what they compile.
fn steps(target: &Path, tools: &Tools, tier: Tier) -> Vec<Step> {
    let tests = Step::tests("tests", "test --workspace --profile quick --tests", tier);
    if tier == Tier::Nightly {
        let every_lane =
            "test --package operant-env --features operant-env/every-lane --profile quick --test tests";
        let arguments = &["--include-ignored", "lanes::", "rows::"];
        let large = Step::new("kernels of large rules", "xtask kernels --large --all");
        return vec![
            tests,
            Step { arguments, ..Step::tests("every lane", every_lane, tier) },
            Step { is_missing: tools.lacks_nvrtc(), ..large },
        ];
    }
    let package = if tier == Tier::All { "xtask wheel --test --all" } else { "xtask wheel --test" };
    let mut steps = vec![
        Step::new("format", "fmt --all --check"),
        Step::new("lints", "clippy --workspace --all-targets --profile quick -- -D warnings"),
        tests,
        Step { is_missing: tools.lacks_python(), ..Step::new("Python package", package) },
    ];
    if matches!(tier, Tier::Quick | Tier::Landing) {
        return steps;
    }
    steps.extend([
        Step::new("doc tests", "test --workspace --profile quick --doc"),
        Step { is_missing: tools.lacks_nvrtc(), ..Step::new("kernels", "xtask kernels --check") },
        Step {
            is_missing: tools.lacks_nvrtc(),
            ..Step::new("kernels of large rules", "xtask kernels --large")
        },
        Step::new("documentation", "doc --workspace --no-deps --document-private-items --profile quick")
            .env("RUSTDOCFLAGS", "-D warnings"),
    ]);
    #[cfg(target_arch = "x86_64")]
    {
        let on = |level: &str, what, args, arguments| {
            Step { arguments, ..Step::tests(what, args, tier) }
                .env("RUSTFLAGS", format!("-C target-cpu={level}"))
                .env("CARGO_TARGET_DIR", target.join(level).display().to_string())
        };
        // No FMA and no AVX on v2: the bits must be the same.
        let lanes = "test --package operant-lane --profile quick --tests";
        steps.push(on("x86-64-v2", "lanes on x86-64-v2", lanes, &["--skip", "nightly_"]));
        // Half as wide vectors on v3, unless this machine's own are those.
        if std::is_x86_feature_detected!("avx512f") {
            let learner = "test --package operant-learn --package operant-env --profile quick --test tests";
            steps.push(on("x86-64-v3", "learner and worlds on x86-64-v3", learner, OF_LANES));
        }
    }
    steps
}

/// The tests that take longest, some 500 CPU seconds together: `cargo xtask test` leaves them out, `--landing` runs them.
const SLOW: [&str; 22] = [
    "gradients::few_cases::gradients_are_those_of_automatic_differentiation",
    "update::few_cases::reference_gradient_matches_finite_differences",
    "update::few_cases::threads_never_change_a_bit",
    "cuda::update::few_cases::embeddings_follow_the_cpu",
    "cuda::nvrtc::kernels_compile_without_a_warning",
    "cuda::backend::few_cases::a_restored_backend_continues_bit_for_bit",
    "bf16::gradients_are_near_those_of_the_reference",
    "sweep::a_killed_sweep_goes_on_with_the_same_table_and_bits",
    "sweep::a_sweep_killed_at_20_random_moments_goes_on_with_the_same_table_and_bits",
    "play_checkpoint::numpy_plays_checkpoints_in_gymnasium",
    "tune::every_setting_is_tried_unless_it_is_given",
    "tune::the_result_is_written_and_used_by_training",
    "gpu_cli::a_gpu_replays_the_bytes_of_the_scalar_lane",
    "gpu_cli::a_policy_with_memory_trains_and_resumes_on_a_gpu",
    "gpu_round::a_round_measures_compares_and_skips_what_does_not_fit",
    "bench::lists_are_swept_and_shown_as_a_table_and_drawn",
    "play::a_film_has_a_frame_for_every_state",
    "autoreset::a_tile_can_have_a_time_limit_of_its_own",
    "autoreset::a_row_with_a_seed_is_environment_0_of_that_seed",
    "tests::no_size_panics",
    "loom::two_readers_get_complete_contents_in_order",
    "onnx::onnxruntime_computes_what_the_engine_does",
];

/// `--skip` before each of [`SLOW`].
const WITHOUT_SLOW: &[&str] = &{
    let mut arguments = ["--skip"; 2 * SLOW.len()];
    let mut at = 0;
    while at < SLOW.len() {
        arguments[2 * at + 1] = SLOW[at];
        at += 1;
    }
    arguments
};

/// The tests whose results may depend on the width of lanes: of the learner on the CPU, then of environments.
const OF_LANES: &[&str] = &[
    "--include-ignored",
    "--skip",
    "nightly_",
    "--skip",
    "cuda::",
    "backend::",
    "bf16::",
    "cpu_options::",
    "update::",
    "autoreset::",
    "flight::",
    "lanes::",
    "minigrid::",
    "reference::",
    "rows::",
];

/// Tests that say SKIPPED for a reason of the machine, not of a missing tool: `--no-skips` lets them pass.
const OF_THE_MACHINE: &[&str] = &[
    "does not work here",
    "only root",
    "this machine has one",
    "this one has",
    "cuBLASLt",
    "does not support it",
    // gcc is there; other compilers of C only add to what it shows.
    "C files by",
];

/// Runs every step in order. With `--no-skips`, a missing tool or a skipped test is an error.
///
/// # Errors
///
/// The first step that fails, with the command that repeats it; or a workspace that cargo cannot read.
pub fn run(args: &[&str]) -> Result<()> {
    let (tier, no_skips) = match args {
        [] => (Tier::Quick, false),
        ["--no-skips"] => (Tier::Quick, true),
        ["--landing"] => (Tier::Landing, false),
        ["--landing", "--no-skips"] => (Tier::Landing, true),
        ["--all"] => (Tier::All, false),
        ["--all", "--no-skips"] => (Tier::All, true),
        ["--nightly"] => (Tier::Nightly, false),
        ["--nightly", "--no-skips"] => (Tier::Nightly, true),
        ["--clients"] => return clients::run(&clients::TORCH),
        ["--ray"] => return clients::run(&clients::RAY),
        ["--trackers"] => return clients::run(&clients::TRACKERS),
        ["--mpi"] => return mpi::run(),
        ["--aarch64"] => return aarch64::run(),
        ["--apple"] => return apple::run(),
        ["--page"] => return crate::page::test(),
        other => {
            let other = other.join(" ");
            bail!(
                "`{other}` is not understood; give nothing, --landing, --all or --nightly, --no-skips, --clients, --ray, --trackers, --mpi, --aarch64, --apple or --page"
            )
        }
    };
    let metadata = crate::tools::workspace()?;
    let target = metadata.target_directory.as_std_path();
    let tools = Tools::find(target);
    for Missing { name, skipped, command } in &tools.missing {
        eprintln!("missing: {name}: {command}\n  skipped without it: {skipped}");
    }
    ensure!(!no_skips || tools.missing.is_empty(), "--no-skips: tools are missing");
    let steps = steps(target, &tools, tier);
    std::fs::create_dir_all(target)?;
    let log = times::log_of(target);
    match std::fs::remove_file(&log) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    // Asked before a step builds this program again, in the same place.
    let xtask = times::this_program()?;
    let begin = Instant::now();
    let mut skipped: BTreeSet<String> = BTreeSet::new();
    for (index, step) in steps.iter().enumerate() {
        let number = format!("[{}/{}] {}", index + 1, steps.len(), step.name);
        eprintln!("{number}: {}", step.shell());
        if step.is_missing {
            skipped.insert(format!("SKIPPED step {}", step.name));
            continue;
        }
        let start = Instant::now();
        let run = || step.run(&metadata, xtask, &log, &tools);
        skipped.extend(times::step(&log, step.name, run)?);
        eprintln!("{number}: good, {:.1} s", start.elapsed().as_secs_f64());
    }
    eprint!("{}", times::table(&log, 10)?);
    for line in &skipped {
        eprintln!("{line}");
    }
    let of_tools = |line: &&String| !OF_THE_MACHINE.iter().any(|reason| line.contains(reason));
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(!no_skips || !skipped.iter().any(|line| of_tools(&line)), "--no-skips: tests were skipped");
    match skipped.len() {
        0 => eprintln!("test{}: all good, {seconds:.0} s", tier.flag()),
        count => eprintln!("test{}: all good but for {count} skipped, {seconds:.0} s", tier.flag()),
    }
    Ok(())
}

/// Copies what a command writes to its stderr, and keeps the lines that say what was skipped.
fn forward(from: impl std::io::Read) -> Vec<String> {
    let mut skipped = Vec::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        skipped.extend(line.starts_with("SKIPPED ").then(|| line.into_owned()));
    }
    skipped
}
