//! A product in the library's terms: its descriptors, and the algorithm that the library's heuristic chooses.
//!
//! The library's matrices are column-major. A row-major matrix (rows, columns) is for the library the transposed matrix
//! (columns, rows) with the same stride, so the library computes C^T = op(B)^T op(A)^T:
//!
//! | here | to the library |
//! | --- | --- |
//! | C (m, n) | D (n, m) |
//! | B (k, n), or (n, k) where it is transposed | A (n, k) taken as it is, or (k, n) transposed |
//! | A (m, k), or (k, m) where it is transposed | B (k, m) taken as it is, or (m, k) transposed |
//! | n numbers added to each row of C | BIAS, RELU_BIAS: one number a row of D, added to each column |
//! | m sums over k of the rows of op(A) | BGRADB: one sum a column of D, over k of the library's B (BGRADA sums its A) |
//!
//! So the operands swap, and neither a transpose nor an epilogue changes its kind.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtEpilogue_t as TheirEpilogue, cublasLtMatmulAlgo_t,
    cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayout_t,
    cublasLtReductionScheme_t as Reduction, cublasStatus_t as Code, cudaDataType as DataType,
};

use super::handle::BlasHandle;
use super::library::{Functions, HeuristicResult, LoadedBlas};
use super::shape::{ALIGNMENT, Element, Epilogue, GemmShape, InputPrecision, StoredMatrix};
use crate::context::Handle;
use crate::error::CudaError;
use crate::table::Status;

/// `cublasOperation_t`, which is declared in another library's header: a matrix that is not transposed.
const CUBLAS_OP_N: u32 = 0;
/// A transposed matrix.
const CUBLAS_OP_T: u32 = 1;

/// How many algorithms the heuristic may propose, as alternatives if the library refuses the first.
const PROPOSALS: usize = 8;

/// A descriptor that the library allocated in host memory; dropping this value destroys it.
#[derive(Debug)]
pub(super) struct Descriptor<T: Copy> {
    library: Arc<LoadedBlas>,
    raw: Handle<T>,
    destroy: unsafe fn(&Functions, T) -> Result<(), Status>,
}

impl<T: Copy> Descriptor<T> {
    pub fn raw(&self) -> T {
        self.raw.0
    }
}

impl<T: Copy> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: made by the call that matches `destroy`, and destroyed once. A failure cannot be reported.
        let _ = unsafe { (self.destroy)(&self.library.functions, self.raw.0) };
    }
}

/// The library's descriptors of a product, in its own order A, B, D, and the algorithms.
#[derive(Debug)]
pub(super) struct MatmulPlan {
    pub operation: Descriptor<cublasLtMatmulDesc_t>,
    pub a: Descriptor<cublasLtMatrixLayout_t>,
    pub b: Descriptor<cublasLtMatrixLayout_t>,
    pub d: Descriptor<cublasLtMatrixLayout_t>,
    /// The heuristic's proposals, the best first. The first is in use; it is dropped if the library refuses it at a launch.
    algorithms: Vec<cublasLtMatmulAlgo_t>,
}

impl MatmulPlan {
    /// Plans a product. None: the library has no algorithm for it.
    pub fn new(handle: &BlasHandle, shape: &GemmShape) -> Result<Option<MatmulPlan>, CudaError> {
        let [a, b, c] = shape.stored();
        let doing = format_args!("planning the product {shape}");
        let (operation, a, b, d) = handle.call(doing, |_| {
            let operation = operation(&handle.library, shape, handle.workspace.pointer())?;
            let layout = |stored| layout(&handle.library, stored);
            Ok((operation, layout(&b)?, layout(&a)?, layout(&c)?))
        })?;
        let preference = handle.call(doing, |_| preference(&handle.library, handle.workspace.len()))?;

        let mut results = [HeuristicResult::NONE; PROPOSALS];
        let mut count: c_int = 0;
        let asked = handle.call(doing, |library| {
            // SAFETY: all descriptors were made above, C is described like D, and the array holds that many results.
            let asked = unsafe {
                library.cublasLtMatmulAlgoGetHeuristic(
                    handle.raw(),
                    operation.raw(),
                    a.raw(),
                    b.raw(),
                    d.raw(),
                    d.raw(),
                    preference.raw(),
                    PROPOSALS as c_int,
                    results.as_mut_ptr(),
                    &mut count,
                )
            };
            match asked {
                Err(status) if is_refusal(status.code, shape.epilogue) => Ok(false),
                other => other.map(|()| true),
            }
        })?;
        let count = if asked { usize::try_from(count).unwrap_or(0).min(PROPOSALS) } else { 0 };
        let works =
            |result: &&HeuristicResult| result.state == 0 && result.workspace <= handle.workspace.len();
        let algorithms: Vec<_> = results[..count].iter().filter(works).map(|it| it.algorithm).collect();
        Ok((!algorithms.is_empty()).then_some(MatmulPlan { operation, a, b, d, algorithms }))
    }

