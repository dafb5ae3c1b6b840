//! Speed measurements on any device: repetitions and their spread, arithmetic and memory traffic per step, and the times of an
//! update's phases. [`cpu`] and [`gpu`] measure them.

pub mod cpu;
pub mod driver;
pub mod gpu;

use std::fmt;
use std::time::{Duration, Instant};

use operant_learn::network::Network;
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, UpdateStats};
use operant_metrics::Record;

/// Seconds that `work` takes.
pub fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Median, minimum and maximum of repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// The spread of repetitions; NaN if there are none.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(values.len() / 2), min: at(0), max: at(values.len().saturating_sub(1)) }
    }

    /// The statistics in other units: every value times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { median: self.median * factor, min: self.min * factor, max: self.max * factor }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { median, min, max } = self;
        write!(f, "{median:8.digits$} ({min:.digits$} .. {max:.digits$})")
    }
}

/// Width of the middle half of `values`, relative to their median; infinite for fewer than four.
pub fn middle_half(values: &[f64]) -> f64 {
    if values.len() < 4 {
        return f64::INFINITY;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    (sorted[sorted.len() - 1 - quarter] - sorted[quarter]) / sorted[sorted.len() / 2]
}

/// How long to repeat a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepetitionBudget {
    /// Total time: setup, warm-up, repetitions.
    pub budget: Duration,
    /// Minimum repetitions, independent of the budget.
    pub min_repetitions: usize,
}

/// Steps per second of repetitions, and their launches and bus traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Environment steps per second: the median of the repetitions.
    pub sps_median: f64,
    /// The slowest repetition.
    pub sps_min: f64,
    /// The fastest.
    pub sps_max: f64,
    /// Number of repetitions.
    pub reps: usize,
    /// Each repetition, in order, in steps per second.
    pub samples: Vec<f64>,
    /// Kernel launches per rollout; 0 on a CPU.
    pub launches: f64,
    /// Bytes over the bus per rollout, both ways; 0 on a CPU.
    pub bus_bytes: f64,
}

impl Speed {
    /// The speed of repetitions given in steps per second.
    pub fn of(samples: Vec<f64>) -> Self {
        let Spread { median, min, max } = Spread::of(samples.clone());
        Self {
            sps_median: median,
            sps_min: min,
            sps_max: max,
            reps: samples.len(),
            samples,
            launches: 0.0,
            bus_bytes: 0.0,
        }
    }

    /// The speed of repetitions of `steps` steps each, given in seconds.
    pub fn of_seconds(steps: f64, seconds: &[f64]) -> Self {
        Self::of(seconds.iter().map(|seconds| steps / seconds).collect())
    }
}

/// Seconds of an update's phases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phases {
    /// Environments, policy and sampling of a rollout; GAE excluded if its time is known.
    pub rollout: f64,
    /// Advantages; NaN where they are part of the rollout's launch.
    pub gae: f64,
    /// The epochs.
    pub update: f64,
}

impl Phases {
    /// The phases of an update.
    pub fn of(stats: &UpdateStats) -> Self {
        let Record { time_rollout: rollout, time_gae: gae, time_update: update, .. } = stats.metrics;
        Self { rollout, gae, update }
    }

    pub fn sum(&self) -> f64 {
        self.rollout + self.update + if self.gae.is_nan() { 0.0 } else { self.gae }
    }

