//! `operant._core.sweep`: sweeps from Python, and runs of sweeps on other machines.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_cli::ray::Resources;
use operant_run::config::{self, EnvFacts};
use operant_run::{CommandLine, Error, ErrorKind, Result, Trust, device, world};
use operant_sweep::table::Table;
use operant_sweep::task::{self, Task, TaskContext};
use operant_sweep::{Ended, Executor, Given, Local, Report, Spec, Status, Sweep, Watch};
use pyo3::exceptions::{PyOSError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::guarded;
use crate::train::{self, Control};

/// Time between two calls with the status of a sweep.
const STATUS: Duration = Duration::from_millis(200);

/// Connects a run of a sweep, wherever it trains, with the sweep.
#[pyclass(module = "operant._core", frozen)]
pub struct Link(task::Link);

#[pymethods]
impl Link {
    /// Whether the sweep is stopping.
    fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    /// Counts environment steps that were taken.
    fn add_steps(&self, steps: u64) {
        self.0.add_steps(steps);
    }

    /// Shows a warning about the run.
    fn warn(&self, text: &str) {
        self.0.warn(text);
    }
}

/// An object of Python that trains the runs: `train(task, world, directory, link) -> bool`, with `slots`, `threads` and `device`.
struct PythonExecutor {
    object: Py<PyAny>,
    slots: usize,
    threads: usize,
    device: &'static str,
}

impl PythonExecutor {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let device: String = object.getattr("device")?.extract()?;
        Ok(Self {
            slots: object.getattr("slots")?.extract()?,
            threads: object.getattr("threads")?.extract()?,
            device: if device == "cuda" { "cuda" } else { "cpu" },
            object: object.clone().unbind(),
        })
    }
}

impl Executor for PythonExecutor {
    fn device(&self) -> &'static str {
        self.device
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn threads(&self, _: usize) -> usize {
        self.threads
    }

    fn is_local(&self) -> bool {
        false
    }

    fn train(&self, task: &Task, place: &TaskContext<'_>, link: &task::Link) -> Result<bool> {
        let text = serde_json::to_string(task).expect("a task is JSON");
        let directory = place.runs.join(task.segment.run());
        Python::attach(|py| {
            let file = place.env.file();
            let world = file.as_ref().map(|file| PyBytes::new(py, file.as_bytes()));
            let arguments = (text, world, &directory, Link(link.clone()));
            let trained = self.object.call_method1(py, "train", arguments).and_then(|done| done.extract(py));
            // The run comes from a machine that may have another user's key.
            if let Some(file) = &file {
                world::mark_run(file, &directory);
            }
            trained.map_err(|raised| in_rust(py, &raised))
        })
    }
}

/// An exception as an error: of a disk, of a value, or of the device.
fn in_rust(py: Python<'_>, raised: &PyErr) -> Error {
    let kind = match raised {
        disk if disk.is_instance_of::<PyOSError>(py) => ErrorKind::Disk,
        value if value.is_instance_of::<PyValueError>(py) => ErrorKind::Usage,
        _ => ErrorKind::Device,
    };
    Error::new(kind, raised.value(py).to_string())
}

/// Connects the `operant` command of Python to a Ray cluster.
///
/// # Errors
/// Usage when Ray is not installed, or there is no such cluster.
pub fn connect(resources: &Resources) -> Result<Arc<dyn Executor>> {
    Python::attach(|py| {
        let Resources { address, cpus_per_run, gpus_per_run } = resources;
        let executor = py
            .import("operant.ray")
            .and_then(|module| module.getattr("Executor")?.call1((address, *cpus_per_run, *gpus_per_run)))
            .and_then(|object| PythonExecutor::new(&object));
        match executor {
            Ok(executor) => Ok(Arc::new(executor) as Arc<dyn Executor>),
            Err(raised) => Err(Error::usage(raised.value(py).to_string()).at("--ray").remedy(
                "check the address with `ray status`; `pip install '.[ray]'` in the repository installs Ray",
            )),
        }
    })
}

/// Trains a run of a sweep in `runs`; false if it was stopped, with a checkpoint. `world` is the file of an environment from outside.
#[pyfunction]
pub fn train_task(
    py: Python<'_>,
    task: &str,
    world: Option<Vec<u8>>,
    runs: PathBuf,
    control: &Control,
) -> PyResult<bool> {
    let task: Task =
        serde_json::from_str(task).map_err(|error| PyValueError::new_err(format!("not a task: {error}")))?;
    let link = task::Link::alone(task.segment, control.0.clone());
    let registry = crate::registry();
    let train = || {
        let env = match world {
            None => device::find(&registry, &task.env)?,
            Some(file) => {
                let own = runs.join("worlds").join(task.segment.run());
                let text = String::from_utf8_lossy(&file);
                world::keep(&text, &own)?;
                // The process of the sweep has checked it.
                device::find_of_run(&registry, &own, &task.env, None, Trust::All, false)?
            }
        };
        let facts = EnvFacts::of(&env.spec(), &registry);
        task.train(&TaskContext { env: &env, facts: &facts, runs: &runs }, &link)
    };
    guarded(|| py.detach(train).map_err(|error| train::error(&error)))
}

/// The view that Python has of a running sweep.
struct PythonWatch {
    on_status: Option<Py<PyAny>>,
    last: Instant,
    control: operant_run::Signals,
    raised: Option<PyErr>,
}

