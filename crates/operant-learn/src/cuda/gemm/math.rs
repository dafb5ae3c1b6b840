//! `math.cu`: element-wise operations between matrix products.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::layout::{GemmLayout, Norm, PAD};
use super::maps::Map;
use super::products::{CellKernels, LookupKernels};
use crate::LearnError;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Pointer;

/// `math.cu`: element-wise operations between matrix products.
pub const MATH: KernelText = kernel_text!(
    "gemm_math",
    "gemm/math.cu",
    [GemmMathParams, GemmMapParams, GemmNormParams, GemmPointerParams]
);

/// `gemm/math.cu` for a network.
pub fn gemm_math_program(gemm_layout: &GemmLayout) -> Program {
    let defines = gemm_layout.math_defines();
    ProgramText { kernel: MATH, name: "its network", environment: None, defines }.program()
}

/// Threads of a block.
const THREADS: u32 = 256;
/// Maximum blocks: enough for any device; with more elements each thread takes several.
const MAX_GRID_BLOCKS: u32 = 2_048;

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
        /// (rows, columns): the same.
        added: may_read [f32; of.input],
        /// (rows, columns), as products read them: added by gemm_activate.
        skipped: may_read [f32; of.activated],
        /// (columns).
        bias: may_read [f32; of.columns],
        out: writes [f32; of.out],
        rows: value [u64],
        columns: value [u32],
        /// 1: followed by the nonlinearity, and read by products.
        hidden: value [u32],
        /// Columns with a nonlinearity.
        active: value [u32],
        /// 1: gemm_bias_sums reads f32.
        wide: value [u32],
    }
}

impl<'a> GemmMathParams<'a> {
    fn of(input: &'a Buffer<f32>, out: &'a Buffer<f32>, [rows, columns]: [usize; 2]) -> Self {
        let (rows, columns, hidden) = (rows as u64, columns as u32, 1);
        Self {
            input,
            activated: None,
            added: None,
            skipped: None,
            bias: None,
            out,
            rows,
            columns,
            hidden,
            active: 0,
            wide: 0,
        }
    }
}

/// Elements of each buffer of a launch that follows a map.
#[derive(Debug, Clone, Copy)]
struct MapSizes {
    columns: usize,
    uses: usize,
    input: usize,
    second: usize,
    bias: usize,
    out: usize,
}

operant_cuda::params! {
    /// Parameters of gemm_map: for each of `rows` rows it reads the numbers that the tables name, and writes `columns` numbers of `out`.
    struct GemmMapParams<'a>(of: MapSizes) for ["gemm_map"], blocks usize::MAX, {
        /// (columns + 1).
        starts: reads [u32; of.columns + 1],
        uses: reads [u32; of.uses],
        /// (columns).
        others: reads [u32; of.columns],
        /// (rows, input_row): as products read it, or f32.
        input: reads [f32; of.input],
        /// (rows, second_row).
        second: may_read [f32; of.second],
        bias: may_read [f32; of.bias],
        /// (rows, out_row): backward, what the slopes are of.
        activated: may_read [f32; of.out],
        /// (rows, out_row).
        out: writes [f32; of.out],
        rows: value [u64],
        columns: value [u32],
        input_row: value [u32],
        second_row: value [u32],
        out_row: value [u32],
        active: value [u32],
        /// 1: the input is f32.
        wide_input: value [u32],
    }
}

/// Elements of each buffer of a launch that normalises.
#[derive(Debug, Clone, Copy)]
struct NormSizes {
    numbers: usize,
    width: usize,
    shares: usize,
}

operant_cuda::params! {
    /// Parameters of the normalisation of `rows` x `items` items, one warp per item.
    struct GemmNormParams<'a>(of: NormSizes) for ["gemm_norm", "gemm_norm_back"], blocks usize::MAX, {
        /// (rows, row).
        input: reads [f32; of.numbers],
        /// (rows, row): used backward.
        delta: may_read [f32; of.numbers],
        /// (width).
        weight: reads [f32; of.width],
        bias: reads [f32; of.width],
        /// (rows, row).
        out: writes [f32; of.numbers],
        /// (rows x items, share_row): used backward.
        weight_shares: may_write [f32; of.shares],
        bias_shares: may_write [f32; of.shares],
        /// (rows, row): added to the gradient of the input.
        added: may_read [f32; of.numbers],
        rows: value [u64],
        items: value [u32],
        width: value [u32],
        row: value [u32],
        share_row: value [u32],
        /// 1: followed by the nonlinearity.
        hidden: value [u32],
    }
}

