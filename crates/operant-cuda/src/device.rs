//! A GPU: what it is, and what is made on it.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUuuid};

use crate::blas::Blas;
use crate::compiler::Program;
use crate::context::Context;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::find::Cuda;
use crate::memory::{Arena, Buffer, Plain};
use crate::module::Module;
use crate::pinned::Pinned;
use crate::stream::{Event, Stream};
use crate::table::Status;
use crate::transfers::Transfers;

/// What a GPU is. A number that the driver does not tell is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProperties {
    /// The driver's number for it, from 0.
    pub ordinal: usize,
    /// `NVIDIA H200`.
    pub name: String,
    /// As NVML prints it, `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: String,
    /// (9, 0) for Hopper.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads that fit on a multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Bytes of shared memory that a block may have at most, once a kernel has asked for it ([`crate::Function::shared`]).
    pub shared_per_block: usize,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_per_multiprocessor: usize,
    /// Registers of a multiprocessor, 32 bits each.
    pub registers_per_multiprocessor: u32,
    /// Bytes of the level-2 cache.
    pub l2_bytes: usize,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// The highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// The highest clock of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory's bus, in bits.
    pub memory_bus_bits: u32,
    /// Whether all blocks of a launch can be alive at once and wait for each other.
    pub cooperative: bool,
}

impl DeviceProperties {
    /// The architecture to compile for: 90 for compute capability 9.0.
    pub fn architecture(&self) -> u32 {
        self.compute_capability.0 * 10 + self.compute_capability.1
    }

