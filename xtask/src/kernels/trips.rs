//! How often a loop turns whose counter is compared with a constant.

use super::constants::{comparison, evaluate};
use super::graph::{Loop, Nodes};
use super::sass::{Instruction, Kernel};

/// More turns than any loop has that this reads.
const MOST: u32 = 1 << 16;

/// The turns of `inner`, or None where its end depends on data. `dominators` are those of the kernel's blocks.
///
/// The counter begins with a constant or with a number of the lane that is less than a step; a loop that such a number
/// would make turn more often on some lanes than on others has no answer.
pub fn trips(kernel: &Kernel, inner: &Loop, dominators: &[Option<Nodes>]) -> Option<u32> {
    let end =
        End::of(kernel, inner, &|block| kernel.blocks[block].successors.clone(), &|_, name| constant(name))?;
    match start(kernel, inner, end.counter, dominators) {
        Some(start) => end.turns(start),
        None if (end.step as i32) > 0 => end.turns(0).filter(|least| end.turns(end.step - 1) == Some(*least)),
        None => None,
    }
}

/// The turns of `inner` on the thread that takes the most, where more may be known than constants: of an instruction's operands by
/// `value`, and of the counter before the loop by `start`, for the first thread, which takes the most turns of a loop that threads
/// share. A counter of which nothing is known begins with zero on it.
pub fn busiest(
    kernel: &Kernel,
    inner: &Loop,
    successors: &dyn Fn(usize) -> Vec<usize>,
    value: &dyn Fn(usize, &str) -> Option<u32>,
    start: &dyn Fn(&str) -> Option<u32>,
) -> Option<u32> {
    let end = End::of(kernel, inner, successors, value)?;
    match start(end.counter) {
        Some(start) => end.turns(start),
        None if (end.step as i32) > 0 => end.turns(0),
        None => None,
    }
}

/// How a loop ends.
struct End<'a> {
    /// The register that counts.
    counter: &'a str,
    /// What each turn adds to it.
    step: u32,
    /// What is added to it for the comparison.
    offset: u32,
    bound: u32,
    holds: fn(u32, u32) -> bool,
    /// Whether the bound stands before the counter.
    mirrored: bool,
    /// The comparison's result that keeps the loop going.
    stays: bool,
    /// Whether the comparison sees the counter after the addition.
    stepped: bool,
}

impl<'a> End<'a> {
    fn of(
        kernel: &'a Kernel,
        inner: &Loop,
        successors: &dyn Fn(usize) -> Vec<usize>,
        value: &dyn Fn(usize, &str) -> Option<u32>,
    ) -> Option<End<'a>> {
        let leaves = |block: &&usize| successors(**block).iter().any(|next| !inner.body.contains(next));
        let exits: Vec<usize> = inner.body.iter().filter(leaves).copied().collect();
        let [exit] = exits[..] else { return None };
        let branch = kernel.code(exit).last()?;
        let [condition] = branch.conditions()[..] else { return None };
        let [target, _] = kernel.blocks[exit].successors[..] else { return None };
        let (predicate, wanted) = condition.strip_prefix('!').map_or((condition, true), |name| (name, false));
        let stays = if inner.body.contains(&target) { wanted } else { !wanted };

