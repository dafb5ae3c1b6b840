//! Speeds on the CPU by wall clock: environments alone, the rollout, training; and the machine's limits with the same threads:
//! multiply-adds and memory bandwidth. `operant bench` and the benches call these.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_env::AnyEnv;
use operant_lane::Float;
use operant_lane::isa::f32x16;
use operant_learn::cpu::{CpuOptions, Unit, backend_with, on_threads};
use operant_learn::network::{Architecture, Network};
use operant_learn::{Config, LearnError};
use rayon::prelude::*;

use super::driver::Driver;
use super::{RepetitionBudget, Speed, TrainingSpeed, time};

/// Independent chains of multiply-adds per core: a latency of 4 on two units needs 8.
pub const CHAINS: usize = 16;

/// Floats of a task of the triad: 256 KiB of each array.
const TRIAD_BLOCK: usize = 1 << 16;
/// Seconds of a repetition: long enough to average short disturbances.
const STRETCH: f64 = 0.05;
/// Maximum environments of a task: their states fit the first-level cache many times.
const TASK: usize = 512;
/// Tasks per thread, so that other threads take over the tasks of a delayed one.
const TASKS_A_THREAD: usize = 8;

/// Floating-point operations per second of multiply-adds on all threads of the current rayon pool, two per multiply-add: the
/// upper limit of any matrix product, in f32 or by a unit for bf16.
pub fn peak_flops(bf16: Option<Unit>) -> f64 {
    const STEPS: usize = 4_000_000;
    /// Rounds of a unit that take about as long.
    const ROUNDS: usize = 250_000;
    let of_thread = || {
        if let Some(flops) = bf16.and_then(|unit| unit.multiply_adds(ROUNDS)) {
            return flops;
        }
        let (a, b) = (black_box(f32x16::splat(0.999_9)), black_box(f32x16::splat(1e-4)));
        let mut chains: [f32x16; CHAINS] = core::array::from_fn(|i| f32x16::splat(black_box(i as f32)));
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = Float::mul_add(*chain, a, b);
            }
        }
        black_box(chains);
        (STEPS * CHAINS * 16 * 2) as f64
    };
    let mut flops = 0.0;
    let seconds = time(|| flops = rayon::broadcast(|_| of_thread()).into_iter().sum());
    flops / seconds
}

/// Three arrays for measuring bandwidth: `a = b + s c` reads two and writes one.
#[derive(Debug)]
pub struct Triad {
    arrays: [Vec<f32>; 3],
}

impl Triad {
    /// Allocates arrays of `bytes` bytes in total, which should be far more than the last-level cache. The threads of the current
    /// rayon pool touch first about the parts that they will work on.
    pub fn new(bytes: usize) -> Self {
        let floats = (bytes / size_of::<[f32; 3]>()).max(1);
        let array = |value: f32| {
            let mut array = vec![0.0; floats];
            array.par_chunks_mut(TRIAD_BLOCK).for_each(|block| block.fill(value));
            array
        };
        Self { arrays: [3.0, 1.0, 2.0].map(array) }
    }

    /// Bytes per second that all threads of the current rayon pool read and write in one pass. Lines that the processor reads only
    /// to overwrite are not counted.
    pub fn pass(&mut self) -> f64 {
        let [a, b, c] = &mut self.arrays;
        let bytes = 3 * size_of::<f32>() * a.len();
        let scale = black_box(0.5f32);
        let seconds = time(|| {
            let from = b.par_chunks(TRIAD_BLOCK).zip(c.par_chunks(TRIAD_BLOCK));
            a.par_chunks_mut(TRIAD_BLOCK).zip(from).for_each(|(a, (b, c))| {
                for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                    *a = b + scale * c;
                }
            });
        });
        black_box(&self.arrays);
        bytes as f64 / seconds
    }
}

/// Times `work`, which takes `steps` environment steps, repeatedly: a warm-up, then repetitions until `effort`, counted from
/// `begin`, is spent.
fn repeated(
    effort: RepetitionBudget,
    begin: Instant,
    steps: usize,
    mut work: impl FnMut() -> Result<(), LearnError>,
) -> Result<Speed, LearnError> {
    let left = effort.budget.saturating_sub(begin.elapsed());
    let (start, mut times) = (Instant::now(), 0u32);
    while times == 0 || start.elapsed() < left / 10 {
        work()?;
        times += 1;
    }
    let together = stretch(start.elapsed() / times, left);
    let mut seconds = Vec::new();
    while seconds.len() < effort.min_repetitions.max(1) || begin.elapsed() < effort.budget {
        let start = Instant::now();
        (0..together).try_for_each(|_| work())?;
        seconds.push(start.elapsed().as_secs_f64() / together as f64);
    }
    Ok(Speed::of_seconds(steps as f64, &seconds))
}

/// How often work that takes this long is done per repetition, so that several repetitions fit into `left`.
pub(super) fn stretch(once: Duration, left: Duration) -> usize {
    let seconds = STRETCH.min(left.as_secs_f64() / 8.0);
    ((seconds / once.as_secs_f64().max(1e-9)).ceil() as usize).clamp(1, 1 << 20)
}

