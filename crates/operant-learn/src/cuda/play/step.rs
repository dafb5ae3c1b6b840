//! Environments on a GPU that another program steps with its own actions, into row-major arrays.

use std::sync::Arc;

use operant_cuda::{Buffer, CudaError, Device, Function, LaunchConfig, Pinned, Program, Stream};
use operant_env::{ActionSpace, AnyEnv, Autoreset, EnvSpec, ObsSpace};

use crate::LearnError;
use crate::cuda::common::ahead::{self, AheadInputs, AheadSizes, NextStates, OwnAhead};
use crate::cuda::common::env::{KernelEnv, words_of};
use crate::cuda::common::structs::{EpisodeTotals, Seed};
use crate::cuda::common::text::{KernelText, ProgramText, kernel_text};

/// `step.cu`: new episodes, and steps with given actions.
pub const STEP: KernelText =
    kernel_text!("step", "play/step.cu", [EnvOutputs, ResetParams, StepParams], [EpisodeTotals, Seed]);

/// `step.cu` for an environment.
pub fn step_program(kernel_env: &KernelEnv, autoreset: Autoreset) -> Program {
    let bits = !kernel_env.spec.obs.is_real();
    let players = kernel_env.spec.players;
    let defines = [
        ("THREADS", THREADS),
        ("OBS_BITS", bits.into()),
        ("AUTORESET", autoreset as u32),
        ("PLAYERS", players),
    ];
    let defines = defines.map(|(name, value)| (name.to_owned(), value.to_string()));
    ProgramText::of(kernel_env, STEP, defines.into())
}

const THREADS: u32 = 64;

/// Sizes of N environments and their arrays.
#[derive(Debug, Clone, Copy)]
struct EnvSizes {
    num_envs: usize,
    running_words: usize,
    obs_words: usize,
    /// Bytes of an observation: 4 a number, or 1 a bit.
    obs_bytes: usize,
    components: usize,
    /// Bytes of a mask, 0 where every action is legal.
    choices: usize,
    /// Whether there are several players.
    is_game: bool,
    /// Whether the last observations of episodes are written.
    has_final: bool,
    /// Words of an action's component: 2 for i64.
    action_words: usize,
    ahead: AheadSizes,
}

impl EnvSizes {
    fn finals(&self) -> usize {
        if self.has_final { self.obs_bytes * self.num_envs } else { 0 }
    }

    fn actions(&self) -> usize {
        self.action_words * self.components * self.num_envs
    }

    /// Bytes of the environments and of `sets` sets of arrays.
    fn bytes(&self, sets: usize) -> usize {
        let arrays = self.obs_bytes * (1 + usize::from(self.has_final))
            + self.choices
            + 4 * usize::from(self.is_game)
            + 15;
        self.num_envs * (4 * self.running_words + sets * arrays) + self.ahead.bytes()
    }
}

operant_cuda::params! {
    /// The arrays that a step writes.
    struct EnvOutputs<'a>(of: EnvSizes) for [], blocks usize::MAX, {
        /// (N, ENV_OBS): f32, or a byte for each bit.
        obs: writes [u8; of.obs_bytes * of.num_envs],
        /// (N, ENV_OBS), with SAME_STEP.
        final_obs: writes_any [u8; of.finals()],
        /// (N).
        rewards: writes [f32; of.num_envs],
        /// (N).
        terminated: writes [u8; of.num_envs],
        /// (N).
        truncated: writes [u8; of.num_envs],
        /// (N).
        ended: writes [u8; of.num_envs],
        /// (N).
        returns: writes [f32; of.num_envs],
        /// (N).
        lengths: writes [u32; of.num_envs],
        /// (N, ENV_ACTIONS), with ENV_MASKED.
        masks: writes_any [u8; of.choices * of.num_envs],
        /// (N), in games of several players.
        players: writes_any [u32; if of.is_game { of.num_envs } else { 0 }],
    }
}

operant_cuda::params! {
    /// Parameters of `reset_all`: a block writes the rows of its own environments.
    struct ResetParams<'a>(of: EnvSizes) for ["reset_all"], blocks usize::MAX, {
        /// (running words, N).
        environments: writes [u32; of.running_words * of.num_envs],
        to: part [EnvOutputs, of],
        /// (N), or null for all.
        chosen: may_read [u8; of.num_envs],
        time: value [u64],
        num_envs: value [u32],
        seed: value [Seed],
    }
}

