//! Streams, which order work; events, which mark a place in it; graphs, which repeat it with one launch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{
    CUevent, CUevent_flags, CUgraph, CUgraphExec, CUstream, CUstream_flags, CUstreamCaptureMode,
};

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::memory::Block;
use crate::pinned::PinnedBlock;
use crate::transfers::{Counters, Transfers};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue of work on a device.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    raw: Handle<CUstream>,
    id: u64,
    capture: Mutex<Option<Arc<Capture>>>,
}

/// What a graph holds so that it lives as long as the graph.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    Device(#[allow(dead_code, reason = "held for its life alone")] Arc<Block>),
    Pinned(Arc<PinnedBlock>),
    Module(#[allow(dead_code, reason = "held for its life alone")] Arc<dyn Send + Sync + std::fmt::Debug>),
}

/// A capture under way.
#[derive(Debug, Default)]
struct Capture {
    over: AtomicBool,
    kept: Mutex<Vec<Kept>>,
    counters: Counters,
}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Stream, CudaError> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = std::ptr::null_mut();
        context.call(format_args!("making a stream"), |driver| {
            // SAFETY: the result lives through the call.
            unsafe { driver.cuStreamCreate(&mut raw, flags) }
        })?;
        let id = context.next_id();
        Ok(Stream { context: context.clone(), raw: Handle(raw), id, capture: Mutex::new(None) })
    }

    /// Waits until all that it was given is done.
    ///
    /// # Errors
    /// The driver's, those of the work included.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.must_not_capture("waiting for the stream")?;
        // SAFETY: the stream is the driver's own.
        self.context.call(format_args!("waiting for a stream"), |driver| unsafe {
            driver.cuStreamSynchronize(self.raw.0)
        })
    }

    /// Marks this place in the stream.
    ///
    /// # Errors
    /// An event of another device, and the driver's.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        self.must_be_on(&event.context)?;
        self.context.call(format_args!("recording an event"), |driver| {
            // SAFETY: both are the driver's own.
            unsafe { driver.cuEventRecord(event.raw.0, self.raw.0) }
        })?;
        *locked(&event.capture) = self.capturing();
        Ok(())
    }

    /// Lets what comes next wait for what the event marks. The host does not wait.
    ///
    /// While the other stream is being captured this one joins the capture, until that is over.
    ///
    /// # Errors
    /// The driver's.
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

    /// What `work` gives to the stream becomes a graph instead of being done.
    ///
    /// In it only work without waiting is possible: launches, fills, copies to and from pinned memory, events between
    /// streams of this device. Nothing may be allocated or freed in it. The graph keeps the memory of those copies and
    /// fills, and that of [`crate::Buffer::keep_in`].
    ///
    /// # Errors
    /// That of `work`, and the driver's.
    pub fn capture<E: From<CudaError>>(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Graph, E> {
        self.must_not_capture("a capture within a capture")?;
        // Other threads may go on as they like; this one is refused what a capture does not allow.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.context.call(format_args!("beginning a capture"), |driver| {
            // SAFETY: the stream is the driver's own.
            unsafe { driver.cuStreamBeginCapture_v2(self.raw.0, mode) }
        })?;
        let capture = Arc::new(Capture::default());
        *locked(&self.capture) = Some(capture.clone());
        let mut ending = Ending { stream: self, capture: &capture, ended: false };
        let worked = work(self);
        let template = ending.end().map(|raw| Template { context: &self.context, raw });
        drop(ending);
        worked?;
        let template = template?;

        let mut raw = std::ptr::null_mut();
        self.context.call(format_args!("making a graph of a capture"), |driver| {
            // SAFETY: the template lives until the end of this function, and so does the result.
            unsafe { driver.cuGraphInstantiateWithFlags(&mut raw, template.raw, 0) }
        })?;
        let kept = std::mem::take(&mut *locked(&capture.kept));
        let mut pinned: Vec<Arc<PinnedBlock>> = kept
            .iter()
            .filter_map(|kept| if let Kept::Pinned(block) = kept { Some(block.clone()) } else { None })
            .collect();
        // All graphs lock in this order.
        pinned.sort_by_key(|block| Arc::as_ptr(block) as usize);
        pinned.dedup_by_key(|block| Arc::as_ptr(block) as usize);
        Ok(Graph {
            context: self.context.clone(),
            raw: Mutex::new(Handle(raw)),
            pinned,
            _kept: kept,
            work: capture.counters.read(),
        })
    }

    /// Whether work that it is given becomes part of a graph.
    pub fn is_capturing(&self) -> bool {
        self.capturing().is_some()
    }

    fn capturing(&self) -> Option<Arc<Capture>> {
        locked(&self.capture).clone().filter(|capture| !capture.is_over())
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw.0
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Lets a capture keep something.
    pub(crate) fn keep(&self, kept: Kept) {
        if let Some(capture) = self.capturing() {
            locked(&capture.kept).push(kept);
        }
    }

    /// Counts work: the graph's, where it becomes one, else the device's.
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
        // Two that were opened apart share the driver's context.
        if self.context.properties.ordinal == context.properties.ordinal {
            return Ok(());
        }
        Err(CudaError::refused(
            format!("something of {} was given to a stream of {}", context.name(), self.context.name()),
            "use a stream of the same device",
        ))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by cuStreamCreate and destroyed once; what it was given goes on.
        self.context.release(|driver| unsafe { driver.cuStreamDestroy_v2(self.raw.0) });
    }
}