    /// Calls `launch` with the best algorithm, and with the next one if the library refuses it.
    pub fn with_algorithm(
        &mut self,
        mut launch: impl FnMut(&MatmulPlan, &cublasLtMatmulAlgo_t) -> Result<(), Status>,
    ) -> Result<(), Status> {
        loop {
            match launch(self, &self.algorithms[0]) {
                // The library refuses before it enqueues any work.
                Err(status) if self.algorithms.len() > 1 && is_refused_launch(status.code) => {
                    self.algorithms.remove(0);
                }
                result => return result,
            }
        }
    }

    /// Sets the address of the epilogue's vector.
    pub fn point_to(&self, library: &Functions, vector: u64) -> Result<(), Status> {
        set_pointer(library, self.operation.raw(), vector)
    }
}

/// Whether the heuristic has no algorithm. The library may also report an epilogue that it lacks for these types as an invalid
/// value; without an epilogue, an invalid value is a bug of this crate.
fn is_refusal(code: u32, epilogue: Epilogue) -> bool {
    code == Code::CUBLAS_STATUS_NOT_SUPPORTED as u32
        || (code == Code::CUBLAS_STATUS_INVALID_VALUE as u32 && epilogue != Epilogue::None)
}

/// Whether the library refused an algorithm of its own heuristic.
fn is_refused_launch(code: u32) -> bool {
    [Code::CUBLAS_STATUS_NOT_SUPPORTED, Code::CUBLAS_STATUS_INVALID_VALUE, Code::CUBLAS_STATUS_ARCH_MISMATCH]
        .iter()
        .any(|refusal| *refusal as u32 == code)
}

fn data_type(element: Element) -> DataType {
    match element {
        Element::F32 => DataType::CUDA_R_32F,
        Element::Bf16 => DataType::CUDA_R_16BF,
    }
}

fn operation(
    library: &Arc<LoadedBlas>,
    shape: &GemmShape,
    anywhere: u64,
) -> Result<Descriptor<cublasLtMatmulDesc_t>, Status> {
    let compute = match shape.products {
        InputPrecision::F32 | InputPrecision::Bf16 => Compute::CUBLAS_COMPUTE_32F,
        InputPrecision::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
    };
    let functions = &library.functions;
    let mut raw = std::ptr::null_mut();
    // SAFETY: the result outlives the call.
    unsafe { functions.cublasLtMatmulDescCreate(&mut raw, compute, DataType::CUDA_R_32F) }?;
    let made = Descriptor {
        library: library.clone(),
        raw: Handle(raw),
        destroy: Functions::cublasLtMatmulDescDestroy,
    };
    let set = |attribute: Attribute, value: u32| {
        let (value, bytes) = (std::ptr::from_ref(&value).cast::<c_void>(), size_of::<u32>());
        // SAFETY: the descriptor was made above, and these attributes are numbers of 32 bits, which the library copies.
        unsafe { functions.cublasLtMatmulDescSetAttribute(raw, attribute, value, bytes) }
    };
    let taken = |transposed| if transposed { CUBLAS_OP_T } else { CUBLAS_OP_N };
    set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, taken(shape.b_transposed))?;
    set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, taken(shape.a_transposed))?;
    let epilogue = match shape.epilogue {
        Epilogue::None => return Ok(made),
        Epilogue::Bias => TheirEpilogue::CUBLASLT_EPILOGUE_BIAS,
        Epilogue::ReluBias => TheirEpilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        Epilogue::BiasGradient => TheirEpilogue::CUBLASLT_EPILOGUE_BGRADB,
    };
    set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue as u32)?;
    set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, DataType::CUDA_R_32F as u32)?;
    // The heuristic reads the vector's alignment from its address, so it gets one with no more than the guaranteed alignment.
    set_pointer(functions, raw, anywhere + ALIGNMENT as u64)?;
    Ok(made)
}

fn set_pointer(functions: &Functions, operation: cublasLtMatmulDesc_t, pointer: u64) -> Result<(), Status> {
    let attribute = Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
    let (value, bytes) = (std::ptr::from_ref(&pointer).cast::<c_void>(), size_of::<u64>());
    // SAFETY: the descriptor is alive, and this attribute is an address, which the library copies without dereferencing it.
    unsafe { functions.cublasLtMatmulDescSetAttribute(operation, attribute, value, bytes) }
}

fn layout(
    library: &Arc<LoadedBlas>,
    stored: &StoredMatrix,
) -> Result<Descriptor<cublasLtMatrixLayout_t>, Status> {
    let (rows, columns, stride) = (stored.columns as u64, stored.rows as u64, stored.stride as i64);
    let mut raw = std::ptr::null_mut();
    // SAFETY: the result outlives the call.
    unsafe {
        library.functions.cublasLtMatrixLayoutCreate(
            &mut raw,
            data_type(stored.element),
            rows,
            columns,
            stride,
        )
    }?;
    Ok(Descriptor {
        library: library.clone(),
        raw: Handle(raw),
        destroy: Functions::cublasLtMatrixLayoutDestroy,
    })
}

