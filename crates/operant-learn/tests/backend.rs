//! The CPU backend as a whole: the same bits for any number of threads, exact continuation, learning, and a test-only
//! environment with masks, several action components, arrays and loops.

use std::sync::Arc;

use operant_env::cartpole::CartPole;
use operant_env::minatar::{Breakout, MinAtar};
use operant_env::pendulum::Pendulum;
use operant_env::{AnyEnv, ObsSpace, builtin};
use operant_learn::cpu::{CpuOptions, backend};
use operant_learn::{ActionDistribution, Config, CoreKind, EvalActions, LearnError, LogStd, Snapshot};

use crate::support::cards::{Cards, MixedCards};
use crate::support::locks::Locks;
use crate::support::{self, assert_same, shared, update, world};

fn config(num_envs: usize) -> Config {
    Config {
        seed: 3,
        total_timesteps: 200_000,
        num_envs,
        num_steps: 24,
        learning_rate: 1e-3,
        gamma: 0.98,
        num_minibatches: 3,
        update_epochs: 2,
        hidden: vec![24, 16],
        norm_reward: true,
        ..Config::default()
    }
    .ppo(|ppo| ppo.gae_lambda = 0.9)
}

/// The state after some updates on this number of threads.
fn after(env: &Arc<dyn AnyEnv>, config: &Config, threads: usize, updates: usize) -> Snapshot {
    support::after(env, config, &CpuOptions::new(threads), updates)
}

fn threads_change_no_bit(env: &Arc<dyn AnyEnv>, num_envs: usize) {
    let name = env.spec().name;
    let config = Config { norm_obs: matches!(env.spec().obs, ObsSpace::Box { .. }), ..config(num_envs) };
    let one = after(env, &config, 1, 3);
    for threads in [2, 5] {
        let many = after(env, &config, threads, 3);
        assert_same(&one, &many, &format!("{name}, {num_envs} environments, {threads} threads"));
    }
}

#[test]
fn threads_never_change_a_bit() {
    for env in builtin().of_each_kind().envs() {
        threads_change_no_bit(env, 65);
    }
    for num_envs in [1, 17, 320] {
        threads_change_no_bit(&shared(Locks), num_envs);
    }
    threads_change_no_bit(&shared(CartPole::default()), 300);
}

#[test]
fn a_loaded_snapshot_continues_bit_for_bit() {
    fn check(env: Arc<dyn AnyEnv>, mut config: Config) {
        config.norm_obs = matches!(env.spec().obs, ObsSpace::Box { .. });
        let straight = after(&env, &config, 2, 6);
        let half = after(&env, &config, 2, 3);
        let mut resumed = backend(env.clone(), &config, 1).expect("a good configuration");
        // Whatever it did before must not shine through.
        update(&mut *resumed);
        resumed.load(&half).expect("a snapshot of the same run");
        assert_same(&half, &resumed.save().expect("a snapshot"), "what was loaded");
        for _ in 0..3 {
            update(&mut *resumed);
        }
        assert_same(&straight, &resumed.save().expect("a snapshot"), &env.spec().name);
    }
    check(shared(CartPole::default()), config(17));
    check(shared(Pendulum::default()), config(300));
    check(shared(MinAtar::<Breakout>::default()), config(65));
    check(shared(Locks), config(20));
    for core in [CoreKind::MinGru, CoreKind::Lstm] {
        check(shared(Locks), Config { core, sequence_length: 8, ..config(39) });
    }
    let noisy = config(20).ppo(|ppo| ppo.rpo_alpha = 0.3);
    check(world("crane"), Config { log_std: LogStd::Network, ..noisy });
    for action_distribution in [ActionDistribution::Tanh, ActionDistribution::Beta] {
        check(world("crane"), Config { action_distribution, ..config(20) });
    }
}

