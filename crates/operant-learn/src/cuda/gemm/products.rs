//! The matrix products of a network for a number of samples: planned once, then enqueued repeatedly.

mod backward;
mod cells;
mod lookup;

use std::ops::Range;

use operant_cuda::{Blas, Buffer, CudaError, Element, Epilogue, Gemm, GemmShape, Operand, Stream};

pub use self::backward::{Backward, BackwardMemory, Gradients};
use self::cells::CellMemory;
pub use self::cells::{CellKernels, Recall, gemm_cells_program};
pub use self::lookup::{LookupKernels, gemm_lookup_program};
use super::layout::{Extent, GemmLayout, Layer, Lookup, Norm, Operation, Product};
use super::maps::{Map, Mapped};
use super::math::{Follow, GemmMath, MapTables, NormStep, Rows, Score, ScoreStep};
use crate::LearnError;
use crate::cuda::common::memory::Allocator;

/// A matrix as products read it: words, and the same memory as bf16 if that is its element type.
#[derive(Debug)]
pub struct GemmMatrix {
    pub words: Buffer<f32>,
    halves: Option<Buffer<u16>>,
}

impl GemmMatrix {
    pub fn of(words: Buffer<f32>, gemm_layout: &GemmLayout) -> Result<Self, CudaError> {
        let halves = if gemm_layout.halves() { Some(words.cast()?) } else { None };
        Ok(Self { words, halves })
    }

    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout, count: usize) -> Result<Self, CudaError> {
        Self::of(allocator.alloc(gemm_layout.words(count))?, gemm_layout)
    }

    fn operand(&self) -> Operand<'_> {
        self.halves.as_ref().map_or(Operand::F32(&self.words), Operand::Bf16)
    }

    /// The first `count` numbers.
    fn first(&self, gemm_layout: &GemmLayout, count: usize) -> Result<Self, CudaError> {
        Self::of(self.words.part(0..gemm_layout.words(count))?, gemm_layout)
    }
}

/// Weights where products read them: matrices and biases.
#[derive(Debug)]
pub struct Weights {
    pub matrices: Buffer<f32>,
    pub biases: Buffer<f32>,
}

impl Weights {
    /// Memory for them.
    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout) -> Result<Self, CudaError> {
        Ok(Self {
            matrices: allocator.alloc(gemm_layout.matrix_words())?,
            biases: allocator.alloc(gemm_layout.biases)?,
        })
    }

    /// Like `new`, initialised to zero, which padding requires.
    pub fn zeros(
        allocator: &Allocator,
        gemm_layout: &GemmLayout,
        stream: &Stream,
    ) -> Result<Self, CudaError> {
        let weights = Self::new(allocator, gemm_layout)?;
        weights.clear(stream)?;
        Ok(weights)
    }

    /// Sets all of them to zero.
    pub fn clear(&self, stream: &Stream) -> Result<(), CudaError> {
        self.matrices.fill(stream, 0)?;
        self.biases.fill(stream, 0)
    }

    /// Copies the weights of the same network.
    pub fn copy_from(&self, stream: &Stream, from: &Weights) -> Result<(), CudaError> {
        self.matrices.copy_from(stream, &from.matrices)?;
        self.biases.copy_from(stream, &from.biases)
    }

    /// Another handle to the same memory.
    pub fn share(&self) -> Result<Self, CudaError> {
        let all = |buffer: &Buffer<f32>| buffer.part(0..buffer.len());
        Ok(Self { matrices: all(&self.matrices)?, biases: all(&self.biases)? })
    }

    fn matrix(&self, gemm_layout: &GemmLayout, product: &Product) -> Result<GemmMatrix, CudaError> {
        let range = gemm_layout.words(product.matrix)..gemm_layout.words(product.matrix + product.elements());
        GemmMatrix::of(self.matrices.part(range)?, gemm_layout)
    }

    /// Weights and biases of a normalisation.
    fn norm(&self, norm: &Norm) -> Result<[Buffer<f32>; 2], CudaError> {
        let part = |first| self.biases.part(first..first + norm.width);
        Ok([part(norm.weight)?, part(norm.bias)?])
    }

    fn bias(&self, product: &Product) -> Result<Buffer<f32>, CudaError> {
        self.biases.part(product.bias..product.bias + product.outputs)
    }

    /// A table that indices look up.
    fn table(&self, lookup: &Lookup) -> Result<Buffer<f32>, CudaError> {
        self.biases.part(lookup.table..lookup.table + lookup.rows * lookup.width)
    }
}

