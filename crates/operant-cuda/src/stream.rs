//! Streams, which order work, and events, which mark a point in it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream, CUstream_flags};

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::transfers::{Counters, Transfers};

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue of asynchronous work on a device.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    raw: Handle<CUstream>,
    id: u64,
    capture: Mutex<Option<Arc<Capture>>>,
}

/// A resource that a graph keeps alive: memory, a module or a library.
pub(crate) type GraphResource = Arc<dyn Any + Send + Sync>;

/// A capture in progress.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    over: AtomicBool,
    pub kept: Mutex<Vec<GraphResource>>,
    pub counters: Counters,
}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Stream, CudaError> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = std::ptr::null_mut();
        context.call(format_args!("making a stream"), |driver| {
            // SAFETY: the result outlives the call.
            unsafe { driver.cuStreamCreate(&mut raw, flags) }
        })?;
        let id = context.next_id();
        Ok(Stream { context: context.clone(), raw: Handle(raw), id, capture: Mutex::new(None) })
    }

    /// Waits until all of its work is done.
    ///
    /// # Errors
    /// A driver error, including those of the work.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.must_not_capture("waiting for the stream")?;
        // SAFETY: the stream is the driver's own.
        self.context.call(format_args!("waiting for a stream"), |driver| unsafe {
            driver.cuStreamSynchronize(self.raw.0)
        })
    }

    /// Records the event at this point of the stream.
    ///
    /// # Errors
    /// An event of another device, and driver errors.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        self.must_be_on(&event.context)?;
        self.context.call(format_args!("recording an event"), |driver| {
            // SAFETY: both are the driver's own.
            unsafe { driver.cuEventRecord(event.raw.0, self.raw.0) }
        })?;
        *locked(&event.capture) = self.capturing();
        Ok(())
    }

    /// Makes later work of the stream wait for the event. The host does not wait.
    ///
    /// If the event was recorded in a capture, this stream joins the capture until its end.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        self.context.call(format_args!("waiting for an event"), |driver| {
            // SAFETY: both are the driver's own.
            unsafe { driver.cuStreamWaitEvent(self.raw.0, event.raw.0, 0) }
        })?;
        let joined = locked(&event.capture).clone().filter(|capture| !capture.is_over());
        if joined.is_some() {
            *locked(&self.capture) = joined;
        }
        Ok(())
    }

    /// Whether its work is being captured into a graph.
    pub fn is_capturing(&self) -> bool {
        self.capturing().is_some()
    }

    /// Its handle (a `CUstream`), for other programs of this process that order their work before or after this stream's. It is
    /// valid as long as this lives.
    pub fn handle(&self) -> u64 {
        self.raw.0 as u64
    }

    fn capturing(&self) -> Option<Arc<Capture>> {
        locked(&self.capture).clone().filter(|capture| !capture.is_over())
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw.0
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Makes its work part of this capture.
    pub(crate) fn begin(&self, capture: &Arc<Capture>) {
        *locked(&self.capture) = Some(capture.clone());
    }

    /// Makes a capture keep a resource alive.
    pub(crate) fn keep(&self, kept: GraphResource) {
        if let Some(capture) = self.capturing() {
            locked(&capture.kept).push(kept);
        }
    }

    /// Counts work in the graph's counters during a capture, else in the device's.
    pub(crate) fn count(&self, work: &Transfers) {
        match self.capturing() {
            Some(capture) => capture.counters.add(work),
            None => self.context.transfers.add(work),
        }
    }

    pub(crate) fn must_not_capture(&self, what: &str) -> Result<(), CudaError> {
        if !self.is_capturing() {
            return Ok(());
        }
        Err(CudaError::refused(
            format!("{what} is not possible while a stream of {} is being captured", self.context.name()),
            "do it before or after, and copy to and from pinned memory in a graph",
        ))
    }

    pub(crate) fn must_be_on(&self, context: &Arc<Context>) -> Result<(), CudaError> {
        // Two devices that were opened separately share the driver's context.
        if self.context.properties.ordinal == context.properties.ordinal {
            return Ok(());
        }
        Err(CudaError::refused(
            format!("a resource of {} was passed to a stream of {}", context.name(), self.context.name()),
            "use a stream of the same device",
        ))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by cuStreamCreate and destroyed once; its remaining work continues.
        self.context.release(|driver| unsafe { driver.cuStreamDestroy_v2(self.raw.0) });
    }
}

impl Capture {
    /// Ends the capture: no more work joins it.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    raw: Handle<CUevent>,
    /// The capture in which it was last recorded.
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Event {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Event, CudaError> {
        let flags = CUevent_flags::CU_EVENT_DEFAULT as u32;
        let mut raw = std::ptr::null_mut();
        context.call(format_args!("making an event"), |driver| {
            // SAFETY: the result outlives the call.
            unsafe { driver.cuEventCreate(&mut raw, flags) }
        })?;
        Ok(Event { context: context.clone(), raw: Handle(raw), capture: Mutex::new(None) })
    }

    /// Milliseconds from an earlier event to this one, both recorded and completed.
    ///
    /// # Errors
    /// An event that is not recorded, not completed, or of another device, and driver errors.
    pub fn elapsed_ms(&self, since: &Event) -> Result<f32, CudaError> {
        let mut milliseconds = 0.0;
        self.context.call(format_args!("measuring the time between two events"), |driver| {
            // SAFETY: both are the driver's own, and the result outlives the call.
            unsafe { driver.cuEventElapsedTime(&mut milliseconds, since.raw.0, self.raw.0) }
        })?;
        Ok(milliseconds)
    }

    /// Whether the work before it is done. An event that was never recorded counts as done.
    ///
    /// # Errors
    /// A driver error, including those of the work before it.
    pub fn query(&self) -> Result<bool, CudaError> {
        // SAFETY: the event is the driver's own.
        self.context
            .poll(format_args!("asking an event"), |driver| unsafe { driver.cuEventQuery(self.raw.0) })
    }

    /// Makes later work of another program's stream wait for this event. The host does not wait.
    ///
    /// # Errors
    /// A driver error.
    ///
    /// # Safety
    /// `stream` is the handle of a stream of this device that exists, 1 for the legacy default stream, or 2 for this thread's
    /// default stream.
    pub unsafe fn block(&self, stream: u64) -> Result<(), CudaError> {
        self.context.call(format_args!("making another program's stream wait"), |driver| {
            // SAFETY: the event is the driver's own, and the caller guarantees the stream.
            unsafe { driver.cuStreamWaitEvent(stream as usize as CUstream, self.raw.0, 0) }
        })
    }

    /// Waits until the work before it is done.
    ///
    /// # Errors
    /// A driver error, including those of the work before it.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the event is the driver's own.
        self.context.call(format_args!("waiting for an event"), |driver| unsafe {
            driver.cuEventSynchronize(self.raw.0)
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by cuEventCreate and destroyed once.
        self.context.release(|driver| unsafe { driver.cuEventDestroy_v2(self.raw.0) });
    }
}
