//! What a run of a trial needs, and what trains it: this process, or other machines.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use operant_env::AnyEnv;
use operant_run::config::{self, EnvFacts};
use operant_run::progress::{Announcer, Progress, Tick};
use operant_run::{
    CommandLine, Error, ExitReason, Job, Result, Resume, RunResult, Signals, checkpoint, machine, sinks,
};
use serde::{Deserialize, Serialize};

use crate::search::WHOLE;
use crate::table::CurvePoint;

/// Points of a stored curve, at most.
const CURVE_POINTS: u64 = 512;

/// A run of a trial, up to some steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub trial: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Environment steps, those before included.
    pub until: u64,
}

impl Segment {
    /// Name of the run's directory.
    pub fn run(&self) -> String {
        run_name(self.trial, self.seed)
    }
}

/// Name of a run's directory.
pub(crate) fn run_name(trial: usize, seed: u64) -> String {
    format!("{trial:04}-seed{seed}")
}

/// A message of a thread to the sweep.
pub(crate) enum Message {
    /// A run warns.
    Warning(Segment, String),
    /// A run has ended; None if it was stopped, the outer error is a panic.
    Ended(Segment, std::thread::Result<Result<Option<Box<Finished>>>>),
}

/// A run that has reached its steps.
pub(crate) struct Finished {
    pub result: RunResult,
    pub curve: Vec<CurvePoint>,
}

/// All that determines the bits of a segment, except the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What to train.
    pub segment: Segment,
    /// The name that the environment gives itself.
    pub env: String,
    /// `key=value` of the trial.
    pub assignments: Vec<String>,
    /// The trial's configuration, as TOML.
    pub config: String,
    /// Threads of the run.
    pub threads: usize,
}

/// What trains the runs of a sweep: the threads of this process, or other machines.
pub trait Executor: Send + Sync {
    /// What the runs train on, as the setting `device`.
    fn device(&self) -> &'static str {
        "cpu"
    }

    /// Number of runs at once.
    fn slots(&self) -> usize;

    /// Threads of a run, if `jobs` run at once.
    fn threads(&self, jobs: usize) -> usize;

    /// Whether the runs use the memory of this machine.
    fn is_local(&self) -> bool;

    /// Trains a task. Its run is in `place.runs` afterwards, and may be there before. False if it was stopped, with a checkpoint.
    fn train(&self, task: &Task, place: &TaskContext<'_>, link: &Link) -> Result<bool>;
}

/// What a task needs from its sweep: the environment, and where its run goes.
pub struct TaskContext<'a> {
    pub env: &'a Arc<dyn AnyEnv>,
    /// What configurations need to know of it.
    pub facts: &'a EnvFacts,
    /// The directory of the runs.
    pub runs: &'a Path,
}

/// The threads of this process.
#[derive(Debug, Clone, Copy)]
pub struct Local;

impl Executor for Local {
    fn slots(&self) -> usize {
        machine::default_plan().threads
    }

    fn threads(&self, jobs: usize) -> usize {
        (self.slots() / jobs).max(1)
    }

    fn is_local(&self) -> bool {
        true
    }

    fn train(&self, task: &Task, place: &TaskContext<'_>, link: &Link) -> Result<bool> {
        task.train(place, link)
    }
}

/// Connects a task with its sweep.
#[derive(Clone)]
pub struct Link {
    pub(crate) segment: Segment,
    pub(crate) signals: Signals,
    /// Environment steps of all runs.
    pub(crate) steps: Arc<AtomicU64>,
    pub(crate) sender: Sender<Message>,
    pub(crate) has_warned: Arc<AtomicBool>,
    /// The warnings of all runs that were passed on.
    pub(crate) said: Arc<Mutex<BTreeSet<String>>>,
}

impl Link {
    /// A link for a task without a sweep: its progress is not shown.
    pub fn alone(segment: Segment, signals: Signals) -> Self {
        let (sender, _) = std::sync::mpsc::channel();
        Self {
            segment,
            signals,
            steps: Arc::default(),
            sender,
            has_warned: Arc::default(),
            said: Arc::default(),
        }
    }

    /// Whether the sweep is stopping.
    pub fn is_stopping(&self) -> bool {
        self.signals.stopped_by().is_some()
    }

