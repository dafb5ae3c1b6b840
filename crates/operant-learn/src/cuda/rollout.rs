//! The rollout on a GPU: environments, weights and the buffers of a horizon on the device, one launch a horizon.

use std::marker::PhantomData;

use operant_cuda::kernels::{
    Episodes, Gae, GaeBuffers, Horizon, Pack, Rollout, RolloutBuffers, RolloutShape, RunningNorm,
};
use operant_cuda::{Buffer, Device, Stream};
use operant_env::Env;
use operant_lane::bundle::leaves_of;

use super::play::{CudaPlay, PlayOptions};
use super::program::{gae_program, pack_program, rollout_program};
use super::specialise::{Limits, Specialisation};
use super::update::CudaLearner;
use crate::LearnError;
use crate::config::Config;
use crate::network::{Architecture, Network};
use crate::precision::Precision;
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

/// N environments of one kind and the policy that plays them, on a GPU.
pub struct CudaRollout<E: Env> {
    config: Config,
    network: Network,
    layout: SampleLayout,
    specialisation: Specialisation,
    stream: Stream,
    rollout: Rollout,
    pack: Pack,
    params: Buffer<f32>,
    weights: Buffer<f32>,
    log_std: Option<Buffer<f32>>,
    pub(super) environments: Buffer<u32>,
    samples: Buffer<u32>,
    rewards: Buffer<f32>,
    values: Buffer<f32>,
    flags: Buffer<u8>,
    next_values: Buffer<f32>,
    norms: Option<Norms>,
    partials: Buffer<Episodes>,
    pub(super) totals: Buffer<Episodes>,
    clock: Buffer<u64>,
    ticket: Buffer<u32>,
    pub(super) scene: Option<Buffer<u32>>,
    kind: PhantomData<fn() -> E>,
}

impl<E: Env> CudaRollout<E> {
    /// N environments at the start of their first episodes, and zero weights; [`CudaRollout::set_params`] brings real ones.
    ///
    /// # Errors
    /// When the configuration fits no fused rollout, the kernels do not compile, or the device has no room.
    pub fn new(device: &Device, env: &E, config: &Config, precision: Precision) -> Result<Self, LearnError> {
        let spec = env.spec();
        let network = Network::new(Architecture::of(&spec, config)?);
        let layout = SampleLayout::new(&network.architecture, E::MASKED);
        let specialisation =
            Specialisation::new(&network, config, precision, Limits::from(device.properties()))?;
        let running_words = leaves_of::<f32, E::State<f32>>().len() + 2;
        let log_std = network.log_std.map_or(0, |_| network.policy_outputs());
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
        let module = device.load(&rollout_program(env, &network, config, &specialisation))?;
        let rollout = Rollout::new(&module, shape)?;
        let module = device.load(&pack_program(&network, config, &specialisation))?;
        let pack = Pack::new(&module, network.len(), specialisation.packed_words)?;

        let (n, samples, blocks) =
            (config.num_envs, config.num_envs * config.num_steps, shape.blocks(config.num_envs));
        let stream = device.stream()?;
        // One thread a first state; the same kernels as random play's, so that there is one place that starts environments.
        let start = CudaPlay::new(device, env, n, PlayOptions::new(config.seed))?;
        let norms = match specialisation.norms {
            0 => None,
            count => {
                let norms = Norms {
                    scales: device.alloc(2 * count)?,
                    running: device.alloc(count)?,
                    partials: device.alloc(2 * count * blocks)?,
                    discounted: if config.norm_reward { Some(device.alloc(n)?) } else { None },
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
            params: device.alloc(network.len())?,
            weights: device.alloc(specialisation.packed_words)?,
            log_std: if log_std > 0 { Some(device.alloc(log_std)?) } else { None },
            environments: start.into_environments()?,
            samples: device.alloc(samples * layout.stride)?,
            rewards: device.alloc(samples)?,
            values: device.alloc(samples)?,
            flags: device.alloc(samples)?,
            next_values: device.alloc(n)?,
            norms,
            partials: device.alloc(blocks)?,
            totals: device.alloc(1)?,
            clock: device.alloc(1)?,
            ticket: device.alloc(1)?,
            scene: None,
            config: config.clone(),
            network,
            layout,
            specialisation,
            stream,
            rollout,
            pack,
            kind: PhantomData,
        };
        made.clock.fill(&made.stream, 0)?;
        made.ticket.fill(&made.stream, 0)?;
        made.set_params(&vec![0.0; made.network.len()])?;
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

    /// How the kernel was specialised.
    pub fn specialisation(&self) -> &Specialisation {
        &self.specialisation
    }

    /// The launch, for its registers and occupancy.
    pub fn kernel(&self) -> &Rollout {
        &self.rollout
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
        if let (Some(start), Some(log_std)) = (self.network.log_std, &self.log_std) {
            log_std.write(&self.stream, &params[start..start + log_std.len()])?;
        }
        self.pack.launch(&self.stream, &self.params, &self.weights)?;
        Ok(())
    }

    /// Plays with the weights of a learner of the same precision from now on.
    ///
    /// # Errors
    /// When the learner is of another network.
    pub(super) fn follow(&mut self, learner: &CudaLearner) -> Result<(), LearnError> {
        self.params = learner.parameters.part(0..self.network.len())?;
        if let Some(start) = self.network.log_std {
            let count = self.network.policy_outputs();
            self.log_std = Some(learner.parameters.part(start..start + count)?);
        }
        self.weights = learner.packed.part(0..self.specialisation.packed_words)?;
        Ok(())
    }

    /// Enqueues a horizon: one launch, and nothing over the bus.
    ///
    /// # Errors
    /// When the launch fails.
    pub fn roll(&self) -> Result<(), LearnError> {
        let norms = self.norms.as_ref();
        let buffers = RolloutBuffers {
            weights: &self.weights,
            log_std: self.log_std.as_ref(),
            environments: &self.environments,
            samples: &self.samples,
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
            scene: self.scene.as_ref(),
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
        self.rollout.launch(&self.stream, &buffers, &horizon)?;
        Ok(())
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
        Ok(self.samples.read(&self.stream)?)
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

    /// Puts the environments elsewhere, at lifetime step `step`.
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
        self.samples.fill(&self.stream, byte)?;
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
        Ok(self.samples.fill(&self.stream, 0xff)?)
    }

    /// The samples on the device.
    pub fn samples_buffer(&self) -> &Buffer<u32> {
        &self.samples
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
            samples: &self.samples,
            next_values: &self.next_values,
        };
        let config = &self.config;
        let discounts = [config.gamma as f32, config.gae_lambda as f32];
        Ok(gae.launch(&self.stream, &buffers, [config.num_steps, config.num_envs], discounts)?)
    }

    /// Records environment 0 in the horizons to come; see [`CudaRollout::scene`].
    ///
    /// # Errors
    /// When the device has no room.
    pub fn record_scene(&mut self, device: &Device) -> Result<(), LearnError> {
        let words = self.environments.len() / self.config.num_envs + 2;
        self.scene = Some(device.alloc(self.config.num_steps * words)?);
        Ok(())
    }

    /// Environment 0 before each step of the last horizon, the step's flags and the return after it, `(T, leaves + 4)`; none
    /// unless recorded.
    ///
    /// # Errors
    /// See [`CudaRollout::episodes`].
    pub fn scene(&self) -> Result<Option<Vec<u32>>, LearnError> {
        self.scene.as_ref().map_or(Ok(None), |scene| Ok(Some(scene.read(&self.stream)?)))
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
