//! The rollout on the GEMM path: T times a forward pass and a step, as one graph.

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Program, Stream};

use super::layout::{Extent, GemmLayout, THREADS};
use super::math::GemmMath;
use super::products::{Forward, ForwardMemory, GemmMatrix, Inputs, Recall, Weights};
use super::ring::{Ring, RingMemory, RingSizes};
use super::rnd::GemmRnd;
use super::update::{GemmWeightParams, GemmWeightSizes};
use crate::LearnError;
use crate::cpu::rollout::counts;
use crate::cuda::common::ahead::Ahead;
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::graphs::Graphs;
use crate::cuda::common::horizon::{HorizonParams, HorizonSizes};
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::structs::{Discounts, Exploration};
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};
use crate::network::Network;
use crate::sample::SampleLayout;

/// `rollout.cu`: the kernels of a rollout between the products of two steps.
pub const GEMM_ROLLOUT: KernelText =
    kernel_text!("gemm_rollout", "gemm/rollout.cu", [GemmRolloutParams, GemmWeightParams]);

/// `gemm/rollout.cu` for an environment and a network.
pub fn gemm_rollout_program(
    kernel_env: &KernelEnv,
    network: &Network,
    local: &Local,
    gemm_layout: &GemmLayout,
    norms: usize,
) -> Program {
    let layout = SampleLayout::new(&network.architecture, kernel_env.masked);
    let ring = RingSizes::new(network, local, kernel_env.masked);
    let mut defines = gemm_layout.rollout_defines(network, &local.run, &layout, (norms, ring));
    defines.push(("PLAYERS".to_owned(), kernel_env.spec.players.to_string()));
    defines.extend(local.defines());
    ProgramText::of(kernel_env, GEMM_ROLLOUT, defines)
}

/// Words of an environment's episode sums in a rollout, without metrics.
const EPISODE_WORDS: usize = 6;

/// Words of an environment's statistics of episodes in a rollout.
pub fn episode_words(horizon: &HorizonSizes) -> usize {
    EPISODE_WORDS + 2 * horizon.metrics
}

/// Sizes of a rollout on the GEMM path.
#[derive(Debug, Clone, Copy)]
pub struct GemmRolloutSizes {
    horizon: HorizonSizes,
    /// Words of an observation as the first product reads it.
    obs_words: usize,
    /// Numbers in a row of policy outputs, and in one of values.
    rows: [usize; 2],
    /// Maximum truncations of an environment in a rollout, each with a final observation.
    max_truncations: usize,
    /// Numbers of state of all environments; 0 without memory.
    states: usize,
    /// Indices of all environments; 0 without embeddings.
    indices: usize,
    /// Numbers of the tables of counts of all environments; 0 without rewards for exploring.
    counts: usize,
    /// Steps of all environments, and one more, in a game of several players; else 0.
    movers: usize,
    ring: RingSizes,
}

impl GemmRolloutSizes {
    fn new(
        kernel_env: &KernelEnv,
        (network, local): (&Network, &Local),
        gemm_layout: &GemmLayout,
        horizon: HorizonSizes,
    ) -> Self {
        let obs_words = gemm_layout.words(gemm_layout.obs_row());
        let ring = RingSizes::new(network, local, kernel_env.masked);
        Self {
            horizon,
            ring,
            obs_words,
            rows: gemm_layout.output_rows(),
            // A replay has the final observations.
            max_truncations: kernel_env.max_truncations(if ring.rows > 0 { 1 } else { local.run.num_steps }),
            states: gemm_layout.states.saturating_mul(local.num_envs),
            indices: gemm_layout.indices.saturating_mul(local.num_envs),
            counts: counts::words(&local.run).saturating_mul(local.num_envs),
            movers: match kernel_env.spec.players {
                1 => 0,
                _ => (local.run.num_steps + 1).saturating_mul(local.num_envs),
            },
        }
    }

    /// Indices of all final observations.
    fn final_indices(&self) -> usize {
        self.max_truncations.saturating_mul(self.indices)
    }

    /// Numbers of state of all final observations.
    fn final_states(&self) -> usize {
        self.max_truncations.saturating_mul(self.states)
    }

    fn sum_words(&self) -> usize {
        2 * self.horizon.norms.max(1)
    }
}

