//! The hyperparameters of SAC alone.

use crate::algorithms::Algorithm;
use crate::config::Config;
use crate::settings;

settings! {
    /// What SAC has besides what every algorithm with a replay has.
    pub struct Settings;
    in KeyGroup::Algorithm(Algorithm::Sac);
    /// Weight of the entropy; where it is learned, at the start
    alpha: f64 [Kind::Real(Range::Positive)] = 1.0;
    /// Learn the weight of the entropy, so that the entropy tends to `target_entropy` times the number of actions
    autotune: bool = true, fixed("the checkpoint holds it");
    /// Entropy of each action, squashed to -1 .. 1, that `autotune` aims at, in nats
    target_entropy: f64 [Kind::Real(Range::Any)] = -1.0;
}

impl Config {
    /// The same configuration with other settings of SAC.
    #[must_use]
    pub fn sac(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.algorithms.sac);
        self
    }
}
