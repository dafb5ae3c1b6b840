//! The threads' CPUs, how they wait, and the tile and lane widths change no bit of training on the CPU.

use std::sync::Arc;

use operant_env::AnyEnv;
use operant_env::cartpole::CartPole;
use operant_env::pendulum::Pendulum;
use operant_learn::cpu::{
    CpuOptions, LANE_WIDTHS, ROLLOUT_TILES, StartedBackend, WaitStrategy, backend, backend_with,
};
use operant_learn::{ActionDistribution, Backend, Config, CoreKind, Encoder, LogStd, Snapshot};

use crate::support::cards::{Cards, MixedCards};
use crate::support::crane::Crane;
use crate::support::locks::Locks;
use crate::support::{assert_same, shared, update, world};

/// A rollout of several tiles, small minibatches, and a number of environments that fills neither.
fn config(num_envs: usize) -> Config {
    Config {
        seed: 5,
        total_timesteps: 100_000,
        num_envs,
        num_steps: 16,
        num_minibatches: 4,
        update_epochs: 3,
        hidden: vec![24, 16],
        norm_reward: true,
        ..Config::default()
    }
}

/// The result of three updates: the state, and the statistics of each.
fn after(mut backend: Box<dyn Backend>) -> (Snapshot, Vec<[u64; 6]>) {
    let mut reports = Vec::new();
    for _ in 0..3 {
        let stats = update(&mut *backend);
        let reals = [
            stats.metrics.episodic_return,
            stats.metrics.episodic_return_std,
            stats.metrics.episodic_length,
            stats.metrics.policy_loss,
            stats.metrics.explained_variance,
        ];
        let [a, b, c, d, e] = reals.map(f64::to_bits);
        reports.push([stats.episodes, a, b, c, d, e]);
    }
    (backend.save().expect("a snapshot"), reports)
}

/// Training with these options must have the bits of training on one thread without any.
fn check(env: &Arc<dyn AnyEnv>, config: &Config, all: impl IntoIterator<Item = CpuOptions>) {
    let (plain, reported) = after(backend(env.clone(), config, 1).expect("a good configuration"));
    for options in all {
        let started = backend_with(env.clone(), config, &options).expect("a good configuration");
        let (snapshot, reports) = after(started.backend);
        let what = format!("{}, {} environments, {options:?}", env.spec().name, config.num_envs);
        assert_eq!(reports, reported, "{what}");
        assert_same(&plain, &snapshot, &what);
    }
}

fn widths() -> impl Iterator<Item = CpuOptions> {
    let with = |rollout_tile, lane_width| CpuOptions { rollout_tile, lane_width, ..CpuOptions::new(2) };
    ROLLOUT_TILES
        .into_iter()
        .flat_map(move |tile| LANE_WIDTHS.into_iter().map(move |lanes| with(tile, lanes)))
}

fn placements() -> Vec<CpuOptions> {
    let mut all = Vec::new();
    for waiting in [WaitStrategy::Spin, WaitStrategy::Yield, WaitStrategy::Sleep] {
        // Bound to one CPU together, to one each, and to one that is not there; more threads than the list has.
        for pin in [vec![], vec![0], vec![0, 0, 0], vec![0, 1], vec![1023, 0]] {
            for threads in [2, 3] {
                all.push(CpuOptions { pin: pin.clone(), waiting, ..CpuOptions::new(threads) });
            }
        }
    }
    all
}

/// What options could change: each kind of layers, observations and actions.
fn kinds(num_envs: usize) -> Vec<(Arc<dyn AnyEnv>, Config)> {
    let config = config(num_envs);
    let with_memory = |core| {
        // With masks, in sequences that end within episodes and begin within others.
        (shared(Locks), Config { core, sequence_length: 8, num_minibatches: 2, ..config.clone() })
    };
    vec![
        (shared(CartPole::default()), config.clone()),
        (shared(Locks), config.clone()),
        // Real-valued rewards and observations, whose sums depend on the order of addition.
        (shared(Pendulum::default()), Config { norm_obs: true, num_steps: 210, ..config.clone() }),
        // Convolutions over bits and over numbers, with channels that fill no vector.
        (
            world("minatar_breakout"),
            Config { conv: vec![[5, 3, 1], [17, 3, 2]], hidden: vec![16], ..config.clone() },
        ),
        // Tables of indices among reals, bits and bytes.
        (shared(MixedCards), Config { encoder: Encoder::EmbedSum, ..config.clone() }),
        (shared(Cards), Config { encoder: Encoder::EmbedMean, ..config.clone() }),
        // Three real actions.
        (
            shared(Crane),
            Config {
                action_distribution: ActionDistribution::Tanh,
                log_std: LogStd::Network,
                ..config.clone()
            }
            .ppo(|ppo| ppo.rpo_alpha = 0.2),
        ),
        (shared(Crane), Config { action_distribution: ActionDistribution::Beta, ..config.clone() }),
        with_memory(CoreKind::MinGru),
        with_memory(CoreKind::Gru),
        with_memory(CoreKind::Lstm),
    ]
}

#[test]
fn widths_never_change_a_bit() {
    kinds(33).iter().for_each(|(env, config)| check(env, config, widths()));
}

#[test]
fn placements_never_change_a_bit() {
    let (env, config) = &kinds(33)[2];
    check(env, config, placements());
}

#[test]
#[ignore = "cargo xtask test --all"]
fn options_never_change_a_bit() {
    kinds(33).iter().for_each(|(env, config)| check(env, config, placements()));
    kinds(300).iter().for_each(|(env, config)| check(env, config, widths().chain(placements())));
}

#[test]
fn a_missing_cpu_is_reported_and_training_continues() {
    let config = config(17);
    let options = CpuOptions { pin: vec![u32::MAX, u32::MAX], ..CpuOptions::new(2) };
    let StartedBackend { backend, unbound } =
        backend_with(shared(CartPole::default()), &config, &options).expect("a good configuration");
    let reason = unbound.expect("a reason");
    assert!(reason.contains("CPU 4294967295") && !reason.contains('\n'), "{reason}");
    after(backend);
    let started = backend_with(shared(CartPole::default()), &config, &CpuOptions::new(2))
        .expect("a good configuration");
    assert_eq!(started.unbound, None, "no binding was requested");
}