operant_cuda::params! {
    /// Parameters of `step_all`: a block writes the rows of its own environments.
    struct StepParams<'a>(of: EnvSizes) for ["step_all"], blocks usize::MAX, {
        /// (running words, N).
        environments: writes [u32; of.running_words * of.num_envs],
        to: part [EnvOutputs, of],
        next: part [NextStates, &of.ahead],
        /// (N, ENV_COMPONENTS): i64 if `wide`, else i32 or f32.
        actions: reads [u32; of.actions()],
        /// (1): the first action that is none, and its value.
        bad: writes [u64; 1],
        time: value [u64],
        num_envs: value [u32],
        seed: value [Seed],
        wide: value [u32],
    }
}

/// The arrays of one set of outputs, row-major.
#[derive(Debug)]
pub struct EnvArrays {
    /// `(N, O)`: f32, or a byte for each bit.
    pub obs: Buffer<u8>,
    /// `(N, O)`, valid where an episode ended; only with [`Autoreset::SameStep`].
    pub final_obs: Option<Buffer<u8>>,
    /// `(N)`.
    pub rewards: Buffer<f32>,
    /// `(N)`: 0 or 1, as in the next two.
    pub terminated: Buffer<u8>,
    /// `(N)`.
    pub truncated: Buffer<u8>,
    /// `(N)`: either.
    pub ended: Buffer<u8>,
    /// `(N)`: return of the episode where one ended, else 0.
    pub returns: Buffer<f32>,
    /// `(N)`: its length where one ended, else 0.
    pub lengths: Buffer<u32>,
    /// `(N, choices)`: 1 where a choice is legal; None where all are.
    pub masks: Option<Buffer<u8>>,
    /// `(N)`: the player to move, in games of several.
    pub players: Option<Buffer<u32>>,
    /// The first bad action of the step that wrote the others.
    bad: Pinned<u64>,
}

impl EnvArrays {
    /// Whether [`CudaEnvs::bad_action`] would not wait.
    ///
    /// # Errors
    /// When the device fails.
    pub fn is_written(&self) -> Result<bool, LearnError> {
        Ok(self.bad.ready()?)
    }

    fn params(&self) -> EnvOutputs<'_> {
        EnvOutputs {
            obs: &self.obs,
            final_obs: self.final_obs.as_ref(),
            rewards: &self.rewards,
            terminated: &self.terminated,
            truncated: &self.truncated,
            ended: &self.ended,
            returns: &self.returns,
            lengths: &self.lengths,
            masks: self.masks.as_ref(),
            players: self.players.as_ref(),
        }
    }
}

/// Actions of N environments on the device, `(N, components)`.
#[derive(Debug, Clone, Copy)]
pub struct GivenActions<'a> {
    /// i64 choices as two words each, else i32 choices or f32 numbers as one.
    pub words: &'a Buffer<u32>,
    /// Whether they are i64.
    pub wide: bool,
}

/// An action that its environment does not take. It was stepped as 0.
#[derive(Debug, Clone, PartialEq)]
pub struct BadAction {
    /// The environment and the component.
    pub at: (usize, usize),
    /// Its value; whole numbers beyond 32 bits are shown as the nearest of 32 bits.
    pub value: f64,
    /// What would be legal.
    pub expected: String,
}

/// `bad` without a bad action.
const NONE: u64 = u64::MAX;

/// N environments of one kind on a GPU.
pub struct CudaEnvs {
    device: Device,
    reset: Function,
    step: Function,
    spec: EnvSpec,
    sizes: EnvSizes,
    stream: Arc<Stream>,
    seed: u64,
    /// The next global step.
    time: u64,
    environments: Buffer<u32>,
    /// First states of the next episodes, with [`Autoreset::SameStep`].
    ahead: Option<OwnAhead>,
    bad: Buffer<u64>,
}

impl CudaEnvs {
    /// Whether the kernels of a step write these observations: real numbers and bits.
    pub fn writes(obs: &ObsSpace) -> bool {
        matches!(obs, ObsSpace::Box { .. } | ObsSpace::Binary { .. })
    }

