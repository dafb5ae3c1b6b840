//! The limits of each device, measured in the same process as the benches: multiply-adds and memory bandwidth.

use std::time::Duration;

use operant_host::Topology;
use operant_learn::cpu::on_threads;
use operant_run::Result;

use super::case::Case;
use super::device::{BenchDevice, threads};
use crate::measure::cpu::{Triad, peak_flops};
use crate::measure::gpu;

/// Minimum bytes of a bandwidth measurement: no cache may hold a fourth of it.
const MIN_BYTES: usize = 96 << 20;
/// Its size relative to all last-level caches.
const TIMES_CACHE: usize = 6;
/// Repetitions in one series on a CPU, a few milliseconds each.
const REPETITIONS: usize = 5;

/// The key of a bandwidth: a device and a number of threads.
pub type Key = (usize, Option<usize>);

/// The key of a case's bandwidth.
pub fn key(case: &Case) -> Key {
    (case.device, case.threads.as_ref().map(|options| options.threads))
}

/// Floating-point operations per second in the case's precision; a multiply-add counts as two.
///
/// # Errors
/// When the system gives no threads, or the device fails.
pub fn flops(device: &BenchDevice, case: &Case, budget: Duration) -> Result<Vec<f64>> {
    Ok(match device {
        BenchDevice::Cpu { .. } => {
            let threads = threads(case);
            on_threads(&threads, || (0..REPETITIONS).map(|_| peak_flops(threads.bf16)).collect())?
        }
        BenchDevice::Gpu { device, .. } => {
            vec![gpu::peak_flops(device, case.network.precision, budget)?.median]
        }
    })
}

/// Bytes per second read from and written to memory.
///
/// # Errors
/// Same as [`flops`].
pub fn bandwidth(device: &BenchDevice, case: &Case, budget: Duration) -> Result<Vec<f64>> {
    Ok(match device {
        BenchDevice::Cpu { .. } => on_threads(&threads(case), || {
            let mut triad = Triad::new(bytes());
            (0..REPETITIONS).map(|_| triad.pass()).collect()
        })?,
        BenchDevice::Gpu { device, .. } => {
            // Two such buffers fit in the free memory.
            let free = device.memory()?.free as usize;
            let bytes = (8 * device.properties().l2_bytes).max(256 << 20).min(free / 8);
            vec![gpu::bandwidth(device, bytes, budget)?.median]
        }
    })
}

/// A size far beyond the last-level cache, and far below the machine's memory.
fn bytes() -> usize {
    let topology = Topology::read();
    let last = topology.caches.iter().map(|cache| cache.level).max();
    let caches: u64 = topology.caches.iter().filter(|c| Some(c.level) == last).map(|c| c.bytes).sum();
    let requested = (caches as usize * TIMES_CACHE).max(MIN_BYTES);
    let room = topology.memory_available.map_or(requested, |bytes| bytes as usize / 4);
    requested.min(room)
}
