//! Layers with memory on the GEMM path: a product of all rows with the inputs, the gates' arithmetic (`cells.cu`), and, where the gates see
//! the state, a product of the state at every step.

use operant_cuda::{Buffer, CudaError, Device, Function, Operand, Program, Stream};

use super::super::layout::{CellProducts, Extent, GemmLayout, Layer, Operation};
use super::super::math::GemmMath;
use super::backward::{Backward, BackwardProduct};
use super::{Forward, ForwardLayer, GemmMatrix, Weights};
use crate::LearnError;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Cell;

/// `cells.cu`: the gates' arithmetic.
pub const CELLS: KernelText = kernel_text!("gemm_cells", "gemm/cells.cu", [GemmCellParams]);

/// `gemm/cells.cu` for a network; None without memory.
pub fn gemm_cells_program(gemm_layout: &GemmLayout) -> Option<Program> {
    let cell = gemm_layout.cell?;
    let defines = gemm_layout.cell_defines(cell);
    Some(ProgramText { kernel: CELLS, name: cell.name(), environment: None, defines }.program())
}

/// Elements of each buffer of a launch.
#[derive(Debug, Clone, Copy)]
struct CellSizes {
    /// Numbers of all rows' gates and inputs.
    gates: usize,
    inputs: usize,
    /// Words of these and of the outputs, as products read them.
    gate_words: usize,
    input_words: usize,
    output_words: usize,
    /// Numbers of all rows' state, and of one step's.
    after: usize,
    initial: usize,
    /// All rows.
    rows: usize,
    /// Numbers of one step's outputs, and of the state of one layer.
    back: usize,
    carried: usize,
}

operant_cuda::params! {
    /// Parameters of the kernels: threads stay below S sequences of `width` units, and within `length` steps.
    struct GemmCellParams<'a>(of: CellSizes) for ["gemm_see", "gemm_cell", "gemm_cell_back"], blocks usize::MAX, {
        /// (length, S, gate_row): what the inputs add to the gates; after gemm_cell, the gates.
        gates: writes [f32; of.gates],
        /// (length, S, gate_row): what the state adds to them; None for mingru.
        of_state: may_read [f32; of.gates],
        /// (length, S, input_row).
        input: reads [f32; of.input_words],
        /// (S, states): the state before the first step.
        initial: reads [f32; of.initial],
        /// (length, S, states): the state after each step; zero where the next one begins an episode.
        after: writes [f32; of.after],
        /// (length, S): 0 where a step begins an episode; None for one step.
        keep: may_read [f32; of.rows],
        /// (length, S, out_row): the outputs.
        out: may_write [f32; of.output_words],
        /// (length, S, out_row): h before each step, as products read it; None for mingru.
        seen: may_write [f32; of.output_words],
        /// (length, S, out_row): the gradient of the outputs; used backward, as all below.
        delta: may_read [f32; of.output_words],
        /// (length, S, gate_row): the gradient of what the inputs add to the gates.
        d_gates: may_write [f32; of.gate_words],
        /// (length, S, gate_row): of what the state adds to them, for gru; for lstm it is the same.
        d_of_state: may_write [f32; of.gate_words],
        /// (S, states of the layer): the gradient of the state between two launches.
        d_state: may_write [f32; of.carried],
        /// (S, out_row): the contribution of the next step's gates to the gradient of h.
        back: may_read [f32; of.back],
        /// (length, S, input_row): the gradient of inputs that the highway gate lets through, for mingru.
        through: may_write [f32; of.inputs],
        /// S.
        sequences: value [u64],
        width: value [u32],
        states: value [u32],
        /// The first number of the layer's state.
        state: value [u32],
        gate_row: value [u32],
        input_row: value [u32],
        out_row: value [u32],
        length: value [u32],
        first: value [u32],
        steps: value [u32],
    }
}

/// The kernels of a network with memory.
#[derive(Debug)]
pub struct CellKernels {
    see: Function,
    step: Function,
    back: Function,
}

impl CellKernels {
    /// Loads the kernels; None without memory.
    pub fn new(device: &Device, gemm_layout: &GemmLayout) -> Result<Option<Self>, LearnError> {
        let Some(program) = gemm_cells_program(gemm_layout) else { return Ok(None) };
        let module = device.load(&program)?;
        Ok(Some(Self {
            see: module.function("gemm_see")?,
            step: module.function("gemm_cell")?,
            back: module.function("gemm_cell_back")?,
        }))
    }
}

/// What sequences begin with.
#[derive(Debug, Clone, Copy)]
pub struct Recall<'a> {
    /// (S, states): the state before the first step.
    pub initial: &'a Buffer<f32>,
    /// (L, S): 0 where a step begins an episode; None for one step.
    pub keep: Option<&'a Buffer<f32>>,
}

/// What a layer keeps of a forward pass for its gradient.
#[derive(Debug)]
pub struct CellMemory {
    gates: Buffer<f32>,
    /// What the state adds to the gates, and h before each step.
    of_state: Option<(Buffer<f32>, GemmMatrix)>,
}

