//! Where threads run and how they wait changes no bit of training on the CPU.

#[path = "../../operant-env/tests/support/locks.rs"]
mod locks;

use locks::Locks;
use operant_env::Env;
use operant_env::cartpole::CartPole;
use operant_learn::cpu::{CpuOptions, Started, Waiting, backend, backend_with};
use operant_learn::{Backend, Config, Snapshot};

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

fn after(mut backend: Box<dyn Backend>) -> Snapshot {
    for _ in 0..3 {
        backend.enqueue_update().expect("an update");
        backend.poll(true).expect("no failure").expect("a finished update");
    }
    backend.save().expect("a snapshot")
}

fn check<E: Env>(env: E, num_envs: usize) {
    let config = config(num_envs);
    let plain = after(backend(env.clone(), &config, 1).expect("a good configuration"));
    for waiting in [Waiting::Spin, Waiting::Yield, Waiting::Sleep] {
        // Bound to one CPU together, to one each, and to one that is not there; more threads than the list has.
        for pin in [vec![], vec![0], vec![0, 0, 0], vec![0, 1], vec![1023, 0]] {
            for threads in [2, 3] {
                let options = CpuOptions { threads, pin: pin.clone(), waiting };
                let Started { backend, .. } =
                    backend_with(env.clone(), &config, &options).expect("a good configuration");
                let snapshot = after(backend);
                assert_eq!(snapshot.counters, plain.counters, "{options:?}");
                for (a, b) in plain.tensors.iter().zip(&snapshot.tensors) {
                    assert!(
                        a == b,
                        "{}, {num_envs} environments, {options:?}: {} differs",
                        env.spec().name,
                        a.name
                    );
                }
            }
        }
    }
}

#[test]
fn options_never_change_a_bit() {
    for num_envs in [33, 300] {
        check(CartPole, num_envs);
        check(Locks, num_envs);
    }
}

#[test]
fn a_cpu_that_is_not_there_is_told_and_training_goes_on() {
    let config = config(17);
    let options = CpuOptions { pin: vec![u32::MAX, u32::MAX], ..CpuOptions::new(2) };
    let Started { backend, unbound } =
        backend_with(CartPole, &config, &options).expect("a good configuration");
    let reason = unbound.expect("a reason");
    assert!(reason.contains("CPU 4294967295") && !reason.contains('\n'), "{reason}");
    after(backend);
    let started = backend_with(CartPole, &config, &CpuOptions::new(2)).expect("a good configuration");
    assert_eq!(started.unbound, None, "nothing was asked for");
}
