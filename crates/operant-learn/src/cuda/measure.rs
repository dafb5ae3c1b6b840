//! Speeds on a device: environments alone and the rollout by the device's own events, training by the host's clock. Benches, `operant selftest gpu`
//! and whatever else prints a speed call these.

use std::time::{Duration, Instant};

use operant_cuda::{Device, Stream};
use operant_env::Env;

use super::backend::{GpuOptions, backend};
use super::play::{CudaPlay, PlayOptions};
use super::rollout::CudaRollout;
use super::specialise::WeightsAt;
use crate::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network, init_params};
use crate::precision::Precision;

/// Repetitions at least, whatever the budget.
const LEAST: usize = 5;
/// Seconds of launches between two events, so that what the host takes to enqueue the first does not count.
const BETWEEN: f64 = 2e-3;
/// Launches between two events, at most.
const MOST: usize = 256;

/// Steps per second of repeated launches, and what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Environment steps per second: the median of the repetitions.
    pub sps_median: f64,
    /// The slowest repetition.
    pub sps_min: f64,
    /// The fastest.
    pub sps_max: f64,
    /// Stretches of launches that were timed.
    pub reps: usize,
    /// Kernel launches per horizon.
    pub launches: f64,
    /// Bytes over the bus per horizon, both ways.
    pub bus_bytes: f64,
}

/// Times `launch`, which takes `steps` environment steps, again and again for about `budget`, after a warm-up.
fn timed(
    device: &Device,
    stream: &Stream,
    steps: usize,
    budget: Duration,
    mut launch: impl FnMut() -> Result<(), LearnError>,
) -> Result<Speed, LearnError> {
    let (begin, mut warm) = (Instant::now(), 0);
    while warm == 0 || begin.elapsed() < budget / 10 {
        launch()?;
        stream.synchronize()?;
        warm += 1;
    }
    let once = begin.elapsed().as_secs_f64() / f64::from(warm);
    let together = ((BETWEEN / once).ceil() as usize).clamp(1, MOST);
    let before = device.transfers();
    let (mut seconds, begin) = (Vec::new(), Instant::now());
    while seconds.len() < LEAST || begin.elapsed() < budget {
        let (start, end) = (device.event()?, device.event()?);
        stream.record(&start)?;
        for _ in 0..together {
            launch()?;
        }
        stream.record(&end)?;
        end.synchronize()?;
        seconds.push(f64::from(end.elapsed_ms(&start)?) / 1e3 / together as f64);
    }
    let after = device.transfers();
    seconds.sort_by(f64::total_cmp);
    let launches = (seconds.len() * together) as f64;
    let (reps, sps) = (seconds.len(), |seconds: f64| steps as f64 / seconds);
    let bytes = |t: &operant_cuda::Transfers| t.bytes_h2d + t.bytes_d2h;
    Ok(Speed {
        sps_median: sps(seconds[reps / 2]),
        sps_min: sps(seconds[reps - 1]),
        sps_max: sps(seconds[0]),
        reps,
        launches: (after.launches - before.launches) as f64 / launches,
        bus_bytes: (bytes(&after) - bytes(&before)) as f64 / launches,
    })
}

/// Environments alone: N of them, T uniformly random actions a launch, auto-reset and time limit on. With `writes` every
/// step's observation, reward and flags go to memory, as a policy outside the kernel would need them.
///
/// # Errors
/// When the device has no room or fails.
pub fn environments<E: Env>(
    device: &Device,
    env: &E,
    [num_steps, num_envs]: [usize; 2],
    writes: bool,
    budget: Duration,
) -> Result<Speed, LearnError> {
    let options = PlayOptions { writes: writes.then_some(num_steps), ..PlayOptions::new(1) };
    let play = CudaPlay::new(device, env, num_envs, options)?;
    timed(device, play.stream(), num_envs * num_steps, budget, || play.play(num_steps))
}

