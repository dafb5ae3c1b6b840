//! The runs that a sweep will train, and how long they may take, before it begins or continues.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use operant_run::{Result, RunResult};
use serde::Serialize;

use crate::plan::Plan;
use crate::report::{object, this_machine};
use crate::search::{self, Decision, Trial, WHOLE, plain};
use crate::spec::{Method, Spec};
use crate::table::{RunRow, Table};

/// Trials that are listed, at most; the others are counted.
const LISTED: usize = 1000;

/// What a sweep will do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// Trials with runs that have no result yet, as far as they are known before results are.
    pub trials: Vec<PlannedTrial>,
    /// Trials that are not listed: too many, or chosen by the search once results are known.
    pub more_trials: usize,
    /// Whether those depend on results.
    pub depends: bool,
    /// For halving and pbt: environment steps of each rung, and how many trials of an environment train so far.
    pub rungs: Vec<(u64, usize)>,
    /// Runs, each of a trial and a seed, and those that have their last result.
    pub runs: usize,
    pub runs_done: usize,
    /// Environment steps that are left.
    pub env_steps: u64,
    /// Runs side by side, and threads of each.
    pub jobs: usize,
    pub threads: usize,
    /// Seconds that they take at the measured speed; None if nothing is measured.
    pub seconds: Option<f64>,
    /// Where the speed was measured, or why it is unknown.
    pub basis: String,
}

/// A trial that will be trained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedTrial {
    pub trial: usize,
    pub env: String,
    #[serde(serialize_with = "object")]
    pub settings: Vec<(String, String)>,
    /// Seeds that have no result yet.
    pub seeds: Vec<u64>,
    /// Environment steps of a run, as far as they are decided.
    pub env_steps: u64,
}

/// Environment steps per second of a run of each environment, by the environment's own name.
type Speeds = BTreeMap<String, f64>;

impl Forecast {
    /// Of a sweep that has not begun; speeds are looked for in the sweeps of `parent`, then in its runs.
    pub fn of_plan(plan: &Plan, parent: &Path) -> Self {
        let steps: Vec<u64> = plan.environments.iter().map(|env| env.steps).collect();
        let of_point = |trial: &Trial| {
            let settings = plan.environments[trial.env].settings(&plan.spec, &trial.point);
            settings.map_or(steps[trial.env], |settings| settings.steps())
        };
        let mut forecast = Self::new(&plan.spec, &steps, Vec::new(), &[], &of_point);
        (forecast.jobs, forecast.threads) = (plan.jobs, plan.threads);
        let names: Vec<&str> = plan.environments.iter().map(|env| env.facts.name.as_str()).collect();
        let mut sweeps = operant_run::runs::sweeps(parent);
        sweeps.reverse();
        let speeds = sweeps.iter().find_map(|sweep| {
            let (table, spec) = Table::open(&sweep.dir, false).ok()?;
            let is_here = table.fact("machine").ok()? == this_machine();
            let speeds = measured(&table, &spec).ok().filter(|_| is_here)?;
            let has_all = names.iter().all(|name| speeds.contains_key(*name));
            has_all.then(|| (speeds, format!("sweep {}", sweep.run)))
        });
        match speeds.or_else(|| of_runs(&names, parent)) {
            Some((speeds, basis)) => forecast.estimate(&plan.spec, &names, &steps, &speeds, &basis),
            None => {
                let parent = parent.display();
                forecast.basis = format!("no run of {} has finished in {parent}", names.join(" and "));
            }
        }
        forecast
    }

