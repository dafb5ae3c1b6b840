//! Finds the driver, the compiler and, on request, the library for matrix products; reports what is found and missing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUresult;

use crate::blas::LoadedBlas;
use crate::compiler::Compiler;
use crate::driver::{Driver, LoadedDriver};
use crate::error::CudaError;
use crate::library::{Library, Version, keep, open, path_of};
use crate::nccl::{self, CommunicatorId, LoadedNccl};
use crate::properties::DeviceProperties;
use crate::search_paths::{SearchPaths, VARIABLE};
use crate::table::Status;

/// The oldest supported driver, as its CUDA version (driver 525).
pub const MINIMUM_DRIVER: Version = Version { major: 12, minor: 0 };

/// The driver, loaded and initialised, and a compiler for it.
#[derive(Debug, Clone)]
pub struct Cuda {
    driver: Arc<LoadedDriver>,
    compiler: Compiler,
    /// The search paths for the libraries for matrix products and for sums between GPUs, and those that were found.
    paths: SearchPaths,
    blas: Arc<OnceLock<Arc<LoadedBlas>>>,
    nccl: Arc<OnceLock<Arc<LoadedNccl>>>,
}

impl Cuda {
    /// Finds the libraries on this machine, those in `$OPERANT_CUDA_LIBRARIES` first, and initialises the driver.
    ///
    /// # Errors
    /// No usable driver or compiler, an old driver, or no GPU; each with a remedy.
    pub fn find() -> Result<Cuda, CudaError> {
        Cuda::find_at(&SearchPaths::standard(None))
    }

    /// [`Cuda::find`] with `first` instead of `$OPERANT_CUDA_LIBRARIES`.
    ///
    /// # Errors
    /// Same as [`Cuda::find`].
    pub fn find_in(first: Option<&Path>) -> Result<Cuda, CudaError> {
        Cuda::find_at(&SearchPaths::standard(first))
    }

    /// [`Cuda::find`], with these search paths.
    ///
    /// # Errors
    /// Same as [`Cuda::find`].
    pub fn find_at(paths: &SearchPaths) -> Result<Cuda, CudaError> {
        let driver = load_driver(paths)?;
        start(&driver)?;
        let compiler = Compiler::find_at(paths, Some(driver.version))?;
        let (paths, blas, nccl) = (paths.clone(), Arc::default(), Arc::default());
        Ok(Cuda { driver: Arc::new(driver), compiler, paths, blas, nccl })
    }

    /// Caches compiled kernels in `kernels` in this directory; None disables the cache.
    #[must_use]
    pub fn cached_in(mut self, directory: Option<&Path>) -> Cuda {
        self.compiler = self.compiler.cached_in(directory);
        self
    }

    /// The CUDA version that the driver supports.
    pub fn driver_version(&self) -> Version {
        self.driver.version
    }

    /// The driver's library.
    pub fn driver_path(&self) -> &Path {
        &self.driver.path
    }

    /// The compiler for kernels.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// The GPUs that the driver shows, in its order.
    pub fn devices(&self) -> Result<Vec<DeviceProperties>, CudaError> {
        devices(&self.driver)
    }

    /// Checks that the library for matrix products can be loaded, without opening it on a device.
    ///
    /// # Errors
    /// [`CudaError::NoBlas`] with the package to install.
    pub fn has_blas(&self) -> Result<(), CudaError> {
        self.blas().map(|_| ())
    }

    /// The library for matrix products, loaded at the first request.
    pub(crate) fn blas(&self) -> Result<Arc<LoadedBlas>, CudaError> {
        if let Some(found) = self.blas.get() {
            return Ok(found.clone());
        }
        let found = Arc::new(LoadedBlas::find_at(&self.paths, Some(self.driver.version))?);
        Ok(self.blas.get_or_init(|| found).clone())
    }

    /// Checks that the library for sums between GPUs can be loaded.
    ///
    /// # Errors
    /// [`CudaError::NoNccl`] with the package to install.
    pub fn has_nccl(&self) -> Result<(), CudaError> {
        self.nccl().map(|_| ())
    }

    /// A name for a communicator of several GPUs; see [`crate::Device::join`].
    ///
    /// # Errors
    /// [`CudaError::NoNccl`] with the package to install, and library errors.
    pub fn communicator_id(&self) -> Result<CommunicatorId, CudaError> {
        let library = self.nccl()?;
        nccl::new_id(&library)
    }

    /// The library for sums between GPUs, loaded at the first request.
    pub(crate) fn nccl(&self) -> Result<Arc<LoadedNccl>, CudaError> {
        if let Some(found) = self.nccl.get() {
            return Ok(found.clone());
        }
        let found = Arc::new(LoadedNccl::find_at(&self.paths)?);
        Ok(self.nccl.get_or_init(|| found).clone())
    }

    /// How many GPUs the driver shows.
    pub(crate) fn count(&self) -> Result<usize, CudaError> {
        count(&self.driver)
    }

    pub(crate) fn driver(&self) -> &Arc<LoadedDriver> {
        &self.driver
    }
}

