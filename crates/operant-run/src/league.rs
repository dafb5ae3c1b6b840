//! A round robin of players in a game, and their ratings.

use std::sync::Arc;

use operant_env::versus::play;
use operant_env::{AnyEnv, Opponent, StepError};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Games between two players: from the first one's view, as (wins, draws, losses).
pub type Score = [u32; 3];

/// Someone who takes part.
pub struct Player {
    /// The name, for people.
    pub name: String,
    /// Run and environment steps of a trained agent.
    pub trained: Option<(String, u64)>,
    /// Who chooses the moves.
    pub opponent: Arc<dyn Opponent>,
}

/// A player's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The player's name.
    pub name: String,
    /// The run of a trained agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Environment steps that it had trained for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_steps: Option<u64>,
    /// Elo rating: 400 points are odds of ten to one. 0 is the mean of all players, or the one named `random`.
    pub elo: f64,
    /// Lower end of the 95% interval of the rating.
    pub elo_low: f64,
    /// Upper end of the interval.
    pub elo_high: f64,
    /// Share of points over all games: 1 for a win, 1/2 for a draw.
    pub score: f64,
}

/// A finished round robin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct League {
    /// The game.
    pub env: String,
    /// Games of each pair.
    pub games: u32,
    /// Random moves at the start of each game.
    pub openings: u32,
    /// Ratings, in the order of the players.
    pub standings: Vec<Standing>,
    /// `[a][b]`: wins, draws and losses of a against b.
    pub scores: Vec<Vec<Score>>,
}

impl League {
    /// A league that was written as JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let league: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let count = league.standings.len();
        let is_square = league.scores.len() == count && league.scores.iter().all(|row| row.len() == count);
        if count < 2 || !is_square {
            return Err(format!("{count} players, and {} rows of scores", league.scores.len()));
        }
        Ok(league)
    }

    /// The players from the strongest to the weakest, each with the percent of the points that it has against all in this order; None against itself.
    pub fn ranked(&self) -> Vec<(&Standing, Vec<Option<f64>>)> {
        let mut order: Vec<usize> = (0..self.standings.len()).collect();
        order.sort_by(|a, b| self.standings[*b].elo.total_cmp(&self.standings[*a].elo));
        let percent = |at: usize, other: usize| {
            let [won, drawn, lost] = self.scores[at][other].map(f64::from);
            (other != at).then(|| 100.0 * (won + drawn / 2.0) / (won + drawn + lost).max(1.0))
        };
        let row =
            |at: &usize| (&self.standings[*at], order.iter().map(|other| percent(*at, *other)).collect());
        order.iter().map(row).collect()
    }

    /// What was played, in a line.
    pub fn summary(&self) -> String {
        let games = if self.games == 1 { "game" } else { "games" };
        format!("{} {games} of each pair, each after {} random moves", self.games, self.openings)
    }
}

/// Games in one job.
const JOB: u32 = 64;
/// Samples of the bootstrap.
const SAMPLES: u64 = 1000;
/// Enough for ratings that lie thousands of points apart.
const NEWTON_STEPS: usize = 200;

/// Plays `games` games of each pair, half of them with either side, which begin with random moves.
///
/// # Errors
/// When a player cannot play the game.
pub fn round_robin(
    game: &dyn AnyEnv,
    players: &[Player],
    games: u32,
    openings: u32,
    seed: u64,
) -> Result<League, StepError> {
    let count = players.len();
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let firsts = || (0..games).step_by(JOB as usize);
    let jobs: Vec<(usize, usize, u32)> =
        pairs.flat_map(|(a, b)| firsts().map(move |first| (a, b, first))).collect();
    let played = jobs.par_iter().with_max_len(1).map(|&(a, b, first)| {
        let pair = [&*players[a].opponent, &*players[b].opponent];
        let seed = seed.wrapping_add((a * count + b) as u64);
        play(game, pair, seed, openings.into(), first..games.min(first + JOB))
    });
    let mut scores = vec![vec![[0; 3]; count]; count];
    for ((a, b, _), results) in jobs.iter().zip(played.collect::<Result<Vec<_>, _>>()?) {
        for result in results {
            let won = if result > 0.0 {
                0
            } else if result < 0.0 {
                2
            } else {
                1
            };
            scores[*a][*b][won] += 1;
            scores[*b][*a][2 - won] += 1;
        }
    }
    Ok(League {
        env: game.spec().name,
        games,
        openings,
        standings: standings(players, &scores, seed),
        scores,
    })
}

