//! Random play: environments alone, with uniformly random actions, auto-reset and time limit. What benchmarks of
//! environments measure, and a fair lower bound for the cost of a rollout.

use std::marker::PhantomData;

use operant_lane::bundle::leaves_of;
use operant_lane::draws::unit;
use operant_lane::{ActionDraws, Bundle, Float, Lane, Packed, Purpose, Source, Uint, Wide};

use crate::any::{AnyEnv, LaneWidth, Seen, StepError, Stepped, Stepper, TileSpec};
use crate::env::{Env, spec_of};
use crate::rows::{Rows, RowsMut};
use crate::spec::{ActionSpace, EnvSpec};
use crate::vector::{Clock, Current, numbers};

/// Environments that have been started and play rollouts of random actions.
pub trait Play: Send {
    /// Steps every environment `steps` times.
    ///
    /// # Errors
    /// When an environment failed.
    fn play(&mut self, steps: u64) -> Result<Totals, StepError>;
}

/// Totals of random play.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Steps of all environments.
    pub steps: u64,
    /// Episodes that ended.
    pub episodes: u64,
    /// Sum of all rewards.
    pub reward: f64,
}

/// Environments over lanes of WIDTH. Between rollouts they are words, so that any thread may play the next.
pub(crate) struct LanePlay<L: Lane, E: Env> {
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

impl<L: Packed, E: Env> LanePlay<L, E> {
    /// Starts at least `environments` environments, numbered from `first`: the count is rounded up to whole lanes.
    pub(crate) fn new(env: E, seed: u64, first: u32, environments: usize) -> Self {
        let spec = spec_of(&env);
        let mut words = vec![0; environments.div_ceil(L::WIDTH) * Self::lane_words()];
        let mut fresh = vec![0; Self::lane_words() + spec.obs.words() * L::WIDTH];
        for (lane, words) in words.chunks_exact_mut(Self::lane_words()).enumerate() {
            let environment = numbers::<L>(first + (lane * L::WIDTH) as u32);
            let clock = Clock::new(seed, environment, 0);
            Current::<L, E>::begin(&env, &clock, Purpose::Init, Purpose::EvalInit, &mut fresh);
            words.copy_from_slice(&fresh[..words.len()]);
        }
        let (actions, time_limit) = (spec.actions, spec.time_limit);
        Self { env, actions, time_limit, seed, step: 0, first, words, lane: PhantomData }
    }

    /// Words of a lane: its leaves, and the words of the running episode.
    fn lane_words() -> usize {
        (leaves_of::<f32, E::State<f32>>().len() + 2) * L::WIDTH
    }
}

impl<L: Packed, E: Env> Play for LanePlay<L, E> {
    /// Each lane's state stays in registers over all steps.
    fn play(&mut self, steps: u64) -> Result<Totals, StepError> {
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
                let clock = Clock::new(self.seed, environment, step);
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
        Ok(totals)
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
        unreachable!("actions are never signed integers")
    }
    fn mask(&mut self) -> L::Mask {
        unreachable!("actions are never masks")
    }
}

/// Uniformly random actions for a tile; an illegal choice is replaced by the next legal one of its component.
pub struct RandomActions {
    space: ActionSpace,
    rows: usize,
    /// Draws of 16 rows each.
    draws: Vec<ActionDraws<Wide<16>>>,
}

impl RandomActions {
    /// Draws actions for R environments from number `first` on.
    pub fn new(space: ActionSpace, seed: u64, first: u32, rows: usize) -> Self {
        let draws = |row| {
            let environments = numbers::<Wide<16>>(first.wrapping_add(row as u32));
            ActionDraws::new(seed, environments, Purpose::RandomAction)
        };
        Self { space, rows, draws: (0..rows).step_by(16).map(draws).collect() }
    }

