//! A run with its result and configuration, as `operant runs` and `operant show` print it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use operant_env::Registry;
use operant_metrics::natural;
use operant_run::checkpoint::{self, Totals};
use operant_run::config::{self, Difference, EnvFacts};
use operant_run::notes::Notes;
use operant_run::runs::{self, Run};
use operant_run::{RunResult, path_text};
use serde::Serialize;
use serde_json::Value;

use super::Sort;

/// A run, with its result and configuration.
pub struct RunRow {
    pub run: Run,
    /// The result, if the run's latest process wrote it.
    pub result: Option<RunResult>,
    /// Totals of its latest checkpoint, without a result.
    saved: Option<Totals>,
    config: toml::Table,
    /// Differences from the preset.
    pub changed: Vec<Difference>,
    /// What the user wrote about it.
    pub notes: Notes,
}

impl RunRow {
    pub fn of(run: Run, registry: &Registry) -> Self {
        // The result of an earlier process does not apply to one that continues training.
        let result = RunResult::read(&run.dir).filter(|result| {
            !run.health.is_alive() && run.env_steps.is_none_or(|steps| steps == result.env_steps)
        });
        let config = runs::config(&run.dir).unwrap_or_default();
        let facts = EnvFacts::registered(registry, &run.env);
        let changed = facts.map_or_else(|_| Vec::new(), |facts| config::differences(&facts, &config));
        let notes = Notes::of(&run.dir);
        let saved =
            if result.is_none() { checkpoint::latest_totals(&run.dir.join("checkpoints")) } else { None };
        RunRow { run, result, saved, config, changed, notes }
    }

    /// The algorithm that learns; a configuration without one is of a version that had PPO alone.
    pub fn algorithm(&self) -> &str {
        self.config.get("algorithm").and_then(toml::Value::as_str).unwrap_or("ppo")
    }

    /// Mean return of the last greedy evaluation.
    pub fn evaluated(&self) -> Option<f64> {
        self.result.as_ref()?.eval_return_mean
    }

    /// Mean return at which the environment counts as solved.
    pub fn threshold(&self) -> Option<f64> {
        self.config.get("solved_at")?.as_float()
    }

    /// The step and the seconds at which it was solved: of its result, or of its latest checkpoint where it has none.
    pub fn solved(&self) -> Option<(u64, f64)> {
        match (&self.result, &self.saved) {
            (Some(result), _) => Some((result.solved_at_step?, result.solved_at_s?)),
            (None, Some(saved)) => Some((saved.solved_at_step?, saved.solved_at_s?)),
            (None, None) => None,
        }
    }

    pub fn solved_at_step(&self) -> Option<u64> {
        self.solved().map(|(step, _)| step)
    }

    pub fn changes(&self) -> Vec<String> {
        self.changed.iter().map(|it| format!("{}={}", it.key, it.shown().0)).collect()
    }

    pub fn matches(&self, filters: &[String]) -> bool {
        let Run { run, env, device, health, seed, .. } = &self.run;
        let mut texts = vec![run.clone(), env.clone(), device.clone(), format!("state={}", health.name())];
        texts.push(format!("algorithm={}", self.algorithm()));
        texts.extend(seed.map(|seed| format!("seed={seed}")));
        texts.extend(self.changes());
        texts.extend(self.notes.tags.iter().cloned());
        filters.iter().all(|filter| texts.iter().any(|text| text.contains(filter.as_str())))
    }

    /// Whether it has all of these tags.
    pub fn has_tags(&self, tags: &[String]) -> bool {
        tags.iter().all(|tag| self.notes.tags.contains(tag))
    }

