//! The recorded graph: nodes in static single assignment, in nested regions for cold paths and loops.

use std::cell::RefCell;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::function::{Function, Output};
use super::memory::Recorded;
use super::operation::Operation;
use super::values::{Constant, Trace, Value};
use crate::bundle::{Kind, Sink};

/// An argument of a node. Files have nodes by their numbers and literals by their kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Arg {
    /// The value of a node.
    Node(u32),
    /// A literal.
    Literal(Literal),
}

/// A constant by its bits, so that it can be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Literal {
    /// A real number, by its bits.
    Float(u32),
    /// An unsigned integer.
    Uint(u32),
    /// A signed integer.
    Int(i32),
    /// A truth value.
    Mask(bool),
}

impl Literal {
    /// Its kind.
    pub fn kind(self) -> Kind {
        match self {
            Literal::Float(_) => Kind::Float,
            Literal::Uint(_) => Kind::Uint,
            Literal::Int(_) => Kind::Int,
            Literal::Mask(_) => Kind::Mask,
        }
    }

    /// Its bits; a mask has all or none.
    pub(crate) fn word(self) -> u32 {
        match self {
            Literal::Float(bits) => bits,
            Literal::Uint(x) => x,
            Literal::Int(x) => x as u32,
            Literal::Mask(x) => {
                if x {
                    u32::MAX
                } else {
                    0
                }
            }
        }
    }

    /// The constant of a kind by its bits.
    pub(crate) fn of_word(kind: Kind, word: u32) -> Self {
        match kind {
            Kind::Float => Literal::Float(word),
            Kind::Uint => Literal::Uint(word),
            Kind::Int => Literal::Int(word as i32),
            Kind::Mask => Literal::Mask(word != 0),
        }
    }
}

/// How a node's value is computed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// An argument of the function, by its text in CUDA.
    Parameter(String),
    /// A scalar operation.
    Scalar(Operation),
    /// Word `.0` of Philox's four; the arguments are four words of the counter and two of the key.
    Philox(u8),
    /// An entry of table number `.0`, its index the only argument.
    Table(usize),
    /// A variable that a cold path or loop assigns; the only argument is its value before. Unique by number.
    Variable(u32),
    /// The value of a variable at the start of a loop's turn.
    Carried(u32),
    /// The index of a loop.
    Index(u32),
    /// Memory initialised from table number `.0`.
    Memory(usize),
    /// Memory whose words are the arguments.
    Words,
    /// One word of a memory: `(memory, index)`.
    Element,
    /// A memory after a write: `(memory, condition, index, value)`. The value is written at the index if the condition
    /// holds.
    Store,
    /// The second argument if the first one holds, otherwise the third; both are memories.
    Choice,
}

/// The type of a node. Files have the name of a kind, or a number of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Type {
    /// A scalar of this kind.
    Scalar(Kind),
    /// Memory with this number of words.
    Memory(usize),
}

impl Type {
    /// Words of a value.
    pub(crate) fn words(self) -> usize {
        if let Type::Memory(size) = self { size } else { 1 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) op: Op,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<Arg>,
    #[serde(rename = "type")]
    pub(crate) kind: Type,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The region that computes it; files have it by their items.
    #[serde(skip)]
    pub(crate) region: usize,
}

/// A step of a region. Files have nodes by their numbers, and the other steps by their fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Item {
    /// Computes a node.
    Node(u32),
    /// Runs `body` `count` times; `assigned` pairs each variable with its value after.
    Repeat { count: u32, index: u32, assigned: Vec<(u32, Arg)>, body: usize },
    /// Runs `body` if `condition` holds.
    When { condition: Arg, assigned: Vec<(u32, Arg)>, body: usize },
}

/// The steps of a function. Region 0 is the function itself, the others are bodies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steps {
    pub(crate) nodes: Vec<Node>,
    pub(crate) regions: Vec<Vec<Item>>,
    pub(crate) tables: Vec<Vec<Literal>>,
}

/// How a step assigns a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assignment {
    /// The condition of a cold path; None in a loop.
    pub(crate) condition: Option<Arg>,
    pub(crate) result: Arg,
    pub(crate) body: usize,
}

