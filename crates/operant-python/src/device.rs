//! `operant._core.DeviceEnvironments` and `DeviceArray`: N environments on a GPU, whose arrays remain in its memory.

#![allow(unsafe_code)] // Streams and arrays of other libraries; every block has a SAFETY comment.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::PyArray1;
use operant_cuda::{Buffer, CudaError, Device, Event, Stream};
use operant_env::{ActionSpace, EnvSpec, ObsSpace};
use operant_learn::LearnError;
use operant_learn::cuda::{BadAction, CudaEnvs, EnvArrays, GivenActions};
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::{self, CPU, CUDA, CUDA_MANAGED, DlDevice, DlType, Given, Taken};
use crate::environments::{PyOption, autoreset_of, described, made, named};
use crate::guarded;
use crate::world::Asked;

/// Sets of arrays, which take turns.
const SETS: usize = 2;

fn failed(error: impl Into<LearnError>) -> PyErr {
    match error.into() {
        LearnError::Cuda(error @ CudaError::OutOfMemory { .. }) => PyMemoryError::new_err(error.to_string()),
        error @ (LearnError::Config { .. } | LearnError::Cuda(CudaError::Refused { .. })) => {
            PyValueError::new_err(error.to_string())
        }
        error => PyRuntimeError::new_err(error.to_string()),
    }
}

/// The shared state of a set's arrays: the stream that writes them, and the end of the last write.
struct Written {
    device: Device,
    stream: Arc<Stream>,
    event: Event,
}

impl Written {
    fn number(&self) -> i32 {
        self.device.properties().ordinal as i32
    }
}

/// An array on a GPU, for any library that takes DLPack or the CUDA array interface.
#[pyclass(module = "operant", frozen)]
pub struct DeviceArray {
    bytes: Buffer<u8>,
    shape: Vec<usize>,
    dtype: DlType,
    written: Arc<Written>,
}

impl DeviceArray {
    fn device_of(&self) -> DlDevice {
        DlDevice { kind: CUDA, number: self.written.number() }
    }

    /// NumPy's code of the elements' type.
    fn code(&self) -> &'static str {
        match self.dtype {
            DlType::F32 => "<f4",
            DlType::I32 => "<i4",
            DlType::I8 => "|i1",
            _ => "|b1",
        }
    }

    /// A copy of the elements.
    fn copied(&self) -> Result<Buffer<u8>, CudaError> {
        let copy = self.written.device.alloc(self.bytes.len())?;
        copy.copy_from(&self.written.stream, &self.bytes)?;
        Ok(copy)
    }
}

#[pymethods]
impl DeviceArray {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (self.code(),))
    }

    /// `cuda:0`.
    #[getter]
    fn device(&self) -> String {
        operant_run::gpu::name(self.written.device.properties().ordinal)
    }

    fn __len__(&self) -> usize {
        self.shape[0]
    }

    fn __repr__(&self) -> String {
        format!("DeviceArray({} {:?} on {})", self.dtype.name(), self.shape, self.device())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (CUDA, self.written.number())
    }

    /// A capsule, whose memory the consumer's `stream` may read: it waits for the step that writes it.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = self.__dlpack_device__();
        if dl_device == Some((CPU, 0)) && copy != Some(false) {
            let to = PyDict::new(py);
            to.set_item("max_version", max_version)?;
            return self.numpy(py)?.call_method("__dlpack__", (), Some(&to));
        }
        if let Some(other) = dl_device.filter(|device| *device != own) {
            return Err(PyBufferError::new_err(format!(
                "dl_device: expected {own:?}, or (1, 0) with a copy, got {other:?}"
            )));
        }
        // None stands for the legacy default stream, and 0 could be either default stream.
        let stream = match stream.unwrap_or(1) {
            -1 => None,
            // The handle of a stream is the address of the driver's object; no object is in the first page or at an odd place.
            stream if matches!(stream, 1 | 2) || stream >= 4096 && stream % 8 == 0 => Some(stream as u64),
            other => {
                return Err(PyValueError::new_err(format!(
                    "stream: expected None, -1, 1 (legacy default), 2 (per-thread default) or a handle, got {other}"
                )));
            }
        };
        guarded(|| {
            let written = &self.written;
            let is_copied = copy == Some(true);
            let bytes = if is_copied { self.copied() } else { self.bytes.cast() }.map_err(failed)?;
            if let Some(stream) = stream {
                // SAFETY: the caller of `__dlpack__` gives a stream of this device that exists, as the array API standard requires; no
                // driver can tell whether a handle is one. What cannot be one was refused above.
                let block = |event: &Event| unsafe { event.block(stream) }.map_err(failed);
                if is_copied {
                    let copied = written.device.event().map_err(failed)?;
                    written.stream.record(&copied).map_err(failed)?;
                    block(&copied)?;
                } else {
                    block(&written.event)?;
                }
            }
            let given = Given {
                data: bytes.pointer(),
                device: self.device_of(),
                dtype: self.dtype,
                shape: self.shape.iter().map(|&len| len as i64).collect(),
                is_copied,
                owner: Arc::new(bytes),
            };
            dlpack::give(py, given, max_version.is_some_and(|(major, _)| major >= 1))
        })
    }

    /// The array interface of CuPy, Numba and others, which wait for `stream` themselves.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("version", 3)?;
        all.set_item("shape", self.shape(py)?)?;
        all.set_item("typestr", self.code())?;
        all.set_item("data", (self.bytes.pointer(), false))?;
        all.set_item("strides", py.None())?;
        all.set_item("stream", self.written.stream.handle())?;
        Ok(all)
    }

    /// A copy on the host; waits for the step that writes it.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = guarded(|| py.detach(|| self.bytes.read(&self.written.stream)).map_err(failed))?;
        let array = PyArray1::from_vec(py, bytes).into_any();
        array.call_method1("view", (self.code(),))?.call_method1("reshape", (self.shape(py)?,))
    }
}

