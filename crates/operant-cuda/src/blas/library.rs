//! The cuBLASLt functions that this crate calls, and the choice among the libraries on a machine.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cudaDataType, cudaStream_t,
};

use crate::error::CudaError;
use crate::library::{Candidate, Library, Version, keep, open, path_of};
use crate::search_paths::{BLAS, SearchPaths, VARIABLE};
use crate::table::{Status, table};

// Functions that cuBLASLt of both CUDA 12 and CUDA 13 export.
table! {
    Functions, SYMBOLS, cudarc::cublaslt::sys as cublasStatus_t;
    fn cublasLtCreate(handle: *mut cublasLtHandle_t);
    fn cublasLtDestroy(handle: cublasLtHandle_t);
    fn cublasLtMatmulDescCreate(
        operation: *mut cublasLtMatmulDesc_t, compute: cublasComputeType_t, scale: cudaDataType
    );
    fn cublasLtMatmulDescDestroy(operation: cublasLtMatmulDesc_t);
    fn cublasLtMatmulDescSetAttribute(
        operation: cublasLtMatmulDesc_t, attribute: cublasLtMatmulDescAttributes_t, value: *const c_void, bytes: usize
    );
    fn cublasLtMatrixLayoutCreate(
        layout: *mut cublasLtMatrixLayout_t, element: cudaDataType, rows: u64, columns: u64, stride: i64
    );
    fn cublasLtMatrixLayoutDestroy(layout: cublasLtMatrixLayout_t);
    fn cublasLtMatmulPreferenceCreate(preference: *mut cublasLtMatmulPreference_t);
    fn cublasLtMatmulPreferenceDestroy(preference: cublasLtMatmulPreference_t);
    fn cublasLtMatmulPreferenceSetAttribute(
        preference: cublasLtMatmulPreference_t, attribute: cublasLtMatmulPreferenceAttributes_t, value: *const c_void,
        bytes: usize
    );
    fn cublasLtMatmul(
        handle: cublasLtHandle_t, operation: cublasLtMatmulDesc_t, alpha: *const c_void, a: *const c_void,
        a_layout: cublasLtMatrixLayout_t, b: *const c_void, b_layout: cublasLtMatrixLayout_t, beta: *const c_void,
        c: *const c_void, c_layout: cublasLtMatrixLayout_t, d: *mut c_void, d_layout: cublasLtMatrixLayout_t,
        algorithm: *const cublasLtMatmulAlgo_t, workspace: *mut c_void, workspace_bytes: usize, stream: cudaStream_t
    );
    apart
    // The state in a result is declared as a number.
    fn cublasLtMatmulAlgoGetHeuristic(
        handle: cublasLtHandle_t, operation: cublasLtMatmulDesc_t, a_layout: cublasLtMatrixLayout_t,
        b_layout: cublasLtMatrixLayout_t, c_layout: cublasLtMatrixLayout_t, d_layout: cublasLtMatrixLayout_t,
        preference: cublasLtMatmulPreference_t, requested: c_int, results: *mut HeuristicResult, found: *mut c_int
    );
}

/// An algorithm that the library proposes: `cublasLtMatmulHeuristicResult_t`, with the state as a number, because a newer
/// library may give one that the enumeration does not have.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeuristicResult {
    pub algorithm: cublasLtMatmulAlgo_t,
    /// Bytes of workspace that it needs.
    pub workspace: usize,
    /// 0 if the other fields are valid.
    pub state: u32,
    pub waves: f32,
    reserved: [c_int; 4],
}

impl HeuristicResult {
    /// Output written by the library.
    pub const NONE: HeuristicResult = HeuristicResult {
        algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
        workspace: 0,
        state: u32::MAX,
        waves: 0.0,
        reserved: [0; 4],
    };
}

const _: () = {
    use cublasLtMatmulHeuristicResult_t as Theirs;
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<HeuristicResult>() == size_of::<Theirs>());
    assert!(align_of::<HeuristicResult>() == align_of::<Theirs>());
    assert!(offset_of!(HeuristicResult, algorithm) == offset_of!(Theirs, algo));
    assert!(offset_of!(HeuristicResult, workspace) == offset_of!(Theirs, workspaceSize));
    assert!(offset_of!(HeuristicResult, state) == offset_of!(Theirs, state));
    assert!(offset_of!(HeuristicResult, waves) == offset_of!(Theirs, wavesCount));
};

/// The library's own version: 131000 is 13.10.
type GetVersion = unsafe extern "C" fn() -> usize;

/// The text for a status code.
type StatusText = unsafe extern "C" fn(u32) -> *const c_char;

/// cuBLASLt, loaded until the process ends.
#[derive(Debug)]
pub(crate) struct LoadedBlas {
    pub functions: Functions,
    path: PathBuf,
    version: Version,
    status_name: Option<StatusText>,
    status_string: Option<StatusText>,
}

