//! `ppo_update.cu`: all epochs and minibatches of an update, in one cooperative launch or phase by phase.

use super::{Seed, blocks, exactly};
use crate::{Buffer, CudaError, Function, Grid, Module, Plain, Stream};

/// What an update reports: sums over the last epoch's minibatches of their means, skipped ones left out.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateReport {
    /// Clipped policy objective.
    pub policy: f64,
    /// Value loss.
    pub value: f64,
    /// Entropy.
    pub entropy: f64,
    /// (ratio - 1) - ln ratio.
    pub kl: f64,
    /// Share of clipped ratios.
    pub clipped: f64,
    /// Gradient norm before clipping.
    pub norms: f64,
    /// Minibatches that the sums are over.
    pub minibatches: f64,
    /// Sum of the advantages, about the first, and of their squares.
    pub errors: [f64; 2],
    /// The same for returns.
    pub returns: [f64; 2],
    /// Adam's step size.
    pub learning_rate: f64,
    /// Minibatches skipped, over all epochs.
    pub nonfinite: u64,
    /// Epochs done.
    pub epochs: u64,
}

// SAFETY: numbers of 8 bytes, without padding.
unsafe impl Plain for UpdateReport {}

/// Where learning stands.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Updates done.
    pub update: u64,
    /// Steps of Adam.
    pub adam_steps: u64,
    /// Updates with a skipped minibatch, one after another up to the last.
    pub nonfinite_in_a_row: u64,
    /// 1 once `target_kl` has ended this update's epochs.
    pub stopped: u32,
    /// Whether the last minibatch's loss was finite.
    pub finite: u32,
    /// Its KL divergence.
    pub last_kl: f64,
}

// SAFETY: numbers; the two of 4 bytes lie side by side, so there is no padding.
unsafe impl Plain for Progress {}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UpdateParams {
    samples: u64,
    parameters: u64,
    exp_avg: u64,
    exp_avg_sq: u64,
    packed: u64,
    transposed: u64,
    gradient: u64,
    partials: u64,
    losses: u64,
    norms: u64,
    moments: u64,
    spreads: u64,
    report: u64,
    progress: u64,
    barrier: u64,
    num_samples: u32,
    num_minibatches: u32,
    num_epochs: u32,
    segments: u32,
    blocks: u32,
    epoch: u32,
    minibatch: u32,
    norm_adv: u32,
    seed: Seed,
    clip_coef: f32,
    ent_coef: f32,
    vf_coef: f32,
    clip_vloss: u32,
    target_kl: f64,
    max_grad_norm: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    learning_rate: f64,
    updates: u64,
}

// SAFETY: 15 addresses, 14 numbers of 4 bytes and 7 of 8, without padding.
unsafe impl Plain for UpdateParams {}

impl UpdateParams {
    /// The same of one minibatch.
    pub(super) fn at(self, epoch: usize, minibatch: usize) -> Self {
        Self { epoch: epoch as u32, minibatch: minibatch as u32, ..self }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct UpdatePackParams {
    parameters: u64,
    packed: u64,
    transposed: u64,
}

// SAFETY: three addresses, without padding.
unsafe impl Plain for UpdatePackParams {}

/// Sizes that the program was specialised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateShape {
    /// P.
    pub parameters: usize,
    /// Words of the packed weights, and of their transposes.
    pub packed_words: usize,
    /// See `packed_words`.
    pub transposed_words: usize,
    /// Words that each block leaves of its share of a gradient, and words that all of them have together.
    pub partial_words: [usize; 2],
    /// Words of a sample.
    pub sample_stride: usize,
    /// Threads a block.
    pub threads: u32,
    /// Bytes of shared memory a block.
    pub shared: u32,
}

/// Numbers of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateNumbers {
    /// B.
    pub num_samples: usize,
    /// Minibatches an epoch, at most B.
    pub num_minibatches: usize,
    /// Epochs.
    pub num_epochs: usize,
    /// Seed of the shuffles.
    pub seed: u64,
    /// Normalise advantages per minibatch.
    pub norm_adv: bool,
    /// Clipping range.
    pub clip_coef: f32,
    /// Clip the value loss, too.
    pub clip_vloss: bool,
    /// Weight of the entropy.
    pub ent_coef: f32,
    /// Weight of the value loss.
    pub vf_coef: f32,
    /// KL divergence that ends the epochs; 0 never does.
    pub target_kl: f64,
    /// Norm above which a gradient is scaled down.
    pub max_grad_norm: f64,
    /// Adam's decays.
    pub betas: [f64; 2],
    /// Adam's epsilon.
    pub eps: f64,
    /// Adam's step size at the start of training.
    pub learning_rate: f64,
    /// Updates over which it falls to zero; 0 keeps it.
    pub anneal_updates: u64,
}