impl PythonWatch {
    fn call(&mut self, work: impl FnOnce(Python<'_>) -> PyResult<()>) {
        if let Err(error) = Python::attach(work) {
            self.control.interrupt();
            self.raised.get_or_insert(error);
        }
    }
}

impl Watch for PythonWatch {
    fn status(&mut self, status: &Status) {
        self.call(|py| py.check_signals());
        // The last status is always shown.
        if self.last.elapsed() < STATUS && status.running > 0 {
            return;
        }
        self.last = Instant::now();
        let Some(on_status) = self.on_status.as_ref().map(|call| Python::attach(|py| call.clone_ref(py)))
        else {
            return;
        };
        let Status { done, planned, running, failed, env_steps, .. } = *status;
        self.call(|py| on_status.call1(py, (done, planned, running, failed, env_steps)).map(drop));
    }

    fn warn(&mut self, line: &str) {
        let line = config::in_python(line);
        self.call(|py| {
            let (category, stacklevel) = (py.get_type::<PyUserWarning>(), 3);
            py.import("warnings")?.call_method1("warn", (line, category, stacklevel)).map(drop)
        });
    }
}

/// Carries out a sweep, or continues `resume`. `target` is the name of an environment, the path of a specification, or its JSON text.
///
/// Returns the sweep's directory and the name of the signal that stopped it.
#[pyfunction]
#[pyo3(signature = (target, *, resume, trust, seeds, search, trials, interval, name, run_dir, jobs, executor, on_status, control))]
#[allow(clippy::too_many_arguments)] // the keywords of operant.sweep
pub fn sweep(
    py: Python<'_>,
    target: Option<String>,
    resume: Option<String>,
    trust: bool,
    seeds: Option<String>,
    search: Option<String>,
    trials: Option<usize>,
    interval: Option<u64>,
    name: Option<String>,
    run_dir: Option<String>,
    jobs: Option<usize>,
    executor: Option<Bound<'_, PyAny>>,
    on_status: Option<Py<PyAny>>,
    control: &Control,
) -> PyResult<(PathBuf, Option<&'static str>)> {
    let registry = crate::registry();
    let executor: Arc<dyn Executor> = match executor {
        None => Arc::new(Local),
        Some(object) => Arc::new(PythonExecutor::new(&object)?),
    };
    let given = Given { seeds, method: search, trials, interval, ..Given::default() };
    let open = || {
        let mut line = CommandLine::default();
        line.flags.extend(run_dir.map(|dir| ("run_dir", "run_dir", dir)));
        let parent = config::run_dir(registry.known(), &line)?;
        if let Some(resume) = resume {
            let path = operant_sweep::sweep::find(&parent, &resume)?;
            return Sweep::resume(&registry, &path, jobs, executor, Trust::of_flag(trust));
        }
        let target = target.unwrap_or_default();
        let spec = match &target {
            json if json.starts_with('{') => Spec::parse_json(json, &given)?,
            path if path.ends_with(".toml") => Spec::read(path.as_ref(), &given)?,
            env => Spec::of_environments(&[env], &given)?,
        };
        Sweep::new(spec, &registry, &parent, name.as_deref(), jobs, executor)
    };
    let signals = control.0.clone();
    let mut watch = PythonWatch { on_status, last: Instant::now(), control: signals.clone(), raised: None };
    let (ended, dir) = guarded(|| {
        py.detach(|| {
            let mut sweep = open()?;
            let ended = sweep.run(&signals, &mut watch)?;
            Ok((ended, sweep.dir().to_path_buf()))
        })
        .map_err(|failed| train::error(&failed))
    })?;
    match (watch.raised, ended) {
        (Some(raised), _) => {
            let text = "the runs of the sweep were stopped with checkpoints";
            train::explain(py, &raised, text, ["operant.sweep(resume=", ")"], &dir);
            Err(raised)
        }
        (None, Ended::Finished) => Ok((dir, None)),
        (None, Ended::Stopped(signal)) => Ok((dir, Some(signal))),
    }
}

/// The runs of a sweep as JSON text: an object for each.
#[pyfunction]
pub fn sweep_rows(py: Python<'_>, dir: PathBuf) -> PyResult<String> {
    let rows = guarded(|| py.detach(|| operant_sweep::rows(&dir)).map_err(|error| train::error(&error)))?;
    serde_json::to_string(&rows).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The directory of a sweep, given by its name or its path.
#[pyfunction]
pub fn find_sweep(sweep: &str, run_dir: Option<String>) -> PyResult<PathBuf> {
    guarded(|| {
        let parent = train::parent(&crate::registry(), run_dir);
        let found = parent.and_then(|parent| operant_sweep::sweep::find(&parent, sweep));
        found.map_err(|error| {
            let remedy = format!("{}; operant.sweep begins one", error.remedy.as_deref().unwrap_or_default());
            train::error(&error.remedy(remedy))
        })
    })
}

/// The directories of the sweeps in a directory, by start.
#[pyfunction]
pub fn list_sweeps(run_dir: Option<String>) -> PyResult<Vec<PathBuf>> {
    guarded(|| {
        let parent = train::parent(&crate::registry(), run_dir).map_err(|error| train::error(&error))?;
        Ok(operant_run::runs::sweeps(&parent).into_iter().map(|sweep| sweep.dir).collect())
    })
}

/// The name of what the search of a sweep maximises.
#[pyfunction]
pub fn sweep_objective(py: Python<'_>, dir: PathBuf) -> PyResult<String> {
    let opened = guarded(|| py.detach(|| Table::open(&dir, false)).map_err(|error| train::error(&error)))?;
    Ok(opened.1.search.objective.name())
}

/// The report of a sweep as JSON text.
#[pyfunction]
pub fn report(py: Python<'_>, dir: PathBuf) -> PyResult<String> {
    let report = guarded(|| py.detach(|| Report::of_sweep(&dir)).map_err(|error| train::error(&error)))?;
    Ok(report.to_json())
}