/// The arrays of a set as Python objects, by name.
fn arrays_of(
    py: Python<'_>,
    envs: &CudaEnvs,
    arrays: &EnvArrays,
    written: &Arc<Written>,
) -> PyResult<Py<PyDict>> {
    let all = PyDict::new(py);
    let n = envs.num_envs();
    let add = |name: &str, bytes: Result<Buffer<u8>, CudaError>, inner: &[usize], dtype| {
        let shape = [&[n], inner].concat();
        let array = DeviceArray { bytes: bytes.map_err(failed)?, shape, dtype, written: written.clone() };
        all.set_item(name, Py::new(py, array)?)
    };
    let (inner, kind) = match &envs.spec().obs {
        ObsSpace::Box { low, .. } => (vec![low.len()], DlType::F32),
        ObsSpace::Binary { shape } => (shape.clone(), DlType::BOOL),
        _ => unreachable!("refused when it was made"),
    };
    add("obs", arrays.obs.cast(), &inner, kind)?;
    if let Some(finals) = &arrays.final_obs {
        add("final_obs", finals.cast(), &inner, kind)?;
    }
    add("rewards", arrays.rewards.cast(), &[], DlType::F32)?;
    add("terminated", arrays.terminated.cast(), &[], DlType::BOOL)?;
    add("truncated", arrays.truncated.cast(), &[], DlType::BOOL)?;
    add("ended", arrays.ended.cast(), &[], DlType::BOOL)?;
    add("returns", arrays.returns.cast(), &[], DlType::F32)?;
    add("lengths", arrays.lengths.cast(), &[], DlType::I32)?;
    if let Some(masks) = &arrays.masks {
        add("mask", masks.cast(), &[envs.choices()], DlType::I8)?;
    }
    if let Some(players) = &arrays.players {
        add("player", players.cast(), &[], DlType::I32)?;
    }
    Ok(all.unbind())
}

/// One set of outputs.
struct Set {
    arrays: EnvArrays,
    written: Arc<Written>,
    shown: Py<PyDict>,
    /// The actions of the step that writes it, until that is done; and the step's number.
    actions: Option<Taken>,
    step: u64,
}

/// N environments of one kind on a GPU.
#[pyclass(module = "operant._core")]
pub struct DeviceEnvironments {
    envs: CudaEnvs,
    sets: Vec<Set>,
    device: Device,
    turn: usize,
    steps: u64,
}

impl DeviceEnvironments {
    /// Raises for the actions of an earlier step, and waits for the set that is written next.
    fn settle(&mut self, py: Python<'_>) -> PyResult<()> {
        let next = (self.turn + 1) % SETS;
        let turn = self.turn;
        for at in [next, turn] {
            let (set, envs) = (&mut self.sets[at], &self.envs);
            if at == next {
                py.detach(|| set.written.event.synchronize()).map_err(failed)?;
                set.actions = None;
            } else if !set.arrays.is_written().map_err(failed)? {
                continue;
            }
            if let Some(bad) = envs.bad_action(&mut set.arrays).map_err(failed)? {
                return Err(refused(&bad, set.step));
            }
        }
        Ok(())
    }

    /// Enqueues work that writes the next set, and returns its arrays.
    fn write(
        &mut self,
        py: Python<'_>,
        actions: Option<Taken>,
        work: impl FnOnce(&mut CudaEnvs, &mut EnvArrays) -> Result<(), LearnError>,
    ) -> PyResult<Py<PyDict>> {
        self.turn = (self.turn + 1) % SETS;
        let set = &mut self.sets[self.turn];
        // Kept before the launch, so that a failure after it releases nothing that the device still reads.
        (set.actions, set.step) = (actions, self.steps);
        work(&mut self.envs, &mut set.arrays).map_err(failed)?;
        self.envs.stream().record(&set.written.event).map_err(failed)?;
        Ok(set.shown.clone_ref(py))
    }

