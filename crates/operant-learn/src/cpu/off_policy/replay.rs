//! The replay: the last transitions of every environment, a ring of rows each.
//!
//! A row is what a step showed and did; the observation after it is that of the next row. Where a time limit cut an episode off, a row
//! with its final observation follows, which no sample begins with. So each observation is stored once.

use core::num::Wrapping;

use operant_env::Packing;
use operant_lane::isa::{f32x16, u32x16};
use operant_lane::{Draws, Purpose};
use prefetch_index::prefetch_index;
use wide::bytemuck;

use crate::backend::LearnError;
use crate::config::Config;
use crate::cpu::batch::{expand, floats, integers, turn_words};
use crate::cpu::network::tile::{BitRow, LANES, Row, TILE, TILE_VECTORS, splat};
use crate::cpu::rollout::normalised;
use crate::network::Architecture;

/// How a row ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum End {
    /// The episode goes on in the next row.
    GoesOn = 0,
    /// It terminated.
    Terminated = 1,
    /// It was truncated; the next row has its final observation.
    Truncated = 2,
    /// This is no step: it has a final observation alone.
    Final = 3,
    /// The episode went on, but its next step is not in the next row; treated as a truncation.
    Cut = 4,
}

/// The offset of each field of a row, in 32-bit words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayLayout {
    /// First word of the observation, as environments give it: packed where it can be.
    pub obs: usize,
    /// First word of the legal actions, where environments have masks.
    pub mask: usize,
    /// First action: within -1 and 1, or the index of a choice.
    pub actions: usize,
    /// The reward.
    pub reward: usize,
    /// How the row ends.
    pub end: usize,
    /// First number of the state of layers with memory before the step.
    pub state: usize,
    /// Words from one row to the next.
    pub stride: usize,
}

impl ReplayLayout {
    /// The layout of the transitions that a network learns from; `masked` environments have a mask of legal actions.
    pub fn new(architecture: &Architecture, masked: bool) -> Self {
        let mask = architecture.obs_words();
        let actions = mask + if masked { architecture.head.mask_words() } else { 0 };
        let reward = actions + architecture.head.components();
        let (end, state) = (reward + 1, reward + 2);
        let states = architecture.core.map_or(0, |core| core.states());
        let stride = (state + states).next_multiple_of(8);
        Self { obs: 0, mask, actions, reward, end, state, stride }
    }

    /// Words of what minibatches gather, in whole groups of 8.
    pub(crate) fn gathered(&self) -> usize {
        self.state.next_multiple_of(8)
    }

    /// Rows of each environment for this configuration, the one that is being written included.
    pub fn rows(config: &Config) -> usize {
        config.buffer_size.div_ceil(config.num_envs) + 1
    }
}

/// The last rows of all environments of a process.
#[derive(Debug, Clone)]
pub struct Replay {
    layout: ReplayLayout,
    /// Rows of an environment.
    rows: usize,
    /// `[environment]`: rows that were ever completed.
    heads: Vec<u64>,
    /// `[environment][row][word]`.
    words: Vec<u32>,
}

/// Some neighbouring environments' rows, to be written.
#[derive(Debug)]
pub struct Columns<'a> {
    layout: &'a ReplayLayout,
    rows: usize,
    heads: &'a mut [u64],
    words: &'a mut [u32],
}

/// The first row of a sequence, by its environment and its number there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub env: usize,
    pub number: u64,
}

/// A transition over one step or several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Drawn {
    /// Its row, and the one with the observation after it.
    pub rows: [usize; 2],
    /// Discounted sum of the rewards.
    pub reward: f32,
    /// Discount of the value of the observation after it; 0 if the episode terminated.
    pub discount: f32,
}

impl Replay {
    /// Room for `rows` rows of each of `num_envs` environments. Memory is only taken as it is written.
    pub fn new(layout: ReplayLayout, num_envs: usize, rows: usize) -> Self {
        let words = vec![0; num_envs * rows * layout.stride];
        Self { layout, rows, heads: vec![0; num_envs], words }
    }

