//! Rewards for exploring: what is added to the task's rewards, that reported returns leave it out, and that neither threads, tiles,
//! processes nor a resumed run change a bit.

use std::collections::HashMap;
use std::sync::Arc;

use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::{CpuOptions, ROLLOUT_TILES, backend, backend_in, backend_with};
use operant_learn::group::threads;
use operant_learn::{Alone, Config, CoreKind, Group, Intrinsic, LearnError, ShuffleKind, Snapshot};

use crate::support::{Trained, train, world};

/// Episodes here end at the goal alone, with a reward.
const ENV: &str = "minigrid_empty_random_5x5";

fn config(num_envs: usize) -> Config {
    Config {
        seed: 6,
        total_timesteps: 100_000,
        num_envs,
        num_steps: 96,
        num_minibatches: 4,
        update_epochs: 2,
        hidden: vec![16],
        shuffle: ShuffleKind::Blocks,
        norm_reward: true,
        intrinsic: Intrinsic::Counts,
        intrinsic_coef: 0.125,
        ..Config::default()
    }
}

/// With gamma = 0 the return of a step is its reward. The first rollout plays the same steps with and without rewards for exploring, so
/// they are the difference, and counting whole observations gives the same.
#[test]
fn the_nth_time_of_an_observation_in_an_episode_gives_one_by_the_root_of_n() {
    let with = Config { gamma: 0.0, norm_reward: false, ..config(33) };
    let without = Config { intrinsic: Intrinsic::None, ..with.clone() };
    let played = |config: &Config| {
        let options = CpuOptions::new(1);
        let mut backend = backend_with(world(ENV), config, &options).expect("a good configuration").backend;
        let pool = backend.pool();
        pool.install(|| backend.roll()).expect("a rollout");
        backend
    };
    let (with, without) = (played(&with), played(&without));
    let (with, without) = (with.batch(), without.batch());
    let layout = without.layout().clone();
    let reward = |batch: &operant_learn::cpu::batch::Batch, sample| {
        batch.float(sample, layout.advantage) + batch.float(sample, layout.value)
    };
    let (mut repeated, mut ended) = (0, 0);
    for env in 0..33 {
        let first = env / 16 * 16 * 96 + env % 16;
        let lanes = if env < 32 { 16 } else { 1 };
        let obs = |t: usize| &without.sample(first + t * lanes)[layout.obs..layout.obs + layout.obs_words];
        let mut counts = HashMap::from([(obs(0), 1)]);
        for t in 0..95 {
            let sample = first + t * lanes;
            let bonus = reward(with, sample) - reward(without, sample);
            let ends = reward(without, sample) > 0.01;
            if ends {
                counts.clear();
                ended += 1;
            }
            let n = counts.entry(obs(t + 1)).or_insert(0);
            *n += 1;
            repeated += usize::from(*n > 1);
            let expected = if ends { 0.0 } else { 0.125 / (*n as f32).sqrt() };
            assert!((bonus - expected).abs() < 1e-6, "environment {env}, step {t}: {bonus}, {expected}");
        }
    }
    assert!(repeated > 500 && ended > 20, "{repeated} repeated, {ended} ended");
}

fn updates(
    config: &Config,
    options: &CpuOptions,
    group: Arc<dyn Group>,
    from: Option<&Snapshot>,
    count: usize,
) -> Trained {
    train(backend_in(world(ENV), config, options, group).expect("valid").backend, from, count)
}

/// Two processes with different tiles.
fn two(config: &Config, from: Option<&Snapshot>, count: usize) -> Trained {
    std::thread::scope(|scope| {
        let start = |group: Arc<dyn Group>| {
            let options = CpuOptions { rollout_tile: 16 << group.rank(), ..CpuOptions::new(1) };
            scope.spawn(move || updates(config, &options, group, from, count))
        };
        let members: Vec<_> = threads::group(2).into_iter().map(start).collect();
        members.into_iter().map(|it| it.join().expect("no panic")).next_back().expect("two")
    })
}

#[test]
fn neither_threads_tiles_processes_nor_a_resumed_run_change_a_bit() {
    for (core, algorithm) in
        [(CoreKind::Mlp, Algorithm::Ppo), (CoreKind::MinGru, Algorithm::Ppo), (CoreKind::Mlp, Algorithm::Pqn)]
    {
        let sequence_length = if core == CoreKind::Mlp { 0 } else { 8 };
        let config = Config { core, sequence_length, algorithm, ..config(96) };
        let alone =
            |options: &CpuOptions, from, count| updates(&config, options, Arc::new(Alone), from, count);
        let (stats, whole) = alone(&CpuOptions::new(1), None, 4);
        for rollout_tile in ROLLOUT_TILES {
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(2) };
            assert_eq!(alone(&options, None, 4).1, whole, "{core}, {algorithm}, tiles of {rollout_tile}");
        }
        let (_, early) = two(&config, None, 2);
        assert!(early.tensors.iter().any(|tensor| tensor.name == "intrinsic.counts"));
        assert_eq!(alone(&CpuOptions::new(2), Some(&early), 2).1, whole, "{core}, {algorithm}");
        let (late, end) = two(&config, Some(&early), 2);
        assert_eq!(format!("{late:?}"), format!("{:?}", &stats[2..]), "{core}, {algorithm}");
        assert_eq!(end, whole, "{core}, {algorithm}");
    }
}

#[test]
fn reports_have_it_apart_from_returns() {
    let report = |config: &Config| {
        let mut backend = backend(world(ENV), config, 1).expect("a good configuration");
        crate::support::update(&mut *backend).metrics
    };
    let with = report(&config(16));
    let without = report(&Config { intrinsic: Intrinsic::None, ..config(16) });
    assert!(with.intrinsic_reward > 0.0 && with.intrinsic_reward < 0.125);
    assert!(without.intrinsic_reward.is_nan());
    assert_eq!(with.episodic_return.to_bits(), without.episodic_return.to_bits());
}

#[test]
fn real_numbers_are_not_counted() {
    let refused = backend(world("cartpole"), &config(16), 1).err().expect("refused");
    assert!(matches!(refused, LearnError::Config { key: "intrinsic", .. }), "{refused}");
}
