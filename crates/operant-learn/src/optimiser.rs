//! Step sizes of the optimiser, the same for every device, and settings of it that contradict each other.

use crate::config::{ClipGrad, Config, LrSchedule, Optimizer};
use crate::network::Outputs;

/// The factor by which `lr_schedule = "kl"` changes the learning rate.
pub const KL_FACTOR: f64 = 1.5;

impl Config {
    /// The learning rate in update `update` (from 0): constant, or falling linearly towards zero, which it would reach in the update after
    /// the last; both after a warm-up. With `lr_schedule = "kl"` it is where it was left, `adapted`.
    pub fn learning_rate_in(&self, update: u64, adapted: Option<f64>) -> f64 {
        let rate = match self.lr_schedule {
            LrSchedule::Constant => self.learning_rate,
            LrSchedule::Kl => return adapted.unwrap_or(self.learning_rate),
            LrSchedule::Linear => {
                let updates = self.updates();
                self.learning_rate * (1.0 - update.min(updates) as f64 / updates as f64)
            }
        };
        let (done, warmup) = (update as f64 + 1.0, self.warmup_updates());
        if done < warmup { rate * (done / warmup) } else { rate }
    }

    /// Updates over which the learning rate rises.
    pub fn warmup_updates(&self) -> f64 {
        self.lr_warmup * self.updates() as f64
    }

    /// The learning rate of a separate value network where the policy's is `rate`.
    pub fn value_rate(&self, rate: f64) -> f64 {
        if self.vf_learning_rate == 0.0 {
            rate
        } else if self.lr_schedule == LrSchedule::Kl {
            self.vf_learning_rate
        } else {
            self.vf_learning_rate * (rate / self.learning_rate)
        }
    }

    /// Whether the steps of policy and value differ by more than their gradients.
    pub fn steps_apart(&self) -> bool {
        self.vf_learning_rate > 0.0 || self.clip_grad == ClipGrad::Network
    }

    /// Whether a GPU keeps the gradients' norms and the steps of policy and value apart.
    #[cfg(feature = "cuda")]
    pub(crate) fn networks_apart(&self) -> bool {
        self.steps_apart() || self.algorithms.ppo.vf_epochs > 0
    }

    /// The learning rate after a minibatch of divergence `kl`, as rsl_rl changes it; None unless `lr_schedule = "kl"`.
    pub fn rate_after(&self, rate: f64, kl: f64) -> Option<f64> {
        let changed = || match kl {
            kl if kl > 2.0 * self.desired_kl => (rate / KL_FACTOR).max(self.lr_min),
            kl if kl < self.desired_kl / 2.0 => (rate * KL_FACTOR).min(self.lr_max),
            _ => rate,
        };
        (self.lr_schedule == LrSchedule::Kl).then(changed)
    }

    /// A setting of updates that the fused kernels do not support.
    pub(crate) fn not_fused(&self) -> Option<String> {
        let Config { lr_schedule, clip_grad, vf_learning_rate, weight_decay, optimizer, .. } = self;
        let ppo = &self.algorithms.ppo;
        [
            (*lr_schedule == LrSchedule::Kl, "lr_schedule = \"kl\"".to_owned()),
            (*clip_grad == ClipGrad::Network, "clip_grad = \"network\"".to_owned()),
            (*vf_learning_rate > 0.0, format!("vf_learning_rate = {vf_learning_rate}")),
            (*weight_decay > 0.0, format!("weight_decay = {weight_decay}")),
            (*optimizer == Optimizer::Muon, "optimizer = \"muon\"".to_owned()),
            (self.value_bins > 1, format!("value_bins = {}", self.value_bins)),
            (ppo.norm_value, "norm_value = true".to_owned()),
            (ppo.vf_epochs > 0, format!("vf_epochs = {}", ppo.vf_epochs)),
            (ppo.prio_alpha > 0.0, format!("prio_alpha = {}", ppo.prio_alpha)),
        ]
        .into_iter()
        .find_map(|(is_set, setting)| is_set.then_some(setting))
    }

