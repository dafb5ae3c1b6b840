//! `operant._core.Policy`: a trained policy that acts on arrays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use numpy::{
    Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyReadwriteArray1,
    PyUntypedArray, PyUntypedArrayMethods,
};
use operant_env::{ActionSpace, AnyEnv, ObsSpace};
use operant_learn::cpu::imitation::{Examples, FitSettings};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::{Config, PolicyTensor};
use operant_run::config::Requested;
use operant_run::{SavedPolicy, export};
use operant_sweep::player;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::arrays::bytes;
use crate::batch::obs::is_small;
use crate::environments::PyOption;
use crate::guarded;
use crate::train::{command_line, configure, error, parent};
use crate::world::Asked;

/// Rows from which on several threads share them: fewer take less time than waking threads does.
const SHARED_FROM: usize = 2048;

/// Observations that one block of the network takes.
const BLOCK: usize = 64;

/// A trained policy.
#[pyclass(module = "operant._core", frozen)]
pub struct Policy {
    pub(crate) saved: SavedPolicy,
    pub(crate) inference: Inference,
    threads: usize,
    /// Made by the first call that has enough rows; unused in a forked child, which has none of its threads.
    pool: OnceLock<Option<rayon::ThreadPool>>,
    process: u32,
}

/// Observations `(N, O)`: C-contiguous arrays of real numbers or bits as they were given, others in words.
enum Obs<'py> {
    Floats(PyReadonlyArrayDyn<'py, f32>),
    Bits(PyReadonlyArrayDyn<'py, bool>),
    Words(Vec<u32>),
}

impl Obs<'_> {
    fn rows(&self) -> PyResult<ObsRows<'_>> {
        let refused = |error: numpy::AsSliceError| PyValueError::new_err(format!("obs: {error}"));
        Ok(match self {
            Obs::Floats(array) => ObsRows::Floats(array.as_slice().map_err(refused)?),
            Obs::Bits(array) => ObsRows::Bits(array.as_slice().map_err(refused)?),
            Obs::Words(words) => ObsRows::Words(words),
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
        let inference = Inference::new(saved.policy.clone());
        Ok(Self::of(saved, inference, threads))
    }

    /// The policy with which training with these settings begins.
    #[staticmethod]
    fn untrained(
        env: Asked,
        settings: Vec<(String, String)>,
        env_options: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let (env, requested) = configured(env, settings, env_options)?;
        let saved = guarded(|| SavedPolicy::untrained(&*env, &requested).map_err(|failed| error(&failed)))?;
        let inference = Inference::new(saved.policy.clone());
        Ok(Self::of(saved, inference, requested.settings.run.threads))
    }

    /// Its description: run, checkpoint, steps, options of the environment and warnings.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        let SavedPolicy { run, path, env_steps, env_options, warnings, policy, .. } = &self.saved;
        info.set_item("run", run)?;
        info.set_item("env", &policy.env)?;
        info.set_item("path", path)?;
        info.set_item("env_steps", env_steps)?;
        info.set_item("seed", self.saved.seed)?;
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

    /// The same policy with other values of all its [`Policy::tensors`].
    fn with_tensors(&self, tensors: Vec<(String, Vec<usize>, PyReadonlyArray1<'_, f32>)>) -> PyResult<Self> {
        let tensor = |(name, shape, values): (_, _, PyReadonlyArray1<'_, f32>)| {
            Ok(PolicyTensor { name, shape, values: values.as_slice()?.to_vec() })
        };
        let tensors: PyResult<Vec<_>> = tensors.into_iter().map(tensor).collect();
        let saved = self.saved.with_tensors(&tensors?).map_err(|failed| error(&failed))?;
        let inference = self.inference.with_weights(saved.policy.clone());
        Ok(Policy::of(saved, inference, self.threads))
    }

    /// The same policy fitted to actions, `(N * components)`, and the mean loss of each epoch. `on_epoch` gets each loss; False ends it.
    #[pyo3(signature = (obs, actions, action_mask, *, epochs, batch_size, learning_rate, max_grad_norm, seed, on_epoch))]
    #[allow(clippy::too_many_arguments)] // the keywords of operant.fit
    fn fitted<'py>(
        &self,
        py: Python<'py>,
        obs: Vec<Bound<'py, PyAny>>,
        actions: PyReadonlyArray1<'py, f32>,
        action_mask: Option<PyReadonlyArrayDyn<'py, i8>>,
        epochs: usize,
        batch_size: usize,
        learning_rate: f64,
        max_grad_norm: f64,
        seed: u64,
        on_epoch: Option<Py<PyAny>>,
    ) -> PyResult<(Self, Vec<f64>)> {
        let (obs, _) = self.obs(&obs)?;
        let legal = action_mask.as_ref().map(PyReadonlyArrayDyn::as_slice).transpose()?;
        let examples = Examples { obs: obs.rows()?, actions: actions.as_slice()?, legal };
        let settings = FitSettings { epochs, batch_size, learning_rate, max_grad_norm, seed };
        let pool =
            pool(self.threads).ok_or_else(|| PyRuntimeError::new_err("the system gives no more threads"))?;
        let (mut losses, mut raised) = (Vec::new(), None);
        let mut after = |loss: f64| {
            losses.push(loss);
            let continues = Python::attach(|py| -> PyResult<bool> {
                py.check_signals()?;
                let Some(on_epoch) = &on_epoch else { return Ok(true) };
                let returned = on_epoch.call1(py, (loss,))?;
                Ok(!returned.bind(py).is(PyBool::new(py, false)))
            });
            continues.unwrap_or_else(|error| {
                raised = Some(error);
                false
            })
        };
        let fitted = guarded(|| {
            let fitted = py.detach(|| self.inference.fitted(&pool, &examples, &settings, &mut after));
            fitted.map_err(|failed| error(&failed.into()))
        });
        if let Some(raised) = raised {
            return Err(raised);
        }
        let saved = SavedPolicy { is_changed: true, policy: fitted?, ..self.saved.clone() };
        let inference = self.inference.with_weights(saved.policy.clone());
        Ok((Policy::of(saved, inference, self.threads), losses))
    }

    /// Whether its arrays are no longer those of its checkpoint.
    #[getter]
    fn is_changed(&self) -> bool {
        self.saved.is_changed
    }

    /// Numbers of state that it carries from step to step: 0 without memory.
    #[getter]
    fn states(&self) -> usize {
        self.inference.states()
    }

    /// The actions of observations, an array `(N, numbers)` for each part: float32, bool, or for indices and bytes uint8, uint16 or
    /// int64. Flat: `(N * components)` int64 or float32. `draw` is `(seed, step)` of a sample; without it the most probable
    /// actions are returned. `states`, `(N * states)`, are replaced by those after the step.
    #[pyo3(signature = (obs, action_mask, draw, states))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        obs: Vec<Bound<'py, PyAny>>,
        action_mask: Option<PyReadonlyArrayDyn<'py, i8>>,
        draw: Option<(u64, u64)>,
        mut states: PyReadwriteArray1<'py, f32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (obs, count) = self.obs(&obs)?;
        let states = self.states_of(&mut states, count)?;
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
        let choice = draw.map_or(Choice::Greedy, |(seed, step)| Choice::Sampled {
            seed,
            first: 0,
            step,
            evaluation: false,
        });
        let mut actions = vec![0.0; count * components];
        guarded(|| {
            py.detach(|| self.share(rows, legal, choice, states, &mut actions));
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

    /// Logits or means `(N * A)`, and values `(N)`; `states` as for `act`.
    #[allow(clippy::type_complexity)]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        obs: Vec<Bound<'py, PyAny>>,
        mut states: PyReadwriteArray1<'py, f32>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>)> {
        let (obs, count) = self.obs(&obs)?;
        let states = self.states_of(&mut states, count)?;
        let rows = obs.rows()?;
        let mut outputs = vec![0.0; count * self.saved.policy.network.policy_outputs()];
        let mut values = vec![0.0; count];
        guarded(|| {
            py.detach(|| self.inference.evaluate(rows, states, &mut outputs, &mut values));
            Ok(())
        })?;
        Ok((PyArray1::from_vec(py, outputs), PyArray1::from_vec(py, values)))
    }

    /// Saves it as a directory that `Policy` takes.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        guarded(|| py.detach(|| self.saved.save(&path)).map_err(|failed| error(&failed)))
    }

    /// Writes an ONNX model.
    fn export_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.export(py, &path, export::write_onnx)
    }

    /// Writes the tensors as a safetensors file.
    fn export_safetensors(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.export(py, &path, export::write_safetensors)
    }

    /// Writes a C file; returns what weights of int8 cost, where they are asked for.
    fn export_c(&self, py: Python<'_>, path: PathBuf, name: &str, int8: bool) -> PyResult<Option<String>> {
        let write = || {
            let (header, loss) = export::c::header(&self.saved, name, int8)?;
            header.write(&path).map(|()| loss)
        };
        guarded(|| py.detach(write).map_err(|failed| error(&failed)))
    }

    /// Writes a web page in which it plays.
    fn export_html(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.export(py, &path, |saved, path| player::write(&player::page(saved)?, path))
    }
}

