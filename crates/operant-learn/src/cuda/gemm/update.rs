//! The update on the GEMM path: for every minibatch a forward and a backward pass between the common phases, as one graph.

use std::ops::Range;

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::layout::{Extent, GemmLayout, THREADS, blocks_of};
use super::math::GemmMath;
use super::muon::{Muon, MuonMemory, MuonSizes, muon_define};
use super::options::{DrawMemory, Draws, ValueUnitParams, ValueUnits, with_draws};
use super::products::{
    Backward, BackwardMemory, Forward, ForwardMemory, GemmMatrix, Gradients, Inputs, Recall, Weights,
};
use crate::LearnError;
use crate::config::Config;
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::phases::{
    Exchange, Phases, UpdateMemory, UpdateParams, UpdateSizes, Work, with_shared,
};
use crate::cuda::common::structs::Discounts;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Network;
use crate::sample::SampleLayout;

/// `update.cu`: the kernels of an update around its products, for the loss of an algorithm.
pub const GEMM_UPDATE: KernelText =
    kernel_text!("gemm_update", "gemm/update.cu", [GemmUpdateParams, GemmWeightParams, ValueUnitParams]);

/// `gemm/update.cu` for an environment, a network and the algorithm of a run.
pub fn gemm_update_program(
    kernel_env: &KernelEnv,
    network: &Network,
    local: &Local,
    gemm_layout: &GemmLayout,
) -> Program {
    let layout = SampleLayout::new(&network.architecture, kernel_env.masked);
    let loss = &local.run.algorithm.declaration().gpu;
    let mut defines = gemm_layout.update_defines(network, &local.run, &layout);
    defines.extend(local.defines().chain(loss.defines(&local.run)).chain(muon_define(network, &local.run)));
    ProgramText::of(kernel_env, KernelText { loss: loss.text, ..GEMM_UPDATE }, defines)
}

/// Sizes of weights as products read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmWeightSizes {
    parameters: usize,
    matrix_words: usize,
    biases: usize,
}

impl GemmWeightSizes {
    /// The sizes for P parameters.
    pub fn new(parameters: usize, gemm_layout: &GemmLayout) -> Self {
        Self { parameters, matrix_words: gemm_layout.matrix_words(), biases: gemm_layout.biases }
    }
}

operant_cuda::params! {
    /// Weights as products read them.
    pub struct GemmWeights<'a>(of: GemmWeightSizes) for [], blocks usize::MAX, {
        matrices: writes [f32; of.matrix_words],
        biases: writes [f32; of.biases],
    }
}

operant_cuda::params! {
    /// Parameters of the packing: a thread below P writes its own parameter's place.
    pub struct GemmWeightParams<'a>(of: GemmWeightSizes) for ["gemm_pack", "update_pack"], blocks usize::MAX, {
        /// (P).
        parameters: reads [f32; of.parameters],
        weights: part [GemmWeights, of],
        count: value [u32],
    }
}

impl<'a> GemmWeightParams<'a> {
    /// Packs all parameters into these weights.
    pub fn new(parameters: &'a Buffer<f32>, weights: &'a Weights) -> Self {
        Self { parameters, weights: GemmWeights::of(weights), count: parameters.len() as u32 }
    }
}

impl<'a> GemmWeights<'a> {
    pub(super) fn of(weights: &'a Weights) -> Self {
        Self { matrices: &weights.matrices, biases: &weights.biases }
    }
}

/// Sizes of an update of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmUpdateSizes {
    pub update: UpdateSizes,
    weights: GemmWeightSizes,
    /// Words of an observation as the first product reads it.
    obs_words: usize,
    /// Numbers in a row of policy outputs, and in one of values.
    rows: [usize; 2],
    /// Words of such rows as products read them.
    row_words: [usize; 2],
    /// Gradients that products leave.
    products: usize,
    /// Log standard deviations of a Gaussian head, else 0.
    log_std: usize,
    /// Numbers of state of an environment; 0 without memory.
    states: usize,
    /// Indices of an observation; 0 without embeddings.
    indices: usize,
    /// None unless Muon steps a matrix.
    muon: Option<MuonSizes>,
}