/// The status of one library: its file, or the problem and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryStatus {
    /// A name for people: `NVRTC`.
    pub name: &'static str,
    /// The library, where there is one.
    pub found: Option<Library>,
    /// Why it cannot be used.
    pub problem: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Every location that is searched for it, in order.
    pub searched: Vec<String>,
}

/// The status of the libraries that a GPU needs, and the GPUs found.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The driver (libcuda).
    pub driver: LibraryStatus,
    /// The compiler (NVRTC).
    pub compiler: LibraryStatus,
    /// The library for matrix products (cuBLASLt). Everything else works without it. The version is its own.
    pub blas: LibraryStatus,
    /// The library for sums between GPUs (NCCL). Everything else works without it. The version is its own.
    pub nccl: LibraryStatus,
    /// The GPUs; empty when the driver cannot be used.
    pub devices: Vec<DeviceProperties>,
    /// The oldest supported driver.
    pub minimum_driver: Version,
    /// Where compiled kernels are cached; None if the environment variables name no directory.
    pub cache: Option<PathBuf>,
}

impl Inspection {
    /// Whether [`Cuda::find`] would succeed with at least one GPU.
    pub fn usable(&self) -> bool {
        self.driver.problem.is_none() && self.compiler.problem.is_none() && !self.devices.is_empty()
    }
}

/// Inspects the libraries and GPUs, with `first` (else `$OPERANT_CUDA_LIBRARIES`) searched first. Never fails.
pub fn inspect(first: Option<&Path>) -> Inspection {
    inspect_at(&SearchPaths::standard(first))
}

/// [`inspect`], with these search paths.
pub fn inspect_at(paths: &SearchPaths) -> Inspection {
    let part = |name, searched| LibraryStatus { name, found: None, problem: None, remedy: None, searched };
    let mut driver = part("CUDA driver (libcuda)", paths.list_drivers());
    let mut compiler = part("NVRTC", paths.list_compilers());
    let mut blas = part("cuBLASLt", paths.list_blas());
    let mut nccl = part("NCCL", paths.list_nccl());
    let blame = |part: &mut LibraryStatus, error: &CudaError| {
        let (problem, remedy) = error.parts();
        (part.problem, part.remedy) = (Some(problem), Some(remedy));
    };

    let mut found_devices = Vec::new();
    let mut newest = None;
    match load_driver(paths) {
        Ok(loaded) => {
            newest = Some(loaded.version);
            driver.found = Some(Library { path: loaded.path.clone(), version: newest });
            match start(&loaded).and_then(|()| devices(&loaded)) {
                Ok(devices) => found_devices = devices,
                Err(error) => blame(&mut driver, &error),
            }
        }
        Err(error) => {
            if let CudaError::OldDriver { path, found, .. } = &error {
                driver.found = Some(Library { path: path.clone(), version: Some(*found) });
            }
            blame(&mut driver, &error);
        }
    }
    match Compiler::find_at(paths, newest) {
        Ok(found) => {
            compiler.found =
                Some(Library { path: found.path().to_path_buf(), version: Some(found.version()) });
            let unknown = found_devices
                .iter()
                .find_map(|device| found.check_architecture(found.nearest(device.architecture())).err());
            if let Some(error) = unknown {
                blame(&mut compiler, &error);
            }
        }
        Err(error) => blame(&mut compiler, &error),
    }
    match LoadedBlas::find_at(paths, newest) {
        Ok(found) => blas.found = Some(found.library()),
        Err(error) => blame(&mut blas, &error),
    }
    match LoadedNccl::find_at(paths) {
        Ok(found) => nccl.found = Some(found.library()),
        Err(error) => blame(&mut nccl, &error),
    }
    Inspection {
        driver,
        compiler,
        blas,
        nccl,
        devices: found_devices,
        minimum_driver: MINIMUM_DRIVER,
        cache: crate::cache::default_directory(),
    }
}

/// Loads the first driver that can be used.
fn load_driver(paths: &SearchPaths) -> Result<LoadedDriver, CudaError> {
    let mut complaints: Vec<String> = Vec::new();
    let mut old: Option<CudaError> = None;
    for candidate in paths.drivers() {
        match open(&candidate) {
            None => {}
            Some(Err(complaint)) => complaints.push(complaint),
            Some(Ok(library)) => {
                let path = path_of(&library, "cuDriverGetVersion", &candidate);
                match bind(&library, path) {
                    Ok(driver) => {
                        keep(library);
                        return Ok(driver);
                    }
                    Err(BindError::Old(error)) => old = old.or(Some(error)),
                    Err(BindError::Other(complaint)) => complaints.push(complaint),
                }
            }
        }
    }
    if let Some(error) = old {
        return Err(error);
    }
    complaints.dedup();
    let (problem, remedy) = if complaints.is_empty() {
        (
            format!("no NVIDIA driver here: libcuda.so.1 is {}", paths.describe_drivers()),
            format!(
                "install the NVIDIA driver (in a container, start it with `--gpus all`), or set {VARIABLE} to the \
                 directory of libcuda.so.1"
            ),
        )
    } else {
        (
            format!("no usable NVIDIA driver: {}", complaints.join(", ")),
            "reinstall the NVIDIA driver, so that `nvidia-smi` works".to_owned(),
        )
    };
    Err(CudaError::NoDriver { problem, remedy })
}

