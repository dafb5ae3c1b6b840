//! Recorded worlds that are as large as they may be are read, emitted and stepped, and no depth of a graph ends the process.

use operant_env::replay::{Arithmetic, Case};
use operant_env::world::{World, WorldEnv};
use operant_env::{ActionSpace, AnyEnv, EnvSpec, ObsSpace};
use operant_lane::trace::{Arg, Function, Graph, Literal, Operation, Outputs, Type};
use operant_lane::{Kind, Leaf};

const FLOAT: Type = Type::Scalar(Kind::Float);

fn float(value: f32) -> Arg {
    Arg::Literal(Literal::Float(value.to_bits()))
}

fn uint(value: u32) -> Arg {
    Arg::Literal(Literal::Uint(value))
}

/// A function by its results.
fn function<P: Into<String>>(rule: impl FnOnce(&Graph) -> Vec<(P, Type, Arg)>) -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    for (place, kind, value) in rule(&graph) {
        outputs.put(place.into(), kind, value);
    }
    graph.finish(outputs)
}

/// A world of one field, `x`, that a step computes from itself.
fn of_one(step: impl FnOnce(&Graph, Arg) -> Arg) -> World {
    let leaves = vec![Leaf { name: "x".to_owned(), kind: Kind::Float }];
    let reset = function(|_| vec![("next.x", FLOAT, float(1.0))]);
    let step = function(|graph| {
        let value = step(graph, graph.parameter("state.x", FLOAT));
        [vec![("next.x", FLOAT, value)], ends()].concat()
    });
    world(
        leaves,
        reset,
        step,
        function(|graph| vec![("obs[0]", FLOAT, graph.parameter("state.x", FLOAT))]),
        1,
    )
}

fn ends() -> Vec<(&'static str, Type, Arg)> {
    let alive = Arg::Literal(Literal::Mask(false));
    vec![("reward", FLOAT, float(0.0)), ("terminated", Type::Scalar(Kind::Mask), alive)]
}

fn world(leaves: Vec<Leaf>, reset: Function, step: Function, observe: Function, obs: usize) -> World {
    let spec = EnvSpec {
        name: "large".to_owned(),
        summary: "large".to_owned(),
        obs: ObsSpace::symmetric(&vec![f64::INFINITY; obs]),
        actions: ActionSpace::Discrete(vec![2]),
        time_limit: 10,
        ..EnvSpec::default()
    };
    World { spec, leaves, reset, ahead: false, step, observe, legal: None, metrics: None, draw: None }
}

