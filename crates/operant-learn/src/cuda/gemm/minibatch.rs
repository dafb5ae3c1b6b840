//! Minibatches from a replay on the GEMM path: two critics learn the values of actions, and a policy learns to choose those of high value; or one
//! network learns the values of choices. Each minibatch is one graph of products and the kernels between them.

use std::ops::Range;

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Module, Program, Stream};

use super::layout::{Extent, GemmLayout, THREADS, blocks_of};
use super::math::GemmMath;
use super::products::{
    Backward, BackwardMemory, Forward, ForwardMemory, GemmMatrix, Gradients, Inputs, Recall, Weights,
};
use super::ring::{Ring, RingMemory, RingSizes};
use super::update::{GemmWeightParams, GemmWeightSizes, GemmWeights};
use crate::LearnError;
use crate::algorithms::{GpuLoss, Learns, Rules};
use crate::config::Config;
use crate::cpu::off_policy::learner::ActorCritic;
use crate::cpu::off_policy::replay::ReplayLayout;
use crate::cuda::common::env::KernelEnv;
use crate::cuda::common::horizon::norms_of;
use crate::cuda::common::local::Local;
use crate::cuda::common::memory::Allocator;
use crate::cuda::common::phases::{Adam, Progress, UpdateMemory, UpdateReport, UpdateSizes, with_shared};
use crate::cuda::common::structs::Seed;
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text, owned};
use crate::network::Network;

/// `minibatch.cu`: the kernels of a minibatch around its products, for the rules of an algorithm.
pub const MINIBATCH: KernelText =
    kernel_text!("gemm_minibatch", "gemm/minibatch.cu", [MinibatchParams, GemmWeightParams]);

/// Sums that a block of threads leaves: four of losses, and the squares of two gradients.
const PARTS: usize = 6;

/// `gemm/minibatch.cu` for an environment, a network and the algorithm of a run, if that has a replay.
pub fn gemm_minibatch_program(
    kernel_env: &KernelEnv,
    network: &Network,
    config: &Config,
    gemm_layout: &GemmLayout,
) -> Option<Program> {
    let rules = rules(config)?;
    let masked = kernel_env.masked;
    let loss = &config.algorithm.declaration().gpu;
    let mut defines = gemm_layout.common(network, config);
    let log_alpha = network.log_alpha.map(|at| ("LOG_ALPHA", format!("{at}u")));
    let own = [
        ("REPLAY_STRIDE", format!("{}u", ReplayLayout::new(&network.architecture, masked).stride)),
        ("PRIORITIES", u8::from(config.priority_exponent > 0.0).to_string()),
        ("CRITIC_ROW", format!("{}u", gemm_layout.critic_row())),
        ("NORM_OBS", u8::from(config.norm_obs).to_string()),
        ("TAKES_LEAST", of_critics(rules).is_some_and(|rules| rules.takes_least()).to_string()),
        ("TARGETS_WAIT", targets_wait(rules).to_string()),
        ("BLOCK_BYTES", format!("{}u", shared())),
    ];
    defines.extend(owned(own).chain(owned(log_alpha)).chain(loss.defines(config)));
    Some(ProgramText::of(kernel_env, KernelText { loss: loss.text, ..MINIBATCH }, defines))
}

/// Bytes of shared memory of a block.
fn shared() -> usize {
    8 * PARTS * THREADS / 32
}

/// The rules of a configuration's algorithm, if it has a replay.
fn rules(config: &Config) -> Option<Rules> {
    match config.algorithm.declaration().learns {
        Learns::Replay(rules) => Some(rules),
        Learns::Rollouts(_) => None,
    }
}

/// Those of a policy with critics of its actions.
fn of_critics(rules: Rules) -> Option<&'static dyn ActorCritic> {
    match rules {
        Rules::ActorCritic(rules) => Some(rules),
        Rules::ActionValues => None,
    }
}

/// Whether targets follow only after the minibatches that a policy learns from too.
fn targets_wait(rules: Rules) -> bool {
    of_critics(rules).is_some_and(|rules| rules.targets_wait_for_policy())
}

/// Rows of `outcomes`.
const OUTCOMES: usize = 6;

/// Levels of sums over priorities: level 0 are the numbers themselves, and each further one has the sums of 64 neighbours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SumSizes {
    /// Numbers of a level.
    counts: [u64; Self::MOST],
    /// The first of its sums.
    first: [u64; Self::MOST],
    levels: usize,
}

