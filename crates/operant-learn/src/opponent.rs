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

struct PolicyTile {
    policy: Arc<Inference>,
    is_greedy: bool,
    rows: usize,
    /// Choices of all components.
    choices: usize,
    obs: Vec<u32>,
    legal: Vec<i8>,
    states: Vec<f32>,
    actions: Vec<f32>,
}

impl Opponent for PolicyOpponent {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn memory(&self) -> usize {
        self.policy.states()
    }

    /// Observation, legal choices, memory and action of each environment once more.
    fn words(&self, env: &dyn AnyEnv) -> usize {
        let spec = env.spec();
        spec.obs.words() + 8 * spec.actions.mask_words() + self.policy.states() + spec.actions.components()
    }

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        let (spec, rows) = (env.spec(), tile.rows);
        let choices = match &spec.actions {
            ActionSpace::Discrete(choices) if env.masked() => choices.iter().sum(),
            _ => 0,
        };
        Ok(Box::new(PolicyTile {
            policy: Arc::clone(&self.policy),
            is_greedy: self.is_greedy,
            rows,
            choices,
            obs: vec![0; spec.obs.words() * rows],
            legal: vec![0; choices * rows],
            states: vec![0.0; self.policy.states() * rows],
            actions: vec![0.0; spec.actions.components() * rows],
        }))
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
        let (words, states) = (self.obs.len() / rows, self.policy.states());
        let components = self.actions.len() / rows;
        // Rows of one seed with consecutive numbers; all of a tile, unless they were reset with seeds of their own.
        let mut first = 0;
        for keys in asked.keys.chunk_by(|a, b| a.0 == b.0 && b.1 == a.1.wrapping_add(1)) {
            let (from, to) = (first, first + keys.len());
            first = to;
            if !(from..to).any(|row| asked.rows[row / 16] >> (row % 16) & 1 == 1) {
                continue;
            }
            let choice = match self.is_greedy {
                true => Choice::Greedy,
                false => Choice::Sampled {
                    seed: keys[0].0 ^ SEED,
                    first: keys[0].1,
                    step: asked.step,
                    evaluation: asked.evaluation,
                },
            };
            let of = |width: usize| from * width..to * width;
            let legal = (self.choices > 0).then(|| &self.legal[of(self.choices)]);
            self.policy.act(
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
