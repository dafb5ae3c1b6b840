//! How far a sweep is and what it has found so far, for lists and monitors: read often, while the sweep continues.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use operant_metrics::{Health, RunState, SweepState, SweepTrial};
use operant_run::runs::{self, Run};
use operant_run::{Result, sinks};

use crate::forecast::steps_of;
use crate::report::{CURVES, band};
use crate::search::{self, plain};
use crate::spec::{Objective, Spec};
use crate::stats::{self, Estimate, interquartile_mean, quantile};
use crate::sweep::TRIALS;
use crate::table::{CurvePoint, RunRow, Table, TrialRow};
use crate::task::{curve_of, run_name};

/// Resamples of an interval, fewer than a report's.
const RESAMPLES: usize = 2_000;

/// How often the curves of runs that train are read.
const CURVE_PERIOD: Duration = Duration::from_secs(2);

/// The sweep in this directory, without intervals and curves.
///
/// # Errors
/// When its table cannot be read.
pub fn overview(dir: &Path) -> Result<SweepState> {
    Ok(Reading::of(dir)?.state)
}

/// Reads a sweep again and again, with intervals and curves, which it keeps while their runs have no new result.
pub struct Overview {
    dir: PathBuf,
    intervals: BTreeMap<usize, (Vec<f64>, Estimate)>,
    curves: BTreeMap<usize, Curve>,
}

/// The curve of a trial.
struct Curve {
    results: usize,
    read: Instant,
    points: Vec<(f64, [f64; 3])>,
}

impl Overview {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, intervals: BTreeMap::new(), curves: BTreeMap::new() }
    }

    /// The sweep as it is now.
    ///
    /// # Errors
    /// When its table cannot be read.
    pub fn read(&mut self) -> Result<SweepState> {
        let Reading { table, spec, mut state, scores, results } = Reading::of(&self.dir)?;
        let mut drawn: BTreeMap<String, usize> = BTreeMap::new();
        for trial in &mut state.trials {
            let scores = scores.get(&trial.number).map_or(&[][..], Vec::as_slice);
            if scores.len() > 1 {
                let known = self.intervals.get(&trial.number).filter(|(of, _)| of == scores);
                let interval = known.map_or_else(
                    || stats::aggregate_with(&[scores.to_vec()], RESAMPLES),
                    |(_, interval)| *interval,
                );
                self.intervals.insert(trial.number, (scores.to_vec(), interval));
                trial.interval = Some([interval.low, interval.high]);
            }
            let drawn = drawn.entry(trial.env.clone()).or_default();
            if *drawn == CURVES {
                continue;
            }
            let results = results.get(&trial.number).copied().unwrap_or(0);
            let is_live = state.health.is_alive() && trial.done < trial.seeds;
            let is_known = |curve: &&Curve| {
                curve.results == results && (!is_live || curve.read.elapsed() < CURVE_PERIOD)
            };
            if self.curves.get(&trial.number).filter(is_known).is_none() {
                let points = curve(&table, &spec, trial, is_live)?;
                self.curves.insert(trial.number, Curve { results, read: Instant::now(), points });
            }
            trial.curve.clone_from(&self.curves[&trial.number].points);
            *drawn += usize::from(!trial.curve.is_empty());
        }
        Ok(state)
    }
}

/// The curve of a trial over its seeds, of runs that train too.
fn curve(table: &Table, spec: &Spec, trial: &SweepTrial, is_live: bool) -> Result<Vec<(f64, [f64; 3])>> {
    let mut curves: Vec<Vec<CurvePoint>> = Vec::new();
    for (seed, dir) in spec.seeds.iter().zip(&trial.runs) {
        let mut points = table.curve(trial.number, *seed)?;
        if points.is_empty() && is_live {
            let steps = sinks::last_row(&dir.join("metrics.csv")).map_or(0, |row| row.env_steps as u64);
            points = curve_of(dir, steps).unwrap_or_default();
        }
        curves.push(points);
    }
    curves.retain(|points| !points.is_empty());
    let curves: Vec<&Vec<CurvePoint>> = curves.iter().collect();
    let points = band(&curves, |point| point.env_steps as f64, RESAMPLES / 10);
    Ok(points.into_iter().map(|(at, of)| (at, [of.low, of.value, of.high])).collect())
}

/// What is read of a table.
struct Reading {
    table: Table,
    spec: Spec,
    state: SweepState,
    /// Scores, and the number of results, of each trial.
    scores: BTreeMap<usize, Vec<f64>>,
    results: BTreeMap<usize, usize>,
}

