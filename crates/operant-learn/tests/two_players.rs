//! Games of two players: learning from all sides, or against an opponent.

use std::sync::Arc;

use operant_env::play::Outputs;
use operant_env::search::Scripted;
use operant_env::versus::{Asked, Versus, play};
use operant_env::{AnyEnv, Opponent, TileSpec};
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::cpu::{CpuOptions, ROLLOUT_TILES, backend, backend_in, backend_with};
use operant_learn::group::threads;
use operant_learn::opponent::PolicyOpponent;
use operant_learn::pool::{Pool, PoolOptions, PoolSampling};
use operant_learn::{
    Alone, Backend, Config, CoreKind, EvalActions, Group, Intrinsic, LearnError, ShuffleKind, Snapshot,
    TrainedPolicy,
};

use crate::support::{Trained, train, update, world};

const GAME: &str = "connect_four";

fn config(num_envs: usize) -> Config {
    Config {
        seed: 6,
        total_timesteps: 1_000_000,
        num_envs,
        num_steps: 64,
        num_minibatches: 4,
        learning_rate: 2e-3,
        hidden: vec![32],
        shuffle: ShuffleKind::Blocks,
        ..Config::default()
    }
}

fn versus(opponent: Arc<dyn Opponent>) -> Arc<dyn AnyEnv> {
    Arc::new(Versus::new(world(GAME), opponent))
}

/// Makes an environment for a run.
type Make<'a> = &'a (dyn Fn() -> Arc<dyn AnyEnv> + Sync);

/// Two processes with different tiles.
fn two(env: Make<'_>, config: &Config, from: Option<&Snapshot>, count: usize) -> Trained {
    std::thread::scope(|scope| {
        let start = |group: Arc<dyn Group>| {
            let options = CpuOptions { rollout_tile: 16 << group.rank(), ..CpuOptions::new(1) };
            scope.spawn(move || {
                train(backend_in(env(), config, &options, group).expect("valid").backend, from, count)
            })
        };
        let members: Vec<_> = threads::group(2).into_iter().map(start).collect();
        members.into_iter().map(|it| it.join().expect("no panic")).next_back().expect("two")
    })
}

/// A policy that has learned from a few updates, with memory if `core` has any.
fn learned(core: CoreKind, updates: usize) -> PolicyOpponent {
    let config = Config { core, ..config(32) };
    let backend = backend(versus(Scripted::Random.opponent()), &config, 1).expect("valid");
    let (_, snapshot) = train(backend, None, updates);
    let policy = TrainedPolicy::from_snapshot(&*world(GAME), &config, &snapshot).expect("a policy");
    PolicyOpponent::new("learned".into(), Inference::new(policy), false)
}

#[test]
fn neither_threads_tiles_processes_nor_a_resumed_run_change_a_bit() {
    let learned: Arc<dyn Opponent> = Arc::new(learned(CoreKind::Gru, 2));
    let pool = PoolOptions { size: 2, interval: 1, latest: 0.3, sampling: PoolSampling::Hardest };
    let config = |core| Config { num_steps: 32, core, ..config(96) };
    let (mlp, gru) = (config(CoreKind::Mlp), Config { num_minibatches: 1, ..config(CoreKind::Gru) });
    let pqn = Config { algorithm: Algorithm::Pqn, ..mlp.clone() };
    let of_pool = |config: &Config| versus(Arc::new(Pool::new(&*world(GAME), config, pool).expect("a pool")));
    let remembered = Config { num_minibatches: 1, core: CoreKind::MinGru, ..pqn.clone() };
    let opponents: [(&str, &Config, Make<'_>); 8] = [
        ("self", &mlp, &|| world(GAME)),
        ("self, with memory", &gru, &|| world(GAME)),
        ("self, by PQN with memory", &remembered, &|| world(GAME)),
        ("self, by PQN", &pqn, &|| world(GAME)),
        ("random", &mlp, &|| versus(Scripted::Random.opponent())),
        ("a policy with memory", &mlp, &|| versus(Arc::clone(&learned))),
        ("pool", &mlp, &|| of_pool(&mlp)),
        ("pool of policies with memory", &gru, &|| of_pool(&gru)),
    ];
    for (name, config, env) in opponents {
        let alone = |options: &CpuOptions, from: Option<&Snapshot>, count| {
            let group: Arc<dyn Group> = Arc::new(Alone);
            train(backend_in(env(), config, options, group).expect("valid").backend, from, count)
        };
        let (stats, whole) = alone(&CpuOptions::new(1), None, 4);
        for rollout_tile in ROLLOUT_TILES {
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(2) };
            assert_eq!(alone(&options, None, 4).1, whole, "{name}, tiles of {rollout_tile}");
        }
        let (_, early) = two(env, config, None, 2);
        assert_eq!(alone(&CpuOptions::new(2), Some(&early), 2).1, whole, "{name}");
        let (late, end) = two(env, config, Some(&early), 2);
        assert_eq!(format!("{late:?}"), format!("{:?}", &stats[2..]), "{name}");
        assert_eq!(end, whole, "{name}");
    }
}

