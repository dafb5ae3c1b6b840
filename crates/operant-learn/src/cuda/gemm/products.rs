//! The matrix products of a network for a number of samples: planned once, then enqueued repeatedly.

use operant_cuda::{Blas, Buffer, CudaError, Element, Epilogue, Gemm, GemmShape, Operand, Stream};

use super::layout::{GemmLayout, Layer, Norm, Operation, Product};
use super::maps::{Map, Mapped};
use super::math::{Follow, GemmMath, MapTables, Rows, Score, ScoreStep};
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

    /// The same, all zero, as padding must be.
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

    /// The same memory.
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

    fn bias(&self, product: &Product) -> Result<Option<Buffer<f32>>, CudaError> {
        product.bias.map(|bias| self.biases.part(bias..bias + product.outputs)).transpose()
    }
}

/// The tables of a product over places, on the device.
#[derive(Debug)]
struct Tables {
    unfold: MapTables,
    place: MapTables,
}

/// Tables of all products of a network's chains, `[chain][layer][product]`; of dense layers none.
fn tables<T>(
    gemm_layout: &GemmLayout,
    of: impl Fn(&Mapped) -> Result<T, CudaError>,
) -> Result<Vec<Vec<Vec<T>>>, CudaError> {
    let layer = |layer: &Layer| match &layer.operation {
        Operation::Mapped(mapped) => mapped.iter().map(&of).collect(),
        _ => Ok(Vec::new()),
    };
    gemm_layout.chains.iter().map(|chain| chain.iter().map(layer).collect()).collect()
}

/// Most numbers that a product over places, or of a pointer head, reads and makes of a sample.
fn most_of_places(gemm_layout: &GemmLayout) -> [usize; 2] {
    let layers = gemm_layout.chains.iter().flatten();
    let mapped =
        layers.filter(|layer| matches!(layer.operation, Operation::Mapped(_) | Operation::Pointer(..)));
    mapped.flat_map(Layer::products).fold([0, 0], |[read, made], product| {
        [read.max(product.places * product.inputs), made.max(product.places * product.outputs)]
    })
}

/// A layer's products in the forward pass.
#[derive(Debug)]
struct ForwardLayer {
    layer: Layer,
    products: Vec<Gemm>,
    /// The fused epilogue of a dense layer; other operations run after the product.
    epilogue: Epilogue,
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
    tables: Vec<Vec<Vec<Tables>>>,
}