operant_cuda::params! {
    /// Parameters of the kernels: a thread accesses only its environment's entries, steps below T and truncations below their
    /// maximum.
    pub struct GemmRolloutParams<'a>(of: GemmRolloutSizes) for [
        "gemm_begin", "gemm_act", "gemm_step", "gemm_carry", "gemm_bootstrap", "gemm_finish", "gemm_norms"
    ], blocks of.horizon.blocks.max(of.states.div_ceil(THREADS)), {
        horizon: part [HorizonParams, &of.horizon],
        /// (N): episodes of this rollout so far.
        episodes: writes [u32; episode_words(&of.horizon) * of.horizon.num_envs],
        /// (N): sums of what is normalised.
        sums: writes [f32; of.sum_words() * of.horizon.num_envs],
        /// (N, row): what the network reads.
        obs: writes [f32; of.obs_words * of.horizon.num_envs],
        /// (max_truncations, N, row).
        final_obs: writes [f32; of.max_truncations * of.obs_words * of.horizon.num_envs],
        /// (N, indices): with embeddings, rows of tables.
        indices: writes_any [u32; of.indices],
        /// (max_truncations, N, indices).
        final_indices: writes_any [u32; of.final_indices()],
        /// (max_truncations, N): the step after the one that was truncated; 0 for none.
        truncated_at: writes [u32; of.max_truncations * of.horizon.num_envs],
        /// (N, policy_row): outputs of the last forward pass.
        policy: reads [f32; of.rows[0] * of.horizon.num_envs],
        /// (N, value_row): the critic's; the policy's where one network does both.
        values: reads [f32; of.rows[1] * of.horizon.num_envs],
        /// (N, states): the state of layers with memory before a step; zero where an episode begins.
        state: writes_any [f32; of.states],
        /// (N, states): after the last forward pass.
        after: reads_any [f32; of.states],
        /// (max_truncations, N, states): with the final observations.
        final_states: writes_any [f32; of.final_states()],
        /// (N, COUNTS): what the running episodes have shown.
        counts: writes_any [u32; of.counts],
        /// (T + 1, N): whose turn it is, in a game of several players.
        movers: writes_any [u8; of.movers],
        ring: part [Ring, &of.ring],
        /// Steps of all environments before a policy fills the replay.
        learning_starts: value [u64],
        intrinsic_coef: value [f32],
        /// Of rewards for exploring that have a value of their own.
        intrinsic_discounts: value [Discounts],
        policy_row: value [u32],
        value_row: value [u32],
        /// Where the value lies in a row of values.
        value_at: value [u32],
        max_truncations: value [u32],
        /// Set for each launch.
        step: value [u32],
        /// Set for each launch.
        truncation: value [u32],
        /// Of networks of action values.
        exploration: value [Exploration],
    }
}

/// One step from a state.
fn recall(state: Option<&Buffer<f32>>) -> Option<Recall<'_>> {
    state.map(|initial| Recall { initial, keep: None })
}

/// Memory of the policy and of the state between two kernels of a rollout.
#[derive(Debug)]
pub struct GemmPolicyMemory {
    obs: GemmMatrix,
    final_obs: Buffer<f32>,
    truncated_at: Buffer<u32>,
    episodes: Buffer<u32>,
    sums: Buffer<f32>,
    /// With memory: (N, states) before the next step, and (max_truncations, N, states) with the final observations.
    states: Option<[Buffer<f32>; 2]>,
    /// With embeddings: (N, indices) of the next step, and (max_truncations, N, indices) of final observations.
    indices: Option<[Buffer<u32>; 2]>,
    /// (N, COUNTS), with rewards for exploring.
    counts: Option<Buffer<u32>>,
    /// (T + 1, N), in a game of several players.
    movers: Option<Buffer<u8>>,
    ring: Option<RingMemory>,
}

impl GemmPolicyMemory {
    /// The memory, and that of the forward pass.
    pub fn new(
        allocator: &Allocator,
        kernel_env: &KernelEnv,
        (network, local): (&Network, &Local),
        gemm_layout: &GemmLayout,
        horizon: HorizonSizes,
    ) -> Result<(Self, ForwardMemory), CudaError> {
        let of = GemmRolloutSizes::new(kernel_env, (network, local), gemm_layout, horizon);
        let n = local.num_envs;
        let indices = || Ok([allocator.alloc(of.indices)?, allocator.alloc(of.final_indices())?]);
        let states = || Ok([allocator.alloc(of.states)?, allocator.alloc(of.final_states())?]);
        let own = Self {
            obs: GemmMatrix::new(allocator, gemm_layout, n.saturating_mul(gemm_layout.obs_row()))?,
            final_obs: allocator.alloc((of.max_truncations * of.obs_words).saturating_mul(n))?,
            truncated_at: allocator.alloc(of.max_truncations.saturating_mul(n))?,
            episodes: allocator.alloc(episode_words(&of.horizon).saturating_mul(n))?,
            sums: allocator.alloc(of.sum_words().saturating_mul(n))?,
            states: if of.states > 0 { Some(states()?) } else { None },
            indices: if of.indices > 0 { Some(indices()?) } else { None },
            counts: (of.counts > 0).then(|| allocator.alloc(of.counts)).transpose()?,
            movers: (of.movers > 0).then(|| allocator.alloc(of.movers)).transpose()?,
            ring: RingMemory::new(allocator, (network, local), kernel_env.masked)?,
        };
        Ok((own, ForwardMemory::new(allocator, gemm_layout, Extent { sequences: n, steps: 1 })?))
    }
}

