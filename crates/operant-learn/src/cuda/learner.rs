//! The learner on a GPU: parameters and Adam's moments in single precision, and the buffers of an update. An update is one
//! cooperative launch, a graph with a launch per phase, or a graph of matrix products; with a replay, a graph for each minibatch.

use std::cell::Cell;

use operant_cuda::{Buffer, Communicator, CudaError, Device, Stream};
use operant_env::AnyEnv;

use super::choice::{Kernels, NetworkOptions, choose};
use super::common::env::KernelEnv;
use super::common::graphs::Graphs;
use super::common::local::Local;
use super::common::memory::Allocator;
use super::common::overlap::BlockResources;
use super::common::phases::{Adam, Exchange, Progress, UpdateMemory, UpdateReport, UpdateSizes};
use super::fused::specialise::{Limits, UpdateSpecialisation};
use super::fused::update::{FusedUpdate, UpdateLaunch};
use super::gemm::layout::GemmLayout;
use super::gemm::minibatch::{GemmMinibatch, Sampled, Turn};
use super::gemm::products::Weights;
use super::gemm::rnd::GemmRnd;
use super::gemm::update::GemmUpdate;
use crate::LearnError;
use crate::LearnerState;
use crate::config::Config;
use crate::network::Network;
use crate::sample::SampleLayout;

/// The path that computes gradients.
enum Engine {
    /// Fused kernels.
    Fused(Box<FusedUpdate>),
    /// Matrix products.
    Gemm(Box<GemmUpdate>),
    /// Matrix products of minibatches from a replay.
    Replay(Box<GemmMinibatch>),
}

/// A learner's weights as its kernels read them.
pub(super) enum LearnerWeights {
    Fused(Buffer<f32>),
    Gemm(Weights),
}

/// Parameters, moments and the update that moves them.
pub struct CudaLearner {
    local: Local,
    engine: Engine,
    /// With `intrinsic = "rnd"`, its networks.
    rnd: Option<Box<GemmRnd>>,
    /// Graphs of updates that are not one launch, for each sample buffer.
    graphs: Graphs,
    pub(super) memory: UpdateMemory,
    /// The other devices of the run.
    link: Option<Communicator>,
    /// Minibatches from a replay that were enqueued since training began.
    minibatches: Cell<u64>,
}

