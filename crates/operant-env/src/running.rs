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
    /// Groups of G environments, `(R / G, leaves + 2, G)`: state, length and return of the episode.
    pub(crate) words: Vec<u32>,
    /// G: environments whose words are together.
    group: usize,
    /// `(R)` each: low and high words of the seed, environment numbers of the random streams.
    pub(crate) keys: [Vec<u32>; 3],
    /// The actions of the step in progress, `(components, R)`, and its global step.
    pub(crate) actions: Vec<f32>,
    pub(crate) step: u64,
    /// Rows in which episodes begin.
    pub(crate) starting: Vec<usize>,
}

impl Running {
    /// Environments that are still to begin their first episodes, in groups of `group`: all of them are starting.
    pub(crate) fn new(spec: &EnvSpec, leaves: usize, tile: TileSpec, group: usize) -> Self {
        let rows = tile.rows;
        assert!(rows.is_multiple_of(BLOCK) && rows <= MAX_ROWS, "a tile of {rows} rows");
        let [low, high] = [tile.seed as u32, (tile.seed >> 32) as u32].map(|word| vec![word; rows]);
        Self {
            tile,
            time_limit: tile.time_limit.unwrap_or(spec.time_limit),
            words: vec![0; (leaves + 2) * rows],
            group,
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

    /// The words of a row: that of the first leaf, then every [`Running::group`]th.
    #[inline(always)]
    pub(crate) fn first(&self, row: usize) -> usize {
        row / self.group * self.span() + row % self.group
    }

    /// Words of a group.
    #[inline(always)]
    fn span(&self) -> usize {
        self.words.len() / self.tile.rows * self.group
    }

    /// The words of a row, leaf by leaf.
    fn of(&mut self, row: usize) -> impl Iterator<Item = &mut u32> {
        let (first, group, span) = (self.first(row), self.group, self.span());
        self.words[first..].iter_mut().take(span - row % group).step_by(group)
    }

    /// Begins episodes in `rows`, with columns of `(leaves + 2, width)`.
    pub(crate) fn begin(&mut self, rows: &[usize], from: &[u32], width: usize) {
        for (column, &row) in rows.iter().enumerate() {
            let from = from[column..].iter().step_by(width);
            self.of(row).zip(from).for_each(|(to, from)| *to = *from);
        }
    }

    /// Writes the words as `(leaves + 2, R)`.
    pub(crate) fn save(&self, words: &mut [u32]) {
        let rows = self.tile.rows;
        for (number, group) in self.words.chunks_exact(self.span()).enumerate() {
            for (leaf, from) in group.chunks_exact(self.group).enumerate() {
                words[leaf * rows + number * self.group..][..self.group].copy_from_slice(from);
            }
        }
    }

    /// Reads what [`Running::save`] wrote.
    pub(crate) fn load(&mut self, words: &[u32]) {
        let (rows, size, span) = (self.tile.rows, self.group, self.span());
        for (number, group) in self.words.chunks_exact_mut(span).enumerate() {
            for (leaf, to) in group.chunks_exact_mut(size).enumerate() {
                to.copy_from_slice(&words[leaf * rows + number * size..][..size]);
            }
        }
    }

    /// The global step at which the episode of a row began, or of the one that ended in the step before `next`.
    pub(crate) fn began(&self, row: usize, next: u64) -> u64 {
        // State, length and return of the episode.
        // Rows that nobody plays may be older than a clock that was set back.
        next.wrapping_sub(self.words[self.first(row) + self.span() - 2 * self.group].into())
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
        let from = self.words[self.first(row)..].iter().step_by(self.group);
        words.iter_mut().zip(from).for_each(|(word, from)| *word = *from);
    }

    /// A leaf of all states.
    pub(crate) fn leaf(&self, leaf: usize, words: &mut [u32]) {
        for (words, group) in words.chunks_exact_mut(self.group).zip(self.words.chunks_exact(self.span())) {
            words.copy_from_slice(&group[leaf * self.group..][..self.group]);
        }
    }
}
