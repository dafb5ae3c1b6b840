//! The layers of a configuration. Higher layers override lower ones; every value keeps its origin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_env::OptionValue;
use operant_learn::Config;
use operant_learn::algorithms::Algorithm;
use operant_learn::presets::GPU_TABLE;
use operant_learn::setting::{Key, Refusal};
use toml::{Table, Value};

use super::RunConfig;
use super::elsewhere::key_hint;
use super::keys::{self, AUTO, keys};
use super::lines::{Lines, line_of};
use super::origin::{Entries, Entry, EnvFacts, Origin};
use super::zoo::Zoo;
use crate::error::{Error, Result, did_you_mean};
use crate::init_from::InitialWeights;

/// Variables that start with `OPERANT_` and are not configuration keys.
const OTHER_VARIABLES: &[&str] = &[
    "OPERANT_LOG",
    // The directory of rings.
    "OPERANT_RING_DIR",
    // The first directory searched for CUDA libraries, and that of compiled kernels.
    "OPERANT_CUDA_LIBRARIES",
    "OPERANT_CACHE_DIR",
    // The instruction set that the Python package takes.
    "OPERANT_ISA",
    // Set by `train --detach` for its child process.
    "OPERANT_DETACHED",
    // Of the test suite, which also runs the command.
    "OPERANT_TEST_PYTHON",
    "OPERANT_NVRTC_DIR",
    "OPERANT_CUBLASLT_DIR",
    // For the stand-in for a GPU in the test suite.
    "OPERANT_STAND_IN",
    "OPERANT_HOST_BLAS_RECANTS",
    "OPERANT_HOST_BLAS_REFUSES",
    "OPERANT_HOST_BLAS_VERSION",
    "OPERANT_HOST_DEVICES",
    "OPERANT_HOST_DRIVER_VERSION",
    "OPERANT_HOST_SEED",
    "OPERANT_HOST_STACK",
    "OPERANT_HOST_STREAMS",
    "OPERANT_HOST_LAUNCHES",
];

/// Keys of a run that the preset of an environment from outside the program may set, besides hyperparameters.
const THRESHOLDS: [&str; 3] = ["solved_at", "eval_episodes", "eval_interval"];

/// The variable that may be given without `OPERANT_`, and its key; the full name has precedence.
const SHORT: (&str, &str) = ("OPTIMIZE_PERF", "optimize_perf");

/// A stack of layers for one environment. Each call adds a layer above those before it.
#[derive(Debug, Clone)]
pub struct Layers {
    pub(super) facts: EnvFacts,
    pub(super) entries: Entries,
    pub(super) options: BTreeMap<String, Entry>,
    /// The `[gpu]` table of the environment's preset.
    pub(super) gpu: Entries,
    /// The algorithm that the environment's preset is written for.
    pub(super) preset_algorithm: Algorithm,
    /// The tables of that preset for other algorithms.
    pub(super) of_algorithms: Vec<(Algorithm, Entries)>,
    /// Origin of `num_envs = "auto"`, if it was requested; the entry of `num_envs` is the value below it.
    pub(super) auto_envs: Option<Origin>,
    /// Hyperparameters of a file of RL Baselines3 Zoo that have no counterpart here, `FILE: key: value` each.
    pub(super) untranslated: Vec<String>,
    /// The weights that a new run begins with.
    pub(super) weights: Option<Arc<InitialWeights>>,
}

impl Layers {
    /// The lowest layers: built-in defaults, then the environment's preset, if it has one.
    pub fn new(facts: EnvFacts) -> Result<Self> {
        let name = facts.name.clone();
        let mut layers = Layers {
            facts,
            entries: Entries::new(),
            options: BTreeMap::new(),
            gpu: Entries::new(),
            preset_algorithm: Config::default().algorithm,
            of_algorithms: Vec::new(),
            auto_envs: None,
            untranslated: Vec::new(),
            weights: None,
        };
        for defaults in [Table::try_from(Config::default()), Table::try_from(RunConfig::default())] {
            layers.table(defaults.expect("settings are TOML"), &Lines::default(), &|_| Origin::Default)?;
        }
        for (name, default) in layers.facts.options.clone() {
            layers.option(&name, option_as_toml(&default), Origin::Default)?;
        }
        if let Some(preset) = layers.facts.preset.clone() {
            layers.preset(&preset, &name)?;
        }
        Ok(layers)
    }

