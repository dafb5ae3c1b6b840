//! Worlds: `Recorder` records rules that are written in Python, and `World` is what it records, checked.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc as Shared, Mutex, OnceLock, PoisonError};

use operant_env::lane::trace::{self, Graph, Literal, Operation, Outputs, Type, Value};
use operant_env::lane::{Draws, Float, HeldDraws, Kind, Uint};
use operant_env::world::{self, LoadError, WorldEnv};
use operant_env::{AnyEnv, EnvSpec, Registry};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::guarded;
use crate::local::LocalEnv;

/// A value of a recording: a node or a constant.
#[pyclass(module = "operant._core", frozen, from_py_object)]
#[derive(Clone, Copy)]
pub struct Arg(trace::Arg);

/// The kind of a name.
fn kind_of(name: &str) -> PyResult<Kind> {
    match name {
        "float" => Ok(Kind::Float),
        "uint" => Ok(Kind::Uint),
        "int" => Ok(Kind::Int),
        "mask" => Ok(Kind::Mask),
        other => Err(PyTypeError::new_err(format!("there is no kind {other}"))),
    }
}

fn literal_of(kind: Kind, value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    Ok(match kind {
        Kind::Float => Literal::Float((value.extract::<f64>()? as f32).to_bits()),
        Kind::Uint => Literal::Uint(value.extract()?),
        Kind::Int => Literal::Int(value.extract()?),
        Kind::Mask => Literal::Mask(value.extract()?),
    })
}

/// The operation of a name such as `FloatAdd`.
fn operation(name: &str) -> PyResult<Operation> {
    static NAMES: OnceLock<HashMap<String, Operation>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        Operation::ALL.iter().map(|operation| (format!("{operation:?}"), *operation)).collect()
    });
    names.get(name).copied().ok_or_else(|| PyTypeError::new_err(format!("there is no operation {name}")))
}

#[pymethods]
impl Arg {
    /// A constant of a kind.
    #[staticmethod]
    fn literal(kind: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Arg(trace::Arg::Literal(literal_of(kind_of(kind)?, value)?)))
    }

    /// The value of a constant; None for what is known only when the world runs.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let trace::Arg::Literal(literal) = self.0 else { return Ok(None) };
        Ok(Some(match literal {
            Literal::Float(bits) => f64::from(f32::from_bits(bits)).into_pyobject(py)?.into_any().unbind(),
            Literal::Uint(value) => value.into_pyobject(py)?.into_any().unbind(),
            Literal::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
            Literal::Mask(value) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
        }))
    }
}

/// Records one function.
#[pyclass(module = "operant._core", unsendable)]
pub struct Recorder(Graph);

impl Recorder {
    fn float(&self, arg: Arg) -> Value<'_, f32> {
        Value::of(&self.0, arg.0)
    }

    /// Names and types of values that a body replaces.
    fn typed(&self, values: &[Arg]) -> Vec<(Type, trace::Arg)> {
        values.iter().map(|arg| (self.0.type_of(arg.0), arg.0)).collect()
    }

    /// What a body in Python returned; after an exception, the values before.
    fn body(
        &self,
        results: PyResult<Vec<Arg>>,
        before: &[(Type, trace::Arg)],
        raised: &mut Option<PyErr>,
    ) -> Vec<trace::Arg> {
        let kinds = |results: &[Arg]| {
            results.len() == before.len()
                && results.iter().zip(before).all(|(arg, (kind, _))| self.0.type_of(arg.0) == *kind)
        };
        match results {
            Ok(results) if kinds(&results) => results.into_iter().map(|arg| arg.0).collect(),
            Ok(_) => {
                *raised =
                    Some(PyTypeError::new_err("a rule returned values of other kinds than it was given"));
                before.iter().map(|(_, arg)| *arg).collect()
            }
            Err(error) => {
                *raised = Some(error);
                before.iter().map(|(_, arg)| *arg).collect()
            }
        }
    }
}

#[pymethods]
impl Recorder {
    #[new]
    fn new() -> Self {
        Recorder(Graph::new())
    }

