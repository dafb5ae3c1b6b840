//! An environment as kernels know it.

use operant_cuda::CudaError;
use operant_env::emit::emit;
use operant_env::{Env, EnvSpec};
use operant_lane::bundle::leaves_of;

/// An environment's rules as CUDA text, and the sizes that go with them.
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
}

impl KernelEnv {
    /// Of this environment.
    pub fn of<E: Env>(env: &E) -> Self {
        Self {
            spec: env.spec(),
            text: emit(env),
            state_words: leaves_of::<f32, E::State<f32>>().len(),
            masked: E::MASKED,
        }
    }

    /// Words of a running environment: its state, and the length and return of the episode.
    pub fn running_words(&self) -> usize {
        self.state_words + 2
    }

    /// The most times that a time limit truncates an episode of one environment in so many steps, one begun before them included.
    pub fn cuts(&self, num_steps: usize) -> usize {
        num_steps.div_ceil((self.spec.time_limit as usize).max(1))
    }
}

/// Words of N environments of so many each, which kernels count in 32 bits.
///
/// # Errors
/// When that does not suffice.
pub fn words_of(words: usize, num_envs: usize) -> Result<usize, CudaError> {
    const MOST: usize = u32::MAX as usize;
    words.checked_mul(num_envs).filter(|all| *all <= MOST).ok_or_else(|| CudaError::Refused {
        problem: format!("{num_envs} environments take more than {MOST} words of state"),
        remedy: "use fewer environments".to_owned(),
    })
}
