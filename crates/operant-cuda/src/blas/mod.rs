//! Matrix products by cuBLASLt, where that library is installed: a shape is planned once, and launched as kernels are.
//!
//! Nothing is linked: the library is found as the compiler is ([`crate::Places`]) when [`crate::Device::blas`] asks for it, and
//! everything else works without it. On the same GPU, with the same library, a product has the same bits each time.

mod library;
mod opened;
mod plan;
mod shape;

use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use library::LoadedBlas;
pub use library::SYMBOLS;
pub use shape::{Element, Epilogue, GemmShape, Operand, Products};

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::library::Library;
use crate::memory::Buffer;
use crate::stream::Stream;
use crate::transfers::Transfers;
use opened::{Opened, call};
use plan::Plan;
use shape::{ALIGNMENT, Stored};

/// Bytes that the library gets to work in: what NVIDIA advises for Hopper, the most for any GPU so far.
const WORKSPACE: usize = 32 << 20;

/// The part of a device's memory that it gets at most, as a divisor.
const SHARE: u64 = 64;

/// Buffers begin at multiples of this many bytes, which the library wants of what it works in.
const PAGE: usize = 256;

/// cuBLASLt, opened on a device, with memory for the library to work in.
///
/// All products of one of these share that memory, and clones share it, too: like a buffer, what uses it is ordered by
/// the stream that it is given to. Two streams are ordered with events, or each has a `Blas` of its own.
#[derive(Debug, Clone)]
pub struct Blas(Arc<Opened>);

/// Bytes to work in on a device of so much memory.
fn workspace_bytes(memory: u64) -> usize {
    let share = usize::try_from(memory / SHARE).unwrap_or(WORKSPACE);
    share.min(WORKSPACE) / PAGE * PAGE
}

impl Blas {
    pub(crate) fn open(context: &Arc<Context>, library: Arc<LoadedBlas>) -> Result<Blas, CudaError> {
        let workspace = Buffer::new(context, workspace_bytes(context.properties.memory_bytes))?;
        let mut raw = std::ptr::null_mut();
        call(context, &library, format_args!("opening cuBLASLt"), |library| {
            // SAFETY: the result lives through the call.
            unsafe { library.cublasLtCreate(&mut raw) }
        })?;
        Ok(Blas(Arc::new(Opened { context: context.clone(), library, raw: Handle(raw), workspace })))
    }

    /// The library's file, and its own version.
    pub fn library(&self) -> Library {
        self.0.library.library()
    }

    /// Plans a product. None: the library has no algorithm for it, so the caller does the epilogue by itself, or, where it had
    /// none, the product. So it is for [`Epilogue::Bias`] and [`Epilogue::ReluBias`] into bf16: the vector is f32, and cuBLASLt
    /// wants it of C's type.
    ///
    /// Plans are made before a capture: while one is under way on this thread the library may refuse to make any.
    ///
    /// # Errors
    /// A shape of nothing, rows that begin at no multiple of 16 bytes, and the library's.
    pub fn gemm(&self, shape: GemmShape) -> Result<Option<Gemm>, CudaError> {
        shape.check()?;
        let plan = Plan::new(&self.0, &shape)?;
        Ok(plan.map(|plan| Gemm { opened: self.0.clone(), shape, plan: Mutex::new(plan) }))
    }
}

/// A matrix product, planned: how the library computes it on this device.
#[derive(Debug)]
pub struct Gemm {
    opened: Arc<Opened>,
    shape: GemmShape,
    /// Behind a lock: a launch writes the vector's address into the plan, and drops algorithms that the library refuses.
    plan: Mutex<Plan>,
}

impl Gemm {
    /// What it computes.
    pub fn shape(&self) -> &GemmShape {
        &self.shape
    }