    /// A preset. Its `[gpu]` table, and those of algorithms, are kept separately until device and algorithm are known.
    pub(super) fn preset(&mut self, text: &str, name: &str) -> Result<()> {
        let mut table = parsed(text, &|_| Origin::Preset(name.to_string()))?;
        if self.facts.is_foreign {
            check_foreign_preset(&table)
                .map_err(|error| error.at(Origin::Preset(name.to_string()).to_string()))?;
        }
        let named = table.get("algorithm").and_then(Value::as_str);
        let named = Algorithm::ALL.into_iter().find(|algorithm| Some(algorithm.name()) == named);
        self.preset_algorithm = named.unwrap_or(self.preset_algorithm);
        let gpu = table.remove(GPU_TABLE);
        let of_algorithms: Vec<_> = Algorithm::ALL
            .into_iter()
            .filter_map(|algorithm| Some((algorithm, table.remove(algorithm.name())?)))
            .collect();
        self.table(table, &Lines::default(), &|_| Origin::Preset(name.to_string()))?;
        self.gpu.extend(self.preset_table(gpu, &Origin::PresetGpu(name.to_string()))?);
        for (algorithm, table) in of_algorithms {
            let origin = Origin::PresetOf(name.to_string(), algorithm);
            let entries = self.preset_table(Some(table), &origin)?;
            self.of_algorithms.push((algorithm, entries));
        }
        Ok(())
    }

    /// The values of a table of a preset.
    pub(super) fn preset_table(&self, table: Option<Value>, origin: &Origin) -> Result<Entries> {
        let mut entries = Entries::new();
        table.as_ref().and_then(Value::as_table).map_or(Ok(()), |it| check_once(it, &|_| origin.clone()))?;
        for (key, value) in table.as_ref().and_then(Value::as_table).into_iter().flatten() {
            let known = keys::find(key).ok_or_else(|| self.unknown(key, origin))?;
            if known.name == "algorithm" || (known.name == "num_envs" && value.as_str() == Some(AUTO)) {
                let what = format!("{key} = {value} cannot stand in a table of a preset");
                return Err(Error::usage(what).at(origin.to_string()).remedy("remove it from the preset"));
            }
            entries.insert(known.name, accepted(known, value.clone(), origin.clone())?);
        }
        Ok(entries)
    }

    /// A file that must exist, such as `--config` names. One that ends in .yml or .yaml is read as a hyperparameter file of RL Baselines3 Zoo.
    pub fn file(&mut self, path: &Path) -> Result<()> {
        let is_zoo = matches!(ending(path).as_str(), "yaml" | "yml");
        if !is_zoo {
            check_format(path)?;
        }
        let text = crate::dir::read_text(path).map_err(|error| {
            Error::usage(format!("the configuration file cannot be read: {error}"))
                .at(path.display().to_string())
                .remedy("name a TOML file; `operant config ENV > FILE` writes one to start from")
        })?;
        if is_zoo {
            let place = || path.display().to_string();
            let Zoo { table, untranslated } =
                Zoo::of(&text, &self.facts).map_err(|error| error.at(place()))?;
            self.untranslated = untranslated.iter().map(|what| format!("{}: {what}", place())).collect();
            return self.table(table, &Lines::default(), &|_| Origin::File(path.to_path_buf(), None));
        }
        self.text(&text, &|line| Origin::File(path.to_path_buf(), line))
    }

    /// The directory that holds the runs, according to the layers so far.
    pub(super) fn run_dir(&self) -> PathBuf {
        let entry = self.entries.get("run_dir").and_then(|entry| entry.value.as_str());
        PathBuf::from(entry.unwrap_or("runs"))
    }

