//! The profile of training on the CPU: updates with phase timers alternate with undisturbed ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_env::{AnyEnv, running_words};
use operant_learn::cpu::threads::timers::{Part, PartTimes};
use operant_learn::cpu::{CpuOptions, Instrumented, backend_with};
use operant_learn::network::{Architecture, Network};
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, LearnError};

use super::{Operation, OperationKind, Phase, Profile, TimingMethod};
use crate::measure::driver::Driver;
use crate::measure::{Phases, RepetitionBudget, Spread};

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Profiles training.
///
/// # Errors
/// When the configuration cannot be trained, or the system gives no threads.
pub fn profile(
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    threads: &CpuOptions,
    effort: RepetitionBudget,
) -> Result<Profile, LearnError> {
    let begin = Instant::now();
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let backend = backend_with(Arc::clone(env), config, threads)?.backend;
    let updates = updates(backend, effort, begin)?;
    let bytes = Bytes {
        layout: SampleLayout::of_sides(&network.architecture, env.masked(), env.spec().sides()),
        state_words: running_words(&**env),
        params: network.len(),
        config,
    };
    Ok(updates.profile(&bytes))
}

/// Measured updates of both kinds.
#[derive(Debug, Default)]
struct Updates {
    /// Undisturbed updates: seconds of wall time, and their phases.
    plain: Vec<(f64, Phases)>,
    /// Updates with phase timers: the same.
    timed: Vec<(f64, Phases)>,
    times: PartTimes,
    /// Seconds per clock reading.
    clock: f64,
    threads: usize,
}

fn updates(
    backend: Box<dyn Instrumented>,
    effort: RepetitionBudget,
    begin: Instant,
) -> Result<Updates, LearnError> {
    let threads = backend.pool().current_num_threads();
    let mut updates = Updates { clock: reading(), threads, ..Updates::default() };
    let mut driver = Driver::new(backend, u64::MAX);
    let mut update = |on: bool| -> Result<(f64, Phases), LearnError> {
        driver.backend().time_parts(on);
        let update = driver.update()?;
        driver.backend().drain_times(&mut updates.times);
        Ok((update.seconds, Phases::of(&update.stats)))
    };
    // The first update starts the workers and touches the memory of the batch.
    update(false)?;
    while updates.timed.len() < effort.min_repetitions.max(1) || begin.elapsed() < effort.budget {
        updates.plain.push(update(false)?);
        updates.timed.push(update(true)?);
    }
    Ok(updates)
}

/// Measures the seconds per clock reading.
fn reading() -> f64 {
    const READINGS: u32 = 10_000;
    let start = Instant::now();
    let mut last = start;
    for _ in 0..READINGS {
        last = Instant::now();
    }
    let spent: Duration = last - start;
    spent.as_secs_f64() / f64::from(READINGS)
}

/// Phase, name and kind of each timed part.
const PARTS: [(Part, Phase, &str, OperationKind); Part::ALL.len()] = [
    (Part::Environment, Phase::Rollout, "environment", OperationKind::Environment),
    (Part::Policy, Phase::Rollout, "policy", OperationKind::Policy),
    (Part::Sampling, Phase::Rollout, "sampling", OperationKind::Rollout),
    (Part::Storing, Phase::Rollout, "samples stored", OperationKind::Transfer),
    (Part::Booking, Phase::Rollout, "rewards and episodes", OperationKind::Rollout),
    (Part::Gae, Phase::Gae, "advantages", OperationKind::Rollout),
    (Part::Gather, Phase::Update, "samples gathered", OperationKind::Transfer),
    (Part::Forward, Phase::Update, "forward", OperationKind::Policy),
    (Part::Loss, Phase::Update, "loss", OperationKind::Policy),
    (Part::Backward, Phase::Update, "backward", OperationKind::Policy),
    (Part::Reduction, Phase::Update, "sums of gradients", OperationKind::Reduction),
    (Part::Adam, Phase::Update, "norm and Adam", OperationKind::Reduction),
    (Part::Packing, Phase::Update, "weights packed", OperationKind::Policy),
    (Part::Statistics, Phase::Update, "statistics", OperationKind::Reduction),
];

