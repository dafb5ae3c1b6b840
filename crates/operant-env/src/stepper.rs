//! The [`Stepper`] of an environment that is written over lanes, compiled once for each environment and lane.

use std::marker::PhantomData;

use operant_lane::bundle::leaves_of;
use operant_lane::{Bundle, Draws, Float, Int, Packed, Purpose, Source};

use crate::ahead::Ahead;
use crate::any::{Seen, StepError, Stepped, Stepper, TileSpec};
use crate::env::{Env, Step, spec_of};
use crate::rows::{Rows, RowsMut};
use crate::running::{BLOCK, MAX_ROWS, Running};
use crate::spec::ActionSpace;
use crate::vector::{Autoreset, Clock, Current};

/// R environments, WIDTH to a lane.
pub(crate) struct LaneStepper<L: Packed, E: Env> {
    env: E,
    running: Running,
    /// Choices of each component, if actions can be illegal.
    masked: Vec<usize>,
    /// WIDTH environments that begin episodes: `(leaves + 2, WIDTH)`, then `(words, WIDTH)` of their observations.
    fresh: Vec<u32>,
    /// First states of the next episodes, where they are made ahead of time.
    ahead: Option<Ahead>,
    lane: PhantomData<fn() -> L>,
}

impl<L: Packed, E: Env> LaneStepper<L, E> {
    pub(crate) fn new(env: &E, tile: TileSpec) -> Self {
        let spec = spec_of(env);
        let masked = match &spec.actions {
            ActionSpace::Discrete(choices) if E::MASKED => choices.clone(),
            _ => Vec::new(),
        };
        let leaves = leaves_of::<f32, E::State<f32>>().len();
        let mut stepper = Self {
            env: env.clone(),
            running: Running::new(&spec, leaves, tile, BLOCK),
            masked,
            fresh: vec![0; (leaves + 2 + spec.obs.words()) * L::WIDTH],
            ahead: (E::AHEAD && tile.autoreset == Autoreset::SameStep).then(|| Ahead::new(leaves, tile.rows)),
            lane: PhantomData,
        };
        stepper.running.starting.truncate(stepper.active());
        stepper.begin(None, Purpose::Init, Purpose::EvalInit);
        stepper
    }

    /// Rows that are stepped: all, but in a web page those that the caller reads, as a rule one of 16.
    #[inline(always)]
    fn active(&self) -> usize {
        if cfg!(target_family = "wasm") { self.running.tile.count } else { self.running.tile.rows }
    }

    /// Whether copies of environments cost more than what keeping them in registers saves.
    const IS_LARGE: bool = size_of::<Current<L, E>>() > 8192;

    #[inline(always)]
    fn clock(&self, column: usize) -> Clock<L> {
        let [low, high, environment] =
            self.running.keys.each_ref().map(|words| L::load_uint(&words[column..]));
        let Running { step, tile, .. } = &self.running;
        Clock { seed: [low, high], environment, step: *step, evaluation: tile.evaluation }
    }

    #[inline(always)]
    fn current(&self, column: usize) -> Current<L, E> {
        Current::load(&mut Rows::new(&self.running.words, BLOCK, self.running.first(column)))
    }

    /// Steps WIDTH environments from `column` on.
    #[inline(always)]
    fn step(
        &mut self,
        current: &mut Current<L, E>,
        column: usize,
        stepped: &mut Stepped<'_>,
        starts: &mut [u16; MAX_ROWS / BLOCK],
    ) {
        let rows = self.running.tile.rows;
        let action =
            E::Action::load(&mut ActionRows { rows: &self.running.actions, stride: rows, at: column });
        let (limit, clock) = (self.running.time_limit, self.clock(column));
        let (transition, starting) =
            current.advance(self.running.tile.autoreset, &self.env, limit, &action, &clock);
        let first = self.running.first(column);
        current.store(&mut RowsMut::new(&mut self.running.words, BLOCK, first));
        transition.obs.store(&mut RowsMut::new(stepped.seen.obs, rows, column));
        L::store_float(transition.reward, &mut stepped.rewards[column..]);
        L::store_float(transition.episodic_return, &mut stepped.returns[column..]);
        L::store_uint(transition.episodic_length, &mut stepped.lengths[column..]);
        let ended = L::bits(transition.terminated | transition.truncated) != 0;
        if !stepped.metrics.is_empty() && ended {
            let last =
                Step { state: current.state, reward: transition.reward, terminated: transition.terminated };
            for (index, values) in stepped.metrics.chunks_exact_mut(rows).enumerate() {
                L::store_float(self.env.metric(&last, index), &mut values[column..]);
            }
        }
        let events = [&mut *stepped.terminated, &mut *stepped.truncated, &mut starts[..]];
        let masks = [transition.terminated, transition.truncated, starting];
        for (words, mask) in events.into_iter().zip(masks) {
            words[column / BLOCK] |= (L::bits(mask) << (column % BLOCK)) as u16;
        }
    }

