//! The fused update: one cooperative launch, or one graph with a launch per phase.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::specialise::UpdateSpecialisation;
use super::tables;
use crate::LearnError;
use crate::config::Config;
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::phases::{Exchange, Phases, UpdateParams, UpdateSizes, with_shared};
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Network;
use crate::sample::SampleLayout;

/// `ppo_update.cu`: all epochs and minibatches over a rollout.
pub const UPDATE: KernelText =
    kernel_text!("ppo_update", "fused/ppo_update.cu", [FusedUpdateParams, FusedWeightParams]);

/// `ppo_update.cu` for an environment and a network.
pub fn update_program(
    kernel_env: &KernelEnv,
    network: &Network,
    local: &Local,
    specialisation: &UpdateSpecialisation,
) -> Program {
    let layout = SampleLayout::new(&network.architecture, kernel_env.masked);
    let mut defines = specialisation.defines(network, &local.run, &layout);
    defines.extend(local.defines().chain(local.run.algorithm.declaration().gpu.defines(&local.run)));
    ProgramText::of(kernel_env, UPDATE, defines)
}

/// Sizes of an update with the network inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FusedUpdateSizes {
    pub update: UpdateSizes,
    pub packed_words: usize,
    pub transposed_words: usize,
    /// Numbers of a block's partial gradient.
    pub partial: usize,
    /// Numbers of the first layers' summed gradient; 0 without embeddings.
    pub first_gradient: usize,
}

impl FusedUpdateSizes {
    /// The sizes of a specialised update in launches of `blocks` blocks.
    pub fn new(
        network: &Network,
        local: &Local,
        stride: usize,
        of: &UpdateSpecialisation,
        blocks: usize,
    ) -> Self {
        Self {
            update: UpdateSizes::new(network, local, stride, blocks),
            packed_words: of.forward.packed_words,
            transposed_words: of.transposed_words,
            partial: tables::partial_len(network),
            first_gradient: tables::first_gradient_len(network),
        }
    }
}

operant_cuda::params! {
    /// Weights as products read them: in the forward pass, and transposed for the gradient of the inputs.
    pub struct FusedWeights<'a>(of: FusedUpdateSizes) for [], blocks usize::MAX, {
        /// (packed words).
        packed: writes [f32; of.packed_words],
        /// (transposed words); none where no layer follows another.
        transposed: writes [f32; of.transposed_words],
    }
}

operant_cuda::params! {
    /// Parameters of an update: blocks stay within their entries, threads within the parameters and samples.
    pub struct FusedUpdateParams<'a>(of: FusedUpdateSizes) for [
        "ppo_update", "update_gradient", "update_spread", "update_begin", "update_advantages", "update_reduce", "update_adam",
        "update_sum", "update_add", "update_norm", "update_note", "update_end", "update_first_layer", "update_tables"
    ], blocks of.update.blocks, {
        update: part [UpdateParams, &of.update],
        weights: part [FusedWeights, of],
        /// (blocks, partial): the blocks' partial gradients.
        partials: writes [f32; of.partial * of.update.blocks],
        /// (partial): with embeddings, their sums for the first layers.
        first_gradient: writes_any [f32; of.first_gradient],
    }
}

operant_cuda::params! {
    /// Parameters of the packing: a thread below P writes its own parameter's places; `update_compose` writes the first layers' matrices.
    pub struct FusedWeightParams<'a>(of: FusedUpdateSizes) for ["update_pack", "update_compose"], blocks usize::MAX, {
        /// (P).
        parameters: reads [f32; of.update.parameters],
        weights: part [FusedWeights, of],
    }
}

/// Weights and shares of gradients.
#[derive(Debug)]
pub struct FusedMemory {
    pub packed: Buffer<f32>,
    transposed: Buffer<f32>,
    partials: Buffer<f32>,
    first_gradient: Option<Buffer<f32>>,
}

impl FusedMemory {
    /// # Errors
    /// If there is not enough memory.
    pub fn new(allocator: &Allocator, of: &FusedUpdateSizes) -> Result<Self, CudaError> {
        Ok(Self {
            packed: allocator.alloc(of.packed_words)?,
            transposed: allocator.alloc(of.transposed_words)?,
            partials: allocator.alloc(of.partial.saturating_mul(of.update.blocks))?,
            first_gradient: (of.first_gradient > 0)
                .then(|| allocator.alloc(of.first_gradient))
                .transpose()?,
        })
    }

    fn weights(&self) -> FusedWeights<'_> {
        FusedWeights { packed: &self.packed, transposed: &self.transposed }
    }
}

/// How an update is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateLaunch {
    /// One cooperative launch with grid barriers between phases.
    Cooperative,
    /// A launch per phase.
    Phases,
}

/// The phases that embeddings add.
#[derive(Debug)]
struct TableKernels {
    first_layer: Function,
    tables: Function,
    compose: Function,
}

