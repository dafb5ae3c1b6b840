//! The specification of a sweep: environments, seeds, settings and how to search among them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use operant_run::config::{self, Kind};
use operant_run::error::did_you_mean;
use operant_run::{Error, Result};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::space::{self, Axis, Point, Values};

/// The most runs of a sweep: each has a directory.
pub const MAX_RUNS: usize = 1_000_000;

/// Settings that the sweep decides itself.
const OWN: [(&str, &str); 6] = [
    ("seed", "give seeds = \"3..3\" or --seeds 3..3 for seed 3 alone"),
    ("name", "give the sweep's name with --name"),
    ("run_dir", "give the directory of the sweep with --run-dir"),
    (
        "threads",
        "each run has one thread, or more if there are fewer runs than cores; --jobs sets the number of parallel runs",
    ),
    ("device", "sweeps train on the CPU only; `operant train --device cuda` trains on a GPU"),
    ("csv", "the table of the sweep is made from metrics.csv"),
];

/// A sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Environments, as in `operant train ENV`.
    pub environments: Vec<String>,
    /// Seeds of each trial.
    pub seeds: Vec<u64>,
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// Settings of all runs, as in `--set`.
    pub set: Vec<(String, Value)>,
    /// Settings that vary.
    pub axes: Vec<Axis>,
    /// How to search.
    pub search: Search,
}

/// How to search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub method: Method,
    /// Number of trials of one environment; the population of `pbt`.
    pub trials: usize,
    pub seed: u64,
    /// What the search maximises.
    pub objective: Objective,
    /// Early stopping of the worse trials.
    pub halving: Option<Halving>,
}

/// A method of search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every combination.
    Grid,
    /// Values drawn at random.
    Random,
    /// A Gaussian process proposes values: expected improvement for each second.
    Bayes,
    /// Population-based training.
    Pbt {
        /// Environment steps between generations.
        interval: u64,
    },
}

impl Method {
    /// Its name in a specification.
    pub fn name(self) -> &'static str {
        match self {
            Method::Grid => "grid",
            Method::Random => "random",
            Method::Bayes => "bayes",
            Method::Pbt { .. } => "pbt",
        }
    }
}

/// What a search maximises; a word in specifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Objective {
    /// The mean return of the last evaluation.
    EvalReturn,
    /// Few steps until the environment is solved.
    SolvedAtStep,
    /// Little time until then.
    SolvedAtS,
    /// A metric of the environment's own in the last evaluation; its negative if it is to be small.
    Metric {
        /// Its name.
        name: String,
        /// Whether it is to be small.
        minimize: bool,
    },
}

impl Objective {
    /// Its name in a specification.
    pub fn name(&self) -> String {
        match self {
            Objective::EvalReturn => "eval_return".to_owned(),
            Objective::SolvedAtStep => "solved_at_step".to_owned(),
            Objective::SolvedAtS => "solved_at_s".to_owned(),
            Objective::Metric { name, minimize: false } => name.clone(),
            Objective::Metric { name, minimize: true } => format!("-{name}"),
        }
    }

    /// The metric of the environment that it is, and the sign of its values.
    pub fn metric(&self) -> Option<(&str, f64)> {
        match self {
            Objective::Metric { name, minimize } => Some((name, if *minimize { -1.0 } else { 1.0 })),
            _ => None,
        }
    }

    /// A value of it, which is larger where it is better, for people: steps and seconds as such.
    pub fn shown(&self, value: f64) -> String {
        match self {
            Objective::EvalReturn => format!("{value:.2}"),
            Objective::SolvedAtStep => format!("{} steps to solve", operant_run::progress::short(-value)),
            Objective::SolvedAtS => format!("{:.2} s to solve", -value),
            Objective::Metric { name, minimize } => {
                format!("{name} {:.3}", if *minimize { -value } else { value })
            }
        }
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.name()
    }
}

impl TryFrom<String> for Objective {
    type Error = String;

