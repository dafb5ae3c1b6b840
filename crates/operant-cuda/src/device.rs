//! An open GPU: its properties, and the resources created on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::blas::Blas;
use crate::context::Context;
use crate::error::CudaError;
use crate::find::Cuda;
use crate::memory::{Arena, Buffer};
use crate::module::Module;
use crate::nccl::{Communicator, CommunicatorId};
use crate::pinned::Pinned;
use crate::plain::Plain;
use crate::program::Program;
use crate::properties::DeviceProperties;
use crate::stream::{Event, Stream};
use crate::transfers::Transfers;

/// Device memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Free bytes, for all processes.
    pub free: u64,
    /// Total bytes.
    pub total: u64,
}

/// The minimum compute capability, required by bf16 and tf32 products and by minima that propagate NaN.
pub const MINIMUM_CAPABILITY: (u32, u32) = (8, 0);

/// An open GPU. It stays open as long as this, a clone, or anything created on it lives.
#[derive(Debug, Clone)]
pub struct Device {
    cuda: Cuda,
    context: Arc<Context>,
}

impl Cuda {
    /// Opens the GPU with this ordinal.
    ///
    /// # Errors
    /// There is no such GPU, or the driver cannot open it.
    pub fn open(&self, ordinal: usize) -> Result<Device, CudaError> {
        let count = self.count()?;
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        let context = Context::retain(self.driver(), ordinal)?;
        let properties = &context.properties;
        if properties.compute_capability < MINIMUM_CAPABILITY {
            let ((major, minor), (least, _)) = (properties.compute_capability, MINIMUM_CAPABILITY);
            return Err(CudaError::refused(
                format!("GPU {ordinal} ({}) has compute capability {major}.{minor}", properties.name),
                format!("use one of {least}.0 or newer (Ampere, 2020), whose instructions the kernels need"),
            ));
        }
        Ok(Device { cuda: self.clone(), context: Arc::new(context) })
    }
}

impl Device {
    pub fn properties(&self) -> &DeviceProperties {
        &self.context.properties
    }

    /// The driver and the compiler with which it was opened.
    pub fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    /// Its free and total memory.
    pub fn memory(&self) -> Result<Memory, CudaError> {
        let (mut free, mut total) = (0, 0);
        self.context.call(format_args!("asking for its free memory"), |driver| {
            // SAFETY: both results outlive the call.
            unsafe { driver.cuMemGetInfo_v2(&mut free, &mut total) }
        })?;
        Ok(Memory { free: free as u64, total: total as u64 })
    }

    /// A new stream: its work runs in order, and independently of other streams.
    pub fn stream(&self) -> Result<Stream, CudaError> {
        Stream::new(&self.context)
    }

    /// A new event that is not recorded yet.
    pub fn event(&self) -> Result<Event, CudaError> {
        Event::new(&self.context)
    }

    /// Allocates device memory for `len` elements, with undefined contents.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], and driver errors.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        Buffer::new(&self.context, len)
    }

    /// Memory of another program of this process as a buffer, which does not free it.
    ///
    /// # Errors
    /// More than memory can hold.
    ///
    /// # Safety
    /// `pointer` points to `len` elements in this device's memory, aligned for them. They stay allocated until all work with the
    /// buffer, and with parts of it, is done.
    pub unsafe fn borrow_memory<T: Plain>(&self, pointer: u64, len: usize) -> Result<Buffer<T>, CudaError> {
        Buffer::borrowed(&self.context, pointer, len)
    }

    /// Allocates `bytes` of device memory to allocate buffers from.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], and driver errors.
    pub fn arena(&self, bytes: usize) -> Result<Arena, CudaError> {
        Arena::new(&self.context, bytes)
    }

    /// Allocates page-locked host memory for `len` elements, so that copies to and from it are asynchronous. All bytes are 0.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], and driver errors.
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<Pinned<T>, CudaError> {
        Pinned::new(&self.context, len)
    }

    /// Compiles a program for this device, or takes it from the cache, and loads it. If the driver refuses the compiler's output,
    /// the next older compiler is used from then on.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the compiler's log, and driver errors.
    pub fn load(&self, program: &Program) -> Result<Module, CudaError> {
        let compiler = self.cuda.compiler();
        let mut refusal = None;
        loop {
            let version = compiler.version();
            let architecture = compiler.nearest(self.context.properties.architecture());
            let image = compiler.compile(program, architecture);
            match (image.and_then(|image| Module::new(&self.context, program, image)), refusal) {
                // The driver may refuse the output of a compiler that is newer than itself.
                (Err(error), first) if error.is_refused_code() && compiler.step_down(version) => {
                    refusal = first.or(Some(error));
                }
                (Err(error), first) => return Err(first.unwrap_or(error)),
                (loaded, _) => return loaded,
            }
        }
    }

    /// Opens cuBLASLt for matrix products, with a workspace of up to 32 MiB of device memory.
    ///
    /// # Errors
    /// [`CudaError::NoBlas`] with what to install, [`CudaError::OutOfMemory`], and library errors.
    pub fn blas(&self) -> Result<Blas, CudaError> {
        Blas::open(&self.context, self.cuda.blas()?)
    }

    /// Whether [`Device::blas`] would find the library, without opening one.
    ///
    /// # Errors
    /// [`CudaError::NoBlas`] with what to install.
    pub fn has_blas(&self) -> Result<(), CudaError> {
        self.cuda.has_blas()
    }

    /// Joins `size` GPUs, of this process or of others, as number `rank`: waits until all of them call this, with the same id.
    ///
    /// # Errors
    /// [`CudaError::NoNccl`] with what to install, and library errors.
    pub fn join(&self, id: CommunicatorId, rank: usize, size: usize) -> Result<Communicator, CudaError> {
        Communicator::join(&self.context, self.cuda.nccl()?, id, (rank, size))
    }

    /// Waits until all work on the device is done.
    ///
    /// # Errors
    /// A driver error, including those of earlier work.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the context is current.
        self.context
            .call(format_args!("waiting for all of its work"), |driver| unsafe { driver.cuCtxSynchronize() })
    }

    /// Counters of copies and launches since the device was opened.
    pub fn transfers(&self) -> Transfers {
        self.context.transfers.read()
    }

    /// Number of allocations of device and pinned memory since the device was opened. Tests use it to show that a loop allocates
    /// nothing.
    pub fn allocations(&self) -> u64 {
        self.context.allocations.load(Ordering::Relaxed)
    }

    /// Number of graphs captured since the device was opened.
    pub fn captures(&self) -> u64 {
        self.context.captures.load(Ordering::Relaxed)
    }

    /// Whether the device is lost to this process: no call on it succeeds any more.
    pub fn is_lost(&self) -> bool {
        self.context.is_lost()
    }
}