impl CellMemory {
    pub fn new(
        allocator: &Allocator,
        gemm_layout: &GemmLayout,
        cell: &CellProducts,
        rows: usize,
    ) -> Result<Self, CudaError> {
        let gates = || allocator.alloc(rows.saturating_mul(cell.of_inputs.outputs));
        let seen = |inputs: usize| GemmMatrix::new(allocator, gemm_layout, rows.saturating_mul(inputs));
        let of_state = cell.of_state.map(|product| Ok((gates()?, seen(product.inputs)?)));
        Ok(Self { gates: gates()?, of_state: of_state.transpose()? })
    }
}

/// Memory of the gradient of layers with memory, which differ only in the inputs of the first.
#[derive(Debug)]
pub struct CellBack {
    /// (L, S, gate_row): as [`GemmCellParams`] has them.
    d_gates: GemmMatrix,
    d_of_state: Option<GemmMatrix>,
    /// The gradient of the state between two steps, and what a product adds to it.
    carried: Option<[Buffer<f32>; 2]>,
    through: Option<Buffer<f32>>,
    /// f32 gradients of the inputs.
    sums: Buffer<f32>,
}

impl CellBack {
    /// None without memory.
    pub fn new(
        allocator: &Allocator,
        gemm_layout: &GemmLayout,
        extent: Extent,
    ) -> Result<Option<Self>, CudaError> {
        let layers = || {
            gemm_layout.chains.iter().flatten().filter_map(|layer| match &layer.operation {
                Operation::Cell(cell) => Some((layer, cell)),
                _ => None,
            })
        };
        let Some((layer, cell)) = layers().next() else { return Ok(None) };
        let (rows, kind) = (extent.rows(), cell.spec.cell);
        let inputs = layers().map(|(layer, _)| layer.inputs).max().unwrap_or(0);
        let gates = || GemmMatrix::new(allocator, gemm_layout, rows.saturating_mul(cell.of_inputs.outputs));
        let of_sequences = |count: usize| allocator.alloc(extent.sequences.saturating_mul(count));
        let of_inputs = || allocator.alloc(rows.saturating_mul(inputs));
        let carried = || Ok([of_sequences(cell.spec.states().len())?, of_sequences(layer.outputs)?]);
        Ok(Some(Self {
            d_gates: gates()?,
            d_of_state: if kind == Cell::Gru { Some(gates()?) } else { None },
            carried: if kind.sees_state() { Some(carried()?) } else { None },
            through: if kind.sees_state() { None } else { Some(of_inputs()?) },
            sums: of_inputs()?,
        }))
    }
}

/// A launch's parameters except the steps, and the sizes of its buffers.
fn params<'a>(
    gemm_layout: &GemmLayout,
    (extent, layer, cell): (Extent, &Layer, &CellProducts),
    (memory, recall): (&'a CellMemory, Recall<'a>),
    (input, after): (&'a Buffer<f32>, &'a Buffer<f32>),
) -> (GemmCellParams<'a>, CellSizes) {
    let (rows, spec) = (extent.rows(), &cell.spec);
    let gate_row = cell.of_inputs.outputs;
    let [gates, inputs, outputs] = [gate_row, layer.inputs, layer.outputs].map(|row| rows * row);
    let words = |count| gemm_layout.words(count);
    let sizes = CellSizes {
        gates,
        inputs,
        gate_words: words(gates),
        input_words: words(inputs),
        output_words: words(outputs),
        after: rows * gemm_layout.states,
        initial: extent.sequences * gemm_layout.states,
        rows,
        back: extent.sequences * layer.outputs,
        carried: extent.sequences * spec.states().len(),
    };
    let params = GemmCellParams {
        gates: &memory.gates,
        of_state: memory.of_state.as_ref().map(|(of_state, _)| of_state),
        input,
        initial: recall.initial,
        after,
        keep: recall.keep,
        out: None,
        seen: None,
        delta: None,
        d_gates: None,
        d_of_state: None,
        d_state: None,
        back: None,
        through: None,
        sequences: extent.sequences as u64,
        width: spec.width as u32,
        states: gemm_layout.states as u32,
        state: spec.state as u32,
        gate_row: gate_row as u32,
        input_row: layer.inputs as u32,
        out_row: layer.outputs as u32,
        length: extent.steps as u32,
        first: 0,
        steps: extent.steps as u32,
    };
    (params, sizes)
}

impl GemmMatrix {
    /// Rows of step `step`, `count` numbers each step.
    fn step(&self, gemm_layout: &GemmLayout, step: usize, count: usize) -> Result<Self, CudaError> {
        Self::of(
            self.words.part(gemm_layout.words(step * count)..gemm_layout.words((step + 1) * count))?,
            gemm_layout,
        )
    }
}

