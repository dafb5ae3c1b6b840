//! Past policies of a run as the opponents in its game (docs/two-players.md).

use std::any::Any;
use std::num::Wrapping;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use operant_env::versus::{Opponent, OpponentTile};
use operant_env::{AnyEnv, StepError, TileSpec};
use operant_lane::{Draws, Purpose};

use crate::backend::LearnError;
use crate::config::Config;
use crate::cpu::inference::Inference;
use crate::cpu::rollout::episodes::EpisodeStats;
use crate::opponent::PolicyTile;
use crate::trained::TrainedPolicy;

crate::choice! {
    /// How a pool draws the opponent of a block of environments.
    pub enum PoolSampling {
        /// Each with the same probability.
        Uniform = "uniform",
        /// In proportion to (1 - p)^2, where p is the agent's share of the points against it.
        Hardest = "hardest",
    }
}

/// Which policies a pool has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolOptions {
    /// Past policies that it holds; a new one takes the place of the oldest.
    pub size: usize,
    /// Updates between two that enter.
    pub interval: u64,
    /// Share of the blocks whose opponent is the latest policy.
    pub latest: f64,
    /// How the others are drawn.
    pub sampling: PoolSampling,
}

/// Environments that share an opponent in a rollout.
const BLOCK: usize = 16;

/// Separates its draws from those of games.
const STREAM: u64 = 0x706f_6f6c;

/// What is left of earlier results after each update, since the agent changes.
const REMEMBERED: f64 = 0.95;

/// Copies of the parameters of a policy: the parameters, their packed forms, and those of a checkpoint while it is saved.
const COPIES: usize = 1 + 4 + 2;

/// Rows of the buffers of a policy: those of 64 and of 16 environments, on a few threads.
const BUFFERED: usize = 4 * (64 + 16);

/// Plays one side with the policies that a run had earlier. A backend at a time trains against it.
pub struct Pool {
    options: PoolOptions,
    /// The policy that training begins with.
    first: Arc<Inference>,
    members: Mutex<Members>,
    playing: Playing,
}

/// The policy that each block of environments plays against.
type Playing = Arc<RwLock<Vec<Arc<Inference>>>>;

#[derive(Default)]
struct Members {
    all: Vec<Member>,
    /// `[block]`: the member that it plays against; None for the latest policy.
    drawn: Vec<Option<usize>>,
}

struct Member {
    policy: Arc<Inference>,
    /// The agent's points against it (a draw is half a point) and the games.
    results: [f64; 2],
}

impl Member {
    /// The weight with which it is drawn.
    fn weight(&self, sampling: PoolSampling) -> f64 {
        let [points, games] = self.results;
        // As if the first game had been a draw.
        let share = ((points + 0.5) / (games + 1.0)).clamp(0.0, 1.0);
        match sampling {
            PoolSampling::Uniform => 1.0,
            // An agent that wins all games meets all of them.
            PoolSampling::Hardest => (1.0 - share).powi(2).max(1e-6),
        }
    }
}

