//! Checks that the parts of a world fit together: every parameter and result is one that the environment has, of the right
//! type, and every result is there once.

use std::collections::HashMap;

use operant_lane::trace::{Function, KEYWORDS, Type};
use operant_lane::{Kind, Leaf};

use super::World;
use super::link::{Binding, Places};
use crate::spec::{ActionSpace, ObsSpace};
use crate::versus::PLAYER;

/// What does not fit together in a world.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

/// Maximum leaves of a state.
const MOST_LEAVES: usize = 1 << 16;
/// The greatest number of players.
const MOST_PLAYERS: u32 = 8;
/// Longest name.
const LONGEST: usize = 64;

/// Possible speeds at which a person watches it.
const FPS: std::ops::RangeInclusive<f32> = 0.1..=1000.0;

/// What names may be.
const NAMES: &str =
    "use a-z, 0-9 and _, starting with a letter, at most 64 characters, and no keyword of C++";

fn problem<T>(what: String) -> Result<T, Problem> {
    Err(Problem(what))
}

/// Whether a name is valid for an environment or a field: lower case, as files and CUDA need it.
fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.len() <= LONGEST
        && !KEYWORDS.split_whitespace().any(|word| word == name)
}

pub(super) fn check(world: &World) -> Result<(), Problem> {
    let World { spec, leaves, reset, step, observe, legal, metrics, draw, ahead: _ } = world;
    if !is_name(&spec.name) {
        return problem(format!("the environment has the name \"{}\"; {NAMES}", spec.name));
    }
    let texts = [&spec.summary, &spec.rules]
        .into_iter()
        .chain(&spec.aliases)
        .chain(&spec.obs_names)
        .chain(&spec.action_names);
    if let Some(text) = texts.into_iter().find(|text| text.contains(char::is_control)) {
        return problem(format!("the text {text:?} is not one line"));
    }
    sizes(&spec.obs)?;
    spec.obs.check().map_err(Problem)?;
    actions(&spec.actions)?;
    if let Some(alias) = spec.aliases.iter().find(|alias| alias.is_empty() || alias.len() > LONGEST) {
        return problem(format!("the alias {alias:?} must have 1 to {LONGEST} characters"));
    }
    if !FPS.contains(&spec.fps) {
        let (low, high) = (FPS.start(), FPS.end());
        return problem(format!("fps is {:?}; {low} to {high} are possible", spec.fps));
    }
    if spec.time_limit == 0 {
        return problem("the time limit is 0 steps".to_owned());
    }
    fields(leaves)?;
    if !(1..=MOST_PLAYERS).contains(&spec.players) {
        return problem(format!("it has {} players; 1 to {MOST_PLAYERS} are possible", spec.players));
    }
    if spec.players > 1 && !leaves.iter().any(|leaf| leaf.name == PLAYER && leaf.kind == Kind::Uint) {
        return problem(format!(
            "it has {} players, so its state needs a Uint `{PLAYER}`: the number of the player to move",
            spec.players
        ));
    }
    let check = Checked { leaves, places: Places::of(leaves), actions: &spec.actions };
    let state: Vec<(Binding, Kind)> =
        leaves.iter().enumerate().map(|(leaf, Leaf { kind, .. })| (Binding::State(leaf), *kind)).collect();
    check.function("reset", reset, Reads { draws: true, ..Reads::default() }, &state)?;
    let mut results = state.clone();
    results.extend([(Binding::Reward, Kind::Float), (Binding::Terminated, Kind::Mask)]);
    check.function(
        "step",
        step,
        Reads { draws: true, action: true, state: true, outcome: false },
        &results,
    )?;
    let of_state = Reads { state: true, ..Reads::default() };
    let kind = if spec.obs.is_real() { Kind::Float } else { Kind::Uint };
    let obs: Vec<(Binding, Kind)> = (0..spec.obs.words()).map(|word| (Binding::Obs(word), kind)).collect();
    check.function("observe", observe, of_state, &obs)?;
    if let Some(legal) = legal {
        let ActionSpace::Discrete(choices) = &spec.actions else {
            return problem("`legal` requires Discrete or MultiDiscrete actions".to_owned());
        };
        let logits = choices.iter().sum();
        let legals: Vec<(Binding, Kind)> =
            (0..logits).map(|choice| (Binding::Legal(choice), Kind::Mask)).collect();
        check.function("legal", legal, of_state, &legals)?;
    }
    if let Some(fault) = spec.metrics_fault() {
        return problem(fault);
    }
    if metrics.is_some() != (spec.measured() > 0) {
        return problem(
            "it must have a function of metrics if, and only if, it names metrics that are measured"
                .to_owned(),
        );
    }
    if let Some(metrics) = metrics {
        let numbers: Vec<(Binding, Kind)> =
            (0..spec.measured()).map(|index| (Binding::Metric(index), Kind::Float)).collect();
        check.function("metrics", metrics, Reads { outcome: true, ..of_state }, &numbers)?;
    }
    if let Some(draw) = draw {
        let is_view = draw
            .low
            .iter()
            .zip(draw.high)
            .all(|(low, high)| low.is_finite() && high.is_finite() && *low < high);
        if !is_view {
            return problem(format!("the view from {:?} to {:?} is empty", draw.low, draw.high));
        }
        let most = MOST_LEAVES * 32;
        let numbers = draw.numbers().filter(|numbers| *numbers <= most);
        let Some(count) = numbers else {
            return problem(format!("the picture has more than {most} numbers"));
        };
        let numbers: Vec<(Binding, Kind)> =
            (0..count).map(|number| (Binding::Number(number), Kind::Float)).collect();
        check.function("draw", &draw.numbers, of_state, &numbers)?;
    }
    Ok(())
}

