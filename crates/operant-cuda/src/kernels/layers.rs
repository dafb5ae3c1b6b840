//! `layers.cu`, `layers_rollout.cu` and `layers_update.cu`: what is done around the matrix products of networks that are no part of
//! the kernels.

use super::rollout::Normaliser;
use super::update::{Phases, UpdateBuffers, UpdateNumbers, UpdateParams, UpdateShape};
use super::{Horizon, RolloutBuffers, Seed, blocks, exactly, optional, rows};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

// ---- between layers -------------------------------------------------------------------------------------------------

#[repr(C)]
#[derive(Clone, Copy)]
struct LayersParams {
    input: u64,
    activated: u64,
    bias: u64,
    out: u64,
    rows: u64,
    columns: u32,
    hidden: u32,
}

// SAFETY: five numbers of 8 bytes and two of 4, without padding.
unsafe impl Plain for LayersParams {}

/// Threads of a block of `layers.cu`.
const THREADS: u32 = 256;
/// Blocks of it at most: enough for any device, and each thread takes more numbers then.
const MOST_BLOCKS: usize = 2_048;

/// The kernels of `layers.cu`.
#[derive(Debug)]
pub struct LayerMath {
    activate: Function,
    slope: Function,
    bias_sums: Function,
    halves: bool,
}

impl LayerMath {
    /// From a module of `layers.cu`; `halves` when what products read is bf16.
    ///
    /// # Errors
    /// When the module lacks a kernel.
    pub fn new(module: &Module, halves: bool) -> Result<Self, CudaError> {
        Ok(Self {
            activate: module.function("layers_activate")?,
            slope: module.function("layers_slope")?,
            bias_sums: module.function("layers_bias_sums")?,
            halves,
        })
    }

    /// 32-bit words of `count` numbers as products read them.
    fn words(&self, count: usize) -> usize {
        if self.halves { count.div_ceil(2) } else { count }
    }

    fn grid(count: usize) -> Grid {
        Grid { blocks: blocks(count, THREADS).clamp(1, MOST_BLOCKS as u32), threads: THREADS, shared: 0 }
    }

    /// `out = activation(input + bias)` of f32 numbers `(rows, columns)`, for the next product to read; of an output layer
    /// (`hidden` false) `input + bias` in f32.
    ///
    /// # Errors
    /// When a buffer is of another length, or the launch fails.
    pub fn activate(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        input: &Buffer<f32>,
        bias: Option<&Buffer<f32>>,
        out: &Buffer<f32>,
        hidden: bool,
    ) -> Result<(), CudaError> {
        let count = rows * columns;
        let params = LayersParams {
            input: exactly("sums of a layer", input, count)?,
            activated: 0,
            bias: optional("biases", bias, columns)?,
            out: exactly("activations", out, if hidden { self.words(count) } else { count })?,
            rows: rows as u64,
            columns: columns as u32,
            hidden: u32::from(hidden),
        };
        keep(stream, [Some(input), bias, Some(out)]);
        // SAFETY: the struct is the kernel's; it reads and writes `count` numbers of each matrix and `columns` biases.
        unsafe { self.activate.launch(stream, Self::grid(count), &params) }
    }

    /// `out = input * slope(activated)`: `input` in f32, the others as products read them.
    ///
    /// # Errors
    /// When a buffer is of another length, or the launch fails.
    pub fn slope(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        input: &Buffer<f32>,
        activated: &Buffer<f32>,
        out: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let count = rows * columns;
        let params = LayersParams {
            input: exactly("gradients of activations", input, count)?,
            activated: exactly("activations", activated, self.words(count))?,
            bias: 0,
            out: exactly("gradients of sums", out, self.words(count))?,
            rows: rows as u64,
            columns: columns as u32,
            hidden: 1,
        };
        keep(stream, [Some(input), Some(activated), Some(out)]);
        // SAFETY: the struct is the kernel's; it reads and writes `count` numbers of each matrix.
        unsafe { self.slope.launch(stream, Self::grid(count), &params) }
    }

