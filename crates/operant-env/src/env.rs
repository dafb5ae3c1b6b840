//! The trait of an environment.

use std::sync::Arc;

use operant_lane::bundle::leaves_of;
use operant_lane::{Bundle, Draws, Float, Lane, Mask};

use crate::any::AnyEnv;
use crate::replay::CaseError;
use crate::scene::Scene;
use crate::spec::{EnvSpec, OptionError, OptionValue};

/// An environment: its rules, generic over the lane that computes them.
///
/// Time limits, auto-reset and episode statistics are not its business; [`crate::Current::step`] adds them.
pub trait Env: Clone + Send + Sync + 'static {
    /// Everything that the rules remember between steps; declare it with [`operant_lane::bundle!`].
    type State<L: Lane>: Bundle<L>;
    /// The observation as words of its space: floats (`[L::Float; O]`) for a box, otherwise packed words (`[L::Uint;
    /// W]`). For a space with parts it is a tuple or a structure of these.
    type Obs<L: Lane>: Bundle<L>;
    /// The action: `L::Uint` (discrete), `[L::Uint; A]` (multi-discrete), `[L::Float; A]` (box).
    type Action<L: Lane>: Bundle<L>;

    /// Whether [`Env::legal`] ever forbids an action.
    const MASKED: bool = false;

    /// Whether first states are made ahead of time, several at once, because [`Env::reset`] takes as long as many steps. A reset within the step
    /// that ends an episode then uses the draws of the step at which that episode began, so that its state can be made early. Nothing
    /// else changes.
    const AHEAD: bool = false;

    /// Name, spaces, limits, options.
    fn spec(&self) -> EnvSpec;

    /// A first state.
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> Self::State<L>;

    /// One step of time.
    fn step<L: Lane>(
        &self,
        state: &Self::State<L>,
        action: &Self::Action<L>,
        draws: &mut Draws<L>,
    ) -> Step<L, Self::State<L>>;

    /// [`Env::step`] in place, which avoids copies of a large state. Returns the reward and whether the rules ended the episode.
    #[inline(always)]
    fn step_in_place<L: Lane>(
        &self,
        state: &mut Self::State<L>,
        action: &Self::Action<L>,
        draws: &mut Draws<L>,
    ) -> (L::Float, L::Mask) {
        let step = self.step(state, action, draws);
        *state = step.state;
        (step.reward, step.terminated)
    }

    /// The observation of a state.
    fn observe<L: Lane>(&self, state: &Self::State<L>) -> Self::Obs<L>;

    /// Whether choice `choice` of action component `component` is legal in `state`; at least one choice of each
    /// component must be legal, except in a terminal state. Asked only when [`Env::MASKED`].
    fn legal<L: Lane>(&self, _state: &Self::State<L>, _component: usize, _choice: usize) -> L::Mask {
        L::Mask::splat(true)
    }

    /// The metric of this index in [`EnvSpec::metrics`], never that of a score, for an episode that ended with the step `last`, such as 1 where the goal
    /// was reached. Evaluated for other environments of a lane too, whose values are not used.
    fn metric<L: Lane>(&self, _last: &Step<L, Self::State<L>>, _index: usize) -> L::Float {
        L::Float::splat(0.0)
    }

    /// A few shapes that show a state.
    fn draw(&self, state: &Self::State<f32>) -> Scene;

    /// Sets one of the options that [`EnvSpec::options`] lists.
    fn set_option(&mut self, name: &str, _value: &OptionValue) -> Result<(), OptionError> {
        Err(OptionError::unknown(&self.spec(), name))
    }

    /// A hash of the files that the environment was made from; None without files. A checkpoint made with other files is refused.
    fn content(&self) -> Option<u64> {
        None
    }

    /// The environment after its options are set: itself, or an environment of another type if the options change the
    /// number of words of an observation.
    fn resolve(self) -> Arc<dyn AnyEnv> {
        Arc::new(self)
    }

    /// The leaves of a state from its public form, the numbers that `operant replay` reads; one to one unless the
    /// state is packed.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        public.to_vec()
    }

    /// The public form of a state from its leaves; the inverse of [`Env::unpack`].
    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        leaves.to_vec()
    }

    /// The steps of the episode that a state in its public form counts; 0 if it counts none. `operant replay` applies the time limit to
    /// them.
    fn elapsed(&self, _public: &[f64]) -> u64 {
        0
    }

    /// The length of the public form that starts with `public`. It is constant unless the public form contains the
    /// lengths of lists.
    ///
    /// # Errors
    /// When a list is longer than a state can hold.
    fn public_len(&self, _public: &[f64]) -> Result<usize, CaseError> {
        Ok(self.pack(&vec![0.0; leaves_of::<f64, Self::State<f64>>().len()]).len())
    }
}

/// [`Env::spec`] as a function that is compiled once, instead of within each of its callers.
#[inline(never)]
pub(crate) fn spec_of<E: Env>(env: &E) -> EnvSpec {
    env.spec()
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy)]
pub struct Step<L: Lane, S> {
    /// The state after the step.
    pub state: S,
    /// The reward of the step.
    pub reward: L::Float,
    /// Whether the rules ended the episode (termination); the caller applies the time limit (truncation).
    pub terminated: L::Mask,
}