/// The tables of a product over places, on the device.
#[derive(Debug)]
struct Tables {
    unfold: MapTables,
    place: MapTables,
}

/// Tables of the products over places of a network's chains, `[chain][layer]`.
fn tables<T>(
    gemm_layout: &GemmLayout,
    of: impl Fn(&Mapped) -> Result<T, CudaError>,
) -> Result<Vec<Vec<Option<T>>>, CudaError> {
    let layer = |layer: &Layer| match &layer.operation {
        Operation::Mapped(mapped) => of(mapped).map(Some),
        _ => Ok(None),
    };
    gemm_layout.chains.iter().map(|chain| chain.iter().map(layer).collect()).collect()
}

/// Maximum numbers per sample that a product over places, or of a pointer head, reads and writes.
fn most_of_places<'a>(layers: impl Iterator<Item = &'a Layer>) -> [usize; 2] {
    let mapped =
        layers.filter(|layer| matches!(layer.operation, Operation::Mapped(_) | Operation::Pointer(..)));
    mapped.flat_map(Layer::products).fold([0, 0], |[read, made], product| {
        [read.max(product.places * product.inputs), made.max(product.places * product.outputs)]
    })
}

/// The network's inputs for M samples.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// (M, row): features; with embeddings those that are no indices.
    pub obs: &'a GemmMatrix,
    /// (M, indices): with embeddings, rows of tables.
    pub indices: Option<&'a Buffer<u32>>,
    /// With memory.
    pub recall: Option<Recall<'a>>,
}

impl<'a> Inputs<'a> {
    /// Those of a network without embeddings and memory.
    pub fn of(obs: &'a GemmMatrix) -> Self {
        Self { obs, indices: None, recall: None }
    }
}

/// A layer's products in the forward pass.
#[derive(Debug)]
struct ForwardLayer {
    layer: Layer,
    /// Each with its fused epilogue; other operations run after the product.
    products: Vec<(Gemm, Epilogue)>,
}

/// Memory of the forward pass of M samples.
#[derive(Debug)]
pub struct ForwardMemory {
    /// Outputs of each chain's layers: activations of a hidden layer as the next product reads them; outputs of the last one are f32.
    outs: Vec<Vec<GemmMatrix>>,
    /// f32 sums of a layer before its nonlinearity, where activations are not f32 or come from places.
    sums: Option<Buffer<f32>>,
    /// What a product over places reads.
    patches: Option<GemmMatrix>,
    /// The query and the value of each chain that ends in a pointer head.
    queries: Vec<Option<Buffer<f32>>>,
    /// The states of layers with memory, `[chain][layer]`: (steps, sequences, states), after each step.
    cells: Vec<Vec<Option<CellMemory>>>,
    after: Option<Buffer<f32>>,
    tables: Vec<Vec<Option<Tables>>>,
}