    /// Of a sweep that continues with `jobs` runs side by side and `threads` threads each.
    ///
    /// # Errors
    /// When its table cannot be read.
    pub fn of_sweep(path: &Path, jobs: usize, threads: usize) -> Result<Self> {
        let (table, spec) = Table::open(path, false)?;
        let bases = table.bases(&spec)?;
        let steps: Vec<u64> = bases.iter().map(|base| steps_of(&base.config).unwrap_or(0)).collect();
        let rows = table.trials(&spec)?;
        let results = table.results()?;
        let configs: Vec<String> = rows.iter().map(|row| row.config.clone()).collect();
        let of_trial =
            |trial: &Trial| configs.get(trial.id).and_then(|text| steps_of(text)).unwrap_or(steps[trial.env]);
        let trials = rows.into_iter().map(|row| row.trial).collect();
        let mut forecast = Self::new(&spec, &steps, trials, &results, &of_trial);
        (forecast.jobs, forecast.threads) = (jobs, threads);
        let names: Vec<&str> = bases.iter().map(|base| base.name.as_str()).collect();
        let speeds = measured(&table, &spec)?;
        match names.iter().find(|name| !speeds.contains_key(**name)) {
            None => forecast.estimate(&spec, &names, &steps, &speeds, "its finished runs"),
            Some(name) => forecast.basis = format!("none of its runs of {name} has finished"),
        }
        Ok(forecast)
    }

    /// Follows the search as far as it needs no further result.
    fn new(
        spec: &Spec,
        steps: &[u64],
        mut trials: Vec<Trial>,
        results: &[RunRow],
        steps_of: &dyn Fn(&Trial) -> u64,
    ) -> Self {
        let environments = spec.environments.len();
        let known = search::known(&spec.search, &spec.axes);
        loop {
            let before = trials.len();
            for env in 0..environments {
                let own: Vec<&Trial> = trials.iter().filter(|trial| trial.env == env).collect();
                if own.len() >= known || trials.len() >= LISTED {
                    continue;
                }
                let decision = search::decide(&spec.search, &spec.axes, &own, steps[env]);
                if let Decision::Begin { point, parent: None, until, .. } = decision {
                    trials.push(Trial {
                        id: trials.len(),
                        env,
                        point,
                        parent: None,
                        until,
                        results: Vec::new(),
                    });
                }
            }
            if trials.len() == before {
                break;
            }
        }
        let has: BTreeSet<(usize, u64, u64)> =
            results.iter().map(|row| (row.trial, row.seed, row.until)).collect();
        let has_result = |trial: &Trial, seed: u64| has.contains(&(trial.id, seed, trial.until));
        let all = spec.search.trials * environments;
        let listed = trials.len();
        let is_population = matches!(spec.search.method, Method::Pbt { .. });
        let planned: Vec<PlannedTrial> = trials
            .iter()
            .map(|trial| PlannedTrial {
                trial: trial.id,
                env: spec.environments[trial.env].clone(),
                settings: spec
                    .axes
                    .iter()
                    .map(|axis| axis.key.clone())
                    .zip(trial.point.iter().map(plain))
                    .collect(),
                seeds: spec.seeds.iter().copied().filter(|seed| !has_result(trial, *seed)).collect(),
                env_steps: trial.until.min(steps_of(trial)),
            })
            .filter(|trial| !trial.seeds.is_empty())
            .collect();
        let rungs = match environments {
            1 => search::rungs(&spec.search, steps[0])
                .into_iter()
                .zip(search::members(&spec.search, steps[0]))
                .collect(),
            _ => Vec::new(),
        };
        let work = |row: &RunRow| {
            let env = trials.get(row.trial).map_or(0, |trial| trial.env);
            search::work(&spec.search, steps[env], row.until)
        };
        let exact = planned
            .iter()
            .map(|trial| trial.env_steps.saturating_mul(trial.seeds.len() as u64))
            .fold(0, u64::saturating_add);
        let total =
            steps.iter().map(|steps| search::total(&spec.search, *steps)).fold(0, u64::saturating_add);
        let done = results.iter().map(work).fold(0, u64::saturating_add);
        let left = total.saturating_mul(spec.seeds.len() as u64).saturating_sub(done);
        let is_exact = spec.search.halving.is_none() && !is_population && listed >= all;
        Self {
            runs: all.max(listed) * spec.seeds.len(),
            runs_done: trials
                .iter()
                .map(|trial| spec.seeds.iter().filter(|seed| has_result(trial, **seed)).count())
                .sum(),
            trials: planned,
            more_trials: all.saturating_sub(listed),
            depends: known < spec.search.trials || is_population,
            rungs: if rungs.len() > 1 { rungs } else { Vec::new() },
            env_steps: if is_exact { exact } else { left },
            jobs: 0,
            threads: 0,
            seconds: None,
            basis: String::new(),
        }
    }

