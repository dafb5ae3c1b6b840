//! The rollout: one worker plays all T steps of a tile of environments, policy included, without a barrier per step,
//! estimates advantages backwards, and writes finished samples to the batch.

pub(crate) mod counts;
pub(crate) mod episodes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use operant_env::versus::PLAYER;
use operant_env::{
    ActionSpace, AnyEnv, Checks, EnvSpec, LaneWidth, Packing, Seen, StepError, Stepped, Stepper, TileSpec,
    checked, numbers,
};
use operant_lane::draws::unit;
use operant_lane::isa::{f32x16, u32x16};
use operant_lane::{ActionDraws, Float, Mask, Packed, Purpose, Wide};
use wide::bytemuck;

use crate::backend::LearnError;
use crate::config::Config;
use crate::cpu::batch::{BatchTile, expand};
use crate::cpu::gae::{Moves, gae, gae_of_players};
use crate::cpu::network::heads::PolicyHead;
use crate::cpu::network::policy::{Activations, Observation, Policy};
use crate::cpu::network::reals::taken;
use crate::cpu::network::tile::{LANES, Row, first_lanes, map, splat};
use crate::cpu::off_policy::replay::{Columns, ReplayLayout};
use crate::cpu::rnd::{self, Judge, Novelty};
use crate::cpu::rollout::counts::Counts;
use crate::cpu::rollout::episodes::EpisodeStats;
use crate::cpu::threads::timers::{Part, PhaseTimer};
use crate::network::{Head, Input};
use crate::normalise::NormSums;
use crate::recorder::Recorder;

/// Steps of a tile between two increments of the progress counter.
pub const PULSE_STEPS: u64 = 16;

/// Data that all tiles share during a rollout.
pub struct Horizon<'a> {
    pub config: &'a Config,
    pub policy: &'a Policy,
    pub actions: &'a ActionSpace,
    /// Global step at the start.
    pub step: u64,
    /// The progress counter, incremented every few steps.
    pub pulse: &'a AtomicU64,
    /// `(shift, scale)` per feature, frozen; empty without observation normalisation.
    pub obs_norm: &'a [(f32, f32)],
    /// Scale of rewards, frozen; 1 without reward normalisation.
    pub reward_scale: f32,
    /// Share of random actions, where the network computes action values.
    pub exploration: f32,
    /// What measures how new observations are, with `intrinsic = "rnd"`.
    pub rnd: Option<Judge<'a>>,
}

/// V x 16 environments. Those past N are played but not counted.
pub struct Tile<const V: usize> {
    /// Environments that count.
    pub count: usize,
    /// The running environments.
    pub stepper: Box<dyn Stepper>,
    /// Discounted return of each environment, for reward normalisation.
    pub discounted: Row<V>,
    /// Sums of this rollout's observations, by 16 environments.
    pub obs_sums: Vec<NormSums>,
    /// Sums of this rollout's discounted returns, by 16 environments.
    pub reward_sums: Vec<NormSums>,
    /// Episodes that ended in this rollout, by 16 environments.
    pub episodes: [EpisodeStats; V],
    pub gae_seconds: f64,
    /// Records the first environment on demand.
    pub recorder: Recorder,
    pub timer: PhaseTimer,
    /// The environment's name, and the number of the first one.
    place: (String, u32),
    /// The result of a step.
    ends: Ends<V>,
    /// The state of the first environment.
    state: Vec<u32>,
    /// `(words, V)`: the observations to act on next, as they are stored.
    obs: Vec<f32x16>,
    final_obs: Vec<f32x16>,
    /// `(input words, V)`: the network's inputs, if they differ.
    seen: Vec<f32x16>,
    packing: Option<Packing>,
    draws: Vec<ActionDraws<Wide<16>>>,
    /// `[state]`: what layers with memory carry from step to step; `[side][state]` in a game.
    pub memory: Vec<Row<V>>,
    /// `[state]`: in a game the memory of the side to move.
    own_memory: Vec<Row<V>>,
    /// What the running episodes have shown.
    pub counts: Counts<V>,
    /// How new observations are, with `intrinsic = "rnd"`.
    pub novelty: Option<Box<Novelty<V>>>,
    /// The rewards of `novelty`, if they have a value of their own.
    exploring: Option<Box<Exploring<V>>>,
    /// Whose turn it is, in a game of several players.
    turns: Option<Turns<V>>,
    /// 0 where the next step begins an episode.
    keep: Row<V>,
    activations: Activations<V>,
    single: Activations<1>,
    single_head: PolicyHead<1>,
    single_memory: Vec<Row<1>>,
    single_obs: Vec<f32x16>,
    single_seen: Vec<f32x16>,
    head: PolicyHead<V>,
    uniforms: Vec<Row<V>>,
    action_rows: Vec<Row<V>>,
    /// The actions as the environments take them: within the box.
    clipped: Vec<Row<V>>,
    mask: Vec<[u32x16; V]>,
    rewards: Vec<Row<V>>,
    values: Vec<Row<V>>,
    done: Vec<Row<V>>,
    advantages: Vec<Row<V>>,
}