/// What a checkpoint holds of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolState {
    /// `(members, parameters)`.
    pub params: Vec<f32>,
    /// `(members, 2)`: the agent's points and the games.
    pub results: Vec<f64>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool for runs of this configuration in `game`.
    ///
    /// # Errors
    /// When the configuration cannot be trained in the game, or not against a pool.
    pub fn new(game: &dyn AnyEnv, config: &Config, options: PoolOptions) -> Result<Self, LearnError> {
        let refused = if config.algorithm.declaration().has_replay() {
            let problem = format!(
                "\"{}\" learns from a replay, which has games against policies that have left the pool",
                config.algorithm
            );
            Some(("algorithm", problem, "set algorithm = \"ppo\" or \"pqn\""))
        } else if config.norm_obs {
            let problem = "true, but the policies of a pool keep no statistics of observations".to_owned();
            Some(("norm_obs", problem, "set norm_obs = false"))
        } else {
            None
        };
        if let Some((key, problem, remedy)) = refused {
            return Err(LearnError::Config { key, problem, remedy: remedy.to_owned() });
        }
        let first = Arc::new(Inference::new(TrainedPolicy::untrained(game, config)?));
        Ok(Self { options, first, members: Mutex::default(), playing: Playing::default() })
    }

    /// The pool that plays the other side in this environment, if one does.
    pub(crate) fn of(env: &dyn AnyEnv) -> Option<&Self> {
        let opponent: &dyn Any = env.versus()?.opponent();
        opponent.downcast_ref()
    }

    fn policy(&self, params: Vec<f32>) -> Arc<Inference> {
        let first = self.first.trained().clone();
        Arc::new(Inference::new(TrainedPolicy { params, ..first }))
    }

    /// Before the rollout of update number `update`, with these parameters: a policy enters if it is time, and each block of environments gets an
    /// opponent.
    pub(crate) fn begin(&self, params: &[f32], update: u64, config: &Config) {
        let PoolOptions { size, interval, latest, sampling } = self.options;
        let now = self.policy(params.to_vec());
        let members = &mut *lock(&self.members);
        if members.all.is_empty() || update.is_multiple_of(interval) {
            members.all.push(Member { policy: Arc::clone(&now), results: [0.0; 2] });
            let oldest = members.all.len().saturating_sub(size);
            members.all.drain(..oldest);
        }
        let weights: Vec<f64> = members.all.iter().map(|member| member.weight(sampling)).collect();
        let of_block = |block: usize| {
            let (seed, block) = (config.seed ^ STREAM, Wrapping(block as u32));
            let mut draws = Draws::<f32>::at(seed, block, update, Purpose::Opponent);
            let [share, place] = [draws.unit(), draws.unit()].map(f64::from);
            (share >= latest).then(|| drawn(&weights, place))
        };
        members.drawn = (0..config.num_envs.div_ceil(BLOCK)).map(of_block).collect();
        let policies = members.drawn.iter().map(|member| member.map_or(&now, |k| &members.all[k].policy));
        *self.playing.write().unwrap_or_else(PoisonError::into_inner) = policies.cloned().collect();
    }

    /// Counts the episodes of each block of environments, which ended in the rollout.
    pub(crate) fn count(&self, blocks: impl Iterator<Item = EpisodeStats>) {
        let Members { all, drawn } = &mut *lock(&self.members);
        all.iter_mut().flat_map(|member| &mut member.results).for_each(|sum| *sum *= REMEMBERED);
        for (member, block) in drawn.iter().zip(blocks) {
            let Some(member) = member.map(|k| &mut all[k]) else { continue };
            let games = block.count as f64;
            member.results[0] += f64::midpoint(games, block.sum());
            member.results[1] += games;
        }
    }

    /// What a checkpoint holds of it.
    pub(crate) fn state(&self) -> PoolState {
        let Members { all, .. } = &*lock(&self.members);
        PoolState {
            params: all.iter().flat_map(|member| &member.policy.trained().params).copied().collect(),
            results: all.iter().flat_map(|member| member.results).collect(),
        }
    }

    /// Continues from a checkpoint; without one, the pool becomes empty.
    pub(crate) fn restore(&self, state: Option<&PoolState>) {
        let length = self.first.trained().params.len();
        let members = state.into_iter().flat_map(|PoolState { params, results }| {
            params
                .chunks_exact(length)
                .zip(results.as_chunks().0)
                .map(|(params, results)| Member { policy: self.policy(params.to_vec()), results: *results })
        });
        let mut all: Vec<Member> = members.collect();
        // A resumed run may have a smaller pool.
        all.drain(..all.len().saturating_sub(self.options.size));
        *lock(&self.members) = Members { all, drawn: Vec::new() };
        self.playing.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The index at `place` of the sum of the weights, from 0 to 1.
fn drawn(weights: &[f64], place: f64) -> usize {
    let mut rest = place * weights.iter().sum::<f64>();
    let is_there = |weight: &f64| {
        rest -= weight;
        rest < 0.0
    };
    weights.iter().position(is_there).unwrap_or(weights.len() - 1)
}

impl Opponent for Pool {
    fn name(&self) -> String {
        "pool".into()
    }

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        let (playing, first) = (Arc::clone(&self.playing), tile.first as usize / BLOCK);
        let untrained = Arc::clone(&self.first);
        let policy_of = move |block: usize| {
            let playing = playing.read().unwrap_or_else(PoisonError::into_inner);
            // Before the first rollout.
            Arc::clone(playing.get(first + block).unwrap_or(&untrained))
        };
        Ok(Box::new(PolicyTile::new(env, tile, self.first.states(), false, Box::new(policy_of))))
    }

    fn memory(&self) -> usize {
        self.first.states()
    }

    fn words(&self, env: &dyn AnyEnv) -> usize {
        PolicyTile::words(env, self.first.states())
    }

    fn shared_words(&self) -> usize {
        let TrainedPolicy { params, network, .. } = self.first.trained();
        // The buffers in which a thread computes a policy.
        let buffers: usize = network.layers().map(|layer| BUFFERED * layer.outputs).sum();
        (self.options.size + 2) * (COPIES * params.len() + buffers)
    }

    fn is_of_the_run(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_drawn_by_their_weights() {
        let weights = [1.0, 0.0, 3.0];
        let places: Vec<usize> = (0..8).map(|k| drawn(&weights, f64::from(k) / 8.0)).collect();
        assert_eq!(places, [0, 0, 2, 2, 2, 2, 2, 2]);
        assert_eq!(drawn(&weights, 1.0), 2, "by rounding");
    }

    #[test]
    fn those_that_win_are_the_hardest() {
        let game = operant_env::builtin().find("connect_four").expect("built in").clone();
        let options = PoolOptions { size: 3, interval: 2, latest: 0.25, sampling: PoolSampling::Hardest };
        let config = Config { num_envs: 16 * 4_000, hidden: vec![4], ..Config::default() };
        let pool = Pool::new(&*game, &config, options).expect("a pool");
        let params = |update: u64| vec![update as f32; pool.first.trained().params.len()];
        let begin = |update: u64| pool.begin(&params(update), update, &config);
        let block = |returns: &[f64]| {
            let mut stats = EpisodeStats::default();
            returns.iter().for_each(|x| stats.add(*x, 9));
            stats
        };
        (0..8).for_each(begin);
        let members = || -> Vec<f32> {
            let PoolState { params, .. } = pool.state();
            params.into_iter().step_by(pool.first.trained().params.len()).collect()
        };
        assert_eq!(members(), [2.0, 4.0, 6.0], "one in two updates, and three at most");
        let share = || -> [f64; 4] {
            let Members { drawn, .. } = &*lock(&pool.members);
            [None, Some(0), Some(1), Some(2)]
                .map(|it| drawn.iter().filter(|drawn| **drawn == it).count() as f64 / 4_000.0)
        };
        let close = |found: [f64; 4], expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.02), "{found:?}, {expected:?}");
        };
        close(share(), [0.25; 4]);
        // Against member 0 all is won, against 1 half, against 2 nothing.
        let drawn = lock(&pool.members).drawn.clone();
        let of_block = |member: &Option<usize>| match member {
            None => block(&[1.0]),
            Some(0) => block(&[1.0, 1.0]),
            Some(1) => block(&[1.0, -1.0, 0.0]),
            _ => block(&[-1.0]),
        };
        pool.count(drawn.iter().map(of_block));
        begin(9);
        close(share(), [0.25, 0.0, 0.75 * 0.2, 0.75 * 0.8]);
        assert_eq!(members(), [2.0, 4.0, 6.0], "not in an odd one");
        let state = pool.state();
        let games = state.results.as_chunks::<2>().0;
        assert!(games[0][0] == games[0][1] && 2.0 * games[1][0] == games[1][1] && games[2][0] == 0.0);
        pool.restore(Some(&state));
        assert_eq!(pool.state(), state);
        // A smaller pool keeps the latest.
        let small = Pool::new(&*game, &config, PoolOptions { size: 1, ..options }).expect("a pool");
        small.restore(Some(&state));
        assert_eq!(small.state().params, params(6));
        assert_eq!(small.state().results, state.results[4..]);
        pool.restore(None);
        assert_eq!(members(), [0.0; 0]);
    }
}
