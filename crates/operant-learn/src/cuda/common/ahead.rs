//! First states of the next episodes, made ahead of time for environments whose reset takes as long as many steps ([`operant_env::Env::AHEAD`]).

use operant_cuda::{Buffer, CudaError, Device, DeviceProperties, Function, LaunchConfig, Program, Stream};

use super::env::{KernelEnv, words_of};
use super::memory::Allocator;
use super::structs::Seed;
use super::text::{KernelText, ProgramText, kernel_text};

/// `ahead.cu`: makes the states that are missing.
pub const AHEAD: KernelText = kernel_text!("ahead", "play/ahead.cu", [AheadParams]);

/// Missing states are made before every 16th step. A state takes a thread milliseconds, whether one thread of the GPU makes some or thousands do.
const EVERY: u64 = 16;

/// A warp, so that few missing states are spread over all multiprocessors.
const THREADS: u32 = 32;

/// `ahead.cu` for an environment.
pub fn ahead_program(kernel_env: &KernelEnv) -> Program {
    let defines = [("THREADS", u64::from(THREADS)), ("EVERY", EVERY)];
    let defines = defines.map(|(name, value)| (name.to_owned(), value.to_string()));
    ProgramText::of(kernel_env, AHEAD, defines.to_vec())
}

/// Bytes that the driver keeps as local memory, for as many threads as are resident at once; 0 where no state is made ahead of time.
///
/// # Errors
/// When the kernel does not compile, or the device fails.
pub fn local_memory(device: &Device, kernel_env: &KernelEnv) -> Result<usize, CudaError> {
    if !kernel_env.ahead {
        return Ok(0);
    }
    let reset = device.load(&ahead_program(kernel_env))?.function("make_ahead")?.local_bytes()?;
    let DeviceProperties { multiprocessors, threads_per_multiprocessor, .. } = device.properties();
    let threads = *multiprocessors as usize * *threads_per_multiprocessor as usize;
    Ok(local_bytes_of_steps(kernel_env, reset as usize) * threads)
}

/// The most bytes of local memory that a thread of the kernels of a step takes. They call the same reset, which needs `reset` bytes, and hold the
/// states before and after the step and its observation; a third state and a second observation cover what they spill.
pub fn local_bytes_of_steps(kernel_env: &KernelEnv, reset: usize) -> usize {
    reset + 4 * (3 * kernel_env.state_words + 2 * kernel_env.spec.obs.words())
}

/// Sizes of N environments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AheadSizes {
    num_envs: usize,
    /// Words of a state, 0 where none is made ahead of time.
    words: usize,
}

impl AheadSizes {
    /// The sizes for N such environments.
    pub fn new(kernel_env: &KernelEnv, num_envs: usize) -> Self {
        Self { num_envs, words: if kernel_env.ahead { kernel_env.state_words } else { 0 } }
    }

    /// Bytes of the states and of the steps that made them.
    pub fn bytes(&self) -> usize {
        4 * self.words * self.num_envs + 8 * self.made()
    }

    fn made(&self) -> usize {
        if self.words > 0 { self.num_envs } else { 0 }
    }
}

operant_cuda::params! {
    /// First states of the next episodes.
    pub struct NextStates<'a>(of: AheadSizes) for [], blocks usize::MAX, {
        /// (state words, N).
        states: reads_any [u32; of.words * of.num_envs],
        /// (N): the step whose draws made each state, plus one; 0 for none.
        made: reads_any [u64; of.made()],
    }
}

operant_cuda::params! {
    /// Parameters of `make_ahead`. A thread reads and writes the words of its own environment only.
    struct AheadParams<'a>(of: AheadSizes) for ["make_ahead"], blocks usize::MAX, {
        /// (state words + 2, N).
        environments: reads [u32; (of.words + 2) * of.num_envs],
        /// (state words, N).
        states: writes [u32; of.words * of.num_envs],
        /// (N).
        made: writes [u64; of.num_envs],
        /// (1): the global step at which the rollout begins.
        clock: may_read [u64; 1],
        /// The next step, counted from there.
        step: value [u64],
        /// Steps since the last launch.
        since: value [u32],
        num_envs: value [u32],
        /// Number of environment 0 among those of all devices.
        first_environment: value [u32],
        seed: value [Seed],
    }
}

