//! What a sweep, or any set of runs, shows: scores of configurations with intervals over seeds, curves, comparisons, importance of
//! settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use operant_metrics::aligned;
use operant_run::league::League;
use operant_run::{Error, Result, RunResult};
use serde::Serialize;
use toml::Table as Toml;

use crate::html::number;
use crate::search::{Trial, plain};
use crate::spec::{Method, Objective, Spec};
use crate::stats::{self, Estimate};
use crate::sweep::TRIALS;
use crate::table::{self, CurvePoint, RunRow, Table};
use crate::task::{curve_of, run_name};

/// The best configurations, up to this number, are drawn and compared.
pub const CURVES: usize = 8;
/// Points of a drawn curve.
const POINTS: usize = 64;
/// Parts that the range of a setting is split into to judge its importance.
const PARTS: usize = 4;

/// The results of a sweep or of runs, by environment and configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The sweep's name, or how many runs there are.
    pub title: String,
    /// One part for each environment.
    pub environments: Vec<EnvReport>,
    /// Wall time of a sweep, in seconds.
    pub wall_s: Option<f64>,
    /// Sum of the runs' wall times, in seconds; copies in a population include the time of their originals.
    pub runs_s: f64,
    /// Number of runs that are reported.
    pub runs: usize,
    /// Results of a sweep that are planned, and those so far: a run that was continued has several.
    pub planned: usize,
    /// See `planned`.
    pub results: usize,
    /// Number of runs that failed.
    pub failed: usize,
    /// The machine of the sweep; for runs the one that the report was made on.
    pub machine: String,
    /// Version of operant that began the sweep; for runs the one that made the report.
    pub version: String,
    /// When the sweep began, UTC; for runs when the report was made.
    pub date: String,
    /// The command that began the sweep; null if it is unknown.
    pub command: Option<String>,
    /// Ratings of a league of the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub league: Option<League>,
}

/// The part of an environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnvReport {
    /// Its name.
    pub env: String,
    /// The settings that all its runs share.
    pub common: BTreeMap<String, String>,
    /// Configurations, the best first.
    pub groups: Vec<SeedGroup>,
    /// The probability that a run of the better configuration scores higher: `improvement[i][j]` for `i < j` of the first few. None where
    /// one of them has fewer than two scores.
    pub improvement: Vec<Vec<Option<Estimate>>>,
    /// What the runs show, in a sentence or two.
    pub verdict: String,
    /// The share of the variance of objectives that each varied setting explains by itself; null if there are too few runs.
    pub importance: Vec<(String, f64)>,
    /// The metric of the environment that the search maximised or minimised, and the sign of its values in `objective`.
    #[serde(skip)]
    pub metric: Option<(String, f64)>,
}

/// Runs that differ in their seeds only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedGroup {
    /// `learning_rate=0.001 gamma=0.99`, what distinguishes it from the others. If nothing does, the trial's number, or the name of the first
    /// run.
    pub name: String,
    /// What distinguishes it from the others; in JSON an object with numbers where they are numbers.
    #[serde(serialize_with = "object")]
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
    /// Whether it is on the Pareto front of score and training time.
    pub pareto: bool,
    /// Runs, by seed.
    pub runs: Vec<Run>,
    /// Interquartile means of the training return over environment steps, of the best few.
    pub by_steps: Vec<(f64, Estimate)>,
    /// Like `by_steps`, over seconds of training.
    pub by_seconds: Vec<(f64, Estimate)>,
}

/// The result of a run, and its curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
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
    pub dir: PathBuf,
    #[serde(skip)]
    trial: usize,
    #[serde(skip)]
    curve: Vec<CurvePoint>,
}

impl Run {
    fn of(result: &RunResult, dir: PathBuf) -> Self {
        Self {
            seed: result.seed,
            score: result.eval_return_mean,
            env_steps: result.env_steps,
            train_s: result.train_s,
            wall_s: result.wall_s,
            solved_at_step: result.solved_at_step,
            solved_at_s: result.solved_at_s,
            dir,
            ..Self::default()
        }
    }

