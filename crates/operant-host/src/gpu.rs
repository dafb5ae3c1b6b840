//! Utilization of one NVIDIA GPU through NVML, the library that comes with the driver. It is opened on request.
//!
//! The tests make every call against a small mock library (`tests/fixtures/nvml/nvml.c`), which covers units, refusals and
//! a missing device. They do not cover a real driver, MIG, or a GPU that falls off the bus.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

/// One GPU; a value that the driver refuses is NaN (under MIG, for example, there is no utilization).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuSample {
    /// Share of the time in which some kernel ran, 0 to 1, over the driver's own period (1/6 s to 1 s).
    pub utilization: f64,
    /// Bytes of its memory in use by all processes; NaN with drivers before 510.
    pub memory: f64,
    /// Power drawn, in watts.
    pub power: f64,
    /// Temperature of the die, in degrees Celsius.
    pub temperature: f64,
    /// Clock of its multiprocessors, in hertz.
    pub clock: f64,
}

impl GpuSample {
    const UNKNOWN: GpuSample = GpuSample {
        utilization: f64::NAN,
        memory: f64::NAN,
        power: f64::NAN,
        temperature: f64::NAN,
        clock: f64::NAN,
    };
}

/// A GPU found by NVML.
#[derive(Debug)]
pub(crate) struct Gpu {
    nvml: Nvml,
    /// NVML's index, which is constant while the driver is loaded.
    index: u32,
}

impl Gpu {
    /// The GPU of this UUID, `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`. The error is one line with the reason and the remedy.
    pub fn open(uuid: &str) -> Result<Self, String> {
        Gpu::of(Nvml::init(), uuid)
    }

    /// [`Gpu::open`] with another library in NVML's place.
    #[cfg(all(test, target_os = "linux"))]
    fn open_library(library: &std::ffi::OsStr, uuid: &str) -> Result<Self, String> {
        Gpu::of(Nvml::builder().lib_path(library).init(), uuid)
    }

    fn of(nvml: Result<Nvml, NvmlError>, uuid: &str) -> Result<Self, String> {
        let nvml = nvml.map_err(|error| match error {
            NvmlError::LibloadingError(error) => {
                format!("no NVIDIA driver library here ({error}); install the NVIDIA driver to see a GPU's utilization")
            }
            error => format!("NVML does not start: {error}; see what `nvidia-smi` says"),
        })?;
        // A search by UUID may start other GPUs, so it is done once.
        let index = nvml.device_by_uuid(uuid).and_then(|device| device.index()).map_err(|error| {
            format!("NVML opens no GPU {uuid}: {error}; see `nvidia-smi -L` (a part of a GPU under MIG is not sampled)")
        })?;
        Ok(Gpu { nvml, index })
    }

    pub fn sample(&self) -> GpuSample {
        // The handle borrows from NVML, and a lookup by index is cheap, so it is looked up each time.
        let Ok(device) = self.nvml.device_by_index(self.index) else { return GpuSample::UNKNOWN };
        GpuSample {
            utilization: device.utilization_rates().map_or(f64::NAN, |rates| f64::from(rates.gpu) / 100.0),
            memory: device.memory_info().map_or(f64::NAN, |memory| memory.used as f64),
            power: device.power_usage().map_or(f64::NAN, |milliwatts| f64::from(milliwatts) / 1e3),
            temperature: device.temperature(TemperatureSensor::Gpu).map_or(f64::NAN, f64::from),
            clock: device.clock_info(Clock::SM).map_or(f64::NAN, |megahertz| f64::from(megahertz) * 1e6),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    /// Compiles the library in NVML's place. Cargo links with `cc` too, so it is wherever these tests are built.
    fn library(directory: &Path, defines: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/nvml/nvml.c");
        let library = directory.join("nvml.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).args(defines).arg(source);
        assert!(cc.status().expect("`cc` runs").success(), "cc could not compile the library");
        library
    }

    /// The two GPUs of the library.
    const UUIDS: [&str; 2] =
        ["GPU-00000000-1111-2222-3333-444444444444", "GPU-55555555-6666-7777-8888-999999999999"];

    fn open(defines: &[&str], uuid: &str) -> Result<Gpu, String> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Gpu::open_library(library(directory.path(), defines).as_os_str(), uuid)
    }

    #[test]
    fn values_come_in_base_units() {
        let sample = open(&[], UUIDS[1]).expect("GPU 1").sample();
        let expected = GpuSample {
            utilization: 0.37,
            memory: 5_000_000_000.0,
            power: 123.456,
            temperature: 61.0,
            clock: 1_980e6,
        };
        assert_eq!(sample, expected);
    }

    #[test]
    fn a_gpu_is_found_by_its_uuid() {
        // The other one draws less.
        let power = UUIDS.map(|uuid| open(&[], uuid).expect(uuid).sample().power);
        assert_eq!(power, [70.0, 123.456]);
    }

    #[test]
    fn what_the_driver_refuses_is_unknown_and_the_rest_is_not() {
        let sample = open(&["-DNO_UTILIZATION", "-DNO_POWER"], UUIDS[0]).expect("GPU 0").sample();
        assert!(sample.utilization.is_nan() && sample.power.is_nan());
        assert_eq!((sample.memory, sample.temperature, sample.clock), (5_000_000_000.0, 61.0, 1_980e6));
    }

    #[test]
    fn a_driver_without_a_function_only_lacks_its_value() {
        let sample = open(&["-DOLD_MEMORY"], UUIDS[0]).expect("GPU 0").sample();
        assert!(sample.memory.is_nan());
        assert_eq!(sample.utilization, 0.37);
    }

    #[test]
    fn a_gpu_that_is_lost_is_unknown() {
        let sample = open(&["-DLOST"], UUIDS[0]).expect("GPU 0").sample();
        let values = [sample.utilization, sample.memory, sample.power, sample.temperature, sample.clock];
        assert!(values.iter().all(|value| value.is_nan()), "{sample:?}");
    }

    #[test]
    fn a_reason_says_what_is_missing() {
        let other = "GPU-aaaaaaaa-6666-7777-8888-999999999999";
        let reason = open(&[], other).expect_err("there is no such GPU");
        assert!(reason.contains(other) && reason.contains("`nvidia-smi -L`"), "{reason}");
        let reason = open(&["-DNO_DRIVER"], UUIDS[0]).expect_err("the driver is not loaded");
        assert!(reason.starts_with("NVML does not start: ") && reason.contains("nvidia-smi"), "{reason}");
        let empty = tempfile::tempdir().expect("a directory");
        let missing = empty.path().join("libnvidia-ml.so.1");
        let reason = Gpu::open_library(missing.as_os_str(), UUIDS[0]).expect_err("no library");
        assert!(reason.contains("libnvidia-ml.so.1") && reason.contains("install"), "{reason}");
        assert!(!reason.contains('\n'), "one line: {reason}");
    }
}
