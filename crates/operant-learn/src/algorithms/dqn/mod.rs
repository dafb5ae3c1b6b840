//! Deep Q-network (Mnih et al., "Human-level control through deep reinforcement learning", 2015), as docs/dqn.md numbers it.

mod settings;

pub use settings::Settings;

use operant_metrics::Record;

use super::{Declaration, GpuLoss, Learns, Measured, Rules, UNUSED_BY_REPLAY, replay_problem};
use crate::config::Config;
use crate::cpu::off_policy::learner::sums;
use crate::network::Outputs;

/// DQN.
pub const DECLARATION: Declaration = Declaration {
    keys: Settings::KEYS,
    preset: include_str!("preset.toml"),
    losses: &["td_loss", "q_values", "epsilon", "grad_norm", "learning_rate"],
    outputs: Outputs::ActionValues,
    exploration: Config::epsilon,
    return_lambda: |_| 1.0,
    ratio_clips: |_| [None; 2],
    has_statistics: |_| false,
    problem: replay_problem,
    unused: &[
        UNUSED_BY_REPLAY,
        &["policy_frequency", "vf_learning_rate", "action_distribution", "log_std", "log_std_init"],
    ],
    metrics,
    temperature: |_| None,
    learns: Learns::Replay(Rules::ActionValues),
    gpu: GpuLoss {
        text: kernel_file!("algorithms/dqn.cuh"),
        refused: |_| None,
        define: |_| None,
        coefficients: &[("HUBER_DELTA", |config| config.huber().map_or(0.0, f64::from))],
        target_kl: |_| 0.0,
    },
};

/// The metrics of an update (docs/dqn.md, "Metrics").
fn metrics(measured: &Measured) -> Record {
    Record {
        td_loss: measured.losses[sums::SQUARES],
        q_values: measured.losses[sums::VALUES],
        epsilon: measured.epsilon,
        grad_norm: measured.grad_norm,
        learning_rate: measured.learning_rate,
        ..Record::default()
    }
}
