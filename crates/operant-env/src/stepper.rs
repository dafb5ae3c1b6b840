//! The [`Stepper`] of an environment that is written over lanes: what is compiled once for each environment and lane.

use std::marker::PhantomData;

use operant_lane::bundle::leaves_of;
use operant_lane::{Bundle, Float, Int, Packed, Source};

use crate::any::{Seen, StepError, Stepped, Stepper, TileSpec};
use crate::env::Env;
use crate::rows::{Rows, RowsMut, set_rows};
use crate::spec::ActionSpace;
use crate::vector::{Autoreset, Clock, Current};

/// Environments per word of `terminated` and `truncated`.
const BLOCK: usize = 16;
/// Most environments of a tile.
const MAX_ROWS: usize = 256;

/// R environments, WIDTH to a lane. Between steps they are words, so that any thread may take the next step.
pub(crate) struct LaneStepper<L: Packed, E: Env> {
    env: E,
    tile: TileSpec,
    time_limit: u32,
    /// Choices of each component, if actions can be illegal.
    masked: Vec<usize>,
    /// `(leaves + 2, R)`.
    words: Vec<u32>,
    /// `(2, R)`: low and high words of each row's seed.
    seeds: Vec<u32>,
    /// `(R)`: environment numbers of the random streams.
    numbers: Vec<u32>,
    /// The step that was begun: `(components, R)`, and its global number.
    actions: Vec<f32>,
    step: u64,
    /// Rows in which episodes begin.
    starting: Vec<usize>,
    /// WIDTH environments that begin episodes: `(leaves + 2, WIDTH)`, or `(words, WIDTH)` of their observations.
    fresh: Vec<u32>,
    lane: PhantomData<fn() -> L>,
}

impl<L: Packed, E: Env> LaneStepper<L, E> {
    pub(crate) fn new(env: &E, tile: TileSpec) -> Self {
        assert!(tile.rows.is_multiple_of(BLOCK) && tile.rows <= MAX_ROWS, "a tile of {} rows", tile.rows);
        let spec = env.spec();
        let masked = match &spec.actions {
            ActionSpace::Discrete(choices) if E::MASKED => choices.clone(),
            _ => Vec::new(),
        };
        let leaves = leaves_of::<f32, E::State<f32>>().len() + 2;
        let mut stepper = Self {
            env: env.clone(),
            tile,
            time_limit: tile.time_limit.unwrap_or(spec.time_limit),
            masked,
            words: vec![0; leaves * tile.rows],
            seeds: [tile.seed as u32, (tile.seed >> 32) as u32]
                .iter()
                .flat_map(|&word| vec![word; tile.rows])
                .collect(),
            numbers: (tile.first..).take(tile.rows).collect(),
            actions: vec![0.0; spec.actions.components() * tile.rows],
            step: tile.step,
            starting: Vec::with_capacity(tile.rows),
            fresh: vec![0; leaves.max(spec.obs.words()) * L::WIDTH],
            lane: PhantomData,
        };
        for column in (0..tile.rows).step_by(L::WIDTH) {
            let start = Current::<L, E>::start(&stepper.env, &stepper.clock(column));
            start.store(&mut RowsMut::new(&mut stepper.words, tile.rows, column));
        }
        stepper
    }

    #[inline(always)]
    fn clock(&self, column: usize) -> Clock<L> {
        let (low, high) = self.seeds.split_at(self.tile.rows);
        let [low, high, environment] = [low, high, &self.numbers].map(|words| L::load_uint(&words[column..]));
        Clock { seed: [low, high], environment, step: self.step, evaluation: self.tile.evaluation }
    }

    #[inline(always)]
    fn current(&self, column: usize) -> Current<L, E> {
        Current::load(&mut Rows::new(&self.words, self.tile.rows, column))
    }

    /// Begins episodes in the starting rows, WIDTH of them at a time wherever they are, and writes their observations.
    #[inline(always)]
    fn begin(&mut self, mut obs: Option<&mut [u32]>, first: impl Fn(&E, &Clock<L>) -> Current<L, E>) {
        let stride = self.tile.rows;
        let (low, high) = self.seeds.split_at(stride);
        for rows in self.starting.chunks(L::WIDTH) {
            let [low, high, environment] = [low, high, &self.numbers].map(|words| {
                let mut of_rows = [0; 16];
                of_rows.iter_mut().zip(rows).for_each(|(word, &row)| *word = words[row]);
                L::load_uint(&of_rows)
            });
            let evaluation = self.tile.evaluation;
            let clock = Clock { seed: [low, high], environment, step: self.step, evaluation };
            let begun = first(&self.env, &clock);
            begun.store(&mut RowsMut::new(&mut self.fresh, L::WIDTH, 0));
            scatter(&self.fresh, L::WIDTH, rows, &mut self.words, stride);
            if let Some(obs) = obs.as_deref_mut() {
                self.env.observe(&begun.state).store(&mut RowsMut::new(&mut self.fresh, L::WIDTH, 0));
                scatter(&self.fresh, L::WIDTH, rows, obs, stride);
            }
        }
    }

