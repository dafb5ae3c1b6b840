//! The library, opened on a device.

use std::fmt;
use std::sync::Arc;

use cudarc::cublaslt::sys::cublasLtHandle_t;

use super::library::{Functions, LoadedBlas};
use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::memory::Buffer;
use crate::table::Status;

/// The library, opened on a device, and its workspace.
#[derive(Debug)]
pub(super) struct BlasHandle {
    pub context: Arc<Context>,
    pub library: Arc<LoadedBlas>,
    pub raw: Handle<cublasLtHandle_t>,
    pub workspace: Buffer<u8>,
}

impl BlasHandle {
    pub fn raw(&self) -> cublasLtHandle_t {
        self.raw.0
    }

    /// Makes a call of the library, with the device's context current on this thread.
    pub fn call<R>(
        &self,
        doing: fmt::Arguments<'_>,
        make: impl FnOnce(&Functions) -> Result<R, Status>,
    ) -> Result<R, CudaError> {
        call(&self.context, &self.library, doing, make)
    }
}

pub(super) fn call<R>(
    context: &Context,
    library: &LoadedBlas,
    doing: fmt::Arguments<'_>,
    make: impl FnOnce(&Functions) -> Result<R, Status>,
) -> Result<R, CudaError> {
    let made = context.call(doing, |_| Ok(make(&library.functions)))?;
    made.or_else(|status| {
        // If the device is lost, the driver's error says more than the library's.
        let (mut free, mut total) = (0, 0);
        context.call(doing, |driver| {
            // SAFETY: both results outlive the call.
            unsafe { driver.cuMemGetInfo_v2(&mut free, &mut total) }
        })?;
        Err(library.failure(status, &context.name(), &doing.to_string()))
    })
}

impl Drop for BlasHandle {
    fn drop(&mut self) {
        // SAFETY: made by cublasLtCreate and destroyed once; plans and graphs that use it hold this value.
        self.context.release(|_| unsafe { self.library.functions.cublasLtDestroy(self.raw.0) });
    }
}
