//! Training trials without a run directory: the speed under some settings, and the time to solve.

use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_env::AnyEnv;
use operant_learn::EvalActions;
use operant_run::Result;
use operant_run::config::{Requested, Settings};
use operant_run::device::{self, Built, Device};
use operant_run::evaluate::{EvalSchedule, EvalSummary};

use crate::measure::driver::Driver;

/// Share of a measurement's time for warming up.
const WARM_UP: f64 = 0.2;

/// Starts training under these settings on their device; returns the settings as resolved for it.
fn start(env: &Arc<dyn AnyEnv>, requested: &Requested) -> Result<(Driver, Settings)> {
    let make = |requested: &Requested, device: &Device| device::backend(env, requested, device);
    let (Built { backend, settings, .. }, _) = device::start(requested, None, make)?;
    Ok((Driver::new(backend, settings.updates()), settings))
}

/// Environment steps per second of training under these settings, measured for about `time` after the start and at least two
/// updates.
///
/// # Errors
/// When no device trains under them, or it fails.
pub fn sps(env: &Arc<dyn AnyEnv>, requested: &Requested, time: Duration) -> Result<f64> {
    let begin = Instant::now();
    let (mut driver, settings) = start(env, requested)?;
    // The first update touches memory and, on a GPU, loads kernels.
    let warm = begin.elapsed() + time.mul_f64(WARM_UP);
    while driver.collected() == 0 || (begin.elapsed() < warm && !driver.is_done()) {
        driver.update()?;
    }
    let (mut updates, mut seconds) = (0, 0.0);
    while updates == 0 || seconds < time.as_secs_f64() * (1.0 - WARM_UP) {
        // The updates after a run's last do not train: the learning rate is 0.
        if driver.is_done() {
            driver = start(env, requested)?.0;
        }
        (updates, seconds) = (updates + 1, seconds + driver.update()?.seconds);
    }
    #[allow(clippy::cast_precision_loss)] // counts
    let steps = (updates * settings.batch()) as f64;
    Ok(steps / seconds)
}

/// Seconds from the start of training to the end of the first evaluation that reaches the threshold, with evaluations as in
/// `operant train` and a last one after all steps. None if none reaches it, or `limit` is spent first.
///
/// # Errors
/// When no device trains under these settings, or it fails.
pub fn seconds_to_solve(
    env: &Arc<dyn AnyEnv>,
    requested: &Requested,
    limit: Duration,
) -> Result<Option<f64>> {
    let begin = Instant::now();
    let (mut driver, settings) = start(env, requested)?;
    let threshold = settings.run.solved_at;
    // Round 0 is reserved for the last evaluation.
    let (mut attempts, mut round) = (EvalSchedule::default(), 1);
    let solves = |driver: &mut Driver, round| -> Result<bool> {
        let evaluation =
            driver.backend().evaluate(0..settings.run.eval_episodes, round, EvalActions::Greedy)?;
        Ok(EvalSummary::of(&evaluation).solves(threshold))
    };
    while !driver.is_done() && begin.elapsed() < limit {
        let stats = driver.update()?.stats;
        if stats.nonfinite_in_a_row > 0 {
            continue;
        }
        attempts.record(&stats);
        if attempts.due(driver.collected(), threshold, settings.run.eval_interval) {
            // Weights are evaluated between updates.
            driver.drain()?.iter().for_each(|update| attempts.record(&update.stats));
            attempts.tried(driver.collected());
            if solves(&mut driver, round)? {
                return Ok(Some(begin.elapsed().as_secs_f64()));
            }
            round += 1;
        }
    }
    if driver.is_done() && solves(&mut driver, 0)? {
        return Ok(Some(begin.elapsed().as_secs_f64()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_run::config::{CommandLine, EnvFacts, requested};

    fn cartpole() -> Arc<dyn AnyEnv> {
        Arc::new(operant_env::cartpole::CartPole::default())
    }

    fn with(assignments: &[&str]) -> Requested {
        let set = ["device=cpu"].iter().chain(assignments).map(ToString::to_string).collect();
        let facts = EnvFacts::registered(&operant_env::builtin(), "cartpole").expect("registered");
        requested(facts, &CommandLine { set, ..CommandLine::default() }, None).expect("valid")
    }

    #[test]
    fn a_speed_is_measured_however_short_the_time() {
        let requested = with(&["num_envs=16", "num_steps=8", "num_minibatches=1", "update_epochs=1"]);
        let speed = sps(&cartpole(), &requested, Duration::ZERO).expect("measured");
        assert!(speed.is_finite() && speed > 0.0, "{speed}");
    }

    #[test]
    fn what_is_solved_takes_time_and_what_is_not_has_none() {
        let limit = Duration::from_secs(600);
        // Every episode has a return of at least 1.
        let easy = with(&["solved_at=1", "eval_episodes=1", "total_timesteps=20480"]);
        let seconds = seconds_to_solve(&cartpole(), &easy, limit).expect("trained").expect("solved");
        assert!(seconds > 0.0 && seconds < 600.0, "{seconds}");
        // Too few updates for an evaluation during training: the last one counts.
        let last = with(&["solved_at=1", "eval_episodes=1", "total_timesteps=1024", "eval_interval=1000"]);
        assert!(seconds_to_solve(&cartpole(), &last, limit).expect("trained").is_some());
        let short = with(&["solved_at=1e9", "total_timesteps=2048", "eval_episodes=1"]);
        assert_eq!(seconds_to_solve(&cartpole(), &short, limit).expect("trained"), None, "no steps are left");
        assert_eq!(
            seconds_to_solve(&cartpole(), &easy, Duration::ZERO).expect("trained"),
            None,
            "no time is left"
        );
    }
}