impl Policy {
    fn of(saved: SavedPolicy, inference: Inference, threads: usize) -> Self {
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { usable } else { threads };
        Policy { saved, inference, threads, pool: OnceLock::new(), process: std::process::id() }
    }

    fn export(
        &self,
        py: Python<'_>,
        path: &Path,
        write: fn(&SavedPolicy, &Path) -> operant_run::Result<()>,
    ) -> PyResult<()> {
        guarded(|| py.detach(|| write(&self.saved, path)).map_err(|failed| error(&failed)))
    }

    /// The observations as the network takes them, and how many they are.
    fn obs<'py>(&self, given: &[Bound<'py, PyAny>]) -> PyResult<(Obs<'py>, usize)> {
        let space = &self.saved.policy.obs;
        match (space, given) {
            (ObsSpace::Box { low, .. }, [array]) => {
                let array: PyReadonlyArrayDyn<'py, f32> = typed(array, "obs")?;
                let obs = Obs::Floats(array);
                if let ObsRows::Floats(all) = obs.rows()?
                    && all.iter().fold(false, |any, x| any | !x.is_finite())
                {
                    let index = all.iter().position(|x| !x.is_finite()).unwrap_or_default();
                    return Err(not_finite("obs", all[index], index / low.len(), index % low.len()));
                }
                let count = obs.rows()?.rows(space);
                Ok((obs, count))
            }
            (ObsSpace::Binary { .. }, [array]) => {
                let obs = Obs::Bits(truths(array, "obs")?);
                let count = obs.rows()?.rows(space);
                Ok((obs, count))
            }
            _ => pack(space, given).map(|(words, count)| (Obs::Words(words), count)),
        }
    }

    /// The states of `count` rows.
    fn states_of<'a>(
        &self,
        states: &'a mut PyReadwriteArray1<'_, f32>,
        count: usize,
    ) -> PyResult<&'a mut [f32]> {
        let each = self.inference.states();
        let states =
            states.as_slice_mut().map_err(|error| PyValueError::new_err(format!("state: {error}")))?;
        if states.len() != count * each {
            let got = states.len();
            return Err(PyValueError::new_err(format!(
                "state: expected {count} rows of {each} numbers, got {got} numbers"
            )));
        }
        Ok(states)
    }

    /// Acts on all rows, on several threads where there are many.
    fn share(
        &self,
        obs: ObsRows<'_>,
        legal: Option<&[i8]>,
        choice: Choice,
        states: &mut [f32],
        actions: &mut [f32],
    ) {
        let components = self.saved.policy.actions.components();
        let rows = actions.len() / components;
        let is_shared = rows >= SHARED_FROM && self.threads > 1 && self.process == std::process::id();
        let pool = is_shared.then(|| self.pool.get_or_init(|| pool(self.threads)).as_ref()).flatten();
        match pool {
            None => self.inference.act(obs, legal, choice, states, actions),
            Some(pool) => {
                let each = rows.div_ceil(4 * self.threads.min(1024)).next_multiple_of(BLOCK);
                let choices = self.saved.policy.network.policy_outputs();
                let mut states = states;
                pool.scope(|scope| {
                    for (part, actions) in actions.chunks_mut(each * components).enumerate() {
                        let (first, count) = (part * each, actions.len() / components);
                        let range = |width: usize| first * width..(first + count) * width;
                        let obs = obs.part(&self.saved.policy.obs, first..first + count);
                        let legal = legal.map(|legal| &legal[range(choices)]);
                        let choice = choice.from_row(first as u32);
                        let of_part = states.split_off_mut(..count * self.inference.states());
                        let states = of_part.unwrap_or_default();
                        scope.spawn(move |_| self.inference.act(obs, legal, choice, states, actions));
                    }
                });
            }
        }
    }
}

