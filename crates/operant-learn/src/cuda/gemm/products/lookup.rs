//! Embedding tables on the GEMM path: lookup, and their gradient (`lookup.cu`).

use operant_cuda::{Buffer, CudaError, Device, Function, Program, Stream};

use super::super::layout::{GemmLayout, Layer, Lookup, Operation};
use super::super::math::GemmMath;
use super::GemmMatrix;
use super::backward::Backward;
use crate::LearnError;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};

/// `lookup.cu`: embedding tables.
pub const LOOKUP: KernelText = kernel_text!("gemm_lookup", "gemm/lookup.cu", [GemmLookupParams]);

/// `gemm/lookup.cu` for a network; None without embeddings.
pub fn gemm_lookup_program(gemm_layout: &GemmLayout) -> Option<Program> {
    let defines = gemm_layout.lookup_defines();
    let text = ProgramText { kernel: LOOKUP, name: "its network", environment: None, defines };
    (gemm_layout.indices > 0).then(|| text.program())
}

/// Target number of warps of gemm_lookup_back; an H100 holds up to 8,448 (132 multiprocessors x 64).
const WARPS: usize = 8_192;
/// Maximum indices of a chunk, because the kernel counts them in 32 bits.
const MOST: usize = 1 << 31;

/// Elements of each buffer of a launch.
#[derive(Debug, Clone, Copy)]
struct LookupSizes {
    indices: usize,
    table: usize,
    obs: usize,
    out: usize,
    shares: usize,
}

operant_cuda::params! {
    /// Parameters of the kernels: of `rows` samples, indices are below the table's rows.
    struct GemmLookupParams<'a>(of: LookupSizes) for ["gemm_lookup", "gemm_lookup_back"], blocks usize::MAX, {
        /// (rows, index_row).
        indices: reads [u32; of.indices],
        /// (table_rows, width).
        table: reads [f32; of.table],
        /// (rows, obs_row): inputs that are no indices.
        obs: may_read [f32; of.obs],
        /// (rows, out_row): the outputs; backward their gradient, which is read.
        out: writes [f32; of.out],
        /// (chunks, table_rows, width): partial sums of the table's gradient; used backward.
        shares: may_write [f32; of.shares],
        rows: value [u64],
        index_row: value [u32],
        /// The first of the part's indices in a row.
        first_index: value [u32],
        places: value [u32],
        /// Indices of a place.
        entries: value [u32],
        table_rows: value [u32],
        width: value [u32],
        /// The first number of an output row, and how many are written.
        first: value [u32],
        columns: value [u32],
        /// Inputs that follow the part's outputs.
        passed: value [u32],
        obs_row: value [u32],
        out_row: value [u32],
        chunks: value [u32],
        scale: value [f32],
    }
}

/// The kernels of a network with embeddings.
#[derive(Debug)]
pub struct LookupKernels {
    ahead: Function,
    back: Function,
}

impl LookupKernels {
    /// Loads the kernels; None without embeddings.
    pub fn new(device: &Device, gemm_layout: &GemmLayout) -> Result<Option<Self>, LearnError> {
        let Some(program) = gemm_lookup_program(gemm_layout) else { return Ok(None) };
        let module = device.load(&program)?;
        Ok(Some(Self { ahead: module.function("gemm_lookup")?, back: module.function("gemm_lookup_back")? }))
    }
}

impl Lookup {
    /// Chunks of `rows` samples. Each has its own partial sum of the table's gradient; together they are at least WARPS warps if there are
    /// enough samples.
    fn chunks(&self, rows: usize) -> usize {
        let numbers = rows.saturating_mul(self.places * self.entries);
        WARPS.div_ceil(self.rows).max(numbers.div_ceil(MOST)).clamp(1, rows.max(1))
    }

    /// Elements of all partial sums of the table's gradient.
    fn shares(&self, rows: usize) -> usize {
        self.chunks(rows).saturating_mul(self.rows * self.width)
    }

    /// The parameters and sizes of a launch.
    fn params<'a>(
        &self,
        gemm_layout: &GemmLayout,
        (rows, layer): (usize, &Layer),
        (indices, table, out): (&'a Buffer<u32>, &'a Buffer<f32>, &'a Buffer<f32>),
    ) -> (GemmLookupParams<'a>, LookupSizes) {
        let sizes = LookupSizes {
            indices: rows * gemm_layout.indices,
            table: self.rows * self.width,
            obs: gemm_layout.words(rows * layer.inputs),
            out: gemm_layout.words(rows * layer.outputs),
            shares: self.shares(rows),
        };
        let params = GemmLookupParams {
            indices,
            table,
            obs: None,
            out,
            shares: None,
            rows: rows as u64,
            index_row: gemm_layout.indices as u32,
            first_index: self.first_index as u32,
            places: self.places as u32,
            entries: self.entries as u32,
            table_rows: self.rows as u32,
            width: self.width as u32,
            first: self.first as u32,
            columns: self.columns as u32,
            passed: self.passed as u32,
            obs_row: layer.inputs as u32,
            out_row: layer.outputs as u32,
            chunks: self.chunks(rows) as u32,
            scale: self.scale,
        };
        (params, sizes)
    }

    /// Outputs of the part, and the inputs that pass the layer if they follow it.
    pub(super) fn forward(
        &self,
        stream: &Stream,
        (math, table): (&GemmMath, &Buffer<f32>),
        (gemm_layout, rows, layer): (&GemmLayout, usize, &Layer),
        (indices, obs, out): (&Buffer<u32>, &GemmMatrix, &GemmMatrix),
    ) -> Result<(), LearnError> {
        let (params, sizes) = self.params(gemm_layout, (rows, layer), (indices, table, &out.words));
        let params = GemmLookupParams { obs: Some(&obs.words), ..params };
        Ok(math.lookup().ahead.run(stream, GemmMath::grid(rows * self.columns), &params, &sizes)?)
    }
}

/// Memory for the partial sums of the tables' gradients; None without embeddings.
pub fn lookup_shares(
    allocator: &Allocator,
    gemm_layout: &GemmLayout,
    rows: usize,
) -> Result<Option<Buffer<f32>>, CudaError> {
    let lookups = gemm_layout.chains.iter().flatten().filter_map(|layer| match &layer.operation {
        Operation::Embed(lookups) => Some(lookups),
        _ => None,
    });
    lookups.flatten().map(|lookup| lookup.shares(rows)).max().map(|count| allocator.alloc(count)).transpose()
}

impl Backward {
    /// The gradient of a table, from the gradient of the layer's outputs.
    pub(super) fn lookup(
        &self,
        stream: &Stream,
        (math, table, delta): (&GemmMath, &Buffer<f32>, &GemmMatrix),
        (layer, lookup): (&Layer, &Lookup),
        indices: &Buffer<u32>,
    ) -> Result<(), LearnError> {
        let (gemm_layout, rows) = (&self.gemm_layout, self.rows);
        let (params, sizes) = lookup.params(gemm_layout, (rows, layer), (indices, table, &delta.words));
        let shares = self.memory.lookups.as_ref().expect("memory for shares").part(0..sizes.shares)?;
        let params = GemmLookupParams { shares: Some(&shares), ..params };
        let chunks = lookup.chunks(rows);
        math.lookup().back.run(stream, GemmMath::grid(32 * lookup.rows * chunks), &params, &sizes)?;
        let first = gemm_layout.matrix_elements + lookup.table;
        let gradient = self.memory.gradient.part(first..first + sizes.table)?;
        Ok(math.bias_sums(stream, [chunks, sizes.table], (&shares, true), &gradient)?)
    }
}
