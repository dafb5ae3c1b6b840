//! A rollout under a trained policy: one thread plays all steps of a tile, policy included, without a barrier per step.

use operant_env::StepError;
use operant_learn::cpu::inference::{Choice, Inference, RowBuffers};
use operant_learn::cpu::network::tile::{Row, first_lanes};
use wide::bytemuck;

use super::{Arrays, BLOCK, Batch, Job, Scratch, Taken, Tile};

/// Blocks of 16 that the policy takes at once.
const WIDE: usize = 4;

/// The arrays of one step.
pub struct StepArrays<'a> {
    /// What it returns.
    pub after: Arrays<'a>,
    /// The actions before it.
    pub taken: Taken<'a>,
    /// What the policy computed, if that is asked for; actions are then those that it drew, before they were clipped.
    pub judged: Option<Judged<'a>>,
}

/// What a policy computes besides the actions of N environments.
pub struct Judged<'a> {
    /// Log-probabilities of the actions; zero of action values.
    pub logprobs: &'a mut [f32],
    /// Values of the observations.
    pub values: &'a mut [f32],
    /// The value of the last observation where the step truncated an episode, else zero.
    pub final_values: &'a mut [f32],
}

impl<'a> Judged<'a> {
    fn split(self, at: usize) -> (Self, Self) {
        let (logprobs, logprobs2) = self.logprobs.split_at_mut(at);
        let (values, values2) = self.values.split_at_mut(at);
        let (final_values, final_values2) = self.final_values.split_at_mut(at);
        (
            Judged { logprobs, values, final_values },
            Judged { logprobs: logprobs2, values: values2, final_values: final_values2 },
        )
    }
}

impl<'a> StepArrays<'a> {
    /// The first `rows` environments, and the others.
    fn split(self, rows: usize, job: &Job<'_>) -> (Self, Self) {
        let (after, after2) = self.after.split(rows, &job.spec.obs, job.choices);
        let (taken, taken2) = self.taken.split(rows * job.spec.actions.components());
        let (judged, judged2) = self.judged.map(|judged| judged.split(rows)).unzip();
        (Self { after, taken, judged }, Self { after: after2, taken: taken2, judged: judged2 })
    }
}

impl Taken<'_> {
    fn split(self, at: usize) -> (Self, Self) {
        match self {
            Taken::I64(all) => {
                let (a, b) = all.split_at_mut(at);
                (Taken::I64(a), Taken::I64(b))
            }
            Taken::F32(all) => {
                let (a, b) = all.split_at_mut(at);
                (Taken::F32(a), Taken::F32(b))
            }
        }
    }
}

impl Batch {
    /// As many steps as there are sets of arrays, with actions that the policy chooses; each step of a sampled choice is the
    /// next draw. `next_values`, `(N)` or empty, gets the values of the observations after the last step. Returns how many episodes ended.
    pub fn rollout(
        &mut self,
        policy: &Inference,
        choice: Choice,
        steps: Vec<StepArrays<'_>>,
        next_values: &mut [f32],
    ) -> Result<usize, String> {
        let count = steps.len() as u64;
        self.remember(policy);
        let (pool, tiles, job) = self.job();
        let horizon = Horizon { policy, choice, job };
        let ended = match pool {
            Some(pool) => pool.install(|| horizon.run(tiles, steps, next_values)),
            None => horizon.run(tiles, steps, next_values),
        };
        self.step += count;
        ended.map_err(|error| error.to_string())
    }
}

impl Batch {
    /// A policy with memory continues where its last rollout ended, if nothing has stepped the environments since; else without memory.
    fn remember(&mut self, policy: &Inference) {
        if self.remembers != Some(policy.id()) {
            for tile in &mut self.tiles {
                tile.memory = vec![0.0; policy.states() * self.spec.sides() * tile.rows];
            }
            self.remembers = Some(policy.id());
        }
    }