    /// A file that may be missing, such as an `operant.toml`.
    pub fn file_if_there(&mut self, path: &Path) -> Result<()> {
        if path.exists() { self.file(path) } else { Ok(()) }
    }

    /// The configuration of the run being resumed. It replaces everything that files and variables set, including
    /// environment options that the run does not have; only paths on this machine are kept, since a saved configuration
    /// has none.
    pub fn resumed(&mut self, run: &str, text: &str) -> Result<()> {
        let is_local = |key: &str| keys::find(key).is_some_and(|key| key.is_local);
        self.entries.retain(|key, entry| is_local(key) || !entry.origin.is_explicit());
        self.auto_envs = None;
        self.options.retain(|_, entry| !entry.origin.is_explicit());
        // A preset, or that of an algorithm, may set keys that are newer than the run; the run had their defaults.
        let defaults = Table::try_from(Config::default()).expect("settings are TOML");
        for key in keys().filter(|key| key.fixed.is_some()) {
            if let Some(value) = defaults.get(key.name) {
                let origin = Origin::Resumed(run.to_string());
                self.entries.insert(key.name, Entry { value: value.clone(), origin });
            }
        }
        let origin = |_: Option<usize>| Origin::Resumed(run.to_string());
        let mut table = parsed(text, &origin)?;
        // A stranger's may have some.
        table.retain(|key, value| {
            if let Value::Table(inner) = value {
                inner.retain(|key, _| !is_local(key));
            }
            !is_local(key)
        });
        self.table(table, &Lines::of(text), &origin)
    }

