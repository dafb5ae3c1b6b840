//! `operant runs`: the runs and sweeps of this user, live and ended.

mod export;
mod row;
pub mod sweeps;

use anstyle::Style;
use operant_env::Registry;
use operant_metrics::{Health, RunState};
use operant_run::Error;
use operant_run::config;
use operant_run::error::did_you_mean;
use operant_run::paint;
use operant_run::progress::short;
use operant_run::runs;

use export::Export;
pub use row::{Json, RunRow};

use super::run_args;
use crate::output;
use crate::table::{self, Column};
use sweeps::SweepRow;

/// List the runs and sweeps, live and ended
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Sort by this column; the largest or best value comes last
    #[arg(long, value_name = "KEY", default_value = "started")]
    sort: Sort,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Show the runs with this text in name, environment, device, tags, algorithm=, state=, seed= or a changed key=value; repeatable
    #[arg(long, value_name = "FILTER")]
    filter: Vec<String>,
    /// Show the runs with this tag; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Show the sweeps alone
    #[arg(long)]
    sweeps: bool,
    /// Print the runs as CSV, or send those that have ended to a tracker (needs the Python package): csv, wandb, mlflow, trackio or tensorboard
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["sweeps", "json"])]
    export: Option<Export>,
    /// Print one JSON object per run, with every known value; with --sweeps one per sweep
    #[arg(long)]
    json: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

/// The sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    Started,
    Run,
    Env,
    State,
    Steps,
    Sps,
    Return,
    Solved,
    Seed,
}

const AFTER_HELP: &str = "\
Examples:
  operant runs --sort return
  operant runs --filter cartpole --filter learning_rate=0.001
  operant runs --filter algorithm=sac
  operant runs --tag baseline
  operant runs --filter state=finished --json | jq .eval_return_mean
  operant runs --export csv > runs.csv
  operant runs --filter cartpole --export wandb
  operant runs --sweeps --json | jq '.best[] | .objective, .settings'

Shows the runs in the run directory, and live ones elsewhere that have a ring.
A line each; `operant show RUN` shows one in full. Sweeps of the run directory
come below, a line for each of their environments; their runs are in `operant
show SWEEP`. --json prints runs alone, --sweeps --json sweeps alone; `kind` is
\"run\" or \"sweep\".

Columns:
  return  mean of the last greedy evaluation; ~ marks the mean of training
          episodes, where a run has not ended with an evaluation
  solved  environment steps until the greedy evaluation reached solved_at
  changed settings that differ from the environment's preset; omitted where
          there is no room

  trials  of a sweep: those with every result, of all that are planned
  best    objective of the best trial so far: eval_return, steps or seconds
          until solved, or a metric of the environment
  settings of that trial

States:
  starting, running, paused (SIGUSR2), stopping
  stalled    its process exists, and training has made no progress for 3 s
  finished   took every step, or was solved and stop_when_solved was set
  preempted  stopped by a signal, with a checkpoint saved
  failed     ended with an error
  killed     its process is gone: kill -9, out of memory, a second signal";

/// Lists the runs.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    operant_metrics::prune();
    // Sweeps have no tags.
    let no_sweeps = args.json && !args.sweeps || args.export.is_some() || !args.tags.is_empty();
    let mut sweeps = if no_sweeps { Vec::new() } else { SweepRow::list(&parent) };
    let listed = if args.sweeps { Vec::new() } else { runs::list(&parent) };
    let mut shown: Vec<RunRow> = listed.into_iter().map(|run| RunRow::of(run, registry)).collect();
    let all = shown.len() + sweeps.len();
    args.filter.iter().try_for_each(|filter| known_key(filter, &shown, &sweeps, registry))?;
    sweeps.retain(|sweep| sweep.matches(&args.filter));
    sweeps.sort_by(|a, b| a.order(b, args.sort));
    shown.retain(|run| run.matches(&args.filter) && run.has_tags(&args.tags));
    // Runs are ordered by start, which a stable sort keeps among equal ones.
    shown.sort_by(|a, b| a.order(b, args.sort));
    if args.reverse {
        shown.reverse();
        sweeps.reverse();
    }
    if let Some(format) = args.export {
        return format.export(&shown);
    }
    let what = if args.sweeps { "sweeps" } else { "runs" };
    let text = match (args.json, shown.is_empty() && sweeps.is_empty(), all) {
        (true, ..) if args.sweeps => {
            let lines = sweeps.iter().map(|sweep| Ok(sweep.json()?.to_string() + "\n"));
            lines.collect::<anyhow::Result<_>>()?
        }
        (true, ..) => shown.iter().map(to_line).collect::<anyhow::Result<_>>()?,
        (false, false, _) => {
            let tables = [(!shown.is_empty()).then(|| table(&shown)), sweeps::table(&sweeps)];
            output::print_painted(&tables.into_iter().flatten().collect::<Vec<_>>().join("\n"))?;
            return Ok(0);
        }
        (false, true, 0) => {
            let (parent, start) =
                (parent.display(), if args.sweeps { "sweep ENV --seeds 10" } else { "train ENV" });
            format!("no {what} in {parent}; `operant {start}` starts one, --run-dir looks elsewhere\n")
        }
        (false, true, _) => {
            let given = [(!args.filter.is_empty(), "--filter"), (!args.tags.is_empty(), "--tag")];
            let flags: Vec<&str> = given.iter().filter_map(|(is, flag)| is.then_some(*flag)).collect();
            format!("none of {all} {what} in {} matches {}\n", parent.display(), flags.join(" and "))
        }
    };
    output::print(&text)?;
    Ok(0)
}