    /// `(N, states)`, or in a game `(N, sides, states)`: the memory of a policy before its next rollout here.
    pub fn memory(&mut self, policy: &Inference) -> Vec<f32> {
        self.remember(policy);
        let states = policy.states() * self.spec.sides();
        let of_tile = |tile: &Tile| {
            let rows = (0..tile.count).flat_map(|row| (0..states).map(move |state| state * tile.rows + row));
            rows.map(|at| tile.memory[at]).collect::<Vec<_>>()
        };
        self.tiles.iter().flat_map(of_tile).collect()
    }
}

#[derive(Clone, Copy)]
struct Horizon<'a> {
    policy: &'a Inference,
    choice: Choice,
    job: Job<'a>,
}

impl Horizon<'_> {
    /// Plays these tiles, whose arrays these are; on other threads too if it runs on a pool's.
    fn run(
        self,
        tiles: &mut [Tile],
        steps: Vec<StepArrays<'_>>,
        next_values: &mut [f32],
    ) -> Result<usize, StepError> {
        match tiles {
            [] => Ok(0),
            [tile] => self.play(tile, steps, next_values),
            tiles => {
                let (left, right) = tiles.split_at_mut(tiles.len() / 2);
                let rows = right[0].first - left[0].first;
                let halves = steps.into_iter().map(|arrays| arrays.split(rows, &self.job));
                let (a, b): (Vec<_>, Vec<_>) = halves.unzip();
                let (c, d) = next_values.split_at_mut(rows.min(next_values.len()));
                let (a, b) = if rayon::current_thread_index().is_some() {
                    rayon::join(|| self.run(left, a, c), || self.run(right, b, d))
                } else {
                    (self.run(left, a, c), self.run(right, b, d))
                };
                Ok(a? + b?)
            }
        }
    }

    fn play(
        self,
        tile: &mut Tile,
        steps: Vec<StepArrays<'_>>,
        next_values: &mut [f32],
    ) -> Result<usize, StepError> {
        let mut scratch = self.job.scratch();
        let mut blocks = Blocks { wide: self.policy.block(), narrow: self.policy.block() };
        tile.stepper.observe(scratch.stepped(tile.rows).seen)?;
        let mut ended = 0;
        for (t, StepArrays { after, taken, mut judged }) in (0..).zip(steps) {
            tile.read_movers(self.job.player);
            let choice = self.choice.from_row(tile.first as u32).at_step(t);
            let task = Decide { policy: self.policy, choice, judge: judged.is_some() };
            let mut stuck = None;
            blocks.each(tile.rows, &mut Decisions { task, scratch: &mut scratch, tile, stuck: &mut stuck });
            // In other modes the action after an end means nothing.
            if let Some(stuck) = stuck.filter(|_| self.job.same_step) {
                return Err(StepError::no_legal_action(&self.job.spec.name, tile.first + stuck));
            }
            scratch.write_taken(tile.rows, taken, self.job.spec.actions.components(), judged.is_some());
            if let Some(judged) = &mut judged {
                judged.logprobs.copy_from_slice(&scratch.logprobs[..tile.count]);
                judged.values.copy_from_slice(&scratch.values[..tile.count]);
            }
            let job = Job { step: self.job.step + t, ..self.job };
            scratch.advance(tile, job)?;
            if let Some(judged) = &mut judged {
                scratch.judge_truncated(tile, self.policy, &mut blocks.narrow, judged.final_values);
            }
            ended += scratch.finish(tile, job, after);
        }
        if !next_values.is_empty() {
            tile.read_movers(self.job.player);
            blocks.each(tile.rows, &mut NextValues { policy: self.policy, scratch: &mut scratch, tile });
            next_values.copy_from_slice(&scratch.values[..tile.count]);
        }
        Ok(ended)
    }
}

/// Buffers of the policy for a tile.
struct Blocks {
    wide: RowBuffers<WIDE>,
    narrow: RowBuffers<1>,
}