/// Ratings with intervals: the games of each pair are drawn again, with replacement.
fn standings(players: &[Player], scores: &[Vec<Score>], seed: u64) -> Vec<Standing> {
    let zero = players.iter().position(|player| player.name == "random");
    let fitted = ratings(scores, zero);
    let sample = |k: u64| ratings(&resampled(scores, &mut (seed ^ k << 32)), zero);
    let samples: Vec<Vec<f64>> = (0..SAMPLES).into_par_iter().map(sample).collect();
    let standing = |(at, player): (usize, &Player)| {
        let mut own: Vec<f64> = samples.iter().map(|sample| sample[at]).collect();
        own.sort_by(f64::total_cmp);
        let quantile = |share: f64| own[((own.len() - 1) as f64 * share).round() as usize];
        let all = scores[at].iter().fold([0u32; 3], |all, score| [0, 1, 2].map(|k| all[k] + score[k]));
        let points = f64::from(all[0]) + f64::from(all[1]) / 2.0;
        let (run, env_steps) = player.trained.clone().unzip();
        Standing {
            name: player.name.clone(),
            run,
            env_steps,
            elo: fitted[at],
            elo_low: quantile(0.025),
            elo_high: quantile(0.975),
            score: points / f64::from(all.iter().sum::<u32>().max(1)),
        }
    };
    players.iter().enumerate().map(standing).collect()
}

/// The next number below `below`: SplitMix64.
fn draw(state: &mut u64, below: u32) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u64::from((word ^ word >> 31) as u32) * u64::from(below)) >> 32) as u32
}

fn resampled(scores: &[Vec<Score>], state: &mut u64) -> Vec<Vec<Score>> {
    let mut new = vec![vec![[0; 3]; scores.len()]; scores.len()];
    for a in 0..scores.len() {
        for b in a + 1..scores.len() {
            let [won, drawn, lost] = scores[a][b];
            for _ in 0..won + drawn + lost {
                let game = draw(state, won + drawn + lost);
                let result = if game < won {
                    0
                } else if game < won + drawn {
                    1
                } else {
                    2
                };
                new[a][b][result] += 1;
                new[b][a][2 - result] += 1;
            }
        }
    }
    new
}

/// Bradley-Terry ratings on Elo's scale: those with the greatest likelihood, by Newton's method; a draw is half a win. One draw is added to each pair, so that a
/// player who wins every game has a finite rating.
fn ratings(scores: &[Vec<Score>], zero: Option<usize>) -> Vec<f64> {
    let count = scores.len();
    let points = |score: &Score| f64::from(score[0]) + f64::from(score[1]) / 2.0 + 0.5;
    let games = |score: &Score| f64::from(score.iter().sum::<u32>()) + 1.0;
    // Logarithms of strengths; the first one stays 0.
    let mut strengths = vec![0.0f64; count];
    for _ in 0..NEWTON_STEPS {
        let free = count - 1;
        // Row a: the curvature for player a + 1, then the slope.
        let mut rows = vec![vec![0.0; free + 1]; free];
        for a in 0..count {
            for b in (0..count).filter(|b| *b != a) {
                let share = 1.0 / (1.0 + (strengths[b] - strengths[a]).exp());
                let curvature = games(&scores[a][b]) * share * (1.0 - share);
                let Some(row) = a.checked_sub(1).map(|a| &mut rows[a]) else { continue };
                row[free] += points(&scores[a][b]) - games(&scores[a][b]) * share;
                row[a - 1] += curvature;
                b.checked_sub(1).into_iter().for_each(|b| row[b] -= curvature);
            }
        }
        let change = solved(rows);
        let greatest = change.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        // The likelihood has one maximum, which short steps do not jump over.
        let scale = if greatest > 1.0 { 1.0 / greatest } else { 1.0 };
        strengths[1..].iter_mut().zip(&change).for_each(|(x, change)| *x += scale * change);
        if greatest < 1e-10 {
            break;
        }
    }
    let mean = strengths.iter().sum::<f64>() / count as f64;
    let origin = zero.map_or(mean, |at| strengths[at]);
    strengths.into_iter().map(|x| 400.0 / std::f64::consts::LN_10 * (x - origin)).collect()
}

