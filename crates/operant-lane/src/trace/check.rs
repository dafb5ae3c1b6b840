//! Checks of functions from files: a function that passes them can be printed, recorded again and run without a panic,
//! in a bounded number of steps.

use serde::Deserialize;

use super::function::{Function, Output};
use super::graph::{Arg, Item, Literal, Op, Steps, Type};
use crate::bundle::Kind;

/// Maximum nodes of a function.
const MOST_NODES: usize = 1 << 20;
/// Maximum words of a memory or entries of a table.
const MOST_WORDS: usize = 1 << 22;
/// Maximum words of all memories of a function: a program has a row for each that is in use.
const MOST_MEMORY: usize = 1 << 22;
/// Maximum nodes that a call may compute, counting loop bodies once per iteration.
const MOST_COMPUTED: u64 = 1 << 26;
/// Deepest nesting of cold paths and loops.
const DEEPEST: usize = 64;

/// Why a function is not well formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

/// A function as it is read from a file.
#[derive(Debug, Deserialize)]
pub struct Unchecked {
    steps: Steps,
    outputs: Vec<Output>,
}

impl Unchecked {
    pub(super) fn checked(mut self) -> Result<Function, Invalid> {
        let nodes = self.steps.nodes.len();
        if nodes > MOST_NODES {
            return invalid(format!("{nodes} nodes; at most {MOST_NODES} are read"));
        }
        self.tables()?;
        let mut check = Check {
            steps: &self.steps,
            scopes: vec![None; nodes],
            regions: vec![false; self.steps.regions.len()],
            is_visible: vec![false; nodes],
            bodies: vec![None; nodes],
            turns: 1,
            computed: 0,
            words: 0,
        };
        if self.steps.regions.is_empty() {
            return invalid("no regions".to_owned());
        }
        check.region(0, &[], None, 0)?;
        if let Some(unused) = check.regions.iter().position(|is_used| !is_used) {
            return invalid(format!("region {unused} is not the body of a step"));
        }
        if let Some(unused) = check.scopes.iter().position(Option::is_none) {
            return invalid(format!("node {unused} is in no region"));
        }
        for output in &self.outputs {
            check
                .visible(output.value, output.kind)
                .map_err(|Invalid(what)| Invalid(format!("the output {}: {what}", output.place)))?;
        }
        let scopes = check.scopes;
        for (node, scope) in self.steps.nodes.iter_mut().zip(scopes) {
            node.region = scope.expect("checked above");
        }
        Ok(Function { steps: self.steps, outputs: self.outputs })
    }

    fn tables(&self) -> Result<(), Invalid> {
        for (number, table) in self.steps.tables.iter().enumerate() {
            let kind = table.first().map(|entry| entry.kind());
            let is_of_kind = |entry: &Literal| Some(entry.kind()) == kind;
            if !matches!(kind, Some(Kind::Float | Kind::Uint)) || !table.iter().all(is_of_kind) {
                return invalid(format!("table {number} is not made of floats or unsigned integers alone"));
            }
            if table.len() > MOST_WORDS {
                return invalid(format!(
                    "table {number} has {} entries; at most {MOST_WORDS} are read",
                    table.len()
                ));
            }
        }
        Ok(())
    }
}

fn invalid<T>(what: String) -> Result<T, Invalid> {
    Err(Invalid(what))
}

struct Check<'a> {
    steps: &'a Steps,
    /// The region of each node, once it was met.
    scopes: Vec<Option<usize>>,
    /// Whether a region is used.
    regions: Vec<bool>,
    /// Whether a node's value is known at this place.
    is_visible: Vec<bool>,
    /// The body whose step assigns a variable, once it was met.
    bodies: Vec<Option<usize>>,
    /// How often this place is reached in a call.
    turns: u64,
    /// Nodes computed in a call.
    computed: u64,
    /// Words of the memories that were met.
    words: usize,
}

