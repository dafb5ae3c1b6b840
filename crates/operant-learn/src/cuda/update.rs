//! The learner on a GPU: parameters and Adam's moments in single precision, and everything that an update needs; one
//! cooperative launch an update, or one graph of a launch a phase.

use std::cell::RefCell;

use operant_cuda::kernels::{
    Progress, SUMS, Update, UpdateBuffers, UpdateLaunch, UpdateNumbers, UpdateReport, UpdateShape,
};
use operant_cuda::{Buffer, Device, Graph, Stream};
use operant_env::Env;

use super::program::update_program;
use super::specialise::{Limits, UpdateSpecialisation};
use crate::LearnError;
use crate::config::Config;
use crate::cpu::adam::LearnerState;
use crate::network::Network;
use crate::precision::Precision;
use crate::sample::SampleLayout;

/// Parameters, moments and the update that moves them.
pub struct CudaLearner {
    numbers: UpdateNumbers,
    how: UpdateLaunch,
    update: Update,
    /// The phases as a graph, and the address of the samples that it reads.
    graph: RefCell<Option<(u64, Graph)>>,
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
    pub fn new<E: Env>(
        device: &Device,
        stream: &Stream,
        env: &E,
        network: &Network,
        config: &Config,
        precision: Precision,
    ) -> Result<Self, LearnError> {
        let layout = SampleLayout::new(&network.architecture, E::MASKED);
        let specialisation =
            UpdateSpecialisation::new(network, config, precision, Limits::from(device.properties()))?;
        let packed_words = specialisation.forward.packed_words;
        let shape = UpdateShape {
            parameters: network.len(),
            packed_words,
            transposed_words: specialisation.transposed_words,
            sample_stride: layout.stride,
            threads: specialisation.threads(),
            shared: specialisation.shared as u32,
        };
        let module = device.load(&update_program(env, network, config, &specialisation))?;
        let samples = config.num_envs * config.num_steps;
        let minibatches = config.num_minibatches.clamp(1, samples);

        // As many blocks as run at once, but none without a tile or a share of the parameters.
        let mut whole = module.function("ppo_update")?;
        whole.shared(specialisation.shared)?;
        let resident = whole.blocks_per_multiprocessor(shape.threads, specialisation.shared)? as usize
            * device.properties().multiprocessors as usize;
        let tiles = samples.div_ceil(minibatches).div_ceil(specialisation.tile());
        let shares = network.len().div_ceil(shape.threads as usize);
        let blocks = resident.clamp(1, tiles.max(shares));
        let update = Update::new(&module, shape, blocks)?;
        let segments = update.segments(minibatches);

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
        let how =
            if device.properties().cooperative { UpdateLaunch::Cooperative } else { UpdateLaunch::Phases };
        let learner = Self {
            numbers,
            how,
            update,
            graph: RefCell::new(None),
            parameters: device.alloc(network.len())?,
            exp_avg: device.alloc(network.len())?,
            exp_avg_sq: device.alloc(network.len())?,
            packed: device.alloc(packed_words)?,
            transposed: device.alloc(specialisation.transposed_words.max(1))?,
            gradient: device.alloc(network.len())?,
            partials: device.alloc(network.len() * blocks)?,
            sums: device.alloc(SUMS * blocks)?,
            moments: device.alloc(2 * minibatches * segments)?,
            report: device.alloc(1)?,
            progress: device.alloc(1)?,
            barrier: device.alloc(1)?,
        };
        learner.load(stream, &LearnerState::new(vec![0.0; network.len()]), 0, 0)?;
        Ok(learner)
    }

    /// Launches phase by phase from now on, in a graph, as on a device without cooperative launches.
    pub fn without_cooperative_launch(&mut self) {
        self.how = UpdateLaunch::Phases;
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
        self.update.pack(stream, &self.parameters, &self.packed, &self.transposed)?;
        Ok(())
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
        let buffers = UpdateBuffers {
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
        };
        match self.how {
            UpdateLaunch::Cooperative => {
                self.barrier.fill(stream, 0)?;
                self.update.launch(stream, &buffers, &self.numbers, self.how)?;
            }
            UpdateLaunch::Phases => self.launch_graph(stream, &buffers)?,
        }
        Ok(())
    }

    /// Launches the phases as one graph, which is captured when these samples come for the first time.
    fn launch_graph(&self, stream: &Stream, buffers: &UpdateBuffers<'_>) -> Result<(), LearnError> {
        let mut graph = self.graph.borrow_mut();
        let samples = buffers.samples.pointer();
        let captured = match graph.take() {
            Some((of, captured)) if of == samples => captured,
            _ => stream.capture(|stream| {
                // The graph may outlive everything but what it holds.
                let learned = [&self.parameters, &self.exp_avg, &self.exp_avg_sq];
                let scratch = [&self.gradient, &self.partials, &self.packed, &self.transposed];
                learned.into_iter().chain(scratch).for_each(|buffer| buffer.keep_in(stream));
                buffers.samples.keep_in(stream);
                self.sums.keep_in(stream);
                self.moments.keep_in(stream);
                self.report.keep_in(stream);
                self.progress.keep_in(stream);
                self.barrier.keep_in(stream);
                self.update.launch(stream, buffers, &self.numbers, UpdateLaunch::Phases)
            })?,
        };
        let (_, captured) = graph.insert((samples, captured));
        Ok(captured.launch(stream)?)
    }
}
