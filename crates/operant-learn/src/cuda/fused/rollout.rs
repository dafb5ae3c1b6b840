//! The fused rollout: all T steps in one launch, with the policy inside, and its packed weights.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::specialise::{Specialisation, TILE};
use crate::LearnError;
use crate::config::Config;
use crate::cuda::common::ahead::Ahead;
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::horizon::{HorizonParams, HorizonSizes};
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Network;
use crate::sample::SampleLayout;

/// `rollout.cu`: a rollout with the policy.
pub const ROLLOUT: KernelText = kernel_text!("rollout", "fused/rollout.cu", [RolloutParams]);
/// `pack.cu`: parameters into the form that kernels read.
pub const PACK: KernelText = kernel_text!("pack", "fused/pack.cu", [PackParams]);

/// `rollout.cu` for an environment and a network.
pub fn rollout_program(
    kernel_env: &KernelEnv,
    network: &Network,
    local: &Local,
    specialisation: &Specialisation,
) -> Program {
    let layout = SampleLayout::new(&network.architecture, kernel_env.masked);
    let mut defines = specialisation.defines(network, &local.run, &layout);
    defines.extend(local.defines());
    ProgramText::of(kernel_env, ROLLOUT, defines)
}

/// `pack.cu` for a network.
pub fn pack_program(network: &Network, config: &Config, specialisation: &Specialisation) -> Program {
    let layout = SampleLayout::new(&network.architecture, false);
    // Leave out defines that the packing does not use, so that they do not cause a recompilation.
    let unused = [
        "THREADS",
        "WARP_BYTES",
        "WEIGHTS_AT",
        "SAMPLE_STRIDE",
        "NORM_OBS",
        "NORM_REWARD",
        "ACTIVATION_RELU",
    ];
    let mut defines = specialisation.defines(network, config, &layout);
    defines.retain(|(name, _)| !unused.contains(&name.as_str()));
    ProgramText { kernel: PACK, name: "its network", environment: None, defines }.program()
}

/// Sizes of a rollout with the network inside.
#[derive(Debug, Clone, Copy)]
pub struct RolloutSizes {
    horizon: HorizonSizes,
    packed_words: usize,
}

operant_cuda::params! {
    /// Parameters of the rollout: warps stay within their tile's columns and rows below T, blocks within their entry.
    pub struct RolloutParams<'a>(of: RolloutSizes) for ["rollout", "rollout_norms"], blocks of.horizon.blocks, {
        /// (packed words).
        weights: reads [f32; of.packed_words],
        horizon: part [HorizonParams, &of.horizon],
    }
}

/// P, and words of the packed weights.
#[derive(Debug, Clone, Copy)]
pub struct PackSizes {
    parameters: usize,
    packed_words: usize,
}

operant_cuda::params! {
    /// Parameters of `pack`: a thread writes one of the packed words, or none, and reads below P.
    pub struct PackParams<'a>(of: PackSizes) for ["pack"], blocks usize::MAX, {
        /// (P).
        parameters: reads [f32; of.parameters],
        /// (packed words).
        packed: writes [f32; of.packed_words],
    }
}

/// The kernel with the network inside, and the weights as it reads them.
#[derive(Debug)]
pub struct FusedPolicy {
    pub specialisation: Specialisation,
    rollout: Function,
    /// With several devices.
    norms: Option<Function>,
    ahead: Option<Ahead>,
    pack: Function,
    pub weights: Buffer<f32>,
    parameters: usize,
}

impl FusedPolicy {
    /// Blocks of a launch over N environments.
    pub fn blocks(specialisation: &Specialisation, num_envs: usize) -> usize {
        num_envs.div_ceil(specialisation.warps * TILE)
    }

    /// Memory for weights of its own.
    pub fn own_weights(
        allocator: &Allocator,
        specialisation: &Specialisation,
    ) -> Result<Buffer<f32>, CudaError> {
        allocator.alloc(specialisation.packed_words)
    }

    /// Loads the kernels, with these weights.
    ///
    /// # Errors
    /// When the kernels do not compile, or the device refuses that much shared memory.
    pub fn new(
        device: &Device,
        kernel_env: &KernelEnv,
        (network, local): (&Network, &Local),
        specialisation: Specialisation,
        weights: Buffer<f32>,
    ) -> Result<Self, LearnError> {
        let module = device.load(&rollout_program(kernel_env, network, local, &specialisation))?;
        let mut rollout = module.function("rollout")?;
        rollout.shared(specialisation.shared)?;
        let pack = device.load(&pack_program(network, &local.run, &specialisation))?.function("pack")?;
        let norms = (local.devices > 1).then(|| module.function("rollout_norms")).transpose()?;
        let ahead = Ahead::new(device, kernel_env, local.num_envs)?;
        Ok(Self { specialisation, rollout, norms, ahead, pack, weights, parameters: network.len() })
    }

    /// The launch over N environments, for its registers and occupancy.
    pub fn kernel(&self, num_envs: usize) -> (&Function, LaunchConfig) {
        let specialisation = &self.specialisation;
        let grid = LaunchConfig {
            blocks: Self::blocks(specialisation, num_envs) as u32,
            threads: specialisation.threads(),
            shared: specialisation.shared as u32,
        };
        (&self.rollout, grid)
    }

    /// Packs `parameters` (P) into its weights.
    pub fn pack(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), CudaError> {
        let packed_words = self.specialisation.packed_words;
        let sizes = PackSizes { parameters: self.parameters, packed_words };
        let params = PackParams { parameters, packed: &self.weights };
        self.pack.run(stream, LaunchConfig::covering(packed_words, 256), &params, &sizes)
    }

    /// Plays a rollout.
    pub fn roll(
        &self,
        stream: &Stream,
        horizon: HorizonParams<'_>,
        of: &HorizonSizes,
    ) -> Result<(), CudaError> {
        if let Some(ahead) = &self.ahead {
            ahead.make(stream, horizon.next, horizon.ahead_of(0))?;
        }
        let sizes = RolloutSizes { horizon: *of, packed_words: self.specialisation.packed_words };
        let (function, grid) = self.kernel(of.num_envs);
        function.run(stream, grid, &RolloutParams { weights: &self.weights, horizon }, &sizes)
    }

    /// Merges the sums of all devices' rollouts into the running statistics.
    pub fn merge_norms(
        &self,
        stream: &Stream,
        horizon: HorizonParams<'_>,
        of: &HorizonSizes,
    ) -> Result<(), CudaError> {
        let Some(norms) = &self.norms else { return Ok(()) };
        let sizes = RolloutSizes { horizon: *of, packed_words: self.specialisation.packed_words };
        let grid = LaunchConfig { blocks: 1, threads: self.specialisation.threads(), shared: 0 };
        norms.run(stream, grid, &RolloutParams { weights: &self.weights, horizon }, &sizes)
    }
}