    /// Settings of the optimiser that contradict each other or the algorithm: the key, what is wrong with it, and what to do.
    pub fn optimiser_problem(&self) -> Option<(&'static str, String, &'static str)> {
        let Config { lr_schedule, learning_rate, lr_min, lr_max, .. } = *self;
        let has_policy = self.algorithm.declaration().outputs == Outputs::PolicyAndValue;
        if lr_schedule == LrSchedule::Kl {
            if !has_policy {
                let problem = format!(
                    "lr_schedule = \"kl\" follows the divergence of policies, and algorithm = \"{}\" has none",
                    self.algorithm
                );
                return Some(("lr_schedule", problem, "set lr_schedule = \"linear\" or \"constant\""));
            }
            if self.num_minibatches * self.update_epochs == 1 {
                let problem = "lr_schedule = \"kl\" with one minibatch per update measures no divergence: the policy has not moved yet";
                return Some((
                    "lr_schedule",
                    problem.to_owned(),
                    "raise num_minibatches or update_epochs, or set lr_schedule = \"linear\"",
                ));
            }
            if self.lr_warmup > 0.0 {
                let problem = format!(
                    "lr_warmup = {}, but lr_schedule = \"kl\" finds the learning rate by itself",
                    self.lr_warmup
                );
                return Some((
                    "lr_warmup",
                    problem,
                    "remove it, and lower learning_rate, with which training begins",
                ));
            }
            if lr_min > lr_max {
                let problem = format!("lr_min = {lr_min} is above lr_max = {lr_max}");
                return Some(("lr_min", problem, "lower lr_min or raise lr_max"));
            }
            if !(lr_min..=lr_max).contains(&learning_rate) {
                let problem = format!(
                    "learning_rate = {learning_rate} is not within lr_min = {lr_min} and lr_max = {lr_max}"
                );
                return Some(("learning_rate", problem, "begin within the bounds, or move them"));
            }
        }
        if self.steps_apart() && (self.shared_trunk || !has_policy) {
            let one = "policy and value share one network";
            let one = if has_policy { one } else { "there is one network, of action values" };
            return Some(match self.clip_grad {
                ClipGrad::Network => {
                    let problem = format!("clip_grad = \"network\", but {one}");
                    ("clip_grad", problem, "set clip_grad = \"global\", or shared_trunk = false with PPO")
                }
                ClipGrad::Global => {
                    let problem = format!("vf_learning_rate = {}, but {one}", self.vf_learning_rate);
                    ("vf_learning_rate", problem, "set it to 0, or shared_trunk = false with PPO")
                }
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithm;

    #[test]
    fn annealing_reaches_the_last_update() {
        let config = Config {
            learning_rate: 1e-3,
            num_envs: 8,
            num_steps: 16,
            total_timesteps: 1_280,
            ..Config::default()
        };
        let rate = |update| config.learning_rate_in(update, Some(1.0));
        assert_eq!(rate(0), 1e-3);
        assert!((rate(5) - 5e-4).abs() < 1e-12 && (rate(9) - 1e-4).abs() < 1e-12);
        assert_eq!(rate(10), 0.0);
        let warm = Config { lr_warmup: 0.4, ..config.clone() };
        let factor = |update| warm.learning_rate_in(update, None) / rate(update);
        assert_eq!([0, 1, 2, 3, 4].map(factor), [0.25, 0.5, 0.75, 1.0, 1.0]);
        let of_value = Config { vf_learning_rate: 1e-2, ..config.clone() };
        assert!((of_value.value_rate(rate(5)) - 5e-3).abs() < 1e-12);
        assert_eq!(config.value_rate(rate(5)), rate(5));
        let kl = Config { lr_schedule: LrSchedule::Kl, ..of_value };
        assert_eq!(kl.value_rate(5e-4), 1e-2);
    }

    #[test]
    fn the_rate_follows_the_divergence_within_bounds() {
        let kl = Config { lr_schedule: LrSchedule::Kl, desired_kl: 0.02, ..Config::default() };
        let after = |rate, divergence| kl.rate_after(rate, divergence).expect("kl");
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        assert!(near(after(3e-4, 0.041), 2e-4) && near(after(2e-4, 0.009), 3e-4));
        for divergence in [0.01, 0.02, 0.04] {
            assert_eq!(after(3e-4, divergence), 3e-4);
        }
        assert_eq!((after(1.2e-5, 1.0), after(9e-3, 0.0)), (1e-5, 1e-2));
        assert_eq!([None, Some(5e-4)].map(|adapted| kl.learning_rate_in(7, adapted)), [2.5e-4, 5e-4]);
        let constant = Config { lr_schedule: LrSchedule::Constant, ..kl };
        assert_eq!((constant.rate_after(1e-3, 1.0), constant.learning_rate_in(7, Some(1.0))), (None, 2.5e-4));
    }

    #[test]
    fn contradictions_are_refused_by_the_key_to_change() {
        let kl = Config { lr_schedule: LrSchedule::Kl, ..Config::default() };
        let refused = [
            ("lr_schedule", Config { algorithm: Algorithm::Pqn, ..kl.clone() }),
            ("lr_schedule", Config { num_minibatches: 1, update_epochs: 1, ..kl.clone() }),
            ("learning_rate", Config { learning_rate: 0.1, ..kl.clone() }),
            ("learning_rate", Config { lr_min: 1e-3, ..kl.clone() }),
            ("lr_min", Config { lr_min: 1.0, ..kl.clone() }),
            ("lr_warmup", Config { lr_warmup: 0.1, ..kl.clone() }),
            ("clip_grad", Config { clip_grad: ClipGrad::Network, shared_trunk: true, ..Config::default() }),
            ("vf_learning_rate", Config { vf_learning_rate: 1e-3, shared_trunk: true, ..Config::default() }),
            (
                "vf_learning_rate",
                Config { vf_learning_rate: 1e-3, algorithm: Algorithm::Pqn, ..Config::default() },
            ),
        ];
        for (key, config) in refused {
            assert_eq!(config.optimiser_problem().expect("refused").0, key, "{config:?}");
        }
        assert_eq!((kl.optimiser_problem(), Config::default().optimiser_problem()), (None, None));
    }
}
