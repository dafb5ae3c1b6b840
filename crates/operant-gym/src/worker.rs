//! One worker: how it is started, waited for, and ended. It is a process, or a thread of this one that a [`Host`] starts.

use std::fmt;
use std::fs::File;
use std::io::{self, PipeWriter};
use std::ops::Range;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use operant_env::{ActionSpace, ObsSpace, OwnSpaces};
use rustix::process::Pid;
use serde::Serialize;

use crate::description::Description;
use crate::layout::{Control, Layout, TEXT_BYTES};
use crate::os::ChildExit;
use crate::python::{self, end_groups};
use crate::shared::{SharedWords, post, wait};

/// How often a silent worker is checked for exit.
const LOOK: Duration = Duration::from_millis(50);

/// How long a worker has to close its environments before it is killed.
const CLOSING: Duration = Duration::from_secs(2);

/// Why a turn has no results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The row, where it is known.
    pub(crate) row: Option<usize>,
    /// What happened, with the traceback if there is one.
    pub(crate) what: String,
    /// Whether it contradicts how the run was started, so that a new worker cannot help.
    pub(crate) is_final: bool,
}

/// The bit of a failed row's number that says so.
const FINAL: u32 = 1 << 31;

/// The data that all workers of a group need, as JSON in the shared memory: bounds of large spaces would be too long for an argument.
#[derive(Serialize)]
struct Task<'a> {
    make: &'a str,
    directory: &'a str,
    masked: bool,
    obs: &'a ObsSpace,
    actions: &'a ActionSpace,
    starts: &'a [i64],
    spaces: Option<&'a OwnSpaces>,
    evaluation: bool,
    time_limit: u32,
    text_bytes: usize,
    /// Keys of `info`.
    metrics: Vec<&'a str>,
    layout: &'a Layout,
}

/// The text of the task of a group.
pub(crate) fn task(
    description: &Description,
    (time_limit, evaluation): (u32, bool),
    layout: &Layout,
) -> String {
    let Description { make, directory, masked, starts, spaces, spec, .. } = description;
    let task = Task {
        make,
        directory,
        masked: *masked,
        obs: &spec.obs,
        actions: &spec.actions,
        starts,
        spaces: spaces.as_ref(),
        evaluation,
        time_limit,
        text_bytes: TEXT_BYTES,
        metrics: spec.metrics.iter().map(|metric| metric.name.as_str()).collect(),
        layout,
    };
    serde_json::to_string(&task).expect("numbers and texts")
}

/// The argument of a worker: its rows, and the position of its group's task.
#[derive(Serialize)]
struct Argument {
    /// Process of the trainer.
    parent: u32,
    first: usize,
    end: usize,
    control: Control,
    /// First word and bytes.
    task: (usize, usize),
}

/// Starts workers in this process, for environments that no other process can make.
pub trait Host: fmt::Debug + Send + Sync {
    /// Starts a thread that does with this memory what `operant._worker` does with this argument.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(&self, memory: &File, argument: &str) -> io::Result<Box<dyn Hosted>>;
}

/// A thread that a [`Host`] started.
pub trait Hosted: fmt::Debug + Send {
    /// Whether it has not ended.
    fn is_alive(&mut self) -> bool;

    /// Waits for its end.
    fn join(&mut self, timeout: Duration);
}

/// What steps the environments of a worker.
#[derive(Debug)]
enum Runner {
    Process(Child),
    Thread(Box<dyn Hosted>),
}

impl Runner {
    /// How it ended; None while it runs.
    fn ended(&mut self) -> Option<String> {
        match self {
            Runner::Process(child) => child.try_wait().ok().flatten().map(exit_message),
            Runner::Thread(thread) => {
                (!thread.is_alive()).then(|| "the thread of the environments ended".to_owned())
            }
        }
    }