#[test]
fn a_snapshot_of_something_else_is_refused_and_changes_nothing() {
    let config = config(17);
    let cartpole = after(&shared(CartPole::default()), &config, 1, 1);
    let mut pendulum = backend(shared(Pendulum::default()), &config, 1).expect("a good configuration");
    let before = pendulum.save().expect("a snapshot");
    let error = pendulum.load(&cartpole).expect_err("another environment");
    assert!(matches!(&error, LearnError::Snapshot(_)), "{error}");
    assert_same(&before, &pendulum.save().expect("a snapshot"), "a refused load");

    let mut fewer = Config { num_envs: 16, ..config.clone() };
    fewer.hidden = vec![24, 16];
    let mut other = backend(shared(CartPole::default()), &fewer, 1).expect("a good configuration");
    let message = other.load(&cartpole).expect_err("another number of environments").to_string();
    assert!(message.contains("[17") && message.contains("[16"), "{message}");
}

#[test]
fn an_environment_measures_its_own_metrics_where_episodes_end() {
    // A snake begins with a length of 3, and each reward of 1 makes it a cell longer.
    let env = support::world("snake");
    let of_threads = |threads| {
        let mut backend = backend(env.clone(), &config(40), threads).expect("a good configuration");
        let stats: Vec<_> = (0..4).map(|_| update(&mut *backend).metrics).collect();
        (stats, backend.evaluate(0..21, 1, EvalActions::Sampled).expect("an evaluation"))
    };
    let (stats, evaluation) = of_threads(1);
    for metrics in &stats {
        let [length, unused @ ..] = metrics.env;
        let expected = 3.0 + metrics.episodic_return;
        assert!(
            (length - expected).abs() < 1e-9 || length.is_nan() && expected.is_nan(),
            "{length}, {expected}"
        );
        assert!(unused.iter().all(|x| x.is_nan()));
    }
    assert!(stats.iter().any(|metrics| metrics.env[0].is_finite()));
    let lengths = evaluation.metrics.iter().map(|metrics| f64::from(metrics[0]) - 3.0);
    assert!(lengths.eq(evaluation.returns.iter().copied()), "{evaluation:?}");
    let (on_two, evaluation_on_two) = of_threads(2);
    let bits = |stats: &[operant_metrics::Record]| {
        stats.iter().map(|of| of.env.map(f64::to_bits)).collect::<Vec<_>>()
    };
    assert_eq!(bits(&stats), bits(&on_two));
    assert_eq!(evaluation, evaluation_on_two);
}

#[test]
fn evaluation_disturbs_nothing_and_repeats() {
    let config = config(17);
    let mut backend = backend(shared(CartPole::default()), &config, 2).expect("a good configuration");
    update(&mut *backend);
    let before = backend.save().expect("a snapshot");
    let first = backend.evaluate(0..21, 1, EvalActions::Greedy).expect("an evaluation");
    assert_eq!(first.returns.len(), 21);
    assert!(first.returns.iter().zip(&first.lengths).all(|(r, l)| *r == *l as f64 && *r >= 8.0), "{first:?}");
    assert_eq!(
        backend.evaluate(0..21, 1, EvalActions::Greedy).expect("an evaluation"),
        first,
        "the same round"
    );
    assert_ne!(
        backend.evaluate(0..21, 2, EvalActions::Greedy).expect("an evaluation"),
        first,
        "another round"
    );
    let more = backend.evaluate(0..40, 1, EvalActions::Greedy).expect("an evaluation");
    assert_eq!(more.returns[..21], first.returns, "more episodes begin with the same ones");
    let rest = backend.evaluate(32..40, 1, EvalActions::Greedy).expect("an evaluation");
    assert_eq!(more.traces[32..], rest.traces, "a part of an evaluation is that part");
    let distinct: std::collections::HashSet<u64> = more.traces.iter().copied().collect();
    assert_eq!(distinct.len(), 40, "every start of CartPole is another episode");
    assert_same(&before, &backend.save().expect("a snapshot"), "an evaluation");
}