    /// Fills `(components, R)` with the actions of a step, where `legal` is as in [`Seen::legal`].
    pub fn fill(&mut self, step: u64, legal: &[u32], actions: &mut [f32]) {
        let (rows, components) = (self.rows, self.space.components());
        for (block, draws) in self.draws.iter_mut().enumerate() {
            let first = 16 * block;
            let count = 16.min(rows - first);
            let mut logit = 0;
            for component in 0..components {
                let bits = draws.bits(step, component as u32, components as u32);
                let to = &mut actions[component * rows + first..][..count];
                let mut drawn = [0.0; 16];
                match &self.space {
                    ActionSpace::Box { low, high } => {
                        let [low, high] = [low[component], high[component]].map(|bound| bound as f32);
                        let [low, width] = [low, high - low].map(|x| Float::splat(f64::from(x)));
                        Wide::<16>::store_float(unit::<Wide<16>>(bits).mul_add(width, low), &mut drawn);
                        to.copy_from_slice(&drawn[..count]);
                    }
                    ActionSpace::Discrete(choices) => {
                        let count = choices[component];
                        let choice = bits.mul_wide(Uint::splat(count as u32)).0;
                        Wide::<16>::store_float(Float::from_int(choice.to_int()), &mut drawn);
                        for (row, (to, drawn)) in to.iter_mut().zip(drawn).enumerate() {
                            let is_legal = |choice: &usize| {
                                let bit = logit + choice;
                                legal[bit / 32 * rows + first + row] >> (bit % 32) & 1 == 1
                            };
                            *to = drawn;
                            if !legal.is_empty() {
                                let mut choices = (0..count).map(|k| (drawn as usize + k) % count);
                                *to = choices.find(is_legal).map_or(drawn, |choice| choice as f32);
                            }
                        }
                        logit += count;
                    }
                }
            }
        }
    }
}

/// Memory for what a [`Stepper`] of R environments writes, for callers without their own layout.
pub struct Outputs {
    /// See [`Seen::obs`].
    pub obs: Vec<u32>,
    /// See [`Seen::legal`].
    pub legal: Vec<u32>,
    /// See [`Stepped::final_obs`].
    pub final_obs: Vec<u32>,
    /// See [`Stepped::rewards`].
    pub rewards: Vec<f32>,
    /// See [`Stepped::terminated`].
    pub terminated: Vec<u16>,
    /// See [`Stepped::truncated`].
    pub truncated: Vec<u16>,
    /// See [`Stepped::returns`].
    pub returns: Vec<f32>,
    /// See [`Stepped::lengths`].
    pub lengths: Vec<u32>,
    /// See [`Stepped::metrics`].
    pub metrics: Vec<f32>,
}

impl Outputs {
    /// Allocates outputs for R environments of this specification.
    pub fn new(spec: &EnvSpec, masked: bool, rows: usize) -> Self {
        let obs = vec![0; spec.obs.words() * rows];
        Self {
            legal: vec![0; if masked { spec.actions.mask_words() * rows } else { 0 }],
            final_obs: obs.clone(),
            obs,
            rewards: vec![0.0; rows],
            terminated: vec![0; rows / 16],
            truncated: vec![0; rows / 16],
            returns: vec![0.0; rows],
            lengths: vec![0; rows],
            metrics: vec![0.0; spec.measured() * rows],
        }
    }

    /// The buffers for [`Stepper::observe`].
    pub fn seen(&mut self) -> Seen<'_> {
        Seen { obs: &mut self.obs, legal: &mut self.legal }
    }

    /// The buffers for [`Stepper::collect`].
    pub fn stepped(&mut self) -> Stepped<'_> {
        Stepped {
            seen: Seen { obs: &mut self.obs, legal: &mut self.legal },
            final_obs: &mut self.final_obs,
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            returns: &mut self.returns,
            lengths: &mut self.lengths,
            metrics: &mut self.metrics,
        }
    }

    /// Whether the rules ended the episode in column `row`, and whether a limit did.
    pub fn ended(&self, row: usize) -> [bool; 2] {
        [&self.terminated, &self.truncated].map(|words| words[row / 16] >> (row % 16) & 1 == 1)
    }
}

/// Random play through steppers, for environments without lanes, and those whose first states are made ahead of time.
pub(crate) struct StepperPlay {
    tiles: Vec<PlayedTile>,
    step: u64,
}

struct PlayedTile {
    stepper: Box<dyn Stepper>,
    random: RandomActions,
    actions: Vec<f32>,
    outputs: Outputs,
}

impl StepperPlay {
    /// Tiles of an environment.
    pub(crate) fn of<A: AnyEnv + ?Sized>(
        env: &A,
        seed: u64,
        first: u32,
        count: usize,
        lanes: LaneWidth,
    ) -> Result<Self, StepError> {
        Self::new(&env.spec(), env.masked(), seed, first, count, |first, rows| {
            env.stepper(TileSpec { lanes, ..TileSpec::new(seed, first, rows) })
        })
    }

    /// Tiles of at most 256 rows, each made by `stepper` from the number of its first environment and its rows.
    pub(crate) fn new(
        spec: &EnvSpec,
        masked: bool,
        seed: u64,
        first: u32,
        count: usize,
        mut stepper: impl FnMut(u32, usize) -> Result<Box<dyn Stepper>, StepError>,
    ) -> Result<Self, StepError> {
        let mut tiles = Vec::new();
        for begin in (0..count).step_by(256) {
            let rows = (count - begin).min(256).next_multiple_of(16);
            let (first, mut outputs) = (first + begin as u32, Outputs::new(spec, masked, rows));
            let mut stepper = stepper(first, rows)?;
            stepper.observe(outputs.seen())?;
            tiles.push(PlayedTile {
                stepper,
                random: RandomActions::new(spec.actions.clone(), seed, first, rows),
                actions: vec![0.0; spec.actions.components() * rows],
                outputs,
            });
        }
        Ok(Self { tiles, step: 0 })
    }
}

impl Play for StepperPlay {
    fn play(&mut self, steps: u64) -> Result<Totals, StepError> {
        let mut totals = Totals::default();
        for step in self.step..self.step + steps {
            for PlayedTile { stepper, random, actions, outputs } in &mut self.tiles {
                random.fill(step, &outputs.legal, actions);
                stepper.submit(actions, step)?;
            }
            for PlayedTile { stepper, outputs, .. } in &mut self.tiles {
                stepper.collect(outputs.stepped())?;
                totals.steps += outputs.rewards.len() as u64;
                totals.reward += outputs.rewards.iter().copied().map(f64::from).sum::<f64>();
                let ends = outputs.terminated.iter().zip(&outputs.truncated);
                totals.episodes += ends.map(|(a, b)| u64::from((a | b).count_ones())).sum::<u64>();
            }
        }
        self.step += steps;
        Ok(totals)
    }
}
