//! A horizon of a network made of products: T times a forward pass and a step, as one graph.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::layout::{Form, THREADS};
use super::math::GemmMath;
use super::products::{Forward, ForwardMemory, Numbers, Weights};
use super::update::{GemmWeightParams, GemmWeightSizes};
use crate::LearnError;
use crate::config::Config;
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::graphs::Graphs;
use crate::cuda::common::horizon::{HorizonParams, HorizonSizes};
use crate::cuda::common::memory::Room;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Network;
use crate::sample::SampleLayout;

/// `rollout.cu`: what a rollout does between the products of two steps.
pub const GEMM_ROLLOUT: KernelText =
    kernel_text!("gemm_rollout", "gemm/rollout.cu", [GemmRolloutParams, GemmWeightParams]);

/// `gemm/rollout.cu` for an environment and a network.
pub fn gemm_rollout_program(
    kernel_env: &KernelEnv,
    network: &Network,
    config: &Config,
    form: &Form,
    norms: usize,
) -> Program {
    let layout = SampleLayout::new(&network.architecture, kernel_env.masked);
    ProgramText::of(kernel_env, GEMM_ROLLOUT, form.rollout_defines(network, config, &layout, norms))
}

/// Words that an environment's episodes of a horizon add up to.
const EPISODE_WORDS: usize = 6;

/// Sizes of a rollout of products.
#[derive(Debug, Clone, Copy)]
pub struct GemmRolloutSizes {
    horizon: HorizonSizes,
    /// Words of an observation as the first product reads it.
    obs_words: usize,
    /// Numbers in a row of policy outputs, and in one of values.
    rows: [usize; 2],
    /// Final observations that an environment can have in a horizon.
    cuts: usize,
}

impl GemmRolloutSizes {
    fn new(kernel_env: &KernelEnv, config: &Config, form: &Form, horizon: HorizonSizes) -> Self {
        let obs_words = form.words(form.obs_row());
        Self { horizon, obs_words, rows: form.output_rows(), cuts: kernel_env.cuts(config.num_steps) }
    }

    fn sum_words(&self) -> usize {
        2 * self.horizon.norms.max(1)
    }
}

operant_cuda::params! {
    /// What the kernels take: a thread reads and writes its environment's places, steps below T and cuts below their number.
    pub struct GemmRolloutParams<'a>(of: GemmRolloutSizes) for [
        "gemm_begin", "gemm_step", "gemm_bootstrap", "gemm_finish"
    ], blocks of.horizon.blocks, {
        horizon: part [HorizonParams, &of.horizon],
        /// (N): episodes of this horizon so far.
        episodes: writes [u32; EPISODE_WORDS * of.horizon.num_envs],
        /// (N): sums of what is normalised.
        sums: writes [f32; of.sum_words() * of.horizon.num_envs],
        /// (N, row): what the network reads.
        obs: writes [f32; of.obs_words * of.horizon.num_envs],
        /// (cuts, N, row).
        final_obs: writes [f32; of.cuts * of.obs_words * of.horizon.num_envs],
        /// (cuts, N): the step after the one that was truncated; 0 for none.
        cut_at: writes [u32; of.cuts * of.horizon.num_envs],
        /// (N, policy_row): outputs of the last forward pass.
        policy: reads [f32; of.rows[0] * of.horizon.num_envs],
        /// (N, value_row): the critic's; the policy's where one network does both.
        values: reads [f32; of.rows[1] * of.horizon.num_envs],
        policy_row: value [u32],
        value_row: value [u32],
        /// Where the value lies in a row of values.
        value_at: value [u32],
        cuts: value [u32],
        /// Of the launch.
        step: value [u32],
        /// Of the launch.
        cut: value [u32],
    }
}

/// Memory of the policy of a rollout, and what is kept between two of its kernels.
#[derive(Debug)]
pub struct GemmPolicyMemory {
    obs: Numbers,
    final_obs: Buffer<f32>,
    cut_at: Buffer<u32>,
    episodes: Buffer<u32>,
    sums: Buffer<f32>,
    forward: ForwardMemory,
}

impl GemmPolicyMemory {
    /// # Errors
    /// When there is no room.
    pub fn new(
        room: &Room,
        kernel_env: &KernelEnv,
        config: &Config,
        form: &Form,
        horizon: HorizonSizes,
    ) -> Result<Self, CudaError> {
        let (n, of) = (config.num_envs, GemmRolloutSizes::new(kernel_env, config, form, horizon));
        Ok(Self {
            obs: Numbers::new(room, form, n.saturating_mul(form.obs_row()))?,
            final_obs: room.alloc((of.cuts * of.obs_words).saturating_mul(n))?,
            cut_at: room.alloc(of.cuts.saturating_mul(n))?,
            episodes: room.alloc(EPISODE_WORDS.saturating_mul(n))?,
            sums: room.alloc(of.sum_words().saturating_mul(n))?,
            forward: ForwardMemory::new(room, form, n)?,
        })
    }
}