#[test]
fn a_sampled_evaluation_draws_actions_from_the_policy() {
    let envs = [shared(CartPole::default()), shared(Pendulum::default()), shared(Cards), shared(Locks)];
    for env in envs {
        let mut backend = backend(env, &config(17), 2).expect("a good configuration");
        let mut play = |episodes, actions| backend.evaluate(episodes, 1, actions).expect("an evaluation");
        let sampled = play(0..40, EvalActions::Sampled);
        assert_eq!(sampled, play(0..40, EvalActions::Sampled), "the same draws");
        assert_eq!(
            sampled.traces[16..],
            play(16..40, EvalActions::Sampled).traces,
            "a part of an evaluation is that part"
        );
        assert_ne!(sampled, play(0..40, EvalActions::Greedy), "other actions");
    }
}

#[test]
fn packed_observations_are_expanded_for_an_evaluation() {
    for env in [shared(Cards), shared(MixedCards)] {
        let mut backend = backend(env, &config(32), 2).expect("a good configuration");
        let untrained = backend.evaluate(0..100, 0, EvalActions::Greedy).expect("an evaluation").returns;
        (0..40).for_each(|_| {
            update(&mut *backend);
        });
        let trained = backend.evaluate(0..100, 0, EvalActions::Greedy).expect("an evaluation").returns;
        let sum = |returns: &[f64]| returns.iter().sum::<f64>();
        assert!(sum(&trained) > sum(&untrained), "{} and {}", sum(&trained), sum(&untrained));
    }
}

#[test]
fn watching_changes_no_bit_and_shows_whole_episodes() {
    let config = config(40);
    let unwatched = after(&shared(CartPole::default()), &config, 2, 12);
    let mut watched = backend(shared(CartPole::default()), &config, 2).expect("a good configuration");
    let mut episodes = Vec::new();
    for _ in 0..12 {
        episodes.extend(watched.scene());
        update(&mut *watched);
    }
    assert_same(&unwatched, &watched.save().expect("a snapshot"), "watched");
    assert!(episodes.len() >= 2, "{} episodes in 288 steps", episodes.len());
    for episode in episodes {
        // CartPole pays 1 a step, and begins near the middle.
        assert_eq!(episode.frames.len() as f64, episode.episodic_return);
        let pole = |frame: &operant_env::Scene| match &frame.shapes[2] {
            operant_env::Shape::Line { points, .. } => points[1][0] - points[0][0],
            shape => panic!("the third shape is the pole, not {shape:?}"),
        };
        assert!(pole(&episode.frames[0]).abs() < 0.06, "upright at first");
        assert!(pole(&episode.frames[episode.frames.len() - 1]).abs() > 0.1, "fallen at the end");
        assert_eq!(episode.fps, 50.0);
    }
}

#[test]
fn the_pulse_moves_within_an_update_and_rests_with_the_device() {
    let mut config = config(300);
    config.update_epochs = 20;
    let mut backend = backend(shared(CartPole::default()), &config, 2).expect("a good configuration");
    let pulse = backend.pulse();
    let read = || pulse.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(read(), 0);
    update(&mut *backend);
    let after_update = read();
    assert!(after_update > 50, "{after_update}");
    backend.evaluate(0..40, 1, EvalActions::Greedy).expect("an evaluation");
    assert!(read() > after_update);
}

#[test]
fn cartpole_is_learned() {
    let config = Config {
        num_envs: 32,
        num_steps: 32,
        num_minibatches: 4,
        update_epochs: 10,
        learning_rate: 2.5e-3,
        shared_trunk: true,
        norm_reward: false,
        hidden: vec![64, 64],
        total_timesteps: 200_000,
        ..config(32)
    }
    .ppo(|ppo| (ppo.gae_lambda, ppo.ent_coef, ppo.clip_vloss) = (0.95, 0.0, false));
    let mut backend = backend(shared(CartPole::default()), &config, 2).expect("a good configuration");
    let mut last = 0;
    while last < config.total_timesteps {
        let stats = update(&mut *backend);
        assert!(
            stats.metrics.policy_loss.is_finite()
                && stats.metrics.value_loss.is_finite()
                && stats.metrics.entropy >= 0.0,
            "{stats:?}"
        );
        last = stats.env_steps;
    }
    let returns = backend.evaluate(0..100, 0, EvalActions::Greedy).expect("an evaluation").returns;
    let mean = |returns: &[f64]| returns.iter().sum::<f64>() / 100.0;
    assert!(mean(&returns) >= 475.0, "mean return {}", mean(&returns));
    // Sampled actions come from the same policy: uniformly random ones last 22 steps.
    let sampled = backend.evaluate(0..100, 0, EvalActions::Sampled).expect("an evaluation").returns;
    assert!(mean(&sampled) >= 300.0, "mean return {} with sampled actions", mean(&sampled));
}

