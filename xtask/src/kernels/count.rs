//! What one turn of a kernel's loop over steps executes, read from its machine code.

use std::ops::{Add, AddAssign};

use anyhow::{Context, Result, bail, ensure};

use super::graph::{Graph, Loop, Nodes};
use super::sass::{Instruction, Kernel};
use super::trips::trips;

/// Instructions of a warp, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// All of them.
    pub all: f64,
    /// Products on the tensor cores.
    pub hmma: f64,
    /// Special functions: reciprocals, exponentials, hyperbolic tangents.
    pub mufu: f64,
    /// Multiply-adds in f32.
    pub ffma: f64,
    /// Loads from and stores to shared memory.
    pub shared: f64,
    /// Loads from and stores to global memory.
    pub global: f64,
    /// Cycles that shared memory takes for them at 128 bytes each, at least: a load of 8 or 16 bytes a lane takes half where
    /// neighbouring lanes read the same, which the code does not tell.
    pub shared_cycles: f64,
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, other: Counts) -> Counts {
        Counts {
            all: self.all + other.all,
            hmma: self.hmma + other.hmma,
            mufu: self.mufu + other.mufu,
            ffma: self.ffma + other.ffma,
            shared: self.shared + other.shared,
            global: self.global + other.global,
            shared_cycles: self.shared_cycles + other.shared_cycles,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = *self + other;
    }
}

impl Counts {
    /// Code that is executed `times`.
    pub fn of(code: &[Instruction], times: f64) -> Counts {
        let named = |names: &[&str]| code.iter().filter(|i| names.contains(&i.name())).count() as f64 * times;
        Counts {
            all: code.len() as f64 * times,
            hmma: named(&["HMMA"]),
            mufu: named(&["MUFU"]),
            ffma: named(&["FFMA"]),
            shared: named(&["LDS", "STS", "LDSM", "STSM", "ATOMS"]),
            global: named(&["LDG", "STG", "LD", "ST", "RED", "ATOMG"]),
            shared_cycles: code.iter().map(shared_cycles).sum::<f64>() * times,
        }
    }
}

/// Of one instruction.
fn shared_cycles(instruction: &Instruction) -> f64 {
    let has = |modifier: &str| instruction.opcode.split('.').any(|part| part == modifier);
    let (wide, widest) = (has("64"), has("128"));
    match instruction.name() {
        "LDS" if widest => 2.0,
        "STS" if widest => 4.0,
        "STS" if wide => 2.0,
        "LDSM" | "STSM" => instruction.opcode.rsplit('.').find_map(|part| part.parse().ok()).unwrap_or(1.0),
        "LDS" | "STS" | "ATOMS" => 1.0,
        _ => 0.0,
    }
}

/// One turn of the loop over steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// From the head of the loop to where the network's outputs are known; None in a kernel without a policy.
    pub policy: Option<Counts>,
    /// The turn in which no episode ends, policy included.
    pub step: Counts,
    /// What comes on top where an episode of the warp ends; None where it could not be told apart and is part of `step`.
    pub end: Option<Counts>,
}

/// What the count needs to know of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Whether the loop runs a policy, and so may take a turn more for a bootstrap.
    pub policy: bool,
    /// Whether a step takes one random word, so that one step in four draws.
    pub draws_every_fourth: bool,
    /// Turns of a loop whose end depends on the observation: set bits in a word of it.
    pub bits_a_word: Option<f64>,
}

/// Philox's multipliers, as nvdisasm writes them: only loops over steps draw random numbers.
const PHILOX: [&str; 4] = ["-0x2daee0ad", "0xd2511f53", "-0x326172a9", "0xcd9e8d57"];

/// The purpose of an episode's first state, as it enters Philox's counter.
const RESET: &str = "0x1000000";

fn draws(instruction: &Instruction) -> bool {
    instruction.operands.iter().any(|operand| PHILOX.contains(&operand.as_str()))
}

