//! Steps episodes of an agent, 16 at a time. The first one is shown.

use operant_draw::film::return_text;
use operant_env::play::{Outputs, RandomActions};
use operant_env::versus::PLAYER;
use operant_env::{ActionSpace, Autoreset, EnvSpec, LaneWidth, Scene, StepError, Stepper, TileSpec};
use operant_learn::EvalActions;
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};

use super::Cast;

/// Environments of a tile: the smallest size that a tile can have.
const ROWS: usize = 16;

/// The source of actions.
pub enum Agent {
    /// Uniformly random actions.
    Random,
    /// Actions of a policy: the most probable ones, or drawn ones.
    Policy { inference: Box<Inference>, actions: EvalActions },
}

/// The result of an episode so far, or at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Environment steps that the agent had trained for, where several checkpoints are shown.
    pub trained: Option<u64>,
    /// Number of the episode under this seed, from 0.
    pub number: u32,
    /// Undiscounted return.
    pub episodic_return: f64,
    /// Length in steps.
    pub steps: u32,
    /// Why the episode ended; `None` if it did not end.
    pub end: Option<&'static str>,
}

impl Outcome {
    /// Whether both are of one episode.
    pub fn is_of(&self, other: &Self) -> bool {
        (self.trained, self.number) == (other.trained, other.number)
    }

    /// `episode 1  step 12  return 12`, for the window and films; `trained 8192  step 12  return 12` of one checkpoint of several.
    pub fn note(&self) -> String {
        let which = match self.trained {
            Some(steps) => format!("trained {steps}"),
            None => format!("episode {}", self.number + 1),
        };
        format!("{which}  step {}  return {}", self.steps, return_text(self.episodic_return))
    }

    /// `episode 1: return 500, 500 steps, truncated`.
    pub fn line(&self) -> String {
        let end = self.end.unwrap_or("not ended");
        let trained = self.trained.map_or_else(String::new, |steps| format!("trained for {steps} steps, "));
        format!(
            "{trained}episode {}: return {}, {} steps, {end}\n",
            self.number + 1,
            return_text(self.episodic_return),
            self.steps
        )
    }
}

/// A tile of environments and the agent that plays them.
pub struct Tile<'a> {
    cast: &'a Cast,
    spec: EnvSpec,
    stepper: Box<dyn Stepper>,
    outputs: Outputs,
    random: RandomActions,
    /// Actions, `(components, R)`.
    actions: Vec<f32>,
    /// State of a policy with memory, `(R, sides, states)`. Rows play one episode each.
    memory: Vec<f32>,
    /// The leaf of a game's state that has the player to move.
    player: Option<usize>,
    step: u64,
    /// The outcome of each row's episode once it has ended.
    ended: [Option<Outcome>; ROWS],
    first: u32,
}

impl<'a> Tile<'a> {
    /// The episodes with the numbers `first` and up, before the first step: the same as those of `operant eval`.
    pub fn new(cast: &'a Cast, first: u32) -> Result<Self, StepError> {
        let Cast { env, agent, seed, .. } = cast;
        let seed = *seed;
        let spec = env.spec();
        let lanes = LaneWidth::WIDEST;
        // With this mode, the last state of an episode remains until the next step, so it can be drawn.
        let autoreset = Autoreset::NextStep;
        let tile = TileSpec { evaluation: true, lanes, autoreset, ..TileSpec::new(seed, first, ROWS) };
        let mut stepper = env.stepper(tile)?;
        let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
        stepper.observe(outputs.seen())?;
        let random = RandomActions::new(spec.actions.clone(), seed, first, ROWS);
        let actions = vec![0.0; spec.actions.components() * ROWS];
        let ended = std::array::from_fn(|_| None);
        let memory = match agent {
            Agent::Policy { inference, .. } => vec![0.0; spec.sides() * inference.states() * ROWS],
            Agent::Random => Vec::new(),
        };
        let player = env.leaves().iter().position(|leaf| spec.players > 1 && leaf.name == PLAYER);
        Ok(Tile { cast, spec, stepper, outputs, random, actions, memory, step: 0, ended, first, player })
    }

