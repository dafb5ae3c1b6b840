//! Random play: environments alone, with uniformly random actions, auto-reset and time limit. What benchmarks of
//! environments measure, and a fair lower bound of what a rollout costs.

use std::marker::PhantomData;

use operant_lane::bundle::leaves_of;
use operant_lane::draws::unit;
use operant_lane::{ActionDraws, Bundle, Float, Lane, Packed, Purpose, Source, Uint};

use crate::env::Env;
use crate::rows::{Rows, RowsMut};
use crate::spec::ActionSpace;
use crate::vector::{Clock, Current};

/// What some environments did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Steps of all environments.
    pub steps: u64,
    /// Episodes that ended.
    pub episodes: u64,
    /// Sum of all rewards.
    pub reward: f64,
}

/// Environments side by side that have been started: lanes of WIDTH. Between horizons they are words, so that any thread may
/// play the next.
pub struct RandomPlay<L: Lane, E: Env> {
    env: E,
    actions: ActionSpace,
    time_limit: u32,
    seed: u64,
    step: u64,
    first: u32,
    /// `[lane][leaf][environment]`.
    words: Vec<u32>,
    lane: PhantomData<fn() -> L>,
}

/// `first, first + 1, ..` across a lane.
fn numbers<L: Packed>(first: u32) -> L::Uint {
    let list: [u32; 16] = core::array::from_fn(|i| first + i as u32);
    L::load_uint(&list)
}

impl<L: Packed, E: Env> RandomPlay<L, E> {
    /// Starts at least `environments` environments, numbered from `first`: the count is rounded up to whole lanes.
    pub fn new(env: E, seed: u64, first: u32, environments: usize) -> Self {
        let spec = env.spec();
        let mut words = vec![0; environments.div_ceil(L::WIDTH) * Self::lane_words()];
        for (lane, words) in words.chunks_exact_mut(Self::lane_words()).enumerate() {
            let environment = numbers::<L>(first + (lane * L::WIDTH) as u32);
            let current = Current::start(&env, &Clock { seed, environment, step: 0, evaluation: false });
            Current::<L, E>::store(&current, &mut RowsMut::new(words, L::WIDTH, 0));
        }
        let (actions, time_limit) = (spec.actions, spec.time_limit);
        Self { env, actions, time_limit, seed, step: 0, first, words, lane: PhantomData }
    }

    /// Words of a lane: its leaves, and those of the running episode.
    fn lane_words() -> usize {
        (leaves_of::<f32, E::State<f32>>().len() + 2) * L::WIDTH
    }

    /// Steps every environment `steps` times. Each lane's state stays in registers over the horizon.
    pub fn play(&mut self, steps: u64) -> Totals {
        let mut totals = Totals::default();
        for (lane, words) in self.words.chunks_exact_mut(Self::lane_words()).enumerate() {
            let environment = numbers::<L>(self.first + (lane * L::WIDTH) as u32);
            let mut current = Current::<L, E>::load(&mut Rows::new(words, L::WIDTH, 0));
            let mut draws = ActionDraws::new(self.seed, environment, Purpose::RandomAction);
            let mut reward = L::Float::splat(0.0);
            for step in self.step..self.step + steps {
                let action = E::Action::load(&mut RandomAction::<L> {
                    space: &self.actions,
                    draws: &mut draws,
                    step,
                    component: 0,
                });
                let clock = Clock { seed: self.seed, environment, step, evaluation: false };
                let transition = current.step(&self.env, self.time_limit, &action, &clock);
                reward = reward + transition.reward;
                totals.episodes +=
                    u64::from(L::bits(transition.terminated | transition.truncated).count_ones());
            }
            let mut sums = [0.0; 16];
            L::store_float(reward, &mut sums);
            totals.reward += sums[..L::WIDTH].iter().map(|&sum| f64::from(sum)).sum::<f64>();
            current.store(&mut RowsMut::new(words, L::WIDTH, 0));
        }
        self.step += steps;
        totals.steps = steps * (self.words.len() / Self::lane_words() * L::WIDTH) as u64;
        totals
    }
}

/// Draws the components of an action.
struct RandomAction<'a, L: Lane> {
    space: &'a ActionSpace,
    draws: &'a mut ActionDraws<L>,
    step: u64,
    component: usize,
}

impl<L: Lane> RandomAction<'_, L> {
    #[inline(always)]
    fn bits(&mut self) -> L::Uint {
        let component = self.component as u32;
        self.component += 1;
        self.draws.bits(self.step, component, self.space.components() as u32)
    }
}

impl<L: Lane> Source<L> for RandomAction<'_, L> {
    #[inline(always)]
    fn float(&mut self) -> L::Float {
        let ActionSpace::Box { low, high } = self.space else { unreachable!("a float acts in a box") };
        let (low, high) = (low[self.component], high[self.component]);
        unit::<L>(self.bits()).mul_add(L::Float::splat(high - low), L::Float::splat(low))
    }
    #[inline(always)]
    fn uint(&mut self) -> L::Uint {
        let ActionSpace::Discrete(choices) = self.space else { unreachable!("a choice is discrete") };
        let count = choices[self.component] as u32;
        self.bits().mul_wide(L::Uint::splat(count)).0
    }
    fn int(&mut self) -> L::Int {
        unreachable!("no action is a signed integer")
    }
    fn mask(&mut self) -> L::Mask {
        unreachable!("no action is a truth value")
    }
}
