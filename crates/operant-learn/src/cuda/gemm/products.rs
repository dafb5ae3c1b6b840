//! The matrix products of a network for a number of samples: planned once, then enqueued repeatedly.

use operant_cuda::{Blas, Buffer, CudaError, Element, Epilogue, Gemm, GemmShape, Operand, Stream};

use super::layout::{GemmLayout, Layer};
use super::math::GemmMath;
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

    fn matrix(&self, gemm_layout: &GemmLayout, layer: &Layer) -> Result<GemmMatrix, CudaError> {
        let range = gemm_layout.words(layer.matrix)..gemm_layout.words(layer.matrix + layer.elements());
        GemmMatrix::of(self.matrices.part(range)?, gemm_layout)
    }

    fn bias(&self, layer: &Layer) -> Result<Buffer<f32>, CudaError> {
        self.biases.part(layer.bias..layer.bias + layer.outputs)
    }
}

/// A layer's product in the forward pass.
#[derive(Debug)]
struct ForwardLayer {
    layer: Layer,
    product: Gemm,
    /// The fused epilogue; other operations run after the product.
    epilogue: Epilogue,
}

/// Memory of the forward pass of M samples.
#[derive(Debug)]
pub struct ForwardMemory {
    /// Outputs of each chain's layers: activations of a hidden layer as the next product reads them; outputs of the last one are f32.
    outs: Vec<Vec<GemmMatrix>>,
    /// f32 sums of a layer before its nonlinearity, where activations are not f32.
    sums: Option<Buffer<f32>>,
}

