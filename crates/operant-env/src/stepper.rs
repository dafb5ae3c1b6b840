//! The [`Stepper`] of an environment that is written over lanes: what is compiled once for each environment and lane.

use std::marker::PhantomData;

use operant_lane::bundle::leaves_of;
use operant_lane::{Bundle, Float, Int, Packed, Source};

use crate::any::{Seen, StepError, Stepped, Stepper, TileSpec};
use crate::env::Env;
use crate::rows::{Rows, RowsMut};
use crate::spec::ActionSpace;
use crate::vector::{Autoreset, Clock, Current};

/// Environments per word of `terminated` and `truncated`.
const BLOCK: usize = 16;

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
    lane: PhantomData<fn() -> L>,
}

impl<L: Packed, E: Env> LaneStepper<L, E> {
    pub(crate) fn new(env: &E, tile: TileSpec) -> Self {
        assert!(tile.rows.is_multiple_of(BLOCK) && tile.rows <= 256, "a tile of {} rows", tile.rows);
        let spec = env.spec();
        let masked = match &spec.actions {
            ActionSpace::Discrete(choices) if E::MASKED => choices.clone(),
            _ => Vec::new(),
        };
        let leaves = leaves_of::<f32, E::State<f32>>().len() + 2;
        let mut stepper = Self {
            env: env.clone(),
            tile,
            time_limit: spec.time_limit,
            masked,
            words: vec![0; leaves * tile.rows],
            seeds: [tile.seed as u32, (tile.seed >> 32) as u32]
                .iter()
                .flat_map(|&word| vec![word; tile.rows])
                .collect(),
            numbers: (tile.first..).take(tile.rows).collect(),
            actions: vec![0.0; spec.actions.components() * tile.rows],
            step: tile.step,
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
        seen.legal.fill(0);
        for column in (0..self.tile.rows).step_by(L::WIDTH) {
            let state = self.current(column).state;
            self.env.observe(&state).store(&mut RowsMut::new(seen.obs, self.tile.rows, column));
            self.legal(&state, column, seen.legal);
        }
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.actions.copy_from_slice(actions);
        self.step = step;
        Ok(())
    }

    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError> {
        let Stepped { seen, final_obs, rewards, terminated, truncated, returns, lengths } = stepped;
        let rows = self.tile.rows;
        seen.legal.fill(0);
        terminated.fill(0);
        truncated.fill(0);
        for column in (0..rows).step_by(L::WIDTH) {
            let action = E::Action::load(&mut ActionRows { rows: &self.actions, stride: rows, at: column });
            let mut current = self.current(column);
            let (limit, clock) = (self.time_limit, self.clock(column));
            let transition = match self.tile.autoreset {
                // Compiled by itself, without what only the others need.
                Autoreset::SameStep => current.step(&self.env, limit, &action, &clock),
                other => current.step_in(other, &self.env, limit, &action, &clock),
            };
            current.store(&mut RowsMut::new(&mut self.words, rows, column));
            transition.obs.store(&mut RowsMut::new(seen.obs, rows, column));
            self.legal(&current.state, column, seen.legal);
            L::store_float(transition.reward, &mut rewards[column..]);
            let ends = [transition.terminated, transition.truncated].map(L::bits);
            if ends == [0, 0] {
                continue;
            }
            let (word, shift) = (column / BLOCK, column % BLOCK);
            terminated[word] |= (ends[0] << shift) as u16;
            truncated[word] |= (ends[1] << shift) as u16;
            transition.final_obs.store(&mut RowsMut::new(final_obs, rows, column));
            L::store_float(transition.episodic_return, &mut returns[column..]);
            L::store_uint(transition.episodic_length, &mut lengths[column..]);
        }
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
        let stride = self.tile.rows;
        let chosen = |row: usize| rows[row / BLOCK] >> (row % BLOCK) & 1 == 1;
        self.step = step;
        for (row, &seed) in seeds.into_iter().flatten().enumerate().filter(|(row, _)| chosen(*row)) {
            (self.seeds[row], self.seeds[stride + row]) = (seed as u32, (seed >> 32) as u32);
            self.numbers[row] = 0;
        }
        let leaves = self.words.len() / stride;
        let mut fresh = vec![0; leaves * L::WIDTH];
        for column in (0..stride).step_by(L::WIDTH) {
            if (column..column + L::WIDTH).any(chosen) {
                let start = Current::<L, E>::start(&self.env, &self.clock(column));
                start.store(&mut RowsMut::new(&mut fresh, L::WIDTH, 0));
                for row in (column..column + L::WIDTH).filter(|&row| chosen(row)) {
                    for leaf in 0..leaves {
                        self.words[leaf * stride + row] = fresh[leaf * L::WIDTH + row - column];
                    }
                }
            }
        }
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        for (word, leaf) in words.iter_mut().zip(self.words.chunks_exact(self.tile.rows)) {
            *word = leaf[row];
        }
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