impl SumSizes {
    /// Maximum levels, enough for 2^36 numbers.
    const MOST: usize = 6;
    /// Numbers of a sum.
    const SPAN: u64 = 64;

    /// Over these numbers; the last level has at most 64. Without numbers it has none.
    fn of(numbers: usize) -> Self {
        let mut made = Self {
            counts: [numbers as u64, 0, 0, 0, 0, 0],
            levels: usize::from(numbers > 0),
            ..Self::default()
        };
        while made.levels > 0 && made.levels < Self::MOST && made.counts[made.levels - 1] > Self::SPAN {
            let below = made.levels - 1;
            made.counts[made.levels] = made.counts[below].div_ceil(Self::SPAN);
            made.first[made.levels] = if below == 0 { 0 } else { made.first[below] + made.counts[below] };
            made.levels += 1;
        }
        made
    }

    /// The row that is the first leaf of the host's tree of sums.
    fn first_leaf(&self) -> u64 {
        self.counts[0].max(1).next_power_of_two() - self.counts[0]
    }

    /// All sums; one where a single level needs none, so that there is a buffer.
    fn numbers(&self) -> usize {
        match self.levels {
            0 => 0,
            levels => self.counts[1..levels].iter().sum::<u64>().max(1) as usize,
        }
    }
}

/// Sizes of a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinibatchSizes {
    pub update: UpdateSizes,
    ring: RingSizes,
    weights: GemmWeightSizes,
    parameters: usize,
    /// M: rows of matrices, one for each sample; with memory those of all sequences, of which these are the samples.
    samples: usize,
    sequences: usize,
    /// Observations of a row: before the step and after it, or with memory one.
    turns: usize,
    /// Numbers of the states that sequences begin with, and rows that have a mark where an episode begins; 0 without memory.
    initial: usize,
    keep: usize,
    /// Words of rows of observations and of the critics' inputs as products read them; without critics the latter are 0.
    input_words: [usize; 2],
    /// Numbers of all rows of a critic's values, words of their gradient, and choices after the steps, where the network has them.
    values: usize,
    value_words: usize,
    choices: usize,
    /// Indices of all observations before the steps; 0 without embeddings.
    indices: usize,
    /// Numbers of the distributions that values are to have; 0 without distributions.
    distributions: usize,
    sums: SumSizes,
    /// Numbers in a row of policy outputs, and its words as products read them.
    row: usize,
    row_words: usize,
    products: usize,
    norms: usize,
    blocks: usize,
}

impl MinibatchSizes {
    /// The sizes of a configuration on a device with `multiprocessors` multiprocessors.
    pub fn new(
        (kernel_env, network, local): (&KernelEnv, &Network, &Local),
        gemm_layout: &GemmLayout,
        stride: usize,
        multiprocessors: usize,
    ) -> Self {
        let ([row, value_row], run) = (gemm_layout.output_rows(), &local.run);
        let (sequences, recalls) = (run.batch_size / run.sequence(), network.states > 0);
        let samples = sequences.saturating_mul(if recalls { run.sequence_rows() } else { 1 });
        let critics = usize::from(network.chains.len() > 1);
        let of_head = network.architecture.head.components();
        let words = |row: usize| gemm_layout.words(samples.saturating_mul(row));
        let blocks = blocks_of(multiprocessors, samples.max(network.len()));
        let ring = RingSizes::new(network, local, kernel_env.masked);
        let bins = network.architecture.bins.map_or(0, |bins| bins.count);
        Self {
            update: UpdateSizes::new(network, local, stride, blocks),
            blocks,
            ring,
            distributions: samples.saturating_mul(bins),
            sums: SumSizes::of(ring.priorities()),
            weights: GemmWeightSizes::new(network.len(), gemm_layout),
            parameters: network.len(),
            samples,
            sequences,
            turns: if recalls { 1 } else { 2 },
            initial: sequences.saturating_mul(network.states),
            keep: if recalls { samples } else { 0 },
            input_words: [words(gemm_layout.obs_row()), critics * words(gemm_layout.critic_row())],
            values: critics * samples.saturating_mul(value_row),
            value_words: critics * samples.saturating_mul(gemm_layout.words(value_row)),
            choices: (1 - critics) * samples.saturating_mul(of_head),
            indices: samples.saturating_mul(gemm_layout.indices),
            row,
            row_words: gemm_layout.words(row),
            products: gemm_layout.matrix_elements + gemm_layout.biases,
            norms: norms_of(network, &local.run),
        }
    }

