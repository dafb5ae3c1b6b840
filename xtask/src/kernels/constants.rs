//! Registers that hold the same number on every thread: what follows from constants and from the size of the launch, and
//! which ways a kernel therefore never goes.

use std::collections::HashMap;

use super::graph::{Graph, Nodes};
use super::sass::{Instruction, Kernel, is_predicate};

/// Numbers of registers and predicates (0 or 1) by their names.
pub type Known = HashMap<String, u32>;

/// The size of the launch, which kernels read from their first bank of constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Threads of a block.
    pub threads: u32,
    /// Blocks.
    pub blocks: u32,
    /// Blocks that have tiles of a minibatch: what the kernels get as the lesser of the tiles and the blocks.
    pub busy: u32,
}

/// What is known of a kernel.
#[derive(Debug, Clone)]
pub struct Constants {
    /// On entry to each block; None where no way leads.
    before: Vec<Option<Known>>,
    /// On the way out of each, for the first thread.
    after: Vec<Option<Known>>,
    /// The ways that are left.
    pub graph: Graph,
    launch: Launch,
}

impl Constants {
    /// What an operand of the kernel's instruction `at` stands for.
    pub fn value(&self, kernel: &Kernel, at: usize, operand: &str) -> Option<u32> {
        let block = kernel.blocks.iter().position(|block| block.range.contains(&at))?;
        let mut known = self.before[block].clone()?;
        for instruction in &kernel.instructions[kernel.blocks[block].range.start..at] {
            execute(instruction, self.launch, &mut known);
        }
        self.launch.value(&known, operand)
    }

    /// What it stands for on the way out of a block, for the first thread.
    pub fn value_after(&self, block: usize, operand: &str) -> Option<u32> {
        self.launch.value(self.after[block].as_ref()?, operand)
    }
}

impl Launch {
    /// What an operand stands for: a number, a word of the launch's size, or a register.
    fn value(self, known: &Known, operand: &str) -> Option<u32> {
        if let Some(rest) = operand.strip_prefix('-') {
            return Some(self.value(known, rest)?.wrapping_neg());
        }
        match operand {
            "RZ" | "URZ" | "SRZ" => Some(0),
            "c[0x0][RZ]" | "c[0x0][URZ]" | "c[0x0][0x0]" => Some(self.threads),
            "c[0x0][0xc]" => Some(self.blocks),
            _ => match operand.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => known.get(operand).copied(),
            },
        }
    }
}

/// Follows constants through a kernel. Blocks that call a `slow` function are taken to be never reached.
pub fn constants(kernel: &Kernel, launch: Launch, slow: impl Fn(&str) -> bool) -> Constants {
    let calls = |block: usize| kernel.code(block).iter().filter_map(Instruction::callee).any(&slow);
    let (before, _, graph) = follow(kernel, launch, Known::new(), |block, known| {
        ways(kernel, block, known).into_iter().filter(|next| !calls(*next)).collect()
    });
    // The first thread goes where any thread may go.
    let first = Known::from([(THREAD.to_owned(), 0), (LANE.to_owned(), 0)]);
    let (_, after, graph) = follow(kernel, launch, first, |block, _| graph.successors[block].clone());
    Constants { before, after, graph, launch }
}

/// The numbers of the thread and of the lane, as S2R reads them.
const THREAD: &str = "SR_TID.X";
const LANE: &str = "SR_LANEID";

/// What is known before and after each block, and the ways between them, from what is known at the start.
fn follow(
    kernel: &Kernel,
    launch: Launch,
    start: Known,
    ways: impl Fn(usize, &Known) -> Vec<usize>,
) -> (Vec<Option<Known>>, Vec<Option<Known>>, Graph) {
    let count = kernel.blocks.len();
    let (mut before, mut after) = (vec![None; count], vec![None; count]);
    let mut successors = vec![Vec::new(); count];
    before[0] = Some(start);
    let mut left = Nodes::from([0]);
    while let Some(block) = left.pop_first() {
        let Some(mut known) = before[block].clone() else { continue };
        for instruction in kernel.code(block) {
            execute(instruction, launch, &mut known);
        }
        successors[block] = ways(block, &known);
        for &next in &successors[block] {
            let merged = match &before[next] {
                None => known.clone(),
                Some(other) => {
                    other.iter().filter(|(name, value)| known.get(*name) == Some(value)).map(own).collect()
                }
            };
            if before[next].as_ref() != Some(&merged) {
                before[next] = Some(merged);
                left.insert(next);
            }
        }
        after[block] = Some(known);
    }
    (before, after, Graph { successors })
}

