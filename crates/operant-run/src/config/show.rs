//! The effective configuration as TOML, each value with its origin; the text is a valid `--config` file.

use std::fmt::Write as _;

use operant_learn::setting::Need;
use toml::Value;

use super::doc::defaults;
use super::keys::{AUTO, keys};
use super::layers::option_as_toml;
use super::{EnvFacts, Key, KeyGroup, Layers, Origin, Settings};

impl Settings {
    /// The effective configuration, one key per line, each with its origin as a comment when `origins`.
    pub fn to_toml(&self, origins: bool) -> String {
        self.shown(None, origins)
    }

    /// Like `to_toml`, with `num_envs = "auto"` if that was requested.
    pub(super) fn shown(&self, auto_envs: Option<&Origin>, origins: bool) -> String {
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut group = KeyGroup::Training;
        lines.push((format!("environment = {}", Value::String(self.environment.clone())), String::new()));
        lines.push((String::new(), String::new()));
        for key in keys().filter(|key| self.has(key)) {
            if key.group != group {
                lines.push((String::new(), String::new()));
                group = key.group;
            }
            if let (Some(origin), "num_envs") = (auto_envs, key.name) {
                lines.push((format!("num_envs = {}", Value::String(AUTO.to_string())), origin.to_string()));
            } else if let Some(entry) = self.entries.get(key.name) {
                lines.push((format!("{} = {}", key.name, entry.value), entry.origin.to_string()));
            }
        }
        if !self.options.is_empty() {
            lines.push((String::new(), String::new()));
            lines.push(("[env]".to_string(), String::new()));
            for (name, entry) in &self.options {
                let value = option_shown(&entry.value);
                lines.push((format!("{} = {value}", quoted(name)), entry.origin.to_string()));
            }
        }
        let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0).min(40);
        let mut text = String::new();
        // A path may contain a newline; a comment must not.
        let comment =
            |text: &str| text.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
        for what in self.untranslated.iter().filter(|_| origins) {
            let _ = writeln!(text, "# {} has no counterpart here", comment(what));
        }
        for (line, origin) in lines {
            if origins && !origin.is_empty() {
                let _ = writeln!(text, "{line:width$} # {}", comment(&origin));
            } else {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    /// The content of a run's config.toml and checkpoints: everything but the run's name and paths on this machine, so
    /// that the file can be the `--config` of another run.
    pub fn to_saved_toml(&self) -> String {
        let mut saved = self.clone();
        for local in keys().filter(|key| key.is_local) {
            saved.entries.remove(local.name);
        }
        let chosen = self.num_envs_chosen().map_or_else(String::new, |reason| {
            format!("# auto chose num_envs = {}: {reason}.\n", self.learner.num_envs)
        });
        format!(
            "# Effective configuration of this run; usable with --config.\n{chosen}{}",
            saved.to_toml(false)
        )
    }
}

impl Difference {
    /// The run's value, and the preset's.
    pub fn shown(&self) -> (String, Option<String>) {
        let shown = |value: &Value| match value {
            Value::String(text) => text.clone(),
            value if self.key.starts_with("env.") => option_shown(value),
            // Without the spaces that TOML puts into lists.
            value => value.to_string().replace(", ", ","),
        };
        (shown(&self.value), self.preset.as_ref().map(shown))
    }
}

impl Settings {
    /// Whether a key means something to the run: to its algorithm, and with its other settings.
    fn has(&self, key: &Key) -> bool {
        let is_set = || self.origin(key.name).is_some_and(Origin::is_explicit);
        // A run's file has every hyperparameter: runs are compared by them.
        self.learner.algorithm.reads(key) && (key.group.is_learned() || self.lacks(key).is_none() || is_set())
    }

    /// The value of another setting with which a key means nothing, as `key = value`.
    fn lacks(&self, key: &Key) -> Option<String> {
        let Need { other, value: needed, equal } = key.needs?;
        let value = self.entries.get(other).map(|entry| &entry.value);
        let is_needed = value.is_some_and(|value| {
            value.as_str().map_or_else(|| value.to_string() == needed, |word| word == needed)
        });
        let shown = value.map_or_else(|| format!("no {other}"), |value| format!("{other} = {value}"));
        (is_needed != equal).then_some(shown)
    }

    /// A warning for each value other than the default that the user gave, but that means nothing with the other settings.
    pub fn without_effect(&self) -> Vec<String> {
        let defaults = defaults();
        let chosen = |key: &Key| match self.origin(key.name)? {
            Origin::File(..) | Origin::Variable(_) | Origin::Flag(_) => {
                self.value(key.name).filter(|value| defaults.get(key.name) != Some(value))
            }
            _ => None,
        };
        let warning = |key: &Key| {
            Some(format!("{} = {} has no effect with {}", key.name, chosen(key)?, self.lacks(key)?))
        };
        keys().filter(|key| self.learner.algorithm.reads(key)).filter_map(warning).collect()
    }

    /// The environment, the hyperparameters, and the environment's options as `env.NAME`.
    pub fn hyperparameters(&self) -> Vec<(String, Value)> {
        let environment = ("environment".to_string(), Value::String(self.environment.clone()));
        let learner = keys().filter(|key| key.group.is_learned() && self.has(key));
        let learner =
            learner.filter_map(|key| Some((key.name.to_string(), self.entries.get(key.name)?.value.clone())));
        let options = self.options.iter().map(|(name, entry)| (format!("env.{name}"), entry.value.clone()));
        std::iter::once(environment).chain(learner).chain(options).collect()
    }

    /// The output of [`Settings::to_saved_toml`] as values.
    pub fn to_saved_table(&self) -> toml::Table {
        self.to_saved_toml().parse().expect("a configuration that is written can be read")
    }
}

/// The value of an option as a run has it: a whole number of a file is a real one.
fn real(value: &Value) -> Value {
    #[allow(clippy::cast_precision_loss)] // options are reals
    value.as_integer().map_or_else(|| value.clone(), |number| Value::Float(number as f64))
}

/// The value of an option of an environment: `12` of a number that is whole.
fn option_shown(value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        other => other.to_string(),
    }
}

fn quoted(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && !name.is_empty() {
        name.to_string()
    } else {
        Value::String(name.to_string()).to_string()
    }
}

/// A setting of a run that differs from the environment's preset.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The key; `env.NAME` for an option.
    pub key: String,
    /// The run's value.
    pub value: Value,
    /// The preset's value, or the default; None if there is none.
    pub preset: Option<Value>,
}

