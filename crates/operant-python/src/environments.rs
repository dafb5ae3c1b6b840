//! `operant._core.Environments`: N environments that step arrays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2};
use operant_draw::canvas::Layout;
use operant_draw::film::return_text;
use operant_env::{
    ActionSpace, AnyEnv, Autoreset, EnvError, EnvOption, EnvOptions, EnvSpec, ObsSpace, OptionValue,
    OptionValues, Registry, running_words,
};
use operant_learn::cpu::gae;
use operant_learn::cpu::inference::Choice;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arrays::{Buffers, GivenActions, JudgedArrays, TakenActions, bytes};
use crate::batch::obs::Dtype;
use crate::batch::{Actions, BadAction, Batch, State, StepArrays};
use crate::policy::Policy;
use crate::world::Asked;
use crate::{guarded, registry};

/// Estimates of the advantages of a rollout: `(T, N)` float32 but `ended`, bytes, and `next_values`, `(N)`. Written to `to`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the arrays of a rollout
pub fn advantages(
    py: Python<'_>,
    rewards: PyReadonlyArray2<'_, f32>,
    values: PyReadonlyArray2<'_, f32>,
    final_values: PyReadonlyArray2<'_, f32>,
    ended: PyReadonlyArray2<'_, bool>,
    next_values: PyReadonlyArray1<'_, f32>,
    player: PyReadonlyArray2<'_, u32>,
    players: u32,
    gamma: f64,
    gae_lambda: f64,
    mut to: PyReadwriteArray2<'_, f32>,
) -> PyResult<()> {
    let refused = |error: numpy::AsSliceError| PyValueError::new_err(error.to_string());
    let floats = [&rewards, &values, &final_values].map(|array| array.as_slice().map_err(refused));
    let [rewards, values, final_values] = floats;
    let discounts = [gamma as f32, gamma as f32 * gae_lambda as f32];
    let [rewards, values, final_values] = [rewards?, values?, final_values?];
    let (ended, next_values) = (ended.as_slice().map_err(refused)?, next_values.as_slice().map_err(refused)?);
    let (to, player) = (to.as_slice_mut().map_err(refused)?, player.as_slice().map_err(refused)?);
    if let Some(wrong) = player.iter().find(|player| **player >= players) {
        return Err(PyValueError::new_err(format!(
            "player {wrong} is to move, of {players} players; let the `player` of a state be below `players`"
        )));
    }
    py.detach(|| match players {
        1 => gae::by_environment([rewards, values, final_values], ended, next_values, discounts, to),
        _ => {
            let movers = (player, players);
            gae::of_players_by_environment([rewards, values], ended, movers, next_values, discounts, to);
        }
    });
    Ok(())
}

/// From this many environments on a step takes longer than it takes to release the interpreter's lock (about 1 us).
const RELEASE_FROM: usize = 64;

/// Refuses environments that need more memory than is available, before any of it is taken.
fn check_memory(env: &dyn AnyEnv, num_envs: usize) -> PyResult<()> {
    let spec = env.spec();
    let words = running_words(env)
        + env.kept_words()
        + 2 * spec.obs.words()
        + spec.actions.components()
        + spec.actions.mask_words()
        + 8;
    // Two sets of arrays, each with observations twice.
    let obs: usize = spec.obs.parts().iter().map(|(_, part)| Dtype::of(part).bytes() * part.size()).sum();
    let arrays = 2 * (2 * obs + 32);
    let needed = (4 * words + arrays) as u64 * num_envs as u64;
    match operant_host::machine::memory() {
        Some(memory) if needed > memory.available => {
            let [needed, available] = [needed, memory.available].map(|bytes| bytes >> 20);
            Err(PyMemoryError::new_err(format!(
                "num_envs: {num_envs} environments of {} need {needed} MiB of memory, and {available} MiB are available",
                spec.name
            )))
        }
        _ => Ok(()),
    }
}

/// The mode of a name.
pub fn autoreset_of(name: &str) -> PyResult<Autoreset> {
    match name {
        "same_step" => Ok(Autoreset::SameStep),
        "next_step" => Ok(Autoreset::NextStep),
        "disabled" => Ok(Autoreset::Disabled),
        other => Err(PyValueError::new_err(format!(
            "autoreset_mode: expected same_step, next_step or disabled, got {other}"
        ))),
    }
}