/// Counts one turn of the loop over steps.
///
/// # Errors
/// When the loop, or how often one inside it turns, cannot be told.
pub fn turn(kernel: &Kernel, facts: Facts) -> Result<Turn> {
    let graph = kernel.graph();
    let loops = graph.loops(0);
    let over_steps = over_steps(kernel, &loops)?;
    let times = times(kernel, &graph, &loops, over_steps, facts)?;

    // One turn as an acyclic graph: from the head to a last node that stands for the next turn.
    let (turn, next) = unrolled(&graph, over_steps, &loops);
    let paths = turn.reachable(over_steps.head, |_| false);
    let normal = match facts.policy {
        false => paths.iter().copied().filter(|node| *node != next).collect(),
        true => steps(kernel, &turn, over_steps.head, next)?,
    };
    for &block in &normal {
        let slow = |callee: &str| callee.contains("slowpath");
        let unknown = kernel.code(block).iter().filter_map(Instruction::callee).find(|callee| !slow(callee));
        if let Some(callee) = unknown {
            bail!("the loop over steps calls `{callee}`, whose instructions are not counted");
        }
    }
    let count = |blocks: &Nodes| {
        blocks
            .iter()
            .fold(Counts::default(), |sum, block| sum + Counts::of(kernel.code(*block), times(*block)))
    };

    let mut counted = count(&normal);
    let (fourth, end) = draws_apart(kernel, &turn, over_steps.head, next, &normal, facts)?;
    if let Some(draw) = fourth {
        counted += scaled(count(&draw), -0.75);
    }
    let end = end.map(|end| count(&end));
    if let Some(end) = end {
        counted += scaled(end, -1.0);
    }
    let policy = match facts.policy {
        false => None,
        true => Some(count(&policy(&turn, over_steps.head, next, &normal)?)),
    };
    Ok(Turn { policy, step: counted, end })
}

fn scaled(counts: Counts, by: f64) -> Counts {
    let Counts { all, hmma, mufu, ffma, shared, global, shared_cycles } = counts;
    Counts {
        all: all * by,
        hmma: hmma * by,
        mufu: mufu * by,
        ffma: ffma * by,
        shared: shared * by,
        global: global * by,
        shared_cycles: shared_cycles * by,
    }
}

/// The loop over steps: the outermost one that draws random numbers.
fn over_steps<'a>(kernel: &Kernel, loops: &'a [Loop]) -> Result<&'a Loop> {
    let drawing: Vec<&Loop> =
        loops.iter().filter(|l| l.body.iter().any(|block| kernel.has(*block, draws))).collect();
    let outermost: Vec<&Loop> = drawing
        .iter()
        .copied()
        .filter(|l| !loops.iter().any(|other| other != *l && other.body.is_superset(&l.body)))
        .collect();
    match outermost[..] {
        [one] => Ok(one),
        _ => bail!("{} outermost loops draw random numbers, and not one", outermost.len()),
    }
}

/// What a branch skips where random numbers are not needed: the draw of every fourth step, where steps take one word
/// each, and then the start of an episode.
fn draws_apart(
    kernel: &Kernel,
    turn: &Graph,
    head: usize,
    next: usize,
    normal: &Nodes,
    facts: Facts,
) -> Result<(Option<Nodes>, Option<Nodes>)> {
    let memory = |i: &Instruction| matches!(i.name(), "LDS" | "STS" | "LDG" | "STG");
    let arms: Vec<Nodes> = turn
        .arms(head, next)
        .into_iter()
        .map(|arm| &arm & normal)
        .filter(|arm| arm.iter().any(|block| kernel.has(*block, draws)))
        .filter(|arm| !arm.iter().any(|block| kernel.has(*block, memory)))
        .collect();
    let dominators = turn.dominators(head);
    let rank = |arm: &Nodes| arm.iter().filter_map(|block| Some(dominators[*block].as_ref()?.len())).min();
    let inner = |arm: &&Nodes| !arms.iter().any(|other| other != *arm && other.is_subset(arm));
    let mut apart: Vec<Nodes> = arms.iter().filter(inner).cloned().collect();
    apart.sort_by_key(rank);
    apart.dedup();
    // A lone one is the start of an episode, whose words are drawn for that purpose.
    let starts = |i: &Instruction| i.operands.iter().any(|operand| operand == RESET);
    let first = apart.first().is_some_and(|arm| !arm.iter().any(|block| kernel.has(*block, starts)));
    ensure!(
        first || !facts.draws_every_fourth,
        "the draw of every fourth step could not be told from the rest"
    );
    let mut apart = apart.into_iter();
    let fourth = if facts.draws_every_fourth { apart.next() } else { None };
    let end = apart.next();
    ensure!(apart.next().is_none(), "more branches than expected skip random numbers");
    Ok((fourth, end))
}

