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
use crate::cpu::rollout::Horizon;
use crate::cpu::update::Means;
use crate::network::{Input, Network};
use crate::state::SavedReplay;

/// What a backend has for an algorithm with a replay.
pub(crate) struct Replaying {
    rules: Rules,
    learner: ReplayLearner,
    replay: Replay,
    priorities: Option<Priorities>,
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
        let refused = |problem: &str, remedy: &str| LearnError::Config {
            key: "algorithm",
            problem: format!("\"{}\" {problem}", config.algorithm),
            remedy: remedy.to_owned(),
        };
        if network.bf16.is_some() {
            return Err(refused("learns in f32, and precision is bf16", "set precision = \"f32\""));
        }
        if matches!(rules, Rules::ActorCritic(_)) {
            check_input(env, network, config)?;
        }
        let layout = ReplayLayout::new(&network.architecture, env.masked());
        let learner = ReplayLearner::new(network, &layout, config, Arc::clone(pulse));
        let replay = Replay::new(layout, config.num_envs, ReplayLayout::rows(config));
        Ok(Some(Self { rules, learner, priorities: Priorities::of(&replay, config), replay }))
    }

    /// What a checkpoint holds of the replay.
    pub fn saved(&self) -> SavedReplay {
        let priorities = self.priorities.as_ref().map(|priorities| priorities.saved(self.replay.written()));
        SavedReplay { priorities, ..self.replay.saved() }
    }

    /// Continues with the replay of a checkpoint, or with an empty one, after the learner's state was replaced.
    ///
    /// # Errors
    /// When the saved one is of other environments, or larger.
    pub fn restore(&mut self, saved: Option<&SavedReplay>) -> Result<(), LearnError> {
        self.learner.forget();
        self.replay.restore(saved)?;
        let Some(priorities) = &mut self.priorities else { return Ok(()) };
        priorities.restore(&self.replay, saved.and_then(|saved| saved.priorities.as_ref()))
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

/// Minibatches that are due in step `step` of all environments.
pub(crate) fn due(config: &Config, step: u64) -> u64 {
    let Some(step) = step.checked_sub(config.learning_starts.div_ceil(config.num_envs) as u64) else {
        return 0;
    };
    let until = |steps: u64| (steps as f64 * config.num_envs as f64 * config.updates_per_step).floor() as u64;
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
        let Some(Replaying { rules, learner, replay, priorities }) = replaying.as_mut() else {
            panic!("the algorithm has no replay")
        };
        let rate = config.learning_rate_in(self.updates, None);
        let noise = (config.algorithm.declaration().exploration)(config).at(self.updates);
        let beta = config.beta().at(self.updates);
        let (mut means, mut minibatches, mut nonfinite) = (Means::default(), 0u64, 0);
        let mut is_packed = false;
        for t in 0..config.num_steps as u64 {
            let number = first + t;
            let is_random = number * (config.num_envs as u64) < config.learning_starts as u64;
            if !is_packed {
                policy.pack_for_rollout(&state.params);
            }
            is_packed = true;
            let horizon = Horizon {
                config,
                policy,
                actions,
                step: first,
                pulse,
                obs_norm: &obs_norm,
                reward_scale: 1.0,
                exploration: if is_random { f32::INFINITY } else { noise as f32 },
            };
            let columns: Vec<_> = replay.tiles_mut(V * LANES).collect();
            let work = tiles.par_iter_mut().zip(columns).with_max_len(1);
            work.map(|(tile, mut columns)| tile.start(&horizon, t, &mut columns))
                .collect::<Result<(), LearnError>>()?;
            // The environments step while minibatches are learned from, where they have processes of their own.
            let begun = Instant::now();
            let is_filled = !plays && replay.len() >= config.learning_starts.min(config.buffer_size);
            for _ in 0..if is_filled { due(config, number) } else { 0 } {
                let number = state.step;
                let chosen = priorities.as_mut().map_or(&[][..], |priorities| {
                    priorities.draw(replay, config, number, beta);
                    &priorities.chosen
                });
                let sampling = Sampling { config, replay, number, obs_norm: &obs_norm, chosen };
                let learned = learner.learn(*rules, state, sampling, rate);
                if let Some(priorities) = priorities.as_mut().filter(|_| learned.is_finite) {
                    priorities.renew(learner.errors());
                }
                (minibatches, is_packed) = (minibatches + 1, false);
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