/// The workspace and alignment that an algorithm may use.
fn preference(
    library: &Arc<LoadedBlas>,
    workspace: usize,
) -> Result<Descriptor<cublasLtMatmulPreference_t>, Status> {
    let functions = &library.functions;
    let mut raw = std::ptr::null_mut();
    // SAFETY: the result outlives the call.
    unsafe { functions.cublasLtMatmulPreferenceCreate(&mut raw) }?;
    let made = Descriptor {
        library: library.clone(),
        raw: Handle(raw),
        destroy: Functions::cublasLtMatmulPreferenceDestroy,
    };
    let set = |attribute: Preference, value: *const c_void, bytes: usize| {
        // SAFETY: the preference was made above, and the library copies as many bytes as the attribute has.
        unsafe { functions.cublasLtMatmulPreferenceSetAttribute(raw, attribute, value, bytes) }
    };
    let bytes = workspace as u64;
    set(
        Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        std::ptr::from_ref(&bytes).cast(),
        size_of::<u64>(),
    )?;
    // A sum that is split over k is reduced from the workspace, in single precision and in a separate step, so its order is
    // fixed. The other schemes add parts to C in the order in which they finish, which may differ from run to run, or round
    // parts to C's type. Sums that are not split are always allowed.
    let schemes = Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
    set(
        Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::ptr::from_ref(&schemes).cast(),
        size_of::<u32>(),
    )?;
    // Without this preference the library assumes 256.
    let alignment = ALIGNMENT as u32;
    for attribute in [
        Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    ] {
        set(attribute, std::ptr::from_ref(&alignment).cast(), size_of::<u32>())?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Once;

    use super::*;
    use crate::search_paths::SearchPaths;

    /// The real library, if `OPERANT_CUBLASLT_DIR` names its directory. No driver is needed.
    fn library() -> Option<Arc<LoadedBlas>> {
        static SAID: Once = Once::new();
        let directory = std::env::var_os("OPERANT_CUBLASLT_DIR").filter(|value| !value.is_empty());
        let Some(directory) = directory else {
            // Written directly, because the test harness would capture it.
            SAID.call_once(|| {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED the tests of the real cuBLASLt: `pip install nvidia-cublas`, and set OPERANT_CUBLASLT_DIR \
                     to the directory of libcublasLt"
                );
            });
            return None;
        };
        let found = LoadedBlas::find_at(&SearchPaths::only(&[directory]), None);
        Some(Arc::new(found.unwrap_or_else(|error| panic!("{error}"))))
    }

    #[test]
    fn the_real_library_takes_every_descriptor() {
        let Some(library) = library() else { return };
        let taken = |result: Result<(), Status>, what: &str| {
            result
                .unwrap_or_else(|status| panic!("{what}: {} {}", status.call, library.explain(status.code)));
        };
        for products in [InputPrecision::F32, InputPrecision::Tf32, InputPrecision::Bf16] {
            for epilogue in [Epilogue::None, Epilogue::Bias, Epilogue::ReluBias, Epilogue::BiasGradient] {
                for turned in [false, true] {
                    let shape = GemmShape {
                        m: 3,
                        n: 5,
                        k: 7,
                        a_transposed: turned,
                        b_transposed: !turned,
                        a_stride: 8,
                        b_stride: 16,
                        c_stride: 8,
                        products,
                        output: products.input(),
                        epilogue,
                    };
                    taken(operation(&library, &shape, 1 << 20).map(|_| ()), "an operation");
                    for stored in shape.stored() {
                        taken(layout(&library, &stored).map(|_| ()), stored.name);
                    }
                }
            }
        }
        taken(preference(&library, 32 << 20).map(|_| ()), "a preference");
    }

    #[test]
    fn the_real_library_refuses_other_sizes_and_attributes() {
        // This shows that the check above can fail.
        let Some(library) = library() else { return };
        let preference = preference(&library, 0).expect("a preference");
        let wrong = 7_u16;
        // SAFETY: the preference lives, and the library refuses the size before it reads.
        let result = unsafe {
            library.functions.cublasLtMatmulPreferenceSetAttribute(
                preference.raw(),
                Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                std::ptr::from_ref(&wrong).cast(),
                size_of::<u16>(),
            )
        };
        let status = result.expect_err("two bytes are too few");
        assert_eq!(status.code, Code::CUBLAS_STATUS_INVALID_VALUE as u32);
        let said =
            "CUBLAS_STATUS_INVALID_VALUE (7: an unsupported value or parameter was passed to the function)";
        assert_eq!(library.explain(status.code), said);
        let version = library.library().version.expect("a version");
        assert!((12..=13).contains(&version.major), "{version}");
    }
}
