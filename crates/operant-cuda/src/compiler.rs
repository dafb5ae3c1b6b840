//! Compiles CUDA text to a CUBIN for one architecture with NVRTC. This needs no driver and no GPU.

use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cudarc::nvrtc::sys::nvrtcResult;

use crate::cache::{Cache, Key, default_directory};
use crate::error::CudaError;
use crate::library::{Candidate, Version, keep, open, path_of};
use crate::nvrtc::Nvrtc;
use crate::program::Program;
use crate::resources::{self, Resources};
use crate::search_paths::{SearchPaths, VARIABLE};
use crate::table::Status;

/// Options of every compilation, in addition to the architecture and the definitions. Contraction of a product and a sum is
/// on, because environments use intrinsics that are never contracted. Fast math is off, because it flushes denormals even in
/// those.
const OPTIONS: &[&str] = &["--std=c++17", "--ptxas-options=-v"];

#[derive(Debug, Clone, PartialEq)]
pub struct CompiledProgram {
    /// The CUBIN.
    pub code: Vec<u8>,
    /// The compiler's log, with each function's resources.
    pub log: String,
    /// Whether it came from the cache.
    pub cached: bool,
    /// Compile time in seconds.
    pub seconds: f64,
    /// Why it could not be stored in the cache, if so.
    pub note: Option<String>,
}

impl CompiledProgram {
    /// Resources of each kernel and of each function that it calls, from the log.
    pub fn resources(&self) -> Vec<Resources> {
        resources::parse(&self.log)
    }

    /// The compiler's warnings: lines of the log.
    pub fn warnings(&self) -> Vec<&str> {
        resources::warnings(&self.log)
    }
}

/// NVRTC, loaded, and a cache for its output.
#[derive(Debug, Clone)]
pub struct Compiler {
    found: Arc<Found>,
    cache: Cache,
}

/// The libraries that were found (at least one), the newest first.
#[derive(Debug)]
struct Found {
    libraries: Vec<LoadedCompiler>,
    /// The index of the one in use.
    used: AtomicUsize,
}

#[derive(Debug)]
struct LoadedCompiler {
    functions: Nvrtc,
    path: PathBuf,
    version: Version,
    architectures: Vec<u32>,
    /// The driver version for which it was chosen.
    newest: Option<Version>,
}

impl Compiler {
    /// The newest NVRTC on this machine whose major version is not newer than `newest` (None: any). Older ones are fallbacks for
    /// a driver that refuses its output. Those in `first` (else `$OPERANT_CUDA_LIBRARIES`) are preferred.
    ///
    /// # Errors
    /// There is none; the error names the package to install.
    pub fn find(first: Option<&Path>, newest: Option<Version>) -> Result<Compiler, CudaError> {
        Compiler::find_at(&SearchPaths::standard(first), newest)
    }

    /// [`Compiler::find`], with these search paths.
    ///
    /// # Errors
    /// Same as [`Compiler::find`].
    pub fn find_at(paths: &SearchPaths, newest: Option<Version>) -> Result<Compiler, CudaError> {
        let mut complaints = Vec::new();
        let mut seen = Vec::new();
        for group in paths.compilers() {
            let mut found: Vec<LoadedCompiler> = Vec::new();
            for candidate in group {
                match load(&candidate, newest, &mut seen) {
                    Some(Ok(library)) => found.push(library),
                    Some(Err(complaint)) => complaints.push(complaint),
                    None => {}
                }
            }
            if !found.is_empty() {
                // The first found is the first of its version.
                found.sort_by_key(|library| std::cmp::Reverse(library.version));
                let cache = Cache::new(default_directory());
                return Ok(Compiler { found: Arc::new(Found { libraries: found, used: 0.into() }), cache });
            }
        }
        complaints.dedup();
        let problem = if complaints.is_empty() {
            format!("no CUDA run-time compiler (NVRTC) here: libnvrtc is {}", paths.describe_compilers())
        } else {
            format!("no usable CUDA run-time compiler (NVRTC): {}", complaints.join(", "))
        };
        Err(CudaError::NoCompiler { problem, remedy: remedy(newest) })
    }

