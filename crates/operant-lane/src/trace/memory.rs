//! Memory of the recording lane: each node represents the content of the whole array after a write.

use super::graph::{Arg, Graph, Literal, Op, Type};
use super::values::{Trace, Value};
use crate::bundle::{Bundle, Leaf, Sink, Source};
use crate::lane::{Lane, Select, Uint};
use crate::memory::Memory;

/// N words on the recording lane.
#[derive(Debug, Clone, Copy)]
pub enum Recorded<'g, const N: usize> {
    /// Constant while recording.
    Constant([u32; N]),
    /// The result of a node.
    Node(&'g Graph, u32),
}

impl<'g, const N: usize> Recorded<'g, N> {
    pub(super) fn graph(&self) -> Option<&'g Graph> {
        match *self {
            Recorded::Constant(_) => None,
            Recorded::Node(graph, _) => Some(graph),
        }
    }

    /// The memory as an argument of a node in `graph`.
    pub(super) fn arg(&self, graph: &Graph) -> Arg {
        Arg::Node(match *self {
            Recorded::Node(_, id) => id,
            Recorded::Constant(words) => {
                let table = graph.table(words.iter().map(|&word| Literal::Uint(word)).collect());
                graph.record(Op::Memory(table), Vec::new(), Type::Memory(N))
            }
        })
    }

    /// The memory of an argument.
    fn of(graph: &'g Graph, arg: Arg) -> Self {
        match arg {
            Arg::Node(id) => Recorded::Node(graph, id),
            Arg::Literal(_) => unreachable!("memory is a node"),
        }
    }
}

impl<'g, const N: usize> Select<Value<'g, bool>> for Recorded<'g, N> {
    fn select(mask: Value<'g, bool>, yes: Self, no: Self) -> Self {
        let Value::Node(graph, _) = mask else {
            let Value::Constant(holds) = mask else { unreachable!("matched above") };
            return if holds { yes } else { no };
        };
        Self::of(graph, graph.choose(mask.arg(), yes.arg(graph), no.arg(graph)))
    }
}

impl<'g, const N: usize> Bundle<Trace<'g>> for Recorded<'g, N> {
    fn leaves(name: &str, out: &mut Vec<Leaf>) {
        <[Value<'g, u32>; N] as Bundle<Trace<'g>>>::leaves(name, out);
    }
    fn store(&self, sink: &mut impl Sink<Trace<'g>>) {
        sink.memory(self);
    }
    fn load(source: &mut impl Source<Trace<'g>>) -> Self {
        source.memory()
    }
}

impl<'g, const N: usize> Memory<Trace<'g>, N> for Recorded<'g, N> {
    fn splat(words: &[u32]) -> Self {
        Recorded::Constant(words.try_into().expect("a word for every place"))
    }

    fn from_words(words: [Value<'g, u32>; N]) -> Self {
        let Some(graph) = words.iter().find_map(|word| word.graph()) else {
            return Recorded::Constant(words.map(|word| match word {
                Value::Constant(word) => word,
                Value::Node(..) => unreachable!("there is no graph"),
            }));
        };
        Self::of(graph, graph.words(words.iter().map(|word| word.arg()).collect()))
    }

    fn get(&self, index: <Trace<'g> as Lane>::Uint) -> <Trace<'g> as Lane>::Uint {
        match (self, index) {
            (Recorded::Constant(words), index) => Uint::gather(words, index),
            (Recorded::Node(graph, _), index) => {
                Value::of(graph, graph.element(self.arg(graph), index.arg()))
            }
        }
    }

    fn set(&mut self, at: Value<'g, bool>, index: Value<'g, u32>, value: Value<'g, u32>) {
        if matches!(at, Value::Constant(false)) || matches!(index, Value::Constant(k) if k as usize >= N) {
            return;
        }
        let graph = self.graph().or(at.graph()).or(index.graph()).or(value.graph());
        match (graph, &mut *self) {
            (None, Recorded::Constant(words)) => {
                let (Value::Constant(index), Value::Constant(value)) = (index, value) else {
                    unreachable!("there is no graph")
                };
                words[index as usize] = value;
            }
            (Some(graph), memory) => {
                let before = memory.arg(graph);
                *memory = Self::of(graph, graph.store(before, at.arg(), index.arg(), value.arg()));
            }
            (None, Recorded::Node(..)) => unreachable!("a node has a graph"),
        }
    }

    fn word(&self, index: usize) -> Value<'g, u32> {
        self.get(Value::Constant(index as u32))
    }

    fn set_word(&mut self, index: usize, value: Value<'g, u32>) {
        self.set(Value::Constant(true), Value::Constant(index as u32), value);
    }
    fn at(&self, index: Value<'g, u32>) -> Value<'g, u32> {
        self.get(index)
    }

    fn put(&mut self, index: Value<'g, u32>, value: Value<'g, u32>) {
        self.set(Value::Constant(true), index, value);
    }
}