/// Rewards for exploring that have a value of their own, `[step]` each.
struct Exploring<const V: usize> {
    rewards: Vec<Row<V>>,
    values: Vec<Row<V>>,
    advantages: Vec<Row<V>>,
    /// Zeros, since their returns go on where episodes end.
    done: Vec<Row<V>>,
}

impl<const V: usize> Exploring<V> {
    fn new(steps: usize) -> Self {
        let rows = || vec![splat(0.0); steps];
        Self { rewards: rows(), values: rows(), advantages: rows(), done: rows() }
    }
}

/// The player to move.
struct Turns<const V: usize> {
    players: u32,
    /// The leaf of a state that has the number.
    leaf: usize,
    /// After the last step, and `[step]` before each.
    now: Row<V>,
    /// Whose side that is after the last step: 0 or 1.
    side: Row<V>,
    steps: Vec<Row<V>>,
}

impl<const V: usize> Turns<V> {
    fn of(env: &dyn AnyEnv, steps: usize) -> Option<Self> {
        let players = env.spec().players;
        let leaf = env.leaves().iter().position(|leaf| leaf.name == PLAYER)?;
        (players > 1).then(|| Turns {
            players,
            leaf,
            now: splat(0.0),
            side: splat(0.0),
            steps: vec![splat(0.0); steps],
        })
    }

    /// Where a side is to move, of 16 environments.
    #[inline(always)]
    fn moves(&self, side: usize, v: usize) -> <f32x16 as Float>::Mask {
        Float::eq(self.side[v], f32x16::splat(side as f32))
    }

    /// Reads whose turn it is in the first `count` environments, the first of which is `place`.
    fn read(&mut self, stepper: &dyn Stepper, count: usize, place: &(String, u32)) -> Result<(), StepError> {
        let mut words = [[0u32; LANES]; V];
        stepper.leaf(self.leaf, words.as_flattened_mut());
        if let Some(row) = words.as_flattened()[..count].iter().position(|player| *player >= self.players) {
            let number = place.1 as usize + row;
            let player = words.as_flattened()[row];
            let what =
                format!("player {player} is to move in environment {number}, of {} players", self.players);
            let remedy = "let the `player` of a state be below `players`";
            return Err(StepError { env: place.0.clone(), what, remedy });
        }
        self.now = words.map(|words| f32x16::new(words.map(|player| player as f32)));
        self.side = words.map(|words| f32x16::new(words.map(|player| (player & 1) as f32)));
        Ok(())
    }
}

/// Which episodes a step ended, by 16 environments, and their returns and lengths.
struct Ends<const V: usize> {
    terminated: [u16; V],
    truncated: [u16; V],
    returns: Row<V>,
    lengths: [[u32; LANES]; V],
    /// `(metrics)`: the environment's own.
    metrics: Vec<Row<V>>,
}

