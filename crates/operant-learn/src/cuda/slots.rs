//! Slots for the reports of updates on their way to the host.

use operant_cuda::{Buffer, CudaError, Device, Event, Pinned};

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
    pub scene: Buffer<u32>,
}

impl SlotMemory {
    /// Allocates memory for reports of all devices, with a scene of this many words.
    pub fn new(allocator: &Allocator, devices: usize, scene: usize) -> Result<Self, CudaError> {
        Ok(Self {
            report: allocator.alloc(devices)?,
            episodes: allocator.alloc(devices)?,
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
    pub to_scene: Pinned<u32>,
    /// Events before and after the rollout, before and after the update, and after the copy to the host.
    pub started: Event,
    pub rolled: Event,
    pub updating: Event,
    pub updated: Event,
    pub copied: Event,
}

impl Slot {
    /// Allocates memory for reports of all devices, with a scene of this many words.
    pub fn new(
        allocator: &Allocator,
        device: &Device,
        devices: usize,
        scene: usize,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            memory: SlotMemory::new(allocator, devices, scene)?,
            to_report: device.pinned(devices)?,
            to_episodes: device.pinned(devices)?,
            to_scene: device.pinned(scene)?,
            started: device.event()?,
            rolled: device.event()?,
            updating: device.event()?,
            updated: device.event()?,
            copied: device.event()?,
        })
    }
}
