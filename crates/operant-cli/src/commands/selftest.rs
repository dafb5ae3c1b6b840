//! `operant selftest`: checks this machine's CPU and GPU against each other, without a toolchain.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use operant_bench::selftest::{Report, SelftestOptions, check_cpu, check_gpu};
use operant_env::Registry;
use operant_run::{Error, dir};

use crate::output;

/// Check this machine: lanes, kernels, learning
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// What to test [default: the CPU, and a GPU if there is one]
    #[arg(value_enum)]
    target: Option<Target>,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Fewer and smaller sizes: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Only compile share K of N of the kernels; the self-test starts processes with it
    #[arg(long, value_name = "K/N", value_parser = super::bench::share, hide = true)]
    compile: Option<[usize; 2]>,
    /// Which GPU, as the driver numbers them
    #[arg(long, value_name = "K", default_value_t = 0)]
    gpu: usize,
    /// The environments that are tested on a GPU [default: one of each kind]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    env: Vec<String>,
}

const AFTER_HELP: &str = "\
Checks that lanes and kernels compute what the scalar CPU does (environments,
rollouts, updates, replay) and that the presets learn. Only kernels are
compiled: a binary copied to a GPU machine is enough. `operant bench` measures
speeds.

Examples:
  operant selftest gpu --out h200.json    the first GPU
  operant selftest gpu --env cartpole     the same with one environment
  operant selftest cpu --quick            a few seconds

Exit codes: 0 all good, 1 a check failed or there is no such GPU, 2 bad usage";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Lanes and learning on this CPU
    Cpu,
    /// Kernels on a GPU, against the CPU
    Gpu,
}

/// Runs the tests.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    // A file that cannot be written is detected now, not after minutes.
    if let Some(path) = &args.out {
        let writable = fs::OpenOptions::new().create(true).append(true).open(path);
        writable.map_err(|error| {
            Error::usage(format!("the result cannot be written: {error}"))
                .at(format!("--out {}", path.display()))
                .remedy("name a file in a directory that you can write to")
        })?;
    }
    let found = args.env.iter().map(|name| registry.find(name).map(|env| env.spec().name));
    let envs: Vec<String> = found.collect::<Result<_, _>>().map_err(|error| {
        Error::usage(error.to_string()).at("--env").remedy("name one that `operant envs` lists")
    })?;
    let mut report = Report::default();
    let extent = SelftestOptions { quick: args.quick, compile: args.compile };
    if args.target != Some(Target::Gpu) {
        check_cpu(&mut report, registry, extent);
    }
    if args.target != Some(Target::Cpu) {
        match check_gpu(&mut report, registry, extent, (args.gpu, &envs)) {
            Err(error) if args.target == Some(Target::Gpu) => {
                let (problem, remedy) = error.parts();
                let place = format!("selftest gpu --gpu {}", args.gpu);
                let error = Error::new(operant_run::ErrorKind::Device, problem).at(place);
                return Err(error.remedy(remedy).into());
            }
            Err(error) => output::warn(&format!("gpu: not tested: {error}")),
            Ok(()) => {}
        }
    }
    let value = report.to_json();
    if let Some(path) = &args.out {
        let text = format!("{:#}\n", value);
        dir::write_output(path, text)
            .map_err(|error| Error::disk("the result cannot be written", path, &error))?;
    }
    let failed = report.checks.iter().filter(|check| !check.problems.is_empty()).count();
    if args.json {
        output::print(&format!("{value}\n"))?;
    } else {
        output::print(&format!("{} checks, {failed} failed\n", report.checks.len()))?;
    }
    Ok(u8::from(!report.good()))
}
