//! `operant resume`: continues a run, whether it is paused or has ended.

use std::time::{Duration, Instant};

use operant_env::Registry;
use operant_run::Error;
use operant_run::config;
use operant_run::runs::{Kind, LiveRun, Paused};

use super::overrides::Overrides;
use super::{run_args, sweep, train};
use crate::{daemon, output};

/// Continue a run or a sweep: one that is paused, or one that has ended, from its latest checkpoints
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Name or directory of a run or sweep
    #[arg(value_name = "RUN|SWEEP")]
    run: String,
    /// Start the run's environment although it is a program that this user has not started before
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    about: train::About,
    #[command(flatten)]
    shown: train::Shown,
    /// Longest time to wait for a paused run to continue, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = run_args::seconds)]
    timeout: Duration,
    #[command(flatten)]
    overrides: Overrides,
}

const AFTER_HELP: &str = "\
Examples:
  operant resume mine
  operant resume mine --detach
  operant resume mine --steps 2e7           a finished run trains further

A paused run continues in its process, with its own settings, and --json prints
its run, pid, dir and ring. A run that has ended trains here, as with `operant
train --resume RUN`: from its latest checkpoint, with its settings unless flags
or --set override them; `operant train --help` has the exit codes. A sweep that
has ended continues here, as with `operant sweep --resume SWEEP`, which has
--jobs and --ray too.";

/// Continues the run, and returns the exit code.
pub fn run(args: &Args, registry: &Registry, started: Instant) -> anyhow::Result<u8> {
    let parent = config::run_dir(registry.known(), &args.overrides.command_line())?;
    let found = run_args::find_job(&parent, &args.run)?;
    if found.kind == Kind::Sweep {
        no_notes_of_sweeps(&args.about, &args.run)?;
    }
    // The parent of a daemon has found that the run has ended.
    let live = if daemon::is_daemon() { None } else { LiveRun::of(&found)? };
    let Some(live) = live else {
        if found.kind == Kind::Sweep {
            let args = sweep::Args::resuming(&args.run, args.trust, &args.shown, &args.overrides);
            return sweep::run(&args, registry);
        }
        let args = train::Args {
            resume: Some(args.run.clone()),
            trust: args.trust,
            about: args.about.clone(),
            shown: args.shown.clone(),
            overrides: args.overrides.clone(),
            ..train::Args::default()
        };
        return train::run(&args, registry, started);
    };
    let name = live.run().title();
    let line = args.overrides.command_line();
    if line.config.is_some() || !line.set.is_empty() || line.flags.iter().any(|(key, ..)| *key != "run_dir") {
        return Err(Error::usage(format!(
            "{name} is {}, so its settings are fixed",
            live.run().health.name()
        ))
        .at(live.run().dir.display().to_string())
        .remedy("leave the settings out; or `operant stop` it, then resume it with them")
        .into());
    }
    args.about.notes()?.add_to(&live.run().dir)?;
    match live.set_paused(false, args.timeout)? {
        Paused::Changed(run) => {
            let word = run_args::word(registry, &run.dir);
            let text = format!("{name}: {}\n  watch       operant monitor {word}\n", run.health.name());
            let started = || daemon::Started {
                run: run.run.clone(),
                pid: run.pid.unwrap_or_default(),
                dir: run.dir.clone(),
                ring: run.ring.clone(),
            };
            output::print(&match args.shown.json {
                true => serde_json::to_string(&started())? + "\n",
                false => text,
            })?;
            Ok(0)
        }
        Paused::Unchanged(run) => {
            let word = run_args::word(registry, &run.dir);
            Err(Error::usage(format!("{name} is being trained: {}", run.health.name()))
                .at(run.dir.display().to_string())
                .remedy(format!("`operant monitor {word}` watches it; `operant stop {word}` ends it"))
                .into())
        }
    }
}

/// Refuses a note or tags for a sweep: its runs have them.
fn no_notes_of_sweeps(about: &train::About, sweep: &str) -> anyhow::Result<()> {
    if about.notes()?.is_empty() {
        return Ok(());
    }
    let what = format!("{sweep} is a sweep, which has neither a note nor tags");
    Err(Error::usage(what)
        .at("--note, --tag")
        .remedy("`operant note` and `operant tag` take its runs")
        .into())
}
