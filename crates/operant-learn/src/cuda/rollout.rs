//! The rollout on a GPU: environments, weights and the buffers of a horizon on the device, one launch a horizon, or one graph.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Stream};
use operant_env::AnyEnv;

use super::choice::{Kernels, NetworkOptions, choose};
use super::common::env::KernelEnv;
use super::common::gae::{GaeBuffers, advantages};
use super::common::horizon::{HorizonMemory, HorizonSizes};
use super::common::memory::Room;
use super::common::overlap::BlockNeeds;
use super::common::structs::{Discounts, Episodes, RunningNorm};
use super::fused::rollout::FusedPolicy;
use super::fused::specialise::{Limits, Specialisation};
use super::gemm::layout::Form;
use super::gemm::products::Weights;
use super::gemm::rollout::{GemmPolicy, GemmPolicyMemory};
use super::learner::{CudaLearner, LearnerWeights};
use super::play::random_play;
use crate::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network};
use crate::sample::SampleLayout;

/// What runs the policy.
enum Policy {
    /// The kernel that steps the environments.
    Fused(Box<FusedPolicy>),
    /// Matrix products between two steps.
    Gemm(Box<GemmPolicy>),
}

/// N environments of one kind and the policy that plays them, on a GPU.
pub struct CudaRollout {
    config: Config,
    network: Network,
    layout: SampleLayout,
    policy: Policy,
    stream: Stream,
    params: Buffer<f32>,
    log_std: Option<Buffer<f32>>,
    sizes: HorizonSizes,
    memory: HorizonMemory,
    /// Which of the buffers of samples the next horizon fills, or the last one filled.
    turn: usize,
    recording: bool,
}

/// What a rollout is made of besides its memory.
struct Plan<'a> {
    device: &'a Device,
    kernel_env: &'a KernelEnv,
    network: &'a Network,
    config: &'a Config,
    options: NetworkOptions,
    /// The learner whose weights it plays with, else None.
    follows: Option<&'a CudaLearner>,
}

impl Policy {
    /// The policy in the memory of a room, and the sizes of its horizons.
    fn new(room: &Room, stream: &Stream, of: &Plan<'_>) -> Result<(Self, HorizonSizes), LearnError> {
        let Plan { device, kernel_env, network, config, options, follows } = *of;
        let limits = Limits::from(device.properties());
        let kernels = match options.kernels {
            Kernels::Auto => choose(network, config, options, limits, || device.has_blas())?.kernels,
            asked => asked,
        };
        let sizes = |blocks| HorizonSizes::new(kernel_env, network, config, blocks);
        let followed = follows.map(CudaLearner::weights).transpose()?;
        if kernels == Kernels::Gemm {
            let form = Form::new(network, options.precision);
            let sizes = sizes(GemmPolicy::blocks(config.num_envs));
            let memory = GemmPolicyMemory::new(room, kernel_env, config, &form, sizes)?;
            let weights = match followed {
                Some(LearnerWeights::Gemm(weights)) => weights,
                _ => Weights::zeros(room, &form, stream)?,
            };
            let of = (network, config, form);
            let policy = GemmPolicy::new(device, stream, kernel_env, of, (sizes, memory), weights)?;
            return Ok((Policy::Gemm(Box::new(policy)), sizes));
        }
        let specialisation = Specialisation::new(network, config, options.precision, limits)?;
        let sizes = sizes(FusedPolicy::blocks(&specialisation, config.num_envs));
        let weights = match followed {
            Some(LearnerWeights::Fused(packed)) => packed,
            _ => FusedPolicy::own_weights(room, &specialisation)?,
        };
        let policy = FusedPolicy::new(device, kernel_env, (network, config), specialisation, weights)?;
        Ok((Policy::Fused(Box::new(policy)), sizes))
    }
}

impl CudaRollout {
    /// N environments at the start of their first episodes, and zero weights; [`CudaRollout::set_params`] brings real ones.
    ///
    /// # Errors
    /// When no kernels run the network, they do not compile, or the device has no room.
    pub fn new(
        device: &Device,
        env: &dyn AnyEnv,
        config: &Config,
        options: impl Into<NetworkOptions>,
    ) -> Result<Self, LearnError> {
        Self::within(&Room::of(device), device, &KernelEnv::of(env)?, config, options.into(), None, 1)
    }

