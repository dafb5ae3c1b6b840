//! Machine code as nvdisasm prints it: the instructions of a kernel and the blocks that they form.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context, Result, bail};

use super::graph::Graph;

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Where it lies in the kernel, in bytes.
    pub address: u32,
    /// The predicate that it is executed under, such as `!P0`.
    pub guard: Option<String>,
    /// Name and modifiers, such as `IMAD.WIDE.U32`.
    pub opcode: String,
    /// What stands behind, without marks of register reuse.
    pub operands: Vec<String>,
}

impl Instruction {
    /// Its name without modifiers.
    pub fn name(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// The label that it names, as branches and calls do.
    fn label(&self) -> Option<&str> {
        self.operands.iter().find_map(|operand| operand.strip_prefix("`(")?.strip_suffix(')'))
    }

    /// The function that it calls.
    pub fn callee(&self) -> Option<&str> {
        (self.name() == "CALL").then(|| self.label()).flatten()
    }

    /// The condition of a branch that is not always taken: its predicates, such as `!P0`.
    pub fn conditions(&self) -> Vec<&str> {
        let second = self.operands.first().map(String::as_str).filter(|operand| is_predicate(operand));
        self.guard.as_deref().into_iter().chain(second).collect()
    }
}

/// Whether an operand is a predicate that an instruction can write, such as `P0`, or its inverse.
pub fn is_predicate(operand: &str) -> bool {
    let name = operand.trim_start_matches(['!', '~']);
    let number = name.strip_prefix("UP").or_else(|| name.strip_prefix('P'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Instructions that are executed one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Indices into the kernel's instructions.
    pub range: Range<usize>,
    /// The blocks that may come next.
    pub successors: Vec<usize>,
}

/// A kernel's instructions and blocks; block 0 is where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// In the order of their addresses.
    pub instructions: Vec<Instruction>,
    /// In the same order.
    pub blocks: Vec<Block>,
}

impl Kernel {
    /// The kernel `name` of what `nvdisasm -c` printed.
    ///
    /// Where lanes of a warp might have parted, the compiler leaves a second way that brings them together (BRA.DIV,
    /// BRA.CONV); it is taken to be never needed. Functions that are called are no part of the kernel.
    ///
    /// # Errors
    /// There is no such kernel, or it jumps where this cannot follow.
    pub fn parse(text: &str, name: &str) -> Result<Kernel> {
        let (mut instructions, mut labels) = (Vec::new(), HashMap::new());
        let mut inside = false;
        for line in text.lines() {
            if let Some(label) =
                line.strip_suffix(':').filter(|label| !label.starts_with(char::is_whitespace))
            {
                if label.starts_with(".L") {
                    if inside {
                        labels.insert(label.to_owned(), instructions.len());
                    }
                } else if !label.starts_with('.') {
                    inside = label == name;
                }
            } else if line.starts_with("//---") || line.trim_start().starts_with(".section") {
                inside = false;
            } else if inside && let Some(instruction) = instruction(line) {
                instructions.push(instruction);
            }
        }
        if instructions.is_empty() {
            bail!("no kernel `{name}` in what nvdisasm printed");
        }
        let blocks =
            blocks(&instructions, &labels).with_context(|| format!("the machine code of `{name}`"))?;
        Ok(Kernel { instructions, blocks })
    }

    /// Which block may come after which.
    pub fn graph(&self) -> Graph {
        Graph { successors: self.blocks.iter().map(|block| block.successors.clone()).collect() }
    }

    /// The instructions of a block.
    pub fn code(&self, block: usize) -> &[Instruction] {
        &self.instructions[self.blocks[block].range.clone()]
    }

    /// Whether a block has an instruction that `passes`.
    pub fn has(&self, block: usize, passes: impl Fn(&Instruction) -> bool) -> bool {
        self.code(block).iter().any(passes)
    }
}

/// Reads `        /*0080*/               @P0 BRA `(.L_x_1) ;`; None for all other lines.
fn instruction(line: &str) -> Option<Instruction> {
    let (address, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let address = u32::from_str_radix(address, 16).ok()?;
    let mut rest = rest.split(';').next()?.trim();
    let mut guard = None;
    if let Some(guarded) = rest.strip_prefix('@') {
        let (predicate, tail) = guarded.split_once(' ')?;
        guard = Some(predicate.to_owned());
        rest = tail.trim_start();
    }
    let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let operands = operands.split(',').map(|operand| operand.trim().replace(".reuse", ""));
    let operands = operands.filter(|operand| !operand.is_empty()).collect();
    (!opcode.is_empty()).then(|| Instruction { address, guard, opcode: opcode.to_owned(), operands })
}

/// What an instruction does to the order of execution.
enum Flow {
    On,
    Jump { target: usize, always: bool },
    End { always: bool },
}

fn flow(instruction: &Instruction, labels: &HashMap<String, usize>) -> Result<Flow> {
    let always = instruction.conditions().is_empty();
    let at = instruction.address;
    Ok(match instruction.name() {
        "BRA" if instruction.opcode.starts_with("BRA.DIV") => Flow::On,
        "BRA" => {
            let label =
                instruction.label().with_context(|| format!("the branch at {at:#x} names no label"))?;
            let target = *labels.get(label).with_context(|| format!("the branch at {at:#x} leaves it"))?;
            Flow::Jump { target, always: always || instruction.opcode.starts_with("BRA.CONV") }
        }
        "EXIT" | "RET" => Flow::End { always },
        "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" => bail!("the jump at {at:#x} is computed"),
        _ => Flow::On,
    })
}

fn blocks(instructions: &[Instruction], labels: &HashMap<String, usize>) -> Result<Vec<Block>> {
    let flows: Vec<Flow> =
        instructions.iter().map(|instruction| flow(instruction, labels)).collect::<Result<_>>()?;
    let mut starts: Vec<usize> = vec![0];
    for (index, flow) in flows.iter().enumerate() {
        if let Flow::Jump { target, .. } = flow {
            starts.push(*target);
        }
        if !matches!(flow, Flow::On) {
            starts.push(index + 1);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts.retain(|start| *start < instructions.len());
    let block_at = |index: usize| starts.binary_search(&index).ok();
    let mut blocks = Vec::new();
    for (number, &start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(instructions.len());
        let next = block_at(end);
        let mut successors: Vec<usize> = match &flows[end - 1] {
            Flow::On | Flow::End { always: false } => next.into_iter().collect(),
            Flow::End { always: true } => Vec::new(),
            Flow::Jump { target, always: true } => block_at(*target).into_iter().collect(),
            Flow::Jump { target, always: false } => block_at(*target).into_iter().chain(next).collect(),
        };
        successors.dedup();
        blocks.push(Block { range: start..end, successors });
    }
    Ok(blocks)
}
