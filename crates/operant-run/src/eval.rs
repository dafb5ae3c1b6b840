//! Evaluation of a run's latest checkpoint, or of any checkpoint.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use operant_env::{AnyEnv, Registry};
use operant_learn::{EvalActions, Snapshot, Tensor, Transfer};
use serde::Serialize;

use crate::checkpoint::{self, Checkpoint};
use crate::config::{self, Requested};
use crate::device::{self, Built};
use crate::dir;
use crate::error::{Error, Result};
use crate::evaluate::EvalSummary;
use crate::init_from::is_of_policy;
use crate::opponent;
use crate::train_loop::FINAL_ROUND;
use crate::trust::Trust;
use crate::world;

/// A checkpoint to evaluate.
#[derive(Debug)]
pub struct EvalTarget {
    /// Name of the run that it belongs to.
    pub run: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its content.
    pub checkpoint: Checkpoint,
    /// Errors of damaged checkpoints that were skipped.
    pub warnings: Vec<String>,
}

impl EvalTarget {
    /// The environment that the checkpoint was trained in, for evaluations only. If it is a program, `trust` says whether it may be started.
    ///
    /// # Errors
    /// When it is not there any more, is not that of the checkpoint, or is not trusted.
    pub fn env(&self, registry: &Registry, trust: Trust) -> Result<Arc<dyn AnyEnv>> {
        let dir = self.env_dir();
        device::find_of_run(registry, dir, &self.checkpoint.env, Some(&self.checkpoint.snapshot), trust, true)
            .map_err(|error| Error { place: error.place.or(Some(self.path.display().to_string())), ..error })
    }

    /// The directory of the file of its environment, if it has one: of RUN/checkpoints/step_N the run's, of a saved policy its own.
    pub(crate) fn env_dir(&self) -> &Path {
        let is_own = self.path.join(world::FILE).exists();
        run_of(&self.path).filter(|_| !is_own).unwrap_or(&self.path)
    }
}

impl EvalTarget {
    /// Whether `what` names a run, or one of its steps.
    pub fn is_run(parent: &Path, what: &str) -> bool {
        with_step(parent, what).is_ok_and(|(run, _)| dir::find(parent, run).is_ok())
    }

    /// Finds a checkpoint: by its path, or as the latest checkpoint of a run (by name under `parent`, or by path), or as its checkpoint
    /// at that step with `RUN@STEP`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn find(parent: &Path, what: &str) -> Result<Self> {
        let path = Path::new(what);
        if path.is_dir() && is_checkpoint(path) {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
            let run = dir::name_of(run_of(&path).unwrap_or(&path));
            return Ok(EvalTarget { run, checkpoint: checkpoint::load(&path)?, path, warnings: Vec::new() });
        }
        let (what, step) = with_step(parent, what)?;
        let run = dir::find(parent, what)?;
        let checkpoints = run.join("checkpoints");
        if !checkpoints.is_dir() || checkpoint::steps(&checkpoints)?.is_empty() {
            return Err(Error::usage(format!("run {what} has no checkpoint yet"))
                .at(checkpoints.display().to_string())
                .remedy(format!(
                    "if it is training, `operant checkpoint {what}` saves one now; otherwise `operant train --resume {what}` starts it again from step 0"
                )));
        }
        if let Some(step) = step {
            let path = at_step(&checkpoints, what, step)?;
            let (run, checkpoint) = (dir::name_of(&run), checkpoint::load(&path)?);
            return Ok(EvalTarget { run, checkpoint, path, warnings: Vec::new() });
        }
        let loaded = checkpoint::load_latest(&checkpoints)?;
        let warnings = loaded.warnings();
        Ok(EvalTarget { run: dir::name_of(&run), path: loaded.path, checkpoint: loaded.checkpoint, warnings })
    }
}

/// The directory of the run of a checkpoint, `RUN/checkpoints/step_N`; None for a checkpoint elsewhere, such as a saved policy.
pub fn run_of(checkpoint: &Path) -> Option<&Path> {
    let is_step = checkpoint.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        ["step_", "discarded_step_", "."].iter().any(|start| name.starts_with(start))
    });
    let parent = checkpoint.parent().filter(|_| is_step)?;
    parent.file_name().is_some_and(|name| name == "checkpoints").then(|| parent.parent())?
}

/// The run and the step of `RUN@STEP`; a run whose path has an @ itself comes first.
fn with_step<'a>(parent: &Path, what: &'a str) -> Result<(&'a str, Option<u64>)> {
    let parts = what.rsplit_once('@').filter(|(_, step)| !step.contains('/'));
    let Some((run, step)) = parts.filter(|_| dir::locate(parent, what).is_none()) else {
        return Ok((what, None));
    };
    let number = config::whole(step).ok_or_else(|| {
        Error::usage(format!("\"{step}\" in {what} is not a step"))
            .remedy(format!("give the step of a checkpoint, such as {run}@200704 or {run}@2e5"))
    })?;
    Ok((run, Some(number)))
}

/// The checkpoint of a run at this step.
fn at_step(checkpoints: &Path, run: &str, step: u64) -> Result<PathBuf> {
    let all = checkpoint::steps(checkpoints)?;
    let next = all.partition_point(|(at, _)| *at < step);
    if let Some((_, path)) = all.get(next).filter(|(at, _)| *at == step) {
        return Ok(path.clone());
    }
    let nearest = all[next.saturating_sub(1)..].iter().take(1 + usize::from(next > 0));
    let nearest: Vec<String> = nearest.map(|(at, _)| format!("{run}@{at}")).collect();
    Err(Error::usage(format!("run {run} has no checkpoint at step {step}"))
        .at(checkpoints.display().to_string())
        .remedy(format!("the nearest: {}", nearest.join(", "))))
}

