//! `operant runs`: the runs of this user, live and ended.

use std::path::Path;

use comfy_table::{ContentArrangement, Table, presets};
use operant_env::Registry;
use operant_metrics::plain;
use operant_run::path_text;
use operant_run::progress::short;
use operant_run::runs::{self, Run};
use serde::Serialize;

use super::place;
use crate::output;

/// List the runs, live and ended
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON object per run
    #[arg(long)]
    json: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Those in the run directory, and live ones elsewhere that have a ring; the latest
started comes last.

States:
  starting, running, paused (SIGUSR2), stopping
  stalled    alive, and no progress for 3 s
  finished   took every step, or was solved and was to stop then
  preempted  stopped by a signal, with a checkpoint saved
  failed     ended with an error
  killed     ended without a word: kill -9, no memory left, a second signal";

/// Lists the runs.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = place::run_dir(registry, args.run_dir.as_deref())?;
    let runs = runs::list(&parent);
    let text = match (args.json, runs.is_empty()) {
        (true, _) => runs.iter().map(to_json).collect::<anyhow::Result<_>>()?,
        (false, false) => format!("{}\n", table(&runs)),
        (false, true) => {
            format!(
                "no runs in {}; `operant train ENV` starts one, --run-dir looks elsewhere\n",
                parent.display()
            )
        }
    };
    output::print(&text)?;
    Ok(0)
}

/// One line of `--json`, in the order of the contract. What is not known is null.
#[derive(Serialize)]
struct Row<'a> {
    run: &'a str,
    env: &'a str,
    device: &'a str,
    state: &'a str,
    /// Of the trainer while it lives.
    pid: Option<u32>,
    env_steps: Option<u64>,
    sps: Option<f64>,
    started: Option<&'a str>,
    #[serde(serialize_with = "path_text::serialize")]
    dir: &'a Path,
}

fn to_json(run: &Run) -> anyhow::Result<String> {
    let row = Row {
        run: &run.run,
        env: &run.env,
        device: &run.device,
        state: run.health.name(),
        pid: run.pid,
        env_steps: run.env_steps,
        sps: run.sps,
        started: Some(run.started.as_str()).filter(|started| !started.is_empty()),
        dir: &run.dir,
    };
    Ok(serde_json::to_string(&row)? + "\n")
}

#[allow(clippy::cast_precision_loss)] // counts to three figures
fn table(runs: &[Run]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["run", "environment", "state", "steps", "steps/s", "started (UTC)", "pid", "directory"]);
    let number = |x: Option<f64>| x.map_or_else(|| "-".to_string(), short);
    for run in runs {
        let steps = number(run.env_steps.map(|steps| steps as f64));
        let steps = match run.total_steps {
            Some(total) => format!("{steps} of {}", short(total as f64)),
            None => steps,
        };
        // To the second, without the letter T.
        let started = run.started.get(..19).unwrap_or("-").replace('T', " ");
        table.add_row([
            plain(&run.run),
            run.env.clone(),
            run.health.name().to_string(),
            steps,
            number(run.sps),
            started,
            run.pid.map_or_else(|| "-".to_string(), |pid| pid.to_string()),
            near(&run.dir),
        ]);
    }
    table
}

/// A path as it is shortest from the working directory.
fn near(path: &Path) -> String {
    let here = std::env::current_dir().and_then(std::fs::canonicalize);
    let relative = here.ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    path_text::shown(relative.as_deref().unwrap_or(path))
}