    /// Makes the first states of the next episodes of `rows`, at most WIDTH. Their draws are those of the steps at which the episodes before
    /// began; `next` is the step that is taken next.
    fn prepare(&mut self, ahead: &mut Ahead, rows: &[usize], next: u64) {
        let running = &self.running;
        let [low, high, environment] =
            running.keys.each_ref().map(|words| of_rows::<L>(rows, |row| words[row]));
        let step = [0, 32].map(|shift| of_rows::<L>(rows, |row| (running.began(row, next) >> shift) as u32));
        let purpose = self.running.purpose(Purpose::Reset, Purpose::EvalReset);
        let mut draws = Draws::<L>::new([low, high], environment, step, purpose);
        self.env.reset(&mut draws).store(&mut RowsMut::new(&mut self.fresh, L::WIDTH, 0));
        ahead.keep(rows, &self.fresh, L::WIDTH);
    }

    /// Begins episodes in the starting rows with the states that were made ahead of time, writes their observations, and makes the next
    /// ones where WIDTH are missing.
    fn begin_ahead(&mut self, ahead: &mut Ahead, obs: &mut [u32]) {
        let next = self.running.step + 1;
        let starting = std::mem::take(&mut self.running.starting);
        let stride = self.running.tile.rows;
        for rows in starting.chunks(L::WIDTH) {
            if !ahead.has(rows) {
                let batch = ahead.batch(rows, L::WIDTH);
                self.prepare(ahead, &batch, next);
            }
            ahead.take(rows, &mut self.fresh, L::WIDTH);
            let state = E::State::<L>::load(&mut Rows::new(&self.fresh, L::WIDTH, 0));
            let words = self.running.words.len() / stride;
            let (states, shown) = self.fresh.split_at_mut(words * L::WIDTH);
            states[(words - 2) * L::WIDTH..].fill(0);
            self.env.observe(&state).store(&mut RowsMut::new(shown, L::WIDTH, 0));
            self.running.begin(rows, states, L::WIDTH);
            scatter(shown, L::WIDTH, rows, obs, stride);
        }
        self.running.starting = starting;
        while ahead.missing() >= L::WIDTH {
            let batch = ahead.batch(&[], L::WIDTH);
            self.prepare(ahead, &batch, next);
        }
    }

    /// Begins episodes in the starting rows, WIDTH of them at a time wherever they are, and writes their observations.
    fn begin(&mut self, mut obs: Option<&mut [u32]>, training: Purpose, evaluation: Purpose) {
        let starting = std::mem::take(&mut self.running.starting);
        let words = self.running.words.len() / self.running.tile.rows;
        for rows in starting.chunks(L::WIDTH) {
            let Running { tile, keys, step, .. } = &self.running;
            let [low, high, environment] = keys.each_ref().map(|words| of_rows::<L>(rows, |row| words[row]));
            let clock = Clock { seed: [low, high], environment, step: *step, evaluation: tile.evaluation };
            Current::<L, E>::begin(&self.env, &clock, training, evaluation, &mut self.fresh);
            let (states, shown) = self.fresh.split_at(words * L::WIDTH);
            self.running.begin(rows, states, L::WIDTH);
            if let Some(obs) = obs.as_deref_mut() {
                scatter(shown, L::WIDTH, rows, obs, self.running.tile.rows);
            }
        }
        self.running.starting = starting;
    }

