//! Allocators of buffers: one arena, the device, or a dry run that only counts bytes.

use std::cell::{Cell, RefCell};

use operant_cuda::{Arena, Buffer, CudaError, Device, Plain};

/// An allocator of device buffers.
pub struct Allocator(Kind);

enum Kind {
    /// Allocates every buffer separately on the device.
    Device(Device),
    Arena(Device, RefCell<Arena>),
    /// Allocates nothing: counts the bytes that an arena would need.
    Counting(Cell<usize>),
}

impl Allocator {
    /// Allocates every buffer separately.
    pub fn of(device: &Device) -> Self {
        Self(Kind::Device(device.clone()))
    }

    /// Allocates from an arena of `bytes` bytes.
    pub fn arena(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Ok(Self(Kind::Arena(device.clone(), RefCell::new(device.arena(bytes)?))))
    }

    /// The bytes of an arena that holds all allocations of `allocate`; `usize::MAX` if memory cannot hold them.
    pub fn count<T>(allocate: impl FnOnce(&Allocator) -> Result<T, CudaError>) -> usize {
        let allocator = Self(Kind::Counting(Cell::new(0)));
        match (allocate(&allocator), allocator.0) {
            (Ok(_), Kind::Counting(bytes)) => bytes.get(),
            _ => usize::MAX,
        }
    }

    /// Allocates `len` elements, whose contents are undefined.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        match &self.0 {
            Kind::Device(device) => device.alloc(len),
            Kind::Arena(device, arena) => match arena.borrow_mut().take(len) {
                // If the arena is too small, allocate separately; tests check that this does not happen.
                Err(CudaError::ArenaFull { .. }) => device.alloc(len),
                taken => taken,
            },
            Kind::Counting(bytes) => {
                bytes.set(bytes.get().saturating_add(Arena::bytes_for::<T>(len)?));
                Buffer::without_memory(len)
            }
        }
    }
}
