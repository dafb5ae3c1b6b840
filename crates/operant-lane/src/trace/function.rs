//! A recorded function: what it computes, as data. It can be recorded again into another graph and called, which is the
//! reference for [`crate::rows`].

use serde::{Deserialize, Serialize};

use super::check::{Invalid, Unchecked};
use super::graph::{Arg, Graph, Item, Literal, Op, Steps, Type};
use super::values::{Trace, Value};
use crate::bundle::Kind;
use crate::philox::rounds;

/// A value that a function returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The place in CUDA that it is stored to, such as `next.x`.
    pub place: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The value.
    pub value: Arg,
}

/// A finished recording. Reading one from a file checks that it is well formed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Function {
    pub(crate) steps: Steps,
    pub(crate) outputs: Vec<Output>,
}

impl TryFrom<Unchecked> for Function {
    type Error = Invalid;
    fn try_from(from: Unchecked) -> Result<Self, Invalid> {
        from.checked()
    }
}

impl Function {
    /// Name and type of every parameter that is used, in order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, Type)> {
        self.steps.nodes.iter().filter_map(|node| match &node.op {
            Op::Parameter(name) => Some((name.as_str(), node.kind)),
            _ => None,
        })
    }

    /// The function without the names of its values, which no result depends on.
    #[must_use]
    pub fn unnamed(&self) -> Self {
        let mut function = self.clone();
        function.steps.nodes.iter_mut().for_each(|node| node.name = None);
        function
    }

    /// The results.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Records the function again, in `graph`, with arguments for its parameters. Returns its results.
    pub fn inline(&self, graph: &Graph, parameter: &mut dyn FnMut(&str, Type) -> Arg) -> Vec<Output> {
        self.replay(graph, parameter, false)
    }

    /// The function with Philox as a loop of its rounds, as CUDA has it.
    pub(super) fn with_philox_expanded(&self) -> Self {
        let graph = Graph::new();
        let outputs = self.replay(&graph, &mut |name, kind| graph.parameter(name, kind), true);
        Function { steps: graph.into_steps(), outputs }
    }

    fn replay(
        &self,
        graph: &Graph,
        parameter: &mut dyn FnMut(&str, Type) -> Arg,
        expands_philox: bool,
    ) -> Vec<Output> {
        let values = vec![None; self.steps.nodes.len()];
        let tables = vec![None; self.steps.tables.len()];
        let mut replay =
            Replay { steps: &self.steps, graph, parameter, expands_philox, values, tables, philox: None };
        replay.region(0);
        let output = |output: &Output| Output { value: replay.map(output.value), ..output.clone() };
        self.outputs.iter().map(output).collect()
    }

    /// Computes the results for one environment: the reference for every other way to run a function. `parameter` gives
    /// the words of an argument by its name: a float by its bits, a mask as 0 or not 0. A mask is returned as 0 or 1.
    pub fn call(&self, parameter: &mut dyn FnMut(&str) -> Vec<u32>) -> Vec<Vec<u32>> {
        let values = vec![Vec::new(); self.steps.nodes.len()];
        let mut call = Call { steps: &self.steps, parameter, values };
        call.region(0, 0);
        let result = |output: &Output| match output.kind {
            Type::Scalar(Kind::Mask) => vec![u32::from(call.word(output.value) != 0)],
            _ => call.words(output.value),
        };
        self.outputs.iter().map(result).collect()
    }
}

/// Records a function again.
struct Replay<'a> {
    steps: &'a Steps,
    graph: &'a Graph,
    parameter: &'a mut dyn FnMut(&str, Type) -> Arg,
    expands_philox: bool,
    /// The new value of each node, once it is known.
    values: Vec<Option<Arg>>,
    /// The new number of each table, once it is used.
    tables: Vec<Option<usize>>,
    /// The latest call of Philox in this region: its arguments and its four words.
    philox: Option<(Vec<Arg>, [Arg; 4])>,
}