impl CudaLearner {
    /// A learner for `config`'s batches of samples, with zero parameters; [`CudaLearner::load`] sets them.
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
        let (allocator, kernel_env) = (Allocator::of(device), KernelEnv::of(env)?);
        Self::within(&allocator, (device, stream), &kernel_env, network, &config.into(), options.into())
    }

    /// Like `new`, with memory from `allocator`.
    pub(super) fn within(
        allocator: &Allocator,
        (device, stream): (&Device, &Stream),
        kernel_env: &KernelEnv,
        network: &Network,
        local: &Local,
        options: NetworkOptions,
    ) -> Result<Self, LearnError> {
        let stride = SampleLayout::new(&network.architecture, kernel_env.masked).stride;
        let limits = Limits::from(device.properties());
        let kernels = match options.kernels {
            Kernels::Auto => choose(network, local, options, limits, || device.has_blas())?.kernels,
            asked => asked,
        };
        let engine = if kernels == Kernels::Gemm {
            let (gemm_layout, place) = (GemmLayout::new(network, options.precision), (device, stream));
            let of = (network, local, &gemm_layout);
            match GemmMinibatch::new(allocator, place, kernel_env, of, stride)? {
                Some(minibatch) => Engine::Replay(Box::new(minibatch)),
                None => {
                    let of = (network, local, gemm_layout);
                    Engine::Gemm(Box::new(GemmUpdate::new(allocator, place, kernel_env, of, stride)?))
                }
            }
        } else {
            let specialisation = UpdateSpecialisation::new(network, local, options.precision, limits)?;
            let of = (network, local);
            let update = FusedUpdate::new(allocator, device, kernel_env, of, &specialisation, stride)?;
            Engine::Fused(Box::new(update))
        };
        let memory = UpdateMemory::new(allocator, engine.sizes())?;
        let of = (network, local);
        let rnd = GemmRnd::new(allocator, (device, stream), kernel_env, of, options.precision)?;
        let (local, graphs, minibatches) = (local.clone(), Graphs::default(), Cell::new(0));
        let learner = Self { local, engine, rnd: rnd.map(Box::new), graphs, memory, link: None, minibatches };
        learner.load(stream, &LearnerState::new(vec![0.0; network.len()]), 0, 0)?;
        match &learner.engine {
            Engine::Fused(_) => {}
            Engine::Gemm(gemm) => gemm.warm(stream)?,
            Engine::Replay(minibatch) => minibatch.warm(stream)?,
        }
        Ok(learner)
    }

    /// The resources of a block of a cooperative update, and the number of resident blocks; None for other updates.
    pub(super) fn block_needs(&self) -> Result<Option<(BlockResources, usize)>, CudaError> {
        match &self.engine {
            Engine::Fused(update) if update.launch == UpdateLaunch::Cooperative => {
                Ok(Some((BlockResources::of(update.kernel())?, update.sizes.update.blocks)))
            }
            _ => Ok(None),
        }
    }

    /// Connects this learner with the learners of the run's other devices.
    pub(super) fn link(&mut self, link: Communicator) {
        self.link = Some(link);
    }

    /// Exchanges moments and gradients once before the first update, because NCCL connects at the first call of each kind, which the capture
    /// of a graph may not allow. The values are not used.
    ///
    /// # Errors
    /// When the library fails.
    pub(super) fn exchange(&self, stream: &Stream) -> Result<(), LearnError> {
        let exchange = Exchange { memory: &self.memory, link: self.link.as_ref() };
        exchange.moments(stream)?;
        exchange.gradients(stream)?;
        Ok(())
    }

    /// Switches to a graph with a launch per phase, as on a device without cooperative launches.
    pub fn without_cooperative_launch(&mut self) {
        if let Engine::Fused(update) = &mut self.engine {
            update.launch = UpdateLaunch::Phases;
        }
    }

    /// Sets parameters and moments after `updates` updates, of which the last `nonfinite` had a non-finite minibatch.
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
        let memory = &self.memory;
        memory.parameters.write(stream, &state.params)?;
        memory.exp_avg.write(stream, &state.exp_avg)?;
        memory.exp_avg_sq.write(stream, &state.exp_avg_sq)?;
        let progress = Progress {
            update: updates,
            adam_steps: state.step,
            nonfinite_in_a_row,
            learning_rate: state.rate.unwrap_or(0.0),
            ..Progress::default()
        };
        let progress = progress.with_returns(&state.value_norm);
        memory.progress.write(stream, &[progress])?;
        match &self.engine {
            Engine::Fused(update) => Ok(update.pack(stream, &memory.parameters)?),
            Engine::Gemm(update) => Ok(update.pack(stream, memory)?),
            Engine::Replay(minibatch) => {
                self.minibatches.set(state.step);
                let targets = if state.targets.is_empty() { &state.params } else { &state.targets };
                minibatch.memory.targets.write(stream, targets)?;
                Ok(minibatch.pack(stream, &memory.parameters)?)
            }
        }
    }

    /// Parameters, moments and steps; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn state(&self, stream: &Stream) -> Result<LearnerState, LearnError> {
        let progress = self.progress(stream)?;
        Ok(LearnerState {
            rate: Some(progress.learning_rate).filter(|rate| *rate > 0.0),
            params: self.memory.parameters.read(stream)?,
            exp_avg: self.memory.exp_avg.read(stream)?,
            exp_avg_sq: self.memory.exp_avg_sq.read(stream)?,
            step: progress.adam_steps,
            value_norm: progress.returns(),
            targets: match &self.engine {
                Engine::Replay(minibatch) => minibatch.memory.targets.read(stream)?,
                _ => Vec::new(),
            },
        })
    }

    /// The counters of learning; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn progress(&self, stream: &Stream) -> Result<Progress, LearnError> {
        Ok(self.memory.progress.read(stream)?[0])
    }

    /// The report of the last update; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn report(&self, stream: &Stream) -> Result<UpdateReport, LearnError> {
        Ok(self.memory.report.read(stream)?[0])
    }

    /// Enqueues an update over `samples`, `(B, stride)`.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn update(&self, stream: &Stream, samples: &Buffer<u32>) -> Result<(), LearnError> {
        if self.is_one_launch() {
            self.memory.barrier.fill(stream, 0)?;
            return self.run(stream, samples);
        }
        self.graphs.launch(stream, &[samples.pointer()], |stream| self.run(stream, samples))
    }

    /// Prepares updates over `samples` (captures the graph), so that the first one does not have to.
    pub(super) fn prepare(&self, stream: &Stream, samples: &Buffer<u32>) -> Result<(), LearnError> {
        if self.is_one_launch() {
            return Ok(());
        }
        self.graphs.prepare(stream, &[samples.pointer()], |stream| self.run(stream, samples))
    }

    fn is_one_launch(&self) -> bool {
        matches!(&self.engine, Engine::Fused(update) if update.launch == UpdateLaunch::Cooperative)
    }

    fn run(&self, stream: &Stream, samples: &Buffer<u32>) -> Result<(), LearnError> {
        let params = self.memory.params(&self.local, self.engine.sizes(), samples);
        let exchange = Exchange { memory: &self.memory, link: self.link.as_ref() };
        match &self.engine {
            Engine::Fused(update) => Ok(update.run(stream, &self.local.run, params, exchange)?),
            Engine::Gemm(update) => {
                update.run(stream, &self.local.run, params, exchange)?;
                let learn = |rnd: &GemmRnd| rnd.learn(stream, samples, &self.memory, self.link.as_ref());
                self.rnd().map_or(Ok(()), learn)
            }
            Engine::Replay(_) => {
                let what = "samples of a rollout, where an algorithm has a replay";
                Err(CudaError::Length { what, given: samples.len(), expected: 0 }.into())
            }
        }
    }

    /// With `intrinsic = "rnd"`, its networks.
    pub(super) fn rnd(&self) -> Option<&GemmRnd> {
        self.rnd.as_deref()
    }

    /// Prepares minibatches from a replay, so that the first ones do not have to.
    pub(super) fn prepare_minibatches(&self, stream: &Stream, from: Sampled<'_>) -> Result<(), LearnError> {
        let (minibatch, of) = self.minibatch(from);
        for turn in minibatch.turns() {
            self.graphs.prepare(stream, &key_of(from, turn), |stream| minibatch.run(stream, of, turn))?;
        }
        Ok(())
    }

    /// Enqueues the next minibatch from a replay.
    pub(super) fn learn(&self, stream: &Stream, from: Sampled<'_>) -> Result<(), LearnError> {
        let (minibatch, of) = self.minibatch(from);
        let turn = minibatch.turn(self.minibatches.get());
        self.minibatches.set(self.minibatches.get() + 1);
        self.graphs.launch(stream, &key_of(from, turn), |stream| minibatch.run(stream, of, turn))
    }

    /// Begins the report of an update of minibatches from a replay, or ends it.
    pub(super) fn report_of(
        &self,
        stream: &Stream,
        from: Sampled<'_>,
        begins: bool,
    ) -> Result<(), LearnError> {
        let (minibatch, of) = self.minibatch(from);
        minibatch.report(stream, of, begins)
    }

    fn minibatch<'a>(
        &'a self,
        from: Sampled<'a>,
    ) -> (&'a GemmMinibatch, (&'a UpdateMemory, Sampled<'a>, Adam)) {
        let Engine::Replay(minibatch) = &self.engine else { panic!("the algorithm has no replay") };
        (minibatch, (&self.memory, from, Adam::of(&self.local.run)))
    }

    /// The weights, the same memory.
    pub(super) fn weights(&self) -> Result<LearnerWeights, CudaError> {
        Ok(match &self.engine {
            Engine::Fused(update) => {
                let packed = &update.memory.packed;
                LearnerWeights::Fused(packed.part(0..packed.len())?)
            }
            Engine::Gemm(update) => LearnerWeights::Gemm(update.memory.weights.share()?),
            Engine::Replay(minibatch) => LearnerWeights::Gemm(minibatch.memory.weights.share()?),
        })
    }
}

/// The key of a minibatch's graph.
fn key_of(from: Sampled<'_>, turn: Turn) -> [u64; 3] {
    [from.ring.pointer(), u64::from(turn.trains_policy), u64::from(turn.moves_targets)]
}

impl Engine {
    fn sizes(&self) -> &UpdateSizes {
        match self {
            Engine::Fused(update) => &update.sizes.update,
            Engine::Gemm(update) => &update.sizes.update,
            Engine::Replay(minibatch) => &minibatch.sizes.update,
        }
    }
}