/// The environment, and the settings with which it would be trained.
fn configured(
    env: Asked,
    settings: Vec<(String, String)>,
    env_options: Vec<(String, String)>,
) -> PyResult<(Arc<dyn AnyEnv>, Requested)> {
    let (registry, name) = env.find();
    let line = command_line(settings, env_options, None)?;
    let made = || configure(&registry, Some(&name), None, false, &line).map_err(|failed| error(&failed));
    guarded(made).map(|(env, _, requested)| (env, requested))
}

/// The settings of rollouts with which an environment would be trained: number of environments and of steps, gamma and lambda, seed and
/// threads (0: all).
#[pyfunction]
pub fn rollout_settings(
    env: Asked,
    settings: Vec<(String, String)>,
    env_options: Vec<(String, String)>,
) -> PyResult<(usize, usize, f64, f64, u64, usize)> {
    let (_, Requested { settings, .. }) = configured(env, settings, env_options)?;
    let Config { num_envs, num_steps, gamma, seed, algorithm, .. } = settings.learner;
    let lambda = (algorithm.declaration().return_lambda)(&settings.learner);
    Ok((num_envs, num_steps, gamma, lambda, seed, settings.run.threads))
}

/// The array, if it has this type.
fn typed<'py, T: Element>(array: &Bound<'py, PyAny>, label: &str) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let array = array.cast::<PyArrayDyn<T>>().map_err(|_| {
        PyTypeError::new_err(format!("{label}: expected an array of {}", numpy::dtype::<T>(array.py())))
    })?;
    Ok(array.try_readonly()?)
}

