//! Carries out a sweep: takes decisions, trains runs side by side in this process, and writes what comes of them.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use operant_env::{AnyEnv, Registry};
use operant_run::config::{self, EnvFacts};
use operant_run::dir::RunDir;
use operant_run::progress::{Announcer, Progress, Tick};
use operant_run::{
    CommandLine, Error, ErrorKind, ExitReason, Job, Requested, Result, Resume, RunResult, Settings, Signals,
    machine, sinks, world,
};
use toml::Value;

use crate::search::{self, Decision, Trial, WHOLE, plain};
use crate::spec::Spec;
use crate::table::{self, Base, CurvePoint, RunRow, Table, TrialRow};

/// How often signals are looked at while all threads train.
const POLL: Duration = Duration::from_millis(20);

/// A second signal after this time ends the process at once; some senders, such as `timeout`, send each signal twice.
const SECOND_SIGNAL: Duration = Duration::from_millis(200);

/// Points of a stored curve, at most.
const CURVE_POINTS: u64 = 512;

/// Settings of all runs of a sweep that files, variables and the specification may override.
const DEFAULTS: [&str; 3] = ["tensorboard=false", "ring=false", "checkpoint_interval=0"];

/// The directory of the runs in that of a sweep.
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
    /// Steps of a whole run.
    steps: u64,
}

/// A run of a trial, up to some steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    trial: usize,
    seed: u64,
    until: u64,
}

/// How far a sweep is.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Results so far; a run that is continued has several.
    pub done: usize,
    /// Results that were decided on.
    pub decided: usize,
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
    /// All was decided and done.
    Finished,
    /// A signal of this name stopped it; it can be continued.
    Stopped(&'static str),
}

/// Receives the progress of a sweep.
pub trait Watch {
    /// Something changed.
    fn status(&mut self, status: &Status);
    /// A run failed.
    fn warn(&mut self, line: &str);
}

impl Environment {
    fn find(registry: &Registry, name: &str, spec: &Spec, env: Option<Arc<dyn AnyEnv>>) -> Result<Self> {
        let env = match env {
            Some(env) => env,
            None => operant_run::device::find(registry, name)?,
        };
        let facts = EnvFacts::of(&env.spec(), registry);
        let assignments = spec.set.iter().map(|(key, value)| assignment(key, value));
        let set = DEFAULTS.iter().map(ToString::to_string).chain(assignments);
        let line = CommandLine {
            config: spec.config.clone(),
            set: set.chain(["device=cpu".to_owned()]).collect(),
            flags: Vec::new(),
        };
        let mut found = Self { name: name.to_owned(), env, facts, line, steps: 0 };
        found.steps = found.requested(&[])?.settings.steps();
        Ok(found)
    }

    /// The configuration with these assignments, checked.
    fn requested(&self, assignments: &[String]) -> Result<Requested> {
        let set = self.line.set.iter().chain(assignments).cloned().collect();
        config::requested(self.facts.clone(), &CommandLine { set, ..self.line.clone() }, None)
    }

    fn settings(&self, spec: &Spec, point: &[Value]) -> Result<Settings> {
        self.requested(&assignments(spec, point))?.resolve(None)
    }