    /// Rows that samples can begin with, final observations included.
    pub fn len(&self) -> usize {
        self.heads.iter().map(|&head| self.window(head)).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Completed rows of an environment that are still there: the row being written has the place of the oldest.
    fn window(&self, head: u64) -> usize {
        head.min(self.rows as u64 - 1) as usize
    }

    /// Rows of tiles of `width` environments.
    pub fn tiles_mut(&mut self, width: usize) -> impl Iterator<Item = Columns<'_>> {
        let Self { layout, rows, heads, words } = self;
        let (layout, rows) = (&*layout, *rows);
        let words = words.chunks_mut(width * rows * layout.stride);
        heads.chunks_mut(width).zip(words).map(move |(heads, words)| Columns { layout, rows, heads, words })
    }

    /// The layout of a row.
    pub fn layout(&self) -> &ReplayLayout {
        &self.layout
    }

    /// `[environment]`: rows that were ever completed.
    pub fn heads(&self) -> &[u64] {
        &self.heads
    }

    /// Rows of an environment, the one that is being written included.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Most rows of an environment that were ever written.
    pub(super) fn written(&self) -> usize {
        self.heads.iter().map(|&head| head.min(self.rows as u64) as usize).max().unwrap_or(0)
    }

    /// The place of an environment's row by its number.
    pub(super) fn index(&self, env: usize, number: u64) -> usize {
        env * self.rows + (number % self.rows as u64) as usize
    }

    /// Whether a row is more than a final observation.
    pub(super) fn is_step(&self, index: usize) -> bool {
        self.end(index) != End::Final as u32
    }

    pub(super) fn row(&self, index: usize) -> &[u32] {
        &self.words[index * self.layout.stride..][..self.layout.stride]
    }

    pub(super) fn end(&self, index: usize) -> u32 {
        self.row(index)[self.layout.end]
    }

    /// The sample at `position` of minibatch `number`: uniform over environments and their rows.
    pub fn draw(&self, seed: u64, number: u64, position: u32, steps: usize, gamma: f32) -> Drawn {
        let mut draws = Draws::<f32>::at(seed, Wrapping(position), number, Purpose::Replay);
        loop {
            let env = draws.below(self.heads.len() as u32).0 as usize;
            let head = self.heads[env];
            let back = 1 + draws.below(self.window(head) as u32).0;
            let slot = |age: u64| self.index(env, head - age);
            if self.is_step(slot(u64::from(back))) {
                return self.along(u64::from(back), slot, steps, gamma);
            }
        }
    }

    /// The start of sequence `position` of minibatch `number`: uniform over environments and their steps that are the first of `rows` completed
    /// rows. There are at least two such rows, of which one is a step.
    pub(super) fn draw_start(&self, seed: u64, number: u64, position: u32, rows: usize) -> Start {
        let mut draws = Draws::<f32>::at(seed, Wrapping(position), number, Purpose::Replay);
        loop {
            let env = draws.below(self.heads.len() as u32).0 as usize;
            let back = rows as u32 + draws.below((self.window(self.heads[env]) + 1 - rows) as u32).0;
            let number = self.heads[env] - u64::from(back);
            if self.is_step(self.index(env, number)) {
                return Start { env, number };
            }
        }
    }

    /// The number of a completed row in its environment.
    pub(super) fn start(&self, row: usize) -> Start {
        let (env, rows) = (row / self.rows, self.rows as u64);
        let head = self.heads[env];
        Start { env, number: head - (head % rows + rows - (row % self.rows) as u64) % rows }
    }

    /// The transition of up to `steps` steps from this row, which is completed and a step.
    pub(super) fn from(&self, Start { env, number }: Start, steps: usize, gamma: f32) -> Drawn {
        let head = self.heads[env];
        self.along(head - number, |age| self.index(env, head - age), steps, gamma)
    }

