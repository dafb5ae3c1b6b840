//! The CPU [`Backend`]: tiles of environments and one learner on its own thread pool.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use operant_env::versus::{PLAYER, evaluated};
use operant_env::{ActionSpace, AnyEnv, EnvCounters, EnvSpec};
use operant_metrics::Record;
use rayon::prelude::*;

use crate::LearnerState;
use crate::backend::{Backend, EpisodeRecording, EvalActions, Evaluation, LearnError, Ticket, UpdateStats};
use crate::config::{Config, CoreKind, Intrinsic};
use crate::cpu::batch::Batch;
use crate::cpu::network::policy::Policy;
use crate::cpu::network::tile::{LANES, TILE_VECTORS};
use crate::cpu::off_policy::Replaying;
use crate::cpu::off_policy::given::{Given, obs_sums};
use crate::cpu::off_policy::replay::Replay;
use crate::cpu::rnd::Rnd;
use crate::cpu::rollout::episodes::EpisodeStats;
use crate::cpu::rollout::{Horizon, Tile};
use crate::cpu::threads::pool::{CpuOptions, pool};
use crate::cpu::threads::timers::PartTimes;
use crate::cpu::update::Learner;
use crate::evaluate::{EvalInputs, evaluate_on};
use crate::group::{Alone, Group, agreed, check_shares, gathered};
use crate::network::{Architecture, Network, init_params};
use crate::normalise::{NormSums, RunningNorm};
use crate::pool::Pool;
use crate::sample::SampleLayout;
use crate::snapshot::Snapshot;

/// Up to this many environments, tiles have one block by default: larger tiles take less time per block, but leave fewer tiles
/// for the threads.
const NARROW: usize = 64;

/// Blocks of 16 environments in a tile: 1, 2 or 4.
fn blocks(config: &Config, options: &CpuOptions) -> usize {
    match options.rollout_tile {
        0 if config.num_envs <= NARROW => 1,
        0 => TILE_VECTORS,
        environments => (environments / LANES).clamp(1, TILE_VECTORS),
    }
}

/// The CPU backend for `env` on `threads` threads; their number changes the time, never a result.
///
/// # Errors
/// When the configuration cannot be trained with this environment, or the system gives no threads.
pub fn backend(
    env: Arc<dyn AnyEnv>,
    config: &Config,
    threads: usize,
) -> Result<Box<dyn Backend>, LearnError> {
    Ok(backend_with(env, config, &CpuOptions::new(threads))?.backend)
}

/// A CPU backend for measurements and comparisons: it can play a rollout without an update, expose the samples, and time the
/// parts of its work.
pub trait Instrumented: Backend {
    /// Its thread pool.
    fn pool(&self) -> Arc<rayon::ThreadPool>;
    /// Plays one rollout, advantages included, without an update. Must be called on a thread of [`Instrumented::pool`].
    ///
    /// # Errors
    /// When an environment failed.
    fn roll(&mut self) -> Result<(), LearnError>;
    /// Replaces the parameters.
    fn set_params(&mut self, params: &[f32]);
    /// The samples of the last rollout.
    fn batch(&self) -> &Batch;
    /// `(N, leaves + 2)`: the running environments.
    fn environments(&self) -> Vec<u32>;
    /// `(N, states)`: the state of layers with memory; in self-play of each side.
    fn memory(&self) -> Vec<f32>;
    /// Running statistics of observations and of discounted returns.
    fn running_norms(&self) -> [&RunningNorm; 2];
    /// Switches phase timers on or off. They cost time and change no result.
    fn time_parts(&mut self, on: bool);
    /// Adds to `times` the time of each part since the last call.
    fn drain_times(&mut self, times: &mut PartTimes);
}

/// A CPU backend that has started.
pub struct StartedBackend {
    /// The backend.
    pub backend: Box<dyn Instrumented>,
    /// Why threads could not be bound to CPUs, in one line. This affects only the time.
    pub unbound: Option<String>,
}

/// The CPU backend for `env` on the threads of `options`; they change the time, never a result.
///
/// # Errors
/// Same as [`backend`].
pub fn backend_with(
    env: Arc<dyn AnyEnv>,
    config: &Config,
    options: &CpuOptions,
) -> Result<StartedBackend, LearnError> {
    backend_in(env, config, options, Arc::new(Alone))
}