fn to_line(run: &RunRow) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&run.json()?)? + "\n")
}

/// Refuses `KEY=VALUE` whose key no run can have.
fn known_key(
    filter: &str,
    runs: &[RunRow],
    sweeps: &[SweepRow],
    registry: &Registry,
) -> operant_run::Result<()> {
    let Some((key, _)) = filter.split_once('=') else { return Ok(()) };
    // A tag may contain it.
    if runs.iter().any(|run| run.notes.tags.iter().any(|tag| tag.contains(filter))) {
        return Ok(());
    }
    let options = registry.specs().into_iter().flat_map(|spec| spec.options);
    let mut keys: Vec<String> = options.map(|option| format!("env.{}", option.name)).collect();
    keys.extend(config::keys().map(|key| key.name.to_string()).chain(["state".to_string()]));
    keys.extend(runs.iter().flat_map(|run| run.changed.iter().map(|it| it.key.clone())));
    keys.extend(sweeps.iter().flat_map(SweepRow::keys));
    // The end of a key is enough: `rate` finds learning_rate.
    if keys.iter().any(|known| known.ends_with(key)) {
        return Ok(());
    }
    let hint = did_you_mean(key, keys.iter().map(String::as_str));
    Err(Error::usage(format!("no run has a setting \"{key}\"{hint}"))
        .at(format!("--filter {filter}"))
        .remedy("give state=, seed=, a setting of `operant config`, or a text without ="))
}

/// The column of the state.
const STATE: usize = 3;

/// The style of a run's state, in the colours of the monitor.
pub fn of_health(health: Health) -> Style {
    match health {
        Health::Reported(RunState::Running | RunState::Finished) => paint::GOOD,
        Health::Reported(RunState::Failed) | Health::Killed => paint::BAD,
        Health::Reported(_) | Health::Stalled => paint::WARNING,
    }
}

#[allow(clippy::cast_precision_loss)] // counts to three figures
fn table(runs: &[RunRow]) -> String {
    // Names that begin with the environment need no column for it.
    let named = runs.iter().all(|shown| shown.run.run.starts_with(&shown.run.env));
    let columns = [
        Column::name("run"),
        Column::left("environment", if named { 10 } else { 1 }),
        // Left out where there is PPO alone.
        Column::left("algorithm", if runs.iter().all(|shown| shown.algorithm() == "ppo") { 11 } else { 3 }),
        Column::left("state", 0),
        Column::right("steps", 3),
        Column::right("return", 0),
        Column::right("solved", 2),
        Column::right("seed", 5),
        Column::right("steps/s", 6),
        Column::left("started (UTC)", 7),
        Column::right("pid", 8),
        Column::left("directory", 9),
        Column::left("tags", 3),
        Column::rest("changed", 4),
    ];
    let number = |x: Option<f64>| x.map_or_else(|| "-".to_string(), short);
    let row = |shown: &RunRow| {
        let run = &shown.run;
        let steps = number(run.env_steps.map(|steps| steps as f64));
        let steps = match run.total_steps {
            Some(total) if run.env_steps < Some(total) => format!("{steps} of {}", short(total as f64)),
            _ => steps,
        };
        let mean = match (shown.evaluated(), run.episodic_return) {
            (Some(mean), _) => format!("{mean:.2}"),
            (None, Some(mean)) => format!("~{mean:.2}"),
            (None, None) => "-".to_string(),
        };
        // The column of steps has it too.
        let mut changes = shown.changes();
        changes.sort_by_key(|change| change.starts_with("total_timesteps="));
        let cells = vec![
            run.run.clone(),
            run.env.clone(),
            shown.algorithm().to_owned(),
            run.health.name().to_string(),
            steps,
            mean,
            number(shown.solved_at_step().map(|steps| steps as f64)),
            run.seed.map_or_else(|| "-".to_string(), |seed| seed.to_string()),
            number(run.sps),
            // To the second, without the letter T.
            run.started.get(..19).unwrap_or("-").replace('T', " "),
            run.pid.map_or_else(|| "-".to_string(), |pid| pid.to_string()),
            run_args::near(&run.dir),
            shown.notes.tags.join(", "),
            changes.join(", "),
        ];
        table::Row { cells, style: Some((STATE, of_health(run.health))), ..table::Row::default() }
    };
    table::text(&columns, "", &runs.iter().map(row).collect::<Vec<_>>())
}
