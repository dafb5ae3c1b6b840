//! The code around every environment: the time limit, auto-reset, the final observation and episode statistics.

use operant_lane::draws::split;
use operant_lane::{Bundle, Draws, Float, Lane, Mask, Packed, Purpose, Rule, Uint};

use crate::env::Env;
use crate::rows::RowsMut;

/// The global step and the environment numbers, which determine a step's random draws.
#[derive(Debug, Clone, Copy)]
pub struct Clock<L: Lane> {
    /// Seed of each environment, as (low, high) words.
    pub seed: [L::Uint; 2],
    /// Global number of each environment.
    pub environment: L::Uint,
    /// Global step, counted from the start of the run.
    pub step: u64,
    /// Whether this is an evaluation, which has its own random streams.
    pub evaluation: bool,
}

impl<L: Lane> Clock<L> {
    /// Training under one seed.
    #[inline(always)]
    pub fn new(seed: u64, environment: L::Uint, step: u64) -> Self {
        Self { seed: split::<L>(seed), environment, step, evaluation: false }
    }

    #[inline(always)]
    pub(crate) fn draws(&self, training: Purpose, evaluation: Purpose) -> Draws<'_, L> {
        let purpose = if self.evaluation { evaluation } else { training };
        Draws::new(self.seed, self.environment, split::<L>(self.step), purpose)
    }
}

/// When the next episode begins after one that ended: Gymnasium's modes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Autoreset {
    /// Within the step that ended the episode, whose last observation is given separately.
    #[default]
    SameStep,
    /// In the step after it, which ignores the action and has reward 0.
    NextStep,
    /// When the caller restarts it.
    Disabled,
}

/// `elapsed` of an environment whose next step starts an episode. Episodes are shorter.
pub const ENDED: u32 = u32::MAX;

/// `first, first + 1, ..` across a lane.
pub fn numbers<L: Packed>(first: u32) -> L::Uint {
    let list: [u32; 16] = core::array::from_fn(|i| first + i as u32);
    L::load_uint(&list)
}

/// Length and return of the running episodes.
pub(crate) struct Episode<L: Lane> {
    pub(crate) elapsed: L::Uint,
    pub(crate) episodic_return: L::Float,
}

/// A step in the terms of its episode; see [`Transition`].
pub(crate) struct Ended<L: Lane> {
    pub(crate) reward: L::Float,
    pub(crate) terminated: L::Mask,
    pub(crate) truncated: L::Mask,
    pub(crate) episodic_return: L::Float,
    pub(crate) episodic_length: L::Uint,
}

impl<L: Lane> Episode<L> {
    /// Counts a step, and returns where an episode begins within it.
    #[inline(always)]
    pub(crate) fn advance(
        &mut self,
        autoreset: Autoreset,
        time_limit: u32,
        mut reward: L::Float,
        mut terminated: L::Mask,
    ) -> (Ended<L>, L::Mask) {
        let episodic_length = self.elapsed + L::Uint::splat(1);
        let episodic_return = self.episodic_return + reward;
        let mut truncated = episodic_length.ge(L::Uint::splat(time_limit));
        let mut elapsed = episodic_length;
        let starts = match autoreset {
            Autoreset::SameStep => terminated | truncated,
            Autoreset::NextStep => {
                let ended = self.elapsed.eq(L::Uint::splat(ENDED));
                reward = ended.select(L::Float::splat(0.0), reward);
                (terminated, truncated) = (terminated & !ended, truncated & !ended);
                elapsed = (terminated | truncated).select(L::Uint::splat(ENDED), elapsed);
                ended
            }
            Autoreset::Disabled => L::Mask::splat(false),
        };
        *self = Self { elapsed, episodic_return };
        (Ended { reward, terminated, truncated, episodic_return, episodic_length }, starts)
    }
}

/// Environments in the middle of their episodes.
pub struct Current<L: Lane, E: Env> {
    /// The state of the rules.
    pub state: E::State<L>,
    /// Steps of this episode.
    pub elapsed: L::Uint,
    /// Undiscounted return of this episode.
    pub episodic_return: L::Float,
}

/// The result of a step with auto-reset.
pub struct Transition<L: Lane, E: Env> {
    /// The observation to act on next: of the new episode if one ended.
    pub obs: E::Obs<L>,
    /// The observation before auto-reset: differs from `obs` if an episode ended.
    pub final_obs: E::Obs<L>,
    /// The reward of the step.
    pub reward: L::Float,
    /// Whether the rules ended the episode.
    pub terminated: L::Mask,
    /// Whether the time limit ended it; both may hold.
    pub truncated: L::Mask,
    /// Return of the episode up to and with this step.
    pub episodic_return: L::Float,
    /// Its length.
    pub episodic_length: L::Uint,
}

// Derived implementations would require the environment itself to be `Copy`.
impl<L: Lane, E: Env> Clone for Current<L, E> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Lane, E: Env> Copy for Current<L, E> {}
impl<L: Lane, E: Env> Clone for Transition<L, E> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Lane, E: Env> Copy for Transition<L, E> {}

/// Starts the next episode after one that ended.
struct Restart<'a, L: Lane, E> {
    env: &'a E,
    clock: &'a Clock<L>,
    /// Steps that the episode had before this one.
    elapsed: L::Uint,
}

