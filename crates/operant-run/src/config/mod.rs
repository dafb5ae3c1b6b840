//! The configuration of a run: layers of TOML, variables and flags become one set of checked [`Settings`].
//!
//! Precedence, lowest first: built-in defaults, the environment's preset, that preset's `[gpu]` where a GPU trains, the
//! user's `operant.toml`, the working directory's, the one in the directory that holds the runs, `--config FILE`, `OPERANT_*` variables, the configuration of
//! a resumed run, and last `--set` and flags. Every value keeps its [`Origin`], which `operant config ENV` shows and every
//! error names. What trains is itself a key (`device`), so it is known before `[gpu]` is laid; where `auto` leaves it open,
//! [`crate::device`] chooses and asks for [`Settings::on_gpu`].
//!
//! An `operant.toml` may hold tables named after environments, such as `[cartpole]`: their values override the rest
//! of that file for that environment only. `[env]` (or `[cartpole.env]`) holds options of the environment itself.

mod keys;
mod layers;
mod show;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use keys::{Group, KEYS, Key, Kind, Range};
pub use layers::{Entry, EnvFacts, Layers, Origin};
pub use show::environment_of;
pub(crate) use validate::{Wish, check_run_name};

use crate::error::{Error, Result};
use crate::machine::Applied;

/// How a run is carried out. Nothing here but `precision` changes what an update computes, and nothing but that and `overlap`
/// what a horizon plays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Worker threads; 0 leaves their number to the plan for the machine, which takes every hardware thread that the process may
    /// use, up to 32. Changes the time, never the result.
    pub threads: usize,
    /// Suit threads and their waiting to the machine; without, plain defaults are taken. Changes the time, never the result.
    pub optimize_perf: bool,
    /// Bind each worker thread to a CPU of its own.
    pub pin: bool,
    /// How worker threads wait for the next small job: `spin`, `yield`, `sleep`, or `auto`, which leaves it to the plan.
    pub waiting: String,
    /// Environments that a worker thread plays side by side; 0 leaves it to the plan, which takes the number with which all threads
    /// are done soonest.
    pub rollout_tile: usize,
    /// Environments that one instruction steps; 0 takes as many as the processor's vectors hold.
    pub lane_width: usize,
    /// `auto`, `cpu` or `cuda[:K]`, where K counts as the CUDA driver does; or several with commas between them, of which the first
    /// that can train this is taken.
    pub device: String,
    /// What matrix products are computed in: `f32`, on the CPU the only one, `tf32` or `bf16`.
    pub precision: String,
    /// Which kernels run the network on a GPU: `fused` has it inside, `layers` runs it as matrix products, and `auto` takes what
    /// suits its shape.
    pub kernels: String,
    /// Share of the free memory of a GPU that a run may take.
    pub memory_fraction: f64,
    /// On a GPU, play each horizon beside the update before it, with weights that are one update old.
    pub overlap: bool,
    /// Directory that keeps compiled kernels; the user's cache directory when absent.
    pub cache_dir: Option<PathBuf>,
    /// Directory that holds the runs' directories.
    pub run_dir: PathBuf,
    /// The run's name; made from environment, seed and time when absent.
    pub name: Option<String>,
    /// Updates between checkpoints; 0 saves at the end only.
    pub checkpoint_interval: u64,
    /// How many of the latest checkpoints are kept; the best evaluated one stays besides.
    pub keep_checkpoints: usize,
    /// Greedy episodes in an evaluation.
    pub eval_episodes: usize,
    /// Least number of updates from one attempt to count as solved to the next.
    pub eval_interval: u64,
    /// Mean greedy return at which the environment counts as solved.
    pub solved_at: Option<f64>,
    /// Stop training at the first evaluation that reaches `solved_at`.
    pub stop_when_solved: bool,
    /// Write metrics.csv.
    pub csv: bool,
    /// Write a TensorBoard event file.
    pub tensorboard: bool,
    /// Publish into shared memory, where monitors read.
    pub ring: bool,
    /// Let members of the trainer's group read there too.
    pub ring_group: bool,
}

