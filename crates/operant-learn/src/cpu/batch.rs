//! The samples of one update, packed as an array of structs: a shuffled gather touches one or two cache lines per sample.
//!
//! Environments are grouped into blocks of 16; a block's samples are contiguous, step by step. Sample (block, t, lane) has index
//! `block * T * 16 + t * lanes_of_block + lane`, independent of threads and tiles.

use operant_env::Packing;
use operant_lane::Wide;
use operant_lane::isa::{f32x16, u32x8, u32x16};
use prefetch_index::prefetch_index;
use wide::bytemuck;

use crate::cpu::network::policy::Observation;
use crate::cpu::network::tile::{BitRow, LANES, Row, TILE};
use crate::network::{Architecture, Input};
use crate::sample::SampleLayout;

/// Words of a cache line.
const LINE: usize = 16;

/// The N T samples of one update.
#[derive(Debug, Clone)]
pub struct Batch {
    layout: SampleLayout,
    num_envs: usize,
    num_steps: usize,
    /// Steps of a sequence.
    sequence: usize,
    /// `[environment][sequence][state]`: the initial state of layers with memory in each sequence.
    states: Vec<f32>,
    /// `[sample]`: the reward as GAE reads it, and 1 where the episode ended. Only if advantages are computed again.
    outcomes: Vec<[f32; 2]>,
    /// `[environment]`: V of the observation after the last step; with `outcomes`.
    next_values: Vec<f32>,
    /// Starts at a cache line from `start` on.
    words: Vec<u32>,
    start: usize,
}

/// The samples of some neighbouring blocks of environments over T steps, to be written.
#[derive(Debug)]
pub struct BatchTile<'a> {
    /// The layout of a sample.
    pub layout: &'a SampleLayout,
    /// Environments of this tile.
    pub lanes: usize,
    /// `[block][step][lane][word]`.
    pub words: &'a mut [u32],
    /// Steps of a sequence.
    sequence: usize,
    /// `[environment][sequence][state]`.
    states: &'a mut [f32],
    /// `[block][step][lane]`.
    outcomes: &'a mut [[f32; 2]],
    /// `[environment]`.
    next_values: &'a mut [f32],
}

impl Batch {
    /// Allocates `num_envs` x `num_steps` samples, all zero.
    pub fn new(layout: SampleLayout, num_envs: usize, num_steps: usize) -> Self {
        let length = num_envs * num_steps * layout.stride;
        let words = vec![0u32; length + LINE];
        // The offset stays valid because the allocation never moves; a clone is only less well aligned.
        let start = words.as_ptr().align_offset(LINE * size_of::<u32>()).min(LINE);
        let (states, outcomes, next_values) = (Vec::new(), Vec::new(), Vec::new());
        Self { layout, num_envs, num_steps, sequence: 1, states, outcomes, next_values, words, start }
    }

    /// With room for the outcomes of steps if `keeps`: they are what [`Batch::recompute`] needs.
    pub fn with_outcomes(mut self, keeps: bool) -> Self {
        if keeps {
            (self.outcomes, self.next_values) = (vec![[0.0; 2]; self.len()], vec![0.0; self.num_envs]);
        }
        self
    }

    /// With sequences of `sequence` steps, which divide T, and `states` numbers of initial state per sequence, zero.
    pub fn with_states(mut self, sequence: usize, states: usize) -> Self {
        self.sequence = sequence;
        self.states = vec![0.0; self.len() / sequence * states];
        self
    }

    /// The initial states of layers with memory, `(N, sequences of an environment, states)`.
    pub fn states_mut(&mut self) -> &mut [f32] {
        &mut self.states
    }

    /// Steps of a sequence; 1 without memory.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    /// Whether the network has layers with memory.
    pub fn has_memory(&self) -> bool {
        !self.states.is_empty()
    }

    /// Sequences: with memory all of environment 0, then all of environment 1, and so on; without memory, samples.
    pub fn sequences(&self) -> usize {
        self.len() / self.sequence
    }

    /// The first sample of a sequence, and the distance to the next.
    #[inline]
    pub fn steps_of(&self, sequence: usize) -> [usize; 2] {
        if !self.has_memory() {
            return [sequence, 1];
        }
        let each = self.num_steps / self.sequence;
        let [first, lanes] = self.samples_of(sequence / each);
        [first + sequence % each * self.sequence * lanes, lanes]
    }

    /// The first sample of an environment, and the distance to the next.
    pub fn samples_of(&self, env: usize) -> [usize; 2] {
        let block = env / LANES;
        [block * LANES * self.num_steps + env % LANES, LANES.min(self.num_envs - block * LANES)]
    }

