//! NumPy arrays as the slices that a step reads and writes.

use numpy::{
    Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use operant_env::{ActionSpace, ObsSpace};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::obs::{Dtype, Obs};
use crate::batch::{Actions, Arrays, Batch, Judged, Rewards, Taken};

/// The arrays of one set of outputs. They are checked when the set is made, and written by each step.
#[pyclass(module = "operant._core", frozen)]
pub struct Buffers {
    obs: Held,
    final_obs: Held,
    rewards: Py<PyAny>,
    terminated: Py<PyArrayDyn<u8>>,
    truncated: Py<PyArrayDyn<u8>>,
    ended: Py<PyArrayDyn<u8>>,
    returns: Py<PyArrayDyn<f32>>,
    lengths: Py<PyArrayDyn<i32>>,
    mask: Py<PyArrayDyn<i8>>,
    player: Py<PyArrayDyn<u32>>,
}

/// Arrays of observations.
enum Held {
    One(Dtype, Py<PyAny>),
    Parts(Vec<Held>),
}

impl Held {
    /// The array `name` of this many observations, or the arrays of its parts, such as `obs.image`.
    fn of(arrays: &Bound<'_, PyDict>, name: &str, rows: usize, space: &ObsSpace) -> PyResult<Self> {
        if let ObsSpace::Parts(parts) = space {
            let parts =
                parts.iter().map(|(part, space)| Held::of(arrays, &format!("{name}.{part}"), rows, space));
            return Ok(Held::Parts(parts.collect::<PyResult<_>>()?));
        }
        let (array, dtype, len) = (get(arrays, name)?, Dtype::of(space), rows * space.size());
        match dtype {
            Dtype::Bool => return Ok(Held::One(dtype, truths(&array, name, len)?.into_any())),
            Dtype::F32 => plain::<f32>(&array, name, len).map(drop),
            Dtype::U8 => plain::<u8>(&array, name, len).map(drop),
            Dtype::U16 => plain::<u16>(&array, name, len).map(drop),
            Dtype::I64 => plain::<i64>(&array, name, len).map(drop),
        }?;
        Ok(Held::One(dtype, array.unbind()))
    }

    fn guard<'py>(&self, py: Python<'py>, name: &str) -> PyResult<ObsGuard<'py>> {
        fn guard<'py, T: Element>(
            array: &Py<PyAny>,
            py: Python<'py>,
            name: &str,
        ) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
            writable(array.bind(py).cast::<PyArrayDyn<T>>()?, name)
        }
        Ok(match self {
            Held::One(Dtype::F32, array) => ObsGuard::F32(guard(array, py, name)?),
            Held::One(Dtype::Bool, array) => ObsGuard::Bool(guard(array, py, name)?),
            Held::One(Dtype::U8, array) => ObsGuard::U8(guard(array, py, name)?),
            Held::One(Dtype::U16, array) => ObsGuard::U16(guard(array, py, name)?),
            Held::One(Dtype::I64, array) => ObsGuard::I64(guard(array, py, name)?),
            Held::Parts(parts) => {
                ObsGuard::Parts(parts.iter().map(|part| part.guard(py, name)).collect::<PyResult<_>>()?)
            }
        })
    }
}

/// Guards of the arrays of observations.
enum ObsGuard<'py> {
    F32(PyReadwriteArrayDyn<'py, f32>),
    Bool(PyReadwriteArrayDyn<'py, u8>),
    U8(PyReadwriteArrayDyn<'py, u8>),
    U16(PyReadwriteArrayDyn<'py, u16>),
    I64(PyReadwriteArrayDyn<'py, i64>),
    Parts(Vec<ObsGuard<'py>>),
}

impl ObsGuard<'_> {
    fn slices(&mut self) -> PyResult<Obs<'_>> {
        Ok(match self {
            Self::F32(array) => Obs::F32(slice(array)?),
            Self::Bool(array) => Obs::Bool(slice(array)?),
            Self::U8(array) => Obs::U8(slice(array)?),
            Self::U16(array) => Obs::U16(slice(array)?),
            Self::I64(array) => Obs::I64(slice(array)?),
            Self::Parts(parts) => Obs::Parts(parts.iter_mut().map(Self::slices).collect::<PyResult<_>>()?),
        })
    }
}

fn get<'py>(arrays: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    arrays
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("{name}: expected an array, got none")))
}

