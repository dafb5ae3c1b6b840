//! The rollout: one worker plays the whole horizon of a tile of environments, policy included, without a join per step,
//! estimates advantages backwards, and leaves finished samples in the batch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use operant_env::{ActionSpace, Clock, Current, Env, ObsSpace, Rows, RowsMut};
use operant_lane::draws::unit;
use operant_lane::{ActionDraws, Bundle, Float, Packed, Purpose, Source, Wide};
use wide::{bytemuck, f32x16, u32x16};

use super::batch::BatchTile;
use super::episodes::Episodes;
use super::gae::gae;
use super::heads::PolicyHead;
use super::laps::{Lap, Laps};
use super::normalise::NormSums;
use super::policy::{Activations, Observation, Policy};
use super::recorder::Recorder;
use super::tile::{LANES, Row, splat};
use crate::config::Config;
use crate::state::leaves;

/// The lane that environments run on unless another is asked for: the widest that the machine has. Its width never changes a bit.
#[cfg(target_feature = "avx512f")]
pub type EnvLane = Wide<16>;
/// The lane that environments run on unless another is asked for: the widest that the machine has. Its width never changes a bit.
#[cfg(not(target_feature = "avx512f"))]
pub type EnvLane = Wide<8>;

/// Steps of a tile from one bump of the pulse to the next.
pub const PULSE_STEPS: u64 = 16;

/// What all tiles share during a horizon.
pub struct Horizon<'a, E: Env> {
    pub env: &'a E,
    pub config: &'a Config,
    pub policy: &'a Policy,
    pub actions: &'a ActionSpace,
    pub time_limit: u32,
    /// Lifetime step at the start.
    pub step: u64,
    /// Bumped every few steps.
    pub pulse: &'a AtomicU64,
    /// `(shift, scale)` per feature, frozen; empty without observation normalisation.
    pub obs_norm: &'a [(f32, f32)],
    /// Scale of rewards, frozen; 1 without reward normalisation.
    pub reward_scale: f32,
}

/// V x 16 environments, of which the last may lie past N: they are played and not counted.
pub struct Tile<const V: usize> {
    /// Number of the first environment.
    pub first: u32,
    /// Environments that count.
    pub count: usize,
    /// The running environments between horizons: a row of V x 16 words per leaf of [`Current`].
    pub environments: Vec<u32>,
    /// Discounted return of each environment, for reward normalisation.
    pub discounted: Row<V>,
    /// Sums of this horizon's observations, by 16 environments.
    pub obs_sums: Vec<NormSums>,
    /// Sums of this horizon's discounted returns, by 16 environments.
    pub reward_sums: Vec<NormSums>,
    /// Episodes that ended in this horizon, by 16 environments.
    pub episodes: [Episodes; V],
    /// Seconds spent in GAE.
    pub gae_seconds: f64,
    /// Records the first environment on demand.
    pub recorder: Recorder,
    /// Where the time goes, on demand.
    pub laps: Laps,
    /// `(words, V)`: what the policy acts on next, not normalised.
    obs: Vec<f32x16>,
    final_obs: Vec<f32x16>,
    normalised: Vec<f32x16>,
    draws: Vec<ActionDraws<Wide<16>>>,
    activations: Activations<V>,
    single: Activations<1>,
    single_obs: Vec<f32x16>,
    head: PolicyHead<V>,
    uniforms: Vec<Row<V>>,
    action_rows: Vec<Row<V>>,
    mask: Vec<[u32x16; V]>,
    rewards: Vec<Row<V>>,
    values: Vec<Row<V>>,
    done: Vec<Row<V>>,
    advantages: Vec<Row<V>>,
}

