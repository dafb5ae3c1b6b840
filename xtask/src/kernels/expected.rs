//! How long an Adam step takes at least, from what it executes and moves: the page's section about it.

use std::fmt::Write;

use operant_learn::Precision;

use super::Compiled;
use super::adam_step::{AdamStep, Part};
use super::matrix::{Measurement, NUM_ENVS};
use super::page::{GHZ, HMMA, MUFU, MULTIPROCESSORS, SCHEDULERS, bound};

/// Steps of an update, and how many of them are a minibatch.
const NUM_STEPS: usize = 128;
const EPOCHS: usize = 4;
const MINIBATCHES: usize = 32;
const MINIBATCH: usize = NUM_ENVS * NUM_STEPS / MINIBATCHES;

/// What a multiprocessor has for its blocks: bytes of shared memory, of which each block takes some more than it asks for;
/// registers, given to warps by so many; warps; and blocks.
const SHARED: usize = 233_472;
const SHARED_A_BLOCK: usize = 1_024;
const REGISTERS: usize = 65_536;
const REGISTERS_AT_ONCE: usize = 256;
const WARPS: usize = 64;
const BLOCKS: usize = 32;

/// Assumed, since nothing here can measure it: cycles until a number is there from the L2 cache and from a multiprocessor's own
/// cache, bytes a second that the L2 cache gives, and microseconds until all blocks have met.
const L2_CYCLES: f64 = 260.0;
const L1_CYCLES: f64 = 33.0;
const L2_BYTES: f64 = 5.5e12;
const BARRIER: f64 = 1.0;
const BARRIERS: f64 = 3.0;

/// Millions of steps a second of full training that are wanted, by network and precision.
const GOALS: [(&str, Precision, f64); 2] =
    [("shared 64-64", Precision::F32, 200.0), ("shared 64-64", Precision::Bf16, 500.0)];

const HOW: &str = "\
What one of the 128 Adam steps of an update needs at least on an H200 (8,192 environments x 128 steps, 4 epochs, minibatches of
32,768 samples), if nothing but the following ever waited. Counted like the first table, in the gradient of `ppo_update` and in
the kernels of the other phases, for the warp of a block that does the most; what a tile must execute by the network's sizes
(HMMA, FFMA, MUFU) has to come out, the last two with a few more for the losses.

