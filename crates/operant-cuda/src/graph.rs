//! CUDA graphs, which repeat captured work with one launch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::pinned::PinnedBlock;
use crate::stream::{Capture, GraphResource, Stream, locked};
use crate::transfers::Transfers;

impl Stream {
    /// Captures the work that `work` enqueues in the stream as a graph instead of running it.
    ///
    /// A capture allows only asynchronous work: launches, fills, copies to and from pinned memory, events between streams of
    /// this device. Nothing may be allocated or freed during it. The graph keeps the memory of those copies and fills, and that
    /// of [`crate::Buffer::keep_in`].
    ///
    /// # Errors
    /// Errors of `work`, and driver errors.
    pub fn capture<E: From<CudaError>>(
        &self,
        work: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Graph, E> {
        self.must_not_capture("a capture within a capture")?;
        // Other threads are not restricted; on this one, calls that a capture does not allow fail.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.context().call(format_args!("beginning a capture"), |driver| {
            // SAFETY: the stream is the driver's own.
            unsafe { driver.cuStreamBeginCapture_v2(self.raw(), mode) }
        })?;
        let capture = Arc::new(Capture::default());
        self.begin(&capture);
        let mut ending = EndCapture { stream: self, capture: &capture, ended: false };
        let worked = work(self);
        let template = ending.end().map(|raw| CapturedGraph { context: self.context(), raw });
        drop(ending);
        worked?;
        let template = template?;

        let mut raw = std::ptr::null_mut();
        self.context().call(format_args!("making a graph of a capture"), |driver| {
            // SAFETY: the captured graph and the result live until the end of this function.
            unsafe { driver.cuGraphInstantiateWithFlags(&mut raw, template.raw, 0) }
        })?;
        self.context().captures.fetch_add(1, Ordering::Relaxed);
        let mut kept = std::mem::take(&mut *locked(&capture.kept));
        // The graph keeps everything that its launches use.
        kept.sort_by_key(|kept| Arc::as_ptr(kept).cast::<()>() as usize);
        kept.dedup_by_key(|kept| Arc::as_ptr(kept).cast::<()>() as usize);
        // All graphs lock in the order of addresses, so that two launches cannot deadlock.
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

/// Ends a capture, even if the captured closure panics.
struct EndCapture<'a> {
    stream: &'a Stream,
    capture: &'a Capture,
    ended: bool,
}

impl EndCapture<'_> {
    fn end(&mut self) -> Result<CUgraph, CudaError> {
        self.ended = true;
        self.capture.end();
        let mut graph = std::ptr::null_mut();
        self.stream.context().call(format_args!("ending a capture"), |driver| {
            // SAFETY: the stream is the driver's own, and the result outlives the call.
            unsafe { driver.cuStreamEndCapture(self.stream.raw(), &mut graph) }
        })?;
        if graph.is_null() {
            return Err(CudaError::refused(
                "a capture produced no graph",
                "capture only work that does not wait for the device",
            ));
        }
        Ok(graph)
    }
}

impl Drop for EndCapture<'_> {
    fn drop(&mut self) {
        if !self.ended
            && let Ok(raw) = self.end()
        {
            drop(CapturedGraph { context: self.stream.context(), raw });
        }
    }
}

/// A captured graph, from which an executable graph is instantiated.
struct CapturedGraph<'a> {
    context: &'a Context,
    raw: CUgraph,
}

impl Drop for CapturedGraph<'_> {
    fn drop(&mut self) {
        // SAFETY: made by cuStreamEndCapture and destroyed once.
        self.context.release(|driver| unsafe { driver.cuGraphDestroy(self.raw) });
    }
}

/// Captured work, repeated by one launch.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    /// Locked, because the driver allows only one thread at a time to use it.
    raw: Mutex<Handle<CUgraphExec>>,
    /// The pinned memory of its copies, each once.
    pinned: Vec<Arc<PinnedBlock>>,
    _kept: Vec<GraphResource>,
    work: Transfers,
}

impl Graph {
    /// Enqueues all of its work in the stream.
    ///
    /// # Errors
    /// A stream that is being captured, or of another device, and driver errors.
    pub fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        stream.must_be_on(&self.context)?;
        stream.must_not_capture("launching a graph")?;
        let raw = locked(&self.raw);
        let mut lasts: Vec<_> = self.pinned.iter().map(|block| block.lock()).collect();
        for (block, last) in self.pinned.iter().zip(&lasts) {
            block.follow(last, stream)?;
        }
        self.context.call(format_args!("launching a graph"), |driver| {
            // SAFETY: both handles are the driver's, and the graph keeps the memory that it uses; for unsafe kernel launches
            // the caller guaranteed it at the capture.
            unsafe { driver.cuGraphLaunch(raw.0, stream.raw()) }
        })?;
        let marked: Vec<Result<(), CudaError>> =
            self.pinned.iter().zip(&mut lasts).map(|(block, last)| block.mark(last, stream)).collect();
        self.context.transfers.add(&Transfers { graphs: 1, ..self.work });
        marked.into_iter().collect()
    }

    /// Copies and launches of one graph launch.
    pub fn work(&self) -> Transfers {
        self.work
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner).0;
        // SAFETY: made by cuGraphInstantiateWithFlags and destroyed once; launches in flight continue.
        self.context.release(|driver| unsafe { driver.cuGraphExecDestroy(raw) });
    }
}
