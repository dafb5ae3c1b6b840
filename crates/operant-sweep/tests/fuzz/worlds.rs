//! Worlds: files of every kind of built-in environment, changed as text and as documents, and worlds of random rules. What is accepted is
//! emitted and stepped, and the interpreter computes what its reference does.

use std::path::Path;

use operant_env::play::Outputs;
use operant_env::replay::{Arithmetic, Case, Outcome};
use operant_env::world::{World, WorldEnv};
use operant_env::{ActionSpace, AnyEnv, EnvSpec, ObsSpace, TileSpec, builtin};
use operant_lane::trace::{Arg, Function, Graph, Literal, Operation, Outputs as Results, Type};
use operant_lane::{Kind, Leaf};
use serde_json::Value;

use super::{Random, change_bytes, change_document};

/// Rows of a tile.
const ROWS: usize = 16;
/// Largest file that is changed, so that inputs are many.
const LARGEST: usize = 50_000;

pub fn reader(place: &Path) -> Box<dyn FnMut(u64)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../operant-env/tests/data");
    let recorded = ["cartpole", "pendulum", "snake", "breakout"];
    let recorded =
        recorded.map(|name| std::fs::read_to_string(data.join(format!("{name}.world"))).expect("a file"));
    let registry = builtin().of_each_kind();
    let written = registry.envs().iter().filter_map(|env| env.world()).map(|world| world.to_json());
    let texts: Vec<String> =
        recorded.into_iter().chain(written).filter(|text| text.len() < LARGEST).collect();
    let documents: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    let file = place.join("input.world");
    Box::new(move |number| {
        let random = &mut Random::new(number);
        let which = random.below(texts.len());
        let text = match random.below(4) {
            0 => {
                let mut bytes = texts[which].clone().into_bytes();
                change_bytes(&mut bytes, random);
                bytes
            }
            1 => generated(random).to_json().into_bytes(),
            _ => {
                let mut document = documents[which].clone();
                change_document(&mut document, random);
                document.to_string().into_bytes()
            }
        };
        std::fs::write(&file, text).expect("written");
        match World::load(&file) {
            Ok(world) => step(world),
            Err(error) => assert!(!error.to_string().is_empty(), "{error:?}"),
        }
    })
}

/// Does with a world what the program does with one.
fn step(world: World) {
    let text = world.to_json();
    let again = World::from_json(text.as_bytes()).expect("what was accepted");
    assert!(again.to_json() == text, "a world that is written and read is another one");
    let masked = world.legal.is_some();
    let env = WorldEnv::new(world);
    let spec = env.spec();
    let emitted = env.emit().expect("text");
    assert!(emitted.len() < 1000 * text.len(), "{} bytes of text for {}", emitted.len(), text.len());
    let mut stepper = env.stepper(TileSpec::new(1, 0, ROWS)).expect("a world");
    let mut outputs = Outputs::new(&spec, masked, ROWS);
    // Observations may be outside their space, which is an error.
    let mut is_sound = stepper.observe(outputs.seen()).is_ok();
    let actions = vec![1.0; spec.actions.components() * ROWS];
    for at in 0..3 {
        stepper.submit(&actions, at).expect("a world");
        is_sound &= stepper.collect(outputs.stepped()).is_ok();
    }
    assert!(is_sound || !spec.obs.is_real(), "real numbers are always in their space");
    let mut state = vec![0; env.leaves().len()];
    stepper.state(0, &mut state);
    drop(env.picture(&state));
    let case = |state| Case { state, actions: vec![vec![0.0; spec.actions.components()]; 2], draws: None };
    let zeros = case(vec![0.0; env.leaves().len()]);
    let outcomes = [Arithmetic::F32, Arithmetic::Wide].map(|way| env.replay(way, &zeros));
    if let [Ok(scalar), Ok(wide)] = outcomes {
        assert!(shown(&scalar) == shown(&wide), "the interpreter and its reference differ");
    }
}