    /// The transition of up to `steps` steps from the row that many rows ago.
    fn along(&self, mut age: u64, slot: impl Fn(u64) -> usize, steps: usize, gamma: f32) -> Drawn {
        let first = slot(age);
        let (mut reward, mut discount) = (0.0f32, 1.0f32);
        for step in 1..=steps {
            let row = self.row(slot(age));
            reward = discount.mul_add(f32::from_bits(row[self.layout.reward]), reward);
            discount *= gamma;
            age -= 1;
            let end = row[self.layout.end];
            if end == End::Terminated as u32 {
                return Drawn { rows: [first; 2], reward, discount: 0.0 };
            }
            // The row that is being written has an observation, but no reward yet.
            if end != End::GoesOn as u32 || age == 0 || step == steps {
                break;
            }
        }
        Drawn { rows: [first, slot(age)], reward, discount }
    }

    /// Loads the rows of samples into the cache.
    pub fn prefetch(&self, drawn: &[Drawn]) {
        for index in drawn.iter().flat_map(|drawn| drawn.rows) {
            let first = index * self.layout.stride;
            (first..first + self.layout.stride).step_by(LANES).for_each(|word| {
                prefetch_index(&self.words, word);
            });
        }
    }

    /// The rows that each environment ever completed, and the words of all.
    #[cfg(feature = "cuda")]
    pub(crate) fn parts(&self) -> (&[u64], &[u32]) {
        (&self.heads, &self.words)
    }

    /// The inverse of [`Replay::parts`] of a replay of the same size.
    #[cfg(feature = "cuda")]
    pub(crate) fn set(&mut self, heads: Vec<u64>, words: Vec<u32>) {
        (self.heads, self.words) = (heads, words);
    }

    /// Environments, rows of each that were ever written, and words of a row: the shape of [`Replay::written_rows`].
    pub fn shape(&self) -> [usize; 3] {
        [self.heads.len(), self.written(), self.layout.stride]
    }

    /// The rows of each environment that were ever written.
    pub fn written_rows(&self) -> impl Iterator<Item = &[u32]> {
        let [_, rows, stride] = self.shape();
        self.words.chunks_exact(self.rows * stride).map(move |words| &words[..rows * stride])
    }