/// Work on V x 16 rows of a tile.
trait BlockWork {
    fn run<const V: usize>(&mut self, row: usize, block: &mut RowBuffers<V>);
}

impl Blocks {
    /// All rows of a tile, as many at once as fit.
    fn each(&mut self, rows: usize, work: &mut impl BlockWork) {
        let mut row = 0;
        while row + WIDE * BLOCK <= rows {
            work.run(row, &mut self.wide);
            row += WIDE * BLOCK;
        }
        while row < rows {
            work.run(row, &mut self.narrow);
            row += BLOCK;
        }
    }
}

/// How actions are chosen.
#[derive(Clone, Copy)]
struct Decide<'a> {
    policy: &'a Inference,
    choice: Choice,
    /// Whether values and log-probabilities are computed.
    judge: bool,
}

/// Chooses the actions of a tile.
struct Decisions<'a> {
    task: Decide<'a>,
    scratch: &'a mut Scratch,
    tile: &'a mut Tile,
    /// The first row that has no legal action.
    stuck: &'a mut Option<usize>,
}

impl BlockWork for Decisions<'_> {
    fn run<const V: usize>(&mut self, row: usize, block: &mut RowBuffers<V>) {
        let stuck = self.scratch.decide(self.tile, row, self.task, block);
        *self.stuck = self.stuck.or(stuck);
    }
}

/// Computes the values of the present observations of a tile.
struct NextValues<'a> {
    policy: &'a Inference,
    scratch: &'a mut Scratch,
    tile: &'a Tile,
}

impl BlockWork for NextValues<'_> {
    fn run<const V: usize>(&mut self, row: usize, block: &mut RowBuffers<V>) {
        let Self { policy, scratch, tile } = self;
        let columns = row..row + V * BLOCK;
        tile.read_memory(&mut block.memory, columns.clone());
        read(&mut block.obs, &scratch.out.obs, tile.rows, columns.clone());
        read(&mut block.legal, &scratch.out.legal, tile.rows, columns.clone());
        block.active = first_lanes(tile.count.saturating_sub(row));
        policy.value_on(block, true);
        scratch.values[columns].copy_from_slice(bytemuck::cast_slice(&block.values));
    }
}

/// Copies columns of a tile, `(rows of numbers, R)`, to a block.
fn read<const V: usize, E: bytemuck::Pod, T: bytemuck::Pod>(
    to: &mut [[E; V]],
    from: &[T],
    rows: usize,
    columns: core::ops::Range<usize>,
) {
    for (to, from) in to.iter_mut().zip(from.chunks_exact(rows)) {
        bytemuck::cast_slice_mut::<E, T>(to).copy_from_slice(&from[columns.clone()]);
    }
}

impl Tile {
    /// Who is to move, if each side has a memory of its own.
    fn read_movers(&mut self, player: Option<usize>) {
        if let Some(player) = player.filter(|_| !self.memory.is_empty()) {
            self.stepper.leaf(player, &mut self.movers);
        }
    }

    /// The memory of the side to move in each of these columns, `(states, V x 16)`.
    fn read_memory<const V: usize>(&self, to: &mut [Row<V>], columns: core::ops::Range<usize>) {
        let states = to.len() * self.rows;
        if states == self.memory.len() {
            return read(to, &self.memory, self.rows, columns);
        }
        for (lane, column) in columns.enumerate() {
            let own = self.memory.iter().skip((self.movers[column] & 1) as usize * states + column);
            for (to, from) in to.iter_mut().zip(own.step_by(self.rows)) {
                to[lane / BLOCK].as_mut_array()[lane % BLOCK] = *from;
            }
        }
    }

