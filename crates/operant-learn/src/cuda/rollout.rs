//! The rollout on a GPU: environments, weights and buffers on the device; one launch or one graph per rollout.

use operant_cuda::{Buffer, Communicator, CudaError, Device, Function, LaunchConfig, Stream};
use operant_env::AnyEnv;

use super::choice::{Kernels, NetworkOptions, choose, for_players};
use super::common::env::KernelEnv;
use super::common::gae::{GaeBuffers, advantages};
use super::common::horizon::{HorizonMemory, HorizonSizes};
use super::common::local::Local;
use super::common::memory::Allocator;
use super::common::overlap::BlockResources;
use super::common::structs::{Discounts, EpisodeTotals, RunningNorm};
use super::fused::rollout::FusedPolicy;
use super::fused::specialise::{Limits, Specialisation};
use super::gemm::layout::GemmLayout;
use super::gemm::minibatch::Sampled;
use super::gemm::products::Weights;
use super::gemm::rnd::GemmRnd;
use super::gemm::rollout::{GemmPolicy, GemmPolicyMemory};
use super::learner::{CudaLearner, LearnerWeights};
use super::play::random_play;
use crate::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network};
use crate::sample::SampleLayout;
use crate::state::SavedPriorities;

/// The path that runs the policy.
enum Policy {
    /// Fused into the kernel that steps the environments.
    Fused(Box<FusedPolicy>),
    /// Matrix products between two steps.
    Gemm(Box<GemmPolicy>),
}

/// N environments of one kind and the policy that plays them, on a GPU.
pub struct CudaRollout {
    local: Local,
    network: Network,
    layout: SampleLayout,
    policy: Policy,
    stream: Stream,
    params: Buffer<f32>,
    log_std: Option<Buffer<f32>>,
    sizes: HorizonSizes,
    memory: HorizonMemory,
    /// The sample buffer of the current rollout.
    turn: usize,
    recording: bool,
    /// The other devices of the run.
    link: Option<Communicator>,
}

/// The inputs for setting up a rollout.
struct RolloutSetup<'a> {
    device: &'a Device,
    kernel_env: &'a KernelEnv,
    network: &'a Network,
    local: &'a Local,
    options: NetworkOptions,
    /// The learner whose weights it plays with, else None.
    follows: Option<&'a CudaLearner>,
}

impl Policy {
    /// The policy with an allocator's memory, and the sizes of its rollouts.
    fn new(
        allocator: &Allocator,
        stream: &Stream,
        of: &RolloutSetup<'_>,
    ) -> Result<(Self, HorizonSizes), LearnError> {
        let RolloutSetup { device, kernel_env, network, local, options, follows } = *of;
        let options = for_players(options, kernel_env.spec.players, local.run.core)?;
        let limits = Limits::from(device.properties());
        let kernels = match options.kernels {
            Kernels::Auto => choose(network, local, options, limits, || device.has_blas())?.kernels,
            asked => asked,
        };
        let sizes = |blocks| HorizonSizes::new(kernel_env, network, local, blocks);
        let followed = follows.map(CudaLearner::weights).transpose()?;
        if kernels == Kernels::Gemm {
            let gemm_layout = GemmLayout::new(network, options.precision);
            let sizes = sizes(GemmPolicy::blocks(local.num_envs));
            let memory = GemmPolicyMemory::new(allocator, kernel_env, (network, local), &gemm_layout, sizes)?;
            let weights = match followed {
                Some(LearnerWeights::Gemm(weights)) => weights,
                _ => Weights::zeros(allocator, &gemm_layout, stream)?,
            };
            let of = (network, local, gemm_layout);
            let policy = GemmPolicy::new(device, stream, kernel_env, of, (sizes, memory), weights)?;
            return Ok((Policy::Gemm(Box::new(policy)), sizes));
        }
        // Determined by all environments, so that statistics are merged in the same parts for any number of devices.
        let specialisation = Specialisation::new(network, &local.run, options.precision, limits)?;
        let sizes = sizes(FusedPolicy::blocks(&specialisation, local.num_envs));
        let weights = match followed {
            Some(LearnerWeights::Fused(packed)) => packed,
            _ => FusedPolicy::own_weights(allocator, &specialisation)?,
        };
        let policy = FusedPolicy::new(device, kernel_env, (network, local), specialisation, weights)?;
        Ok((Policy::Fused(Box::new(policy)), sizes))
    }
}