/// Like [`backend_with`], for one process of a group, which plays its share of the environments. All processes have to make the same calls in the same
/// order; every process then has the parameters, statistics and snapshots of a single process that plays all environments.
///
/// # Errors
/// The errors of [`backend`], and when the processes cannot have equal shares.
pub fn backend_in(
    env: Arc<dyn AnyEnv>,
    config: &Config,
    options: &CpuOptions,
    group: Arc<dyn Group>,
) -> Result<StartedBackend, LearnError> {
    fn started<const V: usize>(
        env: Arc<dyn AnyEnv>,
        config: &Config,
        options: &CpuOptions,
        group: Arc<dyn Group>,
    ) -> Result<StartedBackend, LearnError> {
        let (backend, unbound) = CpuBackend::<V>::on(env, config, options, group)?;
        Ok(StartedBackend { backend: Box::new(backend), unbound })
    }
    check_shares(config, &*group)?;
    match blocks(config, options) {
        1 => started::<1>(env, config, options, group),
        2 => started::<2>(env, config, options, group),
        _ => started::<TILE_VECTORS>(env, config, options, group),
    }
}

/// Environments in tiles of V x 16, and the learner.
pub(super) struct CpuBackend<const V: usize> {
    pub(super) env: Arc<dyn AnyEnv>,
    pub(super) actions: ActionSpace,
    pub(super) config: Config,
    pub(super) tiles: Vec<Tile<V>>,
    pub(super) policy: Policy,
    learner: Learner,
    /// Instead of the learner and the batch, for an algorithm with a replay.
    pub(super) replaying: Option<Replaying>,
    pub(super) state: LearnerState,
    /// With `intrinsic = "rnd"`.
    pub(super) rnd: Option<Rnd>,
    batch: Batch,
    pub(super) obs_norm: RunningNorm,
    pub(super) reward_norm: RunningNorm,
    /// Updates done; each advances the global step by T.
    pub(super) updates: u64,
    pub(super) nonfinite_in_a_row: u64,
    finished: std::collections::VecDeque<UpdateStats>,
    pub(super) pulse: Arc<AtomicU64>,
    pub(super) group: Arc<dyn Group>,
    /// Dropped after the tiles: the system ends worker processes of environments together with the thread that started them.
    pool: Arc<rayon::ThreadPool>,
}

impl<const V: usize> CpuBackend<V> {
    /// Makes a backend, and returns why threads could not be bound, if so.
    fn on(
        env: Arc<dyn AnyEnv>,
        config: &Config,
        options: &CpuOptions,
        group: Arc<dyn Group>,
    ) -> Result<(Self, Option<String>), LearnError> {
        let spec = env.spec();
        check_players(&*env, config)?;
        Pool::of(&*env).into_iter().for_each(|pool| pool.restore(None));
        let architecture = Architecture::of(&spec, config)?;
        let (pool, unbound) = pool(options)?;
        let layout = SampleLayout::of_sides(&architecture, env.masked(), spec.sides());
        let network = Network { bf16: options.bf16, ..Network::new(architecture) };
        let pulse = Arc::default();
        let replaying = Replaying::new(&*env, &network, config, &pulse)?;
        let params = init_params(&network, config.seed);
        let targets = if replaying.is_some() { params.clone() } else { Vec::new() };
        let state = LearnerState { targets, ..LearnerState::new(params) };
        let policy = Policy::new(&network);
        let width = V * LANES;
        // Environments of this process.
        let own = config.num_envs / group.size();
        let before = group.rank() * own;
        let tiles = (before..before + own)
            .step_by(width)
            .map(|first| {
                let count = width.min(before + own - first);
                Tile::new(&*env, config, &policy, options.lanes(), first as u32, count)
            })
            .collect::<Result<_, _>>()?;
        let features = if config.norm_obs { spec.obs.size() } else { 0 };
        let batch = Batch::new(layout.clone(), own, if replaying.is_some() { 0 } else { config.num_steps })
            .with_states(config.sequence(), network.states * layout.memories);
        let batch = batch.with_outcomes(config.recomputes());
        let learner = |network: Network, config: Config| {
            Learner::new(network, layout.clone(), config)
                .pulsing(&pulse)
                .waiting(options.waiting)
                .in_group(Arc::clone(&group))
        };
        let rnd = Rnd::new(&network.architecture, config, learner);
        let learner = learner(network, config.clone());
        let backend = Self {
            env,
            config: config.clone(),
            group,
            pool: Arc::new(pool),
            tiles,
            policy,
            batch,
            pulse,
            learner,
            replaying,
            state,
            rnd,
            obs_norm: RunningNorm::new(features),
            reward_norm: RunningNorm::new(1),
            updates: 0,
            nonfinite_in_a_row: 0,
            finished: Default::default(),
            actions: spec.actions,
        };
        Ok((backend, unbound))
    }

