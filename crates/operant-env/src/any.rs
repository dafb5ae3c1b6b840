//! An environment as a value. [`AnyEnv`] is the interface of any environment for learners, benchmarks, tests and the command line;
//! every [`Env`] is one, and so are other implementations: a traced world, a pool of worker processes.

use std::fmt;
use std::sync::Arc;

use operant_lane::bundle::leaves_of;
use operant_lane::{Leaf, isa};

use crate::env::{Env, spec_of};
use crate::own::OwnSpaces;
use crate::play::{LanePlay, Play, StepperPlay};
use crate::registry::EnvOptions;
use crate::replay::{self, Arithmetic, Case, CaseError, CaseWords, Outcome, StepWords};
use crate::rows::Rows;
use crate::scene::Scene;
use crate::spec::{EnvSpec, OptionError};
use crate::stepper::LaneStepper;
use crate::vector::Autoreset;
use crate::versus::Versus;
use crate::world::World;

/// Environments per instruction. It affects speed, never results. A build compiles the scalar lane and one width of vectors, so `Eight` and
/// `Sixteen` are equivalent in that build. The feature `every-lane` compiles both. WebAssembly, where one environment is played and size
/// counts, has the scalar lane alone, and neither records nor replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneWidth {
    /// Scalar: the reference.
    One = 1,
    /// Vectors of 256 bits.
    Eight = 8,
    /// Vectors of 512 bits.
    Sixteen = 16,
}

impl LaneWidth {
    /// The widest that this build has instructions for.
    pub const WIDEST: Self = match isa::SET.lanes {
        _ if cfg!(target_family = "wasm") => Self::One,
        16 => Self::Sixteen,
        _ => Self::Eight,
    };

    /// Environments per instruction in this build.
    pub const fn compiled(self) -> usize {
        match self {
            Self::Eight | Self::Sixteen if !cfg!(feature = "every-lane") => Self::WIDEST as usize,
            _ => self as usize,
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod lanes {
    use operant_lane::Wide;

    use super::LaneWidth;

    /// The lane of [`LaneWidth::WIDEST`].
    pub(crate) type Widest = Wide<{ LaneWidth::WIDEST as usize }>;
    /// The lane of [`LaneWidth::Eight`].
    pub(crate) type Wide8 = Wide<{ LaneWidth::Eight.compiled() }>;
    /// The lane of [`LaneWidth::Sixteen`].
    pub(crate) type Wide16 = Wide<{ LaneWidth::Sixteen.compiled() }>;
}

#[cfg(target_family = "wasm")]
mod lanes {
    pub(crate) type Wide8 = f32;
    pub(crate) type Wide16 = f32;
    /// Recorded worlds step in rows of 16.
    pub(crate) type Widest = operant_lane::Wide<16>;
}

pub(crate) use lanes::{Wide8, Wide16, Widest};

/// A tile: environments with consecutive numbers that are stepped together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileSpec {
    /// Seed of the run.
    pub seed: u64,
    /// Global number of the first environment.
    pub first: u32,
    /// R: environments, a multiple of 16, at most 256.
    pub rows: usize,
    /// Environments that the caller reads: the first `count` rows. Lanes step all rows, in a web page only these, as worker processes do.
    pub count: usize,
    /// Global step at which their first episodes begin.
    pub step: u64,
    /// Whether random streams are those of evaluation.
    pub evaluation: bool,
    /// Environments per instruction, for environments written over lanes.
    pub lanes: LaneWidth,
    /// When the next episode begins after one that ended.
    pub autoreset: Autoreset,
    /// Steps after which an episode is truncated; None for the environment's own limit.
    pub time_limit: Option<u32>,
}

impl TileSpec {
    /// R environments from number `first` on, at the start of training.
    pub fn new(seed: u64, first: u32, rows: usize) -> Self {
        Self {
            seed,
            first,
            rows,
            count: rows,
            step: 0,
            evaluation: false,
            lanes: LaneWidth::WIDEST,
            autoreset: Autoreset::SameStep,
            time_limit: None,
        }
    }
}

/// An environment failed: a worker process died, or returned invalid data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment {env}: {what}")]
pub struct StepError {
    /// Environment.
    pub env: String,
    /// What happened.
    pub what: String,
    /// The remedy; empty if there is none beyond what happened.
    pub remedy: &'static str,
}

impl StepError {
    /// The remedy where no action is legal.
    pub const LEGAL: &str =
        "let `legal` allow at least one choice of each component, or end the episode in such a state";

    /// The error where no action is legal although one has to be taken, in the environment of this number.
    pub fn no_legal_action(env: &str, number: usize) -> Self {
        StepError {
            env: env.to_owned(),
            what: format!("no action is legal in environment {number}, whose episode has not ended"),
            remedy: Self::LEGAL,
        }
    }
}

/// Counters of environments in worker processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EnvCounters {
    /// Seconds that threads of the trainer have waited for them, over all threads.
    pub waited_s: f64,
    /// How often one of them failed and was restarted.
    pub restarts: u64,
}

/// The buffers into which a [`Stepper`] writes a policy's inputs. Columns are environments.
#[derive(Debug)]
pub struct Seen<'a> {
    /// `(words, R)`: observations, floats by their bits, or 32 bits to a word.
    pub obs: &'a mut [u32],
    /// `(ceil(logits / 32), R)`: a bit for each logit, set where its choice is legal. Empty without action masks.
    pub legal: &'a mut [u32],
}