/// How often each block is executed in a turn that comes by it.
fn times<'a>(
    kernel: &'a Kernel,
    graph: &Graph,
    loops: &'a [Loop],
    over_steps: &'a Loop,
    facts: Facts,
) -> Result<impl Fn(usize) -> f64 + 'a> {
    let dominators = graph.dominators(0);
    let mut inner = Vec::new();
    for nested in loops.iter().filter(|l| *l != over_steps && over_steps.body.is_superset(&l.body)) {
        let seeks = |i: &Instruction| matches!(i.name(), "FLO" | "UFLO" | "BREV");
        let over_bits = nested.body.iter().any(|block| kernel.has(*block, seeks));
        let innermost = !loops.iter().any(|other| other != nested && nested.body.is_superset(&other.body));
        let turns = match (trips(kernel, nested, &dominators), facts.bits_a_word) {
            (Some(turns), _) => f64::from(turns),
            (None, Some(bits)) if over_bits && innermost => bits,
            _ => {
                let at = kernel.code(nested.head)[0].address;
                bail!("how often the loop at {at:#x} turns does not follow from constants")
            }
        };
        inner.push((nested, turns));
    }
    Ok(move |block: usize| {
        inner.iter().filter(|(nested, _)| nested.body.contains(&block)).map(|(_, turns)| *turns).product()
    })
}

/// One turn of a loop without any way back: arrows to its head, and out of it, lead to a new last node, and those that
/// close a loop inside it are left out.
fn unrolled(graph: &Graph, over_steps: &Loop, loops: &[Loop]) -> (Graph, usize) {
    let next = graph.successors.len();
    let closes = |from: usize, to: usize| {
        loops.iter().any(|l| l.head == to && l.head != over_steps.head && l.body.contains(&from))
    };
    let mut successors = vec![Vec::new(); next + 1];
    for &block in &over_steps.body {
        for &to in graph.successors[block].iter().filter(|to| !closes(block, **to)) {
            let leaves = to == over_steps.head || !over_steps.body.contains(&to);
            let to = if leaves { next } else { to };
            if !successors[block].contains(&to) {
                successors[block].push(to);
            }
        }
    }
    (Graph { successors }, next)
}

/// The blocks of turns that take a step: they come by the vote on bootstraps, which others do not.
fn steps(kernel: &Kernel, turn: &Graph, head: usize, next: usize) -> Result<Nodes> {
    let paths = turn.reachable(head, |node| node == next);
    let before = turn.reversed();
    let votes = paths.iter().filter(|block| kernel.has(**block, |i| matches!(i.name(), "VOTE" | "VOTEU")));
    let mut normal = Nodes::new();
    for &vote in votes {
        normal.append(&mut turn.reachable(vote, |node| node == next));
        normal.append(&mut before.reachable(vote, |node| !paths.contains(&node)));
    }
    ensure!(!normal.is_empty(), "the loop over steps has no vote on bootstraps");
    Ok(normal)
}

/// The blocks of the policy: up to and with the first branch that leads to the end of a bootstrap's turn.
fn policy(turn: &Graph, head: usize, next: usize, normal: &Nodes) -> Result<Nodes> {
    let dominators = turn.dominators(head);
    let rank = |block: &usize| dominators[*block].as_ref().map_or(usize::MAX, Nodes::len);
    let leads_out =
        |block: &&usize| turn.successors[**block].iter().any(|to| *to != next && !normal.contains(to));
    let last = normal.iter().filter(leads_out).min_by_key(|block| rank(block));
    let last = *last.context("the policy could not be told from the step")?;
    let mut policy = turn.reachable(head, |node| node == last || node == next);
    policy.insert(last);
    Ok(&policy & normal)
}

#[cfg(test)]
#[path = "count/tests.rs"]
mod tests;
