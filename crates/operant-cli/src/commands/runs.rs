//! `operant runs`: the runs of this user, live and ended.

use std::cmp::Ordering;
use std::path::Path;

use operant_env::Registry;
use operant_metrics::natural;
use operant_run::config::{self, EnvFacts};
use operant_run::error::did_you_mean;
use operant_run::progress::short;
use operant_run::runs::{self, Run};
use operant_run::{Error, RunResult, path_text};
use serde::Serialize;
use serde_json::Value;

use super::run_args;
use crate::output;
use crate::table::{self, Column};

/// List the runs, live and ended
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Sort by this column; the largest or best value comes last
    #[arg(long, value_name = "KEY", default_value = "started")]
    sort: Sort,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Show the runs with this text in name, environment, device, state=, seed= or a changed key=value; repeatable
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Print one JSON object per run, with every known value
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
  operant runs --filter state=finished --json | jq .eval_return_mean

Shows the runs in the run directory, and live ones elsewhere that have a ring.
The line below a run lists its differences from the environment's preset.

Columns:
  return  mean of the last greedy evaluation; ~ marks the mean of training
          episodes, where a run has not ended with an evaluation
  solved  environment steps until the greedy evaluation reached solved_at

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
    let mut shown: Vec<RunRow> =
        runs::list(&parent).into_iter().map(|run| RunRow::of(run, registry)).collect();
    let all = shown.len();
    args.filter.iter().try_for_each(|filter| known_key(filter, &shown, registry))?;
    shown.retain(|run| run.matches(&args.filter));
    // Runs are ordered by start, which a stable sort keeps among equal ones.
    shown.sort_by(|a, b| a.order(b, args.sort));
    if args.reverse {
        shown.reverse();
    }
    let text = match (args.json, shown.is_empty(), all) {
        (true, ..) => shown.iter().map(RunRow::to_json).collect::<anyhow::Result<_>>()?,
        (false, false, _) => table(&shown),
        (false, true, 0) => {
            let parent = parent.display();
            format!("no runs in {parent}; `operant train ENV` starts one, --run-dir looks elsewhere\n")
        }
        (false, true, _) => format!("none of {all} runs in {} matches --filter\n", parent.display()),
    };
    output::print(&text)?;
    Ok(0)
}

/// Refuses `KEY=VALUE` whose key no run can have.
fn known_key(filter: &str, runs: &[RunRow], registry: &Registry) -> operant_run::Result<()> {
    let Some((key, _)) = filter.split_once('=') else { return Ok(()) };
    let options = registry.specs().into_iter().flat_map(|spec| spec.options);
    let mut keys: Vec<String> = options.map(|option| format!("env.{}", option.name)).collect();
    keys.extend(config::keys().map(|key| key.name.to_string()).chain(["state".to_string()]));
    keys.extend(runs.iter().flat_map(|run| run.changed.iter().map(|(key, _)| key.clone())));
    // The end of a key is enough: `rate` finds learning_rate.
    if keys.iter().any(|known| known.ends_with(key)) {
        return Ok(());
    }
    let hint = did_you_mean(key, keys.iter().map(String::as_str));
    Err(Error::usage(format!("no run has a setting \"{key}\"{hint}"))
        .at(format!("--filter {filter}"))
        .remedy("give state=, seed=, a setting of `operant config`, or a text without ="))
}

/// A run, with its result and configuration.
struct RunRow {
    run: Run,
    /// The result, if the run's latest process wrote it.
    result: Option<RunResult>,
    config: toml::Table,
    /// Differences from the preset.
    changed: Vec<(String, toml::Value)>,
}

impl RunRow {
    fn of(run: Run, registry: &Registry) -> Self {
        // The result of an earlier process does not apply to one that continues training.
        let result = RunResult::read(&run.dir).filter(|result| {
            !run.health.is_alive() && run.env_steps.is_none_or(|steps| steps == result.env_steps)
        });
        let config = runs::config(&run.dir).unwrap_or_default();
        let facts = EnvFacts::registered(registry, &run.env);
        let changed = facts.map_or_else(|_| Vec::new(), |facts| config::differences(&facts, &config));
        RunRow { run, result, config, changed }
    }

    /// Mean return of the last greedy evaluation.
    fn evaluated(&self) -> Option<f64> {
        self.result.as_ref()?.eval_return_mean
    }

    fn solved_at_step(&self) -> Option<u64> {
        self.result.as_ref()?.solved_at_step
    }

    fn changes(&self) -> Vec<String> {
        self.changed.iter().map(|(key, value)| format!("{key}={}", compact(value))).collect()
    }

    fn matches(&self, filters: &[String]) -> bool {
        let Run { run, env, device, health, seed, .. } = &self.run;
        let mut texts = vec![run.clone(), env.clone(), device.clone(), format!("state={}", health.name())];
        texts.extend(seed.map(|seed| format!("seed={seed}")));
        texts.extend(self.changes());
        filters.iter().all(|filter| texts.iter().any(|text| text.contains(filter.as_str())))
    }