impl Replay<'_> {
    fn map(&self, arg: Arg) -> Arg {
        match arg {
            Arg::Literal(_) => arg,
            Arg::Node(id) => self.values[id as usize].expect("a value is computed before it is used"),
        }
    }

    fn region(&mut self, region: usize) {
        self.philox = None;
        let steps = self.steps;
        for item in &steps.regions[region] {
            match item {
                Item::Node(id) => self.node(*id),
                Item::When { condition, assigned, body } => {
                    let graph = self.graph;
                    let after = match self.map(*condition) {
                        Arg::Literal(Literal::Mask(true)) => self.body(*body, assigned),
                        Arg::Literal(_) => self.before(assigned).into_iter().map(|(_, arg)| arg).collect(),
                        mask => {
                            let (before, names) = (self.before(assigned), self.names(assigned));
                            graph.when(mask, &before, &names, || self.body(*body, assigned))
                        }
                    };
                    self.assign(assigned, after);
                }
                Item::Repeat { count, index, assigned, body } => {
                    let (graph, before, names) = (self.graph, self.before(assigned), self.names(assigned));
                    let after = graph.repeat(*count, &before, &names, |new_index, carried| {
                        self.values[*index as usize] = Some(new_index);
                        // Inside, a variable is its value at the start of the turn.
                        self.assign(assigned, carried.to_vec());
                        self.body(*body, assigned)
                    });
                    self.assign(assigned, after);
                }
            }
        }
        self.philox = None;
    }

    /// The values of variables before they are assigned.
    fn before(&self, assigned: &[(u32, Arg)]) -> Vec<(Type, Arg)> {
        let before = |(id, _): &(u32, Arg)| {
            let node = &self.steps.nodes[*id as usize];
            (node.kind, self.map(node.args[0]))
        };
        assigned.iter().map(before).collect()
    }

    fn names(&self, assigned: &[(u32, Arg)]) -> Vec<String> {
        let name = |(id, _): &(u32, Arg)| {
            self.steps.nodes[*id as usize].name.clone().unwrap_or_else(|| "value".to_owned())
        };
        assigned.iter().map(name).collect()
    }

    /// Records a body and returns the values that it assigns.
    fn body(&mut self, body: usize, assigned: &[(u32, Arg)]) -> Vec<Arg> {
        self.region(body);
        assigned.iter().map(|(_, result)| self.map(*result)).collect()
    }

    fn assign(&mut self, assigned: &[(u32, Arg)], values: Vec<Arg>) {
        for ((id, _), value) in assigned.iter().zip(values) {
            self.values[*id as usize] = Some(value);
        }
    }

    fn node(&mut self, id: u32) {
        let node = &self.steps.nodes[id as usize];
        let value = match &node.op {
            // Known from the step that assigns it.
            Op::Variable(_) | Op::Index(_) => return,
            Op::Carried(_) => self.map(node.args[0]),
            Op::Parameter(name) => (self.parameter)(name, node.kind),
            Op::Scalar(operation) => {
                let args: Vec<Arg> = node.args.iter().map(|&arg| self.map(arg)).collect();
                self.graph.scalar(*operation, &args)
            }
            Op::Philox(word) => {
                let args: Vec<Arg> = node.args.iter().map(|&arg| self.map(arg)).collect();
                self.philox(*word, args)
            }
            Op::Table(table) => {
                let entries = &self.steps.tables[*table];
                match self.map(node.args[0]) {
                    Arg::Literal(index) => {
                        Arg::Literal(entries[(index.word() as usize).min(entries.len() - 1)])
                    }
                    index => {
                        let op = Op::Table(self.table(*table));
                        Arg::Node(self.graph.record(op, vec![index], node.kind))
                    }
                }
            }
            Op::Memory(table) => {
                let op = Op::Memory(self.table(*table));
                Arg::Node(self.graph.record(op, Vec::new(), node.kind))
            }
            // What has become constant may be past the end now.
            Op::Words => self.graph.words(node.args.iter().map(|&arg| self.map(arg)).collect()),
            Op::Element => self.graph.element(self.map(node.args[0]), self.map(node.args[1])),
            Op::Store => {
                let [memory, at, index, value] = core::array::from_fn(|k| self.map(node.args[k]));
                self.graph.store(memory, at, index, value)
            }
            Op::Choice => {
                let [mask, yes, no] = core::array::from_fn(|k| self.map(node.args[k]));
                self.graph.choose(mask, yes, no)
            }
        };
        if let (Arg::Node(new), Some(name)) = (value, &node.name) {
            self.graph.name(new, name);
        }
        self.values[id as usize] = Some(value);
    }

    fn table(&mut self, number: usize) -> usize {
        let (steps, graph) = (self.steps, self.graph);
        *self.tables[number].get_or_insert_with(|| graph.table(steps.tables[number].clone()))
    }

    fn philox(&mut self, word: u8, args: Vec<Arg>) -> Arg {
        if !self.expands_philox {
            return self.graph.philox(&args)[usize::from(word)];
        }
        if self.philox.as_ref().is_none_or(|(known, _)| *known != args) {
            let [c0, c1, c2, c3, k0, k1] = core::array::from_fn(|k| Value::of(self.graph, args[k]));
            let words = rounds::<Trace<'_>>([c0, c1, c2, c3], [k0, k1]).map(Value::arg);
            self.philox = Some((args, words));
        }
        self.philox.as_ref().expect("set above").1[usize::from(word)]
    }
}