/// The policy of a rollout, and the state between two of its kernels.
#[derive(Debug)]
pub struct GemmPolicy {
    math: GemmMath,
    begin: Function,
    step: Function,
    /// What precedes a step into a replay, or follows a rollout without one.
    act: Option<Function>,
    bootstrap: Option<Function>,
    finish: Function,
    /// With several devices.
    norms: Option<Function>,
    pack: Function,
    sizes: GemmRolloutSizes,
    exploration: Exploration,
    intrinsic_coef: f32,
    intrinsic_discounts: Discounts,
    learning_starts: u64,
    gemm_layout: GemmLayout,
    parameters: usize,
    forward: Forward,
    pub weights: Weights,
    memory: GemmPolicyMemory,
    /// Final observations, for each possible truncation of an environment in a rollout.
    truncations: Vec<GemmMatrix>,
    carry: Option<Function>,
    ahead: Option<Ahead>,
    graphs: Graphs,
}

impl GemmPolicy {
    /// Blocks of a launch over N environments.
    pub fn blocks(num_envs: usize) -> usize {
        num_envs.div_ceil(THREADS)
    }

    /// Loads the kernels, with this memory and these weights.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device fails.
    pub fn new(
        device: &Device,
        stream: &Stream,
        kernel_env: &KernelEnv,
        (network, local, gemm_layout): (&Network, &Local, GemmLayout),
        (horizon, (memory, forward)): (HorizonSizes, (GemmPolicyMemory, ForwardMemory)),
        weights: Weights,
    ) -> Result<Self, LearnError> {
        let n = local.num_envs;
        let module =
            device.load(&gemm_rollout_program(kernel_env, network, local, &gemm_layout, horizon.norms))?;
        let sizes = GemmRolloutSizes::new(kernel_env, (network, local), &gemm_layout, horizon);
        if let Some(ring) = &memory.ring {
            ring.clear(stream, None)?;
        }
        for states in memory.states.iter().flatten() {
            states.fill(stream, 0)?;
        }
        if let Some(counts) = &memory.counts {
            counts.fill(stream, 0)?;
        }
        // Forward passes also read rows that no observation has been written to.
        for indices in memory.indices.iter().flatten() {
            indices.fill(stream, 0)?;
        }
        let words = n * sizes.obs_words;
        let truncations = (0..sizes.max_truncations)
            .map(|truncation| {
                let range = truncation * words..(truncation + 1) * words;
                GemmMatrix::of(memory.final_obs.part(range)?, &gemm_layout)
            })
            .collect::<Result<_, _>>()?;
        let made = Self {
            math: GemmMath::new(device, &gemm_layout)?,
            begin: module.function("gemm_begin")?,
            step: module.function("gemm_step")?,
            act: memory.ring.as_ref().map(|_| module.function("gemm_act")).transpose()?,
            bootstrap: match &memory.ring {
                Some(_) => None,
                None => Some(module.function("gemm_bootstrap")?),
            },
            finish: module.function("gemm_finish")?,
            norms: (local.devices > 1).then(|| module.function("gemm_norms")).transpose()?,
            pack: module.function("gemm_pack")?,
            sizes,
            exploration: Exploration::of(&local.run),
            intrinsic_coef: local.run.intrinsic_coef as f32,
            intrinsic_discounts: Discounts::intrinsic(&local.run),
            learning_starts: local.run.learning_starts as u64,
            parameters: network.len(),
            forward: Forward::new(
                (&device.blas()?, stream),
                &gemm_layout,
                Extent { sequences: n, steps: 1 },
                forward,
            )?,
            gemm_layout,
            weights,
            truncations,
            carry: memory.states.is_some().then(|| module.function("gemm_carry")).transpose()?,
            memory,
            ahead: Ahead::new(device, kernel_env, n)?,
            graphs: Graphs::default(),
        };
        // Makes the library load its kernels before the capture; the results are not used.
        made.forward.run(stream, &made.math, &made.weights, made.inputs(), made.gemm_layout.acting())?;
        Ok(made)
    }

