//! Emits a recorded environment as CUDA C++: its spaces as constants, `env_reset`, `env_step`, `env_observe`, `env_legal` where
//! actions can be illegal, and `env_metrics` where it has metrics, over a struct of the state with its fields' names, and `env_load` and `env_store`,
//! which move that struct from and to rows of words, one row per leaf.

use std::fmt::Write;

use operant_lane::trace::Function;
use operant_lane::{Kind, Leaf};

use crate::spec::ActionSpace;
use crate::world::{DRAWS, World};

/// The source of an environment, ready for the rollout kernel.
pub(crate) fn emit(world: &World) -> String {
    let World { spec, leaves: state, reset, step, observe, legal, metrics, .. } = world;
    let (obs_type, obs_size) = (if spec.obs.is_real() { "float" } else { "unsigned" }, spec.obs.words());
    let action_type = if matches!(spec.actions, ActionSpace::Discrete(_)) { "unsigned" } else { "float" };
    let draws = DRAWS.map(|name| format!("unsigned {name}")).join(", ");
    let mut out = String::new();
    let mut put = |text: &str| out.push_str(text);

    put(&format!("// {}: {}.\n", spec.name, spec.summary));
    put("// Emitted from the environment's rules by `operant emit`; do not edit.\n#pragma once\n\n");
    put(&format!("constexpr unsigned ENV_TIME_LIMIT = {}u;\n", spec.time_limit));
    put(&format!(
        "constexpr unsigned ENV_OBS = {}u;         // numbers the policy sees\n",
        spec.obs.features()
    ));
    put(&format!("constexpr unsigned ENV_OBS_WORDS = {obs_size}u;   // words they are stored in\n"));
    put(&format!("constexpr unsigned ENV_STATE_WORDS = {}u;   // words of a state\n", state.len()));
    if metrics.is_some() {
        let count = spec.measured();
        put(&format!(
            "#define ENV_METRICS {count}   // numbers that env_metrics measures where an episode ends\n"
        ));
    }
    if world.ahead {
        put("#define ENV_AHEAD   // a reset draws as of the step at which the episode before it began\n");
    }
    put(&actions(&spec.actions, legal.is_some()));
    put(&format!("\nstruct EnvState {{\n{}}};\n", fields(state)));

    put(&transport(state));
    // A long reset is called, so that the kernels of a step need no registers for it.
    let called = if world.ahead { "__noinline__" } else { INLINED };
    put(&function(called, reset, "env_reset", &[draws.clone(), "EnvState& next".to_owned()]));
    let arguments = [
        format!("const EnvState& state, const {action_type}* action"),
        draws,
        "EnvState& next, float& reward, bool& terminated".to_owned(),
    ];
    put(&function(INLINED, step, "env_step", &arguments));
    put(&function(INLINED, observe, "env_observe", &[format!("const EnvState& state, {obs_type}* obs")]));
    if let Some(packing) = spec.obs.packing() {
        put(&packing.emit());
    }
    if let Some(legal) = legal {
        put(&function(INLINED, legal, "env_legal", &["const EnvState& state, bool* legal".to_owned()]));
    }
    if let Some(metrics) = metrics {
        put(&function(
            INLINED,
            metrics,
            "env_metrics",
            &["const EnvState& state, float reward, bool terminated, float* metrics".to_owned()],
        ));
    }
    out
}

/// How functions are called that kernels use once.
const INLINED: &str = "__forceinline__";

fn function(called: &str, function: &Function, name: &str, arguments: &[String]) -> String {
    let head = format!("__device__ {called} void {name}(");
    let arguments = arguments.join(",\n    ");
    format!("\n{}{head}\n    {arguments}) {{\n{}}}\n", function.emit_tables(name), function.emit(name))
}

/// The space of actions as constants and functions of the component, which the compiler folds if the component is a constant.
fn actions(space: &ActionSpace, is_masked: bool) -> String {
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
        writeln!(text, "#define ENV_MASKED {}   // whether env_legal forbids choices", u8::from(is_masked))
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

/// Up to this many values are emitted as a chain of conditions, more as a table: compile time is quadratic in the chain.
const CHAINED: usize = 64;

/// A function from the number of a component to its value.
fn by_component(kind: &str, name: &str, values: &[String]) -> String {
    let (last, others) = values.split_last().expect("an action has a component");
    if others.len() >= CHAINED {
        let (count, values) = (values.len(), values.join(", "));
        return format!(
            "static __device__ const {kind} {name}_table[{count}] = {{{values}}};\n\
             __device__ __forceinline__ {kind} {name}(unsigned component) {{ return {name}_table[component]; }}\n"
        );
    }
    let chain: String =
        others.iter().enumerate().map(|(k, value)| format!("component == {k}u ? {value} : ")).collect();
    let parameter = if others.is_empty() { "unsigned" } else { "unsigned component" };
    format!("__device__ __forceinline__ constexpr {kind} {name}({parameter}) {{ return {chain}{last}; }}\n")
}

/// Words of an array of a state that are copied by a loop: in a line each they would take long to compile, and spill registers.
const IN_LOOP: usize = 256;

/// `env_load` and `env_store`: a state from and to rows of words, `stride` words apart, in the order of its leaves.
fn transport(leaves: &[Leaf]) -> String {
    let lines = |line: &dyn Fn(Kind, &str, &str) -> String| -> String {
        let (mut text, mut row) = (String::new(), 0);
        while let Some(leaf) = leaves.get(row) {
            let (name, length) = array(&leaves[row..]);
            if length > IN_LOOP {
                let copied =
                    line(leaf.kind, &format!("{name}[word]"), &format!("words[({row}u + word) * stride]"));
                text += &format!(
                    "    #pragma unroll 8\n    for (unsigned word = 0u; word < {length}u; ++word) {copied};\n"
                );
                row += length;
            } else {
                let at = if row == 0 { "words[0]".to_owned() } else { format!("words[{row}u * stride]") };
                text += &format!("    {};\n", line(leaf.kind, &leaf.name, &at));
                row += 1;
            }
        }
        text
    };
    let load = lines(&|kind, name, word| {
        let value = match kind {
            Kind::Float => format!("__uint_as_float({word})"),
            Kind::Uint => word.to_owned(),
            Kind::Int => format!("(int){word}"),
            Kind::Mask => format!("{word} != 0u"),
        };
        format!("state.{name} = {value}")
    });
    let store = lines(&|kind, name, word| {
        let value = match kind {
            Kind::Float => format!("__float_as_uint(state.{name})"),
            Kind::Uint => format!("state.{name}"),
            Kind::Int => format!("(unsigned)state.{name}"),
            Kind::Mask => format!("state.{name} ? 1u : 0u"),
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

/// The name of the array that the leaves begin with, and how many of them are its elements; 0 if they begin within one, or with none.
fn array(leaves: &[Leaf]) -> (&str, usize) {
    let Some((name, "0]")) = leaves[0].name.split_once('[') else { return (&leaves[0].name, 0) };
    let same = |other: &&Leaf| other.name.split_once('[').is_some_and(|(n, _)| n == name);
    (name, leaves.iter().take_while(same).count())
}

/// The fields of a struct with those leaves, arrays gathered.
fn fields(leaves: &[Leaf]) -> String {
    let mut text = String::new();
    for (index, leaf) in leaves.iter().enumerate() {
        let (name, length) = array(&leaves[index..]);
        if length == 0 && name.contains('[') {
            continue;
        }
        let kind = kind_name(leaf.kind);
        let length = if length == 0 { String::new() } else { format!("[{length}]") };
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
