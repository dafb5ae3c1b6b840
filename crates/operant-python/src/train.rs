//! `operant._core.train`: the engine of `operant train`, with Python's signals, warnings and callbacks; and what runs leave.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use operant_env::{AnyEnv, Registry};
use operant_learn::EvalActions;
use operant_metrics::{METRICS, Record, RunMetrics};
use operant_run::config::{self, EnvFacts, KeyGroup, Requested};
use operant_run::eval::{self, EvalTarget};
use operant_run::progress::{Announcer, Bar, Lines, Progress, Tick};
use operant_run::{
    CommandLine, Device, ErrorKind, ExitReason, InitialWeights, Job, Log, Outcome, Resume, RunResult,
    Signals, Trust, device, runs, sinks,
};
use pyo3::exceptions::{
    PyException, PyFileNotFoundError, PyFloatingPointError, PyKeyboardInterrupt, PyOSError, PyRuntimeError,
    PyTypeError, PyUserWarning, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::guarded;
use crate::policy::Policy;
use crate::replay;
use crate::world::Asked;

/// Poll interval for Ctrl-C.
const SIGNAL_POLL: Duration = Duration::from_millis(20);

/// Time between two updates of a display of Python's.
const DISPLAY_EVERY: Duration = Duration::from_millis(200);

/// The exception for an error of a run.
pub fn error(error: &operant_run::Error) -> PyErr {
    if let Some(raised) = crate::RAISED.take() {
        return raised;
    }
    let text = config::in_python(&error.to_string());
    match error.kind {
        ErrorKind::Usage => PyValueError::new_err(text),
        ErrorKind::Disk => PyOSError::new_err(text),
        ErrorKind::Diverged => PyFloatingPointError::new_err(text),
        ErrorKind::Device => PyRuntimeError::new_err(text),
    }
}

/// The key of a name.
fn setting(name: &str) -> PyResult<&'static config::Key> {
    config::find(name).ok_or_else(|| {
        let text = format!("there is no setting {name}{}", config::key_hint(name));
        PyTypeError::new_err(config::in_python(&text))
    })
}

/// Refuses a name that is no setting's.
#[pyfunction]
pub fn check_setting(name: &str) -> PyResult<()> {
    setting(name).map(drop)
}

/// The settings of the network.
#[pyfunction]
pub fn network_settings() -> Vec<&'static str> {
    config::keys().filter(|key| key.group == KeyGroup::Network).map(|key| key.name).collect()
}

/// ` (did you mean "x"?)` for the candidate nearest to a name, or nothing.
#[pyfunction]
pub fn did_you_mean(name: &str, candidates: Vec<String>) -> String {
    operant_run::error::did_you_mean(name, candidates.iter().map(String::as_str))
}

/// Settings as the command line has them: `(key, value)` each, and `(name, value)` of the environment's options.
pub fn command_line(
    settings: Vec<(String, String)>,
    env_options: Vec<(String, String)>,
    config: Option<PathBuf>,
) -> PyResult<CommandLine> {
    let mut line = CommandLine { config, ..CommandLine::default() };
    for (name, value) in settings {
        let key = setting(&name)?;
        let given = key.earlier.filter(|earlier| *earlier == name).unwrap_or(key.name);
        line.flags.push((key.name, given, value));
    }
    line.set = env_options.into_iter().map(|(name, value)| format!("env.{name}={value}")).collect();
    Ok(line)
}

/// The environment, the run to continue and the configuration.
pub fn configure(
    registry: &Registry,
    env: Option<&str>,
    resume: Option<&str>,
    trust: bool,
    line: &CommandLine,
) -> operant_run::Result<(Arc<dyn AnyEnv>, Option<Resume>, Requested)> {
    let resume =
        resume.map(|run| Resume::open(&config::run_dir(registry.known(), line)?, run)).transpose()?;
    let env = match (env, &resume) {
        (Some(name), _) => device::find(registry, name)?,
        (None, Some(resume)) => resume.env(registry, Trust::of_flag(trust))?,
        (None, None) => device::find(registry, "")?,
    };
    let facts = EnvFacts::of(&env.spec(), registry);
    if let Some(resume) = &resume {
        resume.expect_own_weights(line)?;
        resume.expect_env(&facts.name)?;
    }
    let resumed = resume.as_ref().map(|resume| (resume.name(), resume.config()));
    let requested = config::requested(facts, line, resumed)?;
    Ok((env, resume, requested))
}

