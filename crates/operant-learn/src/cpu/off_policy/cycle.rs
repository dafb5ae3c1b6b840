//! An update of an algorithm with a replay: steps of all environments, and minibatches between them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use operant_env::{AnyEnv, EnvSpec};
use operant_metrics::Record;
use rayon::prelude::*;

use super::learner::ReplayLearner;
use super::priorities::Priorities;
use super::replay::{Replay, ReplayLayout, Sampling};
use crate::algorithms::{Learns, Measured, Rules};
use crate::backend::{LearnError, Ticket, UpdateStats};
use crate::config::Config;
use crate::cpu::backend::CpuBackend;
use crate::cpu::network::tile::LANES;
use crate::cpu::rollout::{Horizon, Tile};
use crate::cpu::threads::timers::Part;
use crate::cpu::update::Means;
use crate::network::{Input, Network};
use crate::state::SavedPriorities;

/// What a backend has for an algorithm with a replay.
pub(crate) struct Replaying {
    rules: Rules,
    pub learner: ReplayLearner,
    pub replay: Replay,
    priorities: Option<Priorities>,
    /// Priorities of a checkpoint, until the replay has its rows.
    saved_priorities: Option<SavedPriorities>,
    /// Transitions that the run began with.
    pub given: u64,
}

impl Replaying {
    /// That of the configuration's algorithm, if it has a replay.
    ///
    /// # Errors
    /// When it cannot be trained here.
    pub fn new(
        env: &dyn AnyEnv,
        network: &Network,
        config: &Config,
        pulse: &Arc<AtomicU64>,
    ) -> Result<Option<Self>, LearnError> {
        let Learns::Replay(rules) = config.algorithm.declaration().learns else { return Ok(None) };
        if matches!(rules, Rules::ActorCritic(_)) {
            check_input(env, network, config)?;
        }
        check_free(env, config)?;
        let layout = ReplayLayout::new(&network.architecture, env.masked());
        let learner = ReplayLearner::new(network, &layout, config, Arc::clone(pulse));
        let replay = Replay::new(layout, config.num_envs, ReplayLayout::rows(config));
        let priorities = Priorities::of(&replay, config);
        Ok(Some(Self { rules, learner, priorities, saved_priorities: None, replay, given: 0 }))
    }

    /// What a snapshot holds of the replay besides its rows.
    pub fn saved(&self) -> Option<SavedPriorities> {
        self.priorities.as_ref().map(|priorities| priorities.saved(self.replay.written()))
    }

    /// Continues with an empty replay, to be filled, after the learner's state was replaced.
    pub fn restore(&mut self, given: u64, priorities: Option<SavedPriorities>) -> Result<(), LearnError> {
        self.learner.forget();
        self.replay.clear();
        (self.given, self.saved_priorities) = (given, None);
        self.filled()?;
        self.saved_priorities = priorities;
        Ok(())
    }

    /// The replay was filled.
    ///
    /// # Errors
    /// When the priorities of the checkpoint are those of another replay.
    pub fn filled(&mut self) -> Result<(), LearnError> {
        // Those of a replay that the checkpoint does not have are of no use.
        let saved = self.saved_priorities.take().filter(|_| !self.replay.is_empty());
        let Some(priorities) = &mut self.priorities else { return Ok(()) };
        priorities.restore(&self.replay, saved.as_ref())
    }
}

/// Refuses what networks with critics of actions do not read.
///
/// # Errors
/// When the environment's observations are packed bits.
pub(crate) fn check_input(env: &dyn AnyEnv, network: &Network, config: &Config) -> Result<(), LearnError> {
    let EnvSpec { name, obs, .. } = env.spec();
    match network.architecture.input {
        Input::Dense(_) => Ok(()),
        Input::Bits(_) => Err(LearnError::Config {
            key: "algorithm",
            problem: format!("\"{}\" takes real numbers, but {name} observes {obs}", config.algorithm),
            remedy: "set algorithm = \"ppo\"".to_owned(),
        }),
    }
}

/// Refuses minibatches beyond the ratio where no environment is waited for.
///
/// # Errors
/// When the environment steps in the calling thread.
pub(crate) fn check_free(env: &dyn AnyEnv, config: &Config) -> Result<(), LearnError> {
    if config.max_updates_per_step == 0.0 || env.steps_elsewhere() {
        return Ok(());
    }
    let (most, name) = (config.max_updates_per_step, env.spec().name);
    Err(LearnError::Config {
        key: "max_updates_per_step",
        problem: format!("max_updates_per_step = {most}, but {name} does not step in processes of its own"),
        remedy: "set max_updates_per_step = 0, and choose updates_per_step".to_owned(),
    })
}

/// Minibatches that are due in step `step` of all environments, of a run that begins with `given` transitions and learns from `ratio`
/// minibatches a step.
pub(crate) fn due(config: &Config, ratio: f64, given: u64, step: u64) -> u64 {
    let starts = (config.learning_starts as u64).saturating_sub(given);
    let Some(step) = step.checked_sub(starts.div_ceil(config.num_envs as u64)) else {
        return 0;
    };
    let until = |steps: u64| (steps as f64 * config.num_envs as f64 * ratio).floor() as u64;
    until(step + 1) - until(step)
}

