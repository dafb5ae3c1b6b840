//! `operant._core.Policy`: a trained policy that acts on arrays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use operant_env::{ActionSpace, ObsSpace};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_run::{SavedPolicy, export};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::environments::PyOption;
use crate::guarded;
use crate::train::{error, parent};

/// Rows from which on several threads share them: fewer take less time than waking threads does.
const SHARED_FROM: usize = 2048;

/// Observations that one block of the network takes.
const BLOCK: usize = 64;

/// A trained policy.
#[pyclass(module = "operant._core", frozen)]
pub struct Policy {
    saved: SavedPolicy,
    pub(crate) inference: Inference,
    threads: usize,
    /// Made by the first call that has enough rows; unused in a forked child, which has none of its threads.
    pool: OnceLock<Option<rayon::ThreadPool>>,
    process: u32,
}

/// Observations `(N, O)`, C-contiguous, in the type of the space.
enum Obs<'py> {
    Floats(PyReadonlyArrayDyn<'py, f32>),
    Bits(PyReadonlyArrayDyn<'py, bool>),
}

impl Obs<'_> {
    fn rows(&self) -> PyResult<ObsRows<'_>> {
        let refused = |error: numpy::AsSliceError| PyValueError::new_err(format!("obs: {error}"));
        Ok(match self {
            Obs::Floats(array) => ObsRows::Floats(array.as_slice().map_err(refused)?),
            Obs::Bits(array) => ObsRows::Bits(array.as_slice().map_err(refused)?),
        })
    }
}

#[pymethods]
impl Policy {
    /// The policy of a run's latest checkpoint, or of one checkpoint. `threads` = 0 takes all CPUs that the process may use.
    #[new]
    #[pyo3(signature = (what, *, run_dir, threads))]
    fn new(py: Python<'_>, what: String, run_dir: Option<String>, threads: usize) -> PyResult<Self> {
        let registry = crate::registry();
        let saved = guarded(|| {
            py.detach(|| {
                let parent = parent(&registry, run_dir)?;
                SavedPolicy::load(&registry, &parent, &what)
            })
            .map_err(|failed| error(&failed))
        })?;
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { usable } else { threads };
        let inference = Inference::new(saved.policy.clone());
        Ok(Policy { saved, inference, threads, pool: OnceLock::new(), process: std::process::id() })
    }

    /// What it is: run, checkpoint, steps, options of the environment and warnings.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        let SavedPolicy { run, path, env_steps, env_options, warnings, policy, .. } = &self.saved;
        info.set_item("run", run)?;
        info.set_item("env", &policy.env)?;
        info.set_item("path", path)?;
        info.set_item("env_steps", env_steps)?;
        let env_options: BTreeMap<_, _> =
            env_options.iter().map(|(name, value)| (name, PyOption::from(value.clone()))).collect();
        info.set_item("env_options", env_options)?;
        info.set_item("warnings", warnings)?;
        Ok(info)
    }

    /// Spaces and network as JSON.
    fn metadata(&self) -> String {
        export::metadata(&self.saved)
    }

    /// `(name, shape, values)` of every array that computes an action.
    #[allow(clippy::type_complexity)]
    fn tensors<'py>(&self, py: Python<'py>) -> Vec<(String, Vec<usize>, Bound<'py, PyArray1<f32>>)> {
        let tensors = self.saved.policy.tensors().into_iter();
        tensors.map(|t| (t.name, t.shape, PyArray1::from_vec(py, t.values))).collect()
    }

    /// The actions of observations `(N, O)`, flat: `(N * components)` int64 or float32. `draw` is `(seed, step)` of a sample;
    /// without it the likeliest actions are returned.
    #[pyo3(signature = (obs, action_mask, draw))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        action_mask: Option<PyReadonlyArrayDyn<'py, i8>>,
        draw: Option<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (obs, count) = self.obs(obs)?;
        let rows = obs.rows()?;
        let legal = action_mask.as_ref().map(PyReadonlyArrayDyn::as_slice).transpose();
        let legal = legal.map_err(|error| PyValueError::new_err(format!("action_mask: {error}")))?;
        let choices = self.saved.policy.network.policy_outputs();
        if let Some(given) = legal.map(<[i8]>::len).filter(|&given| given != count * choices) {
            return Err(PyValueError::new_err(format!(
                "action_mask: expected {count} rows of {choices} choices, got {given} numbers"
            )));
        }
        let components = self.saved.policy.actions.components();
        let choice = draw.map_or(Choice::Greedy, |(seed, step)| Choice::Sampled { seed, first: 0, step });
        let mut actions = vec![0.0; count * components];
        guarded(|| {
            py.detach(|| self.share(rows, legal, choice, &mut actions));
            Ok(())
        })?;
        Ok(match self.saved.policy.actions {
            ActionSpace::Discrete(_) => {
                // Indices are exact in floats.
                PyArray1::from_iter(py, actions.into_iter().map(|action| action as i64)).into_any()
            }
            ActionSpace::Box { .. } => PyArray1::from_vec(py, actions).into_any(),
        })
    }

    /// Logits or means `(N * A)`, and values `(N)`.
    #[allow(clippy::type_complexity)]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>)> {
        let (obs, count) = self.obs(obs)?;
        let rows = obs.rows()?;
        let mut outputs = vec![0.0; count * self.saved.policy.network.policy_outputs()];
        let mut values = vec![0.0; count];
        guarded(|| {
            py.detach(|| self.inference.evaluate(rows, &mut outputs, &mut values));
            Ok(())
        })?;
        Ok((PyArray1::from_vec(py, outputs), PyArray1::from_vec(py, values)))
    }

    /// Writes an ONNX model.
    fn export_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.export(py, &path, export::write_onnx)
    }

    /// Writes the tensors as a safetensors file.
    fn export_safetensors(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.export(py, &path, export::write_safetensors)
    }
}