    /// Ends it: at `deadline` if it closes its environments, else at once. A thread that does not end by itself continues without effect.
    fn end(&mut self, deadline: Option<Instant>) {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match (self, left) {
            (Runner::Thread(thread), left) => thread.join(left.unwrap_or_default()),
            (Runner::Process(child), left) => {
                if let Some(left) = left
                    && let Ok(exit) = ChildExit::of(child)
                {
                    exit.wait(child, left);
                }
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// A worker and its rows.
#[derive(Debug)]
pub(crate) struct Worker {
    runner: Runner,
    pub(crate) rows: Range<usize>,
    pub(crate) control: Control,
    /// The last turn that was begun.
    pub(crate) turn: u32,
    /// Whether it has finished a turn.
    pub(crate) has_answered: bool,
    /// Whether its environments have completed a step.
    pub(crate) has_stepped: bool,
    /// The failure of the worker that it replaces.
    pub(crate) replaces: Option<String>,
}

impl Worker {
    /// Starts a process, or a thread of the host. Its words become those before its first turn.
    pub(crate) fn start(
        (python, host): (&Path, Option<&dyn Host>),
        (shared, file): (&SharedWords, &File),
        task: (usize, usize),
        control: Control,
        rows: Range<usize>,
        output: &PipeWriter,
    ) -> io::Result<Self> {
        let words = shared.words();
        let turn = words[control.turn].load(Ordering::Relaxed);
        words[control.done].store(turn, Ordering::Relaxed);
        for word in [control.close, control.failed, control.text_bytes, control.keys_bytes] {
            words[word].store(0, Ordering::Relaxed);
        }
        let argument =
            Argument { parent: std::process::id(), first: rows.start, end: rows.end, control, task };
        let argument = serde_json::to_string(&argument).expect("numbers");
        let worker = |runner| Self {
            runner,
            rows,
            control,
            turn,
            has_answered: false,
            has_stepped: false,
            replaces: None,
        };
        if let Some(host) = host {
            return host.start(file, &argument).map(|thread| worker(Runner::Thread(thread)));
        }
        let mut command = python::module(python, "operant._worker");
        command
            .arg(&argument)
            // Keeps Ctrl-C in a terminal from workers: the trainer ends them, with the processes that their environments start.
            .process_group(0)
            .stdin(Stdio::from(file.try_clone()?))
            // stdout is for results.
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?);
        // Worker processes already share the cores.
        for threads in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            if std::env::var_os(threads).is_none() {
                command.env(threads, "1");
            }
        }
        command.spawn().map(|child| worker(Runner::Process(child)))
    }

    pub(crate) fn begin(&mut self, shared: &SharedWords) {
        self.turn = self.turn.wrapping_add(1);
        post(&shared.words()[self.control.turn]);
    }

    /// Whether its turn has ended.
    pub(crate) fn has_finished(&self, shared: &SharedWords) -> bool {
        shared.words()[self.control.done].load(Ordering::Acquire) == self.turn
    }

    /// Waits for the end of the turn.
    ///
    /// # Errors
    /// When an environment failed, the process ended, or it did not answer before `deadline`, `timeout` seconds after the beginning.
    pub(crate) fn finish(
        &mut self,
        shared: &SharedWords,
        deadline: Instant,
        timeout: f64,
    ) -> Result<(), Failure> {
        let done = &shared.words()[self.control.done];
        let mut ended = None;
        loop {
            let seen = done.load(Ordering::Acquire);
            if seen == self.turn {
                break;
            }
            // It may have answered and ended between the two looks, so the word is read once more.
            if let Some(what) = ended {
                return Err(Failure { row: None, what, is_final: false });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if wait(done, seen, left.min(LOOK)) != seen {
                continue;
            }
            if left.is_zero() {
                let what = format!("no answer within {timeout} s (env.timeout)");
                // Nothing can end a thread.
                return Err(Failure { row: None, what, is_final: matches!(self.runner, Runner::Thread(_)) });
            }
            ended = self.runner.ended();
        }
        self.has_answered = true;
        let words = shared.words();
        match words[self.control.failed].load(Ordering::Relaxed) {
            0 => Ok(()),
            word => {
                let row =
                    Some((word & !FINAL).wrapping_sub(1) as usize).filter(|row| self.rows.contains(row));
                let what = self.text(shared, self.control.text_bytes);
                Err(Failure { row, what, is_final: word & FINAL != 0 })
            }
        }
    }

    /// The text about keys of `info` that a worker left, once.
    pub(crate) fn take_keys(&self, shared: &SharedWords) -> Option<String> {
        let bytes = &shared.words()[self.control.keys_bytes];
        let text = (bytes.load(Ordering::Relaxed) > 0).then(|| self.text(shared, self.control.keys_bytes));
        bytes.store(0, Ordering::Relaxed);
        text
    }

    /// The text that a worker left; the word `bytes` has its length.
    fn text(&self, shared: &SharedWords, bytes: usize) -> String {
        let words = shared.words();
        let bytes = (words[bytes].load(Ordering::Relaxed) as usize).min(TEXT_BYTES);
        let text: Vec<u8> = words[self.control.text..][..bytes.div_ceil(4)]
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .take(bytes)
            .collect();
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.runner.ended().is_none()
    }

    /// Asks it to close its environments and end.
    pub(crate) fn close(&mut self, shared: &SharedWords) {
        shared.words()[self.control.close].store(1, Ordering::Relaxed);
        post(&shared.words()[self.control.turn]);
    }
}

/// Ends workers, at once or after those that have answered had time to close their environments; and the processes that those started.
pub(crate) fn end(workers: &mut [Worker], graceful: bool) {
    let deadline = Instant::now() + CLOSING;
    for worker in workers.iter_mut() {
        // One that has never answered has no environment to close; it may still import its modules.
        worker.runner.end((graceful && worker.has_answered).then_some(deadline));
    }
    end_groups(workers.iter().filter_map(|worker| match &worker.runner {
        Runner::Process(child) => Some(Pid::from_child(child)),
        Runner::Thread(_) => None,
    }));
}

/// How a process ended.
fn exit_message(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the worker process ended with exit code {code}"),
        (None, Some(signal)) => format!("the worker process was killed by signal {signal}"),
        (None, None) => "the worker process ended".to_owned(),
    }
}