/// The sizes of an observation, before anything is allocated for it.
fn sizes(space: &ObsSpace) -> Result<(), Problem> {
    for (_, part) in space.parts() {
        let shape = match part {
            ObsSpace::Binary { shape } | ObsSpace::Bytes { shape } | ObsSpace::Index { shape, .. } => shape,
            ObsSpace::Box { .. } => continue,
            ObsSpace::Parts(_) => return problem("a part of an observation cannot have parts".to_owned()),
        };
        let size = shape.iter().try_fold(1usize, |size, extent| size.checked_mul(*extent));
        if size.is_none_or(|size| size > MOST_LEAVES * 32) {
            return problem(format!("an observation of shape {shape:?} is too large"));
        }
    }
    Ok(())
}

fn actions(space: &ActionSpace) -> Result<(), Problem> {
    match space {
        ActionSpace::Discrete(choices) => {
            // Choices travel as floats.
            if choices.is_empty() || choices.iter().any(|choices| !(1..=1 << 20).contains(choices)) {
                return problem(format!(
                    "each component of the action needs 1 to 1048576 choices, got {choices:?}"
                ));
            }
            if choices.len() > MOST_LEAVES || choices.iter().sum::<usize>() > 1 << 20 {
                return problem("the action has too many choices: at most 65536 components and 1048576 choices in all are possible".to_owned());
            }
        }
        ActionSpace::Box { low, high } => {
            let is_range = |(low, high): (&f64, &f64)| {
                let (low, high) = (*low as f32, *high as f32);
                low.is_finite() && high.is_finite() && low < high
            };
            if low.is_empty() || low.len() != high.len() || !low.iter().zip(high).all(is_range) {
                return problem(
                    "each component of the action needs finite bounds with low < high in single precision"
                        .to_owned(),
                );
            }
        }
    }
    Ok(())
}

/// The leaves: names that CUDA can have, each once, arrays in order and of one kind.
fn fields(leaves: &[Leaf]) -> Result<(), Problem> {
    if leaves.is_empty() || leaves.len() > MOST_LEAVES {
        return problem(format!("a state has {} numbers; 1 to {MOST_LEAVES} are possible", leaves.len()));
    }
    let mut known = std::collections::HashSet::new();
    let mut before: Option<(&str, usize, Kind)> = None;
    for leaf in leaves {
        let (name, index) = match leaf.name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (&leaf.name[..], None),
        };
        let canonical = index.map_or(name.to_owned(), |index| format!("{name}[{index}]"));
        let continues = matches!((before, index), (Some((array, last, kind)), Some(index))
            if array == name && last + 1 == index && kind == leaf.kind);
        let begins = matches!(index, None | Some(0)) && known.insert(name);
        if canonical != leaf.name || !is_name(name) {
            return problem(format!("a field of the state has the name \"{name}\"; {NAMES}"));
        }
        if !(continues || begins) {
            return problem(format!("the state's field {} appears twice or out of order", leaf.name));
        }
        before = index.map(|index| (name, index, leaf.kind));
    }
    Ok(())
}

