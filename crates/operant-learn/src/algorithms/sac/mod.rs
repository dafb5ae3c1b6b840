//! Soft actor-critic (Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018), as docs/sac.md numbers it.

mod policy;
mod settings;

pub use settings::Settings;

use operant_metrics::Record;

use super::{
    Declaration, GpuLoss, Learns, Measured, Ramp, Rules, UNUSED_BY_CRITICS, UNUSED_BY_REPLAY,
    actor_critic_problem, actor_critic_refused,
};
use crate::config::{Config, LogStd};
use crate::cpu::network::tile::TILE_VECTORS;
use crate::cpu::off_policy::learner::{ActorCritic, PolicyTile, TileRow, sums};
use crate::network::Outputs;
use operant_lane::isa::f32x16;

/// SAC.
pub const DECLARATION: Declaration = Declaration {
    keys: Settings::KEYS,
    preset: include_str!("preset.toml"),
    losses: &["td_loss", "q_values", "actor_loss", "entropy", "alpha", "grad_norm", "learning_rate"],
    outputs: Outputs::PolicyAndCritics,
    exploration: |_| Ramp::NONE,
    return_lambda: |_| 1.0,
    ratio_clips: |_| [None; 2],
    has_statistics: |_| false,
    problem,
    unused: &[UNUSED_BY_REPLAY, UNUSED_BY_CRITICS],
    metrics,
    temperature: |config| Some(config.algorithms.sac.alpha),
    learns: Learns::Replay(Rules::ActorCritic(&SoftActorCritic)),
    gpu: GpuLoss {
        text: kernel_file!("algorithms/sac.cuh"),
        refused: actor_critic_refused,
        define: |_| None,
        coefficients: &[
            ("TARGET_ENTROPY", |config| config.algorithms.sac.target_entropy),
            ("AUTOTUNE", |config| f64::from(config.algorithms.sac.autotune)),
        ],
        target_kl: |_| 0.0,
    },
};

/// What SAC does not have.
fn problem(config: &Config) -> Option<(&'static str, String, &'static str)> {
    if config.log_std != LogStd::Network {
        let problem = format!("log_std = \"{}\": SAC's network computes it", config.log_std);
        return Some(("log_std", problem, "set log_std = \"network\""));
    }
    actor_critic_problem(config)
}

/// The metrics of an update (docs/sac.md, "Metrics").
fn metrics(measured: &Measured) -> Record {
    Record {
        td_loss: measured.losses[sums::SQUARES],
        q_values: measured.losses[sums::VALUES],
        actor_loss: measured.losses[sums::POLICY],
        entropy: -measured.losses[sums::LOGPROBS],
        alpha: measured.alpha,
        grad_norm: measured.grad_norm,
        learning_rate: measured.learning_rate,
        ..Record::default()
    }
}

/// Its rules.
struct SoftActorCritic;

impl ActorCritic for SoftActorCritic {
    fn has_target_policy(&self) -> bool {
        false
    }

    fn takes_least(&self) -> bool {
        true
    }

    fn targets_wait_for_policy(&self) -> bool {
        false
    }

    fn next_actions(&self, policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow {
        let (logprob, alpha) = (policy::draw(policy, actions), f32x16::splat(-policy.alpha));
        core::array::from_fn::<_, TILE_VECTORS, _>(|v| logprob[v] * alpha)
    }

    fn actions(&self, policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow {
        policy::draw(policy, actions)
    }

    fn gradient(
        &self,
        policy: PolicyTile<'_>,
        actions: &[TileRow],
        by_action: &[TileRow],
        weight: &TileRow,
        d_outputs: &mut [TileRow],
    ) {
        policy::gradient(policy, actions, by_action, weight, d_outputs);
    }

    fn by_log_alpha(&self, config: &Config, actions: usize, logprob: f64) -> Option<f64> {
        let Settings { autotune, target_entropy, .. } = config.algorithms.sac;
        autotune.then(|| -(logprob + target_entropy * actions as f64))
    }
}
