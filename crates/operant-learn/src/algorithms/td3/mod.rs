//! Twin delayed deep deterministic policy gradient (Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods", 2018),
//! as docs/td3.md numbers it.

mod settings;

pub use settings::Settings;

use operant_lane::Float;
use operant_lane::isa::f32x16;
use operant_metrics::Record;

use super::{
    Declaration, GpuLoss, Learns, Measured, Ramp, Rules, UNUSED_BY_CRITICS, UNUSED_BY_REPLAY,
    actor_critic_problem, actor_critic_refused,
};
use crate::config::Config;
use crate::cpu::network::tile::{fma, map, splat};
use crate::cpu::off_policy::learner::{ActorCritic, PolicyTile, TileRow, sums};
use crate::network::Outputs;

/// TD3.
pub const DECLARATION: Declaration = Declaration {
    keys: Settings::KEYS,
    preset: include_str!("preset.toml"),
    losses: &["td_loss", "q_values", "actor_loss", "grad_norm", "learning_rate"],
    outputs: Outputs::ActionAndCritics,
    exploration: |config| {
        let noise = config.algorithms.td3.exploration_noise;
        Ramp { start: noise, end: noise, updates: 0.0 }
    },
    return_lambda: |_| 1.0,
    ratio_clips: |_| [None; 2],
    has_statistics: |_| false,
    problem: actor_critic_problem,
    unused: &[UNUSED_BY_REPLAY, UNUSED_BY_CRITICS, &["log_std", "log_std_init"]],
    metrics,
    temperature: |_| None,
    learns: Learns::Replay(Rules::ActorCritic(&TwinDelayed)),
    gpu: GpuLoss {
        text: kernel_file!("algorithms/td3.cuh"),
        refused: actor_critic_refused,
        define: |_| None,
        coefficients: &[
            ("POLICY_NOISE", |config| config.algorithms.td3.policy_noise),
            ("NOISE_CLIP", |config| config.algorithms.td3.noise_clip),
        ],
        target_kl: |_| 0.0,
    },
};

/// The metrics of an update (docs/td3.md, "Metrics").
fn metrics(measured: &Measured) -> Record {
    Record {
        td_loss: measured.losses[sums::SQUARES],
        q_values: measured.losses[sums::VALUES],
        actor_loss: measured.losses[sums::POLICY],
        grad_norm: measured.grad_norm,
        learning_rate: measured.learning_rate,
        ..Record::default()
    }
}

/// Its rules.
struct TwinDelayed;

impl ActorCritic for TwinDelayed {
    fn has_target_policy(&self) -> bool {
        true
    }

    fn takes_least(&self) -> bool {
        false
    }

    fn targets_wait_for_policy(&self) -> bool {
        true
    }

    fn next_actions(&self, policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow {
        let Settings { policy_noise, noise_clip, .. } = policy.config.algorithms.td3;
        let [noise, clip] = [policy_noise, noise_clip].map(|x| f32x16::splat(x as f32));
        for ((action, output), normal) in actions.iter_mut().zip(policy.outputs).zip(policy.normals) {
            *action = core::array::from_fn(|v| {
                let noise = Float::clamp(normal[v] * noise, -clip, clip);
                Float::clamp(Float::tanh(output[v]) + noise, -f32x16::ONE, f32x16::ONE)
            });
        }
        splat(0.0)
    }

    fn actions(&self, policy: PolicyTile<'_>, actions: &mut [TileRow]) -> TileRow {
        actions
            .iter_mut()
            .zip(policy.outputs)
            .for_each(|(action, output)| *action = map(*output, Float::tanh));
        splat(0.0)
    }

    fn gradient(
        &self,
        _: PolicyTile<'_>,
        actions: &[TileRow],
        by_action: &[TileRow],
        _: &TileRow,
        d_outputs: &mut [TileRow],
    ) {
        for ((d_output, action), by) in d_outputs.iter_mut().zip(actions).zip(by_action) {
            *d_output = core::array::from_fn(|v| by[v] * fma(-action[v], action[v], f32x16::ONE));
        }
    }

    fn by_log_alpha(&self, _: &Config, _: usize, _: f64) -> Option<f64> {
        None
    }
}
