//! The rollout on a GPU: environments, weights and the buffers of a horizon on the device, one launch a horizon, or one graph.

use operant_cuda::kernels::{
    Episodes, Gae, GaeBuffers, Horizon, Pack, Rollout, RolloutBuffers, RolloutShape, RunningNorm,
};
use operant_cuda::{Buffer, Device, Stream};
use operant_env::{AnyEnv, running_words};

use super::layers::{Kernels, LayersPolicy, NetworkOptions, choose};
use super::memory::Room;
use super::play;
use super::program::{gae_program, pack_program, rollout_program};
use super::specialise::{Limits, Specialisation};
use super::update::CudaLearner;
use crate::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network};
use crate::sample::SampleLayout;

/// Count of a running statistic before anything was seen, as in Gymnasium.
const FIRST_COUNT: f64 = 1e-4;

/// Statistics of quantities that are normalised, with the scales that follow from them.
struct Norms {
    scales: Buffer<f32>,
    running: Buffer<RunningNorm>,
    partials: Buffer<f64>,
    discounted: Option<Buffer<f32>>,
}

/// What runs the policy.
enum Policy {
    /// The kernel that steps the environments.
    Fused(Box<FusedPolicy>),
    /// Matrix products between two steps.
    Layers(Box<LayersPolicy>),
}