/// A step of a normalisation.
#[derive(Debug, Clone, Copy)]
pub enum NormStep<'a> {
    Forward {
        /// Whether the nonlinearity follows.
        hidden: bool,
    },
    Backward {
        /// (rows, row): the gradient of what it makes, before the nonlinearity.
        delta: &'a Buffer<f32>,
        /// (rows x items, share_row): an item's share of the gradients of weights and of biases.
        shares: [&'a Buffer<f32>; 2],
        /// (rows, row): the gradient of its inputs along a skip connection.
        added: Option<&'a Buffer<f32>>,
    },
}

/// Elements of each buffer of a launch of a pointer head.
#[derive(Debug, Clone, Copy)]
struct PointerSizes {
    items: usize,
    query: usize,
    scores: usize,
    delta: usize,
    state: usize,
    out: usize,
}

operant_cuda::params! {
    /// Parameters of a pointer head over `rows` rows of items.
    struct GemmPointerParams<'a>(of: PointerSizes) for ["gemm_scores", "gemm_query_back", "gemm_items_back"], blocks usize::MAX, {
        /// (rows, row): features of items.
        input: reads [f32; of.items],
        /// (rows, query_row): the query, and the value.
        query: reads [f32; of.query],
        /// (rows, out_row): forward, what is made.
        scores: may_write [f32; of.scores],
        /// (rows, out_row): backward, their gradient.
        delta: may_read [f32; of.delta],
        /// (rows, state_row): the gradient of the state's features.
        of_state: may_read [f32; of.state],
        /// Backward, what is made.
        out: may_write [f32; of.out],
        rows: value [u64],
        choices: value [u32],
        values: value [u32],
        width: value [u32],
        row: value [u32],
        query_row: value [u32],
        state_row: value [u32],
        out_row: value [u32],
        active: value [u32],
        scale: value [f32],
    }
}

/// A map's tables on the device.
#[derive(Debug)]
pub struct MapTables {
    starts: Buffer<u32>,
    uses: Buffer<u32>,
    others: Buffer<u32>,
}

impl MapTables {
    /// Memory for them; [`MapTables::write`] sets it.
    pub fn new(allocator: &Allocator, map: &Map) -> Result<Self, CudaError> {
        Ok(Self {
            starts: allocator.alloc(map.starts.len())?,
            uses: allocator.alloc(map.uses.len())?,
            others: allocator.alloc(map.others.len())?,
        })
    }

    /// Copies the tables of the same map.
    pub fn write(&self, stream: &Stream, map: &Map) -> Result<(), CudaError> {
        self.starts.write(stream, &map.starts)?;
        self.uses.write(stream, &map.uses)?;
        self.others.write(stream, &map.others)
    }
}

/// Rows of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    pub words: &'a Buffer<f32>,
    /// Numbers of a row.
    pub width: usize,
    /// Whether they are f32, and not what products read.
    pub wide: bool,
}

/// A step of a pointer head.
#[derive(Debug, Clone, Copy)]
pub struct Score<'a> {
    pub rows: usize,
    pub pointer: &'a Pointer,
    /// Features of items, as products read them.
    pub items: Rows<'a>,
    /// The query and the value, in f32.
    pub query: Rows<'a>,
    pub step: ScoreStep<'a>,
    /// Numbers of a row of scores.
    pub out_row: usize,
}

/// What a step of a pointer head makes.
#[derive(Debug, Clone, Copy)]
pub enum ScoreStep<'a> {
    /// Scores and value, in f32.
    Forward { scores: &'a Buffer<f32> },
    /// The gradient of the query, from the gradients of the scores and the value.
    Query { delta: &'a Buffer<f32>, out: &'a Buffer<f32> },
    /// The gradient of the items, from the gradients of the scores, the value and (in f32) the state's features.
    Items { delta: &'a Buffer<f32>, of_state: &'a Buffer<f32>, out: Rows<'a>, active: usize },
}

/// The inputs and outputs of a map, with the field names of the kernel's parameters.
#[derive(Debug, Clone, Copy)]
pub struct Follow<'a> {
    pub rows: usize,
    pub input: Rows<'a>,
    pub second: Option<Rows<'a>>,
    pub bias: Option<&'a Buffer<f32>>,
    pub activated: Option<&'a Buffer<f32>>,
    /// What products read.
    pub out: Rows<'a>,
    pub active: usize,
}

