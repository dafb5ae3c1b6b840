//! State shared by the training thread and the side thread, one atomic word per value: utilization in one direction,
//! progress in the other.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use operant_host::HostSample;
use operant_metrics::{COUNT, Record};

/// Generates `Utilization` from the metrics that are sampled and not measured by training.
macro_rules! sampled {
    ($($name:ident),* $(,)?) => {
        /// The latest sample, as the bits of its numbers.
        struct Utilization { $($name: AtomicU64),* }

        impl Utilization {
            fn new() -> Self {
                Utilization { $($name: AtomicU64::new(f64::NAN.to_bits())),* }
            }

            fn store(&self, record: &Record) {
                $(self.$name.store(record.$name.to_bits(), Ordering::Relaxed);)*
            }

            fn load(&self, record: &mut Record) {
                $(record.$name = f64::from_bits(self.$name.load(Ordering::Relaxed));)*
            }
        }
    };
}

sampled!(
    gpu_utilization,
    gpu_memory,
    gpu_power,
    gpu_temperature,
    gpu_clock,
    cpu_utilization,
    cpu_performance,
    cpu_efficiency,
    cpu_balance,
    core_balance,
    resident_memory,
);

/// The latest values of both threads.
pub(super) struct SharedState {
    utilization: Utilization,
    env_steps: AtomicU64,
    sps: AtomicU64,
    episodic_return: AtomicU64,
    total_steps: u64,
    /// The ring's file must be replaced.
    ring_lost: AtomicBool,
}

impl SharedState {
    /// For a run that has taken `steps.start` of `steps.end` environment steps.
    pub fn new(steps: &Range<u64>) -> Self {
        let nan = || AtomicU64::new(f64::NAN.to_bits());
        SharedState {
            utilization: Utilization::new(),
            env_steps: AtomicU64::new(steps.start),
            sps: nan(),
            episodic_return: nan(),
            total_steps: steps.end,
            ring_lost: AtomicBool::new(false),
        }
    }

    /// Marks the ring's file as damaged.
    pub fn lose_ring(&self) {
        self.ring_lost.store(true, Ordering::Relaxed);
    }

    /// Whether the ring's file was marked as damaged since the last call.
    pub fn take_lost_ring(&self) -> bool {
        self.ring_lost.swap(false, Ordering::Relaxed)
    }

    /// Stores a sample; returns it as one value per metric.
    pub fn sampled(&self, sample: &HostSample) -> [f64; COUNT] {
        let mut record = Record::from_values([f64::NAN; COUNT]);
        record.resident_memory = sample.resident_memory;
        record.cpu_utilization = sample.cpu_utilization;
        record.cpu_performance = sample.cpu_performance;
        record.cpu_efficiency = sample.cpu_efficiency;
        record.cpu_balance = sample.cpu_balance;
        record.core_balance = sample.core_balance;
        if let Some(gpu) = &sample.gpu {
            record.gpu_utilization = gpu.utilization;
            record.gpu_memory = gpu.memory;
            record.gpu_power = gpu.power;
            record.gpu_temperature = gpu.temperature;
            record.gpu_clock = gpu.clock;
        }
        self.utilization.store(&record);
        record.values()
    }

    /// Fills in the sampled metrics of a record, and stores its progress.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
    pub fn complete(&self, record: &mut Record) {
        self.utilization.load(record);
        self.env_steps.store(record.env_steps as u64, Ordering::Relaxed);
        self.sps.store(record.sps_average.to_bits(), Ordering::Relaxed);
        if record.episodic_return.is_finite() {
            self.episodic_return.store(record.episodic_return.to_bits(), Ordering::Relaxed);
        }
    }

    /// The status line: steps, speed and return.
    #[allow(clippy::cast_precision_loss)] // counts to three figures
    pub fn status_line(&self) -> String {
        let real = |word: &AtomicU64| f64::from_bits(word.load(Ordering::Relaxed));
        let short = |x: f64| if x.is_finite() { crate::progress::short(x) } else { "-".to_string() };
        let steps = self.env_steps.load(Ordering::Relaxed);
        let (sps, mean) = (real(&self.sps), real(&self.episodic_return));
        let mean = if mean.is_finite() { format!("{mean:.1}") } else { "-".to_string() };
        format!(
            "{} of {} steps, {}/s, return {mean}",
            short(steps as f64),
            short(self.total_steps as f64),
            short(sps)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_host::GpuSample;

    #[test]
    fn samples_reach_records_and_progress_reaches_the_status_line() {
        assert_eq!(
            SharedState::new(&(5_000_000..20_000_000)).status_line(),
            "5.00M of 20.00M steps, -/s, return -",
            "a resumed run"
        );
        let shared = SharedState::new(&(0..20_000_000));
        assert_eq!(shared.status_line(), "0 of 20.00M steps, -/s, return -");
        let gpu = GpuSample { utilization: 0.5, memory: 1e9, power: 300.0, temperature: 60.0, clock: 1.9e9 };
        let sample = HostSample {
            resident_memory: 5e7,
            cpu_utilization: 0.75,
            cpu_performance: f64::NAN,
            cpu_efficiency: f64::NAN,
            cpu_balance: f64::NAN,
            core_balance: f64::NAN,
            cores: Vec::new(),
            gpu: Some(gpu),
        };
        let values = shared.sampled(&sample);
        let position = |name| operant_metrics::position(name).unwrap();
        assert_eq!(values[position("resident_memory")], 5e7);
        assert_eq!(values.iter().filter(|x| !x.is_nan()).count(), 7);

        let mut record =
            Record { env_steps: 1.5e6, sps_average: 2e6, episodic_return: 9.0, ..Record::default() };
        shared.complete(&mut record);
        assert_eq!((record.resident_memory, record.gpu_power, record.cpu_utilization), (5e7, 300.0, 0.75));
        assert!(record.cpu_balance.is_nan());
        assert_eq!(shared.status_line(), "1.50M of 20.00M steps, 2.00M/s, return 9.0");
        shared.complete(&mut Record { env_steps: 1.6e6, sps_average: 2e6, ..Record::default() });
        assert_eq!(shared.status_line(), "1.60M of 20.00M steps, 2.00M/s, return 9.0");
    }
}
