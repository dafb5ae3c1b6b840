//! `operant bench`: measures the speed of this machine, its distance from hardware limits, and where the time goes.

mod plot;
pub mod show;

use std::path::PathBuf;
use std::time::Duration;

use operant_bench::bench::compare::Baseline;
use operant_bench::bench::plan::{BenchPlan, Request};
use operant_bench::bench::run::run as measure;
use operant_env::Registry;
use operant_metrics::printable;
use operant_run::{Error, SavedRun, Trust};
use serde_json::json;

use super::run_args::{self, seconds};
use crate::bar::Bar;
use crate::output;

/// Measure environments, rollout and training on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: Request,
    /// Measure a run's training: its environment and settings, except for those set here; by name or path
    #[arg(long, value_name = "RUN", conflicts_with = "envs")]
    run: Option<String>,
    /// Start the run's environment although it is a program that this user has not started before
    #[arg(long, requires = "run")]
    trust: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR", requires = "run")]
    run_dir: Option<String>,
    /// Approximate total time in seconds
    #[arg(long, value_name = "SECONDS", default_value = "50", value_parser = seconds)]
    budget: Duration,
    /// Show where the time of training goes, by phase and by operation, and the bottleneck
    #[arg(long)]
    profile: bool,
    /// Compare with the rows that an earlier `operant bench --json` printed into this file
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Draw the rows into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Measure one case after another, and print each row, or why there is none, at once as JSON
    #[arg(long, conflicts_with_all = ["profile", "compare", "plot"])]
    stream: bool,
    /// With --stream, env on a GPU: also count environments that differ from the scalar CPU in any bit
    #[arg(long)]
    bits: bool,
    /// Measure nothing; compile the kernels of every N-th case from the K-th on, for later commands (0/1: of all)
    #[arg(long, value_name = "K/N", value_parser = share)]
    compile: Option<[usize; 2]>,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  operant bench --envs 8192            a minute: environments, rollout, training
  operant bench train --profile        where the time of an update goes
  operant bench train --profile --run mine      with the settings of a run
  operant bench env --env all --json > before.jsonl
  operant bench env --env all --compare before.jsonl
  operant bench train --envs 1024,8192,65536 --threads 1,2 --plot out.svg
  operant bench --device cpu,cuda --precision f32,bf16
  operant bench env --env all --device cuda --stream --bits

  env      environments alone: random actions, auto-reset and time limit
  rollout  the same with the policy, sampling and advantages; nothing is learned
  train    whole updates of training, four epochs

Each row is the median of repetitions with the minimum and the maximum, in up to
four interleaved series; it ends when the middle half of them lies within 2%, or
the time is up. `a core` is steps/s of each thread. `of peak` is the
network's share of the multiply-adds, and `of memory` the samples' share of the
bandwidth, that the same threads reached in the same process.

A row is faster or slower than an earlier one when neither median lies between
the minimum and the maximum of the other, and they differ by 3% at least; the
exit code does not depend on it.

The work is the same everywhere: CleanRL's hyperparameters, networks of 64-64,
and these options. Presets, files and variables do not change it, except that
their device, threads, precision and kernels apply. With --run all settings are
the run's instead, also the defaults of these options, and the weights are those
of a new run.";

/// Share K of N: K below N.
pub fn share(text: &str) -> Result<[usize; 2], String> {
    let share = text.split_once('/').and_then(|(k, n)| Some([k.parse().ok()?, n.parse().ok()?]));
    share.filter(|[k, n]| k < n).ok_or_else(|| "give a share such as 0/4, the first of four".to_owned())
}

/// Compiles the kernels of a share of the cases. What does not compile is noted here, and is an error where it is measured.
fn compile(plan: &BenchPlan, [share, shares]: [usize; 2], bits: bool) -> u8 {
    let cases = plan.cases.iter().skip(share).step_by(shares);
    let failed = cases.filter_map(|case| plan.devices[case.device].compile(case, bits).err());
    u8::from(failed.map(|error| output::warn(&error.to_string())).count() > 0)
}

/// Prints each row as soon as it is known; the exit code is 1 if a case failed.
fn stream(args: &Args, plan: BenchPlan) -> anyhow::Result<u8> {
    let (mut failed, mut printed) = (0, Ok(()));
    operant_bench::bench::run::stream(plan, args.budget, args.bits, &mut Bar::new(), &mut |plan, row| {
        let case = &plan.cases[0];
        let value = row.map_or_else(
            |error| {
                failed = 1;
                json!({
                    "bench": case.bench.name(),
                    "env": case.name,
                    "work": case.work(),
                    "precision": case.network.precision.name(),
                    "envs": case.config.num_envs,
                    "error": error.to_string(),
                })
            },
            |row| row.to_json(plan.devices[case.device].about()),
        );
        printed = output::print(&format!("{value}\n"));
        printed.is_ok()
    });
    printed.map(|()| failed)
}

/// Measures and prints.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    // Files that cannot be read or written are detected now, not after a minute.
    let earlier = args.compare.as_deref().map(Baseline::read).transpose()?;
    if let Some(path) = &args.plot {
        std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
            Error::usage(format!("the plot cannot be written: {error}"))
                .at(format!("--plot {}", path.display()))
                .remedy("name a file in a directory that you can write to")
        })?;
    }
    let saved = |run: &String| {
        let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
        SavedRun::open(registry, &parent, run, Trust::of_flag(args.trust))
    };
    let saved = args.run.as_ref().map(saved).transpose()?;
    let plan = BenchPlan::new(registry, &args.request, saved.as_ref(), &mut |note| output::note(note))?;
    if let Some(share) = args.compile {
        return Ok(compile(&plan, share, args.bits));
    }
    if args.stream {
        return stream(args, plan);
    }
    let mut bar = Bar::new();
    let measured = measure(&plan, args.budget, args.profile, &mut bar);
    bar.finish();
    let mut rows = measured?;
    if let Some(earlier) = &earlier {
        for row in &mut rows {
            row.comparison = Some(earlier.compare(row));
        }
    }
    if let Some(path) = &args.plot {
        plot::draw(path, &rows)?;
    }
    let text = if args.json {
        let about = |device: &str| plan.devices.iter().find(|place| place.name() == device);
        let machine = |device: &str| about(device).map_or("", |place| place.about());
        let lines = rows.iter().map(|row| format!("{}\n", row.to_json(machine(&row.device))));
        printable(&lines.collect::<String>())
    } else {
        show::text(&plan, &rows)
    };
    output::print_painted(&text)?;
    Ok(0)
}