impl Check<'_> {
    fn region(
        &mut self,
        region: usize,
        results: &[(u32, Arg)],
        index: Option<u32>,
        depth: usize,
    ) -> Result<(), Invalid> {
        match self.regions.get_mut(region) {
            None => return invalid(format!("there is no region {region}")),
            Some(true) => return invalid(format!("region {region} is used twice")),
            Some(is_used) => *is_used = true,
        }
        if depth > DEEPEST {
            return invalid(format!("bodies are nested deeper than {DEEPEST}"));
        }
        let steps = self.steps;
        let mut defined = Vec::new();
        // Variables that the next step has to assign.
        let mut waiting = Vec::new();
        for item in &steps.regions[region] {
            let (assigned, inner, body) = match item {
                Item::Node(id) => {
                    self.node(*id, region, index)?;
                    if matches!(steps.nodes[*id as usize].op, Op::Variable(_)) {
                        waiting.push(*id);
                    } else if waiting.is_empty() {
                        self.is_visible[*id as usize] = true;
                        defined.push(*id);
                    } else {
                        return invalid(format!(
                            "node {id} is between variables and the step that assigns them"
                        ));
                    }
                    continue;
                }
                Item::When { condition, assigned, body } => {
                    self.visible(*condition, Type::Scalar(Kind::Mask))?;
                    (assigned, None, *body)
                }
                Item::Repeat { index, assigned, body, .. } => (assigned, Some(*index), *body),
            };
            if !assigned.iter().map(|(id, _)| *id).eq(waiting.iter().copied()) {
                return invalid(format!("region {region}: a step does not assign the variables before it"));
            }
            let turns = self.turns;
            if let Item::Repeat { count, .. } = item {
                self.turns = self.turns.saturating_mul(u64::from(*count));
            }
            self.compute(
                assigned.iter().map(|(id, _)| steps.nodes[*id as usize].kind.words()).sum::<usize>() + 1,
            )?;
            assigned.iter().for_each(|(id, _)| self.bodies[*id as usize] = Some(body));
            self.region(body, assigned, inner, depth + 1)?;
            self.turns = turns;
            if let Some(index) = inner {
                let node = steps.nodes.get(index as usize);
                let is_own = self.scopes.get(index as usize) == Some(&Some(body));
                if !is_own || !node.is_some_and(|node| matches!(node.op, Op::Index(_))) {
                    return invalid(format!(
                        "the index of the loop with body {body} is not a node of that body"
                    ));
                }
            }
            for id in waiting.drain(..) {
                self.is_visible[id as usize] = true;
                defined.push(id);
            }
        }
        if let Some(id) = waiting.first() {
            return invalid(format!("nothing assigns variable {id}"));
        }
        for (variable, result) in results {
            self.visible(*result, steps.nodes[*variable as usize].kind)?;
        }
        // The caller sees the outputs of region 0.
        if region != 0 {
            defined.iter().for_each(|id| self.is_visible[*id as usize] = false);
        }
        Ok(())
    }

    fn visible(&self, arg: Arg, kind: Type) -> Result<(), Invalid> {
        let found = match arg {
            Arg::Literal(literal) => Type::Scalar(literal.kind()),
            Arg::Node(id) if !self.is_visible.get(id as usize).is_some_and(|is_visible| *is_visible) => {
                return invalid(format!("node {id} is used outside its scope"));
            }
            Arg::Node(id) => self.steps.nodes[id as usize].kind,
        };
        if found == kind { Ok(()) } else { invalid(format!("{kind:?} is expected, not {found:?}")) }
    }

    fn node(&mut self, id: u32, region: usize, index: Option<u32>) -> Result<(), Invalid> {
        let Some(node) = self.steps.nodes.get(id as usize) else {
            return invalid(format!("there is no node {id}"));
        };
        if self.scopes[id as usize].replace(region).is_some() {
            return invalid(format!("node {id} is computed twice"));
        }
        self.compute(node.kind.words())?;
        let in_node = |Invalid(what)| Invalid(format!("node {id}: {what}"));
        let (uint, mask) = (Type::Scalar(Kind::Uint), Type::Scalar(Kind::Mask));
        let memory = node.kind;
        let size = match memory {
            Type::Memory(size) if size == 0 || size > MOST_WORDS => {
                return invalid(format!("node {id}: a memory of {size} words"));
            }
            Type::Memory(size) => {
                self.words += size;
                Some(size)
            }
            Type::Scalar(_) => None,
        };
        if self.words > MOST_MEMORY {
            return invalid(format!("the memories have more than {MOST_MEMORY} words in all"));
        }
        let table = |number: &usize| {
            let table = self.steps.tables.get(*number);
            table.ok_or_else(|| Invalid(format!("node {id}: there is no table {number}")))
        };
        let is_sound = match &node.op {
            Op::Parameter(_) => node.args.is_empty(),
            Op::Scalar(operation) => {
                let args = operation.kinds().iter().map(|kind| Type::Scalar(*kind)).collect();
                self.args(&node.args, args).map_err(in_node)?;
                let shift = node.args.get(1);
                let is_amount = matches!(shift, Some(Arg::Literal(Literal::Uint(amount))) if *amount < 32);
                // Constants are folded where they are recorded.
                let has_node = node.args.iter().any(|arg| matches!(arg, Arg::Node(_)));
                has_node
                    && node.kind == Type::Scalar(operation.result())
                    && (!operation.shifts_by_literal() || is_amount)
            }
            Op::Philox(word) => {
                self.args(&node.args, vec![uint; 6]).map_err(in_node)?;
                *word < 4 && node.kind == uint
            }
            Op::Table(number) => {
                self.args(&node.args, vec![uint]).map_err(in_node)?;
                node.kind == Type::Scalar(table(number)?[0].kind())
            }
            Op::Variable(_) => {
                self.args(&node.args, vec![node.kind]).map_err(in_node)?;
                true
            }
            Op::Carried(variable) => {
                node.args == [Arg::Node(*variable)]
                    && index.is_some()
                    && self.bodies.get(*variable as usize) == Some(&Some(region))
                    && self.steps.nodes[*variable as usize].kind == node.kind
            }
            Op::Index(_) => index == Some(id) && node.args.is_empty() && node.kind == uint,
            Op::Memory(number) => {
                let table = table(number)?;
                node.args.is_empty() && size == Some(table.len()) && table[0].kind() == Kind::Uint
            }
            Op::Words => {
                self.args(&node.args, vec![uint; size.unwrap_or(0)]).map_err(in_node)?;
                size.is_some()
            }
            Op::Element => {
                let memory = node.args.first().map(|arg| self.type_of(*arg));
                let Some(memory @ Type::Memory(_)) = memory else {
                    return invalid(format!("node {id} reads no memory"));
                };
                self.args(&node.args, vec![memory, uint]).map_err(in_node)?;
                let is_inside = match (node.args[1], memory) {
                    (Arg::Literal(index), Type::Memory(size)) => (index.word() as usize) < size,
                    _ => true,
                };
                node.kind == uint && is_inside
            }
            Op::Store => {
                self.args(&node.args, vec![memory, mask, uint, uint]).map_err(in_node)?;
                let is_inside = match (node.args[2], size) {
                    (Arg::Literal(index), Some(size)) => (index.word() as usize) < size,
                    _ => true,
                };
                size.is_some() && is_inside
            }
            Op::Choice => {
                self.args(&node.args, vec![mask, memory, memory]).map_err(in_node)?;
                size.is_some()
            }
        };
        if is_sound { Ok(()) } else { invalid(format!("node {id} has the wrong arguments or type")) }
    }

    /// Counts values that are computed here.
    fn compute(&mut self, values: usize) -> Result<(), Invalid> {
        self.computed = self.computed.saturating_add(self.turns.saturating_mul(values as u64));
        if self.computed > MOST_COMPUTED {
            return invalid(format!("a call computes more than {MOST_COMPUTED} values"));
        }
        Ok(())
    }

    fn type_of(&self, arg: Arg) -> Type {
        match arg {
            Arg::Literal(literal) => Type::Scalar(literal.kind()),
            Arg::Node(id) => self.steps.nodes.get(id as usize).map_or(Type::Memory(0), |node| node.kind),
        }
    }

    fn args(&self, args: &[Arg], kinds: Vec<Type>) -> Result<(), Invalid> {
        if args.len() != kinds.len() {
            return invalid(format!("{} arguments, not {}", args.len(), kinds.len()));
        }
        args.iter().zip(kinds).try_for_each(|(&arg, kind)| self.visible(arg, kind))
    }
}