    fn extent(&self) -> Extent {
        Extent { sequences: self.sequences, steps: self.samples / self.sequences }
    }
}

operant_cuda::params! {
    /// Parameters of a minibatch: threads stay below M samples and P parameters, blocks within their entries.
    pub struct MinibatchParams<'a>(of: MinibatchSizes) for [
        "minibatch_draw", "minibatch_gather", "minibatch_next", "minibatch_target", "minibatch_errors", "minibatch_actions", "minibatch_values",
        "minibatch_policy", "minibatch_sums", "minibatch_weights", "minibatch_renew", "minibatch_reduce", "minibatch_adam", "minibatch_follow", "minibatch_note", "minibatch_begin", "minibatch_end"
    ], blocks of.blocks, {
        ring: part [Ring, &of.ring],
        /// (features): shift and scale, if observations are normalised.
        scales: reads_any [f32 as float2; 2 * of.norms],
        weights: part [GemmWeights, &of.weights],
        target_weights: part [GemmWeights, &of.weights],
        /// (P).
        parameters: writes [f32; of.parameters],
        targets: writes [f32; of.parameters],
        exp_avg: writes [f32; of.parameters],
        exp_avg_sq: writes [f32; of.parameters],
        /// (P): the last gradient.
        gradient: writes [f32; of.parameters],
        /// (matrix elements + biases): gradients that products leave.
        products: reads [f32; of.products],
        /// (2, M): rows of the replay with the observations before the steps and after them; with memory, the latter are rows of matrices.
        rows: writes [u64; 2 * of.samples],
        /// (6, M): rewards, discounts, targets, log-probabilities of the policy's actions, sizes of errors, and what they weigh.
        outcomes: writes [f32; OUTCOMES * of.samples],
        /// (M, values): the distributions that values are to have, if they have any.
        distributions: writes_any [f32; of.distributions],
        /// With priorities, sums of neighbouring numbers, level by level.
        sums: writes_any [f64; of.sums.numbers()],
        /// (turns, M, row): observations before the steps and, without memory, after them.
        obs: writes [f32; of.turns * of.input_words[0]],
        /// (turns, M, indices): with embeddings, rows of tables.
        indices: writes_any [u32; of.turns * of.indices],
        /// (sequences, states): with memory, the state before their first row; (M): 0 where a row begins an episode.
        initial: writes_any [f32; of.initial],
        keep: writes_any [f32; of.keep],
        /// (2, M, row): the critics' inputs.
        inputs: writes_any [f32; 2 * of.input_words[1]],
        /// (M, policy row).
        policy: reads [f32; of.samples * of.row],
        /// (M, value row).
        first_values: reads_any [f32; of.values],
        second_values: reads_any [f32; of.values],
        /// (M, policy row).
        policy_gradient: writes [f32; of.samples * of.row_words],
        /// (M, value row).
        first_gradient: writes_any [f32; of.value_words],
        second_gradient: writes_any [f32; of.value_words],
        /// (M, row): the gradients of the critics' inputs.
        first_by_input: reads_any [f32; of.input_words[1]],
        second_by_input: reads_any [f32; of.input_words[1]],
        /// (M, components): of networks of action values, the choices after the steps.
        choices: writes_any [u32; of.choices],
        /// (blocks, sums).
        parts: writes [f64; PARTS * of.blocks],
        report: writes [UpdateReport; 1],
        progress: writes [Progress; 1],
        samples: value [u32],
        /// Samples that are drawn: M, or with memory sequences.
        sequences: value [u32],
        blocks: value [u32],
        /// Parameters that a launch reads: set for each.
        first: value [u32],
        end: value [u32],
        /// 0: of critics or values; 1: of the policy.
        pass: value [u32],
        /// 1: the policy is trained.
        trains_policy: value [u32],
        /// Minibatches for each that trains the policy.
        delay: value [u64],
        seed: value [Seed],
        n_step: value [u32],
        gamma: value [f32],
        tau: value [f32],
        clip_obs: value [f32],
        /// With priorities: the numbers of each level, the first of its sums, and how many levels there are.
        level_counts: value [[u64; SumSizes::MOST]],
        level_first: value [[u64; SumSizes::MOST]],
        /// The row that is the first leaf of the host's tree of sums.
        first_leaf: value [u64],
        levels: value [u32],
        /// The level that a launch makes.
        level: value [u32],
        /// The exponent of the weights at the start, at the end, and the updates over which it changes.
        beta: value [[f64; 3]],
        /// Settings of the algorithm, in its order.
        coefficients: value [[f32; GpuLoss::COEFFICIENTS]],
        adam: value [Adam],
    }
}