    /// The actions as an array on this device that is ordered before the stream's next work.
    fn taken(&self, actions: &Bound<'_, PyAny>) -> PyResult<Taken> {
        let py = actions.py();
        let own = DlDevice { kind: CUDA, number: self.device.properties().ordinal as i32 };
        if !actions.hasattr("__dlpack__")? || !actions.hasattr("__dlpack_device__")? {
            return Err(PyTypeError::new_err(format!(
                "actions: expected an array on {} with __dlpack__, got {}",
                shown(own),
                actions.get_type().name()?
            )));
        }
        let (kind, number): (i32, i32) = actions.call_method0("__dlpack_device__")?.extract()?;
        check_device(own, DlDevice { kind, number })?;
        let how = PyDict::new(py);
        how.set_item("stream", self.envs.stream().handle())?;
        how.set_item("max_version", (1, 0))?;
        let capsule = match actions.call_method("__dlpack__", (), Some(&how)) {
            // Producers from before 2024 have no `max_version`.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                how.del_item("max_version")?;
                actions.call_method("__dlpack__", (), Some(&how))
            }
            capsule => capsule,
        }?;
        let taken = Taken::from(&capsule, "actions")?;
        check_device(own, taken.device())?;
        check_actions(&taken, self.envs.spec(), self.envs.num_envs())?;
        Ok(taken)
    }
}

/// `cuda:0`, `cpu`, or another kind of device by its number.
fn shown(DlDevice { kind, number }: DlDevice) -> String {
    match kind {
        CPU => "cpu".to_owned(),
        CUDA | CUDA_MANAGED => operant_run::gpu::name(number.max(0) as usize),
        _ => format!("device {number} of DLPack's type {kind}"),
    }
}

fn check_device(own: DlDevice, given: DlDevice) -> PyResult<()> {
    if matches!(given.kind, CUDA | CUDA_MANAGED) && given.number == own.number {
        return Ok(());
    }
    let [own, given] = [own, given].map(shown);
    Err(PyValueError::new_err(format!(
        "actions: expected an array on {own}, got one on {given}; nothing was stepped"
    )))
}

/// Type, shape and layout.
fn check_actions(taken: &Taken, spec: &EnvSpec, num_envs: usize) -> PyResult<()> {
    let dtype = taken.dtype();
    let (is_taken, types) = match spec.actions {
        ActionSpace::Discrete(_) => (matches!(dtype, DlType::I64 | DlType::I32), "int64 or int32"),
        ActionSpace::Box { .. } => (dtype == DlType::F32, "float32"),
    };
    if !is_taken {
        return Err(PyTypeError::new_err(format!(
            "actions: expected {types}, got {}; nothing was stepped",
            dtype.name()
        )));
    }
    let components = spec.actions.components();
    // A single discrete component has no axis; a box always has one.
    let is_flat = components == 1 && matches!(spec.actions, ActionSpace::Discrete(_));
    let expected = if is_flat { vec![num_envs] } else { vec![num_envs, components] };
    let is_shape =
        taken.shape().iter().map(|&len| usize::try_from(len).ok()).eq(expected.iter().copied().map(Some));
    if !is_shape {
        return Err(PyValueError::new_err(format!(
            "actions: expected shape {expected:?}, got {:?}; nothing was stepped",
            taken.shape()
        )));
    }
    if let Some(strides) = taken.odd_strides() {
        return Err(PyValueError::new_err(format!(
            "actions: expected a C-contiguous array, got strides {strides:?}; nothing was stepped"
        )));
    }
    if !taken.pointer().is_multiple_of(u64::from(dtype.bits / 8)) || taken.pointer() == 0 {
        return Err(PyValueError::new_err(format!(
            "actions: expected an aligned address, got {:#x}; nothing was stepped",
            taken.pointer()
        )));
    }
    Ok(())
}

fn refused(bad: &BadAction, step: u64) -> PyErr {
    let BadAction { at: (env, component), value, expected } = bad;
    PyValueError::new_err(format!(
        "actions: environment {env}, component {component}: expected {expected}, got {value}, in step {step} since the environments \
         were made; it was stepped as 0"
    ))
}

/// Refuses observations that the kernels of a step do not write.
fn check_space(spec: &EnvSpec, device: &str) -> PyResult<()> {
    if CudaEnvs::writes(&spec.obs) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "device {device} cannot be used: the observations of {} are indices, bytes or parts, which are written on the CPU only; \
         make them with device=\"cpu\"",
        spec.name
    )))
}