impl Steps {
    /// How each variable is assigned.
    pub(crate) fn assignments(&self) -> HashMap<u32, Assignment> {
        let mut found = HashMap::new();
        for item in self.regions.iter().flatten() {
            let (condition, assigned, body) = match item {
                Item::Node(_) => continue,
                Item::When { condition, assigned, body } => (Some(*condition), assigned, *body),
                Item::Repeat { assigned, body, .. } => (None, assigned, *body),
            };
            found.extend(
                assigned.iter().map(|(id, result)| (*id, Assignment { condition, result: *result, body })),
            );
        }
        found
    }
}

/// The node that computes an operation on certain arguments.
type Known = HashMap<(Op, Vec<Arg>), u32>;

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) steps: Steps,
    /// The number of each table.
    tables: HashMap<Vec<Literal>, usize>,
    /// Open regions, innermost last, each with the nodes computed in it so far.
    open: Vec<(usize, Known)>,
}

/// A recording of one function.
#[derive(Debug)]
pub struct Graph(pub(super) RefCell<Inner>);

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// An empty recording.
    pub fn new() -> Self {
        let steps = Steps { regions: vec![Vec::new()], ..Steps::default() };
        Graph(RefCell::new(Inner { steps, tables: HashMap::new(), open: vec![(0, HashMap::new())] }))
    }

    /// The node that computes `op`, shared with an equal one that is already computed here.
    pub(super) fn node<T: Constant>(&self, op: Op, args: Vec<Arg>) -> Value<'_, T> {
        Value::node(self, self.record(op, args, Type::Scalar(T::KIND)))
    }

    /// The number of the node that computes `op`.
    pub(super) fn record(&self, op: Op, args: Vec<Arg>, kind: Type) -> u32 {
        let mut inner = self.0.borrow_mut();
        let key = (op, args);
        if let Some(&id) = inner.open.iter().rev().find_map(|(_, known)| known.get(&key)) {
            return id;
        }
        let id = inner.steps.nodes.len() as u32;
        let (region, known) = inner.open.last_mut().expect("a region is open");
        let region = *region;
        known.insert(key.clone(), id);
        inner.steps.nodes.push(Node { op: key.0, args: key.1, kind, name: None, region });
        inner.steps.regions[region].push(Item::Node(id));
        id
    }

    /// The number of a table, shared with an equal one.
    pub(super) fn table(&self, entries: Vec<Literal>) -> usize {
        let inner = &mut *self.0.borrow_mut();
        if let Some(known) = inner.tables.get(&entries) {
            return *known;
        }
        inner.steps.tables.push(entries.clone());
        let number = inner.steps.tables.len() - 1;
        inner.tables.insert(entries, number);
        number
    }

    /// Names a node unless it has a name.
    pub fn name(&self, id: u32, name: &str) {
        let node = &mut self.0.borrow_mut().steps.nodes[id as usize];
        if node.name.is_none() && !matches!(node.op, Op::Parameter(_)) {
            node.name = Some(name.to_owned());
        }
    }

    /// Opens a region; what is recorded until [`Graph::close`] belongs to it.
    fn open(&self) -> usize {
        let mut inner = self.0.borrow_mut();
        inner.steps.regions.push(Vec::new());
        let region = inner.steps.regions.len() - 1;
        inner.open.push((region, HashMap::new()));
        region
    }

    /// Closes the innermost region.
    fn close(&self) {
        self.0.borrow_mut().open.pop();
    }

    /// Appends a step to the innermost region.
    fn push(&self, item: Item) {
        let mut inner = self.0.borrow_mut();
        let region = inner.open.last().expect("a region is open").0;
        inner.steps.regions[region].push(item);
    }

    /// A number for a variable or an index, unique in this graph.
    fn fresh(&self) -> u32 {
        self.0.borrow().steps.nodes.len() as u32
    }

    /// Variables that start with the values `before`.
    fn variables(&self, before: &[(Type, Arg)], names: &[String]) -> Vec<u32> {
        let variable = |(&(kind, arg), name): (&(Type, Arg), &String)| {
            let id = self.record(Op::Variable(self.fresh()), vec![arg], kind);
            self.name(id, name);
            id
        };
        before.iter().zip(names).map(variable).collect()
    }

    /// The cold path: the results of `rule` where `mask`, a node, holds, and the values `before` elsewhere.
    pub fn when(
        &self,
        mask: Arg,
        before: &[(Type, Arg)],
        names: &[String],
        rule: impl FnOnce() -> Vec<Arg>,
    ) -> Vec<Arg> {
        let variables = self.variables(before, names);
        let body = self.open();
        let results = rule();
        self.close();
        let assigned = variables.iter().copied().zip(results).collect();
        self.push(Item::When { condition: mask, assigned, body });
        variables.into_iter().map(Arg::Node).collect()
    }

    /// The bounded loop: `rule` gets the index and the values at the start of a turn, and returns those at its end.
    pub fn repeat(
        &self,
        count: u32,
        before: &[(Type, Arg)],
        names: &[String],
        rule: impl FnOnce(Arg, &[Arg]) -> Vec<Arg>,
    ) -> Vec<Arg> {
        let variables = self.variables(before, names);
        let body = self.open();
        let index = self.record(Op::Index(self.fresh()), Vec::new(), Type::Scalar(Kind::Uint));
        let carry = |(&id, &(kind, _)): (&u32, &(Type, Arg))| {
            Arg::Node(self.record(Op::Carried(id), vec![Arg::Node(id)], kind))
        };
        let carried: Vec<Arg> = variables.iter().zip(before).map(carry).collect();
        let results = rule(Arg::Node(index), &carried);
        self.close();
        let assigned = variables.iter().copied().zip(results).collect();
        self.push(Item::Repeat { count, index, assigned, body });
        variables.into_iter().map(Arg::Node).collect()
    }

    /// The type of an argument.
    pub fn type_of(&self, arg: Arg) -> Type {
        match arg {
            Arg::Literal(literal) => Type::Scalar(literal.kind()),
            Arg::Node(id) => self.0.borrow().steps.nodes[id as usize].kind,
        }
    }

    /// A constant, or a node by its operation and arguments: a text to compare two recordings by.
    pub fn shown(&self, arg: Arg) -> String {
        match arg {
            Arg::Literal(Literal::Float(bits)) => format!("{:?}", f32::from_bits(bits)),
            Arg::Literal(Literal::Uint(value)) => value.to_string(),
            Arg::Literal(Literal::Int(value)) => value.to_string(),
            Arg::Literal(Literal::Mask(value)) => value.to_string(),
            Arg::Node(id) => {
                let inner = self.0.borrow();
                let node = &inner.steps.nodes[id as usize];
                let arg = |arg: &Arg| match *arg {
                    Arg::Node(id) => format!("value {id}"),
                    literal => self.shown(literal),
                };
                let args: Vec<String> = node.args.iter().map(arg).collect();
                let table = match node.op {
                    Op::Table(table) => {
                        let entries = inner.steps.tables[table].iter();
                        let entries: Vec<String> =
                            entries.map(|entry| self.shown(Arg::Literal(*entry))).collect();
                        format!(" [{}]", entries.join(", "))
                    }
                    _ => String::new(),
                };
                format!("{:?}{table} of {}", node.op, args.join(", "))
            }
        }
    }

    /// An argument of the function, by its text in CUDA.
    pub fn parameter(&self, name: &str, kind: Type) -> Arg {
        Arg::Node(self.record(Op::Parameter(name.to_owned()), Vec::new(), kind))
    }

    /// The result of a scalar operation: a literal if it is known, otherwise a node.
    pub fn scalar(&self, operation: Operation, args: &[Arg]) -> Arg {
        if operation == Operation::select(operation.result()) {
            match args[..] {
                [Arg::Literal(Literal::Mask(holds)), yes, no] => return if holds { yes } else { no },
                [_, yes, no] if yes == no => return yes,
                _ => (),
            }
        }
        let literal = |arg: &Arg| if let Arg::Literal(literal) = arg { Some(*literal) } else { None };
        match args.iter().map(literal).collect::<Option<Vec<_>>>() {
            Some(literals) => Arg::Literal(operation.fold(&literals)),
            None => {
                let kind = Type::Scalar(operation.result());
                Arg::Node(self.record(Op::Scalar(operation), args.to_vec(), kind))
            }
        }
    }

    /// An entry of a table; past its end, the last one.
    pub fn look_up(&self, table: Vec<Literal>, index: Arg) -> Arg {
        match index {
            Arg::Literal(index) => Arg::Literal(table[(index.word() as usize).min(table.len() - 1)]),
            Arg::Node(_) => {
                let kind = Type::Scalar(table[0].kind());
                Arg::Node(self.record(Op::Table(self.table(table)), vec![index], kind))
            }
        }
    }

    /// A word of a memory; past its end, the last one.
    pub fn element(&self, memory: Arg, index: Arg) -> Arg {
        let index = match (index, self.type_of(memory)) {
            (Arg::Literal(Literal::Uint(index)), Type::Memory(size)) => {
                Arg::Literal(Literal::Uint(index.min(size as u32 - 1)))
            }
            (index, _) => index,
        };
        Arg::Node(self.record(Op::Element, vec![memory, index], Type::Scalar(Kind::Uint)))
    }

    /// A memory with `value` at `index` where `at` holds; past its end nothing is written.
    pub fn store(&self, memory: Arg, at: Arg, index: Arg, value: Arg) -> Arg {
        let kind = self.type_of(memory);
        match (at, index, kind) {
            (Arg::Literal(Literal::Mask(false)), ..) => memory,
            (_, Arg::Literal(Literal::Uint(index)), Type::Memory(size)) if index as usize >= size => memory,
            _ => Arg::Node(self.record(Op::Store, vec![memory, at, index, value], kind)),
        }
    }

    /// The first memory where the mask, a node, holds, and the second one elsewhere.
    pub fn choose(&self, mask: Arg, yes: Arg, no: Arg) -> Arg {
        match mask {
            _ if yes == no => yes,
            Arg::Literal(Literal::Mask(holds)) => {
                if holds {
                    yes
                } else {
                    no
                }
            }
            mask => Arg::Node(self.record(Op::Choice, vec![mask, yes, no], self.type_of(yes))),
        }
    }

    /// A memory of these words.
    pub fn words(&self, words: Vec<Arg>) -> Arg {
        let kind = Type::Memory(words.len());
        Arg::Node(self.record(Op::Words, words, kind))
    }

    /// A value as a word: a float by its bits, a mask as 0 or 1.
    pub(super) fn to_word(&self, kind: Kind, arg: Arg) -> Arg {
        if let Arg::Node(id) = arg
            && let Node { op: Op::Scalar(Operation::FloatFromBits | Operation::UintToInt), args, .. } =
                &self.0.borrow().steps.nodes[id as usize]
        {
            return args[0];
        }
        match kind {
            Kind::Uint => arg,
            Kind::Float => self.scalar(Operation::FloatToBits, &[arg]),
            Kind::Int => self.scalar(Operation::IntToUint, &[arg]),
            Kind::Mask => {
                let [no, yes] = [0, 1].map(|word| Arg::Literal(Literal::Uint(word)));
                self.scalar(Operation::UintSelect, &[arg, yes, no])
            }
        }
    }

    /// The inverse of [`Graph::to_word`].
    pub(super) fn of_word(&self, kind: Kind, word: Arg) -> Arg {
        match kind {
            Kind::Uint => word,
            Kind::Float => self.scalar(Operation::FloatFromBits, &[word]),
            Kind::Int => self.scalar(Operation::UintToInt, &[word]),
            Kind::Mask => {
                let is_zero = self.scalar(Operation::UintEq, &[word, Arg::Literal(Literal::Uint(0))]);
                self.scalar(Operation::MaskNot, &[is_zero])
            }
        }
    }

    /// The memory that has these words and no others, if there is one.
    pub(super) fn whole_memory(&self, words: &[Arg]) -> Option<Arg> {
        let inner = self.0.borrow();
        let node =
            |arg: &Arg| if let Arg::Node(id) = arg { Some(&inner.steps.nodes[*id as usize]) } else { None };
        let memory_at = |index: usize, word: &Arg| {
            let element = node(word).filter(|node| node.op == Op::Element)?;
            (element.args[1] == Arg::Literal(Literal::Uint(index as u32))).then_some(element.args[0])
        };
        let memory = memory_at(0, words.first()?)?;
        let is_whole = node(&memory)?.kind == Type::Memory(words.len());
        let are_its = words.iter().enumerate().all(|(index, word)| memory_at(index, word) == Some(memory));
        (is_whole && are_its).then_some(memory)
    }

    /// Philox's four words for a counter of four words and a key of two.
    pub fn philox(&self, args: &[Arg]) -> [Arg; 4] {
        let value = |k: usize| Value::<u32>::of(self, args[k]);
        let counter = core::array::from_fn(value);
        <Trace<'_> as crate::Lane>::philox(counter, [value(4), value(5)]).map(Value::arg)
    }

    /// The function that was recorded, with these results.
    pub fn finish(self, outputs: Outputs) -> Function {
        Function { steps: self.into_steps(), outputs: outputs.values }
    }

    pub(super) fn into_steps(self) -> Steps {
        self.0.into_inner().steps
    }
}