impl<const V: usize> CpuBackend<V> {
    /// One update; without minibatches if it only `plays`.
    ///
    /// # Errors
    /// When an environment failed.
    pub(crate) fn cycle(&mut self, plays: bool) -> Result<UpdateStats, LearnError> {
        let (start, mut learning) = (Instant::now(), Duration::ZERO);
        let obs_norm = self.obs_scales();
        let first = self.updates * self.config.num_steps as u64;
        let Self { config, policy, actions, tiles, state, pulse, replaying, .. } = self;
        let Some(Replaying { rules, learner, replay, priorities, given, .. }) = replaying.as_mut() else {
            panic!("the algorithm has no replay")
        };
        let rate = config.learning_rate_in(self.updates, None);
        let noise = (config.algorithm.declaration().exploration)(config).at(self.updates);
        let beta = config.beta().at(self.updates);
        let (mut means, mut minibatches, mut nonfinite) = (Means::default(), 0u64, 0);
        // Steps since the parameters changed.
        let mut steps = 0;
        for t in 0..config.num_steps as u64 {
            let number = first + t;
            let is_random = number * (config.num_envs as u64) + *given < config.learning_starts as u64;
            let begun = Instant::now();
            learner.timer.start();
            match steps {
                0 => policy.pack_for_step(&state.params),
                1 => policy.pack_for_steps(&state.params),
                _ => {}
            }
            learner.timer.end(Part::Packing);
            learning += begun.elapsed();
            steps += 1;
            let horizon = Horizon {
                config,
                policy,
                actions,
                step: first,
                pulse,
                obs_norm: &obs_norm,
                reward_scale: 1.0,
                exploration: if is_random { f32::INFINITY } else { noise as f32 },
                rnd: None,
            };
            let columns: Vec<_> = replay.tiles_mut(V * LANES).collect();
            let work = tiles.par_iter_mut().zip(columns).with_max_len(1);
            work.map(|(tile, mut columns)| tile.start(&horizon, t, &mut columns))
                .collect::<Result<(), LearnError>>()?;
            // The environments step while minibatches are learned from, where they have processes of their own.
            let begun = Instant::now();
            let is_filled = !plays
                && replay.len() >= config.learning_starts.min(config.buffer_size)
                && replay.all_have(config.rows_to_learn());
            let due = |ratio| if is_filled { due(config, ratio, *given, number) } else { 0 };
            let (least, most) = (due(config.updates_per_step), due(config.max_updates_per_step));
            for minibatch in 0..least.max(most) {
                if minibatch >= least && tiles.iter_mut().all(Tile::has_stepped) {
                    break;
                }
                let number = state.step;
                learner.timer.start();
                let chosen = priorities.as_mut().map_or(&[][..], |priorities| {
                    priorities.draw(replay, config, number, beta);
                    &priorities.chosen
                });
                learner.timer.end(Part::Gather);
                let sampling = Sampling { config, replay, number, obs_norm: &obs_norm, chosen };
                let learned = learner.learn(*rules, state, sampling, rate);
                learner.timer.start();
                if let Some(priorities) = priorities.as_mut().filter(|_| learned.is_finite) {
                    priorities.renew(learner.errors());
                }
                learner.timer.end(Part::Gather);
                (minibatches, steps) = (minibatches + 1, 0);
                match learned.is_finite {
                    true => learned.add_to(&mut means, config.batch_size),
                    false => nonfinite += 1,
                }
            }
            learning += begun.elapsed();
            let columns: Vec<_> = replay.tiles_mut(V * LANES).collect();
            let work = tiles.par_iter_mut().zip(columns).with_max_len(1);
            work.map(|(tile, mut columns)| tile.finish(&mut columns)).collect::<Result<(), LearnError>>()?;
            if let Some(priorities) = priorities {
                priorities.enter(replay);
            }
        }
        let replay_size = replay.len() as f64;
        let alpha = self.policy.network().log_alpha.map(|at| f64::from(self.state.params[at]).exp());
        let measured = if means.is_empty() { Measured::NONE } else { means.measured(rate) };
        let measured = Measured { alpha: alpha.unwrap_or(f64::NAN), epsilon: noise, ..measured };
        let episodes = self.statistics()?;
        self.nonfinite_in_a_row = if nonfinite > 0 { self.nonfinite_in_a_row + 1 } else { 0 };
        let ticket = Ticket(self.updates);
        self.updates += 1;
        let time_update = learning.as_secs_f64();
        let metrics = Record {
            time_rollout: start.elapsed().as_secs_f64() - time_update,
            time_gae: 0.0,
            time_update,
            bytes_h2d: 0.0,
            bytes_d2h: 0.0,
            replay_size,
            minibatches: minibatches as f64,
            ..episodes.add_to((self.config.algorithm.declaration().metrics)(&measured))
        };
        Ok(UpdateStats {
            ticket,
            env_steps: self.updates * (self.config.num_envs * self.config.num_steps) as u64,
            episodes: episodes.count,
            epochs: usize::from(minibatches > 0),
            nonfinite,
            nonfinite_in_a_row: self.nonfinite_in_a_row,
            metrics,
        })
    }
}