    /// `(shift, scale)` of observations; empty when they are not normalised.
    pub(super) fn obs_scales(&self) -> Vec<(f32, f32)> {
        if self.config.norm_obs { self.obs_norm.shift_scale() } else { Vec::new() }
    }

    /// What trains the policy and what trains other networks.
    fn learners(&mut self) -> impl Iterator<Item = &mut Learner> {
        std::iter::once(&mut self.learner).chain(self.rnd.as_mut().map(Rnd::learner))
    }

    /// One rollout of all tiles. Returns the episodes that ended and GAE's share of the time.
    ///
    /// # Errors
    /// When an environment failed.
    fn roll(&mut self) -> Result<(EpisodeStats, f64), LearnError> {
        let network = self.policy.network();
        self.policy.pack(&network.with_values(&self.state.params, &self.state.value_norm));
        if let Some(pool) = Pool::of(&*self.env) {
            pool.begin(&self.state.params, self.updates, &self.config);
        }
        let obs_norm = self.obs_scales();
        let horizon = Horizon {
            config: &self.config,
            policy: &self.policy,
            actions: &self.actions,
            step: self.updates * self.config.num_steps as u64,
            pulse: &self.pulse,
            obs_norm: &obs_norm,
            reward_scale: if self.config.norm_reward { self.reward_norm.scale() } else { 1.0 },
            exploration: (self.config.algorithm.declaration().exploration)(&self.config).at(self.updates)
                as f32,
            // In the first rollout observations are not yet normalised.
            rnd: self.rnd.as_mut().filter(|_| self.updates > 0 || obs_norm.is_empty()).map(Rnd::judge),
        };
        let seconds: f64 = {
            let samples = self.batch.tiles_mut(V);
            let work = self.tiles.par_iter_mut().zip(samples).with_max_len(1);
            let times: Result<Vec<f64>, _> = work
                .map(|(tile, mut samples)| {
                    let start = Instant::now();
                    tile.roll(&horizon, &mut samples)?;
                    Ok(start.elapsed().as_secs_f64())
                })
                .collect::<Result<_, LearnError>>();
            agreed(&*self.group, times)?.iter().sum::<f64>()
        };
        let episodes = self.statistics()?;
        let gae: f64 = self.tiles.iter().map(|tile| tile.gae_seconds).sum();
        Ok((episodes, gae / seconds))
    }

    /// Merges what was frozen while the tiles played, in their order. Returns the episodes that ended.
    ///
    /// # Errors
    /// When a process is lost.
    pub(super) fn statistics(&mut self) -> Result<EpisodeStats, LearnError> {
        if self.config.norm_obs {
            let sums = self.tiles.iter().flat_map(|tile| &tile.obs_sums[..tile.blocks()]);
            self.obs_norm.merge(&of_all(&*self.group, sums, self.obs_norm.mean.len())?);
        }
        if self.config.norm_reward {
            let sums = self.tiles.iter().flat_map(|tile| &tile.reward_sums[..tile.blocks()]);
            self.reward_norm.merge(&of_all(&*self.group, sums, 1)?);
        }
        if let Some(rnd) = &mut self.rnd {
            let sums = self.tiles.iter().flat_map(|tile| tile.novelty_sums());
            rnd.merge(&of_all(&*self.group, sums, 1)?);
        }
        let own = self.tiles.iter().flat_map(|tile| &tile.episodes[..tile.blocks()]);
        let metrics = self.env.spec().measured();
        let own: Vec<f64> = own.flat_map(|episodes| episodes.numbers(metrics)).collect();
        let all = gathered(&*self.group, &own)?;
        let blocks = || all.chunks_exact(EpisodeStats::count_of_numbers(metrics)).map(EpisodeStats::of);
        if let Some(pool) = Pool::of(&*self.env) {
            pool.count(blocks());
        }
        let mut episodes = EpisodeStats::default();
        blocks().for_each(|block| episodes.merge(&block));
        Ok(episodes)
    }

    /// Mean reward for exploring of a rollout's steps; NaN without any.
    fn intrinsic_reward(&self, episodes: &EpisodeStats) -> f64 {
        let Config { intrinsic, num_envs, num_steps, .. } = self.config;
        if intrinsic == Intrinsic::None {
            f64::NAN
        } else {
            episodes.intrinsic / (num_envs * num_steps) as f64
        }
    }

