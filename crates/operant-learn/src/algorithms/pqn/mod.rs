//! Parallelised Q-network (Gallici et al., "Simplifying Deep Temporal Difference Learning", ICLR 2025), as docs/pqn.md numbers it.

mod loss;
mod settings;

pub use settings::Settings;

use operant_metrics::Record;

use self::loss::{LossSums, SquaredError};
use super::Declaration;
use crate::backend::{LearnError, UpdateStats};
use crate::config::Config;
use crate::cpu::update::{Learning, Means};
use crate::network::Outputs;

/// PQN.
pub const DECLARATION: Declaration = Declaration {
    keys: Settings::KEYS,
    preset: include_str!("preset.toml"),
    losses: &["td_loss", "q_values", "epsilon", "grad_norm", "learning_rate"],
    outputs: Outputs::ActionValues,
    exploration,
    return_lambda: |config| config.algorithms.pqn.q_lambda,
    has_statistics: |_| false,
    problem: |_| None,
    update,
};

/// Share of random actions in the rollout of update number `update` (5).
fn exploration(config: &Config, update: u64) -> f64 {
    let Settings { start_e, end_e, exploration_fraction, .. } = config.algorithms.pqn;
    let falling = exploration_fraction * config.updates() as f64;
    let done = if falling > 0.0 { (update as f64 / falling).min(1.0) } else { 1.0 };
    start_e + (end_e - start_e) * done
}

/// The epochs of an update (10 to 13), and what they report.
fn update(learning: &mut Learning<'_>) -> Result<UpdateStats, LearnError> {
    let config = learning.config;
    let (learning_rate, epsilon) = (learning.learning_rate(), exploration(config, learning.number()));
    let (mut nonfinite, mut epochs, mut means) = (0, 0, Means::default());
    learning.epochs(&mut |minibatches| {
        while epochs < config.update_epochs {
            means = Means::default();
            for minibatch in 0..minibatches.count() {
                let size = minibatches.size(minibatch);
                let loss = SquaredError::new(size);
                let (sums, norm) = minibatches.gradient(epochs, minibatch, Box::new(loss))?;
                if norm.is_finite() && LossSums::of(sums).squares.is_finite() {
                    minibatches.step(norm, learning_rate);
                    means.add(sums, size, norm);
                } else {
                    minibatches.skip();
                    nonfinite += 1;
                }
            }
            epochs += 1;
        }
        Ok(())
    })?;
    let losses = LossSums::of(means.of_loss());
    let metrics = Record {
        td_loss: losses.squares,
        q_values: losses.values,
        epsilon,
        grad_norm: means.grad_norm(),
        learning_rate,
        ..Record::default()
    };
    Ok(UpdateStats { epochs, nonfinite, metrics, ..UpdateStats::default() })
}