impl<const V: usize> Tile<V> {
    /// Environments `first .. first + count` at the start of their first episodes.
    pub fn new<E: Env>(env: &E, config: &Config, policy: &Policy, first: u32, count: usize) -> Self {
        let network = policy.network();
        let head = &network.architecture.head;
        let space = env.spec().obs;
        let (words, steps) = (space.words(), config.num_steps);
        let features = if matches!(space, ObsSpace::Box { .. }) { words } else { 0 };
        let mut environments = vec![0; leaves::<E>() * V * LANES];
        for lane in 0..V * LANES / EnvLane::WIDTH {
            let environment = numbers::<EnvLane>(first + (lane * EnvLane::WIDTH) as u32);
            let clock = Clock { seed: config.seed, environment, step: 0, evaluation: false };
            let start = Current::<EnvLane, E>::start(env, &clock);
            start.store(&mut RowsMut::new(&mut environments, V * LANES, lane * EnvLane::WIDTH));
        }
        let draws = (0..V)
            .map(|v| {
                ActionDraws::new(
                    config.seed,
                    numbers::<Wide<16>>(first + (v * LANES) as u32),
                    Purpose::Action,
                )
            })
            .collect();
        let rows = || vec![splat::<V>(0.0); steps];
        Self {
            first,
            count,
            environments,
            discounted: splat(0.0),
            obs_sums: vec![NormSums::new(features); V],
            reward_sums: vec![NormSums::new(1); V],
            episodes: [Episodes::default(); V],
            gae_seconds: 0.0,
            recorder: Recorder::default(),
            laps: Laps::default(),
            obs: vec![f32x16::ZERO; words * V],
            final_obs: vec![f32x16::ZERO; words * V],
            normalised: vec![f32x16::ZERO; words * V],
            draws,
            activations: Activations::new(network),
            single: Activations::new(network),
            single_obs: vec![f32x16::ZERO; words],
            head: PolicyHead::new(head),
            uniforms: vec![splat(0.0); head.uniforms()],
            action_rows: vec![splat(0.0); head.components()],
            mask: vec![[u32x16::ZERO; V]; if E::MASKED { head.mask_words() } else { 0 }],
            rewards: rows(),
            values: rows(),
            done: rows(),
            advantages: rows(),
        }
    }

    /// Plays one horizon on lanes of L and writes its samples.
    pub fn roll<L: Packed, E: Env>(&mut self, horizon: &Horizon<'_, E>, batch: &mut BatchTile<'_>) {
        self.episodes = [Episodes::default(); V];
        self.obs_sums.iter_mut().chain(&mut self.reward_sums).for_each(NormSums::clear);
        self.laps.begin();
        let columns = (0..V * LANES).step_by(L::WIDTH);
        let load = |column| Current::load(&mut Rows::new(&self.environments, V * LANES, column));
        let mut lanes: Vec<Current<L, E>> = columns.clone().map(load).collect();
        for (lane, current) in lanes.iter().enumerate() {
            horizon.env.observe(&current.state).store(&mut rows_mut::<L, V>(&mut self.obs, lane));
        }
        self.laps.lap(Lap::Booking);
        for t in 0..horizon.config.num_steps {
            if (t as u64).is_multiple_of(PULSE_STEPS) {
                horizon.pulse.fetch_add(1, Ordering::Relaxed);
            }
            self.decide(horizon, &lanes, batch, t);
            self.advance(horizon, &mut lanes, t);
        }
        for (column, current) in columns.zip(&lanes) {
            current.store(&mut RowsMut::new(&mut self.environments, V * LANES, column));
        }
        self.laps.lap(Lap::Booking);
        let value = self.value(horizon);
        self.laps.lap(Lap::Policy);
        let start = Instant::now();
        let (gamma, lambda) = (horizon.config.gamma as f32, horizon.config.gae_lambda as f32);
        gae(&self.rewards, &self.values, &self.done, value, gamma, lambda, &mut self.advantages);
        for (t, advantage) in self.advantages.iter().enumerate() {
            batch.put(t, batch.layout.advantage, advantage);
        }
        self.gae_seconds = start.elapsed().as_secs_f64();
        self.laps.lap(Lap::Gae);
    }