impl MinibatchParams<'_> {
    /// A copy for a launch over these parameters.
    fn at(self, range: Range<usize>, pass: u32) -> Self {
        Self { first: range.start as u32, end: range.end as u32, pass, ..self }
    }
}

/// Memory of minibatches.
#[derive(Debug)]
pub struct MinibatchMemory {
    pub weights: Weights,
    target_weights: Weights,
    /// (P).
    pub targets: Buffer<f32>,
    rows: Buffer<u64>,
    outcomes: Buffer<f32>,
    obs: Buffer<f32>,
    inputs: Option<Buffer<f32>>,
    indices: Option<Buffer<u32>>,
    /// With memory: the initial states of sequences, which rows begin episodes, and outputs of the target network.
    sequences: Option<[Buffer<f32>; 3]>,
    choices: Option<Buffer<u32>>,
    parts: Buffer<f64>,
    distributions: Option<Buffer<f32>>,
    sums: Option<Buffer<f64>>,
}

impl MinibatchMemory {
    /// The memory, and that of the two passes.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(
        allocator: &Allocator,
        gemm_layout: &GemmLayout,
        of: &MinibatchSizes,
    ) -> Result<(Self, ForwardMemory, BackwardMemory), CudaError> {
        let words = |count: usize| (count > 0).then(|| allocator.alloc(count)).transpose();
        let of_target = of.samples.saturating_mul(of.row);
        let sequences = || -> Result<_, CudaError> {
            Ok([allocator.alloc(of.initial)?, allocator.alloc(of.keep)?, allocator.alloc(of_target)?])
        };
        let own = Self {
            weights: Weights::new(allocator, gemm_layout)?,
            target_weights: Weights::new(allocator, gemm_layout)?,
            targets: allocator.alloc(of.parameters)?,
            rows: allocator.alloc(2 * of.samples)?,
            outcomes: allocator.alloc(OUTCOMES * of.samples)?,
            obs: allocator.alloc(of.turns * of.input_words[0])?,
            inputs: (of.input_words[1] > 0).then(|| allocator.alloc(2 * of.input_words[1])).transpose()?,
            indices: words(of.turns * of.indices)?,
            sequences: (of.keep > 0).then(sequences).transpose()?,
            choices: words(of.choices)?,
            parts: allocator.alloc(PARTS * of.blocks)?,
            distributions: (of.distributions > 0).then(|| allocator.alloc(of.distributions)).transpose()?,
            sums: (of.sums.numbers() > 0).then(|| allocator.alloc(of.sums.numbers())).transpose()?,
        };
        let forward = ForwardMemory::new(allocator, gemm_layout, of.extent())?;
        Ok((own, forward, BackwardMemory::new(allocator, gemm_layout, of.extent())?))
    }
}

/// What a minibatch does besides the critics' step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub trains_policy: bool,
    /// Whether targets follow.
    pub moves_targets: bool,
}

/// What a minibatch is drawn from: the replay, and the scales of normalised observations.
#[derive(Debug, Clone, Copy)]
pub struct Sampled<'a> {
    pub ring: &'a RingMemory,
    pub scales: Option<&'a Buffer<f32>>,
}

/// The kernels of `minibatch.cu`.
#[derive(Debug)]
struct Kernels {
    draw: Function,
    gather: Function,
    next: Function,
    target: Function,
    errors: Function,
    /// Of a policy: its actions, their values, and its gradient.
    of_policy: Option<[Function; 3]>,
    /// With priorities: sums of a level, weights of samples, and their new priorities.
    of_priorities: Option<[Function; 3]>,
    reduce: Function,
    adam: Function,
    follow: Function,
    note: Function,
    begin: Function,
    end: Function,
    pack: Function,
}