/// The value of an option in Python: a number or a string.
#[derive(Debug, Clone, FromPyObject, IntoPyObject)]
pub enum PyOption {
    /// A number; True and False are 1 and 0.
    Number(f64),
    /// A word or a path.
    Word(String),
}

impl From<OptionValue> for PyOption {
    fn from(value: OptionValue) -> Self {
        match value {
            OptionValue::Number(number) => PyOption::Number(number),
            OptionValue::Word(word) => PyOption::Word(word),
        }
    }
}

/// Options as the engine takes them.
pub fn named(options: BTreeMap<String, PyOption>) -> EnvOptions {
    let value = |option| match option {
        PyOption::Number(number) => OptionValue::Number(number),
        PyOption::Word(word) => OptionValue::Word(word),
    };
    options.into_iter().map(|(name, option)| (name, value(option))).collect()
}

/// The environment of a name, with its options, of which there are to be N.
pub fn made(
    registry: &Registry,
    name: &str,
    num_envs: usize,
    options: &EnvOptions,
) -> PyResult<Arc<dyn AnyEnv>> {
    if num_envs == 0 || u32::try_from(num_envs).is_err() {
        return Err(PyValueError::new_err(format!("num_envs: expected 1 to {}, got {num_envs}", u32::MAX)));
    }
    let mut options = options.clone();
    let is_game = registry.find(name).is_ok_and(|env| env.spec().players > 1);
    let opponent = is_game.then(|| options.remove("opponent")).flatten();
    let env = registry.make(name, &options).map_err(|error| {
        let remedy = match &error {
            EnvError::Option(error) => error.remedy(),
            EnvError::Unknown(_) => {
                "operant.envs.names() lists them; gymnasium.make_vec makes those of Gymnasium".to_owned()
            }
        };
        PyValueError::new_err(format!("{error}; {remedy}"))
    })?;
    let opponent = match opponent {
        None => return Ok(env),
        Some(OptionValue::Word(who)) => who,
        Some(OptionValue::Number(number)) => {
            let what =
                format!("opponent: expected a name, such as \"random\" or that of a run, got {number}");
            return Err(PyValueError::new_err(what));
        }
    };
    let runs = operant_run::config::default_run_dir(registry.known());
    operant_run::opponent::against(&env, &opponent, &runs).map_err(|e| crate::train::error(&e))
}

fn failed(what: String) -> PyErr {
    PyRuntimeError::new_err(what)
}

fn refused(bad: &BadAction) -> PyErr {
    let BadAction { at: (env, component), value, expected } = bad;
    PyValueError::new_err(format!(
        "actions: environment {env}, component {component}: expected {expected}, got {value}; nothing was stepped"
    ))
}

/// An observation space: its kind, and what that has. `_spaces.py` reads it.
fn space<'py>(py: Python<'py>, of: &ObsSpace) -> PyResult<Bound<'py, PyAny>> {
    let dtype = |of| Dtype::of(of).name();
    Ok(match of {
        ObsSpace::Box { low, high } => ("box", low, high).into_pyobject(py)?.into_any(),
        ObsSpace::Binary { shape } => ("binary", shape).into_pyobject(py)?.into_any(),
        ObsSpace::Index { shape, below } => ("index", shape, below, dtype(of)).into_pyobject(py)?.into_any(),
        ObsSpace::Bytes { shape } => ("bytes", shape).into_pyobject(py)?.into_any(),
        ObsSpace::Parts(parts) => {
            let parts = parts.iter().map(|(name, part)| Ok((name, space(py, part)?)));
            ("parts", parts.collect::<PyResult<Vec<_>>>()?).into_pyobject(py)?.into_any()
        }
    })
}

/// A specification as a dictionary.
pub fn described<'py>(py: Python<'py>, spec: &EnvSpec, masked: bool) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("name", &spec.name)?;
    all.set_item("aliases", &spec.aliases)?;
    all.set_item("summary", &spec.summary)?;
    all.set_item("time_limit", spec.time_limit)?;
    all.set_item("fps", spec.fps)?;
    all.set_item("masked", masked)?;
    all.set_item("obs", space(py, &spec.obs)?)?;
    match &spec.actions {
        ActionSpace::Discrete(choices) => all.set_item("actions", ("discrete", choices))?,
        ActionSpace::Box { low, high } => all.set_item("actions", ("box", low, high))?,
    }
    let options = PyDict::new(py);
    for EnvOption { name, default, values, help, .. } in &spec.options {
        let default = PyOption::from(default.clone());
        match values {
            OptionValues::Range(low, high) => options.set_item(name, (default, low, high, help))?,
            OptionValues::Whole(low, high) => {
                options.set_item(name, (default, f64::from(*low), f64::from(*high), help))?;
            }
            OptionValues::Words(words) => options.set_item(name, (default, words, help))?,
            OptionValues::Path | OptionValues::Metrics => options.set_item(name, (default, help))?,
        }
    }
    all.set_item("options", options)?;
    Ok(all)
}