fn typed<'py, T: Element>(
    array: &Bound<'py, PyAny>,
    name: &str,
    len: usize,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let Ok(array) = array.cast::<PyArrayDyn<T>>() else {
        let dtype = numpy::dtype::<T>(array.py());
        return Err(PyTypeError::new_err(format!(
            "{name}: expected an array of {dtype}, got {}",
            described(array)
        )));
    };
    if array.len() != len || !array.is_c_contiguous() {
        let shape = array.shape();
        return Err(PyValueError::new_err(format!(
            "{name}: expected a C-contiguous array of {len} numbers, got shape {shape:?}"
        )));
    }
    Ok(array.clone())
}

fn writable<'py, T: Element>(
    array: &Bound<'py, PyArrayDyn<T>>,
    name: &str,
) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    array.try_readwrite().map_err(|error| PyValueError::new_err(format!("{name} cannot be written: {error}")))
}

/// `int64 array of shape (3, 2)`, or the type of any other value.
fn described(value: &Bound<'_, PyAny>) -> String {
    match value.cast::<PyUntypedArray>() {
        Ok(array) => format!("{} array of shape {:?}", array.dtype(), array.shape()),
        Err(_) => {
            value.get_type().name().map_or_else(|_| "another object".to_owned(), |name| name.to_string())
        }
    }
}

/// An array of this type and length that can be written.
fn plain<T: Element>(array: &Bound<'_, PyAny>, name: &str, len: usize) -> PyResult<Py<PyArrayDyn<T>>> {
    let array = typed::<T>(array, name, len)?;
    writable(&array, name).map(drop)?;
    Ok(array.unbind())
}

/// The bytes of an array of truth values. NumPy takes any byte but 0 as true, and a `bool` of Rust is 0 or 1.
pub fn bytes<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDyn<u8>>> {
    Ok(array.call_method1("view", ("u1",))?.cast_into()?)
}

/// As [`plain`], of truth values.
fn truths(array: &Bound<'_, PyAny>, name: &str, len: usize) -> PyResult<Py<PyArrayDyn<u8>>> {
    plain::<bool>(array, name, len)?;
    bytes(array).map(Bound::unbind)
}

impl Buffers {
    /// The arrays of a step, by name, for this many environments, whose masks have `choices`, and which are games of several players or not.
    pub fn of(
        arrays: &Bound<'_, PyDict>,
        num_envs: usize,
        space: &ObsSpace,
        (choices, is_game): (usize, bool),
    ) -> PyResult<Self> {
        fn named<T: Element>(
            arrays: &Bound<'_, PyDict>,
            name: &str,
            len: usize,
        ) -> PyResult<Py<PyArrayDyn<T>>> {
            plain(&get(arrays, name)?, name, len)
        }
        let rewards = get(arrays, "rewards")?;
        match rewards.cast::<PyArrayDyn<f64>>() {
            Ok(_) => plain::<f64>(&rewards, "rewards", num_envs).map(drop)?,
            Err(_) => plain::<f32>(&rewards, "rewards", num_envs).map(drop)?,
        }
        Ok(Buffers {
            obs: Held::of(arrays, "obs", num_envs, space)?,
            final_obs: Held::of(arrays, "final_obs", num_envs, space)?,
            rewards: rewards.unbind(),
            terminated: truths(&get(arrays, "terminated")?, "terminated", num_envs)?,
            truncated: truths(&get(arrays, "truncated")?, "truncated", num_envs)?,
            ended: truths(&get(arrays, "ended")?, "ended", num_envs)?,
            returns: named(arrays, "returns", num_envs)?,
            lengths: named(arrays, "lengths", num_envs)?,
            mask: named(arrays, "mask", num_envs * choices)?,
            player: named(arrays, "player", if is_game { num_envs } else { 0 })?,
        })
    }
}

/// A guard of an array of one of two types.
enum Either<'py, A: Element, B: Element> {
    A(PyReadwriteArrayDyn<'py, A>),
    B(PyReadwriteArrayDyn<'py, B>),
}

fn either<'py, A: Element, B: Element>(
    array: &Py<PyAny>,
    py: Python<'py>,
    name: &str,
) -> PyResult<Either<'py, A, B>> {
    let array = array.bind(py);
    match array.cast::<PyArrayDyn<A>>() {
        Ok(array) => writable(array, name).map(Either::A),
        Err(_) => writable(array.cast::<PyArrayDyn<B>>()?, name).map(Either::B),
    }
}