    fn try_from(word: String) -> std::result::Result<Self, String> {
        Ok(match word.as_str() {
            "eval_return" => Objective::EvalReturn,
            "solved_at_step" => Objective::SolvedAtStep,
            "solved_at_s" => Objective::SolvedAtS,
            other => {
                let name = other.strip_prefix('-').unwrap_or(other);
                if operant_metrics::unusable(name).is_some() {
                    return Err(format!(
                        "there is no objective \"{other}\"; use eval_return, solved_at_step, solved_at_s, or a metric of the environment's \
                         own, such as success; -success minimises it"
                    ));
                }
                Objective::Metric { name: name.to_owned(), minimize: other.starts_with('-') }
            }
        })
    }
}

/// Successive halving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    /// Environment steps after which trials are first compared.
    pub first_steps: u64,
    /// One trial in `factor` continues, for `factor` times as many steps.
    #[serde(default = "three")]
    pub factor: u64,
}

impl Halving {
    fn is_valid(&self) -> bool {
        self.first_steps > 0 && self.factor >= 2
    }
}

fn three() -> u64 {
    3
}

/// The tables of a specification, as TOML.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    env: Option<Value>,
    seeds: Option<Value>,
    set: Table,
    vary: Table,
    search: RawSearch,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSearch {
    method: Option<String>,
    trials: Option<usize>,
    seed: Option<u64>,
    objective: Option<Objective>,
    halving: Option<Halving>,
    interval: Option<u64>,
}

/// Command-line settings that extend or replace a specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given {
    /// Assignments `key=values`, each with the flag that gave it.
    pub set: Vec<(String, String)>,
    /// `--seeds`.
    pub seeds: Option<String>,
    /// `--search`.
    pub method: Option<String>,
    /// `--trials`.
    pub trials: Option<usize>,
    /// `--interval`.
    pub interval: Option<u64>,
    /// `--config FILE`.
    pub config: Option<PathBuf>,
}

impl Spec {
    /// The specification in a file.
    ///
    /// # Errors
    /// When it cannot be read or is not valid.
    pub fn read(path: &Path, given: &Given) -> Result<Self> {
        let text = operant_run::dir::read_text(path).map_err(|error| {
            Error::usage(format!("the specification cannot be read: {error}"))
                .at(path.display().to_string())
                .remedy("name a TOML file: docs/sweep.md, or `operant sweep ENV --set key=value,value`")
        })?;
        Self::parse(&text, &path.display().to_string(), given)
    }