    /// N environments, which [`CudaEnvs::reseed`] starts. `sets` is how often [`CudaEnvs::arrays`] will be called: a device without
    /// room for all of them is refused here.
    ///
    /// # Errors
    /// When the kernels do not compile, or the device has no room.
    ///
    /// # Panics
    /// When the kernels do not write the observations ([`CudaEnvs::writes`]).
    pub fn new(
        device: &Device,
        env: &dyn AnyEnv,
        num_envs: usize,
        autoreset: Autoreset,
        sets: usize,
    ) -> Result<Self, LearnError> {
        let kernel_env = KernelEnv::of(env)?;
        let spec = kernel_env.spec.clone();
        assert!(Self::writes(&spec.obs), "the observations of {} are written on the CPU only", spec.name);
        let (is_float, has_final) =
            (matches!(spec.obs, ObsSpace::Box { .. }), autoreset == Autoreset::SameStep);
        let sizes = EnvSizes {
            num_envs,
            running_words: kernel_env.running_words(),
            obs_words: spec.obs.words(),
            obs_bytes: spec.obs.size() * if is_float { 4 } else { 1 },
            components: spec.actions.components(),
            choices: match &spec.actions {
                ActionSpace::Discrete(choices) if kernel_env.masked => choices.iter().sum(),
                _ => 0,
            },
            is_game: spec.players > 1,
            has_final,
            action_words: 1,
            ahead: if has_final { AheadSizes::new(&kernel_env, num_envs) } else { AheadSizes::default() },
        };
        words_of(sizes.running_words.max(2 * sizes.components), num_envs)?;
        let needed = (sizes.bytes(sets) + ahead::local_memory(device, &kernel_env)?) as u64;
        let memory = device.memory()?;
        if needed > memory.free {
            return Err(CudaError::OutOfMemory {
                device: format!("device {} ({})", device.properties().ordinal, device.properties().name),
                kind: "device",
                requested: needed,
                free: memory.free,
                total: memory.total,
            }
            .into());
        }
        let shared = Self::shared(spec.obs.words());
        let most = device.properties().shared_per_block;
        if shared > most {
            return Err(CudaError::Refused {
                problem: format!(
                    "{}: an observation of {} words needs {shared} bytes of shared memory per block, and the device has {most}",
                    spec.name,
                    spec.obs.words()
                ),
                remedy: "set device = \"cpu\"".to_owned(),
            }
            .into());
        }
        let module = device.load(&step_program(&kernel_env, autoreset))?;
        let [mut reset, mut step] = [module.function("reset_all")?, module.function("step_all")?];
        reset.shared(shared)?;
        step.shared(shared)?;
        let stream = Arc::new(device.stream()?);
        let bad = device.alloc(1)?;
        bad.fill(&stream, 0xff)?;
        Ok(Self {
            reset,
            step,
            spec,
            ahead: OwnAhead::new(device, &stream, &kernel_env, &sizes.ahead)?,
            sizes,
            stream,
            seed: 0,
            time: 0,
            environments: device.alloc(sizes.running_words * num_envs)?,
            bad,
            device: device.clone(),
        })
    }

    /// Name, spaces and limits of the environments.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// N.
    pub fn num_envs(&self) -> usize {
        self.sizes.num_envs
    }

    /// Choices of a mask, 0 where every action is legal.
    pub fn choices(&self) -> usize {
        self.sizes.choices
    }