/// The parameters that a function may read.
#[derive(Clone, Copy, Default)]
struct Reads {
    state: bool,
    action: bool,
    draws: bool,
    outcome: bool,
}

struct Checked<'a> {
    leaves: &'a [Leaf],
    places: Places<'a>,
    actions: &'a ActionSpace,
}

impl Checked<'_> {
    fn function(
        &self,
        name: &str,
        function: &Function,
        reads: Reads,
        results: &[(Binding, Kind)],
    ) -> Result<(), Problem> {
        for (parameter, kind) in function.parameters() {
            self.parameter(parameter, kind, reads)
                .map_err(|Problem(what)| Problem(format!("{name}: the parameter {parameter}: {what}")))?;
        }
        let mut found = vec![false; results.len()];
        let positions: HashMap<Binding, usize> =
            results.iter().enumerate().map(|(position, (result, _))| (*result, position)).collect();
        for output in function.outputs() {
            let place = self.places.find(&output.place);
            let is_next = output.place.starts_with("next.") || !output.place.starts_with("state.");
            let first = place.and_then(|place| positions.get(&place).copied()).filter(|_| is_next);
            let (words, kind) = match output.kind {
                Type::Scalar(kind) => (1, kind),
                Type::Memory(words) => (words, Kind::Uint),
            };
            let whole =
                output.place.strip_prefix("next.").is_none_or(|array| self.has_array(array, output.kind));
            let covered =
                first.filter(|_| whole).and_then(|first| found.get_mut(first..first.checked_add(words)?));
            let Some(covered) = covered else {
                return problem(format!("{name} returns {}, which does not exist", output.place));
            };
            let first = first.expect("found above");
            for (k, is_found) in covered.iter_mut().enumerate() {
                let (place, expected) = results[first + k];
                if place != results[first].0.after(k) || expected != kind || *is_found {
                    return problem(format!("{name} returns {} twice or with the wrong type", output.place));
                }
                *is_found = true;
            }
        }
        match found.iter().position(|is_found| !is_found) {
            Some(missing) => {
                let place = match results[missing].0 {
                    Binding::State(leaf) => format!("next.{}", self.leaves[leaf].name),
                    Binding::Obs(word) => format!("obs[{word}]"),
                    Binding::Legal(choice) => format!("legal[{choice}]"),
                    Binding::Metric(index) => format!("metrics[{index}]"),
                    Binding::Number(number) => format!("draw[{number}]"),
                    Binding::Terminated => "terminated".to_owned(),
                    _ => "reward".to_owned(),
                };
                problem(format!("{name} does not return {place}"))
            }
            None => Ok(()),
        }
    }

    /// Whether a name refers to a field of the state or, if the type is a memory, to a whole array.
    fn has_array(&self, name: &str, kind: Type) -> bool {
        let Type::Memory(words) = kind else {
            return self.places.leaf(name).is_some_and(|leaf| self.leaves[leaf].name == name);
        };
        let array = format!("{name}[");
        let is_word = |leaf: &&Leaf| leaf.name.starts_with(&array) && leaf.kind == Kind::Uint;
        let first = self.places.leaf(name).filter(|leaf| self.leaves[*leaf].name != name);
        // The words of an array are in order.
        first.is_some_and(|first| self.leaves[first..].iter().take_while(is_word).count() == words)
    }

    fn parameter(&self, name: &str, kind: Type, reads: Reads) -> Result<(), Problem> {
        let is_right = match self.places.find(name) {
            Some(Binding::State(leaf)) if name.starts_with("state.") && reads.state => match kind {
                Type::Scalar(kind) => self.leaves[leaf].kind == kind && name[6..] == self.leaves[leaf].name,
                memory @ Type::Memory(_) => self.has_array(&name[6..], memory),
            },
            Some(Binding::Action(component)) if reads.action => {
                let expected = match self.actions {
                    ActionSpace::Discrete(_) => Kind::Uint,
                    ActionSpace::Box { .. } => Kind::Float,
                };
                component < self.actions.components() && kind == Type::Scalar(expected) && name.ends_with(']')
            }
            Some(Binding::Reward) if reads.outcome => kind == Type::Scalar(Kind::Float),
            Some(Binding::Terminated) if reads.outcome => kind == Type::Scalar(Kind::Mask),
            Some(Binding::Draw(_)) if reads.draws => kind == Type::Scalar(Kind::Uint),
            _ => false,
        };
        if is_right { Ok(()) } else { problem("no parameter has this name and type".to_owned()) }
    }
}