    /// The same with the memory of a room: with the weights of a learner of the same precision where it follows one, else
    /// with its own; and with so many buffers for samples ([`CudaRollout::fill`]).
    ///
    /// # Errors
    /// See [`CudaRollout::new`].
    pub(super) fn within(
        room: &Room,
        device: &Device,
        kernel_env: &KernelEnv,
        config: &Config,
        options: NetworkOptions,
        follows: Option<&CudaLearner>,
        sample_buffers: usize,
    ) -> Result<Self, LearnError> {
        let network = Network::new(Architecture::of(&kernel_env.spec, config)?);
        let stream = device.stream()?;
        let plan = Plan { device, kernel_env, network: &network, config, options, follows };
        let (policy, sizes) = Policy::new(room, &stream, &plan)?;
        let params = match follows {
            Some(learner) => learner.memory.parameters.part(0..network.len())?,
            None => room.alloc(network.len())?,
        };
        let memory = HorizonMemory::new(room, &sizes, sample_buffers)?;
        memory.begin(&stream, sizes.norms)?;
        // The same kernels as random play's, so that there is one place that starts environments.
        let (n, seed) = (config.num_envs, config.seed);
        random_play::start(device, &stream, kernel_env, &memory.environments, n, seed)?;
        let made = Self {
            log_std: match network.log_std {
                Some(start) => Some(params.part(start..start + sizes.log_std)?),
                None => None,
            },
            params,
            policy,
            sizes,
            memory,
            turn: 0,
            recording: false,
            config: config.clone(),
            layout: SampleLayout::new(&network.architecture, kernel_env.masked),
            network,
            stream,
        };
        if follows.is_none() {
            made.set_params(&vec![0.0; made.network.len()])?;
        }
        Ok(made)
    }

    /// The network that the policy is.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How a sample is packed.
    pub fn layout(&self) -> &SampleLayout {
        &self.layout
    }

    /// How the kernel was specialised; None where the network runs as matrix products.
    pub fn specialisation(&self) -> Option<&Specialisation> {
        match &self.policy {
            Policy::Fused(fused) => Some(&fused.specialisation),
            Policy::Gemm(_) => None,
        }
    }

    /// The launch, for its registers and occupancy; None where the network runs as matrix products.
    pub fn kernel(&self) -> Option<(&Function, LaunchConfig)> {
        match &self.policy {
            Policy::Fused(fused) => Some(fused.kernel(self.config.num_envs)),
            Policy::Gemm(_) => None,
        }
    }

    /// What a block of that launch takes of a multiprocessor.
    pub(super) fn block_needs(&self) -> Result<Option<BlockNeeds>, CudaError> {
        self.kernel().map(BlockNeeds::of).transpose()
    }

    /// The stream that horizons run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Brings the network's flat parameters, `(P)`.
    ///
    /// # Errors
    /// When there are not P of them, or the device fails.
    pub fn set_params(&self, params: &[f32]) -> Result<(), LearnError> {
        self.params.write(&self.stream, params)?;
        match &self.policy {
            Policy::Fused(fused) => Ok(fused.pack(&self.stream, &self.params)?),
            Policy::Gemm(gemm) => Ok(gemm.pack(&self.stream, &self.params)?),
        }
    }

    /// Takes over the weights that a learner of the same precision has at this place in its stream.
    ///
    /// # Errors
    /// When the learner is of another network, or the device fails.
    pub(super) fn take_weights(&self, stream: &Stream, learner: &CudaLearner) -> Result<(), LearnError> {
        self.params.copy_from(stream, &learner.memory.parameters)?;
        match (&self.policy, learner.weights()?) {
            (Policy::Fused(fused), LearnerWeights::Fused(packed)) => {
                Ok(fused.weights.copy_from(stream, &packed)?)
            }
            (Policy::Gemm(gemm), LearnerWeights::Gemm(weights)) => {
                Ok(gemm.weights.copy_from(stream, &weights)?)
            }
            _ => Err(CudaError::Length { what: "weights of other kernels", given: 0, expected: 0 }.into()),
        }
    }

