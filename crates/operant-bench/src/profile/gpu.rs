//! The profile of training on a GPU: phases by the device's events, and what runs inside a launch by runs of its own.

use std::sync::Arc;
use std::time::Duration;

use operant_cuda::Device;
use operant_env::AnyEnv;
use operant_learn::cuda::NetworkOptions;
use operant_learn::network::{Architecture, Network};
use operant_learn::sample::SampleLayout;
use operant_learn::{Config, LearnError};

use super::{How, Kind, Operation, Phase, Profile};
use crate::measure::gpu::{bus_seconds, environments, training};
use crate::measure::{rollout_bytes, training_bytes};

/// Bytes that a GPU moves at least for a word of memory.
pub const SECTOR: usize = 32;

/// Where the time of training goes.
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
    let alone = environments(device, &**env, [config.num_steps, config.num_envs], false, budget / 4)?;
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
        operation(Phase::Rollout, "environment", Kind::Environment, environment, How::Alone),
        Operation {
            bytes: rolled,
            ..operation(
                Phase::Rollout,
                "policy, sampling, advantages",
                Kind::Policy,
                phases.rollout - environment,
                How::Left,
            )
        },
        Operation {
            calls: minibatches,
            bytes: updated,
            ..operation(Phase::Update, "minibatches", Kind::Update, phases.update, How::Events)
        },
        Operation {
            bytes: bus_bytes,
            ..operation(Phase::Between, "report over the bus", Kind::Transfer, report, How::Alone)
        },
        operation(Phase::Between, "device without work", Kind::Host, period - phases.sum(), How::Clock),
    ];
    let notes = vec![
        format!(
            "{:.1} launches and {bus_bytes:.0} bytes over the bus an update, both counted",
            measured.speed.launches
        ),
        "what of the rollout is not the environment, measured alone, is the policy's; the report goes beside the next rollout"
            .to_owned(),
        "bytes of memory are counted from the shapes".to_owned(),
    ];
    Ok(Profile { period, phases, operations, notes })
}
