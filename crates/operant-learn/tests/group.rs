//! Several processes, here threads, train one run with the bits of a single process.

use std::sync::Arc;

use operant_learn::cpu::{CpuOptions, backend_in};
use operant_learn::group::{Failure as _, agreed, threads};
use operant_learn::{Alone, Config, CoreKind, Group, LearnError, LrSchedule, ShuffleKind, Snapshot};

use crate::support::{Trained, train, world};

fn updates(
    env: &str,
    config: &Config,
    options: &CpuOptions,
    group: Arc<dyn Group>,
    from: Option<&Snapshot>,
    count: usize,
) -> Trained {
    train(backend_in(world(env), config, options, group).expect("valid").backend, from, count)
}

/// As [`updates`], by several processes, all of which must agree.
fn together(env: &str, config: &Config, processes: usize, from: Option<&Snapshot>, count: usize) -> Trained {
    std::thread::scope(|scope| {
        // Different numbers of threads and widths of tiles in each process.
        let start = |group: Arc<dyn Group>| {
            let rollout_tile = 16 << (group.rank() % 3);
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(1 + group.rank() % 2) };
            scope.spawn(move || updates(env, config, &options, group, from, count))
        };
        let members: Vec<_> = threads::group(processes).into_iter().map(start).collect();
        let mut all: Vec<Trained> = members.into_iter().map(|it| it.join().expect("no panic")).collect();
        let first = all.remove(0);
        assert!(all.iter().all(|other| *other == first), "{processes} processes agree");
        first
    })
}

fn config(core: CoreKind) -> Config {
    Config {
        num_envs: 128,
        num_steps: 32,
        num_minibatches: 4,
        update_epochs: 3,
        hidden: vec![20, 12],
        sequence_length: if core == CoreKind::Mlp { 0 } else { 8 },
        shuffle: ShuffleKind::Blocks,
        norm_obs: true,
        norm_reward: true,
        lr_schedule: LrSchedule::Kl,
        core,
        ..Config::default()
    }
    .ppo(|ppo| {
        (ppo.target_kl, ppo.norm_value) = (0.02, core == CoreKind::Gru);
        ppo.prio_alpha = if core == CoreKind::Gru { 0.6 } else { 0.0 };
    })
}

#[test]
fn any_number_of_processes_has_the_bits_of_one() {
    for (env, core) in [("cartpole", CoreKind::Mlp), ("pendulum", CoreKind::Gru), ("pendulum", CoreKind::Mlp)]
    {
        let config = config(core).ppo(|ppo| ppo.rpo_alpha = if env == "pendulum" { 0.3 } else { 0.0 });
        let config = Config { recompute_advantages: env == "pendulum", ..config };
        assert_eq!(config.blocks(), 8);
        let whole = updates(env, &config, &CpuOptions::new(2), Arc::new(Alone), None, 4);
        for processes in [1, 2, 4, 8] {
            assert_eq!(
                together(env, &config, processes, None, 4),
                whole,
                "{env}, {core}, {processes} processes"
            );
        }
    }
}

#[test]
fn processes_may_have_environments_that_do_not_fill_their_tiles() {
    let config = Config { num_envs: 96, num_minibatches: 2, ..config(CoreKind::Mlp) };
    assert_eq!(config.blocks(), 2);
    let whole = updates("pendulum", &config, &CpuOptions::new(1), Arc::new(Alone), None, 2);
    assert_eq!(together("pendulum", &config, 2, None, 2), whole);
}

#[test]
fn a_run_continues_with_another_number_of_processes() {
    let config = config(CoreKind::Gru);
    let (stats, whole) = updates("pendulum", &config, &CpuOptions::new(1), Arc::new(Alone), None, 5);
    let (_, early) = together("pendulum", &config, 4, None, 2);
    let (late, end) = together("pendulum", &config, 2, Some(&early), 3);
    assert_eq!(late, stats[2..]);
    assert_eq!(end, whole);
}

#[test]
fn a_shuffle_in_blocks_is_another_one_and_needs_equal_shares() {
    let config = config(CoreKind::Mlp);
    let samples = Config { shuffle: ShuffleKind::Samples, ..config.clone() };
    let of = |config: &Config| updates("cartpole", config, &CpuOptions::new(1), Arc::new(Alone), None, 1).1;
    assert_ne!(of(&config), of(&samples));
    let group = threads::group(3).remove(0);
    for (config, text) in
        [(config, "8 blocks, which 3 GPUs cannot share equally"), (samples, "shuffle = \"blocks\"")]
    {
        let group = Arc::clone(&group);
        let refused = backend_in(world("cartpole"), &config, &CpuOptions::new(1), group)
            .err()
            .expect("refused")
            .to_string();
        assert!(refused.contains(text), "{refused}");
    }
}

#[test]
fn all_processes_have_the_first_failure_of_any() {
    let outcomes = |failing: &'static [usize]| -> Vec<Option<String>> {
        std::thread::scope(|scope| {
            let join = |group: Arc<dyn Group>| {
                scope.spawn(move || {
                    let rank = group.rank();
                    let own = if failing.contains(&rank) {
                        Err(LearnError::Process(format!("no {rank}")))
                    } else {
                        Ok(())
                    };
                    agreed(&*group, own).err().map(|error| error.to_string())
                })
            };
            let members: Vec<_> = threads::group(4).into_iter().map(join).collect();
            members.into_iter().map(|member| member.join().expect("no panic")).collect()
        })
    };
    assert_eq!(outcomes(&[]), vec![None; 4]);
    let [ours, own] = ["GPU 1: no 1", "no 1"].map(|text| Some(text.to_owned()));
    assert_eq!(outcomes(&[1]), [ours.clone(), own.clone(), ours.clone(), ours.clone()]);
    assert_eq!(outcomes(&[1, 3]), [ours.clone(), own, ours, Some("no 3".to_owned())]);
}

#[test]
fn a_refusal_stays_one_and_a_failure_ends_all_exchanges() {
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let join = |group: Arc<dyn Group>| {
            scope.spawn(move || {
                let own = match group.rank() {
                    1 => Err(LearnError::Snapshot("too wide".to_owned())),
                    _ => Ok(()),
                };
                let refused = agreed(&*group, own).expect_err("one refuses");
                if group.rank() == 0 {
                    group.abandon();
                }
                let lost = group.broadcast(&mut [0]).expect_err("one has failed");
                (refused.is_refusal(), lost.to_string())
            })
        };
        let members: Vec<_> = threads::group(2).into_iter().map(join).collect();
        members.into_iter().map(|member| member.join().expect("no panic")).collect()
    });
    assert_eq!(outcomes, vec![(true, "GPU 0 of the run has ended unexpectedly".to_owned()); 2]);
}