    /// A parameter of the function; with `words` a memory.
    #[pyo3(signature = (name, kind, words=None))]
    fn parameter(&self, name: &str, kind: &str, words: Option<usize>) -> PyResult<Arg> {
        let kind = kind_of(kind)?;
        Ok(Arg(self.0.parameter(name, words.map_or(Type::Scalar(kind), Type::Memory))))
    }

    /// The result of an operation.
    fn scalar(&self, name: &str, args: Vec<Arg>) -> PyResult<Arg> {
        let operation = operation(name)?;
        let kinds = args.iter().map(|arg| self.0.type_of(arg.0));
        if !kinds.eq(operation.kinds().iter().map(|kind| Type::Scalar(*kind))) {
            return Err(PyTypeError::new_err(format!("{name} takes {:?}", operation.kinds())));
        }
        let args: Vec<_> = args.iter().map(|arg| arg.0).collect();
        Ok(Arg(self.0.scalar(operation, &args)))
    }

    /// A function of one real number, in the arithmetic of the lanes.
    fn function(&self, name: &str, arg: Arg) -> PyResult<Arg> {
        let x = self.float(arg);
        Ok(Arg(match name {
            "sin" => Float::sin(x),
            "cos" => Float::cos(x),
            "exp" => Float::exp(x),
            "log" => Float::ln(x),
            "tanh" => Float::tanh(x),
            other => return Err(PyTypeError::new_err(format!("there is no function {other}"))),
        }
        .arg()))
    }

    /// Sine and cosine.
    fn sin_cos(&self, arg: Arg) -> (Arg, Arg) {
        let (sin, cos) = self.float(arg).sin_cos();
        (Arg(sin.arg()), Arg(cos.arg()))
    }

    /// How many bits are set.
    fn count_ones(&self, arg: Arg) -> Arg {
        Arg(Value::<u32>::of(&self.0, arg.0).count_ones().arg())
    }

    /// An entry of a table of floats or unsigned integers.
    fn look_up(&self, kind: &str, table: Vec<Bound<'_, PyAny>>, index: Arg) -> PyResult<Arg> {
        let kind = kind_of(kind)?;
        let table: PyResult<Vec<_>> = table.iter().map(|entry| literal_of(kind, entry)).collect();
        Ok(Arg(self.0.look_up(table?, index.0)))
    }

    /// A memory of these words.
    fn words(&self, words: Vec<Arg>) -> Arg {
        Arg(self.0.words(words.iter().map(|arg| arg.0).collect()))
    }

    /// A word of a memory.
    fn element(&self, memory: Arg, index: Arg) -> Arg {
        Arg(self.0.element(memory.0, index.0))
    }

    /// A memory after a write.
    fn store(&self, memory: Arg, at: Arg, index: Arg, value: Arg) -> Arg {
        Arg(self.0.store(memory.0, at.0, index.0, value.0))
    }

    /// One of two memories.
    fn choose(&self, mask: Arg, yes: Arg, no: Arg) -> Arg {
        Arg(self.0.choose(mask.0, yes.0, no.0))
    }