impl Kernels {
    fn new(
        module: &Module,
        grid: LaunchConfig,
        rules: Rules,
        has_priorities: bool,
    ) -> Result<Self, CudaError> {
        let of = |name: &str| with_shared(module, &format!("minibatch_{name}"), grid);
        Ok(Self {
            draw: of("draw")?,
            gather: of("gather")?,
            next: of("next")?,
            target: of("target")?,
            errors: of("errors")?,
            of_policy: match rules {
                Rules::ActorCritic(_) => Some([of("actions")?, of("values")?, of("policy")?]),
                Rules::ActionValues => None,
            },
            of_priorities: match has_priorities {
                true => Some([of("sums")?, of("weights")?, of("renew")?]),
                false => None,
            },
            reduce: of("reduce")?,
            adam: of("adam")?,
            follow: of("follow")?,
            note: of("note")?,
            begin: of("begin")?,
            end: of("end")?,
            pack: module.function("gemm_pack")?,
        })
    }
}

/// The products and kernels of a minibatch.
pub struct GemmMinibatch {
    config: Config,
    rules: Rules,
    network: Network,
    pub sizes: MinibatchSizes,
    math: GemmMath,
    kernels: Kernels,
    grid: LaunchConfig,
    forward: Forward,
    backward: Backward,
    pub memory: MinibatchMemory,
    /// Before the steps and after them: what the policy reads, or the network of values, and what critics read.
    obs: [GemmMatrix; 2],
    indices: Option<[Buffer<u32>; 2]>,
    inputs: Option<[GemmMatrix; 2]>,
}

/// The chain of the policy, or of the values of choices, and those of the critics.
const ACTOR: Range<usize> = 0..1;
const CRITICS: Range<usize> = 1..3;

impl GemmMinibatch {
    /// Plans the products, if the algorithm has a replay.
    ///
    /// # Errors
    /// When cuBLASLt is missing, or the device has no room or fails.
    pub fn new(
        allocator: &Allocator,
        (device, stream): (&Device, &Stream),
        kernel_env: &KernelEnv,
        (network, local, gemm_layout): (&Network, &Local, &GemmLayout),
        stride: usize,
    ) -> Result<Option<Self>, LearnError> {
        let program = gemm_minibatch_program(kernel_env, network, &local.run, gemm_layout);
        let Some((rules, program)) = rules(&local.run).zip(program) else { return Ok(None) };
        let multiprocessors = device.properties().multiprocessors as usize;
        let of = (kernel_env, network, local);
        let sizes = MinibatchSizes::new(of, gemm_layout, stride, multiprocessors);
        let (extent, blas, module) = (sizes.extent(), device.blas()?, device.load(&program)?);
        let grid =
            LaunchConfig { blocks: sizes.blocks as u32, threads: THREADS as u32, shared: shared() as u32 };
        let (memory, forward, backward) = MinibatchMemory::new(allocator, gemm_layout, &sizes)?;
        let turns = |all: &Buffer<f32>, words: usize| -> Result<_, CudaError> {
            let turn = |k: usize| GemmMatrix::of(all.part(k * words..(k + 1) * words)?, gemm_layout);
            Ok([turn(0)?, turn(sizes.turns - 1)?])
        };
        let halves = |all: &Buffer<u32>| -> Result<_, CudaError> {
            // Forward passes before the first minibatch read them too.
            all.fill(stream, 0)?;
            let last = (sizes.turns - 1) * sizes.indices;
            Ok([all.part(0..sizes.indices)?, all.part(last..last + sizes.indices)?])
        };
        memory.parts.fill(stream, 0)?;
        Ok(Some(Self {
            obs: turns(&memory.obs, sizes.input_words[0])?,
            indices: memory.indices.as_ref().map(halves).transpose()?,
            inputs: memory.inputs.as_ref().map(|all| turns(all, sizes.input_words[1])).transpose()?,
            config: local.run.clone(),
            rules,
            math: GemmMath::new(device, gemm_layout)?,
            kernels: Kernels::new(&module, grid, rules, sizes.ring.has_priorities)?,
            grid,
            forward: Forward::new((&blas, stream), gemm_layout, extent, forward)?,
            backward: Backward::new((&blas, stream), gemm_layout, extent, backward)?,
            network: network.clone(),
            sizes,
            memory,
        }))
    }

