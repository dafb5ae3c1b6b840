//! How often a loop turns whose counter is compared with a constant.

use super::graph::{Loop, Nodes};
use super::sass::{Instruction, Kernel};

/// More turns than any loop has that this reads.
const MOST: u32 = 1 << 16;

/// The turns of `inner`, or None where its end depends on data. `dominators` are those of the kernel's blocks.
///
/// The counter begins with a constant or with a number of the lane that is less than a step; a loop that such a number
/// would make turn more often on some lanes than on others has no answer.
pub fn trips(kernel: &Kernel, inner: &Loop, dominators: &[Option<Nodes>]) -> Option<u32> {
    let leaves =
        |block: &&usize| kernel.blocks[**block].successors.iter().any(|next| !inner.body.contains(next));
    let exits: Vec<usize> = inner.body.iter().filter(leaves).copied().collect();
    let [exit] = exits[..] else { return None };
    let branch = kernel.code(exit).last()?;
    let [condition] = branch.conditions()[..] else { return None };
    let [target, _] = kernel.blocks[exit].successors[..] else { return None };
    let (predicate, wanted) = condition.strip_prefix('!').map_or((condition, true), |name| (name, false));
    // The value of the predicate that keeps the loop going.
    let stays = if inner.body.contains(&target) { wanted } else { !wanted };

    let order: Vec<usize> = inner.body.iter().flat_map(|block| kernel.blocks[*block].range.clone()).collect();
    let defines = |index: &&usize, register: &str| {
        kernel.instructions[**index].operands.iter().take(2).any(|operand| operand == register)
    };
    let compares = |index: &&usize| matches!(kernel.instructions[**index].name(), "ISETP" | "UISETP");
    let last = kernel.blocks[exit].range.end;
    let compare =
        *order.iter().rev().filter(|index| **index < last).find(|i| compares(i) && defines(i, predicate))?;
    let test = &kernel.instructions[compare];
    let [_, _, counter, bound, ..] = &test.operands[..] else { return None };
    let bound = constant(bound)?;
    let holds = comparison(&test.opcode)?;

    let written: Vec<usize> = order
        .iter()
        .filter(|index| kernel.instructions[**index].operands.first() == Some(counter))
        .copied()
        .collect();
    let [update] = written[..] else { return None };
    let step = step(&kernel.instructions[update], counter)?;
    let stepped = update < compare;

    let turns = |start: u32| {
        let mut value = start;
        (1..=MOST).find(|_| {
            let before = value;
            value = value.wrapping_add(step);
            holds(if stepped { value } else { before }, bound) != stays
        })
    };
    match start(kernel, inner, counter, dominators) {
        Some(start) => turns(start),
        None if (step as i32) > 0 => turns(0).filter(|least| turns(step - 1) == Some(*least)),
        None => None,
    }
}

/// A number as an operand.
fn constant(operand: &str) -> Option<u32> {
    if matches!(operand, "RZ" | "URZ" | "SRZ") {
        return Some(0);
    }
    let (negative, digits) = operand.strip_prefix('-').map_or((false, operand), |digits| (true, digits));
    let value = u32::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

fn comparison(opcode: &str) -> Option<fn(u32, u32) -> bool> {
    let mut parts = opcode.split('.').skip(1);
    let kind = parts.next()?;
    let unsigned = parts.any(|part| part == "U32");
    Some(match (kind, unsigned) {
        ("EQ", _) => |a, b| a == b,
        ("NE", _) => |a, b| a != b,
        ("LT", true) => |a, b| a < b,
        ("LE", true) => |a, b| a <= b,
        ("GT", true) => |a, b| a > b,
        ("GE", true) => |a, b| a >= b,
        ("LT", false) => |a, b| (a as i32) < b as i32,
        ("LE", false) => |a, b| a as i32 <= b as i32,
        ("GT", false) => |a, b| a as i32 > b as i32,
        ("GE", false) => |a, b| a as i32 >= b as i32,
        _ => return None,
    })
}

/// What an addition of a constant adds to `counter`.
fn step(update: &Instruction, counter: &str) -> Option<u32> {
    let adds = matches!(update.name(), "VIADD" | "IADD" | "IADD3" | "UIADD3" | "UIADD");
    let terms = update
        .operands
        .iter()
        .skip(1)
        .filter(|operand| !operand.starts_with(['P', 'U']) || operand.starts_with("UR"));
    let mut sum = 0u32;
    let mut counters = 0;
    for term in terms {
        if term == counter {
            counters += 1;
        } else {
            sum = sum.wrapping_add(constant(term)?);
        }
    }
    (adds && counters == 1 && update.guard.is_none()).then_some(sum)
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
