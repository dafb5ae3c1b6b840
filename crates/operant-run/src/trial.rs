//! Training that leaves nothing behind: how fast it goes under some settings, and how soon it solves. For whoever tries settings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_env::AnyEnv;
use operant_learn::{Backend, LearnError, UpdateStats};

use crate::config::Settings;
use crate::device;
use crate::error::Result;
use crate::evaluate::{Attempts, Summary};

/// Updates that a device is given ahead of what it reports.
const IN_FLIGHT: u64 = 2;
/// Share of a measurement's time that goes into warming up, in which rates and caches settle.
const WARM_UP: f64 = 0.2;

/// Training that goes on from update to update.
struct Run {
    backend: Box<dyn Backend>,
    in_flight: u64,
    collected: u64,
}

impl Run {
    fn start(env: &Arc<dyn AnyEnv>, settings: &Settings) -> Result<(Self, Settings)> {
        let chosen =
            device::start(settings, None, |settings, device| device::backend(env, settings, device))?;
        Ok((Self { backend: chosen.backend, in_flight: 0, collected: 0 }, chosen.settings))
    }

    /// The next update's report, with no update enqueued beyond number `last`.
    fn next(&mut self, last: u64) -> std::result::Result<UpdateStats, LearnError> {
        loop {
            while self.in_flight < IN_FLIGHT && self.collected + self.in_flight < last {
                self.backend.enqueue_update()?;
                self.in_flight += 1;
                // What is done at once is told at once.
                if let Some(stats) = self.taken(false)? {
                    return Ok(stats);
                }
            }
            if let Some(stats) = self.taken(true)? {
                return Ok(stats);
            }
        }
    }

    fn taken(&mut self, wait: bool) -> std::result::Result<Option<UpdateStats>, LearnError> {
        let stats = self.backend.poll(wait)?;
        if stats.is_some() {
            self.in_flight -= 1;
            self.collected += 1;
        }
        Ok(stats)
    }
}

/// Environment steps per second of training under these settings, measured for about `time` after the start, and for two updates
/// at least.
///
/// # Errors
/// When no device trains under them, or it fails.
pub fn sps(env: &Arc<dyn AnyEnv>, settings: &Settings, time: Duration) -> Result<f64> {
    let begin = Instant::now();
    let (mut run, chosen) = Run::start(env, settings)?;
    // The first touches memory, and on a GPU loads kernels.
    let warm = begin.elapsed() + time.mul_f64(WARM_UP);
    while run.collected == 0 || (begin.elapsed() < warm && run.collected < chosen.updates()) {
        run.next(chosen.updates())?;
    }
    let (mut updates, mut seconds) = (0, 0.0);
    while updates == 0 || seconds < time.as_secs_f64() * (1.0 - WARM_UP) {
        // What comes after a run's last update is no training: the learning rate has run out.
        if run.collected == chosen.updates() {
            run = Run::start(env, settings)?.0;
        }
        let start = Instant::now();
        run.next(chosen.updates())?;
        (updates, seconds) = (updates + 1, seconds + start.elapsed().as_secs_f64());
    }
    #[allow(clippy::cast_precision_loss)] // counts
    let steps = (updates * chosen.batch()) as f64;
    Ok(steps / seconds)
}

/// Seconds from the start of training to the end of the first evaluation that reaches the threshold, tried as `operant train`
/// tries, the last one after all steps; None where that does not reach it either, or `limit` is spent before.
///
/// # Errors
/// When no device trains under these settings, or it fails.
pub fn seconds_to_solve(
    env: &Arc<dyn AnyEnv>,
    settings: &Settings,
    limit: Duration,
) -> Result<Option<f64>> {
    let begin = Instant::now();
    let (mut run, settings) = Run::start(env, settings)?;
    let (threshold, updates) = (settings.run.solved_at, settings.updates());
    // Round 0 is the last evaluation's.
    let (mut attempts, mut round) = (Attempts::default(), 1);
    let solves = |run: &mut Run, round| -> Result<bool> {
        let evaluation = run.backend.evaluate(settings.run.eval_episodes, round)?;
        Ok(Summary::of(&evaluation).solves(threshold))
    };
    while run.collected < updates && begin.elapsed() < limit {
        let stats = run.next(updates)?;
        if stats.nonfinite_in_a_row > 0 {
            continue;
        }
        attempts.record(&stats);
        if attempts.due(run.collected, threshold, settings.run.eval_interval) {
            // Weights are evaluated between updates.
            while run.in_flight > 0 {
                attempts.record(&run.next(run.collected + run.in_flight)?);
            }
            attempts.tried(run.collected);
            if solves(&mut run, round)? {
                return Ok(Some(begin.elapsed().as_secs_f64()));
            }
            round += 1;
        }
    }
    if run.collected == updates && solves(&mut run, 0)? {
        return Ok(Some(begin.elapsed().as_secs_f64()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CommandLine, EnvFacts, settings};

    fn cartpole() -> Arc<dyn AnyEnv> {
        Arc::new(operant_env::cartpole::CartPole)
    }

    fn with(assignments: &[&str]) -> Settings {
        let set = ["device=cpu"].iter().chain(assignments).map(ToString::to_string).collect();
        let facts = EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("registered");
        settings(facts, &CommandLine { set, ..CommandLine::default() }, None).expect("valid")
    }

    #[test]
    fn a_speed_is_measured_however_short_the_time() {
        let settings = with(&["num_envs=16", "num_steps=8", "num_minibatches=1", "update_epochs=1"]);
        let speed = sps(&cartpole(), &settings, Duration::ZERO).expect("measured");
        assert!(speed.is_finite() && speed > 0.0, "{speed}");
    }

    #[test]
    fn what_is_solved_takes_time_and_what_is_not_has_none() {
        let limit = Duration::from_secs(600);
        // Every episode has a return of at least 1.
        let easy = with(&["solved_at=1", "eval_episodes=1", "total_timesteps=20480"]);
        let seconds = seconds_to_solve(&cartpole(), &easy, limit).expect("trained").expect("solved");
        assert!(seconds > 0.0 && seconds < 600.0, "{seconds}");
        // Too few updates for an attempt: the last evaluation counts.
        let last = with(&["solved_at=1", "eval_episodes=1", "total_timesteps=1024", "eval_interval=1000"]);
        assert!(seconds_to_solve(&cartpole(), &last, limit).expect("trained").is_some());
        let short = with(&["solved_at=1e9", "total_timesteps=2048", "eval_episodes=1"]);
        assert_eq!(seconds_to_solve(&cartpole(), &short, limit).expect("trained"), None, "no steps are left");
        assert_eq!(seconds_to_solve(&cartpole(), &easy, Duration::ZERO).expect("trained"), None, "no time is left");
    }
}