/// The kernels of `math.cu`.
#[derive(Debug)]
pub struct GemmMath {
    activate: Function,
    slope: Function,
    bias_sums: Function,
    map: Function,
    norms: [Function; 2],
    pointers: [Function; 3],
    /// For networks with memory.
    cells: Option<CellKernels>,
    /// For networks with embeddings.
    lookup: Option<LookupKernels>,
    gemm_layout: GemmLayout,
}

impl GemmMath {
    /// Loads the kernels for a network.
    pub fn new(device: &Device, gemm_layout: &GemmLayout) -> Result<Self, LearnError> {
        let module = device.load(&gemm_math_program(gemm_layout))?;
        Ok(Self {
            activate: module.function("gemm_activate")?,
            slope: module.function("gemm_slope")?,
            bias_sums: module.function("gemm_bias_sums")?,
            map: module.function("gemm_map")?,
            norms: [module.function("gemm_norm")?, module.function("gemm_norm_back")?],
            pointers: [
                module.function("gemm_scores")?,
                module.function("gemm_query_back")?,
                module.function("gemm_items_back")?,
            ],
            cells: CellKernels::new(device, gemm_layout)?,
            lookup: LookupKernels::new(device, gemm_layout)?,
            gemm_layout: gemm_layout.clone(),
        })
    }

    /// The kernels of layers with memory.
    pub(super) fn cells(&self) -> &CellKernels {
        self.cells.as_ref().expect("a network with memory loads them")
    }

    /// The kernels of embeddings.
    pub(super) fn lookup(&self) -> &LookupKernels {
        self.lookup.as_ref().expect("a network with embeddings loads them")
    }

    pub(super) fn grid(count: usize) -> LaunchConfig {
        let grid = LaunchConfig::covering(count, THREADS);
        LaunchConfig { blocks: grid.blocks.clamp(1, MAX_GRID_BLOCKS), ..grid }
    }

    /// `out = activation(input + bias + skipped)` of f32 numbers `(rows, columns)`, for the next product to read, with the nonlinearity in
    /// the first `active` columns; for an output layer (None) it is `input + bias` in f32. `skipped`, of a skip connection, is in the
    /// element type of products.
    pub fn activate(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        (input, skipped): (&Buffer<f32>, Option<&Buffer<f32>>),
        bias: Option<&Buffer<f32>>,
        out: &Buffer<f32>,
        active: Option<usize>,
    ) -> Result<(), CudaError> {
        let (count, words) = (rows * columns, self.gemm_layout.words(rows * columns));
        let written = if active.is_some() { words } else { count };
        let sizes = MathSizes { input: count, activated: words, columns, out: written };
        let params = GemmMathParams {
            bias,
            skipped,
            hidden: u32::from(active.is_some()),
            active: active.unwrap_or(0) as u32,
            ..GemmMathParams::of(input, out, [rows, columns])
        };
        self.activate.run(stream, Self::grid(count), &params, &sizes)
    }

    /// `out = (input + added) * slope(activated)` in the first `active` columns, else `input + added`: `input` and `added` in f32, the others in
    /// the element type of products.
    pub fn slope(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        (input, added): (&Buffer<f32>, Option<&Buffer<f32>>),
        (activated, active): (&Buffer<f32>, usize),
        out: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let (count, words) = (rows * columns, self.gemm_layout.words(rows * columns));
        let sizes = MathSizes { input: count, activated: words, columns, out: words };
        let params = GemmMathParams {
            activated: Some(activated),
            added,
            active: active as u32,
            ..GemmMathParams::of(input, out, [rows, columns])
        };
        self.slope.run(stream, Self::grid(count), &params, &sizes)
    }

    /// `out (columns)` = the sums of `input` over its rows; the input as products read it, or f32 if `wide`.
    pub fn bias_sums(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        (input, wide): (&Buffer<f32>, bool),
        out: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let count = rows * columns;
        let read = if wide { count } else { self.gemm_layout.words(count) };
        let sizes = MathSizes { input: read, activated: 0, columns, out: columns };
        let grid =
            LaunchConfig { threads: THREADS, shared: 4 * THREADS, ..LaunchConfig::covering(columns, 32) };
        let params =
            GemmMathParams { wide: u32::from(wide), ..GemmMathParams::of(input, out, [rows, columns]) };
        self.bias_sums.run(stream, grid, &params, &sizes)
    }

