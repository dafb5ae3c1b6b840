//! Proximal policy optimisation, as docs/ppo.md numbers it.

mod advantages;
mod loss;
mod settings;

pub use settings::Settings;

use operant_metrics::Record;

use self::advantages::{errors_and_returns, explained_variance, shift_scale};
use self::loss::{ClippedLoss, LossSums, Scales};
use super::{Declaration, GpuLoss, Learns, Measured, Ramp};
use crate::backend::{LearnError, UpdateStats};
use crate::config::{Config, Intrinsic};
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
    exploration: |_| Ramp::NONE,
    return_lambda: |config| config.algorithms.ppo.gae_lambda,
    ratio_clips: |config| {
        let settings = &config.algorithms.ppo;
        [settings.vtrace_rho, settings.vtrace_c].map(|clip| (clip > 0.0).then_some(clip as f32))
    },
    has_statistics: |config| config.algorithms.ppo.norm_adv,
    problem,
    unused: &[&["dueling"]],
    metrics,
    temperature: |_| None,
    learns: Learns::Rollouts(update),
    gpu: GpuLoss {
        text: kernel_file!("algorithms/ppo.cuh"),
        refused: |_| None,
        define: |config| config.huber().map(|delta| ("HUBER_DELTA", format!("({delta:?}f)"))),
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

/// What would learn nothing, or has no effect.
fn problem(config: &Config) -> Option<(&'static str, String, &'static str)> {
    let (minibatches, settings) = (config.num_minibatches, &config.algorithms.ppo);
    if settings.norm_adv && minibatches >= config.num_envs * config.num_steps {
        let problem = format!(
            "num_minibatches = {minibatches} gives minibatches of one sample, whose advantage norm_adv makes 0: no policy gradient"
        );
        return Some(("num_minibatches", problem, "lower num_minibatches, or set norm_adv = false"));
    }
    if settings.vf_epochs > 0 && config.shared_trunk {
        let problem = format!(
            "vf_epochs = {} would train the critic alone, but it shares a trunk with the policy",
            settings.vf_epochs
        );
        return Some(("vf_epochs", problem, "set shared_trunk = false, or vf_epochs = 0"));
    }
    let not_of_bins = [("clip_vloss", settings.clip_vloss), ("norm_value", settings.norm_value)];
    if let Some((name, _)) = not_of_bins.iter().find(|(_, is_set)| config.value_bins > 1 && *is_set) {
        let problem = format!(
            "value_bins = {}: distributions of values do not support {name} = true",
            config.value_bins
        );
        return Some(("value_bins", problem, "set clip_vloss and norm_value = false, or value_bins = 1"));
    }
    if let Some((problem, remedy)) = unfit_for_two_values(config) {
        let problem = format!("intrinsic_gamma = {}: {problem}", config.intrinsic_gamma);
        return Some(("intrinsic_gamma", problem, remedy));
    }
    let weights = [("vtrace_rho", settings.vtrace_rho), ("vtrace_c", settings.vtrace_c)];
    let (name, weight) = weights.into_iter().find(|(_, weight)| *weight > 0.0)?;
    if !config.recomputes() {
        let problem = format!("{name} = {weight} is for advantages that are computed again, and none are");
        return Some((
            name,
            problem,
            "set recompute_advantages = true and update_epochs of at least 2, or 0 here",
        ));
    }
    let (name, weight) = weights.into_iter().find(|(_, weight)| (f64::MIN_POSITIVE..1.0).contains(weight))?;
    let problem = format!("{name} = {weight} would weight ratios of 1 too, which the first epoch has");
    Some((name, problem, "set it to 1 or more, or to 0"))
}

/// What a value function of rewards for exploring does not support, and the remedy.
fn unfit_for_two_values(config: &Config) -> Option<(String, &'static str)> {
    if config.intrinsic_gamma == 0.0 {
        return None;
    }
    if config.intrinsic != Intrinsic::Rnd {
        let problem = format!("intrinsic = \"{}\" has no value function of its own", config.intrinsic);
        return Some((problem, "set intrinsic = \"rnd\", or intrinsic_gamma = 0"));
    }
    let refused = [
        ("value_bins above 1", config.value_bins > 1),
        ("norm_value", config.algorithms.ppo.norm_value),
        ("recompute_advantages", config.recomputes()),
        ("pointer", config.pointer),
    ];
    let (name, _) = refused.into_iter().find(|(_, is_set)| *is_set)?;
    let problem = format!("a second value function does not support {name}");
    Some((
        problem,
        "set value_bins = 1, and norm_value, recompute_advantages and pointer = false, or intrinsic_gamma = 0",
    ))
}

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

/// The epochs of an update (21 to 32, 36 to 41), and what they report.
fn update(learning: &mut Learning<'_>) -> Result<UpdateStats, LearnError> {
    let (config, advantage) = (learning.config, learning.batch.layout().advantage);
    let settings = &config.algorithms.ppo;
    let mut learning_rate = learning.learning_rate();
    let moments = learning.moments_of_blocks(errors_and_returns)?;
    let explained_variance = explained_variance(moments);
    let values = settings.norm_value.then(|| learning.add_returns(&moments[1]));
    let (recomputed, powers) = (learning.recomputed(), powers_of_draws(config, learning.number()));
    let (mut nonfinite, mut epochs, mut means) = (0, 0, Means::default());
    learning.epochs(&mut |minibatches| {
        // Of all epochs the last ones train the critic alone.
        let (mut epoch, all) = (0, config.update_epochs + settings.vf_epochs);
        while epoch < all {
            let has_policy = epoch < config.update_epochs;
            minibatches.recompute(epoch, &recomputed);
            let importance = powers.map(|powers| minibatches.draw(epoch, powers));
            let mut scales = vec![(0.0, 1.0); minibatches.count()];
            if settings.norm_adv && has_policy {
                let moments = minibatches.moments(epoch, advantage)?;
                scales = moments.into_iter().map(shift_scale).collect();
            }
            let (mut last_kl, mut of_epoch) = (f64::NAN, Means::default());
            for (minibatch, advantages) in scales.into_iter().enumerate() {
                let size = minibatches.size(minibatch);
                let advantages = has_policy.then_some(advantages);
                let scales = Scales { advantages, values, importance: importance.clone() };
                let loss = ClippedLoss::new(config, size, scales);
                let (sums, norm) = minibatches.gradient(epoch, minibatch, Box::new(loss))?;
                if !norm.is_finite() || !LossSums::of(sums).is_finite() {
                    minibatches.skip();
                    nonfinite += 1;
                } else if has_policy {
                    last_kl = LossSums::of(sums).kl / size as f64;
                    learning_rate = minibatches.rate_after(learning_rate, last_kl);
                    minibatches.step(norm, learning_rate);
                    of_epoch.add(sums, size, norm);
                } else {
                    minibatches.step_of_critic(norm, learning_rate);
                }
            }
            epoch += 1;
            if has_policy {
                (epochs, means) = (epoch, of_epoch);
            }
            if has_policy && settings.target_kl > 0.0 && last_kl > settings.target_kl {
                epoch = config.update_epochs;
            }
        }
        Ok(())
    })?;
    let measured = Measured { explained_variance, ..means.measured(learning_rate) };
    Ok(UpdateStats { epochs, nonfinite, metrics: metrics(&measured), ..UpdateStats::default() })
}

/// Alpha and beta of draws in an update; None if there are none.
fn powers_of_draws(config: &Config, update: u64) -> Option<[f64; 2]> {
    let Settings { prio_alpha, prio_beta0, .. } = config.algorithms.ppo;
    let done = (update as f64 / config.updates() as f64).min(1.0);
    (prio_alpha > 0.0).then_some([prio_alpha, prio_beta0 + (1.0 - prio_beta0) * done])
}
