//! The hyperparameters of PPO alone, under CleanRL's names.

use crate::algorithms::Algorithm;
use crate::config::Config;
use crate::settings;

settings! {
    /// What PPO has besides what every algorithm has. The defaults are those of CleanRL's ppo.py.
    pub struct Settings;
    in KeyGroup::Algorithm(Algorithm::Ppo);
    /// Lambda of generalised advantage estimation
    gae_lambda: f64 [Kind::Real(Range::Unit)] = 0.95;
    /// Normalise advantages per minibatch
    norm_adv: bool = true;
    /// Clipping range of the probability ratio
    clip_coef: f64 [Kind::Real(Range::Positive)] = 0.2;
    /// Clip the value loss with the same range
    clip_vloss: bool = true;
    /// Weight of the entropy bonus
    ent_coef: f64 [Kind::Real(Range::NotNegative)] = 0.01;
    /// Weight of the value loss
    vf_coef: f64 [Kind::Real(Range::NotNegative)] = 0.5;
    /// Stop an update's epochs when `approx_kl` exceeds this; 0 never stops
    target_kl: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// Noise on the mean of real actions where an update computes log-probabilities (RPO, Rahman and Xue 2022): uniform within plus or
    /// minus this; 0 is PPO
    rpo_alpha: f64 [Kind::Real(Range::NotNegative)] = 0.0;
}

impl Config {
    /// The same configuration with other settings of PPO.
    #[must_use]
    pub fn ppo(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.algorithms.ppo);
        self
    }
}