    /// The values that `rule()` returns where the mask (not a constant) holds; `before` elsewhere.
    fn when(
        &self,
        mask: Arg,
        before: Vec<Arg>,
        names: Vec<String>,
        rule: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Arg>> {
        let before = self.typed(&before);
        let mut raised = None;
        let after = self.0.when(mask.0, &before, &names, || {
            let results = rule.call0().and_then(|results| results.extract());
            self.body(results, &before, &mut raised)
        });
        raised.map_or(Ok(after.into_iter().map(Arg).collect()), Err)
    }

    /// The values after `rule(index, values)` ran `count` times.
    fn repeat(
        &self,
        count: u32,
        before: Vec<Arg>,
        names: Vec<String>,
        rule: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Arg>> {
        let before = self.typed(&before);
        let mut raised = None;
        let after = self.0.repeat(count, &before, &names, |index, carried| {
            let carried: Vec<Arg> = carried.iter().map(|arg| Arg(*arg)).collect();
            let results = rule.call1((Arg(index), carried)).and_then(|results| results.extract());
            self.body(results, &before, &mut raised)
        });
        raised.map_or(Ok(after.into_iter().map(Arg).collect()), Err)
    }

    /// A value as a text, to compare two recordings by.
    fn shown(&self, arg: Arg) -> String {
        self.0.shown(arg.0)
    }

    /// Names a value in emitted code.
    fn name(&self, arg: Arg, name: &str) {
        if let trace::Arg::Node(id) = arg.0 {
            self.0.name(id, name);
        }
    }

    /// The random draws of a call.
    fn draws(&self) -> RecordedDraws {
        RecordedDraws(HeldDraws::hold(&world::draws(&self.0)))
    }

    /// The function with these results, as JSON. Nothing can be recorded afterwards.
    fn finish(&mut self, results: Vec<(String, Arg)>) -> PyResult<String> {
        let graph = std::mem::take(&mut self.0);
        let mut outputs = Outputs::new();
        for (place, arg) in results {
            outputs.put(place, graph.type_of(arg.0), arg.0);
        }
        serde_json::to_string(&graph.finish(outputs))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// The random draws of a recorded function.
#[pyclass(module = "operant._core", name = "Draws")]
pub struct RecordedDraws(HeldDraws);

impl RecordedDraws {
    fn draw<'r, R>(
        &mut self,
        recorder: &'r Recorder,
        words: u32,
        draw: impl FnOnce(&mut Draws<'r, trace::Trace<'r>>) -> R,
    ) -> PyResult<R> {
        if self.0.left() < words {
            return Err(PyValueError::new_err("there are more draws than were reserved"));
        }
        let mut draws = self.0.with(&recorder.0);
        let drawn = draw(&mut draws);
        self.0 = HeldDraws::hold(&draws);
        Ok(drawn)
    }
}

#[pymethods]
impl RecordedDraws {
    /// 32 random bits.
    fn bits(&mut self, recorder: &Recorder) -> PyResult<Arg> {
        self.draw(recorder, 1, |draws| Arg(draws.bits().arg()))
    }

    /// Uniform in [0, 1).
    fn unit(&mut self, recorder: &Recorder) -> PyResult<Arg> {
        self.draw(recorder, 1, |draws| Arg(draws.unit().arg()))
    }

    /// Uniform in [low, high).
    fn between(&mut self, recorder: &Recorder, low: f64, high: f64) -> PyResult<Arg> {
        self.draw(recorder, 1, |draws| Arg(draws.between(low, high).arg()))
    }

    /// Uniform in 0 .. count.
    fn below(&mut self, recorder: &Recorder, count: u32) -> PyResult<Arg> {
        self.draw(recorder, 1, |draws| Arg(draws.below(count).arg()))
    }

    /// Like `below`, with one count per environment.
    fn below_each(&mut self, recorder: &Recorder, count: Arg) -> PyResult<Arg> {
        self.draw(recorder, 1, |draws| Arg(draws.below_each(Value::of(&recorder.0, count.0)).arg()))
    }

    /// The next `words` draws, for a rule that not every environment runs.
    fn reserve(&mut self, recorder: &Recorder, words: u32) -> PyResult<Self> {
        self.draw(recorder, words.next_multiple_of(4), |draws| {
            RecordedDraws(HeldDraws::hold(&draws.reserve(words)))
        })
    }

    /// Draws for each of `count` turns of a loop: a function from the index to the draws of a turn.
    fn turns(&mut self, recorder: &Recorder, count: u32, words: u32) -> PyResult<RecordedTurns> {
        let all = count.checked_mul(words.next_multiple_of(4)).filter(|all| *all <= self.0.left());
        let all = all.ok_or_else(|| PyValueError::new_err("there are more draws than were reserved"))?;
        let before = self.0.clone();
        self.draw(recorder, all, |draws| {
            let _ = draws.turns(count, words);
        })?;
        Ok(RecordedTurns { before, count, words })
    }
}

/// The draws of a loop.
#[pyclass(module = "operant._core", name = "Turns", frozen)]
pub struct RecordedTurns {
    before: HeldDraws,
    count: u32,
    words: u32,
}

#[pymethods]
impl RecordedTurns {
    /// The draws of a turn.
    fn turn(&self, recorder: &Recorder, index: Arg) -> RecordedDraws {
        let mut draws = self.before.with(&recorder.0);
        let turns = draws.turns(self.count, self.words);
        RecordedDraws(HeldDraws::hold(&turns.turn(Value::of(&recorder.0, index.0))))
    }
}

/// A world: an environment that was recorded, checked.
#[pyclass(module = "operant._core", frozen)]
pub struct World(Shared<WorldEnv>);

/// The worlds that this process has used, by name.
static WORLDS: Mutex<BTreeMap<String, Shared<WorldEnv>>> = Mutex::new(BTreeMap::new());

/// The registry with the worlds of this process.
pub fn with_worlds(registry: Registry) -> Registry {
    let worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
    worlds
        .values()
        .fold(registry, |registry, world| registry.with_shared(Shared::clone(world) as Shared<dyn AnyEnv>))
}

/// The environment that a caller requests. A world is passed as an object, because threads may use several of one name at the same time.
#[derive(FromPyObject)]
pub enum Asked {
    /// A world.
    World(Py<World>),
    /// A Gymnasium environment that a function of this program makes.
    Local(Py<LocalEnv>),
    /// The name or alias of an environment.
    Name(String),
}

impl Asked {
    /// The registry that has it, and its name.
    pub fn find(self) -> (Registry, String) {
        let env = match self {
            Asked::World(world) => Shared::clone(&world.get().0) as Shared<dyn AnyEnv>,
            Asked::Local(env) => Shared::clone(&env.get().0),
            Asked::Name(name) => return (crate::registry(), name),
        };
        let name = env.spec().name;
        (crate::registry().with_shared(env), name)
    }
}

/// Registers the world under its name in this process, replacing any other of that name.
#[pyfunction]
pub fn add_world(world: &World) -> PyResult<()> {
    let EnvSpec { name, aliases, .. } = world.0.spec();
    let known = operant_env::builtin().known();
    if let Some(alias) = aliases.iter().find(|alias| known.contains_key(*alias)) {
        return Err(PyValueError::new_err(format!(
            "the alias {alias} names a built-in environment; remove it"
        )));
    }
    if known.contains_key(&name) {
        return Err(PyValueError::new_err(format!(
            "there is a built-in environment {name}; give the world another name, such as @operant.world(name=\"my_{name}\")"
        )));
    }
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Shared::clone(&world.0));
    Ok(())
}

/// The error of a file, with its path.
fn of_file(path: &Path, error: &io::Error) -> PyErr {
    io::Error::new(error.kind(), format!("{}: {error}", path.display())).into()
}

/// The bytes of the file of a world.
#[pyfunction]
pub fn read_world(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyBytes>> {
    let read = py.detach(|| operant_metrics::read_file(&path, world::MAX_FILE));
    Ok(PyBytes::new(py, &read.map_err(|error| of_file(&path, &error))?))
}

/// Writes a file that the user names: a regular one is replaced as a whole, others are written to.
#[pyfunction]
pub fn write_output(py: Python<'_>, path: PathBuf, content: Vec<u8>) -> PyResult<()> {
    py.detach(|| operant_run::dir::write_output(&path, content)).map_err(|error| of_file(&path, &error))
}

#[pymethods]
impl World {
    /// Reads the text of a file, or of what was just recorded.
    #[new]
    #[pyo3(signature = (text, *, is_file=true))]
    fn new(py: Python<'_>, text: &Bound<'_, PyBytes>, is_file: bool) -> PyResult<Self> {
        let bytes = text.as_bytes().to_vec();
        let says = |error: LoadError| match error {
            // Nothing is damaged where nothing was read.
            LoadError::Damaged(problem) if !is_file => PyValueError::new_err(problem.to_string()),
            error => PyValueError::new_err(error.to_string()),
        };
        let world = guarded(|| py.detach(|| world::World::from_json(&bytes)).map_err(says))?;
        Ok(World(Shared::new(WorldEnv::new(world))))
    }

    /// The text of a file.
    fn to_json(&self) -> PyResult<String> {
        let world = self.0.world().ok_or_else(|| PyValueError::new_err("it cannot be recorded"))?;
        Ok(world.to_json())
    }

    /// The specification.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        crate::environments::described(py, &self.0.spec(), self.0.masked())
    }

    /// The CUDA C++ source.
    fn emit(&self) -> Option<String> {
        self.0.emit()
    }
}
