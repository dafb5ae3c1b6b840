//! What a sweep, or any set of runs, says: settings with intervals over seeds, curves, comparisons, importance of settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use operant_run::{Error, Result, RunResult};
use serde::Serialize;
use toml::Table as Toml;

use crate::search::Trial;
use crate::search::plain;
use crate::spec::{Method, Objective, Spec};
use crate::stats::{self, Estimate};
use crate::sweep::{TRIALS, curve_of, run_name};
use crate::table::{CurvePoint, Table};

/// Curves are drawn of the best settings, up to this number.
pub const CURVES: usize = 8;
/// Points of a drawn curve.
const POINTS: usize = 64;
/// Parts that the range of a setting is split into to judge its importance.
const PARTS: usize = 4;

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The sweep's name, or how many runs there are.
    pub title: String,
    /// One part for each environment.
    pub environments: Vec<EnvReport>,
    /// Wall time of a sweep, in seconds.
    pub wall_s: Option<f64>,
    /// Sum of the runs' wall times, in seconds.
    pub runs_s: f64,
    /// Number of runs.
    pub runs: usize,
    /// Number of runs that failed.
    pub failed: usize,
    /// The machine of the sweep; for runs the one that the report was made on.
    pub machine: String,
    /// Version of operant that began the sweep; for runs the one that made the report.
    pub version: String,
}

/// The part of an environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnvReport {
    /// Its name.
    pub env: String,
    /// The settings that all its runs share, as TOML.
    pub common: String,
    /// Settings, the best first.
    pub groups: Vec<Group>,
    /// The probability that a run of the better setting scores higher: `improvement[i][j]` for the settings `i < j`, of the first few.
    pub improvement: Vec<Vec<Option<Estimate>>>,
    /// The share of the variance of scores that each varied setting explains by itself.
    pub importance: Vec<(String, f64)>,
}

/// Runs that differ in their seeds only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The trial's number in a sweep, or the name of the first run.
    pub name: String,
    /// What distinguishes it from the others.
    pub settings: Vec<(String, String)>,
    /// The interquartile mean of the scores, with its interval; None if no run has one.
    pub score: Option<Estimate>,
    /// Mean score.
    pub mean: f64,
    /// What the search of a sweep maximised: the mean over seeds.
    pub objective: Option<f64>,
    /// Median of the environment steps.
    pub env_steps: f64,
    /// Median of the seconds of training.
    pub train_s: f64,
    /// Runs that solved the environment.
    pub solved: usize,
    /// Median of the steps until then.
    pub solved_at_step: Option<f64>,
    /// Median of the seconds until then.
    pub solved_at_s: Option<f64>,
    /// Whether no other setting has a higher score in less time.
    pub pareto: bool,
    /// Runs, by seed.
    pub runs: Vec<Run>,
    /// Interquartile means of the training return over environment steps, of the first few settings.
    pub by_steps: Vec<(f64, Estimate)>,
    /// The same over seconds of training.
    pub by_seconds: Vec<(f64, Estimate)>,
}

/// A run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// Seed.
    pub seed: u64,
    /// Mean return of the last evaluation; None if it failed.
    pub score: Option<f64>,
    /// Environment steps.
    pub env_steps: u64,
    /// Seconds of training.
    pub train_s: f64,
    /// Seconds in all.
    pub wall_s: f64,
    /// Steps until the environment was solved.
    pub solved_at_step: Option<u64>,
    /// Seconds until then.
    pub solved_at_s: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its directory.
    pub dir: PathBuf,
    #[serde(skip)]
    curve: Vec<CurvePoint>,
}

impl Run {
    fn of(result: &RunResult, dir: PathBuf, curve: Vec<CurvePoint>) -> Self {
        Self {
            seed: result.seed,
            score: result.eval_return_mean,
            env_steps: result.env_steps,
            train_s: result.train_s,
            wall_s: result.wall_s,
            solved_at_step: result.solved_at_step,
            solved_at_s: result.solved_at_s,
            error: None,
            dir,
            curve,
        }
    }