    /// Adds environment steps that were taken.
    pub fn add_steps(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Passes on the first warning of a run that no other run has had: with hundreds of runs, all would be too many.
    pub fn warn(&self, line: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_warned.load(Ordering::Relaxed) && said.insert(line.to_owned()) {
            self.has_warned.store(true, Ordering::Relaxed);
            let line = format!("{line}; further warnings of this run are not shown");
            // A task without a sweep has no receiver for warnings.
            let _ = self.sender.send(Message::Warning(self.segment, line));
        }
    }
}

impl Task {
    /// Trains in this process, as [`Executor::train`].
    pub fn train(&self, place: &TaskContext<'_>, link: &Link) -> Result<bool> {
        let Segment { seed, until, .. } = self.segment;
        let name = self.segment.run();
        let resume = resume(place.runs, &name)?;
        let mut set = self.assignments.clone();
        set.extend([format!("seed={seed}"), format!("threads={}", self.threads)]);
        if resume.is_none() {
            set.push(format!("name={name}"));
        }
        let run_dir = ("run_dir", "--run-dir", place.runs.display().to_string());
        let line = CommandLine { set, flags: vec![run_dir], ..CommandLine::default() };
        let saved =
            resume.as_ref().map_or(("the sweep", &*self.config), |resume| (resume.name(), resume.config()));
        let requested = config::requested(place.facts.clone(), &line, Some(saved))?;
        let mut job = Job::new(requested);
        let began = resume.as_ref().map_or(0, Resume::env_steps);
        // Given even where it is the whole run, which may have been reached before a kill.
        job.until = Some(until);
        job.resume = resume;
        job.signals = link.signals.clone();
        job.progress = Box::new(Warnings(link.clone()));
        let (counted, mut before) = (link.clone(), began);
        job.on_record = Some(Box::new(move |_, record| {
            let now = record.env_steps as u64;
            counted.add_steps(now.saturating_sub(before));
            before = now;
        }));
        let outcome =
            operant_run::train(job, |requested, device| operant_run::backend(place.env, requested, device))?;
        match outcome.unsaved {
            Some(error) => Err(error),
            None => Ok(!matches!(outcome.exit_reason, ExitReason::Stopped(_))),
        }
    }

    /// What a trained run left.
    pub(crate) fn finished(&self, runs: &Path) -> Result<Finished> {
        let dir = runs.join(self.segment.run());
        let result = RunResult::read(&dir).ok_or_else(|| {
            let missing = std::io::Error::other("result.json is missing or damaged");
            Error::disk("the result of a run cannot be read", &dir, &missing)
        })?;
        let curve = curve_of(&dir, result.env_steps)?;
        // The table has the configuration already.
        Ok(Finished { result: RunResult { config: toml::Table::new(), ..result }, curve })
    }
}

/// The run to continue. What a run that has no checkpoint left is removed: it begins again.
fn resume(runs: &Path, name: &str) -> Result<Option<Resume>> {
    let path = runs.join(name);
    if !checkpoint::steps(&path.join("checkpoints"))?.is_empty() {
        return Resume::open(runs, name).map(Some);
    }
    if path.exists() {
        std::fs::remove_dir_all(&path)
            .map_err(|error| Error::disk("what a stopped run left cannot be removed", &path, &error))?;
    }
    Ok(None)
}

/// Passes warnings of a run on.
struct Warnings(Link);

impl Progress for Warnings {
    fn tick(&mut self, _: &Tick) {}

    fn note(&mut self, _: &str) {}

    fn warn(&mut self, line: &str) {
        self.0.warn(line);
    }

    fn announcer(&self) -> Announcer {
        Box::new(|_| ())
    }
}

/// The curve of a run from its metrics.csv: the mean over episodes in each of equal parts of the steps.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn curve_of(dir: &Path, steps: u64) -> Result<Vec<CurvePoint>> {
    let path = dir.join("metrics.csv");
    let width = steps.min(WHOLE).div_ceil(CURVE_POINTS).max(1);
    let mut curve: Vec<CurvePoint> = Vec::new();
    let (mut part, mut episodes, mut weight) = (u64::MAX, 0.0, 0.0);
    let (mut steps_before, mut train_s) = (0.0, 0.0);
    let read = sinks::each_row(&path, u64::MAX, |row| {
        // The average in the file is that of a process.
        train_s += (row.env_steps - steps_before) / row.sps;
        steps_before = row.env_steps;
        let count = row.episodes - episodes;
        episodes = row.episodes;
        if !row.episodic_return.is_finite() || count <= 0.0 {
            return;
        }
        let env_steps = row.env_steps as u64;
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