/// An array of truth values. A `bool` of Rust is 0 or 1, so that other bytes, which NumPy takes as true, are copied as such.
fn truths<'py>(array: &Bound<'py, PyAny>, label: &str) -> PyResult<PyReadonlyArrayDyn<'py, bool>> {
    if let Ok(given) = array.cast::<PyArrayDyn<bool>>() {
        let as_bytes = bytes(given.as_any())?;
        if as_bytes.try_readonly()?.as_array().iter().fold(false, |any, byte| any | (*byte > 1)) {
            return typed(&as_bytes.call_method1("__ne__", (0,))?, label);
        }
    }
    typed(array, label)
}

fn not_finite(label: &str, value: f32, row: usize, item: usize) -> PyErr {
    PyValueError::new_err(format!(
        "{label}: expected finite numbers, got {value} in row {row}, feature {item}"
    ))
}

/// Observations in words, from an array `(N, numbers)` of each part; and how many they are.
pub fn pack(space: &ObsSpace, given: &[Bound<'_, PyAny>]) -> PyResult<(Vec<u32>, usize)> {
    let parts = space.parts();
    let len = |array: &Bound<'_, PyAny>| array.cast::<PyUntypedArray>().map_or(0, |array| array.len());
    let count = given.first().map_or(0, |array| len(array) / parts[0].1.size());
    if parts.len() != given.len()
        || parts.iter().zip(given).any(|((_, part), array)| len(array) != count * part.size())
    {
        return Err(PyValueError::new_err("obs: expected an array of as many rows for each part"));
    }
    let (mut words, width, mut first) = (vec![0; count * space.words()], space.words(), 0);
    for ((name, part), array) in parts.into_iter().zip(given) {
        let label = if name.is_empty() { "obs".to_owned() } else { format!("obs['{name}']") };
        let to = PackedPart { words: &mut words, width, first, size: part.size() };
        match part {
            ObsSpace::Box { .. } => {
                let given = typed::<f32>(array, &label)?;
                let packed = to.pack::<_, 32>(&given, |_, x| x.is_finite().then(|| x.to_bits()))?;
                packed.map_err(|(row, item, value)| not_finite(&label, value, row, item))?;
            }
            ObsSpace::Binary { .. } => {
                // No bit is refused.
                let _ = to.pack::<_, 1>(&truths(array, &label)?, |_, x| Some(u32::from(x)))?;
            }
            _ => {
                let bounds: Vec<u32> = match part {
                    ObsSpace::Index { .. } => part.bounds().collect(),
                    _ => vec![256; part.size()],
                };
                if let Ok(array) = array.cast::<PyArrayDyn<u8>>() {
                    to.pack_whole(&array.try_readonly()?, &bounds, &label)?;
                } else if let Ok(array) = array.cast::<PyArrayDyn<u16>>() {
                    to.pack_whole(&array.try_readonly()?, &bounds, &label)?;
                } else {
                    to.pack_whole(&typed::<i64>(array, &label)?, &bounds, &label)?;
                }
            }
        }
        first += part.words();
    }
    Ok((words, count))
}

/// The words of a part: in rows of `width` words, those from the word `first` on.
struct PackedPart<'a> {
    words: &'a mut [u32],
    width: usize,
    first: usize,
    /// Numbers of an observation.
    size: usize,
}