    fn failed(seed: u64, error: String, dir: PathBuf) -> Self {
        Self { seed, error: Some(error), dir, ..Self::default() }
    }
}

/// Whether a directory is that of a sweep.
pub fn is_sweep(dir: &Path) -> bool {
    dir.join(crate::table::FILE).is_file()
}

impl Report {
    /// The report of a sweep, finished or not.
    ///
    /// # Errors
    /// When its table cannot be read.
    pub fn of_sweep(dir: &Path) -> Result<Self> {
        let (table, spec) = Table::open(dir, false)?;
        let trials = table.trials(&spec)?;
        let (results, bases) = (table.results()?, table.bases()?);
        let by_objective = spec.search.objective != Objective::EvalReturn;
        let mut parts = Vec::new();
        for (number, env) in spec.environments.iter().enumerate() {
            let mut groups = Vec::new();
            for row in trials.iter().filter(|row| row.trial.env == number) {
                let mut runs = BTreeMap::new();
                for result in results.iter().filter(|result| result.trial == row.trial.id) {
                    let dir = dir.join(TRIALS).join(run_name(result.trial, result.seed));
                    // Results come in the order of steps: the last one stays.
                    let run = match &result.result {
                        Ok(done) => Run::of(done, dir, table.curve(result.trial, result.seed)?),
                        Err(error) => Run::failed(result.seed, error.clone(), dir),
                    };
                    runs.insert(result.seed, run);
                }
                let keys = spec.axes.iter().map(|axis| axis.key.clone());
                let settings = keys.zip(row.trial.point.iter().map(plain)).collect();
                if !runs.is_empty() {
                    let mut group =
                        Group::new(row.trial.id.to_string(), settings, runs.into_values().collect());
                    group.objective = row.trial.results.last().map(|result| result.objective);
                    groups.push(group);
                }
            }
            let own: Vec<&Trial> =
                trials.iter().map(|row| &row.trial).filter(|trial| trial.env == number).collect();
            let vary: Vec<&str> = spec.axes.iter().map(|axis| axis.key.as_str()).collect();
            let common = without(bases.get(number).map_or("", |base| &base.config), &vary);
            parts.push(EnvReport::of(env.clone(), common, groups, importances(&spec, &own), by_objective));
        }
        let (machine, version) = (table.fact("machine")?, table.fact("version")?);
        let wall_s = Some(table.wall_s()?);
        Ok(Self { wall_s, machine, version, ..Self::new(operant_run::dir::name_of(dir), parts) })
    }

    /// The report of runs, given by their directories.
    ///
    /// # Errors
    /// When one has no result.
    pub fn of_runs(dirs: &[PathBuf]) -> Result<Self> {
        let mut found: Vec<(RunResult, Run)> = Vec::new();
        for dir in dirs {
            let result = RunResult::read(dir).ok_or_else(|| {
                Error::usage(format!("run {} has no result yet", operant_run::dir::name_of(dir)))
                    .at(dir.display().to_string())
                    .remedy("wait for its end, or continue it with `operant train --resume`")
            })?;
            let run = Run::of(&result, dir.clone(), curve_of(dir, result.env_steps)?);
            found.push((result, run));
        }
        let strip = |config: &Toml| {
            let mut config = config.clone();
            for key in ["seed", "name", "threads", "run_dir"] {
                config.remove(key);
            }
            config
        };
        let mut by_env: BTreeMap<String, Vec<(Toml, String, Vec<Run>)>> = BTreeMap::new();
        for (result, run) in found {
            let (config, groups) = (strip(&result.config), by_env.entry(result.env.clone()).or_default());
            match groups.iter_mut().find(|(other, ..)| *other == config) {
                Some((.., runs)) => runs.push(run),
                None => groups.push((config, result.run.clone(), vec![run])),
            }
        }
        let mut parts = Vec::new();
        for (env, groups) in by_env {
            let configs: Vec<&Toml> = groups.iter().map(|(config, ..)| config).collect();
            let keys: Vec<String> = configs.iter().flat_map(|config| config.keys().cloned()).collect();
            let differs = |key: &String| configs.iter().any(|config| config.get(key) != configs[0].get(key));
            let mut varied: Vec<String> = keys.iter().filter(|key| differs(key)).cloned().collect();
            varied.sort();
            varied.dedup();
            let mut common = configs[0].clone();
            common.retain(|key, _| !varied.contains(&key.to_string()));
            let label = |config: &Toml| {
                let value = |key: &String| config.get(key).map_or_else(|| "-".to_owned(), plain);
                varied.iter().map(|key| (key.clone(), value(key))).collect()
            };
            let made = groups
                .iter()
                .map(|(config, name, runs)| Group::new(name.clone(), label(config), runs.clone()));
            parts.push(EnvReport::of(env, common.to_string(), made.collect(), Vec::new(), false));
        }
        let runs: usize = parts.iter().flat_map(|part| &part.groups).map(|group| group.runs.len()).sum();
        let title = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        Ok(Self::new(title, parts))
    }

