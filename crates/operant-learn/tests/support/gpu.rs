//! The simulated GPU, and comparisons of its kernels with the CPU.

#[path = "../../../operant-cuda/tests/support/stand_in.rs"]
pub mod stand_in;

use std::sync::{Mutex, MutexGuard, PoisonError};

use operant_cuda::{Cuda, Device};
use operant_env::AnyEnv;
use operant_learn::cuda::{CudaLearner, CudaRollout, Kernels, NetworkOptions};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{Config, LearnerState, Precision};
use operant_parity::{UpdatePath, compare_gradient, compare_rollout, compare_update};

/// Devices of the stand-in that run threads in order, in reverse and shuffled.
pub const ORDERS: [usize; 3] = [0, 1, 2];

/// The stand-in's device of this number; None, and a loud line on stderr, where there is no C++ compiler.
pub fn device(ordinal: usize) -> Option<Device> {
    let directory = stand_in::directory(env!("CARGO_CRATE_NAME"))?;
    let cuda = Cuda::find_in(Some(&directory)).expect("the stand-in is found");
    let cuda = cuda.cached_in(Some(&stand_in::cache(&directory)));
    Some(cuda.open(ordinal).expect("the stand-in has this device"))
}

/// The device with little memory. Tests that read its memory run one after the other.
pub fn little_device() -> Option<(MutexGuard<'static, ()>, Device)> {
    static MEMORY: Mutex<()> = Mutex::new(());
    let alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    Some((alone, device(3)?))
}

/// Runs these tests of this program under AddressSanitizer and UBSan.
#[track_caller]
pub fn sanitized(tests: &[&str]) {
    for test in tests {
        let Some(output) = stand_in::rerun_sanitized(test) else { return };
        stand_in::must_pass(&output);
    }
}

/// The GEMM path.
pub fn gemm(precision: Precision) -> NetworkOptions {
    NetworkOptions { precision, kernels: Kernels::Gemm }
}

/// N environments, T steps, and hidden layers under both heads.
pub fn config(num_envs: usize, num_steps: usize, hidden: &[usize]) -> Config {
    Config {
        seed: 5,
        num_envs,
        num_steps,
        hidden: hidden.to_vec(),
        shared_trunk: true,
        total_timesteps: 100_000,
        ..Config::default()
    }
}

/// Weights of a network whose outputs, biases and deviations all differ, so that none can be taken for another.
pub fn params(env: &dyn AnyEnv, config: &Config) -> Vec<f32> {
    let network = Network::new(Architecture::of(&env.spec(), config).expect("the environment's network"));
    let mut params = init_params(&network, 11);
    for tensor in &network.tensors {
        let values = &mut params[tensor.range()];
        match tensor.name.as_str() {
            // CleanRL's 0.01 would leave all choices alike.
            "policy.weight" | "log_std.weight" => values.iter_mut().for_each(|w| *w *= 50.0),
            "log_std" => values.iter_mut().enumerate().for_each(|(k, s)| *s = 0.25 - 0.5 * k as f32),
            name if name.ends_with(".bias") => {
                // Values away from zero, as returns are: a sum that cancels has no relative error to speak of.
                let first = if name == "value.bias" { 0.5 } else { 0.0 };
                values.iter_mut().enumerate().for_each(|(k, b)| *b = first + 0.1 * (k as f32).sin());
            }
            _ => {}
        }
    }
    params
}

/// A rollout's steps must be the CPU's, each from the CPU's state.
#[track_caller]
pub fn rollout_agrees(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
    steps: u64,
) {
    let options = options.into();
    let found =
        compare_rollout(device, env, config, options, &params(env, config), steps).expect("a rollout");
    let problems = found.problems(options.precision);
    assert!(problems.is_empty(), "{} {options:?} {config:?}: {problems:#?} {found:?}", env.spec().name);
    assert_eq!(found.samples, config.num_envs * steps as usize);
}

/// Updates in single precision must be the CPU's. Returns the learner's state on the device.
#[track_caller]
pub fn updates_agree(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    updates: u64,
    path: UpdatePath,
) -> LearnerState {
    let found = compare_update(device, env, config, updates, path).expect("updates");
    assert!(found.problems.is_empty(), "{} {config:?}: {:#?}", env.spec().name, found.problems);
    found.state
}

/// Two rollouts with an update after each have the same bits on devices that run threads in other orders, whatever was in memory.
#[track_caller]
pub fn same_bits_in_every_order(env: &dyn AnyEnv, config: &Config, options: NetworkOptions) {
    let mut states = Vec::new();
    for ordinal in ORDERS {
        let Some(device) = device(ordinal) else { return };
        let rollout = CudaRollout::new(&device, env, config, options).expect("a rollout");
        let (network, stream) = (rollout.network().clone(), rollout.stream());
        let params = init_params(&network, 2);
        rollout.set_params(&params).expect("parameters");
        let learner = CudaLearner::new(&device, stream, env, &network, config, options).expect("a learner");
        learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
        for _ in 0..2 {
            rollout.poison(0xff).and_then(|()| rollout.roll()).expect("a horizon");
            learner.update(stream, rollout.samples_buffer()).expect("an update");
        }
        states.push((learner.state(stream).expect("state"), rollout.samples().expect("samples")));
    }
    assert!(states.iter().all(|state| *state == states[0]), "bits differ in {}", env.spec().name);
}

/// A gradient in another precision must be that of single precision.
#[track_caller]
pub fn gradient_agrees(
    device: &Device,
    env: &dyn AnyEnv,
    config: &Config,
    options: impl Into<NetworkOptions>,
) {
    let options = options.into();
    let problems = compare_gradient(device, env, config, options).expect("gradients");
    assert!(problems.is_empty(), "{} {options:?} {config:?}: {problems:#?}", env.spec().name);
}
