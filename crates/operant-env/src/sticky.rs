//! Sticky actions: with some probability an action is replaced by the previous one (Machado et al., 2018).

use operant_lane::{Draws, Float, Lane, Mask, Uint};

use crate::spec::EnvOption;

/// Name of the option that sets the probability.
pub const STICKY_ACTION_PROB: &str = "sticky_action_prob";

/// The probability in the MinAtar package.
pub const MINATAR: f64 = 0.1;

/// The option, with the package's default.
pub fn sticky_action_prob() -> EnvOption {
    let help = "probability that an action is replaced by the previous one";
    EnvOption::number(STICKY_ACTION_PROB, MINATAR, 0.0, 1.0, help)
}

/// The action that is executed in place of `action`; draws nothing if `probability` is 0.
#[inline(always)]
pub fn executed<L: Lane>(probability: f64, action: L::Uint, last: L::Uint, draws: &mut Draws<L>) -> L::Uint {
    if probability == 0.0 {
        return action;
    }
    draws.unit().lt(L::Float::splat(probability)).select(last, action).named("executed")
}