    fn new(title: String, environments: Vec<EnvReport>) -> Self {
        let runs = || environments.iter().flat_map(|part| &part.groups).flat_map(|group| &group.runs);
        Self {
            runs_s: runs().map(|run| run.wall_s).sum(),
            runs: runs().count(),
            failed: runs().filter(|run| run.error.is_some()).count(),
            machine: this_machine(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title,
            environments,
            wall_s: None,
        }
    }
}

/// This machine in a few words.
pub(crate) fn this_machine() -> String {
    let topology = operant_host::Topology::read();
    let processor = topology.processor.unwrap_or_else(|| "an unknown processor".to_owned());
    format!("{processor}, {} usable CPUs", topology.usable.len().max(topology.parallelism))
}

impl Report {
    /// How many runs there are and what they took, in one line.
    pub fn summary(&self) -> String {
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let time = self.wall_s.map_or_else(String::new, |wall_s| format!(" in {wall_s:.1} s"));
        format!(
            "{} runs{failed}{time}; {:.1} s of runs in all; {}; operant {}",
            self.runs, self.runs_s, self.machine, self.version
        )
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report is numbers and text")
    }
}

/// A configuration without some keys.
fn without(config: &str, keys: &[&str]) -> String {
    let mut table: Toml = config.parse().unwrap_or_default();
    for key in keys.iter().chain(&["seed", "name", "threads", "run_dir"]) {
        table.remove(*key);
    }
    table.to_string()
}

impl EnvReport {
    /// Sorts the settings and compares them.
    fn of(
        env: String,
        common: String,
        mut groups: Vec<Group>,
        mut importance: Vec<(String, f64)>,
        by_objective: bool,
    ) -> Self {
        let score = |group: &Group| group.score.map_or(f64::NEG_INFINITY, |score| score.value);
        groups.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.train_s.total_cmp(&b.train_s)));
        // A setting is on the front if it is faster than all that score higher.
        let mut fastest = f64::INFINITY;
        for group in groups.iter_mut().filter(|group| group.score.is_some()) {
            group.pareto = group.train_s < fastest;
            fastest = fastest.min(group.train_s);
        }
        // Sorted by what the search maximised, if that is something else.
        let objective = |group: &Group| group.objective.unwrap_or(f64::NEG_INFINITY);
        if by_objective {
            groups.sort_by(|a, b| objective(b).total_cmp(&objective(a)));
        }
        let first = groups.len().min(CURVES);
        let steps = groups[..first].iter().flat_map(|group| &group.runs).filter_map(|run| run.curve.last());
        let (steps, seconds) = steps.fold((0.0, 0.0), |(steps, seconds), last| {
            (f64::max(steps, last.env_steps as f64), f64::max(seconds, last.train_s))
        });
        for group in &mut groups[..first] {
            group.by_steps = group.band(steps, |point| point.env_steps as f64);
            group.by_seconds = group.band(seconds, |point| point.train_s);
        }
        let compared: Vec<Vec<f64>> = groups[..first].iter().map(Group::scores).collect();
        let pair = |i: usize, j: usize| {
            let (a, b) = (&compared[i], &compared[j]);
            (i < j && !a.is_empty() && !b.is_empty()).then(|| stats::improvement(from_ref(a), from_ref(b)))
        };
        let improvement = (0..first).map(|i| (0..first).map(|j| pair(i, j)).collect()).collect();
        importance.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self { env, common, groups, improvement, importance }
    }
}

