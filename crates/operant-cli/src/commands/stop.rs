//! `operant stop`: stops runs with a checkpoint, and prints how each ended.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use operant_env::Registry;
use operant_metrics::{Health, RunState};
use operant_run::path_text::shown;
use operant_run::runs::{self, Kind, LiveRun, Run, StopRequest};
use operant_sweep::overview;

use super::run_args;
use crate::output;

/// Stop runs or sweeps: each finishes its updates, saves checkpoints and ends
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Names or directories of runs or sweeps
    #[arg(value_name = "RUN|SWEEP", required = true)]
    runs: Vec<String>,
    /// Do not wait for their end
    #[arg(long)]
    no_wait: bool,
    /// Longest time to wait for their end, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = run_args::seconds)]
    timeout: Duration,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant stop mine
  operant stop mine other --timeout 300 && operant train --resume mine

A run is sent SIGTERM once, however often this command is given. A run that has
ended is left as it is, which is not an error. Only a run's trainer is ever
signalled. All of this is true of sweeps too: their runs stop with a checkpoint
each, and `operant resume SWEEP` continues as if there had been no stop.

Exit codes:
  0  every run has ended, with its state saved (--no-wait: was sent SIGTERM)
  1  one failed, was killed, or has not ended in time
  2  there is no such run, or its trainer cannot be signalled";

/// Stops the runs, prints how each ended, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    // All are looked up before any is stopped, so that a typo stops none.
    let mut found: Vec<Run> = Vec::new();
    for name in &args.runs {
        let run = run_args::find_job(&parent, name)?;
        // A run given twice, or by two names, counts once.
        if !found.iter().any(|other| other.dir == run.dir) {
            found.push(run);
        }
    }
    let mut stopped: Vec<(Run, Option<(LiveRun, StopRequest)>)> = Vec::new();
    for run in found {
        let live = LiveRun::of(&run)?;
        let request = live.map(|live| live.stop().map(|request| (live, request))).transpose()?;
        stopped.push((run, request));
    }
    let begun = Instant::now();
    let mut code = 0;
    for (run, request) in stopped {
        let (text, own_code) = match request {
            None => exit_report(
                &runs::find_any(&parent, &run.dir.to_string_lossy()).unwrap_or(run),
                registry,
                true,
            ),
            Some((_, request)) if args.no_wait => (request_report(&run, request), 0),
            Some((live, _)) => match live.ended(args.timeout.saturating_sub(begun.elapsed())) {
                Some(run) => exit_report(&run, registry, false),
                None => (overdue(&run, args.timeout), 1),
            },
        };
        code = code.max(own_code);
        output::print(&text)?;
    }
    Ok(code)
}

fn request_report(run: &Run, request: StopRequest) -> String {
    let when = match request {
        StopRequest::Sent => "asked to stop",
        StopRequest::AlreadyStopping => "is stopping already",
    };
    format!("{}: {when} after its update\n", run.title())
}

fn overdue(run: &Run, timeout: Duration) -> String {
    let pid = run.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    format!(
        "{}: has not ended within {} s{pid}; it ends after its update and a checkpoint. Wait longer with --timeout; \
         kill -9 ends it at once and loses what came after its last checkpoint\n",
        run.title(),
        timeout.as_secs_f64()
    )
}

/// How a run has ended, and the exit code for it.
fn exit_report(run: &Run, registry: &Registry, before: bool) -> (String, u8) {
    let already = if before { "had ended already: " } else { "" };
    let mut text = format!("{}: {already}{}", run.title(), run.health.name());
    let code = match run.health {
        Health::Reported(RunState::Preempted | RunState::Finished) => 0,
        // It had ended before, so the request has not failed.
        _ if before => 0,
        _ => 1,
    };
    // Writing to a String cannot fail.
    let _ = match run.kind {
        Kind::Run => run.env_steps.map(|steps| write!(text, " at {steps} steps")),
        Kind::Sweep => overview(&run.dir)
            .ok()
            .map(|state| write!(text, ", {} of {} trials done", state.trials_done, state.trials_planned)),
    };
    if !run.reason.is_empty() {
        let _ = write!(text, " ({})", run.reason);
    }
    text.push('\n');
    if let Some(checkpoint) = &run.checkpoint {
        let _ = writeln!(text, "  checkpoint  {}", shown(checkpoint));
    }
    if run.health != Health::Reported(RunState::Finished) {
        let _ = writeln!(text, "  continue    {}", run_args::resume_command(registry, &run.dir));
    }
    (text, code)
}
