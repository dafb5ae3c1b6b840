//! The CUDA C++ that an environment becomes: `env_reset`, `env_step`, `env_observe` and, where actions can be illegal,
//! `env_legal`, over a struct of the state with its fields' names.

use std::fmt::Write;

use operant_lane::bundle::leaves_of;
use operant_lane::trace::{Graph, Outputs, Parameters, Trace};
use operant_lane::{Bundle, Draws, Kind, Leaf, Uint};

use crate::env::Env;
use crate::spec::{ActionSpace, ObsSpace};

/// Arguments that name the random draws of a call, as in [`Draws`].
const DRAWS: [&str; 6] = ["seed_low", "seed_high", "environment", "step_low", "step_high", "purpose"];

/// The source of an environment, ready for the rollout kernel.
pub fn emit<E: Env>(env: &E) -> String {
    let spec = env.spec();
    let state = leaves_of::<f32, E::State<f32>>();
    let (obs_type, obs_size) = match spec.obs {
        ObsSpace::Box { .. } => ("float", spec.obs.words()),
        ObsSpace::Binary { .. } => ("unsigned", spec.obs.words()),
    };
    let mut out = String::new();
    let mut put = |text: &str| out.push_str(text);

    put(&format!("// {}: {}.\n", spec.name, spec.summary));
    put("// Emitted from the environment's Rust source by `operant emit`; do not edit.\n#pragma once\n\n");
    put(&format!("constexpr unsigned ENV_TIME_LIMIT = {}u;\n", spec.time_limit));
    put(&format!("constexpr unsigned ENV_OBS = {}u;         // numbers the policy sees\n", spec.obs.size()));
    put(&format!("constexpr unsigned ENV_OBS_WORDS = {obs_size}u;   // words they are stored in\n"));
    match &spec.actions {
        ActionSpace::Discrete(choices) => {
            put(&format!(
                "constexpr unsigned ENV_ACTIONS = {}u;     // logits\n",
                choices.iter().sum::<usize>()
            ));
        }
        ActionSpace::Box { low, .. } => {
            put(&format!("constexpr unsigned ENV_ACTIONS = {}u;     // means\n", low.len()))
        }
    }
    put(&format!("\nstruct EnvState {{\n{}}};\n", fields(&state)));

    put(&reset(env));
    put(&step(env));
    put(&observe(env, obs_type));
    if E::MASKED {
        put(&legal(env));
    }
    out
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

/// Places of the elements of an array called `base`, or of a single value of that name.
fn elements(base: &str, leaves: &[Leaf]) -> Vec<String> {
    match leaves {
        [single] if single.name == "value" => vec![base.to_owned()],
        _ => (0..leaves.len()).map(|i| format!("{base}[{i}]")).collect(),
    }
}

/// The draws that the six parameters name.
fn draws<'g>(graph: &'g Graph) -> Draws<Trace<'g>> {
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
    // One component is passed by value, several as an array.
    let (names, argument) = if leaves.len() == 1 {
        (vec!["action".to_owned()], format!("{kind} action"))
    } else {
        (elements("action", &leaves), format!("const {kind}* action"))
    };
    let action = Bundle::load(&mut Parameters::new(&graph, names));
    let step = env.step(&state::<E>(&graph), &action, &mut draws(&graph));
    let mut outputs = Outputs::new();
    outputs.assign(&step.state, members::<E::State<f32>>("next"));
    outputs.assign(&step.reward, vec!["reward".to_owned()]);
    outputs.assign(&step.terminated, vec!["terminated".to_owned()]);
    let arguments = [
        format!("const EnvState& state, {argument}"),
        draw_arguments(),
        "EnvState& next, float& reward, bool& terminated".to_owned(),
    ];
    function(&graph, &outputs, "env_step", &arguments)
}

fn observe<E: Env>(env: &E, kind: &str) -> String {
    let graph = Graph::new();
    let leaves = leaves_of::<f32, E::Obs<f32>>();
    let places = (0..leaves.len()).map(|i| format!("obs[{i}]")).collect();
    let mut outputs = Outputs::new();
    outputs.assign(&env.observe(&state::<E>(&graph)), places);
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