impl Reading {
    fn of(dir: &Path) -> Result<Self> {
        let run = runs::of_sweep(dir);
        let (table, spec) = Table::open(dir, false)?;
        let (rows, results) = (table.trials(&spec)?, table.results()?);
        // Results come in the order of seeds and steps: the last one of a seed stays.
        let mut last: BTreeMap<usize, BTreeMap<u64, &RunRow>> = BTreeMap::new();
        for row in &results {
            last.entry(row.trial).or_default().insert(row.seed, row);
        }
        let mut scores = BTreeMap::new();
        let mut trials = Vec::new();
        for row in &rows {
            let last: Vec<&RunRow> = last
                .get(&row.trial.id)
                .map(|by_seed| by_seed.values().copied().collect())
                .unwrap_or_default();
            let (trial, own) = shown(dir, &spec, row, &last);
            scores.insert(trial.number, own);
            trials.push(trial);
        }
        rank(&spec, &mut trials);
        let steps: Vec<u64> =
            table.bases(&spec)?.iter().map(|base| steps_of(&base.config).unwrap_or(0)).collect();
        let planned: usize =
            steps.iter().map(|steps| search::members(&spec.search, *steps).iter().sum::<usize>()).sum();
        let planned = planned.max(table.decisions()?.len()) * spec.seeds.len();
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for row in &results {
            *counts.entry(row.trial).or_default() += 1;
        }
        let seconds = table.wall_s()?;
        let health = match run.started.is_empty() && !run.health.is_alive() {
            // An earlier version carried it out, and wrote no state.
            true if results.len() >= planned => Health::Reported(RunState::Finished),
            _ => run.health,
        };
        let Run { run: name, reason, started, pid, .. } = run;
        let state = SweepState {
            name,
            dir: dir.to_owned(),
            environments: spec.environments.clone(),
            health,
            reason,
            started,
            pid,
            method: spec.search.method.name().to_owned(),
            objective: spec.search.objective.name(),
            seeds: spec.seeds.len(),
            done: results.len(),
            planned,
            failed: results.iter().filter(|row| row.result.is_err()).count(),
            trials_done: trials.iter().filter(|trial| trial.done == trial.seeds).count(),
            trials_planned: trials.len().max(spec.search.trials * spec.environments.len()),
            seconds,
            left: health.is_alive().then(|| left(&spec, &rows, &results, &steps, dir, seconds)).flatten(),
            trials,
        };
        Ok(Self { table, spec, state, scores, results: counts })
    }
}

/// A trial, and its scores.
fn shown(dir: &Path, spec: &Spec, row: &TrialRow, last: &[&RunRow]) -> (SweepTrial, Vec<f64>) {
    let trial = &row.trial;
    let of = |value: &dyn Fn(&operant_run::RunResult) -> Option<f64>| {
        let mut values: Vec<f64> =
            last.iter().filter_map(|row| row.result.as_ref().ok()).filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let scores = of(&|result| result.eval_return_mean);
    let run = |seed: &u64| dir.join(TRIALS).join(run_name(trial.id, *seed));
    let keys = spec.axes.iter().map(|axis| axis.key.clone());
    let shown = SweepTrial {
        number: trial.id,
        env: spec.environments[trial.env].clone(),
        settings: keys.zip(trial.point.iter().map(plain)).collect(),
        objective: trial.results.last().map_or(f64::NAN, |result| result.objective),
        score: interquartile_mean(&scores),
        interval: None,
        curve: Vec::new(),
        done: last.iter().filter(|row| row.until == trial.until).count(),
        seeds: spec.seeds.len(),
        failed: last.iter().filter(|row| row.result.is_err()).count(),
        solved: of(&|result| result.solved_at_step.map(|step| step as f64)).len(),
        seconds: quantile(&of(&|result| Some(result.train_s)), 0.5),
        steps: quantile(&of(&|result| Some(result.env_steps as f64)), 0.5),
        pareto: false,
        runs: spec.seeds.iter().map(run).collect(),
    };
    (shown, scores)
}

/// Sorts the trials of each environment, and marks their Pareto fronts.
fn rank(spec: &Spec, trials: &mut [SweepTrial]) {
    let or_least = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
    let score = |trial: &SweepTrial| or_least(trial.score);
    trials.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.seconds.total_cmp(&b.seconds)));
    for env in &spec.environments {
        let mut fastest = f64::INFINITY;
        for trial in trials.iter_mut().filter(|trial| trial.env == *env && trial.score.is_finite()) {
            trial.pareto = trial.seconds < fastest;
            fastest = fastest.min(trial.seconds);
        }
    }
    if spec.search.objective != Objective::EvalReturn {
        let objective = |trial: &SweepTrial| or_least(trial.objective);
        trials.sort_by(|a, b| objective(b).total_cmp(&objective(a)));
    }
    let place = |trial: &SweepTrial| spec.environments.iter().position(|env| *env == trial.env);
    trials.sort_by_key(place);
}

/// Seconds that are left at the speed so far; runs that train count with the steps that they have taken.
fn left(
    spec: &Spec,
    rows: &[TrialRow],
    results: &[RunRow],
    steps: &[u64],
    dir: &Path,
    seconds: f64,
) -> Option<f64> {
    let search = &spec.search;
    let all =
        steps.iter().map(|steps| search::total(search, *steps)).sum::<u64>() as f64 * spec.seeds.len() as f64;
    let work = |trial: usize, until: u64| search::work(search, steps[rows[trial].trial.env], until);
    let done: u64 =
        results.iter().filter(|row| row.trial < rows.len()).map(|row| work(row.trial, row.until)).sum();
    let has: BTreeSet<(usize, u64, u64)> =
        results.iter().map(|row| (row.trial, row.seed, row.until)).collect();
    let mut open: u64 = 0;
    for trial in rows.iter().map(|row| &row.trial) {
        let whole = steps[trial.env].min(trial.until);
        let work = work(trial.id, trial.until);
        for seed in &spec.seeds {
            if has.contains(&(trial.id, *seed, trial.until)) {
                continue;
            }
            let metrics = dir.join(TRIALS).join(run_name(trial.id, *seed)).join("metrics.csv");
            let taken = sinks::last_row(&metrics).map_or(0, |row| row.env_steps as u64);
            open += taken.saturating_sub(whole - work).min(work);
        }
    }
    let taken = (done + open) as f64;
    (taken > 0.0 && seconds > 0.0).then(|| (all - taken).max(0.0) * seconds / taken)
}