/// Where a run's saved configuration differs from the environment's preset: each hyperparameter, evaluation setting and option, without
/// the seed.
pub fn differences(facts: &EnvFacts, saved: &toml::Table) -> Vec<Difference> {
    let of_algorithm = || {
        let mut layers = Layers::new(facts.clone())?;
        if let Some(algorithm) = saved.get("algorithm") {
            layers.put("algorithm", algorithm.clone(), Origin::Preset(facts.name.clone()))?;
        }
        layers.build()
    };
    let Ok(preset) = of_algorithm() else { return Vec::new() };
    let on_gpu = saved.get("device").and_then(Value::as_str).is_some_and(|device| device.starts_with("cuda"));
    let preset = if on_gpu { preset.on_gpu().map_or(preset, |on_gpu| on_gpu) } else { preset };
    let compared =
        |key: &&Key| (key.group.is_learned() && key.name != "seed") || COMPARED.contains(&key.name);
    let keys = keys().filter(compared).filter_map(|key| {
        let (saved, preset) = (saved.get(key.name), preset.settings.value(key.name));
        let difference =
            || Some(Difference { key: key.name.to_string(), value: saved?.clone(), preset: preset.cloned() });
        if saved == preset { None } else { difference() }
    });
    let options =
        saved.get("env").and_then(Value::as_table).into_iter().flatten().filter_map(|(name, value)| {
            let (value, default) = (real(value), facts.options.get(name).map(option_as_toml));
            let key = format!("env.{name}");
            (default.as_ref() != Some(&value)).then_some(Difference { key, value, preset: default })
        });
    keys.chain(options).collect()
}

impl Settings {
    /// The environment's options that differ from those of a saved configuration.
    pub fn changed_options(&self, saved: &str) -> toml::Table {
        let saved: toml::Table = saved.parse().unwrap_or_default();
        let saved = saved.get("env").and_then(Value::as_table);
        let options = self.options.iter().filter(|(name, entry)| {
            if !self.facts.rules.contains(*name) {
                return false;
            }
            let default = || self.facts.options.get(*name).map(option_as_toml);
            saved.and_then(|saved| saved.get(*name)).map(real).or_else(default).as_ref() != Some(&entry.value)
        });
        options.map(|(name, entry)| (name.clone(), entry.value.clone())).collect()
    }
}

/// Settings of a run that affect its result.
const COMPARED: &[&str] = &[
    "precision",
    "overlap",
    "init_from",
    "opponent",
    "pool_size",
    "pool_interval",
    "pool_latest",
    "pool_sampling",
    "eval_episodes",
    "solved_at",
    "stop_when_solved",
];

/// The environment of a saved configuration, if it names one.
pub fn environment_of(saved: &toml::Table) -> Option<String> {
    saved.get("environment")?.as_str().map(str::to_string)
}