    /// The network's inputs at the next step.
    fn inputs(&self) -> Inputs<'_> {
        let indices = self.memory.indices.as_ref().map(|[indices, _]| indices);
        Inputs { obs: &self.memory.obs, indices, recall: recall(self.state()) }
    }

    /// The state of layers with memory, (N, states).
    pub fn state(&self) -> Option<&Buffer<f32>> {
        self.memory.states.as_ref().map(|[state, _]| state)
    }

    /// What the running episodes have shown, (N, COUNTS).
    pub fn counts(&self) -> Option<&Buffer<u32>> {
        self.memory.counts.as_ref()
    }

    /// Whose turn it was before each step of the last rollout and is after it, `(T + 1, N)`, in a game of several players.
    pub fn movers(&self) -> Option<&Buffer<u8>> {
        self.memory.movers.as_ref()
    }

    /// The replay, if there is one.
    pub fn ring(&self) -> Option<&RingMemory> {
        self.memory.ring.as_ref()
    }

    /// Copies parameters.
    pub fn pack(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), CudaError> {
        let sizes = GemmWeightSizes::new(self.parameters, &self.gemm_layout);
        let params = GemmWeightParams::new(parameters, &self.weights);
        self.pack.run(stream, LaunchConfig::covering(self.parameters, THREADS as u32), &params, &sizes)
    }

    /// Enqueues a rollout, whose rewards for exploring come from these networks, if there are some.
    pub fn roll(
        &self,
        stream: &Stream,
        horizon: HorizonParams<'_>,
        rnd: Option<&GemmRnd>,
    ) -> Result<(), LearnError> {
        let scene = horizon.scene.map_or(0, Buffer::pointer);
        let of = [horizon.samples.pointer(), scene, u64::from(rnd.is_some())];
        self.graphs.launch(stream, &of, |stream| self.capture(stream, horizon, rnd))
    }

    /// Merges the sums of all devices' rollouts into the running statistics.
    pub fn merge_norms(&self, stream: &Stream, horizon: HorizonParams<'_>) -> Result<(), CudaError> {
        let Some(norms) = &self.norms else { return Ok(()) };
        let grid = LaunchConfig { blocks: 1, threads: THREADS as u32, shared: 0 };
        norms.run(stream, grid, &self.params(horizon), &self.sizes)
    }

    /// The parameters of the first step's kernels.
    fn params<'a>(&'a self, horizon: HorizonParams<'a>) -> GemmRolloutParams<'a> {
        let (sizes, memory, [policy, values]) = (&self.sizes, &self.memory, self.forward.outputs());
        GemmRolloutParams {
            horizon,
            episodes: &memory.episodes,
            sums: &memory.sums,
            obs: &memory.obs.words,
            final_obs: &memory.final_obs,
            indices: memory.indices.as_ref().map(|[indices, _]| indices),
            final_indices: memory.indices.as_ref().map(|[_, final_indices]| final_indices),
            truncated_at: &memory.truncated_at,
            policy,
            values,
            counts: self.counts(),
            movers: self.movers(),
            ring: RingMemory::params(self.ring()),
            learning_starts: self.learning_starts,
            intrinsic_coef: self.intrinsic_coef,
            intrinsic_discounts: self.intrinsic_discounts,
            policy_row: sizes.rows[0] as u32,
            value_row: sizes.rows[1] as u32,
            value_at: self.gemm_layout.value_at().unwrap_or(0) as u32,
            state: self.state(),
            after: self.forward.after(),
            final_states: memory.states.as_ref().map(|[_, final_states]| final_states),
            max_truncations: sizes.max_truncations as u32,
            step: 0,
            truncation: 0,
            exploration: self.exploration,
        }
    }

    /// Enqueues the first observations of a rollout into a replay.
    pub fn begin(&self, stream: &Stream, horizon: HorizonParams<'_>) -> Result<(), CudaError> {
        self.kernel(stream, horizon, (&self.begin, 0), 0)
    }

    /// Enqueues the choice of the actions of a step into a replay.
    pub fn act(&self, stream: &Stream, horizon: HorizonParams<'_>, step: usize) -> Result<(), LearnError> {
        let (inputs, chains) = (self.inputs(), self.gemm_layout.acting());
        let forward = |stream: &Stream| self.forward.run(stream, &self.math, &self.weights, inputs, chains);
        self.graphs.launch(stream, &[], forward)?;
        let act = self.act.as_ref().expect("a replay");
        Ok(self.kernel(stream, horizon, (act, 0), step)?)
    }

    /// Enqueues a step into a replay.
    pub fn step(&self, stream: &Stream, horizon: HorizonParams<'_>, step: usize) -> Result<(), CudaError> {
        self.make_ahead(stream, &horizon, step)?;
        self.kernel(stream, horizon, (&self.step, 0), step)?;
        self.carry(stream, self.params(horizon), step)
    }

    /// With memory, the state after a step becomes that before the next one.
    fn carry(&self, stream: &Stream, params: GemmRolloutParams<'_>, step: usize) -> Result<(), CudaError> {
        let Some(carry) = &self.carry else { return Ok(()) };
        let grid = LaunchConfig::covering(self.sizes.states, THREADS as u32);
        carry.run(stream, grid, &GemmRolloutParams { step: step as u32, ..params }, &self.sizes)
    }

    /// Enqueues the end of a rollout into a replay.
    pub fn finish(&self, stream: &Stream, horizon: HorizonParams<'_>) -> Result<(), CudaError> {
        let shared = self.gemm_layout.rollout_shared(self.sizes.horizon.norms);
        self.kernel(stream, horizon, (&self.finish, shared), 0)
    }

    /// Enqueues making the first states that are missing, before some of the steps.
    fn make_ahead(&self, stream: &Stream, horizon: &HorizonParams<'_>, step: usize) -> Result<(), CudaError> {
        self.ahead.as_ref().map_or(Ok(()), |ahead| ahead.make(stream, horizon.next, horizon.ahead_of(step)))
    }

    fn kernel(
        &self,
        stream: &Stream,
        horizon: HorizonParams<'_>,
        (function, shared): (&Function, usize),
        step: usize,
    ) -> Result<(), CudaError> {
        let blocks = self.sizes.horizon.blocks as u32;
        let grid = LaunchConfig { blocks, threads: THREADS as u32, shared: shared as u32 };
        let params = GemmRolloutParams { step: step as u32, ..self.params(horizon) };
        function.run(stream, grid, &params, &self.sizes)
    }

    /// The work of a rollout's graph.
    fn capture(
        &self,
        stream: &Stream,
        horizon: HorizonParams<'_>,
        rnd: Option<&GemmRnd>,
    ) -> Result<(), LearnError> {
        let (sizes, params) = (&self.sizes, self.params(horizon));
        let critic = if self.gemm_layout.value_at().is_none() { 1 } else { 0 };
        let blocks = sizes.horizon.blocks as u32;
        let run = |function: &Function, shared: usize, step: usize, truncation: usize| {
            let grid = LaunchConfig { blocks, threads: THREADS as u32, shared: shared as u32 };
            let params = GemmRolloutParams { step: step as u32, truncation: truncation as u32, ..params };
            function.run(stream, grid, &params, sizes)
        };
        let chains = self.gemm_layout.chains.len();
        let forward = |inputs: Inputs<'_>, from| {
            self.forward.run(stream, &self.math, &self.weights, inputs, from..chains)
        };
        run(&self.begin, 0, 0, 0)?;
        for step in 0..sizes.horizon.num_steps {
            forward(self.inputs(), 0)?;
            self.make_ahead(stream, &horizon, step)?;
            run(&self.step, 0, step, 0)?;
            self.carry(stream, params, step)?;
        }
        let bootstrap = self.bootstrap.as_ref().expect("no replay");
        for (truncation, obs) in self.truncations.iter().enumerate() {
            let [first, end] = [truncation, truncation + 1];
            let state = params.final_states.map(|all| all.part(first * sizes.states..end * sizes.states));
            let indices =
                params.final_indices.map(|all| all.part(first * sizes.indices..end * sizes.indices));
            let (state, indices) = (state.transpose()?, indices.transpose()?);
            let inputs = Inputs { obs, indices: indices.as_ref(), recall: recall(state.as_ref()) };
            forward(inputs, critic)?;
            run(bootstrap, 0, 0, truncation)?;
        }
        if let Some(rnd) = rnd {
            rnd.judge(stream, horizon, (&self.memory.episodes, self.inputs()))?;
        }
        forward(self.inputs(), 0)?;
        Ok(run(&self.finish, self.gemm_layout.rollout_shared(sizes.horizon.norms), 0, 0)?)
    }
}
