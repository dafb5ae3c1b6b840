//! What `operant.Replay` needs of the engine: how rows are laid out, and where a checkpoint has them.

use std::path::PathBuf;

use numpy::{PyArray1, PyArrayMethods};
use operant_env::{ActionSpace, ObsSpace};
use operant_learn::cpu::off_policy::given::Given;
use operant_learn::cpu::off_policy::replay::ReplayLayout;
use operant_run::checkpoint::{ReplayFile, find_replay};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::obs::is_small;
use crate::guarded;
use crate::policy::{Policy, pack};
use crate::train::error;

/// Bits of a number of a part.
fn bits(space: &ObsSpace) -> usize {
    match space {
        ObsSpace::Box { .. } => 32,
        ObsSpace::Binary { .. } => 1,
        ObsSpace::Index { below, .. } if !is_small(below) => 16,
        _ => 8,
    }
}

/// How a row of transitions is laid out: the word of each field and of the next row; `(first word, words, bits of a number)` of each part
/// of an observation; and the bounds of real actions.
#[pyfunction]
pub fn replay_layout<'py>(py: Python<'py>, policy: &Policy) -> PyResult<Bound<'py, PyDict>> {
    let of = &policy.saved.policy;
    let ReplayLayout { mask, actions, reward, end, stride, .. } =
        ReplayLayout::new(&of.network.architecture, of.masked);
    let layout = PyDict::new(py);
    for (name, word) in
        [("mask", mask), ("action", actions), ("reward", reward), ("end", end), ("stride", stride)]
    {
        layout.set_item(name, word)?;
    }
    let mut first = 0;
    let parts = of.obs.parts().into_iter().map(|(_, space)| {
        let part = (first, space.words(), bits(space));
        first += part.1;
        part
    });
    layout.set_item("parts", parts.collect::<Vec<_>>())?;
    if let ActionSpace::Box { low, high } = &of.actions {
        layout.set_item("low", PyArray1::from_slice(py, low))?;
        layout.set_item("high", PyArray1::from_slice(py, high))?;
    }
    Ok(layout)
}

/// Observations as rows have them, flat, from an array `(N, numbers)` of each part.
#[pyfunction]
pub fn packed<'py>(
    py: Python<'py>,
    policy: &Policy,
    obs: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let (words, _) = pack(&policy.saved.policy.obs, &obs)?;
    Ok(PyArray1::from_vec(py, words))
}

/// The file of the replay of a policy's checkpoint: its path, the rows that each environment ever completed, `(environments, rows, words)`, and
/// the first byte of the rows.
#[pyfunction]
#[pyo3(name = "find_replay")]
pub fn find(py: Python<'_>, policy: &Policy) -> PyResult<(PathBuf, Vec<u64>, [usize; 3], u64)> {
    let path = policy.saved.path.clone();
    let found = guarded(|| py.detach(|| find_replay(&path)).map_err(|failed| error(&failed.into())))?;
    let Some(ReplayFile { heads, shape, first }) = found else {
        let path = path.display();
        return Err(PyValueError::new_err(format!(
            "{path} has no replay: train with an algorithm that has one, and with checkpoint_replay=True"
        )));
    };
    Ok((path.join("replay.safetensors"), heads, shape, first))
}

/// A replay of Python's: a policy with its spaces, the rows that each environment ever completed, and their rings.
#[derive(FromPyObject)]
pub struct Asked<'py>(PyRef<'py, Policy>, Py<PyArray1<u64>>, Py<PyArray1<u32>>);

impl Asked<'_> {
    /// As a run takes it, where it is.
    pub fn given(self) -> Given {
        let Self(policy, heads, words) = self;
        let of = &policy.saved.policy;
        let (env, obs, actions) = (of.env.clone(), of.obs.clone(), of.actions.clone());
        let layout = ReplayLayout::new(&of.network.architecture, of.masked);
        let read = move |take: &mut dyn FnMut(&[u64], &[u32])| {
            Python::attach(|py| {
                let (heads, words) = (heads.bind(py).readonly(), words.bind(py).readonly());
                // Both are contiguous: Python made them so.
                if let (Ok(heads), Ok(words)) = (heads.as_slice(), words.as_slice()) {
                    take(heads, words);
                }
            });
        };
        Given { env, obs, actions, layout, read: Box::new(read) }
    }
}
