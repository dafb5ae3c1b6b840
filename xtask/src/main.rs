//! The commands for developers: `cargo xtask NAME`, one file for each.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod clients;
mod cross;
mod doc;
mod fuzz;
mod gpu;
mod learning;
mod lines;
mod mpi;
mod operant;
mod page;
mod release;
mod site;
mod soak;
mod suite;
mod test;
mod tools;
mod wheel;
mod worlds;

const HELP: &str = "\
Commands for developers of operant.

Usage: cargo xtask <COMMAND>

Commands:
  test [--all | --nightly] [--no-skips]
          Format, lints, tests, and the Python package. Stops at the first step that fails and prints the command
          that repeats it. Tests that need a missing C++ compiler, Python or NVRTC are listed as SKIPPED; with
          --no-skips a skip is an error. Prints the time of each step.
          --all adds what must pass before a change is merged: longer tests, doc tests, kernels for each generation of
          GPUs, documentation, other instruction sets, the whole suite of the Python package.
          --nightly runs only the longest tests: every world on the simulated GPU in three orders of threads,
          kernels under sanitizers, every width of lanes, and kernels of large rules for every architecture.
  test --clients
          Tests the Python package with clients that need PyTorch: Stable-Baselines3, TorchRL and the examples. Makes
          target/clients-venv from requirements-clients.txt, 3 GB to download. Not part of `test`: run it before a
          change to the package is merged.
  test --ray
          Tests the Python package on a Ray cluster of three nodes on this machine. Makes target/ray-venv from
          requirements-ray.txt. Not part of `test`: run it before a change to operant.ray is merged.
  test --trackers
          Tests the Python package with Weights & Biases, MLflow, Trackio and TensorBoard, all offline. Makes
          target/trackers-venv from requirements-trackers.txt. Not part of `test`: run it before a change to
          operant.track is merged.
  test --mpi
          Runs of several processes, with the MPI libraries of this machine: Open MPI, MPICH. Not part of `test`:
          run it before a change to operant-mpi or operant-run's distributed.rs is merged.
  test --aarch64
          Builds the whole program for 64-bit ARM (Linux) and runs it under emulation: tests of lanes, environments and
          learner; info, replay and training, whose bytes and weights must be those of x86-64. Installs what is missing:
          the standard library by rustup or Debian's compiler, the cross linker and QEMU. Not part of `test`: run it
          before a change to lanes or to the learner's kernels is merged.
  test --apple
          Checks the types of the crates for macOS on ARM; nothing is linked or run. Installs what is missing: the
          target by rustup, or Debian's compiler with the standard library's source. Not part of `test`: run it before a
          change to a crate's os/macos.rs or to its dependencies is merged.
  test --page
          Episodes of every world and kind of policy in the runtime of `operant export --html`, in Node.js, and pages in
          headless Chromium: the bits of the engine. Part of `test --all` where both are installed.
  lines   Counts lines of code, unit tests, tests and data per crate, and compares them with the budget.
  times [FILE]
          Prints the wall and CPU seconds of each step, compilation and test program of the last `test`.
  python  Makes the Python environment of the tests in target/venv, from requirements-test.txt.
  wheel [--test [--all]]
          Builds the Python package for x86-64-v3 and v4 into target/wheels as one wheel for Linux with glibc 2.28
          or newer, and tests it. --test builds a quick wheel for this machine only and runs the quick tests;
          --test --all runs the whole suite, and arrays on the simulated GPU.
  wheel --aarch64 [--test]
          Builds the Python package for Linux on 64-bit ARM with glibc 2.28 or newer into target/wheels, and runs a part
          of its tests under emulation, with the Python of a Debian in target/aarch64-debian. --test builds a quick wheel
          and only tests it.
  release [--quick] [--aarch64] [--python COMMAND]..
          Builds all that is published of a version into target/release/VERSION: source distribution, wheel, and one
          program for every x86-64 processor that chooses its level when it starts; with checksums and the version's
          entry of CHANGELOG.md. Tries the wheel in empty environments of the Pythons 3.10 to 3.14 in the PATH, and of
          COMMAND, such as `chroot DIR python3`. --aarch64 adds the wheel for 64-bit ARM and needs what `wheel
          --aarch64` needs; --quick builds with the quick profile, to try this command.
  metrics-doc
          Writes docs/metrics.md from the table of metrics.
  config-doc
          Writes the tables of docs/configuration.md from the rows of the settings.
  worlds [--diff NAME]
          After a change of environments: formats them and writes docs/worlds.md, kernels/envs and the list of
          environments that tests play. --diff NAME shows how the CUDA text of NAME differs from the last commit.
  page    After a change of environments or policies: compiles the runtime of `operant export --html` to WebAssembly, for
          minutes, and puts it into crates/operant-sweep/src/player. Installs the standard library of
          wasm32-unknown-unknown by rustup.
  learning [--gpu-presets] [--seeds A..B] [--set KEY=VALUE].. [ENV]..
          Trains every environment with its preset, seeds 1-10 and 101-110, and prints the table of
          docs/results/learning-cpu.md. --gpu-presets trains with the GPU presets, on the CPU, and prints the table
          of docs/results/learning-gpu-presets.md.
  learning --suite [--short] [--set KEY=VALUE]..
          Trains the tasks of benches/suite.toml with their presets, or with other settings. Each finished run is
          appended to docs/results/suite.tsv; runs that have a row are not trained again, so delete the rows after a
          change of the learner's code. Then docs/results/suite.md is written. --short: six tasks, three seeds.
  learning --algorithms [ENV]..
          The same for the tasks of benches/algorithms.toml: what PPO, PQN, SAC, TD3 and DQN learn. Each run adds a row
          to docs/results/algorithms.tsv. All tasks take days; after an interruption the same command continues the
          runs in target/learning-algorithms. In the background: nice -n 19 cargo xtask ...
          gym:ENV needs Gymnasium with box2d and mujoco in the python3 of the PATH.
  kernels [--check | --all | --large [--all] [FAMILY]]
          Compiles every kernel, with NVRTC and without a GPU, and writes docs/results/kernels.md: registers,
          shared memory, stack and spills of every function. --check compares instead; --all checks every
          environment but MuJoCo's tasks and Craftax with every network for every architecture, only for spills and
          warnings.
          --large prints what the programs of MuJoCo's tasks and Craftax need on sm_90, --large --all on every architecture.
  gpu [--quick]
          Builds a binary for any x86-64-v3 machine and runs `operant selftest gpu` with it, if there is a GPU
          here.
  gpu --round
          Builds the same binary and puts it into target/gpu-round, with a script that checks and measures a GPU
          in eight minutes; runs it if there is a GPU here. The folder can be copied to another machine.
  gpu --report [DIRECTORY]
          Writes the tables of docs/results/gpu.md from the results of a round.
  fuzz [--runs N]
          Gives the ring's reader a million random inputs, or N; needs cargo-fuzz.
  fuzz --seconds N [--from K]
          Reads worlds, tables of sweeps and checkpoints, changed at random and generated, each kind for N seconds, from
          input K on. `test --all` does it for 20 seconds from input 0 on.
  site [--no-rust]
          Builds the documentation as a site with search and the APIs of Python and Rust, in target/site/html. --no-rust
          leaves rustdoc's pages out.
  soak    Trains 10 M steps at 512, 2,048 and 8,192 environments: values stay finite, memory does not grow.
  soak gpu [--minutes M] [FLAG]..
          The same on a GPU for ten minutes or M, then SIGTERM; the flags are those of `operant train`.
  help    This text.