/// The buffers into which a [`Stepper`] writes the results of a step. Columns are environments.
#[derive(Debug)]
pub struct Stepped<'a> {
    /// The next observation (after auto-reset, if an episode began) and its legal choices.
    pub seen: Seen<'a>,
    /// `(words, R)`: the observation before auto-reset. Written only for environments whose episode ended, and only in
    /// [`Autoreset::SameStep`]: in the other modes it is `seen.obs`.
    pub final_obs: &'a mut [u32],
    /// `(R)`.
    pub rewards: &'a mut [f32],
    /// `(R / 16)`: bit i of word k is environment 16 k + i; whether the rules ended its episode.
    pub terminated: &'a mut [u16],
    /// `(R / 16)`: whether a time limit ended it (truncation); both may be set.
    pub truncated: &'a mut [u16],
    /// `(R)`: undiscounted return of the episode. Valid only if it ended.
    pub returns: &'a mut [f32],
    /// `(R)`: its length in steps. Valid only if it ended. 0 if the environment failed, or only a life
    /// was lost; statistics leave those out.
    pub lengths: &'a mut [u32],
    /// `(metrics, R)`: the environment's own metrics of the episode. Valid only if it ended. Empty if they are not wanted, or there are none.
    pub metrics: &'a mut [f32],
}

