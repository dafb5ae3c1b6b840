//! Speeds on a GPU: environments alone and the rollout by CUDA events, training by the host's clock; and the device's limits.
//! `operant bench` calls these.

use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_cuda::{Device, Multiplier, Peak, Stream, Transfers};
use operant_env::AnyEnv;
use operant_learn::cuda::specialise::WeightPlacement;
use operant_learn::cuda::{CudaPlay, CudaRollout, GpuOptions, NetworkOptions, PlayOptions, backend};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{Config, Intrinsic, LearnError, Precision};

use super::cpu::stretch;
use super::driver::Driver;
use super::{RepetitionBudget, Speed, Spread, TrainingSpeed};

/// Minimum repetitions, independent of the budget.
const MIN_REPETITIONS: usize = 5;
/// Seconds of launches between two events, so that the host's time to enqueue the first is negligible.
const BETWEEN: f64 = 2e-3;
/// Maximum launches between two events.
const MAX_LAUNCHES: usize = 256;
/// Warm-up updates before a measurement, which load kernels.
const WARM_UP: usize = 2;

fn bytes(transfers: &Transfers) -> f64 {
    (transfers.bytes_h2d + transfers.bytes_d2h) as f64
}

/// Seconds of `launch`, repeated for about `budget` after a warm-up.
fn seconds(
    device: &Device,
    stream: &Stream,
    budget: Duration,
    mut launch: impl FnMut() -> Result<(), LearnError>,
) -> Result<(Vec<f64>, Transfers, f64), LearnError> {
    let (begin, mut warm) = (Instant::now(), 0);
    while warm == 0 || begin.elapsed() < budget / 10 {
        launch()?;
        stream.synchronize()?;
        warm += 1;
    }
    let once = begin.elapsed().as_secs_f64() / f64::from(warm);
    let together = ((BETWEEN / once).ceil() as usize).clamp(1, MAX_LAUNCHES);
    let before = device.transfers();
    let (mut seconds, begin) = (Vec::new(), Instant::now());
    while seconds.len() < MIN_REPETITIONS || begin.elapsed() < budget {
        let (start, end) = (device.event()?, device.event()?);
        stream.record(&start)?;
        for _ in 0..together {
            launch()?;
        }
        stream.record(&end)?;
        end.synchronize()?;
        seconds.push(f64::from(end.elapsed_ms(&start)?) / 1e3 / together as f64);
    }
    let launches = (seconds.len() * together) as f64;
    Ok((seconds, device.transfers().since(&before), launches))
}

/// Times `launch`, which takes `steps` environment steps.
fn timed(
    device: &Device,
    stream: &Stream,
    steps: usize,
    budget: Duration,
    launch: impl FnMut() -> Result<(), LearnError>,
) -> Result<Speed, LearnError> {
    let (seconds, moved, launches) = seconds(device, stream, budget, launch)?;
    Ok(Speed {
        launches: moved.launches as f64 / launches,
        bus_bytes: bytes(&moved) / launches,
        ..Speed::of_seconds(steps as f64, &seconds)
    })
}

/// Operations per second of the units that multiply in this precision, two per multiply-add: the upper limit of the kernels'
/// matrix products.
///
/// # Errors
/// When the kernels do not compile, or the device fails.
pub fn peak_flops(device: &Device, precision: Precision, budget: Duration) -> Result<Spread, LearnError> {
    const ROUNDS: u32 = 4_096;
    let peak = Peak::new(&device.load(&Peak::program())?)?;
    let multiplier = match precision {
        Precision::F32 => Multiplier::F32,
        Precision::Tf32 => Multiplier::Tf32,
        Precision::Bf16 => Multiplier::Bf16,
    };
    let (stream, blocks) = (device.stream()?, 4 * device.properties().multiprocessors);
    let out = device.alloc(Peak::threads(blocks))?;
    // Enough rounds to hide the launch; fewer on a slow device.
    let mut rounds = 1;
    let flops = loop {
        let begin = Instant::now();
        let flops = peak.multiply(&stream, multiplier, &out, rounds, [0.5, 0.25])?;
        stream.synchronize()?;
        if rounds >= ROUNDS || begin.elapsed() > budget / 10 {
            break flops;
        }
        rounds *= 4;
    };
    let (seconds, ..) = seconds(device, &stream, budget, || {
        peak.multiply(&stream, multiplier, &out, rounds, [0.5, 0.25])?;
        Ok(())
    })?;
    Ok(Spread::of(seconds.iter().map(|seconds| flops / seconds).collect()))
}