    /// Estimates the seconds from the speed of runs that have finished.
    fn estimate(&mut self, spec: &Spec, names: &[&str], steps: &[u64], speeds: &Speeds, basis: &str) {
        let total =
            steps.iter().map(|steps| search::total(&spec.search, *steps)).fold(0, u64::saturating_add);
        // Environments have their shares of the steps that are left.
        let seconds: f64 = names
            .iter()
            .zip(steps)
            .map(|(name, steps)| {
                let share = search::total(&spec.search, *steps) as f64 / total.max(1) as f64;
                self.env_steps as f64 * share / speeds[*name]
            })
            .sum();
        let runs = self.runs.saturating_sub(self.runs_done).max(1);
        self.seconds = Some(seconds / self.jobs.clamp(1, runs) as f64);
        let each: Vec<String> = names
            .iter()
            .map(|name| format!("{} steps/s a run of {name}", operant_run::progress::short(speeds[*name])))
            .collect();
        self.basis = format!("{}, measured in {basis}", each.join(", "));
    }
}

/// The speed of the latest finished run of each environment on the CPU, and their names; a run may have had more threads.
fn of_runs(names: &[&str], parent: &Path) -> Option<(Speeds, String)> {
    let mut runs = operant_run::runs::list(parent);
    runs.reverse();
    let mut found = Vec::new();
    let mut latest = |name: &str| {
        let mut own = runs.iter().filter(|run| run.env == name && run.device == "cpu");
        let (run, result) = own.find_map(|run| Some((run, RunResult::read(&run.dir)?)))?;
        found.push(format!("run {}", run.run));
        (result.wall_s > 0.0).then(|| (name.to_owned(), result.env_steps as f64 / result.wall_s))
    };
    let speeds = names.iter().map(|name| latest(name)).collect::<Option<_>>()?;
    Some((speeds, found.join(" and ")))
}

/// The speed of the runs that have finished, evaluations included.
fn measured(table: &Table, spec: &Spec) -> Result<Speeds> {
    let names: Vec<String> = table.bases(spec)?.into_iter().map(|base| base.name).collect();
    let env_of: Vec<usize> = table.trials(spec)?.iter().map(|row| row.trial.env).collect();
    // The last result of a run has its whole time.
    let mut last: BTreeMap<(usize, u64), RunRow> = BTreeMap::new();
    for row in table.results()? {
        last.insert((row.trial, row.seed), row);
    }
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for row in last.values() {
        let (Ok(result), Some(env)) = (&row.result, env_of.get(row.trial)) else { continue };
        let sum = sums.entry(&names[*env]).or_default();
        *sum = (sum.0 + result.env_steps as f64, sum.1 + result.wall_s);
    }
    let speed = |(name, (steps, seconds)): (&str, (f64, f64))| {
        (steps > 0.0 && seconds > 0.0).then(|| (name.to_owned(), steps / seconds))
    };
    Ok(sums.into_iter().filter_map(speed).collect())
}

/// Environment steps of a run with this configuration: whole updates.
pub(crate) fn steps_of(config: &str) -> Option<u64> {
    let config: toml::Table = config.parse().ok()?;
    let number = |key: &str| u64::try_from(config.get(key)?.as_integer()?).ok();
    let batch = number("num_envs")?.checked_mul(number("num_steps")?)?.max(1);
    Some(number("total_timesteps")?.div_ceil(batch).max(1).saturating_mul(batch).min(WHOLE))
}
