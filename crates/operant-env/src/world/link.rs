//! The meaning of the parameters and results of a world's functions, and functions that feed each other.

use std::collections::HashMap;

use operant_lane::Leaf;
use operant_lane::trace::{Arg, Function, Graph, Literal, Output, Outputs, Type};

use super::DRAWS;

/// The meaning of a parameter or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Binding {
    /// A leaf of the state, before (`state.x`) or after (`next.x`).
    State(usize),
    /// A component of the action.
    Action(usize),
    /// One of [`DRAWS`].
    Draw(usize),
    Reward,
    /// Whether the rules end the episode.
    Terminated,
    /// A word of the observation.
    Obs(usize),
    /// Whether a choice is legal.
    Legal(usize),
    /// A metric of the episode that ended.
    Metric(usize),
    /// A number of a picture.
    Number(usize),
}

/// The leaves of a world by their names; an array is at its first word.
pub(crate) struct Places<'a>(HashMap<&'a str, usize>);

impl<'a> Places<'a> {
    pub(crate) fn of(leaves: &'a [Leaf]) -> Self {
        let names = |(leaf, Leaf { name, .. }): (usize, &'a Leaf)| {
            let array = name.strip_suffix("[0]");
            std::iter::once(name.as_str()).chain(array).map(move |name| (name, leaf))
        };
        Places(leaves.iter().enumerate().flat_map(names).collect())
    }

    /// The leaf of a name, or the first of an array.
    pub(crate) fn leaf(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// The place that a text of a function means. A memory is at its first word.
    pub(crate) fn find(&self, text: &str) -> Option<Binding> {
        if let Some(name) = text.strip_prefix("state.").or(text.strip_prefix("next.")) {
            return self.leaf(name).map(Binding::State);
        }
        if let Some(draw) = DRAWS.iter().position(|draw| *draw == text) {
            return Some(Binding::Draw(draw));
        }
        match (text, element(text)?) {
            ("reward", _) => Some(Binding::Reward),
            ("terminated", _) => Some(Binding::Terminated),
            (_, ("action", component)) => Some(Binding::Action(component)),
            (_, ("obs", word)) => Some(Binding::Obs(word)),
            (_, ("legal", choice)) => Some(Binding::Legal(choice)),
            (_, ("metrics", index)) => Some(Binding::Metric(index)),
            (_, ("draw", number)) => Some(Binding::Number(number)),
            _ => None,
        }
    }
}

impl Binding {
    /// The place of a word of a memory that begins here.
    pub(crate) fn after(self, words: usize) -> Self {
        match self {
            Binding::State(leaf) => Binding::State(leaf + words),
            Binding::Obs(word) => Binding::Obs(word + words),
            other => other,
        }
    }
}

/// Array and index of `obs[3]`, of `(obs + 3)`, where a memory begins, and of `obs`, its start.
fn element(text: &str) -> Option<(&str, usize)> {
    // Only as it is written here: 010 is another number in C++.
    let number = |digits: &str| digits.parse::<usize>().ok().filter(|number| number.to_string() == digits);
    if let Some((array, index)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        return Some((array, number(index)?));
    }
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(inner) => {
            let (array, first) = inner.split_once(" + ")?;
            Some((array, number(first)?))
        }
        None => Some((text, 0)),
    }
}

/// The function that returns a state, followed by the observation of that state.
pub(crate) fn observed(function: &Function, observe: &Function) -> Function {
    let (graph, mut outputs) = (Graph::new(), Outputs::new());
    let results = function.inline(&graph, &mut |name, kind| graph.parameter(name, kind));
    let values = results.iter().map(|result| (result.place.as_str(), result.value)).collect();
    let obs = observe.inline(&graph, &mut |name, kind| {
        let leaf = name.strip_prefix("state.").expect("the world was checked");
        state_of(&graph, &values, leaf, kind)
    });
    for Output { place, kind, value } in results.iter().chain(&obs) {
        outputs.put(place.clone(), *kind, *value);
    }
    graph.finish(outputs)
}

/// The value of a leaf among the results of a function, by their places.
fn state_of(graph: &Graph, results: &HashMap<&str, Arg>, leaf: &str, kind: Type) -> Arg {
    let find = |place: String| results.get(place.as_str()).copied();
    match (find(format!("next.{leaf}")), kind) {
        (Some(value), _) => value,
        // A memory of constants is returned word by word.
        (None, Type::Memory(size)) => {
            let word = |k| find(format!("next.{leaf}[{k}]")).expect("the world was checked");
            graph.words((0..size).map(word).collect())
        }
        // A word of a memory that is returned whole.
        (None, Type::Scalar(_)) => {
            let (array, index) = element(leaf).expect("the world was checked");
            let memory = find(format!("next.{array}")).expect("the world was checked: it returns every leaf");
            graph.element(memory, Arg::Literal(Literal::Uint(index as u32)))
        }
    }
}
