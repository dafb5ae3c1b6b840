//! A synthetic run that resembles training, with the same numbers every time, for examples and tests.

#![allow(dead_code, reason = "each example and test needs a part of it")]

use std::path::Path;

use operant_metrics::{
    COUNT, Core, CoreKind, Episode, Frame, Identity, Level, Record, Ring, RingError, RingOptions, RunState,
    Shape, create_in, position,
};

/// Environment steps in one update.
pub const STEPS_PER_UPDATE: f64 = 32_768.0;

/// Noise of -1 to 1 that depends on `i` and `stream` alone.
pub fn noise(i: u64, stream: u64) -> f64 {
    let mut x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Who it is.
pub fn identity(run: &str, updates: u64) -> Identity {
    Identity {
        device: "cpu (16 threads)".to_string(),
        seed: 1,
        total_steps: updates * STEPS_PER_UPDATE as u64,
        solved_at: Some(475.0),
        dir: "/nowhere/runs".into(),
        version: "0.1.0".to_string(),
        detached: true,
        ..Identity::of_this_process(run, "cartpole")
    }
}

/// What update `i` (from 1) of `updates` reported.
pub fn record(i: u64, updates: u64, seed: u64) -> Record {
    let progress = i as f64 / updates as f64;
    let stream = |n: u64| noise(i, n + seed * 100);
    let learned = 1.0 / (1.0 + (-(progress * 14.0 - 4.0 - seed as f64)).exp());
    let dip = 130.0 * (-((progress - 0.62) / 0.025).powi(2)).exp();
    let mean = (22.0 + 474.0 * learned - dip + 14.0 * stream(1) * (1.1 - learned)).clamp(9.0, 500.0);
    let spread = 8.0 + 150.0 * learned * (1.0 - learned) + 0.4 * dip;
    let sps = 2.4e6 * (1.0 + 0.04 * stream(2) - 0.25 * (-((progress - 0.4) / 0.01).powi(2)).exp());
    let episodes = i as f64 * 120.0;
    let gpu_busy = 0.9 + 0.05 * stream(12);
    Record {
        time: i as f64 * STEPS_PER_UPDATE / 2.4e6,
        update: i as f64,
        env_steps: i as f64 * STEPS_PER_UPDATE,
        sps,
        sps_average: 2.38e6,
        episodes,
        episodic_return: mean,
        episodic_return_min: (mean - spread * (1.4 + 0.5 * stream(3))).max(8.0),
        episodic_return_max: (mean + spread * (1.4 + 0.5 * stream(4))).min(500.0),
        episodic_return_std: spread,
        episodic_length: mean,
        eval_return: if i.is_multiple_of(50) { mean } else { f64::NAN },
        eval_return_std: if i.is_multiple_of(50) { 0.5 * spread } else { f64::NAN },
        learning_rate: 2.5e-3 * (1.0 - progress),
        policy_loss: -0.012 * (1.0 - 0.7 * progress) + 0.003 * stream(5),
        value_loss: 40.0 * (-6.0 * progress).exp() + 0.3 + 0.15 * stream(6) + dip * 0.1,
        entropy: 0.693 * (1.0 - 0.55 * progress) + 0.01 * stream(7),
        approx_kl: 0.008 * (1.2 - progress) + 0.002 * stream(8).abs(),
        clipfrac: 0.12 * (1.1 - progress) + 0.02 * stream(9).abs(),
        explained_variance: 0.97 * (1.0 - (-9.0 * progress).exp()) + 0.01 * stream(10),
        grad_norm: 0.9 * (1.3 - progress) + 0.2 * stream(11).abs(),
        nonfinite_updates: 0.0,
        time_rollout: 0.0071 * (1.0 + 0.05 * stream(13)),
        time_gae: 0.0004,
        time_update: 0.0058 * (1.0 + 0.05 * stream(14)),
        time_host: 0.0002,
        time_idle: 0.0003,
        bytes_h2d: 0.0,
        bytes_d2h: 1024.0,
        gpu_utilization: gpu_busy,
        gpu_memory: 2.3e9,
        gpu_power: 410.0 + 30.0 * stream(15),
        gpu_temperature: 61.0 + 2.0 * stream(16),
        gpu_clock: 1.755e9,
        cpu_utilization: 0.82 + 0.05 * stream(17),
        cpu_performance: 0.9 + 0.05 * stream(18),
        cpu_efficiency: 0.7 + 0.05 * stream(19),
        cpu_balance: 0.78,
        core_balance: 0.81,
        env_wait: f64::NAN,
        comm_share: f64::NAN,
        env_restarts: f64::NAN,
        resident_memory: 84.0e6,
        ..Record::default()
    }
}

/// The options of the ring of a run of PPO.
pub fn options() -> RingOptions {
    let losses = &[
        "policy_loss",
        "value_loss",
        "entropy",
        "approx_kl",
        "clipfrac",
        "explained_variance",
        "grad_norm",
        "learning_rate",
    ];
    RingOptions { losses, ..RingOptions::default() }
}

/// The ring, in `dir`, of a live run called `long` with a long history.
///
/// # Errors
/// When it cannot be made there.
pub fn long_run(dir: &Path, updates: u64, total: u64) -> Result<Ring, RingError> {
    let mut ring = create_in(dir, &identity("long", total), &options())?;
    for i in 1..=updates {
        ring.writer.refill(&record(i, total, 0));
    }
    ring.writer.set_state(RunState::Running, "");
    ring.writer.show(&episode(500));
    for i in 0..40 {
        ring.side.event(Level::Info, &format!("checkpoint saved at {i} M steps"));
    }
    Ok(ring)
}

/// What the sampler would see at update `i`: those of the record's metrics that are sampled.
pub fn sampled(record: &Record) -> [f64; COUNT] {
    let all = record.values();
    let mut values = [f64::NAN; COUNT];
    let names = [
        "gpu_utilization",
        "gpu_memory",
        "gpu_power",
        "gpu_temperature",
        "gpu_clock",
        "cpu_utilization",
        "cpu_performance",
        "cpu_efficiency",
        "cpu_balance",
        "core_balance",
        "resident_memory",
    ];
    for at in names.into_iter().filter_map(position) {
        values[at] = all[at];
    }
    values
}

/// Eight fast cores and four frugal ones.
pub fn cores(i: u64) -> Vec<Core> {
    let core = |number: u32| {
        let (kind, busy) =
            if number < 8 { (CoreKind::Performance, 0.9) } else { (CoreKind::Efficiency, 0.7) };
        let utilization = (busy + 0.1 * noise(i, 50 + u64::from(number))) as f32;
        Core { number, kind, utilization }
    };
    (0..12).map(core).collect()
}

/// A cart with its pole, swaying.
pub fn episode(frames: usize) -> Episode {
    let frame = |t: usize| -> Frame {
        let phase = t as f32 * 0.05;
        let (x, angle) = (0.8 * phase.sin(), 0.25 * (phase * 1.7).sin());
        let tip = [x + angle.sin(), 0.2 + angle.cos()];
        vec![
            Shape::Line { points: vec![[-2.4, 0.0], [2.4, 0.0]], tone: 0 },
            Shape::Rectangle { low: [x - 0.3, 0.0], high: [x + 0.3, 0.2], tone: 1 },
            Shape::Line { points: vec![[x, 0.2], tip], tone: 2 },
            Shape::Circle { center: [x, 0.2], radius: 0.05, tone: 3 },
        ]
    };
    Episode {
        number: 0,
        fps: 50.0,
        episodic_return: frames as f32,
        low: [-2.4, -0.2],
        high: [2.4, 1.6],
        frames: (0..frames).map(frame).collect(),
    }
}
