//! What one Adam step executes, read from the machine code of the update: a tile of the gradient, what stands around the loop
//! over tiles, the sum over the blocks' shares, and the step itself.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use super::constants::{Constants, Launch, constants, written};
use super::count::Counts;
use super::graph::{Loop, Nodes};
use super::sass::{Instruction, Kernel};
use super::trips::busiest;
use super::work::Work;

/// What a warp does in a part of the step: the one of the block that does the most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// Its instructions.
    pub counts: Counts,
    /// How often it waits for numbers from the L2 cache or from memory.
    pub trips: f64,
    /// The same for what its multiprocessor's cache may hold: the launch's parameters, and gradients that the block itself stored.
    pub own_trips: f64,
}

/// One Adam step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamStep {
    /// A tile of the gradient that is not the block's first.
    pub tile: Part,
    /// The gradient's phase without its tiles: weights to shared memory before, losses and held gradients after.
    pub around: Part,
    /// The sum over the blocks' shares.
    pub reduce: Part,
    /// Norm, step, and packing.
    pub adam: Part,
}

/// What the count needs to know of the launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts {
    /// Its size.
    pub launch: Launch,
    /// What a tile must execute at least.
    pub tile: Work,
}

/// The shuffle's multipliers: it walks on while a number lies outside of the batch, which a power of two never needs.
const SHUFFLE: [&str; 4] = ["0x7feb352d", "-0x7b935975", "0x846ca68b", "-0x8014cad3"];

/// Counts one Adam step in what nvdisasm printed of the update.
///
/// # Errors
/// When a loop cannot be told, or a tile does not execute what the network's sizes say.
pub fn count(text: &str, facts: Facts) -> Result<AdamStep> {
    let whole = Kernel::parse(text, "ppo_update")?;
    let calls = whole.instructions.iter().filter_map(Instruction::callee);
    let mut gradients: Vec<&str> = calls.filter(|callee| callee.contains("gradient_phase")).collect();
    gradients.dedup();
    let [gradient] = gradients[..] else { bail!("{} gradient phases are called, not one", gradients.len()) };
    let (tile, around) = gradient_phase(text, gradient, facts).context("the gradient's phase")?;
    facts.tile.check_tile(&tile.counts)?;
    let phase = |name: &str| phase(text, name, facts).with_context(|| format!("`{name}`"));
    Ok(AdamStep { tile, around, reduce: phase("update_reduce")?, adam: phase("update_adam")? })
}

/// Functions that the compiler brings for numbers that are out of its usual way's range: they are not called.
fn slow(callee: &str) -> bool {
    ["slowpath", "mediumpath", "_full", "div_u64"].iter().any(|part| callee.contains(part))
}

/// A tile, and the rest.
fn gradient_phase(text: &str, name: &str, facts: Facts) -> Result<(Part, Part)> {
    let kernel = Kernel::parse(text, name)?;
    let known = constants(&kernel, facts.launch, slow);
    let loops = known.graph.loops(0);
    let meets = |l: &&Loop| l.body.iter().any(|block| kernel.has(*block, |i| i.name() == "BAR"));
    let outermost = |l: &&Loop| !loops.iter().any(|other| other != *l && other.body.is_superset(&l.body));
    let over_tiles: Vec<&Loop> = loops.iter().filter(meets).filter(outermost).collect();
    let [over_tiles] = over_tiles[..] else {
        bail!("{} outermost loops have a barrier, and not one: the loop over tiles", over_tiles.len())
    };
    let all = known.graph.reachable(0, |_| false);
    let turns = |inner: &Loop| {
        let has = |name: &str| inner.body.iter().any(|block| kernel.has(*block, |i| i.name() == name));
        let shuffles = inner.body.iter().any(|block| {
            kernel.has(*block, |i| i.operands.iter().any(|operand| SHUFFLE.contains(&operand.as_str())))
        });
        if shuffles {
            Some(1.0)
        } else if has("DADD") && !has("LDS") {
            // The parts of a minibatch's advantages, as few as the launch makes them.
            Some(0.0)
        } else {
            None
        }
    };
    let inside: Vec<&Loop> = loops.iter().filter(|l| *l != over_tiles).collect();
    let tile = part(text, &kernel, &known, &inside, &over_tiles.body, &turns, true)?;
    let around = part(text, &kernel, &known, &inside, &(&all - &over_tiles.body), &turns, false)?;
    Ok((tile, around))
}

/// A phase that is a kernel.
fn phase(text: &str, name: &str, facts: Facts) -> Result<Part> {
    let kernel = Kernel::parse(text, name)?;
    let known = constants(&kernel, facts.launch, slow);
    let loops = known.graph.loops(0);
    let all = known.graph.reachable(0, |_| false);
    let turns = |inner: &Loop| {
        let count = |names: &[&str]| {
            let code = inner.body.iter().flat_map(|block| kernel.code(*block));
            code.filter(|i| names.contains(&i.name())).count()
        };
        // A power by squaring, a turn a bit of the number of the step; four further layers of a network, in its packing.
        let left_out = count(&["DMUL"]) + count(&["LDL"]) > 0 && count(&["LD", "LDG"]) == 0;
        left_out.then_some(0.0)
    };
    part(text, &kernel, &known, &loops.iter().collect::<Vec<_>>(), &all, &turns, false)
}