impl GemmUpdateSizes {
    /// The sizes of a configuration on a device with `multiprocessors` multiprocessors.
    pub fn new(
        network: &Network,
        local: &Local,
        gemm_layout: &GemmLayout,
        stride: usize,
        multiprocessors: usize,
    ) -> Self {
        let sizes = |blocks| UpdateSizes::new(network, local, stride, blocks);
        let blocks = |minibatch: usize| blocks_of(multiprocessors, minibatch.max(network.len()));
        let rows = gemm_layout.output_rows();
        Self {
            update: sizes(local.update_blocks(sizes(1).minibatch(), blocks)),
            weights: GemmWeightSizes::new(network.len(), gemm_layout),
            obs_words: gemm_layout.words(gemm_layout.obs_row()),
            rows,
            row_words: rows.map(|row| gemm_layout.words(row)),
            products: gemm_layout.matrix_elements + gemm_layout.biases,
            log_std: network.log_std.map_or(0, |_| gemm_layout.outputs),
            states: network.states,
            indices: gemm_layout.indices,
            muon: MuonSizes::new(network, &local.run, gemm_layout),
        }
    }

    /// The rows of a minibatch.
    fn extent(&self) -> Extent {
        let steps = self.update.sequence;
        Extent { sequences: self.update.minibatch() / steps, steps }
    }

    /// Numbers of the states that a minibatch's sequences begin with.
    fn initial(&self) -> usize {
        self.extent().sequences.saturating_mul(self.states)
    }

    /// Elements of `keep`: M with memory, else 0.
    fn keep(&self) -> usize {
        if self.states > 0 { self.update.minibatch() } else { 0 }
    }
}

operant_cuda::params! {
    /// Parameters of an update: threads stay below M rows and P parameters, blocks within their entries.
    pub struct GemmUpdateParams<'a>(of: GemmUpdateSizes) for [
        "update_gather", "update_loss", "update_values", "update_returns", "update_shares", "update_draw", "update_spread", "update_begin", "update_advantages", "update_reduce", "update_adam",
        "update_sum", "update_add", "update_norm", "update_note", "update_end"
    ], blocks of.update.blocks, {
        update: part [UpdateParams, &of.update],
        weights: part [GemmWeights, &of.weights],
        /// (M, row).
        obs: writes [f32; of.update.minibatch() * of.obs_words],
        /// (M, indices): with embeddings, rows of tables.
        indices: writes_any [u32; of.update.minibatch() * of.indices],
        /// (M): with memory, 0 where a step begins an episode.
        keep: writes_any [f32; of.keep()],
        /// (sequences, states): the state before their first step.
        initial: writes_any [f32; of.initial()],
        /// (M, policy row).
        policy: reads [f32; of.update.minibatch() * of.rows[0]],
        /// (M, value row): the critic's outputs; the policy's where one network does both.
        values: reads [f32; of.update.minibatch() * of.rows[1]],
        /// (M, policy row).
        policy_gradient: writes [f32; of.update.minibatch() * of.row_words[0]],
        /// (M, value row); the policy's where one network does both.
        value_gradient: writes [f32; of.update.minibatch() * of.row_words[1]],
        /// (matrix elements + biases): gradients that products leave.
        products: reads [f32; of.products],
        /// (blocks, A): the blocks' shares of the gradient of a Gaussian head.
        log_std_shares: writes_any [f32; of.log_std * of.update.blocks],
        /// The samples, whose values and advantages are computed again.
        again: writes_any [u32; if of.update.outcomes > 0 { of.update.sample_words() } else { 0 }],
        /// (blocks of environments, sequences): where sequences are drawn, the weight of the advantages at each position of an epoch.
        importance: writes_any [f32; of.update.draws],
        /// (blocks of environments, sequences), (blocks): sums of the sequences' shares within a part, and those of whole parts.
        draw_sums: writes_any [f64; of.update.draws],
        draw_totals: writes_any [f64; if of.update.draws > 0 { of.update.blocks } else { 0 }],
        /// Alpha, the first beta, and the updates over which it grows to 1.
        draw_powers: value [[f64; 3]],
        /// M: samples of the longest minibatch.
        rows: value [u32],
        /// Where the value lies in a row of values.
        value_at: value [u32],
        discounts: value [Discounts],
        /// The greatest weights of TD errors and of what comes from later steps, by the ratios of probabilities; 0 weights none.
        weight_clips: value [[f32; 2]],
    }
}

/// Memory of an update of products.
#[derive(Debug)]
pub struct GemmUpdateMemory {
    pub weights: Weights,
    obs: GemmMatrix,
    /// The initial states of sequences, and which steps begin episodes.
    recall: Option<[Buffer<f32>; 2]>,
    indices: Option<Buffer<u32>>,
    log_std_shares: Option<Buffer<f32>>,
    draws: Option<DrawMemory>,
    muon: Option<MuonMemory>,
}