/// Collects the values that a function returns, with the places they are assigned to.
#[derive(Debug, Default)]
pub struct Outputs {
    values: Vec<Output>,
    places: std::vec::IntoIter<String>,
    /// Whether floats are stored as their bit patterns.
    as_words: bool,
}

impl Outputs {
    /// No outputs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `bundle` leaf by leaf to `places`, such as `next.x`.
    pub fn assign<'g, B: crate::Bundle<Trace<'g>>>(&mut self, bundle: &B, places: Vec<String>) {
        self.places = places.into_iter();
        bundle.store(self);
    }

    /// Stores a value to a place.
    pub fn put(&mut self, place: String, kind: Type, value: Arg) {
        self.values.push(Output { place, kind, value });
    }

    /// Stores `bundle` leaf by leaf to words: floats as their bit patterns.
    pub fn assign_words<'g, B: crate::Bundle<Trace<'g>>>(&mut self, bundle: &B, places: Vec<String>) {
        self.as_words = true;
        self.assign(bundle, places);
        self.as_words = false;
    }

    fn push<T: Constant>(&mut self, value: Value<'_, T>) {
        let place = self.places.next().expect("a place for every leaf");
        self.values.push(Output { place, kind: Type::Scalar(T::KIND), value: value.arg() });
    }
}