/// R environments in the middle of their episodes. A step is two calls, because worker processes answer late: between them the
/// caller does other work. An episode that ends is followed by the next as [`TileSpec::autoreset`] says.
pub trait Stepper: Send {
    /// Writes the first inputs of the policy, after the start or [`Stepper::load`].
    ///
    /// # Errors
    /// When an environment failed.
    fn observe(&mut self, seen: Seen<'_>) -> Result<(), StepError>;

    /// Begins a step. `actions` is `(components, R)`, choices as whole numbers, real numbers unclipped; `step` is the global step.
    ///
    /// # Errors
    /// When an environment failed.
    fn submit(&mut self, actions: &[f32], step: u64) -> Result<(), StepError>;

    /// Whether [`Stepper::collect`] need not wait.
    fn has_stepped(&mut self) -> bool;

    /// Finishes the submitted step, and waits for it if necessary.
    ///
    /// # Errors
    /// When an environment failed.
    fn collect(&mut self, stepped: Stepped<'_>) -> Result<(), StepError>;

    /// Writes the running environments, `(leaves + 2, R)`: state, length and return of the episode.
    fn save(&self, words: &mut [u32]);

    /// Continues from what [`Stepper::save`] wrote.
    ///
    /// # Errors
    /// When an environment failed.
    fn load(&mut self, words: &[u32]) -> Result<(), StepError>;

    /// Begins new episodes at the global step `step`, in the rows whose bit is set: `rows` is `(R / 16)`. With `seeds`, `(R)`,
    /// those rows have their own seeds from now on, and the streams of environment 0.
    ///
    /// # Errors
    /// When an environment failed, or cannot be restarted.
    fn restart(&mut self, rows: &[u16], seeds: Option<&[u64]>, step: u64) -> Result<(), StepError>;

    /// The state of one environment, `(leaves)`, for drawing.
    fn state(&self, row: usize, words: &mut [u32]);

    /// Writes a leaf of the states of all environments, `(R)`.
    fn leaf(&self, leaf: usize, words: &mut [u32]);
}

/// An environment whose type is known only at run time.
pub trait AnyEnv: Send + Sync + 'static {
    /// Name, spaces, limits, options.
    fn spec(&self) -> EnvSpec;

    /// The fields of a state, each in a 32-bit word.
    fn leaves(&self) -> Vec<Leaf>;

    /// Whether actions can be illegal.
    fn masked(&self) -> bool {
        false
    }

    /// Whether environments step in other threads or processes, while the caller goes on.
    fn steps_elsewhere(&self) -> bool {
        false
    }

    /// Whether first states of the next episodes are made ahead of time ([`Env::AHEAD`]).
    fn ahead(&self) -> bool {
        false
    }

    /// The game and its opponent, if it is one side of a game.
    fn versus(&self) -> Option<&Versus> {
        None
    }

    /// Words of memory that each environment takes on a CPU beside [`running_words`].
    fn kept_words(&self) -> usize {
        // A state that is made ahead of time, that of a recorded world with its observation.
        if self.ahead() { self.leaves().len() + self.spec().obs.words() } else { 0 }
    }

    /// A hash of the files that the environment was made from; None without files. A checkpoint made with other files is refused.
    fn content(&self) -> Option<u64> {
        None
    }

    /// The environment with these options set.
    ///
    /// # Errors
    /// When an option is unknown or out of range, or the observation space is invalid.
    fn with_options(&self, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError>;

    /// A tile of environments at the start of their first episodes.
    ///
    /// # Errors
    /// When the environments cannot be made.
    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError>;

    /// At least `count` environments from number `first` on that play whole rollouts of uniformly random actions.
    ///
    /// # Errors
    /// When the environments cannot be made.
    fn random_play(
        &self,
        seed: u64,
        first: u32,
        count: usize,
        lanes: LaneWidth,
    ) -> Result<Box<dyn Play>, StepError> {
        Ok(Box::new(StepperPlay::of(self, seed, first, count, lanes)?))
    }

    /// The text of a file that the environment can be made from ([`World::to_json`]); None if it is part of the program.
    fn file(&self) -> Option<String> {
        None
    }

    /// The environment as recorded functions; None if it cannot be recorded.
    fn world(&self) -> Option<World> {
        None
    }

    /// The environment as CUDA C++; None if it runs only on a CPU.
    fn emit(&self) -> Option<String> {
        self.world().map(|world| world.emit())
    }

    /// The spaces as the environment declares them; None if they are those of the specification.
    fn own_spaces(&self) -> Option<OwnSpaces> {
        None
    }

    /// Warnings of environments since the last call, such as the restart of a worker process.
    fn messages(&self) -> Vec<String> {
        Vec::new()
    }

    /// The counters since the start; None without worker processes.
    fn counters(&self) -> Option<EnvCounters> {
        None
    }

    /// Draws a state, `(leaves)`, with a few shapes.
    fn picture(&self, state: &[u32]) -> Scene;

    /// Plays given actions from a given state, without auto-reset.
    ///
    /// # Errors
    /// When the case does not fit this environment, or its state cannot be set.
    fn replay(&self, arithmetic: Arithmetic, case: &Case) -> Result<Outcome, CaseError> {
        let _ = (arithmetic, case);
        Err(CaseError::Unsupported { env: self.spec().name })
    }

    /// A case for a device, in single precision.
    ///
    /// # Errors
    /// Same as [`AnyEnv::replay`].
    fn case_words(&self, case: &Case) -> Result<CaseWords, CaseError> {
        let _ = case;
        Err(CaseError::Unsupported { env: self.spec().name })
    }

    /// The outcome of a case from a device's results, step by step.
    fn outcome(&self, steps: &[StepWords<'_>]) -> Outcome {
        let _ = steps;
        Outcome::default()
    }
}

impl fmt::Debug for dyn AnyEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "environment {}", self.spec().name)
    }
}