    /// The `OPERANT_*` variables among `variables`, and `OPTIMIZE_PERF`. `OPERANT_ENV_X` sets the environment option `x`; empty
    /// values count as unset.
    pub fn variables(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<()> {
        let mut variables: Vec<(OsString, OsString)> = variables.into_iter().collect();
        variables.sort_by_key(|(name, _)| name != SHORT.0);
        for (name, value) in variables {
            let ours = |name: &&str| name.starts_with("OPERANT_") || *name == SHORT.0;
            let Some(name) = name.to_str().filter(ours) else { continue };
            if OTHER_VARIABLES.contains(&name) || value.is_empty() {
                continue;
            }
            let Some(value) = value.to_str() else {
                return Err(Error::usage("the variable's value is not UTF-8 text").at(name));
            };
            let origin = Origin::Variable(name.to_string());
            let lower = name.strip_prefix("OPERANT_").map_or(SHORT.1.to_owned(), str::to_lowercase);
            if let Some(option) = lower.strip_prefix("env_") {
                self.option(option, keys::parse_value(value), origin)?;
            } else if let Some(key) = keys::find(&lower) {
                self.put(key.name, keys::parse(key, value), origin)?;
            } else {
                let names: Vec<String> = keys().map(Key::variable).collect();
                let hint = did_you_mean(name, names.iter().map(String::as_str));
                return Err(Error::usage(format!("{name} is not a configuration key{hint}"))
                    .at("the process environment")
                    .remedy(format!("unset {name}, or see `operant config ENV` for the keys")));
            }
        }
        Ok(())
    }

    /// One `--set key=value`; `env.option=value` sets an environment option.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(Error::usage(format!("\"{assignment}\" is not an assignment"))
                .at("--set")
                .remedy("write --set key=value, such as --set learning_rate=0.001"));
        };
        let (name, origin) = (name.trim(), Origin::Flag("--set".to_string()));
        if let Some(option) = name.strip_prefix("env.") {
            return self.option(option, keys::parse_value(value.trim()), origin);
        }
        match keys::find(name) {
            Some(key) if key.name != name => {
                self.put(key.name, keys::parse(key, value), Origin::Flag(format!("--set {name}")))
            }
            Some(key) => self.put(key.name, keys::parse(key, value), origin),
            None => Err(self.unknown(name, &origin)),
        }
    }

    /// One flag that stands for a key, such as `--envs` for `num_envs`, with its value as typed.
    pub fn flag(&mut self, key: &'static str, flag: &str, value: &str) -> Result<()> {
        let key = keys::find(key).expect("every flag stands for a key of the table");
        self.put(key.name, keys::parse(key, value), Origin::Flag(flag.to_string()))
    }

    /// Adds a document as a layer; `origin` makes an origin from a line number.
    fn text(&mut self, text: &str, origin: &dyn Fn(Option<usize>) -> Origin) -> Result<()> {
        self.table(parsed(text, origin)?, &Lines::of(text), origin)
    }

    fn table(&mut self, table: Table, lines: &Lines, origin: &dyn Fn(Option<usize>) -> Origin) -> Result<()> {
        let mut own = None;
        check_once(&table, &|name| origin(lines.get(&[name])))?;
        for (name, value) in table {
            let here = origin(lines.get(&[&name]));
            match value {
                Value::Table(options) if name == "env" => {
                    self.options(options, &|option| origin(lines.get(&["env", option])))?;
                }
                Value::Table(_) if name == GPU_TABLE || is_algorithm(&name) => {
                    return Err(Error::usage(format!("[{name}] is a table of presets alone"))
                        .at(here.to_string())
                        .remedy("set the keys themselves, in a file for that algorithm or device"));
                }
                Value::Table(inner) => {
                    let meant = self.facts.known.get(&name).cloned();
                    if meant.as_deref() == Some(&*self.facts.name) || name == self.facts.name {
                        own = Some((name, inner));
                    } else if meant.is_some() {
                        check_names(&inner, &|key| origin(lines.get(&[&name, key])))?;
                    } else {
                        let known = self.facts.known.keys().map(String::as_str);
                        let hint = did_you_mean(&name, known.chain(["env", &self.facts.name]));
                        if hint.is_empty() {
                            // It may be the table of a world, whose name is not known here.
                            check_names(&inner, &|key| origin(lines.get(&[&name, key])))?;
                            continue;
                        }
                        return Err(Error::usage(format!("[{name}] is not an environment's table{hint}"))
                            .at(here.to_string())
                            .remedy("name an environment that `operant envs` lists, or [env] for options"));
                    }
                }
                Value::String(env) if name == "environment" => self.check_environment(&env, &here)?,
                value => match keys::find(&name) {
                    Some(key) => self.put(key.name, value, here)?,
                    None => return Err(self.unknown(&name, &here)),
                },
            }
        }
        // The environment's table overrides the rest of its file, whatever its position.
        if let Some((table, inner)) = own {
            check_once(&inner, &|name| origin(lines.get(&[&table, name])))?;
            for (name, value) in inner {
                let here = origin(lines.get(&[&table, &name]));
                match (value, keys::find(&name)) {
                    (Value::Table(options), _) if name == "env" => {
                        self.options(options, &|option| origin(lines.get(&[&table, "env", option])))?;
                    }
                    (value, Some(key)) => self.put(key.name, value, here)?,
                    (_, None) => return Err(self.unknown(&name, &here)),
                }
            }
        }
        Ok(())
    }

    fn check_environment(&self, env: &str, origin: &Origin) -> Result<()> {
        let meant = self.facts.known.get(env).map_or(env, String::as_str);
        // No name: the environment is not known yet here.
        if meant == self.facts.name || self.facts.name.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!("the file is a configuration of {env}, not of {}", self.facts.name))
            .at(origin.to_string())
            .remedy(format!("train {env} with it, or remove its line `environment = \"{env}\"`")))
    }

    fn options(&mut self, options: Table, origin: &dyn Fn(&str) -> Origin) -> Result<()> {
        for (name, value) in options {
            let here = origin(&name);
            self.option(&name, value, here)?;
        }
        Ok(())
    }

    fn option(&mut self, name: &str, value: Value, origin: Origin) -> Result<()> {
        let mut value = normalised(name, value, &origin)?;
        if let Value::String(path) = &mut value
            && self.facts.paths.contains(name)
            && let Ok(absolute) = std::path::absolute(&path)
            && let Some(absolute) = absolute.to_str()
        {
            *path = absolute.to_owned();
        }
        self.options.insert(name.to_string(), Entry { value, origin });
        Ok(())
    }

    pub(super) fn put(&mut self, name: &'static str, value: Value, origin: Origin) -> Result<()> {
        let key = keys::find(name).expect("callers pass names from the table");
        let entry = accepted(key, value, origin)?;
        if let (Some(earlier), Some(Entry { origin: before, .. })) = (key.earlier, self.entries.get(name))
            && matches!(before, Origin::Flag(_) | Origin::Variable(_))
            && std::mem::discriminant(before) == std::mem::discriminant(&entry.origin)
            && *before != entry.origin
        {
            return Err(given_twice(name, earlier).at(format!("{before} and {}", entry.origin)));
        }
        if name == "num_envs" {
            let auto = entry.value.as_str() == Some(AUTO);
            self.auto_envs = auto.then(|| entry.origin.clone());
            if auto {
                return Ok(());
            }
        }
        self.entries.insert(name, entry);
        Ok(())
    }

    fn unknown(&self, name: &str, origin: &Origin) -> Error {
        if self.facts.options.contains_key(name) {
            let what = format!("\"{name}\" is not a configuration key, but an option of {}", self.facts.name);
            return Error::usage(what).at(origin.to_string()).remedy(format!("write env.{name}"));
        }
        unknown_key(name, origin)
    }
}

