//! The arguments of a recorded function.

use super::graph::{Graph, Op, Type, array_name};
use super::memory::Recorded;
use super::values::{Constant, Trace, Value};
use crate::bundle::Source;

/// Creates the arguments of a rule: the parameters of the emitted function, one per leaf.
#[derive(Debug)]
pub struct Parameters<'g> {
    graph: &'g Graph,
    names: std::vec::IntoIter<String>,
}

impl<'g> Parameters<'g> {
    /// Parameters by their text in the function, such as `state.x`.
    pub fn new(graph: &'g Graph, names: Vec<String>) -> Self {
        Self { graph, names: names.into_iter() }
    }

    fn next<T: Constant>(&mut self) -> Value<'g, T> {
        let name = self.names.next().expect("a name for every leaf");
        self.graph.node(Op::Parameter(name), Vec::new())
    }
}

impl<'g> Source<Trace<'g>> for Parameters<'g> {
    fn float(&mut self) -> Value<'g, f32> {
        self.next()
    }
    fn uint(&mut self) -> Value<'g, u32> {
        self.next()
    }
    fn int(&mut self) -> Value<'g, i32> {
        self.next()
    }
    fn mask(&mut self) -> Value<'g, bool> {
        self.next()
    }
    fn memory<const N: usize>(&mut self) -> Recorded<'g, N> {
        let first = self.names.next().expect("a name for every leaf");
        (1..N).for_each(|_| drop(self.names.next()));
        let op = Op::Parameter(array_name(&first).to_owned());
        Recorded::Node(self.graph, self.graph.record(op, Vec::new(), Type::Memory(N)))
    }
}
