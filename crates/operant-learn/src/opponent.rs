//! A trained policy as the opponent in a game.

use operant_env::versus::{Asked, Opponent, OpponentTile};
use operant_env::{ActionSpace, AnyEnv, StepError, TileSpec};

use std::sync::Arc;

use crate::cpu::inference::{Choice, Inference, ObsRows};

/// A policy that draws its moves, or takes the most probable ones.
pub struct PolicyOpponent {
    name: String,
    policy: Arc<Inference>,
    is_greedy: bool,
}

impl PolicyOpponent {
    /// A policy by its name for people.
    pub fn new(name: String, policy: Inference, is_greedy: bool) -> Self {
        Self { name, policy: Arc::new(policy), is_greedy }
    }
}

/// Separates its draws from the agent's.
const SEED: u64 = 0x706f_6c69_6379;

/// The policy of a block of 16 environments of a tile.
pub(crate) type PolicyOf = Box<dyn Fn(usize) -> Arc<Inference> + Send>;

/// Policies of one network that move in a tile.
pub(crate) struct PolicyTile {
    policy_of: PolicyOf,
    is_greedy: bool,
    rows: usize,
    /// Words of the network's memory.
    memory: usize,
    /// Choices of all components.
    choices: usize,
    obs: Vec<u32>,
    legal: Vec<i8>,
    states: Vec<f32>,
    actions: Vec<f32>,
}

impl PolicyTile {
    pub(crate) fn new(
        env: &dyn AnyEnv,
        tile: TileSpec,
        memory: usize,
        is_greedy: bool,
        policy_of: PolicyOf,
    ) -> Self {
        let (spec, rows) = (env.spec(), tile.rows);
        let choices = match &spec.actions {
            ActionSpace::Discrete(choices) if env.masked() => choices.iter().sum(),
            _ => 0,
        };
        Self {
            policy_of,
            is_greedy,
            rows,
            memory,
            choices,
            obs: vec![0; spec.obs.words() * rows],
            legal: vec![0; choices * rows],
            states: vec![0.0; memory * rows],
            actions: vec![0.0; spec.actions.components() * rows],
        }
    }

    /// Words of each environment: observation, legal choices, memory and action once more.
    pub(crate) fn words(env: &dyn AnyEnv, memory: usize) -> usize {
        let spec = env.spec();
        spec.obs.words() + 8 * spec.actions.mask_words() + memory + spec.actions.components()
    }
}

impl Opponent for PolicyOpponent {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn memory(&self) -> usize {
        self.policy.states()
    }

    fn words(&self, env: &dyn AnyEnv) -> usize {
        PolicyTile::words(env, self.policy.states())
    }

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        let policy = Arc::clone(&self.policy);
        let policy_of = Box::new(move |_| Arc::clone(&policy));
        Ok(Box::new(PolicyTile::new(env, tile, self.policy.states(), self.is_greedy, policy_of)))
    }
}

/// Transposes `(W, R)` to `(R, W)`.
fn transpose<A: Copy, B>(from: &[A], rows: usize, to: &mut [B], convert: impl Fn(A) -> B) {
    if rows == 0 {
        return;
    }
    let width = from.len() / rows;
    for (word, column) in from.chunks_exact(rows).enumerate() {
        for (row, x) in column.iter().enumerate() {
            to[row * width + word] = convert(*x);
        }
    }
}

impl OpponentTile for PolicyTile {
    /// Computes rows that are not asked too, so that the draws of a row do not depend on the others.
    fn act(&mut self, asked: &Asked<'_>, memory: &mut [u32], actions: &mut [f32]) -> Result<(), StepError> {
        let rows = self.rows;
        transpose(asked.obs, rows, &mut self.obs, |word| word);
        for row in 0..rows {
            for choice in 0..self.choices {
                let word = asked.legal[choice / 32 * rows + row];
                self.legal[row * self.choices + choice] = (word >> (choice % 32) & 1) as i8;
            }
        }
        transpose(memory, rows, &mut self.states, f32::from_bits);
        let (words, states) = (self.obs.len() / rows, self.memory);
        let components = self.actions.len() / rows;
        let policies: Vec<_> = (0..rows.div_ceil(16)).map(&self.policy_of).collect();
        let goes_on = |row: &usize| {
            let (before, key) = (asked.keys[row - 1], asked.keys[*row]);
            before.0 == key.0
                && before.1.wrapping_add(1) == key.1
                && Arc::ptr_eq(&policies[(row - 1) / 16], &policies[row / 16])
        };
        // Rows of one policy and one seed with consecutive numbers; a tile has rows of other seeds where they were reset with seeds of their own.
        let mut to = 0;
        while to < rows {
            let from = to;
            to = (from + 1..rows).find(|row| !goes_on(row)).unwrap_or(rows);
            if !(from..to).any(|row| asked.rows[row / 16] >> (row % 16) & 1 == 1) {
                continue;
            }
            let key = asked.keys[from];
            let choice = match self.is_greedy {
                true => Choice::Greedy,
                false => Choice::Sampled {
                    seed: key.0 ^ SEED,
                    first: key.1,
                    step: asked.step,
                    evaluation: asked.evaluation,
                },
            };
            let of = |width: usize| from * width..to * width;
            let legal = (self.choices > 0).then(|| &self.legal[of(self.choices)]);
            policies[from / 16].act(
                ObsRows::Words(&self.obs[of(words)]),
                legal,
                choice,
                &mut self.states[of(states)],
                &mut self.actions[of(components)],
            );
        }
        transpose(&self.actions, actions.len() / rows, actions, |x| x);
        for row in (0..rows).filter(|row| asked.rows[row / 16] >> (row % 16) & 1 == 1) {
            for state in 0..states {
                memory[state * rows + row] = self.states[row * states + state].to_bits();
            }
        }
        Ok(())
    }
}
