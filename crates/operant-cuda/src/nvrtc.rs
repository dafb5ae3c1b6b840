//! The functions of the compiler (NVRTC) that this crate calls.
//!
//! They are looked up by this crate, because cudarc looks the library up by name only and panics if it is missing.

use std::ffi::{CStr, c_char, c_int};

use cudarc::nvrtc::sys::nvrtcProgram;

use crate::table::table;

table! {
    Functions, SYMBOLS, cudarc::nvrtc::sys as nvrtcResult;
    fn nvrtcVersion(major: *mut c_int, minor: *mut c_int);
    fn nvrtcGetNumSupportedArchs(count: *mut c_int);
    fn nvrtcGetSupportedArchs(architectures: *mut c_int);
    fn nvrtcCreateProgram(
        program: *mut nvrtcProgram, source: *const c_char, name: *const c_char, headers: c_int,
        texts: *const *const c_char, names: *const *const c_char
    );
    fn nvrtcDestroyProgram(program: *mut nvrtcProgram);
    fn nvrtcCompileProgram(program: nvrtcProgram, count: c_int, options: *const *const c_char);
    fn nvrtcGetProgramLogSize(program: nvrtcProgram, bytes: *mut usize);
    fn nvrtcGetProgramLog(program: nvrtcProgram, log: *mut c_char);
    fn nvrtcGetCUBINSize(program: nvrtcProgram, bytes: *mut usize);
    fn nvrtcGetCUBIN(program: nvrtcProgram, code: *mut c_char);
    apart
}

/// The text for an error code.
type ErrorString = unsafe extern "C" fn(u32) -> *const c_char;

/// NVRTC's functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nvrtc {
    functions: Functions,
    error_string: Option<ErrorString>,
}

impl std::ops::Deref for Nvrtc {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl Nvrtc {
    /// Looks up every function; the error lists those that the library lacks.
    ///
    /// # Safety
    /// The library is NVRTC, or a compatible one, and is never unloaded.
    pub unsafe fn bind(library: &libloading::Library) -> Result<Self, Vec<&'static str>> {
        Ok(Nvrtc {
            // SAFETY: the caller guarantees it.
            functions: unsafe { Functions::bind(library) }?,
            // SAFETY: the type is that of NVRTC's header, with the code as a number.
            error_string: unsafe { library.get::<ErrorString>("nvrtcGetErrorString") }.ok().map(|text| *text),
        })
    }

    /// NVRTC's description of an error code.
    pub fn explain(&self, code: u32) -> String {
        let text = self.error_string.map_or(std::ptr::null(), |text| {
            // SAFETY: the function accepts any code; unknown ones have their own text.
            unsafe { text(code) }
        });
        if text.is_null() {
            return format!("code {code}");
        }
        // SAFETY: NVRTC's texts are static and end with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
