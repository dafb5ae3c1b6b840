//! From the nodes of a function to a list of instructions over values, each with as many rows as it needs. Unused
//! nodes are removed, and conversions that keep all bits emit no instruction.

use std::collections::{HashMap, HashSet};

use crate::trace::{Arg, Assignment, Function, Item, Op, Operation, Steps, Type};

/// The number of a value: rows that are not placed yet.
pub(super) type Id = usize;

/// An argument: a value, or a constant by its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Term {
    Value(Id),
    Constant(u32),
}

#[derive(Debug, Clone)]
pub(super) enum Draft {
    Scalar {
        operation: Operation,
        to: Id,
        args: Vec<Term>,
    },
    /// All rows of a value.
    Copy {
        to: Id,
        from: Term,
    },
    LookUp {
        to: Id,
        index: Id,
        table: usize,
    },
    /// One word of a memory.
    Element {
        to: Id,
        memory: Id,
        index: Term,
    },
    /// A write to a memory in its place: condition, index, value.
    Write {
        memory: Id,
        operands: [Term; 3],
    },
    /// A memory from a table.
    Fill {
        to: Id,
        table: usize,
    },
    /// A memory from its words.
    Gather {
        to: Id,
        words: Vec<Term>,
    },
    /// The rows of `from` where the mask holds.
    Replace {
        to: Id,
        mask: Id,
        from: Id,
    },
    Random {
        to: [Option<Id>; 4],
        args: [Term; 6],
    },
    /// Continues at the matching [`Draft::Here`] if the mask holds nowhere.
    Skip {
        mask: Id,
        label: usize,
    },
    /// As `Skip`, out of the innermost loop.
    Break {
        mask: Id,
        label: usize,
    },
    Here {
        label: usize,
    },
    Begin {
        index: Option<Id>,
    },
    End {
        count: u32,
    },
}

/// A parameter: its name, type and value.
pub(super) type Parameter = (String, Type, Id);

/// A function as instructions.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    pub(super) code: Vec<Draft>,
    /// Rows of each value.
    pub(super) sizes: Vec<usize>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) outputs: Vec<Term>,
}

pub(super) fn draft(function: &Function) -> Drafts {
    let steps = &function.steps;
    let mut is_live = Live { steps, nodes: vec![false; steps.nodes.len()], assignments: steps.assignments() };
    function.outputs.iter().for_each(|output| is_live.mark(output.value));
    let mut writer = Writer {
        steps,
        is_live: is_live.nodes,
        values: HashMap::new(),
        words: HashMap::new(),
        drafts: Drafts::default(),
        labels: 0,
    };
    writer.region(0, None);
    writer.drafts.outputs = function.outputs.iter().map(|output| writer.term(output.value)).collect();
    writer.drafts
}

/// Finds the nodes that the outputs need.
struct Live<'a> {
    steps: &'a Steps,
    nodes: Vec<bool>,
    assignments: HashMap<u32, Assignment>,
}

impl Live<'_> {
    fn mark(&mut self, arg: Arg) {
        let mut waiting = vec![arg];
        while let Some(arg) = waiting.pop() {
            let Arg::Node(id) = arg else { continue };
            if std::mem::replace(&mut self.nodes[id as usize], true) {
                continue;
            }
            waiting.extend(&self.steps.nodes[id as usize].args);
            if let Some(Assignment { condition, result, .. }) = self.assignments.get(&id) {
                waiting.extend(condition);
                waiting.push(*result);
            }
        }
    }
}

struct Writer<'a> {
    steps: &'a Steps,
    is_live: Vec<bool>,
    /// The value of each node that was met.
    values: HashMap<u32, Term>,
    /// Philox's results by their arguments: the place of the instruction in `drafts.code`. Cleared with each region.
    words: HashMap<Vec<Arg>, usize>,
    drafts: Drafts,
    labels: usize,
}

