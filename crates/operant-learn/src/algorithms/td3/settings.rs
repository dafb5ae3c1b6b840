//! The hyperparameters of TD3 alone, under CleanRL's names.

use crate::algorithms::Algorithm;
use crate::config::Config;
use crate::settings;

settings! {
    /// What TD3 has besides what every algorithm with a replay has.
    pub struct Settings;
    in KeyGroup::Algorithm(Algorithm::Td3);
    /// Deviation of the noise on actions in rollouts, and in evaluations with sampled actions, where the bounds are -1 and 1
    exploration_noise: f64 [Kind::Real(Range::NotNegative)] = 0.1;
    /// Deviation of the noise on the target policy's actions
    policy_noise: f64 [Kind::Real(Range::NotNegative)] = 0.2;
    /// The noise on the target policy's actions is clipped to plus or minus this
    noise_clip: f64 [Kind::Real(Range::NotNegative)] = 0.5;
}

impl Config {
    /// The same configuration with other settings of TD3.
    #[must_use]
    pub fn td3(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.algorithms.td3);
        self
    }
}
