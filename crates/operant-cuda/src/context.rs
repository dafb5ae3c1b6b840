//! One device's context: makes it current, makes a driver call, and turns a failure into an error with the operation's name.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult};

use crate::driver::{Driver, LoadedDriver};
use crate::error::{CudaError, Failure, is_fatal};
use crate::properties::DeviceProperties;
use crate::table::Status;
use crate::transfers::Counters;

/// A driver handle: a pointer that only the driver dereferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle<T>(pub T);

// SAFETY: driver handles may be used from any thread: the driver locks internally, except when it launches an executable
// graph, which is behind a lock in this crate.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: the same.
unsafe impl<T> Sync for Handle<T> {}

/// A device's primary context, retained. Everything that is created on the device keeps it.
#[derive(Debug)]
pub(crate) struct Context {
    loaded: Arc<LoadedDriver>,
    pub properties: DeviceProperties,
    pub transfers: Counters,
    device: CUdevice,
    raw: Handle<CUcontext>,
    /// The failure that lost the device, and the operation during which it happened.
    lost: OnceLock<(Failure, String)>,
    next_id: AtomicU64,
    /// Number of memory allocations.
    pub allocations: AtomicU64,
    /// Number of graphs that were captured.
    pub captures: AtomicU64,
}

impl Context {
    pub fn retain(loaded: &Arc<LoadedDriver>, ordinal: usize) -> Result<Context, CudaError> {
        let driver = &loaded.functions;
        let open = || {
            let properties = DeviceProperties::read(driver, ordinal)?;
            let mut device = 0;
            let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
            // SAFETY: the result outlives the call.
            unsafe { driver.cuDeviceGet(&mut device, number) }?;
            let mut raw = std::ptr::null_mut();
            // SAFETY: the device is the driver's own, and the result outlives the call.
            unsafe { driver.cuDevicePrimaryCtxRetain(&mut raw, device) }?;
            Ok((properties, device, raw))
        };
        let (properties, device, raw) = open().map_err(|status| CudaError::Call {
            failure: Box::new(driver.explain(status)),
            device: format!("device {ordinal}"),
            doing: "opening it".to_owned(),
        })?;
        Ok(Context {
            loaded: loaded.clone(),
            properties,
            transfers: Counters::default(),
            device,
            raw: Handle(raw),
            lost: OnceLock::new(),
            next_id: AtomicU64::new(1),
            allocations: AtomicU64::new(0),
            captures: AtomicU64::new(0),
        })
    }

    /// A number that is unique in this context.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// `device 0 (NVIDIA H200)`.
    pub fn name(&self) -> String {
        format!("device {} ({})", self.properties.ordinal, self.properties.name)
    }

    /// Makes the context current on this thread and makes a call. `doing` names the operation: `filling a buffer`.
    ///
    /// # Errors
    /// The call's error, or that the device was lost earlier.
    pub fn call<R>(
        &self,
        doing: fmt::Arguments<'_>,
        make: impl FnOnce(&Driver) -> Result<R, Status>,
    ) -> Result<R, CudaError> {
        self.usable(doing)?;
        self.attempt(make).map_err(|status| self.failed(doing, status))
    }

    /// [`Context::call`] for a query that may answer "not ready".
    pub fn poll(
        &self,
        doing: fmt::Arguments<'_>,
        make: impl FnOnce(&Driver) -> Result<(), Status>,
    ) -> Result<bool, CudaError> {
        self.usable(doing)?;
        match self.attempt(make) {
            Ok(()) => Ok(true),
            Err(status) if status.code == CUresult::CUDA_ERROR_NOT_READY as u32 => Ok(false),
            Err(status) => Err(self.failed(doing, status)),
        }
    }

    /// [`Context::call`] for allocations: an out-of-memory error reports the free and total memory.
    pub fn call_for_memory<R>(
        &self,
        kind: &'static str,
        requested: usize,
        make: impl FnOnce(&Driver) -> Result<R, Status>,
    ) -> Result<R, CudaError> {
        let doing = format_args!("allocating {requested} bytes of {kind} memory");
        self.usable(doing)?;
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.attempt(make).map_err(|status| {
            if status.code != CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32 {
                return self.failed(doing, status);
            }
            let (mut free, mut total) = (0, 0);
            // SAFETY: both results outlive the call.
            match self.attempt(|driver| unsafe { driver.cuMemGetInfo_v2(&mut free, &mut total) }) {
                Ok(()) => CudaError::OutOfMemory {
                    device: self.name(),
                    kind,
                    requested: requested as u64,
                    free: free as u64,
                    total: total as u64,
                },
                Err(status) => self.failed(doing, status),
            }
        })
    }

    /// For releasing resources when a value is dropped: failures cannot be reported, and a lost device is skipped.
    pub fn release(&self, make: impl FnOnce(&Driver) -> Result<(), Status>) {
        if self.lost.get().is_none() {
            let _ = self.attempt(make);
        }
    }

    /// Whether the device is lost: no call on it succeeds any more.
    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    fn usable(&self, doing: fmt::Arguments<'_>) -> Result<(), CudaError> {
        match self.lost.get() {
            None => Ok(()),
            Some((failure, earlier)) => Err(CudaError::Lost {
                failure: Box::new(failure.clone()),
                device: self.name(),
                earlier: earlier.clone(),
                doing: doing.to_string(),
            }),
        }
    }

    fn attempt<R>(&self, make: impl FnOnce(&Driver) -> Result<R, Status>) -> Result<R, Status> {
        let driver = &self.loaded.functions;
        // SAFETY: the context is retained as long as this value lives.
        unsafe { driver.cuCtxSetCurrent(self.raw.0) }?;
        make(driver)
    }

    fn failed(&self, doing: fmt::Arguments<'_>, status: Status) -> CudaError {
        let failure = self.loaded.functions.explain(status);
        if is_fatal(status.code) {
            let _ = self.lost.set((failure.clone(), doing.to_string())); // the first one is kept
        }
        CudaError::Call { failure: Box::new(failure), device: self.name(), doing: doing.to_string() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let device = self.device;
        // SAFETY: retained once in `retain`, and all users held this value.
        self.release(|driver| unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) });
    }
}