    /// The reward of a sample as GAE reads it, and 1 where the episode ended.
    pub fn outcome(&self, sample: usize) -> [f32; 2] {
        self.outcomes[sample]
    }

    /// Sets what [`Batch::outcome`] returns.
    pub fn set_outcome(&mut self, sample: usize, outcome: [f32; 2]) {
        self.outcomes[sample] = outcome;
    }

    /// Sets what [`Batch::next_values`] returns.
    pub fn set_next_values(&mut self, values: impl Iterator<Item = f32>) {
        self.next_values = values.collect();
    }

    /// V of the observation of each environment after the last step.
    pub fn next_values(&self) -> &[f32] {
        &self.next_values
    }

    /// Writes the values of samples, and the advantages by them, from the last step to the first. `of(sample)` is the sample's value and the
    /// weights of its TD error and of what comes from later steps; at weights of 1 the bits are those of [`gae`](crate::cpu::gae::gae).
    pub fn recompute(&mut self, [gamma, decay]: [f32; 2], of: impl Fn(usize) -> [f32; 3]) {
        for env in 0..self.num_envs {
            let [first, stride] = self.samples_of(env);
            let (mut next_value, mut next) = (self.next_values[env], 0.0f32);
            for sample in (0..self.num_steps).rev().map(|t| first + t * stride) {
                let ([value, rho, c], [reward, done]) = (of(sample), self.outcomes[sample]);
                let goes_on = 1.0 - done;
                let delta = (gamma * goes_on).mul_add(next_value, reward) - value;
                next = (decay * goes_on * c).mul_add(next, rho * delta);
                next_value = value;
                let words = &mut self.words[self.start + sample * self.layout.stride..];
                (words[self.layout.value], words[self.layout.advantage]) = (value.to_bits(), next.to_bits());
            }
        }
    }

    /// The state that a sequence began with.
    pub fn state(&self, sequence: usize) -> &[f32] {
        let states = self.states.len() / self.sequences();
        &self.states[sequence * states..(sequence + 1) * states]
    }

    /// B: samples.
    pub fn len(&self) -> usize {
        self.num_envs * self.num_steps
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The layout of a sample.
    pub fn layout(&self) -> &SampleLayout {
        &self.layout
    }

    /// The words of sample `index`.
    #[inline(always)]
    pub fn sample(&self, index: usize) -> &[u32] {
        let first = self.start + index * self.layout.stride;
        &self.words[first..first + self.layout.stride]
    }

    /// A float field (a word of [`SampleLayout`]) of sample `index`.
    #[inline(always)]
    pub fn float(&self, index: usize, field: usize) -> f32 {
        f32::from_bits(self.words[self.start + index * self.layout.stride + field])
    }

    /// Prefetches samples.
    #[inline]
    pub fn prefetch(&self, indices: &[u32; TILE]) {
        for &index in indices {
            let first = self.start + index as usize * self.layout.stride;
            for line in (first..first + self.layout.stride).step_by(LINE) {
                prefetch_index(&self.words, line);
            }
        }
    }

    /// Prefetches one field of samples.
    #[inline]
    pub fn prefetch_field(&self, indices: &[u32; TILE], field: usize) {
        for &index in indices {
            prefetch_index(&self.words, self.start + index as usize * self.layout.stride + field);
        }
    }

    /// Tiles of `blocks` blocks each, to be written by one worker each; the last one takes the rest.
    pub fn tiles_mut(&mut self, blocks: usize) -> Vec<BatchTile<'_>> {
        let tile = self.num_steps * blocks * LANES * self.layout.stride;
        let end = self.start + self.num_envs * self.num_steps * self.layout.stride;
        let (layout, num_steps, sequence) = (&self.layout, self.num_steps, self.sequence);
        let of_env = self.states.len() / self.num_envs;
        let mut states = &mut self.states[..];
        let (mut outcomes, mut next_values) = (&mut self.outcomes[..], &mut self.next_values[..]);
        self.words[self.start..end]
            .chunks_mut(tile.max(1))
            .map(|words| {
                let lanes = words.len() / (num_steps * layout.stride);
                let of_tile = states.split_off_mut(..lanes * of_env).unwrap_or_default();
                let outcomes = outcomes.split_off_mut(..lanes * num_steps).unwrap_or_default();
                let next_values = next_values.split_off_mut(..lanes).unwrap_or_default();
                BatchTile { layout, lanes, words, sequence, states: of_tile, outcomes, next_values }
            })
            .collect()
    }
}