    fn failed(seed: u64, error: String, dir: PathBuf) -> Self {
        Self { seed, error: Some(error), dir, ..Self::default() }
    }
}

impl Report {
    /// The report of a sweep, finished or not.
    pub fn of_sweep(dir: &Path) -> Result<Self> {
        let (table, spec) = Table::open(dir, false)?;
        let (trials, results, bases) = (table.trials(&spec)?, table.results()?, table.bases(&spec)?);
        // Results come in the order of seeds and steps, so the last one of a seed stays.
        let mut last: BTreeMap<usize, BTreeMap<u64, &RunRow>> = BTreeMap::new();
        let mut first: BTreeMap<usize, BTreeMap<u64, &RunRow>> = BTreeMap::new();
        for row in &results {
            last.entry(row.trial).or_default().insert(row.seed, row);
            first.entry(row.trial).or_default().entry(row.seed).or_insert(row);
        }
        let is_population = matches!(spec.search.method, Method::Pbt { .. });
        // A population shows the members that were not replaced.
        let furthest = trials.iter().map(|row| row.trial.until).max().unwrap_or(0);
        let sought = Some(&spec.search.objective).filter(|objective| **objective != Objective::EvalReturn);
        let mut parts = Vec::new();
        for (number, base) in bases.iter().enumerate() {
            let own: Vec<&Trial> =
                trials.iter().map(|row| &row.trial).filter(|trial| trial.env == number).collect();
            let mut groups = Vec::new();
            for trial in own.iter().filter(|trial| !is_population || trial.until == furthest) {
                let Some(rows) = last.get(&trial.id) else { continue };
                let run = |row: &&RunRow| {
                    let dir = dir.join(TRIALS).join(run_name(row.trial, row.seed));
                    let run = match &row.result {
                        Ok(done) => Run::of(done, dir),
                        Err(error) => Run::failed(row.seed, error.clone(), dir),
                    };
                    Run { trial: row.trial, ..run }
                };
                let keys = spec.axes.iter().map(|axis| axis.key.clone());
                let settings = keys.zip(trial.point.iter().map(plain)).collect();
                let name = format!("trial {}", trial.id);
                let mut group = SeedGroup::new(name, settings, rows.values().map(run).collect());
                group.objective = trial.results.last().map(|result| result.objective);
                groups.push(group);
            }
            let mut common = flat(&base.config.parse().unwrap_or_default());
            common.retain(|key, _| spec.axes.iter().all(|axis| axis.key != *key));
            let mut part = EnvReport::new(base.name.clone(), common, groups, sought);
            let objective = |row: &&RunRow| table::objective(&spec.search.objective, row);
            let scored: Vec<(&Trial, f64)> = (own.iter())
                .filter_map(|trial| Some((*trial, first.get(&trial.id)?)))
                .flat_map(|(trial, rows)| rows.values().map(move |row| (trial, objective(row))))
                .filter(|(_, score)| score.is_finite())
                .collect();
            if !is_population {
                part.importance = importances(&spec, &scored);
            }
            for run in part.groups.iter_mut().take(CURVES).flat_map(|group| &mut group.runs) {
                run.curve = table.curve(run.trial, run.seed)?;
            }
            part.draw();
            parts.push(part);
        }
        let mut report = Self::new(operant_run::dir::name_of(dir), parts);
        (report.machine, report.version) = (table.fact("machine")?, table.fact("version")?);
        report.date = table.fact(table::CREATED)?;
        report.command = Some(table.fact(table::COMMAND)?).filter(|command| !command.is_empty());
        report.wall_s = Some(table.wall_s()?);
        report.planned = spec.planned().max(results.len());
        report.results = results.len();
        Ok(report)
    }

