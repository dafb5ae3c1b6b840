//! The configuration of a run, in three steps: sources (layers of TOML, variables and flags) -> [`Requested`] -> [`Settings`], which are
//! resolved for a device and never change.
//!
//! Precedence, lowest first: built-in defaults, the environment's preset, that preset's `[gpu]` where a GPU trains, the weights of `init_from`, the
//! user's `operant.toml`, the working directory's, the one in the directory that holds the runs, `--config FILE`,
//! `OPERANT_*` variables, the configuration of a resumed run, and last `--set` and flags. Every value keeps its
//! [`Origin`], which `operant config ENV` shows and every error names. The device is itself a key (`device`), so it is
//! known before `[gpu]` is applied; with `auto`, [`crate::device`] chooses it and applies [`Requested::on_gpu`].
//!
//! An `operant.toml` may hold tables named after environments, such as `[cartpole]`: their values override the rest
//! of that file for that environment only. `[env]` (or `[cartpole.env]`) holds options of the environment itself.
//!
//! A setting is one row: of [`operant_learn::Config`] for the learner, of [`RunConfig`] for a run. Its field, default, range, variable,
//! flag and documentation follow from the row.

mod algorithm;
mod device_request;
mod doc;
mod elsewhere;
mod in_python;
mod kept;
mod keys;
mod layers;
mod lines;
mod origin;
mod requested;
mod run_config;
mod settings;
mod show;
#[cfg(test)]
mod tests;
mod weights;
mod zoo;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use device_request::{DeviceName, DeviceRequest};
pub use doc::{insert_tables, python_types, tables};
pub use elsewhere::{Counterpart, elsewhere, key_hint};
pub use in_python::in_python;
pub use kept::KeepCheckpoints;
pub(crate) use keys::whole;
pub use keys::{find, is_whole, keys, parsed};
pub(crate) use layers::check_foreign_preset;
pub use layers::{Layers, accepted_value, check_format, option_value};
pub use operant_learn::setting::{Flag, Key, KeyGroup, Kind};
pub use origin::{Entry, EnvFacts, Origin};
pub use requested::Requested;
pub(crate) use run_config::check_run_name;
pub use run_config::{RunConfig, WaitingRequest};
pub use settings::Settings;
pub use show::{Difference, differences, environment_of};

use crate::error::{Error, Result};
use crate::init_from::InitialWeights;

/// The command line's part of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandLine {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// Each `--set key=value`, in order.
    pub set: Vec<String>,
    /// Flags that stand for keys: (key, flag, value as typed).
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// Weights for a new run from the program itself, instead of those that `init_from` names.
    pub weights: Option<Arc<InitialWeights>>,
}

/// The configuration that `operant train ENV` uses: every layer in its order, checked. `resumed` is the name and the
/// configuration text of the run being resumed.
///
/// # Errors
/// The first invalid value, with its origin and a remedy.
pub fn requested(facts: EnvFacts, line: &CommandLine, resumed: Option<(&str, &str)>) -> Result<Requested> {
    let user = user_file(|name| std::env::var_os(name));
    layered(facts, line, resumed, user.as_deref(), Path::new("operant.toml"), std::env::vars_os())
}

/// The configuration without an environment: files and variables over the built-in defaults.
///
/// # Errors
/// Same as [`requested()`].
pub fn of_no_environment(known: BTreeMap<String, String>) -> Result<Requested> {
    let facts = EnvFacts { known, ..EnvFacts::default() };
    requested(facts, &CommandLine::default(), None)
}

/// The directory that holds the runs, from every layer but a run's own; for commands that look up a run before its
/// environment is known. `known` is as in [`EnvFacts`].
///
/// # Errors
/// Same as [`requested()`].
pub fn run_dir(known: BTreeMap<String, String>, line: &CommandLine) -> Result<PathBuf> {
    let facts = EnvFacts { known, ..EnvFacts::default() };
    let user = user_file(|name| std::env::var_os(name));
    let files = [user.as_deref(), Some(Path::new("operant.toml"))];
    Ok(stack(facts, line, None, files, std::env::vars_os())?.run_dir())
}

/// The directory that holds the runs by default.
pub fn default_run_dir(known: BTreeMap<String, String>) -> PathBuf {
    // An invalid layer is reported by the command that needs it.
    run_dir(known, &CommandLine::default()).unwrap_or_else(|_| PathBuf::from("runs"))
}

/// The directory for compiled kernels that files or variables set, if any.
pub fn default_cache_dir(known: BTreeMap<String, String>) -> Option<PathBuf> {
    // As above.
    of_no_environment(known).ok()?.settings.run.cache_dir
}

fn layered(
    facts: EnvFacts,
    line: &CommandLine,
    resumed: Option<(&str, &str)>,
    user: Option<&Path>,
    here: &Path,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Requested> {
    let variables: Vec<_> = variables.into_iter().collect();
    let layers = stack(facts.clone(), line, resumed, [user, Some(here)], variables.clone())?;
    // `run_dir` is itself a key, which the file in that directory therefore cannot set.
    let runs_file = layers.run_dir().join("operant.toml");
    let same = || runs_file.canonicalize().ok() == here.canonicalize().ok();
    if !runs_file.is_file() || same() {
        return layers.built_for(line, resumed.is_none());
    }
    let run_dir = layers.run_dir();
    let layers = stack(facts, line, resumed, [user, Some(here), Some(&runs_file)], variables)?;
    if layers.run_dir() != run_dir {
        return Err(Error::usage("run_dir cannot be set by a file that is found through it")
            .at(runs_file.display().to_string())
            .remedy("set it in the operant.toml of the working directory, or with --run-dir"));
    }
    layers.built_for(line, resumed.is_none())
}

/// The layers with these files, lowest first, each if it exists.
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
