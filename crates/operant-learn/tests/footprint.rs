//! The memory that training on the CPU takes is what [`Footprint`] counts before it is taken. A process of its own, since it reads the
//! peak of the whole process.

#![cfg(target_os = "linux")]

use std::process::Command;

use operant_env::builtin;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::{CpuOptions, Footprint, Unit, backend_with};
use operant_learn::{Config, CoreKind, Intrinsic};

/// The variable that says which case a process measures.
const CASE: &str = "OPERANT_FOOTPRINT_CASE";

/// A value of `/proc/self/status` in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Bytes that building a backend, one update and one snapshot with its copy take at their peak.
fn measured(env: &str, config: &Config, options: &CpuOptions) -> u64 {
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").expect("written");
    let before = status("VmRSS:");
    let started = backend_with(builtin().find(env).expect("built in").clone(), config, options)
        .expect("a good configuration");
    let mut backend = started.backend;
    backend.enqueue_update().expect("no failure");
    backend.poll(true).expect("no failure");
    let snapshot = backend.save().expect("saved");
    // As the file's bytes are.
    let copy = snapshot.clone();
    let peak = status("VmHWM:");
    drop((snapshot, copy, backend));
    peak.saturating_sub(before)
}

#[test]
fn what_is_counted_is_what_is_taken() {
    let threads = 2;
    let network = Config {
        num_envs: 16,
        num_steps: 16,
        num_minibatches: 1,
        update_epochs: 1,
        hidden: vec![1024, 1024],
        ..Config::default()
    };
    let samples = Config {
        num_envs: 4096,
        num_steps: 256,
        num_minibatches: 32,
        update_epochs: 1,
        hidden: vec![16],
        ..Config::default()
    };
    let memory = Config {
        num_envs: 64,
        num_steps: 512,
        num_minibatches: 2,
        update_epochs: 1,
        hidden: vec![64],
        core: CoreKind::Lstm,
        shared_trunk: true,
        sequence_length: 512,
        ..Config::default()
    };
    let replayed = Config {
        algorithm: Algorithm::Dqn,
        num_envs: 8,
        num_steps: 12_500,
        num_minibatches: 1,
        hidden: vec![64],
        core: CoreKind::Lstm,
        batch_size: 4096,
        sequence_length: 128,
        learning_starts: 99_000,
        buffer_size: 100_000,
        updates_per_step: 0.003,
        ..Config::default()
    };
    let counts = Config {
        num_envs: 8192,
        num_steps: 8,
        num_minibatches: 8,
        update_epochs: 1,
        hidden: vec![16],
        intrinsic: Intrinsic::Counts,
        ..Config::default()
    };
    let distilled = Config {
        num_envs: 64,
        num_steps: 16,
        num_minibatches: 4,
        update_epochs: 1,
        hidden: vec![512, 512],
        intrinsic: Intrinsic::Rnd,
        intrinsic_gamma: 0.9,
        ..Config::default()
    };
    // Memories of each player, and what sequences begin with.
    let players = Config {
        num_envs: 2048,
        num_steps: 16,
        num_minibatches: 16,
        update_epochs: 1,
        hidden: vec![16],
        core: CoreKind::Lstm,
        core_width: 256,
        shared_trunk: true,
        sequence_length: 16,
        ..Config::default()
    };
    let cases = [
        ("connect_four", players, None),
        ("minigrid_empty_5x5", distilled, None),
        ("cartpole", replayed, None),
        ("cartpole", memory, None),
        ("minigrid_empty_5x5", counts, None),
        ("cartpole", samples, None),
        ("cartpole", network.clone(), Some(Unit::TILES_TWIN)),
        ("cartpole", network, None),
    ];
    // A process each: the allocator keeps some of what one gave back, which the next then does not take.
    let Some(number) = std::env::var_os(CASE) else {
        for number in 0..cases.len() {
            let mut test = Command::new(std::env::current_exe().expect("a program"));
            test.args(["--exact", "what_is_counted_is_what_is_taken", "--nocapture"]);
            let status = test.env(CASE, number.to_string()).status().expect("started");
            assert!(status.success(), "case {number}");
        }
        return;
    };
    let number: usize = number.to_str().and_then(|text| text.parse().ok()).expect("a number");
    let (env, config, bf16) = cases.into_iter().nth(number).expect("a case");
    let worlds = builtin();
    let world = worlds.find(env).expect("built in");
    let counted = Footprint::of(&**world, &config, threads).expect("trains").bytes(config.num_envs) as f64;
    let options = CpuOptions { bf16, ..CpuOptions::new(threads) };
    // A system that is short of memory takes pages back meanwhile; then it is measured again.
    let measure = || measured(env, &config, &options) as f64;
    let taken = (0..3).fold(0.0, |taken: f64, _| if taken < 0.5 * counted { measure() } else { taken });
    assert!(taken <= 1.1 * counted + 8e6, "{taken:.3e} bytes taken, {counted:.3e} counted");
    assert!(taken >= 0.5 * counted, "{taken:.3e} bytes taken, {counted:.3e} counted");
}
