//! The gradients of a network's products for a number of samples: planned once, then enqueued repeatedly.

use std::ops::Range;

use operant_cuda::{Blas, Buffer, CudaError, Element, Epilogue, Gemm, GemmShape, Operand, Stream};

use super::super::layout::{Extent, GemmLayout, Layer, Norm, Operation, Product};
use super::super::maps::Mapped;
use super::super::math::{Follow, GemmMath, MapTables, NormStep, Rows, Score, ScoreStep};
use super::cells::CellBack;
use super::lookup::lookup_shares;
use super::{Forward, GemmMatrix, Inputs, Tables, Weights, first_of, most_of_places, tables, write_tables};
use crate::LearnError;
use crate::cuda::common::memory::Allocator;

/// A layer's products in the backward pass.
#[derive(Debug)]
struct BackwardLayer {
    layer: Layer,
    products: Vec<BackwardProduct>,
}

/// The gradients that a backward pass makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gradients {
    OfWeights,
    /// Of the inputs of chains that read actions. The gradients of products' weights are left out.
    OfInputs,
}

/// The gradients of a product.
#[derive(Debug)]
pub(super) struct BackwardProduct {
    /// dW = dY^T X, with the gradient of the bias where the product can.
    weights: Gemm,
    bias_fused: bool,
    /// dX = dY W; None for the first layer of a chain that reads no action.
    pub(super) inputs: Option<Gemm>,
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
    pub(super) gemm_layout: GemmLayout,
    pub(super) extent: Extent,
    pub(super) rows: usize,
    chains: Vec<Vec<BackwardLayer>>,
    pub memory: BackwardMemory,
}

/// Memory of the backward pass of M samples.
#[derive(Debug)]
pub struct BackwardMemory {
    /// Gradients of each chain's outputs, which the loss writes.
    pub outputs: Vec<GemmMatrix>,
    /// Gradients of each chain's inputs; empty unless it reads actions.
    pub inputs: Vec<GemmMatrix>,
    /// Gradients of the sums of a layer, for every second layer.
    deltas: [GemmMatrix; 2],
    /// f32 gradients of a layer's inputs, where deltas are not f32 or inputs are those of places.
    scratch: Option<Buffer<f32>>,
    /// Gradients of the product's outputs, over places or of a query.
    split: Option<GemmMatrix>,
    /// The gradient of a skip connection, until its normalisation is reached.
    added: Option<GemmMatrix>,
    /// Shares of the gradients of weights and biases of a normalisation.
    shares: Option<[Buffer<f32>; 2]>,
    /// Gradients of layers with memory, one after the other.
    pub(super) cells: Option<CellBack>,
    /// Shares of the gradient of a table that indices look up.
    pub(super) lookups: Option<Buffer<f32>>,
    tables: Vec<Vec<Option<BackwardTables>>>,
    /// (matrix elements + biases): the gradients of matrices, then of biases.
    pub gradient: Buffer<f32>,
}