    pub(super) fn order(&self, other: &Self, by: Sort) -> Ordering {
        let real = |get: &dyn Fn(&RunRow) -> Option<f64>| {
            let of = |shown| get(shown).unwrap_or(f64::NEG_INFINITY);
            of(self).total_cmp(&of(other))
        };
        let (a, b) = (&self.run, &other.run);
        match by {
            Sort::Started => Ordering::Equal,
            Sort::Run => natural(&a.run, &b.run),
            Sort::Env => a.env.cmp(&b.env),
            Sort::State => a.health.name().cmp(b.health.name()),
            Sort::Steps => a.env_steps.cmp(&b.env_steps),
            Sort::Sps => real(&|shown| shown.run.sps),
            Sort::Return => real(&|shown| shown.evaluated().or(shown.run.episodic_return)),
            // Fewer steps are better, so they come last; none is worst.
            Sort::Solved => {
                let steps = |shown: &RunRow| shown.solved_at_step().unwrap_or(u64::MAX);
                steps(other).cmp(&steps(self))
            }
            Sort::Seed => a.seed.cmp(&b.seed),
        }
    }

    /// The values that `--json` prints.
    pub fn json(&self) -> anyhow::Result<Json<'_>> {
        let (run, result) = (&self.run, self.result.as_ref());
        let changed = self.changed.iter().map(|it| Ok((it.key.clone(), serde_json::to_value(&it.value)?)));
        Ok(Json {
            run: &run.run,
            env: &run.env,
            device: &run.device,
            state: run.health.name(),
            pid: run.pid,
            env_steps: run.env_steps,
            sps: run.sps,
            started: Some(run.started.as_str()).filter(|started| !started.is_empty()),
            dir: &run.dir,
            algorithm: self.algorithm(),
            reason: Some(run.reason.as_str()).filter(|reason| !reason.is_empty()),
            seed: run.seed,
            total_steps: run.total_steps,
            episodic_return: run.episodic_return,
            eval_return_mean: self.evaluated(),
            eval_return_std: result.and_then(|result| result.eval_return_std),
            eval_episodes: result.map(|result| result.eval_episodes),
            eval_distinct: result.map(|result| result.eval_distinct),
            eval_metrics: result.map(|result| &result.eval_metrics),
            solved_at_step: self.solved_at_step(),
            solved_at_s: self.solved().map(|(_, seconds)| seconds),
            updates: result.map(|result| result.updates),
            wall_s: result.map(|result| result.wall_s),
            train_s: result.map(|result| result.train_s),
            checkpoint: &run.checkpoint,
            ring: &run.ring,
            changed: changed.collect::<anyhow::Result<_>>()?,
            note: Some(self.notes.note.as_str()).filter(|note| !note.is_empty()),
            tags: &self.notes.tags,
            config: &self.config,
            kind: run.kind.name(),
        })
    }
}

/// An object of `--json`; the first nine keys are in the order of the contract. Unknown values are null.
#[derive(Serialize)]
pub struct Json<'a> {
    run: &'a str,
    env: &'a str,
    device: &'a str,
    state: &'a str,
    /// The trainer's, while it is alive.
    pid: Option<u32>,
    env_steps: Option<u64>,
    sps: Option<f64>,
    started: Option<&'a str>,
    #[serde(serialize_with = "path_text::serialize")]
    dir: &'a Path,
    algorithm: &'a str,
    reason: Option<&'a str>,
    seed: Option<u64>,
    total_steps: Option<u64>,
    episodic_return: Option<f64>,
    eval_return_mean: Option<f64>,
    eval_return_std: Option<f64>,
    eval_episodes: Option<usize>,
    eval_distinct: Option<usize>,
    eval_metrics: Option<&'a BTreeMap<String, f64>>,
    solved_at_step: Option<u64>,
    solved_at_s: Option<f64>,
    updates: Option<u64>,
    wall_s: Option<f64>,
    train_s: Option<f64>,
    #[serde(serialize_with = "path_text::serialize_option")]
    checkpoint: &'a Option<std::path::PathBuf>,
    #[serde(serialize_with = "path_text::serialize_option")]
    ring: &'a Option<std::path::PathBuf>,
    changed: serde_json::Map<String, Value>,
    note: Option<&'a str>,
    tags: &'a [String],
    config: &'a toml::Table,
    kind: &'static str,
}