impl<const V: usize> Tile<V> {
    /// Blocks of 16 environments that it plays, the last possibly partial. Their total over all tiles does not depend on the tile size.
    pub fn blocks(&self) -> usize {
        self.count.div_ceil(LANES)
    }

    /// The sums of [`Tile::novelty`], of its blocks.
    pub fn novelty_sums(&self) -> &[NormSums] {
        self.novelty.as_ref().map_or(&[], |novelty| &novelty.sums[..self.blocks()])
    }

    /// Environments `first .. first + count` at the start of their first episodes.
    ///
    /// # Errors
    /// When the environments cannot be made.
    pub fn new(
        env: &dyn AnyEnv,
        config: &Config,
        policy: &Policy,
        lanes: LaneWidth,
        first: u32,
        count: usize,
    ) -> Result<Self, LearnError> {
        let network = policy.network();
        let head = &network.architecture.head;
        let spec = env.spec();
        let (measured, sides) = (spec.measured(), spec.sides());
        let EnvSpec { obs: space, name, .. } = spec;
        let (words, steps) = (space.words(), config.num_steps);
        let features = if space.is_real() { words } else { 0 };
        let spec = TileSpec { lanes, count, ..TileSpec::new(config.seed, first, V * LANES) };
        let stepper = checked(env, spec, Checks::Finite)?;
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
        let masked = env.masked();
        let mut tile = Self {
            count,
            stepper,
            discounted: splat(0.0),
            obs_sums: vec![NormSums::new(features); V],
            reward_sums: vec![NormSums::new(1); V],
            episodes: [EpisodeStats::default(); V],
            gae_seconds: 0.0,
            recorder: Recorder::default(),
            timer: PhaseTimer::default(),
            place: (name, first),
            ends: Ends {
                terminated: [0; V],
                truncated: [0; V],
                returns: splat(0.0),
                lengths: [[0; LANES]; V],
                metrics: vec![splat(0.0); measured],
            },
            state: vec![0; env.leaves().len()],
            obs: vec![f32x16::ZERO; words * V],
            final_obs: vec![f32x16::ZERO; words * V],
            seen: vec![f32x16::ZERO; network.architecture.input.words() * V],
            draws,
            memory: vec![splat(0.0); network.states * sides],
            own_memory: vec![splat(0.0); if sides > 1 { network.states } else { 0 }],
            counts: Counts::new(config),
            novelty: Novelty::new(&network.architecture, config).map(Box::new),
            exploring: network.architecture.intrinsic_value.then(|| Box::new(Exploring::new(steps))),
            turns: Turns::of(env, steps),
            keep: splat(1.0),
            activations: Activations::new(network),
            single: Activations::new(network),
            single_head: PolicyHead::of(&network.architecture),
            single_memory: vec![splat(0.0); network.states],
            single_obs: vec![f32x16::ZERO; words],
            single_seen: vec![f32x16::ZERO; network.architecture.input.words()],
            packing: network.architecture.packing.clone(),
            head: PolicyHead::of(&network.architecture),
            uniforms: vec![splat(0.0); head.uniforms()],
            action_rows: vec![splat(0.0); head.components()],
            clipped: vec![splat(0.0); head.components()],
            mask: vec![[u32x16::ZERO; V]; if masked { head.mask_words() } else { 0 }],
            rewards: rows(),
            values: rows(),
            done: rows(),
            advantages: rows(),
        };
        tile.observe()?;
        Ok(tile)
    }

    /// Reads the first observations from the environments.
    fn observe(&mut self) -> Result<(), LearnError> {
        let obs = bytemuck::cast_slice_mut(&mut self.obs);
        let legal = bytemuck::cast_slice_mut(self.mask.as_flattened_mut());
        self.stepper.observe(Seen { obs, legal })?;
        self.counts.begin(&self.obs);
        if let Some(turns) = &mut self.turns {
            turns.read(&*self.stepper, self.count, &self.place)?;
        }
        Ok(())
    }

    /// The running environments, `(leaves + 2, V x 16)`.
    pub fn environments(&self) -> Vec<u32> {
        let mut words = vec![0; (self.state.len() + 2) * V * LANES];
        self.stepper.save(&mut words);
        words
    }