    /// Packs parameters and targets that were set from outside; fails unless there are P of each.
    pub fn pack(&self, stream: &Stream, parameters: &Buffer<f32>) -> Result<(), CudaError> {
        let MinibatchMemory { weights, target_weights, targets, .. } = &self.memory;
        for (parameters, weights) in [(parameters, weights), (targets, target_weights)] {
            // Padding is zero.
            weights.clear(stream)?;
            let grid = LaunchConfig::covering(parameters.len(), THREADS as u32);
            let params = GemmWeightParams::new(parameters, weights);
            self.kernels.pack.run(stream, grid, &params, &self.sizes.weights)?;
        }
        Ok(())
    }

    /// Makes the library load its kernels before the capture; the results are not used.
    pub fn warm(&self, stream: &Stream) -> Result<(), LearnError> {
        self.act(stream, &self.memory.weights, 0)?;
        if of_critics(self.rules).is_some() {
            self.values(stream, &self.memory.weights, 0, CRITICS)?;
            self.back(stream, CRITICS, Gradients::OfWeights)?;
            self.back(stream, CRITICS, Gradients::OfInputs)?;
        }
        self.back(stream, ACTOR, Gradients::OfWeights)
    }

    /// What minibatch `number` does.
    pub fn turn(&self, number: u64) -> Turn {
        let Config { policy_frequency, target_network_frequency, .. } = self.config;
        let is_turn = number.is_multiple_of(policy_frequency as u64);
        let trains_policy = is_turn && of_critics(self.rules).is_some();
        let waits = targets_wait(self.rules);
        let done = if waits { number / policy_frequency as u64 } else { number } + 1;
        let is_due = done.is_multiple_of(target_network_frequency as u64);
        Turn { trains_policy, moves_targets: is_due && (trains_policy || !waits) }
    }

    /// Every kind of turn.
    pub fn turns(&self) -> impl Iterator<Item = Turn> {
        let Config { policy_frequency, target_network_frequency, .. } = self.config;
        let (waits, has_policy) = (targets_wait(self.rules), of_critics(self.rules).is_some());
        [(true, true), (true, false), (false, true), (false, false)]
            .map(|(trains_policy, moves_targets)| Turn { trains_policy, moves_targets })
            .into_iter()
            .filter(move |Turn { trains_policy, moves_targets }| {
                let may_move = *trains_policy || !waits;
                (if *trains_policy { has_policy } else { !has_policy || policy_frequency > 1 })
                    && if *moves_targets { may_move } else { !may_move || target_network_frequency > 1 }
            })
    }