/// The span between two barriers of the threads: there is none between a tile's rollout and its advantages.
struct BarrierSpan {
    /// The phases in it; waiting counts to the first.
    phases: &'static [Phase],
    waiting: &'static str,
    of: fn(&Phases) -> f64,
}

const BARRIER_SPANS: [BarrierSpan; 2] = [
    BarrierSpan {
        phases: &[Phase::Rollout, Phase::Gae],
        waiting: "waiting for the last tile",
        of: |phases| phases.rollout + phases.gae,
    },
    BarrierSpan { phases: &[Phase::Update], waiting: "waiting at joins", of: |phases| phases.update },
];

impl Updates {
    fn profile(&self, bytes: &Bytes<'_>) -> Profile {
        let median = |updates: &[(f64, Phases)]| {
            Spread::of(updates.iter().map(|(seconds, _)| *seconds).collect()).median
        };
        let plain = Phases::median(&self.plain.iter().map(|(_, phases)| *phases).collect::<Vec<_>>());
        let (plain_s, timed_s) = (median(&self.plain), median(&self.timed));
        let mut operations: Vec<Operation> =
            BARRIER_SPANS.iter().flat_map(|span| self.operations(span, &plain, bytes)).collect();
        operations.sort_by_key(|operation| operation.phase);
        operations.push(Operation {
            phase: Phase::Between,
            name: "between phases",
            kind: OperationKind::Host,
            seconds: (plain_s - plain.sum()).max(0.0),
            calls: f64::NAN,
            bytes: f64::NAN,
            how: TimingMethod::Clock,
        });
        Profile {
            period: plain_s,
            phases: plain,
            operations,
            notes: vec![
                format!(
                    "{} updates with phase timers ({:.1} ns per clock reading) took {:.3} of the time of {} without; \
                    shares are from the former, seconds are scaled to the latter",
                    self.timed.len(),
                    self.clock * 1e9,
                    timed_s / plain_s,
                    self.plain.len()
                ),
                "work of a single thread counts once; the other threads' time counts as waiting".to_owned(),
                "bytes are counted from the shapes; operations without bytes stay within the caches"
                    .to_owned(),
            ],
        }
    }

    fn operations(&self, span: &BarrierSpan, plain: &Phases, bytes: &Bytes<'_>) -> Vec<Operation> {
        let spent = |part: Part| self.times[part as usize];
        let parts: Vec<_> = PARTS.into_iter().filter(|(_, phase, ..)| span.phases.contains(phase)).collect();
        // The time of all threads, less the clock readings, of which one lies in each part.
        let all = self.threads as f64 * self.timed.iter().map(|(_, phases)| (span.of)(phases)).sum::<f64>();
        let readings: u64 = parts.iter().map(|(part, ..)| spent(*part).calls).sum();
        let accounted: f64 = parts.iter().map(|(part, ..)| spent(*part).seconds).sum();
        let whole = (all - readings as f64 * self.clock).max(f64::MIN_POSITIVE);
        let scaled = |seconds: f64| seconds.max(0.0) / whole * (span.of)(plain);
        let mut operations = Vec::new();
        for (part, phase, name, kind) in parts {
            let (spent, updates) = (spent(part), self.timed.len() as f64);
            let calls = spent.calls as f64 / updates;
            let seconds = scaled(spent.seconds - spent.calls as f64 * self.clock);
            let bytes = bytes.of(part, calls);
            operations.push(Operation {
                phase,
                name,
                kind,
                seconds,
                calls,
                bytes,
                how: TimingMethod::Timers,
            });
        }
        operations.push(Operation {
            phase: span.phases[0],
            name: span.waiting,
            kind: OperationKind::Synchronisation,
            seconds: scaled(all - accounted),
            calls: f64::NAN,
            bytes: f64::NAN,
            how: TimingMethod::Left,
        });
        operations
    }
}