";

fn main() -> ExitCode {
    if let Some(result) = test::times::wrapped() {
        return result.unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        });
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["fuzz", ref args @ ..] => fuzz::run(args),
        ["gpu", ref args @ ..] => gpu::run(args),
        ["kernels", ref args @ ..] => tools::kernels(args),
        ["learning", "--algorithms", ref envs @ ..] => suite::algorithms(envs),
        ["learning", "--suite", ref args @ ..] => suite::run(args),
        ["learning", ref args @ ..] => learning::run(args),
        ["lines"] => lines::run(),
        ["metrics-doc"] => doc::run("docs/metrics.md", "markdown"),
        ["config-doc"] => doc::run("docs/configuration.md", "configuration")
            .and_then(|()| doc::run(doc::PYTHON_TYPES, "python_types")),
        ["site", ref args @ ..] => site::run(args),
        ["soak", ref args @ ..] => soak::run(args),
        ["page"] => page::run(),
        ["python"] => tools::install(),
        ["release", ref args @ ..] => release::run(args),
        ["wheel", ref args @ ..] => wheel::run(args),
        ["test", ref args @ ..] => test::run(args),
        ["times", ref args @ ..] => test::times::print(args),
        ["worlds", ref args @ ..] => worlds::run(args),
        _ => {
            eprintln!("error: there is no `cargo xtask {}`\n\n{HELP}", args.join(" "));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