    /// Normalises the items of `rows` rows, or computes the gradient of the input, and partial gradients of weights and biases.
    pub fn norm(
        &self,
        stream: &Stream,
        norm: &Norm,
        [rows, row]: [usize; 2],
        (input, [weight, bias], out): (&Buffer<f32>, [&Buffer<f32>; 2], &Buffer<f32>),
        step: NormStep<'_>,
    ) -> Result<(), CudaError> {
        let (hidden, delta, shares, added) = match step {
            NormStep::Forward { hidden } => (hidden, None, None, None),
            NormStep::Backward { delta, shares, added } => (false, Some(delta), Some(shares), added),
        };
        let items = rows * norm.items;
        let sizes = NormSizes {
            numbers: self.gemm_layout.words(rows * row),
            width: norm.width,
            shares: items * norm.share(),
        };
        let params = GemmNormParams {
            input,
            delta,
            weight,
            bias,
            out,
            weight_shares: shares.map(|[of_weight, _]| of_weight),
            bias_shares: shares.map(|[_, of_bias]| of_bias),
            added,
            rows: rows as u64,
            items: norm.items as u32,
            width: norm.width as u32,
            row: row as u32,
            share_row: norm.share() as u32,
            hidden: u32::from(hidden),
        };
        let function = &self.norms[usize::from(delta.is_some())];
        function.run(stream, Self::grid(32 * items), &params, &sizes)
    }

    /// One of the kernels of a pointer head: scores, or gradients of the query or of the items.
    pub fn pointer(&self, stream: &Stream, of: Score<'_>) -> Result<(), CudaError> {
        let Score { rows, pointer, items, query, step, out_row } = of;
        let words = |count| self.gemm_layout.words(count);
        let (scores, delta, of_state, out, active) = match step {
            ScoreStep::Forward { scores } => (Some(scores), None, None, None, 0),
            ScoreStep::Query { delta, out } => (None, Some(delta), None, Some(out), 0),
            ScoreStep::Items { delta, of_state, out, active } => {
                (None, Some(delta), Some(of_state), Some(out.words), active)
            }
        };
        let (number, width) = match step {
            ScoreStep::Forward { .. } => (0, out_row),
            ScoreStep::Query { .. } => (1, query.width),
            ScoreStep::Items { .. } => (2, items.width),
        };
        let state_row = pointer.width.next_multiple_of(PAD);
        let sizes = PointerSizes {
            items: words(rows * items.width),
            query: rows * query.width,
            scores: rows * out_row,
            delta: words(rows * out_row),
            state: rows * state_row,
            out: words(rows * width),
        };
        let params = GemmPointerParams {
            input: items.words,
            query: query.words,
            scores,
            delta,
            of_state,
            out,
            rows: rows as u64,
            choices: pointer.choices as u32,
            values: u32::from(pointer.value),
            width: pointer.width as u32,
            row: items.width as u32,
            query_row: query.width as u32,
            state_row: state_row as u32,
            out_row: out_row as u32,
            active: active as u32,
            scale: pointer.scale(),
        };
        self.pointers[number].run(stream, Self::grid(rows * width), &params, &sizes)
    }

    /// Follows a map of `columns` columns.
    pub fn map(&self, stream: &Stream, tables: &MapTables, of: Follow<'_>) -> Result<(), CudaError> {
        let columns = tables.others.len();
        let words = |rows: Rows<'_>| {
            let count = of.rows * rows.width;
            if rows.wide { count } else { self.gemm_layout.words(count) }
        };
        let sizes = MapSizes {
            columns,
            uses: tables.uses.len(),
            input: words(of.input),
            second: of.second.map_or(0, words),
            bias: of.bias.map_or(0, Buffer::len),
            out: words(of.out),
        };
        let params = GemmMapParams {
            starts: &tables.starts,
            uses: &tables.uses,
            others: &tables.others,
            input: of.input.words,
            second: of.second.map(|rows| rows.words),
            bias: of.bias,
            activated: of.activated,
            out: of.out.words,
            rows: of.rows as u64,
            columns: columns as u32,
            input_row: of.input.width as u32,
            second_row: of.second.map_or(0, |rows| rows.width as u32),
            out_row: of.out.width as u32,
            active: of.active as u32,
            wide_input: u32::from(of.input.wide),
        };
        self.map.run(stream, Self::grid(of.rows * columns), &params, &sizes)
    }
}