/// By its name or, for a copy under another name, by its files.
fn is_checkpoint(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("step_"))
        || checkpoint::is_checkpoint(path)
}

/// What `eval --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalResult {
    /// The run's name.
    pub run: String,
    /// Environment.
    pub env: String,
    /// The checkpoint.
    pub checkpoint: String,
    /// Environment steps that it had trained for.
    pub env_steps: u64,
    /// Mean return.
    pub eval_return_mean: f64,
    /// Standard deviation of the returns.
    pub eval_return_std: f64,
    /// Minimum return.
    pub eval_return_min: f64,
    /// Maximum return.
    pub eval_return_max: f64,
    /// Mean length in steps.
    pub eval_length_mean: f64,
    /// In a game, who played the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opponent: Option<String>,
    /// How actions were chosen: `greedy` or `sampled`.
    pub eval_actions: String,
    /// Episodes played.
    pub eval_episodes: usize,
    /// Distinct episodes among them.
    pub eval_distinct: usize,
    /// Means of the environment's own metrics, by name.
    pub eval_metrics: BTreeMap<String, f64>,
    /// The environment's options that differ from those of training, by name.
    pub changed_options: toml::Table,
    /// Whether the mean of greedy episodes reaches the environment's threshold; null if it has none, if actions were sampled, or
    /// under other options, or against another opponent, than those of training.
    pub solved: Option<bool>,
}

/// Plays `episodes` episodes of a checkpoint, on the random stream of a run's final evaluation: greedy ones of the same
/// number reproduce a finished run's result exactly. `stop` is asked meanwhile.
///
/// # Errors
/// When the backend refuses the request or the checkpoint, or `stop` returned true.
pub fn evaluate(
    target: &EvalTarget,
    requested: &Requested,
    episodes: usize,
    actions: EvalActions,
    stop: &mut dyn FnMut() -> bool,
    make_backend: impl FnOnce(&Requested) -> Result<Built>,
) -> Result<EvalResult> {
    let Built { mut backend, settings, .. } = make_backend(requested)?;
    let opponent = requested.settings.run.opponent.as_deref();
    let place = || target.path.display().to_string();
    let snapshot = &target.checkpoint.snapshot;
    // A saved policy has no state of a training, so that the rest is that of a new one; nor is there one of a game against this opponent.
    let is_policy = |tensor: &Tensor| is_of_policy(&tensor.name);
    let of_policy = (snapshot.tensors.iter().all(is_policy) || opponent.is_some()).then(|| Snapshot {
        tensors: snapshot.tensors.iter().filter(|tensor| is_policy(tensor)).cloned().collect(),
        counters: snapshot.counters.clone(),
    });
    let filled = of_policy.map(|policy| filled(&backend.save()?, &policy).map_err(|error| error.at(place())));
    let snapshot = filled.transpose()?.map_or(Cow::Borrowed(snapshot), Cow::Owned);
    backend.load(&snapshot).map_err(|error| Error::from(error).at(place()))?;
    let summary = EvalSummary::of(&backend.evaluate_until(0..episodes, FINAL_ROUND, actions, stop)?);
    let changed_options = settings.changed_options(&target.checkpoint.config);
    let trained = target.checkpoint.config.parse::<toml::Table>().unwrap_or_default();
    let trained = opponent::evaluated(trained.get("opponent").and_then(toml::Value::as_str));
    let is_other = opponent.is_some_and(|who| opponent::evaluated(Some(who)) != trained);
    let has_threshold = actions == EvalActions::Greedy && changed_options.is_empty() && !is_other;
    Ok(EvalResult {
        run: target.run.clone(),
        env: target.checkpoint.env.clone(),
        checkpoint: place(),
        env_steps: target.checkpoint.env_steps,
        eval_return_mean: summary.mean,
        eval_return_std: summary.std,
        eval_return_min: summary.min,
        eval_return_max: summary.max,
        eval_length_mean: summary.length,
        opponent: opponent.map(str::to_owned),
        eval_actions: actions.to_string(),
        eval_episodes: summary.episodes,
        eval_distinct: summary.distinct,
        eval_metrics: summary.named(settings.metrics()),
        solved: settings.run.solved_at.filter(|_| has_threshold).map(|threshold| summary.mean >= threshold),
        changed_options,
    })
}

/// The snapshot of a new training with all tensors of a saved policy.
fn filled(begun: &Snapshot, policy: &Snapshot) -> Result<Snapshot> {
    let transfer = Transfer::new(begun, policy);
    let lost = policy.tensors.iter().find(|tensor| !transfer.snapshot.tensors.contains(tensor));
    let problem = match (transfer.new_layers(), lost) {
        (new, _) if !new.is_empty() => new,
        (_, Some(lost)) => {
            format!("it has {}, which the network of this environment does not have", lost.name)
        }
        _ => return Ok(transfer.snapshot),
    };
    Err(Error::usage(format!("the saved policy does not fit the environment: {problem}"))
        .remedy("evaluate it in the environment and with the options that it was trained with"))
}