    /// Forward pass, sampling, and the sample's fields that are known before the step.
    fn decide<L: Packed, E: Env>(
        &mut self,
        horizon: &Horizon<'_, E>,
        lanes: &[Current<L, E>],
        batch: &mut BatchTile<'_>,
        t: usize,
    ) {
        let layout = batch.layout;
        self.normalise(horizon, true);
        let seen = if horizon.obs_norm.is_empty() { &self.obs } else { &self.normalised };
        for (word, row) in seen.as_chunks::<V>().0.iter().enumerate() {
            batch.put(t, layout.obs + word, row);
        }
        self.laps.lap(Lap::Storing);
        forward(horizon.policy, seen, &mut self.activations);
        self.laps.lap(Lap::Policy);

        if E::MASKED {
            let states = lanes.iter().map(|current| &current.state);
            legal_bits::<L, E, V>(horizon.env, horizon.actions, states, &mut self.mask);
            self.head.set_mask(&self.mask);
            for (word, row) in self.mask.iter().enumerate() {
                batch.put_bits(t, layout.mask + word, row);
            }
        }
        let (step, count) = (horizon.step + t as u64, self.uniforms.len() as u32);
        for (component, row) in self.uniforms.iter_mut().enumerate() {
            for (uniform, draws) in row.iter_mut().zip(&mut self.draws) {
                *uniform = unit::<Wide<16>>(draws.bits(step, component as u32, count));
            }
        }
        let log_std = horizon.policy.log_std();
        let logprob =
            self.head.sample(self.activations.policy(), log_std, &self.uniforms, &mut self.action_rows);
        self.laps.lap(Lap::Sampling);
        self.values[t] = self.activations.value();
        for (component, row) in self.action_rows.iter().enumerate() {
            batch.put(t, layout.actions + component, row);
        }
        batch.put(t, layout.logprob, &logprob);
        batch.put(t, layout.value, &self.values[t]);
        self.laps.lap(Lap::Storing);
    }

    /// Steps the environments and books rewards, ends and statistics.
    fn advance<L: Packed, E: Env>(
        &mut self,
        horizon: &Horizon<'_, E>,
        lanes: &mut [Current<L, E>],
        t: usize,
    ) {
        let mut rewards = splat::<V>(0.0);
        let mut done = splat::<V>(0.0);
        let mut cut = [0u32; V];
        let step = horizon.step + t as u64;
        for (lane, current) in lanes.iter_mut().enumerate() {
            let column = lane * L::WIDTH;
            let action = E::Action::load(&mut ActionSource::<V> {
                rows: &self.action_rows,
                space: horizon.actions,
                column,
                component: 0,
            });
            let environment = numbers::<L>(self.first + column as u32);
            let clock = Clock { seed: horizon.config.seed, environment, step, evaluation: false };
            if lane == 0 {
                self.recorder.before_step(current);
            }
            let transition = current.step(horizon.env, horizon.time_limit, &action, &clock);
            transition.obs.store(&mut rows_mut::<L, V>(&mut self.obs, lane));

            let floats = |row: &mut Row<V>, value| {
                L::store_float(value, &mut bytemuck::cast_slice_mut::<f32x16, f32>(row)[column..]);
            };
            floats(&mut rewards, transition.reward);
            let terminated = L::bits(transition.terminated);
            let ended = terminated | L::bits(transition.truncated);
            if ended == 0 {
                continue;
            }
            let ones: &mut [f32] =
                &mut bytemuck::cast_slice_mut::<f32x16, f32>(&mut done)[column..column + L::WIDTH];
            for (i, one) in ones.iter_mut().enumerate() {
                *one = f32::from(ended >> i & 1 == 1);
            }
            let (mut returns, mut lengths) = ([0.0f32; LANES], [0u32; LANES]);
            L::store_float(transition.episodic_return, &mut returns);
            L::store_uint(transition.episodic_length, &mut lengths);
            if lane == 0 && ended & 1 == 1 {
                self.recorder.episode_ended(returns[0]);
            }
            for i in (0..L::WIDTH).filter(|i| ended >> i & 1 == 1 && column + i < self.count) {
                self.episodes[column / LANES].add(f64::from(returns[i]), u64::from(lengths[i]));
            }
            let only_cut = ended & !terminated;
            if only_cut != 0 {
                cut[column / LANES] |= only_cut << (column % LANES);
                transition.final_obs.store(&mut rows_mut::<L, V>(&mut self.final_obs, lane));
            }
        }
        self.laps.lap(Lap::Environment);
        self.scale_rewards(horizon, &mut rewards, &done);
        self.bootstrap(horizon, &mut rewards, cut);
        self.rewards[t] = rewards;
        self.done[t] = done;
        self.laps.lap(Lap::Booking);
    }