/// The environments that there are: a dictionary each.
#[pyfunction]
pub fn specs(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all: PyResult<Vec<_>> =
        registry().envs().iter().map(|env| described(py, &env.spec(), env.masked())).collect();
    PyList::new(py, all?)
}

/// N environments of one kind.
#[pyclass(module = "operant._core")]
pub struct Environments {
    // A stepper belongs to one thread at a time, which Python's borrow of the whole object sees to; the lock says so to Rust.
    batch: Mutex<Batch>,
    /// The layout of all pictures: that of the first one, as in a film.
    layout: Option<Layout>,
}

impl Environments {
    fn batch(&mut self) -> &mut Batch {
        self.batch.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Environments {
    /// `autoreset` is `same_step`, `next_step` or `disabled`; `threads` = 0 takes all CPUs that the process may use; `time_limit`
    /// is in steps, the environment's own for none.
    #[new]
    #[pyo3(signature = (name, num_envs, *, threads, seed, autoreset, time_limit, options, check))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        name: Asked,
        num_envs: usize,
        threads: usize,
        seed: u64,
        autoreset: &str,
        time_limit: Option<u32>,
        options: BTreeMap<String, PyOption>,
        check: bool,
    ) -> PyResult<Self> {
        let autoreset = autoreset_of(autoreset)?;
        guarded(|| {
            let (registry, name) = name.find();
            let env = made(&registry, &name, num_envs, &named(options))?;
            check_memory(&*env, num_envs)?;
            let batch =
                Batch::new(env, num_envs, threads, seed, autoreset, time_limit, check).map_err(failed)?;
            Ok(Environments { batch: Mutex::new(batch), layout: None })
        })
    }

    /// The specification.
    fn spec<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let batch = self.batch();
        described(py, &batch.spec, batch.choices > 0)
    }

    /// Choices of a mask (0 without one), threads.
    fn sizes(&mut self) -> (usize, usize) {
        let batch = self.batch();
        (batch.choices, batch.threads())
    }

    /// Players, whether they choose at once, and which word of a state has the player to move.
    fn players(&mut self) -> (u32, bool, usize) {
        let batch = self.batch();
        (batch.spec.players, batch.spec.simultaneous, batch.player.unwrap_or_default())
    }