    /// `out (columns)` = the sums of `input` over its rows.
    ///
    /// # Errors
    /// When a buffer is of another length, or the launch fails.
    pub fn bias_sums(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
        input: &Buffer<f32>,
        out: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let params = LayersParams {
            input: exactly("gradients of sums", input, self.words(rows * columns))?,
            activated: 0,
            bias: 0,
            out: exactly("gradients of biases", out, columns)?,
            rows: rows as u64,
            columns: columns as u32,
            hidden: 1,
        };
        keep(stream, [Some(input), Some(out), None]);
        let grid = Grid { blocks: blocks(columns, 32), threads: THREADS, shared: 4 * THREADS };
        // SAFETY: the struct is the kernel's; blocks read their columns of `rows` rows and write one number a column.
        unsafe { self.bias_sums.launch(stream, grid, &params) }
    }
}

/// While the stream is captured, the graph keeps what a kernel reads and writes.
fn keep(stream: &Stream, buffers: [Option<&Buffer<f32>>; 3]) {
    buffers.into_iter().flatten().for_each(|buffer| buffer.keep_in(stream));
}

// ---- the rollout ----------------------------------------------------------------------------------------------------

#[repr(C)]
#[derive(Clone, Copy)]
struct LayersRolloutParams {
    log_std: u64,
    environments: u64,
    samples: u64,
    rewards: u64,
    values: u64,
    flags: u64,
    next_values: u64,
    normaliser: Normaliser,
    partials: u64,
    totals: u64,
    clock: u64,
    ticket: u64,
    scene: u64,
    episodes: u64,
    sums: u64,
    obs: u64,
    final_obs: u64,
    cut_at: u64,
    policy: u64,
    value: u64,
    policy_row: u32,
    value_row: u32,
    cuts: u32,
    step: u32,
    cut: u32,
    num_envs: u32,
    num_steps: u32,
    seed: Seed,
    gamma: f32,
    decay: f32,
    unused: u32,
}

// SAFETY: 23 addresses and 14 numbers of 4 bytes, without padding.
unsafe impl Plain for LayersRolloutParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct LayersPackParams {
    parameters: u64,
    matrices: u64,
    biases: u64,
    count: u32,
    unused: u32,
}

// SAFETY: three addresses and two numbers of 4 bytes, without padding.
unsafe impl Plain for LayersPackParams {}

/// Sizes that `layers_rollout.cu` was specialised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayersRolloutShape {
    /// P.
    pub parameters: usize,
    /// Words of all matrices.
    pub matrix_words: usize,
    /// All biases, each layer's padded.
    pub biases: usize,
    /// Log standard deviations of a Gaussian head, else 0.
    pub log_std: usize,
    /// Words of a running environment.
    pub running_words: usize,
    /// Words of a sample.
    pub sample_stride: usize,
    /// Words of an observation as the first product reads it.
    pub obs_words: usize,
    /// Outputs in a row of policy outputs.
    pub policy_row: usize,
    /// Where the value lies in such a row; None where the critic is a network of its own.
    pub value_at: Option<usize>,
    /// Outputs in a row of values.
    pub value_row: usize,
    /// Quantities normalised by running statistics.
    pub norms: usize,
    /// Whether rewards are among them, the last.
    pub norm_reward: bool,
    /// Final observations that an environment can have in a horizon.
    pub cuts: usize,
    /// Threads a block.
    pub threads: u32,
    /// Bytes of shared memory of the last kernel's blocks.
    pub shared: u32,
}

impl LayersRolloutShape {
    /// Words of an environment's sums over a horizon: of episodes, and of what is normalised.
    pub fn sum_words(&self) -> [usize; 2] {
        [6, 2 * self.norms.max(1)]
    }

    /// Blocks of a launch over N environments.
    pub fn blocks(&self, num_envs: usize) -> usize {
        num_envs.div_ceil(self.threads as usize)
    }
}