impl ForwardMemory {
    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout, rows: usize) -> Result<Self, CudaError> {
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
        let [read, made] = most_of_places(gemm_layout).map(|count| rows.saturating_mul(count));
        let widest = if gemm_layout.halves() { rows.saturating_mul(gemm_layout.widest()) } else { 0 };
        let sums = widest.max(made);
        Ok(Self {
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
    tables: &[Vec<Vec<T>>],
    of: impl for<'a> Fn(&'a T, &'a Mapped) -> [(&'a MapTables, &'a Map); 2],
) -> Result<(), CudaError> {
    let layers = gemm_layout.chains.iter().flatten().zip(tables.iter().flatten());
    for (layer, tables) in layers {
        let Operation::Mapped(mapped) = &layer.operation else { continue };
        for (mapped, tables) in mapped.iter().zip(tables) {
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
        rows: usize,
        memory: ForwardMemory,
    ) -> Result<Self, LearnError> {
        let plan = |row: usize, product: &Product, choices: &[(Epilogue, Element)]| {
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
                let planned: Vec<_> = products
                    .iter()
                    .map(|product| plan(layer.row(product), product, choices))
                    .collect::<Result<_, _>>()?;
                let epilogue = planned.first().map_or(Epilogue::None, |(_, epilogue)| *epilogue);
                let products = planned.into_iter().map(|(product, _)| product).collect();
                layers.push(ForwardLayer { layer, products, epilogue });
            }
            chains.push(layers);
        }
        write_tables(stream, gemm_layout, &memory.tables, |tables, mapped| {
            [(&tables.unfold, &mapped.unfold), (&tables.place, &mapped.place)]
        })?;
        Ok(Self { gemm_layout: gemm_layout.clone(), rows, chains, memory })
    }

    /// Outputs of the policy, and of the critic, `(M, row)` each; the same where one chain makes both.
    pub fn outputs(&self) -> [&Buffer<f32>; 2] {
        let last = |chain: &'_ Vec<GemmMatrix>| chain.len() - 1;
        let outs = &self.memory.outs;
        let (first, critic) = (&outs[0], &outs[outs.len() - 1]);
        [&first[last(first)].words, &critic[last(critic)].words]
    }

    /// Runs the chains from number `from` on, on observations `(M, row)`.
    pub fn run(
        &self,
        stream: &Stream,
        math: &GemmMath,
        weights: &Weights,
        obs: &GemmMatrix,
        from: usize,
    ) -> Result<(), LearnError> {
        let memory = &self.memory;
        let chains = self.chains.iter().zip(&memory.outs).zip(&memory.tables).zip(&memory.queries);
        for (((chain, outs), tables), query) in chains.skip(from) {
            let mut input = obs;
            for ((step, out), tables) in chain.iter().zip(outs).zip(tables) {
                match &step.layer.operation {
                    Operation::Dense(product) => {
                        self.dense(stream, (math, weights), input, (step, product), out)?;
                    }
                    Operation::Norm(norm) => {
                        let [weight, bias] = weights.norm(norm)?;
                        let sizes = [self.rows, step.layer.inputs];
                        let of = (&input.words, [&weight, &bias], &out.words);
                        math.norm(stream, norm, sizes, of, None)?;
                    }
                    Operation::Pointer(product, pointer) => {
                        let query = query.as_ref().expect("memory for the query");
                        let of = (&step.products[0], step.epilogue);
                        self.sums(stream, (math, weights), input, (product, of), query)?;
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
                    Operation::Mapped(mapped) => {
                        for ((mapped, product), tables) in mapped.iter().zip(&step.products).zip(tables) {
                            let of = (&step.layer, mapped, product, tables);
                            self.mapped(stream, (math, weights), input, of, out)?;
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
            first: 0,
            active: 0,
            scale: mapped.scale,
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
            bias: bias.as_ref(),
            activated: None,
            out: Rows { words: &out.words, width: layer.outputs, wide: false },
            first: mapped.first,
            active: if layer.hidden() { mapped.made } else { 0 },
            scale: 1.0,
        };
        Ok(math.map(stream, &tables.place, follow)?)
    }

    /// A product and its biases, in f32.
    fn sums(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        input: &GemmMatrix,
        (product, (gemm, epilogue)): (&Product, (&Gemm, Epilogue)),
        out: &Buffer<f32>,
    ) -> Result<(), LearnError> {
        let (matrix, bias) = (weights.matrix(&self.gemm_layout, product)?, weights.bias(product)?);
        let [fused, left] =
            [true, false].map(|is| bias.as_ref().filter(|_| is == (epilogue != Epilogue::None)));
        gemm.launch(stream, input.operand(), matrix.operand(), Operand::F32(out), fused)?;
        match left {
            Some(_) => Ok(math.activate(stream, [self.rows, product.outputs], out, left, out, None)?),
            None => Ok(()),
        }
    }

    fn dense(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        input: &GemmMatrix,
        (step, of): (&ForwardLayer, &Product),
        out: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let layer = &step.layer;
        let gemm = (&step.products[0], step.epilogue);
        if layer.wide {
            return self.sums(stream, (math, weights), input, (of, gemm), &out.words);
        }
        let (matrix, bias) = (weights.matrix(&self.gemm_layout, of)?, weights.bias(of)?);
        if step.epilogue == Epilogue::ReluBias {
            let (a, b, c) = (input.operand(), matrix.operand(), out.operand());
            return Ok(step.products[0].launch(stream, a, b, c, bias.as_ref())?);
        }
        // In place where activations are f32.
        let count = self.rows * layer.outputs;
        let sums = match &self.memory.sums {
            Some(sums) if self.gemm_layout.halves() => sums.part(0..count)?,
            _ => out.words.part(0..count)?,
        };
        let [fused, left] =
            [true, false].map(|is| bias.as_ref().filter(|_| is == (step.epilogue != Epilogue::None)));
        step.products[0].launch(stream, input.operand(), matrix.operand(), Operand::F32(&sums), fused)?;
        let shape = [self.rows, layer.outputs];
        Ok(math.activate(stream, shape, &sums, left, &out.words, Some(layer.active))?)
    }
}

/// A layer's products in the backward pass.
#[derive(Debug)]
struct BackwardLayer {
    layer: Layer,
    products: Vec<BackwardProduct>,
}

/// The gradients of a product.
#[derive(Debug)]
struct BackwardProduct {
    /// dW = dY^T X, with the gradient of the bias where the product can.
    weights: Gemm,
    bias_fused: bool,
    /// dX = dY W; None for the first layer.
    inputs: Option<Gemm>,
}

/// Tables for the gradient of a product over places.
#[derive(Debug)]
struct BackwardTables {
    split: MapTables,
    fold: MapTables,
}

/// The backward pass of M samples: from the gradients of outputs to those of matrices and biases.
#[derive(Debug)]
pub struct Backward {
    gemm_layout: GemmLayout,
    rows: usize,
    chains: Vec<Vec<BackwardLayer>>,
    pub memory: BackwardMemory,
}

/// Memory of the backward pass of M samples.
#[derive(Debug)]
pub struct BackwardMemory {
    /// Gradients of each chain's outputs, which the loss writes.
    pub outputs: Vec<GemmMatrix>,
    /// Gradients of the sums of a layer, for every second layer.
    deltas: [GemmMatrix; 2],
    /// f32 gradients of a layer's inputs, where deltas are not f32 or inputs are those of places.
    scratch: Option<Buffer<f32>>,
    /// Gradients of the product's outputs, over places or of a query.
    split: Option<GemmMatrix>,
    /// Shares of the gradients of weights and biases of a normalisation.
    shares: Option<[Buffer<f32>; 2]>,
    tables: Vec<Vec<Vec<BackwardTables>>>,
    /// (matrix elements + biases): the gradients of matrices, then of biases.
    pub gradient: Buffer<f32>,
}

impl BackwardMemory {
    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout, rows: usize) -> Result<Self, CudaError> {
        let outputs = |chain: &Vec<Layer>| {
            let last = chain.last().map_or(0, |layer| layer.outputs);
            GemmMatrix::new(allocator, gemm_layout, rows.saturating_mul(last))
        };
        let most = rows.saturating_mul(gemm_layout.widest());
        let [read, made] = most_of_places(gemm_layout).map(|count| rows.saturating_mul(count));
        let of_norm = |layer: &Layer| match &layer.operation {
            Operation::Norm(norm) => norm.items * norm.share(),
            _ => 0,
        };
        let shares = gemm_layout.chains.iter().flatten().map(of_norm).max().unwrap_or(0);
        let shares = rows.saturating_mul(shares);
        let shares = || Ok([allocator.alloc(shares)?, allocator.alloc(shares)?]);
        let has_norm = gemm_layout.chains.iter().flatten().any(|layer| of_norm(layer) > 0);
        let scratch = read.max(if gemm_layout.halves() { most } else { 0 });
        Ok(Self {
            outputs: gemm_layout.chains.iter().map(outputs).collect::<Result<_, _>>()?,
            deltas: [
                GemmMatrix::new(allocator, gemm_layout, most)?,
                GemmMatrix::new(allocator, gemm_layout, most)?,
            ],
            scratch: if scratch > 0 { Some(allocator.alloc(scratch)?) } else { None },
            split: if made > 0 { Some(GemmMatrix::new(allocator, gemm_layout, made)?) } else { None },
            shares: has_norm.then(shares).transpose()?,
            tables: tables(gemm_layout, |mapped| {
                Ok(BackwardTables {
                    split: MapTables::new(allocator, &mapped.split)?,
                    fold: MapTables::new(allocator, &mapped.fold)?,
                })
            })?,
            gradient: allocator.alloc(gemm_layout.matrix_elements + gemm_layout.biases)?,
        })
    }
}

impl Backward {
    pub fn new(
        (blas, stream): (&Blas, &Stream),
        gemm_layout: &GemmLayout,
        rows: usize,
        memory: BackwardMemory,
    ) -> Result<Self, LearnError> {
        let plan = |number: usize, row: usize, product: &Product| -> Result<BackwardProduct, LearnError> {
            let rows = rows * product.places;
            let both = [(Epilogue::BiasGradient, Element::F32), (Epilogue::None, Element::F32)];
            let choices = if product.bias.is_some() { &both } else { &both[1..] };
            let (weights, epilogue) =
                first_of(blas, choices.iter().copied(), |epilogue, output| GemmShape {
                    m: product.outputs,
                    n: product.inputs,
                    k: rows,
                    a_transposed: true,
                    b_transposed: false,
                    a_stride: product.outputs,
                    b_stride: row,
                    c_stride: product.inputs,
                    products: gemm_layout.products(),
                    output,
                    epilogue,
                })?;
            let inputs = if number == 0 {
                None
            } else {
                let (product, _) = first_of(blas, both[1..].iter().copied(), |epilogue, output| GemmShape {
                    m: rows,
                    n: product.inputs,
                    k: product.outputs,
                    a_transposed: false,
                    b_transposed: false,
                    a_stride: product.outputs,
                    b_stride: product.inputs,
                    c_stride: product.inputs,
                    products: gemm_layout.products(),
                    output,
                    epilogue,
                })?;
                Some(product)
            };
            Ok(BackwardProduct { weights, bias_fused: epilogue == Epilogue::BiasGradient, inputs })
        };
        let mut chains = Vec::new();
        for chain in &gemm_layout.chains {
            let mut layers = Vec::new();
            for (number, layer) in chain.iter().enumerate() {
                let products = layer.products();
                let products = products
                    .iter()
                    .map(|product| plan(number, layer.row(product), product))
                    .collect::<Result<_, _>>()?;
                layers.push(BackwardLayer { layer: layer.clone(), products });
            }
            chains.push(layers);
        }
        write_tables(stream, gemm_layout, &memory.tables, |tables, mapped| {
            [(&tables.split, &mapped.split), (&tables.fold, &mapped.fold)]
        })?;
        Ok(Self { gemm_layout: gemm_layout.clone(), rows, chains, memory })
    }

    /// Leaves the gradients in its memory: matrices, then biases, as [`GemmLayout`] counts them.
    pub fn run(
        &self,
        stream: &Stream,
        math: &GemmMath,
        weights: &Weights,
        forward: &Forward,
        obs: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let (gemm_layout, rows, memory) = (&self.gemm_layout, self.rows, &self.memory);
        for (number, (chain, outputs)) in self.chains.iter().zip(&memory.outputs).enumerate() {
            let made = &forward.memory.outs[number];
            let mut delta = outputs.first(gemm_layout, rows * chain[chain.len() - 1].layer.outputs)?;
            for (k, step) in chain.iter().enumerate().rev() {
                let (layer, input) = (&step.layer, if k == 0 { obs } else { &made[k - 1] });
                let next = memory.deltas[k % 2].first(gemm_layout, rows * layer.inputs)?;
                // The nonlinearity of the layer before.
                let active = k.checked_sub(1).map_or(0, |below| chain[below].layer.active);
                let of = (math, weights, &delta, input);
                match &layer.operation {
                    Operation::Dense(product) => {
                        self.dense(stream, of, (layer, product, &step.products[0]), active, &next)?;
                    }
                    Operation::Norm(norm) => self.norm(stream, of, (layer, norm), &next)?,
                    Operation::Pointer(product, pointer) => {
                        let query = forward.memory.queries[number].as_ref().expect("a query");
                        let score = Score {
                            rows,
                            pointer,
                            items: Rows { words: &input.words, width: layer.inputs, wide: false },
                            query: Rows { words: query, width: product.outputs, wide: true },
                            step: ScoreStep::Forward { scores: query },
                            out_row: layer.outputs,
                        };
                        let planned = &step.products[0];
                        self.pointer(stream, of, (product, planned), score, active, &next)?;
                    }
                    Operation::Mapped(mapped) => {
                        for (part, (mapped, product)) in mapped.iter().zip(&step.products).enumerate() {
                            let tables =
                                (&forward.memory.tables[number][k][part], &memory.tables[number][k][part]);
                            let of_layer = (layer, mapped, product);
                            self.mapped(stream, of, (forward, tables), of_layer, active, &next)?;
                        }
                    }
                }
                delta = next;
            }
        }
        Ok(())
    }

    /// The gradients of a product's matrix and biases: `delta` times `input`, of `rows` rows.
    fn of_weights(
        &self,
        stream: &Stream,
        math: &GemmMath,
        (product, planned): (&Product, &BackwardProduct),
        [delta, input]: [&GemmMatrix; 2],
    ) -> Result<(), LearnError> {
        let (gradient, rows) = (&self.memory.gradient, self.rows * product.places);
        let of_matrix = gradient.part(product.matrix..product.matrix + product.elements())?;
        let of_bias = product.bias.map(|bias| {
            let first = self.gemm_layout.matrix_elements + bias;
            gradient.part(first..first + product.outputs)
        });
        let of_bias = of_bias.transpose()?;
        let fused_bias = of_bias.as_ref().filter(|_| planned.bias_fused);
        let of_matrix = Operand::F32(&of_matrix);
        planned.weights.launch(stream, delta.operand(), input.operand(), of_matrix, fused_bias)?;
        if let (None, Some(of_bias)) = (fused_bias, &of_bias) {
            math.bias_sums(stream, [rows, product.outputs], (&delta.words, false), of_bias)?;
        }
        Ok(())
    }

    fn dense(
        &self,
        stream: &Stream,
        (math, weights, delta, input): (&GemmMath, &Weights, &GemmMatrix, &GemmMatrix),
        (layer, product, planned): (&Layer, &Product, &BackwardProduct),
        active: usize,
        next: &GemmMatrix,
    ) -> Result<(), LearnError> {
        self.of_weights(stream, math, (product, planned), [delta, input])?;
        let Some(gemm) = &planned.inputs else { return Ok(()) };
        let count = self.rows * layer.inputs;
        let sums = match &self.memory.scratch {
            Some(scratch) if self.gemm_layout.halves() => scratch.part(0..count)?,
            _ => next.words.part(0..count)?,
        };
        let matrix = weights.matrix(&self.gemm_layout, product)?;
        gemm.launch(stream, delta.operand(), matrix.operand(), Operand::F32(&sums), None)?;
        Ok(math.slope(stream, [self.rows, layer.inputs], &sums, (&input.words, active), &next.words)?)
    }

    fn norm(
        &self,
        stream: &Stream,
        (math, weights, delta, input): (&GemmMath, &Weights, &GemmMatrix, &GemmMatrix),
        (layer, norm): (&Layer, &Norm),
        next: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let [weight, bias] = weights.norm(norm)?;
        let items = self.rows * norm.items;
        let [of_weight, of_bias] = self.memory.shares.as_ref().expect("memory for shares");
        let shares = |shares: &Buffer<f32>| shares.part(0..items * norm.share());
        let (of_weight, of_bias) = (shares(of_weight)?, shares(of_bias)?);
        let sizes = [self.rows, layer.inputs];
        let of = (&input.words, [&weight, &bias], &next.words);
        math.norm(stream, norm, sizes, of, Some((&delta.words, [&of_weight, &of_bias])))?;
        for (shares, first) in [(of_weight, norm.weight), (of_bias, norm.bias)] {
            let first = self.gemm_layout.matrix_elements + first;
            let gradient = self.memory.gradient.part(first..first + norm.share())?;
            math.bias_sums(stream, [items, norm.share()], (&shares, true), &gradient)?;
        }
        Ok(())
    }

    fn pointer(
        &self,
        stream: &Stream,
        (math, weights, delta, input): (&GemmMath, &Weights, &GemmMatrix, &GemmMatrix),
        (product, planned): (&Product, &BackwardProduct),
        score: Score<'_>,
        active: usize,
        next: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let (gemm_layout, rows, delta) = (&self.gemm_layout, self.rows, &delta.words);
        let split = self.memory.split.as_ref().expect("memory for the query");
        let of_query = split.first(gemm_layout, rows * product.outputs)?;
        let step = ScoreStep::Query { delta, out: &of_query.words };
        math.pointer(stream, Score { step, ..score })?;
        self.of_weights(stream, math, (product, planned), [&of_query, input])?;
        let Some(gemm) = &planned.inputs else { return Ok(()) };
        let scratch = self.memory.scratch.as_ref().expect("memory for the state");
        let of_state = scratch.part(0..rows * product.inputs)?;
        let matrix = weights.matrix(gemm_layout, product)?;
        gemm.launch(stream, of_query.operand(), matrix.operand(), Operand::F32(&of_state), None)?;
        let out = Rows { words: &next.words, width: score.items.width, wide: false };
        let step = ScoreStep::Items { delta, of_state: &of_state, out, active };
        Ok(math.pointer(stream, Score { step, ..score })?)
    }

    fn mapped(
        &self,
        stream: &Stream,
        (math, weights, delta, input): (&GemmMath, &Weights, &GemmMatrix, &GemmMatrix),
        (forward, (ahead, back)): (&Forward, (&Tables, &BackwardTables)),
        (layer, mapped, planned): (&Layer, &Mapped, &BackwardProduct),
        active: usize,
        next: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let (gemm_layout, rows, product) = (&self.gemm_layout, self.rows, &mapped.product);
        let delta_rows = Rows { words: &delta.words, width: layer.outputs, wide: false };
        let made = product.places * product.outputs;
        let split = self.memory.split.as_ref().expect("memory for places").first(gemm_layout, rows * made)?;
        let follow = Follow {
            rows,
            input: delta_rows,
            second: None,
            bias: None,
            activated: None,
            out: Rows { words: &split.words, width: made, wide: false },
            first: 0,
            active: 0,
            scale: 1.0,
        };
        math.map(stream, &back.split, follow)?;
        // Made again, because the pass may have other layers over places.
        let patches = forward.unfold(stream, math, (layer, mapped, ahead), input)?;
        self.of_weights(stream, math, (product, planned), [&split, &patches])?;
        let Some(gemm) = &planned.inputs else { return Ok(()) };
        let width = product.places * product.inputs;
        let sums = self.memory.scratch.as_ref().expect("memory for places").part(0..rows * width)?;
        let matrix = weights.matrix(gemm_layout, product)?;
        gemm.launch(stream, split.operand(), matrix.operand(), Operand::F32(&sums), None)?;
        let activated = input.first(gemm_layout, rows * layer.inputs)?;
        let follow = Follow {
            input: Rows { words: &sums, width, wide: true },
            second: Some(delta_rows),
            activated: Some(&activated.words),
            out: Rows { words: &next.words, width: layer.inputs, wide: false },
            active,
            ..follow
        };
        Ok(math.map(stream, &back.fold, follow)?)
    }
}
