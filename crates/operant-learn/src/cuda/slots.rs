//! Slots for the reports of updates on their way to the host.

use operant_cuda::{Buffer, CudaError, Device, Event, Pinned};
use operant_metrics::MAX_ENV_METRICS;

use super::common::memory::Allocator;
use super::common::phases::UpdateReport;
use super::common::structs::EpisodeTotals;

/// Maximum updates that are enqueued and not collected: two more than a loop enqueues ahead.
pub const SLOTS: usize = 4;

/// Memory of a report on the device.
#[derive(Debug)]
pub struct SlotMemory {
    pub report: Buffer<UpdateReport>,
    pub episodes: Buffer<EpisodeTotals>,
    /// (devices, metrics): sums and counts of the environment's own metrics, if it has some.
    pub metrics: Option<Buffer<f64>>,
    pub scene: Buffer<u32>,
}

impl SlotMemory {
    /// Allocates memory for reports of all devices, with this many metrics of the environment and words of a scene.
    pub fn new(
        allocator: &Allocator,
        devices: usize,
        metrics: usize,
        scene: usize,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            report: allocator.alloc(devices)?,
            episodes: allocator.alloc(devices)?,
            metrics: (metrics > 0).then(|| allocator.alloc(2 * metrics * devices)).transpose()?,
            scene: allocator.alloc(scene)?,
        })
    }
}

/// The report of an update on its way to the host.
#[derive(Debug)]
pub struct Slot {
    pub memory: SlotMemory,
    pub to_report: Pinned<UpdateReport>,
    pub to_episodes: Pinned<EpisodeTotals>,
    pub to_metrics: Option<Pinned<f64>>,
    pub to_scene: Pinned<u32>,
    /// Events before and after the rollout, before and after the update, and after the copy to the host.
    pub started: Event,
    pub rolled: Event,
    pub updating: Event,
    pub updated: Event,
    pub copied: Event,
}

impl Slot {
    /// Allocates memory for reports of all devices, with this many metrics of the environment and words of a scene.
    pub fn new(
        allocator: &Allocator,
        device: &Device,
        devices: usize,
        metrics: usize,
        scene: usize,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            memory: SlotMemory::new(allocator, devices, metrics, scene)?,
            to_report: device.pinned(devices)?,
            to_episodes: device.pinned(devices)?,
            to_metrics: (metrics > 0).then(|| device.pinned(2 * metrics * devices)).transpose()?,
            to_scene: device.pinned(scene)?,
            started: device.event()?,
            rolled: device.event()?,
            updating: device.event()?,
            updated: device.event()?,
            copied: device.event()?,
        })
    }
}

/// The episodes of all GPUs.
pub fn all_episodes(of_gpus: &[EpisodeTotals]) -> EpisodeTotals {
    let mut all = of_gpus[0];
    for own in &of_gpus[1..] {
        all.count += own.count;
        all.sum += own.sum;
        all.squares += own.squares;
        all.length += own.length;
        all.min = all.min.min(own.min);
        all.max = all.max.max(own.max);
    }
    all
}

/// The means of the metrics of a rollout, from (devices, metrics) sums and counts; NaN where nothing reported it.
pub fn means(measured: &[f64], metrics: usize) -> [f64; MAX_ENV_METRICS + 1] {
    let mut all = [[0.0; 2]; MAX_ENV_METRICS + 1];
    for of_device in measured.chunks_exact(2 * metrics.max(1)) {
        for (all, own) in all.iter_mut().zip(of_device.as_chunks::<2>().0) {
            *all = [all[0] + own[0], all[1] + own[1]];
        }
    }
    all.map(|[sum, count]| sum / count)
}
