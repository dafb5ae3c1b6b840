//! The runs of a sweep as rows of one table, for `Sweep.to_pandas` of the Python package.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use operant_run::dir::is_run;
use operant_run::{Result, RunResult, runs};
use serde::Serialize;
use serde_json::Value;

use crate::sweep::TRIALS;
use crate::table::{self, RunRow, Table};
use crate::task::run_name;

/// A run that was planned, and its last result. What it does not have yet is None.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The name of its directory.
    pub run: String,
    pub trial: usize,
    pub env: String,
    /// The settings that vary.
    pub settings: BTreeMap<String, Value>,
    pub seed: u64,
    /// As `operant runs` shows it; `planned` before it begins.
    pub state: &'static str,
    /// What the search maximises; None if the run failed.
    pub objective: Option<f64>,
    pub eval_return_mean: Option<f64>,
    pub eval_return_std: Option<f64>,
    pub env_steps: Option<u64>,
    pub updates: Option<u64>,
    pub solved_at_step: Option<u64>,
    pub solved_at_s: Option<f64>,
    pub train_s: Option<f64>,
    pub wall_s: Option<f64>,
    pub sps: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
    pub dir: PathBuf,
}

/// The runs of the sweep in this directory, by trial and seed.
///
/// # Errors
/// When the table of the sweep cannot be read.
pub fn rows(dir: &Path) -> Result<Vec<Row>> {
    let (table, spec) = Table::open(dir, false)?;
    let bases = table.bases(&spec)?;
    // Results come in the order of steps, so the last one of a run stays.
    let results = table.results()?;
    let last: BTreeMap<(usize, u64), &RunRow> =
        results.iter().map(|row| ((row.trial, row.seed), row)).collect();
    let (mut rows, trials) = (Vec::new(), dir.join(TRIALS));
    for table::TrialRow { trial, .. } in table.trials(&spec)? {
        let values = spec.axes.iter().zip(&trial.point);
        let settings: BTreeMap<String, Value> = values
            .map(|(axis, value)| (axis.key.clone(), serde_json::to_value(value).unwrap_or_default()))
            .collect();
        for &seed in &spec.seeds {
            let run = run_name(trial.id, seed);
            let dir = trials.join(&run);
            let row = last.get(&(trial.id, seed)).copied();
            let state = match row {
                Some(row) if row.result.is_err() => "failed",
                Some(row) if row.until == trial.until => "finished",
                _ if is_run(&dir) => runs::find(&trials, &run)?.health.name(),
                _ => "planned",
            };
            let result: Option<&RunResult> = row.and_then(|row| row.result.as_ref().ok());
            let objective = row.map(|row| table::objective(&spec.search.objective, row));
            rows.push(Row {
                run,
                trial: trial.id,
                env: bases[trial.env].name.clone(),
                settings: settings.clone(),
                seed,
                state,
                objective: objective.filter(|value| value.is_finite()),
                eval_return_mean: result.and_then(|result| result.eval_return_mean),
                eval_return_std: result.and_then(|result| result.eval_return_std),
                env_steps: result.map(|result| result.env_steps),
                updates: result.map(|result| result.updates),
                solved_at_step: result.and_then(|result| result.solved_at_step),
                solved_at_s: result.and_then(|result| result.solved_at_s),
                train_s: result.map(|result| result.train_s),
                wall_s: result.map(|result| result.wall_s),
                sps: result.map(|result| result.sps),
                error: row.and_then(|row| row.result.as_ref().err().cloned()),
                dir,
            });
        }
    }
    Ok(rows)
}
