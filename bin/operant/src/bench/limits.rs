//! What each device can do at most, measured in the same process beside what is measured: multiply-adds and memory.

use std::time::Duration;

use operant_host::Topology;
use operant_learn::cpu::measure::{Triad, on_threads, peak_flops};
use operant_learn::measure::Spread;
use operant_learn::{Precision, cuda};
use operant_run::Result;

use super::place::{Place, threads};
use super::plan::Case;

/// Bytes of a measurement of memory, where caches are smaller than that: no cache holds a fourth of it.
const LEAST_BYTES: usize = 96 << 20;
/// How much larger than all caches of the last level it is.
const TIMES_CACHE: usize = 6;
/// Repetitions in one sitting on a CPU, a few milliseconds each.
const REPETITIONS: usize = 5;

/// The limits of one device with so many threads and in one precision.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    flops: Vec<f64>,
    bandwidth: Vec<f64>,
}

/// Whose limits they are.
pub type Key = (usize, Option<usize>, &'static str);

/// The key of a case's limits.
pub fn key(case: &Case) -> Key {
    (case.place, case.threads.as_ref().map(|options| options.threads), case.network.precision.name())
}

impl Limits {
    /// Measures them once more.
    ///
    /// # Errors
    /// When the system gives no threads, or the device fails.
    pub fn measure(&mut self, place: &Place, case: &Case, budget: Duration) -> Result<()> {
        match place {
            Place::Cpu { .. } => {
                let (flops, bandwidth) = on_threads(&threads(case), processor)?;
                self.flops.extend(flops);
                self.bandwidth.extend(bandwidth);
            }
            Place::Gpu { device, .. } => {
                let precision: Precision = case.network.precision;
                self.flops.push(cuda::measure::peak_flops(device, precision, budget / 2)?.median);
                // Two of them fit, with what else is there.
                let free = device.memory()?.free as usize;
                let bytes = (8 * device.properties().l2_bytes).max(256 << 20).min(free / 8);
                self.bandwidth.push(cuda::measure::bandwidth(device, bytes, budget / 2)?.median);
            }
        }
        Ok(())
    }

    /// Operations per second of multiply-adds, two each.
    pub fn flops(&self) -> Spread {
        Spread::of(self.flops.clone())
    }

    /// Bytes per second from and to memory.
    pub fn bandwidth(&self) -> Spread {
        Spread::of(self.bandwidth.clone())
    }
}

/// Repetitions on the threads of the current pool.
fn processor() -> (Vec<f64>, Vec<f64>) {
    let flops = (0..REPETITIONS).map(|_| peak_flops()).collect();
    let mut triad = Triad::new(bytes());
    (flops, (0..REPETITIONS).map(|_| triad.pass()).collect())
}

/// Bytes far beyond the last cache, and far within the machine's memory.
fn bytes() -> usize {
    let topology = Topology::read();
    let last = topology.caches.iter().map(|cache| cache.level).max();
    let caches: u64 = topology.caches.iter().filter(|c| Some(c.level) == last).map(|c| c.bytes).sum();
    let wanted = (caches as usize * TIMES_CACHE).max(LEAST_BYTES);
    let room = topology.memory_available.map_or(wanted, |bytes| bytes as usize / 4);
    wanted.min(room)
}
