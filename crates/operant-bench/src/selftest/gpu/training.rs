//! Full PPO on the GPU: speed by number of environments, network and precision, with its phases, launches and bytes over the bus;
//! and the GPU's utilization by NVML while the configuration of the goals trains.

use std::sync::Arc;
use std::time::Duration;

use operant_env::AnyEnv;
use operant_learn::{Config, LearnError, Precision};
use serde_json::json;

use super::{Gpu, config};
use crate::measure::gpu as measure;
use crate::selftest::report::{Report, Row};
use crate::selftest::watch::{GpuMedians, watched};

/// Samples of a minibatch.
const MINIBATCH: usize = 32_768;

/// The configuration of the goals: CartPole with N environments, rollout length T, two hidden layers of H.
pub const GOAL_ENVS: usize = 8_192;
/// See [`GOAL_ENVS`].
pub const GOAL_STEPS: usize = 128;
const GOAL_HIDDEN: usize = 64;

/// Training in the configuration of the goals.
pub struct Goal {
    /// Precision.
    pub precision: Precision,
    /// Environment steps per second, the median.
    pub sps: f64,
    /// Bytes over the bus per update, both ways.
    pub bus_bytes: f64,
    /// Utilization of the GPU.
    pub watched: GpuMedians,
}

/// Training in the configuration of the goals, by precision; empty if it failed.
#[derive(Default)]
pub struct Training(pub Vec<Goal>);

impl Training {
    /// The result for a precision.
    pub fn of(&self, precision: Precision) -> Option<&Goal> {
        self.0.iter().find(|goal| goal.precision == precision)
    }
}

impl Gpu<'_> {
    /// num_envs and num_steps of the goals; small if only the structure is tested.
    pub fn goal_shape(&self) -> [usize; 2] {
        if self.extent.quick { [64, 4] } else { [GOAL_ENVS, GOAL_STEPS] }
    }

    /// Measures all configurations, and returns those of the goals.
    pub fn training(&self, report: &mut Report) -> Training {
        let [goal_envs, steps] = self.goal_shape();
        let sizes: &[usize] = if self.extent.quick { &[goal_envs] } else { &[1_024, GOAL_ENVS, 65_536] };
        let mut training = Training::default();
        for precision in Precision::ALL {
            for hidden in [GOAL_HIDDEN, 128] {
                for &envs in sizes {
                    let is_goal = hidden == GOAL_HIDDEN && envs == goal_envs;
                    // NVML's figures are means over up to a second.
                    let budget =
                        if is_goal && !self.extent.quick { Duration::from_secs(4) } else { self.budget() };
                    let config = shape(envs, steps, hidden);
                    let settled = budget.mul_f64(0.3);
                    let uuid = &self.device.properties().uuid;
                    let train =
                        || self.with("cartpole", |env| self.training_row(env, &config, precision, budget));
                    let (measured, seen) = match is_goal {
                        true => watched(uuid, settled, train),
                        false => (train(), GpuMedians::default()),
                    };
                    match measured {
                        Ok(mut row) => {
                            if is_goal {
                                row.more["gpu"] = seen.to_json();
                                let bus_bytes = row.more["bus_bytes"].as_f64().unwrap_or(f64::NAN);
                                let sps = row.sps[0];
                                training.0.push(Goal { precision, sps, bus_bytes, watched: seen });
                            }
                            report.row(row);
                        }
                        Err(problem) => {
                            report.check("gpu", "cartpole: speed of training", || Err(problem));
                        }
                    }
                }
            }
        }
        training
    }

    fn training_row(
        &self,
        env: &Arc<dyn AnyEnv>,
        config: &Config,
        precision: Precision,
        budget: Duration,
    ) -> Result<Row, LearnError> {
        let measured = measure::training(self.device, env, config, precision, budget)?;
        let widths: Vec<String> = config.hidden.iter().map(ToString::to_string).collect();
        let row = self.row("train", &env.spec().name, config.num_envs, &measured.speed);
        let mut more = row.more.clone();
        more["sample_epochs_per_s"] = json!(measured.sample_epochs);
        more["rollout_s"] = json!(measured.phases.rollout);
        more["update_s"] = json!(measured.phases.update);
        more["minibatches"] = json!(config.num_minibatches);
        more["epochs"] = json!(config.update_epochs);
        Ok(Row {
            what: format!(
                "{} steps, {}, {} minibatches",
                config.num_steps,
                widths.join("-"),
                config.num_minibatches
            ),
            precision: precision.name(),
            flops_per_step: Some(measured.flops_per_step),
            peak_flops: self.peak(precision),
            more,
            ..row
        })
    }
}

/// Minibatches of 32,768 samples, at least four per epoch.
pub fn shape(envs: usize, steps: usize, hidden: usize) -> Config {
    Config {
        num_minibatches: (envs * steps / MINIBATCH).max(4),
        total_timesteps: 1 << 40,
        ..config(envs, steps, &[hidden, hidden])
    }
}
