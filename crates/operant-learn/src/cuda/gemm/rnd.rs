//! Random network distillation on the GEMM path: a rollout's rewards for exploring, and the update of the predictor. `cpu/rnd.rs` says what it is.
//!
//! Both networks are frozen during a rollout, so the errors of all its steps are computed after the last one, as many rows at a time as a minibatch of
//! the update has: products of more rows use a GPU better than those of each step, and the update's memory suffices.

use operant_cuda::{
    Buffer, Communicator, CudaError, Device, Function, LaunchConfig, Module, Program, Stream,
};

use super::layout::{Extent, GemmLayout, THREADS, blocks_of};
use super::math::GemmMath;
use super::products::{
    Backward, BackwardMemory, Forward, ForwardMemory, GemmMatrix, Gradients, Inputs, Weights,
};
use super::rollout::{GemmPolicy, episode_words};
use super::update::{GemmWeightParams, GemmWeightSizes, GemmWeights};
use crate::config::{ClipGrad, Config, Intrinsic, Optimizer};
use crate::cpu::rnd::{AVERAGED, RndState, discount, networks};
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::horizon::{HorizonParams, HorizonSizes, first_states, outcomes};
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::phases::{
    Exchange, Phases, Progress, UpdateMemory, UpdateParams, UpdateReport, UpdateSizes, Work, with_shared,
};
use crate::cuda::common::structs::RunningNorm as DeviceNorm;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text, owned};
use crate::network::Network;
use crate::normalise::RunningNorm;
use crate::precision::Precision;
use crate::sample::SampleLayout;
use crate::{LearnError, LearnerState};

/// `rnd.cu`: the kernels around the products of target and predictor.
pub const RND: KernelText = kernel_text!(
    "gemm_rnd",
    "gemm/rnd.cu",
    [RndJudgeParams, RndMergeParams, RndUpdateParams, GemmWeightParams]
);

/// Sums that a block of threads leaves of discounted errors: they, their squares, and their number.
const PARTS: usize = 3;

/// The two networks and their layout.
#[derive(Debug, Clone)]
pub struct RndNetworks {
    target: Network,
    predictor: Network,
    /// Both, the predictor first.
    both: GemmLayout,
    /// The predictor alone, which has a backward pass.
    trained: GemmLayout,
}

impl RndNetworks {
    /// Target and predictor for the inputs of a policy's network, with `intrinsic = "rnd"`.
    pub fn new(network: &Network, config: &Config, precision: Precision) -> Option<Self> {
        let [target, predictor] = networks(&network.architecture, config)?;
        let chains = predictor.chains.iter().chain(&target.chains).cloned().collect();
        let both = GemmLayout::new(&Network { chains, ..predictor.clone() }, precision);
        let trained = GemmLayout::new(&predictor, precision);
        Some(Self { target, predictor, both, trained })
    }

    /// Numbers of both networks' parameters.
    fn parameters(&self) -> usize {
        self.predictor.len() + self.target.len()
    }
}

/// `gemm/rnd.cu` for an environment and a policy's network, with `intrinsic = "rnd"`.
pub fn gemm_rnd_program(
    kernel_env: &KernelEnv,
    network: &Network,
    local: &Local,
    precision: Precision,
) -> Option<Program> {
    let networks = RndNetworks::new(network, &local.run, precision)?;
    Some(program(kernel_env, network, local, &networks))
}

fn program(kernel_env: &KernelEnv, network: &Network, local: &Local, networks: &RndNetworks) -> Program {
    let RndNetworks { predictor, both, trained, .. } = networks;
    let stride = SampleLayout::new(&network.architecture, kernel_env.masked).stride;
    // Samples are those of the policy, and so are their states.
    let mut layout = both.clone();
    layout.states = network.states;
    let mut defines = layout.common(network, &local.run);
    defines.extend(owned([
        ("SAMPLE_STRIDE", format!("{stride}u")),
        ("NORM_OBS", u8::from(local.run.norm_obs).to_string()),
        ("RND", u8::from(local.run.intrinsic == Intrinsic::Rnd).to_string()),
        ("AVERAGED", format!("{AVERAGED:?}")),
        ("PREDICTOR_PARAMETERS", format!("{}u", predictor.len())),
        ("PREDICTOR_ELEMENTS", format!("{}u", trained.matrix_elements)),
    ]));
    defines.extend(local.defines());
    ProgramText::of(kernel_env, RND, defines)
}