/// The first exception of a callback, of a warning, or of Ctrl-C; it stops training.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    fn store(&self, error: PyErr, py: Python<'_>, signals: &Signals) {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            signals.interrupt();
        } else {
            signals.stop();
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Ctrl-C while Python shows progress. Other errors there are not worth an end of training.
    fn store_interrupt(&self, shown: PyResult<()>, py: Python<'_>, signals: &Signals) {
        if let Err(error) = shown
            && !error.is_instance_of::<PyException>(py)
        {
            self.store(error, py, signals);
        }
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Progress as Python shows it: notes to `logging`, warnings to `warnings`; and Ctrl-C is polled between updates.
struct PythonProgress {
    shown: Option<Box<dyn Progress>>,
    raised: Raised,
    signals: Signals,
    polled: Instant,
}

impl PythonProgress {
    fn call(&self, work: impl FnOnce(Python<'_>) -> PyResult<()>) {
        Python::attach(|py| {
            if let Err(error) = work(py) {
                self.raised.store(error, py, &self.signals);
            }
        });
    }
}

impl Progress for PythonProgress {
    fn tick(&mut self, tick: &Tick) {
        if let Some(shown) = &mut self.shown {
            shown.tick(tick);
        }
        self.poll();
    }

    fn poll(&mut self) {
        if self.polled.elapsed() >= SIGNAL_POLL {
            self.polled = Instant::now();
            self.call(|py| py.check_signals());
        }
    }

    fn note(&mut self, line: &str) {
        self.call(|py| crate::log_info(py, line));
    }

    fn warn(&mut self, line: &str) {
        self.call(|py| {
            // At the caller of operant.train or operant.resume.
            let (category, stacklevel) = (py.get_type::<PyUserWarning>(), 3);
            let arguments = (config::in_python(line), category, stacklevel);
            py.import("warnings")?.call_method1("warn", arguments).map(drop)
        });
    }

    fn finish(&mut self) {
        if let Some(shown) = &mut self.shown {
            shown.finish();
        }
    }

    fn announcer(&self) -> Announcer {
        Box::new(|_| ())
    }
}

/// Python's `sys.stderr`, which a notebook shows.
struct PythonStderr {
    raised: Raised,
    signals: Signals,
}

impl Write for PythonStderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        Python::attach(|py| {
            let written = py
                .import("sys")
                .and_then(|sys| sys.getattr("stderr")?.call_method1("write", (text,)).map(drop));
            self.raised.store_interrupt(written, py, &self.signals);
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A function of Python that shows progress: `show(env_steps, total, sps, episodic_return)`, a few times a second.
struct PythonDisplay {
    call: Py<PyAny>,
    raised: Raised,
    signals: Signals,
    shown: Option<Instant>,
    /// The last progress, if it was not shown.
    last: Option<Tick>,
}

impl PythonDisplay {
    fn show(&mut self, tick: &Tick) {
        let Tick { env_steps, total, sps, episodic_return } = *tick;
        Python::attach(|py| {
            let shown = self.call.call1(py, (env_steps, total, sps, episodic_return)).map(drop);
            self.raised.store_interrupt(shown, py, &self.signals);
        });
    }
}

impl Progress for PythonDisplay {
    fn tick(&mut self, tick: &Tick) {
        if self.shown.is_none_or(|at| at.elapsed() >= DISPLAY_EVERY) {
            self.show(tick);
            (self.shown, self.last) = (Some(Instant::now()), None);
        } else {
            self.last = Some(*tick);
        }
    }

    fn note(&mut self, _: &str) {}

    fn warn(&mut self, _: &str) {}

    fn finish(&mut self) {
        if let Some(tick) = self.last.take() {
            self.show(&tick);
        }
    }
}

/// The process's log, and whether a run writes to it. A second run at the same time has no operant.log of its own.
struct LogLease(bool);

static LOG_IN_USE: AtomicBool = AtomicBool::new(false);

impl LogLease {
    fn take() -> (Self, Log) {
        static LOG: OnceLock<Log> = OnceLock::new();
        let is_free = !LOG_IN_USE.swap(true, Ordering::AcqRel);
        let log = if is_free { LOG.get_or_init(Log::install).clone() } else { Log::default() };
        (LogLease(is_free), log)
    }
}

impl Drop for LogLease {
    fn drop(&mut self) {
        if self.0 {
            LOG_IN_USE.store(false, Ordering::Release);
        }
    }
}

/// A dictionary of the metrics of an update.
fn record_dict<'py>(py: Python<'py>, metrics: RunMetrics, record: &Record) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (metric, value) in metrics.iter().zip(metrics.values(record)) {
        dict.set_item(metric.name, value)?;
    }
    Ok(dict)
}

/// Requests to a run, for Python's handlers of signals.
#[pyclass(module = "operant._core", frozen)]
pub struct Control(pub Signals);

#[pymethods]
impl Control {
    #[new]
    fn new() -> Self {
        Control(Signals::none())
    }

    /// Stops the run after its update, as SIGTERM does.
    fn terminate(&self) {
        self.0.terminate();
    }

    /// Stops the run after its update, as SIGHUP does.
    fn hang_up(&self) {
        self.0.hang_up();
    }

    /// Saves a checkpoint, as SIGUSR1 does.
    fn checkpoint(&self) {
        self.0.checkpoint();
    }

    /// Pauses or continues, as SIGUSR2 does.
    fn pause(&self) {
        self.0.pause();
    }
}

/// Adds to an exception what was saved and the call that continues it, whose first argument is the directory, between `call` and `rest`: as
/// its message if it is a KeyboardInterrupt without one, and else as a note, which Python has from 3.11 on.
pub fn explain(py: Python<'_>, raised: &PyErr, saved: &str, [call, rest]: [&str; 2], dir: &Path) {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    let (value, text) = (raised.value(py), format!("{saved}; {call}{dir:?}{rest} continues it"));
    let has_message = value.getattr("args").and_then(|args| args.len()).map_or(true, |count| count > 0);
    let added = match has_message || !raised.is_instance_of::<PyKeyboardInterrupt>(py) {
        true => value.call_method1("add_note", (text,)).map(drop),
        false => value.setattr("args", (text,)),
    };
    // An exception without notes is raised as it is.
    drop(added);
}

/// Adds to what stopped a run which checkpoint was saved. Only this program can make the environment again if `is_local`.
fn name_checkpoint(py: Python<'_>, raised: &PyErr, outcome: &Outcome, is_local: bool) {
    let RunResult { run, env_steps, checkpoint: Some(checkpoint), .. } = &outcome.result else { return };
    let saved = format!("run {run} stopped at step {env_steps}, with the checkpoint {checkpoint}");
    let rest = if is_local { ", env=FUNCTION)" } else { ")" };
    explain(py, raised, &saved, ["operant.resume(", rest], &outcome.dir);
}

/// A function of Python that hears of a run: `notify("start", directory)`, `notify("update", metrics)`, `notify("checkpoint", directory)`. False from it ends the
/// run.
#[derive(Clone)]
struct Notify {
    call: Arc<Py<PyAny>>,
    raised: Raised,
    signals: Signals,
}

impl Notify {
    fn tell(&self, kind: &str, payload: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>) {
        Python::attach(|py| {
            let told = payload(py).and_then(|payload| self.call.call1(py, (kind, payload)));
            match told.map(|returned| returned.extract::<bool>(py)) {
                Ok(Ok(false)) => self.signals.finish(),
                Ok(_) => (),
                Err(error) => self.raised.store(error, py, &self.signals),
            }
        });
    }

    fn tell_path(&self, kind: &str, path: &Path) {
        self.tell(kind, |py| Ok(path.into_pyobject(py)?.into_any().unbind()));
    }

    /// Sets the callbacks of a job.
    fn follow(self, job: &mut Job) {
        let (start, update, checkpoint) = (self.clone(), self.clone(), self);
        job.ready = Some(Box::new(move |ready| start.tell_path("start", &ready.dir)));
        job.on_record = Some(Box::new(move |metrics, record| {
            // No further call once something has stopped the run.
            if update.signals.stopped_by().is_none() && !update.signals.is_finishing() {
                update.tell("update", |py| Ok(record_dict(py, metrics, record)?.into_any().unbind()));
            }
        }));
        job.on_checkpoint = Some(Box::new(move |path| checkpoint.tell_path("checkpoint", path)));
    }
}

/// Trains, or continues the run `resume`, up to the steps `until`. `progress` is `bar`, `lines`, none, or a function that shows it, which is
/// called with the arguments of [`PythonDisplay`]. A new run begins with the weights
/// of the policy `weights` and with the transitions of `replay`, if there are any.
///
/// Returns the run's directory and the name of the signal that stopped it, or raises what stopped it, once its checkpoint is saved.
#[pyfunction]
#[pyo3(signature = (env, settings, *, env_options, config, resume, notify, progress, control, until=None, trust=false, weights=None, replay=None))]
#[allow(clippy::too_many_arguments)] // the keywords of operant.train
pub fn train(
    py: Python<'_>,
    env: Option<Asked>,
    settings: Vec<(String, String)>,
    env_options: Vec<(String, String)>,
    config: Option<PathBuf>,
    resume: Option<String>,
    notify: Option<Py<PyAny>>,
    progress: Option<Bound<'_, PyAny>>,
    control: &Control,
    until: Option<u64>,
    trust: bool,
    weights: Option<PyRef<'_, Policy>>,
    replay: Option<replay::Asked<'_>>,
) -> PyResult<(PathBuf, Option<&'static str>)> {
    let started = Instant::now();
    let is_local = matches!(env, Some(Asked::Local(_)));
    let (registry, env) = match env.map(Asked::find) {
        Some((registry, name)) => (registry, Some(name)),
        None => (crate::registry(), None),
    };
    let mut line = command_line(settings, env_options, config)?;
    if let Some(policy) = weights {
        let weights = InitialWeights::of_policy(&policy.saved).map_err(|e| error(&e))?;
        line.weights = Some(Arc::new(weights));
    }
    let (env, resume, requested) = guarded(|| {
        configure(&registry, env.as_deref(), resume.as_deref(), trust, &line).map_err(|e| error(&e))
    })?;
    let (signals, raised) = (control.0.clone(), Raised::default());
    let shown: Option<Box<dyn Progress>> = match progress {
        None => None,
        Some(display) if display.is_callable() => {
            let (raised, signals) = (raised.clone(), signals.clone());
            Some(Box::new(PythonDisplay { call: display.unbind(), raised, signals, shown: None, last: None }))
        }
        Some(name) if name.extract::<&str>()? == "bar" => {
            Some(Box::new(Bar::new(requested.settings.steps())))
        }
        Some(_) => {
            let (raised, signals) = (raised.clone(), signals.clone());
            Some(Box::new(Lines::new(PythonStderr { raised, signals })))
        }
    };
    let (_lease, log) = LogLease::take();
    let mut job =
        Job { resume, started, verbose: true, log, signals: signals.clone(), until, ..Job::new(requested) };
    job.replay = replay.map(replay::Asked::given);
    job.progress =
        Box::new(PythonProgress { shown, raised: raised.clone(), signals: signals.clone(), polled: started });
    if let Some(call) = notify {
        Notify { call: Arc::new(call), raised: raised.clone(), signals: signals.clone() }.follow(&mut job);
    }
    let outcome = guarded(|| {
        py.detach(|| {
            operant_run::train(job, |requested, device| operant_run::backend(&env, requested, device))
        })
        .map_err(|e| error(&e))
    });
    if let Some(cause) = raised.take() {
        // What stopped training comes first; a failure to save explains itself as its cause.
        let failed = match outcome {
            Ok(Outcome { unsaved: Some(failed), .. }) => Some(error(&failed)),
            Ok(outcome) => {
                name_checkpoint(py, &cause, &outcome, is_local);
                None
            }
            Err(failed) => Some(failed),
        };
        if failed.is_some() && cause.cause(py).is_none() {
            cause.set_cause(py, failed);
        }
        return Err(cause);
    }
    let Outcome { exit_reason, dir, unsaved, .. } = outcome?;
    match unsaved {
        Some(failed) => Err(error(&failed)),
        None => Ok((
            dir,
            match exit_reason {
                ExitReason::Stopped(signal) => Some(signal),
                ExitReason::Finished | ExitReason::Solved => None,
            },
        )),
    }
}

/// result.json of a run as JSON text; None while it has not ended.
#[pyfunction]
pub fn result(dir: PathBuf) -> Option<String> {
    RunResult::read(&dir).map(|result| result.to_json())
}

/// The settings of a run as JSON text.
#[pyfunction]
pub fn run_config(dir: PathBuf) -> PyResult<String> {
    let settings = runs::config(&dir).ok_or_else(|| {
        PyFileNotFoundError::new_err(format!("{} is missing or damaged", dir.join("config.toml").display()))
    })?;
    serde_json::to_string(&settings).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The metrics of a run: names, and `(updates, metrics)` values from metrics.csv.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn metrics(py: Python<'_>, dir: PathBuf) -> PyResult<(Vec<String>, Bound<'_, PyArray2<f64>>)> {
    let path = dir.join("metrics.csv");
    if !path.exists() {
        return Err(PyFileNotFoundError::new_err(format!(
            "{} does not exist: the run was trained with csv=False, or has finished no update yet",
            path.display()
        )));
    }
    let unreadable = |failed| PyOSError::new_err(format!("{} cannot be read: {failed}", path.display()));
    let own = sinks::env_columns(&path).map_err(unreadable)?;
    let mut values = Vec::new();
    let row =
        |row: &Record| values.extend(row.values().into_iter().chain(row.env.into_iter().take(own.len())));
    sinks::each_row(&path, u64::MAX, row).map_err(unreadable)?;
    let names: Vec<_> = METRICS.iter().map(|metric| metric.name.to_owned()).chain(own).collect();
    let rows = values.len() / names.len();
    let table = PyArray1::from_vec(py, values).reshape([rows, names.len()])?;
    Ok((names, table))
}

/// A run's description.
fn described<'py>(py: Python<'py>, run: &runs::Run) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &run.run)?;
    dict.set_item("env", &run.env)?;
    dict.set_item("state", run.health.name())?;
    dict.set_item("reason", &run.reason)?;
    dict.set_item("device", &run.device)?;
    dict.set_item("seed", run.seed)?;
    dict.set_item("env_steps", run.env_steps)?;
    dict.set_item("total_timesteps", run.total_steps)?;
    dict.set_item("started", &run.started)?;
    dict.set_item("pid", run.pid)?;
    dict.set_item("dir", &run.dir)?;
    dict.set_item("checkpoint", &run.checkpoint)?;
    Ok(dict)
}

/// The directory that holds the runs.
pub fn parent(registry: &Registry, run_dir: Option<String>) -> operant_run::Result<PathBuf> {
    let mut line = CommandLine::default();
    line.flags.extend(run_dir.map(|dir| ("run_dir", "run_dir", dir)));
    config::run_dir(registry.known(), &line)
}

/// The runs in a directory and the live ones elsewhere, latest last; or the one of this name or path.
#[pyfunction]
#[pyo3(signature = (run, run_dir))]
pub fn list_runs<'py>(
    py: Python<'py>,
    run: Option<String>,
    run_dir: Option<String>,
) -> PyResult<Bound<'py, PyList>> {
    let found = guarded(|| {
        let parent = parent(&crate::registry(), run_dir).map_err(|e| error(&e))?;
        let Some(run) = run else { return Ok(runs::list(&parent)) };
        runs::find(&parent, &run).map(|run| vec![run]).map_err(|e| error(&e))
    })?;
    let all: PyResult<Vec<_>> = found.iter().map(|run| described(py, run)).collect();
    PyList::new(py, all?)
}