    /// Its environment.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Steps all rows. `own` replaces the action of the first row.
    pub fn step(&mut self, own: Option<f32>) -> Result<(), StepError> {
        self.act();
        if let Some(action) = own {
            self.actions[0] = action;
        }
        self.stepper.submit(&self.actions, self.step)?;
        self.stepper.collect(self.outputs.stepped())?;
        self.step += 1;
        for row in 0..ROWS {
            let [terminated, truncated] = self.outputs.ended(row);
            if self.ended[row].is_none() && (terminated || truncated) {
                let end = Some(if terminated { "terminated" } else { "truncated" });
                self.ended[row] = Some(Outcome { end, ..self.outcome(row) });
            }
        }
        Ok(())
    }

    /// Chooses the actions of all rows.
    fn act(&mut self) {
        let Agent::Policy { inference, actions: choose } = &self.cast.agent else {
            return self.random.fill(self.step, &self.outputs.legal, &mut self.actions);
        };
        let words = self.spec.obs.words();
        let obs: Vec<u32> =
            (0..ROWS * words).map(|i| self.outputs.obs[i % words * ROWS + i / words]).collect();
        let choices = match &self.spec.actions {
            ActionSpace::Discrete(choices) if self.cast.env.masked() => choices.iter().sum(),
            _ => 0,
        };
        let is_legal = |row: usize, bit: usize| self.outputs.legal[bit / 32 * ROWS + row] >> (bit % 32) & 1;
        let legal: Vec<i8> = (0..ROWS)
            .flat_map(|row| (0..choices).map(move |bit| (row, bit)))
            .map(|(row, bit)| is_legal(row, bit) as i8)
            .collect();
        let components = self.spec.actions.components();
        let mut actions = vec![0.0; ROWS * components];
        let legal = (choices > 0).then_some(legal.as_slice());
        let choice = match choose {
            EvalActions::Greedy => Choice::Greedy,
            EvalActions::Sampled => {
                Choice::Sampled { seed: self.cast.seed, first: self.first, step: self.step, evaluation: true }
            }
        };
        let states = inference.states();
        // Each side of a game has a memory of its own.
        let mut movers = [0; ROWS];
        if let Some(player) = self.player {
            self.stepper.leaf(player, &mut movers);
        }
        let sides = self.spec.sides();
        let own: [_; ROWS] = std::array::from_fn(|row| {
            let first = (row * sides + movers[row] as usize % sides) * states;
            first..first + states
        });
        let mut memory: Vec<f32> = own.iter().flat_map(|own| &self.memory[own.clone()]).copied().collect();
        inference.act(ObsRows::Words(&obs), legal, choice, &mut memory, &mut actions);
        for (own, after) in own.into_iter().zip(memory.chunks_exact(states.max(1))) {
            self.memory[own].copy_from_slice(after);
        }
        for (row, of_row) in actions.chunks_exact(components).enumerate() {
            of_row.iter().enumerate().for_each(|(k, action)| self.actions[k * ROWS + row] = *action);
        }
    }

    /// Whether a choice of the first action component is legal in the episode that is shown.
    pub fn is_legal(&self, choice: usize) -> bool {
        self.outputs.legal.get(choice / 32 * ROWS).is_none_or(|word| word >> (choice % 32) & 1 == 1)
    }

    /// The episode of a row so far.
    fn outcome(&self, row: usize) -> Outcome {
        let started = self.step > 0;
        Outcome {
            trained: self.cast.trained,
            number: self.first + row as u32,
            episodic_return: if started { f64::from(self.outputs.returns[row]) } else { 0.0 },
            steps: if started { self.outputs.lengths[row] } else { 0 },
            end: None,
        }
    }

    /// The outcome of the episode that is shown, or its progress.
    pub fn shown(&self) -> Outcome {
        self.ended[0].clone().unwrap_or_else(|| self.outcome(0))
    }

    /// The scene of the episode that is shown.
    pub fn scene(&self) -> Scene {
        let mut words = vec![0; self.cast.env.leaves().len()];
        self.stepper.state(0, &mut words);
        self.cast.env.picture(&words)
    }
}

/// Plays the first `count` episodes to the end.
pub fn play(cast: &Cast, count: u32) -> Result<Vec<Outcome>, StepError> {
    let mut outcomes = Vec::new();
    for first in (0..count).step_by(ROWS) {
        let mut tile = Tile::new(cast, first)?;
        while tile.ended.iter().any(Option::is_none) {
            tile.step(None)?;
        }
        outcomes.extend(tile.ended.into_iter().flatten());
    }
    outcomes.truncate(count as usize);
    Ok(outcomes)
}