/// A complete, checked configuration for one environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the environment.
    pub environment: String,
    /// Hyperparameters.
    pub learner: operant_learn::Config,
    /// How the run is carried out.
    pub run: RunConfig,
    /// Options of the environment, by name.
    pub env_options: BTreeMap<String, f64>,
    /// Every value with its origin, by key.
    entries: BTreeMap<&'static str, Entry>,
    /// The same for environment options.
    options: BTreeMap<String, Entry>,
    /// What the environment's preset has for GPUs, by key.
    gpu: BTreeMap<&'static str, Entry>,
    /// Who asked that the device decide `num_envs`, while it has not.
    auto_envs: Option<Origin>,
    /// What was made of the machine, once there is a backend.
    applied: Option<Applied>,
    /// What the layers were made for.
    facts: EnvFacts,
}

impl Settings {
    /// Where the value of a key came from.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        match &self.auto_envs {
            Some(origin) if key == "num_envs" => Some(origin),
            _ => self.entries.get(key).map(|entry| &entry.origin),
        }
    }

    /// The value of a key, as TOML has it; None where it has none, or the device is yet to decide.
    pub fn value(&self, key: &str) -> Option<&toml::Value> {
        let is_open = key == "num_envs" && self.num_envs_is_open();
        self.entries.get(key).filter(|_| !is_open).map(|entry| &entry.value)
    }

    /// Whether the device is yet to decide `num_envs`; until then it is the number of the layers below.
    pub fn num_envs_is_open(&self) -> bool {
        self.auto_envs.is_some()
    }

    /// Why there are so many environments, where the device decided.
    pub fn num_envs_chosen(&self) -> Option<&str> {
        match self.origin("num_envs") {
            Some(Origin::Chosen(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Decides `num_envs` where that is open: the number that was chosen and why, or with None the one of the layers below.
    ///
    /// # Errors
    /// When other values do not fit it.
    pub(crate) fn decide_num_envs(&mut self, chosen: Option<(usize, String)>) -> Result<()> {
        if self.auto_envs.take().is_none() {
            return Ok(());
        }
        if let Some((num_envs, reason)) = chosen {
            self.learner.num_envs = num_envs;
            let value = toml::Value::Integer(i64::try_from(num_envs).unwrap_or(i64::MAX));
            self.entries.insert("num_envs", Entry { value, origin: Origin::Chosen(reason) });
        }
        self.check()
    }

    /// Where an environment option came from.
    pub fn option_origin(&self, option: &str) -> Option<&Origin> {
        self.options.get(option).map(|entry| &entry.origin)
    }

    /// Whether the environment's preset has a part for GPUs.
    pub fn has_gpu_preset(&self) -> bool {
        !self.gpu.is_empty()
    }

    /// Whether any value comes from that part.
    pub fn uses_gpu_preset(&self) -> bool {
        self.entries.values().any(|entry| matches!(entry.origin, Origin::PresetGpu(_)))
    }

    /// Worker threads: those of the backend where there is one, else as many as asked for or as the process may use.
    pub fn threads(&self) -> usize {
        match (&self.applied, self.run.threads) {
            (Some(applied), _) => applied.threads,
            (None, 0) => every_thread(),
            (None, asked) => asked,
        }
    }

    /// What was made of the machine, once there is a backend that [`crate::backend`] built.
    pub fn applied(&self) -> Option<&Applied> {
        self.applied.as_ref()
    }

    /// Keeps what was made of the machine.
    pub(crate) fn apply(&mut self, applied: Applied) {
        self.applied = Some(applied);
    }

    /// Where runs are kept when no flag names another directory.
    pub(crate) fn usual_run_dir(&self) -> PathBuf {
        usual_run_dir(self.facts.known.clone())
    }

    /// Whether the environment has a preset.
    pub fn has_preset(&self) -> bool {
        self.facts.preset.is_some()
    }

    /// Updates that reach `total_timesteps`, the last one rounded up.
    pub fn updates(&self) -> u64 {
        self.learner.total_timesteps.div_ceil(self.batch())
    }

    /// Environment steps that a whole run takes: `total_timesteps`, rounded up to whole updates.
    pub fn steps(&self) -> u64 {
        self.updates() * self.batch()
    }

    /// N T: environment steps per update.
    pub fn batch(&self) -> u64 {
        self.learner.num_envs as u64 * self.learner.num_steps as u64
    }
}

/// As many threads as the process may run at once.
pub fn every_thread() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the command line contributes to a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandLine {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// Each `--set key=value`, in order.
    pub set: Vec<String>,
    /// Flags that stand for keys: (key, flag, value as typed).
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// The configuration that `operant train ENV` uses: every layer in its order, checked. `resumed` is the name and the
/// configuration text of the run being resumed.
///
/// # Errors
/// The first value that cannot be used, with its origin and a remedy.
pub fn settings(facts: EnvFacts, line: &CommandLine, resumed: Option<(&str, &str)>) -> Result<Settings> {
    let user = user_file(|name| std::env::var_os(name));
    layered(facts, line, resumed, user.as_deref(), Path::new("operant.toml"), std::env::vars_os())
}

/// The configuration as far as no environment decides it: what files and variables say over the built-in defaults.
///
/// # Errors
/// As [`settings`].
pub fn of_no_environment(known: BTreeMap<String, String>) -> Result<Settings> {
    let facts = EnvFacts { known, ..EnvFacts::default() };
    settings(facts, &CommandLine::default(), None)
}

/// Where runs are kept, as every layer but a run's own says; for commands that look for a run before they know its
/// environment. `known` is as in [`EnvFacts`].
///
/// # Errors
/// As [`settings`].
pub fn run_dir(known: BTreeMap<String, String>, line: &CommandLine) -> Result<PathBuf> {
    let facts = EnvFacts { known, ..EnvFacts::default() };
    let user = user_file(|name| std::env::var_os(name));
    let files = [user.as_deref(), Some(Path::new("operant.toml"))];
    Ok(stack(facts, line, None, files, std::env::vars_os())?.run_dir())
}

/// The directory that holds the runs where no flag names another.
pub fn usual_run_dir(known: BTreeMap<String, String>) -> PathBuf {
    // A layer that cannot be used is an error of the command that needs it.
    run_dir(known, &CommandLine::default()).unwrap_or_else(|_| PathBuf::from("runs"))
}

/// The directory for compiled kernels that files and variables name, if any does.
pub fn usual_cache_dir(known: BTreeMap<String, String>) -> Option<PathBuf> {
    // As above.
    of_no_environment(known).ok()?.run.cache_dir
}

fn layered(
    facts: EnvFacts,
    line: &CommandLine,
    resumed: Option<(&str, &str)>,
    user: Option<&Path>,
    here: &Path,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Settings> {
    let variables: Vec<_> = variables.into_iter().collect();
    let layers = stack(facts.clone(), line, resumed, [user, Some(here)], variables.clone())?;
    // Where the runs are is itself a key, which the file beside them therefore cannot have.
    let beside = layers.run_dir().join("operant.toml");
    let same = || beside.canonicalize().ok() == here.canonicalize().ok();
    if !beside.is_file() || same() {
        return layers.build();
    }
    let run_dir = layers.run_dir();
    let layers = stack(facts, line, resumed, [user, Some(here), Some(&beside)], variables)?;
    if layers.run_dir() != run_dir {
        return Err(Error::usage("run_dir cannot be set by a file that is found through it")
            .at(beside.display().to_string())
            .remedy("set it in the operant.toml of the working directory, or with --run-dir"));
    }
    layers.build()
}

/// The layers with these files, the lowest first, each if it is there.
fn stack<const FILES: usize>(
    facts: EnvFacts,
    line: &CommandLine,
    resumed: Option<(&str, &str)>,
    files: [Option<&Path>; FILES],
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Layers> {
    let mut layers = Layers::new(facts)?;
    for file in files.into_iter().flatten() {
        layers.file_if_there(file)?;
    }
    if let Some(path) = &line.config {
        layers.file(path)?;
    }
    layers.variables(variables)?;
    if let Some((run, text)) = resumed {
        layers.resumed(run, text)?;
    }
    for assignment in &line.set {
        layers.set(assignment)?;
    }
    for (key, flag, value) in &line.flags {
        layers.flag(key, flag, value)?;
    }
    Ok(layers)
}

/// `$XDG_CONFIG_HOME/operant/operant.toml`, or the same under `~/.config`.
fn user_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The specification ignores relative paths.
    let configured = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = configured.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(base.join("operant").join("operant.toml"))
}
