//! Graphs, which repeat captured work with one launch.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::pinned::PinnedBlock;
use crate::stream::{Capture, Kept, Stream, locked};
use crate::transfers::Transfers;

impl Stream {
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
        self.context().call(format_args!("beginning a capture"), |driver| {
            // SAFETY: the stream is the driver's own.
            unsafe { driver.cuStreamBeginCapture_v2(self.raw(), mode) }
        })?;
        let capture = Arc::new(Capture::default());
        self.begin(&capture);
        let mut ending = Ending { stream: self, capture: &capture, ended: false };
        let worked = work(self);
        let template = ending.end().map(|raw| Template { context: self.context(), raw });
        drop(ending);
        worked?;
        let template = template?;

        let mut raw = std::ptr::null_mut();
        self.context().call(format_args!("making a graph of a capture"), |driver| {
            // SAFETY: the template lives until the end of this function, and so does the result.
            unsafe { driver.cuGraphInstantiateWithFlags(&mut raw, template.raw, 0) }
        })?;
        let mut kept = std::mem::take(&mut *locked(&capture.kept));
        // Every launch of a capture keeps all of its own.
        kept.sort_by_key(|kept| Arc::as_ptr(kept).cast::<()>() as usize);
        kept.dedup_by_key(|kept| Arc::as_ptr(kept).cast::<()>() as usize);
        // All graphs lock in the order of addresses.
        let pinned: Vec<Arc<PinnedBlock>> =
            kept.iter().filter_map(|kept| kept.clone().downcast().ok()).collect();
        Ok(Graph {
            context: self.context().clone(),
            raw: Mutex::new(Handle(raw)),
            pinned,
            _kept: kept,
            work: capture.counters.read(),
        })
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
        self.capture.end();
        let mut graph = std::ptr::null_mut();
        self.stream.context().call(format_args!("ending a capture"), |driver| {
            // SAFETY: the stream is the driver's own, and the result lives through the call.
            unsafe { driver.cuStreamEndCapture(self.stream.raw(), &mut graph) }
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
            drop(Template { context: self.stream.context(), raw });
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
            // SAFETY: both are the driver's own, and what the graph touches is kept by it or, for kernels, promised
            // where they were captured.
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
