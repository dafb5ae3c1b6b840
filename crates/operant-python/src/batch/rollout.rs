//! A rollout under a trained policy: one thread plays all steps of a tile, policy included, without a barrier per step.

use operant_env::StepError;
use operant_learn::cpu::inference::{Choice, Inference, RowBuffers};
use operant_learn::cpu::network::tile::first_lanes;
use wide::bytemuck;

use super::{Arrays, BLOCK, Batch, Job, Scratch, Taken, Tile};

/// Blocks of 16 that the policy takes at once.
const WIDE: usize = 4;

/// The arrays of one step: what it returns, and the actions before it.
type StepArrays<'a> = (Arrays<'a>, Taken<'a>);

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
    /// next draw. Returns how many episodes ended.
    pub fn rollout(
        &mut self,
        policy: &Inference,
        choice: Choice,
        steps: Vec<StepArrays<'_>>,
    ) -> Result<usize, String> {
        let count = steps.len() as u64;
        // A policy with memory continues where its last rollout ended, if nothing has stepped the environments since.
        if self.remembers != Some(policy.id()) {
            for tile in &mut self.tiles {
                tile.memory = vec![0.0; policy.states() * tile.rows];
            }
            self.remembers = Some(policy.id());
        }
        let (pool, tiles, job) = self.job();
        let horizon = Horizon { policy, choice, job };
        let ended = match pool {
            Some(pool) => pool.install(|| horizon.run(tiles, steps)),
            None => horizon.run(tiles, steps),
        };
        self.step += count;
        ended.map_err(|error| error.to_string())
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
    fn run(self, tiles: &mut [Tile], steps: Vec<StepArrays<'_>>) -> Result<usize, StepError> {
        match tiles {
            [] => Ok(0),
            [tile] => self.play(tile, steps),
            tiles => {
                let (left, right) = tiles.split_at_mut(tiles.len() / 2);
                let rows = right[0].first - left[0].first;
                let components = self.job.spec.actions.components();
                let halves = steps.into_iter().map(|(arrays, taken)| {
                    let (a, b) = arrays.split(rows, &self.job.spec.obs, self.job.choices);
                    let (c, d) = taken.split(rows * components);
                    ((a, c), (b, d))
                });
                let (a, b): (Vec<_>, Vec<_>) = halves.unzip();
                let (a, b) = if rayon::current_thread_index().is_some() {
                    rayon::join(|| self.run(left, a), || self.run(right, b))
                } else {
                    (self.run(left, a), self.run(right, b))
                };
                Ok(a? + b?)
            }
        }
    }

    fn play(self, tile: &mut Tile, steps: Vec<StepArrays<'_>>) -> Result<usize, StepError> {
        let mut scratch = self.job.scratch();
        let (mut wide, mut narrow) = (self.policy.block::<WIDE>(), self.policy.block::<1>());
        tile.stepper.observe(scratch.stepped(tile.rows).seen)?;
        let mut ended = 0;
        for (t, (arrays, taken)) in (0..).zip(steps) {
            let choice = self.choice.from_row(tile.first as u32).at_step(t);
            let mut row = 0;
            while row < tile.rows {
                let stuck = if row + WIDE * BLOCK <= tile.rows {
                    scratch.decide(tile, row, self.policy, &mut wide, choice)
                } else {
                    scratch.decide(tile, row, self.policy, &mut narrow, choice)
                };
                // In other modes the action after an end means nothing.
                if let Some(stuck) = stuck.filter(|_| self.job.same_step) {
                    return Err(StepError::no_legal_action(&self.job.spec.name, tile.first + stuck));
                }
                row += if row + WIDE * BLOCK <= tile.rows { WIDE * BLOCK } else { BLOCK };
            }
            scratch.write_taken(tile.rows, taken, self.job.spec.actions.components());
            let job = Job { step: self.job.step + t, ..self.job };
            ended += scratch.step(tile, job, arrays)?;
        }
        Ok(ended)
    }
}

impl Scratch {
    /// Chooses the actions of the V x 16 rows from `row` on; returns the first row that has no legal one.
    fn decide<const V: usize>(
        &mut self,
        tile: &mut Tile,
        row: usize,
        policy: &Inference,
        block: &mut RowBuffers<V>,
        choice: Choice,
    ) -> Option<usize> {
        let (rows, columns) = (tile.rows, row..row + V * BLOCK);
        for (to, from) in block.memory.iter_mut().zip(tile.memory.chunks_exact(rows)) {
            bytemuck::cast_slice_mut::<_, f32>(to).copy_from_slice(&from[columns.clone()]);
        }
        for (to, from) in block.obs.iter_mut().zip(self.out.obs.chunks_exact(rows)) {
            bytemuck::cast_slice_mut::<_, u32>(to).copy_from_slice(&from[columns.clone()]);
        }
        for (to, from) in block.legal.iter_mut().zip(self.out.legal.chunks_exact(rows)) {
            bytemuck::cast_slice_mut::<_, u32>(to).copy_from_slice(&from[columns.clone()]);
        }
        block.active = first_lanes(tile.count.saturating_sub(row));
        policy.act_on(block, choice.from_row(row as u32));
        for (from, to) in block.memory.iter().zip(tile.memory.chunks_exact_mut(rows)) {
            to[columns.clone()].copy_from_slice(bytemuck::cast_slice(from));
        }
        for (from, to) in block.actions.iter().zip(self.actions.chunks_exact_mut(rows)) {
            to[columns.clone()].copy_from_slice(bytemuck::cast_slice(from));
        }
        block.stuck(tile.count.saturating_sub(row)).map(|stuck| row + stuck)
    }

    /// Writes the actions here to the caller's rows.
    fn write_taken(&self, rows: usize, taken: Taken<'_>, components: usize) {
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
        match taken {
            // Indices are exact in floats.
            Taken::I64(to) => write(&self.actions, rows, components, to, |x| x as i32 as i64),
            Taken::F32(to) => write(&self.actions, rows, components, to, |x| x),
        }
    }
}
