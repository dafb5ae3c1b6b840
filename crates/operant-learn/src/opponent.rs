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
    tile: TileSpec,
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

    fn tile(&self, env: &dyn AnyEnv, tile: TileSpec) -> Result<Box<dyn OpponentTile>, StepError> {
        let (spec, rows) = (env.spec(), tile.rows);
        let choices = match &spec.actions {
            ActionSpace::Discrete(choices) if env.masked() => choices.iter().sum(),
            _ => 0,
        };
        Ok(Box::new(PolicyTile {
            policy: Arc::clone(&self.policy),
            is_greedy: self.is_greedy,
            tile,
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
    /// Computes all rows, so that the draws of a row do not depend on the others.
    fn act(&mut self, asked: &Asked<'_>, memory: &mut [u32], actions: &mut [f32]) -> Result<(), StepError> {
        let rows = self.tile.rows;
        transpose(asked.obs, rows, &mut self.obs, |word| word);
        for row in 0..rows {
            for choice in 0..self.choices {
                let word = asked.legal[choice / 32 * rows + row];
                self.legal[row * self.choices + choice] = (word >> (choice % 32) & 1) as i8;
            }
        }
        transpose(memory, rows, &mut self.states, f32::from_bits);
        let choice = match self.is_greedy {
            true => Choice::Greedy,
            false => Choice::Sampled {
                seed: self.tile.seed ^ SEED,
                first: self.tile.first,
                step: asked.step,
                evaluation: self.tile.evaluation,
            },
        };
        let legal = (self.choices > 0).then_some(&*self.legal);
        self.policy.act(ObsRows::Words(&self.obs), legal, choice, &mut self.states, &mut self.actions);
        transpose(&self.actions, actions.len() / rows, actions, |x| x);
        let states = self.policy.states();
        for row in (0..rows).filter(|row| asked.rows[row / 16] >> (row % 16) & 1 == 1) {
            for state in 0..states {
                memory[state * rows + row] = self.states[row * states + state].to_bits();
            }
        }
        Ok(())
    }
}