    /// The inverse of [`Replay::written_rows`]: `read` gives the rows of each environment, in order.
    ///
    /// # Errors
    /// When the rows are of other environments, or more; and the first error of `read`.
    pub fn restore<E: From<LearnError>>(
        &mut self,
        heads: &[u64],
        [environments, rows, stride]: [usize; 3],
        mut read: impl FnMut(&mut [u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let most = heads.iter().map(|&head| head.min(self.rows as u64) as usize).max();
        let here = [self.heads.len(), most.unwrap_or(0), self.layout.stride];
        if [environments, rows, stride] != here || heads.len() != environments {
            let what = format!(
                "its replay has {rows} rows of {environments} environments with {stride} words each, but here are {} of {} with {}",
                self.rows, here[0], here[2]
            );
            return Err(LearnError::Snapshot(what).into());
        }
        self.heads.fill(0);
        for words in self.words.chunks_exact_mut(self.rows * stride) {
            read(&mut words[..rows * stride])?;
        }
        self.heads.copy_from_slice(heads);
        let is_end = |env: usize, age: u64| self.end(self.index(env, heads[env] - age)) <= End::Cut as u32;
        let mut all =
            (0..environments).flat_map(|env| (1..=self.window(heads[env]) as u64).map(move |age| (env, age)));
        if all.any(|(env, age)| !is_end(env, age)) {
            return Err(
                LearnError::Snapshot("its replay has a row that ends in no known way".to_owned()).into()
            );
        }
        Ok(())
    }

    /// Rows of an environment that samples can begin with, at most.
    pub(super) fn room(&self) -> usize {
        self.rows - 1
    }

    /// Adds a row with another end.
    pub(super) fn push(&mut self, env: usize, row: &[u32], end: u32) {
        let first = self.index(env, self.heads[env]) * self.layout.stride;
        let to = &mut self.words[first..][..self.layout.stride];
        to.copy_from_slice(row);
        to[self.layout.end] = end;
        self.heads[env] += 1;
    }

    /// Whether every environment has this many rows.
    pub(crate) fn all_have(&self, rows: usize) -> bool {
        self.heads.iter().all(|&head| head >= rows as u64)
    }

    /// Steps that every environment has; a ring that has begun again counts as full.
    pub(crate) fn steps(&self) -> usize {
        let most = self.rows as u64 - 1;
        let of = |(env, &head): (usize, &u64)| {
            if head > most {
                return most as usize;
            }
            (0..head).filter(|&number| self.is_step(self.index(env, number))).count()
        };
        self.heads.iter().enumerate().map(of).min().unwrap_or_default()
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.heads.fill(0);
    }
}

impl Columns<'_> {
    /// The layout of a row.
    pub fn layout(&self) -> &ReplayLayout {
        self.layout
    }

    /// Writes fields from word `field` on into the row that each environment is at.
    pub fn put<const V: usize>(&mut self, field: usize, fields: &[Row<V>]) {
        for env in 0..self.heads.len() {
            self.put_of(env, field, fields);
        }
    }

    /// The same for packed bits.
    pub fn put_bits<const V: usize>(&mut self, field: usize, fields: &[BitRow<V>]) {
        for env in 0..self.heads.len() {
            for (to, row) in self.current(env)[field..].iter_mut().zip(fields) {
                *to = row[env / LANES].as_array()[env % LANES];
            }
        }
    }

    fn put_of<const V: usize>(&mut self, env: usize, field: usize, fields: &[Row<V>]) {
        for (to, row) in self.current(env)[field..].iter_mut().zip(fields) {
            *to = row[env / LANES].as_array()[env % LANES].to_bits();
        }
    }

    /// The row that an environment is at.
    fn current(&mut self, env: usize) -> &mut [u32] {
        let row = env * self.rows + (self.heads[env] % self.rows as u64) as usize;
        &mut self.words[row * self.layout.stride..][..self.layout.stride]
    }

    /// Completes the row of each environment: `done` is 1 where an episode ended, `truncated` has the bits of those that were only cut
    /// off, and `final_obs` are their last observations.
    pub fn finish<const V: usize>(
        &mut self,
        rewards: &Row<V>,
        done: &Row<V>,
        truncated: [u32; V],
        final_obs: &[Row<V>],
    ) {
        let ReplayLayout { obs, mask, actions, reward, end, .. } = *self.layout;
        for env in 0..self.heads.len() {
            let (v, lane) = (env / LANES, env % LANES);
            let of_row = match (done[v].as_array()[lane] > 0.0, truncated[v] >> lane & 1 == 1) {
                (false, _) => End::GoesOn,
                (true, true) => End::Truncated,
                (true, false) => End::Terminated,
            };
            let row = self.current(env);
            (row[reward], row[end]) = (rewards[v].as_array()[lane].to_bits(), of_row as u32);
            self.heads[env] += 1;
            if of_row == End::Truncated {
                self.put_of(env, obs, final_obs);
                let row = self.current(env);
                // The legal actions there are not known.
                row[mask..actions].fill(u32::MAX);
                row[end] = End::Final as u32;
                self.heads[env] += 1;
            }
        }
    }
}

/// A tile of samples, as networks take them.
#[derive(Debug, Clone)]
pub(crate) struct Transitions {
    pub(super) drawn: [Drawn; TILE],
    /// `[word][sample]`, of both rows.
    pub(super) words: [Vec<[u32; TILE]>; 2],
    packing: Option<Packing>,
    /// `[word]` of the network's input before the step and after it, each followed by `[component]` of an action.
    pub inputs: [Vec<Row<TILE_VECTORS>>; 2],
    /// Words of an input.
    pub features: usize,
    /// `[word]`: the legal actions after the step; of steps of sequences those before it.
    pub legal: Vec<BitRow<TILE_VECTORS>>,
    pub reward: Row<TILE_VECTORS>,
    pub discount: Row<TILE_VECTORS>,
    /// Importance-sampling weights.
    pub weight: Row<TILE_VECTORS>,
    /// |errors| of the values, by which samples are drawn; those of 16 sequences are in the first vector of their first tile.
    pub errors: Row<TILE_VECTORS>,
    /// Of steps of sequences: 1 where a step is learned from.
    pub counts: Row<TILE_VECTORS>,
    /// 0 where it begins an episode.
    pub keep: Row<TILE_VECTORS>,
    /// Rows from it to the one whose value its target has.
    pub ahead: [usize; TILE],
}

/// Which samples a minibatch has, and how their observations are seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling<'a> {
    pub config: &'a Config,
    pub replay: &'a Replay,
    /// Of the minibatch.
    pub number: u64,
    /// `(shift, scale)` per feature; empty without observation normalisation.
    pub obs_norm: &'a [(f32, f32)],
    /// Its samples and their weights, if they are drawn by priority.
    pub chosen: &'a [(Drawn, f32)],
}