/// What an update reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct UpdateBuffers<'a> {
    /// (B, stride).
    pub samples: &'a Buffer<u32>,
    /// (P).
    pub parameters: &'a Buffer<f32>,
    /// (P).
    pub exp_avg: &'a Buffer<f32>,
    /// (P).
    pub exp_avg_sq: &'a Buffer<f32>,
    /// (packed words).
    pub packed: &'a Buffer<f32>,
    /// (transposed words, at least 1).
    pub transposed: &'a Buffer<f32>,
    /// (P): the last minibatch's gradient.
    pub gradient: &'a Buffer<f32>,
    /// (partial words): the blocks' shares of the gradient.
    pub partials: &'a Buffer<f32>,
    /// (blocks, 10): losses, norms and spreads of the blocks.
    pub sums: &'a Buffer<f64>,
    /// (minibatches, segments, 2).
    pub moments: &'a Buffer<f64>,
    /// (1).
    pub report: &'a Buffer<UpdateReport>,
    /// (1).
    pub progress: &'a Buffer<Progress>,
    /// (1): zero before each launch.
    pub barrier: &'a Buffer<u32>,
}

impl UpdateBuffers<'_> {
    /// While the stream is being captured: lets the graph keep all of them, so that it may outlive everything else.
    pub fn keep_in(&self, stream: &Stream) {
        self.samples.keep_in(stream);
        self.barrier.keep_in(stream);
        let learned = [self.parameters, self.exp_avg, self.exp_avg_sq];
        let scratch = [self.packed, self.transposed, self.gradient, self.partials];
        learned.into_iter().chain(scratch).for_each(|buffer| buffer.keep_in(stream));
        self.sums.keep_in(stream);
        self.moments.keep_in(stream);
        self.report.keep_in(stream);
        self.progress.keep_in(stream);
    }
}

/// Doubles of each block in [`UpdateBuffers::sums`].
pub const SUMS: usize = 10;

/// How an update is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateLaunch {
    /// One launch whose blocks meet between phases.
    Cooperative,
    /// A launch a phase.
    Phases,
}

/// The phases that every update has, whatever forms its gradients.
#[derive(Debug)]
pub struct Phases {
    spread: Function,
    begin: Function,
    advantages: Function,
    reduce: Function,
    adam: Function,
    note: Function,
    end: Function,
    pack: Function,
    shape: UpdateShape,
    blocks: usize,
}

impl Phases {
    pub(super) fn new(module: &Module, shape: UpdateShape, blocks: usize) -> Result<Self, CudaError> {
        let function = |name: &str| Self::function(module, &shape, name);
        Ok(Self {
            spread: function("update_spread")?,
            begin: function("update_begin")?,
            advantages: function("update_advantages")?,
            reduce: function("update_reduce")?,
            adam: function("update_adam")?,
            note: function("update_note")?,
            end: function("update_end")?,
            pack: function("update_pack")?,
            shape,
            blocks,
        })
    }

