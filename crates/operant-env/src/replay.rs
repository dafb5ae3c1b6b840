//! Replays actions from a given state without auto-reset, to check rules from outside and to report bugs in them.

use operant_lane::bundle::leaves_of;
use operant_lane::{Bundle, Draws, Int, Kind, Lane, Mask, Packed, Purpose, Script, Sink, Uint, Wide};

use crate::any::{StepError, Widest};
use crate::env::{Env, Step, spec_of};
use crate::rows::{Rows, RowsMut, Splat};
use crate::spec::{ActionSpace, EnvSpec};

/// Which arithmetic replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Scalar, double precision: what references compute.
    F64,
    /// Scalar, single precision.
    F32,
    /// Environments side by side, of which the first is shown.
    Wide,
}

/// A state in the environment's public order, and the actions to take from it, each with one number per component.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// The state to start from.
    pub state: Vec<f64>,
    /// The action of each step.
    pub actions: Vec<Vec<f64>>,
    /// The random numbers of each step, in order: whole numbers and uniforms in [0, 1). Without it, chance draws from seed 0,
    /// environment 0.
    pub draws: Option<Vec<Vec<f64>>>,
}

/// The results, entry k after action k; they stop at the end of the episode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Observations; binary ones unpacked.
    pub obs: Vec<Vec<f64>>,
    /// Rewards.
    pub reward: Vec<f64>,
    /// Whether the rules ended the episode.
    pub terminated: Vec<bool>,
    /// Whether the time limit ended it, counted from the start of the case, or in the state if that counts steps.
    pub truncated: Vec<bool>,
    /// States in the public order.
    pub state: Vec<Vec<f64>>,
}

/// A case that cannot be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields are")]
pub enum CaseError {
    /// The environment cannot be put into a given state.
    #[error("{env} cannot be put into a given state")]
    Unsupported { env: String },
    /// Wrong number of state entries.
    #[error("`state` has {}", counted(*got, "number"))]
    State {
        env: String,
        /// Numbers given.
        got: usize,
        /// Numbers of a state.
        expected: usize,
    },
    /// A number that its place in the state cannot hold.
    #[error("`state[{index}]` = {value}")]
    Entry {
        env: String,
        index: usize,
        value: f64,
        /// The values that are allowed there.
        what: String,
    },
    /// Wrong number of action components, or a choice that does not exist.
    #[error("`actions[{index}]` = {got:?}")]
    Action {
        index: usize,
        /// The action given.
        got: Vec<f64>,
        /// The kind of action.
        expected: String,
    },
    /// The draws are not one list for each action.
    #[error("`draws` has {} for {}", counted(*got, "list"), counted(*expected, "action"))]
    DrawsCount {
        /// Lists given.
        got: usize,
        expected: usize,
    },
    /// The draws of a step are not those that the rules make.
    #[error("`draws[{index}]` = {got:?}")]
    Draws {
        index: usize,
        /// The numbers given.
        got: Vec<f64>,
        /// The numbers that the step draws.
        problem: String,
    },
    /// Given draws reach only the lanes of the host.
    #[error("a GPU cannot replay `draws`")]
    DrawsOnDevice,
    /// A recorded world computes in single precision alone.
    #[error("{env} was recorded in single precision")]
    Precision { env: String },
    /// The environment cannot be stepped further: its rules return what its spaces do not have.
    #[error(transparent)]
    Step(#[from] StepError),
    /// A recorded world draws its own random numbers.
    #[error("{env} was recorded, so it draws its own random numbers")]
    DrawsOfWorld { env: String },
}

/// Such as `1 list` or `2 lists`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl CaseError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            CaseError::Unsupported { .. } => {
                "replay one of the environments that `operant envs` lists".to_owned()
            }
            CaseError::State { env, expected, .. } => format!("{env} has {expected}"),
            CaseError::Entry { env, what, .. } => format!("{env} has {what} there"),
            CaseError::Action { expected, .. } => expected.clone(),
            CaseError::DrawsCount { .. } => "give one for each action".to_owned(),
            CaseError::Draws { problem, .. } => problem.clone(),
            CaseError::DrawsOnDevice => "use the scalar or the wide device".to_owned(),
            CaseError::Step(error) => error.remedy.to_owned(),
            CaseError::Precision { .. } => "replay it with --precision f32".to_owned(),
            CaseError::DrawsOfWorld { .. } => "leave `draws` out".to_owned(),
        }
    }
}

/// Replays a case.
///
/// # Errors
/// When the case is none of this environment's.
pub(crate) fn replay<E: Env>(env: &E, arithmetic: Arithmetic, case: &Case) -> Result<Outcome, CaseError> {
    check(env, case)?;
    match arithmetic {
        Arithmetic::F64 => run::<E, f64>(env, case),
        Arithmetic::F32 => run::<E, f32>(env, case),
        Arithmetic::Wide => run::<E, Widest>(env, case),
    }
}

