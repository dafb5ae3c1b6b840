//! `operant pause`: pauses runs between two updates. `operant resume` continues them.

use std::time::Duration;

use operant_env::Registry;
use operant_run::Error;
use operant_run::runs::{Kind, LiveRun, Paused};

use super::run_args;
use crate::output;

/// Pause a live run or sweep after its update; it keeps its memory and its device
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Name or directory of a run or sweep
    #[arg(value_name = "RUN|SWEEP")]
    run: String,
    /// Longest time to wait for the pause, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = run_args::seconds)]
    timeout: Duration,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant pause mine && operant bench && operant resume mine

A paused run uses no processor time and keeps its memory, on a GPU too.
`operant stop` frees both; `operant resume` continues in either case. A sweep
pauses all its runs; one on a Ray cluster begins no further run, and the runs
that train there end first.

Exit codes:
  0  the run is paused
  1  it ended instead, or is not paused in time
  2  there is no such run, it is not being trained, or is paused already";

/// Pauses the run, waits, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let run = run_args::find_job(&parent, &args.run)?;
    let Some(live) = LiveRun::of(&run)? else {
        return Err(run_args::not_live(registry, &run).into());
    };
    let name = run.title();
    match live.set_paused(true, args.timeout)? {
        Paused::Changed(run) => {
            let steps = run.env_steps.filter(|_| run.kind == Kind::Run);
            let steps = steps.map_or_else(String::new, |steps| format!(" at {steps} steps"));
            let word = run_args::word(registry, &run.dir);
            output::print(&format!("{name}: paused{steps}\n  continue    operant resume {word}\n"))?;
            Ok(0)
        }
        Paused::Unchanged(run) => {
            let word = run_args::word(registry, &run.dir);
            let error = Error::usage(format!("{name} is {} already", run.health.name()));
            let remedy = match run.health.name() {
                "paused" => format!("`operant resume {word}` continues it"),
                _ => format!(
                    "`{}` continues it once it has ended",
                    run_args::resume_command(registry, &run.dir)
                ),
            };
            Err(error.at(run.dir.display().to_string()).remedy(remedy).into())
        }
    }
}
