//! Emits an environment as CUDA C++: its spaces as constants, `env_reset`, `env_step`, `env_observe` and, where
//! actions can be illegal, `env_legal`, over a struct of the state with its fields' names, and `env_load` and `env_store`,
//! which move that struct from and to rows of words, one row a leaf.

use std::fmt::Write;

use operant_lane::bundle::leaves_of;
use operant_lane::trace::{Graph, Outputs, Parameters, Trace};
use operant_lane::{Bundle, Draws, Kind, Leaf, Uint};

use crate::env::Env;
use crate::spec::ActionSpace;

/// Arguments that name the random draws of a call, as in [`Draws`].
const DRAWS: [&str; 6] = ["seed_low", "seed_high", "environment", "step_low", "step_high", "purpose"];

/// The source of an environment, ready for the rollout kernel.
pub(crate) fn emit<E: Env>(env: &E) -> String {
    let spec = env.spec();
    let state = leaves_of::<f32, E::State<f32>>();
    let (obs_type, obs_size) = (if spec.obs.is_real() { "float" } else { "unsigned" }, spec.obs.words());
    let mut out = String::new();
    let mut put = |text: &str| out.push_str(text);

    put(&format!("// {}: {}.\n", spec.name, spec.summary));
    put("// Emitted from the environment's Rust source by `operant emit`; do not edit.\n#pragma once\n\n");
    put(&format!("constexpr unsigned ENV_TIME_LIMIT = {}u;\n", spec.time_limit));
    put(&format!(
        "constexpr unsigned ENV_OBS = {}u;         // numbers the policy sees\n",
        spec.obs.features()
    ));
    put(&format!("constexpr unsigned ENV_OBS_WORDS = {obs_size}u;   // words they are stored in\n"));
    put(&format!("constexpr unsigned ENV_STATE_WORDS = {}u;   // words of a state\n", state.len()));
    put(&actions::<E>(&spec.actions));
    put(&format!("\nstruct EnvState {{\n{}}};\n", fields(&state)));

    put(&transport(&state));
    put(&reset(env));
    put(&step(env));
    put(&observe(env, obs_type));
    if let Some(packing) = spec.obs.packing() {
        put(&packing.emit());
    }
    if E::MASKED {
        put(&legal(env));
    }
    out
}

/// The space of actions as constants and functions of the component, which the compiler folds if the component is a constant.
fn actions<E: Env>(space: &ActionSpace) -> String {
    let mut text = String::new();
    let mut constant = |kind: &str, name: &str, value: String, comment: &str| {
        writeln!(text, "constexpr {kind} {name} = {value};   // {comment}").expect("writing to a string");
    };
    let (outputs, comment) = match space {
        ActionSpace::Discrete(choices) => (choices.iter().sum(), "logits"),
        ActionSpace::Box { low, .. } => (low.len(), "means"),
    };
    let discrete = matches!(space, ActionSpace::Discrete(_));
    constant("unsigned", "ENV_ACTIONS", format!("{outputs}u"), comment);
    constant("unsigned", "ENV_COMPONENTS", format!("{}u", space.components()), "numbers that name an action");
    writeln!(
        text,
        "#define ENV_DISCRETE {}   // choices, or real numbers between bounds",
        u8::from(discrete)
    )
    .and_then(|()| {
        writeln!(text, "#define ENV_MASKED {}   // whether env_legal forbids choices", u8::from(E::MASKED))
    })
    .expect("writing to a string");
    match space {
        ActionSpace::Discrete(choices) => {
            let choices: Vec<String> = choices.iter().map(|count| format!("{count}u")).collect();
            text += "using EnvAction = unsigned;\n";
            text += &by_component("unsigned", "env_choices", &choices);
        }
        ActionSpace::Box { low, high } => {
            let literals = |bounds: &[f64]| -> Vec<String> {
                bounds.iter().map(|&bound| format!("{:?}f", bound as f32)).collect()
            };
            text += "using EnvAction = float;\n";
            text += &by_component("float", "env_low", &literals(low));
            text += &by_component("float", "env_high", &literals(high));
        }
    }
    text
}

/// A function from the number of a component to its value.
fn by_component(kind: &str, name: &str, values: &[String]) -> String {
    let (last, others) = values.split_last().expect("an action has a component");
    let chain: String =
        others.iter().enumerate().map(|(k, value)| format!("component == {k}u ? {value} : ")).collect();
    let parameter = if others.is_empty() { "unsigned" } else { "unsigned component" };
    format!("__device__ __forceinline__ constexpr {kind} {name}({parameter}) {{ return {chain}{last}; }}\n")
}

/// `env_load` and `env_store`: a state from and to rows of words, `stride` words apart, in the order of its leaves.
fn transport(leaves: &[Leaf]) -> String {
    let lines = |line: &dyn Fn(&Leaf, String) -> String| -> String {
        let at =
            |row: usize| if row == 0 { "words[0]".to_owned() } else { format!("words[{row}u * stride]") };
        leaves.iter().enumerate().map(|(row, leaf)| format!("    {};\n", line(leaf, at(row)))).collect()
    };
    let load = lines(&|leaf, word| {
        let value = match leaf.kind {
            Kind::Float => format!("__uint_as_float({word})"),
            Kind::Uint => word,
            Kind::Int => format!("(int){word}"),
            Kind::Mask => format!("{word} != 0u"),
        };
        format!("state.{} = {value}", leaf.name)
    });
    let store = lines(&|leaf, word| {
        let value = match leaf.kind {
            Kind::Float => format!("__float_as_uint(state.{})", leaf.name),
            Kind::Uint => format!("state.{}", leaf.name),
            Kind::Int => format!("(unsigned)state.{}", leaf.name),
            Kind::Mask => format!("state.{} ? 1u : 0u", leaf.name),
        };
        format!("{word} = {value}")
    });
    // A state of one leaf has no second row.
    let stride = if leaves.len() > 1 { "unsigned stride" } else { "unsigned" };
    format!(
        "\n__device__ __forceinline__ void env_load(const unsigned* words, {stride}, EnvState& state) {{\n{load}}}\n\
         \n__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, {stride}) {{\n{store}}}\n"
    )
}

