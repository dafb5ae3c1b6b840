//! Hyperparameters under CleanRL's names. Layering (presets, files, environment, flags) lives in operant-run.

use serde::{Deserialize, Serialize};

/// Everything that decides what a training run computes.
///
/// Two runs with equal configurations on one device end in the same bits; `threads` is the exception that proves it:
/// it changes the time, never the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Seed of every random stream.
    pub seed: u64,
    /// Environment steps to train for, over all environments; rounded up to whole updates.
    pub total_timesteps: u64,
    /// N: environments stepped in parallel.
    pub num_envs: usize,
    /// T: steps of each environment per update.
    pub num_steps: usize,
    /// Adam's step size at the start of training.
    pub learning_rate: f64,
    /// Anneal the learning rate linearly to zero.
    pub anneal_lr: bool,
    /// Discount of future rewards.
    pub gamma: f64,
    /// Lambda of generalised advantage estimation.
    pub gae_lambda: f64,
    /// Minibatches per epoch; divides N T.
    pub num_minibatches: usize,
    /// Passes over each batch.
    pub update_epochs: usize,
    /// Normalise advantages per minibatch.
    pub norm_adv: bool,
    /// Clipping range of the probability ratio.
    pub clip_coef: f64,
    /// Clip the value loss with the same range.
    pub clip_vloss: bool,
    /// Weight of the entropy bonus.
    pub ent_coef: f64,
    /// Weight of the value loss.
    pub vf_coef: f64,
    /// Global gradient norm above which gradients are scaled down.
    pub max_grad_norm: f64,
    /// Stop an update's epochs when approx_kl exceeds this; 0 never stops.
    pub target_kl: f64,
    /// Adam's epsilon.
    pub adam_eps: f64,
    /// Adam's decay of the first moment.
    pub adam_beta1: f64,
    /// Adam's decay of the second moment.
    pub adam_beta2: f64,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Nonlinearity of the hidden layers.
    pub activation: Activation,
    /// One trunk for policy and value, or a network for each.
    pub shared_trunk: bool,
    /// Initial log standard deviation of Gaussian policies.
    pub log_std_init: f64,
    /// Normalise observations by running mean and variance.
    pub norm_obs: bool,
    /// Scale rewards by the running deviation of the discounted return.
    pub norm_reward: bool,
    /// Normalised observations are clipped to plus or minus this.
    pub clip_obs: f64,
    /// Normalised rewards are clipped to plus or minus this.
    pub clip_reward: f64,
    /// Consecutive updates with a non-finite loss or gradient after which training stops.
    pub max_nonfinite_updates: usize,
}

impl Config {
    /// The factors of GAE in single precision: gamma, and gamma lambda.
    pub fn discounts(&self) -> [f32; 2] {
        let gamma = self.gamma as f32;
        [gamma, gamma * self.gae_lambda as f32]
    }
}

impl Default for Config {
    /// CleanRL's defaults, as shipped in `presets/defaults.toml`.
    fn default() -> Self {
        toml::from_str(crate::presets::DEFAULTS).expect("the shipped defaults are complete, a test holds it")
    }
}

/// Nonlinearity of the hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// max(x, 0).
    Relu,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_defaults_are_complete() {
        let config = Config::default();
        assert_eq!((config.num_steps, config.update_epochs, config.adam_eps), (128, 4, 1e-5));
    }
}
