//! What a sweep will do, checked before it begins: its environments with their settings, cores and memory.

use std::sync::Arc;

use operant_env::{AnyEnv, Registry};
use operant_run::config::{self, EnvFacts};
use operant_run::{CommandLine, Error, Result, Settings, device, machine};
use toml::Value;

use crate::search::{self, plain};
use crate::spec::{Method, Objective, Spec};
use crate::table::Base;
use crate::task::Executor;

/// Settings of all runs unless `[set]` or `--set` says otherwise; they override operant.toml and variables, which are meant for single
/// runs.
const DEFAULTS: [&str; 3] = ["tensorboard=false", "ring=false", "checkpoint_interval=0"];

/// Generations of a population, at most.
pub(crate) const MAX_GENERATIONS: u64 = 10_000;

/// A sweep that has not begun.
pub struct Plan {
    pub(crate) spec: Spec,
    pub(crate) environments: Vec<Arc<Environment>>,
    /// Runs side by side, and threads of each.
    pub(crate) jobs: usize,
    pub(crate) threads: usize,
    pub(crate) executor: Arc<dyn Executor>,
}

impl Plan {
    /// Checks a specification.
    ///
    /// # Errors
    /// When a setting is not valid, or memory is short.
    pub fn new(
        spec: Spec,
        registry: &Registry,
        jobs: Option<usize>,
        executor: Arc<dyn Executor>,
    ) -> Result<Self> {
        let find = |name: &String| {
            let env = device::find(registry, name)?;
            Environment::of(registry, name, &spec, env, executor.device()).map(Arc::new)
        };
        let environments = spec.environments.iter().map(find).collect::<Result<Vec<_>>>()?;
        let (jobs, threads) = share_cores(&spec, jobs, &*executor);
        for environment in &environments {
            check_settings(environment, &spec)?;
            check_memory(environment, &spec, jobs, threads, &*executor)?;
        }
        Ok(Self { spec, environments, jobs, threads, executor })
    }

    /// The specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

/// An environment, and its runs' configuration without what varies.
pub(crate) struct Environment {
    pub name: String,
    pub env: Arc<dyn AnyEnv>,
    pub facts: EnvFacts,
    line: CommandLine,
    /// Environment steps of a run and of an update, and the configuration, all with the first values of what varies.
    pub steps: u64,
    pub batch: u64,
    pub config: String,
}

impl Environment {
    pub fn of(
        registry: &Registry,
        name: &str,
        spec: &Spec,
        env: Arc<dyn AnyEnv>,
        device: &str,
    ) -> Result<Self> {
        let facts = EnvFacts::of(&env.spec(), registry);
        let assignments = spec.set.iter().map(|(key, value)| assignment(key, value));
        let set = DEFAULTS.iter().map(ToString::to_string).chain(assignments);
        let line = CommandLine {
            config: spec.config.clone(),
            set: set.chain([format!("device={device}"), "csv=true".to_owned()]).collect(),
            ..CommandLine::default()
        };
        let mut found =
            Self { name: name.to_owned(), env, facts, line, steps: 0, batch: 0, config: String::new() };
        let first = spec.points_to_check().next().unwrap_or_default();
        let settings = found.settings(spec, &first)?;
        (found.steps, found.batch, found.config) =
            (settings.steps(), settings.batch(), settings.to_saved_toml());
        found.check_search(spec, &settings)?;
        Ok(found)
    }