    fn update(&mut self) -> Result<UpdateStats, LearnError> {
        if self.replaying.is_some() {
            return self.cycle(false);
        }
        let start = Instant::now();
        let (episodes, gae_share) = self.roll()?;
        let rolled = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut learned = self.learner.update(&mut self.state, &mut self.batch, self.updates)?;
        if let Some(rnd) = &mut self.rnd {
            learned.nonfinite += rnd.learn(&mut self.batch, self.updates)?;
        }
        let time_update = start.elapsed().as_secs_f64();

        self.nonfinite_in_a_row = if learned.nonfinite > 0 { self.nonfinite_in_a_row + 1 } else { 0 };
        let ticket = Ticket(self.updates);
        self.updates += 1;
        Ok(UpdateStats {
            ticket,
            env_steps: self.updates * (self.config.num_envs * self.config.num_steps) as u64,
            episodes: episodes.count,
            nonfinite_in_a_row: self.nonfinite_in_a_row,
            metrics: Record {
                time_rollout: rolled * (1.0 - gae_share),
                time_gae: rolled * gae_share,
                time_update,
                bytes_h2d: 0.0,
                bytes_d2h: 0.0,
                intrinsic_reward: self.intrinsic_reward(&episodes),
                ..episodes.add_to(learned.metrics)
            },
            ..learned
        })
    }
}

/// Refuses what self-play does not support.
pub(crate) fn check_players(env: &dyn AnyEnv, config: &Config) -> Result<(), LearnError> {
    let EnvSpec { name, players, .. } = &env.spec();
    let (key, problem) = if *players == 1 {
        return Ok(());
    } else if config.algorithm.declaration().has_replay() {
        ("algorithm", format!("\"{}\" does not learn by self-play", config.algorithm))
    } else if config.recomputes() {
        ("recompute_advantages", "it is not supported in self-play".to_owned())
    } else if config.intrinsic != Intrinsic::None {
        ("intrinsic", format!("\"{}\" is not supported in self-play", config.intrinsic))
    } else if !env.leaves().iter().any(|leaf| leaf.name == PLAYER) {
        let what = format!("{name} has {players} players, and its state has no `{PLAYER}` to move");
        return Err(LearnError::Refused(what));
    } else {
        return Ok(());
    };
    let problem = format!("{problem}; the environment is {name}, with {players} players");
    let remedy = "leave it at its default, or train one side with --opponent random or RUN".to_owned();
    Err(LearnError::Config { key, problem, remedy })
}

/// The sums of all processes, in the order of environments.
///
/// # Errors
/// When a process is lost.
fn of_all<'a>(
    group: &dyn Group,
    own: impl Iterator<Item = &'a NormSums>,
    features: usize,
) -> Result<Vec<NormSums>, LearnError> {
    let numbers: Vec<f64> = own.flat_map(NormSums::numbers).collect();
    Ok(gathered(group, &numbers)?.chunks_exact(1 + 2 * features).map(NormSums::of).collect())
}

impl<const V: usize> Backend for CpuBackend<V> {
    fn enqueue_update(&mut self) -> Result<Ticket, LearnError> {
        let pool = Arc::clone(&self.pool);
        let stats = pool.install(|| self.update())?;
        let ticket = stats.ticket;
        self.finished.push_back(stats);
        Ok(ticket)
    }

    fn poll(&mut self, _wait: bool) -> Result<Option<UpdateStats>, LearnError> {
        Ok(self.finished.pop_front())
    }

    fn evaluate_until(
        &mut self,
        episodes: Range<usize>,
        round: u64,
        actions: EvalActions,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Evaluation, LearnError> {
        let obs_norm = self.obs_scales();
        // In f32, as the trained policy is used.
        let mut exact = None;
        let policy = match self.policy.network() {
            Network { bf16: None, .. } => &mut self.policy,
            network => exact.insert(Policy::new(&Network { bf16: None, ..network.clone() })),
        };
        policy.pack(&self.state.params);
        let env = evaluated(&self.env);
        let inputs = EvalInputs {
            env: &*env,
            policy,
            seed: self.config.seed,
            obs_norm: &obs_norm,
            clip_obs: self.config.clip_obs,
            pulse: &self.pulse,
            actions,
        };
        evaluate_on(&self.pool, &inputs, episodes, round, stop)
    }

    fn pulse(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pulse)
    }

    fn scene(&mut self) -> Option<EpisodeRecording> {
        if !self.saves_episodes() {
            return None;
        }
        self.tiles.first_mut()?.recorder.take(&*self.env)
    }

    fn how(&self) -> Option<String> {
        self.policy.network().bf16.map(|unit| format!("products of fully connected layers in bf16 by {unit}"))
    }