    /// The flat parameters that it plays with, `(P)`.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub(super) fn params(&self) -> Result<Vec<f32>, LearnError> {
        Ok(self.params.read(&self.stream)?)
    }

    /// Fills this one of its buffers of samples from now on.
    pub(super) fn fill(&mut self, turn: usize) {
        self.turn = turn;
    }

    /// Enqueues a horizon: one launch, and nothing over the bus.
    ///
    /// # Errors
    /// When the launch fails.
    pub fn roll(&self) -> Result<(), LearnError> {
        let horizon = self.memory.params(&self.config, self.log_std.as_ref(), self.turn, self.recording);
        match &self.policy {
            Policy::Fused(fused) => Ok(fused.roll(&self.stream, horizon, &self.sizes)?),
            Policy::Gemm(gemm) => gemm.roll(&self.stream, horizon),
        }
    }

    /// The episodes that ended in the last horizon; waits for it.
    ///
    /// # Errors
    /// When the device fails, as in everything below.
    pub fn episodes(&self) -> Result<Episodes, LearnError> {
        Ok(self.memory.totals.read(&self.stream)?[0])
    }

    /// The samples of the last horizon, `(T, N, stride)` words.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn samples(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.samples_buffer().read(&self.stream)?)
    }

    /// What GAE ran over: rewards with bootstraps, values, flags, all `(T, N)`, and V after the last step, `(N)`.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn returns(&self) -> Result<Returns, LearnError> {
        Ok(Returns {
            rewards: self.memory.rewards.read(&self.stream)?,
            values: self.memory.values.read(&self.stream)?,
            flags: self.memory.flags.read(&self.stream)?,
            next_values: self.memory.next_values.read(&self.stream)?,
        })
    }

    /// The running environments, `(leaves + 2, N)`: state, length and return of the episode.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn environments(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.memory.environments.read(&self.stream)?)
    }

    /// Puts the environments elsewhere, at global step `step`.
    ///
    /// # Errors
    /// When there are not as many words, or the device fails.
    pub fn set_environments(&self, words: &[u32], step: u64) -> Result<(), LearnError> {
        self.memory.environments.write(&self.stream, words)?;
        self.memory.clock.write(&self.stream, &[step])?;
        Ok(())
    }

    /// Running statistics of what is normalised: features, then the discounted return; none without normalisation.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn running_norms(&self) -> Result<Vec<RunningNorm>, LearnError> {
        self.memory.norms.as_ref().map_or(Ok(Vec::new()), |norms| Ok(norms.running.read(&self.stream)?))
    }

    /// Sets those statistics, and the frozen `(shift, scale)` of each that horizons use.
    ///
    /// # Errors
    /// When there are not as many, or the device fails.
    pub fn set_running_norms(&self, norms: &[RunningNorm], scales: &[f32]) -> Result<(), LearnError> {
        if let Some(own) = &self.memory.norms {
            own.running.write(&self.stream, norms)?;
            own.scales.write(&self.stream, scales)?;
        }
        Ok(())
    }

    /// The discounted returns that reward normalisation follows, `(N)`; none without it.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn discounted(&self) -> Result<Vec<f32>, LearnError> {
        let discounted = self.memory.norms.as_ref().and_then(|norms| norms.discounted.as_ref());
        discounted.map_or(Ok(Vec::new()), |discounted| Ok(discounted.read(&self.stream)?))
    }

    /// Sets them; nothing without reward normalisation.
    ///
    /// # Errors
    /// When there are not N, or the device fails.
    pub fn set_discounted(&self, discounted: &[f32]) -> Result<(), LearnError> {
        if let Some(own) = self.memory.norms.as_ref().and_then(|norms| norms.discounted.as_ref()) {
            own.write(&self.stream, discounted)?;
        }
        Ok(())
    }

    /// Fills everything that a horizon must write with `byte`, so that a test sees what it left out.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn poison(&self, byte: u8) -> Result<(), LearnError> {
        self.samples_buffer().fill(&self.stream, byte)?;
        self.memory.rewards.fill(&self.stream, byte)?;
        self.memory.values.fill(&self.stream, byte)?;
        self.memory.flags.fill(&self.stream, byte)?;
        self.memory.next_values.fill(&self.stream, byte)?;
        self.memory.totals.fill(&self.stream, byte)?;
        Ok(())
    }

    /// Fills the samples, advantages included, so that a test sees which advantages are written.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn wipe_advantages(&self) -> Result<(), LearnError> {
        Ok(self.samples_buffer().fill(&self.stream, 0xff)?)
    }

    /// The samples on the device: those of the last horizon, or where the next one will leave them.
    pub fn samples_buffer(&self) -> &Buffer<u32> {
        &self.memory.samples[self.turn]
    }

    /// Runs GAE by itself over what the last horizon left, in place of the advantages that the horizon wrote.
    ///
    /// # Errors
    /// When its kernel does not compile, or the device fails.
    pub fn advantages_alone(&self, device: &Device) -> Result<(), LearnError> {
        let buffers = GaeBuffers {
            rewards: &self.memory.rewards,
            values: &self.memory.values,
            flags: &self.memory.flags,
            samples: self.samples_buffer(),
            next_values: &self.memory.next_values,
        };
        let (config, size) = (&self.config, [self.config.num_steps, self.config.num_envs]);
        advantages(device, &self.stream, &buffers, size, &self.layout, Discounts::of(config))
    }

    /// Whether environment 0 is recorded in the horizons to come; see [`CudaRollout::scene`].
    pub fn record_scene(&mut self, on: bool) {
        self.recording = on;
    }

    /// Environment 0 before each step of the last horizon, the step's flags and the return after it, `(T, leaves + 4)`; none
    /// unless recorded.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn scene(&self) -> Result<Option<Vec<u32>>, LearnError> {
        if self.recording { Ok(Some(self.memory.scene.read(&self.stream)?)) } else { Ok(None) }
    }

    /// The episodes that ended in the last horizon, on the device.
    pub(super) fn totals(&self) -> &Buffer<Episodes> {
        &self.memory.totals
    }

    /// Where that is on the device.
    pub(super) fn scene_buffer(&self) -> &Buffer<u32> {
        &self.memory.scene
    }
}

/// What GAE ran over.
#[derive(Debug, Clone, PartialEq)]
pub struct Returns {
    /// `(T, N)`, with the bootstrap where only the time limit ended an episode.
    pub rewards: Vec<f32>,
    /// `(T, N)`.
    pub values: Vec<f32>,
    /// `(T, N)`: 1 terminated, 2 truncated.
    pub flags: Vec<u8>,
    /// `(N)`.
    pub next_values: Vec<f32>,
}
