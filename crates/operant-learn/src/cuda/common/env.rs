//! An environment for kernels: its CUDA text and sizes.

use operant_cuda::CudaError;
use operant_env::{AnyEnv, EnvSpec};

use crate::LearnError;

/// An environment's rules as CUDA text, and their sizes.
#[derive(Debug, Clone)]
pub struct KernelEnv {
    /// Name, spaces, limits.
    pub spec: EnvSpec,
    /// The emitted text.
    pub text: String,
    /// Words of a state.
    pub state_words: usize,
    /// Whether actions can be illegal.
    pub masked: bool,
    /// Whether first states are made ahead of time.
    pub ahead: bool,
}

impl KernelEnv {
    /// Emits this environment.
    ///
    /// # Errors
    /// When it has no CUDA source.
    pub fn of(env: &dyn AnyEnv) -> Result<Self, LearnError> {
        let spec = env.spec();
        let text = env.emit().ok_or_else(|| LearnError::Config {
            key: "device",
            problem: format!("a GPU, but the environment {} has no CUDA source", spec.name),
            remedy: "set device = \"cpu\"".to_owned(),
        })?;
        Ok(Self { text, ahead: env.ahead(), state_words: env.leaves().len(), masked: env.masked(), spec })
    }

    /// Words of a running environment: its state, and the length and return of the episode.
    pub fn running_words(&self) -> usize {
        self.state_words + 2
    }

    /// Maximum number of truncations of one environment in `num_steps` steps, including an episode that began earlier.
    pub fn max_truncations(&self, num_steps: usize) -> usize {
        num_steps.div_ceil((self.spec.time_limit as usize).max(1))
    }
}

/// Words of N environments of `words` each, which kernels count in 32 bits.
///
/// # Errors
/// When 32 bits are not enough.
pub fn words_of(words: usize, num_envs: usize) -> Result<usize, CudaError> {
    const MAX_WORDS: usize = u32::MAX as usize;
    words.checked_mul(num_envs).filter(|all| *all <= MAX_WORDS).ok_or_else(|| CudaError::Refused {
        problem: format!("{num_envs} environments take more than {MAX_WORDS} words of state"),
        remedy: "use fewer environments".to_owned(),
    })
}