impl BatchTile<'_> {
    /// T: steps.
    pub fn num_steps(&self) -> usize {
        self.words.len() / (self.lanes * self.layout.stride)
    }

    /// Writes one row of floats into `field` of step `t`'s samples; lanes past the tile's environments are dropped.
    #[inline]
    pub fn put<const V: usize>(&mut self, t: usize, field: usize, row: &Row<V>) {
        for (samples, vector) in self.step(t).zip(row) {
            for (sample, value) in samples.zip(vector.as_array()) {
                sample[field] = value.to_bits();
            }
        }
    }

    /// Writes one row of packed bits into `field` of step `t`'s samples.
    #[inline]
    pub fn put_bits<const V: usize>(&mut self, t: usize, field: usize, row: &BitRow<V>) {
        for (samples, vector) in self.step(t).zip(row) {
            for (sample, value) in samples.zip(vector.as_array()) {
                sample[field] = *value;
            }
        }
    }

    /// Keeps the states before step `t` if it begins a sequence.
    pub fn put_states<const V: usize>(&mut self, t: usize, states: &[Row<V>]) {
        if states.is_empty() || !t.is_multiple_of(self.sequence) {
            return;
        }
        let each = self.states.len() / self.lanes;
        let first = t / self.sequence * states.len();
        for (env, of_env) in self.states.chunks_exact_mut(each).enumerate() {
            for (to, row) in of_env[first..].iter_mut().zip(states) {
                *to = row[env / LANES].as_array()[env % LANES];
            }
        }
    }

    /// Keeps what advantages are computed from, besides values, if the batch has room for it: `[step]` rewards and ends, and the values of
    /// the observations after the last step.
    pub fn put_outcomes<const V: usize>(
        &mut self,
        rewards: &[Row<V>],
        done: &[Row<V>],
        next_values: &Row<V>,
    ) {
        let blocks = self.outcomes.chunks_mut(LANES * rewards.len()).zip(self.next_values.chunks_mut(LANES));
        for (v, (block, next)) in blocks.enumerate() {
            for (t, step) in block.chunks_exact_mut(next.len()).enumerate() {
                let (rewards, done) = (rewards[t][v].to_array(), done[t][v].to_array());
                step.iter_mut().zip(rewards.into_iter().zip(done)).for_each(|(to, of)| *to = of.into());
            }
            next.copy_from_slice(&next_values[v].as_array()[..next.len()]);
        }
    }

    /// The samples of step `t`, block by block.
    #[inline]
    fn step(&mut self, t: usize) -> impl Iterator<Item = core::slice::ChunksExactMut<'_, u32>> {
        let (steps, stride) = (self.num_steps(), self.layout.stride);
        self.words.chunks_mut(steps * LANES * stride).map(move |block| {
            let size = block.len() / steps;
            block[t * size..(t + 1) * size].chunks_exact_mut(stride)
        })
    }
}

/// Samples gathered from a batch, field by field, one tile at a time.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    /// Which samples they are.
    pub indices: [u32; TILE],
    /// `[word][sample]`.
    words: Vec<[u32; TILE]>,
    /// `[feature]`, of dense observations.
    obs: Vec<Row<{ TILE / LANES }>>,
    /// `[word]`, of binary ones.
    bits: Vec<BitRow<{ TILE / LANES }>>,
    /// `[word]`, of packed ones as they are stored.
    packed: Vec<BitRow<{ TILE / LANES }>>,
    packing: Option<Packing>,
    /// `[word]`.
    pub mask: Vec<BitRow<{ TILE / LANES }>>,
}

impl Gathered {
    /// Allocates a tile.
    pub fn new(architecture: &Architecture, layout: &SampleLayout) -> Self {
        let words = layout.mask + layout.mask_words;
        let (dense, bits) = match architecture.input {
            Input::Dense(features) => (features, 0),
            Input::Bits(_) => (0, architecture.input.words()),
        };
        let packing = architecture.packing.clone();
        let packed = packing.as_ref().map_or(0, Packing::words);
        let zero = [u32x16::ZERO; TILE / LANES];
        Self {
            indices: [0; TILE],
            words: vec![[0; TILE]; words],
            obs: vec![[f32x16::ZERO; TILE / LANES]; dense],
            bits: vec![zero; bits],
            packed: vec![zero; packed],
            packing,
            mask: vec![zero; layout.mask_words],
        }
    }

    /// Gathers the samples at `indices`.
    pub fn gather(&mut self, batch: &Batch, indices: &[u32; TILE]) {
        self.indices = *indices;
        turn_words(|s| batch.sample(indices[s] as usize), &mut self.words);
        let layout = &batch.layout;
        for (row, words) in self.mask.iter_mut().zip(&self.words[layout.mask..]) {
            *row = integers(words);
        }
        if let Some(packing) = &self.packing {
            for (row, words) in self.packed.iter_mut().zip(&self.words[layout.obs..]) {
                *row = integers(words);
            }
            let input = if packing.is_binary() {
                self.bits.as_flattened_mut()
            } else {
                bytemuck::cast_slice_mut(self.obs.as_flattened_mut())
            };
            expand::<{ TILE / LANES }>(packing, self.packed.as_flattened(), input);
            return;
        }
        for (row, words) in self.obs.iter_mut().zip(&self.words[layout.obs..]) {
            *row = floats(words);
        }
        for (row, words) in self.bits.iter_mut().zip(&self.words[layout.obs..]) {
            *row = integers(words);
        }
    }