    /// The kernels' parameters.
    fn params<'a>(&'a self, learner: &'a UpdateMemory, from: Sampled<'a>, adam: Adam) -> MinibatchParams<'a> {
        let Self { config, memory, sizes, forward, backward, .. } = self;
        let has_critics = of_critics(self.rules).is_some();
        let beta = config.beta();
        let value = |chain: usize| has_critics.then(|| forward.output(chain));
        let gradient = |chain: usize| has_critics.then(|| &backward.memory.outputs[chain].words);
        let by_input = |chain: usize| has_critics.then(|| &backward.memory.inputs[chain].words);
        MinibatchParams {
            ring: RingMemory::params(Some(from.ring)),
            scales: from.scales,
            weights: GemmWeights::of(&memory.weights),
            target_weights: GemmWeights::of(&memory.target_weights),
            parameters: &learner.parameters,
            targets: &memory.targets,
            exp_avg: &learner.exp_avg,
            exp_avg_sq: &learner.exp_avg_sq,
            gradient: &learner.gradient,
            products: &backward.memory.gradient,
            rows: &memory.rows,
            outcomes: &memory.outcomes,
            obs: &memory.obs,
            indices: memory.indices.as_ref(),
            initial: memory.sequences.as_ref().map(|[initial, ..]| initial),
            keep: memory.sequences.as_ref().map(|[_, keep, _]| keep),
            inputs: memory.inputs.as_ref(),
            policy: forward.output(0),
            first_values: value(1),
            second_values: value(2),
            policy_gradient: &backward.memory.outputs[0].words,
            first_gradient: gradient(1),
            second_gradient: gradient(2),
            first_by_input: by_input(1),
            second_by_input: by_input(2),
            choices: memory.choices.as_ref(),
            parts: &memory.parts,
            distributions: memory.distributions.as_ref(),
            sums: memory.sums.as_ref(),
            level_counts: sizes.sums.counts,
            level_first: sizes.sums.first,
            first_leaf: sizes.sums.first_leaf(),
            levels: sizes.sums.levels as u32,
            level: 0,
            beta: [beta.start, beta.end, beta.updates],
            report: &learner.report,
            progress: &learner.progress,
            samples: sizes.samples as u32,
            sequences: sizes.sequences as u32,
            blocks: sizes.blocks as u32,
            first: 0,
            end: 0,
            pass: 0,
            trains_policy: 0,
            delay: config.policy_frequency as u64,
            seed: config.seed.into(),
            n_step: config.n_step as u32,
            gamma: config.gamma as f32,
            tau: config.tau as f32,
            clip_obs: config.clip_obs as f32,
            coefficients: config.algorithm.declaration().gpu.numbers(config),
            adam,
        }
    }

    /// What the policy reads in a turn, or the network of values.
    fn observed(&self, turn: usize) -> Inputs<'_> {
        let indices = self.indices.as_ref().map(|turns| &turns[turn]);
        let sequences = self.memory.sequences.as_ref();
        let recall = sequences.map(|[initial, keep, _]| Recall { initial, keep: Some(keep) });
        Inputs { obs: &self.obs[turn], indices, recall }
    }

    /// What critics read in a turn.
    fn judged(&self, turn: usize) -> Inputs<'_> {
        Inputs::of(&self.inputs.as_ref().expect("critics")[turn])
    }

    /// The outputs of the policy for the observations of a turn, or the values of choices.
    fn act(&self, stream: &Stream, weights: &Weights, turn: usize) -> Result<(), LearnError> {
        self.forward.run(stream, &self.math, weights, self.observed(turn), ACTOR)
    }

    /// The values of these critics for the observations and actions of a turn.
    fn values(
        &self,
        stream: &Stream,
        weights: &Weights,
        turn: usize,
        critics: Range<usize>,
    ) -> Result<(), LearnError> {
        self.forward.run(stream, &self.math, weights, self.judged(turn), critics)
    }

    fn back(&self, stream: &Stream, chains: Range<usize>, gradients: Gradients) -> Result<(), LearnError> {
        let inputs = if chains == ACTOR { self.observed(0) } else { self.judged(0) };
        let of = (&self.forward, inputs);
        self.backward.run(stream, &self.math, &self.memory.weights, of, (chains, gradients))
    }

    /// Begins the report of an update, or ends it.
    pub fn report(
        &self,
        stream: &Stream,
        (learner, from, adam): (&UpdateMemory, Sampled<'_>, Adam),
        begins: bool,
    ) -> Result<(), LearnError> {
        let function = if begins { &self.kernels.begin } else { &self.kernels.end };
        let grid = LaunchConfig { blocks: 1, ..self.grid };
        Ok(function.run(stream, grid, &self.params(learner, from, adam), &self.sizes)?)
    }

    /// Enqueues a minibatch in a stream that is being captured.
    pub fn run(
        &self,
        stream: &Stream,
        (learner, from, adam): (&UpdateMemory, Sampled<'_>, Adam),
        Turn { trains_policy, moves_targets }: Turn,
    ) -> Result<(), LearnError> {
        let Self { kernels, rules, .. } = self;
        let all = self.params(learner, from, adam);
        let run = |function: &Function| function.run(stream, self.grid, &all, &self.sizes);
        let of = |function: &Function, range: Range<usize>, pass| {
            function.run(stream, self.grid, &all.at(range, pass), &self.sizes)
        };
        let step = |chains: Range<usize>, pass| {
            let range = self.network.params_of(chains);
            of(&kernels.reduce, range.clone(), pass)?;
            of(&kernels.adam, range, pass)
        };
        if let Some([sums, ..]) = &kernels.of_priorities {
            for level in 1..self.sizes.sums.levels {
                let params = MinibatchParams { level: level as u32, ..all };
                sums.run(stream, self.grid, &params, &self.sizes)?;
            }
        }
        run(&kernels.draw)?;
        if let Some([_, weights, _]) = &kernels.of_priorities {
            run(weights)?;
        }
        run(&kernels.gather)?;
        match rules {
            Rules::ActionValues => match &self.memory.sequences {
                Some([.., of_target]) => self.learn_sequences(stream, &all, of_target)?,
                None => self.learn_values(stream, run)?,
            },
            Rules::ActorCritic(rules) => self.learn_critics(stream, *rules, run)?,
        }
        let learned = of_critics(*rules).map_or(ACTOR, |_| CRITICS);
        step(learned, 0)?;
        if let (true, Some(rules), Some(kernels)) = (trains_policy, of_critics(*rules), &kernels.of_policy) {
            self.learn_policy(stream, rules, kernels, run)?;
            step(ACTOR, 1)?;
        }
        if moves_targets {
            let has_target = |rules: &dyn ActorCritic| rules.has_target_policy();
            let targets = of_critics(*rules).map_or(ACTOR, |rules| usize::from(!has_target(rules))..3);
            of(&kernels.follow, self.network.params_of(targets), 0)?;
        }
        let params = MinibatchParams { trains_policy: u32::from(trains_policy), ..all };
        if let Some([_, _, renew]) = &kernels.of_priorities {
            renew.run(stream, self.grid, &params, &self.sizes)?;
        }
        Ok(kernels.note.run(stream, LaunchConfig { blocks: 1, ..self.grid }, &params, &self.sizes)?)
    }

    /// The gradient of the values of choices: those after the steps are the network's or its target's, and the target evaluates them.
    fn learn_values(
        &self,
        stream: &Stream,
        run: impl Fn(&Function) -> Result<(), CudaError>,
    ) -> Result<(), LearnError> {
        let MinibatchMemory { weights, target_weights, .. } = &self.memory;
        let double = self.config.algorithms.dqn.double_q;
        self.act(stream, if double { weights } else { target_weights }, 1)?;
        run(&self.kernels.next)?;
        if double {
            self.act(stream, target_weights, 1)?;
        }
        run(&self.kernels.target)?;
        self.act(stream, weights, 0)?;
        run(&self.kernels.errors)?;
        self.back(stream, ACTOR, Gradients::OfWeights)
    }

    /// The same with memory: both networks go over all rows once.
    fn learn_sequences(
        &self,
        stream: &Stream,
        all: &MinibatchParams<'_>,
        of_target: &Buffer<f32>,
    ) -> Result<(), LearnError> {
        let (kernels, double) = (&self.kernels, self.config.algorithms.dqn.double_q);
        let run = |function: &Function, params| function.run(stream, self.grid, params, &self.sizes);
        let by_target = MinibatchParams { policy: of_target, ..*all };
        self.act(stream, &self.memory.target_weights, 0)?;
        of_target.copy_from(stream, self.forward.output(0))?;
        self.act(stream, &self.memory.weights, 0)?;
        run(&kernels.next, if double { all } else { &by_target })?;
        run(&kernels.target, &by_target)?;
        run(&kernels.errors, all)?;
        self.back(stream, ACTOR, Gradients::OfWeights)
    }

    /// The gradient of the critics.
    fn learn_critics(
        &self,
        stream: &Stream,
        rules: &dyn ActorCritic,
        run: impl Fn(&Function) -> Result<(), CudaError>,
    ) -> Result<(), LearnError> {
        let MinibatchMemory { weights, target_weights, .. } = &self.memory;
        self.act(stream, if rules.has_target_policy() { target_weights } else { weights }, 1)?;
        run(&self.kernels.next)?;
        self.values(stream, target_weights, 1, CRITICS)?;
        run(&self.kernels.target)?;
        self.values(stream, weights, 0, CRITICS)?;
        run(&self.kernels.errors)?;
        self.back(stream, CRITICS, Gradients::OfWeights)
    }

    /// The gradient of the policy, through the critics.
    fn learn_policy(
        &self,
        stream: &Stream,
        rules: &dyn ActorCritic,
        [actions, values, policy]: &[Function; 3],
        run: impl Fn(&Function) -> Result<(), CudaError>,
    ) -> Result<(), LearnError> {
        let weights = &self.memory.weights;
        let critics = if rules.takes_least() { CRITICS } else { 1..2 };
        self.act(stream, weights, 0)?;
        run(actions)?;
        self.values(stream, weights, 0, critics.clone())?;
        run(values)?;
        self.back(stream, critics, Gradients::OfInputs)?;
        run(policy)?;
        self.back(stream, ACTOR, Gradients::OfWeights)
    }
}