    /// The stream that everything runs on.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// New arrays for the outputs of [`CudaEnvs::step`]. All bytes are 0.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn arrays(&self) -> Result<EnvArrays, LearnError> {
        let (device, sizes) = (&self.device, &self.sizes);
        let n = sizes.num_envs;
        let bytes = |len: usize| -> Result<Buffer<u8>, CudaError> {
            let buffer = device.alloc(len)?;
            buffer.fill(&self.stream, 0)?;
            Ok(buffer)
        };
        let any = |len: usize| (len > 0).then(|| bytes(len)).transpose();
        let mut bad = device.pinned(1)?;
        bad.set(&[NONE])?;
        Ok(EnvArrays {
            obs: bytes(sizes.obs_bytes * n)?,
            final_obs: any(sizes.finals())?,
            rewards: bytes(4 * n)?.cast()?,
            terminated: bytes(n)?,
            truncated: bytes(n)?,
            ended: bytes(n)?,
            returns: bytes(4 * n)?.cast()?,
            lengths: bytes(4 * n)?.cast()?,
            masks: any(sizes.choices * n)?,
            players: if sizes.is_game { Some(bytes(4 * n)?.cast()?) } else { None },
            bad,
        })
    }

    /// Enqueues new episodes in all environments under this seed, numbered from step 0; `to` gets observations, masks and players.
    ///
    /// # Errors
    /// When the launch fails.
    pub fn reseed(&mut self, seed: u64, to: &EnvArrays) -> Result<(), LearnError> {
        (self.seed, self.time) = (seed, 0);
        OwnAhead::clear(self.ahead.as_ref(), &self.stream)?;
        self.begin(None, to)
    }

    /// Enqueues new episodes in the environments that are chosen, or in all; `to` gets the observations and masks of all.
    ///
    /// # Errors
    /// When the launch fails, or there are not N flags.
    pub fn restart(&mut self, chosen: Option<&[bool]>, to: &EnvArrays) -> Result<(), LearnError> {
        // Each restart draws at its own step, so that a second one begins other episodes.
        self.time += 1;
        let Some(chosen) = chosen else { return self.begin(None, to) };
        let flags: Vec<u8> = chosen.iter().map(|&chosen| chosen.into()).collect();
        let buffer = self.device.alloc(flags.len())?;
        buffer.write(&self.stream, &flags)?;
        self.begin(Some(&buffer), to)
    }

    /// Bytes of shared memory of a block, for the observations of its threads.
    fn shared(obs_words: usize) -> usize {
        4 * obs_words * THREADS as usize
    }

    fn grid(&self) -> LaunchConfig {
        let shared = Self::shared(self.sizes.obs_words) as u32;
        LaunchConfig { shared, ..LaunchConfig::covering(self.sizes.num_envs, THREADS) }
    }

    fn begin(&self, chosen: Option<&Buffer<u8>>, to: &EnvArrays) -> Result<(), LearnError> {
        let params = ResetParams {
            environments: &self.environments,
            to: to.params(),
            chosen,
            time: self.time,
            num_envs: self.sizes.num_envs as u32,
            seed: self.seed.into(),
        };
        Ok(self.reset.run(&self.stream, self.grid(), &params, &self.sizes)?)
    }

    /// Enqueues one step of all environments. An invalid action is replaced by 0; [`CudaEnvs::bad_action`] reports it.
    ///
    /// # Errors
    /// Actions of another length, and a launch that fails.
    pub fn step(&mut self, actions: GivenActions<'_>, to: &mut EnvArrays) -> Result<(), LearnError> {
        let (environments, seed) = (&self.environments, self.seed.into());
        let (clock, step, since) = (None, self.time, 1);
        let of = AheadInputs { environments, clock, step, since, first_environment: 0, seed };
        let next = OwnAhead::make(self.ahead.as_ref(), &self.stream, of)?;
        let params = StepParams {
            environments,
            next,
            to: to.params(),
            actions: actions.words,
            bad: &self.bad,
            time: self.time,
            num_envs: self.sizes.num_envs as u32,
            seed,
            wide: actions.wide.into(),
        };
        let sizes = EnvSizes { action_words: if actions.wide { 2 } else { 1 }, ..self.sizes };
        self.step.run(&self.stream, self.grid(), &params, &sizes)?;
        self.bad.read_into(&self.stream, &mut to.bad)?;
        self.bad.fill(&self.stream, 0xff)?;
        self.time += 1;
        Ok(())
    }

    /// The first action that its environment did not take, in the step that wrote these arrays last; waits for it. It is reported
    /// once.
    ///
    /// # Errors
    /// When the device fails.
    pub fn bad_action(&self, of: &mut EnvArrays) -> Result<Option<BadAction>, LearnError> {
        let word = of.bad.to_vec()?[0];
        of.bad.set(&[NONE])?;
        if word == NONE {
            return Ok(None);
        }
        let (place, bits) = ((word >> 32) as usize, word as u32);
        let at = (place / self.sizes.components, place % self.sizes.components);
        let (value, expected) = match &self.spec.actions {
            ActionSpace::Discrete(choices) => {
                (f64::from(bits as i32), format!("a whole number from 0 to {}", choices[at.1] - 1))
            }
            ActionSpace::Box { .. } => (f64::from(f32::from_bits(bits)), "a finite number".to_owned()),
        };
        Ok(Some(BadAction { at, value, expected }))
    }

    /// The running environments, `(leaves + 2, N)`; waits for the stream.
    ///
    /// # Errors
    /// When the device fails.
    pub fn environments(&self) -> Result<Vec<u32>, LearnError> {
        Ok(self.environments.read(&self.stream)?)
    }
}