/// In the first epoch the weights are those of the rollout, so the same memories give the same probabilities.
#[test]
fn an_update_has_the_memories_of_each_side_that_the_rollout_had() {
    for (core, game) in
        [(CoreKind::MinGru, GAME), (CoreKind::Gru, "capture_the_flag"), (CoreKind::Lstm, GAME)]
    {
        let one = Config { num_minibatches: 1, update_epochs: 1, ..config(40) };
        let config = Config { core, core_layers: 2, sequence_length: 16, ..one };
        let mut own = backend(world(game), &config, 2).expect("valid");
        for number in 0..4 {
            let metrics = update(&mut *own).metrics;
            assert!(
                metrics.approx_kl.abs() < 1e-7,
                "{core} in {game}, update {number}: {}",
                metrics.approx_kl
            );
            assert!(metrics.entropy > 0.1, "{core} in {game}, update {number}: {}", metrics.entropy);
        }
    }
}

/// The mean result of 200 evaluated games, half of them with either side.
fn result(backend: &mut dyn Backend) -> f64 {
    let played = backend.evaluate_until(0..200, 1, EvalActions::Sampled, &mut || false).expect("games");
    let side = |first: usize| played.returns.iter().skip(first).step_by(2).sum::<f64>() / 100.0;
    println!("as the first player {:.2}, as the second {:.2}", side(0), side(1));
    (side(0) + side(1)) / 2.0
}

#[test]
fn playing_against_itself_it_learns_by_its_values_to_beat_others() {
    let config = Config { algorithm: Algorithm::Pqn, ..config(64) };
    let mut own = backend(world(GAME), &config, 2).expect("valid");
    let before = result(&mut *own);
    for _ in 0..150 {
        update(&mut *own);
    }
    let after = result(&mut *own);
    // Actions of the greatest value alone, even before it has learned anything.
    assert!(before < 0.6 && after > 0.7, "{before}, {after} against random moves after 614,400 moves");
}

#[test]
fn playing_against_itself_it_learns_to_beat_others() {
    let mut own = backend(world(GAME), &config(64), 2).expect("valid");
    let before = result(&mut *own);
    let first = update(&mut *own);
    for _ in 0..149 {
        update(&mut *own);
    }
    let after = result(&mut *own);
    let snapshot = own.save().expect("a snapshot");
    let policy = TrainedPolicy::from_snapshot(&*world(GAME), &config(64), &snapshot).expect("a policy");
    let policy = PolicyOpponent::new("own".into(), Inference::new(policy), true);
    let results = play(&*world(GAME), [&policy, &*Scripted::Random.opponent()], 1, 2, 0..200).expect("games");
    let mean = results.iter().sum::<f32>() / 200.0;
    assert!(mean > 0.5, "{mean} as an opponent of random moves");
    assert!(first.metrics.env.len() >= 2 && before < 0.3, "{before}");
    assert!(after > 0.5, "{after} against random moves after 614,400 moves");
}

