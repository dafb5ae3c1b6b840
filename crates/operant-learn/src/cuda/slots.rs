//! What updates report, on its way to the host.

use operant_cuda::{Buffer, CudaError, Device, Event, Pinned};

use super::common::memory::Room;
use super::common::phases::UpdateReport;
use super::common::structs::Episodes;

/// Updates that may be enqueued and not yet collected: two more than a loop enqueues ahead.
pub const SLOTS: usize = 4;

/// Memory of a report on the device.
#[derive(Debug)]
pub struct SlotMemory {
    pub report: Buffer<UpdateReport>,
    pub episodes: Buffer<Episodes>,
    pub scene: Buffer<u32>,
}

impl SlotMemory {
    /// With a scene of this many words.
    ///
    /// # Errors
    /// When there is no room.
    pub fn new(room: &Room, scene: usize) -> Result<Self, CudaError> {
        Ok(Self { report: room.alloc(1)?, episodes: room.alloc(1)?, scene: room.alloc(scene)? })
    }
}

/// What an update reports, on its way to the host.
#[derive(Debug)]
pub struct Slot {
    pub memory: SlotMemory,
    pub to_report: Pinned<UpdateReport>,
    pub to_episodes: Pinned<Episodes>,
    pub to_scene: Pinned<u32>,
    /// Before the rollout and after it, before the update and after it, and after the copy to the host.
    pub started: Event,
    pub rolled: Event,
    pub updating: Event,
    pub updated: Event,
    pub copied: Event,
}

impl Slot {
    /// With a scene of this many words.
    ///
    /// # Errors
    /// When the device has no room or fails.
    pub fn new(room: &Room, device: &Device, scene: usize) -> Result<Self, CudaError> {
        Ok(Self {
            memory: SlotMemory::new(room, scene)?,
            to_report: device.pinned(1)?,
            to_episodes: device.pinned(1)?,
            to_scene: device.pinned(scene)?,
            started: device.event()?,
            rolled: device.event()?,
            updating: device.event()?,
            updated: device.event()?,
            copied: device.event()?,
        })
    }
}
