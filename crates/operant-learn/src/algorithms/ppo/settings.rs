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
    /// Let the network compute values in units of the running deviation of returns, from their running mean
    norm_value: bool = false, fixed("the weights were trained for it");
    /// Epochs of the critic alone that follow those of an update; they need `shared_trunk = false`
    vf_epochs: usize [Kind::Count { least: 0, most: 10_000 }] = 0;
    /// Advantages that `recompute_advantages` computes have their TD errors weighted by the probability ratio, at most this (V-trace's rho);
    /// 1 or more, or 0, which weights none
    vtrace_rho: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// As `vtrace_rho`, for the part of an advantage that comes from later steps (V-trace's c)
    vtrace_c: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// Power of the sum of a sequence's |advantages| to which its share of the draws of an epoch is proportional; without memory a sequence
    /// is a sample. 0 visits each once
    prio_alpha: f64 [Kind::Real(Range::NotNegative)] = 0.0;
    /// Power of the weights of advantages that make up for `prio_alpha`, in the first update; it grows linearly to 1 in the last
    prio_beta0: f64 [Kind::Real(Range::Unit)] = 0.2, unless("prio_alpha", "0.0");
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
