//! The description of a matrix product: shapes, strides, precision and epilogue.

use std::fmt;

use crate::error::CudaError;
use crate::memory::Buffer;

/// Every matrix, every row of it, and every vector begins at a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 16;

/// The element type of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// Single precision, in a `Buffer<f32>`.
    F32,
    /// bf16, the upper half of single precision, in a `Buffer<u16>`.
    Bf16,
}

impl Element {
    pub fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::Bf16 => 2,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Element::F32 => "f32",
            Element::Bf16 => "bf16",
        })
    }
}

/// The precision of the inputs and of the products of elements. Sums are always single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputPrecision {
    /// f32, multiplied in single precision.
    F32,
    /// f32, whose mantissas tensor cores round to 10 bits.
    Tf32,
    /// bf16, multiplied exactly.
    Bf16,
}

impl InputPrecision {
    /// The element type of both inputs.
    pub fn input(self) -> Element {
        match self {
            InputPrecision::F32 | InputPrecision::Tf32 => Element::F32,
            InputPrecision::Bf16 => Element::Bf16,
        }
    }
}

/// The operation fused with the product in the same launch. The vector is always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// No operation and no vector.
    None,
    /// The vector, n numbers, is added to each row of C.
    Bias,
    /// Adds a bias, then applies ReLU.
    ReluBias,
    /// The vector, m numbers, becomes the sums over k of each row of op(A).
    ///
    /// With op(A) = dY^T (outputs, samples) and B = X (samples, inputs) the product is the gradient of a layer's weights
    /// and the vector the gradient of its bias.
    BiasGradient,
}

impl Epilogue {
    fn name(self) -> &'static str {
        match self {
            Epilogue::None => "no epilogue",
            Epilogue::Bias => "a bias",
            Epilogue::ReluBias => "a bias and ReLU",
            Epilogue::BiasGradient => "a bias gradient",
        }
    }
}

/// C (m, n) = op(A) (m, k) op(B) (k, n), all of them row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GemmShape {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Products in a sum.
    pub k: usize,
    /// A is stored as (k, m), else as (m, k).
    pub a_transposed: bool,
    /// B is stored as (n, k), else as (k, n).
    pub b_transposed: bool,
    /// Elements from one stored row of A to the next: a multiple of 16 bytes, as the other two.
    pub a_stride: usize,
    /// Elements from one stored row of B to the next.
    pub b_stride: usize,
    /// Elements from one row of C to the next.
    pub c_stride: usize,
    /// The precision of A, B and their products.
    pub products: InputPrecision,
    /// The element type of C.
    pub output: Element,
    /// The operation fused with the product.
    pub epilogue: Epilogue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredMatrix {
    pub name: &'static str,
    pub rows: usize,
    pub columns: usize,
    pub stride: usize,
    pub element: Element,
}

impl GemmShape {
    /// A, B and C as they are stored.
    pub(crate) fn stored(&self) -> [StoredMatrix; 3] {
        let turned = |transposed: bool, rows: usize, columns: usize| {
            if transposed { (columns, rows) } else { (rows, columns) }
        };
        let (a, b) = (turned(self.a_transposed, self.m, self.k), turned(self.b_transposed, self.k, self.n));
        let input = self.products.input();
        [
            StoredMatrix { name: "A", rows: a.0, columns: a.1, stride: self.a_stride, element: input },
            StoredMatrix { name: "B", rows: b.0, columns: b.1, stride: self.b_stride, element: input },
            StoredMatrix {
                name: "C",
                rows: self.m,
                columns: self.n,
                stride: self.c_stride,
                element: self.output,
            },
        ]
    }

    /// Length of the epilogue's vector; None without a vector.
    pub fn vector_len(&self) -> Option<usize> {
        match self.epilogue {
            Epilogue::None => None,
            Epilogue::Bias | Epilogue::ReluBias => Some(self.n),
            Epilogue::BiasGradient => Some(self.m),
        }
    }

    /// Checks that no dimension is 0 and that rows are aligned.
    pub(crate) fn check(&self) -> Result<(), CudaError> {
        for stored in self.stored() {
            let StoredMatrix { name, rows, columns, stride, element } = stored;
            if rows == 0 || columns == 0 {
                return Err(CudaError::refused(
                    format!("{name} of {self} has {rows} rows of {columns}"),
                    "skip empty products",
                ));
            }
            if stride < columns {
                return Err(CudaError::refused(
                    format!("{name} of {self} has rows of {columns} elements that begin {stride} apart"),
                    "give a stride of at least a row",
                ));
            }
            if !stride.is_multiple_of(ALIGNMENT / element.bytes()) {
                return Err(CudaError::refused(
                    format!(
                        "{name} of {self} has rows that begin {stride} elements of {} bytes apart",
                        element.bytes()
                    ),
                    format!("give a stride that is a multiple of {ALIGNMENT} bytes"),
                ));
            }
            stored.needed()?;
        }
        Ok(())
    }
}

impl StoredMatrix {
    /// Number of elements from the first to the last.
    pub fn needed(&self) -> Result<usize, CudaError> {
        let last = (self.rows - 1).checked_mul(self.stride);
        let needed = last.and_then(|last| last.checked_add(self.columns));
        needed
            .filter(|elements| isize::try_from(*elements).is_ok_and(|all| all <= isize::MAX / 4))
            .ok_or_else(|| {
                CudaError::refused(
                    format!(
                        "{} of {} rows, {} elements apart, is more than memory can hold",
                        self.name, self.rows, self.stride
                    ),
                    "ask for less",
                )
            })
    }
}

/// `(3, 4) = A (3, 8) B^T (8, 4) of bf16 into f32 with a bias`.
impl fmt::Display for GemmShape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GemmShape { m, n, k, .. } = self;
        let turned = |transposed: bool| if transposed { "^T" } else { "" };
        let (a, b) = (turned(self.a_transposed), turned(self.b_transposed));
        let input = match self.products {
            InputPrecision::F32 => "f32",
            InputPrecision::Tf32 => "tf32",
            InputPrecision::Bf16 => "bf16",
        };
        let (output, epilogue) = (self.output, self.epilogue.name());
        write!(
            formatter,
            "({m}, {n}) = A{a} ({m}, {k}) B{b} ({k}, {n}) of {input} into {output} with {epilogue}"
        )
    }
}

/// A matrix in device memory.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'a> {
    /// f32 elements.
    F32(&'a Buffer<f32>),
    /// bf16 elements.
    Bf16(&'a Buffer<u16>),
}

impl<'a> From<&'a Buffer<f32>> for Operand<'a> {
    fn from(buffer: &'a Buffer<f32>) -> Self {
        Operand::F32(buffer)
    }
}

impl<'a> From<&'a Buffer<u16>> for Operand<'a> {
    fn from(buffer: &'a Buffer<u16>) -> Self {
        Operand::Bf16(buffer)
    }
}
