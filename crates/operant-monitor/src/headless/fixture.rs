//! Runs for tests of the monitor: real rings, created in a temporary directory.

use std::path::PathBuf;

use operant_metrics::{
    COUNT, Core, CoreKind, Event, Identity, Level, Record, Ring, RingOptions, RingReader, RunState,
    create_in, position,
};
use ratatui::buffer::Buffer;
use tempfile::TempDir;

use crate::data::Source;

/// A run of CartPole after `updates` updates, its directory, and a reader of its ring.
pub fn run(updates: u64) -> (TempDir, Ring, Source) {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity {
        algorithm: "ppo".to_owned(),
        device: "cpu".to_owned(),
        seed: 7,
        pid: 4242,
        dir: PathBuf::from("/somewhere/runs/first-try"),
        started_unix_ns: 1_795_269_726_250_000_000,
        total_steps: 1_000_000,
        solved_at: Some(475.0),
        version: "0.1.0".to_owned(),
        ..Identity::of_this_process("first-try", "cartpole")
    };
    let mut ring = create_in(dir.path(), &identity, &RingOptions::default()).unwrap();
    for update in 1..=updates {
        ring.writer.publish(&record(update));
    }
    if updates > 0 {
        ring.writer.set_state(RunState::Running, "");
    }
    let reader = RingReader::open(ring.writer.path()).unwrap();
    (dir, ring, reader.into())
}

/// Update number `update` of a learning run; in every third update no episode ends.
pub fn record(update: u64) -> Record {
    let x = update as f64;
    let ended = !update.is_multiple_of(3);
    let when_ended = |value: f64| if ended { value } else { f64::NAN };
    Record {
        time: x * 0.01,
        update: x,
        env_steps: x * 1024.0,
        sps: 100_000.0 + x,
        sps_average: 99_000.0,
        episodes: x * 2.0,
        episodic_return: when_ended(x.min(500.0)),
        episodic_return_min: when_ended(x.min(500.0) / 2.0),
        episodic_return_max: when_ended(500.0),
        episodic_return_std: when_ended(12.5),
        episodic_length: when_ended(x.min(500.0)),
        eval_return: 480.0,
        eval_return_std: 3.5,
        learning_rate: 0.0025,
        epsilon: 0.05,
        intrinsic_reward: 0.25,
        policy_loss: -0.0125,
        value_loss: 12.5,
        entropy: 0.69,
        approx_kl: 0.0031,
        clipfrac: 0.125,
        explained_variance: 0.875,
        grad_norm: 0.5,
        td_loss: 0.25,
        q_values: 40.5,
        actor_loss: -42.5,
        alpha: 0.125,
        replay_size: 98_304.0,
        minibatches: 256.0,
        time_rollout: 0.004,
        time_gae: 0.0005,
        time_update: 0.005,
        time_host: 0.0003,
        time_idle: 0.0002,
        env_wait: 0.25,
        comm_share: 0.125,
        env_restarts: 2.0,
        bytes_h2d: 0.0,
        bytes_d2h: 0.0,
        ..Record::default()
    }
}

/// A sample of a machine with two kinds of cores and no GPU.
pub fn sample(ring: &mut Ring) {
    let mut values = [f64::NAN; COUNT];
    for (name, value) in [
        ("cpu_utilization", 0.75),
        ("cpu_performance", 0.875),
        ("cpu_efficiency", 0.625),
        ("cpu_balance", 0.7142857),
        ("core_balance", 0.6857142),
        ("resident_memory", 123_456_789.0),
    ] {
        values[position(name).unwrap()] = value;
    }
    let core = |number, kind, utilization| Core { number, kind, utilization };
    let cores = [core(0, CoreKind::Performance, 0.875), core(1, CoreKind::Efficiency, 0.6)];
    ring.side.sample(&values, &cores, 1);
}

/// An event; there is one every 61 seconds.
pub fn event(number: u64, level: Level, text: &str) -> Event {
    let unix_ns = 1_795_269_726_250_000_000 + number * 61_000_000_000;
    Event { number, unix_ns, level, text: text.to_owned() }
}

/// The text that a terminal would show, without trailing blanks.
pub fn screen(buffer: &Buffer) -> String {
    let area = buffer.area;
    let row = |y| (area.left()..area.right()).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (area.top()..area.bottom()).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}