    /// The report of runs, given by their directories.
    ///
    /// # Errors
    /// When one has no result.
    pub fn of_runs(dirs: &[PathBuf]) -> Result<Self> {
        let mut by_env: BTreeMap<String, Vec<RunsOfConfig>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for dir in dirs {
            if !seen.insert(std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone())) {
                continue;
            }
            let result = RunResult::read(dir).ok_or_else(|| {
                Error::usage(format!("run {} has no result yet", operant_run::dir::name_of(dir)))
                    .at(dir.display().to_string())
                    .remedy("wait for its end, or continue it with `operant train --resume`")
            })?;
            let mut run = Run::of(&result, dir.clone());
            run.curve = curve_of(dir, result.env_steps)?;
            let (config, groups) = (flat(&result.config), by_env.entry(result.env.clone()).or_default());
            match groups.iter_mut().find(|(other, ..)| *other == config) {
                // The same run once more says nothing new.
                Some((.., runs))
                    if runs.iter().any(|other| (other.seed, other.score) == (run.seed, run.score)) => {}
                Some((.., runs)) => runs.push(run),
                // A run that was renamed or copied has the name of its directory, and its result an earlier one.
                None => groups.push((config, operant_run::dir::name_of(dir), vec![run])),
            }
        }
        let mut parts = Vec::new();
        for (env, groups) in by_env {
            let configs: Vec<&BTreeMap<String, String>> = groups.iter().map(|(config, ..)| config).collect();
            let keys: BTreeSet<&String> = configs.iter().flat_map(|config| config.keys()).collect();
            let is_common = |key: &str| configs.iter().all(|config| config.get(key) == configs[0].get(key));
            // Each algorithm has its own settings and presets, so settings that differ only between algorithms are left out.
            let of_same = |config: &&BTreeMap<String, String>, other: &&BTreeMap<String, String>| {
                config.get(ALGORITHM) == other.get(ALGORITHM)
            };
            let is_varied = |key: &&&String| {
                key.as_str() == ALGORITHM && !is_common(ALGORITHM)
                    || configs.iter().any(|config| {
                        let first = configs.iter().find(|other| of_same(config, other));
                        first.is_some_and(|first| first.get(**key) != config.get(**key))
                    })
            };
            let same = keys.iter().copied().filter(|key| is_common(key));
            let mut varied: Vec<&String> = keys.iter().filter(is_varied).copied().collect();
            varied.sort_by_key(|key| *key != ALGORITHM);
            let value = |config: &BTreeMap<String, String>, key: &String| {
                (key.clone(), config.get(key).cloned().unwrap_or_else(|| "-".to_owned()))
            };
            let common = same.map(|key| value(configs[0], key)).collect();
            let made = groups.iter().map(|(config, name, runs)| {
                let settings = varied.iter().map(|key| value(config, key)).collect();
                SeedGroup::new(name.clone(), settings, runs.clone())
            });
            let mut part = EnvReport::new(env, common, made.collect(), None);
            part.draw();
            parts.push(part);
        }
        let runs: usize = parts.iter().flat_map(|part| &part.groups).map(|group| group.runs.len()).sum();
        Ok(Self::new(counted(runs, "run"), parts))
    }

    fn new(title: String, environments: Vec<EnvReport>) -> Self {
        let runs = || environments.iter().flat_map(|part| &part.groups).flat_map(|group| &group.runs);
        Self {
            runs_s: runs().map(|run| run.wall_s).sum::<f64>() + 0.0,
            runs: runs().count(),
            failed: runs().filter(|run| run.error.is_some()).count(),
            machine: this_machine(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            date: operant_run::dir::utc(std::time::SystemTime::now()),
            command: None,
            league: None,
            planned: runs().count(),
            results: runs().count(),
            title,
            environments,
            wall_s: None,
        }
    }
}

/// The setting that names the algorithm.
const ALGORITHM: &str = "algorithm";

/// Runs with one configuration, and the name of the first.
type RunsOfConfig = (BTreeMap<String, String>, String, Vec<Run>);

/// This machine in a few words.
pub(crate) fn this_machine() -> String {
    let topology = operant_host::Topology::read();
    let processor = topology.processor.unwrap_or_else(|| "an unknown processor".to_owned());
    format!("{processor}, {} usable CPUs", topology.usable.len().max(topology.parallelism))
}

impl Report {
    /// How many runs there are, what they took, and where, in one line.
    pub fn summary(&self) -> String {
        format!("{}; {}; operant {}", self.extent(), self.machine, self.version)
    }