fn slice<'a, T: Element>(array: &'a mut PyReadwriteArrayDyn<'_, T>) -> PyResult<&'a mut [T]> {
    array.as_slice_mut().map_err(|error| PyValueError::new_err(error.to_string()))
}

impl Buffers {
    /// Calls `work` with the arrays as slices.
    pub fn with<T>(&self, py: Python<'_>, work: impl FnOnce(Arrays<'_>) -> PyResult<T>) -> PyResult<T> {
        let mut obs = self.obs.guard(py, "obs")?;
        let mut final_obs = self.final_obs.guard(py, "final_obs")?;
        let mut rewards = either::<f32, f64>(&self.rewards, py, "rewards")?;
        let mut terminated = writable(self.terminated.bind(py), "terminated")?;
        let mut truncated = writable(self.truncated.bind(py), "truncated")?;
        let mut ended = writable(self.ended.bind(py), "ended")?;
        let mut returns = writable(self.returns.bind(py), "returns")?;
        let mut lengths = writable(self.lengths.bind(py), "lengths")?;
        let mut mask = writable(self.mask.bind(py), "mask")?;
        let mut player = writable(self.player.bind(py), "player")?;
        work(Arrays {
            obs: obs.slices()?,
            final_obs: final_obs.slices()?,
            rewards: match &mut rewards {
                Either::A(array) => Rewards::F32(slice(array)?),
                Either::B(array) => Rewards::F64(slice(array)?),
            },
            terminated: slice(&mut terminated)?,
            truncated: slice(&mut truncated)?,
            ended: slice(&mut ended)?,
            returns: slice(&mut returns)?,
            lengths: slice(&mut lengths)?,
            mask: slice(&mut mask)?,
            player: slice(&mut player)?,
        })
    }
}

/// Actions `(T, N, components)` that a policy takes.
pub enum TakenActions<'py> {
    I64(PyReadwriteArrayDyn<'py, i64>),
    F32(PyReadwriteArrayDyn<'py, f32>),
}

impl<'py> TakenActions<'py> {
    /// The array of this many actions.
    pub fn of(array: &Bound<'py, PyAny>, space: &ActionSpace, len: usize) -> PyResult<Self> {
        Ok(match space {
            ActionSpace::Discrete(_) => Self::I64(writable(&typed(array, "actions", len)?, "actions")?),
            ActionSpace::Box { .. } => Self::F32(writable(&typed(array, "actions", len)?, "actions")?),
        })
    }

    /// Each step's part, of `len` numbers.
    pub fn steps(&mut self, len: usize) -> PyResult<Vec<Taken<'_>>> {
        Ok(match self {
            Self::I64(array) => slice(array)?.chunks_exact_mut(len).map(Taken::I64).collect(),
            Self::F32(array) => slice(array)?.chunks_exact_mut(len).map(Taken::F32).collect(),
        })
    }
}

/// What a policy computes besides actions: arrays of `(T, N)` rows, and `(N)` of the observations after the last step.
pub struct JudgedArrays<'py> {
    logprobs: PyReadwriteArrayDyn<'py, f32>,
    values: PyReadwriteArrayDyn<'py, f32>,
    final_values: PyReadwriteArrayDyn<'py, f32>,
    next_values: PyReadwriteArrayDyn<'py, f32>,
}

/// The arrays of each step, and those after the last one.
pub type JudgedSteps<'a> = (Vec<Judged<'a>>, &'a mut [f32]);

impl<'py> JudgedArrays<'py> {
    /// Those of a dictionary.
    pub fn of(arrays: &Bound<'py, PyDict>, steps: usize, num_envs: usize) -> PyResult<Self> {
        let named = |name: &str, len| writable(&typed(&get(arrays, name)?, name, len)?, name);
        let all = |name| named(name, steps * num_envs);
        Ok(Self {
            logprobs: all("logprobs")?,
            values: all("values")?,
            final_values: all("final_values")?,
            next_values: named("next_values", num_envs)?,
        })
    }

