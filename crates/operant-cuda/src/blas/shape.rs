//! What a matrix product is: shapes, where the elements lie, precision, and what is done with the result.

use std::fmt;

use crate::error::CudaError;
use crate::memory::Buffer;

/// Every matrix, every row of it, and every vector begins at a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 16;

/// What a matrix consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// Single precision, in a `Buffer<f32>`.
    F32,
    /// The upper half of single precision, in a `Buffer<u16>`.
    Bf16,
}

impl Element {
    /// Bytes of one.
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

/// How the products of elements are made. Sums are single precision in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Products {
    /// Of f32, in single precision.
    F32,
    /// Of f32, whose mantissas tensor cores round to 10 bits.
    Tf32,
    /// Of bf16, exact.
    Bf16,
}

impl Products {
    /// What both inputs consist of.
    pub fn input(self) -> Element {
        match self {
            Products::F32 | Products::Tf32 => Element::F32,
            Products::Bf16 => Element::Bf16,
        }
    }
}

/// What is done beside the product, in the same launch. The vector is f32 whatever the matrices are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// Nothing; there is no vector.
    None,
    /// The vector, n numbers, is added to each row of C.
    Bias,
    /// The same, and then what is negative becomes 0.
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
    /// How products are made, and with that what A and B consist of.
    pub products: Products,
    /// What C consists of.
    pub output: Element,
    /// What is done beside the product.
    pub epilogue: Epilogue,
}

/// A matrix as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub name: &'static str,
    pub rows: usize,
    pub columns: usize,
    pub stride: usize,
    pub element: Element,
}

impl GemmShape {
    /// A, B and C as they are stored.
    pub(crate) fn stored(&self) -> [Stored; 3] {
        let turned = |transposed: bool, rows: usize, columns: usize| {
            if transposed { (columns, rows) } else { (rows, columns) }
        };
        let (a, b) = (turned(self.a_transposed, self.m, self.k), turned(self.b_transposed, self.k, self.n));
        let input = self.products.input();
        [
            Stored { name: "A", rows: a.0, columns: a.1, stride: self.a_stride, element: input },
            Stored { name: "B", rows: b.0, columns: b.1, stride: self.b_stride, element: input },
            Stored { name: "C", rows: self.m, columns: self.n, stride: self.c_stride, element: self.output },
        ]
    }

    /// Numbers in the epilogue's vector; None where it has none.
    pub fn vector_len(&self) -> Option<usize> {
        match self.epilogue {
            Epilogue::None => None,
            Epilogue::Bias | Epilogue::ReluBias => Some(self.n),
            Epilogue::BiasGradient => Some(self.m),
        }
    }

    /// Whether it is a product at all, with rows that begin where they must.
    pub(crate) fn check(&self) -> Result<(), CudaError> {
        for stored in self.stored() {
            let Stored { name, rows, columns, stride, element } = stored;
            if rows == 0 || columns == 0 {
                return Err(CudaError::refused(
                    format!("{name} of {self} has {rows} rows of {columns}"),
                    "leave out a product of nothing",
                ));
            }
            if stride < columns {
                return Err(CudaError::refused(
                    format!("{name} of {self} has rows of {columns} elements that begin {stride} apart"),
                    "give a stride that is no less than a row",
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

impl Stored {
    /// Elements from the first to the last.
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
            Products::F32 => "f32",
            Products::Tf32 => "tf32",
            Products::Bf16 => "bf16",
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
    /// Of f32.
    F32(&'a Buffer<f32>),
    /// Of bf16.
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