/// Memory traffic of an update.
struct Bytes<'a> {
    layout: SampleLayout,
    state_words: usize,
    params: usize,
    config: &'a Config,
}

impl Bytes<'_> {
    fn of(&self, part: Part, calls: f64) -> f64 {
        let samples = (self.config.num_envs * self.config.num_steps) as f64;
        let word = size_of::<u32>() as f64;
        let sample = word * self.layout.stride as f64;
        let line = (size_of::<u32>() * self.layout.stride).next_multiple_of(LINE) as f64;
        let epochs = self.config.update_epochs as f64;
        match part {
            // The states are read at the start of a rollout and written at its end.
            Part::Booking => 2.0 * word * (self.state_words * self.config.num_envs) as f64,
            Part::Storing => samples * sample,
            // How much minibatches of a replay read and write is not counted.
            _ if self.config.algorithm.declaration().has_replay() => f64::NAN,
            // Rewards, values and ends are read, advantages written and copied into the samples.
            Part::Gae => samples * 5.0 * word,
            Part::Gather => epochs * samples * line,
            Part::Statistics => {
                let advantages = if (self.config.algorithm.declaration().has_statistics)(self.config) {
                    epochs * LINE as f64
                } else {
                    0.0
                };
                samples * (advantages + sample)
            }
            // Parameters and two moments are read and written, the gradient read twice.
            Part::Adam => calls * 8.0 * word * self.params as f64,
            _ => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_env::cartpole::CartPole;

    #[test]
    fn the_parts_of_an_update_add_up_to_it() {
        let effort = RepetitionBudget { budget: Duration::from_millis(50), min_repetitions: 2 };
        for (num_envs, threads) in [(32, 1), (320, 2)] {
            let config = Config { num_envs, num_steps: 8, hidden: vec![8], ..Config::default() };
            let cartpole: Arc<dyn AnyEnv> = Arc::new(CartPole::default());
            let profile = profile(&cartpole, &config, &CpuOptions::new(threads), effort).expect("measured");
            // Every part is present, the waiting of both spans, and the time between phases.
            assert_eq!(profile.operations.len(), PARTS.len() + 3);
            let total = profile.total();
            let phases = profile.phases.sum();
            assert!(total > 0.9 * phases && total < 1.5 * profile.period.max(phases), "{profile:?}");
            for operation in &profile.operations {
                assert!(operation.seconds >= 0.0 && operation.seconds.is_finite(), "{operation:?}");
                assert!(operation.calls.is_nan() || operation.calls > 0.0, "{operation:?}");
            }
            let calls =
                |name: &str| profile.operations.iter().find(|o| o.name == name).map_or(f64::NAN, |o| o.calls);
            let tiles = if num_envs == 32 { 2.0 } else { 5.0 };
            assert_eq!(calls("environment"), 8.0 * tiles);
            // Four epochs of four minibatches, each of whole tiles of 64 samples.
            assert_eq!(calls("forward"), 16.0 * (num_envs as f64 * 2.0 / 64.0).ceil());
            assert_eq!(calls("norm and Adam"), 16.0);
        }
    }

    #[test]
    fn a_profile_changes_no_bit_of_training() {
        let config = Config { num_envs: 32, num_steps: 8, hidden: vec![8], ..Config::default() };
        let mut states = [false, true].map(|on| {
            let started =
                backend_with(Arc::new(CartPole::default()), &config, &CpuOptions::new(2)).expect("a backend");
            let mut backend = started.backend;
            for _ in 0..3 {
                backend.time_parts(on);
                backend.enqueue_update().expect("an update");
            }
            backend.save().expect("saved")
        });
        let [a, b] = &mut states;
        assert!(a == b);
    }
}