    /// How many runs there are and what they took.
    pub fn extent(&self) -> String {
        let runs = match (self.runs, self.results < self.planned) {
            (0, _) => format!("no run has finished yet (0 of {})", self.planned),
            (_, true) => format!("{} of {} runs finished", self.results, self.planned),
            (runs, false) => counted(runs, "run"),
        };
        let failed =
            if self.failed > 0 { format!("; {} failed", counted(self.failed, "run")) } else { String::new() };
        let wall = self.wall_s.map_or_else(String::new, |wall_s| format!("; {wall_s:.1} s wall time"));
        format!("{runs}{failed}{wall}")
    }

    /// Whether there are runs and all of them failed.
    pub fn has_failed(&self) -> bool {
        self.runs > 0 && self.failed == self.runs
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report is numbers and text")
    }
}

/// `1 run`, `2 runs`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A configuration with options of the environment as `env.NAME`, without what differs between the runs of a configuration.
fn flat(config: &Toml) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (key, value) in config {
        match value {
            toml::Value::Table(options) if key == "env" => {
                all.extend(options.iter().map(|(option, value)| (format!("env.{option}"), plain(value))));
            }
            _ if ["seed", "name", "threads", "run_dir", "environment"].contains(&key.as_str()) => {}
            value => {
                all.insert(key.clone(), plain(value));
            }
        }
    }
    all
}

/// Settings as a JSON object.
pub(crate) fn object<S: serde::Serializer>(
    settings: &[(String, String)],
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    let value =
        |text: &String| serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::from(text.as_str()));
    to.collect_map(settings.iter().map(|(key, text)| (key, value(text))))
}