enum BindError {
    Old(CudaError),
    Other(String),
}

/// Looks up every function in an opened library, and reads its version.
fn bind(library: &libloading::Library, path: PathBuf) -> Result<LoadedDriver, BindError> {
    let shown = path.display();
    let other = |complaint: String| Err(BindError::Other(complaint));
    // SAFETY: a library of the driver's name is taken to be the driver, and it stays loaded until the process ends.
    let (bound, code, number) = match unsafe { Driver::bind(library) } {
        Ok(driver) => {
            let mut number = 0;
            // SAFETY: the result outlives the call, which may be made before cuInit.
            let asked = unsafe { driver.cuDriverGetVersion(&mut number) };
            (Ok(driver), asked.err().map_or(0, |status| status.code), number)
        }
        Err(missing) => {
            // An old driver also lacks functions, but its version is the better message.
            type GetVersion = unsafe extern "C" fn(*mut i32) -> u32;
            // SAFETY: the type is that of CUDA's headers.
            let Ok(ask) = (unsafe { library.get::<GetVersion>("cuDriverGetVersion") }) else {
                return other(format!("{shown} is not an NVIDIA driver (it lacks {})", count_of(&missing)));
            };
            let mut number = 0;
            // SAFETY: the same.
            let code = unsafe { ask(&mut number) };
            (Err(missing), code, number)
        }
    };
    if code == CUresult::CUDA_ERROR_STUB_LIBRARY as u32 {
        return other(format!("{shown} is the toolkit's stub, not a driver"));
    }
    let (Some(version), 0) = (version_of(number), code) else {
        return other(format!("{shown} does not report its version (code {code})"));
    };
    if version < MINIMUM_DRIVER {
        return Err(BindError::Old(CudaError::OldDriver { path, found: version, needed: MINIMUM_DRIVER }));
    }
    match bound {
        Ok(functions) => Ok(LoadedDriver { functions, path, version }),
        Err(missing) => other(format!("{shown} (CUDA {version}) lacks {}", count_of(&missing))),
    }
}

/// The first element of a list, and the number of others.
fn count_of(missing: &[&str]) -> String {
    match missing {
        [first, rest @ ..] if !rest.is_empty() => format!("{first} and {} more functions", rest.len()),
        few => few.concat(),
    }
}

/// 12040 is 12.4.
fn version_of(number: i32) -> Option<Version> {
    let number = u32::try_from(number).ok().filter(|number| *number >= 1000)?;
    Some(Version { major: number / 1000, minor: number % 1000 / 10 })
}

/// Initialises the driver, which detects GPUs.
fn start(driver: &LoadedDriver) -> Result<(), CudaError> {
    // SAFETY: the flags must be 0, and are.
    unsafe { driver.functions.cuInit(0) }.map_err(|status| refusal(driver, status))
}

/// A driver error before any device is open.
fn refusal(driver: &LoadedDriver, status: Status) -> CudaError {
    let failure = driver.functions.explain(status);
    let is = |code: CUresult| status.code == code as u32;
    let remedy = if is(CUresult::CUDA_ERROR_NO_DEVICE) {
        "see whether `nvidia-smi -L` lists a GPU, whether CUDA_VISIBLE_DEVICES hides it, and, in a container, start it \
         with `--gpus all`"
    } else if is(CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) {
        "restart the machine, since the driver was updated while it ran"
    } else if is(CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) {
        "take CUDA's compat directory out of LD_LIBRARY_PATH, since this GPU works with its own driver only"
    } else if is(CUresult::CUDA_ERROR_SYSTEM_NOT_READY) {
        "start nvidia-fabricmanager, which this machine's GPUs need"
    } else {
        "see what `nvidia-smi` says, and load the kernel modules: `sudo modprobe nvidia-uvm`"
    };
    let problem = format!("the NVIDIA driver {} shows no GPU: {failure}", driver.path.display());
    CudaError::NoDevice { problem, remedy: remedy.to_owned() }
}

fn count(driver: &LoadedDriver) -> Result<usize, CudaError> {
    let mut count = 0;
    // SAFETY: the result outlives the call.
    unsafe { driver.functions.cuDeviceGetCount(&mut count) }.map_err(|status| refusal(driver, status))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn devices(driver: &LoadedDriver) -> Result<Vec<DeviceProperties>, CudaError> {
    (0..count(driver)?)
        .map(|ordinal| {
            let properties = DeviceProperties::read(&driver.functions, ordinal);
            properties.map_err(|status| refusal(driver, status))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_cudas_numbers() {
        assert_eq!(version_of(12040), Some(Version { major: 12, minor: 4 }));
        assert_eq!(version_of(13000), Some(Version { major: 13, minor: 0 }));
        assert_eq!(version_of(0), None);
        assert_eq!(version_of(-1), None);
        assert!(Version { major: 12, minor: 0 } < Version { major: 13, minor: 0 });
        assert_eq!(Version { major: 12, minor: 4 }.to_string(), "12.4");
    }
}