    /// Caches compiled programs in `kernels` in this directory; None disables the cache.
    #[must_use]
    pub fn cached_in(mut self, directory: Option<&Path>) -> Compiler {
        self.cache = Cache::new(directory.map(Path::to_path_buf));
        self
    }

    /// The library in use.
    fn library(&self) -> &LoadedCompiler {
        &self.found.libraries[self.found.used.load(Ordering::Relaxed)]
    }

    /// Switches to an older library, after a driver refused the output of version `refused`. Returns whether the one in use is now
    /// older than that.
    pub(crate) fn step_down(&self, refused: Version) -> bool {
        let next = self.found.libraries.iter().position(|library| library.version < refused);
        if let Some(next) = next {
            self.found.used.fetch_max(next, Ordering::Relaxed);
        }
        next.is_some()
    }

    pub fn version(&self) -> Version {
        self.library().version
    }

    /// Its library.
    pub fn path(&self) -> &Path {
        &self.library().path
    }

    /// The cache directory, whose `kernels` holds compiled programs.
    pub fn cache_directory(&self) -> Option<&Path> {
        self.cache.directory()
    }

    /// The architectures that it compiles for: 80, 86, 90, ...
    pub fn architectures(&self) -> Vec<u32> {
        self.library().architectures.clone()
    }

    /// The architecture to compile for so that a device of this architecture runs the code: its own or, if the device is newer
    /// than this compiler, the nearest older one of the same generation.
    pub fn nearest(&self, architecture: u32) -> u32 {
        let known = self.library().architectures.iter().copied();
        let runs = known.filter(|known| known / 10 == architecture / 10 && *known <= architecture);
        runs.max().unwrap_or(architecture)
    }

    /// Checks that it compiles for this architecture.
    pub(crate) fn check_architecture(&self, architecture: u32) -> Result<(), CudaError> {
        let known = &self.library().architectures;
        if known.contains(&architecture) {
            return Ok(());
        }
        let shown: Vec<String> = known.iter().map(u32::to_string).collect();
        let problem = format!(
            "NVRTC {} ({}) cannot compile for sm_{architecture}, it supports {}",
            self.version(),
            self.path().display(),
            shown.join(", ")
        );
        let remedy = if known.first().is_some_and(|oldest| architecture < *oldest) {
            "use a newer GPU, since this one is no longer supported, or an older NVRTC".to_owned()
        } else {
            format!("install a newer one: {}", remedy(self.library().newest))
        };
        Err(CudaError::Architecture { architecture, problem, remedy })
    }

    /// Compiles for `sm_<architecture>`, or loads the result from the cache.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the log, [`CudaError::Architecture`], or that NVRTC itself fails.
    pub fn compile(&self, program: &Program, architecture: u32) -> Result<CompiledProgram, CudaError> {
        let start = Instant::now();
        self.check_architecture(architecture)?;
        let options = options(program, architecture);
        let key = Key::new(program, architecture, &options, self.version(), self.path());
        if let Some((code, log)) = self.cache.load(&key) {
            let seconds = start.elapsed().as_secs_f64();
            return Ok(CompiledProgram { code, log, cached: true, seconds, note: None });
        }
        let (code, log) = self.run(program, architecture, &options)?;
        let note = self.cache.store(&key, &code, &log).err();
        Ok(CompiledProgram { code, log, cached: false, seconds: start.elapsed().as_secs_f64(), note })
    }

