//! Random play: environments alone, with uniformly random actions, auto-reset and time limit. What benchmarks of
//! environments measure, and a fair lower bound of what a rollout costs.

use operant_lane::draws::unit;
use operant_lane::{ActionDraws, Bundle, Float, Lane, Packed, Purpose, Source, Uint};

use crate::env::Env;
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

/// Environments side by side that have been started: `count` lanes of WIDTH.
pub struct RandomPlay<L: Lane, E: Env> {
    env: E,
    actions: ActionSpace,
    time_limit: u32,
    seed: u64,
    step: u64,
    lanes: Vec<(L::Uint, Current<L, E>)>,
}

impl<L: Packed, E: Env> RandomPlay<L, E> {
    /// Starts at least `environments` environments, numbered from `first`: the count is rounded up to whole lanes.
    pub fn new(env: E, seed: u64, first: u32, environments: usize) -> Self {
        let spec = env.spec();
        let lanes = (0..environments.div_ceil(L::WIDTH) as u32)
            .map(|lane| {
                let numbers: Vec<u32> =
                    (0..L::WIDTH as u32).map(|i| first + lane * L::WIDTH as u32 + i).collect();
                let environment = L::load_uint(&numbers);
                (environment, Current::start(&env, &Clock { seed, environment, step: 0, evaluation: false }))
            })
            .collect();
        Self { env, actions: spec.actions, time_limit: spec.time_limit, seed, step: 0, lanes }
    }

    /// Steps every environment `steps` times. Each lane's state stays in registers over the horizon.
    pub fn play(&mut self, steps: u64) -> Totals {
        let mut totals = Totals::default();
        for (environment, lane) in &mut self.lanes {
            let environment = *environment;
            let mut current = *lane;
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
            *lane = current;
        }
        self.step += steps;
        totals.steps = steps * (self.lanes.len() * L::WIDTH) as u64;
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
