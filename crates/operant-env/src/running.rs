//! The state of R running environments between two calls of a stepper, as words, so that any thread may take the next step.

use operant_lane::Purpose;

use crate::any::TileSpec;
use crate::rows::set_rows;
use crate::spec::EnvSpec;
use crate::vector::Autoreset;

/// Environments per word of `terminated` and `truncated`.
pub(crate) const BLOCK: usize = 16;
/// Maximum environments of a tile.
pub(crate) const MAX_ROWS: usize = 256;

/// R environments in the middle of their episodes.
pub(crate) struct Running {
    pub(crate) tile: TileSpec,
    pub(crate) time_limit: u32,
    /// `(leaves + 2, R)`: state, length and return of the episode.
    pub(crate) words: Vec<u32>,
    /// `(R)` each: low and high words of the seed, environment numbers of the random streams.
    pub(crate) keys: [Vec<u32>; 3],
    /// The actions of the step in progress, `(components, R)`, and its global step.
    pub(crate) actions: Vec<f32>,
    pub(crate) step: u64,
    /// Rows in which episodes begin.
    pub(crate) starting: Vec<usize>,
}

impl Running {
    /// Environments that are still to begin their first episodes: all of them are starting.
    pub(crate) fn new(spec: &EnvSpec, leaves: usize, tile: TileSpec) -> Self {
        let rows = tile.rows;
        assert!(rows.is_multiple_of(BLOCK) && rows <= MAX_ROWS, "a tile of {rows} rows");
        let [low, high] = [tile.seed as u32, (tile.seed >> 32) as u32].map(|word| vec![word; rows]);
        Self {
            tile,
            time_limit: tile.time_limit.unwrap_or(spec.time_limit),
            words: vec![0; (leaves + 2) * rows],
            keys: [low, high, (tile.first..).take(rows).collect()],
            actions: vec![0.0; spec.actions.components() * rows],
            step: tile.step,
            starting: (0..rows).collect(),
        }
    }

    pub(crate) fn purpose(&self, training: Purpose, evaluation: Purpose) -> Purpose {
        if self.tile.evaluation { evaluation } else { training }
    }

    pub(crate) fn submit(&mut self, actions: &[f32], step: u64) {
        self.actions.copy_from_slice(actions);
        self.step = step;
    }

    /// Finishes a step: takes the rows in which episodes begin, and keeps their last observations.
    pub(crate) fn end(&mut self, starts: &[u16; MAX_ROWS / BLOCK], obs: &[u32], final_obs: &mut [u32]) {
        self.starting.clear();
        // `extend` would pull one row at a time from the iterator.
        set_rows(starts).for_each(|row| self.starting.push(row));
        if self.tile.autoreset == Autoreset::SameStep {
            let rows = self.tile.rows;
            for (to, from) in final_obs.chunks_exact_mut(rows).zip(obs.chunks_exact(rows)) {
                self.starting.iter().for_each(|&row| to[row] = from[row]);
            }
        }
    }

    /// The global step at which the episode of a row began, or of the one that ended in the step before `next`.
    pub(crate) fn began(&self, row: usize, next: u64) -> u64 {
        // State, length and return of the episode.
        let rows = self.tile.rows;
        next - u64::from(self.words[self.words.len() - 2 * rows + row])
    }

    /// Takes the rows to restart, and their seeds.
    pub(crate) fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) {
        self.step = step;
        self.starting.clear();
        self.starting.extend(set_rows(rows));
        if let Some(seeds) = seeds {
            let [low, high, number] = &mut self.keys;
            for &row in &self.starting {
                let seed = seeds[row];
                (low[row], high[row], number[row]) = (seed as u32, (seed >> 32) as u32, 0);
            }
        }
    }

    /// The state of one environment.
    pub(crate) fn state(&self, row: usize, words: &mut [u32]) {
        for (word, leaf) in words.iter_mut().zip(self.words.chunks_exact(self.tile.rows)) {
            *word = leaf[row];
        }
    }
}