/// What `blocks` execute, once for each turn of the `loops` that they are in. `turns` says how often a loop turns where its code
/// does not; `in_tile`, whether this is the loop over tiles.
fn part(
    text: &str,
    kernel: &Kernel,
    known: &Constants,
    loops: &[&Loop],
    blocks: &Nodes,
    turns: &dyn Fn(&Loop) -> Option<f64>,
    in_tile: bool,
) -> Result<Part> {
    let mut nested = Vec::new();
    for inner in loops.iter().filter(|l| l.body.is_subset(blocks)) {
        nested.push((*inner, turns_of(kernel, known, inner, turns)?));
    }
    let times = |block: usize| -> f64 {
        nested.iter().filter(|(inner, _)| inner.body.contains(&block)).map(|(_, turns)| *turns).product()
    };
    let mut part = Part::default();
    let mut waiting = Waiting { in_tile, ..Waiting::default() };
    for &block in blocks {
        let times = times(block);
        let code = kernel.code(block);
        part.counts += Counts::of(code, times);
        for callee in code.iter().filter_map(Instruction::callee).filter(|callee| !slow(callee)) {
            let callee = Kernel::parse(text, callee)?;
            ensure!(
                callee.graph().loops(0).is_empty(),
                "a function that is called has a loop, whose turns are not counted"
            );
            part.counts += Counts::of(&callee.instructions, times);
        }
        for at in kernel.blocks[block].range.clone() {
            let (far, own) = waiting.execute(&kernel.instructions, at);
            part.trips += f64::from(u8::from(far)) * times;
            part.own_trips += f64::from(u8::from(own)) * times;
        }
    }
    Ok(part)
}

/// How often a loop turns for a warp that comes by it, the busiest one of its block.
fn turns_of(
    kernel: &Kernel,
    known: &Constants,
    inner: &Loop,
    turns: &dyn Fn(&Loop) -> Option<f64>,
) -> Result<f64> {
    let successors = |block: usize| known.graph.successors[block].clone();
    let value = |at: usize, operand: &str| known.value(kernel, at, operand);
    let entries: Vec<usize> = (0..kernel.blocks.len())
        .filter(|block| !inner.body.contains(block) && successors(*block).contains(&inner.head))
        .collect();
    let start = |counter: &str| {
        let mut values = entries.iter().map(|block| known.value_after(*block, counter));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    };
    match busiest(kernel, inner, &successors, &value, &start) {
        Some(turns) => Ok(f64::from(turns)),
        None => turns(inner).with_context(|| {
            let at = kernel.code(inner.head)[0].address;
            format!("how often the loop at {at:#x} turns does not follow from constants")
        }),
    }
}

/// Registers whose numbers are on their way from memory.
#[derive(Default)]
struct Waiting {
    /// In the loop over tiles a number that is loaded alone is of the block's own gradient.
    in_tile: bool,
    far: BTreeSet<String>,
    own: BTreeSet<String>,
}

impl Waiting {
    /// Executes one instruction; whether it had to wait for numbers from afar, and for what the block's own cache may hold.
    /// Numbers arrive in the order in which they were asked for, so that one wait is for all before it.
    fn execute(&mut self, code: &[Instruction], at: usize) -> (bool, bool) {
        let instruction = &code[at];
        let reads = |registers: &BTreeSet<String>| {
            let result = usize::from(!written(instruction).is_empty());
            let operands = instruction.operands.iter().skip(result);
            operands.flat_map(|operand| named(operand)).any(|name| registers.contains(name))
        };
        let far = reads(&self.far);
        let own = !far && reads(&self.own);
        if far {
            self.far.clear();
        }
        if far || own {
            self.own.clear();
        }
        if matches!(instruction.name(), "LD" | "LDG") {
            // Samples and weights are loaded several numbers at a time.
            let single = written(instruction).len() == 1;
            let own = is_parameter(code, at) || self.in_tile && single;
            let place = if own { &mut self.own } else { &mut self.far };
            place.extend(written(instruction));
        }
        (far, own)
    }
}

/// Whether a load is of the launch's parameters, whose address the function was called with.
fn is_parameter(code: &[Instruction], at: usize) -> bool {
    let Some(base) = code[at].operands.get(1).and_then(|from| named(from).next()) else { return false };
    !code.iter().any(|i| written(i).iter().any(|name| name == base))
}

/// The registers in an operand, such as `R4` in `desc[UR10][R4.64+0x100]`.
fn named(operand: &str) -> impl Iterator<Item = &str> {
    operand.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| {
        word.strip_prefix('R')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
#[path = "adam_step/tests.rs"]
mod tests;