    /// Scales rewards by the deviation of the discounted return, as it stood before this horizon.
    fn scale_rewards<E: Env>(&mut self, horizon: &Horizon<'_, E>, rewards: &mut Row<V>, done: &Row<V>) {
        if !horizon.config.norm_reward {
            return;
        }
        let gamma = f32x16::splat(horizon.config.gamma as f32);
        let (scale, limit) = (f32x16::splat(horizon.reward_scale), horizon.config.clip_reward);
        for v in 0..V {
            self.discounted[v] = Float::mul_add(self.discounted[v], gamma, rewards[v]);
        }
        for (v, sums) in self.reward_sums.iter_mut().enumerate() {
            sums.add(in_block(self.count, v), |_| self.discounted[v].as_array());
        }
        for v in 0..V {
            self.discounted[v] *= f32x16::ONE - done[v];
            rewards[v] = Float::clamp(rewards[v] * scale, Float::splat(-limit), Float::splat(limit));
        }
    }

    /// Adds gamma V(final_obs) to the rewards of steps that only the time limit ended; rare, so 16 at a time.
    fn bootstrap<E: Env>(&mut self, horizon: &Horizon<'_, E>, rewards: &mut Row<V>, cut: [u32; V]) {
        let gamma = f32x16::splat(horizon.config.gamma as f32);
        for (v, bits) in cut.into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
            for (to, from) in self.single_obs.iter_mut().zip(self.final_obs.iter().skip(v).step_by(V)) {
                *to = *from;
            }
            for (x, (shift, scale)) in self.single_obs.iter_mut().zip(horizon.obs_norm) {
                *x = normalised(*x, *shift, *scale, horizon.config.clip_obs);
            }
            let [value] = value_of(horizon.policy, &self.single_obs, &mut self.single);
            let mask = Wide::<16>::from_bits(bits);
            let bonus = operant_lane::Mask::select(mask, gamma * value, f32x16::ZERO);
            rewards[v] += bonus;
        }
    }

    /// V of the observation after the last step.
    fn value<E: Env>(&mut self, horizon: &Horizon<'_, E>) -> Row<V> {
        self.normalise(horizon, false);
        let seen = if horizon.obs_norm.is_empty() { &self.obs } else { &self.normalised };
        value_of(horizon.policy, seen, &mut self.activations)
    }

    /// Normalises the observations by the frozen statistics, and counts them for the next horizon's when asked.
    fn normalise<E: Env>(&mut self, horizon: &Horizon<'_, E>, count: bool) {
        if horizon.obs_norm.is_empty() {
            return;
        }
        if count {
            let flat: &[f32] = bytemuck::cast_slice(&self.obs);
            for (v, sums) in self.obs_sums.iter_mut().enumerate() {
                sums.add(in_block(self.count, v), |feature| &flat[(feature * V + v) * LANES..]);
            }
        }
        let rows = self.normalised.as_chunks_mut::<V>().0.iter_mut().zip(self.obs.as_chunks::<V>().0);
        for ((to, from), (shift, scale)) in rows.zip(horizon.obs_norm) {
            for v in 0..V {
                to[v] = normalised(from[v], *shift, *scale, horizon.config.clip_obs);
            }
        }
    }
}

/// `(x - shift) scale`, clipped.
#[inline(always)]
pub fn normalised(x: f32x16, shift: f32, scale: f32, clip: f64) -> f32x16 {
    let x = (x - f32x16::splat(shift)) * f32x16::splat(scale);
    Float::clamp(x, Float::splat(-clip), Float::splat(clip))
}