impl EnvReport {
    /// Sorts the configurations and compares them.
    fn new(
        env: String,
        common: BTreeMap<String, String>,
        mut groups: Vec<SeedGroup>,
        sought: Option<&Objective>,
    ) -> Self {
        let score = |group: &SeedGroup| group.score.map_or(f64::NEG_INFINITY, |score| score.value);
        groups.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.train_s.total_cmp(&b.train_s)));
        // A configuration is on the front if it is faster than all others with at least its score.
        let mut fastest = f64::INFINITY;
        for group in groups.iter_mut().filter(|group| group.score.is_some()) {
            group.pareto = group.train_s < fastest;
            fastest = fastest.min(group.train_s);
        }
        // Sorted by what the search maximised, if that is something else.
        let objective = |group: &SeedGroup| group.objective.unwrap_or(f64::NEG_INFINITY);
        if sought.is_some() {
            groups.sort_by(|a, b| objective(b).total_cmp(&objective(a)));
        }
        let compared: Vec<Vec<f64>> = groups.iter().take(CURVES).map(SeedGroup::scores).collect();
        let pair = |i: usize, j: usize| {
            let (a, b) = (&compared[i], &compared[j]);
            (i < j && a.len() > 1 && b.len() > 1).then(|| stats::improvement(from_ref(a), from_ref(b)))
        };
        let places = 0..compared.len();
        let improvement = places.clone().map(|i| places.clone().map(|j| pair(i, j)).collect()).collect();
        let verdict = String::new();
        let metric = sought.and_then(Objective::metric).map(|(name, sign)| (name.to_owned(), sign));
        let mut part = Self { env, common, groups, improvement, verdict, importance: Vec::new(), metric };
        part.verdict = part.verdict(sought);
        part
    }

    /// The metric that was searched for, of a configuration, as text.
    pub fn metric_of(&self, group: &SeedGroup) -> Option<String> {
        let (_, sign) = self.metric.as_ref()?;
        Some(group.objective.map_or_else(String::new, |value| number(sign * value)))
    }

    /// What the runs show: the best configuration, and whether its difference from the second is significant.
    fn verdict(&self, sought: Option<&Objective>) -> String {
        let Some(best) = self.groups.first().filter(|group| !group.scores().is_empty()) else {
            return match self.groups.is_empty() {
                true => format!("No run of {} has ended yet.", self.env),
                false => format!("Every run of {} failed.", self.env),
            };
        };
        let (count, seeds) = (self.groups.len(), best.scores().len());
        let score = best.score.map_or_else(String::new, |score| {
            let value = number(score.value);
            match seeds {
                1 => value,
                _ => format!("{value} (95% interval {} to {})", number(score.low), number(score.high)),
            }
        });
        let over = format!("over {}", counted(seeds, "seed"));
        if count == 1 {
            return format!("{} scores {score} on {} {over}.", best.name, self.env);
        }
        let seeks_solution = matches!(sought, Some(Objective::SolvedAtStep | Objective::SolvedAtS));
        if seeks_solution && self.groups.iter().all(|group| group.solved == 0) {
            let value =
                |group: &&SeedGroup| group.score.as_ref().map_or(f64::NEG_INFINITY, |score| score.value);
            let highest = self.groups.iter().max_by(|a, b| value(a).total_cmp(&value(b))).unwrap_or(best);
            return format!(
                "None of the {count} configurations solves {}. The highest eval return is {}, of {}.",
                self.env,
                number(value(&highest)),
                highest.name
            );
        }
        if let Some(tie) = self.tie(sought) {
            return tie;
        }
        let first = match sought.zip(best.objective) {
            Some((objective, value)) => format!(
                "{} is the best of {count} configurations on {} by {} ({}). Its eval return is {score} {over}.",
                best.name,
                self.env,
                objective.name(),
                objective.shown(value)
            ),
            None => format!(
                "{} scores best of {count} configurations on {}: {score} {over}.",
                best.name, self.env
            ),
        };
        let second = &self.groups[1];
        let is_few = [best, second].iter().any(|group| group.scores().len() < stats::RELIABLE);
        let lead = match self.improvement.first().and_then(|row| row.get(1)).copied().flatten() {
            _ if sought.is_some() && seeds > 1 => match is_few {
                true => {
                    format!("With fewer than {} seeds this may be chance; train more seeds.", stats::RELIABLE)
                }
                false => return first,
            },
            None => "With one seed the difference may be chance; train more seeds.".to_owned(),
            Some(Estimate { value, low, high }) => {
                let chance = format!("with a probability of {value:.2} ({low:.2} to {high:.2})");
                let lead =
                    format!("A run of it scores higher than one of the second, {}, {chance}", second.name);
                match low > 0.5 {
                    _ if is_few => format!(
                        "{lead}; fewer than {} seeds: the interval is unreliable. Train more seeds.",
                        stats::RELIABLE
                    ),
                    true => format!("{lead}: the interval is above 0.5, so the difference is significant."),
                    false => {
                        format!("{lead}: the interval includes 0.5, so the difference is not significant.")
                    }
                }
            }
        };
        format!("{first} {lead}")
    }

    /// The verdict where several configurations share the first place.
    fn tie(&self, sought: Option<&Objective>) -> Option<String> {
        let rank = |group: &SeedGroup| match sought {
            Some(_) => group.objective,
            None => group.score.map(|score| score.value),
        };
        let best = rank(self.groups.first()?).filter(|best| best.is_finite())?;
        let tied: Vec<&SeedGroup> =
            self.groups.iter().take_while(|group| rank(group) == Some(best)).collect();
        let names = match &tied[..] {
            [] | [_] => return None,
            [a, b] => format!("{} and {}", a.name, b.name),
            [a, b, rest @ ..] => format!("{}, {} and {}", a.name, b.name, counted(rest.len(), "other")),
        };
        let place = match sought {
            Some(objective) => format!("by {} ({})", objective.name(), objective.shown(best)),
            None => format!("at {}", number(best)),
        };
        let count = self.groups.len();
        let tie = format!("{names} tie as the best of {count} configurations on {} {place}.", self.env);
        let next = match tied.iter().any(|group| group.scores().len() < 2) {
            true => "With one seed this may be chance; train more seeds.".to_owned(),
            // Equal scores are sorted by time, and equal objectives are not.
            false if sought.is_none() => format!("Of these, {} trains fastest.", tied[0].name),
            false => return Some(tie),
        };
        Some(format!("{tie} {next}"))
    }

    /// Draws the curves of the first few.
    fn draw(&mut self) {
        for group in self.groups.iter_mut().take(CURVES) {
            let curves: Vec<&Vec<CurvePoint>> =
                group.runs.iter().map(|run| &run.curve).filter(|curve| !curve.is_empty()).collect();
            let resamples = stats::RESAMPLES / 10;
            let by_steps = band(&curves, |point| point.env_steps as f64, resamples);
            group.by_seconds = band(&curves, |point| point.train_s, resamples);
            group.by_steps = by_steps;
        }
    }
}