/// Refuses a table that has a key by its present name and by its earlier one.
fn check_once(table: &Table, origin: &dyn Fn(&str) -> Origin) -> Result<()> {
    let twice =
        |key: &&Key| table.contains_key(key.name) && key.earlier.is_some_and(|it| table.contains_key(it));
    match keys().find(twice).and_then(|key| Some((key.name, key.earlier?))) {
        Some((name, earlier)) => Err(given_twice(name, earlier).at(origin(earlier).to_string())),
        None => Ok(()),
    }
}

fn given_twice(name: &str, earlier: &str) -> Error {
    Error::usage(format!("{name} is given twice: {earlier} is its name in earlier versions"))
        .remedy(format!("remove {earlier}"))
}

fn is_algorithm(name: &str) -> bool {
    Algorithm::ALL.into_iter().any(|algorithm| algorithm.name() == name)
}

/// The value of an environment option: a number, a word, a boolean for 0 or 1, or a list of words for one with commas.
fn normalised(name: &str, value: Value, origin: &Origin) -> Result<Value> {
    #[allow(clippy::cast_precision_loss)] // options are reals
    match value {
        Value::Boolean(on) => Ok(Value::Float(f64::from(u8::from(on)))),
        Value::Integer(n) => Ok(Value::Float(n as f64)),
        Value::Float(x) if x.is_finite() => Ok(Value::Float(x)),
        Value::String(word) => Ok(Value::String(word)),
        Value::Array(words) if words.iter().all(Value::is_str) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Ok(Value::String(words.join(",")))
        }
        other => Err(Error::usage(format!("env.{name} = {other} is not a finite number or a word"))
            .at(origin.to_string())
            .remedy("environment options are numbers, words, lists of words, or true and false")),
    }
}

/// The value of `--set env.NAME=TEXT`.
///
/// # Errors
/// When the text is a list, a table or not finite.
pub fn option_value(name: &str, text: &str) -> Result<OptionValue> {
    let value = normalised(name, keys::parse_value(text.trim()), &Origin::Flag("--set".to_owned()))?;
    Ok(option_of_toml(&value).expect("a number or a word"))
}

pub(super) fn option_as_toml(value: &OptionValue) -> Value {
    match value {
        OptionValue::Number(number) => Value::Float(*number),
        OptionValue::Word(word) => Value::String(word.clone()),
    }
}

/// The inverse of [`option_as_toml`].
pub(super) fn option_of_toml(value: &Value) -> Option<OptionValue> {
    match value {
        Value::String(word) => Some(word.as_str().into()),
        other => other.as_float().map(OptionValue::Number),
    }
}