    fn run(
        &self,
        program: &Program,
        architecture: u32,
        options: &[String],
    ) -> Result<(Vec<u8>, String), CudaError> {
        let nvrtc = &self.library().functions;
        let fails = |status: Status| self.failure(program, status);
        let headers = texts(program, program.headers.iter().map(|(_, text)| text))?;
        let names = texts(program, program.headers.iter().map(|(name, _)| name))?;
        let options = texts(program, options)?;
        let (headers, names, options) = (pointers(&headers), pointers(&names), pointers(&options));
        let source = text(program, &program.source)?;
        let name = text(program, &program.name)?;

        let mut handle = Handle { nvrtc, raw: std::ptr::null_mut() };
        // SAFETY: every pointer is to a text that ends with a zero and outlives the call, and the counts are the
        // lists' own.
        unsafe {
            nvrtc.nvrtcCreateProgram(
                &mut handle.raw,
                source.as_ptr(),
                name.as_ptr(),
                headers.len() as c_int,
                headers.as_ptr(),
                names.as_ptr(),
            )
        }
        .map_err(fails)?;
        // SAFETY: the program was made above, and the options outlive the call.
        let outcome =
            unsafe { nvrtc.nvrtcCompileProgram(handle.raw, options.len() as c_int, options.as_ptr()) };
        let log = handle.log().map_err(fails)?;
        match outcome {
            Ok(()) => Ok((handle.code().map_err(fails)?, log)),
            Err(status) if is_fault_of_the_program(status.code) => Err(CudaError::Compile {
                program: program.name.clone(),
                architecture,
                problem: nvrtc.explain(status.code),
                log: log.trim_end().to_owned(),
            }),
            Err(status) => Err(match self.failure(program, status) {
                CudaError::Compiler { problem, remedy } if !log.trim().is_empty() => {
                    let log = log.trim().replace('\n', " | ").replace(';', ",");
                    CudaError::Compiler { problem: format!("{problem} ({log})"), remedy }
                }
                error => error,
            }),
        }
    }

    /// An error of NVRTC itself.
    fn failure(&self, program: &Program, status: Status) -> CudaError {
        let explained = self.library().functions.explain(status.code);
        let builtins = status.code == nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE as u32;
        CudaError::Compiler {
            problem: format!(
                "NVRTC {} ({}) failed on {}: {} says {explained}",
                self.version(),
                self.path().display(),
                program.name,
                status.call
            ),
            remedy: if builtins {
                format!(
                    "put libnvrtc-builtins.so.{} in the same directory, or install both: {}",
                    self.version(),
                    remedy(self.library().newest)
                )
            } else {
                format!("reinstall it: {}", remedy(self.library().newest))
            },
        }
    }
}

fn is_fault_of_the_program(code: u32) -> bool {
    code == nvrtcResult::NVRTC_ERROR_COMPILATION as u32
        || code == nvrtcResult::NVRTC_ERROR_INVALID_OPTION as u32
}

/// How to install a compiler for a driver.
fn remedy(newest: Option<Version>) -> String {
    let package = match newest {
        Some(version) if version.major <= 12 => "`pip install nvidia-cuda-nvrtc-cu12`".to_owned(),
        Some(_) => "`pip install nvidia-cuda-nvrtc`".to_owned(),
        None => {
            "`pip install nvidia-cuda-nvrtc` (`pip install nvidia-cuda-nvrtc-cu12` for a driver of CUDA 12)"
                .to_owned()
        }
    };
    format!("{package}, or install the CUDA toolkit, or set {VARIABLE} to the directory of libnvrtc")
}

fn options(program: &Program, architecture: u32) -> Vec<String> {
    let mut options: Vec<String> = OPTIONS.iter().map(|option| (*option).to_owned()).collect();
    options.push(format!("--gpu-architecture=sm_{architecture}"));
    options.extend(program.defines.iter().map(|(name, value)| format!("--define-macro={name}={value}")));
    options
}

/// Loads a compiler and reads its version. None: there is none, or it was found before.
fn load(
    candidate: &Candidate,
    newest: Option<Version>,
    seen: &mut Vec<PathBuf>,
) -> Option<Result<LoadedCompiler, String>> {
    if let Candidate::File(path) = candidate {
        let file = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.contains(&file) {
            return None;
        }
        seen.push(file);
        if let (Some(major), Some(newest)) = (major_of(path), newest)
            && major > newest.major
        {
            return Some(Err(too_new(path, &format!("CUDA {major}"), newest)));
        }
    }
    let library = match open(candidate)? {
        Ok(library) => library,
        Err(complaint) => return Some(Err(complaint)),
    };
    let path = path_of(&library, "nvrtcVersion", candidate);
    if matches!(candidate, Candidate::Name(_)) {
        if seen.contains(&path) {
            return None;
        }
        seen.push(path.clone());
    }
    Some(bind(library, path, newest))
}