/// What a horizon reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct LayersBuffers<'a> {
    /// As where the network is part of the kernel; its weights are not read.
    pub rollout: RolloutBuffers<'a>,
    /// (N, 6).
    pub episodes: &'a Buffer<u32>,
    /// (N, 2 norms).
    pub sums: &'a Buffer<f32>,
    /// (N, words): what the network reads.
    pub obs: &'a Buffer<f32>,
    /// (cuts, N, words).
    pub final_obs: &'a Buffer<f32>,
    /// (cuts, N).
    pub cut_at: &'a Buffer<u32>,
    /// (N, policy row): what it leaves.
    pub policy: &'a Buffer<f32>,
    /// (N, value row): what the critic leaves; the same as `policy` where one network does both.
    pub value: &'a Buffer<f32>,
}

impl LayersBuffers<'_> {
    /// While the stream is being captured: lets the graph keep all of them.
    pub fn keep_in(&self, stream: &Stream) {
        self.rollout.keep_in(stream);
        self.episodes.keep_in(stream);
        self.cut_at.keep_in(stream);
        for floats in [self.sums, self.obs, self.final_obs, self.policy, self.value] {
            floats.keep_in(stream);
        }
    }
}

/// The kernels of `layers_rollout.cu`.
#[derive(Debug)]
pub struct LayersRollout {
    begin: Function,
    step: Function,
    bootstrap: Function,
    finish: Function,
    pack: Function,
    shape: LayersRolloutShape,
}

impl LayersRollout {
    /// From a module of `layers_rollout.cu` that was specialised for `shape`.
    ///
    /// # Errors
    /// When the module lacks a kernel.
    pub fn new(module: &Module, shape: LayersRolloutShape) -> Result<Self, CudaError> {
        Ok(Self {
            begin: module.function("layers_begin")?,
            step: module.function("layers_step")?,
            bootstrap: module.function("layers_bootstrap")?,
            finish: module.function("layers_finish")?,
            pack: module.function("layers_pack")?,
            shape,
        })
    }

    /// The sizes it was made for.
    pub fn shape(&self) -> &LayersRolloutShape {
        &self.shape
    }

    /// Plays a horizon. `forward` runs the network on `obs`, and `forward_final` on the final observations of one cut.
    ///
    /// # Errors
    /// When a buffer has another length, or a launch fails.
    pub fn launch<E: From<CudaError>>(
        &self,
        stream: &Stream,
        buffers: &LayersBuffers<'_>,
        horizon: &Horizon,
        mut forward: impl FnMut() -> Result<(), E>,
        mut forward_final: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let params = self.params(buffers, horizon)?;
        let blocks = self.shape.blocks(horizon.num_envs) as u32;
        let run = |function: &Function, shared: u32, step: usize, cut: usize| {
            let grid = Grid { blocks, threads: self.shape.threads, shared };
            let params = LayersRolloutParams { step: step as u32, cut: cut as u32, ..params };
            // SAFETY: the struct is the kernel's; a thread reads and writes its environment's places, steps below T and cuts
            // below their number, and `params` has checked all lengths.
            unsafe { function.launch(stream, grid, &params) }
        };
        run(&self.begin, 0, 0, 0)?;
        for step in 0..horizon.num_steps {
            forward()?;
            run(&self.step, 0, step, 0)?;
        }
        for cut in 0..self.shape.cuts {
            forward_final(cut)?;
            run(&self.bootstrap, 0, 0, cut)?;
        }
        forward()?;
        Ok(run(&self.finish, self.shape.shared, 0, 0)?)
    }

    /// Packs parameters; what they go to must be zero.
    ///
    /// # Errors
    /// When a buffer has another length, or the launch fails.
    pub fn pack(
        &self,
        stream: &Stream,
        parameters: &Buffer<f32>,
        matrices: &Buffer<f32>,
        biases: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let (shape, threads) = (&self.shape, self.shape.threads);
        let params = LayersPackParams {
            parameters: exactly("parameters", parameters, shape.parameters)?,
            matrices: exactly("matrices", matrices, shape.matrix_words)?,
            biases: exactly("biases", biases, shape.biases)?,
            count: shape.parameters as u32,
            unused: 0,
        };
        let grid = Grid { blocks: blocks(shape.parameters, threads), threads, shared: 0 };
        // SAFETY: the struct is the kernel's; a thread below P writes its own parameter's place, which both sides count alike.
        unsafe { self.pack.launch(stream, grid, &params) }
    }