    /// Gives the product to the stream. C is written and never read. The vector has the length that
    /// [`GemmShape::vector_len`] says, or is None where that is.
    ///
    /// In a capture the graph keeps all of the buffers, and what the library needs. Launch each product once before it is
    /// captured: the first launch loads its kernels, which a capture may not allow.
    ///
    /// # Errors
    /// Another element type, too short a buffer, one that begins at no multiple of 16 bytes, a vector that is missing or has
    /// another length, something of another device, and the library's.
    pub fn launch(
        &self,
        stream: &Stream,
        a: Operand<'_>,
        b: Operand<'_>,
        c: Operand<'_>,
        vector: Option<&Buffer<f32>>,
    ) -> Result<(), CudaError> {
        let [a_stored, b_stored, c_stored] = self.shape.stored();
        self.check(stream, a, &a_stored)?;
        self.check(stream, b, &b_stored)?;
        self.check(stream, c, &c_stored)?;
        self.check_vector(stream, vector)?;

        // The library copies both before it returns.
        let (alpha, beta) = (1.0_f32, 0.0_f32);
        let (one, zero) = (std::ptr::from_ref(&alpha).cast(), std::ptr::from_ref(&beta).cast());
        let workspace = &self.opened.workspace;
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        self.opened.call(format_args!("launching the product {}", self.shape), |library| {
            if let Some(vector) = vector {
                plan.point_to(library, vector.pointer())?;
            }
            // SAFETY: the plan's descriptors are the library's own and describe these buffers, which are as long as was
            // checked above, on this device, and live until the stream is past the product (freeing memory waits for that);
            // a graph keeps them. The algorithm was proposed for these descriptors and no more room to work in than there is.
            // C is given as the matrix to add, too, but times 0, so it is not read.
            plan.with_algorithm(|plan, algorithm| unsafe {
                library.cublasLtMatmul(
                    self.opened.raw(),
                    plan.operation.raw(),
                    one,
                    b.pointer() as *const _,
                    plan.a.raw(),
                    a.pointer() as *const _,
                    plan.b.raw(),
                    zero,
                    c.pointer() as *const _,
                    plan.d.raw(),
                    c.pointer() as *mut _,
                    plan.d.raw(),
                    algorithm,
                    workspace.pointer() as *mut _,
                    workspace.len(),
                    stream.raw().cast(),
                )
            })
        })?;
        drop(plan);
        stream.count(&Transfers { launches: 1, ..Transfers::default() });
        for operand in [a, b, c] {
            operand.keep_in(stream);
        }
        if let Some(vector) = vector {
            vector.keep_in(stream);
        }
        stream.keep(self.opened.clone());
        Ok(())
    }

    fn check(&self, stream: &Stream, operand: Operand<'_>, stored: &Stored) -> Result<(), CudaError> {
        let Stored { name, rows, columns, stride, element } = *stored;
        if operand.element() != element {
            return Err(CudaError::refused(
                format!("{name} of {} was given as {}", self.shape, operand.element()),
                format!("give {element}, or plan the product for the other"),
            ));
        }
        let needed = stored.needed()?;
        if operand.len() < needed {
            return Err(CudaError::refused(
                format!(
                    "{name} of {} has {} elements where {rows} rows of {columns}, {stride} apart, need {needed}",
                    self.shape,
                    operand.len()
                ),
                "give a buffer that holds them",
            ));
        }
        self.check_place(stream, operand, name)
    }

    fn check_vector(&self, stream: &Stream, vector: Option<&Buffer<f32>>) -> Result<(), CudaError> {
        match (vector, self.shape.vector_len()) {
            (None, None) => Ok(()),
            (Some(vector), Some(expected)) => {
                if vector.len() != expected {
                    let what = "the vector of a matrix product";
                    return Err(CudaError::Length { what, given: vector.len(), expected });
                }
                self.check_place(stream, Operand::F32(vector), "the vector")
            }
            (None, Some(expected)) => Err(CudaError::refused(
                format!("the product {} has no vector", self.shape),
                format!("give one of {expected} numbers"),
            )),
            (Some(_), None) => Err(CudaError::refused(
                format!("the product {} was given a vector", self.shape),
                "give none, or plan the product with an epilogue",
            )),
        }
    }

    /// On the stream's device, which is the plan's, and at an address that the plan may rely on.
    fn check_place(&self, stream: &Stream, operand: Operand<'_>, name: &str) -> Result<(), CudaError> {
        stream.must_be_on(&self.opened.context)?;
        operand.check(stream)?;
        if !operand.pointer().is_multiple_of(ALIGNMENT as u64) {
            return Err(CudaError::refused(
                format!("{name} of {} does not begin at a multiple of {ALIGNMENT} bytes", self.shape),
                "give a whole buffer, or a part that begins at such a multiple",
            ));
        }
        Ok(())
    }
}

impl Operand<'_> {
    fn element(&self) -> Element {
        match self {
            Operand::F32(_) => Element::F32,
            Operand::Bf16(_) => Element::Bf16,
        }
    }

    fn len(&self) -> usize {
        match self {
            Operand::F32(buffer) => buffer.len(),
            Operand::Bf16(buffer) => buffer.len(),
        }
    }

    fn pointer(&self) -> u64 {
        match self {
            Operand::F32(buffer) => buffer.pointer(),
            Operand::Bf16(buffer) => buffer.pointer(),
        }
    }

    /// It must lie on the stream's device.
    fn check(&self, stream: &Stream) -> Result<(), CudaError> {
        match self {
            Operand::F32(buffer) => buffer.check(stream).map(|_| ()),
            Operand::Bf16(buffer) => buffer.check(stream).map(|_| ()),
        }
    }

    fn keep_in(&self, stream: &Stream) {
        match self {
            Operand::F32(buffer) => buffer.keep_in(stream),
            Operand::Bf16(buffer) => buffer.keep_in(stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_device_gives_less_to_work_in() {
        assert_eq!(workspace_bytes(141 << 30), 32 << 20);
        assert_eq!(workspace_bytes(1 << 30), 16 << 20);
        assert_eq!(workspace_bytes((1 << 20) + 100), 16 << 10);
    }
}
