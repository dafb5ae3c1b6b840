//! The extension module `operant._core`. What users see is Python, in `python/operant`; this gives it environments that step
//! whole arrays, training, and policies that act on arrays.

mod arrays;
mod batch;
mod command;
mod device;
mod dlpack;
mod environments;
mod local;
mod os;
mod policy;
mod replay;
mod sweep;
#[cfg(feature = "test-features")]
mod test_worlds;
mod train;
mod worker;
mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use operant_env::Registry;
use operant_run::config;
use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The functions and classes of `operant._core`.
#[pymodule]
mod _core {
    use operant_run::world::Interpreter;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::refuse_second_interpreter(module.py())?;
        // Worker processes of environments run in the Python of this process.
        let executable: Option<String> = module.py().import("sys")?.getattr("executable")?.extract()?;
        if let Some(executable) = executable.filter(|path| !path.is_empty()) {
            operant_run::world::set_interpreter(Interpreter {
                python: executable.into(),
                interrupted: crate::interrupted,
                note: crate::note,
            });
        }
        Ok(())
    }

    #[pymodule_export]
    use crate::arrays::Buffers;
    #[pymodule_export]
    use crate::build_info;
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::device::{DeviceArray, DeviceEnvironments};
    #[pymodule_export]
    use crate::environments::Environments;
    #[pymodule_export]
    use crate::environments::{advantages, specs};
    #[pymodule_export]
    use crate::local::LocalEnv;
    #[pymodule_export]
    use crate::policy::{Policy, rollout_settings};
    #[pymodule_export]
    use crate::replay::{find, packed, replay_layout};
    #[pymodule_export]
    use crate::sweep::{
        Link, find_sweep, list_sweeps, report, sweep, sweep_objective, sweep_rows, train_task,
    };
    #[pymodule_export]
    use crate::train::{
        Control, check_setting, did_you_mean, evaluate, list_runs, metrics, network_settings, result,
        run_config, train,
    };
    #[pymodule_export]
    use crate::worker::{WorkerChannel, end_with};
    #[pymodule_export]
    use crate::world::{
        Arg, RecordedDraws, RecordedTurns, Recorder, World, add_world, read_world, write_output,
    };
}

/// An error in any but the first interpreter of this process that imports this: its classes belong to that one.
fn refuse_second_interpreter(py: Python<'_>) -> PyResult<()> {
    /// Address of the first interpreter's module `builtins`, of which each has its own.
    static FIRST: OnceLock<usize> = OnceLock::new();
    let own = py.import("builtins")?.as_ptr() as usize;
    if *FIRST.get_or_init(|| own) != own {
        let what = "operant works in one interpreter of a process, and another has imported it; use processes or threads";
        return Err(PyImportError::new_err(what));
    }
    Ok(())
}

/// The environments that Python finds: those of the package, and the worlds that this process has used.
fn registry() -> Registry {
    #[cfg(feature = "test-features")]
    let registry = test_worlds::all(operant_env::builtin());
    #[cfg(not(feature = "test-features"))]
    let registry = operant_env::builtin();
    world::with_worlds(registry)
}

/// How this engine was built: version, level ("native", or "x86-64-v3" or "x86-64-v4" in a wheel for all machines), instruction set, and environments that one instruction steps.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    // `cargo xtask wheel` sets it.
    info.set_item("level", option_env!("OPERANT_LEVEL").unwrap_or("native"))?;
    info.set_item("instructions", operant_learn::cpu::isa::SET.name)?;
    info.set_item("lanes", operant_env::LaneWidth::WIDEST as usize)?;
    Ok(info)
}

thread_local! {
    /// What a handler of this program raised while an environment was recorded.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Whether the handler of a signal raised something, such as KeyboardInterrupt.
fn interrupted() -> bool {
    Python::attach(|py| py.check_signals()).map_err(|raised| RAISED.set(Some(raised))).is_err()
}

/// A note for Python's `logging`; false while the command runs, which prints it.
fn note(line: &str) -> bool {
    if command::IS_RUNNING.load(Ordering::Relaxed) {
        return false;
    }
    Python::attach(|py| log_info(py, line)).is_ok()
}

/// Logs a line, in Python's words.
fn log_info(py: Python<'_>, line: &str) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("operant",))?;
    logger.call_method1("info", ("%s", config::in_python(line))).map(drop)
}

/// Turns a panic into an exception: none crosses into Python.
fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(PyRuntimeError::new_err(format!(
            "this is a bug in operant: {text}; please report it with the code that led here"
        )))
    })
}