fn check<E: Env>(env: &E, case: &Case) -> Result<(), CaseError> {
    let spec = spec_of(env);
    let leaves = leaves_of::<f64, E::State<f64>>();
    let expected = env.public_len(&case.state)?;
    if case.state.len() != expected {
        return Err(CaseError::State { env: spec.name.clone(), got: case.state.len(), expected });
    }
    // In the public form integer leaves, packed ones included, are whole numbers.
    let whole = |index: usize| leaves.get(index).is_none_or(|leaf| leaf.kind != Kind::Float);
    let refused = |index: usize, what: &str| {
        let (env, value) = (spec.name.clone(), case.state[index]);
        Err(CaseError::Entry { env, index, value, what: what.to_owned() })
    };
    for (index, value) in case.state.iter().enumerate() {
        if !value.is_finite() {
            return refused(index, "a finite number");
        }
        let range = f64::from(i32::MIN)..=f64::from(u32::MAX);
        if whole(index) && (value.fract() != 0.0 || !range.contains(value)) {
            return refused(index, "a whole number");
        }
    }
    // Unsigned leaves cannot hold a negative number.
    let state = E::State::<f64>::load(&mut Splat(env.unpack(&case.state).iter()));
    let kept = env.pack(&numbers::<f64, _>(&state));
    if let Some(index) = (0..kept.len()).find(|&index| case.state[index] < 0.0 && kept[index] >= 0.0) {
        return refused(index, "a whole number of at least 0");
    }
    check_actions(&spec, case)
}

/// The part of the check that does not depend on the state.
pub(crate) fn check_actions(spec: &EnvSpec, case: &Case) -> Result<(), CaseError> {
    for (index, action) in case.actions.iter().enumerate() {
        let (fits, expected) = match &spec.actions {
            ActionSpace::Discrete(choices) => (
                action.len() == choices.len()
                    && action
                        .iter()
                        .zip(choices)
                        .all(|(a, n)| a.fract() == 0.0 && (0.0..*n as f64).contains(a)),
                format!("give whole numbers below {choices:?}"),
            ),
            ActionSpace::Box { low, .. } => (
                action.len() == low.len() && action.iter().all(|a| a.is_finite()),
                format!("give {} finite numbers", low.len()),
            ),
        };
        if !fits {
            return Err(CaseError::Action { index, got: action.clone(), expected });
        }
    }
    if let Some(draws) = &case.draws
        && draws.len() != case.actions.len()
    {
        return Err(CaseError::DrawsCount { got: draws.len(), expected: case.actions.len() });
    }
    Ok(())
}

/// A case in a device's format: 32-bit words, floats by their bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseWords {
    /// `(leaves)`.
    pub state: Vec<u32>,
    /// `(components)` of each action.
    pub actions: Vec<Vec<u32>>,
}

/// The results of one step on a device, as words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepWords<'a> {
    /// `(words)` of the observation.
    pub obs: &'a [u32],
    /// The reward.
    pub reward: f32,
    /// Whether the rules ended the episode, and whether the time limit did.
    pub ended: [bool; 2],
    /// `(leaves)` after the step.
    pub state: &'a [u32],
}

/// A case for a device, in single precision.
///
/// # Errors
/// When the case does not fit this environment, or has draws.
pub(crate) fn to_words<E: Env>(env: &E, case: &Case) -> Result<CaseWords, CaseError> {
    check(env, case)?;
    if case.draws.is_some() {
        return Err(CaseError::DrawsOnDevice);
    }
    let state = E::State::<f32>::load(&mut Splat(env.unpack(&case.state).iter()));
    let mut words = vec![0; leaves_of::<f32, E::State<f32>>().len()];
    state.store(&mut RowsMut::new(&mut words, 1, 0));
    let action = |action: &Vec<f64>| {
        let mut words = vec![0; action.len()];
        E::Action::<f32>::load(&mut Splat(action.iter())).store(&mut RowsMut::new(&mut words, 1, 0));
        words
    };
    // The device counts from the start of the case.
    let left = u64::from(spec_of(env).time_limit).saturating_sub(env.elapsed(&case.state)).max(1);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    Ok(CaseWords { state: words, actions: case.actions.iter().take(left).map(action).collect() })
}

