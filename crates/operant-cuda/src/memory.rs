//! Device memory: buffers with their own allocation or from an arena.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::context::Context;
use crate::error::CudaError;
use crate::pinned::Pinned;
use crate::plain::{Plain, bytes_of};
use crate::stream::Stream;
use crate::transfers::Transfers;

/// Every buffer of an arena begins at a multiple of this many bytes, as the driver's allocations do.
const ALIGNMENT: usize = 256;

/// One allocation of device memory.
#[derive(Debug)]
pub(crate) struct Allocation {
    context: Arc<Context>,
    pointer: u64,
}

impl Allocation {
    /// None for 0 bytes, which the driver refuses to allocate.
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Option<Arc<Allocation>>, CudaError> {
        if bytes == 0 {
            return Ok(None);
        }
        let mut pointer = 0;
        context.call_for_memory("device", bytes, |driver| {
            // SAFETY: the result outlives the call.
            unsafe { driver.cuMemAlloc_v2(&mut pointer, bytes) }
        })?;
        Ok(Some(Arc::new(Allocation { context: context.clone(), pointer })))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated by cuMemAlloc_v2 and freed once. The driver waits for the work that uses it.
        self.context.release(|driver| unsafe { driver.cuMemFree_v2(self.pointer) });
    }
}

