//! Gymnasium environments as [`AnyEnv`]: worker processes make and step them, and exchange observations and actions with the
//! trainer through shared memory. Each tile of environments is a group with its own workers, so that the policy computes for one
//! group while the others step.

mod description;
mod group;
mod keys;
mod layout;
mod os;
mod output;
pub mod python;
pub mod shared;
mod stepper;
mod worker;

use std::io::{self, PipeWriter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use operant_env::{
    AnyEnv, EnvCounters, EnvMetric, EnvOption, EnvOptions, EnvSpec, OptionError, OptionValue, OwnSpaces,
    Scene, StepError, Stepper, TileSpec,
};
use operant_lane::Leaf;

pub use description::{Description, DescriptionError};
pub use worker::{Host, Hosted};

use crate::group::{Setup, WorkerGroup};
use crate::keys::Keys;
use crate::output::Output;
use crate::stepper::GymStepper;

/// A Gymnasium environment.
#[derive(Debug)]
pub struct GymEnv {
    running: Arc<Running>,
}

#[derive(Debug, Clone, Copy)]
struct Options {
    /// Worker processes of a group.
    workers: usize,
    /// Seconds until a turn without an answer fails.
    timeout: f64,
    /// Failures after which the run ends.
    restarts: u32,
    /// Steps after which an episode is truncated.
    time_limit: u32,
}

/// What the groups of an environment share.
#[derive(Debug)]
struct Running {
    description: Description,
    host: Option<Arc<dyn Host>>,
    options: Options,
    /// Groups that played an evaluation, for the next one.
    idle: Mutex<Vec<WorkerGroup>>,
    failures: AtomicU64,
    waited_ns: AtomicU64,
    messages: Mutex<Vec<String>>,
    keys: Mutex<Keys>,
    /// Dropped after all groups, whose last lines it waits for.
    output: Mutex<Option<Output>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn new(description: Description, host: Option<Arc<dyn Host>>, options: Options) -> Self {
        Self {
            description,
            host,
            options,
            idle: Mutex::default(),
            failures: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            messages: Mutex::default(),
            keys: Mutex::default(),
            output: Mutex::default(),
        }
    }

    fn error(&self, what: String, remedy: &'static str) -> StepError {
        StepError { env: self.description.spec.name.clone(), what, remedy }
    }

    /// The error when a worker cannot be started.
    fn cannot_start(&self, error: &io::Error) -> StepError {
        let python = self.description.python.display();
        let what = format!("a worker process of {python} cannot be started: {error}");
        self.error(what, "activate the Python environment that has operant-rl, or free memory and processes")
    }

    /// A group whose environments have not been reset.
    fn take_group(&self, rows: usize, count: usize, evaluation: bool) -> Result<WorkerGroup, StepError> {
        let fits = |group: &WorkerGroup| {
            let setup = &group.setup;
            (setup.rows, setup.count, setup.evaluation) == (rows, count, evaluation)
        };
        loop {
            let mut idle = locked(&self.idle);
            let Some(place) = idle.iter().position(fits) else { break };
            let mut group = idle.swap_remove(place);
            drop(idle);
            if group.is_alive() {
                return Ok(group);
            }
        }
        let Options { workers, timeout, time_limit, .. } = self.options;
        let setup = Setup { rows, count, workers, evaluation, time_limit, timeout };
        let host = self.host.clone();
        let started =
            self.output().and_then(|output| WorkerGroup::start(&self.description, host, setup, output));
        started.map_err(|error| self.cannot_start(&error))
    }

    /// Where workers print.
    fn output(&self) -> io::Result<PipeWriter> {
        let mut output = locked(&self.output);
        match &*output {
            Some(output) => output.writer(),
            None => output.insert(Output::start(&self.description.spec.name)?).writer(),
        }
    }

    /// Takes a group back for the next evaluation.
    fn give_group(&self, group: WorkerGroup) {
        if group.setup.evaluation {
            locked(&self.idle).push(group);
        }
    }

    /// Counts a failure, and returns how many there were.
    fn count_failure(&self) -> u64 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count_waiting(&self, time: Duration) {
        self.waited_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts the metrics of an episode that ended, and warns of keys that no episode has.
    fn count_metrics(&self, values: impl Iterator<Item = f32>) {
        let mut keys = locked(&self.keys);
        if keys.is_judged() {
            return;
        }
        let EnvSpec { name, metrics, .. } = &self.description.spec;
        let metrics: Vec<&str> = metrics.iter().map(|metric| &*metric.name).collect();
        if let Some(warning) = keys.ended(&metrics, values) {
            self.warn(format!("{name}: {warning}"));
        }
    }

    fn warn(&self, message: String) {
        locked(&self.messages).push(message);
    }
}

/// Refuses a time limit above that of the environment, which ends its episodes first.
fn check_limit(description: &Description, name: &str, value: &OptionValue) -> Result<(), OptionError> {
    let spec = &description.spec;
    match *value {
        OptionValue::Number(steps) if description.limited && steps > f64::from(spec.time_limit) => {
            let problem = format!("is above the environment's own limit of {} steps", spec.time_limit);
            let remedy = match description.make.split_once('?') {
                _ if description.atari || !description.make.starts_with("gym:") => {
                    "raise the limit in the environment".to_owned()
                }
                Some(_) => format!("train {}&max_episode_steps={steps}", description.make),
                None => format!("train {}?max_episode_steps={steps}", description.make),
            };
            let (env, name) = (spec.name.clone(), name.to_owned());
            Err(OptionError::Value { env, name, value: value.clone(), problem, remedy })
        }
        _ => Ok(()),
    }
}

/// The metrics of a list of keys of `info`.
fn metrics(spec: &EnvSpec, name: &str, value: &OptionValue) -> Result<Vec<EnvMetric>, OptionError> {
    let keys = value.text().split(',').map(str::trim).filter(|key| !key.is_empty());
    let metrics: Vec<_> =
        keys.map(|key| EnvMetric::new(key, &format!("`info[\"{key}\"]` where an episode ends."))).collect();
    let of_spec = EnvSpec { metrics, ..spec.clone() };
    match of_spec.metrics_fault() {
        None => Ok(of_spec.metrics),
        Some(problem) => Err(OptionError::Value {
            env: spec.name.clone(),
            name: name.to_owned(),
            value: value.clone(),
            problem: format!("is refused: {problem}"),
            remedy: "give other keys of `info`; a wrapper can rename them".to_owned(),
        }),
    }
}

impl GymEnv {
    /// The environment of a description, in worker processes.
    pub fn new(description: Description) -> Self {
        Self::of(description, None)
    }

    /// The environment of a description, in threads of a host.
    pub fn hosted(description: Description, host: Arc<dyn Host>) -> Self {
        Self::of(description, Some(host))
    }

    fn of(mut description: Description, host: Option<Arc<dyn Host>>) -> Self {
        // Half the cores per group: with two groups, one process per core. Threads of Python do not run at the same time.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options {
            workers: if host.is_some() { 1 } else { (cores / 2).max(1) },
            timeout: 60.0,
            restarts: 16,
            time_limit: description.spec.time_limit,
        };
        description.spec.options = vec![
            EnvOption::whole(
                "workers",
                0,
                0,
                1024,
                "worker processes per group of environments; 0: half the cores",
            )
            .without_effect_on_rules(),
            EnvOption::number(
                "timeout",
                options.timeout,
                0.1,
                1e6,
                "seconds that a step, a reset or the start of a worker may take",
            )
            .without_effect_on_rules(),
            EnvOption::whole(
                "restarts",
                options.restarts,
                0,
                1_000_000,
                "failures that a run survives; the next one ends it",
            )
            .without_effect_on_rules(),
            EnvOption::whole(
                "max_episode_steps",
                0,
                0,
                1 << 30,
                "steps after which an episode is truncated; 0: the environment's own limit",
            ),
            EnvOption::metrics(
                "metrics",
                "keys of `info` with a number where an episode ends, such as is_success; their means are metrics of the run",
            )
            .without_effect_on_rules(),
        ];
        Self { running: Arc::new(Running::new(description, host, options)) }
    }
}

impl AnyEnv for GymEnv {
    fn spec(&self) -> EnvSpec {
        self.running.description.spec.clone()
    }

    /// None: a worker process cannot save its environment.
    fn steps_elsewhere(&self) -> bool {
        true
    }

    fn leaves(&self) -> Vec<Leaf> {
        Vec::new()
    }

    fn masked(&self) -> bool {
        self.running.description.masked
    }

    fn content(&self) -> Option<u64> {
        Some(self.running.description.content())
    }

    fn with_options(&self, given: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError> {
        let mut description = self.running.description.clone();
        let mut options = self.running.options;
        for (name, value) in given {
            description.spec.check_option(name, value)?;
            if name == "metrics" {
                description.spec.metrics = metrics(&description.spec, name, value)?;
            }
            let OptionValue::Number(number) = *value else { continue };
            let whole = number as u32;
            match name.as_str() {
                "workers" if whole > 0 => options.workers = whole as usize,
                "timeout" => options.timeout = number,
                "restarts" => options.restarts = whole,
                "max_episode_steps" if whole > 0 => {
                    check_limit(&description, name, value)?;
                    options.time_limit = whole;
                }
                _ => {}
            }
        }
        description.spec.time_limit = options.time_limit;
        let host = self.running.host.clone();
        Ok(Arc::new(Self { running: Arc::new(Running::new(description, host, options)) }))
    }

    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError> {
        Ok(Box::new(GymStepper::new(Arc::clone(&self.running), tile)?))
    }

    fn file(&self) -> Option<String> {
        Some(self.running.description.to_json())
    }

    fn picture(&self, _: &[u32]) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }

    fn own_spaces(&self) -> Option<OwnSpaces> {
        self.running.description.spaces.clone()
    }

    fn messages(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.running.messages))
    }

    fn counters(&self) -> Option<EnvCounters> {
        let running = &self.running;
        Some(EnvCounters {
            waited_s: running.waited_ns.load(Ordering::Relaxed) as f64 / 1e9,
            restarts: running.failures.load(Ordering::Relaxed),
        })
    }
}
