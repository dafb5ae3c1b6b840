//! Carries out a sweep: takes decisions, has an executor train the runs in parallel, and writes their results.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use operant_env::{AnyEnv, Registry};
use operant_run::config::{self, EnvFacts};
use operant_run::dir::{RunDir, is_held};
use operant_run::{
    CommandLine, Error, ErrorKind, Result, RunResult, Settings, Signals, Trust, device, machine, path_text,
    world,
};
use toml::Value;

use crate::search::{self, Decision, Trial, plain};
use crate::spec::{Method, Objective, Spec};
use crate::table::{self, Base, CurvePoint, RunRow, Table, TrialRow};
use crate::task::{Executor, Finished, Link, Message, Segment, Task, TaskContext, run_name};

/// Poll interval for signals while all threads train.
const POLL: Duration = Duration::from_millis(20);

/// A second signal after this time ends the process at once; some senders, such as `timeout`, send each signal twice.
const SECOND_SIGNAL: Duration = Duration::from_millis(200);

/// Settings of all runs unless `[set]` or `--set` says otherwise; they override operant.toml and variables, which are meant for single
/// runs.
const DEFAULTS: [&str; 3] = ["tensorboard=false", "ring=false", "checkpoint_interval=0"];

/// How often the time of a sweep is written, so that it is not lost with a kill.
const CLOCK: Duration = Duration::from_secs(5);

/// Generations of a population, at most.
const MAX_GENERATIONS: u64 = 10_000;

/// The directory of the runs within the sweep's directory.
pub const TRIALS: &str = "trials";

/// A sweep that this process carries out.
pub struct Sweep {
    dir: RunDir,
    spec: Spec,
    table: Table,
    environments: Vec<Arc<Environment>>,
    trials: Vec<TrialRow>,
    /// Results by trial, seed and steps.
    results: BTreeMap<(usize, u64, u64), RunRow>,
    /// Decided and not begun.
    queue: VecDeque<Segment>,
    /// Runs side by side, and threads of each.
    jobs: usize,
    threads: usize,
    executor: Arc<dyn Executor>,
    /// Seconds of earlier processes.
    before: f64,
    started: Instant,
}

/// An environment, and its runs' configuration without what varies.
struct Environment {
    name: String,
    env: Arc<dyn AnyEnv>,
    facts: EnvFacts,
    line: CommandLine,
    /// Environment steps of a run and of an update, and the configuration, all with the first values of what varies.
    steps: u64,
    batch: u64,
    config: String,
}

/// How far a sweep is.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Results so far; a run that is continued has several.
    pub done: usize,
    /// Results that are planned.
    pub planned: usize,
    /// Runs that train now.
    pub running: usize,
    /// Results with an error.
    pub failed: usize,
    /// The best trial, its objective, and its values.
    pub best: Option<(usize, f64, String)>,
    /// Environment steps of all runs of this process.
    pub env_steps: u64,
    /// Seconds of this process.
    pub seconds: f64,
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every run has a result.
    Finished,
    /// A signal of this name stopped it; it can be continued.
    Stopped(&'static str),
}

/// Receives the progress of a sweep.
pub trait Watch {
    /// Something changed.
    fn status(&mut self, status: &Status);
    /// A run warns, or has failed.
    fn warn(&mut self, line: &str);
}

/// Shows nothing.
struct Unwatched;

impl Watch for Unwatched {
    fn status(&mut self, _: &Status) {}

    fn warn(&mut self, _: &str) {}
}

