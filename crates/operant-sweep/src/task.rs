//! A run of a trial on a thread of the sweep.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use operant_env::AnyEnv;
use operant_run::config::{self, EnvFacts};
use operant_run::progress::{Announcer, Progress, Tick};
use operant_run::{
    CommandLine, Error, ExitReason, Job, Result, Resume, RunResult, Signals, checkpoint, sinks,
};

use crate::search::WHOLE;
use crate::table::CurvePoint;

/// Points of a stored curve, at most.
const CURVE_POINTS: u64 = 512;

/// A run of a trial, up to some steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub trial: usize,
    pub seed: u64,
    pub until: u64,
}

/// Name of a run's directory.
pub(crate) fn run_name(trial: usize, seed: u64) -> String {
    format!("{trial:04}-seed{seed}")
}

/// What a thread tells the sweep.
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

/// What a thread needs to train a run.
pub(crate) struct Task {
    pub env: Arc<dyn AnyEnv>,
    pub facts: EnvFacts,
    /// `key=value` of the trial.
    pub assignments: Vec<String>,
    /// The trial's configuration.
    pub config: String,
    /// The directory of the runs.
    pub parent: PathBuf,
    pub segment: Segment,
    pub threads: usize,
    pub signals: Signals,
    /// Environment steps of all runs.
    pub steps: Arc<AtomicU64>,
    pub sender: Sender<Message>,
}

impl Task {
    /// Trains; None if it was stopped before its end.
    ///
    /// # Errors
    /// When the run fails.
    pub fn run(&self) -> Result<Option<Box<Finished>>> {
        let Segment { trial, seed, until } = self.segment;
        let name = run_name(trial, seed);
        let resume = self.resume(&name)?;
        let mut set = self.assignments.clone();
        set.extend([format!("seed={seed}"), format!("threads={}", self.threads)]);
        if resume.is_none() {
            set.push(format!("name={name}"));
        }
        let run_dir = ("run_dir", "--run-dir", self.parent.display().to_string());
        let line = CommandLine { config: None, set, flags: vec![run_dir] };
        let saved =
            resume.as_ref().map_or(("the sweep", &*self.config), |resume| (resume.name(), resume.config()));
        let requested = config::requested(self.facts.clone(), &line, Some(saved))?;
        let total = requested.settings.steps();
        let mut job = Job::new(requested);
        // Given even where it is the whole run, which may have been reached before a kill.
        job.until = Some(until);
        job.resume = resume;
        job.signals = self.signals.clone();
        job.progress =
            Box::new(Warnings { segment: self.segment, sender: self.sender.clone(), has_warned: false });
        let (steps, mut before) = (Arc::clone(&self.steps), None);
        job.on_record = Some(Box::new(move |record| {
            let now = record.env_steps as u64;
            steps.fetch_add(before.map_or(0, |before| now.saturating_sub(before)), Ordering::Relaxed);
            before = Some(now);
        }));
        let outcome =
            operant_run::train(job, |requested, device| operant_run::backend(&self.env, requested, device))?;
        if let ExitReason::Stopped(_) = outcome.exit_reason {
            return Ok(None);
        }
        if let Some(error) = outcome.unsaved {
            return Err(error);
        }
        let curve = curve_of(&outcome.dir, total)?;
        // The table has the configuration already.
        let result = RunResult { config: toml::Table::new(), ..outcome.result };
        Ok(Some(Box::new(Finished { result, curve })))
    }

    /// The run to continue. What a run that has no checkpoint left is removed: it begins again.
    fn resume(&self, name: &str) -> Result<Option<Resume>> {
        let path = self.parent.join(name);
        if !checkpoint::steps(&path.join("checkpoints"))?.is_empty() {
            return Resume::open(&self.parent, name).map(Some);
        }
        if path.exists() {
            std::fs::remove_dir_all(&path)
                .map_err(|error| Error::disk("what a stopped run left cannot be removed", &path, &error))?;
        }
        Ok(None)
    }
}

/// Passes the first warning of a run on: with hundreds of runs, all would be too many.
struct Warnings {
    segment: Segment,
    sender: Sender<Message>,
    has_warned: bool,
}

impl Progress for Warnings {
    fn tick(&mut self, _: &Tick) {}

    fn note(&mut self, _: &str) {}

    fn warn(&mut self, line: &str) {
        if !std::mem::replace(&mut self.has_warned, true) {
            let line = format!("{line}; further warnings of this run are not shown");
            // The receiver lives as long as all threads.
            let _ = self.sender.send(Message::Warning(self.segment, line));
        }
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