impl ForwardMemory {
    pub fn new(allocator: &Allocator, gemm_layout: &GemmLayout, rows: usize) -> Result<Self, CudaError> {
        let out = |layer: &Layer| {
            let count = rows.saturating_mul(layer.outputs);
            if layer.hidden {
                GemmMatrix::new(allocator, gemm_layout, count)
            } else {
                Ok(GemmMatrix { words: allocator.alloc(count)?, halves: None })
            }
        };
        let chain = |chain: &Vec<Layer>| chain.iter().map(out).collect::<Result<_, _>>();
        let widest = rows.saturating_mul(gemm_layout.widest());
        Ok(Self {
            outs: gemm_layout.chains.iter().map(chain).collect::<Result<_, _>>()?,
            sums: if gemm_layout.halves() { Some(allocator.alloc(widest)?) } else { None },
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

impl Forward {
    pub fn new(
        blas: &Blas,
        gemm_layout: &GemmLayout,
        rows: usize,
        memory: ForwardMemory,
    ) -> Result<Self, LearnError> {
        let mut chains = Vec::new();
        for chain in &gemm_layout.chains {
            let mut layers = Vec::new();
            for &layer in chain {
                let choices = match (layer.hidden, gemm_layout.relu) {
                    (true, true) => vec![
                        (Epilogue::ReluBias, gemm_layout.element()),
                        (Epilogue::Bias, Element::F32),
                        (Epilogue::None, Element::F32),
                    ],
                    _ => vec![(Epilogue::Bias, Element::F32), (Epilogue::None, Element::F32)],
                };
                let (product, epilogue) = first_of(blas, choices, |epilogue, output| GemmShape {
                    m: rows,
                    n: layer.outputs,
                    k: layer.inputs,
                    a_transposed: false,
                    b_transposed: true,
                    a_stride: layer.inputs,
                    b_stride: layer.inputs,
                    c_stride: layer.outputs,
                    products: gemm_layout.products(),
                    output,
                    epilogue,
                })?;
                layers.push(ForwardLayer { layer, product, epilogue });
            }
            chains.push(layers);
        }
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
        for (chain, outs) in self.chains.iter().zip(&self.memory.outs).skip(from) {
            let mut input = obs;
            for (step, out) in chain.iter().zip(outs) {
                self.layer(stream, (math, weights), input, step, out)?;
                input = out;
            }
        }
        Ok(())
    }

    fn layer(
        &self,
        stream: &Stream,
        (math, weights): (&GemmMath, &Weights),
        input: &GemmMatrix,
        step: &ForwardLayer,
        out: &GemmMatrix,
    ) -> Result<(), LearnError> {
        let layer = &step.layer;
        let (matrix, bias) = (weights.matrix(&self.gemm_layout, layer)?, weights.bias(layer)?);
        let product = |c: Operand<'_>| -> Result<(), LearnError> {
            let vector = (step.epilogue != Epilogue::None).then_some(&bias);
            Ok(step.product.launch(stream, input.operand(), matrix.operand(), c, vector)?)
        };
        let shape = [self.rows, layer.outputs];
        let left = (step.epilogue == Epilogue::None).then_some(&bias);
        match (layer.hidden, step.epilogue) {
            (true, Epilogue::ReluBias) => product(out.operand()),
            (true, _) => {
                // In place where activations are f32.
                let sums = match &self.memory.sums {
                    Some(sums) => sums.part(0..self.rows * layer.outputs)?,
                    None => out.words.part(0..self.rows * layer.outputs)?,
                };
                product(Operand::F32(&sums))?;
                Ok(math.activate(stream, shape, &sums, left, &out.words, true)?)
            }
            (false, _) => {
                product(Operand::F32(&out.words))?;
                match left {
                    Some(bias) => {
                        Ok(math.activate(stream, shape, &out.words, Some(bias), &out.words, false)?)
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// A layer's products in the backward pass.
#[derive(Debug)]
struct BackwardLayer {
    layer: Layer,
    /// dW = dY^T X, with the gradient of the bias where the product can.
    weights: Gemm,
    bias_fused: bool,
    /// dX = dY W; None for the first layer.
    inputs: Option<Gemm>,
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
    /// f32 gradients of a layer's inputs, where deltas are not f32.
    scratch: Option<Buffer<f32>>,
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
        Ok(Self {
            outputs: gemm_layout.chains.iter().map(outputs).collect::<Result<_, _>>()?,
            deltas: [
                GemmMatrix::new(allocator, gemm_layout, most)?,
                GemmMatrix::new(allocator, gemm_layout, most)?,
            ],
            scratch: if gemm_layout.halves() { Some(allocator.alloc(most)?) } else { None },
            gradient: allocator.alloc(gemm_layout.matrix_elements + gemm_layout.biases)?,
        })
    }
}

impl Backward {
    pub fn new(
        blas: &Blas,
        gemm_layout: &GemmLayout,
        rows: usize,
        memory: BackwardMemory,
    ) -> Result<Self, LearnError> {
        let mut chains = Vec::new();
        for chain in &gemm_layout.chains {
            let mut layers = Vec::new();
            for (number, &layer) in chain.iter().enumerate() {
                let choices = [(Epilogue::BiasGradient, Element::F32), (Epilogue::None, Element::F32)];
                let (weights, epilogue) = first_of(blas, choices, |epilogue, output| GemmShape {
                    m: layer.outputs,
                    n: layer.inputs,
                    k: rows,
                    a_transposed: true,
                    b_transposed: false,
                    a_stride: layer.outputs,
                    b_stride: layer.inputs,
                    c_stride: layer.inputs,
                    products: gemm_layout.products(),
                    output,
                    epilogue,
                })?;
                let inputs = if number == 0 {
                    None
                } else {
                    let choices = [(Epilogue::None, Element::F32)];
                    let (product, _) = first_of(blas, choices, |epilogue, output| GemmShape {
                        m: rows,
                        n: layer.inputs,
                        k: layer.outputs,
                        a_transposed: false,
                        b_transposed: false,
                        a_stride: layer.outputs,
                        b_stride: layer.inputs,
                        c_stride: layer.inputs,
                        products: gemm_layout.products(),
                        output,
                        epilogue,
                    })?;
                    Some(product)
                };
                let bias_fused = epilogue == Epilogue::BiasGradient;
                layers.push(BackwardLayer { layer, weights, bias_fused, inputs });
            }
            chains.push(layers);
        }
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
        for ((chain, made), outputs) in self.chains.iter().zip(&forward.memory.outs).zip(&memory.outputs) {
            let mut delta = outputs.first(gemm_layout, rows * chain[chain.len() - 1].layer.outputs)?;
            for (number, step) in chain.iter().enumerate().rev() {
                let layer = &step.layer;
                let input = if number == 0 { obs } else { &made[number - 1] };
                let of_matrix = memory.gradient.part(layer.matrix..layer.matrix + layer.elements())?;
                let first = gemm_layout.matrix_elements + layer.bias;
                let of_bias = memory.gradient.part(first..first + layer.outputs)?;
                let fused_bias = step.bias_fused.then_some(&of_bias);
                step.weights.launch(
                    stream,
                    delta.operand(),
                    input.operand(),
                    Operand::F32(&of_matrix),
                    fused_bias,
                )?;
                if fused_bias.is_none() {
                    math.bias_sums(stream, [rows, layer.outputs], &delta.words, &of_bias)?;
                }
                let Some(product) = &step.inputs else { continue };
                let count = rows * layer.inputs;
                let next = memory.deltas[number % 2].first(gemm_layout, count)?;
                let sums = match &memory.scratch {
                    Some(scratch) => scratch.part(0..count)?,
                    None => next.words.part(0..count)?,
                };
                let matrix = weights.matrix(gemm_layout, layer)?;
                product.launch(stream, delta.operand(), matrix.operand(), Operand::F32(&sums), None)?;
                math.slope(stream, [rows, layer.inputs], &sums, &input.words, &next.words)?;
                delta = next;
            }
        }
        Ok(())
    }
}