    /// The specification of a text; `at` names it.
    pub fn parse(text: &str, at: &str, given: &Given) -> Result<Self> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let place = line.map_or_else(|| at.to_owned(), |line| format!("{at}:{line}"));
            Error::usage(format!("the specification is not valid: {}", error.message().trim()))
                .at(place)
                .remedy("see docs/sweep.md for its tables and keys")
        })?;
        Self::checked(raw, given).map_err(|error| match error.place.clone() {
            // What a flag gave is not in the file.
            Some(place) if !place.starts_with('[') => error,
            Some(place) => error.at(format!("{at} {place}")),
            None => error.at(at),
        })
    }

    /// The specification of a JSON object with the same tables.
    pub fn parse_json(text: &str, given: &Given) -> Result<Self> {
        let raw: Raw = serde_json::from_str(text).map_err(|error| {
            Error::usage(format!("the specification is not valid: {error}"))
                .remedy("see docs/sweep.md for its tables and keys")
        })?;
        Self::checked(raw, given)
    }

    /// The specification of a command line.
    pub fn of_environments<S: AsRef<str>>(names: &[S], given: &Given) -> Result<Self> {
        let names = names.iter().map(AsRef::as_ref);
        names.clone().map(Path::new).filter(|path| path.is_file()).try_for_each(config::check_format)?;
        Self::checked(
            Raw { env: Some(Value::Array(names.map(Value::from).collect())), ..Raw::default() },
            given,
        )
    }

    fn checked(raw: Raw, given: &Given) -> Result<Self> {
        let environments = environments(raw.env)?;
        let seeds = match &given.seeds {
            Some(text) => seeds(&Value::from(text.as_str())).map_err(|error| error.at("--seeds"))?,
            None => raw.seeds.as_ref().map_or_else(|| Ok(vec![1]), seeds)?,
        };
        let mut spec = Spec {
            environments,
            seeds,
            config: given.config.clone(),
            set: Vec::new(),
            axes: Vec::new(),
            search: Search {
                method: Method::Grid,
                trials: 0,
                seed: 1,
                objective: Objective::EvalReturn,
                halving: None,
            },
        };
        for (key, value) in flat(raw.set) {
            let at = format!("[set] {key}");
            check_key(&key, &at)?;
            let value = config::accepted_value(&key, value, &at)?;
            spec.set.push((key, value));
        }
        for (key, value) in flat(raw.vary) {
            let at = format!("[vary] {key}");
            check_key(&key, &at)?;
            if spec.set.iter().any(|(other, _)| *other == key) {
                let error = Error::usage(format!("{key} is in [set] and in [vary]"));
                return Err(error.at(at).remedy("remove one of them"));
            }
            let values = values(&key, &value, &at)?;
            spec.axes.push(Axis { key, values });
        }
        for (assignment, flag) in &given.set {
            spec.add(assignment, flag)?;
        }
        spec.search = spec.searching(raw.search, given)?;
        if spec.planned() > MAX_RUNS {
            return Err(Error::usage(format!("the sweep has {} runs, more than {MAX_RUNS}", spec.planned()))
                .remedy("use fewer values or seeds, or method = \"random\" and trials = N in [search]"));
        }
        Ok(spec)
    }

    /// Checks what searches rely on: a stored specification may be damaged, or a stranger's.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn check_stored(&self) -> std::result::Result<(), String> {
        let Search { method, trials, halving, .. } = &self.search;
        let has_values = |axis: &Axis| match axis.values {
            Values::List(ref list) => !list.is_empty(),
            Values::Range { bounds: [low, high], log, .. } => is_range(low, high, log),
        };
        if self.environments.is_empty() || self.seeds.is_empty() || *trials == 0 {
            return Err("it has no environment, no seed or no trial".to_owned());
        }
        if self.planned() > MAX_RUNS {
            return Err(format!("it has {} runs, more than {MAX_RUNS}", self.planned()));
        }
        if let Some(axis) = self.axes.iter().find(|axis| !has_values(axis)) {
            return Err(format!("{} has no values", axis.key));
        }
        let fits = match method {
            Method::Grid => space::grid_size(&self.axes) == Some(*trials),
            Method::Random | Method::Bayes => true,
            Method::Pbt { interval } => *interval > 0 && *trials >= 4 && self.environments.len() == 1,
        };
        if !fits || halving.is_some_and(|halving| !halving.is_valid()) {
            return Err("its search does not fit its trials".to_owned());
        }
        let mut keys = self.set.iter().map(|(key, _)| key).chain(self.axes.iter().map(|axis| &axis.key));
        keys.try_for_each(|key| check_key(key, key)).map_err(|error| error.what)
    }

    /// Adds `key=value` or `key=value,value` of a flag; a key of the specification is replaced.
    fn add(&mut self, assignment: &str, flag: &str) -> Result<()> {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(Error::usage(format!("--set {assignment} has no value"))
                .at(flag)
                .remedy("write --set key=value or --set key=value,value"));
        };
        let (key, text) = (key.trim(), text.trim());
        check_key(key, flag)?;
        // Values of lists contain commas themselves.
        let separator = if is_list(key) { ';' } else { ',' };
        let parts: Vec<Value> = text.split(separator).map(|part| config::parsed(key, part.trim())).collect();
        self.set.retain(|(other, _)| other != key);
        self.axes.retain(|axis| axis.key != key);
        match <[Value; 1]>::try_from(parts) {
            Ok([value]) => self.set.push((key.to_owned(), config::accepted_value(key, value, flag)?)),
            Err(parts) => {
                let values = values(key, &Value::Array(parts), flag)?;
                self.axes.push(Axis { key: key.to_owned(), values });
            }
        }
        Ok(())
    }

    /// Points that are checked before the sweep begins: a whole grid, or for other searches each value of a list and examples of each
    /// range, together with the first value of the others.
    pub fn points_to_check(&self) -> Box<dyn Iterator<Item = Point> + '_> {
        if self.search.method == Method::Grid {
            return Box::new((0..self.search.trials).map(|number| space::grid_point(&self.axes, number)));
        }
        let first = space::grid_point(&self.axes, 0);
        let examples = self
            .axes
            .iter()
            .enumerate()
            .flat_map(|(axis, of)| of.values.examples().into_iter().map(move |value| (axis, value)));
        Box::new(std::iter::once(first.clone()).chain(examples.map(move |(axis, value)| {
            let mut point = first.clone();
            point[axis] = value;
            point
        })))
    }

    /// The point of the largest numbers.
    pub fn largest(&self) -> Point {
        self.axes.iter().map(|axis| axis.values.largest()).collect()
    }

    /// Results that are planned: those of a search that stops no trial early.
    pub fn planned(&self) -> usize {
        self.search.trials.saturating_mul(self.seeds.len()).saturating_mul(self.environments.len())
    }

    fn searching(&self, raw: RawSearch, given: &Given) -> Result<Search> {
        let at = |error: Error| error.at("[search]");
        let points = space::grid_size(&self.axes);
        let default = if points.is_some() { "grid" } else { "random" };
        let method = given.method.clone().or(raw.method).unwrap_or_else(|| default.to_owned());
        let interval = match (method.as_str(), given.interval.or(raw.interval)) {
            ("pbt", None | Some(0)) => {
                return Err(at(Error::usage("pbt needs the number of steps between generations")
                    .remedy("give --interval 50000, or interval = 50_000 in [search]")));
            }
            ("pbt", Some(interval)) => interval,
            (_, Some(_)) => {
                return Err(at(Error::usage(format!("interval cannot be used with method = \"{method}\""))
                    .remedy("remove interval, or use method = \"pbt\"")));
            }
            (_, None) => 0,
        };
        let name = method;
        let method = match name.as_str() {
            "grid" => Method::Grid,
            "random" => Method::Random,
            "bayes" => Method::Bayes,
            "pbt" => Method::Pbt { interval },
            other => {
                let hint = did_you_mean(other, ["grid", "random", "bayes", "pbt"]);
                return Err(at(Error::usage(format!("\"{other}\" is not a method of search{hint}"))
                    .remedy("use grid, random, bayes or pbt")));
            }
        };
        let asked = given.trials.or(raw.trials);
        let trials = match (method, points, asked) {
            (Method::Grid, Some(points), None) => points,
            (Method::Grid, Some(points), Some(asked)) if asked == points => asked,
            (Method::Grid, Some(points), Some(asked)) => {
                let what = format!("trials = {asked}, but the grid has {points} combinations");
                return Err(at(Error::usage(what).remedy("remove trials, or use method = \"random\"")));
            }
            (Method::Grid, None, _) => {
                let range = self.axes.iter().find(|axis| matches!(axis.values, Values::Range { .. }));
                let key = range.map_or("", |axis| axis.key.as_str());
                return Err(at(Error::usage(format!("a grid needs lists, and {key} is a range"))
                    .remedy("list its values, or use method = \"random\" with a number of trials")));
            }
            (_, _, None | Some(0)) => {
                return Err(at(Error::usage(format!("method = \"{name}\" needs a number of trials"))
                    .remedy("give --trials 20, or trials = 20 in [search]")));
            }
            (_, _, Some(_)) if self.axes.is_empty() => {
                return Err(at(Error::usage("nothing varies, so there is nothing to search").remedy(
                    "vary a setting: --set learning_rate=1e-4,1e-3, or a range in [vary] of a specification file",
                )));
            }
            (Method::Random | Method::Bayes, Some(points), Some(asked)) if asked > points => {
                let what = format!("trials = {asked}, but there are only {points} combinations");
                return Err(at(Error::usage(what).remedy("use fewer, or method = \"grid\" for all of them")));
            }
            (Method::Pbt { .. }, _, _) if self.environments.len() > 1 => {
                let error = Error::usage("pbt trains in one environment");
                return Err(at(error.remedy("start a sweep for each environment")));
            }
            (Method::Pbt { .. }, _, Some(asked)) if asked < 4 => {
                return Err(at(Error::usage(format!("a population of {asked} is too small for pbt"))
                    .remedy("use at least 4 trials: the worst quarter is replaced")));
            }
            (_, _, Some(asked)) => asked,
        };
        if let Method::Pbt { .. } = method {
            if raw.halving.is_some() {
                return Err(at(
                    Error::usage("halving cannot be used with method = \"pbt\"").remedy("remove it")
                ));
            }
            let fixed = |axis: &&Axis| config::find(&axis.key).is_none_or(|key| key.fixed.is_some());
            if let Some(axis) = self.axes.iter().find(fixed) {
                return Err(Error::usage(format!("pbt cannot change {} during training", axis.key))
                    .at(format!("[vary] {}", axis.key))
                    .remedy("vary settings such as learning_rate, ent_coef, gamma or clip_coef"));
            }
        }
        if let Some(halving) = raw.halving
            && !halving.is_valid()
        {
            return Err(at(Error::usage(
                "halving needs first_steps of at least 1 and a factor of at least 2",
            )
            .remedy("such as halving = { first_steps = 20_000, factor = 3 }")));
        }
        let objective = raw.objective.unwrap_or(Objective::EvalReturn);
        Ok(Search { method, trials, seed: raw.seed.unwrap_or(1), objective, halving: raw.halving })
    }
}

