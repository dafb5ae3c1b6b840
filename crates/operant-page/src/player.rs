//! Plays one episode at a time, as `operant play` does.

use std::sync::Arc;

use operant_env::play::Outputs;
use operant_env::{
    ActionSpace, AnyEnv, Autoreset, EnvSpec, LaneWidth, Scene, StepError, Stepper, TileSpec, Versus,
};
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::opponent::PolicyOpponent;

use crate::bundle::Bundle;

/// Environments of a tile: the smallest size that a tile can have. The first one is played.
const ROWS: usize = 16;

/// Who has the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nobody: the agent plays.
    Agent,
    /// The reader. In a game the agent plays the other side.
    Reader,
}

/// How an episode stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Running = 0,
    /// The rules ended it.
    Terminated = 1,
    /// The time limit ended it.
    Truncated = 2,
}

/// An environment and its agent.
pub struct Player {
    /// What the agent plays, and what the reader plays.
    envs: [Arc<dyn AnyEnv>; 2],
    inference: Inference,
    episode: Episode,
    /// Whether actions are drawn from the policy.
    pub is_sampled: bool,
}

/// The episode that is played.
struct Episode {
    side: Side,
    seed: u64,
    number: u32,
    spec: EnvSpec,
    stepper: Box<dyn Stepper>,
    outputs: Outputs,
    /// `(components, R)`.
    actions: Vec<f32>,
    /// The state of a policy with memory.
    memory: Vec<f32>,
    step: u64,
    status: Status,
}

impl Episode {
    fn new(env: &dyn AnyEnv, side: Side, seed: u64, number: u32, memory: usize) -> Result<Self, StepError> {
        let spec = env.spec();
        // With this mode, the last state of an episode remains until the next step, so it can be drawn.
        let tile = TileSpec {
            count: 1,
            evaluation: true,
            lanes: LaneWidth::WIDEST,
            autoreset: Autoreset::NextStep,
            ..TileSpec::new(seed, number, ROWS)
        };
        let mut stepper = env.stepper(tile)?;
        let mut outputs = Outputs::new(&spec, env.masked(), ROWS);
        stepper.observe(outputs.seen())?;
        let actions = vec![0.0; spec.actions.components() * ROWS];
        let (memory, status) = (vec![0.0; memory], Status::Running);
        Ok(Episode { side, seed, number, spec, stepper, outputs, actions, memory, step: 0, status })
    }

    /// A column of words with R in a row.
    fn column(words: &[u32]) -> impl Iterator<Item = u32> {
        words.iter().step_by(ROWS).copied()
    }

    /// Whether a choice of the first action component is legal.
    fn is_legal(&self, choice: usize) -> bool {
        self.outputs.legal.get(choice / 32 * ROWS).is_none_or(|word| word >> (choice % 32) & 1 == 1)
    }

    /// Chooses the action of the agent.
    fn act(&mut self, inference: &Inference, is_sampled: bool) {
        let obs: Vec<u32> = Self::column(&self.outputs.obs).collect();
        let choices = match &self.spec.actions {
            ActionSpace::Discrete(choices) if !self.outputs.legal.is_empty() => choices.iter().sum(),
            _ => 0,
        };
        let words: Vec<u32> = Self::column(&self.outputs.legal).collect();
        let legal: Vec<i8> = (0..choices).map(|bit| (words[bit / 32] >> (bit % 32) & 1) as i8).collect();
        let choice = match is_sampled {
            false => Choice::Greedy,
            true => {
                Choice::Sampled { seed: self.seed, first: self.number, step: self.step, evaluation: true }
            }
        };
        let mut action = vec![0.0; self.spec.actions.components()];
        let legal = (choices > 0).then_some(legal.as_slice());
        inference.act(ObsRows::Words(&obs), legal, choice, &mut self.memory, &mut action);
        self.actions.iter_mut().step_by(ROWS).zip(action).for_each(|(to, action)| *to = action);
    }