/// What an outcome is compared by: NaN is equal to NaN.
fn shown(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

/// A world of random rules, within all limits.
fn generated(random: &mut Random) -> World {
    let kinds: Vec<Kind> = (0..1 + random.below(6)).map(|_| *random.of(&KINDS)).collect();
    let words = 1 + random.below(9);
    let fields = kinds.iter().enumerate().map(|(k, kind)| Leaf { name: format!("f{k}"), kind: *kind });
    let board = (0..words).map(|k| Leaf { name: format!("board[{k}]"), kind: Kind::Uint });
    let leaves: Vec<Leaf> = fields.chain(board).collect();
    let mut results: Vec<(String, Kind)> =
        kinds.iter().enumerate().map(|(k, kind)| (format!("next.f{k}"), *kind)).collect();
    let is_discrete = random.below(2) == 0;
    let action = if is_discrete { Kind::Uint } else { Kind::Float };
    let draws = ["seed_low", "seed_high", "environment", "step_low", "step_high", "purpose"];
    let draws = draws.map(|name| (name.to_owned(), Kind::Uint));
    let state: Vec<(String, Kind)> =
        kinds.iter().enumerate().map(|(k, kind)| (format!("state.f{k}"), *kind)).collect();
    let given = [&draws[..], &state, &[("action[0]".to_owned(), action)]].concat();
    let reset = function(random, &draws, None, &results, Some(words));
    let of_step = [("reward".to_owned(), Kind::Float), ("terminated".to_owned(), Kind::Mask)];
    results.extend(of_step);
    let step = function(random, &given, Some(words), &results, Some(words));
    let count = 1 + random.below(4);
    let obs: Vec<(String, Kind)> = (0..count).map(|k| (format!("obs[{k}]"), Kind::Float)).collect();
    let observe = function(random, &state, Some(words), &obs, None);
    let spec = EnvSpec {
        name: "generated".to_owned(),
        obs: ObsSpace::symmetric(&vec![f64::INFINITY; count]),
        actions: match is_discrete {
            true => ActionSpace::Discrete(vec![3]),
            false => ActionSpace::Box { low: vec![-1.0], high: vec![1.0] },
        },
        time_limit: 1 + random.below(5) as u32,
        ..EnvSpec::default()
    };
    World { spec, leaves, reset, ahead: false, step, observe, legal: None, metrics: None, draw: None }
}

const KINDS: [Kind; 4] = [Kind::Float, Kind::Uint, Kind::Int, Kind::Mask];

/// A function of these parameters, and of the state's memory if it has one, with these results; `next` is the memory's size in the next
/// state.
fn function(
    random: &mut Random,
    parameters: &[(String, Kind)],
    memory: Option<usize>,
    results: &[(String, Kind)],
    next: Option<usize>,
) -> Function {
    let (graph, mut outputs) = (Graph::new(), Results::new());
    let values = parameters
        .iter()
        .map(|(name, kind)| (Type::Scalar(*kind), graph.parameter(name, Type::Scalar(*kind))));
    let mut values: Vec<(Type, Arg)> = values.collect();
    match (memory, next) {
        (Some(words), _) => {
            let kind = Type::Memory(words);
            values.push((kind, graph.parameter("state.board", kind)));
        }
        (None, Some(words)) => {
            let zeros = vec![Arg::Literal(Literal::Uint(0)); words];
            values.push((Type::Memory(words), graph.words(zeros)));
        }
        (None, None) => (),
    }
    let mut rules = Rules { graph: &graph, values, random };
    let count = 1 + rules.random.below(25);
    rules.steps(count, 0);
    let found: Vec<Arg> = results.iter().map(|(_, kind)| rules.any(Type::Scalar(*kind))).collect();
    let board = next.map(|words| (Type::Memory(words), rules.any(Type::Memory(words))));
    for ((place, kind), value) in results.iter().zip(found) {
        outputs.put(place.clone(), Type::Scalar(*kind), value);
    }
    if let Some((kind, value)) = board {
        outputs.put("next.board".to_owned(), kind, value);
    }
    graph.finish(outputs)
}

struct Rules<'a> {
    graph: &'a Graph,
    /// What is known here.
    values: Vec<(Type, Arg)>,
    random: &'a mut Random,
}