    pub(super) fn function(module: &Module, shape: &UpdateShape, name: &str) -> Result<Function, CudaError> {
        let mut function = module.function(name)?;
        function.shared(shape.shared as usize)?;
        Ok(function)
    }

    pub(super) fn grid(&self) -> Grid {
        Grid { blocks: self.blocks as u32, threads: self.shape.threads, shared: self.shape.shared }
    }

    /// Runs an update; `gradient` forms the gradient of a minibatch of an epoch.
    pub(super) fn launch<E: From<CudaError>>(
        &self,
        stream: &Stream,
        params: &UpdateParams,
        numbers: &UpdateNumbers,
        mut gradient: impl FnMut(UpdateParams) -> Result<(), E>,
    ) -> Result<(), E> {
        let grid = self.grid();
        let phase = |function: &Function, grid: Grid, epoch: usize, minibatch: usize| {
            // SAFETY: the struct is the kernel's; blocks stay within their entries and threads within the parameters and
            // samples, whose lengths `params` has checked.
            unsafe { function.launch(stream, grid, &params.at(epoch, minibatch)) }
        };
        let one = Grid { blocks: 1, ..grid };
        phase(&self.spread, grid, 0, 0)?;
        phase(&self.begin, one, 0, 0)?;
        for epoch in 0..numbers.num_epochs {
            if numbers.norm_adv {
                phase(&self.advantages, grid, epoch, 0)?;
            }
            for minibatch in 0..numbers.num_minibatches {
                gradient(params.at(epoch, minibatch))?;
                phase(&self.reduce, grid, epoch, minibatch)?;
                phase(&self.adam, grid, epoch, minibatch)?;
                phase(&self.note, one, epoch, minibatch)?;
            }
        }
        Ok(phase(&self.end, one, 0, 0)?)
    }

    /// The sizes it was made for.
    pub fn shape(&self) -> &UpdateShape {
        &self.shape
    }

    /// Blocks of every launch.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Parts of a minibatch whose advantages are summed apart, so that all blocks have work.
    pub fn segments(&self, num_minibatches: usize) -> usize {
        (self.blocks / num_minibatches.max(1)).max(1)
    }

    /// Words of [`UpdateBuffers::partials`].
    pub fn partials(&self) -> usize {
        let [each, all] = self.shape.partial_words;
        each * self.blocks + all
    }

    /// Packs parameters that came from elsewhere; both packed buffers must be zero.
    ///
    /// # Errors
    /// When a buffer has another length, or the launch fails.
    pub fn pack(
        &self,
        stream: &Stream,
        parameters: &Buffer<f32>,
        packed: &Buffer<f32>,
        transposed: &Buffer<f32>,
    ) -> Result<(), CudaError> {
        let shape = &self.shape;
        let params = UpdatePackParams {
            parameters: exactly("parameters", parameters, shape.parameters)?,
            packed: exactly("packed weights", packed, shape.packed_words)?,
            transposed: exactly("transposed weights", transposed, shape.transposed_words.max(1))?,
        };
        let grid =
            Grid { blocks: blocks(shape.parameters, shape.threads), threads: shape.threads, shared: 0 };
        // SAFETY: the struct is the kernel's; a thread below P writes the places of its own parameter, which lie within the
        // packed words that both sides count alike.
        unsafe { self.pack.launch(stream, grid, &params) }
    }