/// A measured rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutSpeed {
    /// How fast.
    pub speed: Speed,
    /// Where the weights were.
    pub weights_at: WeightsAt,
    /// Registers of a thread.
    pub registers: u32,
    /// Blocks that a multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
    /// Floating-point operations of the network per step, one forward pass.
    pub flops_per_step: f64,
}

/// The rollout of `config` with freshly initialised weights, GAE included.
///
/// # Errors
/// When the configuration cannot be rolled out there, or the device has no room or fails.
pub fn rollout<E: Env>(
    device: &Device,
    env: &E,
    config: &Config,
    precision: Precision,
    budget: Duration,
) -> Result<RolloutSpeed, LearnError> {
    let rollout = CudaRollout::new(device, env, config, precision)?;
    rollout.set_params(&init_params(rollout.network(), config.seed))?;
    let steps = config.num_envs * config.num_steps;
    let speed = timed(device, rollout.stream(), steps, budget, || rollout.roll())?;
    let shape = *rollout.kernel().shape();
    let function = rollout.kernel().function();
    Ok(RolloutSpeed {
        speed,
        weights_at: rollout.specialisation().weights_at,
        registers: function.registers()?,
        blocks_per_multiprocessor: function
            .blocks_per_multiprocessor(shape.threads, shape.shared as usize)?,
        flops_per_step: rollout.network().forward_flops() as f64,
    })
}

/// Measured training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSpeed {
    /// How fast, by the host's clock, from one report to the next.
    pub speed: Speed,
    /// Samples times epochs per second: libraries differ in how often they use a sample.
    pub sample_epochs: f64,
    /// Seconds of an update's rollout, by the device's events; the median.
    pub rollout_s: f64,
    /// Seconds of its epochs.
    pub update_s: f64,
    /// Floating-point operations of the network per environment step: one forward pass, and the epochs.
    pub flops_per_step: f64,
}

/// Full PPO of `config`, updates enqueued ahead as the training loop does.
///
/// # Errors
/// When the configuration cannot be trained there, or the device has no room or fails.
pub fn training<E: Env>(
    device: &Device,
    env: &E,
    config: &Config,
    precision: Precision,
    budget: Duration,
) -> Result<TrainingSpeed, LearnError> {
    const AHEAD: usize = 2;
    let options = GpuOptions { precision, memory_fraction: 0.9, threads: 1 };
    let mut learner = backend(env.clone(), config, device, options)?;
    for _ in 0..AHEAD {
        learner.enqueue_update()?;
    }
    // The first updates warm up.
    for _ in 0..AHEAD {
        learner.enqueue_update()?;
        learner.poll(true)?;
    }
    let (before, begin) = (device.transfers(), Instant::now());
    let (mut last, mut seconds, mut rollouts, mut updates) = (begin, Vec::new(), Vec::new(), Vec::new());
    while seconds.len() < LEAST || begin.elapsed() < budget {
        learner.enqueue_update()?;
        let Some(stats) = learner.poll(true)? else { break };
        let now = Instant::now();
        seconds.push((now - last).as_secs_f64());
        rollouts.push(stats.time_rollout);
        updates.push(stats.time_update);
        last = now;
    }
    let after = device.transfers().since(&before);
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let steps = (config.num_envs * config.num_steps) as f64;
    let (middle, reps) = (median(&mut seconds), seconds.len());
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let epochs = config.update_epochs as f64;
    Ok(TrainingSpeed {
        speed: Speed {
            sps_median: steps / middle,
            sps_min: steps / seconds[reps - 1],
            sps_max: steps / seconds[0],
            reps,
            launches: after.launches as f64 / reps as f64,
            bus_bytes: (after.bytes_h2d + after.bytes_d2h) as f64 / reps as f64,
        },
        sample_epochs: steps * epochs / middle,
        rollout_s: median(&mut rollouts),
        update_s: median(&mut updates),
        flops_per_step: network.forward_flops() as f64 + epochs * network.forward_backward_flops() as f64,
    })
}