impl SeedGroup {
    /// `name` names a configuration that no setting distinguishes.
    fn new(name: String, settings: Vec<(String, String)>, runs: Vec<Run>) -> Self {
        let assignments: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let name = if settings.is_empty() { name } else { assignments.join(" ") };
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

    /// Number of runs that failed.
    pub fn failed(&self) -> usize {
        self.runs.iter().filter(|run| run.error.is_some()).count()
    }

    /// Scores of the runs that have one.
    pub fn scores(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.score).collect()
    }
}

/// Interquartile means of curves at [`POINTS`] places: from where every curve has begun to where the first one ends.
pub(crate) fn band(
    curves: &[&Vec<CurvePoint>],
    x: impl Fn(&CurvePoint) -> f64,
    resamples: usize,
) -> Vec<(f64, Estimate)> {
    let curves: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|curve| curve.iter().map(|point| (x(point), point.episodic_return)).collect())
        .collect();
    let estimated = |(at, values)| (at, stats::aggregate_with(&[values], resamples));
    aligned(&curves, POINTS).into_iter().map(estimated).collect()
}

/// The best configurations of two reports in one environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub env: String,
    /// The best configuration of the first.
    pub a: Side,
    /// The best configuration of the second.
    pub b: Side,
    /// The probability that a run of the first scores higher; None where one of them has fewer than two scores.
    pub improvement: Option<Estimate>,
    /// Settings that differ: name, value in the first, value in the second.
    pub differences: Vec<(String, String, String)>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// What distinguishes the configuration from others of its report.
    pub label: String,
    /// Interquartile mean.
    pub score: Estimate,
    /// Number of seeds with a score.
    pub seeds: usize,
}

/// Compares the best configurations of two reports, in every environment in which both have scores.
pub fn compare(a: &Report, b: &Report) -> Vec<Comparison> {
    let best = |part: &EnvReport| part.groups.first().filter(|group| group.score.is_some()).cloned();
    let mut all = Vec::new();
    for part in &a.environments {
        let Some(other) = b.environments.iter().find(|other| other.env == part.env) else { continue };
        let (Some(first), Some(second)) = (best(part), best(other)) else { continue };
        let config = |common: &BTreeMap<String, String>, group: &SeedGroup| {
            let mut config = common.clone();
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
        let side = |group: &SeedGroup| {
            let score = group.score.unwrap_or(Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN });
            Side { label: group.name.clone(), score, seeds: group.scores().len() }
        };
        all.push(Comparison {
            env: part.env.clone(),
            improvement: (first.scores().len() > 1 && second.scores().len() > 1)
                .then(|| stats::improvement(&[first.scores()], &[second.scores()])),
            a: side(&first),
            b: side(&second),
            differences,
        });
    }
    all
}

/// The importance of each varied setting, from the first result of each run: with halving, all trials have that one. NaN if there are
/// too few runs.
fn importances(spec: &Spec, scored: &[(&Trial, f64)]) -> Vec<(String, f64)> {
    let of = |axis: usize| {
        let value = |(trial, score): &(&Trial, f64)| Some((plain(trial.point.get(axis)?), *score));
        importance(&scored.iter().filter_map(value).collect::<Vec<_>>())
    };
    let mut all: Vec<(String, f64)> =
        spec.axes.iter().enumerate().map(|(axis, setting)| (setting.key.clone(), of(axis))).collect();
    // Those that are not known come last.
    all.sort_by(|a, b| b.1.max(-1.0).total_cmp(&a.1.max(-1.0)));
    all
}

