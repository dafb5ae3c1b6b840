//! `math.cu`: element-wise operations between matrix products.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::layout::GemmLayout;
use crate::LearnError;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};

/// `math.cu`: element-wise operations between matrix products.
pub const MATH: KernelText = kernel_text!("gemm_math", "gemm/math.cu", [GemmMathParams]);

/// `gemm/math.cu` for a network.
pub fn gemm_math_program(gemm_layout: &GemmLayout) -> Program {
    let defines = gemm_layout.math_defines();
    ProgramText { kernel: MATH, name: "its network", environment: None, defines }.program()
}

/// Threads of a block.
const THREADS: u32 = 256;
/// Maximum blocks: enough for any device; with more elements each thread takes several.
const MAX_BLOCKS: u32 = 2_048;

/// Elements of each buffer of a launch.
#[derive(Debug, Clone, Copy)]
struct MathSizes {
    input: usize,
    activated: usize,
    columns: usize,
    out: usize,
}

operant_cuda::params! {
    /// Parameters of the kernels: they read and write `rows` x `columns` numbers of each matrix.
    struct GemmMathParams<'a>(of: MathSizes) for ["gemm_activate", "gemm_slope", "gemm_bias_sums"], blocks usize::MAX, {
        input: reads [f32; of.input],
        /// Used by gemm_slope.
        activated: may_read [f32; of.activated],
        /// (columns).
        bias: may_read [f32; of.columns],
        out: writes [f32; of.out],
        rows: value [u64],
        columns: value [u32],
        /// 1: followed by the nonlinearity, and read by products.
        hidden: value [u32],
    }
}

/// The kernels of `math.cu`.
#[derive(Debug)]
pub struct GemmMath {
    activate: Function,
    slope: Function,
    bias_sums: Function,
    gemm_layout: GemmLayout,
}

impl GemmMath {
    /// Loads the kernels for a network.
    ///
    /// # Errors
    /// When the kernels do not compile.
    pub fn new(device: &Device, gemm_layout: &GemmLayout) -> Result<Self, LearnError> {
        let module = device.load(&gemm_math_program(gemm_layout))?;
        Ok(Self {
            activate: module.function("gemm_activate")?,
            slope: module.function("gemm_slope")?,
            bias_sums: module.function("gemm_bias_sums")?,
            gemm_layout: gemm_layout.clone(),
        })
    }

    fn grid(count: usize) -> LaunchConfig {
        let grid = LaunchConfig::covering(count, THREADS);
        LaunchConfig { blocks: grid.blocks.clamp(1, MAX_BLOCKS), ..grid }
    }

    /// `out = activation(input + bias)` of f32 numbers `(rows, columns)`, for the next product to read; of an output layer
    /// (`hidden` false) `input + bias` in f32.
    ///
    /// # Errors
    /// When a buffer is of another length, or the launch fails.
    pub fn activate(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        input: &Buffer<f32>,
        bias: Option<&Buffer<f32>>,
        out: &Buffer<f32>,
        hidden: bool,
    ) -> Result<(), CudaError> {
        let count = rows * columns;
        let written = if hidden { self.gemm_layout.words(count) } else { count };
        let sizes = MathSizes { input: count, activated: 0, columns, out: written };
        let (rows, columns, hidden) = (rows as u64, columns as u32, u32::from(hidden));
        let params = GemmMathParams { input, activated: None, bias, out, rows, columns, hidden };
        self.activate.run(stream, Self::grid(count), &params, &sizes)
    }

    /// `out = input * slope(activated)`: `input` in f32, the others as products read them.
    ///
    /// # Errors
    /// When a buffer is of another length, or the launch fails.
    pub fn slope(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        input: &Buffer<f32>,
        activated: &Buffer<f32>,
        out: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let (count, words) = (rows * columns, self.gemm_layout.words(rows * columns));
        let sizes = MathSizes { input: count, activated: words, columns, out: words };
        let (rows, columns) = (rows as u64, columns as u32);
        let params =
            GemmMathParams { input, activated: Some(activated), bias: None, out, rows, columns, hidden: 1 };
        self.slope.run(stream, Self::grid(count), &params, &sizes)
    }

    /// `out (columns)` = the sums of `input` over its rows.
    ///
    /// # Errors
    /// When a buffer is of another length, or the launch fails.
    pub fn bias_sums(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        input: &Buffer<f32>,
        out: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let sizes =
            MathSizes { input: self.gemm_layout.words(rows * columns), activated: 0, columns, out: columns };
        let grid =
            LaunchConfig { threads: THREADS, shared: 4 * THREADS, ..LaunchConfig::covering(columns, 32) };
        let (rows, columns) = (rows as u64, columns as u32);
        let params = GemmMathParams { input, activated: None, bias: None, out, rows, columns, hidden: 1 };
        self.bias_sums.run(stream, grid, &params, &sizes)
    }
}
