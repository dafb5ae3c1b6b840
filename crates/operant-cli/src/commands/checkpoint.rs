//! `operant checkpoint`: requests a checkpoint of a run.

use std::time::Duration;

use operant_env::Registry;
use operant_run::runs::LiveRun;

use super::run_args;
use crate::output;

/// Request a checkpoint of a live run and print its path; training continues
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Name or directory of a run
    #[arg(value_name = "RUN")]
    run: String,
    /// Longest time to wait for the checkpoint, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = run_args::seconds)]
    timeout: Duration,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant eval $(operant checkpoint mine)

A paused run saves a checkpoint too.";

/// Requests the checkpoint, waits, prints the path, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let run = run_args::find_one(&parent, &args.run)?;
    let Some(live) = LiveRun::of(&run)? else {
        return Err(run_args::not_live(registry, &run).into());
    };
    let (_, path) = live.checkpoint(args.timeout)?;
    output::print(&format!("{}\n", path.display()))?;
    Ok(0)
}