/// The kernel with the network inside, and the weights as it reads them.
struct FusedPolicy {
    specialisation: Specialisation,
    rollout: Rollout,
    pack: Pack,
    weights: Buffer<f32>,
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
    pub(super) environments: Buffer<u32>,
    /// One, or several that horizons fill in turn.
    samples: Vec<Buffer<u32>>,
    /// Which of them the next horizon fills, or the last one filled.
    turn: usize,
    rewards: Buffer<f32>,
    values: Buffer<f32>,
    flags: Buffer<u8>,
    next_values: Buffer<f32>,
    norms: Option<Norms>,
    partials: Buffer<Episodes>,
    pub(super) totals: Buffer<Episodes>,
    clock: Buffer<u64>,
    ticket: Buffer<u32>,
    scene: Buffer<u32>,
    recording: bool,
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
        Self::within(&Room::of(device), env, config, options.into(), None, 1)
    }

    /// The same with the memory of a room: with the weights of a learner of the same precision where it follows one, else
    /// with its own; and with so many buffers for samples ([`CudaRollout::fill`]).
    ///
    /// # Errors
    /// See [`CudaRollout::new`].
    pub(super) fn within(
        room: &Room,
        env: &dyn AnyEnv,
        config: &Config,
        options: NetworkOptions,
        follows: Option<&CudaLearner>,
        sample_buffers: usize,
    ) -> Result<Self, LearnError> {
        let device = room.device();
        let spec = env.spec();
        let network = Network::new(Architecture::of(&spec, config)?);
        let layout = SampleLayout::new(&network.architecture, env.masked());
        let running_words = running_words(env);
        let log_std = network.log_std.map_or(0, |_| network.policy_outputs());
        let count_of_norms = norms_of(&network, config);
        let (n, samples) = (config.num_envs, config.num_envs * config.num_steps);
        let stream = device.stream()?;
        let environments = room.alloc(running_words * n)?;
        // One thread a first state; the same kernels as random play's, so that there is one place that starts environments.
        play::start(device, &stream, env, &environments, n, config.seed)?;
        let params = match follows {
            Some(learner) => learner.parameters.part(0..network.len())?,
            None => room.alloc(network.len())?,
        };
        let kernels = match options.kernels {
            Kernels::Auto => {
                let limits = Limits::from(device.properties());
                choose(&network, config, options, limits, || device.has_blas())?.kernels
            }
            asked => asked,
        };
        let policy = if kernels == Kernels::Layers {
            let weights = match follows {
                Some(learner) => Some(learner.packed()?),
                None => None,
            };
            let sizes = [count_of_norms, running_words];
            let network = (&network, config, options.precision);
            let policy = LayersPolicy::new(room, &stream, env, network, sizes, weights)?;
            Policy::Layers(Box::new(policy))
        } else {
            let limits = Limits::from(device.properties());
            let specialisation = Specialisation::new(&network, config, options.precision, limits)?;
            let shape = RolloutShape {
                packed_words: specialisation.packed_words,
                log_std,
                running_words,
                sample_stride: layout.stride,
                norms: specialisation.norms,
                norm_reward: config.norm_reward,
                threads: specialisation.threads(),
                shared: specialisation.shared as u32,
            };
            let module = device.load(&rollout_program(env, &network, config, &specialisation)?)?;
            let rollout = Rollout::new(&module, shape)?;
            let module = device.load(&pack_program(&network, config, &specialisation))?;
            let pack = Pack::new(&module, network.len(), specialisation.packed_words)?;
            let weights = match follows {
                Some(learner) => learner.packed.part(0..specialisation.packed_words)?,
                None => room.alloc(specialisation.packed_words)?,
            };
            Policy::Fused(Box::new(FusedPolicy { specialisation, rollout, pack, weights }))
        };
        let blocks = policy.blocks(n);
        let buffers = (0..sample_buffers).map(|_| room.alloc(samples * layout.stride));
        let norms = match count_of_norms {
            0 => None,
            count => {
                let norms = Norms {
                    scales: room.alloc(2 * count)?,
                    running: room.alloc(count)?,
                    partials: room.alloc(2 * count * blocks)?,
                    discounted: if config.norm_reward { Some(room.alloc(n)?) } else { None },
                };
                norms
                    .running
                    .write(&stream, &vec![RunningNorm { mean: 0.0, var: 1.0, count: FIRST_COUNT }; count])?;
                norms.scales.write(&stream, &[0.0, 1.0].repeat(count))?;
                if let Some(discounted) = &norms.discounted {
                    discounted.fill(&stream, 0)?;
                }
                Some(norms)
            }
        };
        let made = Self {
            log_std: match network.log_std {
                Some(start) => Some(params.part(start..start + log_std)?),
                None => None,
            },
            params,
            policy,
            environments,
            samples: buffers.collect::<Result<_, _>>()?,
            turn: 0,
            rewards: room.alloc(samples)?,
            values: room.alloc(samples)?,
            flags: room.alloc(samples)?,
            next_values: room.alloc(n)?,
            norms,
            partials: room.alloc(blocks)?,
            totals: room.alloc(1)?,
            clock: room.alloc(1)?,
            ticket: room.alloc(1)?,
            scene: room.alloc(config.num_steps * (running_words + 2))?,
            recording: false,
            config: config.clone(),
            network,
            layout,
            stream,
        };
        made.clock.fill(&made.stream, 0)?;
        made.ticket.fill(&made.stream, 0)?;
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
            Policy::Layers(_) => None,
        }
    }

    /// The launch, for its registers and occupancy; None where the network runs as matrix products.
    pub fn kernel(&self) -> Option<&Rollout> {
        match &self.policy {
            Policy::Fused(fused) => Some(&fused.rollout),
            Policy::Layers(_) => None,
        }
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
            Policy::Fused(fused) => Ok(fused.pack.launch(&self.stream, &self.params, &fused.weights)?),
            Policy::Layers(layers) => layers.pack(&self.stream, &self.params),
        }
    }

    /// Takes over the weights that a learner of the same precision has at this place in its stream.
    ///
    /// # Errors
    /// When the learner is of another network, or the device fails.
    pub(super) fn take_weights(&self, stream: &Stream, learner: &CudaLearner) -> Result<(), LearnError> {
        self.params.copy_from(stream, &learner.parameters)?;
        match &self.policy {
            Policy::Fused(fused) => fused.weights.copy_from(stream, &learner.packed)?,
            Policy::Layers(layers) => {
                let [matrices, biases] = learner.packed()?;
                layers.weights().matrices.copy_from(stream, &matrices)?;
                layers.weights().biases.copy_from(stream, &biases)?;
            }
        }
        Ok(())
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
        let norms = self.norms.as_ref();
        let buffers = RolloutBuffers {
            weights: match &self.policy {
                Policy::Fused(fused) => &fused.weights,
                Policy::Layers(layers) => &layers.weights().matrices,
            },
            log_std: self.log_std.as_ref(),
            environments: &self.environments,
            samples: self.samples_buffer(),
            rewards: &self.rewards,
            values: &self.values,
            flags: &self.flags,
            next_values: &self.next_values,
            scales: norms.map(|norms| &norms.scales),
            running: norms.map(|norms| &norms.running),
            norm_partials: norms.map(|norms| &norms.partials),
            discounted: norms.and_then(|norms| norms.discounted.as_ref()),
            partials: &self.partials,
            totals: &self.totals,
            clock: &self.clock,
            ticket: &self.ticket,
            scene: self.recording.then_some(&self.scene),
        };
        let config = &self.config;
        let horizon = Horizon {
            num_envs: config.num_envs,
            num_steps: config.num_steps,
            seed: config.seed,
            gamma: config.gamma as f32,
            gae_lambda: config.gae_lambda as f32,
            clip_obs: config.clip_obs as f32,
            clip_reward: config.clip_reward as f32,
        };
        match &self.policy {
            Policy::Fused(fused) => Ok(fused.rollout.launch(&self.stream, &buffers, &horizon)?),
            Policy::Layers(layers) => layers.roll(&self.stream, &buffers, &horizon),
        }
    }

    /// The episodes that ended in the last horizon; waits for it.
    ///
    /// # Errors
    /// When the device fails, as in everything below.
    pub fn episodes(&self) -> Result<Episodes, LearnError> {
        Ok(self.totals.read(&self.stream)?[0])
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
            rewards: self.rewards.read(&self.stream)?,
            values: self.values.read(&self.stream)?,
            flags: self.flags.read(&self.stream)?,
            next_values: self.next_values.read(&self.stream)?,
        })
    }

    /// The running environments, `(leaves + 2, N)`: state, length and return of the episode.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn environments(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.environments.read(&self.stream)?)
    }

    /// Puts the environments elsewhere, at global step `step`.
    ///
    /// # Errors
    /// When there are not as many words, or the device fails.
    pub fn set_environments(&self, words: &[u32], step: u64) -> Result<(), LearnError> {
        self.environments.write(&self.stream, words)?;
        self.clock.write(&self.stream, &[step])?;
        Ok(())
    }

    /// Running statistics of what is normalised: features, then the discounted return; none without normalisation.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn running_norms(&self) -> Result<Vec<RunningNorm>, LearnError> {
        self.norms.as_ref().map_or(Ok(Vec::new()), |norms| Ok(norms.running.read(&self.stream)?))
    }

    /// Sets those statistics, and the frozen `(shift, scale)` of each that horizons use.
    ///
    /// # Errors
    /// When there are not as many, or the device fails.
    pub fn set_running_norms(&self, norms: &[RunningNorm], scales: &[f32]) -> Result<(), LearnError> {
        if let Some(own) = &self.norms {
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
        let discounted = self.norms.as_ref().and_then(|norms| norms.discounted.as_ref());
        discounted.map_or(Ok(Vec::new()), |discounted| Ok(discounted.read(&self.stream)?))
    }

    /// Sets them; nothing without reward normalisation.
    ///
    /// # Errors
    /// When there are not N, or the device fails.
    pub fn set_discounted(&self, discounted: &[f32]) -> Result<(), LearnError> {
        if let Some(own) = self.norms.as_ref().and_then(|norms| norms.discounted.as_ref()) {
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
        self.rewards.fill(&self.stream, byte)?;
        self.values.fill(&self.stream, byte)?;
        self.flags.fill(&self.stream, byte)?;
        self.next_values.fill(&self.stream, byte)?;
        self.totals.fill(&self.stream, byte)?;
        Ok(())
    }

    /// Fills the samples, advantages included, so that a test sees which advantages are written anew.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn wipe_advantages(&self) -> Result<(), LearnError> {
        Ok(self.samples_buffer().fill(&self.stream, 0xff)?)
    }

    /// The samples on the device: those of the last horizon, or where the next one will leave them.
    pub fn samples_buffer(&self) -> &Buffer<u32> {
        &self.samples[self.turn]
    }

    /// Runs GAE by itself over what the last horizon left, in place of the advantages that the horizon wrote.
    ///
    /// # Errors
    /// When its kernel does not compile, or the device fails.
    pub fn advantages_alone(&self, device: &Device) -> Result<(), LearnError> {
        let module = device.load(&gae_program())?;
        let gae = Gae::new(&module, self.layout.stride, self.layout.advantage)?;
        let buffers = GaeBuffers {
            rewards: &self.rewards,
            values: &self.values,
            flags: &self.flags,
            samples: self.samples_buffer(),
            next_values: &self.next_values,
        };
        let config = &self.config;
        let discounts = [config.gamma as f32, config.gae_lambda as f32];
        Ok(gae.launch(&self.stream, &buffers, [config.num_steps, config.num_envs], discounts)?)
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
        if self.recording { Ok(Some(self.scene.read(&self.stream)?)) } else { Ok(None) }
    }

    /// Where that is on the device.
    pub(super) fn scene_buffer(&self) -> &Buffer<u32> {
        &self.scene
    }
}

impl Policy {
    /// Blocks of a launch over N environments, each of which leaves sums.
    fn blocks(&self, num_envs: usize) -> usize {
        match self {
            Policy::Fused(fused) => fused.rollout.shape().blocks(num_envs),
            Policy::Layers(layers) => layers.blocks(num_envs),
        }
    }
}

/// Quantities that are normalised by running statistics: features, and the reward.
pub(super) fn norms_of(network: &Network, config: &Config) -> usize {
    let features = if config.norm_obs { network.architecture.input.features() } else { 0 };
    features + usize::from(config.norm_reward)
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