/// The entries of a table, options of the environment as `env.NAME`.
fn flat(table: Table) -> Vec<(String, Value)> {
    let mut entries = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(options) if key == "env" => {
                entries.extend(options.into_iter().map(|(option, value)| (format!("env.{option}"), value)));
            }
            value => entries.push((key, value)),
        }
    }
    entries
}

/// Refuses keys that do not exist, or that a sweep sets itself.
fn check_key(key: &str, at: &str) -> Result<()> {
    if let Some((_, remedy)) = OWN.iter().find(|(own, _)| *own == key) {
        return Err(Error::usage(format!("a sweep sets {key} itself")).at(at).remedy(*remedy));
    }
    if key.starts_with("env.") || config::find(key).is_some() {
        return Ok(());
    }
    let hint = config::key_hint(key);
    Err(Error::usage(format!("{key} is not a configuration key{hint}"))
        .at(at)
        .remedy("`operant config ENV` lists the keys; options of the environment are env.NAME"))
}

/// Whether a value of the key has commas: that of lists, and of the option of Gymnasium environments that lists keys of `info`.
fn is_list(key: &str) -> bool {
    key == "env.metrics"
        || config::find(key).is_some_and(|key| matches!(key.kind, Kind::Widths | Kind::Convs))
}

fn environments(value: Option<Value>) -> Result<Vec<String>> {
    let wrong = |what: String| Error::usage(what).remedy("env = \"cartpole\", or a list of names");
    let words = match value {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) if !names.is_empty() => names
            .iter()
            .map(|name| {
                name.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| wrong(format!("env contains {name}, which is not a name")))
            })
            .collect::<Result<_>>()?,
        Some(other) => return Err(wrong(format!("env = {other} is not the name of an environment"))),
        None => return Err(wrong("the specification names no environment".to_owned())),
    };
    let distinct: BTreeSet<&String> = words.iter().collect();
    if distinct.len() < words.len() {
        return Err(wrong("env names an environment twice".to_owned()));
    }
    Ok(words)
}