/// The configuration of the predictor's update: one epoch of Adam at the run's learning rate.
fn training(run: &Config) -> Config {
    let run = Config {
        algorithms: Default::default(),
        optimizer: Optimizer::Adam,
        weight_decay: 0.0,
        vf_learning_rate: 0.0,
        clip_grad: ClipGrad::Global,
        update_epochs: 1,
        ..run.clone()
    };
    run.ppo(|ppo| ppo.norm_adv = false)
}

/// Sizes of the two networks' work.
#[derive(Debug, Clone, Copy)]
pub struct RndSizes {
    horizon: HorizonSizes,
    update: UpdateSizes,
    weights: GemmWeightSizes,
    /// Words of a row of observations as the first product reads it, and of all those of the rollout's last ones.
    obs_words: usize,
    last_obs: usize,
    /// Indices of an observation; 0 without embeddings.
    indices: usize,
    /// Numbers that a network computes, and its words as products read them.
    outputs: usize,
    output_words: usize,
    /// Gradients that products leave.
    products: usize,
    /// Parameters of both networks.
    parameters: usize,
}

impl RndSizes {
    /// The sizes of a configuration on a device with `multiprocessors` multiprocessors.
    pub fn new(
        kernel_env: &KernelEnv,
        (network, local): (&Network, &Local),
        networks: &RndNetworks,
        multiprocessors: usize,
    ) -> Self {
        let RndNetworks { predictor, both, trained, .. } = networks;
        let stride = SampleLayout::new(&network.architecture, kernel_env.masked).stride;
        let own = Local { run: training(&local.run), ..local.clone() };
        // The samples are those of the policy's network.
        let sizes = |blocks| UpdateSizes {
            first_states: first_states(network, local),
            outcomes: outcomes(local),
            ..UpdateSizes::new(predictor, &own, stride, blocks)
        };
        let blocks = |minibatch: usize| blocks_of(multiprocessors, minibatch.max(predictor.len()));
        let obs_words = both.words(both.obs_row());
        let [outputs, _] = both.output_rows();
        Self {
            horizon: HorizonSizes::new(kernel_env, network, local, GemmPolicy::blocks(local.num_envs)),
            update: sizes(own.update_blocks(sizes(1).minibatch(), blocks)),
            weights: GemmWeightSizes::new(networks.parameters(), both),
            obs_words,
            last_obs: obs_words.saturating_mul(local.num_envs),
            indices: both.indices,
            outputs,
            output_words: both.words(outputs),
            products: trained.matrix_elements + trained.biases,
            parameters: networks.parameters(),
        }
    }

    /// M: rows of the longest minibatch.
    fn rows(&self) -> usize {
        self.update.minibatch()
    }

    fn extent(&self) -> Extent {
        Extent { sequences: self.rows(), steps: 1 }
    }

    /// The most blocks of a launch.
    fn blocks(&self) -> usize {
        self.update.blocks.max(self.horizon.blocks)
    }

    /// Numbers of the sums of discounted errors.
    fn partials(&self) -> usize {
        PARTS * self.blocks()
    }
}