- Tile: a turn of the loop over tiles that is not a block's first; each warp of a block takes 16 samples. Around: that phase before and
  after the loop, with the copy of the weights to shared memory. Reduce: the sum over the blocks' gradients. Adam: norm,
  step and packing. Loops turn as often as the size of the launch says; two whose turns it does not say (parts of a minibatch's
  advantages, powers of Adam's betas) do not count.
- Shared: cycles of a multiprocessor's shared memory for a block's part, 128 bytes each. A load of 8 or 16 bytes a lane
  counts half, as where neighbouring lanes read the same, and no conflict of banks counts: less is not possible, more is likely.
- Trips: how often a warp waits for numbers from the L2 cache or from memory, one load after the other. Own: the same for what
  its multiprocessor's cache may hold, the launch's parameters and gradients that the block stored in its tile before.

";

const TIMES: &str = "
Microseconds:

- Tiles: all tiles of the fullest multiprocessor, at the greatest of six limits. Issue, MUFU and HMMA are those of the first table (a
  multiply-add takes no more than its issue), shared is the bandwidth above, L2 the bytes of samples, weights and blocks' gradients at
  5.5 TB/s, and alone the time of one warp that has its scheduler for itself: an instruction a cycle, and its trips.
- Around, reduce and Adam: one warp alone, or what they read from L2 where that takes longer. All blocks copy weights at
  the same time, so no tile hides it.
- Barriers: three meetings of all blocks.
- Step: the sum. At most: full training with 128 such steps after a rollout at the first table's bound. Goal: what is wanted,
  and the step that it leaves room for.

Assumed, because nothing here can measure it: 260 cycles a trip and 33 for an own one, 5.5 TB/s from L2, and 1 microsecond a
barrier, where 2 are as likely. An upper bound of the speed, and no forecast.

";

/// How long the parts of an Adam step take, in microseconds.
#[derive(Debug, Clone, PartialEq)]
struct Times {
    /// What could limit the tiles.
    limits: [(f64, &'static str); 6],
    around: f64,
    reduce: f64,
    adam: f64,
}

impl Times {
    /// All tiles, and what limits them.
    fn tiles(&self) -> (f64, &'static str) {
        greatest(self.limits)
    }

    fn parts(&self) -> [(f64, &'static str); 5] {
        [
            (self.tiles().0, "tiles"),
            (self.around, "around"),
            (self.reduce, "reduce"),
            (self.adam, "Adam"),
            (BARRIERS * BARRIER, "barriers"),
        ]
    }

    fn step(&self) -> f64 {
        self.parts().iter().map(|(time, _)| time).sum()
    }
}

/// The greatest of some times, and its name.
fn greatest<const N: usize>(times: [(f64, &'static str); N]) -> (f64, &'static str) {
    times.into_iter().fold((0.0, "none"), |most, next| if next.0 > most.0 { next } else { most })
}

/// How a minibatch lies on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks that a multiprocessor holds at once.
    pub resident: usize,
    /// Blocks of the launch.
    pub blocks: usize,
    /// Tiles of a minibatch.
    pub tiles: usize,
}

impl Grid {
    /// Of an update whose threads have so many registers.
    pub fn of(measurement: &Measurement, registers: u32) -> Grid {
        let update = &measurement.update;
        let of_warp = (registers as usize * 32).next_multiple_of(REGISTERS_AT_ONCE);
        let by_registers = REGISTERS / (of_warp * update.warps);
        let by_shared = SHARED / (update.shared + SHARED_A_BLOCK);
        let resident = by_registers.min(by_shared).min(WARPS / update.warps).min(BLOCKS);
        let most = resident * MULTIPROCESSORS as usize;
        let blocks = update.blocks(&measurement.network, MINIBATCH, most);
        Grid { resident, blocks, tiles: MINIBATCH.div_ceil(update.tile()) }
    }

    /// Blocks with tiles.
    pub fn busy(&self) -> usize {
        self.blocks.min(self.tiles)
    }

    /// Tiles of the block with the most.
    fn of_block(&self) -> usize {
        self.tiles.div_ceil(self.blocks)
    }

    /// Tiles of the multiprocessor with the most.
    fn of_multiprocessor(&self) -> usize {
        let rounds = (0..self.of_block()).map(|round| (self.tiles - round * self.blocks).min(self.blocks));
        rounds.map(|tiles| tiles.div_ceil(MULTIPROCESSORS as usize)).sum()
    }
}

/// Cycles of a warp that has a scheduler for itself.
fn alone(part: &Part) -> f64 {
    part.counts.all + L2_CYCLES * part.trips + L1_CYCLES * part.own_trips
}

fn microseconds(cycles: f64) -> f64 {
    cycles / (GHZ * 1e3)
}

fn times(step: &AdamStep, measurement: &Measurement, grid: Grid) -> Times {
    let update = &measurement.update;
    let tiles = grid.of_multiprocessor() as f64;
    let of_tile = step.tile.counts;
    // Of the fullest multiprocessor.
    let warps = tiles * update.warps as f64;
    let parameters = 4.0 * measurement.network.len() as f64;
    let busy = grid.busy() as f64;
    // Gradients that registers do not hold are added up in memory: a tile stores all, and loads them unless it is the first.
    let held = of_tile.global < parameters / 4.0 / (update.warps as f64 * 32.0);
    let added = if held { busy } else { 2.0 * grid.tiles as f64 - busy };
    let weights = 4.0 * (update.forward.packed_words + update.transposed_words) as f64;
    let moved = (MINIBATCH * measurement.sample) as f64 + busy * weights + added * parameters;
    let chain = grid.of_block() as f64 * alone(&step.tile) - step.tile.own_trips * L1_CYCLES;
    let read = |bytes: f64| bytes / L2_BYTES * 1e6;
    Times {
        limits: [
            (microseconds(of_tile.all * warps / SCHEDULERS), "issue"),
            (microseconds(of_tile.mufu * warps / MUFU), "MUFU"),
            (microseconds(of_tile.hmma * warps / HMMA), "HMMA"),
            (microseconds(of_tile.shared_cycles * warps), "shared"),
            (read(moved), "L2"),
            (microseconds(chain), "alone"),
        ],
        around: microseconds(alone(&step.around)),
        reduce: microseconds(alone(&step.reduce)).max(read(busy * parameters)),
        // Parameters and both moments are read and stored, and the gradient read.
        adam: microseconds(alone(&step.adam)).max(read(7.0 * parameters)),
    }
}

/// The section of the page.
pub fn section(compiled: &[Compiled]) -> String {
    let mut executes = String::from(
        "| environment | network | precision | part | blocks | instructions | HMMA | MUFU | FFMA | shared, cycles | global | trips \
         | own |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mut takes = String::from(
        "| environment | network | precision | greatest | tiles | issue | MUFU | HMMA | shared | L2 | alone | tiles, us | around, us \
         | reduce, us | Adam, us | barriers, us | step, us | rollout, us | at most, M steps/s \
         | goal | goal, us a step |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for one in compiled {
        let (Some(step), Some(measurement), Some(grid)) = (&one.adam, &one.job.adam, one.grid) else {
            continue;
        };
        let head = format!(
            "| {} | {} | {} |",
            one.job.environment,
            one.job.network.unwrap_or("-"),
            one.job.precision.map_or("-", |precision| precision.name())
        );
        let parts =
            [("tile", step.tile), ("around", step.around), ("reduce", step.reduce), ("Adam", step.adam)];
        for (name, part) in parts {
            let counts = part.counts;
            let _ = writeln!(
                executes,
                "{head} {name} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
                grid.blocks,
                counts.all,
                counts.hmma,
                counts.mufu,
                counts.ffma,
                counts.shared_cycles * measurement.update.warps as f64,
                counts.global,
                part.trips,
                part.own_trips,
            );
        }
        let times = times(step, measurement, grid);
        let _ = write!(takes, "{head} {} | {} |", greatest(times.parts()).1, grid.of_multiprocessor());
        for (limit, _) in times.limits {
            let _ = write!(takes, " {limit:.1} |");
        }
        for (time, name) in times.parts() {
            let limit = if name == "tiles" { format!(" ({})", times.tiles().1) } else { String::new() };
            let _ = write!(takes, " {time:.1}{limit} |");
        }
        let rollout = rollout(compiled, one);
        let shown =
            |number: Option<f64>, digits: usize| number.map_or("-".to_owned(), |n| format!("{n:.digits$}"));
        let speed = rollout.map(|rollout| speed(times.step(), rollout));
        let goal =
            GOALS.iter().find(|goal| (Some(goal.0), Some(goal.1)) == (one.job.network, one.job.precision));
        let left = goal.and_then(|goal| Some(left(goal.2, rollout?)));
        let _ = writeln!(
            takes,
            " {:.1} | {} | {} | {} | {} |",
            times.step(),
            shown(rollout, 0),
            shown(speed, 0),
            shown(goal.map(|goal| goal.2), 0),
            shown(left, 1)
        );
    }
    format!("{HOW}{executes}{TIMES}{takes}")
}

/// Millions of steps a second of full training.
fn speed(step: f64, rollout: f64) -> f64 {
    (NUM_ENVS * NUM_STEPS) as f64 / ((EPOCHS * MINIBATCHES) as f64 * step + rollout)
}

/// Microseconds that such a speed leaves for an Adam step.
fn left(speed: f64, rollout: f64) -> f64 {
    ((NUM_ENVS * NUM_STEPS) as f64 / speed - rollout) / (EPOCHS * MINIBATCHES) as f64
}

/// Microseconds that the rollout of the same environment, network and precision takes at least.
fn rollout(compiled: &[Compiled], of: &Compiled) -> Option<f64> {
    let same = |one: &&Compiled| {
        (one.job.environment, one.job.network, one.job.precision)
            == (of.job.environment, of.job.network, of.job.precision)
            && one.job.kernel == "rollout"
    };
    let (turn, measured) =
        compiled.iter().filter(same).find_map(|one| Some((one.turn?, one.job.measured.as_ref()?)))?;
    let (steps, _) = bound(&turn.step, measured.environments);
    Some((NUM_ENVS * NUM_STEPS) as f64 / (steps * 1e3))
}

#[cfg(test)]
#[path = "expected/tests.rs"]
mod tests;
