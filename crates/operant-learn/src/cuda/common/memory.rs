//! Where buffers come from: one arena, the device, or nowhere at all, for code that counts what it would allocate.

use std::cell::{Cell, RefCell};

use operant_cuda::{Arena, Buffer, CudaError, Device, Plain};

/// Where buffers come from.
pub struct Room(Kind);

enum Kind {
    /// The device, each by itself.
    Device(Device),
    Arena(Device, RefCell<Arena>),
    /// Nowhere: the bytes that an arena would have given.
    Counting(Cell<usize>),
}

impl Room {
    /// Every buffer by itself.
    pub fn of(device: &Device) -> Self {
        Self(Kind::Device(device.clone()))
    }

    /// An arena of `bytes` bytes.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn arena(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Ok(Self(Kind::Arena(device.clone(), RefCell::new(device.arena(bytes)?))))
    }

    /// The bytes of an arena that holds all that `allocate` allocates; `usize::MAX` where memory cannot hold it.
    pub fn count<T>(allocate: impl FnOnce(&Room) -> Result<T, CudaError>) -> usize {
        let room = Self(Kind::Counting(Cell::new(0)));
        match (allocate(&room), room.0) {
            (Ok(_), Kind::Counting(bytes)) => bytes.get(),
            _ => usize::MAX,
        }
    }

    /// Room for `len` elements, whose contents are undefined.
    ///
    /// # Errors
    /// When there is no room.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        match &self.0 {
            Kind::Device(device) => device.alloc(len),
            Kind::Arena(device, arena) => match arena.borrow_mut().take(len) {
                // A size that falls short is no reason not to train; the tests hold that none does.
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