impl ForwardMemory {
    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout, extent: Extent) -> Result<Self, CudaError> {
        let rows = extent.rows();
        let out = |layer: &Layer| {
            let count = rows.saturating_mul(layer.outputs);
            if layer.wide {
                Ok(GemmMatrix { words: allocator.alloc(count)?, halves: None })
            } else {
                GemmMatrix::new(allocator, gemm_layout, count)
            }
        };
        let chain = |chain: &Vec<Layer>| chain.iter().map(out).collect::<Result<_, _>>();
        let query = |chain: &Vec<Layer>| match chain.last().map(|layer| &layer.operation) {
            Some(Operation::Pointer(product, _)) => {
                allocator.alloc(rows.saturating_mul(product.outputs)).map(Some)
            }
            _ => Ok(None),
        };
        let layers = gemm_layout.chains.iter().flatten();
        let [read, made] = most_of_places(layers).map(|count| rows.saturating_mul(count));
        let widest = if gemm_layout.halves() { rows.saturating_mul(gemm_layout.widest()) } else { 0 };
        let sums = widest.max(made);
        let cell = |layer: &Layer| match &layer.operation {
            Operation::Cell(cell) => CellMemory::new(allocator, gemm_layout, cell, rows).map(Some),
            _ => Ok(None),
        };
        let cells = |chain: &Vec<Layer>| chain.iter().map(cell).collect::<Result<_, _>>();
        let states = rows.saturating_mul(gemm_layout.states);
        Ok(Self {
            cells: gemm_layout.chains.iter().map(cells).collect::<Result<_, _>>()?,
            after: if states > 0 { Some(allocator.alloc(states)?) } else { None },
            outs: gemm_layout.chains.iter().map(chain).collect::<Result<_, _>>()?,
            sums: if sums > 0 { Some(allocator.alloc(sums)?) } else { None },
            patches: if read > 0 { Some(GemmMatrix::new(allocator, gemm_layout, read)?) } else { None },
            queries: gemm_layout.chains.iter().map(query).collect::<Result<_, _>>()?,
            tables: tables(gemm_layout, |mapped| {
                Ok(Tables {
                    unfold: MapTables::new(allocator, &mapped.unfold)?,
                    place: MapTables::new(allocator, &mapped.place)?,
                })
            })?,
        })
    }
}

/// The forward pass of M samples.
#[derive(Debug)]
pub struct Forward {
    gemm_layout: GemmLayout,
    extent: Extent,
    rows: usize,
    chains: Vec<Vec<ForwardLayer>>,
    memory: ForwardMemory,
}

/// Plans the first of `choices` that the library supports.
fn first_of(
    blas: &Blas,
    choices: impl IntoIterator<Item = (Epilogue, Element)>,
    shape: impl Fn(Epilogue, Element) -> GemmShape,
) -> Result<(Gemm, Epilogue), LearnError> {
    let mut last = None;
    for (epilogue, output) in choices {
        let shape = shape(epilogue, output);
        if let Some(product) = blas.gemm(shape)? {
            return Ok((product, epilogue));
        }
        last = Some(shape);
    }
    let what = last.map_or_else(String::new, |shape| shape.to_string());
    Err(LearnError::Config {
        key: "hidden",
        problem: format!("cuBLASLt cannot compute {what} on this GPU"),
        remedy: "use another precision, narrower layers, or --device cpu".to_owned(),
    })
}

/// Writes the tables that `of` takes from each product over places.
fn write_tables<T>(
    stream: &Stream,
    gemm_layout: &GemmLayout,
    tables: &[Vec<Option<T>>],
    of: impl for<'a> Fn(&'a T, &'a Mapped) -> [(&'a MapTables, &'a Map); 2],
) -> Result<(), CudaError> {
    let layers = gemm_layout.chains.iter().flatten().zip(tables.iter().flatten());
    for (layer, tables) in layers {
        if let (Operation::Mapped(mapped), Some(tables)) = (&layer.operation, tables) {
            for (table, map) in of(tables, mapped) {
                table.write(stream, map)?;
            }
        }
    }
    Ok(())
}

impl Forward {
    pub fn new(
        (blas, stream): (&Blas, &Stream),
        gemm_layout: &GemmLayout,
        extent: Extent,
        memory: ForwardMemory,
    ) -> Result<Self, LearnError> {
        let plan = |[rows, row]: [usize; 2], product: &Product, choices: &[(Epilogue, Element)]| {
            first_of(blas, choices.iter().copied(), |epilogue, output| GemmShape {
                m: rows * product.places,
                n: product.outputs,
                k: product.inputs,
                a_transposed: false,
                b_transposed: true,
                a_stride: row,
                b_stride: product.inputs,
                c_stride: product.outputs,
                products: gemm_layout.products(),
                output,
                epilogue,
            })
        };
        let mut chains = Vec::new();
        for chain in &gemm_layout.chains {
            let mut layers = Vec::new();
            for layer in chain {
                let layer = layer.clone();
                let fused = [
                    (Epilogue::ReluBias, gemm_layout.element()),
                    (Epilogue::Bias, Element::F32),
                    (Epilogue::None, Element::F32),
                ];
                let choices = match &layer.operation {
                    Operation::Mapped(_) => &fused[2..],
                    Operation::Dense(_) if layer.hidden() && gemm_layout.relu => &fused,
                    _ => &fused[1..],
                };
                let products = layer.products();
                let planned = products.iter().map(|product| {
                    plan([layer.rows_at_once(product, extent), layer.row(product)], product, choices)
                });
                let products = planned.collect::<Result<_, _>>()?;
                layers.push(ForwardLayer { layer, products });
            }
            chains.push(layers);
        }
        write_tables(stream, gemm_layout, &memory.tables, |tables, mapped| {
            [(&tables.unfold, &mapped.unfold), (&tables.place, &mapped.place)]
        })?;
        Ok(Self { gemm_layout: gemm_layout.clone(), extent, rows: extent.rows(), chains, memory })
    }

