//! The NCCL functions that this crate calls, and the choice among the libraries on a machine.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;

use cudarc::nccl::sys::{cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId};

use crate::error::CudaError;
use crate::library::{Library, Version, keep, open, path_of};
use crate::search_paths::{NCCL, SearchPaths, VARIABLE};
use crate::table::{Status, table};

// Functions that every NCCL since 2.10 exports.
table! {
    Functions, SYMBOLS, cudarc::nccl::sys as ncclResult_t;
    fn ncclGetVersion(version: *mut c_int);
    fn ncclGetUniqueId(id: *mut ncclUniqueId);
    fn ncclCommInitRank(communicator: *mut ncclComm_t, size: c_int, id: ncclUniqueId, rank: c_int);
    fn ncclCommDestroy(communicator: ncclComm_t);
    fn ncclAllReduce(
        from: *const c_void, to: *mut c_void, count: usize, element: ncclDataType_t, operation: ncclRedOp_t,
        communicator: ncclComm_t, stream: cudaStream_t
    );
    fn ncclAllGather(
        from: *const c_void, to: *mut c_void, count: usize, element: ncclDataType_t, communicator: ncclComm_t,
        stream: cudaStream_t
    );
    apart
}

/// The oldest supported version; since then its calls can be captured.
const MINIMUM: Version = Version { major: 2, minor: 10 };

/// The text for a status code.
type StatusText = unsafe extern "C" fn(u32) -> *const c_char;

/// NCCL, loaded until the process ends.
#[derive(Debug)]
pub(crate) struct LoadedNccl {
    pub functions: Functions,
    path: PathBuf,
    version: Version,
    text: Option<StatusText>,
}

impl LoadedNccl {
    /// The first usable library.
    ///
    /// # Errors
    /// There is none; the error names the package to install.
    pub fn find_at(paths: &SearchPaths) -> Result<LoadedNccl, CudaError> {
        let mut complaints = Vec::new();
        for candidate in paths.nccl() {
            match open(&candidate) {
                None => {}
                Some(Err(complaint)) => complaints.push(complaint),
                Some(Ok(library)) => {
                    let path = path_of(&library, "ncclGetVersion", &candidate);
                    match bind(library, path) {
                        Ok(found) => return Ok(found),
                        Err(complaint) => complaints.push(complaint),
                    }
                }
            }
        }
        complaints.dedup();
        let problem = if complaints.is_empty() {
            format!("no NCCL here: {NCCL} is {}", paths.describe_compilers())
        } else {
            format!("no usable NCCL: {}", complaints.join(", "))
        };
        let remedy = format!(
            "`pip install nvidia-nccl-cu13` (`nvidia-nccl-cu12` for a driver of CUDA 12), or set {VARIABLE} to the directory of {NCCL}"
        );
        Err(CudaError::NoNccl { problem, remedy })
    }

    /// Its file and its own version.
    pub fn library(&self) -> Library {
        Library { path: self.path.clone(), version: Some(self.version) }
    }

    /// The error for a call that failed during an operation.
    pub fn failure(&self, status: Status, device: &str, doing: &str) -> CudaError {
        let Status { call, code } = status;
        // SAFETY: the function accepts any code; unknown ones have their own text.
        let text = self.text.map_or(std::ptr::null(), |text| unsafe { text(code) });
        let text = if text.is_null() {
            "unknown error".to_owned()
        } else {
            // SAFETY: the library's texts are static and end with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        let (path, version) = (self.path.display(), self.version);
        CudaError::Nccl {
            problem: format!(
                "{call} of NCCL {version} ({path}) failed with {code} ({text}) on {device} while {doing}"
            ),
            remedy: "run again with NCCL_DEBUG=WARN, which prints the library's reason".to_owned(),
        }
    }
}

fn bind(library: libloading::Library, path: PathBuf) -> Result<LoadedNccl, String> {
    let shown = path.display();
    // SAFETY: a library of NCCL's name is taken to be NCCL, and it stays loaded until the process ends.
    let functions = unsafe { Functions::bind(&library) }
        .map_err(|missing| format!("{shown} is not a usable NCCL (it lacks {})", missing.join(", ")))?;
    let mut number = 0;
    // SAFETY: the result outlives the call, which may be made first.
    let asked = unsafe { functions.ncclGetVersion(&mut number) };
    let version = asked.ok().and_then(|()| version_of(number));
    let version = version.ok_or_else(|| format!("{shown} does not report its version ({number})"))?;
    if version < MINIMUM {
        return Err(format!("{shown} is NCCL {version}; the minimum is {MINIMUM}"));
    }
    // SAFETY: the type is that of the library's header, with the status code as a number.
    let text = unsafe { library.get::<StatusText>("ncclGetErrorString") }.ok().map(|text| *text);
    keep(library);
    Ok(LoadedNccl { functions, path, version, text })
}

/// 22703 is 2.27.3, and 2804, as before 2.9, is 2.8.4.
fn version_of(number: c_int) -> Option<Version> {
    let number = u32::try_from(number).ok().filter(|number| *number >= 1_000)?;
    let unit = if number < 10_000 { 1_000 } else { 10_000 };
    Some(Version { major: number / unit, minor: number % unit / 100 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_librarys_numbers() {
        assert_eq!(version_of(22_703), Some(Version { major: 2, minor: 27 }));
        assert_eq!(version_of(2_804), Some(Version { major: 2, minor: 8 }));
        assert_eq!(version_of(0), None);
    }
}