impl Writer<'_> {
    fn term(&self, arg: Arg) -> Term {
        match arg {
            Arg::Literal(literal) => Term::Constant(literal.word()),
            Arg::Node(id) => self.values[&id],
        }
    }

    /// A value in rows; constants are filled into one.
    fn value(&mut self, arg: Arg) -> Id {
        match self.term(arg) {
            Term::Value(id) => id,
            constant @ Term::Constant(_) => {
                let to = self.fresh(1);
                self.push(Draft::Copy { to, from: constant });
                to
            }
        }
    }

    fn fresh(&mut self, rows: usize) -> Id {
        self.drafts.sizes.push(rows);
        self.drafts.sizes.len() - 1
    }

    fn push(&mut self, draft: Draft) {
        self.drafts.code.push(draft);
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels - 1
    }

    /// Writes a region. `leaves` is the label after a loop that may end when the only cold path of its body is skipped.
    fn region(&mut self, region: usize, leaves: Option<usize>) {
        let known = std::mem::take(&mut self.words);
        let steps = self.steps;
        for item in &steps.regions[region] {
            match item {
                Item::Node(id) if self.is_live[*id as usize] => self.node(*id),
                Item::Node(_) => (),
                Item::When { condition, assigned, body } => {
                    let live = self.live(assigned);
                    if !live.is_empty() {
                        self.when(*condition, &live, *body, leaves);
                    }
                }
                Item::Repeat { count, index, assigned, body } => {
                    let live = self.live(assigned);
                    if !live.is_empty() && *count > 0 {
                        self.repeat(*count, *index, &live, *body);
                    }
                }
            }
        }
        self.words = known;
    }

    fn live(&self, assigned: &[(u32, Arg)]) -> Vec<(u32, Arg)> {
        assigned.iter().filter(|(id, _)| self.is_live[*id as usize]).copied().collect()
    }

    fn when(&mut self, condition: Arg, assigned: &[(u32, Arg)], body: usize, leaves: Option<usize>) {
        let mask = self.value(condition);
        let label = self.label();
        self.push(match leaves {
            Some(label) => Draft::Break { mask, label },
            None => Draft::Skip { mask, label },
        });
        self.region(body, None);
        for (id, result) in assigned {
            let Term::Value(to) = self.values[id] else { unreachable!("variables are values") };
            match (self.term(*result), self.steps.nodes[*id as usize].kind) {
                (Term::Value(from), _) if from == to => (),
                (from, Type::Scalar(kind)) => {
                    let args = vec![Term::Value(mask), from, Term::Value(to)];
                    self.push(Draft::Scalar { operation: Operation::select(kind), to, args });
                }
                (Term::Value(from), Type::Memory(_)) => self.push(Draft::Replace { to, mask, from }),
                (Term::Constant(_), Type::Memory(_)) => unreachable!("memory is a value"),
            }
        }
        self.push(Draft::Here { label });
    }

    fn repeat(&mut self, count: u32, index: u32, assigned: &[(u32, Arg)], body: usize) {
        let end = self.label();
        let row = self.is_live[index as usize].then(|| self.fresh(1));
        if let Some(row) = row {
            self.values.insert(index, Term::Value(row));
        }
        self.push(Draft::Begin { index: row });
        let leaves = self.may_leave(index, assigned, body).then_some(end);
        self.region(body, leaves);
        // A result that is a variable's value from before must be read before that variable is assigned.
        let variables: Vec<Term> = assigned.iter().map(|(id, _)| self.values[id]).collect();
        let known: HashSet<Term> = variables.iter().copied().collect();
        let mut moves = Vec::new();
        for ((_, result), &variable) in assigned.iter().zip(&variables) {
            let mut from = self.term(*result);
            let Term::Value(to) = variable else { unreachable!("variables are values") };
            if from == variable {
                continue;
            }
            if known.contains(&from) {
                let saved = self.fresh(self.drafts.sizes[to]);
                self.push(Draft::Copy { to: saved, from });
                from = Term::Value(saved);
            }
            moves.push(Draft::Copy { to, from });
        }
        self.drafts.code.extend(moves);
        self.push(Draft::End { count });
        self.push(Draft::Here { label: end });
    }

    /// Whether a turn that changes nothing makes all later turns change nothing: the body is values and one cold path
    /// that assigns every variable, and its condition does not depend on the index.
    fn may_leave(&self, index: u32, assigned: &[(u32, Arg)], body: usize) -> bool {
        let nodes = &self.steps.nodes;
        let mut cold = None;
        for item in &self.steps.regions[body] {
            match item {
                Item::Node(_) => (),
                Item::When { condition, assigned, .. } if cold.is_none() => {
                    cold = Some((*condition, assigned))
                }
                _ => return false,
            }
        }
        let Some((condition, inner)) = cold else { return false };
        let inner: HashSet<u32> = inner.iter().map(|(id, _)| *id).collect();
        let keeps = |(variable, result): &(u32, Arg)| {
            let Arg::Node(result) = result else { return false };
            let carried = nodes[*result as usize].args.first();
            inner.contains(result)
                && matches!(carried, Some(Arg::Node(carried)) if nodes[*carried as usize].op == Op::Carried(*variable))
        };
        // Only values of the body depend on the index.
        let mut waiting = vec![condition];
        let mut known = HashSet::new();
        while let Some(arg) = waiting.pop() {
            let Arg::Node(id) = arg else { continue };
            if id == index {
                return false;
            }
            if nodes[id as usize].region == body && known.insert(id) {
                waiting.extend(&nodes[id as usize].args);
            }
        }
        assigned.iter().all(keeps)
    }

    fn node(&mut self, id: u32) {
        let node = &self.steps.nodes[id as usize];
        let rows = match node.kind {
            Type::Scalar(_) => 1,
            Type::Memory(size) => size,
        };
        let args = &node.args;
        let value = match &node.op {
            Op::Index(_) => return,
            Op::Carried(_) => self.term(args[0]),
            Op::Scalar(operation) if operation.keeps_bits() => self.term(args[0]),
            Op::Philox(word) => self.random(*word, args),
            Op::Parameter(name) => {
                let to = self.fresh(rows);
                self.drafts.parameters.push((name.clone(), node.kind, to));
                Term::Value(to)
            }
            op => {
                let to = self.fresh(rows);
                match op {
                    Op::Scalar(operation) => {
                        let args = args.iter().map(|&arg| self.term(arg)).collect();
                        self.push(Draft::Scalar { operation: *operation, to, args });
                    }
                    Op::Table(table) => {
                        let index = self.value(args[0]);
                        self.push(Draft::LookUp { to, index, table: *table });
                    }
                    Op::Variable(_) => {
                        let from = self.term(args[0]);
                        self.push(Draft::Copy { to, from });
                    }
                    Op::Memory(table) => self.push(Draft::Fill { to, table: *table }),
                    Op::Words => {
                        let words = args.iter().map(|&arg| self.term(arg)).collect();
                        self.push(Draft::Gather { to, words });
                    }
                    Op::Element => {
                        let (memory, index) = (self.value(args[0]), self.term(args[1]));
                        self.push(Draft::Element { to, memory, index });
                    }
                    Op::Store => {
                        let from = self.term(args[0]);
                        self.push(Draft::Copy { to, from });
                        let operands = [1, 2, 3].map(|k| self.term(args[k]));
                        self.push(Draft::Write { memory: to, operands });
                    }
                    Op::Choice => {
                        let (mask, from) = (self.value(args[0]), self.value(args[1]));
                        let no = self.term(args[2]);
                        self.push(Draft::Copy { to, from: no });
                        self.push(Draft::Replace { to, mask, from });
                    }
                    _ => unreachable!("handled above"),
                }
                Term::Value(to)
            }
        };
        self.values.insert(id, value);
    }

    /// A word of Philox; its four words are one instruction.
    fn random(&mut self, word: u8, args: &[Arg]) -> Term {
        let place = match self.words.get(args) {
            Some(&place) => place,
            None => {
                let terms = core::array::from_fn(|k| self.term(args[k]));
                self.push(Draft::Random { to: [None; 4], args: terms });
                self.words.insert(args.to_vec(), self.drafts.code.len() - 1);
                self.drafts.code.len() - 1
            }
        };
        let fresh = self.fresh(1);
        let Draft::Random { to, .. } = &mut self.drafts.code[place] else { unreachable!("Philox is there") };
        Term::Value(*to[usize::from(word)].get_or_insert(fresh))
    }
}
