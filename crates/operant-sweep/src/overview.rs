//! How far a sweep is and what it has found so far, for monitors: read often, while the sweep continues.

use std::collections::BTreeMap;
use std::path::Path;

use operant_metrics::{SweepState, SweepTrial};
use operant_run::Result;
use operant_run::dir::{is_held, name_of};

use crate::search;
use crate::stats::{interquartile_mean, quantile};
use crate::sweep::TRIALS;
use crate::table::{RunRow, Table};
use crate::task::run_name;

/// The sweep in this directory.
pub fn overview(dir: &Path) -> Result<SweepState> {
    let (table, spec) = Table::open(dir, false)?;
    let (rows, results) = (table.trials(&spec)?, table.results()?);
    // Results come in the order of seeds and steps: the last one of a seed stays.
    let mut last: BTreeMap<usize, BTreeMap<u64, &RunRow>> = BTreeMap::new();
    for row in &results {
        last.entry(row.trial).or_default().insert(row.seed, row);
    }
    let mut trials = Vec::new();
    for row in &rows {
        let trial = &row.trial;
        let last: Vec<&RunRow> = last.remove(&trial.id).unwrap_or_default().into_values().collect();
        let of = |value: &dyn Fn(&operant_run::RunResult) -> Option<f64>| {
            let mut values: Vec<f64> =
                last.iter().filter_map(|row| row.result.as_ref().ok()).filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let run = |seed: &u64| dir.join(TRIALS).join(run_name(trial.id, *seed));
        trials.push(SweepTrial {
            number: trial.id,
            env: spec.environments[trial.env].clone(),
            values: search::shown(&spec.axes, &trial.point),
            score: interquartile_mean(&of(&|result| result.eval_return_mean)),
            done: last.iter().filter(|row| row.until == trial.until).count(),
            seeds: spec.seeds.len(),
            failed: last.iter().filter(|row| row.result.is_err()).count(),
            solved: of(&|result| result.solved_at_step.map(|step| step as f64)).len(),
            seconds: quantile(&of(&|result| Some(result.train_s)), 0.5),
            steps: quantile(&of(&|result| Some(result.env_steps as f64)), 0.5),
            pareto: false,
            runs: spec.seeds.iter().map(run).collect(),
        });
    }
    let score = |trial: &SweepTrial| if trial.score.is_nan() { f64::NEG_INFINITY } else { trial.score };
    trials.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.seconds.total_cmp(&b.seconds)));
    for env in &spec.environments {
        let mut fastest = f64::INFINITY;
        for trial in trials.iter_mut().filter(|trial| trial.env == *env && trial.score.is_finite()) {
            trial.pareto = trial.seconds < fastest;
            fastest = fastest.min(trial.seconds);
        }
    }
    Ok(SweepState {
        name: name_of(dir),
        environments: spec.environments.clone(),
        done: results.len(),
        planned: spec.planned().max(table.decisions()?.len() * spec.seeds.len()),
        failed: results.iter().filter(|row| row.result.is_err()).count(),
        seconds: table.wall_s()?,
        live: is_held(dir),
        trials,
    })
}