    pub(super) fn params(
        &self,
        buffers: &UpdateBuffers<'_>,
        numbers: &UpdateNumbers,
    ) -> Result<UpdateParams, CudaError> {
        let (shape, blocks) = (&self.shape, self.blocks);
        let (samples, minibatches) = (numbers.num_samples, numbers.num_minibatches);
        if minibatches == 0 || minibatches > samples {
            return Err(CudaError::Length { what: "minibatches", given: minibatches, expected: samples });
        }
        let segments = self.segments(minibatches);
        let sums = exactly("the blocks' sums", buffers.sums, SUMS * blocks)?;
        let double = |place: usize| sums + (place * blocks * size_of::<f64>()) as u64;
        Ok(UpdateParams {
            samples: exactly("samples", buffers.samples, samples * shape.sample_stride)?,
            parameters: exactly("parameters", buffers.parameters, shape.parameters)?,
            exp_avg: exactly("first moments", buffers.exp_avg, shape.parameters)?,
            exp_avg_sq: exactly("second moments", buffers.exp_avg_sq, shape.parameters)?,
            packed: exactly("packed weights", buffers.packed, shape.packed_words)?,
            transposed: exactly("transposed weights", buffers.transposed, shape.transposed_words.max(1))?,
            gradient: exactly("the gradient", buffers.gradient, shape.parameters)?,
            partials: exactly("partial gradients", buffers.partials, self.partials())?,
            losses: sums,
            norms: double(5),
            spreads: double(6),
            moments: exactly("moments of advantages", buffers.moments, 2 * minibatches * segments)?,
            report: exactly("the report", buffers.report, 1)?,
            progress: exactly("the progress", buffers.progress, 1)?,
            barrier: exactly("the barrier", buffers.barrier, 1)?,
            num_samples: samples as u32,
            num_minibatches: minibatches as u32,
            num_epochs: numbers.num_epochs as u32,
            segments: segments as u32,
            blocks: blocks as u32,
            epoch: 0,
            minibatch: 0,
            norm_adv: u32::from(numbers.norm_adv),
            seed: numbers.seed.into(),
            clip_coef: numbers.clip_coef,
            ent_coef: numbers.ent_coef,
            vf_coef: numbers.vf_coef,
            clip_vloss: u32::from(numbers.clip_vloss),
            target_kl: numbers.target_kl,
            max_grad_norm: numbers.max_grad_norm,
            beta1: numbers.betas[0],
            beta2: numbers.betas[1],
            eps: numbers.eps,
            learning_rate: numbers.learning_rate,
            updates: numbers.anneal_updates,
        })
    }
}

/// The kernels of `ppo_update.cu`.
#[derive(Debug)]
pub struct Update {
    whole: Function,
    gradient: Function,
    phases: Phases,
}

impl Update {
    /// From a module of `ppo_update.cu` that was specialised for `shape`, in launches of at most `blocks` blocks, which must
    /// all fit on the device at once for the cooperative launch.
    ///
    /// # Errors
    /// When the module lacks a kernel, or the device refuses that much shared memory.
    pub fn new(module: &Module, shape: UpdateShape, blocks: usize) -> Result<Self, CudaError> {
        Ok(Self {
            whole: Phases::function(module, &shape, "ppo_update")?,
            gradient: Phases::function(module, &shape, "update_gradient")?,
            phases: Phases::new(module, shape, blocks)?,
        })
    }

    /// The cooperative kernel, for its registers and occupancy.
    pub fn function(&self) -> &Function {
        &self.whole
    }

    /// Its phases.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Runs an update.
    ///
    /// # Errors
    /// When a buffer has another length, or a launch fails.
    pub fn launch(
        &self,
        stream: &Stream,
        buffers: &UpdateBuffers<'_>,
        numbers: &UpdateNumbers,
        how: UpdateLaunch,
    ) -> Result<(), CudaError> {
        let (params, grid) = (self.phases.params(buffers, numbers)?, self.phases.grid());
        match how {
            // SAFETY: the struct is the kernel's; blocks stay within their entries and threads within the parameters and
            // samples, whose lengths `params` has checked.
            UpdateLaunch::Cooperative => unsafe { self.whole.launch_cooperative(stream, grid, &params) },
            UpdateLaunch::Phases => self.phases.launch(stream, &params, numbers, |params| {
                // SAFETY: as above; the phases are the same functions.
                unsafe { self.gradient.launch(stream, grid, &params) }
            }),
        }
    }
}
