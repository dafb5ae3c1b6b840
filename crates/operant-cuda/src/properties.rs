//! Properties of a GPU, as the driver reports them.

use std::ffi::{c_char, c_int};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUuuid};

use crate::driver::Driver;
use crate::table::Status;

/// Properties of a GPU. A number that the driver does not report is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Its ordinal in the driver, from 0.
    pub ordinal: usize,
    /// `NVIDIA H200`.
    pub name: String,
    /// As NVML prints it, `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: String,
    /// (9, 0) for Hopper.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Maximum threads per multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Maximum bytes of shared memory per block, after [`crate::Function::shared`] has allowed them.
    pub shared_per_block: usize,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_per_multiprocessor: usize,
    /// Registers of a multiprocessor, 32 bits each.
    pub registers_per_multiprocessor: u32,
    /// Bytes of the level-2 cache.
    pub l2_bytes: usize,
    pub memory_bytes: u64,
    /// The highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// The highest clock of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus, in bits.
    pub memory_bus_bits: u32,
    /// Whether all blocks of a launch can be resident at once and wait for each other.
    pub cooperative: bool,
}

impl DeviceProperties {
    /// The architecture to compile for: 90 for compute capability 9.0.
    pub fn architecture(&self) -> u32 {
        self.compute_capability.0 * 10 + self.compute_capability.1
    }

    /// Queries the driver, which must have been initialised.
    pub(crate) fn read(driver: &Driver, ordinal: usize) -> Result<DeviceProperties, Status> {
        let mut device: CUdevice = 0;
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the result outlives the call.
        unsafe { driver.cuDeviceGet(&mut device, number) }?;

        let mut name = [0u8; 256];
        // SAFETY: the driver writes at most as many bytes as the call says, a zero among them.
        unsafe { driver.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device) }?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());

        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the result outlives the call.
        unsafe { driver.cuDeviceGetUuid_v2(&mut uuid, device) }?;

        let mut memory = 0;
        // SAFETY: the result outlives the call.
        unsafe { driver.cuDeviceTotalMem_v2(&mut memory, device) }?;

        let needed = |attribute: Attribute| {
            let mut value: c_int = 0;
            // SAFETY: the result outlives the call, and the device is the driver's own.
            unsafe { driver.cuDeviceGetAttribute(&mut value, attribute, device) }?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let optional = |attribute: Attribute| needed(attribute).unwrap_or(0);
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
            l2_bytes: optional(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) as usize,
            memory_bytes: memory as u64,
            clock_khz: optional(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            memory_clock_khz: optional(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
            memory_bus_bits: optional(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvml_prints_it() {
        let bytes = [0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255];
        assert_eq!(format_uuid(bytes), "GPU-deadbeef-0001-0203-0405-060708090aff");
    }
}