pub(super) fn accepted(key: &Key, value: Value, origin: Origin) -> Result<Entry> {
    let shown = value.to_string();
    match keys::accept(key, value) {
        Ok(value) => Ok(Entry { value, origin }),
        Err(Refusal { problem, remedy }) => {
            let what = format!("{} = {shown} {problem}", key.name);
            // A schedule of RL Baselines3 Zoo.
            let remedy = match shown.trim_matches('"').strip_prefix("lin_") {
                Some(start) if key.name == "learning_rate" => {
                    format!("write learning_rate={start} and lr_schedule=linear")
                }
                Some(start) => format!("only learning_rate has a schedule; write {}={start}", key.name),
                None => remedy,
            };
            Err(Error::usage(what).at(origin.to_string()).remedy(remedy))
        }
    }
}

/// A value in the type of its key, or of an option of an environment (`env.NAME`); `at` says where it was given.
///
/// # Errors
/// When it is not valid.
pub fn accepted_value(name: &str, value: Value, at: &str) -> Result<Value> {
    let origin = Origin::Flag(at.to_owned());
    match (name.strip_prefix("env."), keys::find(name)) {
        (Some(option), _) => normalised(option, value, &origin),
        (None, Some(key)) => accepted(key, value, origin).map(|entry| entry.value),
        (None, None) => Err(unknown_key(name, &origin)),
    }
}

fn parsed(text: &str, origin: &dyn Fn(Option<usize>) -> Origin) -> Result<Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| line_of(text, span.start));
        Error::usage(format!("not valid TOML: {}", error.message().trim()))
            .at(origin(line).to_string())
            .remedy("correct or remove that line; `operant config ENV` prints a valid file")
    })
}

/// What follows the last dot of a file's name, in lower case.
fn ending(path: &Path) -> String {
    path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default().to_ascii_lowercase()
}

/// Refuses files that are meant to be YAML or JSON.
///
/// # Errors
/// Usage, with how to write TOML.
pub fn check_format(path: &Path) -> Result<()> {
    if !matches!(ending(path).as_str(), "yaml" | "yml" | "json") {
        return Ok(());
    }
    Err(Error::usage(format!("{} is not a TOML file", path.display())).at(path.display().to_string()).remedy(
        "write learning_rate = 3e-4 for learning_rate: 3e-4, true and false for True and False, and a table [NAME] for an environment; \
         `operant config ENV > FILE.toml` writes a file to start from, docs/sweep.md has a specification",
    ))
}

fn unknown_key(name: &str, origin: &Origin) -> Error {
    let hint = key_hint(name);
    Error::usage(format!("\"{name}\" is not a configuration key{hint}"))
        .at(origin.to_string())
        .remedy("`operant config ENV` prints the keys of a run, docs/configuration.md all; options of an environment are written env.NAME")
}

/// Refuses keys about the machine and the user's files in the preset of an environment from outside the program, which may be a stranger's.
///
/// # Errors
/// Usage with the first such key.
pub(crate) fn check_foreign_preset(preset: &Table) -> Result<()> {
    let tables = preset.values().filter_map(Value::as_table);
    let mut found =
        std::iter::once(preset).chain(tables).flat_map(Table::keys).filter_map(|key| keys::find(key));
    match found.find(|key| !key.group.is_learned() && !THRESHOLDS.contains(&key.name)) {
        None => Ok(()),
        Some(Key { name, .. }) => {
            let what =
                format!("the environment's preset sets {name}, which is not a hyperparameter or a threshold");
            let remedy = format!(
                "remove it from the preset; set {name} in an operant.toml or on the command line (a preset may also set {})",
                THRESHOLDS.join(", ")
            );
            Err(Error::usage(what).remedy(remedy))
        }
    }
}

/// Tables of other environments must contain valid keys too, so that a typo is reported at once.
fn check_names(table: &Table, origin: &dyn Fn(&str) -> Origin) -> Result<()> {
    match table.keys().find(|name| *name != "env" && keys::find(name).is_none()) {
        Some(name) => Err(unknown_key(name, &origin(name))),
        None => Ok(()),
    }
}
