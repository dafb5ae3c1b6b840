//! Carries out a sweep: takes decisions, has an executor train the runs in parallel, and writes their results.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use operant_env::{EnvOptions, OptionValue, Registry};
use operant_metrics::RunState;
use operant_run::dir::{self, RunDir, is_held};
use operant_run::runs::{PAUSING, SweepFile};
use operant_run::{Error, ErrorKind, Result, RunResult, Signals, Trust, device, path_text, world};

use crate::plan::{Environment, Plan, assignments, check_memory, share_cores};
use crate::search::{self, Decision, Trial};
use crate::spec::Spec;
use crate::table::{self, Base, CurvePoint, RunRow, Table, TrialRow};
use crate::task::{Executor, Finished, Link, Message, Segment, Task, TaskContext, run_name};

/// Poll interval for signals while all threads train.
const POLL: Duration = Duration::from_millis(20);

/// A second signal after this time ends the process at once; some senders, such as `timeout`, send each signal twice.
const SECOND_SIGNAL: Duration = Duration::from_millis(200);

/// How often the time of a sweep is written, so that it is not lost with a kill.
const CLOCK: Duration = Duration::from_secs(5);

/// The directory of the runs within the sweep's directory.
pub use operant_run::dir::TRIALS;

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
    file: SweepFile,
    /// Seconds of earlier processes.
    before: f64,
    /// Environment steps that were left when this process began.
    left: u64,
    clock: Clock,
}

/// The time of a process without pauses.
struct Clock {
    started: Instant,
    /// Of pauses that have ended.
    paused: Duration,
    since: Option<Instant>,
}

impl Clock {
    fn new() -> Self {
        Self { started: Instant::now(), paused: Duration::ZERO, since: None }
    }

    fn seconds(&self) -> f64 {
        let paused = self.paused + self.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.started.elapsed().saturating_sub(paused).as_secs_f64()
    }

    fn pause(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn resume(&mut self) {
        self.paused += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }
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
    /// The best trial of the environment, its objective, and its values; None of several environments.
    pub best: Option<(usize, f64, String)>,
    /// Environment steps of all runs of this process.
    pub env_steps: u64,
    /// Seconds of this process.
    pub seconds: f64,
    /// Seconds that are left at this process's speed, if it has one.
    pub left: Option<f64>,
    /// Whether the sweep is paused.
    pub paused: bool,
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

/// The directory of a sweep, given by name under `parent` or by path.
///
/// # Errors
/// Usage when there is none.
pub fn find(parent: &Path, name: &str) -> Result<PathBuf> {
    dir::locate_sweep(parent, name).ok_or_else(|| {
        if let Some(error) = dir::file_in_place(parent, name, "sweep") {
            return error;
        }
        let names: Vec<String> = dir::sweeps(parent).iter().map(|dir| dir::name_of(dir)).collect();
        let hint = operant_run::error::did_you_mean(name, names.iter().map(String::as_str));
        Error::usage(format!("there is no sweep \"{name}\"{hint}"))
            .at(parent.display().to_string())
            .remedy("`operant runs --sweeps` lists the sweeps; --run-dir looks elsewhere")
    })
}

/// What a sweep's table has of it besides trials and results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// When it began, UTC; empty if unknown.
    pub created: String,
    /// The command that began it; empty if unknown.
    pub command: String,
    /// Settings that vary, each with its values.
    pub vary: Vec<(String, String)>,
    /// Settings of all runs.
    pub set: Vec<(String, String)>,
}

impl About {
    /// Of the sweep in `dir`.
    ///
    /// # Errors
    /// When its table cannot be read.
    pub fn read(dir: &Path) -> Result<Self> {
        let (table, spec) = Table::open(dir, false)?;
        let vary = spec.axes.iter().map(|axis| (axis.key.clone(), axis.values.shown())).collect();
        let set = spec.set.iter().map(|(key, value)| (key.clone(), search::plain(value))).collect();
        Ok(Self { created: table.fact(table::CREATED)?, command: table.fact(table::COMMAND)?, vary, set })
    }
}

/// The flags with which `operant sweep --resume` trains where the sweep did before: those of a Ray cluster, or nothing.
pub fn resume_flags(dir: &Path) -> String {
    let flags = Table::open(dir, false).and_then(|(table, _)| table.fact(table::RESUME)).unwrap_or_default();
    // The table may be a stranger's, and the flags are shown as a command.
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || " -_./:@".contains(c);
    if flags.starts_with("--ray ") && flags.chars().all(is_harmless) { flags } else { String::new() }
}

/// The directory of the file of an environment from outside the program.
fn worlds_of(sweep: &Path, number: usize) -> PathBuf {
    sweep.join("worlds").join(number.to_string())
}

/// Whether two configurations say the same. Versions differ in how they write whole numbers, and a later one may have more options of
/// environments, which `defaults` lists.
fn same_config(now: &str, before: &str, defaults: &EnvOptions) -> bool {
    fn real(value: &mut toml::Value) {
        match value {
            toml::Value::Integer(whole) => *value = toml::Value::Float(*whole as f64),
            toml::Value::Array(all) => all.iter_mut().for_each(real),
            toml::Value::Table(all) => all.iter_mut().for_each(|(_, value)| real(value)),
            _ => {}
        }
    }
    let read = |text: &str| {
        let mut table = toml::Value::Table(text.parse().ok()?);
        real(&mut table);
        Some(table)
    };
    let (Some(mut now), Some(before)) = (read(now), read(before)) else { return now == before };
    let known = before.get("env").and_then(toml::Value::as_table);
    if let Some(options) = now.get_mut("env").and_then(toml::Value::as_table_mut) {
        let is_default = |name: &str, value: &toml::Value| match defaults.get(name) {
            Some(OptionValue::Number(number)) => value.as_float() == Some(*number),
            Some(OptionValue::Word(word)) => value.as_str() == Some(word),
            None => false,
        };
        options.retain(|name, value| {
            known.is_some_and(|known| known.contains_key(name)) || !is_default(name, value)
        });
        if options.is_empty() && known.is_none() {
            now.as_table_mut().expect("a configuration is a table").remove("env");
        }
    }
    now == before
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
        Self::begin(Plan::new(spec, registry, jobs, executor)?, parent, name)
    }