    /// Writes the legal choices of all rows.
    #[inline(always)]
    fn write_legal(&self, legal: &mut [u32]) {
        if !E::MASKED {
            return;
        }
        legal.fill(0);
        for column in (0..self.tile.rows).step_by(L::WIDTH) {
            self.legal(&self.current(column).state, column, legal);
        }
    }

    /// Sets the bits of the legal choices in words that are zero.
    #[inline(always)]
    fn legal(&self, state: &E::State<L>, column: usize, words: &mut [u32]) {
        let mut logit = 0;
        for (component, &count) in self.masked.iter().enumerate() {
            for choice in 0..count {
                let legal = L::bits(self.env.legal(state, component, choice));
                let row = &mut words[logit / 32 * self.tile.rows + column..][..L::WIDTH];
                for (i, word) in row.iter_mut().enumerate() {
                    *word |= (legal >> i & 1) << (logit % 32);
                }
                logit += 1;
            }
        }
    }
}

impl<L: Packed, E: Env> Stepper for LaneStepper<L, E> {
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError> {
        for column in (0..self.tile.rows).step_by(L::WIDTH) {
            let state = self.current(column).state;
            self.env.observe(&state).store(&mut RowsMut::new(seen.obs, self.tile.rows, column));
        }
        self.write_legal(seen.legal);
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.actions.copy_from_slice(actions);
        self.step = step;
        Ok(())
    }

    /// All environments step without a branch on what ended; then the few that begin episodes do so in lanes of their own.
    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError> {
        let Stepped { seen, final_obs, rewards, terminated, truncated, returns, lengths } = stepped;
        let rows = self.tile.rows;
        let mut starts = [0; MAX_ROWS / BLOCK];
        let mut events = [terminated, truncated, &mut starts];
        events.iter_mut().for_each(|words| words.fill(0));
        for column in (0..rows).step_by(L::WIDTH) {
            let action = E::Action::load(&mut ActionRows { rows: &self.actions, stride: rows, at: column });
            let mut current = self.current(column);
            let (limit, clock) = (self.time_limit, self.clock(column));
            let (transition, starting) = match self.tile.autoreset {
                // Compiled by itself, without what only the others need.
                Autoreset::SameStep => {
                    current.advance(Autoreset::SameStep, &self.env, limit, &action, &clock)
                }
                other => current.advance(other, &self.env, limit, &action, &clock),
            };
            current.store(&mut RowsMut::new(&mut self.words, rows, column));
            transition.obs.store(&mut RowsMut::new(seen.obs, rows, column));
            L::store_float(transition.reward, &mut rewards[column..]);
            L::store_float(transition.episodic_return, &mut returns[column..]);
            L::store_uint(transition.episodic_length, &mut lengths[column..]);
            let masks = [transition.terminated, transition.truncated, starting];
            for (words, mask) in events.iter_mut().zip(masks) {
                words[column / BLOCK] |= (L::bits(mask) << (column % BLOCK)) as u16;
            }
        }
        self.starting.clear();
        // An `extend` would ask the iterator for one row at a time.
        set_rows(&starts).for_each(|row| self.starting.push(row));
        if self.tile.autoreset == Autoreset::SameStep {
            for (to, from) in final_obs.chunks_exact_mut(rows).zip(seen.obs.chunks_exact(rows)) {
                self.starting.iter().for_each(|&row| to[row] = from[row]);
            }
        }
        self.begin(Some(seen.obs), Current::restart);
        self.write_legal(seen.legal);
        Ok(())
    }

    fn save(&self, words: &mut [u32]) {
        words.copy_from_slice(&self.words);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        self.words.copy_from_slice(words);
        Ok(())
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        self.step = step;
        self.starting.clear();
        self.starting.extend(set_rows(rows));
        if let Some(seeds) = seeds {
            for &row in &self.starting {
                let seed = seeds[row];
                (self.seeds[row], self.seeds[self.tile.rows + row]) = (seed as u32, (seed >> 32) as u32);
                self.numbers[row] = 0;
            }
        }
        self.begin(None, Current::start);
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        for (word, leaf) in words.iter_mut().zip(self.words.chunks_exact(self.tile.rows)) {
            *word = leaf[row];
        }
    }
}

/// Writes column i of `from`, rows of `width` words, to column `rows[i]` of `to`, rows of `stride` words.
fn scatter(from: &[u32], width: usize, rows: &[usize], to: &mut [u32], stride: usize) {
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(stride)) {
        rows.iter().zip(from).for_each(|(&row, &word)| to[row] = word);
    }
}

/// Gives an action its components from rows of numbers.
struct ActionRows<'a> {
    rows: &'a [f32],
    stride: usize,
    at: usize,
}

impl ActionRows<'_> {
    #[inline(always)]
    fn next<L: Packed>(&mut self) -> L::Float {
        let value = L::load_float(&self.rows[self.at..]);
        self.at += self.stride;
        value
    }
}

impl<L: Packed> Source<L> for ActionRows<'_> {
    #[inline(always)]
    fn float(&mut self) -> L::Float {
        self.next::<L>()
    }
    #[inline(always)]
    fn uint(&mut self) -> L::Uint {
        self.next::<L>().to_int().to_uint()
    }
    fn int(&mut self) -> L::Int {
        unreachable!("actions are never signed integers")
    }
    fn mask(&mut self) -> L::Mask {
        unreachable!("actions are never masks")
    }
}
