//! A product of random numbers, and its expected result in double precision.

use operant_cuda::{
    Buffer, CudaError, Device, Element, Epilogue, Gemm, GemmShape, InputPrecision, Operand, Stream,
};

/// Random numbers between -1 and 1; every seed has its own.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A matrix in device memory and its elements, (rows, columns) as they are stored.
pub struct Matrix {
    pub buffer: Kind,
    values: Vec<f64>,
    columns: usize,
}

pub enum Kind {
    F32(Buffer<f32>),
    Bf16(Buffer<u16>),
}

impl Kind {
    /// All bytes are 0xff: a NaN in both types.
    pub fn new(device: &Device, stream: &Stream, element: Element, len: usize) -> Self {
        match element {
            Element::F32 => {
                let buffer = device.alloc(len).expect("a buffer");
                buffer.fill(stream, 0xff).expect("filled");
                Kind::F32(buffer)
            }
            Element::Bf16 => {
                let buffer = device.alloc(len).expect("a buffer");
                buffer.fill(stream, 0xff).expect("filled");
                Kind::Bf16(buffer)
            }
        }
    }

    pub fn operand(&self) -> Operand<'_> {
        match self {
            Kind::F32(buffer) => buffer.into(),
            Kind::Bf16(buffer) => buffer.into(),
        }
    }

    pub fn bits(&self, stream: &Stream) -> Vec<u32> {
        match self {
            Kind::F32(buffer) => {
                buffer.read(stream).expect("read").iter().map(|value| value.to_bits()).collect()
            }
            Kind::Bf16(buffer) => {
                buffer.read(stream).expect("read").iter().map(|bits| u32::from(*bits) << 16).collect()
            }
        }
    }
}

impl Matrix {
    /// Numbers drawn, with NaN between a row's last element and the next row.
    fn drawn(
        device: &Device,
        stream: &Stream,
        element: Element,
        (rows, columns, stride): (usize, usize, usize),
        draw: &mut Draw,
    ) -> Self {
        let mut all = vec![f32::NAN; (rows - 1) * stride + columns];
        let mut values = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                let mut value = draw.next();
                if element == Element::Bf16 {
                    value = from_bf16(to_bf16(value));
                }
                all[row * stride + column] = value;
                values.push(f64::from(value));
            }
        }
        let buffer = Kind::new(device, stream, element, all.len());
        match &buffer {
            Kind::F32(buffer) => buffer.write(stream, &all).expect("written"),
            Kind::Bf16(buffer) => {
                let bits: Vec<u16> = all.iter().map(|value| to_bf16(*value)).collect();
                buffer.write(stream, &bits).expect("written");
            }
        }
        Matrix { buffer, values, columns }
    }

    /// An element of op(matrix).
    fn at(&self, transposed: bool, row: usize, column: usize) -> f64 {
        let (row, column) = if transposed { (column, row) } else { (row, column) };
        self.values[row * self.columns + column]
    }
}

/// A product, its operands and its vector.
pub struct Case {
    pub shape: GemmShape,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Kind,
    pub vector: Option<Buffer<f32>>,
    pub added: Vec<f32>,
}

impl Case {
    pub fn new(device: &Device, stream: &Stream, shape: GemmShape) -> Self {
        let GemmShape { m, n, k, .. } = shape;
        let mut draw = Draw((m * 7919 + n * 104_729 + k) as u64);
        let input = shape.products.input();
        let (a, b) = (
            if shape.a_transposed { (k, m) } else { (m, k) },
            if shape.b_transposed { (n, k) } else { (k, n) },
        );
        let a = Matrix::drawn(device, stream, input, (a.0, a.1, shape.a_stride), &mut draw);
        let b = Matrix::drawn(device, stream, input, (b.0, b.1, shape.b_stride), &mut draw);
        let c = Kind::new(device, stream, shape.output, (m - 1) * shape.c_stride + n);
        let added: Vec<f32> = (0..n).map(|_| draw.next()).collect();
        let vector = shape.vector_len().map(|len| {
            let vector = device.alloc(len).expect("a buffer");
            match shape.epilogue {
                Epilogue::BiasGradient => vector.fill(stream, 0xff).expect("filled"),
                _ => vector.write(stream, &added).expect("written"),
            }
            vector
        });
        Case { shape, a, b, c, vector, added }
    }

