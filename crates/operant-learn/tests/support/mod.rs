//! What the tests share: environments, how to train, and what must be equal.

#[macro_use]
pub mod worlds;
#[macro_use]
pub mod parts;

#[path = "../../../operant-env/tests/support/cards.rs"]
pub mod cards;
#[path = "../../../operant-env/tests/support/crane.rs"]
pub mod crane;
pub mod fuses;
pub mod gpu;
#[path = "../../../operant-env/tests/support/locks.rs"]
pub mod locks;
pub mod needle;
#[path = "../../../operant-env/tests/support/python_worlds.rs"]
pub mod python_worlds;
#[path = "../../../operant-env/tests/support/random_play.rs"]
#[allow(dead_code, reason = "a part of it belongs to the suites of operant-env")]
pub mod random_play;
#[path = "../../../operant-env/tests/support/switchboard.rs"]
pub mod switchboard;

use std::sync::Arc;

use operant_env::{AnyEnv, builtin};
use operant_learn::cpu::off_policy::replay::Replay;
use operant_learn::cpu::{CpuOptions, backend_with};
use operant_learn::{Backend, Config, LearnError, Snapshot, UpdateStats};

use self::cards::{Cards, MixedCards};
use self::crane::Crane;
use self::fuses::Fuses;
use self::locks::Locks;
use self::needle::Needle;
use self::switchboard::Switchboard;

/// An environment as backends take it.
pub fn shared(env: impl AnyEnv) -> Arc<dyn AnyEnv> {
    Arc::new(env)
}

/// The environment of this name: one of the tests' own, or a built-in one.
pub fn world(name: &str) -> Arc<dyn AnyEnv> {
    let own = [
        shared(Locks),
        shared(Cards),
        shared(MixedCards),
        shared(Needle),
        shared(Switchboard),
        shared(Crane),
        shared(Fuses),
    ];
    let own = own.into_iter().find(|env| env.spec().name == name);
    own.unwrap_or_else(|| builtin().find(name).expect("registered").clone())
}

/// One update, and its report.
pub fn update(backend: &mut dyn Backend) -> UpdateStats {
    let ticket = backend.enqueue_update().expect("an update");
    let stats = backend.poll(true).expect("no failure").expect("a finished update");
    assert_eq!(stats.ticket, ticket);
    stats
}

/// Updates that are enqueued ahead, as the training loop does; all reports.
pub fn run(backend: &mut dyn Backend, updates: usize) -> Vec<UpdateStats> {
    let (mut stats, mut enqueued) = (Vec::new(), 0);
    while stats.len() < updates {
        if enqueued < updates && enqueued < stats.len() + 2 {
            backend.enqueue_update().expect("an update");
            enqueued += 1;
        } else {
            stats.extend(backend.poll(true).expect("a report"));
        }
    }
    stats
}

/// The state after this many updates on the CPU.
pub fn after(env: &Arc<dyn AnyEnv>, config: &Config, options: &CpuOptions, updates: usize) -> Snapshot {
    let mut backend = backend_with(Arc::clone(env), config, options).expect("a good configuration").backend;
    (0..updates).for_each(|_| _ = update(&mut *backend));
    backend.save().expect("a snapshot")
}

/// Statistics without times, and the state after the last update.
pub type Trained = (Vec<[f64; 8]>, Snapshot);

/// A new backend with the state of another, its replay included.
pub fn continued(mut backend: Box<dyn Backend>, from: &mut dyn Backend) -> Box<dyn Backend> {
    backend.load(&from.save().expect("saved")).expect("it fits");
    let replay = from.replay().expect("read").expect("a replay");
    let fill = &mut |to: &mut Replay| -> Result<(), LearnError> {
        to.clone_from(&replay);
        Ok(())
    };
    backend.fill_replay(fill).expect("filled");
    backend
}

/// The result of some updates, from a snapshot if one is given.
pub fn train(mut backend: Box<dyn Backend>, from: Option<&Snapshot>, updates: usize) -> Trained {
    if let Some(snapshot) = from {
        backend.load(snapshot).expect("it fits");
    }
    let numbers = |stats: UpdateStats| {
        [
            stats.env_steps as f64,
            stats.episodes as f64,
            if stats.episodes > 0 { stats.metrics.episodic_return } else { 0.0 },
            stats.metrics.policy_loss,
            stats.metrics.value_loss,
            stats.metrics.approx_kl,
            stats.metrics.explained_variance,
            stats.metrics.grad_norm,
        ]
    };
    let stats = (0..updates).map(|_| numbers(update(&mut *backend))).collect();
    (stats, backend.save().expect("a snapshot"))
}

/// The single-precision numbers of the tensors whose names begin like this; there are some.
#[track_caller]
pub fn numbers(snapshot: &Snapshot, prefix: &str) -> Vec<f32> {
    let own = snapshot.tensors.iter().filter(|tensor| tensor.name.starts_with(prefix));
    let words = own.flat_map(|tensor| tensor.data.as_chunks().0);
    let all: Vec<f32> = words.map(|word| f32::from_le_bytes(*word)).collect();
    assert!(!all.is_empty(), "{prefix}");
    all
}

/// Compares tensor by tensor, so that a failure names the first that differs.
#[track_caller]
pub fn assert_same(a: &Snapshot, b: &Snapshot, what: &str) {
    assert_eq!(a.counters, b.counters, "{what}");
    for (a, b) in a.tensors.iter().zip(&b.tensors) {
        assert!(a == b, "{what}: {} differs", a.name);
    }
    assert_eq!(a.tensors.len(), b.tensors.len(), "{what}");
}