/// The fields of a struct with those leaves, arrays gathered.
fn fields(leaves: &[Leaf]) -> String {
    let mut text = String::new();
    for (index, leaf) in leaves.iter().enumerate() {
        let (name, place) = leaf.name.split_once('[').unwrap_or((&leaf.name, ""));
        if !place.is_empty() && !place.starts_with("0]") {
            continue;
        }
        let same = |other: &&Leaf| other.name.split_once('[').is_some_and(|(n, _)| n == name);
        let length = leaves[index..].iter().filter(same).count();
        let kind = kind_name(leaf.kind);
        let length = if place.is_empty() { String::new() } else { format!("[{length}]") };
        writeln!(text, "    {kind} {name}{length};").expect("writing to a string");
    }
    text
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Float => "float",
        Kind::Uint => "unsigned",
        Kind::Int => "int",
        Kind::Mask => "bool",
    }
}

/// Places of the leaves of a structure called `base`.
fn members<B: for<'g> BundleOf<'g>>(base: &str) -> Vec<String> {
    B::leaves().into_iter().map(|leaf| format!("{base}.{}", leaf.name)).collect()
}

/// The leaves of a bundle without naming the recording's lifetime.
trait BundleOf<'g> {
    fn leaves() -> Vec<Leaf>;
}

impl<'g, B: Bundle<f32>> BundleOf<'g> for B {
    fn leaves() -> Vec<Leaf> {
        leaves_of::<f32, B>()
    }
}

/// The draws that the six parameters name.
fn draws<'g>(graph: &'g Graph) -> Draws<'g, Trace<'g>> {
    let names = DRAWS.map(str::to_owned).to_vec();
    let [s0, s1, environment, t0, t1, purpose]: [<Trace<'g> as operant_lane::Lane>::Uint; 6] =
        Bundle::<Trace<'g>>::load(&mut Parameters::new(graph, names));
    Draws::tagged([s0, s1], environment, [t0, t1], purpose.shl(24))
}

fn state<'g, E: Env>(graph: &'g Graph) -> E::State<Trace<'g>> {
    Bundle::load(&mut Parameters::new(graph, members::<E::State<f32>>("state")))
}

fn function(graph: &Graph, outputs: &Outputs, name: &str, arguments: &[String]) -> String {
    let head = format!("__device__ __forceinline__ void {name}(");
    let arguments = arguments.join(",\n    ");
    format!("\n{}{head}\n    {arguments}) {{\n{}}}\n", graph.emit_tables(name), graph.emit(outputs, name))
}

fn draw_arguments() -> String {
    DRAWS.map(|name| format!("unsigned {name}")).join(", ")
}

fn reset<E: Env>(env: &E) -> String {
    let graph = Graph::new();
    let mut outputs = Outputs::new();
    outputs.assign(&env.reset(&mut draws(&graph)), members::<E::State<f32>>("next"));
    function(&graph, &outputs, "env_reset", &[draw_arguments(), "EnvState& next".to_owned()])
}

fn step<E: Env>(env: &E) -> String {
    let graph = Graph::new();
    let leaves = leaves_of::<f32, E::Action<f32>>();
    let kind = kind_name(leaves[0].kind);
    let names = (0..leaves.len()).map(|component| format!("action[{component}]")).collect();
    let action = Bundle::load(&mut Parameters::new(&graph, names));
    let step = env.step(&state::<E>(&graph), &action, &mut draws(&graph));
    let mut outputs = Outputs::new();
    outputs.assign(&step.state, members::<E::State<f32>>("next"));
    outputs.assign(&step.reward, vec!["reward".to_owned()]);
    outputs.assign(&step.terminated, vec!["terminated".to_owned()]);
    let arguments = [
        format!("const EnvState& state, const {kind}* action"),
        draw_arguments(),
        "EnvState& next, float& reward, bool& terminated".to_owned(),
    ];
    function(&graph, &outputs, "env_step", &arguments)
}

fn observe<E: Env>(env: &E, kind: &str) -> String {
    let graph = Graph::new();
    let leaves = leaves_of::<f32, E::Obs<f32>>();
    // An observation may have fewer words than its type.
    let words = env.spec().obs.words().min(leaves.len());
    let places = (0..words).map(|i| format!("obs[{i}]")).collect();
    let (obs, mut outputs) = (env.observe(&state::<E>(&graph)), Outputs::new());
    if kind == "float" {
        outputs.assign(&obs, places);
    } else {
        outputs.assign_words(&obs, places);
    }
    function(&graph, &outputs, "env_observe", &[format!("const EnvState& state, {kind}* obs")])
}

fn legal<E: Env>(env: &E) -> String {
    let graph = Graph::new();
    let state = state::<E>(&graph);
    let mut outputs = Outputs::new();
    if let ActionSpace::Discrete(choices) = env.spec().actions {
        let mut place = 0;
        for (component, &count) in choices.iter().enumerate() {
            for choice in 0..count {
                outputs.assign(&env.legal(&state, component, choice), vec![format!("legal[{place}]")]);
                place += 1;
            }
        }
    }
    function(&graph, &outputs, "env_legal", &["const EnvState& state, bool* legal".to_owned()])
}