impl Group {
    fn new(name: String, settings: Vec<(String, String)>, runs: Vec<Run>) -> Self {
        let scores: Vec<f64> = runs.iter().filter_map(|run| run.score).collect();
        let median = |of: &dyn Fn(&Run) -> Option<f64>| {
            let mut values: Vec<f64> = runs.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            stats::quantile(&values, 0.5)
        };
        let some = |x: f64| x.is_finite().then_some(x);
        Self {
            score: (!scores.is_empty()).then(|| stats::aggregate(from_ref(&scores))),
            mean: stats::mean(&scores),
            objective: None,
            env_steps: median(&|run| run.error.is_none().then_some(run.env_steps as f64)),
            train_s: median(&|run| run.error.is_none().then_some(run.train_s)),
            solved: runs.iter().filter(|run| run.solved_at_step.is_some()).count(),
            solved_at_step: some(median(&|run| run.solved_at_step.map(|step| step as f64))),
            solved_at_s: some(median(&|run| run.solved_at_s)),
            pareto: false,
            name,
            settings,
            runs,
            by_steps: Vec::new(),
            by_seconds: Vec::new(),
        }
    }

    /// Scores of the runs that have one.
    pub fn scores(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.score).collect()
    }

    /// `learning_rate=0.001 gamma=0.99`, or the name if nothing varies.
    pub fn label(&self) -> String {
        if self.settings.is_empty() {
            return self.name.clone();
        }
        self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Interquartile means of the curves up to `end`, from where every run has a point.
    fn band(&self, end: f64, x: impl Fn(&CurvePoint) -> f64) -> Vec<(f64, Estimate)> {
        let curves: Vec<&Vec<CurvePoint>> =
            self.runs.iter().map(|run| &run.curve).filter(|curve| !curve.is_empty()).collect();
        let begin = curves.iter().map(|curve| x(&curve[0])).fold(0.0, f64::max);
        let own_end = curves.iter().filter_map(|curve| curve.last()).map(&x).fold(f64::INFINITY, f64::min);
        let at = (1..=POINTS).map(|k| end * k as f64 / POINTS as f64);
        at.filter(|at| *at >= begin && *at <= own_end && !curves.is_empty())
            .map(|at| {
                let values: Vec<f64> = curves.iter().map(|curve| interpolated(curve, at, &x)).collect();
                (at, stats::aggregate_with(from_ref(&values), stats::RESAMPLES / 10))
            })
            .collect()
    }
}

/// The return at a place between the points of a curve.
fn interpolated(curve: &[CurvePoint], at: f64, x: impl Fn(&CurvePoint) -> f64) -> f64 {
    let after = curve.partition_point(|point| x(point) < at);
    let (Some(b), before) = (curve.get(after), after.checked_sub(1).map(|k| &curve[k])) else {
        return curve.last().map_or(f64::NAN, |last| last.episodic_return);
    };
    let Some(a) = before else { return b.episodic_return };
    let part = (at - x(a)) / (x(b) - x(a));
    a.episodic_return + part * (b.episodic_return - a.episodic_return)
}

/// The best settings of two reports in one environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The environment.
    pub env: String,
    /// The best setting of the first.
    pub a: Side,
    /// The best setting of the second.
    pub b: Side,
    /// The probability that a run of the first scores higher.
    pub improvement: Estimate,
    /// Settings that differ: name, value in the first, value in the second.
    pub differences: Vec<(String, String, String)>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// What distinguishes the setting from others of its report.
    pub label: String,
    /// Interquartile mean.
    pub score: Estimate,
    /// Number of seeds with a score.
    pub seeds: usize,
}