/// The share of the variance of scores that one setting explains, adjusted for the number of its values (epsilon squared). NaN if there
/// are too few.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration `gamma=NAME` with a run of each score.
    fn group(gamma: &str, scores: &[f64], train_s: f64) -> SeedGroup {
        let run = |score: &f64| Run { score: Some(*score), train_s, ..Run::default() };
        let settings = vec![("gamma".to_owned(), gamma.to_owned())];
        SeedGroup::new(String::new(), settings, scores.iter().map(run).collect())
    }

    fn verdict(groups: Vec<SeedGroup>, sought: Option<&Objective>) -> String {
        EnvReport::new("cartpole".to_owned(), BTreeMap::new(), groups, sought).verdict
    }

    #[test]
    fn a_renamed_run_has_the_name_of_its_directory() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let dir = place.path().join("renamed");
        std::fs::create_dir(&dir).expect("made");
        let env = "cartpole".to_owned();
        let result =
            RunResult { run: "old".to_owned(), env, eval_return_mean: Some(500.0), ..RunResult::default() };
        std::fs::write(dir.join("result.json"), result.to_json()).expect("written");
        let report = Report::of_runs(&[dir]).expect("a report");
        assert_eq!(report.environments[0].groups[0].name, "renamed");
        assert_eq!(report.environments[0].verdict, "renamed scores 500.0 on cartpole over 1 seed.");
    }

    #[test]
    fn configurations_that_tie_have_no_winner() {
        let slow = group("0.98", &[500.0; 5], 2.0);
        let fast = group("0.99", &[500.0; 5], 1.0);
        let text = verdict(vec![slow.clone(), fast.clone(), group("0.9", &[20.0; 5], 1.0)], None);
        assert_eq!(
            text,
            "gamma=0.99 and gamma=0.98 tie as the best of 3 configurations on cartpole at 500.0. \
             Of these, gamma=0.99 trains fastest."
        );
        let text = verdict(vec![slow.clone(), fast.clone(), group("0.97", &[500.0; 5], 3.0)], None);
        assert!(text.starts_with("gamma=0.99, gamma=0.98 and 1 other tie as the best of 3 "), "{text}");
        let text = verdict(vec![group("0.98", &[500.0], 1.0), group("0.99", &[500.0], 2.0)], None);
        assert!(text.ends_with("With one seed this may be chance; train more seeds."), "{text}");
        let text = verdict(vec![slow, group("0.99", &[499.0; 5], 1.0)], None);
        assert!(text.starts_with("gamma=0.98 scores best of 2 configurations"), "{text}");
    }

    #[test]
    fn what_was_searched_for_decides_whether_there_is_a_tie() {
        let solved = |gamma: &str, score: f64, steps: f64| SeedGroup {
            objective: Some(-steps),
            solved: 2,
            ..group(gamma, &[score; 2], 1.0)
        };
        let sought = Some(&Objective::SolvedAtStep);
        let text = verdict(vec![solved("0.98", 490.0, 2e4), solved("0.99", 500.0, 2e4)], sought);
        assert!(
            text.ends_with(
                "tie as the best of 2 configurations on cartpole by solved_at_step (20.0k steps to solve)."
            ),
            "{text}"
        );
        let text = verdict(vec![solved("0.98", 500.0, 2e4), solved("0.99", 500.0, 3e4)], sought);
        assert!(text.starts_with("gamma=0.98 is the best of 2 configurations"), "{text}");
        assert!(text.ends_with("With fewer than 5 seeds this may be chance; train more seeds."), "{text}");
        // A run that does not solve it has an objective, too.
        let failed = |gamma: &str, score: f64| SeedGroup { solved: 0, ..solved(gamma, score, 4e4) };
        for sought in [Objective::SolvedAtStep, Objective::SolvedAtS] {
            let text = verdict(vec![failed("0.98", 20.0), failed("0.99", 30.0)], Some(&sought));
            let none = "None of the 2 configurations solves cartpole. The highest eval return is 30.0, of gamma=0.99.";
            assert_eq!(text, none);
        }
    }
}