    /// Writes the legal choices of all rows.
    #[inline(always)]
    fn write_legal(&self, legal: &mut [u32]) {
        if !E::MASKED {
            return;
        }
        legal.fill(0);
        for column in (0..self.active()).step_by(L::WIDTH) {
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
                let row = &mut words[logit / 32 * self.running.tile.rows + column..][..L::WIDTH];
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
        let rows = self.running.tile.rows;
        for column in (0..self.active()).step_by(L::WIDTH) {
            let state = self.current(column).state;
            self.env.observe(&state).store(&mut RowsMut::new(seen.obs, rows, column));
        }
        self.write_legal(seen.legal);
        Ok(())
    }

    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError> {
        self.running.submit(actions, step);
        Ok(())
    }

    /// All environments step without a branch on ended episodes; then the few that begin episodes are gathered into separate lanes.
    fn has_stepped(&mut self) -> bool {
        true
    }

    fn collect(&mut self, mut stepped: Stepped<'_>) -> Result<(), StepError> {
        let active = self.active();
        let mut starts = [0; MAX_ROWS / BLOCK];
        [&mut *stepped.terminated, &mut *stepped.truncated].iter_mut().for_each(|words| words.fill(0));
        if Self::IS_LARGE {
            let mut current = self.current(0);
            for column in (0..active).step_by(L::WIDTH) {
                current.reload(&mut Rows::new(&self.running.words, BLOCK, self.running.first(column)));
                self.step(&mut current, column, &mut stepped, &mut starts);
            }
        } else {
            for column in (0..active).step_by(L::WIDTH) {
                self.step(&mut self.current(column), column, &mut stepped, &mut starts);
            }
        }
        let Stepped { seen, final_obs, .. } = stepped;
        self.running.end(&starts, seen.obs, final_obs);
        match self.ahead.take() {
            Some(mut ahead) => {
                self.begin_ahead(&mut ahead, seen.obs);
                self.ahead = Some(ahead);
            }
            None => self.begin(Some(seen.obs), Purpose::Reset, Purpose::EvalReset),
        }
        self.write_legal(seen.legal);
        Ok(())
    }

    fn save(&self, words: &mut [u32]) {
        self.running.save(words);
    }

    fn load(&mut self, words: &[u32]) -> Result<(), StepError> {
        self.running.load(words);
        self.ahead.iter_mut().for_each(Ahead::forget);
        Ok(())
    }

    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError> {
        self.running.restart(rows, seeds, step);
        // Of the other rows too: the global step may have gone on without them.
        self.ahead.iter_mut().for_each(Ahead::forget);
        self.begin(None, Purpose::Init, Purpose::EvalInit);
        Ok(())
    }

    fn state(&self, row: usize, words: &mut [u32]) {
        self.running.state(row, words);
    }

    fn leaf(&self, leaf: usize, words: &mut [u32]) {
        self.running.leaf(leaf, words);
    }
}

/// A word of each of up to 16 rows, as a lane.
fn of_rows<L: Packed>(rows: &[usize], word: impl Fn(usize) -> u32) -> L::Uint {
    let mut words = [0; 16];
    words.iter_mut().zip(rows).for_each(|(to, &row)| *to = word(row));
    L::load_uint(&words)
}

/// A tile on any lane, whether or not [`crate::AnyEnv::stepper`] has that one in this build.
pub fn stepper_on<L: Packed, E: Env>(env: &E, tile: TileSpec) -> Box<dyn Stepper> {
    Box::new(LaneStepper::<L, E>::new(env, tile))
}

/// Writes column i of `from`, rows of `width` words, to column `rows[i]` of `to`, rows of `stride` words.
fn scatter(from: &[u32], width: usize, rows: &[usize], to: &mut [u32], stride: usize) {
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(stride)) {
        rows.iter().zip(from).for_each(|(&row, &word)| to[row] = word);
    }
}

/// Sets the components of an action from rows of numbers.
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
