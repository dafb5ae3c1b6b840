//! SAC and TD3: their bits over threads, tiles and a resume, the exact ratio of minibatches to steps, and what they learn.

use std::sync::Arc;

use operant_env::AnyEnv;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::{CpuOptions, backend_with};
use operant_learn::{ActionDistribution, Activation, Backend, Config, EvalActions, LogStd, LrSchedule};

use crate::support::{assert_same, train, update, world};

const BOTH: [Algorithm; 2] = [Algorithm::Sac, Algorithm::Td3];

/// Small networks, four environments.
fn config(algorithm: Algorithm) -> Config {
    Config {
        algorithm,
        total_timesteps: 100_000,
        num_envs: 4,
        num_steps: 50,
        num_minibatches: 1,
        learning_rate: 1e-3,
        lr_schedule: LrSchedule::Constant,
        max_grad_norm: 1e9,
        hidden: vec![24, 17],
        activation: Activation::Relu,
        action_distribution: ActionDistribution::Tanh,
        log_std: LogStd::Network,
        batch_size: 200,
        learning_starts: 250,
        buffer_size: 600,
        updates_per_step: 0.3,
        policy_frequency: if algorithm == Algorithm::Td3 { 2 } else { 1 },
        ..Config::default()
    }
}

fn backend(env: &str, config: &Config, options: &CpuOptions) -> Box<dyn Backend> {
    let env: Arc<dyn AnyEnv> = world(env);
    backend_with(env, config, options).expect("a good configuration").backend
}

#[test]
fn threads_and_tiles_change_no_bit() {
    let cases = BOTH.map(|algorithm| [(algorithm, "pendulum", false, 1), (algorithm, "hopper", true, 3)]);
    for (algorithm, env, norm_obs, n_step) in cases.into_iter().flatten() {
        let config = Config { norm_obs, n_step, num_envs: 40, ..config(algorithm) };
        let one = train(backend(env, &config, &CpuOptions::new(1)), None, 2).1;
        for (threads, rollout_tile) in [(2, 16), (3, 32)] {
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(threads) };
            assert_same(&one, &train(backend(env, &config, &options), None, 2).1, env);
        }
    }
}

#[test]
fn a_run_with_its_replay_continues_to_the_bit_and_one_without_fills_another() {
    for algorithm in BOTH {
        let with = Config { checkpoint_replay: true, ..config(algorithm) };
        let options = CpuOptions::new(1);
        let (_, middle) = train(backend("pendulum", &with, &options), None, 5);
        let whole = train(backend("pendulum", &with, &options), None, 8).1;
        assert_same(&whole, &train(backend("pendulum", &with, &options), Some(&middle), 3).1, "resumed");

        let mut again = backend("pendulum", &config(algorithm), &options);
        let (_, middle) = train(backend("pendulum", &config(algorithm), &options), None, 5);
        again.load(&middle).expect("it fits");
        let reports: Vec<_> = (0..2).map(|_| update(&mut *again)).collect();
        assert_eq!((reports[0].metrics.replay_size, reports[0].metrics.minibatches), (200.0, 0.0));
        assert!(reports[1].metrics.minibatches > 0.0 && reports[1].metrics.td_loss.is_finite());
    }
}

#[test]
fn minibatches_keep_their_ratio_to_steps() {
    for (num_envs, updates_per_step) in [(1, 1.0), (4, 0.3), (16, 0.01), (2, 3.0)] {
        let config = Config { num_envs, updates_per_step, ..config(Algorithm::Sac) };
        let mut backend = backend("pendulum", &config, &CpuOptions::new(1));
        let reports: Vec<_> = (0..8).map(|_| update(&mut *backend)).collect();
        let steps = reports.last().expect("reports").env_steps as usize;
        let before = config.learning_starts.div_ceil(num_envs) * num_envs;
        let due = ((steps.saturating_sub(before)) as f64 * updates_per_step).floor();
        let taken: f64 = reports.iter().map(|report| report.metrics.minibatches).sum();
        assert_eq!(taken, due, "{num_envs} environments, {updates_per_step} for each step");
    }
}

#[test]
fn pendulum_is_learned() {
    for algorithm in BOTH {
        let config = Config {
            num_envs: 1,
            num_steps: 500,
            hidden: vec![64, 64],
            batch_size: 128,
            learning_starts: 500,
            buffer_size: 10_000,
            updates_per_step: 1.0,
            ..config(algorithm)
        };
        let mut backend = backend("pendulum", &config, &CpuOptions::new(1));
        (0..12).for_each(|_| _ = update(&mut *backend));
        let greedy = backend.evaluate(0..50, 0, EvalActions::Greedy).expect("an evaluation");
        let mean = greedy.returns.iter().sum::<f64>() / 50.0;
        assert!(mean > -300.0, "{algorithm}: a mean return of {mean} after 6,000 steps");
    }
}