/// The solution of linear equations with a positive definite matrix, `(n, n + 1)`, the right sides last.
fn solved(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rows.len();
    for pivot in 0..count {
        let (done, below) = rows.split_at_mut(pivot + 1);
        for row in below {
            let factor = row[pivot] / done[pivot][pivot];
            row.iter_mut().zip(&done[pivot]).for_each(|(to, from)| *to -= factor * from);
        }
    }
    let mut solution = vec![0.0; count];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|k| rows[row][k] * solution[k]).sum();
        solution[row] = (rows[row][count] - known) / rows[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use operant_env::Random;

    use super::*;

    #[test]
    fn ratings_are_the_odds_of_a_win() {
        // 75 of 100 points are odds of 3 to 1, and one added draw moves them a little: 75.5 to 25.5.
        let two = vec![vec![[0; 3], [70, 10, 20]], vec![[20, 10, 70], [0; 3]]];
        let [a, b]: [f64; 2] = ratings(&two, None).try_into().expect("two");
        assert!((a - b - 400.0 * (75.5f64 / 25.5).log10()).abs() < 1e-6 && (a + b).abs() < 1e-9);
        assert_eq!(ratings(&two, Some(1))[1], 0.0);
        // With three players who win against each other as their ratings say, the fit returns these.
        let (strong, middle, weak) = ([900, 0, 100], [500, 0, 500], [100, 0, 900]);
        let line = vec![vec![[0; 3], middle, strong], vec![middle, [0; 3], strong], vec![weak, weak, [0; 3]]];
        let [a, b, c]: [f64; 3] = ratings(&line, Some(2)).try_into().expect("three");
        let odds = 400.0 * (900.5f64 / 100.5).log10();
        assert!((a - b).abs() < 1e-6 && (a - odds).abs() < 1.0 && c == 0.0, "{a} {b} {odds}");
        let player = |name: &str| Player { name: name.to_owned(), trained: None, opponent: Arc::new(Random) };
        let all = standings(&["x", "y", "random"].map(player), &line, 1);
        assert!(
            all[0].elo_low < a && a < all[0].elo_high && all[0].elo_high - all[0].elo_low < 100.0,
            "{all:?}"
        );
        assert_eq!((all[2].elo, all[2].elo_low, all[2].elo_high), (0.0, 0.0, 0.0));
        assert!((all[0].score - 0.7).abs() < 1e-9);
    }

    #[test]
    fn players_who_always_win_are_as_far_apart_as_one_draw_says() {
        let count = 20;
        let score = |a: usize, b: usize| match a.cmp(&b) {
            std::cmp::Ordering::Less => [200, 0, 0],
            std::cmp::Ordering::Equal => [0; 3],
            std::cmp::Ordering::Greater => [0, 0, 200],
        };
        let scores: Vec<Vec<Score>> = (0..count).map(|a| (0..count).map(|b| score(a, b)).collect()).collect();
        let fitted = ratings(&scores, None);
        // At the maximum, every player's expected points are those it has.
        for a in 0..count {
            let others = || (0..count).filter(|b| *b != a);
            let expected: f64 =
                others().map(|b| 201.0 / (1.0 + 10f64.powf((fitted[b] - fitted[a]) / 400.0))).sum();
            let points: f64 = others().map(|b| if a < b { 200.5 } else { 0.5 }).sum();
            assert!((expected - points).abs() < 1e-6, "player {a}: {expected}, {points}");
            assert!((fitted[a] + fitted[count - 1 - a]).abs() < 1e-6, "{fitted:?}");
        }
    }
}
