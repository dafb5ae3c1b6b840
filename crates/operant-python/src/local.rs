//! Gymnasium environments that a function of this program makes: threads of this process step them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use operant_env::AnyEnv;
use operant_gym::shared::SharedWords;
use operant_gym::{Description, GymEnv, Host, Hosted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::worker::WorkerChannel;

/// An environment of this program: its description, and what starts a thread that steps it, `start(file descriptor, channel, argument)`.
#[pyclass(module = "operant._core", frozen)]
pub struct LocalEnv(pub Arc<dyn AnyEnv>);

#[pymethods]
impl LocalEnv {
    #[new]
    fn new(description: &[u8], start: Py<PyAny>) -> PyResult<Self> {
        let description = Description::from_json(description, Path::new(""));
        let mut description = description.map_err(|error| PyValueError::new_err(error.to_string()))?;
        description.allow();
        Ok(LocalEnv(Arc::new(GymEnv::hosted(description, Arc::new(PythonHost(start))))))
    }
}

#[derive(Debug)]
struct PythonHost(Py<PyAny>);

impl Host for PythonHost {
    fn start(&self, memory: &File, argument: &str) -> io::Result<Box<dyn Hosted>> {
        let channel = WorkerChannel::of_thread(SharedWords::open(memory)?);
        let thread = Python::attach(|py| self.0.call1(py, (memory.as_raw_fd(), channel, argument)));
        thread
            .map(|thread| Box::new(PythonThread(thread)) as Box<dyn Hosted>)
            .map_err(|error| io::Error::other(error.to_string()))
    }
}

/// A `threading.Thread`.
#[derive(Debug)]
struct PythonThread(Py<PyAny>);

impl Hosted for PythonThread {
    fn is_alive(&mut self) -> bool {
        Python::attach(|py| self.0.call_method0(py, "is_alive")?.extract(py)).unwrap_or(true)
    }

    fn join(&mut self, timeout: Duration) {
        // A signal may end the wait; training sees it afterwards.
        let _ = Python::attach(|py| self.0.call_method1(py, "join", (timeout.as_secs_f64(),)).map(drop));
    }
}