    /// Continues from environments as [`Tile::environments`] gives them.
    ///
    /// # Errors
    /// When an environment failed.
    pub fn set_environments(&mut self, words: &[u32]) -> Result<(), LearnError> {
        self.recorder = Recorder::default();
        self.keep = splat(1.0);
        self.stepper.load(words)?;
        self.observe()
    }

    /// Begins to play an update's steps.
    fn begin(&mut self, horizon: &Horizon<'_>) {
        self.episodes = [EpisodeStats::default(); V];
        self.head.explore(horizon.exploration);
        if let Some(exploring) = &mut self.exploring {
            exploring.rewards.fill(splat(0.0));
        }
        let novelty = self.novelty.iter_mut().flat_map(|novelty| &mut novelty.sums);
        self.obs_sums.iter_mut().chain(&mut self.reward_sums).chain(novelty).for_each(NormSums::clear);
        self.timer.start();
    }

    /// Chooses the actions of a step and starts it; its transitions begin in the replay.
    ///
    /// # Errors
    /// When an environment failed.
    pub fn start(
        &mut self,
        horizon: &Horizon<'_>,
        t: u64,
        replay: &mut Columns<'_>,
    ) -> Result<(), LearnError> {
        if t == 0 {
            self.begin(horizon);
        } else {
            self.timer.start();
        }
        self.head.explore(horizon.exploration);
        if t.is_multiple_of(PULSE_STEPS) {
            horizon.pulse.fetch_add(1, Ordering::Relaxed);
        }
        self.prepare_inputs(horizon, true);
        let ReplayLayout { obs, mask, actions, state, .. } = *replay.layout();
        replay.put(obs, self.obs.as_chunks::<V>().0);
        replay.put_bits(mask, &self.mask);
        if !self.memory.is_empty() {
            replay.put(state, &self.memory);
        }
        self.act(horizon, horizon.step + t)?;
        if matches!(horizon.policy.network().architecture.head, Head::Continuous(_)) {
            for row in &mut self.action_rows {
                *row = map(*row, Float::tanh);
            }
        }
        replay.put(actions, &self.action_rows);
        self.timer.end(Part::Storing);
        Ok(())
    }

    /// Whether [`Tile::finish`] need not wait.
    pub fn has_stepped(&mut self) -> bool {
        self.stepper.has_stepped()
    }

    /// Finishes the step that [`Tile::start`] started, and its transitions.
    ///
    /// # Errors
    /// When an environment failed.
    pub fn finish(&mut self, replay: &mut Columns<'_>) -> Result<(), LearnError> {
        self.timer.start();
        let (rewards, done, truncated) = self.receive()?;
        replay.finish(&rewards, &done, truncated, self.final_obs.as_chunks::<V>().0);
        self.forget(&done);
        self.timer.end(Part::Booking);
        Ok(())
    }