impl BackwardMemory {
    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout, extent: Extent) -> Result<Self, CudaError> {
        let rows = extent.rows();
        let inputs = |(number, chain): (usize, &Vec<Layer>)| {
            let read = if gemm_layout.reads_actions(number) { chain[0].inputs } else { 0 };
            GemmMatrix::new(allocator, gemm_layout, rows.saturating_mul(read))
        };
        let outputs = |chain: &Vec<Layer>| {
            let last = chain.last().map_or(0, |layer| layer.outputs);
            GemmMatrix::new(allocator, gemm_layout, rows.saturating_mul(last))
        };
        let inner = gemm_layout.inner().map(|layer| layer.inputs);
        let most = rows.saturating_mul(inner.max().unwrap_or(0));
        let [read, _] = most_of_places(gemm_layout.inner()).map(|count| rows.saturating_mul(count));
        let [_, made] =
            most_of_places(gemm_layout.chains.iter().flatten()).map(|count| rows.saturating_mul(count));
        let of_norm = |layer: &Layer| match &layer.operation {
            Operation::Norm(norm) => norm.items * norm.share(),
            _ => 0,
        };
        let shares = gemm_layout.chains.iter().flatten().map(of_norm).max().unwrap_or(0);
        let shares = rows.saturating_mul(shares);
        let shares = || Ok([allocator.alloc(shares)?, allocator.alloc(shares)?]);
        let has_norm = gemm_layout.chains.iter().flatten().any(|layer| of_norm(layer) > 0);
        let adding = gemm_layout.chains.iter().flatten().filter(|layer| layer.adds.is_some());
        let added = rows.saturating_mul(adding.map(|layer| layer.outputs).max().unwrap_or(0));
        let scratch = read.max(if gemm_layout.halves() { most } else { 0 });
        Ok(Self {
            outputs: gemm_layout.chains.iter().map(outputs).collect::<Result<_, _>>()?,
            inputs: gemm_layout.chains.iter().enumerate().map(inputs).collect::<Result<_, _>>()?,
            deltas: [
                GemmMatrix::new(allocator, gemm_layout, most)?,
                GemmMatrix::new(allocator, gemm_layout, most)?,
            ],
            scratch: if scratch > 0 { Some(allocator.alloc(scratch)?) } else { None },
            split: if made > 0 { Some(GemmMatrix::new(allocator, gemm_layout, made)?) } else { None },
            added: if added > 0 { Some(GemmMatrix::new(allocator, gemm_layout, added)?) } else { None },
            shares: has_norm.then(shares).transpose()?,
            cells: CellBack::new(allocator, gemm_layout, extent)?,
            lookups: lookup_shares(allocator, gemm_layout, rows)?,
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
        extent: Extent,
        memory: BackwardMemory,
    ) -> Result<Self, LearnError> {
        let plan = |is_first: bool,
                    layer: &Layer,
                    product: &Product|
         -> Result<BackwardProduct, LearnError> {
            let (rows, row) = (extent.rows() * product.places, layer.row(product));
            let both = [(Epilogue::BiasGradient, Element::F32), (Epilogue::None, Element::F32)];
            let (weights, epilogue) = first_of(blas, both.iter().copied(), |epilogue, output| GemmShape {
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
            let inputs = if is_first && !layer.is_of_state(product) {
                None
            } else {
                let (product, _) = first_of(blas, both[1..].iter().copied(), |epilogue, output| GemmShape {
                    m: layer.rows_at_once(product, extent) * product.places,
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
        for (chain, of_chain) in gemm_layout.chains.iter().enumerate() {
            let mut layers = Vec::new();
            for (number, layer) in of_chain.iter().enumerate() {
                let products = layer.products();
                let is_first = number == 0 && !gemm_layout.reads_actions(chain);
                let products = products
                    .iter()
                    .map(|product| plan(is_first, layer, product))
                    .collect::<Result<_, _>>()?;
                layers.push(BackwardLayer { layer: layer.clone(), products });
            }
            chains.push(layers);
        }
        write_tables(stream, gemm_layout, &memory.tables, |tables, mapped| {
            [(&tables.split, &mapped.split), (&tables.fold, &mapped.fold)]
        })?;
        Ok(Self { gemm_layout: gemm_layout.clone(), extent, rows: extent.rows(), chains, memory })
    }

    /// Leaves the gradients in its memory: matrices, then biases, as [`GemmLayout`] counts them.
    pub fn run(
        &self,
        stream: &Stream,
        math: &GemmMath,
        weights: &Weights,
        (forward, inputs): (&Forward, Inputs<'_>),
        (numbers, gradients): (Range<usize>, Gradients),
    ) -> Result<(), LearnError> {
        let (gemm_layout, rows, memory) = (&self.gemm_layout, self.rows, &self.memory);
        let of_weights = gradients == Gradients::OfWeights;
        let chains = self.chains.iter().zip(&memory.outputs).enumerate();
        for (number, (chain, outputs)) in chains.take(numbers.end).skip(numbers.start) {
            let made = &forward.memory.outs[number];
            let mut delta = outputs.first(gemm_layout, rows * chain[chain.len() - 1].layer.outputs)?;
            // The normalisation where a skip connection begins, and its gradient.
            let mut added: Option<(usize, GemmMatrix)> = None;
            for (k, step) in chain.iter().enumerate().rev() {
                let (layer, input) = (&step.layer, if k == 0 { inputs.obs } else { &made[k - 1] });
                let width = if k == 0 && of_weights { 0 } else { layer.inputs };
                let to = if k == 0 { &memory.inputs[number] } else { &memory.deltas[k % 2] };
                let next = to.first(gemm_layout, rows * width)?;
                // The nonlinearity of the layer before.
                let active = k.checked_sub(1).map_or(0, |below| chain[below].layer.active);
                if let (Some(back), Some(memory)) = (layer.adds, &memory.added) {
                    let kept = memory.first(gemm_layout, rows * layer.outputs)?;
                    kept.words.copy_from(stream, &delta.words)?;
                    added = Some((k - back, kept));
                }
                let of = (math, weights, &delta, input);
                match &layer.operation {
                    Operation::Dense(product) => {
                        let planned = &step.products[0];
                        if of_weights {
                            self.of_weights(stream, math, (product, planned), [&delta, input])?;
                        }
                        if width > 0 {
                            self.dense(stream, of, (layer, product, planned), active, &next)?;
                        }
                    }
                    Operation::Norm(norm) => {
                        let added = added.take_if(|(first, _)| *first == k);
                        let added = added.as_ref().map(|(_, delta)| &delta.words);
                        self.norm(stream, of, (layer, norm, added), &next)?;
                    }
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
                    Operation::Cell(cell) => {
                        let made = forward.memory.cells[number][k].as_ref().zip(forward.after());
                        let (made, recall) = made.zip(inputs.recall).expect("gates, and a state");
                        let step = (layer, cell, &step.products[..]);
                        self.cell(stream, of, step, (made, recall), active, &next)?;
                    }
                    Operation::Mapped(mapped) => {
                        let ahead = forward.memory.tables[number][k].as_ref();
                        let tables = ahead.zip(memory.tables[number][k].as_ref()).expect("tables of places");
                        let of_layer = (layer, &**mapped, &step.products[0]);
                        self.mapped(stream, of, (forward, tables), of_layer, active, &next)?;
                    }
                    Operation::Embed(lookups) => {
                        let indices = inputs.indices.expect("indices of the observations");
                        for lookup in lookups {
                            let table = weights.table(lookup)?;
                            self.lookup(stream, (math, &table, &delta), (layer, lookup), indices)?;
                        }
                    }
                }
                delta = next;
            }
        }
        Ok(())
    }

    /// The gradients of a product's matrix and biases: `delta` times `input`, of `rows` rows.
    pub(super) fn of_weights(
        &self,
        stream: &Stream,
        math: &GemmMath,
        (product, planned): (&Product, &BackwardProduct),
        [delta, input]: [&GemmMatrix; 2],
    ) -> Result<(), LearnError> {
        let (gradient, rows) = (&self.memory.gradient, self.rows * product.places);
        let of_matrix = gradient.part(product.matrix..product.matrix + product.elements())?;
        let first = self.gemm_layout.matrix_elements + product.bias;
        let of_bias = gradient.part(first..first + product.outputs)?;
        let fused_bias = planned.bias_fused.then_some(&of_bias);
        let of_matrix = Operand::F32(&of_matrix);
        planned.weights.launch(stream, delta.operand(), input.operand(), of_matrix, fused_bias)?;
        if !planned.bias_fused {
            math.bias_sums(stream, [rows, product.outputs], (&delta.words, false), &of_bias)?;
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
        let Some(gemm) = &planned.inputs else { return Ok(()) };
        let count = self.rows * layer.inputs;
        let sums = match &self.memory.scratch {
            Some(scratch) if self.gemm_layout.halves() => scratch.part(0..count)?,
            _ => next.words.part(0..count)?,
        };
        let matrix = weights.matrix(&self.gemm_layout, product)?;
        gemm.launch(stream, delta.operand(), matrix.operand(), Operand::F32(&sums), None)?;
        let inputs = [self.rows, layer.inputs];
        Ok(math.slope(stream, inputs, (&sums, None), (&input.words, active), &next.words)?)
    }

    fn norm(
        &self,
        stream: &Stream,
        (math, weights, delta, input): (&GemmMath, &Weights, &GemmMatrix, &GemmMatrix),
        (layer, norm, added): (&Layer, &Norm, Option<&Buffer<f32>>),
        next: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let [weight, bias] = weights.norm(norm)?;
        let items = self.rows * norm.items;
        let [of_weight, of_bias] = self.memory.shares.as_ref().expect("memory for shares");
        let shares = |shares: &Buffer<f32>| shares.part(0..items * norm.share());
        let (of_weight, of_bias) = (shares(of_weight)?, shares(of_bias)?);
        let sizes = [self.rows, layer.inputs];
        let of = (&input.words, [&weight, &bias], &next.words);
        let shares = [&of_weight, &of_bias];
        math.norm(stream, norm, sizes, of, NormStep::Backward { delta: &delta.words, shares, added })?;
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
            active: 0,
        };
        math.map(stream, &back.split, follow)?;
        // Made again, because the pass may have other layers over places.
        let patches = forward.unfold(stream, math, (layer, mapped, ahead), input)?;
        self.of_weights(stream, math, (product, planned), [&split, &patches])?;
        let Some(gemm) = planned.inputs.as_ref().filter(|_| !next.words.is_empty()) else { return Ok(()) };
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