    /// The state after each step, (steps, sequences, states); None without memory.
    pub fn after(&self) -> Option<&Buffer<f32>> {
        self.memory.after.as_ref()
    }

    /// Outputs of the policy, and of the critic, `(M, row)` each; the same where one chain makes both.
    pub fn outputs(&self) -> [&Buffer<f32>; 2] {
        [0, self.chains.len() - 1].map(|chain| self.output(chain))
    }

    /// Outputs of a chain, `(M, row)`.
    pub fn output(&self, chain: usize) -> &Buffer<f32> {
        &self.memory.outs[chain][self.chains[chain].len() - 1].words
    }

    /// Runs these chains.
    pub fn run(
        &self,
        stream: &Stream,
        math: &GemmMath,
        weights: &Weights,
        inputs: Inputs<'_>,
        numbers: Range<usize>,
    ) -> Result<(), LearnError> {
        let memory = &self.memory;
        let chains = self.chains.iter().zip(&memory.outs).zip(&memory.tables).zip(&memory.queries);
        for ((((chain, outs), tables), query), cells) in
            chains.zip(&memory.cells).take(numbers.end).skip(numbers.start)
        {
            let mut input = inputs.obs;
            for (k, (((step, out), tables), cell)) in
                chain.iter().zip(outs).zip(tables).zip(cells).enumerate()
            {
                match &step.layer.operation {
                    Operation::Dense(product) => {
                        let added = step.layer.adds.map(|back| &outs[k - back - 1].words);
                        self.dense(stream, (math, weights), (input, added), (step, product), out)?;
                    }
                    Operation::Norm(norm) => {
                        let [weight, bias] = weights.norm(norm)?;
                        let sizes = [self.rows, step.layer.inputs];
                        let of = (&input.words, [&weight, &bias], &out.words);
                        math.norm(
                            stream,
                            norm,
                            sizes,
                            of,
                            NormStep::Forward { hidden: step.layer.hidden() },
                        )?;
                    }
                    Operation::Pointer(product, pointer) => {
                        let query = query.as_ref().expect("memory for the query");
                        let of = (product, &step.products[0], self.rows);
                        self.sums(stream, (math, weights), input, of, query)?;
                        let score = Score {
                            rows: self.rows,
                            pointer,
                            items: Rows { words: &input.words, width: step.layer.inputs, wide: false },
                            query: Rows { words: query, width: product.outputs, wide: true },
                            step: ScoreStep::Forward { scores: &out.words },
                            out_row: step.layer.outputs,
                        };
                        math.pointer(stream, score)?;
                    }
                    Operation::Cell(of) => {
                        let (cell, recall) =
                            cell.as_ref().zip(inputs.recall).expect("a state, and memory for gates");
                        self.cell(stream, (math, weights), input, (step, of), (cell, recall), out)?;
                    }
                    Operation::Mapped(mapped) => {
                        let tables = tables.as_ref().expect("tables of places");
                        let of = (&step.layer, &**mapped, &step.products[0].0, tables);
                        self.mapped(stream, (math, weights), input, of, out)?;
                    }
                    Operation::Embed(lookups) => {
                        let indices = inputs.indices.expect("indices of the observations");
                        let of = (&self.gemm_layout, self.rows, &step.layer);
                        for lookup in lookups {
                            let table = weights.table(lookup)?;
                            lookup.forward(stream, (math, &table), of, (indices, input, out))?;
                        }
                    }
                }
                input = out;
            }
        }
        Ok(())
    }

