//! The hyperparameters of DQN alone.

use crate::algorithms::Algorithm;
use crate::config::Config;
use crate::settings;

settings! {
    /// The settings of DQN that no other algorithm has.
    pub struct Settings;
    in KeyGroup::Algorithm(Algorithm::Dqn);
    /// Double Q-learning: in a target, the trained network chooses the action and the target network evaluates it;
    /// otherwise the target network does both
    double_q: bool = true;
}

impl Config {
    /// The same configuration with other settings of DQN.
    #[must_use]
    pub fn dqn(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.algorithms.dqn);
        self
    }
}
