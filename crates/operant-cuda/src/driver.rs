//! The driver functions (libcuda) that this crate calls, and descriptions of its error codes.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::path::PathBuf;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUgraph,
    CUgraphExec, CUmodule, CUresult, CUstream, CUstreamCaptureMode, CUuuid,
};

use crate::error::Failure;
use crate::library::Version;
use crate::table::{Status, check, table};

// Entry points that drivers of both CUDA 12 and CUDA 13 export: nothing newer than CUDA 12.0.
table! {
    Functions, SYMBOLS, cudarc::driver::sys as CUresult;
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxSynchronize();
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(pointer: CUdeviceptr);
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(pointer: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemsetD8Async(to: CUdeviceptr, byte: c_uchar, bytes: usize, stream: CUstream);
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
    fn cuGraphExecDestroy(executable: CUgraphExec);
    fn cuGraphDestroy(graph: CUgraph);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventQuery(event: CUevent);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    fn cuModuleUnload(module: CUmodule);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize
    );
    fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    fn cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void
    );
    apart
    // CUDA 13's headers have only its second version, which drivers of CUDA 12 lack.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    // The code is declared as a number, so that unknown codes can be passed.
    fn cuGetErrorName(code: c_uint, text: *mut *const c_char);
    fn cuGetErrorString(code: c_uint, text: *mut *const c_char);
}

/// The size of a kernel's parameter; in drivers since CUDA 12.4.
type ParameterInfo = unsafe extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> u32;

/// Loads a kernel's code, which otherwise happens at its first launch; in drivers since CUDA 12.4.
type LoadFunction = unsafe extern "C" fn(CUfunction) -> u32;

const _: () = {
    use cudarc::driver::sys;
    let _: unsafe fn(CUfunction, usize, *mut usize, *mut usize) -> CUresult = sys::cuFuncGetParamInfo;
    let _: unsafe fn(CUfunction) -> CUresult = sys::cuFuncLoad;
};

/// The driver's functions: those of every supported driver, and two that only newer ones have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driver {
    functions: Functions,
    parameter_info: Option<ParameterInfo>,
    load_function: Option<LoadFunction>,
}

/// The driver's library, loaded until the process ends.
#[derive(Debug)]
pub(crate) struct LoadedDriver {
    pub functions: Driver,
    pub path: PathBuf,
    pub version: Version,
}

impl std::ops::Deref for Driver {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl Driver {
    /// Looks up every function; the error lists those that the library lacks.
    ///
    /// # Safety
    /// The library is an NVIDIA driver, or a compatible one, and is never unloaded.
    pub unsafe fn bind(library: &libloading::Library) -> Result<Self, Vec<&'static str>> {
        Ok(Driver {
            // SAFETY: the caller guarantees it.
            functions: unsafe { Functions::bind(library) }?,
            // SAFETY: the type is that of CUDA's headers, by the check above.
            parameter_info: unsafe { library.get::<ParameterInfo>("cuFuncGetParamInfo") }
                .ok()
                .map(|info| *info),
            // SAFETY: the same.
            load_function: unsafe { library.get::<LoadFunction>("cuFuncLoad") }.ok().map(|load| *load),
        })
    }

    /// Loads a kernel's code now, because its first launch may be in a capture, which does not allow loading.
    ///
    /// # Safety
    /// The function belongs to a module that is loaded.
    pub unsafe fn load_function(&self, function: CUfunction) -> Result<(), Status> {
        match self.load_function {
            // SAFETY: the caller guarantees it.
            Some(load) => check("cuFuncLoad", unsafe { load(function) }),
            // Older drivers load the code when its attributes are queried.
            None => {
                let (mut registers, asked) = (0, CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS);
                // SAFETY: the caller guarantees the function, and the result outlives the call.
                unsafe { self.cuFuncGetAttribute(&mut registers, asked, function) }
            }
        }
    }

    /// Bytes of each of a kernel's parameters; None if the driver cannot report them.
    ///
    /// # Safety
    /// The function belongs to a module that is loaded.
    pub unsafe fn parameter_sizes(&self, function: CUfunction) -> Option<Vec<usize>> {
        let info = self.parameter_info?;
        let mut sizes = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the caller guarantees the function, and both results outlive the call.
            match unsafe { info(function, sizes.len(), &mut offset, &mut size) } {
                0 => sizes.push(size),
                code if code == CUresult::CUDA_ERROR_INVALID_VALUE as u32 => return Some(sizes), // past the last
                _ => return None,
            }
            if sizes.len() > 4096 {
                return None; // more than any kernel may have
            }
        }
    }

    /// A failed call with the driver's description.
    pub fn explain(&self, status: Status) -> Failure {
        let text = |ask: &dyn Fn(*mut *const c_char) -> Result<(), Status>| {
            let mut text: *const c_char = std::ptr::null();
            (ask(&mut text).is_ok() && !text.is_null())
                // SAFETY: the driver's texts are static and end with a zero byte.
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        Failure {
            call: status.call,
            code: status.code,
            // SAFETY: any code may be passed, and the result outlives the call.
            name: text(&|to| unsafe { self.cuGetErrorName(status.code, to) })
                .unwrap_or_else(|| "an unknown code".to_owned()),
            // SAFETY: the same.
            text: text(&|to| unsafe { self.cuGetErrorString(status.code, to) })
                .unwrap_or_else(|| "the driver has no description of it".to_owned()),
        }
    }
}