/// A number of seeds, `first..last` (both included), or a list.
fn seeds(value: &Value) -> Result<Vec<u64>> {
    let wrong = || {
        Error::usage(format!("seeds = {value} is not a list of seeds")).remedy(
            "give a number of seeds (10 is 1 to 10), a range such as \"1..10\" with both ends included, or a list such as [1, 5, 9]",
        )
    };
    let whole = |text: &str| text.trim().parse::<u64>().ok();
    let seeds: Vec<u64> = match value {
        Value::Integer(count @ 1..=1_000_000) => (1..=*count as u64).collect(),
        Value::Array(list) if !list.is_empty() => {
            let seed = |value: &Value| value.as_integer().and_then(|seed| u64::try_from(seed).ok());
            list.iter().map(seed).collect::<Option<_>>().ok_or_else(wrong)?
        }
        Value::String(text) => match text.split_once("..") {
            Some((first, last)) => {
                let (first, last) =
                    (whole(first).ok_or_else(wrong)?, whole(last.trim_start_matches('=')).ok_or_else(wrong)?);
                if first > last || last - first >= MAX_RUNS as u64 {
                    return Err(wrong());
                }
                (first..=last).collect()
            }
            None if text.contains(',') => {
                text.split(',').map(whole).collect::<Option<_>>().ok_or_else(wrong)?
            }
            None => {
                let count =
                    whole(text).filter(|count| (1..=MAX_RUNS as u64).contains(count)).ok_or_else(wrong)?;
                (1..=count).collect()
            }
        },
        _ => return Err(wrong()),
    };
    if let Some(seed) = seeds.iter().find(|seed| **seed > i64::MAX as u64) {
        let error = Error::usage(format!("seed {seed} is too large"));
        return Err(error.remedy(format!("use seeds up to {}", i64::MAX)));
    }
    let distinct: BTreeSet<&u64> = seeds.iter().collect();
    if distinct.len() < seeds.len() {
        return Err(
            Error::usage(format!("seeds = {value} contains a seed twice")).remedy("list each seed once")
        );
    }
    Ok(seeds)
}