    /// Refuses environments without a picture.
    fn check_picture(&mut self) -> PyResult<()> {
        let batch = self.batch();
        if batch.has_picture() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "render_mode: {} has no picture; give its class a method `draw`",
            batch.spec.name
        )))
    }

    /// `(height, width, 3)`: the picture of an environment, as in a film of `operant play`.
    fn render<'py>(&mut self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyArray3<u8>>> {
        let batch = self.batch();
        if index >= batch.num_envs {
            return Err(PyValueError::new_err(format!("there is no environment {index}")));
        }
        let (scene, progress) = batch.picture(index);
        let title = batch.spec.name.clone();
        let layout = *self.layout.get_or_insert_with(|| Layout::of(scene.low, scene.high));
        let note = progress.map_or_else(String::new, |(steps, episodic_return)| {
            format!("step {steps}  return {}", return_text(f64::from(episodic_return)))
        });
        let pixels = py.detach(|| layout.draw(&scene.shapes, &title, &note));
        let rgb: Vec<u8> = pixels.data().chunks_exact(4).flat_map(|pixel| &pixel[..3]).copied().collect();
        PyArray1::from_vec(py, rgb).reshape([layout.height as usize, layout.width as usize, 3])
    }

    /// The arrays of a step, or of `rows` steps of an environment, by name; those of parts have names such as `obs.image`.
    fn buffers(&mut self, arrays: &Bound<'_, PyDict>, rows: usize) -> PyResult<Buffers> {
        let batch = self.batch();
        Buffers::of(arrays, rows, &batch.spec.obs, (batch.choices, batch.player.is_some()))
    }

    /// New episodes in all environments, numbered from 0 under `seed`, as of new environments.
    fn reseed(&mut self, py: Python<'_>, seed: u64, to: &Buffers) -> PyResult<()> {
        let batch = self.batch();
        guarded(|| py.detach(|| batch.reseed(seed)).map_err(failed))?;
        self.observe(py, to)
    }

    /// New episodes in the environments that `chosen` names, or in all; with `seeds`, under their own seeds.
    #[pyo3(signature = (to, chosen=None, seeds=None))]
    fn restart(
        &mut self,
        py: Python<'_>,
        to: &Buffers,
        chosen: Option<Bound<'_, PyArray1<bool>>>,
        seeds: Option<Vec<u64>>,
    ) -> PyResult<()> {
        let count = self.batch().num_envs;
        let chosen = chosen.map(|chosen| {
            let bytes = bytes(chosen.as_any())?.try_readonly();
            let bytes = bytes.map_err(|error| PyValueError::new_err(format!("reset_mask: {error}")))?;
            PyResult::Ok(bytes.as_array().iter().map(|byte| *byte != 0).collect::<Vec<bool>>())
        });
        let chosen = chosen.transpose()?;
        let lengths = [("reset_mask", chosen.as_ref().map(Vec::len)), ("seed", seeds.as_ref().map(Vec::len))];
        for (name, len) in lengths {
            if let Some(len) = len.filter(|len| *len != count) {
                return Err(PyValueError::new_err(format!("{name}: expected {count} values, got {len}")));
            }
        }
        let batch = self.batch();
        guarded(|| py.detach(|| batch.restart(chosen.as_deref(), seeds.as_deref())).map_err(failed))?;
        self.observe(py, to)
    }

    /// Writes the present observations and masks.
    fn observe(&mut self, py: Python<'_>, to: &Buffers) -> PyResult<()> {
        let batch = self.batch();
        guarded(|| to.with(py, |arrays| py.detach(|| batch.observe(arrays)).map_err(failed)))
    }

    /// One step of all environments; returns how many episodes ended.
    fn step(&mut self, py: Python<'_>, actions: &Bound<'_, PyAny>, to: &Buffers) -> PyResult<usize> {
        let batch = self.batch();
        let given = GivenActions::of(actions, batch, None)?;
        let actions = given.slice()?;
        batch.check(actions).map_err(|bad| refused(&bad))?;
        guarded(|| {
            to.with(py, |arrays| {
                let ended = if batch.num_envs < RELEASE_FROM {
                    batch.step(actions, arrays)
                } else {
                    py.detach(|| batch.step(actions, arrays))
                };
                ended.map_err(failed)
            })
        })
    }

    /// One step of a single environment with one discrete action; returns whether an episode ended.
    fn step_one(&mut self, py: Python<'_>, action: i64, to: &Buffers) -> PyResult<usize> {
        let actions = [action];
        let actions = Actions::I64(&actions);
        let batch = self.batch();
        if batch.num_envs != 1 || batch.spec.actions.components() != 1 {
            return Err(PyValueError::new_err("one action for one environment is expected"));
        }
        batch.check(actions).map_err(|bad| refused(&bad))?;
        guarded(|| to.with(py, |arrays| batch.step(actions, arrays).map_err(failed)))
    }

    /// As many steps as `steps`, with `actions` `(T, N)` or `(T, N, components)`, into arrays of `(T, N)` rows; returns how many
    /// episodes ended.
    fn step_many(
        &mut self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        steps: usize,
        to: &Buffers,
    ) -> PyResult<usize> {
        let batch = self.batch();
        let given = GivenActions::of(actions, batch, Some(steps))?;
        let actions = given.slice()?;
        let per_step = batch.num_envs * batch.spec.actions.components();
        batch.check(actions).map_err(|bad| {
            let step = bad.at.0 / batch.num_envs;
            let bad = BadAction { at: (bad.at.0 % batch.num_envs, bad.at.1), ..bad };
            PyValueError::new_err(format!("step {step}: {}", refused(&bad).value(py)))
        })?;
        let choices = batch.choices;
        guarded(|| {
            to.with(py, |arrays| {
                let step_all = || -> Result<usize, String> {
                    let mut ended = 0;
                    let all = arrays.steps(steps, batch.num_envs, &batch.spec.obs, choices);
                    for (step, arrays) in all.into_iter().enumerate() {
                        let range = step * per_step..(step + 1) * per_step;
                        let actions = match actions {
                            Actions::I64(all) => Actions::I64(&all[range]),
                            Actions::I32(all) => Actions::I32(&all[range]),
                            Actions::U8(all) => Actions::U8(&all[range]),
                            Actions::F32(all) => Actions::F32(&all[range]),
                            Actions::F64(all) => Actions::F64(&all[range]),
                        };
                        ended += batch.step(actions, arrays)?;
                    }
                    Ok(ended)
                };
                py.detach(step_all).map_err(failed)
            })
        })
    }

    /// A rollout under a policy, into arrays of `(T, N)` rows and `actions`, `(T, N, components)` int64 or float32; `draw` is
    /// `(seed, step)` of its first sample, none for the most probable actions. `judged` are arrays for what else the policy computes:
    /// `logprobs`, `values`, `final_values` `(T, N)` and `next_values` `(N)`, all float32; `actions` are then those before they were clipped.
    /// Returns how many episodes ended.
    #[pyo3(signature = (policy, steps, to, actions, draw, judged=None))]
    #[allow(clippy::too_many_arguments)] // the arrays of a rollout
    fn rollout(
        &mut self,
        py: Python<'_>,
        policy: &Policy,
        steps: usize,
        to: &Buffers,
        actions: &Bound<'_, PyAny>,
        draw: Option<(u64, u64)>,
        judged: Option<Bound<'_, PyDict>>,
    ) -> PyResult<usize> {
        self.check_spaces(policy)?;
        let batch = self.batch();
        let choice = draw.map_or(Choice::Greedy, |(seed, step)| Choice::Sampled {
            seed,
            first: 0,
            step,
            evaluation: false,
        });
        let per_step = batch.num_envs * batch.spec.actions.components();
        let mut taken = TakenActions::of(actions, &batch.spec.actions, per_step * steps)?;
        let (choices, num_envs) = (batch.choices, batch.num_envs);
        let mut judged = judged.map(|arrays| JudgedArrays::of(&arrays, steps, num_envs)).transpose()?;
        guarded(|| {
            to.with(py, |arrays| {
                let arrays = arrays.steps(steps, num_envs, &batch.spec.obs, choices).into_iter();
                let (judged, next_values) = match &mut judged {
                    Some(judged) => judged.steps(num_envs)?,
                    None => (Vec::new(), &mut [][..]),
                };
                let judged = judged.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
                let steps = arrays.zip(taken.steps(per_step)?).zip(judged);
                let steps =
                    steps.map(|((after, taken), judged)| StepArrays { after, taken, judged }).collect();
                py.detach(|| batch.rollout(&policy.inference, choice, steps, next_values)).map_err(failed)
            })
        })
    }

    /// Refuses a policy for other spaces than those of the environments.
    fn check_spaces(&mut self, policy: &Policy) -> PyResult<()> {
        let (spec, trained) = (&self.batch().spec, policy.inference.trained());
        if (&trained.obs, &trained.actions) == (&spec.obs, &spec.actions) {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "policy: it was trained in {}, whose spaces are not those of {}",
            trained.env, spec.name
        )))
    }

    /// `(N * states)`: the memory of a policy before its next rollout here, in a game `(N * sides * states)`.
    fn memory<'py>(&mut self, py: Python<'py>, policy: &Policy) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_vec(py, self.batch().memory(&policy.inference))
    }

    /// `(words, seed, seeds, step)`: the complete state of the environments. `words` are uint32.
    #[allow(clippy::type_complexity)]
    fn get_state<'py>(&mut self, py: Python<'py>) -> (Bound<'py, PyArray1<u32>>, u64, Option<Vec<u64>>, u64) {
        let State { words, seed, seeds, step } = self.batch().save();
        (PyArray1::from_vec(py, words), seed, seeds, step)
    }

    /// Continues from what `get_state` returned, and writes the present observations.
    fn set_state(
        &mut self,
        py: Python<'_>,
        words: PyReadonlyArray1<'_, u32>,
        seed: u64,
        seeds: Option<Vec<u64>>,
        step: u64,
        to: &Buffers,
    ) -> PyResult<()> {
        let words = words.to_vec().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let state = State { words, seed, seeds, step };
        let batch = self.batch();
        guarded(|| batch.load(&state).map_err(PyValueError::new_err))?;
        self.observe(py, to)
    }
}