/// Environments alone: N of them, uniformly random actions, auto-reset and time limit, T steps between barriers of the threads.
///
/// # Errors
/// When the system gives no threads.
pub fn environments(
    env: &dyn AnyEnv,
    [num_steps, num_envs]: [usize; 2],
    threads: &CpuOptions,
    effort: RepetitionBudget,
) -> Result<Speed, LearnError> {
    let begin = Instant::now();
    on_threads(threads, || {
        let (tasks, lanes) = (rayon::current_num_threads() * TASKS_A_THREAD, threads.lanes());
        let size = num_envs.div_ceil(tasks).next_multiple_of(lanes as usize).min(TASK);
        let task = |first: usize| env.random_play(1, first as u32, size.min(num_envs - first), lanes);
        let mut tasks = (0..num_envs).step_by(size).map(task).collect::<Result<Vec<_>, _>>()?;
        repeated(effort, begin, num_envs * num_steps, || {
            tasks.par_iter_mut().with_max_len(1).try_for_each(|task| {
                black_box(task.play(num_steps as u64)?);
                Ok(())
            })
        })
    })?
}

/// The rollout of `config` with freshly initialised weights, GAE included, without updates.
///
/// # Errors
/// When the configuration cannot be rolled out, or the system gives no threads.
pub fn rollout(
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    threads: &CpuOptions,
    effort: RepetitionBudget,
) -> Result<Speed, LearnError> {
    let begin = Instant::now();
    let mut backend = backend_with(Arc::clone(env), config, threads)?.backend;
    let (pool, steps) = (backend.pool(), config.num_envs * config.num_steps);
    pool.install(|| repeated(effort, begin, steps, || backend.roll()))
}

/// Full PPO of `config`, as the training loop runs it: an update is enqueued and collected, then the next.
///
/// # Errors
/// When the configuration cannot be trained, or the system gives no threads.
pub fn training(
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    threads: &CpuOptions,
    effort: RepetitionBudget,
) -> Result<TrainingSpeed, LearnError> {
    let begin = Instant::now();
    let mut driver = Driver::new(backend_with(Arc::clone(env), config, threads)?.backend, u64::MAX);
    // The first touches the memory of the batch. A replay is filled first.
    let mut first = driver.update()?;
    while first.stats.metrics.minibatches == 0.0 {
        first = driver.update()?;
    }
    let first = Duration::from_secs_f64(first.seconds);
    let together = stretch(first, effort.budget.saturating_sub(begin.elapsed()));
    let (seconds, phases) = driver.measure(together, effort, begin)?;
    let speed = Speed::of_seconds((config.num_envs * config.num_steps) as f64, &seconds);
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    Ok(TrainingSpeed::new(speed, &phases, &network, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Phases;
    use operant_env::cartpole::CartPole;

    const BRIEF: RepetitionBudget =
        RepetitionBudget { budget: Duration::from_millis(20), min_repetitions: 3 };

    fn cartpole() -> Arc<dyn AnyEnv> {
        Arc::new(CartPole::default())
    }

    fn config(num_envs: usize) -> Config {
        Config { num_envs, num_steps: 8, hidden: vec![8], ..Config::default() }
    }

    #[test]
    fn every_measurement_repeats_and_gives_a_speed() {
        let two = CpuOptions::new(2);
        for num_envs in [17, 300] {
            let config = config(num_envs);
            for speed in [
                environments(&CartPole::default(), [8, num_envs], &two, BRIEF).expect("measured"),
                rollout(&cartpole(), &config, &two, BRIEF).expect("measured"),
                training(&cartpole(), &config, &two, BRIEF).expect("measured").speed,
            ] {
                assert!(
                    speed.reps >= BRIEF.min_repetitions && speed.samples.len() == speed.reps,
                    "{speed:?}"
                );
                assert!(speed.sps_min > 0.0 && speed.sps_min <= speed.sps_median, "{speed:?}");
                assert!(speed.sps_median <= speed.sps_max && speed.sps_max.is_finite(), "{speed:?}");
            }
        }
    }

    #[test]
    fn training_has_phases_and_a_cost() {
        let config = config(32);
        let measured = training(&cartpole(), &config, &CpuOptions::new(1), BRIEF).expect("measured");
        let Phases { rollout, gae, update } = measured.phases;
        assert!(rollout > 0.0 && gae > 0.0 && update > 0.0, "{measured:?}");
        // 4-8-2 and 4-8-1: 32 + 16 and 32 + 8 multiply-adds forward.
        let (forward, first) = (2.0 * 88.0, 2.0 * 64.0);
        assert_eq!(measured.flops_per_step, forward + 4.0 * (3.0 * forward - first));
    }

    #[test]
    fn a_pass_over_memory_computes_the_triad() {
        let mut triad = Triad::new(3 * 4 * 100_000);
        assert!(triad.pass() > 0.0);
        assert!(triad.arrays[0].iter().all(|a| *a == 2.0));
    }

    #[test]
    fn what_cannot_be_trained_is_an_error() {
        let config = Config { hidden: vec![8], ..config(16) };
        let binary: Arc<dyn AnyEnv> =
            Arc::new(operant_env::minatar::MinAtar::<operant_env::minatar::Breakout>::default());
        let refused = rollout(&binary, &Config { norm_obs: true, ..config }, &CpuOptions::new(1), BRIEF);
        assert!(matches!(refused, Err(LearnError::Config { key: "norm_obs", .. })));
    }
}