/// Computes a function.
struct Call<'a> {
    steps: &'a Steps,
    parameter: &'a mut dyn FnMut(&str) -> Vec<u32>,
    /// The words of each node, once it is computed.
    values: Vec<Vec<u32>>,
}

impl Call<'_> {
    fn words(&self, arg: Arg) -> Vec<u32> {
        match arg {
            Arg::Literal(literal) => vec![literal.word()],
            Arg::Node(id) => self.values[id as usize].clone(),
        }
    }

    fn word(&self, arg: Arg) -> u32 {
        match arg {
            Arg::Literal(literal) => literal.word(),
            Arg::Node(id) => self.values[id as usize][0],
        }
    }

    fn region(&mut self, region: usize, index: u32) {
        let steps = self.steps;
        for item in &steps.regions[region] {
            match item {
                Item::Node(id) => self.values[*id as usize] = self.node(*id, index),
                Item::When { condition, assigned, body } => {
                    if self.word(*condition) != 0 {
                        self.region(*body, 0);
                        self.assign(assigned);
                    }
                }
                Item::Repeat { count, assigned, body, .. } => {
                    for turn in 0..*count {
                        self.region(*body, turn);
                        self.assign(assigned);
                    }
                }
            }
        }
    }

    fn assign(&mut self, assigned: &[(u32, Arg)]) {
        let results: Vec<Vec<u32>> = assigned.iter().map(|(_, result)| self.words(*result)).collect();
        for ((id, _), result) in assigned.iter().zip(results) {
            self.values[*id as usize] = result;
        }
    }

    fn node(&mut self, id: u32, index: u32) -> Vec<u32> {
        let node = &self.steps.nodes[id as usize];
        let args = &node.args;
        let literal = |arg: &Arg, kind| Literal::of_word(kind, self.word(*arg));
        match &node.op {
            Op::Parameter(name) => match node.kind {
                Type::Scalar(kind) => {
                    let word = (self.parameter)(name)[0];
                    vec![if kind == Kind::Mask { Literal::Mask(word != 0).word() } else { word }]
                }
                Type::Memory(_) => (self.parameter)(name),
            },
            Op::Scalar(operation) => {
                let args: Vec<Literal> =
                    args.iter().zip(operation.kinds()).map(|(arg, kind)| literal(arg, *kind)).collect();
                vec![operation.fold(&args).word()]
            }
            Op::Philox(word) => {
                let [c0, c1, c2, c3, k0, k1] =
                    core::array::from_fn(|k| core::num::Wrapping(self.word(args[k])));
                vec![rounds::<f32>([c0, c1, c2, c3], [k0, k1])[usize::from(*word)].0]
            }
            Op::Table(table) => {
                let table = &self.steps.tables[*table];
                vec![table[(self.word(args[0]) as usize).min(table.len() - 1)].word()]
            }
            Op::Variable(_) | Op::Carried(_) => self.words(args[0]),
            Op::Index(_) => vec![index],
            Op::Memory(table) => self.steps.tables[*table].iter().map(|entry| entry.word()).collect(),
            Op::Words => args.iter().map(|&arg| self.word(arg)).collect(),
            Op::Element => {
                let Arg::Node(memory) = args[0] else { unreachable!("memory is a node") };
                let memory = &self.values[memory as usize];
                vec![memory[(self.word(args[1]) as usize).min(memory.len() - 1)]]
            }
            Op::Store => {
                let mut memory = self.words(args[0]);
                let (index, value) = (self.word(args[2]) as usize, self.word(args[3]));
                if self.word(args[1]) != 0 && index < memory.len() {
                    memory[index] = value;
                }
                memory
            }
            Op::Choice => self.words(if self.word(args[0]) != 0 { args[1] } else { args[2] }),
        }
    }
}