    fn messages(&mut self) -> Vec<String> {
        self.env.messages()
    }

    fn env_counters(&self) -> Option<EnvCounters> {
        let EnvCounters { waited_s, restarts } = self.env.counters()?;
        Some(EnvCounters { waited_s: waited_s / self.pool.current_num_threads() as f64, restarts })
    }

    fn exchange_seconds(&self) -> Option<f64> {
        (self.group.size() > 1).then(|| self.group.exchange_time().as_secs_f64())
    }

    /// Environments without a state cannot be saved.
    fn saves_episodes(&self) -> bool {
        !self.env.leaves().is_empty()
    }

    fn save(&mut self) -> Result<Snapshot, LearnError> {
        self.snapshot()
    }

    fn load(&mut self, snapshot: &Snapshot) -> Result<(), LearnError> {
        self.restore(snapshot)
    }

    fn begin_with(&mut self, given: &Given) -> Result<u64, LearnError> {
        let Some(replaying) = &mut self.replaying else {
            return Err(LearnError::Refused(format!("{} does not use a replay", self.config.algorithm)));
        };
        let spec = self.env.spec();
        if (&given.obs, &given.actions) != (&spec.obs, &spec.actions) {
            return Err(LearnError::Refused(format!(
                "the replay is of {} (observations: {}; actions: {}), and the run trains {} (observations: {}; actions: {})",
                given.env, given.obs, given.actions, spec.name, spec.obs, spec.actions
            )));
        }
        let refused = |problem: &str| Err(LearnError::Refused(problem.to_owned()));
        if self.config.core != CoreKind::Mlp {
            return refused(&format!(
                "a run with core = \"{}\" cannot begin with given transitions: they have no states of its memory",
                self.config.core
            ));
        }
        if given.layout != *replaying.replay.layout() {
            return refused(
                "the replay is of a run with a core, or with other masks of actions: its rows differ",
            );
        }
        let is_numbers = self.policy.network().architecture.packing.is_none();
        let (mut taken, features) = (Ok(0), if is_numbers { self.obs_norm.mean.len() } else { 0 });
        (given.read)(&mut |heads, words| {
            taken = replaying.replay.take(heads, words);
            if features > 0 && taken.is_ok() {
                self.obs_norm.merge([&obs_sums(heads, words, &replaying.replay, features)]);
            }
        });
        replaying.given = taken?;
        replaying.filled()?;
        Ok(replaying.given)
    }

    fn replay(&mut self) -> Result<Option<Cow<'_, Replay>>, LearnError> {
        Ok(self.replaying.as_ref().map(|replaying| Cow::Borrowed(&replaying.replay)))
    }

    fn fill_replay(
        &mut self,
        fill: &mut dyn FnMut(&mut Replay) -> Result<(), LearnError>,
    ) -> Result<(), LearnError> {
        let Some(replaying) = &mut self.replaying else { return Ok(()) };
        fill(&mut replaying.replay)?;
        replaying.filled()
    }
}

impl<const V: usize> Instrumented for CpuBackend<V> {
    fn pool(&self) -> Arc<rayon::ThreadPool> {
        Arc::clone(&self.pool)
    }

    fn roll(&mut self) -> Result<(), LearnError> {
        if self.replaying.is_some() {
            return self.cycle(true).map(drop);
        }
        std::hint::black_box(CpuBackend::roll(self)?);
        // Random numbers are functions of the global step.
        self.updates += 1;
        Ok(())
    }

    fn set_params(&mut self, params: &[f32]) {
        self.state.params.copy_from_slice(params);
    }

    fn batch(&self) -> &Batch {
        &self.batch
    }

    fn environments(&self) -> Vec<u32> {
        CpuBackend::environments(self)
    }

    fn memory(&self) -> Vec<f32> {
        CpuBackend::memory(self)
    }

    fn running_norms(&self) -> [&RunningNorm; 2] {
        [&self.obs_norm, &self.reward_norm]
    }

    fn time_parts(&mut self, on: bool) {
        self.tiles.iter_mut().for_each(|tile| tile.timer.switch(on));
        self.learners().for_each(|learner| learner.time_parts(on));
        self.replaying.iter_mut().for_each(|replaying| replaying.learner.time_parts(on));
    }

    fn drain_times(&mut self, times: &mut PartTimes) {
        self.tiles.iter_mut().for_each(|tile| tile.timer.drain(times));
        self.learners().for_each(|learner| learner.drain_times(times));
        self.replaying.iter_mut().for_each(|replaying| replaying.learner.drain_times(times));
    }
}