operant_cuda::params! {
    /// Parameters of a rollout's errors and rewards: threads stay below M rows, T N steps and N environments.
    pub struct RndJudgeParams<'a>(of: RndSizes) for ["rnd_arrivals", "rnd_errors", "rnd_rewards"], blocks of.blocks(), {
        horizon: part [HorizonParams, &of.horizon],
        /// (N): episodes of this rollout.
        episodes: writes [u32; episode_words(&of.horizon) * of.horizon.num_envs],
        /// (N, row): the observations after the last step, as the first product reads them.
        last_obs: reads [f32; of.last_obs],
        /// (N, indices): with embeddings, rows of tables.
        last_indices: reads_any [u32; of.indices * of.horizon.num_envs],
        /// (M, row).
        obs: writes [f32; of.rows() * of.obs_words],
        /// (M, indices).
        indices: writes_any [u32; of.rows() * of.indices],
        /// (M, outputs).
        predicted: reads [f32; of.rows() * of.outputs],
        targets: reads [f32; of.rows() * of.outputs],
        /// (T, N).
        errors: writes [f32; of.horizon.steps()],
        /// (N): discounted errors of each environment. They go on where episodes end.
        discounted: writes [f32; of.horizon.num_envs],
        /// (blocks, 3): sums of those in this rollout.
        partials: writes [f64; of.partials()],
        /// (1): their variance, averaged over rollouts.
        returns: reads [DeviceNorm; 1],
        /// Set for each launch: the first step of its rows.
        first: value [u64],
        /// M.
        rows: value [u32],
        intrinsic_coef: value [f32],
        /// The discount of errors.
        gamma: value [f32],
    }
}

operant_cuda::params! {
    /// Parameters of the kernel that takes the variance of a rollout into its average.
    pub struct RndMergeParams<'a>(of: RndSizes) for ["rnd_merge"], blocks 1, {
        /// (devices, blocks, 3): the sums of all devices.
        all_partials: reads [f64; of.partials() * of.horizon.devices],
        returns: writes [DeviceNorm; 1],
        /// Blocks of all devices.
        parts: value [u32],
    }
}

operant_cuda::params! {
    /// Parameters of the predictor's update: threads stay below M rows and P parameters, blocks within their entries.
    pub struct RndUpdateParams<'a>(of: RndSizes) for [
        "rnd_gather", "rnd_loss", "rnd_note", "update_spread", "update_begin", "update_advantages", "update_reduce", "update_adam", "update_sum", "update_add",
        "update_norm", "update_note", "update_end"
    ], blocks of.update.blocks, {
        update: part [UpdateParams, &of.update],
        weights: part [GemmWeights, &of.weights],
        /// (M, row).
        obs: writes [f32; of.rows() * of.obs_words],
        /// (M, indices): with embeddings, rows of tables.
        indices: writes_any [u32; of.rows() * of.indices],
        /// (M, outputs).
        predicted: reads [f32; of.rows() * of.outputs],
        targets: reads [f32; of.rows() * of.outputs],
        /// (M, outputs): the gradient of the predictor's.
        gradient: writes [f32; of.rows() * of.output_words],
        /// (matrix elements + biases): gradients that products leave.
        products: reads [f32; of.products],
        /// (1): the report of the policy's update, and its counters.
        policy_report: writes [UpdateReport; 1],
        policy_progress: writes [Progress; 1],
        /// M.
        rows: value [u32],
    }
}

/// Memory of both networks, of a rollout's errors, and of the predictor's update.
#[derive(Debug)]
pub struct RndMemory {
    weights: Weights,
    /// (P + Q): the parameters that were last set from outside, the predictor's first.
    parameters: Buffer<f32>,
    obs: GemmMatrix,
    indices: Option<Buffer<u32>>,
    errors: Buffer<f32>,
    discounted: Buffer<f32>,
    partials: Buffer<f64>,
    /// Those of all devices, if there are several.
    all_partials: Option<Buffer<f64>>,
    returns: Buffer<DeviceNorm>,
    update: UpdateMemory,
}