fn bind(
    library: libloading::Library,
    path: PathBuf,
    newest: Option<Version>,
) -> Result<LoadedCompiler, String> {
    let shown = path.display();
    // SAFETY: a library of NVRTC's name is taken to be NVRTC, and it stays loaded until the process ends.
    let functions = unsafe { Nvrtc::bind(&library) }
        .map_err(|missing| format!("{shown} is not a usable NVRTC (it lacks {})", missing.join(", ")))?;
    let fails = |status: Status| format!("{shown}: {} says {}", status.call, functions.explain(status.code));
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both results outlive the call.
    unsafe { functions.nvrtcVersion(&mut major, &mut minor) }.map_err(fails)?;
    let version =
        Version { major: u32::try_from(major).unwrap_or(0), minor: u32::try_from(minor).unwrap_or(0) };
    if let Some(newest) = newest
        && version.major > newest.major
    {
        return Err(too_new(&path, &version.to_string(), newest));
    }
    keep_builtins(&path, version);

    let mut count = 0;
    // SAFETY: the result outlives the call.
    unsafe { functions.nvrtcGetNumSupportedArchs(&mut count) }.map_err(fails)?;
    let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: NVRTC writes as many numbers as it reported.
    unsafe { functions.nvrtcGetSupportedArchs(architectures.as_mut_ptr()) }.map_err(fails)?;
    let architectures = architectures.into_iter().filter_map(|number| u32::try_from(number).ok()).collect();
    keep(library);
    Ok(LoadedCompiler { functions, path, version, architectures, newest })
}

fn too_new(path: &Path, version: &str, newest: Version) -> String {
    format!("{} is for {version}, newer than the driver (CUDA {newest})", path.display())
}

/// The major version in a file's name: 13 in `libnvrtc.so.13`.
fn major_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix("libnvrtc.so.")?.split('.').next()?.parse().ok()
}

/// Loads NVRTC's second library from the same directory, because NVRTC opens it by name alone.
fn keep_builtins(path: &Path, version: Version) {
    let name = format!("libnvrtc-builtins.so.{version}");
    // A symbolic link may be in another directory than its target.
    for path in [Some(path.to_path_buf()), path.canonicalize().ok()].into_iter().flatten() {
        // If it is missing or cannot be loaded, compilation fails with an error that says so.
        if let Some(Ok(library)) = open(&Candidate::File(path.with_file_name(&name))) {
            keep(library);
            return;
        }
    }
}

/// NVRTC's handle of a program.
struct Handle<'a> {
    nvrtc: &'a Nvrtc,
    raw: cudarc::nvrtc::sys::nvrtcProgram,
}

impl Handle<'_> {
    fn log(&self) -> Result<String, Status> {
        let mut bytes = 0;
        // SAFETY: the program and the result are alive.
        unsafe { self.nvrtc.nvrtcGetProgramLogSize(self.raw, &mut bytes) }?;
        let mut log = vec![0u8; bytes];
        // SAFETY: NVRTC writes as many bytes as it reported.
        unsafe { self.nvrtc.nvrtcGetProgramLog(self.raw, log.as_mut_ptr().cast()) }?;
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        Ok(String::from_utf8_lossy(&log[..end]).into_owned())
    }

    fn code(&self) -> Result<Vec<u8>, Status> {
        let mut bytes = 0;
        // SAFETY: the program and the result are alive.
        unsafe { self.nvrtc.nvrtcGetCUBINSize(self.raw, &mut bytes) }?;
        let mut code = vec![0u8; bytes];
        // SAFETY: NVRTC writes as many bytes as it reported.
        unsafe { self.nvrtc.nvrtcGetCUBIN(self.raw, code.as_mut_ptr().cast()) }?;
        Ok(code)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: made by NVRTC and not destroyed before. A failure cannot be reported.
            let _ = unsafe { self.nvrtc.nvrtcDestroyProgram(&mut self.raw) };
        }
    }
}

/// A text that ends with a zero byte, as NVRTC requires.
fn text(program: &Program, from: &str) -> Result<CString, CudaError> {
    CString::new(from).map_err(|error| CudaError::Compiler {
        problem: format!("{} has a zero byte in its text, at {}", program.name, error.nul_position()),
        remedy: "remove it".to_owned(),
    })
}

fn texts<'a>(
    program: &Program,
    from: impl IntoIterator<Item = &'a String>,
) -> Result<Vec<CString>, CudaError> {
    from.into_iter().map(|from| text(program, from)).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}
