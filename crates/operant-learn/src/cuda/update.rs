//! The learner on a GPU: parameters and Adam's moments in single precision, and everything that an update needs; one
//! cooperative launch an update, or one graph of a launch a phase, or of matrix products.

use operant_cuda::kernels::{
    Phases, Progress, SUMS, Update, UpdateBuffers, UpdateLaunch, UpdateNumbers, UpdateReport, UpdateShape,
};
use operant_cuda::{Buffer, Device, Stream};
use operant_env::AnyEnv;

use super::graphs::Graphs;
use super::layers::{Kernels, LayersEngine, NetworkOptions, choose};
use super::memory::Room;
use super::program::update_program;
use super::specialise::{Limits, UpdateSpecialisation};
use crate::LearnError;
use crate::config::Config;
use crate::cpu::adam::LearnerState;
use crate::network::Network;
use crate::sample::SampleLayout;

/// What forms gradients.
enum Engine {
    /// A kernel with the network inside.
    Fused { update: Box<Update>, how: UpdateLaunch },
    /// Matrix products.
    Layers(Box<LayersEngine>),
}

/// Parameters, moments and the update that moves them.
pub struct CudaLearner {
    numbers: UpdateNumbers,
    engine: Engine,
    /// What is not one launch, for each buffer of samples.
    graphs: Graphs,
    pub(super) parameters: Buffer<f32>,
    exp_avg: Buffer<f32>,
    exp_avg_sq: Buffer<f32>,
    pub(super) packed: Buffer<f32>,
    transposed: Buffer<f32>,
    gradient: Buffer<f32>,
    partials: Buffer<f32>,
    sums: Buffer<f64>,
    moments: Buffer<f64>,
    pub(super) report: Buffer<UpdateReport>,
    pub(super) progress: Buffer<Progress>,
    barrier: Buffer<u32>,
}

impl CudaLearner {
    /// A learner for `config`'s batches of samples, with zero parameters; [`CudaLearner::load`] brings real ones.
    ///
    /// # Errors
    /// When the network fits no fused update, the kernels do not compile, or the device has no room.
    pub fn new(
        device: &Device,
        stream: &Stream,
        env: &dyn AnyEnv,
        network: &Network,
        config: &Config,
        options: impl Into<NetworkOptions>,
    ) -> Result<Self, LearnError> {
        Self::within(&Room::of(device), stream, env, network, config, options.into())
    }

    /// The same with the memory of a room.
    ///
    /// # Errors
    /// See [`CudaLearner::new`].
    pub(super) fn within(
        room: &Room,
        stream: &Stream,
        env: &dyn AnyEnv,
        network: &Network,
        config: &Config,
        options: NetworkOptions,
    ) -> Result<Self, LearnError> {
        let device = room.device();
        let layout = SampleLayout::new(&network.architecture, env.masked());
        let limits = Limits::from(device.properties());
        let samples = config.num_envs * config.num_steps;
        let minibatches = config.num_minibatches.clamp(1, samples);
        let kernels = match options.kernels {
            Kernels::Auto => choose(network, config, options, limits, || device.has_blas())?.kernels,
            asked => asked,
        };
        let engine = if kernels == Kernels::Layers {
            Engine::Layers(Box::new(LayersEngine::new(room, env, network, config, options.precision)?))
        } else {
            let specialisation = UpdateSpecialisation::new(network, config, options.precision, limits)?;
            let shape = UpdateShape {
                parameters: network.len(),
                packed_words: specialisation.forward.packed_words,
                transposed_words: specialisation.transposed_words,
                partial_words: [network.len(), 0],
                sample_stride: layout.stride,
                threads: specialisation.threads(),
                shared: specialisation.shared as u32,
            };
            let module = device.load(&update_program(env, network, config, &specialisation)?)?;
            let mut whole = module.function("ppo_update")?;
            whole.shared(specialisation.shared)?;
            let resident = whole.blocks_per_multiprocessor(shape.threads, specialisation.shared)? as usize
                * device.properties().multiprocessors as usize;
            let blocks = specialisation.blocks(network, samples.div_ceil(minibatches), resident);
            let cooperative = device.properties().cooperative;
            let how = if cooperative { UpdateLaunch::Cooperative } else { UpdateLaunch::Phases };
            Engine::Fused { update: Box::new(Update::new(&module, shape, blocks)?), how }
        };
        let phases = engine.phases();
        let (shape, blocks) = (*phases.shape(), phases.blocks());

        let batch = samples.max(1) as u64;
        let numbers = UpdateNumbers {
            num_samples: samples,
            num_minibatches: minibatches,
            num_epochs: config.update_epochs,
            seed: config.seed,
            norm_adv: config.norm_adv,
            clip_coef: config.clip_coef as f32,
            clip_vloss: config.clip_vloss,
            ent_coef: config.ent_coef as f32,
            vf_coef: config.vf_coef as f32,
            target_kl: config.target_kl,
            max_grad_norm: config.max_grad_norm,
            betas: [config.adam_beta1, config.adam_beta2],
            eps: config.adam_eps,
            learning_rate: config.learning_rate,
            anneal_updates: if config.anneal_lr { config.total_timesteps.div_ceil(batch).max(1) } else { 0 },
        };
        let learner = Self {
            numbers,
            graphs: Graphs::default(),
            parameters: room.alloc(network.len())?,
            exp_avg: room.alloc(network.len())?,
            exp_avg_sq: room.alloc(network.len())?,
            packed: room.alloc(shape.packed_words)?,
            transposed: room.alloc(shape.transposed_words.max(1))?,
            gradient: room.alloc(network.len())?,
            partials: room.alloc(phases.partials())?,
            sums: room.alloc(SUMS * blocks)?,
            moments: room.alloc(2 * minibatches * phases.segments(minibatches))?,
            report: room.alloc(1)?,
            progress: room.alloc(1)?,
            barrier: room.alloc(1)?,
            engine,
        };
        learner.load(stream, &LearnerState::new(vec![0.0; network.len()]), 0, 0)?;
        if let Engine::Layers(layers) = &learner.engine {
            layers.warm(stream, &learner.packed, &learner.transposed, &learner.partials)?;
        }
        Ok(learner)
    }