/// Memory for the states.
#[derive(Debug)]
pub struct AheadMemory {
    states: Buffer<u32>,
    made: Buffer<u64>,
}

impl AheadMemory {
    /// The memory, if states are made ahead of time.
    pub fn new(allocator: &Allocator, of: &AheadSizes) -> Result<Option<Self>, CudaError> {
        if of.words == 0 {
            return Ok(None);
        }
        let states = allocator.alloc(words_of(of.words, of.num_envs)?)?;
        Ok(Some(Self { states, made: allocator.alloc(of.num_envs)? }))
    }

    /// Forgets all states.
    pub fn clear(&self, stream: &Stream) -> Result<(), CudaError> {
        self.made.fill(stream, 0)
    }

    /// The states as kernels read them.
    pub fn params(own: Option<&Self>) -> NextStates<'_> {
        NextStates { states: own.map(|own| &own.states), made: own.map(|own| &own.made) }
    }
}

/// The environments for which states are made.
#[derive(Debug, Clone, Copy)]
pub struct AheadInputs<'a> {
    /// (state words + 2, N).
    pub environments: &'a Buffer<u32>,
    /// The global step at which the rollout begins, if `step` counts from there.
    pub clock: Option<&'a Buffer<u64>>,
    /// The next step.
    pub step: u64,
    /// Steps since the last call.
    pub since: u32,
    /// Number of environment 0.
    pub first_environment: u32,
    /// The run's seed.
    pub seed: Seed,
}

/// The kernel that makes states.
#[derive(Debug)]
pub struct Ahead {
    function: Function,
    sizes: AheadSizes,
}

impl Ahead {
    /// Loads it, if states are made ahead of time.
    ///
    /// # Errors
    /// When it does not compile, or the device fails.
    pub fn new(device: &Device, kernel_env: &KernelEnv, num_envs: usize) -> Result<Option<Self>, CudaError> {
        if !kernel_env.ahead {
            return Ok(None);
        }
        let function = device.load(&ahead_program(kernel_env))?.function("make_ahead")?;
        Ok(Some(Self { function, sizes: AheadSizes::new(kernel_env, num_envs) }))
    }

    /// Enqueues making the states that are missing, before some of the steps.
    pub fn make(&self, stream: &Stream, next: NextStates<'_>, of: AheadInputs<'_>) -> Result<(), CudaError> {
        let NextStates { states: Some(states), made: Some(made) } = next else { return Ok(()) };
        let AheadInputs { environments, clock, step, since, first_environment, seed } = of;
        if !step.is_multiple_of(EVERY) {
            return Ok(());
        }
        let num_envs = self.sizes.num_envs as u32;
        let params =
            AheadParams { environments, states, made, clock, step, since, num_envs, first_environment, seed };
        self.function.run(stream, LaunchConfig::covering(self.sizes.num_envs, THREADS), &params, &self.sizes)
    }
}

/// The kernel with memory of its own.
#[derive(Debug)]
pub struct OwnAhead {
    kernel: Ahead,
    memory: AheadMemory,
}

impl OwnAhead {
    /// Both, if states are made ahead of time.
    ///
    /// # Errors
    /// When the kernel does not compile, or the device has no room.
    pub fn new(
        device: &Device,
        stream: &Stream,
        kernel_env: &KernelEnv,
        of: &AheadSizes,
    ) -> Result<Option<Self>, CudaError> {
        let Some(memory) = AheadMemory::new(&Allocator::of(device), of)? else { return Ok(None) };
        memory.clear(stream)?;
        Ok(Ahead::new(device, kernel_env, of.num_envs)?.map(|kernel| Self { kernel, memory }))
    }

    /// Enqueues making the states that are missing, and returns all as kernels read them.
    pub fn make<'a>(
        own: Option<&'a Self>,
        stream: &Stream,
        of: AheadInputs<'_>,
    ) -> Result<NextStates<'a>, CudaError> {
        let next = AheadMemory::params(own.map(|own| &own.memory));
        own.map_or(Ok(()), |own| own.kernel.make(stream, next, of))?;
        Ok(next)
    }

    /// Forgets all states.
    pub fn clear(own: Option<&Self>, stream: &Stream) -> Result<(), CudaError> {
        own.map_or(Ok(()), |own| own.memory.clear(stream))
    }
}
