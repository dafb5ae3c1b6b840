//! A world: an environment as recorded functions. Rules in Rust are recorded for CUDA; rules in Python are recorded once, by
//! `operant.world`, and run from the recording on CPUs too.

mod any;
mod check;
mod drawing;
mod file;
mod limits;
mod link;
mod replay;
mod stepper;

use operant_lane::bundle::leaves_of;
use operant_lane::trace::{Function, Graph, Outputs, Parameters, Trace};
use operant_lane::{Bundle, Draws, Lane, Leaf, Source, Uint};
use serde::{Deserialize, Serialize};

pub use any::WorldEnv;
pub use check::Problem;
pub use drawing::{Drawing, Outline};
pub use file::{LoadError, MAX_FILE, VERSION};

use crate::env::{Env, Step};
use crate::spec::{ActionSpace, EnvSpec};

/// Parameters that name the random draws of a call, as in [`Draws`].
pub const DRAWS: [&str; 6] = ["seed_low", "seed_high", "environment", "step_low", "step_high", "purpose"];

/// Parameters that name the outcome of a step.
const OUTCOME: [&str; 2] = ["reward", "terminated"];

/// An environment as recorded functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// Name, spaces, limits.
    pub spec: EnvSpec,
    /// The fields of a state, each in a 32-bit word.
    #[serde(rename = "state")]
    pub leaves: Vec<Leaf>,
    /// From draws to `next`, a state.
    pub reset: Function,
    /// Whether first states are made ahead of time: [`Env::AHEAD`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
    /// From `state`, `action` and draws to `next`, `reward` and `terminated`.
    pub step: Function,
    /// From `state` to `obs`, words of the space.
    pub observe: Function,
    /// From `state` to `legal`, a truth value for every choice; None if all choices are always legal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legal: Option<Function>,
    /// From `state`, `reward` and `terminated` of the last step to `metrics`, a number for each of the specification's; None if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Function>,
    /// The picture of a state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Drawing>,
}

impl World {
    /// Records an environment that is written in Rust.
    pub fn record<E: Env>(env: &E) -> Self {
        World {
            spec: env.spec(),
            leaves: leaves_of::<f32, E::State<f32>>(),
            reset: reset(env),
            ahead: E::AHEAD,
            step: step(env),
            observe: observe(env),
            legal: E::MASKED.then(|| legal(env)),
            metrics: metrics(env),
            draw: None,
        }
    }

    /// The world after a check that everything in it fits together.
    ///
    /// # Errors
    /// When something does not.
    pub fn checked(self) -> Result<Self, Problem> {
        check::check(&self)?;
        Ok(self)
    }

    /// The world as CUDA C++.
    pub fn emit(&self) -> String {
        crate::emit::emit(self)
    }
}

/// Places of leaves in a structure called `base`.
pub fn members(base: &str, leaves: &[Leaf]) -> Vec<String> {
    leaves.iter().map(|leaf| format!("{base}.{}", leaf.name)).collect()
}

fn state_members<E: Env>(base: &str) -> Vec<String> {
    members(base, &leaves_of::<f32, E::State<f32>>())
}

/// The draws that the six parameters name.
pub fn draws(graph: &Graph) -> Draws<'_, Trace<'_>> {
    let names = DRAWS.map(str::to_owned).to_vec();
    let [s0, s1, environment, t0, t1, purpose]: [<Trace<'_> as Lane>::Uint; 6] =
        Bundle::<Trace<'_>>::load(&mut Parameters::new(graph, names));
    Draws::tagged([s0, s1], environment, [t0, t1], purpose.shl(24))
}

fn state<'g, E: Env>(graph: &'g Graph) -> E::State<Trace<'g>> {
    Bundle::load(&mut Parameters::new(graph, state_members::<E>("state")))
}

fn reset<E: Env>(env: &E) -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    outputs.assign(&env.reset(&mut draws(&graph)), state_members::<E>("next"));
    graph.finish(outputs)
}

fn step<E: Env>(env: &E) -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    let components = leaves_of::<f32, E::Action<f32>>().len();
    let names = (0..components).map(|component| format!("action[{component}]")).collect();
    let action = Bundle::load(&mut Parameters::new(&graph, names));
    let step = env.step(&state::<E>(&graph), &action, &mut draws(&graph));
    outputs.assign(&step.state, state_members::<E>("next"));
    outputs.assign(&step.reward, vec!["reward".to_owned()]);
    outputs.assign(&step.terminated, vec!["terminated".to_owned()]);
    graph.finish(outputs)
}

fn observe<E: Env>(env: &E) -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    let space = env.spec().obs;
    // An observation may have fewer words than its type.
    let words = space.words().min(leaves_of::<f32, E::Obs<f32>>().len());
    let places = (0..words).map(|i| format!("obs[{i}]")).collect();
    let obs = env.observe(&state::<E>(&graph));
    if space.is_real() {
        outputs.assign(&obs, places);
    } else {
        outputs.assign_words(&obs, places);
    }
    graph.finish(outputs)
}

fn legal<E: Env>(env: &E) -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    let state = state::<E>(&graph);
    if let ActionSpace::Discrete(choices) = env.spec().actions {
        let mut place = 0;
        for (component, &count) in choices.iter().enumerate() {
            for choice in 0..count {
                outputs.assign(&env.legal(&state, component, choice), vec![format!("legal[{place}]")]);
                place += 1;
            }
        }
    }
    graph.finish(outputs)
}

fn metrics<E: Env>(env: &E) -> Option<Function> {
    let count = env.spec().measured();
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    let mut outcome = Parameters::new(&graph, OUTCOME.map(str::to_owned).to_vec());
    let last = Step { state: state::<E>(&graph), reward: outcome.float(), terminated: outcome.mask() };
    for index in 0..count {
        outputs.assign(&env.metric(&last, index), vec![format!("metrics[{index}]")]);
    }
    (count > 0).then(|| graph.finish(outputs))
}
