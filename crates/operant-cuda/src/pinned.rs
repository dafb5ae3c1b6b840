//! Page-locked host memory, which copies to and from a device run into by themselves.

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
/// Copies between it and the device run in streams. It remembers the last one: the host's access waits for it, and
/// so does a copy in another stream. It is read and written by copying, since a graph may write into it at any time.
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

    /// How many elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the last copy is over, so that an access would not wait.
    ///
    /// # Errors
    /// The driver's, those of earlier work in the stream included.
    pub fn ready(&self) -> Result<bool, CudaError> {
        self.block.as_ref().map_or(Ok(true), |block| block.ready())
    }

    /// The elements, once the last copy is over.
    ///
    /// # Errors
    /// The driver's, those of earlier work in the stream included.
    pub fn to_vec(&self) -> Result<Vec<T>, CudaError> {
        let mut values = Vec::with_capacity(self.len);
        let Some(block) = &self.block else { return Ok(values) };
        block.access(|host| {
            // SAFETY: both sides have room for that many elements, and no copy is under way while this one runs.
            unsafe { std::ptr::copy_nonoverlapping(host.cast::<T>(), values.as_mut_ptr(), self.len) }
        })?;
        // SAFETY: all were written above, and any bits are a value of T.
        unsafe { values.set_len(self.len) };
        Ok(values)
    }

    /// Copies the elements, once the last copy is over, to a slice of the same length.
    ///
    /// # Errors
    /// Another length, and the driver's, those of earlier work in the stream included.
    pub fn copy_to(&self, to: &mut [T]) -> Result<(), CudaError> {
        self.expect(to.len())?;
        let Some(block) = &self.block else { return Ok(()) };
        block.access(|host| {
            // SAFETY: both sides have that many elements, and no copy is under way while this one runs.
            unsafe { std::ptr::copy_nonoverlapping(host.cast::<T>(), to.as_mut_ptr(), self.len) }
        })
    }

    /// Sets all elements, once the last copy is over.
    ///
    /// # Errors
    /// Another length, and the driver's, those of earlier work in the stream included.
    pub fn set(&mut self, from: &[T]) -> Result<(), CudaError> {
        self.expect(from.len())?;
        let Some(block) = &self.block else { return Ok(()) };
        block.access(|host| {
            // SAFETY: both sides have that many elements, and no copy is under way while this one runs.
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
    /// Recorded behind the last copy.
    event: Handle<CUevent>,
    last: Mutex<Last>,
}

/// The last copy.
#[derive(Debug, Default)]
pub(crate) struct Last {
    /// The number of the stream that it runs in, while it may still run.
    stream: Option<u64>,
    /// Whether its end could not be marked, so that only all of the device's work tells.
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
            // SAFETY: the result lives through the call.
            unsafe { driver.cuEventCreate(&mut event, flags) }
        })?;
        let mut pointer = std::ptr::null_mut();
        let allocated = context.call_for_memory("pinned host", bytes, |driver| {
            // SAFETY: the result lives through the call.
            unsafe { driver.cuMemHostAlloc(&mut pointer, bytes, 0) }
        });
        if let Err(error) = allocated {
            // SAFETY: made above and destroyed once.
            context.release(|driver| unsafe { driver.cuEventDestroy_v2(event) });
            return Err(error);
        }
        // SAFETY: the memory has that many bytes, and nobody else has it.
        unsafe { std::ptr::write_bytes(pointer.cast::<u8>(), 0, bytes) };
        Ok(Some(Arc::new(PinnedBlock {
            context: context.clone(),
            pointer: Handle(pointer),
            event: Handle(event),
            last: Mutex::new(Last::default()),
        })))
    }

    /// Makes a call that copies in a stream, behind the last copy, and remembers it.
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

    /// Lets the stream wait for the last copy where that runs in another stream.
    pub fn follow(&self, last: &Last, stream: &Stream) -> Result<(), CudaError> {
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

    /// Remembers that the last copy is what the stream was given last.
    pub fn mark(&self, last: &mut Last, stream: &Stream) -> Result<(), CudaError> {
        last.stream = Some(stream.id());
        last.unmarked = true;
        self.context.call(format_args!("marking a copy's end"), |driver| {
            // SAFETY: the event lives as long as this, and the stream is the driver's own.
            unsafe { driver.cuEventRecord(self.event.0, stream.raw()) }
        })?;
        last.unmarked = false;
        Ok(())
    }

    pub fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the last copy.
    fn wait(&self, driver: &Driver, last: &Last) -> Result<(), Status> {
        match last {
            Last { stream: None, .. } => Ok(()),
            // SAFETY: the context is current.
            Last { unmarked: true, .. } => unsafe { driver.cuCtxSynchronize() },
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
            *last = Last::default();
            return Ok(true);
        }
        // SAFETY: the event lives as long as this.
        let over = self.context.poll(format_args!("asking for a copy's end"), |driver| unsafe {
            driver.cuEventQuery(self.event.0)
        })?;
        if over {
            *last = Last::default();
        }
        Ok(over)
    }

    /// Lets the host at the memory while no copy is under way and none can begin.
    fn access(&self, touch: impl FnOnce(*mut c_void)) -> Result<(), CudaError> {
        let mut last = self.lock();
        if last.stream.is_some() {
            self.context.call(format_args!("waiting for a copy"), |driver| self.wait(driver, &last))?;
            *last = Last::default();
        }
        touch(self.pointer.0);
        Ok(())
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        let last = self.lock();
        self.context.release(|driver| {
            self.wait(driver, &last)?; // where this fails nothing is freed, rather than being written to afterwards
            // SAFETY: allocated by cuMemHostAlloc, freed once, and no copy uses it any more.
            unsafe { driver.cuMemFreeHost(self.pointer.0) }?;
            // SAFETY: made by cuEventCreate and destroyed once.
            unsafe { driver.cuEventDestroy_v2(self.event.0) }
        });
    }
}