    /// The inverse of [`Tile::read_memory`].
    fn write_memory<const V: usize>(&mut self, from: &[Row<V>], columns: core::ops::Range<usize>) {
        let states = from.len() * self.rows;
        if states == self.memory.len() {
            for (from, to) in from.iter().zip(self.memory.chunks_exact_mut(self.rows)) {
                to[columns.clone()].copy_from_slice(bytemuck::cast_slice(from));
            }
            return;
        }
        for (lane, column) in columns.enumerate() {
            let own = self.memory.iter_mut().skip((self.movers[column] & 1) as usize * states + column);
            for (to, from) in own.step_by(self.rows).zip(from) {
                *to = from[lane / BLOCK].as_array()[lane % BLOCK];
            }
        }
    }
}

impl Scratch {
    /// Chooses the actions of the V x 16 rows from `row` on; returns the first row that has no legal one.
    fn decide<const V: usize>(
        &mut self,
        tile: &mut Tile,
        row: usize,
        task: Decide<'_>,
        block: &mut RowBuffers<V>,
    ) -> Option<usize> {
        let (rows, columns) = (tile.rows, row..row + V * BLOCK);
        tile.read_memory(&mut block.memory, columns.clone());
        read(&mut block.obs, &self.out.obs, rows, columns.clone());
        read(&mut block.legal, &self.out.legal, rows, columns.clone());
        block.active = first_lanes(tile.count.saturating_sub(row));
        let choice = task.choice.from_row(row as u32);
        match task.judge {
            false => task.policy.act_on(block, choice),
            true => {
                task.policy.act_and_value_on(block, choice);
                self.logprobs[columns.clone()].copy_from_slice(bytemuck::cast_slice(&block.logprobs));
                self.values[columns.clone()].copy_from_slice(bytemuck::cast_slice(&block.values));
                for (from, to) in block.drawn.iter().zip(self.drawn.chunks_exact_mut(rows)) {
                    to[columns.clone()].copy_from_slice(bytemuck::cast_slice(from));
                }
            }
        }
        tile.write_memory(&block.memory, columns.clone());
        for (from, to) in block.actions.iter().zip(self.actions.chunks_exact_mut(rows)) {
            to[columns.clone()].copy_from_slice(bytemuck::cast_slice(from));
        }
        block.stuck(tile.count.saturating_sub(row)).map(|stuck| row + stuck)
    }

    /// Writes the values of the last observations of episodes that a step truncated, and zeros elsewhere. The memory is that before the
    /// reset.
    fn judge_truncated(
        &self,
        tile: &Tile,
        policy: &Inference,
        block: &mut RowBuffers<1>,
        values: &mut [f32],
    ) {
        values.fill(0.0);
        for (first, values) in (0..).step_by(BLOCK).zip(values.chunks_mut(BLOCK)) {
            let truncated = self.out.truncated[first / BLOCK] & !self.out.terminated[first / BLOCK];
            if truncated == 0 {
                continue;
            }
            let columns = first..first + BLOCK;
            tile.read_memory(&mut block.memory, columns.clone());
            read(&mut block.obs, &self.out.final_obs, tile.rows, columns);
            block.active = [truncated];
            policy.value_on(block, false);
            for (lane, value) in values.iter_mut().enumerate().filter(|(lane, _)| truncated >> lane & 1 == 1)
            {
                *value = block.values[0].as_array()[lane];
            }
        }
    }

    /// Writes the actions here, or those before they were clipped, to the caller's rows.
    fn write_taken(&self, rows: usize, taken: Taken<'_>, components: usize, drawn: bool) {
        fn write<T>(
            columns: &[f32],
            rows: usize,
            components: usize,
            to: &mut [T],
            convert: impl Fn(f32) -> T,
        ) {
            for (component, column) in columns.chunks_exact(rows).take(components).enumerate() {
                let to = to.iter_mut().skip(component).step_by(components);
                to.zip(column).for_each(|(to, &action)| *to = convert(action));
            }
        }
        let actions = if drawn { &self.drawn } else { &self.actions };
        match taken {
            // Indices are exact in floats.
            Taken::I64(to) => write(actions, rows, components, to, |x| x as i32 as i64),
            Taken::F32(to) => write(actions, rows, components, to, |x| x),
        }
    }
}