impl RndMemory {
    /// The memory, and that of the two passes.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(
        allocator: &Allocator,
        networks: &RndNetworks,
        of: &RndSizes,
    ) -> Result<(Self, ForwardMemory, BackwardMemory), CudaError> {
        let RndNetworks { both, trained, .. } = networks;
        let (rows, devices) = (of.rows(), of.horizon.devices);
        let indices = rows.saturating_mul(of.indices);
        let own = Self {
            weights: Weights::new(allocator, both)?,
            parameters: allocator.alloc(of.parameters)?,
            obs: GemmMatrix::new(allocator, both, rows.saturating_mul(both.obs_row()))?,
            indices: (indices > 0).then(|| allocator.alloc(indices)).transpose()?,
            errors: allocator.alloc(of.horizon.steps())?,
            discounted: allocator.alloc(of.horizon.num_envs)?,
            partials: allocator.alloc(of.partials())?,
            all_partials: (devices > 1).then(|| allocator.alloc(of.partials() * devices)).transpose()?,
            returns: allocator.alloc(1)?,
            update: UpdateMemory::new(allocator, &of.update)?,
        };
        let forward = ForwardMemory::new(allocator, both, of.extent())?;
        Ok((own, forward, BackwardMemory::new(allocator, trained, of.extent())?))
    }
}

/// The kernels of `rnd.cu` besides the phases of an update.
#[derive(Debug)]
struct Kernels {
    arrivals: Function,
    errors: Function,
    rewards: Function,
    merge: Function,
    gather: Function,
    loss: Function,
    note: Function,
    pack: Function,
}

impl Kernels {
    fn new(module: &Module, grid: LaunchConfig) -> Result<Self, CudaError> {
        let of = |name: &str| with_shared(module, name, grid);
        Ok(Self {
            arrivals: of("rnd_arrivals")?,
            errors: of("rnd_errors")?,
            rewards: of("rnd_rewards")?,
            merge: of("rnd_merge")?,
            gather: of("rnd_gather")?,
            loss: of("rnd_loss")?,
            note: of("rnd_note")?,
            pack: module.function("gemm_pack")?,
        })
    }
}

/// The predictor and the target, whose chains follow each other.
const PREDICTOR: usize = 0;
const TARGET: usize = 1;

/// Target and predictor, a rollout's rewards by them, and what trains the predictor.
#[derive(Debug)]
pub struct GemmRnd {
    sizes: RndSizes,
    /// The part of the run, with the configuration of the predictor's update.
    local: Local,
    math: GemmMath,
    kernels: Kernels,
    phases: Phases,
    forward: Forward,
    backward: Backward,
    memory: RndMemory,
}

impl GemmRnd {
    /// Both networks at the start of a run with `intrinsic = "rnd"`; None in others.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device has no room or fails.
    pub fn new(
        allocator: &Allocator,
        (device, stream): (&Device, &Stream),
        kernel_env: &KernelEnv,
        (network, local): (&Network, &Local),
        precision: Precision,
    ) -> Result<Option<Self>, LearnError> {
        let Some(networks) = RndNetworks::new(network, &local.run, precision) else { return Ok(None) };
        let multiprocessors = device.properties().multiprocessors as usize;
        let sizes = RndSizes::new(kernel_env, (network, local), &networks, multiprocessors);
        let RndNetworks { target, predictor, both, trained } = &networks;
        let (extent, blas) = (sizes.extent(), device.blas()?);
        let module = device.load(&program(kernel_env, network, local, &networks))?;
        let grid = LaunchConfig {
            blocks: sizes.update.blocks as u32,
            threads: THREADS as u32,
            shared: trained.update_shared() as u32,
        };
        let (memory, forward, backward) = RndMemory::new(allocator, &networks, &sizes)?;
        // Blocks that launches do not have leave no sums, and passes read rows that no observation has been written to.
        memory.partials.fill(stream, 0)?;
        memory.obs.words.fill(stream, 0)?;
        if let Some(indices) = &memory.indices {
            indices.fill(stream, 0)?;
        }
        let made = Self {
            math: GemmMath::new(device, both)?,
            kernels: Kernels::new(&module, grid)?,
            phases: Phases::new(&module, grid, &sizes.update)?,
            forward: Forward::new((&blas, stream), both, extent, forward)?,
            backward: Backward::new((&blas, stream), trained, extent, backward)?,
            local: Local { run: training(&local.run), ..local.clone() },
            sizes,
            memory,
        };
        let state = RndState::new(&[target.clone(), predictor.clone()], local.run.seed);
        made.load(stream, (&state, &vec![0.0; local.num_envs]), 0, 0)?;
        // Makes the library load its kernels before the capture; the results are not used.
        made.both(stream)?;
        made.back(stream)?;
        Ok(Some(made))
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs { obs: &self.memory.obs, indices: self.memory.indices.as_ref(), recall: None }
    }