impl GemmUpdateMemory {
    /// The memory, and that of the two passes.
    pub fn new(
        allocator: &Allocator,
        gemm_layout: &GemmLayout,
        of: &GemmUpdateSizes,
    ) -> Result<(Self, ForwardMemory, BackwardMemory), CudaError> {
        let rows = of.update.minibatch();
        let shares = of.log_std * of.update.blocks;
        let indices = rows.saturating_mul(of.indices);
        let recall = || Ok([allocator.alloc(of.initial())?, allocator.alloc(of.keep())?]);
        let own = Self {
            weights: Weights::new(allocator, gemm_layout)?,
            obs: GemmMatrix::new(allocator, gemm_layout, rows.saturating_mul(gemm_layout.obs_row()))?,
            indices: if indices > 0 { Some(allocator.alloc(indices)?) } else { None },
            recall: if of.states > 0 { Some(recall()?) } else { None },
            log_std_shares: if shares > 0 { Some(allocator.alloc(shares)?) } else { None },
            draws: DrawMemory::new(allocator, &of.update)?,
            muon: of.muon.as_ref().map(|of| MuonMemory::new(allocator, of)).transpose()?,
        };
        let forward = ForwardMemory::new(allocator, gemm_layout, of.extent())?;
        Ok((own, forward, BackwardMemory::new(allocator, gemm_layout, of.extent())?))
    }
}

/// The products and kernels of an update.
#[derive(Debug)]
pub struct GemmUpdate {
    gemm_layout: GemmLayout,
    pub sizes: GemmUpdateSizes,
    math: GemmMath,
    gather: Function,
    loss: Function,
    /// Values, and advantages by them, if they are computed again.
    recompute: Option<[Function; 2]>,
    draws: Option<Draws>,
    units: Option<ValueUnits>,
    pack: Function,
    phases: Phases,
    muon: Option<Muon>,
    forward: Forward,
    backward: Backward,
    pub memory: GemmUpdateMemory,
}

impl GemmUpdate {
    /// Plans the products for minibatches of N T / `num_minibatches` samples.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device has no room or fails.
    pub fn new(
        allocator: &Allocator,
        (device, stream): (&Device, &Stream),
        kernel_env: &KernelEnv,
        (network, local, gemm_layout): (&Network, &Local, GemmLayout),
        stride: usize,
    ) -> Result<Self, LearnError> {
        let multiprocessors = device.properties().multiprocessors as usize;
        let sizes = GemmUpdateSizes::new(network, local, &gemm_layout, stride, multiprocessors);
        let (extent, blas) = (sizes.extent(), device.blas()?);
        let module = device.load(&gemm_update_program(kernel_env, network, local, &gemm_layout))?;
        let grid = LaunchConfig {
            blocks: sizes.update.blocks as u32,
            threads: THREADS as u32,
            shared: gemm_layout.update_shared() as u32,
        };
        let (memory, forward, backward) = GemmUpdateMemory::new(allocator, &gemm_layout, &sizes)?;
        let (place, of) = ((device, stream), (network, &local.run, &gemm_layout));
        Ok(Self {
            muon: Muon::new(place, of, memory.muon.as_ref().zip(sizes.muon))?,
            math: GemmMath::new(device, &gemm_layout)?,
            gather: with_shared(&module, "update_gather", grid)?,
            loss: with_shared(&module, "update_loss", grid)?,
            recompute: match sizes.update.outcomes {
                0 => None,
                _ => Some([
                    with_shared(&module, "update_values", grid)?,
                    with_shared(&module, "update_returns", grid)?,
                ]),
            },
            draws: Draws::new(&module, grid, &sizes.update)?,
            units: ValueUnits::new(&module, &local.run, &sizes.update, sizes.weights)?,
            pack: module.function("update_pack")?,
            phases: Phases::new(&module, grid, &sizes.update)?,
            forward: Forward::new((&blas, stream), &gemm_layout, extent, forward)?,
            backward: Backward::new((&blas, stream), &gemm_layout, extent, backward)?,
            gemm_layout,
            sizes,
            memory,
        })
    }

    /// Packs parameters that were set from outside; fails unless there are P.
    pub fn pack(&self, stream: &Stream, of: &UpdateMemory) -> Result<(), CudaError> {
        // Padding is zero.
        let (parameters, weights) = (&of.parameters, &self.memory.weights);
        weights.clear(stream)?;
        let params = GemmWeightParams::new(parameters, weights);
        let grid = LaunchConfig::covering(parameters.len(), THREADS as u32);
        self.pack.run(stream, grid, &params, &self.sizes.weights)?;
        self.units.as_ref().map_or(Ok(()), |units| units.restore(stream, of, GemmWeights::of(weights)))
    }

    /// Makes the library load its kernels before the capture; the results are not used.
    pub fn warm(&self, stream: &Stream) -> Result<(), LearnError> {
        if let Some(indices) = &self.memory.indices {
            indices.fill(stream, 0)?;
        }
        self.passes(stream, self.chains(), || Ok(()))
    }