    fn base(&self) -> Result<Base> {
        let config = self.requested(&[])?.resolve(None)?.to_saved_toml();
        Ok(Base { env: self.name.clone(), name: self.facts.name.clone(), config })
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

/// The same.
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

/// Name of a run's directory.
pub(crate) fn run_name(trial: usize, seed: u64) -> String {
    format!("{trial:04}-seed{seed}")
}

impl Sweep {
    /// A new sweep in a directory of its own.
    ///
    /// # Errors
    /// When a setting is not valid, memory is short, or the directory cannot be made; nothing is left then.
    pub fn new(
        spec: Spec,
        registry: &Registry,
        parent: &Path,
        name: Option<&str>,
        jobs: Option<usize>,
    ) -> Result<Self> {
        let find = |name: &String| Environment::find(registry, name, &spec, None).map(Arc::new);
        let environments = spec.environments.iter().map(find).collect::<Result<Vec<_>>>()?;
        let (jobs, threads) = share_cores(&spec, jobs);
        for environment in &environments {
            check(environment, &spec, jobs, threads)?;
        }
        let bases = environments.iter().map(|environment| environment.base()).collect::<Result<Vec<_>>>()?;
        let generated = format!("sweep-{}", environments[0].facts.name);
        let dir = RunDir::create(parent, name, &generated, spec.search.seed)?;
        let write = || {
            for (number, environment) in environments.iter().enumerate() {
                if let Some(text) = environment.env.file() {
                    let own = worlds_of(dir.path(), number);
                    std::fs::create_dir_all(&own)
                        .and_then(|()| std::fs::write(own.join(world::FILE), text))
                        .map_err(|error| Error::disk("the environment cannot be kept", &own, &error))?;
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
            before: 0.0,
            started: Instant::now(),
        })
    }

    /// Continues a sweep.
    ///
    /// # Errors
    /// When it is not there, another process carries it out, or the configuration has changed.
    pub fn resume(registry: &Registry, path: &Path, jobs: Option<usize>) -> Result<Self> {
        let dir = RunDir::open(path)?;
        let (table, spec) = Table::open(path, true)?;
        let mut environments = Vec::new();
        for (number, before) in table.bases()?.into_iter().enumerate() {
            let env = world::of_run(&worlds_of(path, number), &before.name, registry)?;
            let environment = Environment::find(registry, &before.env, &spec, env)?;
            let now = environment.base()?;
            if now.config != before.config {
                let changed = now.config.lines().find(|line| !before.config.lines().any(|old| old == *line));
                return Err(Error::usage(format!(
                    "the configuration has changed since the sweep began: {}",
                    changed.unwrap_or("a line is missing")
                ))
                .at(path.display().to_string())
                .remedy("restore operant.toml and OPERANT_* variables, or start a new sweep"));
            }
            environments.push(Arc::new(environment));
        }
        let (jobs, threads) = share_cores(&spec, jobs);
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
            before,
            started: Instant::now(),
        };
        for (trial, until) in sweep.table.decisions()? {
            sweep.enqueue(trial, until)?;
        }
        Ok(sweep)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The name.
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
        let (sender, receiver) = mpsc::channel();
        let own = Signals::none();
        let mut running = 0;
        let mut env_steps = 0;
        let (mut failure, mut stopping) = (None, None::<Instant>);
        thread::scope(|scope| {
            loop {
                let stopped = signals.stopped_by().is_some();
                if stopped || failure.is_some() {
                    let since = stopping.get_or_insert_with(Instant::now);
                    if since.elapsed() > SECOND_SIGNAL {
                        signals.arm();
                    }
                    own.interrupt();
                } else {
                    while running < self.jobs {
                        match self.next() {
                            Ok(Some(segment)) => {
                                let (task, sender) = (self.task(segment, &own), sender.clone());
                                thread::Builder::new()
                                    .name(run_name(segment.trial, segment.seed))
                                    .spawn_scoped(scope, move || {
                                        let done = catch_unwind(AssertUnwindSafe(|| task.run()));
                                        // The receiver lives as long as the scope.
                                        let _ = sender.send((segment, done));
                                    })
                                    .map_err(|error| {
                                        Error::new(
                                            ErrorKind::Device,
                                            format!("no thread can be started: {error}"),
                                        )
                                        .remedy("use fewer --jobs")
                                    })?;
                                running += 1;
                            }
                            Ok(None) => break,
                            Err(error) => {
                                failure = Some(error);
                                break;
                            }
                        }
                    }
                }
                watch.status(&self.status(env_steps));
                if running == 0 {
                    break;
                }
                let (segment, done) = match receiver.recv_timeout(POLL) {
                    Ok(done) => done,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                running -= 1;
                match done {
                    Err(panic) => resume_unwind(panic),
                    Ok(Ok(None)) => {}
                    Ok(Ok(Some((result, curve)))) => {
                        env_steps += result.env_steps - self.earlier(segment).map_or(0, |run| run.env_steps);
                        if let Err(error) = self.finish(segment, Ok(result), &curve) {
                            failure.get_or_insert(error);
                        }
                    }
                    Ok(Err(error)) if error.kind == ErrorKind::Disk => {
                        failure.get_or_insert(error);
                    }
                    Ok(Err(error)) => {
                        let row = &self.trials[segment.trial];
                        let values = search::shown(&self.spec.axes, &row.trial.point);
                        watch.warn(&format!(
                            "trial {} ({values}), seed {}: {error}",
                            segment.trial, segment.seed
                        ));
                        let what = error.what.lines().next().unwrap_or_default().to_owned();
                        if let Err(error) = self.finish(segment, Err(what), &[]) {
                            failure.get_or_insert(error);
                        }
                    }
                }
            }
            Ok::<_, Error>(())
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(signals.stopped_by().map_or(Ended::Finished, Ended::Stopped))
    }

    /// The next run to train, after the decisions that lead to it.
    fn next(&mut self) -> Result<Option<Segment>> {
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
                        self.begin(env, point, parent, until, reason)?;
                        decided = true;
                    }
                    Decision::Continue { trial, until } => {
                        self.table.proceed(trial, until)?;
                        self.trials[trial].trial.until = until;
                        self.enqueue(trial, until)?;
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
    fn begin(
        &mut self,
        env: usize,
        point: Vec<Value>,
        parent: Option<usize>,
        until: u64,
        reason: String,
    ) -> Result<()> {
        let environment = &self.environments[env];
        let id = self.trials.len();
        let (config, problem) = match environment.settings(&self.spec, &point) {
            Ok(settings) => (settings.to_saved_toml(), None),
            // Values that do not fit together; the other trials go on.
            Err(error) => (String::new(), Some(error.what)),
        };
        let trial = Trial { id, env, point, parent, until, results: Vec::new() };
        let row = TrialRow { trial, config, reason };
        self.table.begin(&self.spec, &row)?;
        self.trials.push(row);
        match problem {
            None => self.enqueue(id, until),
            Some(what) => {
                for seed in self.spec.seeds.clone() {
                    self.finish(Segment { trial: id, seed, until }, Err(what.clone()), &[])?;
                }
                Ok(())
            }
        }
    }

    /// Adds the runs of a decision that have no result.
    fn enqueue(&mut self, trial: usize, until: u64) -> Result<()> {
        for &seed in &self.spec.seeds {
            if self.results.contains_key(&(trial, seed, until)) {
                continue;
            }
            // The parent may train on, so its checkpoints are copied now.
            if let Some(parent) = self.trials[trial].trial.parent {
                self.inherit(parent, trial, seed)?;
            }
            self.queue.push_back(Segment { trial, seed, until });
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

    /// What a thread does for a run.
    fn task(&self, segment: Segment, signals: &Signals) -> Task {
        let row = &self.trials[segment.trial];
        Task {
            environment: Arc::clone(&self.environments[row.trial.env]),
            assignments: assignments(&self.spec, &row.trial.point),
            config: row.config.clone(),
            parent: self.dir.path().join(TRIALS),
            segment,
            threads: self.threads,
            signals: signals.clone(),
            earlier: self.earlier(segment).cloned(),
        }
    }

    /// The result of the same run after fewer steps.
    fn earlier(&self, Segment { trial, seed, until }: Segment) -> Option<&RunResult> {
        let mut earlier = self.results.range((trial, seed, 0)..(trial, seed, until));
        earlier.next_back().and_then(|(_, row)| row.result.as_ref().ok())
    }

    fn finish(
        &mut self,
        segment: Segment,
        result: std::result::Result<RunResult, String>,
        curve: &[CurvePoint],
    ) -> Result<()> {
        let Segment { trial, seed, until } = segment;
        let row = RunRow { trial, seed, until, result };
        let wall_s = self.before + self.started.elapsed().as_secs_f64();
        self.table.finish(&row, curve, wall_s)?;
        self.results.insert((trial, seed, until), row);
        let seeds = self.spec.seeds.iter();
        let rows = seeds.filter_map(|seed| self.results.get(&(trial, *seed, until)));
        if let Some(mean) = table::mean(&self.spec, until, rows) {
            self.trials[trial].trial.results.push(mean);
        }
        Ok(())
    }

    fn status(&self, env_steps: u64) -> Status {
        let last =
            |row: &&TrialRow| row.trial.results.last().map_or(f64::NEG_INFINITY, |result| result.objective);
        let best = self.trials.iter().filter(|row| last(row).is_finite());
        let best = best.max_by(|a, b| last(a).total_cmp(&last(b)).then(b.trial.id.cmp(&a.trial.id)));
        let decided: usize = self.trials.iter().map(|row| row.trial.results.len()).sum();
        let open = self
            .trials
            .iter()
            .filter(|row| row.trial.results.last().is_none_or(|result| result.until < row.trial.until));
        Status {
            done: self.results.len(),
            decided: (decided + open.count()) * self.spec.seeds.len(),
            failed: self.results.values().filter(|row| row.result.is_err()).count(),
            best: best
                .map(|row| (row.trial.id, last(&row), search::shown(&self.spec.axes, &row.trial.point))),
            env_steps,
            seconds: self.started.elapsed().as_secs_f64(),
        }
    }
}

/// Runs side by side, and threads of each: one thread each, or more if there are fewer runs than cores.
fn share_cores(spec: &Spec, jobs: Option<usize>) -> (usize, usize) {
    let cores = machine::default_plan().threads;
    let runs = spec.search.trials * spec.seeds.len() * spec.environments.len();
    let jobs = jobs.unwrap_or(cores).clamp(1, runs.max(1));
    (jobs, (cores / jobs).max(1))
}

/// Checks all values that are known before the sweep begins, and the memory.
fn check(environment: &Environment, spec: &Spec, jobs: usize, threads: usize) -> Result<()> {
    let mut most = 0;
    for point in spec.points_to_check() {
        let settings = environment.settings(spec, &point).map_err(|error| {
            let values = search::shown(&spec.axes, &point);
            if values.is_empty() { error } else { error.at(format!("the trial {values}")) }
        })?;
        most = most.max(machine::memory_needed(&*environment.env, &settings, threads)?);
    }
    let needed = most * jobs as u64;
    match operant_host::machine::memory().filter(|memory| needed > memory.available) {
        None => Ok(()),
        Some(memory) => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let what = format!(
                "{jobs} runs of {} side by side need {:.1} GiB of memory, and {:.1} GiB are available",
                environment.name,
                gib(needed),
                gib(memory.available)
            );
            Err(Error::usage(what).remedy("use fewer --jobs, or lower num_envs, num_steps or hidden"))
        }
    }
}

/// A run of a trial on a thread.
struct Task {
    environment: Arc<Environment>,
    assignments: Vec<String>,
    config: String,
    parent: PathBuf,
    segment: Segment,
    threads: usize,
    signals: Signals,
    /// The result after fewer steps.
    earlier: Option<RunResult>,
}

impl Task {
    /// Trains; None if it was stopped before its end.
    fn run(self) -> Result<Option<(RunResult, Vec<CurvePoint>)>> {
        let Segment { trial, seed, until } = self.segment;
        let name = run_name(trial, seed);
        let path = self.parent.join(&name);
        let resume = if path.join("config.toml").is_file() {
            Some(Resume::open(&self.parent, &name)?)
        } else {
            // It was killed before it had a configuration.
            if path.exists() {
                std::fs::remove_dir_all(&path).map_err(|error| {
                    Error::disk("what a killed run left cannot be removed", &path, &error)
                })?;
            }
            None
        };
        let mut set = self.assignments;
        set.extend([format!("seed={seed}"), format!("threads={}", self.threads)]);
        if resume.is_none() {
            set.push(format!("name={name}"));
        }
        let run_dir = ("run_dir", "--run-dir", self.parent.display().to_string());
        let line = CommandLine { config: None, set, flags: vec![run_dir] };
        let saved =
            resume.as_ref().map_or(("the sweep", &*self.config), |resume| (resume.name(), resume.config()));
        let requested = config::requested(self.environment.facts.clone(), &line, Some(saved))?;
        let settings = &requested.settings;
        // A run that ended because it was solved is not continued.
        if let Some(earlier) =
            self.earlier.filter(|run| settings.run.stop_when_solved && run.solved_at_step.is_some())
        {
            return Ok(Some((earlier, Vec::new())));
        }
        let steps = settings.steps();
        let mut job = Job::new(requested);
        job.until = (until != WHOLE).then_some(until);
        job.resume = resume;
        job.signals = self.signals;
        job.progress = Box::new(Silent);
        let env = &self.environment.env;
        let outcome =
            operant_run::train(job, |requested, device| operant_run::backend(env, requested, device))?;
        if let ExitReason::Stopped(_) = outcome.exit_reason {
            return Ok(None);
        }
        if let Some(error) = outcome.unsaved {
            return Err(error);
        }
        let curve = curve_of(&outcome.dir, steps)?;
        Ok(Some((outcome.result, curve)))
    }
}

/// Shows nothing: the table has results and errors, and a run that begins again after a kill is no news.
struct Silent;

impl Progress for Silent {
    fn tick(&mut self, _: &Tick) {}
    fn note(&mut self, _: &str) {}
    fn warn(&mut self, _: &str) {}

    fn announcer(&self) -> Announcer {
        Box::new(|_| ())
    }
}

/// The curve of a run from its metrics.csv: the mean over episodes in each of equal parts of the steps.
pub(crate) fn curve_of(dir: &Path, steps: u64) -> Result<Vec<CurvePoint>> {
    let path = dir.join("metrics.csv");
    let width = steps.div_ceil(CURVE_POINTS).max(1);
    let mut curve: Vec<CurvePoint> = Vec::new();
    let (mut part, mut episodes, mut weight) = (u64::MAX, 0.0, 0.0);
    let read = sinks::each_row(&path, u64::MAX, |row| {
        let count = row.episodes - episodes;
        episodes = row.episodes;
        if !row.episodic_return.is_finite() || count <= 0.0 {
            return;
        }
        let env_steps = row.env_steps as u64;
        let train_s = row.env_steps / row.sps_average;
        match curve.last_mut().filter(|_| env_steps / width == part) {
            Some(last) => {
                weight += count;
                last.episodic_return += (row.episodic_return - last.episodic_return) * count / weight;
                (last.env_steps, last.train_s) = (env_steps, train_s);
            }
            None => {
                (part, weight) = (env_steps / width, count);
                curve.push(CurvePoint { env_steps, train_s, episodic_return: row.episodic_return });
            }
        }
    });
    read.map_err(|error| Error::disk("the metrics of a run cannot be read", &path, &error))?;
    Ok(curve)
}
