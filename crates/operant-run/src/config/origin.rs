//! A value of the configuration and its origin, and the facts about its environment.

use operant_env::EnvOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use operant_learn::algorithms::Algorithm;
use operant_learn::presets::GPU_TABLE;
use operant_metrics::RunMetrics;
use toml::Value;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The preset of this environment.
    Preset(String),
    /// The `[gpu]` table of that preset.
    PresetGpu(String),
    /// The table of an algorithm in that preset.
    PresetOf(String, Algorithm),
    /// What an algorithm sets by itself.
    Algorithm(Algorithm),
    /// What it sets by itself on a GPU.
    AlgorithmGpu(Algorithm),
    /// A file, at a line if known.
    File(PathBuf, Option<usize>),
    /// A variable of the process environment.
    Variable(String),
    /// The configuration of the run being resumed.
    Resumed(String),
    /// The configuration of the weights that the run begins with; with their source.
    Weights(String),
    /// `--set` or a flag.
    Flag(String),
    /// The device, as requested by `auto`; with the reason.
    Chosen(String),
    /// The device, which does not support the requested value; with an explanation.
    Overridden(String),
}

impl Origin {
    /// Whether the user chose the value, as opposed to a default or preset.
    pub fn is_explicit(&self) -> bool {
        use Origin::{Algorithm, AlgorithmGpu, Default, Preset, PresetGpu, PresetOf};
        !matches!(self, Default | Preset(_) | PresetGpu(_) | PresetOf(..) | Algorithm(_) | AlgorithmGpu(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => write!(f, "default"),
            Origin::Preset(env) => write!(f, "preset {env}"),
            Origin::PresetGpu(env) => write!(f, "preset {env} [{GPU_TABLE}]"),
            Origin::PresetOf(env, algorithm) => write!(f, "preset {env} [{algorithm}]"),
            Origin::Algorithm(algorithm) => write!(f, "default of {algorithm}"),
            Origin::AlgorithmGpu(algorithm) => write!(f, "default of {algorithm} [{GPU_TABLE}]"),
            Origin::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Origin::File(path, None) => write!(f, "{}", path.display()),
            Origin::Variable(name) => write!(f, "{name}"),
            Origin::Resumed(run) => write!(f, "run {run}"),
            Origin::Weights(source) => write!(f, "weights of {source}"),
            Origin::Flag(flag) => write!(f, "{flag}"),
            Origin::Chosen(reason) => write!(f, "auto: {reason}"),
            Origin::Overridden(reason) => write!(f, "{reason}"),
        }
    }
}

/// Facts about an environment that its configuration depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnvFacts {
    /// Its name, as in `operant train NAME`.
    pub name: String,
    /// Its preset as TOML text, if it has one.
    pub preset: Option<String>,
    /// Whether it is from outside the program: its preset may only set hyperparameters and thresholds.
    pub is_foreign: bool,
    /// Its options with their defaults.
    pub options: EnvOptions,
    /// Its options that are paths; a relative path is stored as an absolute one, so that the run works in every directory.
    pub paths: BTreeSet<String>,
    /// Its options that change the rules.
    pub rules: BTreeSet<String>,
    /// The metrics of a run in it.
    pub metrics: RunMetrics,
    /// The environments whose tables an `operant.toml` may hold: every name and alias, with the name that it refers to.
    pub known: BTreeMap<String, String>,
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The value, of its key's type.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
}

/// Values by key.
pub(super) type Entries = BTreeMap<&'static str, Entry>;