/// The outcome of a case from a device's results, step by step.
pub(crate) fn from_words<E: Env>(env: &E, steps: &[StepWords<'_>]) -> Outcome {
    let EnvSpec { obs: space, time_limit, .. } = spec_of(env);
    let mut outcome = Outcome::default();
    for step in steps {
        outcome.obs.push(space.unpack(step.obs));
        outcome.reward.push(f64::from(step.reward));
        outcome.terminated.push(step.ended[0]);
        let state = E::State::<f32>::load(&mut Rows::new(step.state, 1, 0));
        let state = env.pack(&numbers::<f32, _>(&state));
        outcome.truncated.push(step.ended[1] || env.elapsed(&state) >= u64::from(time_limit));
        outcome.state.push(state);
    }
    outcome
}

/// One step with the case's random numbers, or with a stream's if it has none.
fn step<E: Env, L: Lane>(
    env: &E,
    state: &E::State<L>,
    case: &Case,
    index: usize,
) -> Result<Step<L, E::State<L>>, CaseError> {
    let action = E::Action::<L>::load(&mut Splat(case.actions[index].iter()));
    let script = case.draws.as_ref().map(|draws| Script::new(&draws[index]));
    let mut draws = match &script {
        Some(script) => Draws::scripted(script),
        None => Draws::at(0, L::Uint::splat(0), index as u64, Purpose::Step),
    };
    let step = env.step(state, &action, &mut draws);
    match (script.and_then(|script| script.problem()), &case.draws) {
        (Some(problem), Some(draws)) => Err(CaseError::Draws { index, got: draws[index].clone(), problem }),
        _ => Ok(step),
    }
}

fn run<E: Env, L: Readable>(env: &E, case: &Case) -> Result<Outcome, CaseError> {
    let spec = spec_of(env);
    let leaves = env.unpack(&case.state);
    let mut state = E::State::<L>::load(&mut Splat(leaves.iter()));
    let mut outcome = Outcome::default();
    for index in 0..case.actions.len() {
        let Step { state: next, reward, terminated } = step::<E, L>(env, &state, case, index)?;
        state = next;
        let terminated = L::mask(terminated);
        let public = env.pack(&numbers::<L, _>(&state));
        let truncated = env.elapsed(&public).max(index as u64 + 1) >= u64::from(spec.time_limit);
        // Observations are single precision, as in Gymnasium.
        let mut words = ObsWords(Vec::new());
        env.observe(&state).store(&mut words);
        outcome.obs.push(spec.obs.unpack(&words.0));
        outcome.reward.push(L::float(reward));
        outcome.terminated.push(terminated);
        outcome.truncated.push(truncated);
        outcome.state.push(public);
        if terminated || truncated {
            break;
        }
    }
    Ok(outcome)
}

/// The leaves of a bundle as numbers, of the first environment in the lane.
fn numbers<L: Readable, B: Bundle<L>>(bundle: &B) -> Vec<f64> {
    let mut sink = Numbers(Vec::new());
    bundle.store(&mut sink);
    sink.0
}

struct Numbers(Vec<f64>);

impl<L: Readable> Sink<L> for Numbers {
    fn float(&mut self, value: L::Float) {
        self.0.push(L::float(value));
    }
    fn uint(&mut self, value: L::Uint) {
        self.0.push(f64::from(L::uint(value)));
    }
    fn int(&mut self, value: L::Int) {
        self.0.push(f64::from(L::uint(value.to_uint()) as i32));
    }
    fn mask(&mut self, value: L::Mask) {
        self.0.push(f64::from(u8::from(L::mask(value))));
    }
}

/// The words of an observation; only the first environment of a lane.
struct ObsWords(Vec<u32>);

impl<L: Readable> Sink<L> for ObsWords {
    fn float(&mut self, value: L::Float) {
        self.0.push((L::float(value) as f32).to_bits());
    }
    fn uint(&mut self, value: L::Uint) {
        self.0.push(L::uint(value));
    }
    fn int(&mut self, _: L::Int) {
        unreachable!("observations are floats and words")
    }
    fn mask(&mut self, _: L::Mask) {
        unreachable!("observations are floats and words")
    }
}

/// A lane whose first environment can be read.
trait Readable: Lane {
    fn float(value: Self::Float) -> f64;
    fn uint(value: Self::Uint) -> u32;
    fn mask(value: Self::Mask) -> bool {
        Self::uint(value.select(Self::Uint::splat(1), Self::Uint::splat(0))) == 1
    }
}

impl Readable for f64 {
    fn float(value: f64) -> f64 {
        value
    }
    fn uint(value: Self::Uint) -> u32 {
        value.0
    }
}

impl Readable for f32 {
    fn float(value: f32) -> f64 {
        f64::from(value)
    }
    fn uint(value: Self::Uint) -> u32 {
        value.0
    }
}

impl<const N: usize> Readable for Wide<N>
where
    Self: Packed,
{
    fn float(value: Self::Float) -> f64 {
        let mut lanes = [0.0; 16];
        Self::store_float(value, &mut lanes);
        f64::from(lanes[0])
    }
    fn uint(value: Self::Uint) -> u32 {
        let mut lanes = [0; 16];
        Self::store_uint(value, &mut lanes);
        lanes[0]
    }
}