impl Environment {
    fn of(registry: &Registry, name: &str, spec: &Spec, env: Arc<dyn AnyEnv>, device: &str) -> Result<Self> {
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
        if spec.search.objective != Objective::EvalReturn && settings.run.solved_at.is_none() {
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
    fn settings(&self, spec: &Spec, point: &[Value]) -> Result<Settings> {
        let set = self.line.set.iter().cloned().chain(assignments(spec, point)).collect();
        let line = CommandLine { set, ..self.line.clone() };
        config::requested(self.facts.clone(), &line, None)?.resolve(None)
    }

    fn base(&self) -> Base {
        Base { env: self.name.clone(), name: self.facts.name.clone(), config: self.config.clone() }
    }
}

fn assignment(key: &str, value: &Value) -> String {
    format!("{key}={}", plain(value))
}

fn assignments(spec: &Spec, point: &[Value]) -> Vec<String> {
    spec.axes.iter().zip(point).map(|(axis, value)| assignment(&axis.key, value)).collect()
}

/// The directory of a sweep, given by name under `parent` or by path, if there is one.
pub fn locate(parent: &Path, name: &str) -> Option<PathBuf> {
    let ways = [parent.join(name), PathBuf::from(name)];
    ways.into_iter().find(|path| !name.is_empty() && crate::report::is_sweep(path))
}

/// As [`locate`].
///
/// # Errors
/// Usage when there is none.
pub fn find(parent: &Path, name: &str) -> Result<PathBuf> {
    locate(parent, name).ok_or_else(|| {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let names: Vec<String> = entries
            .filter(|entry| crate::report::is_sweep(&entry.path()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        let hint = operant_run::error::did_you_mean(name, names.iter().map(String::as_str));
        Error::usage(format!("there is no sweep \"{name}\"{hint}"))
            .at(parent.display().to_string())
            .remedy("`operant sweep ENV --seeds 10` starts one; --run-dir looks elsewhere")
    })
}

/// The directory of the file of an environment from outside the program.
fn worlds_of(sweep: &Path, number: usize) -> PathBuf {
    sweep.join("worlds").join(number.to_string())
}

impl Sweep {
    /// A new sweep in its own directory.
    ///
    /// # Errors
    /// When a setting is not valid, memory is short, or the directory cannot be made; nothing is left then.
    pub fn new(
        spec: Spec,
        registry: &Registry,
        parent: &Path,
        name: Option<&str>,
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
        let bases: Vec<Base> = environments.iter().map(|environment| environment.base()).collect();
        if let Some(name) = name {
            remove_unborn(&parent.join(path_text::file_name(name)));
        }
        let generated = format!("sweep-{}", environments[0].facts.name);
        let dir = RunDir::create(parent, name, &generated, spec.search.seed)?;
        let write = || {
            for (number, environment) in environments.iter().enumerate() {
                if let Some(text) = environment.env.file() {
                    world::keep(&text, &worlds_of(dir.path(), number))?;
                }
            }
            Table::create(dir.path(), &spec, &bases)
        };
        let table = write().inspect_err(|_| {
            let _ = std::fs::remove_dir_all(dir.path());
        })?;
        Ok(Self {
            dir,
            spec,
            table,
            environments,
            trials: Vec::new(),
            results: BTreeMap::new(),
            queue: VecDeque::new(),
            jobs,
            threads,
            executor,
            before: 0.0,
            started: Instant::now(),
        })
    }

    /// Continues a sweep. If its environments are programs, `trust` says whether they may be started.
    ///
    /// # Errors
    /// When it is not there, another process carries it out, the configuration has changed, or an environment is not trusted.
    pub fn resume(
        registry: &Registry,
        path: &Path,
        jobs: Option<usize>,
        executor: Arc<dyn Executor>,
        trust: Trust,
    ) -> Result<Self> {
        let dir = RunDir::open(path).map_err(|error| match is_held(path) {
            true => running(path),
            false => error,
        })?;
        let (table, spec) = Table::open(path, true)?;
        let mut environments = Vec::new();
        for (number, before) in table.bases(&spec)?.into_iter().enumerate() {
            // The table may be a stranger's, so a name in it is looked up, never recorded.
            let env =
                device::find_of_run(registry, &worlds_of(path, number), &before.name, None, trust, false)?;
            let environment = Environment::of(registry, &before.env, &spec, env, executor.device())?;
            let now = &environment.config;
            if *now != before.config {
                let changed = now.lines().find(|line| !before.config.lines().any(|old| old == *line));
                return Err(Error::usage(format!(
                    "the configuration has changed since the sweep began: {}",
                    changed.unwrap_or("a line is missing")
                ))
                .at(path.display().to_string())
                .remedy(
                    "restore operant.toml, --config FILE and OPERANT_* variables, or start a new sweep",
                ));
            }
            environments.push(Arc::new(environment));
        }
        let (jobs, threads) = share_cores(&spec, jobs, &*executor);
        for environment in &environments {
            check_memory(environment, &spec, jobs, threads, &*executor)?;
        }
        let trials = table.trials(&spec)?;
        let results =
            table.results()?.into_iter().map(|row| ((row.trial, row.seed, row.until), row)).collect();
        let before = table.wall_s()?;
        let mut sweep = Self {
            dir,
            spec,
            table,
            environments,
            trials,
            results,
            queue: VecDeque::new(),
            jobs,
            threads,
            executor,
            before,
            started: Instant::now(),
        };
        for (trial, until) in sweep.table.decisions()? {
            if trial >= sweep.trials.len() {
                let what = format!("it has a decision on trial {trial}, which does not exist");
                return Err(sweep.table.damaged(&what));
            }
            sweep.enqueue(trial, until, &mut Unwatched)?;
        }
        Ok(sweep)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn name(&self) -> &str {
        self.dir.name()
    }

    /// The specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Runs side by side, and threads of each.
    pub fn cores(&self) -> (usize, usize) {
        (self.jobs, self.threads)
    }

    /// Trains until all is done or a signal stops it.
    ///
    /// # Errors
    /// When the table or a run's files cannot be written; it can be continued then.
    pub fn run(&mut self, signals: &Signals, watch: &mut dyn Watch) -> Result<Ended> {
        self.table.begin_process()?;
        let (sender, receiver) = mpsc::channel();
        let (own, steps) = (Signals::none(), Arc::new(AtomicU64::new(0)));
        let mut running = 0;
        let (mut failure, mut panic, mut stopping) = (None, None, None::<Instant>);
        let mut clock = Instant::now();
        thread::scope(|scope| {
            loop {
                if signals.stopped_by().is_some() || failure.is_some() || panic.is_some() {
                    let since = stopping.get_or_insert_with(Instant::now);
                    if since.elapsed() > SECOND_SIGNAL {
                        signals.arm();
                    }
                    own.interrupt();
                }
                while stopping.is_none() && running < self.jobs {
                    match self.next(watch) {
                        Ok(Some(segment)) => {
                            let link = Link {
                                segment,
                                signals: own.clone(),
                                steps: Arc::clone(&steps),
                                sender: sender.clone(),
                                has_warned: Arc::default(),
                            };
                            let work = self.work(segment, link);
                            let name = run_name(segment.trial, segment.seed);
                            match thread::Builder::new().name(name).spawn_scoped(scope, work) {
                                Ok(_) => running += 1,
                                Err(error) => {
                                    let what = format!("no thread can be started: {error}");
                                    let error =
                                        Error::new(ErrorKind::Device, what).remedy("use fewer --jobs");
                                    failure.get_or_insert(error);
                                    break;
                                }
                            }
                        }
                        Ok(None) => break,
                        Err(error) => {
                            failure.get_or_insert(error);
                            break;
                        }
                    }
                }
                if failure.is_some() && stopping.is_none() {
                    continue;
                }
                watch.status(&self.status(running, steps.load(Ordering::Relaxed)));
                if running == 0 {
                    break;
                }
                if clock.elapsed() > CLOCK {
                    clock = Instant::now();
                    if let Err(error) = self.table.set_wall_s(self.wall_s()) {
                        failure.get_or_insert(error);
                    }
                }
                let (segment, ended) = match receiver.recv_timeout(POLL) {
                    Ok(Message::Ended(segment, ended)) => (segment, ended),
                    Ok(Message::Warning(segment, line)) => {
                        watch.warn(&format!("{}: {line}", self.place(segment)));
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
                };
                running -= 1;
                let kept = match ended {
                    Err(payload) => {
                        panic.get_or_insert(payload);
                        Ok(())
                    }
                    Ok(Ok(None)) => Ok(()),
                    Ok(Ok(Some(finished))) => {
                        let Finished { result, curve } = *finished;
                        self.finish(segment, Ok(result), &curve)
                    }
                    // A full disk ends the sweep. What fails while the sweep stops may be a consequence, and is tried again.
                    Ok(Err(error)) if error.kind == ErrorKind::Disk => Err(error),
                    Ok(Err(error)) if stopping.is_some() => {
                        watch.warn(&format!("{}: {error}", self.place(segment)));
                        Ok(())
                    }
                    Ok(Err(error)) => self.fail(segment, &error, watch),
                };
                if let Err(error) = kept {
                    failure.get_or_insert(error);
                }
            }
        });
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        self.table.set_wall_s(self.wall_s())?;
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(signals.stopped_by().map_or(Ended::Finished, Ended::Stopped))
    }

    /// A run, for people.
    fn place(&self, segment: Segment) -> String {
        let values = search::shown(&self.spec.axes, &self.trials[segment.trial].trial.point);
        let values = if values.is_empty() { values } else { format!(" ({values})") };
        format!("trial {}{values}, seed {}", segment.trial, segment.seed)
    }

    /// Seconds of the sweep, those of earlier processes included.
    fn wall_s(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// The next run to train, after the decisions that lead to it.
    fn next(&mut self, watch: &mut dyn Watch) -> Result<Option<Segment>> {
        loop {
            if let Some(segment) = self.queue.pop_front() {
                return Ok(Some(segment));
            }
            // The environments take turns.
            let mut decided = false;
            for env in 0..self.environments.len() {
                let trials: Vec<&Trial> =
                    self.trials.iter().map(|row| &row.trial).filter(|trial| trial.env == env).collect();
                let steps = self.environments[env].steps;
                match search::decide(&self.spec.search, &self.spec.axes, &trials, steps) {
                    Decision::Begin { point, parent, until, reason } => {
                        self.begin(
                            Trial { id: self.trials.len(), env, point, parent, until, results: Vec::new() },
                            reason,
                            watch,
                        )?;
                        decided = true;
                    }
                    Decision::Continue { trial, until } => {
                        self.table.proceed(trial, until)?;
                        self.trials[trial].trial.until = until;
                        self.enqueue(trial, until, watch)?;
                        decided = true;
                    }
                    Decision::Wait | Decision::End => {}
                }
            }
            if !decided {
                return Ok(None);
            }
        }
    }

    /// Begins a trial.
    fn begin(&mut self, trial: Trial, reason: String, watch: &mut dyn Watch) -> Result<()> {
        let settings = self.environments[trial.env].settings(&self.spec, &trial.point);
        // Values that do not fit together; their runs fail, and the other trials continue.
        let config = settings.map_or_else(|_| String::new(), |settings| settings.to_saved_toml());
        let (id, until) = (trial.id, trial.until);
        let row = TrialRow { trial, config, reason };
        self.table.begin(&self.spec, &row)?;
        self.trials.push(row);
        self.enqueue(id, until, watch)
    }

    /// Adds the runs of a decision that have no result.
    fn enqueue(&mut self, trial: usize, until: u64, watch: &mut dyn Watch) -> Result<()> {
        let invalid = self.trials[trial].config.is_empty();
        let problem = invalid.then(|| {
            let Trial { env, point, .. } = &self.trials[trial].trial;
            self.environments[*env].settings(&self.spec, point).err()
        });
        for seed in self.spec.seeds.clone() {
            let segment = Segment { trial, seed, until };
            if self.results.contains_key(&(trial, seed, until)) {
                continue;
            }
            if let Some(Some(error)) = &problem {
                self.fail(segment, error, watch)?;
                continue;
            }
            if let Some(parent) = self.trials[trial].trial.parent {
                let before = self.results.range((parent, seed, 0)..(parent, seed, until)).next_back();
                if let Some(what) = before.and_then(|(_, row)| row.result.as_ref().err()) {
                    let error =
                        Error::usage(format!("trial {parent}, which it is a copy of, failed: {what}"));
                    self.fail(segment, &error, watch)?;
                    continue;
                }
                // The parent may train on, so its checkpoint is copied now.
                self.inherit(parent, trial, seed)?;
            }
            self.queue.push_back(segment);
        }
        Ok(())
    }

    /// Copies a run of the parent, unless the copy is there.
    fn inherit(&self, parent: usize, trial: usize, seed: u64) -> Result<()> {
        let trials = self.dir.path().join(TRIALS);
        let (from, to) = (trials.join(run_name(parent, seed)), trials.join(run_name(trial, seed)));
        if to.exists() {
            return Ok(());
        }
        operant_run::dir::copy_run(&from, &to)
    }

    /// Records a run that failed.
    fn fail(&mut self, segment: Segment, error: &Error, watch: &mut dyn Watch) -> Result<()> {
        watch.warn(&format!("{}: {error}", self.place(segment)));
        let what = error.what.lines().next().unwrap_or_default().to_owned();
        self.finish(segment, Err(what), &[])
    }

    /// The work of a thread: trains a run and sends the result to the sweep.
    fn work(&self, segment: Segment, link: Link) -> impl FnOnce() + Send + 'static {
        let row = &self.trials[segment.trial];
        let environment = Arc::clone(&self.environments[row.trial.env]);
        let task = Task {
            segment,
            env: environment.facts.name.clone(),
            assignments: assignments(&self.spec, &row.trial.point),
            config: row.config.clone(),
            threads: self.threads,
        };
        let (executor, runs) = (Arc::clone(&self.executor), self.dir.path().join(TRIALS));
        move || {
            let train = || {
                let Environment { env, facts, .. } = &*environment;
                let is_done = executor.train(&task, &TaskContext { env, facts, runs: &runs }, &link)?;
                is_done.then(|| task.finished(&runs).map(Box::new)).transpose()
            };
            let ended = catch_unwind(AssertUnwindSafe(train));
            // The receiver lives as long as all threads.
            let _ = link.sender.send(Message::Ended(segment, ended));
        }
    }

    fn finish(
        &mut self,
        segment: Segment,
        result: std::result::Result<RunResult, String>,
        curve: &[CurvePoint],
    ) -> Result<()> {
        let Segment { trial, seed, until } = segment;
        let row = RunRow { trial, seed, until, result };
        self.table.finish(&row, curve, self.wall_s())?;
        self.results.insert((trial, seed, until), row);
        let seeds = self.spec.seeds.iter();
        let rows = seeds.filter_map(|seed| self.results.get(&(trial, *seed, until)));
        if let Some(mean) = table::mean(&self.spec, until, rows) {
            self.trials[trial].trial.results.push(mean);
        }
        Ok(())
    }

    fn status(&self, running: usize, env_steps: u64) -> Status {
        let last =
            |row: &&TrialRow| row.trial.results.last().map_or(f64::NEG_INFINITY, |result| result.objective);
        let best = self.trials.iter().filter(|row| last(row).is_finite());
        let best = best.max_by(|a, b| last(a).total_cmp(&last(b)).then(b.trial.id.cmp(&a.trial.id)));
        let decided: usize = self.trials.iter().map(|row| row.trial.results.len()).sum();
        let open =
            |row: &&TrialRow| row.trial.results.last().is_none_or(|result| result.until < row.trial.until);
        let decided = decided + self.trials.iter().filter(open).count();
        Status {
            done: self.results.len(),
            planned: self.spec.planned().max(decided * self.spec.seeds.len()),
            running,
            failed: self.results.values().filter(|row| row.result.is_err()).count(),
            best: best
                .map(|row| (row.trial.id, last(&row), search::shown(&self.spec.axes, &row.trial.point))),
            env_steps,
            seconds: self.started.elapsed().as_secs_f64(),
        }
    }
}

/// Removes what a process left that was killed while it made the directory of a sweep: all but the table, which comes last.
fn remove_unborn(dir: &Path) {
    let is_part = |name: &str| name == "operant.log" || name == "worlds" || name.starts_with(table::FILE);
    let entries: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let is_unborn =
        entries.iter().all(|name| is_part(name)) && !entries.iter().any(|name| name == table::FILE);
    if !entries.is_empty() && is_unborn && !is_held(dir) {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// The error where another process carries the sweep out.
fn running(dir: &Path) -> Error {
    let pid = Table::open(dir, false).and_then(|(table, _)| table.fact("pid")).unwrap_or_default();
    let (process, kill) = match pid.is_empty() {
        true => (String::new(), String::new()),
        false => (format!(" (process {pid})"), format!(", or `kill -INT {pid}`")),
    };
    Error::usage(format!("sweep {} is running already{process}", operant_run::dir::name_of(dir)))
        .at(dir.display().to_string())
        .remedy(format!("stop it with Ctrl-C in its terminal{kill}"))
}

/// Runs side by side, and threads of each: one thread each, or more if there are fewer runs than cores.
fn share_cores(spec: &Spec, jobs: Option<usize>, executor: &dyn Executor) -> (usize, usize) {
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
fn check_memory(
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
