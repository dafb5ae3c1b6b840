//! Shared libraries: their versions and files, and how they are opened and kept loaded.

use std::fmt;
use std::path::{Path, PathBuf};

/// A CUDA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 13 in 13.0.
    pub major: u32,
    /// 0 in 13.0.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// A shared library that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// The file.
    pub path: PathBuf,
    /// The CUDA version that it reports; None if it could not be read.
    pub version: Option<Version>,
}

/// Where a library may be: a file, or a name that the loader resolves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Candidate {
    File(PathBuf),
    Name(&'static str),
}

/// Opens a library. `None` if it does not exist; an error if the file cannot be loaded.
pub(crate) fn open(candidate: &Candidate) -> Option<Result<libloading::Library, String>> {
    match candidate {
        Candidate::File(path) => {
            path.symlink_metadata().ok()?;
            // SAFETY: loading runs the library's initialisers; it is NVIDIA's library or one that the user named.
            let opened = unsafe { libloading::Library::new(path) };
            Some(opened.map_err(|error| complaint(path, &error)))
        }
        // SAFETY: the same. If the loader does not find the name, that is not an error.
        Candidate::Name(name) => unsafe { libloading::Library::new(*name) }.ok().map(Ok),
    }
}

/// The loader's error in one line that names the file once.
fn complaint(path: &Path, error: &libloading::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = inner.to_string(); // the innermost error is the loader's message
        source = inner.source();
    }
    let path = path.display().to_string();
    let text = text.replace(['\n', ';'], ",");
    let text = text.strip_prefix(&path).unwrap_or(&text).trim_start_matches([':', ' ']);
    format!("{path} cannot be loaded ({text})")
}

/// The file of an opened library's function, which shows where the loader found a name.
pub(crate) fn path_of(library: &libloading::Library, symbol: &str, candidate: &Candidate) -> PathBuf {
    match candidate {
        Candidate::File(path) => path.clone(),
        Candidate::Name(name) => file_of(library, symbol).unwrap_or_else(|| PathBuf::from(name)),
    }
}

#[cfg(unix)]
fn file_of(library: &libloading::Library, symbol: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    // SAFETY: the address is only looked up and never called.
    let function = unsafe { library.get::<unsafe extern "C" fn()>(symbol) }.ok()?;
    let address = *function as *const std::ffi::c_void;
    // SAFETY: all of its fields may be zero.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be passed, and the result outlives the call.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's file name ends with a zero and lives as long as the library is loaded.
    let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    Some(path.canonicalize().unwrap_or(path))
}

#[cfg(not(unix))]
fn file_of(_library: &libloading::Library, _symbol: &str) -> Option<PathBuf> {
    None
}

/// Keeps a library loaded until the process ends: the driver has its own threads and does not support unloading.
pub(crate) fn keep(library: libloading::Library) {
    std::mem::forget(library);
}