    /// The arrays of each step, and those after the last one.
    pub fn steps(&mut self, num_envs: usize) -> PyResult<JudgedSteps<'_>> {
        let logprobs = slice(&mut self.logprobs)?.chunks_exact_mut(num_envs);
        let values = slice(&mut self.values)?.chunks_exact_mut(num_envs);
        let final_values = slice(&mut self.final_values)?.chunks_exact_mut(num_envs);
        let steps = logprobs.zip(values).zip(final_values);
        let steps = steps.map(|((logprobs, values), final_values)| Judged { logprobs, values, final_values });
        Ok((steps.collect(), slice(&mut self.next_values)?))
    }
}

/// Actions as they were given, or converted where their type or layout needs it.
pub enum GivenActions<'py> {
    I64(PyReadonlyArrayDyn<'py, i64>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    U8(PyReadonlyArrayDyn<'py, u8>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
}

impl<'py> GivenActions<'py> {
    /// Actions of `steps` steps of this batch.
    pub fn of(given: &Bound<'py, PyAny>, batch: &Batch, steps: Option<usize>) -> PyResult<Self> {
        let is_discrete = matches!(batch.spec.actions, ActionSpace::Discrete(_));
        let found = if is_discrete { Self::whole(given) } else { Self::real(given) };
        let actions = match found {
            Some(actions) => actions,
            None => {
                let converted = convert(given, is_discrete)?;
                let found = if is_discrete { Self::whole(&converted) } else { Self::real(&converted) };
                found.ok_or_else(|| PyTypeError::new_err("actions: cannot be converted"))?
            }
        };
        actions.check_shape(batch, steps)?;
        Ok(actions)
    }

    fn whole(given: &Bound<'py, PyAny>) -> Option<Self> {
        contiguous(given)
            .map(Self::I64)
            .or_else(|| contiguous(given).map(Self::I32))
            .or_else(|| contiguous(given).map(Self::U8))
    }

    fn real(given: &Bound<'py, PyAny>) -> Option<Self> {
        contiguous(given).map(Self::F32).or_else(|| contiguous(given).map(Self::F64))
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::I64(array) => array.shape(),
            Self::I32(array) => array.shape(),
            Self::U8(array) => array.shape(),
            Self::F32(array) => array.shape(),
            Self::F64(array) => array.shape(),
        }
    }

    fn check_shape(&self, batch: &Batch, steps: Option<usize>) -> PyResult<()> {
        let (shape, components) = (self.shape(), batch.spec.actions.components());
        let mut expected: Vec<usize> = steps.into_iter().chain([batch.num_envs]).collect();
        // A single discrete component has no axis; a box always has one.
        let is_flat = components == 1 && matches!(batch.spec.actions, ActionSpace::Discrete(_));
        if !is_flat {
            expected.push(components);
        }
        if shape == expected {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("actions: expected shape {expected:?}, got {shape:?}")))
    }

    /// The actions as a slice.
    pub fn slice(&self) -> PyResult<Actions<'_>> {
        let error = |error: numpy::AsSliceError| PyValueError::new_err(error.to_string());
        Ok(match self {
            Self::I64(array) => Actions::I64(array.as_slice().map_err(error)?),
            Self::I32(array) => Actions::I32(array.as_slice().map_err(error)?),
            Self::U8(array) => Actions::U8(array.as_slice().map_err(error)?),
            Self::F32(array) => Actions::F32(array.as_slice().map_err(error)?),
            Self::F64(array) => Actions::F64(array.as_slice().map_err(error)?),
        })
    }
}

/// An array of this type that is C-contiguous.
fn contiguous<'py, T: Element>(given: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, T>> {
    let array = given.cast::<PyArrayDyn<T>>().ok().filter(|array| array.is_c_contiguous())?;
    array.try_readonly().ok()
}

/// Lists, other dtypes and strides, as a contiguous array of a type that is taken; never a number to another number.
fn convert<'py>(given: &Bound<'py, PyAny>, is_discrete: bool) -> PyResult<Bound<'py, PyAny>> {
    let numpy = given.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (given,))?;
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    let (kinds, wanted, to) =
        if is_discrete { ("iu", "integers", "int64") } else { ("fiu", "real numbers", "float32") };
    if !kinds.contains(&kind) {
        return Err(PyTypeError::new_err(format!("actions: expected {wanted}, got dtype {dtype}")));
    }
    numpy.call_method1("ascontiguousarray", (array, to))
}