impl Transitions {
    pub fn new(architecture: &Architecture, layout: &ReplayLayout) -> Self {
        let (features, actions) = (architecture.input.words(), architecture.head.components());
        let words = vec![[0; TILE]; layout.gathered()];
        let inputs = vec![splat(0.0); features + actions];
        Self {
            drawn: [Drawn::default(); TILE],
            words: [words.clone(), words],
            packing: architecture.packing.clone(),
            inputs: [inputs.clone(), inputs],
            features,
            legal: vec![[u32x16::ZERO; TILE_VECTORS]; layout.actions - layout.mask],
            reward: splat(0.0),
            discount: splat(0.0),
            weight: splat(1.0),
            errors: splat(0.0),
            counts: splat(0.0),
            keep: splat(1.0),
            ahead: [0; TILE],
        }
    }

    /// Draws the samples of tile `tile` and gathers them. A partial tile repeats the last one.
    pub fn gather(&mut self, of: Sampling<'_>, tile: usize) {
        let Sampling { config: Config { seed, batch_size, n_step, gamma, .. }, replay, .. } = of;
        for (s, drawn) in self.drawn.iter_mut().enumerate() {
            let position = (tile * TILE + s).min(batch_size - 1);
            *drawn = match of.chosen.get(position) {
                Some((drawn, _)) => *drawn,
                None => replay.draw(*seed, of.number, position as u32, *n_step, *gamma as f32),
            };
        }
        if !of.chosen.is_empty() {
            let weight = |s: usize| of.chosen.get(tile * TILE + s).map_or(0.0, |(_, weight)| *weight);
            let of_vector = |v: usize| f32x16::new(core::array::from_fn(|l| weight(v * LANES + l)));
            self.weight = core::array::from_fn(of_vector);
        }
        replay.prefetch(&self.drawn);
        (0..2).for_each(|k| self.unpack(of, k));
        let mask = replay.layout.mask;
        self.legal.iter_mut().zip(&self.words[1][mask..]).for_each(|(to, words)| *to = integers(words));
    }

    /// The observations of row `k`, without their actions.
    pub(super) fn obs(&self, k: usize) -> &[f32x16] {
        self.inputs[k][..self.features].as_flattened()
    }