/// Compares the best settings of two reports, in every environment that both have.
pub fn compare(a: &Report, b: &Report) -> Vec<Comparison> {
    let best = |part: &EnvReport| part.groups.first().filter(|group| group.score.is_some()).cloned();
    let mut all = Vec::new();
    for part in &a.environments {
        let Some(other) = b.environments.iter().find(|other| other.env == part.env) else { continue };
        let (Some(first), Some(second)) = (best(part), best(other)) else { continue };
        let config = |common: &str, group: &Group| {
            let mut config: BTreeMap<String, String> = BTreeMap::new();
            let common: Toml = common.parse().unwrap_or_default();
            config.extend(common.iter().map(|(key, value)| (key.clone(), plain(value))));
            config.extend(group.settings.iter().cloned());
            config
        };
        let (left, right) = (config(&part.common, &first), config(&other.common, &second));
        let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
        keys.sort();
        keys.dedup();
        let value = |of: &BTreeMap<String, String>, key: &String| {
            of.get(key).cloned().unwrap_or_else(|| "-".to_owned())
        };
        let differences = keys.into_iter().filter(|key| left.get(*key) != right.get(*key));
        let differences =
            differences.map(|key| (key.clone(), value(&left, key), value(&right, key))).collect();
        let side = |group: &Group| {
            let score = group.score.unwrap_or(Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN });
            Side { label: group.label(), score, seeds: group.scores().len() }
        };
        all.push(Comparison {
            env: part.env.clone(),
            improvement: stats::improvement(&[first.scores()], &[second.scores()]),
            a: side(&first),
            b: side(&second),
            differences,
        });
    }
    all
}

/// The importance of each varied setting, from the results that all trials have: the first of each. Settings change within the trials
/// of a population.
fn importances(spec: &Spec, trials: &[&Trial]) -> Vec<(String, f64)> {
    if matches!(spec.search.method, Method::Pbt { .. }) {
        return Vec::new();
    }
    let of = |axis: usize| {
        let first = |trial: &&Trial| Some((plain(trial.point.get(axis)?), trial.results.first()?.objective));
        importance(
            &trials.iter().filter_map(first).filter(|(_, score)| score.is_finite()).collect::<Vec<_>>(),
        )
    };
    let all = spec.axes.iter().enumerate().map(|(axis, setting)| (setting.key.clone(), of(axis)));
    all.filter(|(_, share)| share.is_finite()).collect()
}

/// The share of the variance of mean scores that one setting explains, adjusted for the number of its values (epsilon squared). NaN if
/// there are too few trials.
fn importance(scored: &[(String, f64)]) -> f64 {
    let mut values: Vec<&str> = scored.iter().map(|(value, _)| value.as_str()).collect();
    values.sort_unstable();
    values.dedup();
    let numbers: Option<Vec<f64>> = scored.iter().map(|(value, _)| value.parse().ok()).collect();
    // Many numbers are put into parts of equal counts.
    let part_of: Vec<usize> = match numbers.filter(|_| values.len() > 2 * PARTS) {
        Some(numbers) => {
            let mut sorted = numbers.clone();
            sorted.sort_by(f64::total_cmp);
            let rank = |x: &f64| sorted.partition_point(|y| y < x);
            numbers.iter().map(|x| rank(x) * PARTS / numbers.len()).collect()
        }
        None => scored.iter().map(|(value, _)| values.binary_search(&value.as_str()).unwrap_or(0)).collect(),
    };
    let parts = part_of.iter().max().map_or(0, |most| most + 1);
    let count = scored.len();
    if parts < 2 || count <= parts {
        return f64::NAN;
    }
    let all = stats::mean(&scored.iter().map(|(_, score)| *score).collect::<Vec<_>>());
    let total: f64 = scored.iter().map(|(_, score)| (score - all).powi(2)).sum();
    let within: f64 = (0..parts)
        .map(|part| {
            let scores: Vec<f64> = scored
                .iter()
                .zip(&part_of)
                .filter(|(_, of)| **of == part)
                .map(|((_, score), _)| *score)
                .collect();
            let mean = stats::mean(&scores);
            scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>()
        })
        .sum();
    let unexplained = (within / (count - parts) as f64) / (total / (count - 1) as f64);
    (1.0 - unexplained).clamp(0.0, 1.0)
}
