//! Page-locked host memory for asynchronous copies to and from a device.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUevent, CUevent_flags};

use crate::context::{Context, Handle};
use crate::driver::Driver;
use crate::error::CudaError;
use crate::plain::{Plain, bytes_of};
use crate::stream::Stream;
use crate::table::Status;

/// `len` elements of page-locked host memory.
///
/// Copies between it and the device run in streams. It records the last one: host access waits for that copy, and so does a
/// copy in another stream. The host reads and writes it by copying, since a graph may write to it at any time.
#[derive(Debug)]
pub struct Pinned<T> {
    block: Option<Arc<PinnedBlock>>,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Plain> Pinned<T> {
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Self, CudaError> {
        Ok(Pinned { block: PinnedBlock::new(context, bytes_of::<T>(len)?)?, len, of: PhantomData })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the last copy is done, so that an access would not wait.
    ///
    /// # Errors
    /// A driver error, including those of earlier work in the stream.
    pub fn ready(&self) -> Result<bool, CudaError> {
        self.block.as_ref().map_or(Ok(true), |block| block.ready())
    }

    /// Waits for the last copy and returns the elements.
    ///
    /// # Errors
    /// A driver error, including those of earlier work in the stream.
    pub fn to_vec(&self) -> Result<Vec<T>, CudaError> {
        let mut values = Vec::with_capacity(self.len);
        let Some(block) = &self.block else { return Ok(values) };
        block.access(|host| {
            // SAFETY: both sides hold that many elements, and no copy is in flight while this one runs.
            unsafe { std::ptr::copy_nonoverlapping(host.cast::<T>(), values.as_mut_ptr(), self.len) }
        })?;
        // SAFETY: all were written above, and any bits are a value of T.
        unsafe { values.set_len(self.len) };
        Ok(values)
    }

    /// Waits for the last copy and copies the elements to a slice of the same length.
    ///
    /// # Errors
    /// Another length, and driver errors, including those of earlier work in the stream.
    pub fn copy_to(&self, to: &mut [T]) -> Result<(), CudaError> {
        self.expect(to.len())?;
        let Some(block) = &self.block else { return Ok(()) };
        block.access(|host| {
            // SAFETY: both sides have that many elements, and no copy is in flight while this one runs.
            unsafe { std::ptr::copy_nonoverlapping(host.cast::<T>(), to.as_mut_ptr(), self.len) }
        })
    }

    /// Waits for the last copy and sets all elements.
    ///
    /// # Errors
    /// Another length, and driver errors, including those of earlier work in the stream.
    pub fn set(&mut self, from: &[T]) -> Result<(), CudaError> {
        self.expect(from.len())?;
        let Some(block) = &self.block else { return Ok(()) };
        block.access(|host| {
            // SAFETY: both sides have that many elements, and no copy is in flight while this one runs.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), host.cast::<T>(), self.len) }
        })
    }

    pub(crate) fn block(&self) -> Option<&Arc<PinnedBlock>> {
        self.block.as_ref()
    }

    fn expect(&self, given: usize) -> Result<(), CudaError> {
        if given == self.len {
            return Ok(());
        }
        Err(CudaError::Length { what: "the host's slice", given, expected: self.len })
    }
}

/// One allocation of pinned memory.
#[derive(Debug)]
pub(crate) struct PinnedBlock {
    context: Arc<Context>,
    pointer: Handle<*mut c_void>,
    /// Recorded after the last copy.
    event: Handle<CUevent>,
    last: Mutex<LastCopy>,
}

#[derive(Debug, Default)]
pub(crate) struct LastCopy {
    /// The number of its stream, while it may still run.
    stream: Option<u64>,
    /// Whether recording its event failed, so that only a device synchronisation shows its end.
    unmarked: bool,
}

impl PinnedBlock {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Option<Arc<PinnedBlock>>, CudaError> {
        if bytes == 0 {
            return Ok(None);
        }
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let mut event = std::ptr::null_mut();
        context.call(format_args!("making an event"), |driver| {
            // SAFETY: the result outlives the call.
            unsafe { driver.cuEventCreate(&mut event, flags) }
        })?;
        let mut pointer = std::ptr::null_mut();
        let allocated = context.call_for_memory("pinned host", bytes, |driver| {
            // SAFETY: the result outlives the call.
            unsafe { driver.cuMemHostAlloc(&mut pointer, bytes, 0) }
        });
        if let Err(error) = allocated {
            // SAFETY: made above and destroyed once.
            context.release(|driver| unsafe { driver.cuEventDestroy_v2(event) });
            return Err(error);
        }
        // SAFETY: the memory has that many bytes, and nothing else refers to it yet.
        unsafe { std::ptr::write_bytes(pointer.cast::<u8>(), 0, bytes) };
        Ok(Some(Arc::new(PinnedBlock {
            context: context.clone(),
            pointer: Handle(pointer),
            event: Handle(event),
            last: Mutex::new(LastCopy::default()),
        })))
    }

    /// Makes a call that copies in a stream, after the last copy, and records it as the last.
    pub fn use_in(
        self: &Arc<Self>,
        stream: &Stream,
        doing: fmt::Arguments<'_>,
        make: impl FnOnce(&Driver, *mut c_void) -> Result<(), Status>,
    ) -> Result<(), CudaError> {
        stream.must_be_on(&self.context)?;
        if stream.is_capturing() {
            self.context.call(doing, |driver| make(driver, self.pointer.0))?;
            stream.keep(self.clone());
            return Ok(());
        }
        let mut last = self.lock();
        self.follow(&last, stream)?;
        self.context.call(doing, |driver| make(driver, self.pointer.0))?;
        self.mark(&mut last, stream)
    }

    /// Makes the stream wait for the last copy if that runs in another stream.
    pub fn follow(&self, last: &LastCopy, stream: &Stream) -> Result<(), CudaError> {
        if last.stream.is_none_or(|other| other == stream.id()) {
            return Ok(());
        }
        self.context.call(format_args!("ordering two copies"), |driver| {
            if last.unmarked {
                return self.wait(driver, last);
            }
            // SAFETY: the event lives as long as this, and the stream is the driver's own.
            unsafe { driver.cuStreamWaitEvent(stream.raw(), self.event.0, 0) }
        })
    }

    /// Records the stream's latest work as the last copy.
    pub fn mark(&self, last: &mut LastCopy, stream: &Stream) -> Result<(), CudaError> {
        last.stream = Some(stream.id());
        last.unmarked = true;
        self.context.call(format_args!("marking a copy's end"), |driver| {
            // SAFETY: the event lives as long as this, and the stream is the driver's own.
            unsafe { driver.cuEventRecord(self.event.0, stream.raw()) }
        })?;
        last.unmarked = false;
        Ok(())
    }

    pub fn lock(&self) -> MutexGuard<'_, LastCopy> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the last copy.
    fn wait(&self, driver: &Driver, last: &LastCopy) -> Result<(), Status> {
        match last {
            LastCopy { stream: None, .. } => Ok(()),
            // SAFETY: the context is current.
            LastCopy { unmarked: true, .. } => unsafe { driver.cuCtxSynchronize() },
            // SAFETY: the event lives as long as this.
            _ => unsafe { driver.cuEventSynchronize(self.event.0) },
        }
    }

    fn ready(&self) -> Result<bool, CudaError> {
        let mut last = self.lock();
        if last.stream.is_none() {
            return Ok(true);
        }
        if last.unmarked {
            self.context.call(format_args!("waiting for a copy"), |driver| self.wait(driver, &last))?;
            *last = LastCopy::default();
            return Ok(true);
        }
        // SAFETY: the event lives as long as this.
        let over = self.context.poll(format_args!("asking for a copy's end"), |driver| unsafe {
            driver.cuEventQuery(self.event.0)
        })?;
        if over {
            *last = LastCopy::default();
        }
        Ok(over)
    }

    /// Gives the host access to the memory while no copy is in flight and none can begin.
    fn access(&self, touch: impl FnOnce(*mut c_void)) -> Result<(), CudaError> {
        let mut last = self.lock();
        if last.stream.is_some() {
            self.context.call(format_args!("waiting for a copy"), |driver| self.wait(driver, &last))?;
            *last = LastCopy::default();
        }
        touch(self.pointer.0);
        Ok(())
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        let last = self.lock();
        self.context.release(|driver| {
            self.wait(driver, &last)?; // if this fails the memory is leaked, because a copy may still write to it
            // SAFETY: allocated by cuMemHostAlloc, freed once, and no copy uses it.
            unsafe { driver.cuMemFreeHost(self.pointer.0) }?;
            // SAFETY: made by cuEventCreate and destroyed once.
            unsafe { driver.cuEventDestroy_v2(self.event.0) }
        });
    }
}