    fn step(&mut self) -> Result<(), StepError> {
        self.stepper.submit(&self.actions, self.step)?;
        self.stepper.collect(self.outputs.stepped())?;
        self.step += 1;
        self.status = match self.outputs.ended(0) {
            [true, _] => Status::Terminated,
            [_, true] => Status::Truncated,
            _ => Status::Running,
        };
        Ok(())
    }
}

impl Player {
    /// The first episode of a bundle with these weights, played by the agent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(bundle: &Bundle, numbers: &[f32], seed: u64) -> Result<Self, String> {
        let env = bundle.world.make()?;
        let agents = bundle.opposed(&env)?;
        let inference = bundle.policy(&*env, numbers)?;
        let readers = match env.spec().players {
            1 => Arc::clone(&env),
            _ => {
                let agent = PolicyOpponent::new("the agent".into(), bundle.policy(&*env, numbers)?, true);
                Arc::new(Versus::new(env, Arc::new(agent)))
            }
        };
        let episode = Episode::new(&*agents, Side::Agent, seed, 0, inference.states());
        let episode = episode.map_err(|error| error.to_string())?;
        Ok(Self { envs: [agents, readers], inference, episode, is_sampled: false })
    }

    /// Begins the episode of this number under a seed.
    ///
    /// # Errors
    /// When the environment failed.
    pub fn restart(&mut self, side: Side, seed: u64, number: u32) -> Result<(), StepError> {
        let env = &self.envs[side as usize];
        self.episode = Episode::new(&**env, side, seed, number, self.inference.states())?;
        Ok(())
    }

    /// Steps the episode, unless it has ended: with the reader's action, or that of the agent.
    ///
    /// # Errors
    /// When the environment failed.
    pub fn step(&mut self, own: Option<f32>) -> Result<Status, StepError> {
        if self.episode.status != Status::Running {
            return Ok(self.episode.status);
        }
        match own {
            Some(action) if self.episode.side == Side::Reader => self.episode.actions[0] = action,
            _ => self.episode.act(&self.inference, self.is_sampled),
        }
        self.episode.step()?;
        Ok(self.episode.status)
    }

    /// Plays the episode on, up to `most` steps. Returns a hash of the states, observations and legal choices on the way (FNV-1a, a word at
    /// a time).
    ///
    /// # Errors
    /// When the environment failed.
    pub fn finish(&mut self, most: u32) -> Result<u64, StepError> {
        let hash = |hash: u64, word: u32| (hash ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01b3);
        let mut trace = self.words().into_iter().fold(0xcbf2_9ce4_8422_2325, hash);
        for _ in 0..most {
            let status = self.step(None)?;
            trace = self.words().into_iter().fold(trace, hash);
            if status != Status::Running {
                break;
            }
        }
        Ok(trace)
    }

    /// Whether a choice of the first action component is legal.
    pub fn is_legal(&self, choice: usize) -> bool {
        self.episode.is_legal(choice)
    }

    /// The undiscounted return so far.
    pub fn episodic_return(&self) -> f32 {
        if self.episode.step > 0 { self.episode.outputs.returns[0] } else { 0.0 }
    }

    /// Steps so far.
    pub fn steps(&self) -> u32 {
        if self.episode.step > 0 { self.episode.outputs.lengths[0] } else { 0 }
    }

    /// The last action.
    pub fn action(&self) -> impl Iterator<Item = f32> {
        self.episode.actions.iter().step_by(ROWS).copied()
    }

    /// The words of the state, its observation and its legal choices.
    pub fn words(&self) -> Vec<u32> {
        let mut words = vec![0; self.envs[self.episode.side as usize].leaves().len()];
        self.episode.stepper.state(0, &mut words);
        let Outputs { obs, legal, .. } = &self.episode.outputs;
        words.extend(Episode::column(obs).chain(Episode::column(legal)));
        words
    }

    /// The picture of the state.
    pub fn scene(&self) -> Scene {
        let env = &self.envs[self.episode.side as usize];
        let mut words = vec![0; env.leaves().len()];
        self.episode.stepper.state(0, &mut words);
        env.picture(&words)
    }
}