    /// The inputs of row `k` of each sample; with the first, rewards and discounts.
    pub(super) fn unpack(&mut self, of: Sampling<'_>, k: usize) {
        let column = |of: &dyn Fn(&Drawn) -> f32| -> Row<TILE_VECTORS> {
            core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| of(&self.drawn[v * LANES + l]))))
        };
        if k == 0 {
            (self.reward, self.discount) = (column(&|drawn| drawn.reward), column(&|drawn| drawn.discount));
        }
        let ReplayLayout { mask, actions, reward, .. } = of.replay.layout;
        let (words, inputs) = (&mut self.words[k], &mut self.inputs[k]);
        turn_words(|s| of.replay.row(self.drawn[s].rows[k]), words);
        let (obs, action) = inputs.split_at_mut(self.features);
        if let Some(packing) = &self.packing {
            let packed: Vec<BitRow<TILE_VECTORS>> = words[..mask].iter().map(integers).collect();
            let obs: &mut [u32x16] = bytemuck::cast_slice_mut(obs.as_flattened_mut());
            expand::<TILE_VECTORS>(packing, packed.as_flattened(), obs);
        } else {
            obs.iter_mut().zip(&words[..mask]).for_each(|(to, words)| *to = floats(words));
        }
        for (row, (shift, scale)) in obs.iter_mut().zip(of.obs_norm) {
            *row = row.map(|x| normalised(x, *shift, *scale, of.config.clip_obs));
        }
        action.iter_mut().zip(&words[actions..reward]).for_each(|(to, words)| *to = floats(words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Head, Input};

    /// Observations of two numbers, one action.
    fn layout() -> ReplayLayout {
        let head = Head::continuous(1, &Config::default());
        ReplayLayout::new(&Architecture::new(&Config::default(), Input::Dense(2), head), false)
    }

    fn row(of: impl Fn(usize) -> f32) -> Row<1> {
        [f32x16::new(core::array::from_fn(of))]
    }

    /// Three environments whose steps are numbered; in each the second of three steps ends an episode: by a time limit in environment 1,
    /// otherwise for good.
    fn played(rows: usize, steps: usize) -> Replay {
        let mut replay = Replay::new(layout(), 3, rows);
        for step in 0..steps {
            for mut columns in replay.tiles_mut(16) {
                let number = |env: usize| (100 * env + step) as f32;
                columns.put(0, &[row(number), row(|_| 0.5)]);
                columns.put(2, &[row(|env| number(env) / 1000.0)]);
                let ends = step % 3 == 1;
                let last = [row(|env| -number(env)), row(|_| -0.5)];
                columns.finish(&row(number), &row(|_| f32::from(ends)), [if ends { 0b10 } else { 0 }], &last);
            }
        }
        // The step that has only begun.
        replay.tiles_mut(16).for_each(|mut columns| columns.put(0, &[row(|_| 7000.0), row(|_| 0.0)]));
        replay
    }

    fn word(replay: &Replay, row: usize, field: usize) -> f32 {
        f32::from_bits(replay.row(row)[field])
    }

    #[test]
    fn final_observations_are_no_steps_and_a_ring_that_has_begun_again_is_full() {
        // Environment 1 has two final observations by then.
        assert_eq!((played(64, 0).steps(), played(64, 7).steps(), played(64, 7).len()), (0, 7, 23));
        assert_eq!(played(8, 20).steps(), 7);
    }

    #[test]
    fn transitions_go_to_the_next_row_and_never_over_the_end_of_an_episode() {
        let (gamma, steps) = (0.5f32, 2);
        for (rows, played_steps) in [(64, 20), (8, 20)] {
            let replay = played(rows, played_steps);
            let mut seen = std::collections::BTreeSet::new();
            for position in 0..4_000 {
                let drawn = replay.draw(3, 9, position, steps, gamma);
                let [first, next] = drawn.rows;
                let step = word(&replay, first, 0);
                seen.insert(step as i64);
                let (env, t) = (step as usize / 100, step as usize % 100);
                assert_eq!(word(&replay, first, 2), step / 1000.0, "the action of the same row");
                let last = played_steps - 1;
                match (t % 3, env) {
                    // The second step ends it, the first of these goes over it.
                    (0, 1) if t < last => {
                        assert_eq!((word(&replay, next, 0), drawn.discount), (-step - 1.0, 0.25))
                    }
                    (1, 1) => assert_eq!((word(&replay, next, 0), drawn.discount), (-step, 0.5)),
                    (0, _) if t < last => {
                        assert_eq!((drawn.reward, drawn.discount), (step + gamma * (step + 1.0), 0.0))
                    }
                    (1, _) => assert_eq!((drawn.reward, drawn.discount), (step, 0.0)),
                    // The newest step has the observation that has only begun.
                    _ if t == last => assert_eq!((word(&replay, next, 0), drawn.discount), (7000.0, 0.5)),
                    _ => assert_eq!((word(&replay, next, 0), drawn.discount), (step + 2.0, 0.25)),
                }
            }
            let kept = |env: i64| seen.iter().filter(|step| **step / 100 == env).count();
            // Environment 1 also keeps the final observations.
            assert_eq!([0, 1, 2].map(kept), if rows == 64 { [20; 3] } else { [7, 5, 7] });
        }
    }

    #[test]
    fn sequences_begin_with_a_step_and_end_with_the_newest_row_at_the_latest() {
        for (ring, played_steps, rows) in [(64, 20, 7), (8, 20, 6), (64, 8, 7)] {
            let replay = played(ring, played_steps);
            let mut seen = std::collections::BTreeSet::new();
            for position in 0..2_000 {
                let Start { env, number } = replay.draw_start(3, 9, position, rows);
                assert!(replay.is_step(replay.index(env, number)));
                let head = replay.heads()[env];
                assert!(number + rows as u64 <= head, "the row that is being written is not learned from");
                assert!(head - number < ring as u64, "its place is that of the oldest row");
                let again = replay.start(replay.index(env, number));
                assert_eq!((again.env, again.number), (env, number));
                seen.insert((env, number));
            }
            let starts = |env: usize| {
                let head = replay.heads()[env];
                let all = head.saturating_sub(ring as u64 - 1)..=head - rows as u64;
                all.filter(|&number| replay.is_step(replay.index(env, number))).count()
            };
            assert_eq!(seen.len(), (0..3).map(starts).sum::<usize>(), "all of them are drawn");
        }
    }

    #[test]
    fn what_is_written_comes_back_and_another_size_is_refused() {
        let replay = played(8, 20);
        let restored = |to: &mut Replay, from: &Replay| {
            let mut rows = from.written_rows();
            to.restore(from.heads(), from.shape(), |to| {
                to.copy_from_slice(rows.next().expect("rows"));
                Ok::<_, LearnError>(())
            })
        };
        let mut other = Replay::new(layout(), 3, 8);
        restored(&mut other, &replay).expect("it fits");
        let draws = |replay: &Replay| (0..100).map(|k| replay.draw(1, 2, k, 3, 0.9)).collect::<Vec<_>>();
        assert_eq!(draws(&replay), draws(&other));
        assert!(restored(&mut Replay::new(layout(), 3, 9), &replay).is_err());
        assert!(restored(&mut Replay::new(layout(), 2, 8), &replay).is_err());
        let mut odd = replay.clone();
        let end = odd.layout.end;
        odd.words[end] = 9;
        let refused = restored(&mut other, &odd).expect_err("no such end").to_string();
        assert!(refused.contains("no known way"), "{refused}");
        other.clear();
        assert!(other.is_empty());
    }

    #[test]
    fn transitions_of_another_replay_are_dealt_out_whole() {
        let all = |replay: &Replay| {
            let mut all = std::collections::BTreeSet::new();
            for position in 0..4_000 {
                let Drawn { rows: [first, next], reward, discount } = replay.draw(3, 9, position, 1, 0.5);
                let [at, then] = [first, next].map(|row| word(replay, row, 0).to_bits());
                all.insert((
                    at,
                    word(replay, first, 2).to_bits(),
                    reward.to_bits(),
                    then,
                    discount.to_bits(),
                ));
            }
            all
        };
        // Full rings, and ones that are not.
        for (rows, steps) in [(64, 20), (8, 20)] {
            let mut replay = played(rows, steps);
            let stride = replay.layout.stride;
            for environments in [1, 2, 5] {
                let mut other = Replay::new(layout(), environments, 80);
                let taken = other.take(replay.heads(), &replay.words).expect("room");
                // The newest step of each has no observation after it, if its episode goes on.
                let newest: Vec<_> = (0..3).filter(|_| (steps - 1) % 3 != 1).collect();
                let kept = all(&replay).len() - newest.len();
                assert_eq!((taken as usize, all(&other).len()), (kept, kept), "{rows} {environments}");
                assert!(all(&other).is_subset(&all(&replay)), "{rows} {environments}");
            }
            assert!(Replay::new(layout(), 2, 5).take(replay.heads(), &replay.words).is_err());
            // None at all.
            replay.words.truncate(3 * stride);
            assert_eq!(Replay::new(layout(), 2, 5).take(&[0; 3], &replay.words).expect("nothing"), 0);
        }
    }
}