fn own((name, value): (&String, &u32)) -> (String, u32) {
    (name.clone(), *value)
}

/// The blocks that may come next.
fn ways(kernel: &Kernel, block: usize, known: &Known) -> Vec<usize> {
    let all = &kernel.blocks[block].successors;
    let last = kernel.code(block).last();
    let ([target, on], Some(branch)) = (&all[..], last.filter(|last| last.name() == "BRA")) else {
        return all.clone();
    };
    match branch.conditions()[..] {
        [condition] => match holds(known, condition) {
            Some(true) => vec![*target],
            Some(false) => vec![*on],
            None => all.clone(),
        },
        _ => all.clone(),
    }
}

fn holds(known: &Known, condition: &str) -> Option<bool> {
    match condition.strip_prefix('!') {
        Some(name) => Some(!holds(known, name)?),
        None if matches!(condition, "PT" | "UPT") => Some(true),
        None => Some(known.get(condition).copied()? != 0),
    }
}

/// What an instruction leaves known.
fn execute(instruction: &Instruction, launch: Launch, known: &mut Known) {
    let guard = instruction.guard.as_deref().map(|guard| holds(known, guard));
    if guard == Some(Some(false)) {
        return;
    }
    let value = |operand: &str| launch.value(known, operand);
    let result = match instruction.name() {
        "ISETP" | "UISETP" => compared(instruction, &value, &|name| holds(known, name)),
        "VIMNMX" | "IMNMX" | "UIMNMX" => lesser(instruction, launch, &value),
        "PLOP3" => combined(instruction, &|name| holds(known, name)),
        _ => evaluate(instruction, &value),
    };
    let written = written(instruction);
    for name in &written {
        known.remove(name);
    }
    if matches!(guard, None | Some(Some(true))) {
        if instruction.name() == "CS2R" && instruction.operands.last().is_some_and(|from| from == "SRZ") {
            known.extend(written.into_iter().map(|name| (name, 0)));
        } else if let (Some(result), Some(name)) = (result, written.into_iter().next()) {
            known.insert(name, result);
        }
    }
    if instruction.name() == "R2P" {
        known.retain(|name, _| !is_predicate(name));
    }
}

/// The number that an integer instruction writes, if its operands are known.
pub fn evaluate(instruction: &Instruction, value: &dyn Fn(&str) -> Option<u32>) -> Option<u32> {
    let has = |modifier: &str| instruction.opcode.split('.').skip(1).any(|part| part == modifier);
    let predicate = |operand: &&str| is_predicate(operand) || operand.trim_start_matches('!').ends_with("PT");
    let operands: Vec<&str> = instruction.operands.iter().map(String::as_str).collect();
    let numbers: Vec<&str> = operands.iter().filter(|operand| !predicate(operand)).skip(1).copied().collect();
    match (instruction.name(), &numbers[..]) {
        _ if has("X") || has("WIDE") || has("64") => None,
        ("MOV" | "UMOV" | "R2UR" | "LDC" | "ULDC" | "S2R" | "S2UR", [from, ..]) => value(from),
        ("IADD3" | "IADD" | "VIADD" | "UIADD3" | "UIADD", terms) => {
            terms.iter().try_fold(0u32, |sum, term| Some(sum.wrapping_add(value(term)?)))
        }
        ("IMAD" | "UIMAD", [a, b, c]) if !has("HI") => {
            Some(value(a)?.wrapping_mul(value(b)?).wrapping_add(value(c)?))
        }
        ("LEA" | "ULEA", [a, b, shift]) if !has("HI") => {
            Some(value(a)?.wrapping_shl(value(shift)?).wrapping_add(value(b)?))
        }
        ("LEA" | "ULEA", [a, b, "RZ" | "URZ", shift]) if has("HI") => {
            Some(value(a)?.checked_shr(32u32.checked_sub(value(shift)?)?)?.wrapping_add(value(b)?))
        }
        ("SHF" | "USHF", [_, shift, high]) if has("R") && has("HI") && has("U32") => {
            value(high)?.checked_shr(value(shift)?)
        }
        ("SHF" | "USHF", [low, shift, _]) if has("L") && has("U32") && !has("HI") => {
            value(low)?.checked_shl(value(shift)?)
        }
        ("LOP3" | "ULOP3", [a, b, c, table]) => {
            let (a, b, c, table) = (value(a)?, value(b)?, value(c)?, value(table)?);
            let bit = |number: u32, at: u32| number >> at & 1;
            let of = |at: u32| bit(table, bit(a, at) << 2 | bit(b, at) << 1 | bit(c, at)) << at;
            Some((0..32).map(of).sum())
        }
        ("HFMA2", [.., "0", "0"]) => Some(0),
        _ => None,
    }
}

