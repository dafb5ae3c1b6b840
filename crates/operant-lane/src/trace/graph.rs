//! The recorded graph: nodes in static single assignment, in nested regions for cold paths and loops.

use std::cell::RefCell;
use std::collections::HashMap;

use super::memory::Recorded;
use super::values::{Constant, Trace, Value};
use crate::bundle::{Kind, Sink};

/// An argument of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Arg {
    /// A literal of the kind, by its bits.
    Literal(Literal),
    /// The value of a node.
    Node(u32),
}

/// A constant by its bits, so that it can be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Literal {
    Float(u32),
    Uint(u32),
    Int(i32),
    Mask(bool),
}

/// How a node's value is computed. In templates `$0` stands for an argument and `%0` for one in parentheses where it
/// is not a plain name or call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// An argument of the emitted function, by its text there.
    Parameter(String),
    /// An expression.
    Expression(&'static str),
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

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A scalar of this kind.
    Scalar(Kind),
    /// Memory with this number of words.
    Memory(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) op: Op,
    pub(super) args: Vec<Arg>,
    pub(super) kind: Type,
    pub(super) name: Option<String>,
    pub(super) region: usize,
}

/// A step of a region.
#[derive(Debug, Clone)]
pub(super) enum Item {
    /// Computes a node.
    Node(u32),
    /// Runs `body` if `condition` holds; `assigned` pairs each variable with its value after.
    When { condition: Arg, assigned: Vec<(u32, Arg)>, body: usize },
    /// Runs `body` `count` times.
    Repeat { count: u32, index: u32, assigned: Vec<(u32, Arg)>, body: usize },
}

/// The node that computes an operation on certain arguments.
type Known = HashMap<(Op, Vec<Arg>), u32>;

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) nodes: Vec<Node>,
    pub(super) regions: Vec<Vec<Item>>,
    pub(super) tables: Vec<Vec<Literal>>,
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
        Graph(RefCell::new(Inner {
            regions: vec![Vec::new()],
            open: vec![(0, HashMap::new())],
            ..Inner::default()
        }))
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
        let id = inner.nodes.len() as u32;
        let (region, known) = inner.open.last_mut().expect("a region is open");
        let region = *region;
        known.insert(key.clone(), id);
        inner.nodes.push(Node { op: key.0, args: key.1, kind, name: None, region });
        inner.regions[region].push(Item::Node(id));
        id
    }

    /// The number of a table, shared with an equal one.
    pub(super) fn table(&self, entries: Vec<Literal>) -> usize {
        let mut inner = self.0.borrow_mut();
        if let Some(known) = inner.tables.iter().position(|table| *table == entries) {
            return known;
        }
        inner.tables.push(entries);
        inner.tables.len() - 1
    }

    /// Names a node unless it has a name.
    pub(super) fn name(&self, id: u32, name: &str) {
        let node = &mut self.0.borrow_mut().nodes[id as usize];
        if node.name.is_none() && !matches!(node.op, Op::Parameter(_)) {
            node.name = Some(name.to_owned());
        }
    }

    /// Opens a region; what is recorded until [`Graph::close`] belongs to it.
    pub(super) fn open(&self) -> usize {
        let mut inner = self.0.borrow_mut();
        inner.regions.push(Vec::new());
        let region = inner.regions.len() - 1;
        inner.open.push((region, HashMap::new()));
        region
    }

    /// Closes the innermost region.
    pub(super) fn close(&self) {
        self.0.borrow_mut().open.pop();
    }

    /// Appends a step to the innermost region.
    pub(super) fn push(&self, item: Item) {
        let mut inner = self.0.borrow_mut();
        let region = inner.open.last().expect("a region is open").0;
        inner.regions[region].push(item);
    }

    /// A new variable number.
    pub(super) fn fresh(&self) -> u32 {
        self.0.borrow().nodes.len() as u32
    }
}

/// Collects the values that a function returns, with the places they are assigned to.
#[derive(Debug, Default)]
pub struct Outputs {
    pub(super) values: Vec<(String, Type, Arg)>,
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

    /// Stores `bundle` leaf by leaf to words: floats as their bit patterns.
    pub fn assign_words<'g, B: crate::Bundle<Trace<'g>>>(&mut self, bundle: &B, places: Vec<String>) {
        self.as_words = true;
        self.assign(bundle, places);
        self.as_words = false;
    }

    fn push<T: Constant>(&mut self, value: Value<'_, T>) {
        let place = self.places.next().expect("a place for every leaf");
        self.values.push((place, Type::Scalar(T::KIND), value.arg()));
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
                self.values.push((array_at(&place), Type::Memory(N), Arg::Node(id)));
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