impl CudaRollout {
    /// N environments at the start of their first episodes, and zero weights; [`CudaRollout::set_params`] sets them.
    ///
    /// # Errors
    /// When no kernels run the network, they do not compile, or the device has no room.
    pub fn new(
        device: &Device,
        env: &dyn AnyEnv,
        config: &Config,
        options: impl Into<NetworkOptions>,
    ) -> Result<Self, LearnError> {
        let kernel_env = KernelEnv::of(env)?;
        Self::within(&Allocator::of(device), device, &kernel_env, &config.into(), options.into(), None, 1)
    }

    /// Like `new`, with memory from `allocator`. It uses the weights of a learner of the same precision if `follows` is given, else its own, and
    /// has `sample_buffers` buffers for samples ([`CudaRollout::fill`]).
    pub(super) fn within(
        allocator: &Allocator,
        device: &Device,
        kernel_env: &KernelEnv,
        local: &Local,
        options: NetworkOptions,
        follows: Option<&CudaLearner>,
        sample_buffers: usize,
    ) -> Result<Self, LearnError> {
        let network = Network::new(Architecture::of(&kernel_env.spec, &local.run)?);
        let stream = device.stream()?;
        let setup = RolloutSetup { device, kernel_env, network: &network, local, options, follows };
        let (policy, sizes) = Policy::new(allocator, &stream, &setup)?;
        let params = match follows {
            Some(learner) => learner.memory.parameters.part(0..network.len())?,
            None => allocator.alloc(network.len())?,
        };
        let memory = HorizonMemory::new(allocator, &sizes, sample_buffers)?;
        memory.begin(&stream, sizes.norms)?;
        // The same kernels as in random play, so that environments are started by one piece of code.
        let environments = sizes.first_environment..sizes.first_environment + local.num_envs;
        random_play::start(device, &stream, kernel_env, &memory.environments, environments, local.run.seed)?;
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
            link: None,
            local: local.clone(),
            layout: SampleLayout::new(&network.architecture, kernel_env.masked),
            network,
            stream,
        };
        if follows.is_none() {
            made.set_params(&vec![0.0; made.network.len()])?;
        }
        Ok(made)
    }

    /// The policy's network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The layout of a sample.
    pub fn layout(&self) -> &SampleLayout {
        &self.layout
    }

    /// The kernel's specialisation; None on the GEMM path.
    pub fn specialisation(&self) -> Option<&Specialisation> {
        match &self.policy {
            Policy::Fused(fused) => Some(&fused.specialisation),
            Policy::Gemm(_) => None,
        }
    }

    /// The launch, for its registers and occupancy; None on the GEMM path.
    pub fn kernel(&self) -> Option<(&Function, LaunchConfig)> {
        match &self.policy {
            Policy::Fused(fused) => Some(fused.kernel(self.local.num_envs)),
            Policy::Gemm(_) => None,
        }
    }

    /// The resources of a block of that launch.
    pub(super) fn block_needs(&self) -> Result<Option<BlockResources>, CudaError> {
        self.kernel().map(BlockResources::of).transpose()
    }

    /// The stream that rollouts run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sets the network's flat parameters, `(P)`.
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

    /// Copies the weights of a learner of the same precision, at this point of its stream.
    ///
    /// # Errors
    /// When the learner has a different network, or the device fails.
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

    /// Selects the sample buffer for the next rollouts.
    pub(super) fn fill(&mut self, turn: usize) {
        self.turn = turn;
    }

    /// Enqueues a rollout: one launch, without bus transfers; into a replay several.
    ///
    /// # Errors
    /// When the launch fails.
    pub fn roll(&self) -> Result<(), LearnError> {
        self.roll_with(None)
    }

    /// Like `roll`, with rewards for exploring from these networks.
    pub(super) fn roll_with(&self, rnd: Option<&GemmRnd>) -> Result<(), LearnError> {
        if self.sampled().is_some() {
            return self.play(|_| Ok(()));
        }
        let (memory, sizes, stream) = (&self.memory, &self.sizes, &self.stream);
        let horizon = memory.params(&self.local, sizes, self.log_std.as_ref(), self.turn, self.recording);
        match &self.policy {
            Policy::Fused(fused) => fused.roll(stream, horizon, sizes)?,
            Policy::Gemm(gemm) => gemm.roll(stream, horizon, rnd)?,
        }
        if let (Some(link), Some(rnd)) = (&self.link, rnd) {
            rnd.merge_all(stream, link)?;
        }
        let norms =
            memory.norms.as_ref().and_then(|norms| norms.all_partials.as_ref().zip(Some(&norms.partials)));
        let (Some(link), Some((all, own))) = (&self.link, norms) else { return Ok(()) };
        link.gather(stream, own, all)?;
        match &self.policy {
            Policy::Fused(fused) => Ok(fused.merge_norms(stream, horizon, sizes)?),
            Policy::Gemm(gemm) => Ok(gemm.merge_norms(stream, horizon)?),
        }
    }

    /// What minibatches are drawn from, where the algorithm has a replay.
    pub(super) fn sampled(&self) -> Option<Sampled<'_>> {
        let Policy::Gemm(gemm) = &self.policy else { return None };
        Some(Sampled { ring: gemm.ring()?, scales: self.memory.norms.as_ref().map(|norms| &norms.scales) })
    }

    /// What a snapshot holds of a replay's priorities.
    pub(super) fn priorities(&self) -> Result<Option<SavedPriorities>, LearnError> {
        self.sampled().map_or(Ok(None), |from| from.ring.saved(&self.stream))
    }

    /// Enqueues a rollout into a replay. Between the choice of a step's actions and the step itself `learn` may enqueue minibatches, given the
    /// step's number.
    ///
    /// # Errors
    /// When a launch fails.
    pub(super) fn play(
        &self,
        mut learn: impl FnMut(usize) -> Result<(), LearnError>,
    ) -> Result<(), LearnError> {
        let (memory, sizes, stream) = (&self.memory, &self.sizes, &self.stream);
        let horizon = memory.params(&self.local, sizes, self.log_std.as_ref(), self.turn, self.recording);
        let Policy::Gemm(gemm) = &self.policy else { panic!("the algorithm has no replay") };
        gemm.begin(stream, horizon)?;
        for step in 0..sizes.num_steps {
            gemm.act(stream, horizon, step)?;
            learn(step)?;
            gemm.step(stream, horizon, step)?;
        }
        Ok(gemm.finish(stream, horizon)?)
    }

    /// Links it with those of the run's other devices.
    pub(super) fn link(&mut self, link: Communicator) {
        self.link = Some(link);
    }

    /// The episodes that ended in the last rollout; waits for it.
    ///
    /// # Errors
    /// When the device fails, as in everything below.
    pub fn episodes(&self) -> Result<EpisodeTotals, LearnError> {
        Ok(self.memory.totals.read(&self.stream)?[0])
    }

    /// The samples of the last rollout, `(T, N, stride)` words; with memory followed by the states that sequences began with,
    /// `(sequences of an environment, N, states)`.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn samples(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.samples_buffer().read(&self.stream)?)
    }

    /// The inputs of GAE: rewards with bootstraps, values, flags, all `(T, N)`, and V after the last step, `(N)`.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn returns(&self) -> Result<Returns, LearnError> {
        Ok(Returns {
            rewards: self.memory.rewards.read(&self.stream)?,
            values: self.memory.values.read(&self.stream)?,
            flags: self.memory.flags.read(&self.stream)?,
            next_values: self.memory.next_values.read(&self.stream)?,
            movers: match &self.policy {
                Policy::Gemm(gemm) => gemm.movers().map(|movers| movers.read(&self.stream)).transpose()?,
                Policy::Fused(_) => None,
            },
        })
    }

    /// The running environments, `(leaves + 2, N)`: state, length and return of the episode.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn environments(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.memory.environments.read(&self.stream)?)
    }

    /// Replaces the environments' states and the global step.
    ///
    /// # Errors
    /// When there are not as many words, or the device fails.
    pub fn set_environments(&self, words: &[u32], step: u64) -> Result<(), LearnError> {
        self.memory.environments.write(&self.stream, words)?;
        self.memory.clock.write(&self.stream, &[step])?;
        Ok(())
    }

    /// Running statistics of the normalised quantities: features, then the discounted return; none without normalisation.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn running_norms(&self) -> Result<Vec<RunningNorm>, LearnError> {
        self.memory.norms.as_ref().map_or(Ok(Vec::new()), |norms| Ok(norms.running.read(&self.stream)?))
    }

    /// Sets those statistics, and the frozen `(shift, scale)` of each that rollouts use.
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

    /// The state of layers with memory, `(N, states)`; none without memory.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn memory(&self) -> Result<Vec<f32>, LearnError> {
        self.state().map_or(Ok(Vec::new()), |state| Ok(state.read(&self.stream)?))
    }

    /// Sets the state of layers with memory; does nothing without memory.
    ///
    /// # Errors
    /// When there are not N x states numbers, or the device fails.
    pub fn set_memory(&self, memory: &[f32]) -> Result<(), LearnError> {
        self.state().map_or(Ok(()), |state| Ok(state.write(&self.stream, memory)?))
    }

    /// What the running episodes have shown, `(N, words)`; none without rewards for exploring.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn counts(&self) -> Result<Vec<u32>, LearnError> {
        self.tables().map_or(Ok(Vec::new()), |tables| Ok(tables.read(&self.stream)?))
    }

    /// Sets it; does nothing without rewards for exploring.
    ///
    /// # Errors
    /// When there are not N x words numbers, or the device fails.
    pub fn set_counts(&self, counts: &[u32]) -> Result<(), LearnError> {
        self.tables().map_or(Ok(()), |tables| Ok(tables.write(&self.stream, counts)?))
    }

    fn tables(&self) -> Option<&Buffer<u32>> {
        match &self.policy {
            Policy::Fused(_) => None,
            Policy::Gemm(gemm) => gemm.counts(),
        }
    }

    fn state(&self) -> Option<&Buffer<f32>> {
        match &self.policy {
            Policy::Fused(_) => None,
            Policy::Gemm(gemm) => gemm.state(),
        }
    }

    /// Fills every output buffer of a rollout with `byte`, so that a test detects words that it does not write.
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

    /// Fills the samples, advantages included, so that a test detects which advantages are written.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn wipe_advantages(&self) -> Result<(), LearnError> {
        Ok(self.samples_buffer().fill(&self.stream, 0xff)?)
    }

    /// The current sample buffer on the device.
    pub fn samples_buffer(&self) -> &Buffer<u32> {
        &self.memory.samples[self.turn]
    }

    /// Runs the separate GAE kernel over the last rollout, and overwrites its advantages.
    ///
    /// # Errors
    /// When its kernel does not compile, or the device fails.
    pub fn advantages_alone(&self, device: &Device) -> Result<(), LearnError> {
        let samples = self.samples_buffer().part(0..self.sizes.steps() * self.sizes.sample_stride)?;
        let buffers = GaeBuffers {
            rewards: &self.memory.rewards,
            values: &self.memory.values,
            flags: &self.memory.flags,
            samples: &samples,
            next_values: &self.memory.next_values,
        };
        let (run, size) = (&self.local.run, [self.local.run.num_steps, self.local.num_envs]);
        advantages(device, &self.stream, &buffers, size, &self.layout, Discounts::of(run))
    }

    /// Sets whether the next rollouts record environment 0; see [`CudaRollout::scene`].
    pub fn record_scene(&mut self, on: bool) {
        self.recording = on;
    }

    /// Environment 0 before each step of the last rollout, the step's flags and the return after it, `(T, leaves + 4)`; none
    /// unless recorded.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn scene(&self) -> Result<Option<Vec<u32>>, LearnError> {
        if self.recording { Ok(Some(self.memory.scene.read(&self.stream)?)) } else { Ok(None) }
    }

    /// Sums and counts of the environment's own metrics of those episodes, on the device.
    pub(super) fn metrics(&self) -> Option<&Buffer<f64>> {
        self.memory.metrics.as_ref().map(|[_, totals]| totals)
    }

    /// The episodes that ended in the last rollout, on the device.
    pub(super) fn totals(&self) -> &Buffer<EpisodeTotals> {
        &self.memory.totals
    }

    /// The scene's buffer on the device.
    pub(super) fn scene_buffer(&self) -> &Buffer<u32> {
        &self.memory.scene
    }
}

/// The inputs of GAE.
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
    /// `(T + 1, N)`: whose turn it was before each step and is after the last, in games of several players whose network runs as products.
    pub movers: Option<Vec<u8>>,
}