    /// Launches phase by phase from now on, in a graph, as on a device without cooperative launches.
    pub fn without_cooperative_launch(&mut self) {
        if let Engine::Fused { how, .. } = &mut self.engine {
            *how = UpdateLaunch::Phases;
        }
    }

    /// Takes parameters and moments, after `updates` updates of which the last so many were not finite.
    ///
    /// # Errors
    /// When there are not P of each, or the device fails.
    pub fn load(
        &self,
        stream: &Stream,
        state: &LearnerState,
        updates: u64,
        nonfinite_in_a_row: u64,
    ) -> Result<(), LearnError> {
        self.parameters.write(stream, &state.params)?;
        self.exp_avg.write(stream, &state.exp_avg)?;
        self.exp_avg_sq.write(stream, &state.exp_avg_sq)?;
        let progress =
            Progress { update: updates, adam_steps: state.step, nonfinite_in_a_row, ..Progress::default() };
        self.progress.write(stream, &[progress])?;
        // Padding is zero.
        self.packed.fill(stream, 0)?;
        self.transposed.fill(stream, 0)?;
        let phases = self.engine.phases();
        Ok(phases.pack(stream, &self.parameters, &self.packed, &self.transposed)?)
    }

    /// Parameters, moments and steps; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn state(&self, stream: &Stream) -> Result<LearnerState, LearnError> {
        Ok(LearnerState {
            params: self.parameters.read(stream)?,
            exp_avg: self.exp_avg.read(stream)?,
            exp_avg_sq: self.exp_avg_sq.read(stream)?,
            step: self.progress.read(stream)?[0].adam_steps,
        })
    }

    /// Where learning stands; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn progress(&self, stream: &Stream) -> Result<Progress, LearnError> {
        Ok(self.progress.read(stream)?[0])
    }

    /// What the last update reported; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn report(&self, stream: &Stream) -> Result<UpdateReport, LearnError> {
        Ok(self.report.read(stream)?[0])
    }

    /// Enqueues an update over `samples`, `(B, stride)`.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn update(&self, stream: &Stream, samples: &Buffer<u32>) -> Result<(), LearnError> {
        let buffers = self.buffers(samples);
        match &self.engine {
            Engine::Fused { update, how: UpdateLaunch::Cooperative } => {
                self.barrier.fill(stream, 0)?;
                Ok(update.launch(stream, &buffers, &self.numbers, UpdateLaunch::Cooperative)?)
            }
            _ => self.graphs.launch(stream, &[samples.pointer()], |stream| self.capture(stream, &buffers)),
        }
    }

    /// Makes what updates over `samples` need besides memory, so that the first one need not.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn prepare(&self, stream: &Stream, samples: &Buffer<u32>) -> Result<(), LearnError> {
        match &self.engine {
            Engine::Fused { how: UpdateLaunch::Cooperative, .. } => Ok(()),
            _ => self
                .graphs
                .prepare(stream, &[samples.pointer()], |stream| self.capture(stream, &self.buffers(samples))),
        }
    }

    /// What a graph consists of; it may outlive everything but what it holds.
    fn capture(&self, stream: &Stream, buffers: &UpdateBuffers<'_>) -> Result<(), LearnError> {
        buffers.keep_in(stream);
        match &self.engine {
            Engine::Fused { update, .. } => {
                Ok(update.launch(stream, buffers, &self.numbers, UpdateLaunch::Phases)?)
            }
            Engine::Layers(layers) => layers.update(stream, buffers, &self.numbers),
        }
    }

    /// Matrices and biases, where the network runs as matrix products.
    pub(super) fn packed(&self) -> Result<[Buffer<f32>; 2], LearnError> {
        Ok([self.packed.part(0..self.packed.len())?, self.transposed.part(0..self.transposed.len())?])
    }

    fn buffers<'a>(&'a self, samples: &'a Buffer<u32>) -> UpdateBuffers<'a> {
        UpdateBuffers {
            samples,
            parameters: &self.parameters,
            exp_avg: &self.exp_avg,
            exp_avg_sq: &self.exp_avg_sq,
            packed: &self.packed,
            transposed: &self.transposed,
            gradient: &self.gradient,
            partials: &self.partials,
            sums: &self.sums,
            moments: &self.moments,
            report: &self.report,
            progress: &self.progress,
            barrier: &self.barrier,
        }
    }
}

impl Engine {
    /// What both have.
    fn phases(&self) -> &Phases {
        match self {
            Engine::Fused { update, .. } => update.phases(),
            Engine::Layers(layers) => layers.phases(),
        }
    }
}
