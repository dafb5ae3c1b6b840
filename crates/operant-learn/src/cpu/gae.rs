//! Generalised advantage estimation (Schulman et al. 2016) over the rollouts of V x 16 environments.

use operant_lane::isa::f32x16;

use crate::cpu::network::tile::{Row, fma};

/// Writes the advantages of T steps, last to first:
///
/// ```text
/// delta[t]     = rewards[t] + gamma V[t+1] (1 - done[t]) - V[t]
/// advantage[t] = delta[t] + gamma lambda (1 - done[t]) advantage[t+1]
/// ```
///
/// All slices are `[step]`; `done` is 1 where the episode ended with that step and 0 elsewhere, whether it terminated or
/// was truncated: the reward of a truncated step already contains `gamma V(final_obs)`, so that a time limit bootstraps
/// and a termination does not. `next_value` is V of the observation after the last step, and the factors are those of
/// [`Config::discounts`](crate::Config::discounts).
pub fn gae<const V: usize>(
    rewards: &[Row<V>],
    values: &[Row<V>],
    done: &[Row<V>],
    next_value: Row<V>,
    [gamma, decay]: [f32; 2],
    advantages: &mut [Row<V>],
) {
    let steps = advantages.len();
    assert_eq!((rewards.len(), values.len(), done.len()), (steps, steps, steps));
    let (gamma, decay) = (f32x16::splat(gamma), f32x16::splat(decay));
    let (mut next_value, mut next) = (next_value, [f32x16::ZERO; V]);
    let steps = rewards.iter().zip(values).zip(done).zip(advantages);
    for (((reward, value), done), advantage) in steps.rev() {
        for v in 0..V {
            let goes_on = f32x16::ONE - done[v];
            let delta = fma(gamma * goes_on, next_value[v], reward[v]) - value[v];
            next[v] = fma(decay * goes_on, next[v], delta);
        }
        *advantage = next;
        next_value = *value;
    }
}
