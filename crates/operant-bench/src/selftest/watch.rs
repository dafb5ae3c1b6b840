//! Samples a GPU by NVML during a measurement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use operant_host::{GpuSample, Sampler};
use serde_json::{Value, json};

use crate::measure::Spread;

/// Time from one sample to the next.
const PERIOD: Duration = Duration::from_millis(100);

/// Samples of a GPU, summarised by medians; missing values are null in JSON.
#[derive(Debug, Clone, Default)]
pub struct GpuMedians {
    samples: Vec<GpuSample>,
    missing: Option<String>,
}

impl GpuMedians {
    /// Share of the time in which some kernel ran, 0 to 1.
    pub fn utilization(&self) -> Option<f64> {
        self.median(|sample| sample.utilization)
    }

    /// The median of the finite samples.
    fn median(&self, of: fn(&GpuSample) -> f64) -> Option<f64> {
        let known: Vec<f64> = self.samples.iter().map(of).filter(|value| value.is_finite()).collect();
        Some(Spread::of(known).median).filter(|median| median.is_finite())
    }

    /// The medians as JSON; `why` is the reason if there are none.
    pub fn to_json(&self) -> Value {
        json!({
            "samples": self.samples.len(),
            "utilization": self.utilization(),
            "power_w": self.median(|sample| sample.power),
            "clock_hz": self.median(|sample| sample.clock),
            "temperature_c": self.median(|sample| sample.temperature),
            "memory_bytes": self.median(|sample| sample.memory),
            "why": self.missing,
        })
    }
}

/// Runs `work` while a thread samples the GPU of this UUID. Samples before `settled` do not count, since NVML reports means
/// of the past.
pub fn watched<T>(uuid: &str, settled: Duration, work: impl FnOnce() -> T) -> (T, GpuMedians) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut sampler = Sampler::with_gpu(uuid);
            if let Some(missing) = sampler.gpu_missing() {
                return GpuMedians { samples: Vec::new(), missing: Some(missing.to_owned()) };
            }
            let begin = Instant::now();
            let mut samples = Vec::new();
            while !done.load(Ordering::Acquire) {
                let sample = sampler.sample().gpu;
                if begin.elapsed() >= settled {
                    samples.extend(sample);
                }
                std::thread::park_timeout(PERIOD);
            }
            GpuMedians { samples, missing: None }
        });
        let outcome = work();
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        let lost = || GpuMedians {
            missing: Some("the thread that samples ended".to_owned()),
            ..GpuMedians::default()
        };
        (outcome, watcher.join().unwrap_or_else(|_| lost()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_skip_missing_values() {
        let sample = |utilization, power| GpuSample {
            utilization,
            power,
            memory: 1.0,
            temperature: f64::NAN,
            clock: 1e9,
        };
        let samples = vec![sample(0.9, f64::NAN), sample(0.5, 300.0), sample(1.0, 500.0)];
        let value = GpuMedians { samples, missing: None }.to_json();
        assert_eq!((&value["utilization"], &value["power_w"]), (&json!(0.9), &json!(500.0)));
        assert!(value["temperature_c"].is_null() && value["why"].is_null());
    }

    #[test]
    fn a_gpu_that_is_not_there_is_a_reason_and_the_work_is_done() {
        let (outcome, seen) = watched("GPU-none", Duration::ZERO, || 7);
        assert_eq!(outcome, 7);
        let value = seen.to_json();
        assert!(value["utilization"].is_null() && value["why"].is_string(), "{value}");
    }
}