/// Words of a running environment: its state, and the length and return of the episode.
pub fn running_words(env: &dyn AnyEnv) -> usize {
    env.leaves().len() + 2
}

impl<E: Env> AnyEnv for E {
    fn spec(&self) -> EnvSpec {
        spec_of(self)
    }

    fn leaves(&self) -> Vec<Leaf> {
        leaves_of::<f32, E::State<f32>>()
    }

    fn masked(&self) -> bool {
        E::MASKED
    }

    fn ahead(&self) -> bool {
        E::AHEAD
    }

    fn content(&self) -> Option<u64> {
        Env::content(self)
    }

    fn with_options(&self, options: &EnvOptions) -> Result<Arc<dyn AnyEnv>, OptionError> {
        let mut env = self.clone();
        for (name, value) in options {
            env.set_option(name, value)?;
        }
        let env = env.resolve();
        env.spec().check()?;
        Ok(env)
    }

    fn stepper(&self, tile: TileSpec) -> Result<Box<dyn Stepper>, StepError> {
        Ok(match tile.lanes {
            LaneWidth::One => Box::new(LaneStepper::<f32, E>::new(self, tile)),
            LaneWidth::Eight => Box::new(LaneStepper::<Wide8, E>::new(self, tile)),
            LaneWidth::Sixteen => Box::new(LaneStepper::<Wide16, E>::new(self, tile)),
        })
    }

    #[cfg(not(target_family = "wasm"))]
    fn random_play(
        &self,
        seed: u64,
        first: u32,
        count: usize,
        lanes: LaneWidth,
    ) -> Result<Box<dyn Play>, StepError> {
        if E::AHEAD {
            return Ok(Box::new(StepperPlay::of(self, seed, first, count, lanes)?));
        }
        let env = self.clone();
        Ok(match lanes {
            LaneWidth::One => Box::new(LanePlay::<f32, E>::new(env, seed, first, count)),
            LaneWidth::Eight => Box::new(LanePlay::<Wide8, E>::new(env, seed, first, count)),
            LaneWidth::Sixteen => Box::new(LanePlay::<Wide16, E>::new(env, seed, first, count)),
        })
    }

    #[cfg(not(target_family = "wasm"))]
    fn world(&self) -> Option<World> {
        Some(World::record(self))
    }

    fn picture(&self, state: &[u32]) -> Scene {
        self.draw(&operant_lane::Bundle::load(&mut Rows::new(state, 1, 0)))
    }

    #[cfg(not(target_family = "wasm"))]
    fn replay(&self, arithmetic: Arithmetic, case: &Case) -> Result<Outcome, CaseError> {
        replay::replay(self, arithmetic, case)
    }

    #[cfg(not(target_family = "wasm"))]
    fn case_words(&self, case: &Case) -> Result<CaseWords, CaseError> {
        replay::to_words(self, case)
    }

    #[cfg(not(target_family = "wasm"))]
    fn outcome(&self, steps: &[StepWords<'_>]) -> Outcome {
        replay::from_words(self, steps)
    }
}