impl<'g> Sink<Trace<'g>> for Outputs {
    fn float(&mut self, value: Value<'g, f32>) {
        if self.as_words {
            self.push(value.to_bits());
        } else {
            self.push(value);
        }
    }
    fn uint(&mut self, value: Value<'g, u32>) {
        self.push(value);
    }
    fn int(&mut self, value: Value<'g, i32>) {
        self.push(value);
    }
    fn mask(&mut self, value: Value<'g, bool>) {
        self.push(value);
    }
    fn memory<const N: usize>(&mut self, value: &Recorded<'g, N>) {
        match *value {
            Recorded::Constant(words) => words.iter().for_each(|&word| self.push(Value::Constant(word))),
            Recorded::Node(_, id) => {
                let place = self.places.next().expect("a place for every leaf");
                (1..N).for_each(|_| drop(self.places.next()));
                let (place, kind) = (array_at(&place), Type::Memory(N));
                self.values.push(Output { place, kind, value: Arg::Node(id) });
            }
        }
    }
}

/// The array that begins at `place`: `(obs + 8)` for `obs[8]`.
fn array_at(place: &str) -> String {
    match place.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
        None => place.to_owned(),
        Some((array, "0")) => array.to_owned(),
        Some((array, first)) => format!("({array} + {first})"),
    }
}

/// The array of which `place` is the first element.
pub(super) fn array_name(place: &str) -> &str {
    place.strip_suffix("[0]").unwrap_or(place)
}