        let order: Vec<usize> =
            inner.body.iter().flat_map(|block| kernel.blocks[*block].range.clone()).collect();
        let defines = |index: &&usize, register: &str| {
            kernel.instructions[**index].operands.iter().take(2).any(|operand| operand == register)
        };
        let compares = |index: &&usize| matches!(kernel.instructions[**index].name(), "ISETP" | "UISETP");
        let last = kernel.blocks[exit].range.end;
        let compare = *order
            .iter()
            .rev()
            .filter(|index| **index < last)
            .find(|i| compares(i) && defines(i, predicate))?;
        let test = &kernel.instructions[compare];
        let holds = comparison(&test.opcode)?;
        let [_, _, left, right, ..] = &test.operands[..] else { return None };
        // The one instruction of the loop that writes a register, the last one before another, and what it adds to one it reads.
        let writes = |index: &&usize, register: &str| {
            kernel.instructions[**index].operands.first().is_some_and(|first| first == register)
        };
        let only = |register: &str| {
            let mut found = order.iter().filter(|index| writes(index, register));
            found.next().copied().filter(|_| found.next().is_none())
        };
        let before = |at: usize, register: &str| {
            let block = kernel.blocks.iter().find(|block| block.range.contains(&at))?;
            order
                .iter()
                .filter(|index| (block.range.start..at).contains(*index))
                .rfind(|i| writes(i, register))
        };
        let adds =
            |index: usize, to: &str| added(&kernel.instructions[index], to, &|name| value(index, name));
        let counts = |seen: &'a String, other: &str, mirrored: bool| {
            let bound = value(compare, other)?;
            if let Some(update) = only(seen)
                && let Some(step) = adds(update, seen)
            {
                let stepped = update < compare;
                return Some(End { counter: seen, step, offset: 0, bound, holds, mirrored, stays, stepped });
            }
            // A number that lies beside the counter.
            let read = *before(compare, seen)?;
            let beside = |name: &'a String| {
                let (offset, update) = (adds(read, name)?, only(name)?);
                let (step, stepped) = (adds(update, name)?, update < read);
                Some(End { counter: name, step, offset, bound, holds, mirrored, stays, stepped })
            };
            kernel.instructions[read].operands.iter().skip(1).find_map(beside)
        };
        counts(left, right, false).or_else(|| counts(right, left, true))
    }

    /// Turns from a first value of the counter.
    fn turns(&self, start: u32) -> Option<u32> {
        let mut value = start;
        (1..=MOST).find(|_| {
            let before = value;
            value = value.wrapping_add(self.step);
            let seen = if self.stepped { value } else { before }.wrapping_add(self.offset);
            let (left, right) = if self.mirrored { (self.bound, seen) } else { (seen, self.bound) };
            (self.holds)(left, right) != self.stays
        })
    }
}

/// A number as an operand.
pub fn constant(operand: &str) -> Option<u32> {
    if matches!(operand, "RZ" | "URZ" | "SRZ") {
        return Some(0);
    }
    let (negative, digits) = operand.strip_prefix('-').map_or((false, operand), |digits| (true, digits));
    let value = u32::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// What an instruction adds to `register`, if it does nothing else.
fn added(instruction: &Instruction, register: &str, value: &dyn Fn(&str) -> Option<u32>) -> Option<u32> {
    let from =
        |start: u32| evaluate(instruction, &|name| if name == register { Some(start) } else { value(name) });
    let sum = from(0)?;
    let adds = [1, 2, 1 << 20].iter().all(|start| from(*start) == Some(sum.wrapping_add(*start)));
    (adds && instruction.guard.is_none()).then_some(sum)
}

/// The constant that the counter has before the first turn.
fn start(kernel: &Kernel, inner: &Loop, counter: &str, dominators: &[Option<Nodes>]) -> Option<u32> {
    // Blocks on every way to the head, the nearest first: each has one more above it than the next.
    let mut above: Vec<usize> = dominators[inner.head].as_ref()?.iter().copied().collect();
    above.retain(|block| !inner.body.contains(block));
    above.sort_by_key(|block| std::cmp::Reverse(dominators[*block].as_ref().map_or(0, Nodes::len)));
    let pair = counter.strip_prefix('R').and_then(|number| number.parse::<u32>().ok());
    let lower = pair.filter(|number| number % 2 == 1).map(|number| format!("R{}", number - 1));
    for block in above {
        for instruction in kernel.code(block).iter().rev() {
            let Some(first) = instruction.operands.first() else { continue };
            let clears_pair = instruction.opcode == "CS2R" && Some(first) == lower.as_ref();
            if first != counter && !clears_pair {
                continue;
            }
            let last = instruction.operands.last()?;
            return match instruction.name() {
                "MOV" | "UMOV" | "CS2R" => constant(last),
                "IMAD" if instruction.opcode.starts_with("IMAD.MOV") => constant(last),
                "HFMA2" if instruction.operands.ends_with(&["0".to_owned(), "0".to_owned()]) => Some(0),
                _ => None,
            };
        }
    }
    None
}