    /// Asks the driver, which must have been started.
    pub(crate) fn read(driver: &Driver, ordinal: usize) -> Result<DeviceProperties, Status> {
        let mut device: CUdevice = 0;
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the result lives through the call.
        unsafe { driver.cuDeviceGet(&mut device, number) }?;

        let mut name = [0u8; 256];
        // SAFETY: the driver writes at most as many bytes as it is told, a zero among them.
        unsafe { driver.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device) }?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());

        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the result lives through the call.
        unsafe { driver.cuDeviceGetUuid_v2(&mut uuid, device) }?;

        let mut memory = 0;
        // SAFETY: the result lives through the call.
        unsafe { driver.cuDeviceTotalMem_v2(&mut memory, device) }?;

        let needed = |attribute: Attribute| {
            let mut value: c_int = 0;
            // SAFETY: the result lives through the call, and the device is the driver's own.
            unsafe { driver.cuDeviceGetAttribute(&mut value, attribute, device) }?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let told = |attribute: Attribute| needed(attribute).unwrap_or(0);
        Ok(DeviceProperties {
            ordinal,
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            uuid: format_uuid(uuid.bytes.map(|byte| byte as u8)),
            compute_capability: (
                needed(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                needed(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: needed(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            threads_per_multiprocessor: needed(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
            )?,
            shared_per_block: needed(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize,
            shared_per_multiprocessor: needed(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )? as usize,
            registers_per_multiprocessor: needed(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
            )?,
            l2_bytes: told(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) as usize,
            memory_bytes: memory as u64,
            clock_khz: told(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            memory_clock_khz: told(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
            memory_bus_bits: told(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
            cooperative: needed(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
        })
    }
}

fn format_uuid(bytes: [u8; 16]) -> String {
    let mut text = String::from("GPU");
    for (i, byte) in bytes.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&i) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Device memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Free, for all processes.
    pub free: u64,
    /// In all.
    pub total: u64,
}

/// The least compute capability: what bf16 and tf32 products and NaN-keeping minima need.
pub const MINIMUM_CAPABILITY: (u32, u32) = (8, 0);

/// An open GPU. It stays open as long as this, a clone, or anything made on it lives.
#[derive(Debug, Clone)]
pub struct Device(pub(crate) Arc<Context>);

impl Device {
    pub(crate) fn open(cuda: &Cuda, ordinal: usize) -> Result<Device, CudaError> {
        let context = Context::retain(cuda, ordinal)?;
        let properties = &context.properties;
        if properties.compute_capability < MINIMUM_CAPABILITY {
            let ((major, minor), (least, _)) = (properties.compute_capability, MINIMUM_CAPABILITY);
            return Err(CudaError::refused(
                format!("GPU {ordinal} ({}) has compute capability {major}.{minor}", properties.name),
                format!("use one of {least}.0 or newer (Ampere, 2020), whose instructions the kernels need"),
            ));
        }
        Ok(Device(Arc::new(context)))
    }

    /// What the GPU is.
    pub fn properties(&self) -> &DeviceProperties {
        &self.0.properties
    }

    /// The driver and the compiler that it was opened with.
    pub fn cuda(&self) -> &Cuda {
        &self.0.cuda
    }

    /// How much memory is free.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self) -> Result<Memory, CudaError> {
        let (mut free, mut total) = (0, 0);
        self.0.call(format_args!("asking for its free memory"), |driver| {
            // SAFETY: both results live through the call.
            unsafe { driver.cuMemGetInfo_v2(&mut free, &mut total) }
        })?;
        Ok(Memory { free: free as u64, total: total as u64 })
    }

    /// A new stream: work in it runs in order, and apart from that of other streams.
    ///
    /// # Errors
    /// The driver's.
    pub fn stream(&self) -> Result<Stream, CudaError> {
        Stream::new(&self.0)
    }

    /// A new event, which nothing has recorded yet.
    ///
    /// # Errors
    /// The driver's.
    pub fn event(&self) -> Result<Event, CudaError> {
        Event::new(&self.0)
    }

    /// Room for `len` elements in device memory, whose contents are undefined.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], and the driver's.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        Buffer::new(&self.0, len)
    }

    /// `bytes` of device memory to cut buffers from.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], and the driver's.
    pub fn arena(&self, bytes: usize) -> Result<Arena, CudaError> {
        Arena::new(&self.0, bytes)
    }

    /// Host memory for `len` elements, page-locked, so that copies to and from it run by themselves. All bytes are 0.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], and the driver's.
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<Pinned<T>, CudaError> {
        Pinned::new(&self.0, len)
    }

    /// Compiles a program for this device, or takes it from the cache, and loads it.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the compiler's log, and the driver's.
    pub fn load(&self, program: &Program) -> Result<Module, CudaError> {
        let compiler = self.0.cuda.compiler();
        let image = compiler.compile(program, compiler.nearest(self.0.properties.architecture()))?;
        Module::new(&self.0, program, image)
    }

    /// Opens cuBLASLt for matrix products, with up to 32 MiB of device memory for it to work in.
    ///
    /// # Errors
    /// [`CudaError::NoBlas`] with what to install, [`CudaError::OutOfMemory`], and the library's.
    pub fn blas(&self) -> Result<Blas, CudaError> {
        Blas::open(&self.0)
    }

    /// Whether [`Device::blas`] would find the library, without opening one.
    ///
    /// # Errors
    /// [`CudaError::NoBlas`] with what to install.
    pub fn has_blas(&self) -> Result<(), CudaError> {
        self.0.cuda.has_blas()
    }

    /// Waits until all work on the device is done.
    ///
    /// # Errors
    /// The driver's, those of earlier work included.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the context is current.
        self.0
            .call(format_args!("waiting for all of its work"), |driver| unsafe { driver.cuCtxSynchronize() })
    }

    /// What was copied and launched since the device was opened.
    pub fn transfers(&self) -> Transfers {
        self.0.transfers.read()
    }

    /// How many times memory of the device, or pinned memory for it, was allocated since it was opened: to show that a loop
    /// allocates nothing.
    pub fn allocations(&self) -> u64 {
        self.0.allocations.load(Ordering::Relaxed)
    }

    /// Whether a failure has ended all work on the device in this process.
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvml_prints_it() {
        let bytes = [0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255];
        assert_eq!(format_uuid(bytes), "GPU-deadbeef-0001-0203-0405-060708090aff");
    }
}