    pub fn median(all: &[Phases]) -> Self {
        let of = |phase: fn(&Phases) -> f64| Spread::of(all.iter().map(phase).collect()).median;
        Self { rollout: of(|p| p.rollout), gae: of(|p| p.gae), update: of(|p| p.update) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSpeed {
    /// Speed by the host's clock, from one report to the next.
    pub speed: Speed,
    /// Samples times epochs per second, for comparing libraries that use a sample a different number of times.
    pub sample_epochs: f64,
    /// Median time of each phase of an update, by the device's clock.
    pub phases: Phases,
    /// Floating-point operations of the network per environment step, see [`training_flops`].
    pub flops_per_step: f64,
}

impl TrainingSpeed {
    /// Combines the speed and the phases of each update.
    pub fn new(speed: Speed, phases: &[Phases], network: &Network, config: &Config) -> Self {
        Self {
            sample_epochs: speed.sps_median * config.update_epochs as f64,
            phases: Phases::median(phases),
            flops_per_step: training_flops(network, config),
            speed,
        }
    }
}

/// Floating-point operations of the network per environment step of training: one forward pass in the rollout, and a forward
/// and a backward pass in each epoch. Only multiply-adds of matrices count, as two operations each.
pub fn training_flops(network: &Network, config: &Config) -> f64 {
    if config.algorithm.declaration().has_replay() {
        return network.replay_flops(config);
    }
    network.forward_flops() as f64 + config.update_epochs as f64 * network.forward_backward_flops() as f64
}

/// Bytes that a rollout writes to memory per environment step: the sample. All other data of a tile fit in cache.
pub fn rollout_bytes(layout: &SampleLayout) -> f64 {
    (size_of::<u32>() * layout.stride) as f64
}

/// Bytes between memory and processor per environment step of training, counted from the shapes: the sample is written once,
/// read once in order for the explained variance, and in each epoch gathered once in the shuffled order, and once more for the
/// advantages' mean and deviation if they are normalised. A gathered sample moves whole lines of `line` bytes.
pub fn training_bytes(layout: &SampleLayout, config: &Config, line: usize) -> f64 {
    let sample = size_of::<u32>() * layout.stride;
    let advantage = if (config.algorithm.declaration().has_statistics)(config) { line } else { 0 };
    let epoch = sample.next_multiple_of(line) + advantage;
    (2 * sample + config.update_epochs * epoch) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_learn::network::{Architecture, Head, Input};

    #[test]
    fn a_spread_is_the_middle_and_the_ends() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0, 10.0, 2.5]);
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 10.0));
        assert_eq!(format!("{:.2}", spread.scaled(2.0)), "    5.00 (2.00 .. 20.00)");
        assert!(Spread::of(Vec::new()).median.is_nan());
    }

    #[test]
    fn the_middle_half_does_not_see_outliers() {
        let quiet = [100.0, 101.0, 99.0, 100.0, 100.0, 100.0, 10.0, 400.0];
        assert!(middle_half(&quiet) < 0.02, "{}", middle_half(&quiet));
        let noisy = [100.0, 120.0, 80.0, 110.0, 90.0, 100.0, 130.0, 70.0];
        assert!(middle_half(&noisy) > 0.1, "{}", middle_half(&noisy));
        assert_eq!(middle_half(&quiet[..3]), f64::INFINITY);
    }

    #[test]
    fn speeds_come_from_seconds() {
        let speed = Speed::of_seconds(100.0, &[2.0, 1.0, 4.0]);
        assert_eq!((speed.sps_median, speed.sps_min, speed.sps_max, speed.reps), (50.0, 25.0, 100.0, 3));
        assert_eq!(speed.samples, [50.0, 100.0, 25.0]);
    }

    #[test]
    fn bytes_and_operations_follow_the_shapes() {
        let config = Config { shared_trunk: true, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        let layout = SampleLayout::new(&architecture, false);
        let network = Network::new(architecture);
        assert_eq!(training_flops(&network, &config), 9_088.0 + 4.0 * 26_752.0);
        assert_eq!(rollout_bytes(&layout), 32.0);
        // 32 bytes twice, and four epochs of two lines.
        assert_eq!(training_bytes(&layout, &config, 64), 64.0 + 4.0 * 128.0);
        let config = config.ppo(|ppo| ppo.norm_adv = false);
        assert_eq!(training_bytes(&layout, &config, 32), 64.0 + 4.0 * 32.0);
    }

    #[test]
    fn a_phase_without_a_time_of_its_own_does_not_spoil_the_sum() {
        let phases = [3.0, 1.0, 2.0].map(|rollout| Phases { rollout, gae: f64::NAN, update: 4.0 });
        let median = Phases::median(&phases);
        assert_eq!((median.rollout, median.sum()), (2.0, 6.0));
    }
}