    fn params(
        &self,
        buffers: &LayersBuffers<'_>,
        horizon: &Horizon,
    ) -> Result<LayersRolloutParams, CudaError> {
        let (shape, n, own) = (&self.shape, horizon.num_envs, &buffers.rollout);
        let (steps, blocks) = (n * horizon.num_steps, shape.blocks(n));
        own.must_suit(shape.log_std, shape.norms, shape.norm_reward)?;
        let [episode_words, sum_words] = shape.sum_words();
        let policy = exactly("policy outputs", buffers.policy, n * shape.policy_row)?;
        let value = match shape.value_at {
            Some(at) => policy + 4 * at as u64,
            None => exactly("values of the critic", buffers.value, n * shape.value_row)?,
        };
        let params = LayersRolloutParams {
            log_std: optional("log_std", own.log_std, shape.log_std)?,
            environments: rows("environments", own.environments, shape.running_words, n)?,
            samples: exactly("samples", own.samples, steps * shape.sample_stride)?,
            rewards: exactly("rewards", own.rewards, steps)?,
            values: exactly("values", own.values, steps)?,
            flags: exactly("flags", own.flags, steps)?,
            next_values: exactly("next values", own.next_values, n)?,
            normaliser: own.normaliser(horizon, shape.norms, blocks)?,
            partials: exactly("partial episodes", own.partials, blocks)?,
            totals: exactly("episodes", own.totals, 1)?,
            clock: exactly("the clock", own.clock, 1)?,
            ticket: exactly("the ticket", own.ticket, 1)?,
            scene: optional("the scene", own.scene, horizon.num_steps * (shape.running_words + 2))?,
            episodes: exactly("sums of episodes", buffers.episodes, n * episode_words)?,
            sums: exactly("sums of observations", buffers.sums, n * sum_words)?,
            obs: exactly("observations", buffers.obs, n * shape.obs_words)?,
            final_obs: exactly("final observations", buffers.final_obs, shape.cuts * n * shape.obs_words)?,
            cut_at: exactly("steps that were cut short", buffers.cut_at, shape.cuts * n)?,
            policy,
            value,
            policy_row: shape.policy_row as u32,
            value_row: shape.value_row as u32,
            cuts: shape.cuts as u32,
            step: 0,
            cut: 0,
            num_envs: n as u32,
            num_steps: horizon.num_steps as u32,
            seed: horizon.seed.into(),
            gamma: horizon.gamma,
            decay: horizon.gamma * horizon.gae_lambda,
            unused: 0,
        };
        Ok(params)
    }
}

// ---- the update -----------------------------------------------------------------------------------------------------

#[repr(C)]
#[derive(Clone, Copy)]
struct LayersUpdateParams {
    update: UpdateParams,
    obs: u64,
    policy: u64,
    value: u64,
    policy_gradient: u64,
    value_gradient: u64,
    policy_row: u32,
    value_row: u32,
    rows: u32,
    unused: u32,
}

// SAFETY: a struct without padding whose size is a multiple of 8, five addresses and four numbers of 4 bytes.
unsafe impl Plain for LayersUpdateParams {}

/// What the products around an update's loss read and leave, for the longest minibatch of M samples.
#[derive(Debug, Clone, Copy)]
pub struct LayersUpdateBuffers<'a> {
    /// M.
    pub rows: usize,
    /// Words of an observation, and numbers in rows of policy outputs and of values.
    pub obs_words: usize,
    /// See `obs_words`.
    pub policy_row: usize,
    /// See `obs_words`.
    pub value_row: usize,
    /// Where the value lies among the policy's outputs; None where the critic is a network of its own.
    pub value_at: Option<usize>,
    /// Whether products read bf16.
    pub halves: bool,
    /// (M, words).
    pub obs: &'a Buffer<f32>,
    /// (M, policy row).
    pub policy: &'a Buffer<f32>,
    /// (M, value row); the same as `policy` where one network does both.
    pub value: &'a Buffer<f32>,
    /// The gradient of the policy outputs, as products read it.
    pub policy_gradient: &'a Buffer<f32>,
    /// The same of the critic's outputs; the same as `policy_gradient` where one network does both.
    pub value_gradient: &'a Buffer<f32>,
}