    fn order(&self, other: &Self, by: Sort) -> Ordering {
        let real = |get: &dyn Fn(&RunRow) -> Option<f64>| {
            let of = |shown| get(shown).unwrap_or(f64::NEG_INFINITY);
            of(self).total_cmp(&of(other))
        };
        let (a, b) = (&self.run, &other.run);
        match by {
            Sort::Started => Ordering::Equal,
            Sort::Run => natural(&a.run, &b.run),
            Sort::Env => a.env.cmp(&b.env),
            Sort::State => a.health.name().cmp(b.health.name()),
            Sort::Steps => a.env_steps.cmp(&b.env_steps),
            Sort::Sps => real(&|shown| shown.run.sps),
            Sort::Return => real(&|shown| shown.evaluated().or(shown.run.episodic_return)),
            // Fewer steps are better, so they come last; none is worst.
            Sort::Solved => {
                let steps = |shown: &RunRow| shown.solved_at_step().unwrap_or(u64::MAX);
                steps(other).cmp(&steps(self))
            }
            Sort::Seed => a.seed.cmp(&b.seed),
        }
    }

    fn to_json(&self) -> anyhow::Result<String> {
        let (run, result) = (&self.run, self.result.as_ref());
        let changed = self.changed.iter().map(|(key, value)| Ok((key.clone(), serde_json::to_value(value)?)));
        let row = Json {
            run: &run.run,
            env: &run.env,
            device: &run.device,
            state: run.health.name(),
            pid: run.pid,
            env_steps: run.env_steps,
            sps: run.sps,
            started: Some(run.started.as_str()).filter(|started| !started.is_empty()),
            dir: &run.dir,
            reason: Some(run.reason.as_str()).filter(|reason| !reason.is_empty()),
            seed: run.seed,
            total_steps: run.total_steps,
            episodic_return: run.episodic_return,
            eval_return_mean: self.evaluated(),
            eval_return_std: result.and_then(|result| result.eval_return_std),
            eval_episodes: result.map(|result| result.eval_episodes),
            eval_distinct: result.map(|result| result.eval_distinct),
            solved_at_step: self.solved_at_step(),
            solved_at_s: result.and_then(|result| result.solved_at_s),
            updates: result.map(|result| result.updates),
            wall_s: result.map(|result| result.wall_s),
            train_s: result.map(|result| result.train_s),
            checkpoint: &run.checkpoint,
            ring: &run.ring,
            changed: changed.collect::<anyhow::Result<_>>()?,
            config: &self.config,
        };
        Ok(serde_json::to_string(&row)? + "\n")
    }
}

/// One line of `--json`; the first nine keys are in the order of the contract. Unknown values are null.
#[derive(Serialize)]
struct Json<'a> {
    run: &'a str,
    env: &'a str,
    device: &'a str,
    state: &'a str,
    /// The trainer's, while it is alive.
    pid: Option<u32>,
    env_steps: Option<u64>,
    sps: Option<f64>,
    started: Option<&'a str>,
    #[serde(serialize_with = "path_text::serialize")]
    dir: &'a Path,
    reason: Option<&'a str>,
    seed: Option<u64>,
    total_steps: Option<u64>,
    episodic_return: Option<f64>,
    eval_return_mean: Option<f64>,
    eval_return_std: Option<f64>,
    eval_episodes: Option<usize>,
    eval_distinct: Option<usize>,
    solved_at_step: Option<u64>,
    solved_at_s: Option<f64>,
    updates: Option<u64>,
    wall_s: Option<f64>,
    train_s: Option<f64>,
    #[serde(serialize_with = "path_text::serialize_option")]
    checkpoint: &'a Option<std::path::PathBuf>,
    #[serde(serialize_with = "path_text::serialize_option")]
    ring: &'a Option<std::path::PathBuf>,
    changed: serde_json::Map<String, Value>,
    config: &'a toml::Table,
}

#[allow(clippy::cast_precision_loss)] // counts to three figures
fn table(runs: &[RunRow]) -> String {
    // Names that begin with the environment need no column for it.
    let named = runs.iter().all(|shown| shown.run.run.starts_with(&shown.run.env));
    let columns = [
        Column::left("run", 0),
        Column::left("environment", if named { 8 } else { 2 }),
        Column::left("state", 0),
        Column::right("steps", 3),
        Column::right("return", 0),
        Column::right("solved", 1),
        Column::right("seed", 1),
        Column::right("steps/s", 4),
        Column::left("started (UTC)", 5),
        Column::right("pid", 6),
        Column::left("directory", 7),
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
        let cells = vec![
            run.run.clone(),
            run.env.clone(),
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
        ];
        table::Row { cells, note: shown.changes().join(", ") }
    };
    table::text(&columns, "changed", &runs.iter().map(row).collect::<Vec<_>>())
}

/// A value without the spaces that TOML puts into lists.
fn compact(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string().replace(", ", ","),
    }
}