/// Row and number of what is refused, and what it is.
type Refused<T> = Result<(), (usize, usize, T)>;

impl PackedPart<'_> {
    /// Writes rows of numbers, each in BITS bits as `field` gives them.
    fn pack<T: Element + Copy, const BITS: usize>(
        self,
        array: &PyReadonlyArrayDyn<'_, T>,
        field: impl Fn(usize, T) -> Option<u32>,
    ) -> PyResult<Refused<T>> {
        let all = array.as_slice().map_err(|error| PyValueError::new_err(format!("obs: {error}")))?;
        for (row, numbers) in all.chunks_exact(self.size).enumerate() {
            let to = &mut self.words[row * self.width + self.first..];
            for (item, &number) in numbers.iter().enumerate() {
                let Some(field) = field(item, number) else { return Ok(Err((row, item, number))) };
                to[item / (32 / BITS)] |= field << (item % (32 / BITS) * BITS);
            }
        }
        Ok(Ok(()))
    }

    /// Writes rows of whole numbers below these bounds.
    fn pack_whole<T: Element + Copy + Into<i64>>(
        self,
        array: &PyReadonlyArrayDyn<'_, T>,
        bounds: &[u32],
        label: &str,
    ) -> PyResult<()> {
        let field = |item: usize, number: T| {
            let number: i64 = number.into();
            (0..i64::from(bounds[item])).contains(&number).then_some(number as u32)
        };
        let packed = if is_small(bounds) {
            self.pack::<T, 8>(array, field)?
        } else {
            self.pack::<T, 16>(array, field)?
        };
        packed.map_err(|(row, item, number)| {
            let (most, number): (u32, i64) = (bounds[item] - 1, number.into());
            PyValueError::new_err(format!(
                "{label}: expected whole numbers from 0 to {most}, got {number} in row {row}, number {item}"
            ))
        })
    }
}

/// None where the system has no threads to give: one is enough.
fn pool(threads: usize) -> Option<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.thread_name(|index| format!("operant-policy-{index}")).build().ok()
}
