//! `operant sweep --dry-run`: the runs that would be trained, and how long that may take.

use std::path::Path;

use operant_metrics::plain;
use operant_run::progress::short;
use operant_run::{Result, dir};
use operant_sweep::report::counted;
use operant_sweep::{Executor, Forecast, Plan};

use super::about;
use crate::output;
use crate::table::{self, Column, Row};

/// Trials that a terminal shows; a pipe and --json have more.
const SHOWN: usize = 40;

/// Prints what a new sweep would train.
pub fn of_plan(plan: &Plan, parent: &Path, json: bool) -> anyhow::Result<()> {
    let forecast = Forecast::of_plan(plan, parent);
    print(&format!("sweep of {}", plan.spec().environments.join(" and ")), &forecast, json)
}

/// Prints what a sweep has left to train, and returns the exit code.
pub fn of_sweep(path: &Path, jobs: Option<usize>, executor: &dyn Executor, json: bool) -> anyhow::Result<u8> {
    let forecast = forecast(path, jobs, executor)?;
    print(&format!("sweep {}", dir::name_of(path)), &forecast, json)?;
    Ok(0)
}

fn forecast(path: &Path, jobs: Option<usize>, executor: &dyn Executor) -> Result<Forecast> {
    let jobs = jobs.unwrap_or_else(|| executor.slots());
    Forecast::of_sweep(path, jobs, executor.threads(jobs))
}

fn print(title: &str, forecast: &Forecast, json: bool) -> anyhow::Result<()> {
    match json {
        true => output::print(&(serde_json::to_string(forecast)? + "\n")),
        false => output::print_painted(&text(title, forecast)),
    }
}

#[allow(clippy::cast_precision_loss)] // counts to three figures
fn text(title: &str, forecast: &Forecast) -> String {
    let Forecast { runs, runs_done, jobs, threads, .. } = forecast;
    let done = if *runs_done > 0 { format!("{runs_done} of ") } else { String::new() };
    let is_done = if *runs_done > 0 { " finished" } else { "" };
    let mut text = format!("{}: {done}{}{is_done}", plain(title), counted(*runs, "run"));
    text.push_str(&format!(
        "; {} steps, {}, {} each\n",
        short(forecast.env_steps as f64),
        counted(*jobs, "parallel run"),
        counted(*threads, "thread")
    ));
    let columns = [
        Column::right("trial", 0),
        Column::left("environment", 2),
        Column::right("seeds", 1),
        Column::right("steps", 1),
        Column::rest("settings", 0),
    ];
    let shown = if table::width().is_some() { SHOWN } else { usize::MAX };
    let row = |trial: &operant_sweep::forecast::PlannedTrial| {
        let settings = trial.settings.iter().map(|(key, value)| format!("{key}={value}"));
        let cells = vec![
            trial.trial.to_string(),
            trial.env.clone(),
            trial.seeds.len().to_string(),
            short(trial.env_steps as f64),
            settings.collect::<Vec<_>>().join(" "),
        ];
        Row { cells, ..Row::default() }
    };
    let rows: Vec<Row> = forecast.trials.iter().take(shown).map(row).collect();
    if !rows.is_empty() {
        text.push_str(&table::text(&columns, "", &rows));
    }
    let more = forecast.trials.len() - rows.len() + forecast.more_trials;
    if more > 0 {
        text.push_str(&format!("and {}\n", counted(more, "more trial")));
    }
    if forecast.depends {
        text.push_str("the search chooses further trials when it knows results\n");
    }
    if !forecast.rungs.is_empty() {
        let rungs: Vec<String> = forecast
            .rungs
            .iter()
            .map(|(steps, members)| format!("{} to {}", counted(*members, "trial"), short(*steps as f64)))
            .collect();
        text.push_str(&format!("rounds: {}\n", rungs.join(", ")));
    }
    match forecast.seconds {
        _ if forecast.env_steps == 0 => text.push_str("nothing is left to train\n"),
        Some(seconds) => {
            text.push_str(&format!("time: about {}; {}\n", about(seconds), plain(&forecast.basis)))
        }
        None => text.push_str(&format!("time: unknown; {}\n", plain(&forecast.basis))),
    }
    text
}
