//! An update of an algorithm with a replay: steps of all environments, and minibatches between them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use operant_env::AnyEnv;
use operant_metrics::Record;
use rayon::prelude::*;

use super::learner::{ActorCritic, ReplayLearner};
use super::replay::{Replay, ReplayLayout, Sampling};
use crate::algorithms::{Learns, Measured};
use crate::backend::{LearnError, Ticket, UpdateStats};
use crate::config::Config;
use crate::cpu::backend::CpuBackend;
use crate::cpu::network::tile::LANES;
use crate::cpu::rollout::Horizon;
use crate::cpu::update::Means;
use crate::network::{Input, Network};

/// What a backend has for an algorithm with a replay.
pub(crate) struct Replaying {
    rules: &'static dyn ActorCritic,
    pub learner: ReplayLearner,
    pub replay: Replay,
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
        let refused = |problem: &str, remedy: &str| LearnError::Config {
            key: "algorithm",
            problem: format!("\"{}\" {problem}", config.algorithm),
            remedy: remedy.to_owned(),
        };
        if network.bf16.is_some() {
            return Err(refused("learns in f32, and precision is bf16", "set precision = \"f32\""));
        }
        if matches!(network.architecture.input, Input::Bits(_)) {
            let problem = format!("takes real numbers, but {} observes {}", env.spec().name, env.spec().obs);
            return Err(refused(&problem, "set algorithm = \"ppo\""));
        }
        let layout = ReplayLayout::new(&network.architecture);
        let learner = ReplayLearner::new(network, &layout, config, Arc::clone(pulse));
        Ok(Some(Self {
            rules,
            learner,
            replay: Replay::new(layout, config.num_envs, ReplayLayout::rows(config)),
            given: 0,
        }))
    }
}

/// Minibatches that are due in step `step` of all environments, of a run that begins with `given` transitions.
fn due(config: &Config, given: u64, step: u64) -> u64 {
    let starts = (config.learning_starts as u64).saturating_sub(given);
    let Some(step) = step.checked_sub(starts.div_ceil(config.num_envs as u64)) else {
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
        let Some(Replaying { rules, learner, replay, given }) = replaying.as_mut() else {
            panic!("the algorithm has no replay")
        };
        let rate = config.learning_rate_in(self.updates, None);
        let noise = (config.algorithm.declaration().exploration)(config);
        let (mut means, mut minibatches, mut nonfinite) = (Means::default(), 0u64, 0);
        for t in 0..config.num_steps as u64 {
            let number = first + t;
            let is_random = number * (config.num_envs as u64) + *given < config.learning_starts as u64;
            policy.pack_for_rollout(&state.params);
            let horizon = Horizon {
                config,
                policy,
                actions,
                step: first,
                pulse,
                obs_norm: &obs_norm,
                reward_scale: 1.0,
                exploration: if is_random { f32::INFINITY } else { noise.at(self.updates) as f32 },
            };
            let columns: Vec<_> = replay.tiles_mut(V * LANES).collect();
            let work = tiles.par_iter_mut().zip(columns).with_max_len(1);
            work.map(|(tile, mut columns)| tile.start(&horizon, t, &mut columns))
                .collect::<Result<(), LearnError>>()?;
            // The environments step while minibatches are learned from, where they have processes of their own.
            let begun = Instant::now();
            let is_filled =
                !plays && replay.len() >= config.learning_starts.min(config.buffer_size) && replay.has_all();
            for _ in 0..if is_filled { due(config, *given, number) } else { 0 } {
                let sampling = Sampling { config, replay, number: state.step, obs_norm: &obs_norm };
                let learned = learner.learn(*rules, state, sampling, rate);
                minibatches += 1;
                match learned.is_finite {
                    true => learned.add_to(&mut means, config.batch_size),
                    false => nonfinite += 1,
                }
            }
            learning += begun.elapsed();
            let columns: Vec<_> = replay.tiles_mut(V * LANES).collect();
            let work = tiles.par_iter_mut().zip(columns).with_max_len(1);
            work.map(|(tile, mut columns)| tile.finish(&mut columns)).collect::<Result<(), LearnError>>()?;
        }
        let replay_size = replay.len() as f64;
        let alpha = self.policy.network().log_alpha.map(|at| f64::from(self.state.params[at]).exp());
        let measured = if means.is_empty() { Measured::NONE } else { means.measured(rate) };
        let measured = Measured { alpha: alpha.unwrap_or(f64::NAN), ..measured };
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
