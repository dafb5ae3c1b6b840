//! The hyperparameters of DQN alone.

use crate::algorithms::Algorithm;
use crate::config::Config;
use crate::settings;

settings! {
    /// What DQN has besides what every algorithm with a replay, or with action values, has.
    pub struct Settings;
    in KeyGroup::Algorithm(Algorithm::Dqn);
    /// A target has the target network's value of the action that is the best by the trained network, and not the target's greatest value
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