impl LoadedBlas {
    /// The first usable library of the newest major version that is not newer than `newest` (None: any). The first directory
    /// takes precedence over all others.
    ///
    /// The library is half a gigabyte, so as few as possible are loaded.
    ///
    /// # Errors
    /// There is none; the error names the package to install.
    pub fn find_at(paths: &SearchPaths, newest: Option<Version>) -> Result<LoadedBlas, CudaError> {
        let mut complaints = Vec::new();
        let candidates = paths.blas();
        for (major, candidate) in candidates {
            if let Some(newest) = newest.filter(|newest| major > newest.major) {
                if let Candidate::File(path) = &candidate
                    && path.exists()
                {
                    complaints.push(too_new(path, major, newest));
                }
                continue;
            }
            match open(&candidate) {
                None => {}
                Some(Err(complaint)) => complaints.push(complaint),
                Some(Ok(library)) => {
                    let path = path_of(&library, "cublasLtCreate", &candidate);
                    match bind(library, path, newest) {
                        Ok(found) => return Ok(found),
                        Err(complaint) => complaints.push(complaint),
                    }
                }
            }
        }
        complaints.dedup();
        let problem = if complaints.is_empty() {
            format!("no cuBLASLt here: {} is {}", BLAS[0].1, paths.describe_compilers())
        } else {
            format!("no usable cuBLASLt: {}", complaints.join(", "))
        };
        Err(CudaError::NoBlas { problem, remedy: remedy(newest) })
    }

    /// Its file and its own version.
    pub fn library(&self) -> Library {
        Library { path: self.path.clone(), version: Some(self.version) }
    }

    /// The library's description of a status code.
    pub fn explain(&self, code: u32) -> String {
        let say = |ask: Option<StatusText>| {
            // SAFETY: the function accepts any code; unknown ones have their own text.
            let text = ask.map_or(std::ptr::null(), |ask| unsafe { ask(code) });
            // SAFETY: the library's texts are static and end with a zero.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = say(self.status_name).unwrap_or_else(|| "an unknown code".to_owned());
        match say(self.status_string) {
            Some(text) => format!("{name} ({code}: {text})"),
            None => format!("{name} ({code})"),
        }
    }

    /// The error for a call that failed during an operation on a device.
    pub fn failure(&self, status: Status, device: &str, doing: &str) -> CudaError {
        use cudarc::cublaslt::sys::cublasStatus_t as Code;
        let is = |code: Code| status.code == code as u32;
        let remedy = if is(Code::CUBLAS_STATUS_NOT_INITIALIZED) || is(Code::CUBLAS_STATUS_ALLOC_FAILED) {
            "see whether `nvidia-smi` shows free memory, and whether the driver is as new as the library"
        } else if is(Code::CUBLAS_STATUS_ARCH_MISMATCH) {
            "install a newer cuBLAS, which supports this GPU"
        } else {
            "run again with CUBLASLT_LOG_LEVEL=1, which logs the library's reason"
        };
        let (call, explained) = (status.call, self.explain(status.code));
        CudaError::Blas {
            problem: format!(
                "{call} of cuBLASLt {} ({}) failed with {explained} on {device} while {doing}",
                self.version,
                self.path.display()
            ),
            remedy: remedy.to_owned(),
        }
    }
}

fn bind(library: libloading::Library, path: PathBuf, newest: Option<Version>) -> Result<LoadedBlas, String> {
    let shown = path.display();
    // SAFETY: a library of cuBLASLt's name is taken to be cuBLASLt, and it stays loaded until the process ends.
    let functions = unsafe { Functions::bind(&library) }.map_err(|missing| {
        let rest = missing.len() - 1;
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more functions") };
        format!("{shown} is not a usable cuBLASLt (it lacks {}{more})", missing[0])
    })?;
    // SAFETY: the type is that of the library's header.
    let Ok(ask) = (unsafe { library.get::<GetVersion>("cublasLtGetVersion") }) else {
        return Err(format!("{shown} is not a usable cuBLASLt (it lacks cublasLtGetVersion)"));
    };
    // SAFETY: it takes no arguments and may be called first.
    let number = unsafe { ask() };
    let version = version_of(number);
    let Some(version) = version.filter(|version| BLAS.iter().any(|(major, _)| *major == version.major))
    else {
        return Err(format!("{shown} has an unsupported version ({number})"));
    };
    if let Some(newest) = newest.filter(|newest| version.major > newest.major) {
        return Err(too_new(&path, version.major, newest));
    }
    let text = |name: &str| {
        // SAFETY: the type is that of the library's header, with the status code as a number.
        unsafe { library.get::<StatusText>(name) }.ok().map(|text| *text)
    };
    let (status_name, status_string) = (text("cublasLtGetStatusName"), text("cublasLtGetStatusString"));
    keep(library);
    Ok(LoadedBlas { functions, path, version, status_name, status_string })
}

/// 131000 is 13.10.
fn version_of(number: usize) -> Option<Version> {
    let part = |number: usize| u32::try_from(number).ok();
    Some(Version { major: part(number / 10_000)?, minor: part(number / 100 % 100)? })
}

fn too_new(path: &Path, major: u32, newest: Version) -> String {
    format!("{} is for CUDA {major}, newer than the driver (CUDA {newest})", path.display())
}

/// How to install the library for a driver.
fn remedy(newest: Option<Version>) -> String {
    let package = match newest {
        Some(version) if version.major <= 12 => "`pip install nvidia-cublas-cu12`",
        Some(_) => "`pip install nvidia-cublas`",
        None => "`pip install nvidia-cublas` (`pip install nvidia-cublas-cu12` for a driver of CUDA 12)",
    };
    format!("{package}, or install the CUDA toolkit, or set {VARIABLE} to the directory of libcublasLt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_librarys_numbers() {
        assert_eq!(version_of(131_000), Some(Version { major: 13, minor: 10 }));
        assert_eq!(version_of(120_901), Some(Version { major: 12, minor: 9 }));
    }
}