/// Bytes per second that a copy of `size` bytes reads and writes; `size` should be far more than the device's cache.
///
/// # Errors
/// When the device has no room for two of them, or fails.
pub fn bandwidth(device: &Device, size: usize, budget: Duration) -> Result<Spread, LearnError> {
    let peak = Peak::new(&device.load(&Peak::program())?)?;
    let (stream, blocks) = (device.stream()?, 8 * device.properties().multiprocessors);
    // As much as requested; less on a slow device.
    let mut words = 1 << 17;
    let (from, to) = loop {
        words = words.min((size / size_of::<u64>()).next_multiple_of(2)).max(2);
        let (from, to) = (device.alloc::<u64>(words)?, device.alloc::<u64>(words)?);
        from.fill(&stream, 1)?;
        stream.synchronize()?;
        let begin = Instant::now();
        peak.copy(&stream, &from, &to, blocks)?;
        stream.synchronize()?;
        if words * size_of::<u64>() >= size || begin.elapsed() > budget / 10 {
            break (from, to);
        }
        words *= 4;
    };
    let (seconds, ..) = seconds(device, &stream, budget, || Ok(peak.copy(&stream, &from, &to, blocks)?))?;
    let moved = (2 * words * size_of::<u64>()) as f64;
    Ok(Spread::of(seconds.iter().map(|seconds| moved / seconds).collect()))
}

/// Seconds that a copy of `size` bytes from the device to the host takes.
pub(crate) fn bus_seconds(device: &Device, size: usize, budget: Duration) -> Result<f64, LearnError> {
    if size == 0 {
        return Ok(0.0);
    }
    let stream = device.stream()?;
    let (from, mut to) = (device.alloc::<u8>(size)?, device.pinned::<u8>(size)?);
    from.fill(&stream, 0)?;
    let (seconds, ..) = seconds(device, &stream, budget, || Ok(from.read_into(&stream, &mut to)?))?;
    Ok(Spread::of(seconds).median)
}

/// Environments alone: N of them, T uniformly random actions per launch, auto-reset and time limit.
///
/// # Errors
/// When the device has no room or fails.
pub fn environments(
    device: &Device,
    env: &dyn AnyEnv,
    [num_steps, num_envs]: [usize; 2],
    budget: Duration,
) -> Result<Speed, LearnError> {
    let play = CudaPlay::new(device, env, num_envs, PlayOptions::new(1))?;
    timed(device, play.stream(), num_envs * num_steps, budget, || play.play(num_steps))
}

/// The kernel of a fused rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutKernel {
    /// Where its weights are stored.
    pub weights_at: WeightPlacement,
    /// Registers per thread.
    pub registers: u32,
    /// Resident blocks per multiprocessor.
    pub blocks_per_multiprocessor: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RolloutSpeed {
    pub speed: Speed,
    /// The fused kernel; None on the GEMM path.
    pub kernel: Option<RolloutKernel>,
    /// Floating-point operations of the network per step, one forward pass.
    pub flops_per_step: f64,
}

/// The rollout of `config` with freshly initialised weights, GAE included.
///
/// # Errors
/// When the configuration cannot be rolled out there, or the device has no room or fails.
pub fn rollout(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
    budget: Duration,
) -> Result<RolloutSpeed, LearnError> {
    if config.intrinsic == Intrinsic::Rnd {
        let problem = "a rollout alone has no networks for \"rnd\"".to_owned();
        let remedy = "measure training, or set intrinsic = \"none\"".to_owned();
        return Err(LearnError::Config { key: "intrinsic", problem, remedy });
    }
    let rollout = CudaRollout::new(device, env, config, options)?;
    rollout.set_params(&init_params(rollout.network(), config.seed))?;
    let steps = config.num_envs * config.num_steps;
    let speed = timed(device, rollout.stream(), steps, budget, || rollout.roll())?;
    let kernel = match (rollout.kernel(), rollout.specialisation()) {
        (Some(kernel), Some(specialisation)) => {
            let (function, grid) = kernel;
            Some(RolloutKernel {
                weights_at: specialisation.weights_at,
                registers: function.registers()?,
                blocks_per_multiprocessor: function
                    .blocks_per_multiprocessor(grid.threads, grid.shared as usize)?,
            })
        }
        _ => None,
    };
    Ok(RolloutSpeed { speed, kernel, flops_per_step: rollout.network().forward_flops() as f64 })
}

/// Full PPO of `config`, updates enqueued ahead as the training loop does.
///
/// # Errors
/// When the configuration cannot be trained there, or the device has no room or fails.
pub fn training(
    device: &Device,
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    options: impl Into<NetworkOptions>,
    budget: Duration,
) -> Result<TrainingSpeed, LearnError> {
    let options = GpuOptions { network: options.into(), ..GpuOptions::default() };
    let mut driver = Driver::new(backend(Arc::clone(env), config, device, options)?, u64::MAX);
    let mut once = Duration::ZERO;
    for _ in 0..WARM_UP {
        once = Duration::from_secs_f64(driver.update()?.seconds);
    }
    // Where the host is late for one report, it finds two: a single update's time would be too long, and the next one's zero.
    let together = stretch(once, budget);
    let before = device.transfers();
    let effort = RepetitionBudget { budget, min_repetitions: MIN_REPETITIONS };
    let (seconds, phases) = driver.measure(together, effort, Instant::now())?;
    let moved = device.transfers().since(&before);
    let updates = (seconds.len() * together) as f64;
    let speed = Speed {
        launches: moved.launches as f64 / updates,
        bus_bytes: bytes(&moved) / updates,
        ..Speed::of_seconds((config.num_envs * config.num_steps) as f64, &seconds)
    };
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    Ok(TrainingSpeed::new(speed, &phases, &network, config))
}