    /// Plays one rollout and writes its samples.
    ///
    /// # Errors
    /// When an environment failed.
    pub fn roll(&mut self, horizon: &Horizon<'_>, batch: &mut BatchTile<'_>) -> Result<(), LearnError> {
        self.begin(horizon);
        for t in 0..horizon.config.num_steps {
            if (t as u64).is_multiple_of(PULSE_STEPS) {
                horizon.pulse.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(turns) = &mut self.turns {
                turns.steps[t] = turns.now;
            }
            self.decide(horizon, batch, t)?;
            self.advance(horizon, t)?;
        }
        let value = self.value(horizon);
        self.timer.end(Part::Policy);
        let start = Instant::now();
        let discounts = horizon.config.discounts();
        let Self { rewards, values, done, advantages, .. } = self;
        match &self.turns {
            None => gae(rewards, values, done, value, discounts, advantages),
            Some(Turns { players, now, steps, .. }) => {
                let moves = Moves { players: *players, movers: steps, next_mover: *now };
                gae_of_players(rewards, values, done, value, discounts, &moves, advantages);
            }
        }
        self.add_exploring(horizon, batch);
        batch.put_outcomes(&self.rewards, &self.done, &value);
        for (t, advantage) in self.advantages.iter().enumerate() {
            batch.put(t, batch.layout.advantage, advantage);
        }
        self.gae_seconds = start.elapsed().as_secs_f64();
        self.timer.end(Part::Gae);
        Ok(())
    }

    /// Adds the advantages of rewards for exploring that have a value of their own, after that of the last observation.
    fn add_exploring(&mut self, horizon: &Horizon<'_>, batch: &mut BatchTile<'_>) {
        let (Some(exploring), Some(discounts)) = (&mut self.exploring, horizon.config.intrinsic_discounts())
        else {
            return;
        };
        let Exploring { rewards, values, advantages, done } = &mut **exploring;
        gae(rewards, values, done, self.activations.values()[1], discounts, advantages);
        let field = batch.layout.intrinsic.expect("samples of two values");
        for (t, (own, all)) in advantages.iter().zip(&mut self.advantages).enumerate() {
            batch.put(t, field, &values[t]);
            batch.put(t, field + 1, own);
            *all = core::array::from_fn(|v| all[v] + own[v]);
        }
    }

    /// Forward pass and sampling; starts the environments' step, and stores the fields of the sample that are already known.
    fn decide(
        &mut self,
        horizon: &Horizon<'_>,
        batch: &mut BatchTile<'_>,
        t: usize,
    ) -> Result<(), LearnError> {
        let layout = batch.layout;
        self.prepare_inputs(horizon, true);
        if t > 0 {
            self.judge(horizon, t - 1);
        }
        // Samples hold the network's inputs, unless they are packed.
        let stored = if horizon.obs_norm.is_empty() { &self.obs } else { &self.seen };
        for (word, row) in stored.as_chunks::<V>().0.iter().enumerate() {
            batch.put(t, layout.obs + word, row);
        }
        for (word, row) in self.mask.iter().enumerate() {
            batch.put_bits(t, layout.mask + word, row);
        }
        batch.put_states(t, &self.memory);
        if let Some(field) = layout.keep {
            batch.put(t, field, &self.keep);
        }
        if let (Some(field), Some(turns)) = (layout.side, &self.turns) {
            batch.put(t, field, &turns.side);
        }
        self.timer.end(Part::Storing);
        let logprob = self.act(horizon, horizon.step + t as u64)?;
        self.values[t] = self.head.value(&self.activations);
        if let Some(exploring) = &mut self.exploring {
            exploring.values[t] = self.activations.values()[1];
        }
        for (component, row) in self.action_rows.iter().enumerate() {
            batch.put(t, layout.actions + component, row);
        }
        if let Some(field) = layout.logprob {
            batch.put(t, field, &logprob);
        }
        batch.put(t, layout.value, &self.values[t]);
        self.timer.end(Part::Storing);
        Ok(())
    }

    /// Forward pass and sampling from prepared inputs, and the start of the environments' step. Returns log-probabilities.
    fn act(&mut self, horizon: &Horizon<'_>, step: u64) -> Result<Row<V>, LearnError> {
        let seen = if self.has_prepared_inputs(horizon) { &self.seen } else { &self.obs };
        let memory = before_move(&self.memory, self.turns.as_ref(), &mut self.own_memory);
        let seen = observation(horizon.policy, seen);
        horizon.policy.forward(seen, first_lanes(self.count), memory, &mut self.activations);
        after_move(self.activations.after(), self.turns.as_ref(), &mut self.memory);
        self.timer.end(Part::Policy);

        draw_uniforms(&mut self.draws, step, &mut self.uniforms);
        self.head.set_mask(&self.mask);
        if let Some(row) = self.head.stuck(self.count) {
            let (name, first) = &self.place;
            return Err(StepError::no_legal_action(name, *first as usize + row).into());
        }
        let log_std = horizon.policy.log_std();
        let logprob =
            self.head.sample(self.activations.policy(), log_std, &self.uniforms, &mut self.action_rows);
        if self.recorder.is_recording() {
            self.stepper.state(0, &mut self.state);
            self.recorder.frame(self.state.iter().copied());
        }
        let head = &horizon.policy.network().architecture.head;
        taken(head, horizon.actions, &self.action_rows, &mut self.clipped);
        self.stepper.submit(bytemuck::cast_slice(self.clipped.as_flattened()), step)?;
        self.timer.end(Part::Sampling);
        Ok(logprob)
    }

    /// Finishes the step of the environments and records rewards, ends and statistics.
    fn advance(&mut self, horizon: &Horizon<'_>, t: usize) -> Result<(), LearnError> {
        let (mut rewards, done, bootstraps) = self.receive()?;
        if self.counts.is_on() {
            let intrinsic = self.counts.rewards(&self.obs, &done);
            self.explore(horizon, &mut rewards, intrinsic);
        }
        self.scale_rewards(horizon, &mut rewards, &done);
        // Whose value that would be is not known any more; a game that is cut off counts as it stands.
        if self.turns.is_none() {
            self.bootstrap(horizon, &mut rewards, bootstraps);
        }
        self.forget(&done);
        self.rewards[t] = rewards;
        self.done[t] = done;
        self.timer.end(Part::Booking);
        Ok(())
    }

    /// Finishes the step of the environments and records episodes. Returns rewards, 1 where an episode ended, and the bits of those that
    /// were only cut off.
    fn receive(&mut self) -> Result<(Row<V>, Row<V>, [u32; V]), LearnError> {
        let mut rewards = splat::<V>(0.0);
        self.stepper.collect(Stepped {
            seen: Seen {
                obs: bytemuck::cast_slice_mut(&mut self.obs),
                legal: bytemuck::cast_slice_mut(self.mask.as_flattened_mut()),
            },
            final_obs: bytemuck::cast_slice_mut(&mut self.final_obs),
            rewards: bytemuck::cast_slice_mut(&mut rewards),
            terminated: &mut self.ends.terminated,
            truncated: &mut self.ends.truncated,
            returns: bytemuck::cast_slice_mut(&mut self.ends.returns),
            lengths: self.ends.lengths.as_flattened_mut(),
            metrics: bytemuck::cast_slice_mut(self.ends.metrics.as_flattened_mut()),
        })?;
        if let Some(turns) = &mut self.turns {
            turns.read(&*self.stepper, self.count, &self.place)?;
        }
        self.timer.end(Part::Environment);
        let Ends { terminated, truncated, returns, lengths, metrics } = &self.ends;
        let (mut done, mut bootstraps) = (splat::<V>(0.0), [0u32; V]);
        for v in 0..V {
            let ended = u32::from(terminated[v] | truncated[v]);
            if ended == 0 {
                continue;
            }
            bootstraps[v] = u32::from(truncated[v] & !terminated[v]);
            done[v] = f32x16::new(core::array::from_fn(|i| f32::from(ended >> i & 1 == 1)));
            let returns = returns[v].as_array();
            if v == 0 && ended & 1 == 1 {
                self.recorder.episode_ended(returns[0]);
            }
            let whole = |i: &usize| ended >> i & 1 == 1 && lengths[v][*i] > 0;
            for i in (0..in_block(self.count, v)).filter(whole) {
                self.episodes[v].add(f64::from(returns[i]), u64::from(lengths[v][i]));
                self.episodes[v].measure(metrics.iter().map(|metric| metric[v].as_array()[i]));
            }
        }
        Ok((rewards, done, bootstraps))
    }

    /// Adds how new the prepared inputs are to the rewards of step `t`, after which they were observed.
    fn judge(&mut self, horizon: &Horizon<'_>, t: usize) {
        let is_prepared = self.has_prepared_inputs(horizon);
        let (Some(judge), Some(novelty)) = (horizon.rnd, &mut self.novelty) else { return };
        let seen = observation(horizon.policy, if is_prepared { &self.seen } else { &self.obs });
        let own = (self.count, rnd::discount(horizon.config));
        let intrinsic = novelty.rewards(judge, seen, own, &self.done[t]);
        let mut rewards = self.exploring.as_ref().map_or(self.rewards[t], |exploring| exploring.rewards[t]);
        self.explore(horizon, &mut rewards, intrinsic);
        *self.exploring.as_mut().map_or(&mut self.rewards[t], |exploring| &mut exploring.rewards[t]) =
            rewards;
        self.timer.end(Part::Policy);
    }

    /// Adds the rewards for exploring.
    fn explore(&mut self, horizon: &Horizon<'_>, rewards: &mut Row<V>, intrinsic: Row<V>) {
        let coef = f32x16::splat(horizon.config.intrinsic_coef as f32);
        for v in 0..V {
            let intrinsic = intrinsic[v] * coef;
            rewards[v] += intrinsic;
            let counted = &intrinsic.as_array()[..in_block(self.count, v)];
            self.episodes[v].intrinsic += counted.iter().map(|x| f64::from(*x)).sum::<f64>();
        }
    }

    /// Scales rewards by the deviation of the discounted return, as it was before this rollout.
    fn scale_rewards(&mut self, horizon: &Horizon<'_>, rewards: &mut Row<V>, done: &Row<V>) {
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

    /// Where an episode ended, the next one begins without memory.
    fn forget(&mut self, done: &Row<V>) {
        if self.memory.is_empty() {
            return;
        }
        for v in 0..V {
            let ended = Float::gt(done[v], f32x16::ZERO);
            self.keep[v] = ended.select(f32x16::ZERO, f32x16::ONE);
            for row in &mut self.memory {
                row[v] = ended.select(f32x16::ZERO, row[v]);
            }
        }
    }

    /// Adds gamma V(final_obs) to the rewards of truncated steps; they are rare, so 16 environments at a time. The state is that
    /// before the reset.
    fn bootstrap(&mut self, horizon: &Horizon<'_>, rewards: &mut Row<V>, bootstraps: [u32; V]) {
        let gamma = f32x16::splat(horizon.config.gamma as f32);
        for (v, bits) in bootstraps.into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
            for (to, from) in self.single_obs.iter_mut().zip(self.final_obs.iter().skip(v).step_by(V)) {
                *to = *from;
            }
            for (x, (shift, scale)) in self.single_obs.iter_mut().zip(horizon.obs_norm) {
                *x = normalised(*x, *shift, *scale, horizon.config.clip_obs);
            }
            let seen = match &self.packing {
                None => &self.single_obs,
                Some(packing) => {
                    let input = bytemuck::cast_slice_mut(&mut self.single_seen);
                    expand::<1>(packing, bytemuck::cast_slice(&self.single_obs), input);
                    &self.single_seen
                }
            };
            let seen = observation(horizon.policy, seen);
            for (to, from) in self.single_memory.iter_mut().zip(&self.memory) {
                *to = [from[v]];
            }
            horizon.policy.critic(seen, [bits as u16], &self.single_memory, &mut self.single);
            // Which actions would be legal there is not known.
            let [value] = self.single_head.value(&self.single);
            let mask = Wide::<16>::from_bits(bits);
            let bonus = mask.select(gamma * value, f32x16::ZERO);
            rewards[v] += bonus;
        }
    }

    /// V of the observation after the last step.
    fn value(&mut self, horizon: &Horizon<'_>) -> Row<V> {
        self.prepare_inputs(horizon, false);
        self.judge(horizon, horizon.config.num_steps - 1);
        let seen = if self.has_prepared_inputs(horizon) { &self.seen } else { &self.obs };
        let memory = before_move(&self.memory, self.turns.as_ref(), &mut self.own_memory);
        let seen = observation(horizon.policy, seen);
        horizon.policy.critic(seen, first_lanes(self.count), memory, &mut self.activations);
        self.head.set_mask(&self.mask);
        self.head.value(&self.activations)
    }

    /// Whether the network's inputs differ from the stored observations.
    fn has_prepared_inputs(&self, horizon: &Horizon<'_>) -> bool {
        self.packing.is_some() || !horizon.obs_norm.is_empty()
    }

    /// Computes the network's inputs from the observations: unpacks them, or normalises them with the statistics of this rollout. With
    /// `count`, the observations also enter the statistics of the next rollout.
    fn prepare_inputs(&mut self, horizon: &Horizon<'_>, count: bool) {
        if let Some(packing) = &self.packing {
            let input = bytemuck::cast_slice_mut(&mut self.seen);
            return expand::<V>(packing, bytemuck::cast_slice(&self.obs), input);
        }
        if horizon.obs_norm.is_empty() {
            return;
        }
        if count {
            let flat: &[f32] = bytemuck::cast_slice(&self.obs);
            for (v, sums) in self.obs_sums.iter_mut().enumerate() {
                sums.add(in_block(self.count, v), |feature| &flat[(feature * V + v) * LANES..]);
            }
        }
        let rows = self.seen.as_chunks_mut::<V>().0.iter_mut().zip(self.obs.as_chunks::<V>().0);
        for ((to, from), (shift, scale)) in rows.zip(horizon.obs_norm) {
            for v in 0..V {
                to[v] = normalised(from[v], *shift, *scale, horizon.config.clip_obs);
            }
        }
    }
}

/// The state before a step: of `memory` that of the side to move, if there are two.
fn before_move<'a, const V: usize>(
    memory: &'a [Row<V>],
    turns: Option<&Turns<V>>,
    own: &'a mut [Row<V>],
) -> &'a [Row<V>] {
    let Some(turns) = turns else { return memory };
    for (side, of_side) in memory.chunks_exact(own.len().max(1)).enumerate() {
        for (to, from) in own.iter_mut().zip(of_side) {
            *to = core::array::from_fn(|v| turns.moves(side, v).select(from[v], to[v]));
        }
    }
    own
}

