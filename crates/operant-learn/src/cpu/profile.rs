//! The profile of training on the CPU: updates with the clock read between operations alternate with undisturbed ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use operant_env::{AnyEnv, running_words};

use super::backend::{CpuBackend, blocks};
use super::laps::{Account, Lap};
use super::pool::CpuOptions;
use super::tile::TILE_VECTORS;
use crate::LearnError;
use crate::config::Config;
use crate::measure::{Effort, Phases, Spread};
use crate::network::{Architecture, Network};
use crate::profile::{How, Kind, Operation, Phase, Profile};
use crate::sample::SampleLayout;

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Where the time of training goes.
///
/// # Errors
/// When the configuration cannot be trained, or the system gives no threads.
pub fn profile(
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    threads: &CpuOptions,
    effort: Effort,
) -> Result<Profile, LearnError> {
    let begin = Instant::now();
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let updates = match blocks(config, threads) {
        1 => updates(CpuBackend::<1>::on(Arc::clone(env), config, threads)?.0, effort, begin)?,
        2 => updates(CpuBackend::<2>::on(Arc::clone(env), config, threads)?.0, effort, begin)?,
        _ => updates(CpuBackend::<TILE_VECTORS>::on(Arc::clone(env), config, threads)?.0, effort, begin)?,
    };
    let bytes = Bytes {
        layout: SampleLayout::new(&network.architecture, env.masked()),
        state_words: running_words(&**env),
        params: network.len(),
        config,
    };
    Ok(updates.profile(&bytes))
}

/// Updates of both kinds.
#[derive(Debug, Default)]
struct Updates {
    /// Undisturbed: seconds of wall time, and their phases.
    plain: Vec<(f64, Phases)>,
    /// With the clock read: the same.
    timed: Vec<(f64, Phases)>,
    account: Account,
    /// Seconds of one reading of the clock.
    clock: f64,
    threads: usize,
}

fn updates<const V: usize>(
    mut backend: CpuBackend<V>,
    effort: Effort,
    begin: Instant,
) -> Result<Updates, LearnError> {
    let pool = Arc::clone(&backend.pool);
    let mut updates = Updates { clock: reading(), threads: pool.current_num_threads(), ..Updates::default() };
    let mut update = |on: bool, account: &mut Account| -> Result<(f64, Phases), LearnError> {
        for tile in &mut backend.tiles {
            tile.laps.switch(on);
        }
        backend.learner.switch_laps(on);
        let start = Instant::now();
        let stats = pool.install(|| backend.update())?;
        let seconds = start.elapsed().as_secs_f64();
        for tile in &mut backend.tiles {
            tile.laps.drain(account);
        }
        backend.learner.drain_laps(account);
        let phases = Phases { rollout: stats.time_rollout, gae: stats.time_gae, update: stats.time_update };
        Ok((seconds, phases))
    };
    // The first update makes the workers, and touches the memory of the batch.
    update(false, &mut Account::default())?;
    while updates.timed.len() < effort.least.max(1) || begin.elapsed() < effort.budget {
        updates.plain.push(update(false, &mut Account::default())?);
        updates.timed.push(update(true, &mut updates.account)?);
    }
    Ok(updates)
}

/// Seconds that one reading of the clock takes.
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

/// Name, kind and phase of each lap.
const LAPS: [(Lap, Phase, &str, Kind); Lap::ALL.len()] = [
    (Lap::Environment, Phase::Rollout, "environment", Kind::Environment),
    (Lap::Policy, Phase::Rollout, "policy", Kind::Policy),
    (Lap::Sampling, Phase::Rollout, "sampling", Kind::Rollout),
    (Lap::Storing, Phase::Rollout, "samples stored", Kind::Transfer),
    (Lap::Booking, Phase::Rollout, "rewards and episodes", Kind::Rollout),
    (Lap::Gae, Phase::Gae, "advantages", Kind::Rollout),
    (Lap::Gather, Phase::Update, "samples gathered", Kind::Transfer),
    (Lap::Forward, Phase::Update, "forward", Kind::Policy),
    (Lap::Loss, Phase::Update, "loss", Kind::Policy),
    (Lap::Backward, Phase::Update, "backward", Kind::Policy),
    (Lap::Reduction, Phase::Update, "sums of gradients", Kind::Reduction),
    (Lap::Adam, Phase::Update, "norm and Adam", Kind::Reduction),
    (Lap::Packing, Phase::Update, "weights packed", Kind::Policy),
    (Lap::Statistics, Phase::Update, "statistics", Kind::Reduction),
];

/// Between two meetings of the threads: workers pass from a tile's rollout to its advantages without one.
struct Stretch {
    /// The phases in it; what waits is the first one's.
    phases: &'static [Phase],
    waiting: &'static str,
    of: fn(&Phases) -> f64,
}

const STRETCHES: [Stretch; 2] = [
    Stretch {
        phases: &[Phase::Rollout, Phase::Gae],
        waiting: "waiting for the last tile",
        of: |phases| phases.rollout + phases.gae,
    },
    Stretch { phases: &[Phase::Update], waiting: "waiting at joins", of: |phases| phases.update },
];