/// Opens the GPU that a device names.
fn opened(device: &str) -> PyResult<Device> {
    let ordinal = operant_run::gpu::ordinal(device).ok_or_else(|| {
        PyValueError::new_err(format!("device: expected cpu, cuda or cuda:K, got {device}"))
    })?;
    let unusable = |what: String, remedy: Option<String>| {
        let remedy = remedy.map_or_else(String::new, |remedy| format!("{remedy}; or "));
        PyValueError::new_err(format!(
            "device {device} cannot be used: {what}; {remedy}make them with device=\"cpu\""
        ))
    };
    let (cuda, _) =
        operant_run::gpu::find(ordinal, None).map_err(|error| unusable(error.what, error.remedy))?;
    cuda.open(ordinal).map_err(|error| unusable(error.what(), Some(error.remedy())))
}

#[pymethods]
impl DeviceEnvironments {
    /// `device` is `cuda` or `cuda:K`, and `autoreset` `same_step`, `next_step` or `disabled`.
    #[new]
    #[pyo3(signature = (name, num_envs, *, device, autoreset, options))]
    fn new(
        py: Python<'_>,
        name: Asked,
        num_envs: usize,
        device: &str,
        autoreset: &str,
        options: BTreeMap<String, PyOption>,
    ) -> PyResult<Self> {
        let autoreset = autoreset_of(autoreset)?;
        guarded(|| {
            let (registry, name) = name.find();
            let env = made(&registry, &name, num_envs, &named(options))?;
            check_space(&env.spec(), device)?;
            let device = opened(device)?;
            let envs =
                py.detach(|| CudaEnvs::new(&device, &*env, num_envs, autoreset, SETS)).map_err(failed)?;
            let sets = (0..SETS).map(|_| {
                let written = Written {
                    device: device.clone(),
                    stream: envs.stream().clone(),
                    event: device.event().map_err(failed)?,
                };
                let (arrays, written) = (envs.arrays().map_err(failed)?, Arc::new(written));
                let shown = arrays_of(py, &envs, &arrays, &written)?;
                Ok(Set { arrays, written, shown, actions: None, step: 0 })
            });
            let sets = sets.collect::<PyResult<_>>()?;
            Ok(Self { envs, sets, device, turn: 0, steps: 0 })
        })
    }

    /// The specification.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        described(py, self.envs.spec(), self.envs.choices() > 0)
    }

    /// The handle of the stream that steps.
    #[getter]
    fn stream(&self) -> u64 {
        self.envs.stream().handle()
    }

    /// `cuda:0`.
    #[getter]
    fn device(&self) -> String {
        operant_run::gpu::name(self.device.properties().ordinal)
    }

    /// New episodes in all environments, numbered from 0 under `seed`; returns the arrays, of which `obs` and `mask` are written.
    fn reseed(&mut self, py: Python<'_>, seed: u64) -> PyResult<Py<PyDict>> {
        guarded(|| {
            self.settle(py)?;
            self.write(py, None, |envs, arrays| envs.reseed(seed, arrays))
        })
    }

    /// New episodes in the environments that `chosen` names, or in all.
    #[pyo3(signature = (chosen=None))]
    fn restart(&mut self, py: Python<'_>, chosen: Option<Vec<bool>>) -> PyResult<Py<PyDict>> {
        guarded(|| {
            self.settle(py)?;
            self.write(py, None, |envs, arrays| envs.restart(chosen.as_deref(), arrays))
        })
    }

    /// Enqueues one step of all environments with actions on the GPU, and returns the arrays that it writes.
    fn step(&mut self, py: Python<'_>, actions: &Bound<'_, PyAny>) -> PyResult<Py<PyDict>> {
        guarded(|| {
            let taken = self.taken(actions)?;
            self.settle(py)?;
            let wide = taken.dtype() == DlType::I64;
            let count = self.envs.num_envs() * self.envs.spec().actions.components();
            let words = if wide { 2 * count } else { count };
            // SAFETY: `taken` has compared device, type, shape and strides; `write` keeps the actions with the set of arrays that the step
            // writes, until `settle` or `drop` has waited for the step.
            let words = unsafe { taken.words(&self.device, words) }.map_err(failed)?;
            let shown = self.write(py, Some(taken), |envs, arrays| {
                envs.step(GivenActions { words: &words, wide }, arrays)
            })?;
            self.steps += 1;
            Ok(shown)
        })
    }

    /// Waits for all steps, and raises if one of them had an action that its environment does not take.
    fn synchronize(&mut self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            py.detach(|| self.envs.stream().synchronize()).map_err(failed)?;
            self.settle(py)
        })
    }
}

impl Drop for DeviceEnvironments {
    fn drop(&mut self) {
        // The actions of the last steps are released after this.
        let _ = self.envs.stream().synchronize();
    }
}