    /// The observations as the network takes them.
    pub fn observation(&self) -> Observation<'_, { TILE / LANES }> {
        if self.bits.is_empty() { Observation::Dense(&self.obs) } else { Observation::Bits(&self.bits) }
    }

    /// A float field of the gathered samples.
    #[inline]
    pub fn float(&self, field: usize) -> Row<{ TILE / LANES }> {
        floats(&self.words[field])
    }
}

/// Writes the words of the samples of a tile, `[word][sample]`; a sample has whole groups of 8 words.
///
/// Transposes blocks of 8 samples x 8 words. Word by word, the compiler generates scatter instructions, which are slower.
#[inline]
pub(crate) fn turn_words<'a>(sample: impl Fn(usize) -> &'a [u32], words: &mut [[u32; TILE]]) {
    const GROUP: usize = 8;
    for group in 0..TILE / GROUP {
        let samples: [_; GROUP] = core::array::from_fn(|s| sample(group * GROUP + s).as_chunks().0);
        for (chunk, rows) in words.chunks_mut(GROUP).enumerate() {
            let columns = u32x8::transpose(samples.map(|sample| u32x8::new(sample[chunk])));
            for (row, column) in rows.iter_mut().zip(columns) {
                row.as_chunks_mut().0[group] = column.to_array();
            }
        }
    }
}

/// The network's inputs for V x 16 stored observations: `(words, V)` each.
pub(crate) fn expand<const V: usize>(packing: &Packing, obs: &[u32x16], input: &mut [u32x16]) {
    (0..V).for_each(|v| packing.expand::<Wide<16>>(obs, input, V, v));
}

#[inline]
pub(crate) fn floats(words: &[u32; TILE]) -> Row<{ TILE / LANES }> {
    core::array::from_fn(|v| f32x16::new(core::array::from_fn(|l| f32::from_bits(words[v * LANES + l]))))
}

#[inline]
pub(crate) fn integers(words: &[u32; TILE]) -> BitRow<{ TILE / LANES }> {
    core::array::from_fn(|v| u32x16::new(core::array::from_fn(|l| words[v * LANES + l])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::network::Head;

    #[test]
    fn what_is_put_into_tiles_is_gathered_whatever_their_size() {
        let layout = SampleLayout::new(&architecture(3, Head::MultiDiscrete(vec![2, 3])), true);
        for (envs, blocks) in [(1, 1), (17, 1), (65, 4), (100, 2), (100, 1)] {
            let mut batch = Batch::new(layout.clone(), envs, 5);
            let mut seen = 0;
            for (k, mut tile) in batch.tiles_mut(blocks).into_iter().enumerate() {
                assert_eq!(tile.num_steps(), 5);
                for t in 0..5 {
                    let row: Row<4> = core::array::from_fn(|v| {
                        let block = k * blocks + v;
                        f32x16::new(core::array::from_fn(|l| (block * 10_000 + t * 100 + l) as f32))
                    });
                    tile.put(t, layout.advantage, &row);
                    let bits = core::array::from_fn(|v| u32x16::splat((k * blocks + v) as u32));
                    tile.put_bits::<4>(t, layout.mask, &bits);
                }
                seen += tile.lanes;
            }
            assert_eq!(seen, envs);
            let mut gathered = Gathered::new(&architecture(3, Head::MultiDiscrete(vec![2, 3])), &layout);
            let indices: [u32; TILE] = core::array::from_fn(|s| ((s * 7) % batch.len()) as u32);
            gathered.gather(&batch, &indices);
            let advantages = gathered.float(layout.advantage);
            for (s, &index) in indices.iter().enumerate() {
                let (block, within) = (index as usize / (16 * 5), index as usize % (16 * 5));
                let width = 16.min(envs - block * 16);
                let expected = (block * 10_000 + within / width * 100 + within % width) as f32;
                assert_eq!(advantages[s / 16].as_array()[s % 16], expected);
                assert_eq!(gathered.mask[0][s / 16].as_array()[s % 16], block as u32);
            }
        }
    }

    fn architecture(features: usize, head: Head) -> Architecture {
        Architecture::new(&Config::default(), Input::Dense(features), head)
    }
}