/// The kernels of `layers_update.cu`.
#[derive(Debug)]
pub struct LayersUpdate {
    gather: Function,
    loss: Function,
    phases: Phases,
}

impl LayersUpdate {
    /// From a module of `layers_update.cu` that was specialised for `shape`, in launches of `blocks` blocks.
    ///
    /// # Errors
    /// When the module lacks a kernel, or the device refuses that much shared memory.
    pub fn new(module: &Module, shape: UpdateShape, blocks: usize) -> Result<Self, CudaError> {
        Ok(Self {
            gather: Phases::function(module, &shape, "update_gather")?,
            loss: Phases::function(module, &shape, "update_loss")?,
            phases: Phases::new(module, shape, blocks)?,
        })
    }

    /// The phases around the gradient.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Runs an update: `forward` from `rows.obs` to the outputs, `backward` from their gradients to those of the parameters,
    /// once for each minibatch.
    ///
    /// # Errors
    /// When a buffer has another length, or a launch fails.
    pub fn launch<E: From<CudaError>>(
        &self,
        stream: &Stream,
        buffers: &UpdateBuffers<'_>,
        layers: &LayersUpdateBuffers<'_>,
        numbers: &UpdateNumbers,
        mut forward: impl FnMut() -> Result<(), E>,
        mut backward: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let update = self.phases.params(buffers, numbers)?;
        let params = layers.params(update, numbers)?;
        let grid = self.phases.grid();
        self.phases.launch(stream, &update, numbers, |update| {
            let params = LayersUpdateParams { update, ..params };
            // SAFETY: the struct is the kernel's; threads stay below M rows, whose lengths `params` has checked.
            unsafe { self.gather.launch(stream, grid, &params) }?;
            forward()?;
            // SAFETY: as above; blocks stay within their entries of sums and shares.
            unsafe { self.loss.launch(stream, grid, &params) }?;
            backward()
        })
    }
}

impl LayersUpdateBuffers<'_> {
    /// While the stream is being captured: lets the graph keep all of them.
    pub fn keep_in(&self, stream: &Stream) {
        for floats in [self.obs, self.policy, self.value, self.policy_gradient, self.value_gradient] {
            floats.keep_in(stream);
        }
    }

    fn params(&self, update: UpdateParams, numbers: &UpdateNumbers) -> Result<LayersUpdateParams, CudaError> {
        let longest = numbers.num_samples.div_ceil(numbers.num_minibatches);
        if self.rows != longest {
            return Err(CudaError::Length {
                what: "rows of a minibatch",
                given: self.rows,
                expected: longest,
            });
        }
        let words = |row: usize| if self.halves { self.rows * row / 2 } else { self.rows * row };
        let policy = exactly("policy outputs", self.policy, self.rows * self.policy_row)?;
        let policy_gradient =
            exactly("gradients of policy outputs", self.policy_gradient, words(self.policy_row))?;
        let (value, value_gradient) = match self.value_at {
            Some(at) => (policy + 4 * at as u64, policy_gradient),
            None => (
                exactly("values", self.value, self.rows * self.value_row)?,
                exactly("gradients of values", self.value_gradient, words(self.value_row))?,
            ),
        };
        Ok(LayersUpdateParams {
            update,
            obs: exactly("observations", self.obs, self.rows * self.obs_words)?,
            policy,
            value,
            policy_gradient,
            value_gradient,
            policy_row: self.policy_row as u32,
            value_row: self.value_row as u32,
            rows: self.rows as u32,
            unused: 0,
        })
    }
}