    /// The two passes of a minibatch through some chains, with the loss between them.
    fn passes(
        &self,
        stream: &Stream,
        chains: Range<usize>,
        loss: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<(), LearnError> {
        let weights = &self.memory.weights;
        self.forward.run(stream, &self.math, weights, self.inputs(), chains.clone())?;
        loss()?;
        let (of, which) = ((&self.forward, self.inputs()), (chains, Gradients::OfWeights));
        self.backward.run(stream, &self.math, weights, of, which)
    }

    fn chains(&self) -> Range<usize> {
        0..self.gemm_layout.chains.len()
    }

    /// The gathered samples of a minibatch.
    fn inputs(&self) -> Inputs<'_> {
        let GemmUpdateMemory { obs, recall, indices, .. } = &self.memory;
        let recall = recall.as_ref().map(|[initial, keep]| Recall { initial, keep: Some(keep) });
        Inputs { obs, indices: indices.as_ref(), recall }
    }

    /// Enqueues an update in a stream that is being captured.
    pub fn run(
        &self,
        stream: &Stream,
        config: &Config,
        update: UpdateParams<'_>,
        exchange: Exchange<'_>,
    ) -> Result<(), LearnError> {
        let ([policy, values], gradients) = (self.forward.outputs(), &self.backward.memory.outputs);
        let (grid, sizes, memory) = (self.phases.grid(), &self.sizes, &self.memory);
        let at = |epoch, minibatch| GemmUpdateParams {
            update: with_draws(update.at(epoch, minibatch), memory.draws.as_ref()),
            weights: GemmWeights::of(&memory.weights),
            obs: &memory.obs.words,
            indices: memory.indices.as_ref(),
            keep: memory.recall.as_ref().map(|[_, keep]| keep),
            initial: memory.recall.as_ref().map(|[initial, _]| initial),
            policy,
            values,
            policy_gradient: &gradients[0].words,
            value_gradient: &gradients[gradients.len() - 1].words,
            products: &self.backward.memory.gradient,
            log_std_shares: memory.log_std_shares.as_ref(),
            again: self.recompute.as_ref().map(|_| update.samples),
            importance: memory.draws.as_ref().map(|draws| &draws.importance),
            draw_sums: memory.draws.as_ref().map(|draws| &draws.sums),
            draw_totals: memory.draws.as_ref().map(|draws| &draws.totals),
            draw_powers: Draws::powers(config),
            rows: sizes.update.minibatch() as u32,
            value_at: self.gemm_layout.value_at().unwrap_or(0) as u32,
            discounts: Discounts::of(config),
            weight_clips: (config.algorithm.declaration().ratio_clips)(config)
                .map(|clip| clip.unwrap_or(0.0)),
        };
        let recompute = |epoch| {
            let Some([values, returns]) = &self.recompute else { return Ok(()) };
            for minibatch in 0..sizes.update.num_minibatches {
                // Each sample is visited once.
                let mut params = at(epoch, minibatch);
                params.update.drawn = None;
                self.gather.run(stream, grid, &params, sizes)?;
                self.forward.run(stream, &self.math, &memory.weights, self.inputs(), self.chains())?;
                values.run(stream, grid, &params, sizes)?;
            }
            Ok::<_, LearnError>(returns.run(stream, grid, &at(epoch, 0), sizes)?)
        };
        let weights = GemmWeights::of(&memory.weights);
        let work = |work: Work<'_, GemmUpdateParams<'_>>| {
            match work {
                Work::Begin => {
                    if let Some(units) = &self.units {
                        units.change(stream, exchange, weights)?;
                    }
                }
                Work::Epoch(epoch) => {
                    if epoch > 0 && config.recomputes() {
                        recompute(epoch)?;
                    }
                    if let Some(draws) = &self.draws {
                        draws.run(stream, grid, &at(epoch, 0), sizes)?;
                    }
                }
                Work::Gradient(params) => {
                    self.gather.run(stream, grid, params, sizes)?;
                    let all = self.chains();
                    let chains = if params.update.is_of_critic() { all.end - 1..all.end } else { all };
                    self.passes(stream, chains, || self.loss.run(stream, grid, params, sizes))?;
                }
                Work::Step(params) => {
                    if let Some((muon, own)) = self.muon.as_ref().zip(memory.muon.as_ref()) {
                        muon.run(stream, (own, &memory.weights), params.update)?;
                    }
                }
                Work::End => {
                    if let Some(units) = &self.units {
                        units.restore(stream, exchange.memory, weights)?;
                    }
                }
            }
            Ok(())
        };
        self.phases.run(stream, sizes, config, (&sizes.update, exchange), at, work)
    }
}