/// Writes, reads, emits and steps a world; returns its state after a step from `state`, and the emitted text.
fn in_every_way(world: World, state: Vec<f64>) -> (Vec<f64>, String) {
    let read = World::from_json(world.to_json().as_bytes()).expect("within the limits");
    let env = WorldEnv::new(read);
    let case = Case { state, actions: vec![vec![1.0]], draws: None };
    let [scalar, wide] =
        [Arithmetic::F32, Arithmetic::Wide].map(|way| env.replay(way, &case).expect("a case of the world"));
    assert!(scalar == wide, "the interpreter and its reference differ");
    let text = env.emit().expect("recorded worlds have text");
    (scalar.state.into_iter().next().expect("a step"), text)
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_long_chain_of_additions_ends_no_process() {
    let world =
        of_one(|graph, x| (0..200_000).fold(x, |sum, _| graph.scalar(Operation::FloatAdd, &[sum, x])));
    let (state, text) = in_every_way(world, vec![2.0]);
    assert_eq!(state, [400_002.0]);
    assert!(text.matches("__fadd_rn").count() == 200_000);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn many_loops_in_a_row_are_read_emitted_and_stepped() {
    let variable = ["x".to_owned()];
    let world = of_one(|graph, x| {
        (0..20_000).fold(x, |x, _| {
            let turn = |_, carried: &[Arg]| {
                let mask = graph.scalar(Operation::FloatLt, &[carried[0], float(20_000.0)]);
                let more = || vec![graph.scalar(Operation::FloatAdd, &[carried[0], float(1.0)])];
                graph.when(mask, &[(FLOAT, carried[0])], &variable, more)
            };
            graph.repeat(3, &[(FLOAT, x)], &variable, turn)[0]
        })
    });
    let (state, text) = in_every_way(world, vec![0.0]);
    assert_eq!(state, [20_000.0]);
    assert!(text.len() < 20 << 20, "{} bytes: names grow with the number of loops", text.len());
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_wide_state_is_read_emitted_and_stepped() {
    let fields = 1 << 16;
    let leaves: Vec<Leaf> = (0..fields).map(|k| Leaf { name: format!("f{k}"), kind: Kind::Float }).collect();
    let reset = function(|_| (0..fields).map(|k| (format!("next.f{k}"), FLOAT, float(0.0))).collect());
    let field = |graph: &Graph, k: usize| graph.parameter(&format!("state.f{k}"), FLOAT);
    let step = function(|graph| {
        let next = (0..fields).map(|k| {
            let sum = graph.scalar(Operation::FloatAdd, &[field(graph, k), float(1.0)]);
            (format!("next.f{k}"), FLOAT, sum)
        });
        next.chain(ends().into_iter().map(|(place, kind, value)| (place.to_owned(), kind, value))).collect()
    });
    let observe =
        function(|graph| (0..fields).map(|k| (format!("obs[{k}]"), FLOAT, field(graph, k))).collect());
    let (state, _) =
        in_every_way(world(leaves, reset, step, observe, fields), (0..fields).map(|k| k as f64).collect());
    assert_eq!((state[0], state[fields - 1]), (1.0, fields as f64));
}

/// A world with a memory of 4,096 words that a step writes.
fn of_memory(step: impl FnOnce(&Graph, Arg) -> Arg) -> World {
    let board = Type::Memory(4096);
    let leaves = (0..4096).map(|k| Leaf { name: format!("board[{k}]"), kind: Kind::Uint }).collect();
    let reset = function(|graph| vec![("next.board", board, graph.words(vec![uint(0); 4096]))]);
    let step = function(|graph| {
        [vec![("next.board", board, step(graph, graph.parameter("state.board", board)))], ends()].concat()
    });
    let observe = function(|graph| {
        let word = graph.element(graph.parameter("state.board", board), uint(0));
        vec![("obs[0]", FLOAT, graph.scalar(Operation::FloatFromUint, &[word]))]
    });
    world(leaves, reset, step, observe, 1)
}

#[test]
fn memory_counts_wherever_it_is() {
    let stores = |count: u32| {
        of_memory(|graph, board| {
            let action = graph.parameter("action[0]", Type::Scalar(Kind::Uint));
            let write = |board, k| graph.store(board, Arg::Literal(Literal::Mask(true)), uint(k), action);
            (0..count).fold(board, write)
        })
    };
    let (state, _) = in_every_way(stores(1000), vec![0.0; 4096]);
    assert_eq!(state.iter().sum::<f64>(), 1000.0);
    let refused =
        |world: World| World::from_json(world.to_json().as_bytes()).expect_err("too large").to_string();
    assert!(refused(stores(1100)).contains("the memories have more than 4194304 words in all"));
    // Each turn copies the memory twice: into the turn and out of it.
    let turns = |count: u32| {
        of_memory(|graph, board| {
            graph.repeat(count, &[(Type::Memory(4096), board)], &["board".to_owned()], |_, carried| {
                carried.to_vec()
            })[0]
        })
    };
    in_every_way(turns(100), vec![0.0; 4096]);
    assert!(refused(turns(10_000)).contains("a call computes more than"));
}

#[test]
fn names_of_values_and_fields_are_no_words_of_cuda() {
    let mut taken = of_one(|graph, x| {
        let names = ["fabsf", "GRID_WAIT", "env_step_table_0", "__syncthreads", "min", "_x"];
        names.iter().fold(x, |x, name| {
            // Used twice, so that it has a line of its own.
            let value = graph.scalar(Operation::FloatAbs, &[x]);
            let Arg::Node(id) = value else { unreachable!("it is not known") };
            graph.name(id, name);
            graph.scalar(Operation::FloatAdd, &[value, value])
        })
    });
    let text = taken.emit();
    for name in ["vfabsf", "fabsf_2", "vGRID_WAIT", "venv_step_table_0", "v__syncthreads", "min_2", "v_x"] {
        assert_eq!(text.contains(&format!("const float {name} = ")), name != "vfabsf", "{name}: {text}");
    }
    for (name, is_taken) in [("char16_t", true), ("typename", true), ("fine", false)] {
        taken.leaves[0].name = name.to_owned();
        let refused = taken.clone().checked().expect_err("the functions have x").to_string();
        assert_eq!(refused.contains("no keyword"), is_taken, "{refused}");
    }
}

#[test]
fn bounds_speeds_and_aliases_that_nothing_can_use_are_refused() {
    let refused = |change: &dyn Fn(&mut EnvSpec)| {
        let mut world = of_one(|_, x| x);
        change(&mut world.spec);
        world.checked().expect_err("it cannot be used").to_string()
    };
    for [low, high] in [[0.0, 1e39], [-1e39, 0.0], [1.0, 1.0 + 1e-12], [f64::NAN, 1.0], [0.0, f64::INFINITY]]
    {
        let bounds =
            |spec: &mut EnvSpec| spec.actions = ActionSpace::Box { low: vec![low], high: vec![high] };
        assert!(
            refused(&bounds).contains("finite bounds with low < high in single precision"),
            "{low} to {high}"
        );
    }
    for fps in [1e-38, 0.0, -1.0, 1e9, f32::NAN, f32::INFINITY] {
        assert!(refused(&|spec| spec.fps = fps).contains("fps is"), "{fps}");
    }
    for alias in ["", "two\nlines"] {
        let error = refused(&|spec| spec.aliases = vec![alias.to_owned()]);
        assert!(error.contains("alias") || error.contains("not one line"), "{error}");
    }
}

#[test]
fn many_components_are_a_table() {
    let text = |components: usize| {
        let mut world = of_one(|_, x| x);
        world.spec.actions = ActionSpace::Discrete((0..components).map(|k| 2 + k % 3).collect());
        world.checked().expect("within the limits").emit()
    };
    assert!(text(64).contains("component == 62u ? 4u : 2u; }"));
    assert!(
        text(65).contains("env_choices_table[65] = {2u, 3u, 4u, ") && !text(65).contains("component == ")
    );
}