/// Stores the state after a step: of the side that moved, if there are two.
fn after_move<const V: usize>(after: &[Row<V>], turns: Option<&Turns<V>>, memory: &mut [Row<V>]) {
    let Some(turns) = turns else { return memory.copy_from_slice(after) };
    for (side, of_side) in memory.chunks_exact_mut(after.len().max(1)).enumerate() {
        for (to, from) in of_side.iter_mut().zip(after) {
            *to = core::array::from_fn(|v| turns.moves(side, v).select(from[v], to[v]));
        }
    }
}

/// `(x - shift) scale`, clipped.
#[inline(always)]
pub fn normalised(x: f32x16, shift: f32, scale: f32, clip: f64) -> f32x16 {
    let x = (x - f32x16::splat(shift)) * f32x16::splat(scale);
    Float::clamp(x, Float::splat(-clip), Float::splat(clip))
}

/// How many of the first `count` environments of a tile are in its block `v` of 16.
pub(crate) fn in_block(count: usize, v: usize) -> usize {
    count.saturating_sub(v * LANES).min(LANES)
}

/// Observations laid out `(words, V)`, as the policy takes them.
pub fn observation<'a, const V: usize>(policy: &Policy, obs: &'a [f32x16]) -> Observation<'a, V> {
    match policy.network().architecture.input {
        Input::Dense(_) => Observation::Dense(obs.as_chunks::<V>().0),
        Input::Bits(_) => Observation::Bits(bytemuck::cast_slice::<_, u32x16>(obs).as_chunks::<V>().0),
    }
}

/// Numbers in [0, 1) for [`PolicyHead::sample`] at `step`, `[component]`, from the draws of each 16 environments.
pub fn draw_uniforms<const V: usize>(
    draws: &mut [ActionDraws<Wide<16>>],
    step: u64,
    uniforms: &mut [Row<V>],
) {
    let count = uniforms.len() as u32;
    for (component, row) in uniforms.iter_mut().enumerate() {
        for (uniform, draws) in row.iter_mut().zip(draws.iter_mut()) {
            *uniform = unit::<Wide<16>>(draws.bits(step, component as u32, count));
        }
    }
}
