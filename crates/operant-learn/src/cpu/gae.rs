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

/// [`gae`] of plain arrays and any number of environments, with the same bits. All arrays are `(T, N)` but `next_values`, `(N)`, the
/// values of the observations after the last step; `ended` holds where an episode ended, and `final_values` the values of the last
/// observations of truncated ones.
pub fn by_environment(
    [rewards, values, final_values]: [&[f32]; 3],
    ended: &[bool],
    next_values: &[f32],
    [gamma, decay]: [f32; 2],
    advantages: &mut [f32],
) {
    let num_envs = next_values.len().max(1);
    let (mut next_value, mut next) = (next_values.to_vec(), vec![0.0f32; next_values.len()]);
    let rows = advantages.chunks_exact_mut(num_envs).zip(ended.chunks_exact(num_envs));
    let rewards = rewards.chunks_exact(num_envs).zip(final_values.chunks_exact(num_envs));
    let steps = rows.zip(rewards).zip(values.chunks_exact(num_envs));
    for (((advantages, ended), (rewards, final_values)), values) in steps.rev() {
        for (env, advantage) in advantages.iter_mut().enumerate() {
            let not_ended = f32::from(!ended[env]);
            let reward = rewards[env] + gamma * final_values[env];
            let delta = (gamma * not_ended).mul_add(next_value[env], reward) - values[env];
            next[env] = (decay * not_ended).mul_add(next[env], delta);
            *advantage = next[env];
        }
        next_value.copy_from_slice(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 16;

    #[test]
    fn plain_arrays_get_the_same_bits() {
        const STEPS: usize = 40;
        let number = |k: usize, scale: f32| ((k * 7919 % 1009) as f32 - 504.0) / 504.0 * scale;
        let all = |seed: usize, scale: f32| -> Vec<f32> {
            (0..STEPS * BLOCK).map(|k| number(k * 31 + seed, scale)).collect()
        };
        let (rewards, values) = (all(1, 2.0), all(2, 10.0));
        let ended: Vec<bool> = (0..STEPS * BLOCK).map(|k| k * 13 % 29 == 0).collect();
        let truncated = |k: &usize| ended[*k] && k.is_multiple_of(2);
        let final_values: Vec<f32> =
            (0..STEPS * BLOCK).map(|k| if truncated(&k) { number(k, 9.0) } else { 0.0 }).collect();
        let next_values: Vec<f32> = (0..BLOCK).map(|k| number(k, 5.0)).collect();
        let discounts = [0.99, 0.99 * 0.95];
        let mut got = vec![0.0; STEPS * BLOCK];
        by_environment([&rewards, &values, &final_values], &ended, &next_values, discounts, &mut got);
        let row = |numbers: &[f32]| [f32x16::new(numbers.try_into().expect("a row"))];
        let rows = |numbers: &[f32]| numbers.chunks_exact(BLOCK).map(row).collect::<Vec<_>>();
        let bootstrapped: Vec<f32> =
            rewards.iter().zip(&final_values).map(|(reward, value)| reward + 0.99 * value).collect();
        let done: Vec<f32> = ended.iter().map(|ended| f32::from(*ended)).collect();
        let mut expected = rows(&got);
        gae::<1>(
            &rows(&bootstrapped),
            &rows(&values),
            &rows(&done),
            row(&next_values),
            discounts,
            &mut expected,
        );
        let expected: Vec<f32> = expected.iter().flat_map(|[row]| row.to_array()).collect();
        assert_eq!(got, expected);
        assert!(got.iter().any(|x| *x != 0.0));
    }
}