fn is_range(low: f64, high: f64, log: bool) -> bool {
    low < high && low.is_finite() && high.is_finite() && (!log || low > 0.0)
}

/// A list, `{ uniform = [low, high] }` or `{ log_uniform = [low, high] }`; `at` says where it was given.
fn values(key: &str, value: &Value, at: &str) -> Result<Values> {
    let remedy = "give a list, { uniform = [0.9, 0.999] } or { log_uniform = [1e-4, 1e-2] }";
    let wrong = |what: String| Error::usage(what).at(at);
    let table = match value {
        Value::Array(list) if list.is_empty() => {
            return Err(wrong(format!("{key} has no values")).remedy(remedy));
        }
        Value::Array(list) => {
            let accepted = |value: &Value| config::accepted_value(key, value.clone(), at);
            let list = list.iter().map(accepted).collect::<Result<Vec<_>>>()?;
            if let Some(again) = (1..list.len()).find(|again| list[..*again].contains(&list[*again])) {
                return Err(wrong(format!("{key} has the value {} twice", list[again]))
                    .remedy("list each value once"));
            }
            return Ok(Values::List(list));
        }
        Value::Table(table) if table.len() == 1 => table,
        other => {
            let what = format!("{key} varies, and {other} is only one value");
            return Err(wrong(what).remedy(format!("{remedy}; a setting of all runs belongs in [set]")));
        }
    };
    let (kind, bounds) = table.iter().next().expect("it has one entry");
    let log = match kind.as_str() {
        "uniform" => false,
        "log_uniform" => true,
        other => {
            let hint = did_you_mean(other, ["uniform", "log_uniform"]);
            return Err(wrong(format!("{other} is not a distribution{hint}")).remedy(remedy));
        }
    };
    let numbers: Option<Vec<f64>> =
        bounds.as_array().and_then(|list| list.iter().map(space::number).collect());
    let Some([low, high]) = numbers.and_then(|numbers| <[f64; 2]>::try_from(numbers).ok()) else {
        return Err(wrong(format!("{key}: {kind} = {bounds} is not a pair of numbers")).remedy(remedy));
    };
    if !is_range(low, high, log) {
        let what = format!("{key}: {kind} = {bounds} is not a range");
        let remedy =
            if log { "the lower bound comes first and is above 0" } else { "the lower bound comes first" };
        return Err(wrong(what).remedy(remedy));
    }
    let whole = config::find(key).is_some_and(config::is_whole);
    if whole && (low.fract() != 0.0 || high.fract() != 0.0) {
        let what = format!("{key}: {kind} = {bounds} has bounds that are not whole numbers");
        return Err(wrong(what).remedy("use whole numbers"));
    }
    for bound in [low, high] {
        let value = if whole { Value::Integer(bound as i64) } else { Value::Float(bound) };
        config::accepted_value(key, value, at)?;
    }
    Ok(Values::Range { bounds: [low, high], log, whole })
}