    /// What a product over places reads, from the layer's inputs.
    fn unfold(
        &self,
        stream: &Stream,
        math: &GemmMath,
        (layer, mapped, tables): (&Layer, &Mapped, &Tables),
        input: &GemmMatrix,
    ) -> Result<GemmMatrix, CudaError> {
        let columns = mapped.unfold.columns();
        let patches = self.memory.patches.as_ref().expect("memory for patches");
        let patches = patches.first(&self.gemm_layout, self.rows * columns)?;
        let read = input.first(&self.gemm_layout, self.rows * layer.inputs)?;
        let follow = Follow {
            rows: self.rows,
            input: Rows { words: &read.words, width: layer.inputs, wide: false },
            second: None,
            bias: None,
            activated: None,
            out: Rows { words: &patches.words, width: columns, wide: false },
            active: 0,
        };
        math.map(stream, &tables.unfold, follow)?;
        Ok(patches)
    }

    fn mapped(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        input: &GemmMatrix,
        (layer, mapped, gemm, tables): (&Layer, &Mapped, &Gemm, &Tables),
        out: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let product = &mapped.product;
        let patches = self.unfold(stream, math, (layer, mapped, tables), input)?;
        let width = product.places * product.outputs;
        let sums = self.memory.sums.as_ref().expect("memory for sums").part(0..self.rows * width)?;
        let matrix = weights.matrix(&self.gemm_layout, product)?;
        gemm.launch(stream, patches.operand(), matrix.operand(), Operand::F32(&sums), None)?;
        let bias = weights.bias(product)?;
        let follow = Follow {
            rows: self.rows,
            input: Rows { words: &sums, width, wide: true },
            second: Some(Rows { words: &input.words, width: layer.inputs, wide: false }),
            bias: Some(&bias),
            activated: None,
            out: Rows { words: &out.words, width: layer.outputs, wide: false },
            active: if layer.hidden() { mapped.made } else { 0 },
        };
        Ok(math.map(stream, &tables.place, follow)?)
    }

    /// A product of `rows` rows and its biases, in f32.
    fn sums(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        input: &GemmMatrix,
        (product, (gemm, epilogue), rows): (&Product, &(Gemm, Epilogue), usize),
        out: &Buffer<f32>,
    ) -> Result<(), LearnError> {
        let (matrix, bias) = (weights.matrix(&self.gemm_layout, product)?, weights.bias(product)?);
        let [fused, left] =
            [true, false].map(|is| Some(&bias).filter(|_| is == (*epilogue != Epilogue::None)));
        gemm.launch(stream, input.operand(), matrix.operand(), Operand::F32(out), fused)?;
        match left {
            Some(_) => Ok(math.activate(stream, [rows, product.outputs], (out, None), left, out, None)?),
            None => Ok(()),
        }
    }

    fn dense(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        (input, added): (&GemmMatrix, Option<&Buffer<f32>>),
        (step, of): (&ForwardLayer, &Product),
        out: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let layer = &step.layer;
        let planned @ (gemm, epilogue) = &step.products[0];
        if layer.wide {
            return self.sums(stream, (math, weights), input, (of, planned, self.rows), &out.words);
        }
        let (matrix, bias) = (weights.matrix(&self.gemm_layout, of)?, weights.bias(of)?);
        if *epilogue == Epilogue::ReluBias {
            let (a, b, c) = (input.operand(), matrix.operand(), out.operand());
            return Ok(gemm.launch(stream, a, b, c, Some(&bias))?);
        }
        // In place where activations are f32.
        let count = self.rows * layer.outputs;
        let sums = match &self.memory.sums {
            Some(sums) if self.gemm_layout.halves() => sums.part(0..count)?,
            _ => out.words.part(0..count)?,
        };
        let [fused, left] =
            [true, false].map(|is| Some(&bias).filter(|_| is == (*epilogue != Epilogue::None)));
        gemm.launch(stream, input.operand(), matrix.operand(), Operand::F32(&sums), fused)?;
        let shape = [self.rows, layer.outputs];
        Ok(math.activate(stream, shape, (&sums, added), left, &out.words, Some(layer.active))?)
    }
}
