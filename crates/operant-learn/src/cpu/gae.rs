//! Generalised advantage estimation (Schulman et al. 2016) over the rollouts of V x 16 environments.

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

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

/// The moves of a game in the rollouts of V x 16 environments.
pub struct Moves<'a, const V: usize> {
    /// K: players.
    pub players: u32,
    /// `[step]`: the number of the player who moves.
    pub movers: &'a [Row<V>],
    /// The player to move after the last step.
    pub next_mover: Row<V>,
}

/// 1 for the players with even numbers, -1 for the others.
pub fn side(player: f32x16) -> f32x16 {
    let half = player * f32x16::splat(0.5);
    f32x16::ONE - f32x16::splat(4.0) * (half - half.floor())
}

/// [`gae`] where several players move in turn and learn together: a delta spans from a move of a player to that player's next one,
///
/// ```text
/// delta[t]     = r + gamma V[u] - V[t]
/// advantage[t] = delta[t] + gamma lambda advantage[u]
/// ```
///
/// with u the next step in which the player of step t moves, and r the rewards of this player's side in the steps from t to before u. `rewards` are
/// those of the even players, and `values` those of the player who moves. If the episode ends before u, `V[u]` and `advantage[u]` are 0. Past the last
/// step, `V[u]` is `next_value`, negated for players who are not on the side of `next_mover`.
pub fn gae_of_players<const V: usize>(
    rewards: &[Row<V>],
    values: &[Row<V>],
    done: &[Row<V>],
    next_value: Row<V>,
    [gamma, decay]: [f32; 2],
    moves: &Moves<'_, V>,
    advantages: &mut [Row<V>],
) {
    let (gamma, decay) = (f32x16::splat(gamma), f32x16::splat(decay));
    for v in 0..V {
        for player in 0..moves.players {
            let number = f32x16::splat(player as f32);
            let side_of = side(number);
            let (mut value, mut next) = (side_of * side(moves.next_mover[v]) * next_value[v], f32x16::ZERO);
            let mut reward = f32x16::ZERO;
            for t in (0..advantages.len()).rev() {
                let goes_on = f32x16::ONE - done[t][v];
                (value, next) = (value * goes_on, next * goes_on);
                reward = fma(side_of, rewards[t][v], reward * goes_on);
                let moves = Float::eq(moves.movers[t][v], number);
                let delta = fma(gamma, value, reward) - values[t][v];
                let advantage = fma(decay, next, delta);
                advantages[t][v] = moves.select(advantage, advantages[t][v]);
                value = moves.select(values[t][v], value);
                next = moves.select(advantage, next);
                reward = moves.select(f32x16::ZERO, reward);
            }
        }
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

/// [`gae_of_players`] of plain arrays, with the same bits. `movers` are `(T + 1, N)`, below `players`: whose turn it was before each step, and is
/// after the last.
pub fn of_players_by_environment(
    [rewards, values]: [&[f32]; 2],
    ended: &[bool],
    (movers, players): (&[u32], u32),
    next_values: &[f32],
    [gamma, decay]: [f32; 2],
    advantages: &mut [f32],
) {
    let num_envs = next_values.len();
    let steps = advantages.len() / num_envs.max(1);
    let side = |player: u32| if player.is_multiple_of(2) { 1.0 } else { -1.0 };
    for (env, player) in (0..num_envs).flat_map(|env| (0..players).map(move |player| (env, player))) {
        let next_mover = movers[steps * num_envs + env];
        let (mut value, mut next) = (side(player) * side(next_mover) * next_values[env], 0.0f32);
        let mut reward = 0.0f32;
        for at in (0..steps).rev().map(|t| t * num_envs + env) {
            let goes_on = f32::from(!ended[at]);
            (value, next) = (value * goes_on, next * goes_on);
            reward = side(player).mul_add(rewards[at], reward * goes_on);
            if movers[at] == player {
                let delta = gamma.mul_add(value, reward) - values[at];
                next = decay.mul_add(next, delta);
                advantages[at] = next;
                (value, reward) = (values[at], 0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 16;

    /// The recursion of the page for one environment and one player, by looking ahead from each step.
    fn advantage(
        t: usize,
        game: &[(f64, f64, bool, usize)],
        end: (f64, usize),
        [gamma, decay]: [f64; 2],
    ) -> f64 {
        let sign = |player: usize, of: usize| if (player + of).is_multiple_of(2) { 1.0 } else { -1.0 };
        let player = game[t].3;
        let (mut reward, mut u) = (0.0, t);
        loop {
            reward += sign(player, 0) * game[u].0;
            if game[u].2 {
                return reward - game[t].1;
            }
            u += 1;
            if u == game.len() {
                return reward + gamma * sign(player, end.1) * end.0 - game[t].1;
            }
            if game[u].3 == player {
                return reward + gamma * game[u].1 - game[t].1
                    + decay * advantage(u, game, end, [gamma, decay]);
            }
        }
    }

    #[test]
    fn players_see_their_own_rewards_and_values() {
        const STEPS: usize = 24;
        let number = |k: usize| (k * 7919 % 1009) as f32 / 504.0 - 1.0;
        for players in [2u32, 4] {
            // In turn, but now and then somebody moves twice, and each environment ends its episodes at other steps.
            let mover = |t: usize, env: usize| ((t + env + t / 7) as u32 % players) as f32;
            let at = |f: &dyn Fn(usize, usize) -> f32, t: usize| {
                [f32x16::new(core::array::from_fn(|env| f(t, env)))]
            };
            let rows = |f: &dyn Fn(usize, usize) -> f32| (0..STEPS).map(|t| at(f, t)).collect::<Vec<_>>();
            let reward = |t: usize, env: usize| number(3 * t + 50 * env);
            let value = |t: usize, env: usize| number(11 * t + 70 * env + 5);
            let done = |t: usize, env: usize| f32::from((5 * t + 3 * env).is_multiple_of(11));
            let movers = rows(&mover);
            let moves = Moves { players, movers: &movers, next_mover: at(&mover, STEPS) };
            let mut advantages = vec![[f32x16::splat(f32::NAN)]; STEPS];
            let (gamma, decay) = (0.9, 0.9 * 0.8);
            gae_of_players::<1>(
                &rows(&reward),
                &rows(&value),
                &rows(&done),
                at(&value, STEPS),
                [gamma, decay],
                &moves,
                &mut advantages,
            );
            let plain = |f: &dyn Fn(usize, usize) -> f32, steps: usize| -> Vec<f32> {
                (0..steps)
                    .flat_map(|t| (0..BLOCK).map(move |env| (t, env)))
                    .map(|(t, env)| f(t, env))
                    .collect()
            };
            let mut own = vec![f32::NAN; STEPS * BLOCK];
            of_players_by_environment(
                [&plain(&reward, STEPS), &plain(&value, STEPS)],
                &plain(&done, STEPS).iter().map(|done| *done > 0.0).collect::<Vec<_>>(),
                (&plain(&mover, STEPS + 1).iter().map(|player| *player as u32).collect::<Vec<_>>(), players),
                &(0..BLOCK).map(|env| value(STEPS, env)).collect::<Vec<_>>(),
                [gamma, decay],
                &mut own,
            );
            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let lanes: Vec<f32> = advantages.iter().flat_map(|[row]| row.to_array()).collect();
            assert_eq!(bits(&own), bits(&lanes), "{players} players");
            for env in 0..BLOCK {
                let game: Vec<_> = (0..STEPS)
                    .map(|t| {
                        (
                            f64::from(reward(t, env)),
                            f64::from(value(t, env)),
                            done(t, env) > 0.0,
                            mover(t, env) as usize,
                        )
                    })
                    .collect();
                let end = (f64::from(value(STEPS, env)), mover(STEPS, env) as usize);
                for (t, row) in advantages.iter().enumerate() {
                    let expected = advantage(t, &game, end, [f64::from(gamma), f64::from(decay)]);
                    let got = f64::from(row[0].as_array()[env]);
                    assert!(
                        (got - expected).abs() < 1e-5,
                        "{players} players, step {t}, environment {env}: {got}, not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn one_player_is_a_special_case() {
        let row = |k: usize| [f32x16::splat((k * 37 % 19) as f32 / 9.0 - 1.0)];
        let rows = |first: usize| (first..first + 12).map(row).collect::<Vec<_>>();
        let done: Vec<_> = (0..12).map(|t| [f32x16::splat(f32::from(t % 5 == 4))]).collect();
        let (mut alone, mut game) = (vec![row(0); 12], vec![row(0); 12]);
        gae::<1>(&rows(1), &rows(40), &done, row(9), [0.99, 0.9], &mut alone);
        let moves = Moves { players: 1, movers: &vec![[f32x16::ZERO]; 12], next_mover: [f32x16::ZERO] };
        gae_of_players::<1>(&rows(1), &rows(40), &done, row(9), [0.99, 0.9], &moves, &mut game);
        let numbers = |rows: &[Row<1>]| rows.iter().flat_map(|[row]| row.to_array()).collect::<Vec<f32>>();
        for (a, b) in numbers(&alone).into_iter().zip(numbers(&game)) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }

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