impl Rules<'_> {
    /// A value of a type: one that is known, or a constant. There is a memory of each size that is asked for.
    fn any(&mut self, kind: Type) -> Arg {
        let known: Vec<Arg> =
            self.values.iter().filter(|(other, _)| *other == kind).map(|(_, value)| *value).collect();
        match kind {
            Type::Scalar(kind) if known.is_empty() || self.random.below(4) == 0 => self.literal(kind),
            _ => *self.random.of(&known),
        }
    }

    fn literal(&mut self, kind: Kind) -> Arg {
        let word =
            *self.random.of(&[0, 1, 2, 7, 31, 32, u32::MAX, 1 << 31, 0x3f80_0000, 0x7f80_0000, 0x0000_0001]);
        Arg::Literal(match kind {
            Kind::Float => Literal::Float(word),
            Kind::Uint => Literal::Uint(word),
            Kind::Int => Literal::Int(word as i32),
            Kind::Mask => Literal::Mask(word % 2 == 1),
        })
    }

    fn steps(&mut self, count: usize, depth: usize) {
        for _ in 0..count {
            let graph = self.graph;
            let uint = Type::Scalar(Kind::Uint);
            let memory = self.values.iter().rev().find(|(kind, _)| matches!(kind, Type::Memory(_))).copied();
            match (self.random.below(12), memory) {
                (0, _) if depth < 3 => self.body(depth),
                (1, _) => {
                    let args: Vec<Arg> = (0..6).map(|_| self.any(uint)).collect();
                    self.values.extend(graph.philox(&args).map(|word| (uint, word)));
                }
                (2, _) => {
                    let table =
                        (0..1 + self.random.below(5)).map(|k| Literal::Float((k as f32).to_bits())).collect();
                    let index = self.any(uint);
                    self.values.push((Type::Scalar(Kind::Float), graph.look_up(table, index)));
                }
                (3, Some((_, memory))) => {
                    let index = self.any(uint);
                    self.values.push((uint, graph.element(memory, index)));
                }
                (4, Some((kind, memory))) => {
                    let [mask, index, value] =
                        [Type::Scalar(Kind::Mask), uint, uint].map(|kind| self.any(kind));
                    self.values.push((kind, graph.store(memory, mask, index, value)));
                }
                (5, Some((kind, memory))) => {
                    let (mask, other) = (self.any(Type::Scalar(Kind::Mask)), self.any(kind));
                    self.values.push((kind, graph.choose(mask, memory, other)));
                }
                _ => {
                    let operation = *self.random.of(Operation::ALL);
                    let mut args: Vec<Arg> =
                        operation.kinds().iter().map(|kind| self.any(Type::Scalar(*kind))).collect();
                    use Operation::{IntShl, IntShr, UintShl, UintShr};
                    if matches!(operation, UintShl | UintShr | IntShl | IntShr) {
                        args[1] = Arg::Literal(Literal::Uint(self.random.below(32) as u32));
                    }
                    self.values.push((Type::Scalar(operation.result()), graph.scalar(operation, &args)));
                }
            }
        }
    }

    /// A cold path or a loop that assigns some of the values.
    fn body(&mut self, depth: usize) {
        let graph = self.graph;
        let before: Vec<(Type, Arg)> =
            (0..1 + self.random.below(3)).map(|_| *self.random.of(&self.values)).collect();
        let names = vec!["value".to_owned(); before.len()];
        let (count, known) = (1 + self.random.below(6), self.values.len());
        let mask = self.any(Type::Scalar(Kind::Mask));
        let after = if matches!(mask, Arg::Node(_)) && self.random.below(2) == 0 {
            graph.when(mask, &before, &names, || self.results(count, depth, &before))
        } else {
            let turns = *self.random.of(&[0, 1, 3, 20]);
            graph.repeat(turns, &before, &names, |index, carried| {
                self.values.push((Type::Scalar(Kind::Uint), index));
                self.values.extend(before.iter().zip(carried).map(|((kind, _), value)| (*kind, *value)));
                self.results(count, depth, &before)
            })
        };
        self.values.truncate(known);
        self.values.extend(before.iter().zip(after).map(|((kind, _), value)| (*kind, value)));
    }

    fn results(&mut self, count: usize, depth: usize, before: &[(Type, Arg)]) -> Vec<Arg> {
        self.steps(count, depth + 1);
        before.iter().map(|(kind, _)| self.any(*kind)).collect()
    }
}