/// The walker sees one index below 16, which is stored in a byte and seen as 16 bits.
#[test]
fn a_policy_is_evaluated_on_indices_as_it_was_trained() {
    let config = Config {
        num_envs: 32,
        num_steps: 64,
        num_minibatches: 4,
        update_epochs: 4,
        learning_rate: 2.5e-3,
        norm_reward: true,
        hidden: vec![64, 64],
        total_timesteps: 200_000,
        ..config(32)
    };
    let options = operant_env::EnvOptions::from([("is_slippery".to_owned(), 0.0.into())]);
    let env = builtin().make("frozen_lake", &options).expect("a known environment");
    let mut backend = backend(env, &config, 2).expect("a good configuration");
    while update(&mut *backend).env_steps < config.total_timesteps {}
    let evaluation = backend.evaluate(0..16, 0, EvalActions::Greedy).expect("an evaluation");
    assert!(evaluation.returns.iter().all(|&sum| sum == 1.0), "{:?}", evaluation.returns);
}

#[test]
fn masks_and_several_components_are_learned() {
    let config = Config {
        num_envs: 64,
        num_steps: 32,
        num_minibatches: 4,
        update_epochs: 4,
        learning_rate: 3e-3,
        gamma: 0.95,
        hidden: vec![64],
        norm_reward: false,
        total_timesteps: 400_000,
        ..config(64)
    };
    let mut backend = backend(shared(Locks), &config, 2).expect("a good configuration");
    let first = update(&mut *backend).metrics.episodic_return;
    for _ in 1..config.total_timesteps / (64 * 32) {
        update(&mut *backend);
    }
    let returns = backend.evaluate(0..100, 0, EvalActions::Greedy).expect("an evaluation").returns;
    let mean = returns.iter().sum::<f64>() / 100.0;
    // At random about one lock opens; a good hand opens three in seven or eight turns.
    assert!(first < 2.0 && mean > 2.6, "from {first} to {mean}");
}

#[test]
fn distributions_that_do_not_fit_the_actions_are_refused() {
    let with = |env: &str, change: fn(&mut Config), key: &str| {
        let mut config = config(16);
        change(&mut config);
        let error = backend(world(env), &config, 1).err().expect("a refusal").to_string();
        assert!(error.contains(key) && error.contains(env), "{error}");
    };
    with(
        "cartpole",
        |c| c.action_distribution = ActionDistribution::Beta,
        "action_distribution = \"normal\"",
    );
    with("cartpole", |c| c.log_std = LogStd::Network, "log_std = \"parameter\"");
    with("cartpole", |c| c.algorithms.ppo.rpo_alpha = 0.5, "rpo_alpha = 0");
    with("crane", |c| (c.log_std, c.log_std_init) = (LogStd::Network, 2.0), "log_std_init");
    with(
        "crane",
        |c| (c.action_distribution, c.log_std) = (ActionDistribution::Beta, LogStd::Network),
        "log_std",
    );
    with(
        "crane",
        |c| (c.action_distribution, c.algorithms.ppo.rpo_alpha) = (ActionDistribution::Beta, 0.5),
        "rpo_alpha",
    );
}

#[test]
fn bits_cannot_be_normalised() {
    let config = Config { norm_obs: true, ..config(16) };
    let error =
        backend(shared(MinAtar::<Breakout>::default()), &config, 1).err().expect("a refusal").to_string();
    assert!(error.contains("norm_obs") && error.contains("set norm_obs = false"), "{error}");
}
