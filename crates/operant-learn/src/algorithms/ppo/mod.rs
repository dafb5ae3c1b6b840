//! Proximal policy optimisation, as docs/ppo.md numbers it.

mod advantages;
mod loss;
mod settings;

pub use settings::Settings;

use operant_metrics::Record;

use self::advantages::{errors_and_returns, explained_variance, shift_scale};
use self::loss::{ClippedLoss, LossSums};
use super::{Declaration, Exploration, GpuLoss, Measured};
use crate::backend::{LearnError, UpdateStats};
use crate::cpu::update::{Learning, Means};
use crate::network::Outputs;

/// PPO.
pub const DECLARATION: Declaration = Declaration {
    keys: Settings::KEYS,
    preset: "",
    losses: &[
        "policy_loss",
        "value_loss",
        "entropy",
        "approx_kl",
        "clipfrac",
        "explained_variance",
        "grad_norm",
        "learning_rate",
    ],
    outputs: Outputs::PolicyAndValue,
    exploration: |_| Exploration::NONE,
    return_lambda: |config| config.algorithms.ppo.gae_lambda,
    has_statistics: |config| config.algorithms.ppo.norm_adv,
    problem: |config| {
        let minibatches = config.num_minibatches;
        let has_single_samples = minibatches >= config.num_envs * config.num_steps;
        (config.algorithms.ppo.norm_adv && has_single_samples).then(|| {
            let problem = format!(
                "num_minibatches = {minibatches} gives minibatches of one sample, whose advantage norm_adv makes 0: no policy gradient"
            );
            ("num_minibatches", problem, "lower num_minibatches, or set norm_adv = false")
        })
    },
    metrics,
    update,
    gpu: GpuLoss {
        text: kernel_file!("algorithms/ppo.cuh"),
        coefficients: &[
            ("CLIP_COEF", |config| config.algorithms.ppo.clip_coef),
            ("ENT_COEF", |config| config.algorithms.ppo.ent_coef),
            ("VF_COEF", |config| config.algorithms.ppo.vf_coef),
            ("CLIP_VLOSS", |config| f64::from(config.algorithms.ppo.clip_vloss)),
            ("RPO_ALPHA", |config| config.algorithms.ppo.rpo_alpha),
        ],
        target_kl: |config| config.algorithms.ppo.target_kl,
    },
};

/// The metrics of an update (docs/ppo.md, "Metrics").
fn metrics(measured: &Measured) -> Record {
    let losses = LossSums::of(measured.losses);
    Record {
        policy_loss: losses.policy,
        value_loss: losses.value,
        entropy: losses.entropy,
        approx_kl: losses.kl,
        clipfrac: losses.clipped,
        grad_norm: measured.grad_norm,
        explained_variance: measured.explained_variance,
        learning_rate: measured.learning_rate,
        ..Record::default()
    }
}

/// The epochs of an update (21 to 32), and what they report.
fn update(learning: &mut Learning<'_>) -> Result<UpdateStats, LearnError> {
    let (config, layout) = (learning.config, learning.batch.layout());
    let settings = &config.algorithms.ppo;
    let mut learning_rate = learning.learning_rate();
    let (mut nonfinite, mut epochs, mut means) = (0, 0, Means::default());
    learning.epochs(&mut |minibatches| {
        while epochs < config.update_epochs {
            let mut scales = vec![(0.0, 1.0); minibatches.count()];
            if settings.norm_adv {
                let moments = minibatches.moments(epochs, layout.advantage)?;
                scales = moments.into_iter().map(shift_scale).collect();
            }
            means = Means::default();
            let mut last_kl = f64::NAN;
            for (minibatch, advantages) in scales.into_iter().enumerate() {
                let size = minibatches.size(minibatch);
                let loss = ClippedLoss::new(settings, size, advantages);
                let (sums, norm) = minibatches.gradient(epochs, minibatch, Box::new(loss))?;
                if norm.is_finite() && LossSums::of(sums).is_finite() {
                    last_kl = LossSums::of(sums).kl / size as f64;
                    learning_rate = minibatches.rate_after(learning_rate, last_kl);
                    minibatches.step(norm, learning_rate);
                    means.add(sums, size, norm);
                } else {
                    minibatches.skip();
                    nonfinite += 1;
                }
            }
            epochs += 1;
            if settings.target_kl > 0.0 && last_kl > settings.target_kl {
                break;
            }
        }
        Ok(())
    })?;
    let explained_variance = explained_variance(learning.moments_of_blocks(errors_and_returns)?);
    let measured = Measured { explained_variance, ..means.measured(learning_rate) };
    Ok(UpdateStats { epochs, nonfinite, metrics: metrics(&measured), ..UpdateStats::default() })
}