/// The policy of a rollout, and what is kept between two of its kernels.
#[derive(Debug)]
pub struct GemmPolicy {
    math: GemmMath,
    begin: Function,
    step: Function,
    bootstrap: Function,
    finish: Function,
    pack: Function,
    sizes: GemmRolloutSizes,
    form: Form,
    parameters: usize,
    forward: Forward,
    pub weights: Weights,
    obs: Numbers,
    final_obs: Buffer<f32>,
    /// The same for each time that an environment can be truncated in a horizon.
    cuts: Vec<Numbers>,
    cut_at: Buffer<u32>,
    episodes: Buffer<u32>,
    sums: Buffer<f32>,
    graphs: Graphs,
}

impl GemmPolicy {
    /// Blocks of a launch over N environments.
    pub fn blocks(num_envs: usize) -> usize {
        num_envs.div_ceil(THREADS)
    }

    /// In this memory, with these weights.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device fails.
    pub fn new(
        device: &Device,
        stream: &Stream,
        kernel_env: &KernelEnv,
        (network, config, form): (&Network, &Config, Form),
        (horizon, memory): (HorizonSizes, GemmPolicyMemory),
        weights: Weights,
    ) -> Result<Self, LearnError> {
        let n = config.num_envs;
        let module = device.load(&gemm_rollout_program(kernel_env, network, config, &form, horizon.norms))?;
        let sizes = GemmRolloutSizes::new(kernel_env, config, &form, horizon);
        let GemmPolicyMemory { obs, final_obs, cut_at, episodes, sums, forward } = memory;
        let words = n * sizes.obs_words;
        let cuts = (0..sizes.cuts)
            .map(|cut| Numbers::of(final_obs.part(cut * words..(cut + 1) * words)?, &form))
            .collect::<Result<_, _>>()?;
        let made = Self {
            math: GemmMath::new(device, &form)?,
            begin: module.function("gemm_begin")?,
            step: module.function("gemm_step")?,
            bootstrap: module.function("gemm_bootstrap")?,
            finish: module.function("gemm_finish")?,
            pack: module.function("gemm_pack")?,
            sizes,
            parameters: network.len(),
            forward: Forward::new(&device.blas()?, &form, n, forward)?,
            form,
            weights,
            obs,
            final_obs,
            cuts,
            cut_at,
            episodes,
            sums,
            graphs: Graphs::default(),
        };
        // The library loads its kernels before anything is captured; what comes out goes nowhere.
        made.forward.run(stream, &made.math, &made.weights, &made.obs, 0)?;
        Ok(made)
    }

    /// Takes parameters over.
    ///
    /// # Errors
    /// When the device fails.
    pub fn pack(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), CudaError> {
        let sizes = GemmWeightSizes::new(self.parameters, &self.form);
        let params = GemmWeightParams::new(parameters, &self.weights);
        self.pack.run(stream, LaunchConfig::covering(self.parameters, THREADS as u32), &params, &sizes)
    }

    /// Enqueues a horizon.
    ///
    /// # Errors
    /// When a launch fails.
    pub fn roll(&self, stream: &Stream, horizon: HorizonParams<'_>) -> Result<(), LearnError> {
        let of = [horizon.samples.pointer(), horizon.scene.map_or(0, Buffer::pointer)];
        self.graphs.launch(stream, &of, |stream| self.capture(stream, horizon))
    }

    /// What a horizon's graph consists of.
    fn capture(&self, stream: &Stream, horizon: HorizonParams<'_>) -> Result<(), LearnError> {
        let (sizes, [policy, values]) = (&self.sizes, self.forward.outputs());
        let critic = if self.form.value_at().is_none() { 1 } else { 0 };
        let params = GemmRolloutParams {
            horizon,
            episodes: &self.episodes,
            sums: &self.sums,
            obs: &self.obs.words,
            final_obs: &self.final_obs,
            cut_at: &self.cut_at,
            policy,
            values,
            policy_row: sizes.rows[0] as u32,
            value_row: sizes.rows[1] as u32,
            value_at: self.form.value_at().unwrap_or(0) as u32,
            cuts: sizes.cuts as u32,
            step: 0,
            cut: 0,
        };
        let blocks = sizes.horizon.blocks as u32;
        let run = |function: &Function, shared: usize, step: usize, cut: usize| {
            let grid = LaunchConfig { blocks, threads: THREADS as u32, shared: shared as u32 };
            let params = GemmRolloutParams { step: step as u32, cut: cut as u32, ..params };
            function.run(stream, grid, &params, sizes)
        };
        let forward = |obs: &Numbers, from| self.forward.run(stream, &self.math, &self.weights, obs, from);
        run(&self.begin, 0, 0, 0)?;
        for step in 0..sizes.horizon.num_steps {
            forward(&self.obs, 0)?;
            run(&self.step, 0, step, 0)?;
        }
        for (cut, obs) in self.cuts.iter().enumerate() {
            forward(obs, critic)?;
            run(&self.bootstrap, 0, 0, cut)?;
        }
        forward(&self.obs, 0)?;
        Ok(run(&self.finish, self.form.rollout_shared(sizes.horizon.norms), 0, 0)?)
    }
}
