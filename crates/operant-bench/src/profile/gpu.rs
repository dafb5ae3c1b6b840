//! The profile of training on a GPU: phases by CUDA events, and operations inside a launch by separate runs.

use std::sync::Arc;
use std::time::Duration;

use operant_cuda::Device;
use operant_env::AnyEnv;
use operant_learn::cuda::NetworkOptions;
use operant_learn::network::{Architecture, Network};
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, LearnError};

use super::{Operation, OperationKind, Phase, Profile, TimingMethod};
use crate::measure::gpu::{bus_seconds, environments, training};
use crate::measure::{rollout_bytes, training_bytes};

/// Minimum bytes that a GPU moves per memory access.
pub const SECTOR: usize = 32;

/// Profiles training.
///
/// # Errors
/// When the configuration cannot be trained there, or the device has no room or fails.
pub fn profile(
    device: &Device,
    env: &Arc<dyn AnyEnv>,
    config: &Config,
    options: impl Into<NetworkOptions>,
    budget: Duration,
) -> Result<Profile, LearnError> {
    let options = options.into();
    let measured = training(device, env, config, options, budget / 2)?;
    let alone = environments(device, &**env, [config.num_steps, config.num_envs], budget / 4)?;
    let samples = (config.num_envs * config.num_steps) as f64;
    let (period, phases) = (samples / measured.speed.sps_median, measured.phases);
    let environment = (samples / alone.sps_median).min(phases.rollout);
    let bus_bytes = measured.speed.bus_bytes;
    let report = bus_seconds(device, bus_bytes as usize, budget / 8)?;
    let network = Network::new(Architecture::of(&env.spec(), config)?);
    let layout = SampleLayout::new(&network.architecture, env.masked());
    let rolled = samples * rollout_bytes(&layout);
    let updated = samples * training_bytes(&layout, config, SECTOR) - rolled;
    let minibatches = (config.update_epochs * config.num_minibatches) as f64;

    let operation = |phase, name, kind, seconds: f64, how| Operation {
        phase,
        name,
        kind,
        seconds: seconds.max(0.0),
        calls: f64::NAN,
        bytes: f64::NAN,
        how,
    };
    let operations = vec![
        operation(
            Phase::Rollout,
            "environment",
            OperationKind::Environment,
            environment,
            TimingMethod::Alone,
        ),
        Operation {
            bytes: rolled,
            ..operation(
                Phase::Rollout,
                "policy, sampling, advantages",
                OperationKind::Policy,
                phases.rollout - environment,
                TimingMethod::Left,
            )
        },
        Operation {
            calls: minibatches,
            bytes: updated,
            ..operation(
                Phase::Update,
                "minibatches",
                OperationKind::Update,
                phases.update,
                TimingMethod::Events,
            )
        },
        Operation {
            bytes: bus_bytes,
            ..operation(
                Phase::Between,
                "report over the bus",
                OperationKind::Transfer,
                report,
                TimingMethod::Alone,
            )
        },
        operation(
            Phase::Between,
            "device without work",
            OperationKind::Host,
            period - phases.sum(),
            TimingMethod::Clock,
        ),
    ];
    let notes = vec![
        format!(
            "{:.1} launches and {bus_bytes:.0} bytes over the bus per update, both counted",
            measured.speed.launches
        ),
        "the rollout's time less that of the environment alone is the policy's; the report is copied during the next rollout"
            .to_owned(),
        "bytes of memory are counted from the shapes".to_owned(),
    ];
    Ok(Profile { period, phases, operations, notes })
}