/// How a comparison of integers ends, with the predicate that it is combined with.
fn compared(
    instruction: &Instruction,
    value: &dyn Fn(&str) -> Option<u32>,
    holds: &dyn Fn(&str) -> Option<bool>,
) -> Option<u32> {
    let operands: Vec<&str> = instruction.operands.iter().map(String::as_str).collect();
    let [_, "PT" | "UPT", a, b, other] = operands[..] else { return None };
    let both = comparison(&instruction.opcode)?(value(a)?, value(b)?);
    let other = holds(other)?;
    let with = |modifier: &str| instruction.opcode.split('.').any(|part| part == modifier);
    Some(u32::from(match (with("AND"), with("OR")) {
        _ if with("EX") => return None,
        (true, false) => both && other,
        (false, true) => both || other,
        _ => return None,
    }))
}

/// The lesser of two numbers; of the number of blocks and an unknown one it is the number of those that have tiles.
fn lesser(instruction: &Instruction, launch: Launch, value: &dyn Fn(&str) -> Option<u32>) -> Option<u32> {
    let operands: Vec<&str> = instruction.operands.iter().map(String::as_str).collect();
    let [_, a, b, "PT" | "UPT"] = operands[..] else { return None };
    match (value(a), value(b)) {
        (Some(one), None) | (None, Some(one)) if one == launch.blocks => Some(launch.busy),
        (Some(a), Some(b)) if instruction.opcode.ends_with(".U32") => Some(a.min(b)),
        _ => None,
    }
}

/// What a table says of three predicates.
fn combined(instruction: &Instruction, holds: &dyn Fn(&str) -> Option<bool>) -> Option<u32> {
    let operands: Vec<&str> = instruction.operands.iter().map(String::as_str).collect();
    let [_, "PT" | "UPT", a, b, c, table, _] = operands[..] else { return None };
    let bit = |name: &str| holds(name).map(u32::from);
    let table = u32::from_str_radix(table.strip_prefix("0x")?, 16).ok()?;
    Some(table >> (bit(a)? << 2 | bit(b)? << 1 | bit(c)?) & 1)
}

/// The comparison that ISETP makes.
pub fn comparison(opcode: &str) -> Option<fn(u32, u32) -> bool> {
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

/// Instructions that write no register.
const SILENT: [&str; 20] = [
    "ST", "STG", "STS", "STL", "RED", "BAR", "BRA", "BSSY", "BSYNC", "BREAK", "EXIT", "RET", "CALL", "NOP",
    "WARPSYNC", "MEMBAR", "ERRBAR", "CCTL", "DEPBAR", "UBLKCP",
];

/// The registers and predicates that an instruction writes, the one that it is about first.
pub fn written(instruction: &Instruction) -> Vec<String> {
    if SILENT.contains(&instruction.name()) {
        return Vec::new();
    }
    let mut operands = instruction.operands.iter();
    let Some(first) = operands.next() else { return Vec::new() };
    let mut names = registers(first, width(instruction));
    let mut last_was_predicate = is_predicate(first);
    for operand in operands {
        if is_predicate(operand) && !operand.starts_with('!') {
            names.push(operand.clone());
            last_was_predicate = true;
        } else {
            // `LOP3.LUT P0, R4, ...` writes both.
            if last_was_predicate && names.len() == 1 && instruction.name() == "LOP3" {
                names.insert(0, operand.clone());
            }
            break;
        }
    }
    names
}

/// Neighbouring registers that an instruction writes.
fn width(instruction: &Instruction) -> u32 {
    let has = |modifier: &str| instruction.opcode.split('.').any(|part| part == modifier);
    match instruction.name() {
        "HMMA" | "LDSM" => 4,
        "DADD" | "DMUL" | "DFMA" | "CS2R" => 2,
        "F2F" | "I2F" if has("F64") && !instruction.opcode.ends_with(".F64") => 2,
        _ if has("128") => 4,
        _ if has("64") || has("WIDE") => 2,
        _ => 1,
    }
}

/// `R4` and so many less one behind it.
fn registers(first: &str, count: u32) -> Vec<String> {
    let number = |kind: &str| first.strip_prefix(kind).and_then(|digits| digits.parse::<u32>().ok());
    let kind = if first.starts_with('U') { "UR" } else { "R" };
    match number(kind) {
        Some(number) => (number..number + count).map(|number| format!("{kind}{number}")).collect(),
        None => vec![first.to_owned()],
    }
}

#[cfg(test)]
#[path = "constants/tests.rs"]
mod tests;