    /// A new sweep in its own directory, as planned.
    ///
    /// # Errors
    /// When the directory cannot be made; nothing is left then.
    pub fn begin(plan: Plan, parent: &Path, name: Option<&str>) -> Result<Self> {
        let Plan { spec, environments, jobs, threads, executor } = plan;
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
        let file = SweepFile::begin(dir.path(), &spec.environments.join(", "), executor.device())?;
        let mut sweep = Self {
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
            file,
            before: 0.0,
            left: 0,
            clock: Clock::new(),
        };
        sweep.left = sweep.steps_left();
        Ok(sweep)
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
            if !same_config(now, &before.config, &environment.facts.options) {
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
        let file = SweepFile::begin(dir.path(), &spec.environments.join(", "), executor.device())?;
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
            file,
            before,
            left: 0,
            clock: Clock::new(),
        };
        for (trial, until) in sweep.table.decisions()? {
            if trial >= sweep.trials.len() {
                let what = format!("it has a decision on trial {trial}, which does not exist");
                return Err(sweep.table.damaged(&what));
            }
            sweep.enqueue(trial, until, &mut Unwatched)?;
        }
        sweep.left = sweep.steps_left();
        Ok(sweep)
    }

    /// Notes the command that began the sweep, and the flags with which `operant sweep --resume` continues it.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub fn note_command(&mut self, command: &str, flags: &str) -> Result<()> {
        if self.table.fact(table::COMMAND)?.is_empty() {
            self.table.set_fact(table::COMMAND, command)?;
        }
        self.table.set_fact(table::RESUME, flags)
    }

    /// Environment steps of the runs that have no result yet.
    fn steps_left(&self) -> u64 {
        let seeds = self.spec.seeds.len() as u64;
        let all = self.environments.iter().map(|env| search::total(&self.spec.search, env.steps));
        let all = all.fold(0, u64::saturating_add).saturating_mul(seeds);
        let done = self.results.values().map(|row| {
            let env = self.trials[row.trial].trial.env;
            search::work(&self.spec.search, self.environments[env].steps, row.until)
        });
        all.saturating_sub(done.fold(0, u64::saturating_add))
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
        self.clock = Clock::new();
        let ended = self.train(signals, watch);
        let (state, reason) = match &ended {
            Ok(Ended::Finished) if self.results.values().all(|row| row.result.is_err()) => {
                (RunState::Failed, "every run failed".to_owned())
            }
            Ok(Ended::Finished) => (RunState::Finished, String::new()),
            Ok(Ended::Stopped(signal)) => (RunState::Preempted, (*signal).to_owned()),
            Err(error) => (RunState::Failed, error.what.lines().next().unwrap_or_default().to_owned()),
        };
        let steps = self.results.values().filter_map(|row| Some(row.result.as_ref().ok()?.env_steps)).sum();
        let written = self.file.end(state, &reason, steps, f64::NAN);
        ended.and_then(|ended| written.map(|()| ended))
    }

    fn train(&mut self, signals: &Signals, watch: &mut dyn Watch) -> Result<Ended> {
        let (sender, receiver) = mpsc::channel();
        let (own, steps) = (Signals::none(), Arc::new(AtomicU64::new(0)));
        let mut running = 0;
        let (mut failure, mut panic, mut stopping) = (None, None, None::<Instant>);
        let (mut clock, said) = (Instant::now(), Arc::default());
        thread::scope(|scope| {
            loop {
                if signals.stopped_by().is_some() || failure.is_some() || panic.is_some() {
                    let since = stopping.get_or_insert_with(Instant::now);
                    if since.elapsed() > SECOND_SIGNAL {
                        signals.arm();
                    }
                    own.interrupt();
                    own.hold(false);
                    self.file.set(RunState::Stopping, signals.stopped_by().unwrap_or_default());
                } else if signals.take_pause() {
                    own.hold(!own.is_holding());
                    if own.is_holding() {
                        self.file.set(RunState::Running, PAUSING);
                    } else {
                        self.clock.resume();
                        self.file.set(RunState::Running, "");
                    }
                }
                // Runs on other machines train to their end.
                if own.is_holding() && (own.held() == running || !self.executor.is_local()) {
                    self.clock.pause();
                    self.file.set(RunState::Paused, "");
                }
                while stopping.is_none() && !own.is_holding() && running < self.jobs {
                    match self.next(watch) {
                        Ok(Some(segment)) => {
                            let link = Link {
                                segment,
                                signals: own.clone(),
                                steps: Arc::clone(&steps),
                                sender: sender.clone(),
                                has_warned: Arc::default(),
                                said: Arc::clone(&said),
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
                if running == 0 && !own.is_holding() {
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
        self.before + self.clock.seconds()
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
                        self.begin_trial(
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
    fn begin_trial(&mut self, trial: Trial, reason: String, watch: &mut dyn Watch) -> Result<()> {
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
        // Those of several environments do not compare.
        let of_one = self.environments.len() == 1;
        let best = self.trials.iter().filter(|row| of_one && last(row).is_finite());
        let best = best.max_by(|a, b| last(a).total_cmp(&last(b)).then(b.trial.id.cmp(&a.trial.id)));
        let decided: usize = self.trials.iter().map(|row| row.trial.results.len()).sum();
        let open =
            |row: &&TrialRow| row.trial.results.last().is_none_or(|result| result.until < row.trial.until);
        let seconds = self.clock.seconds();
        let decided = decided + self.trials.iter().filter(open).count();
        Status {
            done: self.results.len(),
            planned: self.spec.planned().max(decided * self.spec.seeds.len()),
            running,
            failed: self.results.values().filter(|row| row.result.is_err()).count(),
            best: best
                .map(|row| (row.trial.id, last(&row), search::shown(&self.spec.axes, &row.trial.point))),
            env_steps,
            seconds,
            left: (env_steps > 0)
                .then(|| self.left.saturating_sub(env_steps) as f64 * seconds / env_steps as f64),
            paused: self.clock.since.is_some(),
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
    let process = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
    Error::usage(format!("sweep {} is running already{process}", operant_run::dir::name_of(dir)))
        .at(dir.display().to_string())
        .remedy(format!("`operant stop {}` stops it", path_text::quoted(&dir.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::same_config;

    #[test]
    fn configurations_of_earlier_versions_are_the_same() {
        let defaults = [("metrics".to_owned(), "".into()), ("ramping".to_owned(), 1.0.into())].into();
        let same = |now: &str, before: &str| same_config(now, before, &defaults);
        let before = "seed = 1\n[env]\nramping = 1.0\n";
        assert!(same("seed = 1\n[env]\nramping = 1\n", before));
        assert!(same("seed = 1\n[env]\nramping = 1\nmetrics = \"\"\n", before));
        assert!(same("seed = 1\n[env]\nmetrics = \"\"\n", "seed = 1\n"));
        // An option that the earlier version did not have, with other rules.
        assert!(!same("seed = 1\n[env]\nramping = 0\n", "seed = 1\n"));
        assert!(!same("seed = 1\n[env]\nramping = 0\n", before));
        assert!(!same("seed = 2\n[env]\nramping = 1\n", before));
        assert!(!same("seed = 1\n", before));
    }
}