    /// The outputs of both networks.
    fn both(&self, stream: &Stream) -> Result<(), LearnError> {
        let numbers = PREDICTOR..TARGET + 1;
        self.forward.run(stream, &self.math, &self.memory.weights, self.inputs(), numbers)
    }

    /// The gradients of the predictor.
    fn back(&self, stream: &Stream) -> Result<(), LearnError> {
        let of = (&self.forward, self.inputs());
        let which = (PREDICTOR..PREDICTOR + 1, Gradients::OfWeights);
        self.backward.run(stream, &self.math, &self.memory.weights, of, which)
    }

    /// Sets both networks and this device's discounted errors after `updates` updates, of which the last `nonfinite` had a minibatch that was not finite.
    ///
    /// # Errors
    /// When there are not as many numbers, or the device fails.
    pub fn load(
        &self,
        stream: &Stream,
        (RndState { learner, returns }, discounted): (&RndState, &[f32]),
        updates: u64,
        nonfinite_in_a_row: u64,
    ) -> Result<(), LearnError> {
        let RndMemory { weights, parameters, update, .. } = &self.memory;
        parameters.write(stream, &[&learner.params[..], &learner.targets].concat())?;
        weights.clear(stream)?;
        let params = GemmWeightParams::new(parameters, weights);
        let grid = LaunchConfig::covering(parameters.len(), THREADS as u32);
        self.kernels.pack.run(stream, grid, &params, &self.sizes.weights)?;
        update.parameters.write(stream, &learner.params)?;
        update.exp_avg.write(stream, &learner.exp_avg)?;
        update.exp_avg_sq.write(stream, &learner.exp_avg_sq)?;
        let progress =
            Progress { update: updates, adam_steps: learner.step, nonfinite_in_a_row, ..Progress::default() };
        update.progress.write(stream, &[progress])?;
        let returns = DeviceNorm { mean: returns.mean[0], var: returns.var[0], count: returns.count };
        self.memory.returns.write(stream, &[returns])?;
        Ok(self.memory.discounted.write(stream, discounted)?)
    }