    pub fn launch(&self, gemm: &Gemm, stream: &Stream) -> Result<(), CudaError> {
        gemm.launch(
            stream,
            self.a.buffer.operand(),
            self.b.buffer.operand(),
            self.c.operand(),
            self.vector.as_ref(),
        )
    }

    /// C in double precision, and the sums of op(A)'s rows.
    pub fn expected(&self) -> (Vec<f64>, Vec<f64>) {
        let GemmShape { m, n, k, a_transposed, b_transposed, epilogue, .. } = self.shape;
        let mut c = Vec::new();
        for row in 0..m {
            for column in 0..n {
                let products =
                    (0..k).map(|i| self.a.at(a_transposed, row, i) * self.b.at(b_transposed, i, column));
                let sum: f64 = products.sum();
                let added = f64::from(self.added[column]);
                c.push(match epilogue {
                    Epilogue::None | Epilogue::BiasGradient => sum,
                    Epilogue::Bias => sum + added,
                    Epilogue::ReluBias => (sum + added).max(0.0),
                });
            }
        }
        let sums = (0..m).map(|row| (0..k).map(|i| self.a.at(a_transposed, row, i)).sum()).collect();
        (c, sums)
    }

    pub fn check(&self, stream: &Stream) {
        let GemmShape { m, n, c_stride, products, output, epilogue, .. } = self.shape;
        let (expected, sums) = self.expected();
        let bits = self.c.bits(stream);
        let mut given = Vec::new();
        for row in 0..m {
            let row_bits = &bits[row * c_stride..];
            given.extend(row_bits[..n].iter().map(|bits| f64::from(f32::from_bits(*bits))));
            let padding = &row_bits[n..row_bits.len().min(c_stride)];
            let untouched = if output == Element::F32 { u32::MAX } else { 0xffff_0000 };
            assert!(padding.iter().all(|bits| *bits == untouched), "between rows of {}", self.shape);
        }
        let limit = match (products, output) {
            (_, Element::Bf16) => 4e-3,
            (InputPrecision::Tf32, _) => 1e-3,
            _ => 1e-5,
        };
        near(&given, &expected, limit, &self.shape.to_string());
        if epilogue == Epilogue::BiasGradient {
            let vector = self.vector.as_ref().expect("a vector").read(stream).expect("read");
            let vector: Vec<f64> = vector.into_iter().map(f64::from).collect();
            near(&vector, &sums, 1e-5, &format!("the vector of {}", self.shape));
        }
    }
}

/// The norm of the difference, relative to the norm of the sums of absolute values.
#[track_caller]
pub fn near(given: &[f64], expected: &[f64], limit: f64, what: &str) {
    assert_eq!(given.len(), expected.len(), "{what}");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let off = norm(&mut given.iter().zip(expected).map(|(given, expected)| given - expected));
    let all = norm(&mut expected.iter().copied()).max(1e-3);
    assert!(off <= limit * all, "{what}: {off} of {all}");
}

pub const EPILOGUES: [Epilogue; 4] =
    [Epilogue::None, Epilogue::Bias, Epilogue::ReluBias, Epilogue::BiasGradient];

/// A shape whose rows are as close as they may be, and `more` elements (a multiple of 8) further apart.
pub fn shape(
    (m, n, k): (usize, usize, usize),
    products: InputPrecision,
    output: Element,
    more: usize,
) -> GemmShape {
    let stride = |columns: usize| columns.next_multiple_of(8) + more;
    GemmShape {
        m,
        n,
        k,
        a_transposed: false,
        b_transposed: false,
        a_stride: stride(k),
        b_stride: stride(n),
        c_stride: stride(n),
        products,
        output,
        epilogue: Epilogue::None,
    }
}

pub fn transposed(shape: GemmShape, a: bool, b: bool) -> GemmShape {
    let more = shape.c_stride - shape.n.next_multiple_of(8);
    let stride = |columns: usize| columns.next_multiple_of(8) + more;
    GemmShape {
        a_transposed: a,
        b_transposed: b,
        a_stride: stride(if a { shape.m } else { shape.k }),
        b_stride: stride(if b { shape.k } else { shape.n }),
        ..shape
    }
}
