//! Sums and exchanges between the GPUs of a run by NCCL, if that library is installed.
//!
//! The library is not linked. [`crate::Cuda::communicator_id`] and [`crate::Device::join`] open it from the
//! [`crate::SearchPaths`]; everything else works without it. The library chooses the order of a sum, so its bits may depend on the number
//! of GPUs and on how they are connected; an exchange has no such freedom.

mod library;

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

use cudarc::nccl::sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId};

pub(crate) use library::LoadedNccl;
pub use library::SYMBOLS;

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::library::Library;
use crate::memory::Buffer;
use crate::plain::Plain;
use crate::stream::Stream;
use crate::table::Status;
use crate::transfers::Transfers;

/// Names a communicator; one process makes it and gives it to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommunicatorId(pub [u8; 128]);

/// Numbers that NCCL adds.
pub trait Summable: Plain {
    #[doc(hidden)]
    const ELEMENT: ncclDataType_t;
}

impl Summable for f32 {
    const ELEMENT: ncclDataType_t = ncclDataType_t::ncclFloat32;
}

impl Summable for f64 {
    const ELEMENT: ncclDataType_t = ncclDataType_t::ncclFloat64;
}

/// A GPU's part in a communicator.
///
/// All GPUs make the same calls in the same order, each in its own streams, of which one is at work at a time.
#[derive(Debug, Clone)]
pub struct Communicator(Arc<Member>);

#[derive(Debug)]
struct Member {
    context: Arc<Context>,
    library: Arc<LoadedNccl>,
    raw: Handle<ncclComm_t>,
    size: usize,
}

pub(crate) fn new_id(library: &LoadedNccl) -> Result<CommunicatorId, CudaError> {
    let mut id = ncclUniqueId { internal: [0; 128] };
    // SAFETY: the result outlives the call.
    unsafe { library.functions.ncclGetUniqueId(&mut id) }
        .map_err(|status| library.failure(status, "this machine", "creating a unique ID"))?;
    Ok(CommunicatorId(id.internal.map(|byte| byte as u8)))
}

impl Communicator {
    pub(crate) fn join(
        context: &Arc<Context>,
        library: Arc<LoadedNccl>,
        id: CommunicatorId,
        (rank, size): (usize, usize),
    ) -> Result<Communicator, CudaError> {
        let id = ncclUniqueId { internal: id.0.map(|byte| byte as std::ffi::c_char) };
        let number = |number: usize| c_int::try_from(number).unwrap_or(c_int::MAX);
        let mut raw = std::ptr::null_mut();
        call(
            context,
            &library,
            format_args!("joining the communicator as rank {rank} of {size}"),
            |library| {
                // SAFETY: the result outlives the call, and the context is current.
                unsafe { library.functions.ncclCommInitRank(&mut raw, number(size), id, number(rank)) }
            },
        )?;
        Ok(Communicator(Arc::new(Member { context: context.clone(), library, raw: Handle(raw), size })))
    }

    /// The library's file and its own version.
    pub fn library(&self) -> Library {
        self.0.library.library()
    }

    /// Number of GPUs.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Enqueues an all-reduce: the sum of the buffers of all GPUs, in an order that NCCL chooses, replaces each of them.
    ///
    /// # Errors
    /// A buffer of another device, and library errors.
    pub fn sum<T: Summable>(&self, stream: &Stream, buffer: &Buffer<T>) -> Result<(), CudaError> {
        self.enqueue(stream, [buffer, buffer], format_args!("enqueuing an all-reduce"), |library| {
            let (address, operation) = (buffer.pointer() as usize, ncclRedOp_t::ncclSum);
            // SAFETY: the buffer is on this device and holds this many numbers. It lives until the stream is past the sum (freeing
            // memory waits for that); a graph keeps it. Output may be input.
            unsafe {
                library.functions.ncclAllReduce(
                    address as *const _,
                    address as *mut _,
                    buffer.len(),
                    T::ELEMENT,
                    operation,
                    self.0.raw.0,
                    stream.raw().cast(),
                )
            }
        })
    }

    /// Enqueues an all-gather: the buffers of all GPUs are copied into `all`, by rank.
    ///
    /// # Errors
    /// A buffer of another device or length, and library errors.
    pub fn gather<T: Summable>(
        &self,
        stream: &Stream,
        own: &Buffer<T>,
        all: &Buffer<T>,
    ) -> Result<(), CudaError> {
        let expected = own.len() * self.0.size;
        if all.len() != expected {
            let what = "the output buffer of an all-gather";
            return Err(CudaError::Length { what, given: all.len(), expected });
        }
        self.enqueue(stream, [own, all], format_args!("enqueuing an all-gather"), |library| {
            // SAFETY: as above; `all` holds as many numbers as all buffers together.
            unsafe {
                library.functions.ncclAllGather(
                    own.pointer() as usize as *const _,
                    all.pointer() as usize as *mut _,
                    own.len(),
                    T::ELEMENT,
                    self.0.raw.0,
                    stream.raw().cast(),
                )
            }
        })
    }

    fn enqueue<T: Plain>(
        &self,
        stream: &Stream,
        buffers: [&Buffer<T>; 2],
        doing: fmt::Arguments<'_>,
        make: impl FnOnce(&LoadedNccl) -> Result<(), Status>,
    ) -> Result<(), CudaError> {
        stream.must_be_on(&self.0.context)?;
        for buffer in buffers {
            buffer.check(stream)?;
        }
        call(&self.0.context, &self.0.library, doing, make)?;
        stream.count(&Transfers { launches: 1, ..Transfers::default() });
        for buffer in buffers {
            buffer.keep_in(stream);
        }
        stream.keep(self.0.clone());
        Ok(())
    }
}

fn call<R>(
    context: &Context,
    library: &LoadedNccl,
    doing: fmt::Arguments<'_>,
    make: impl FnOnce(&LoadedNccl) -> Result<R, Status>,
) -> Result<R, CudaError> {
    let made = context.call(doing, |_| Ok(make(library)))?;
    made.map_err(|status| library.failure(status, &context.name(), &doing.to_string()))
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: made by ncclCommInitRank and destroyed once; graphs that use it hold this value.
        self.context.release(|_| unsafe { self.library.functions.ncclCommDestroy(self.raw.0) });
    }
}
