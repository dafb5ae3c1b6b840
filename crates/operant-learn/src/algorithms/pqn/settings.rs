//! The hyperparameters of PQN alone, under CleanRL's names.

use crate::algorithms::Algorithm;
use crate::config::Config;
use crate::settings;

settings! {
    /// What PQN has besides what every algorithm has.
    pub struct Settings;
    in KeyGroup::Algorithm(Algorithm::Pqn);
    /// Lambda of the returns: 0 looks one step ahead, 1 to the end of the rollout
    q_lambda: f64 [Kind::Real(Range::Unit)] = 0.65;
}

impl Config {
    /// The same configuration with other settings of PQN.
    #[must_use]
    pub fn pqn(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.algorithms.pqn);
        self
    }
}