/// State and observation, and the steps and the return of the episode.
type Begun<L, E> = ((<E as Env>::State<L>, <E as Env>::Obs<L>), (<L as Lane>::Uint, <L as Lane>::Float));

impl<L: Lane, E: Env> Rule<Begun<L, E>> for Restart<'_, L, E> {
    #[inline(always)]
    fn apply(self, _: Begun<L, E>) -> Begun<L, E> {
        let Current { state, elapsed, episodic_return } =
            Current::<L, E>::restart(self.env, self.clock, self.elapsed);
        ((state, self.env.observe(&state)), (elapsed, episodic_return))
    }
}

impl<L: Lane, E: Env> Current<L, E> {
    #[inline(always)]
    fn first(env: &E, mut draws: Draws<'_, L>) -> Self {
        Self {
            state: env.reset(&mut draws),
            elapsed: L::Uint::splat(0),
            episodic_return: L::Float::splat(0.0),
        }
    }

    /// Environments at the start of their first episode.
    #[inline(always)]
    pub fn start(env: &E, clock: &Clock<L>) -> Self {
        Self::first(env, clock.draws(Purpose::Init, Purpose::EvalInit))
    }

    /// Environments at the start of an episode that follows another, which had `elapsed` steps before this one.
    #[inline(always)]
    pub fn restart(env: &E, clock: &Clock<L>, elapsed: L::Uint) -> Self {
        if !E::AHEAD {
            return Self::first(env, clock.draws(Purpose::Reset, Purpose::EvalReset));
        }
        let [low, high] = split::<L>(clock.step);
        let borrow = low.lt(elapsed).select(L::Uint::splat(1), L::Uint::splat(0));
        let purpose = if clock.evaluation { Purpose::EvalReset } else { Purpose::Reset };
        Self::first(env, Draws::new(clock.seed, clock.environment, [low - elapsed, high - borrow], purpose))
    }

    /// One step of every environment. When an episode ends, the next one starts within the same step.
    #[inline(always)]
    pub fn step(
        &mut self,
        env: &E,
        time_limit: u32,
        action: &E::Action<L>,
        clock: &Clock<L>,
    ) -> Transition<L, E> {
        let elapsed = self.elapsed;
        let (transition, starts) = self.advance(Autoreset::SameStep, env, time_limit, action, clock);
        // Resets cost nothing while no environment needs one.
        let before = ((self.state, transition.obs), (self.elapsed, self.episodic_return));
        let ((state, obs), (elapsed, episodic_return)) =
            L::when_rule(starts, before, Restart { env, clock, elapsed });
        *self = Self { state, elapsed, episodic_return };
        Transition { obs, ..transition }
    }

    /// One step of every environment, and where an episode begins within it: the caller replaces those environments by
    /// [`Current::restart`], and their observations by those of the new states.
    #[inline(always)]
    pub fn advance(
        &mut self,
        autoreset: Autoreset,
        env: &E,
        time_limit: u32,
        action: &E::Action<L>,
        clock: &Clock<L>,
    ) -> (Transition<L, E>, L::Mask) {
        let mut draws = clock.draws(Purpose::Step, Purpose::EvalStep);
        let (reward, terminated) = env.step_in_place(&mut self.state, action, &mut draws);
        let Self { elapsed, episodic_return, .. } = *self;
        let mut episode = Episode::<L> { elapsed, episodic_return };
        let (ended, starts) = episode.advance(autoreset, time_limit, reward, terminated);
        let obs = env.observe(&self.state);
        (self.elapsed, self.episodic_return) = (episode.elapsed, episode.episodic_return);
        let Ended { reward, terminated, truncated, episodic_return, episodic_length } = ended;
        let final_obs = obs;
        (
            Transition { obs, final_obs, reward, terminated, truncated, episodic_return, episodic_length },
            starts,
        )
    }

    /// Writes environments at the start of an episode, and their observations, to `words`, `(leaves + 2 + words, WIDTH)`. Compiled once for
    /// first and other episodes.
    #[inline(never)]
    pub(crate) fn begin(env: &E, clock: &Clock<L>, training: Purpose, evaluation: Purpose, words: &mut [u32])
    where
        L: Packed,
    {
        let begun = Self::first(env, clock.draws(training, evaluation));
        let mut rows = RowsMut::new(words, L::WIDTH, 0);
        begun.store(&mut rows);
        env.observe(&begun.state).store(&mut rows);
    }

    /// Reads environments from their rows; see [`crate::Rows`].
    #[inline(always)]
    pub fn load(source: &mut impl operant_lane::Source<L>) -> Self {
        Self { state: Bundle::load(source), elapsed: source.uint(), episodic_return: source.float() }
    }

    /// The same in place.
    #[inline(always)]
    pub(crate) fn reload(&mut self, source: &mut impl operant_lane::Source<L>) {
        self.state.reload(source);
        (self.elapsed, self.episodic_return) = (source.uint(), source.float());
    }

    /// Writes environments to their rows; see [`crate::RowsMut`].
    #[inline(always)]
    pub fn store(&self, sink: &mut impl operant_lane::Sink<L>) {
        self.state.store(sink);
        sink.uint(self.elapsed);
        sink.float(self.episodic_return);
    }
}