impl Updates {
    fn profile(&self, bytes: &Bytes<'_>) -> Profile {
        let median = |updates: &[(f64, Phases)]| {
            Spread::of(updates.iter().map(|(seconds, _)| *seconds).collect()).median
        };
        let plain = Phases::median(&self.plain.iter().map(|(_, phases)| *phases).collect::<Vec<_>>());
        let (plain_s, timed_s) = (median(&self.plain), median(&self.timed));
        let mut operations: Vec<Operation> =
            STRETCHES.iter().flat_map(|stretch| self.operations(stretch, &plain, bytes)).collect();
        operations.sort_by_key(|operation| operation.phase);
        operations.push(Operation {
            phase: Phase::Between,
            name: "between phases",
            kind: Kind::Host,
            seconds: (plain_s - plain.sum()).max(0.0),
            calls: f64::NAN,
            bytes: f64::NAN,
            how: How::Clock,
        });
        Profile {
            period: plain_s,
            phases: plain,
            operations,
            notes: vec![
                format!(
                    "{} updates with the clock read between operations, {:.1} ns a reading, took {:.3} of the time of {} \
                     without; shares are theirs, seconds are scaled to those without",
                    self.timed.len(),
                    self.clock * 1e9,
                    timed_s / plain_s,
                    self.plain.len()
                ),
                "what one thread does alone counts once, and what the others do meanwhile is waiting"
                    .to_owned(),
                "bytes are counted from the shapes; where there are none the work stays within the caches"
                    .to_owned(),
            ],
        }
    }

    fn operations(&self, stretch: &Stretch, plain: &Phases, bytes: &Bytes<'_>) -> Vec<Operation> {
        let spent = |lap: Lap| self.account[lap as usize];
        let laps: Vec<_> = LAPS.into_iter().filter(|(_, phase, ..)| stretch.phases.contains(phase)).collect();
        // What all threads had together, less the readings of the clock, of which one lies in each lap.
        let all =
            self.threads as f64 * self.timed.iter().map(|(_, phases)| (stretch.of)(phases)).sum::<f64>();
        let readings: u64 = laps.iter().map(|(lap, ..)| spent(*lap).calls).sum();
        let accounted: f64 = laps.iter().map(|(lap, ..)| spent(*lap).seconds).sum();
        let whole = (all - readings as f64 * self.clock).max(f64::MIN_POSITIVE);
        let scaled = |seconds: f64| seconds.max(0.0) / whole * (stretch.of)(plain);
        let mut operations = Vec::new();
        for (lap, phase, name, kind) in laps {
            let (spent, updates) = (spent(lap), self.timed.len() as f64);
            let calls = spent.calls as f64 / updates;
            let seconds = scaled(spent.seconds - spent.calls as f64 * self.clock);
            let bytes = bytes.of(lap, calls);
            operations.push(Operation { phase, name, kind, seconds, calls, bytes, how: How::Laps });
        }
        operations.push(Operation {
            phase: stretch.phases[0],
            name: stretch.waiting,
            kind: Kind::Synchronisation,
            seconds: scaled(all - accounted),
            calls: f64::NAN,
            bytes: f64::NAN,
            how: How::Left,
        });
        operations
    }
}

/// What moves through memory in an update.
struct Bytes<'a> {
    layout: SampleLayout,
    state_words: usize,
    params: usize,
    config: &'a Config,
}

impl Bytes<'_> {
    fn of(&self, lap: Lap, calls: f64) -> f64 {
        let samples = (self.config.num_envs * self.config.num_steps) as f64;
        let word = size_of::<u32>() as f64;
        let sample = word * self.layout.stride as f64;
        let line = (size_of::<u32>() * self.layout.stride).next_multiple_of(LINE) as f64;
        let epochs = self.config.update_epochs as f64;
        match lap {
            // The states are read at the start of a horizon and written at its end.
            Lap::Booking => 2.0 * word * (self.state_words * self.config.num_envs) as f64,
            Lap::Storing => samples * sample,
            // Rewards, values and ends are read, advantages written, and put into the samples.
            Lap::Gae => samples * 5.0 * word,
            Lap::Gather => epochs * samples * line,
            Lap::Statistics => {
                let advantages = if self.config.norm_adv { epochs * LINE as f64 } else { 0.0 };
                samples * (advantages + sample)
            }
            // Parameters and two moments are read and written, the gradient read twice.
            Lap::Adam => calls * 8.0 * word * self.params as f64,
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
        let effort = Effort { budget: Duration::from_millis(50), least: 2 };
        for (num_envs, threads) in [(32, 1), (320, 2)] {
            let config = Config { num_envs, num_steps: 8, hidden: vec![8], ..Config::default() };
            let cartpole: Arc<dyn AnyEnv> = Arc::new(CartPole);
            let profile = profile(&cartpole, &config, &CpuOptions::new(threads), effort).expect("measured");
            // Every lap is there, the waiting of both stretches, and what is between.
            assert_eq!(profile.operations.len(), LAPS.len() + 3);
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
        use crate::backend::Backend;
        let config = Config { num_envs: 32, num_steps: 8, hidden: vec![8], ..Config::default() };
        let mut states = [false, true].map(|on| {
            let mut backend =
                CpuBackend::<1>::on(Arc::new(CartPole), &config, &CpuOptions::new(2)).expect("a backend").0;
            for _ in 0..3 {
                backend.tiles.iter_mut().for_each(|tile| tile.laps.switch(on));
                backend.learner.switch_laps(on);
                backend.enqueue_update().expect("an update");
            }
            backend.save().expect("saved")
        });
        let [a, b] = &mut states;
        assert!(a == b);
    }
}
