//! Parallelised Q-network (Gallici et al., "Simplifying Deep Temporal Difference Learning", ICLR 2025), as docs/pqn.md numbers it.

mod loss;
mod settings;

pub use settings::Settings;

use operant_metrics::Record;

use self::loss::{LossSums, SquaredError};
use super::{Declaration, GpuLoss, Learns, Measured};
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
    exploration: Config::epsilon,
    return_lambda: |config| config.algorithms.pqn.q_lambda,
    ratio_clips: |_| [None; 2],
    has_statistics: |_| false,
    problem,
    unused: &[&["value_bins", "value_min", "value_max"], &["value_loss", "huber_delta"]],
    metrics,
    temperature: |_| None,
    learns: Learns::Rollouts(update),
    gpu: GpuLoss {
        text: kernel_file!("algorithms/pqn.cuh"),
        refused: |_| None,
        define: |_| None,
        coefficients: &[],
        target_kl: |_| 0.0,
    },
};

/// What it does not support.
fn problem(config: &Config) -> Option<(&'static str, String, &'static str)> {
    let gamma = config.intrinsic_gamma;
    let problem = || {
        let why = "the values of PQN choose the actions, so they are of the sum of both rewards";
        (
            "intrinsic_gamma",
            format!("intrinsic_gamma = {gamma}: {why}"),
            "set intrinsic_gamma = 0, or algorithm = \"ppo\"",
        )
    };
    (gamma > 0.0).then(problem)
}

/// The metrics of an update (docs/pqn.md, "Metrics").
fn metrics(measured: &Measured) -> Record {
    let losses = LossSums::of(measured.losses);
    Record {
        td_loss: losses.squares,
        q_values: losses.values,
        epsilon: measured.epsilon,
        grad_norm: measured.grad_norm,
        learning_rate: measured.learning_rate,
        ..Record::default()
    }
}

/// The epochs of an update (10 to 13), and what they report.
fn update(learning: &mut Learning<'_>) -> Result<UpdateStats, LearnError> {
    let config = learning.config;
    let (learning_rate, epsilon) = (learning.learning_rate(), config.epsilon().at(learning.number()));
    let recomputed = learning.recomputed();
    let (mut nonfinite, mut epochs, mut means) = (0, 0, Means::default());
    learning.epochs(&mut |minibatches| {
        while epochs < config.update_epochs {
            minibatches.recompute(epochs, &recomputed);
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
    let measured = Measured { epsilon, ..means.measured(learning_rate) };
    Ok(UpdateStats { epochs, nonfinite, metrics: metrics(&measured), ..UpdateStats::default() })
}
