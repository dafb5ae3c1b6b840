//! Matrix products by cuBLASLt, if that library is installed: a shape is planned once and launched like a kernel.
//!
//! The library is not linked. [`crate::Device::blas`] opens it from the [`crate::SearchPaths`], like the compiler; everything
//! else works without it. On the same GPU, with the same library, a product has the same bits each time.

mod handle;
mod library;
mod plan;
mod shape;

use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use library::LoadedBlas;
pub use library::SYMBOLS;
pub use shape::{Element, Epilogue, GemmShape, InputPrecision, Operand};

use crate::context::{Context, Handle};
use crate::error::CudaError;
use crate::library::Library;
use crate::memory::Buffer;
use crate::stream::Stream;
use crate::transfers::Transfers;
use handle::{BlasHandle, call};
use plan::MatmulPlan;
use shape::{ALIGNMENT, StoredMatrix};

/// Bytes of the library's workspace: what NVIDIA recommends for Hopper, the most for any GPU so far.
const WORKSPACE: usize = 32 << 20;

/// The workspace is at most this fraction of the device's memory, given as a divisor.
const SHARE: u64 = 64;

/// The workspace begins at a multiple of this many bytes, as the library requires.
const PAGE: usize = 256;

/// cuBLASLt, opened on a device, with a workspace.
///
/// All products of one `Blas` and its clones share that workspace. Like the uses of a buffer, they are ordered by their
/// stream. Order two streams with events, or give each its own `Blas`.
#[derive(Debug, Clone)]
pub struct Blas(Arc<BlasHandle>);

/// Bytes of workspace on a device with this much memory.
fn workspace_bytes(memory: u64) -> usize {
    let share = usize::try_from(memory / SHARE).unwrap_or(WORKSPACE);
    share.min(WORKSPACE) / PAGE * PAGE
}

impl Blas {
    pub(crate) fn open(context: &Arc<Context>, library: Arc<LoadedBlas>) -> Result<Blas, CudaError> {
        let workspace = Buffer::new(context, workspace_bytes(context.properties.memory_bytes))?;
        let mut raw = std::ptr::null_mut();
        call(context, &library, format_args!("opening cuBLASLt"), |library| {
            // SAFETY: the result outlives the call.
            unsafe { library.cublasLtCreate(&mut raw) }
        })?;
        Ok(Blas(Arc::new(BlasHandle { context: context.clone(), library, raw: Handle(raw), workspace })))
    }

    /// The library's file and its own version.
    pub fn library(&self) -> Library {
        self.0.library.library()
    }

    /// Plans a product. None: the library has no algorithm for it, so the caller computes the epilogue separately, or, without an
    /// epilogue, the product. This happens for [`Epilogue::Bias`] and [`Epilogue::ReluBias`] into bf16: the vector is f32, and
    /// cuBLASLt requires C's type.
    ///
    /// Plan before a capture: during a capture on this thread the library may refuse to plan.
    ///
    /// # Errors
    /// An empty shape, rows that do not begin at a multiple of 16 bytes, and library errors.
    pub fn gemm(&self, shape: GemmShape) -> Result<Option<Gemm>, CudaError> {
        shape.check()?;
        let plan = MatmulPlan::new(&self.0, &shape)?;
        Ok(plan.map(|plan| Gemm { handle: self.0.clone(), shape, plan: Mutex::new(plan) }))
    }
}

/// A planned matrix product on a device.
#[derive(Debug)]
pub struct Gemm {
    handle: Arc<BlasHandle>,
    shape: GemmShape,
    /// Locked, because a launch writes the vector's address into the plan and drops algorithms that the library refuses.
    plan: Mutex<MatmulPlan>,
}

impl Gemm {
    /// The shape of the product.
    pub fn shape(&self) -> &GemmShape {
        &self.shape
    }

    /// Enqueues the product. C is written and never read. The vector has the length [`GemmShape::vector_len`], or is None where
    /// that is None.
    ///
    /// In a capture the graph keeps all buffers and the library's resources. Launch each product once before its capture: the
    /// first launch loads its kernels, which a capture may not allow.
    ///
    /// # Errors
    /// A wrong element type, a buffer that is too short or not aligned to 16 bytes, a vector that is missing or has another
    /// length, buffers of another device, and library errors.
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
        let workspace = &self.handle.workspace;
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        self.handle.call(format_args!("launching the product {}", self.shape), |library| {
            if let Some(vector) = vector {
                plan.point_to(library, vector.pointer())?;
            }
            // SAFETY: the plan's descriptors were made by the library and describe these buffers. The buffers have the lengths
            // checked above, are on this device, and live until the stream is past the product (freeing memory waits for that);
            // a graph keeps them. The algorithm was proposed for these descriptors and a workspace of this size. C is also
            // passed as the matrix to add, but times 0, so it is not read.
            plan.with_algorithm(|plan, algorithm| unsafe {
                library.cublasLtMatmul(
                    self.handle.raw(),
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
        stream.keep(self.handle.clone());
        Ok(())
    }

    fn check(&self, stream: &Stream, operand: Operand<'_>, stored: &StoredMatrix) -> Result<(), CudaError> {
        let StoredMatrix { name, rows, columns, stride, element } = *stored;
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

    /// Checks that a buffer is on the stream's device, which is the plan's, and aligned as the plan requires.
    fn check_place(&self, stream: &Stream, operand: Operand<'_>, name: &str) -> Result<(), CudaError> {
        stream.must_be_on(&self.handle.context)?;
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
    fn a_small_device_has_a_small_workspace() {
        assert_eq!(workspace_bytes(141 << 30), 32 << 20);
        assert_eq!(workspace_bytes(1 << 30), 16 << 20);
        assert_eq!(workspace_bytes((1 << 20) + 100), 16 << 10);
    }
}