impl Capture {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Ends a capture, also when what was captured panics.
struct Ending<'a> {
    stream: &'a Stream,
    capture: &'a Capture,
    ended: bool,
}

impl Ending<'_> {
    fn end(&mut self) -> Result<CUgraph, CudaError> {
        self.ended = true;
        self.capture.over.store(true, Ordering::Release);
        let mut graph = std::ptr::null_mut();
        self.stream.context.call(format_args!("ending a capture"), |driver| {
            // SAFETY: the stream is the driver's own, and the result lives through the call.
            unsafe { driver.cuStreamEndCapture(self.stream.raw.0, &mut graph) }
        })?;
        if graph.is_null() {
            return Err(CudaError::refused(
                "a capture has become no graph",
                "capture only work that does not wait for the device",
            ));
        }
        Ok(graph)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.ended
            && let Ok(raw) = self.end()
        {
            drop(Template { context: &self.stream.context, raw });
        }
    }
}

/// A captured graph, from which one that can be launched is made.
struct Template<'a> {
    context: &'a Context,
    raw: CUgraph,
}

impl Drop for Template<'_> {
    fn drop(&mut self) {
        // SAFETY: made by cuStreamEndCapture and destroyed once.
        self.context.release(|driver| unsafe { driver.cuGraphDestroy(self.raw) });
    }
}

/// Captured work, which one launch repeats.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    /// Behind a lock: the driver lets one thread at a time use it.
    raw: Mutex<Handle<CUgraphExec>>,
    /// The pinned memory that it copies to or from, each once.
    pinned: Vec<Arc<PinnedBlock>>,
    _kept: Vec<Kept>,
    work: Transfers,
}

impl Graph {
    /// Gives all of its work to the stream.
    ///
    /// # Errors
    /// A stream that is being captured, or of another device, and the driver's.
    pub fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        stream.must_be_on(&self.context)?;
        stream.must_not_capture("launching a graph")?;
        let raw = locked(&self.raw);
        let mut lasts: Vec<_> = self.pinned.iter().map(|block| block.lock()).collect();
        for (block, last) in self.pinned.iter().zip(&lasts) {
            block.follow(last, stream)?;
        }
        self.context.call(format_args!("launching a graph"), |driver| {
            // SAFETY: both are the driver's own, and what the graph touches is kept by it or, for kernels, promised by
            // whoever captured them.
            unsafe { driver.cuGraphLaunch(raw.0, stream.raw()) }
        })?;
        let marked: Vec<Result<(), CudaError>> =
            self.pinned.iter().zip(&mut lasts).map(|(block, last)| block.mark(last, stream)).collect();
        self.context.transfers.add(&Transfers { graphs: 1, ..self.work });
        marked.into_iter().collect()
    }

    /// What one launch of it copies and launches.
    pub fn work(&self) -> Transfers {
        self.work
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner).0;
        // SAFETY: made by cuGraphInstantiateWithFlags and destroyed once; launches under way go on.
        self.context.release(|driver| unsafe { driver.cuGraphExecDestroy(raw) });
    }
}

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    raw: Handle<CUevent>,
    /// The capture that it was recorded in last.
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Event {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Event, CudaError> {
        let flags = CUevent_flags::CU_EVENT_DEFAULT as u32;
        let mut raw = std::ptr::null_mut();
        context.call(format_args!("making an event"), |driver| {
            // SAFETY: the result lives through the call.
            unsafe { driver.cuEventCreate(&mut raw, flags) }
        })?;
        Ok(Event { context: context.clone(), raw: Handle(raw), capture: Mutex::new(None) })
    }

    /// Milliseconds from an earlier event to this one, both recorded and over.
    ///
    /// # Errors
    /// One of them is not recorded or not over, or belongs to another device, and the driver's.
    pub fn elapsed_ms(&self, since: &Event) -> Result<f32, CudaError> {
        let mut milliseconds = 0.0;
        self.context.call(format_args!("measuring the time between two events"), |driver| {
            // SAFETY: both are the driver's own, and the result lives through the call.
            unsafe { driver.cuEventElapsedTime(&mut milliseconds, since.raw.0, self.raw.0) }
        })?;
        Ok(milliseconds)
    }

    /// Whether what it marks is over. An event that nothing has recorded marks nothing, which is over.
    ///
    /// # Errors
    /// The driver's, those of the work before it included.
    pub fn query(&self) -> Result<bool, CudaError> {
        // SAFETY: the event is the driver's own.
        self.context
            .poll(format_args!("asking an event"), |driver| unsafe { driver.cuEventQuery(self.raw.0) })
    }

    /// Waits until what it marks is over.
    ///
    /// # Errors
    /// The driver's, those of the work before it included.
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
