//! What each device can do at most, measured in the same process beside what is measured: multiply-adds and memory.

use std::time::Duration;

use operant_host::Topology;
use operant_learn::cpu::on_threads;
use operant_run::Result;

use super::case::Case;
use super::place::{Place, threads};
use crate::measure::cpu::{Triad, peak_flops};
use crate::measure::gpu;

/// Bytes of a measurement of memory, where caches are smaller than that: no cache holds a fourth of it.
const LEAST_BYTES: usize = 96 << 20;
/// How much larger than all caches of the last level it is.
const TIMES_CACHE: usize = 6;
/// Repetitions in one series on a CPU, a few milliseconds each.
const REPETITIONS: usize = 5;

/// Whose bandwidth it is: a device, and threads of it.
pub type Key = (usize, Option<usize>);

/// The key of a case's bandwidth.
pub fn key(case: &Case) -> Key {
    (case.place, case.threads.as_ref().map(|options| options.threads))
}

/// Operations per second of multiply-adds, two each, as the case's network would do them.
///
/// # Errors
/// When the system gives no threads, or the device fails.
pub fn flops(place: &Place, case: &Case, budget: Duration) -> Result<Vec<f64>> {
    Ok(match place {
        Place::Cpu { .. } => on_threads(&threads(case), || (0..REPETITIONS).map(|_| peak_flops()).collect())?,
        Place::Gpu { device, .. } => {
            vec![gpu::peak_flops(device, case.network.precision, budget)?.median]
        }
    })
}

/// Bytes per second from and to memory.
///
/// # Errors
/// As [`flops`].
pub fn bandwidth(place: &Place, case: &Case, budget: Duration) -> Result<Vec<f64>> {
    Ok(match place {
        Place::Cpu { .. } => on_threads(&threads(case), || {
            let mut triad = Triad::new(bytes());
            (0..REPETITIONS).map(|_| triad.pass()).collect()
        })?,
        Place::Gpu { device, .. } => {
            // Two of them fit, with what else is there.
            let free = device.memory()?.free as usize;
            let bytes = (8 * device.properties().l2_bytes).max(256 << 20).min(free / 8);
            vec![gpu::bandwidth(device, bytes, budget)?.median]
        }
    })
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