impl Policy {
    fn export(
        &self,
        py: Python<'_>,
        path: &Path,
        write: fn(&SavedPolicy, &Path) -> operant_run::Result<()>,
    ) -> PyResult<()> {
        guarded(|| py.detach(|| write(&self.saved, path)).map_err(|failed| error(&failed)))
    }

    /// The observations as the space has them, and how many they are.
    fn obs<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<(Obs<'py>, usize)> {
        let size = self.saved.policy.obs.size();
        let (obs, len) = match self.saved.policy.obs {
            ObsSpace::Box { .. } => {
                let array = given.cast::<PyArrayDyn<f32>>();
                let array = array.map_err(|_| PyTypeError::new_err("obs: expected a float32 array"))?;
                (Obs::Floats(array.try_readonly()?), array.len())
            }
            _ => {
                let array = given.cast::<PyArrayDyn<bool>>();
                let array = array.map_err(|_| PyTypeError::new_err("obs: expected a bool array"))?;
                (Obs::Bits(array.try_readonly()?), array.len())
            }
        };
        if let ObsRows::Floats(all) = obs.rows()?
            && all.iter().fold(false, |any, x| any | x.is_nan())
        {
            let index = all.iter().position(|x| x.is_nan()).unwrap_or_default();
            return Err(PyValueError::new_err(format!(
                "obs: expected numbers, got NaN in row {}, feature {}",
                index / size,
                index % size
            )));
        }
        Ok((obs, len / size))
    }

    /// Acts on all rows, on several threads where there are many.
    fn share(&self, obs: ObsRows<'_>, legal: Option<&[i8]>, choice: Choice, actions: &mut [f32]) {
        let components = self.saved.policy.actions.components();
        let rows = actions.len() / components;
        let is_shared = rows >= SHARED_FROM && self.threads > 1 && self.process == std::process::id();
        let pool = is_shared.then(|| self.pool.get_or_init(|| pool(self.threads)).as_ref()).flatten();
        match pool {
            None => self.inference.act(obs, legal, choice, actions),
            Some(pool) => {
                let each = rows.div_ceil(4 * self.threads.min(1024)).next_multiple_of(BLOCK);
                let choices = self.saved.policy.network.policy_outputs();
                pool.scope(|scope| {
                    for (part, actions) in actions.chunks_mut(each * components).enumerate() {
                        let (first, count) = (part * each, actions.len() / components);
                        let range = |width: usize| first * width..(first + count) * width;
                        let obs = obs.part(&self.saved.policy.obs, first..first + count);
                        let legal = legal.map(|legal| &legal[range(choices)]);
                        let choice = choice.from_row(first as u32);
                        scope.spawn(move |_| self.inference.act(obs, legal, choice, actions));
                    }
                });
            }
        }
    }
}

/// None where the system has no threads to give: one is enough.
fn pool(threads: usize) -> Option<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.thread_name(|index| format!("operant-policy-{index}")).build().ok()
}