/// `len` elements in device memory.
///
/// Work on it is ordered by its stream; two streams that share a buffer are ordered with events.
#[derive(Debug)]
pub struct Buffer<T> {
    /// None without memory, see [`Buffer::without_memory`].
    context: Option<Arc<Context>>,
    /// None without memory, and for memory of another program.
    block: Option<Arc<Allocation>>,
    pointer: u64,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Plain> Buffer<T> {
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Self, CudaError> {
        let block = Allocation::new(context, bytes_of::<T>(len)?)?;
        let pointer = block.as_ref().map_or(0, |block| block.pointer);
        Ok(Buffer { context: Some(context.clone()), block, pointer, len, of: PhantomData })
    }

    /// Memory of another program, which frees it.
    pub(crate) fn borrowed(context: &Arc<Context>, pointer: u64, len: usize) -> Result<Self, CudaError> {
        bytes_of::<T>(len)?;
        Ok(Buffer { context: Some(context.clone()), block: None, pointer, len, of: PhantomData })
    }

    /// A buffer without memory, for code that only counts allocations: nothing can be copied to or from it.
    ///
    /// # Errors
    /// More than memory can hold.
    pub fn without_memory(len: usize) -> Result<Self, CudaError> {
        bytes_of::<T>(len)?;
        Ok(Buffer { context: None, block: None, pointer: 0, len, of: PhantomData })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Its address on the device (a `CUdeviceptr`), 0 when it is empty. It is valid as long as this or a part lives.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// A range of its elements, in the same memory.
    ///
    /// # Errors
    /// The range is not within the buffer.
    pub fn part(&self, range: Range<usize>) -> Result<Buffer<T>, CudaError> {
        if range.start > range.end || range.end > self.len {
            return Err(CudaError::refused(
                format!("elements {range:?} are not within a buffer of {}", self.len),
                "pass a range within it",
            ));
        }
        Ok(Buffer {
            context: self.context.clone(),
            block: self.block.clone(),
            pointer: self.pointer + (range.start * size_of::<T>()) as u64,
            len: range.len(),
            of: PhantomData,
        })
    }

    /// The memory reinterpreted as elements of another type, which must fill it exactly.
    ///
    /// # Errors
    /// They do not fill it, or it is not aligned for them.
    pub fn cast<U: Plain>(&self) -> Result<Buffer<U>, CudaError> {
        let (bytes, size) = (self.bytes(), size_of::<U>());
        if size == 0 || !bytes.is_multiple_of(size) || !self.pointer.is_multiple_of(align_of::<U>() as u64) {
            return Err(CudaError::refused(
                format!("{bytes} bytes at {:#x} are not whole elements of {size} bytes", self.pointer),
                "choose elements that fill the buffer",
            ));
        }
        let (context, block) = (self.context.clone(), self.block.clone());
        Ok(Buffer { context, block, pointer: self.pointer, len: bytes / size, of: PhantomData })
    }

    /// Copies elements to the device, after earlier work of the stream, and waits for the copy.
    ///
    /// # Errors
    /// Another length, a stream that is being captured, and driver errors.
    pub fn write(&self, stream: &Stream, from: &[T]) -> Result<(), CudaError> {
        self.expect("the host's slice", from.len())?;
        stream.must_not_capture("copying from ordinary host memory")?;
        let Some(context) = self.check(stream)? else { return Ok(()) };
        let bytes = self.bytes();
        context.call(format_args!("copying {bytes} bytes to it"), |driver| {
            // SAFETY: both sides have that many bytes; the host's stay valid until the wait below is over.
            unsafe { driver.cuMemcpyHtoDAsync_v2(self.pointer, from.as_ptr().cast(), bytes, stream.raw()) }?;
            // SAFETY: the stream is the driver's own.
            unsafe { driver.cuStreamSynchronize(stream.raw()) }
        })?;
        stream.count(&Transfers { bytes_h2d: bytes as u64, ..Transfers::default() });
        Ok(())
    }

    /// Copies the elements to the host, after earlier work of the stream, and waits for the copy.
    ///
    /// # Errors
    /// A stream that is being captured, and driver errors, including those of earlier work.
    pub fn read(&self, stream: &Stream) -> Result<Vec<T>, CudaError> {
        stream.must_not_capture("copying to ordinary host memory")?;
        let mut values: Vec<T> = Vec::new();
        if values.try_reserve_exact(self.len).is_err() {
            return Err(CudaError::refused(
                format!("the host has no room for {} bytes", self.bytes()),
                "read a part at a time",
            ));
        }
        let Some(context) = self.check(stream)? else { return Ok(values) };
        let bytes = self.bytes();
        let copied = context.call(format_args!("copying {bytes} bytes from it"), |driver| {
            let to = values.as_mut_ptr().cast::<c_void>();
            // SAFETY: both sides have that many bytes; the host's stay valid until the wait below is over, or are leaked.
            unsafe { driver.cuMemcpyDtoHAsync_v2(to, self.pointer, bytes, stream.raw()) }?;
            // SAFETY: the stream is the driver's own.
            unsafe { driver.cuStreamSynchronize(stream.raw()) }
        });
        if let Err(error) = copied {
            std::mem::forget(values); // the driver may still write there
            return Err(error);
        }
        // SAFETY: the copy is over, it wrote all elements, and any bits are a value of T.
        unsafe { values.set_len(self.len) };
        stream.count(&Transfers { bytes_d2h: bytes as u64, ..Transfers::default() });
        Ok(values)
    }

    /// Copies the elements to pinned memory of the same length, asynchronously; reading `to` waits.
    ///
    /// # Errors
    /// Another length, and driver errors.
    pub fn read_into(&self, stream: &Stream, to: &mut Pinned<T>) -> Result<(), CudaError> {
        self.expect("the pinned memory", to.len())?;
        let (Some(_), Some(pinned)) = (self.check(stream)?, to.block()) else { return Ok(()) };
        let bytes = self.bytes();
        pinned.use_in(stream, format_args!("copying {bytes} bytes from it"), |driver, host| {
            // SAFETY: both sides have that many bytes; the pinned ones live until the stream is past the copy.
            unsafe { driver.cuMemcpyDtoHAsync_v2(host, self.pointer, bytes, stream.raw()) }
        })?;
        stream.count(&Transfers { bytes_d2h: bytes as u64, ..Transfers::default() });
        self.keep_in(stream);
        Ok(())
    }

    /// Copies the elements of pinned memory of the same length, asynchronously.
    ///
    /// # Errors
    /// Another length, and driver errors.
    pub fn write_from(&self, stream: &Stream, from: &Pinned<T>) -> Result<(), CudaError> {
        self.expect("the pinned memory", from.len())?;
        let (Some(_), Some(pinned)) = (self.check(stream)?, from.block()) else { return Ok(()) };
        let bytes = self.bytes();
        pinned.use_in(stream, format_args!("copying {bytes} bytes to it"), |driver, host| {
            // SAFETY: both sides have that many bytes; the pinned ones live until the stream is past the copy.
            unsafe { driver.cuMemcpyHtoDAsync_v2(self.pointer, host, bytes, stream.raw()) }
        })?;
        stream.count(&Transfers { bytes_h2d: bytes as u64, ..Transfers::default() });
        self.keep_in(stream);
        Ok(())
    }

    /// Copies the elements of another, non-overlapping buffer of the same length and device, asynchronously. Nothing crosses the
    /// bus.
    ///
    /// # Errors
    /// Another length, a buffer of another device, and driver errors.
    pub fn copy_from(&self, stream: &Stream, from: &Buffer<T>) -> Result<(), CudaError> {
        self.expect("the other buffer", from.len)?;
        from.check(stream)?;
        let Some(context) = self.check(stream)? else { return Ok(()) };
        let bytes = self.bytes();
        context.call(format_args!("copying {bytes} bytes within it"), |driver| {
            // SAFETY: both buffers have that many bytes on this device.
            unsafe { driver.cuMemcpyDtoDAsync_v2(self.pointer, from.pointer, bytes, stream.raw()) }
        })?;
        self.keep_in(stream);
        from.keep_in(stream);
        Ok(())
    }

    /// Sets every byte, asynchronously.
    pub fn fill(&self, stream: &Stream, byte: u8) -> Result<(), CudaError> {
        let Some(context) = self.check(stream)? else { return Ok(()) };
        let bytes = self.bytes();
        context.call(format_args!("filling {bytes} bytes of it"), |driver| {
            // SAFETY: the buffer has that many bytes.
            unsafe { driver.cuMemsetD8Async(self.pointer, byte, bytes, stream.raw()) }
        })?;
        self.keep_in(stream);
        Ok(())
    }

    /// During a capture of the stream: makes the graph keep this memory, so that it outlives every launch. A captured kernel
    /// needs this for each buffer that its parameters point to.
    pub fn keep_in(&self, stream: &Stream) {
        if let Some(block) = &self.block {
            stream.keep(block.clone());
        }
    }

    /// Its device, which must be the stream's; None if the buffer is empty.
    pub(crate) fn check(&self, stream: &Stream) -> Result<Option<&Context>, CudaError> {
        let context = self.context.as_ref().ok_or_else(|| {
            CudaError::refused("a buffer without memory cannot be used", "use it only to count allocations")
        })?;
        stream.must_be_on(context)?;
        Ok((self.bytes() > 0).then_some(&**context))
    }

    fn expect(&self, what: &'static str, given: usize) -> Result<(), CudaError> {
        if given == self.len {
            return Ok(());
        }
        Err(CudaError::Length { what, given, expected: self.len })
    }
}

/// One allocation from which buffers are taken, one after another. It lives as long as the last of them.
#[derive(Debug)]
pub struct Arena {
    context: Arc<Context>,
    block: Option<Arc<Allocation>>,
    size: usize,
    used: usize,
}

impl Arena {
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let block = Allocation::new(context, bytes)?;
        Ok(Arena { context: context.clone(), block, size: bytes, used: 0 })
    }

    /// The bytes that a buffer takes of an arena: its size, rounded up to 256.
    ///
    /// # Errors
    /// More than memory can hold.
    pub fn bytes_for<T: Plain>(len: usize) -> Result<usize, CudaError> {
        let bytes = bytes_of::<T>(len)?;
        Ok(bytes.next_multiple_of(ALIGNMENT))
    }

    /// Takes a buffer of the remaining memory, at a multiple of 256 bytes. Its contents are undefined.
    ///
    /// # Errors
    /// [`CudaError::ArenaFull`].
    pub fn take<T: Plain>(&mut self, len: usize) -> Result<Buffer<T>, CudaError> {
        let requested = Self::bytes_for::<T>(len)?;
        // The last buffer is not rounded up.
        if bytes_of::<T>(len)? > self.left() {
            return Err(CudaError::ArenaFull { requested, left: self.left(), size: self.size });
        }
        let base = self.block.as_ref().map_or(0, |block| block.pointer);
        let pointer = if requested == 0 { 0 } else { base + self.used as u64 };
        self.used = (self.used + requested).min(self.size);
        let (context, block) = (Some(self.context.clone()), self.block.clone());
        Ok(Buffer { context, block, pointer, len, of: PhantomData })
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.size - self.used
    }

    /// Total bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}
