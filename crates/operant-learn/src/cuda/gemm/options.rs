//! Options of an update of products: sequences drawn by priority (`draws.cuh`), and values in the units of normalised returns (`units.cuh`).

use operant_cuda::{Buffer, CudaError, Function, LaunchConfig, Module, Stream};

use super::layout::THREADS;
use super::update::{GemmUpdateParams, GemmUpdateSizes, GemmWeightSizes, GemmWeights};
use crate::config::Config;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::phases::{Exchange, Progress, UpdateMemory, UpdateParams, UpdateSizes, with_shared};

/// Memory of draws.
#[derive(Debug)]
pub struct DrawMemory {
    pub drawn: Buffer<u32>,
    pub importance: Buffer<f32>,
    pub sums: Buffer<f64>,
    pub totals: Buffer<f64>,
}

impl DrawMemory {
    /// # Errors
    /// If there is not enough memory.
    pub fn new(allocator: &Allocator, of: &UpdateSizes) -> Result<Option<Self>, CudaError> {
        let own = |sequences| {
            Ok(Self {
                drawn: allocator.alloc(sequences)?,
                importance: allocator.alloc(sequences)?,
                sums: allocator.alloc(sequences)?,
                totals: allocator.alloc(of.blocks)?,
            })
        };
        (of.draws > 0).then_some(of.draws).map(own).transpose()
    }
}

/// The kernels that draw.
#[derive(Debug)]
pub struct Draws {
    shares: Function,
    draw: Function,
}

impl Draws {
    /// # Errors
    /// When the module lacks them.
    pub fn new(module: &Module, grid: LaunchConfig, of: &UpdateSizes) -> Result<Option<Self>, CudaError> {
        let function = |name| with_shared(module, name, grid);
        let own = || Ok(Self { shares: function("update_shares")?, draw: function("update_draw")? });
        (of.draws > 0).then(own).transpose()
    }

    /// What they take of a configuration: alpha, beta of the first update, and the updates over which beta grows to 1.
    pub fn powers(config: &Config) -> [f64; 3] {
        let ppo = &config.algorithms.ppo;
        [ppo.prio_alpha, ppo.prio_beta0, config.updates() as f64]
    }

    /// Draws the sequences of an epoch.
    pub fn run(
        &self,
        stream: &Stream,
        grid: LaunchConfig,
        params: &GemmUpdateParams<'_>,
        sizes: &GemmUpdateSizes,
    ) -> Result<(), CudaError> {
        self.shares.run(stream, grid, params, sizes)?;
        self.draw.run(stream, grid, params, sizes)
    }
}

/// Sizes of a value layer in units of its own.
#[derive(Debug, Clone, Copy)]
pub struct ValueUnitSizes {
    parameters: usize,
    weights: GemmWeightSizes,
    /// Numbers that all devices know of their returns.
    returns: usize,
}

operant_cuda::params! {
    /// Parameters of the kernels that change the units of values: one block of threads, each for its own of the value layer's parameters.
    pub struct ValueUnitParams<'a>(of: ValueUnitSizes) for ["update_units", "update_restore"], blocks 1, {
        /// (P).
        parameters: writes [f32; of.parameters],
        weights: part [GemmWeights, &of.weights],
        /// (1).
        progress: writes [Progress; 1],
        /// (devices, 3).
        all_returns: reads [f64; of.returns],
        devices: value [u32],
        /// Samples of all devices.
        samples: value [f64],
    }
}

/// The kernels that change the units of values.
#[derive(Debug)]
pub struct ValueUnits {
    units: Function,
    restore: Function,
    sizes: ValueUnitSizes,
    devices: usize,
    samples: f64,
}

impl ValueUnits {
    /// # Errors
    /// When the module lacks them.
    pub fn new(
        module: &Module,
        config: &Config,
        of: &UpdateSizes,
        weights: GemmWeightSizes,
    ) -> Result<Option<Self>, CudaError> {
        let own = || {
            let UpdateSizes { parameters, devices, .. } = *of;
            Ok(Self {
                units: module.function("update_units")?,
                restore: module.function("update_restore")?,
                sizes: ValueUnitSizes { parameters, weights, returns: of.returns() * devices },
                devices,
                samples: (config.num_envs * config.num_steps) as f64,
            })
        };
        of.norm_value.then(own).transpose()
    }

    fn run(
        &self,
        stream: &Stream,
        function: &Function,
        memory: &UpdateMemory,
        weights: GemmWeights<'_>,
        all_returns: &Buffer<f64>,
    ) -> Result<(), CudaError> {
        let (parameters, progress) = (&memory.parameters, &memory.progress);
        let (devices, samples) = (self.devices as u32, self.samples);
        let params = ValueUnitParams { parameters, weights, progress, all_returns, devices, samples };
        let grid = LaunchConfig { blocks: 1, threads: THREADS as u32, shared: 0 };
        function.run(stream, grid, &params, &self.sizes)
    }

    /// Merges the returns of an update, whose report has begun, and changes the units.
    pub fn change(
        &self,
        stream: &Stream,
        exchange: Exchange<'_>,
        weights: GemmWeights<'_>,
    ) -> Result<(), CudaError> {
        let all = exchange.returns(stream)?.expect("returns are normalised");
        self.run(stream, &self.units, exchange.memory, weights, all)
    }

    /// Packs a value layer that computes values themselves.
    pub fn restore(
        &self,
        stream: &Stream,
        memory: &UpdateMemory,
        weights: GemmWeights<'_>,
    ) -> Result<(), CudaError> {
        self.run(
            stream,
            &self.restore,
            memory,
            weights,
            memory.all_returns().expect("returns are normalised"),
        )
    }
}

/// The parameters of an update with the sequences that were drawn.
pub fn with_draws<'a>(update: UpdateParams<'a>, draws: Option<&'a DrawMemory>) -> UpdateParams<'a> {
    UpdateParams { drawn: draws.map(|draws| &draws.drawn), ..update }
}