    /// What a checkpoint holds, and this device's discounted errors; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn state(&self, stream: &Stream) -> Result<(RndState, Vec<f32>), LearnError> {
        let RndMemory { parameters, update, returns, discounted, .. } = &self.memory;
        let DeviceNorm { mean, var, count } = returns.read(stream)?[0];
        let learner = LearnerState {
            targets: parameters.part(update.parameters.len()..parameters.len())?.read(stream)?,
            exp_avg: update.exp_avg.read(stream)?,
            exp_avg_sq: update.exp_avg_sq.read(stream)?,
            step: update.progress.read(stream)?[0].adam_steps,
            ..LearnerState::new(update.parameters.read(stream)?)
        };
        let returns = RunningNorm { mean: vec![mean], var: vec![var], count };
        Ok((RndState { learner, returns }, discounted.read(stream)?))
    }

    /// Enqueues the rewards for exploring of a rollout in a stream that is being captured: after its steps, whose episodes and last observations
    /// are given, and before its advantages.
    pub fn judge(
        &self,
        stream: &Stream,
        horizon: HorizonParams<'_>,
        (episodes, last): (&Buffer<u32>, Inputs<'_>),
    ) -> Result<(), LearnError> {
        let Self { sizes, kernels, memory, forward, local, .. } = self;
        let (grid, rows) = (self.phases.grid(), sizes.rows());
        let at = |first: usize| RndJudgeParams {
            horizon,
            episodes,
            last_obs: &last.obs.words,
            last_indices: last.indices,
            obs: &memory.obs.words,
            indices: memory.indices.as_ref(),
            predicted: forward.output(PREDICTOR),
            targets: forward.output(TARGET),
            errors: &memory.errors,
            discounted: &memory.discounted,
            partials: &memory.partials,
            returns: &memory.returns,
            first: first as u64,
            rows: rows as u32,
            intrinsic_coef: local.run.intrinsic_coef as f32,
            gamma: discount(&local.run),
        };
        for first in (0..sizes.horizon.steps()).step_by(rows) {
            kernels.arrivals.run(stream, grid, &at(first), sizes)?;
            self.both(stream)?;
            kernels.errors.run(stream, grid, &at(first), sizes)?;
        }
        let of_envs = LaunchConfig { blocks: sizes.horizon.blocks as u32, ..grid };
        kernels.rewards.run(stream, of_envs, &at(0), sizes)?;
        // With several devices, after all have left their sums.
        if memory.all_partials.is_none() { self.merge(stream) } else { Ok(()) }
    }

    /// Takes the variance of a rollout on several devices into its average.
    ///
    /// # Errors
    /// When a device or the library fails.
    pub fn merge_all(&self, stream: &Stream, link: &Communicator) -> Result<(), LearnError> {
        let RndMemory { partials, all_partials, .. } = &self.memory;
        let Some(all) = all_partials else { return Ok(()) };
        link.gather(stream, partials, all)?;
        self.merge(stream)
    }

    fn merge(&self, stream: &Stream) -> Result<(), LearnError> {
        let Self { sizes, memory, .. } = self;
        let params = RndMergeParams {
            all_partials: memory.all_partials.as_ref().unwrap_or(&memory.partials),
            returns: &memory.returns,
            parts: (sizes.blocks() * sizes.horizon.devices) as u32,
        };
        let one = LaunchConfig { blocks: 1, ..self.phases.grid() };
        Ok(self.kernels.merge.run(stream, one, &params, sizes)?)
    }

    /// Enqueues one pass of the predictor over the samples of an update in a stream that is being captured, after the policy's update, whose memory is given.
    pub fn learn(
        &self,
        stream: &Stream,
        samples: &Buffer<u32>,
        policy: &UpdateMemory,
        link: Option<&Communicator>,
    ) -> Result<(), LearnError> {
        let Self { sizes, kernels, memory, forward, local, .. } = self;
        let (grid, exchange) = (self.phases.grid(), Exchange { memory: &memory.update, link });
        let update = memory.update.params(local, &sizes.update, samples);
        let at = |epoch, minibatch| RndUpdateParams {
            update: update.at(epoch, minibatch),
            weights: GemmWeights::of(&memory.weights),
            obs: &memory.obs.words,
            indices: memory.indices.as_ref(),
            predicted: forward.output(PREDICTOR),
            targets: forward.output(TARGET),
            gradient: &self.backward.memory.outputs[PREDICTOR].words,
            products: &self.backward.memory.gradient,
            policy_report: &policy.report,
            policy_progress: &policy.progress,
            rows: sizes.rows() as u32,
        };
        let work = |work: Work<'_, RndUpdateParams<'_>>| -> Result<(), LearnError> {
            let Work::Gradient(params) = work else { return Ok(()) };
            kernels.gather.run(stream, grid, params, sizes)?;
            self.both(stream)?;
            kernels.loss.run(stream, grid, params, sizes)?;
            self.back(stream)
        };
        let of = (&sizes.update, exchange);
        self.phases.run(stream, sizes, &local.run, of, at, work)?;
        Ok(kernels.note.run(stream, LaunchConfig { blocks: 1, ..grid }, &at(0, 0), sizes)?)
    }
}