    /// Refuses a search that could not compare anything.
    fn check_search(&self, spec: &Spec, settings: &Settings) -> Result<()> {
        let (steps, batch) = (self.steps, self.batch);
        let wrong = |what: String, remedy: String| Err(Error::usage(what).at("[search]").remedy(remedy));
        if let Objective::Metric { name, .. } = &spec.search.objective {
            let env = self.env.with_options(&settings.env_options).map_err(|error| Error::from(&error))?;
            let metrics: Vec<String> = env.spec().metrics.into_iter().map(|metric| metric.name).collect();
            if !metrics.contains(name) {
                let remedy = match metrics.is_empty() {
                    true => {
                        format!("use objective = \"eval_return\"; {} has no metrics of its own", self.name)
                    }
                    false => format!("use {}, or objective = \"eval_return\"", metrics.join(", ")),
                };
                let what = format!("objective: {} has no metric \"{name}\" of its own", self.name);
                return wrong(what, remedy);
            }
        } else if spec.search.objective != Objective::EvalReturn && settings.run.solved_at.is_none() {
            let what = format!("{} has no solved_at, which the objective needs", self.name);
            return wrong(what, "set solved_at in [set], or use objective = \"eval_return\"".to_owned());
        }
        let (key, first) = match (&spec.search.method, &spec.search.halving) {
            (Method::Pbt { interval }, _) => ("interval", *interval),
            (_, Some(halving)) => ("first_steps", halving.first_steps),
            _ => return Ok(()),
        };
        if first < batch || first >= steps {
            let what =
                format!("{key} = {first}, but an update has {batch} environment steps and a run {steps}");
            return wrong(what, format!("use a number from {batch} to {}", steps.saturating_sub(1)));
        }
        if steps / first > MAX_GENERATIONS && key == "interval" {
            return wrong(
                format!("interval = {first} makes {} generations", steps / first),
                format!("use at least {}", steps.div_ceil(MAX_GENERATIONS)),
            );
        }
        Ok(())
    }

    /// The settings of a trial, checked.
    pub fn settings(&self, spec: &Spec, point: &[Value]) -> Result<Settings> {
        let set = self.line.set.iter().cloned().chain(assignments(spec, point)).collect();
        let line = CommandLine { set, ..self.line.clone() };
        config::requested(self.facts.clone(), &line, None)?.resolve(None)
    }

    pub fn base(&self) -> Base {
        Base { env: self.name.clone(), name: self.facts.name.clone(), config: self.config.clone() }
    }
}

fn assignment(key: &str, value: &Value) -> String {
    format!("{key}={}", plain(value))
}

pub(crate) fn assignments(spec: &Spec, point: &[Value]) -> Vec<String> {
    spec.axes.iter().zip(point).map(|(axis, value)| assignment(&axis.key, value)).collect()
}

/// Runs side by side, and threads of each: one thread each, or more if there are fewer runs than cores.
pub(crate) fn share_cores(spec: &Spec, jobs: Option<usize>, executor: &dyn Executor) -> (usize, usize) {
    let jobs = jobs.unwrap_or_else(|| executor.slots()).clamp(1, spec.planned().max(1));
    (jobs, executor.threads(jobs))
}

/// Checks all values that are known before the sweep begins.
fn check_settings(environment: &Environment, spec: &Spec) -> Result<()> {
    for point in spec.points_to_check() {
        environment.settings(spec, &point).map_err(|error| {
            let values = search::shown(&spec.axes, &point);
            if values.is_empty() { error } else { error.at(format!("the trial {values}")) }
        })?;
    }
    Ok(())
}

/// Refuses a sweep whose runs need more memory than there is, as far as their values are known.
pub(crate) fn check_memory(
    environment: &Environment,
    spec: &Spec,
    jobs: usize,
    threads: usize,
    executor: &dyn Executor,
) -> Result<()> {
    if !executor.is_local() {
        return Ok(());
    }
    let mut most = 0;
    for point in spec.points_to_check().chain([spec.largest()]) {
        // The largest values may not fit together.
        if let Ok(settings) = environment.settings(spec, &point) {
            most = most.max(machine::memory_needed(&*environment.env, &settings, threads)?);
        }
    }
    let needed = most.saturating_mul(jobs as u64);
    match operant_host::machine::memory().filter(|memory| needed > memory.available) {
        None => Ok(()),
        Some(memory) => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let what = format!(
                "{jobs} parallel runs of {} need {:.1} GiB of memory, and {:.1} GiB are available",
                environment.name,
                gib(needed),
                gib(memory.available)
            );
            Err(Error::usage(what).remedy("use fewer --jobs, or lower num_envs, num_steps or hidden"))
        }
    }
}