/// The kernels of `ppo_update.cu`, and their memory.
#[derive(Debug)]
pub struct FusedUpdate {
    whole: Function,
    gradient: Function,
    pack: Function,
    tables: Option<TableKernels>,
    phases: Phases,
    pub sizes: FusedUpdateSizes,
    pub memory: FusedMemory,
    pub launch: UpdateLaunch,
}

impl FusedUpdate {
    /// Loads the kernels for launches of as many blocks as are resident at once.
    ///
    /// # Errors
    /// When the network fits no fused update, the kernels do not compile, or the device has no room.
    pub fn new(
        allocator: &Allocator,
        device: &Device,
        kernel_env: &KernelEnv,
        (network, local): (&Network, &Local),
        specialisation: &UpdateSpecialisation,
        stride: usize,
    ) -> Result<Self, LearnError> {
        let module = device.load(&update_program(kernel_env, network, local, specialisation))?;
        let mut grid = LaunchConfig {
            blocks: 1,
            threads: specialisation.threads(),
            shared: specialisation.shared as u32,
        };
        let whole = with_shared(&module, "ppo_update", grid)?;
        // Registers, and so the blocks that are resident, may depend on the number of blocks of environments.
        let at_once = match local.deterministic {
            true => 1,
            false => whole.blocks_per_multiprocessor(grid.threads, specialisation.shared)? as usize,
        };
        let resident = at_once * device.properties().multiprocessors as usize;
        let minibatch = UpdateSizes::new(network, local, stride, 1).minibatch();
        let blocks =
            local.update_blocks(minibatch, |minibatch| specialisation.blocks(network, minibatch, resident));
        grid.blocks = blocks as u32;
        let sizes = FusedUpdateSizes::new(network, local, stride, specialisation, blocks);
        // Devices exchange what they have between phases.
        let cooperative = device.properties().cooperative && local.devices == 1 && blocks <= resident;
        Ok(Self {
            whole,
            gradient: with_shared(&module, "update_gradient", grid)?,
            pack: module.function("update_pack")?,
            tables: if sizes.first_gradient > 0 {
                Some(TableKernels {
                    first_layer: module.function("update_first_layer")?,
                    tables: module.function("update_tables")?,
                    compose: module.function("update_compose")?,
                })
            } else {
                None
            },
            phases: Phases::new(&module, grid, &sizes.update)?,
            memory: FusedMemory::new(allocator, &sizes)?,
            sizes,
            launch: if cooperative { UpdateLaunch::Cooperative } else { UpdateLaunch::Phases },
        })
    }

    /// The cooperative launch, for its registers and occupancy.
    pub fn kernel(&self) -> (&Function, LaunchConfig) {
        (&self.whole, self.phases.grid())
    }

    /// Packs parameters that were set from outside.
    pub fn pack(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), CudaError> {
        // Padding is zero.
        self.memory.packed.fill(stream, 0)?;
        self.memory.transposed.fill(stream, 0)?;
        let grid = LaunchConfig::covering(self.sizes.update.parameters, self.phases.grid().threads);
        let params = FusedWeightParams { parameters, weights: self.memory.weights() };
        self.pack.run(stream, grid, &params, &self.sizes)?;
        self.compose(stream, parameters)
    }

    /// The first layer of a network with embeddings from tables and the layer after them.
    fn compose(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), CudaError> {
        let Some(TableKernels { compose, .. }) = &self.tables else { return Ok(()) };
        let params = FusedWeightParams { parameters, weights: self.memory.weights() };
        compose.run(stream, LaunchConfig { shared: 0, ..self.phases.grid() }, &params, &self.sizes)
    }

    /// Runs an update as it is launched.
    pub fn run(
        &self,
        stream: &Stream,
        config: &Config,
        update: UpdateParams<'_>,
        exchange: Exchange<'_>,
    ) -> Result<(), CudaError> {
        let (grid, sizes) = (self.phases.grid(), &self.sizes);
        let at = |epoch, minibatch| FusedUpdateParams {
            update: update.at(epoch, minibatch),
            weights: self.memory.weights(),
            partials: &self.memory.partials,
            first_gradient: self.memory.first_gradient.as_ref(),
        };
        match self.launch {
            UpdateLaunch::Cooperative => self.whole.run_cooperative(stream, grid, &at(0, 0), sizes),
            UpdateLaunch::Phases => {
                let gradient = |params: &FusedUpdateParams<'_>| {
                    self.compose(stream, update.parameters)?;
                    self.gradient.run(stream, grid, params, sizes)?;
                    let Some(TableKernels { first_layer, tables, .. }) = &self.tables else { return Ok(()) };
                    let grid = LaunchConfig { shared: 0, ..grid };
                    first_layer.run(stream, grid, params, sizes)?;
                    tables.run(stream, grid, params, sizes)
                };
                let passes = (|_| Ok(()), gradient, || Ok(()));
                self.phases.run(stream, sizes, config, (&sizes.update, exchange), at, passes)?;
                self.compose(stream, update.parameters)
            }
        }
    }
}