impl Forward {
    /// Outputs and states of a layer with memory.
    pub(super) fn cell(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        input: &GemmMatrix,
        (step, cell): (&ForwardLayer, &CellProducts),
        (memory, recall): (&CellMemory, Recall<'_>),
        out: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let (gemm_layout, extent, layer) = (&self.gemm_layout, self.extent, &step.layer);
        let kernels = math.cells();
        let of_inputs = (&cell.of_inputs, &step.products[0], self.rows);
        self.sums(stream, (math, weights), input, of_inputs, &memory.gates)?;
        let after = self.memory.after.as_ref().expect("memory for states");
        let (params, sizes) =
            params(gemm_layout, (extent, layer, cell), (memory, recall), (&input.words, after));
        let seen = memory.of_state.as_ref().map(|(_, seen)| &seen.words);
        let params = GemmCellParams { out: Some(&out.words), seen, ..params };
        let grid = GemmMath::grid(extent.sequences * cell.spec.width);
        let (Some(product), Some((of_state, seen))) = (&cell.of_state, &memory.of_state) else {
            return Ok(kernels.step.run(stream, grid, &params, &sizes)?);
        };
        kernels.see.run(stream, GemmMath::grid(sizes.back), &params, &sizes)?;
        let gates = extent.sequences * product.outputs;
        for t in 0..extent.steps {
            let (seen, sums) =
                (seen.step(gemm_layout, t, sizes.back)?, of_state.part(t * gates..(t + 1) * gates)?);
            let planned = (product, &step.products[1], extent.sequences);
            self.sums(stream, (math, weights), &seen, planned, &sums)?;
            let params = GemmCellParams { first: t as u32, steps: 1, ..params };
            kernels.step.run(stream, grid, &params, &sizes)?;
        }
        Ok(())
    }
}

impl Backward {
    /// Gradients of a layer with memory, through time.
    pub(super) fn cell(
        &self,
        stream: &Stream,
        (math, weights, delta, input): (&GemmMath, &Weights, &GemmMatrix, &GemmMatrix),
        (layer, cell, planned): (&Layer, &CellProducts, &[BackwardProduct]),
        ((memory, after), recall): ((&CellMemory, &Buffer<f32>), Recall<'_>),
        active: usize,
        next: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let (gemm_layout, extent) = (&self.gemm_layout, self.extent);
        let own = self.memory.cells.as_ref().expect("memory for gates");
        let (params, sizes) =
            params(gemm_layout, (extent, layer, cell), (memory, recall), (&input.words, after));
        let d_gates = own.d_gates.first(gemm_layout, sizes.gates)?;
        let d_of_state =
            own.d_of_state.as_ref().map(|of_state| of_state.first(gemm_layout, sizes.gates)).transpose()?;
        let through = own.through.as_ref().map(|through| through.part(0..sizes.inputs)).transpose()?;
        let params = GemmCellParams {
            delta: Some(&delta.words),
            d_gates: Some(&d_gates.words),
            d_of_state: d_of_state.as_ref().map(|of_state| &of_state.words),
            d_state: own.carried.as_ref().map(|[carried, _]| carried),
            back: own.carried.as_ref().map(|[_, back]| back),
            through: through.as_ref(),
            ..params
        };
        let (kernel, grid) = (&math.cells().back, GemmMath::grid(extent.sequences * cell.spec.width));
        if let (Some(product), Some([_, back]), Some((_, seen))) =
            (&cell.of_state, &own.carried, &memory.of_state)
        {
            let of_state = d_of_state.as_ref().unwrap_or(&d_gates);
            let matrix = weights.matrix(gemm_layout, product)?;
            let gemm = planned[1].inputs.as_ref().expect("the gradient of the state");
            for t in (0..extent.steps).rev() {
                let params = GemmCellParams { first: t as u32, steps: 1, ..params };
                kernel.run(stream, grid, &params, &sizes)?;
                // The state before the first step is a constant and needs no gradient.
                if t > 0 {
                    let rows = of_state.step(gemm_layout, t, extent.sequences * product.outputs)?;
                    gemm.launch(stream, rows.operand(), matrix.operand(), Operand::F32(back), None)?;
                }
            }
            self.of_weights(stream, math, (product, &planned[1]), [of_state, seen])?;
        } else {
            kernel.run(stream, grid, &params, &sizes)?;
        }
        self.of_weights(stream, math, (&cell.of_inputs, &planned[0]), [&d_gates, input])?;
        let Some(gemm) = &planned[0].inputs else { return Ok(()) };
        let (sums, matrix) = (own.sums.part(0..sizes.inputs)?, weights.matrix(gemm_layout, &cell.of_inputs)?);
        gemm.launch(stream, d_gates.operand(), matrix.operand(), Operand::F32(&sums), None)?;
        let inputs = [self.rows, layer.inputs];
        Ok(math.slope(stream, inputs, (&sums, through.as_ref()), (&input.words, active), &next.words)?)
    }
}