/// The legal choices of V x 16 environments as bits, one per logit over all components.
pub fn legal_bits<'a, L: Packed, E: Env, const V: usize>(
    env: &E,
    actions: &ActionSpace,
    states: impl Iterator<Item = &'a E::State<L>>,
    mask: &mut [[u32x16; V]],
) where
    E::State<L>: 'a,
{
    let ActionSpace::Discrete(choices) = actions else { return };
    mask.fill([u32x16::ZERO; V]);
    for (lane, state) in states.enumerate() {
        let mut logit = 0;
        for (component, &count) in choices.iter().enumerate() {
            for choice in 0..count {
                let legal = L::bits(env.legal(state, component, choice));
                let row = bytemuck::cast_slice_mut::<u32x16, u32>(&mut mask[logit / 32]);
                for (i, word) in row[lane * L::WIDTH..][..L::WIDTH].iter_mut().enumerate() {
                    *word |= (legal >> i & 1) << (logit % 32);
                }
                logit += 1;
            }
        }
    }
}

/// Of `count` environments from the start of a tile, those in its 16 number `v`.
fn in_block(count: usize, v: usize) -> usize {
    count.saturating_sub(v * LANES).min(LANES)
}

/// `first, first + 1, ..` across a lane.
pub fn numbers<L: Packed>(first: u32) -> L::Uint {
    let list: [u32; LANES] = core::array::from_fn(|i| first + i as u32);
    L::load_uint(&list)
}

/// The rows of the environments in lane number `lane`.
pub fn rows_mut<L: Packed, const V: usize>(words: &mut [f32x16], lane: usize) -> RowsMut<'_> {
    RowsMut::new(bytemuck::cast_slice_mut(words), V * LANES, lane * L::WIDTH)
}

/// Runs the policy on observations laid out `(words, V)`.
pub fn forward<const V: usize>(policy: &Policy, obs: &[f32x16], out: &mut Activations<V>) {
    use crate::network::Input;
    match policy.network().architecture.input {
        Input::Dense(_) => policy.forward(Observation::Dense(obs.as_chunks::<V>().0), out),
        Input::Bits(_) => {
            let words: &[u32x16] = bytemuck::cast_slice(obs);
            policy.forward(Observation::Bits(words.as_chunks::<V>().0), out);
        }
    }
}

/// The value alone.
fn value_of<const V: usize>(policy: &Policy, obs: &[f32x16], out: &mut Activations<V>) -> Row<V> {
    use crate::network::Input;
    match policy.network().architecture.input {
        Input::Dense(_) => policy.value(Observation::Dense(obs.as_chunks::<V>().0), out),
        Input::Bits(_) => {
            let words: &[u32x16] = bytemuck::cast_slice(obs);
            policy.value(Observation::Bits(words.as_chunks::<V>().0), out)
        }
    }
}

/// Gives an action its components from the policy's rows; real ones are clipped to the box.
pub struct ActionSource<'a, const V: usize> {
    pub rows: &'a [Row<V>],
    pub space: &'a ActionSpace,
    /// First environment of the lane within the rows.
    pub column: usize,
    pub component: usize,
}

impl<const V: usize> ActionSource<'_, V> {
    #[inline(always)]
    fn next<L: Packed>(&mut self) -> L::Float {
        let row: &[f32] = bytemuck::cast_slice(&self.rows[self.component]);
        self.component += 1;
        L::load_float(&row[self.column..])
    }
}

impl<L: Packed, const V: usize> Source<L> for ActionSource<'_, V> {
    #[inline(always)]
    fn float(&mut self) -> L::Float {
        let ActionSpace::Box { low, high } = self.space else { unreachable!("real actions live in a box") };
        let (low, high) = (Float::splat(low[self.component]), Float::splat(high[self.component]));
        Float::clamp(self.next::<L>(), low, high)
    }
    #[inline(always)]
    fn uint(&mut self) -> L::Uint {
        use operant_lane::Int;
        Float::to_int(self.next::<L>()).to_uint()
    }
    fn int(&mut self) -> L::Int {
        unreachable!("no action is a signed integer")
    }
    fn mask(&mut self) -> L::Mask {
        unreachable!("no action is a truth value")
    }
}