/// Plays episodes of a run's latest checkpoint, as `operant eval` does, in the environment of the run or in one of this program; JSON text.
#[pyfunction]
#[pyo3(signature = (run, episodes, deterministic, trust, env=None))]
pub fn evaluate(
    py: Python<'_>,
    run: String,
    episodes: usize,
    deterministic: bool,
    trust: bool,
    env: Option<Asked>,
) -> PyResult<String> {
    let actions = if deterministic { EvalActions::Greedy } else { EvalActions::Sampled };
    let (registry, env) = match env.map(Asked::find) {
        Some((registry, name)) => (registry, Some(name)),
        None => (crate::registry(), None),
    };
    let played = || {
        let target = EvalTarget::find(Path::new("runs"), &run)?;
        let env = match env {
            Some(name) => {
                let env = device::find(&registry, &name)?;
                operant_learn::check_content(&target.checkpoint.snapshot, &*env)?;
                env
            }
            None => target.env(&registry, Trust::of_flag(trust))?,
        };
        let facts = EnvFacts::of(&env.spec(), &registry);
        let mut line = CommandLine::default();
        line.flags.push(("eval_episodes", "episodes", episodes.to_string()));
        let resumed = Some((target.run.as_str(), target.checkpoint.config.as_str()));
        let requested = config::requested(facts, &line, resumed)?;
        let episodes = requested.settings.run.eval_episodes;
        eval::evaluate(&target, &requested, episodes, actions, &mut crate::interrupted, |requested| {
            operant_run::backend(&env, requested, &Device::cpu())
        })
    };
    let result = guarded(|| py.detach(played).map_err(|e| error(&e)))?;
    // A signal that came with the last episode.
    if let Some(raised) = crate::RAISED.take() {
        return Err(raised);
    }
    serde_json::to_string(&result).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