/// Moves of the rows that are asked, by their own observations alone, and no others.
#[test]
fn a_trained_opponent_makes_the_moves_of_its_policy() {
    let config = config(16);
    let env = world(GAME);
    let trained = TrainedPolicy::untrained(&*env, &Config { seed: 9, ..config }).expect("a policy");
    let inference = Inference::new(trained.clone());
    let opponent = PolicyOpponent::new("new".into(), Inference::new(trained), true);
    let (rows, tile) = (32, TileSpec::new(1, 0, 32));
    let mut stepper = env.stepper(tile).expect("a tile");
    let mut out = Outputs::new(&env.spec(), true, rows);
    stepper.observe(out.seen()).expect("observations");
    let mut moves: Vec<f32> = (0..rows).map(|row| (row % 7) as f32).collect();
    let mut differ = std::collections::BTreeSet::new();
    for step in 0..6 {
        stepper.submit(&moves, step).expect("a step");
        stepper.collect(out.stepped()).expect("a step");
        let keys: Vec<(u64, u32)> = (0..rows as u32).map(|row| (1, row)).collect();
        let asked = [0b1011_0010_0000_1111, 0b0110_0000_1001_0001];
        let asked = Asked {
            rows: &asked,
            obs: &out.obs,
            legal: &out.legal,
            states: &[],
            keys: &keys,
            evaluation: false,
            step,
        };
        let mut actions = vec![-1.0; rows];
        opponent.tile(&*env, tile).expect("a tile").act(&asked, &mut [], &mut actions).expect("moves");
        for row in (0..rows).filter(|row| asked.rows[row / 16] >> (row % 16) & 1 == 1) {
            let obs: Vec<u32> = out.obs.iter().copied().skip(row).step_by(rows).collect();
            let legal: Vec<i8> = (0..7).map(|column| (out.legal[row] >> column & 1) as i8).collect();
            let mut alone = [0.0];
            inference.act(ObsRows::Words(&obs), Some(&legal), Choice::Greedy, &mut [], &mut alone);
            assert_eq!(actions[row], alone[0], "step {step}, row {row}");
            differ.insert(alone[0] as u32);
        }
        moves
            .iter_mut()
            .enumerate()
            .for_each(|(row, action)| *action = ((row * 3 + step as usize) % 7) as f32);
    }
    assert!(differ.len() > 1, "{differ:?}");
}

/// The parameters of a snapshot, without names.
fn tensor(snapshot: &Snapshot, is_it: impl Fn(&str) -> bool) -> Vec<u8> {
    let tensors = snapshot.tensors.iter().filter(|tensor| is_it(&tensor.name));
    tensors.flat_map(|tensor| tensor.data.clone()).collect()
}

#[test]
fn a_pool_has_the_policies_of_earlier_updates_and_is_learned_from() {
    let config = config(64);
    let options = PoolOptions { size: 3, interval: 2, latest: 0.5, sampling: PoolSampling::Uniform };
    let pool = Pool::new(&*world(GAME), &config, options).expect("a pool");
    let mut backend = backend(versus(Arc::new(pool)), &config, 2).expect("valid");
    let before = result(&mut *backend);
    let mut entered = Vec::new();
    for number in 0..150 {
        if number % 2 == 0 {
            let params = |name: &str| name.starts_with("params.");
            entered.push(tensor(&backend.save().expect("a snapshot"), params));
        }
        update(&mut *backend);
    }
    let end = backend.save().expect("a snapshot");
    let members = tensor(&end, |name| name == "pool.params");
    assert_eq!(members, entered[entered.len() - 3..].concat());
    let after = result(&mut *backend);
    assert!(before < 0.3 && after > 0.5, "{before}, {after} against random moves");

    for (key, config) in [
        ("algorithm", Config { algorithm: Algorithm::Dqn, ..config.clone() }),
        ("norm_obs", Config { norm_obs: true, ..config.clone() }),
    ] {
        let refused = Pool::new(&*world(GAME), &config, options).err().expect("refused");
        assert!(matches!(refused, LearnError::Config { key: found, .. } if found == key), "{refused}");
    }
}

#[test]
fn what_learning_from_all_sides_cannot_do_is_refused() {
    for (key, config) in [
        ("algorithm", Config { algorithm: Algorithm::Dqn, ..config(16) }),
        ("intrinsic", Config { intrinsic: Intrinsic::Counts, ..config(16) }),
        ("recompute_advantages", Config { recompute_advantages: true, ..config(16) }),
    ] {
        let refused = backend(world(GAME), &config, 1).err().expect("refused");
        assert!(matches!(refused, LearnError::Config { key: found, .. } if found == key), "{refused}");
        let options = CpuOptions::new(1);
        let fine = backend_with(versus(Scripted::Random.opponent()), &config, &options);
        assert!(fine.is_ok(), "one side can");
    }
}
