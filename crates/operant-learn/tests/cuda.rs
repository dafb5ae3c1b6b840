//! The GPU's rollout without a GPU: the real kernels, compiled for the host and run thread by thread by a stand-in for the
//! driver, against the CPU backend.

use std::sync::Arc;

#[path = "../../operant-env/tests/support/cards.rs"]
mod cards;
#[path = "support/gpu.rs"]
mod gpu;
#[path = "../../operant-env/tests/support/locks.rs"]
mod locks;

use cards::{Cards, MixedCards};
use gpu::{device, stand_in};
use locks::Locks;
use operant_bench::measure::gpu as measure;
use operant_bench::parity::{check_gae, check_horizon, compare_rollout, differing_environments, tolerance};
use operant_cuda::Device;
use operant_env::{AnyEnv, builtin};
use operant_learn::cuda::specialise::WeightPlacement;
use operant_learn::cuda::{CudaRollout, Kernels, NetworkOptions};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{Activation, Config, Encoder, Precision};

/// Threads in order, in reverse and shuffled: a result that depends on it misses a barrier.
const ORDERS: [usize; 3] = [0, 1, 2];

fn shared(env: impl AnyEnv) -> Arc<dyn AnyEnv> {
    Arc::new(env)
}

fn config(num_envs: usize, hidden: &[usize]) -> Config {
    Config {
        num_envs,
        num_steps: 6,
        seed: 3,
        hidden: hidden.to_vec(),
        shared_trunk: true,
        ..Config::default()
    }
}

/// Initial weights, the policy's last layer scaled up from CleanRL's 0.01 so that choices matter.
fn params(env: &dyn AnyEnv, config: &Config) -> Vec<f32> {
    let network = Network::new(Architecture::of(&env.spec(), config).expect("the environment's network"));
    let mut params = init_params(&network, 11);
    for tensor in network.tensors.iter().filter(|tensor| tensor.name == "policy.weight") {
        params[tensor.range()].iter_mut().for_each(|w| *w *= 100.0);
    }
    for tensor in network.tensors.iter().filter(|tensor| tensor.name.ends_with(".bias")) {
        // Values away from zero, as returns are: a sum that cancels has no relative error to speak of.
        let first = if tensor.name == "value.bias" { 0.5 } else { 0.0 };
        params[tensor.range()].iter_mut().enumerate().for_each(|(k, b)| *b = first + 0.1 * (k as f32).sin());
    }
    params
}

fn agrees(device: &Device, env: &dyn AnyEnv, config: &Config, precision: Precision, steps: u64) {
    let params = params(env, config);
    let name = env.spec().name;
    let found = compare_rollout(device, env, config, precision, &params, steps).expect("a rollout");
    let problems = found.problems(precision);
    assert!(problems.is_empty(), "{name} {precision} {:?}: {problems:#?} {found:?}", config.hidden);
    assert_eq!(found.samples, config.num_envs * steps as usize);
}

#[test]
fn environments_are_bit_for_bit_those_of_the_scalar_lane() {
    struct Check<'a>(&'a Device);
    impl Check<'_> {
        fn visit(self, env: &Arc<dyn AnyEnv>) {
            let differing = differing_environments(self.0, &**env, 65, 4_096).expect("random play");
            assert!(differing.is_empty(), "{}: environments {differing:?}", env.spec().name);
        }
    }
    let Some(device) = device(0) else { return };
    for env in builtin().of_each_kind().envs() {
        for options in env.spec().variants() {
            Check(&device).visit(&env.with_options(&options).expect("known options"));
        }
    }
    Check(&device).visit(&shared(Locks));
}

#[test]
fn rollouts_of_every_environment_follow_the_cpu() {
    struct Check<'a>(&'a Device, Precision);
    impl Check<'_> {
        fn visit(self, env: &Arc<dyn AnyEnv>) {
            agrees(self.0, &**env, &config(17, &[64, 64]), self.1, 24);
        }
    }
    for (ordinal, precision) in ORDERS.into_iter().zip(Precision::ALL) {
        let Some(device) = device(ordinal) else { return };
        for env in builtin().of_each_kind().envs() {
            Check(&device, precision).visit(env);
        }
        Check(&device, precision).visit(&shared(Locks));
    }
}

#[test]
fn awkward_networks_follow_the_cpu() {
    let Some(device) = device(2) else { return };
    let cases = [
        config(1, &[]),
        config(33, &[5]),
        Config { shared_trunk: false, ..config(17, &[33, 20]) },
        Config { activation: Activation::Relu, ..config(16, &[128]) },
        Config { shared_trunk: false, activation: Activation::Relu, ..config(18, &[64, 32, 16]) },
    ];
    for config in &cases {
        for precision in Precision::ALL {
            agrees(&device, &Locks, config, precision, 8);
        }
    }
}

#[test]
fn embeddings_follow_the_cpu() {
    let Some(device) = device(2) else { return };
    let base = || Config { encoder: Encoder::Embed, embed_width: 6, ..config(17, &[24]) };
    for (name, config) in [
        ("minigrid_empty_8x8", base()),
        ("minigrid_empty_8x8", Config { encoder: Encoder::EmbedMean, embed_width: 9, ..base() }),
        ("taxi", Config { encoder: Encoder::EmbedSum, shared_trunk: false, hidden: vec![20, 33], ..base() }),
        ("frozen_lake", Config { hidden: vec![], shared_trunk: false, ..base() }),
    ] {
        for precision in Precision::ALL {
            agrees(&device, &**builtin().find(name).expect("registered"), &config, precision, 8);
        }
    }
    // Bits between two parts with indices.
    for config in [base(), Config { encoder: Encoder::EmbedSum, shared_trunk: false, ..base() }] {
        for precision in Precision::ALL {
            agrees(&device, &Cards, &config, precision, 8);
        }
    }
    // Next to real numbers the indices are one-hot; embeddings of them need matrix products.
    agrees(&device, &MixedCards, &config(17, &[24]), Precision::F32, 8);
    let options = NetworkOptions { kernels: Kernels::Fused, ..Precision::F32.into() };
    let refused = CudaRollout::new(&device, &MixedCards, &base(), options).err().expect("refused");
    assert!(refused.to_string().contains("no real numbers or bytes"), "{refused}");
}

#[test]
fn wide_networks_read_weights_from_each_memory() {
    let Some(device) = device(1) else { return };
    for (hidden, precision, expected) in [
        (vec![64, 64], Precision::Bf16, WeightPlacement::Registers),
        (vec![128, 128], Precision::Bf16, WeightPlacement::Shared),
        (vec![128, 128], Precision::F32, WeightPlacement::Shared),
        (vec![256, 256], Precision::F32, WeightPlacement::Global),
        (vec![256, 256], Precision::Bf16, WeightPlacement::Shared),
    ] {
        let config = config(16, &hidden);
        let rollout = CudaRollout::new(&device, &Locks, &config, precision).expect("a rollout");
        assert_eq!(
            rollout.specialisation().map(|it| it.weights_at),
            Some(expected),
            "{hidden:?} {precision}"
        );
        agrees(&device, &Locks, &config, precision, 2);
    }
}

#[test]
fn normalisation_follows_the_cpu() {
    struct Check<'a>(&'a Device);
    impl Check<'_> {
        fn visit(self, env: &Arc<dyn AnyEnv>) {
            let config = Config { norm_obs: true, norm_reward: true, ..config(33, &[32]) };
            agrees(self.0, &**env, &config, Precision::F32, 40);
        }
    }
    let Some(device) = device(2) else { return };
    for name in ["cartpole", "mountain_car", "pendulum"] {
        Check(&device).visit(builtin().find(name).expect("registered"));
    }
    Check(&device).visit(&shared(Locks));
}

#[test]
fn a_horizon_is_its_steps() {
    struct Check<'a>(&'a Device, Precision);
    impl Check<'_> {
        fn visit(self, env: &Arc<dyn AnyEnv>) {
            // Long enough for time limits and ends of episodes in between.
            let config = Config { num_steps: 230, ..config(18, &[32]) };
            let params = params(&**env, &config);
            let mut problems = check_horizon(self.0, &**env, &config, self.1, &params).expect("a horizon");
            problems.extend(check_gae(self.0, &**env, &config, self.1, &params).expect("advantages"));
            assert!(problems.is_empty(), "{}: {problems:#?}", env.spec().name);
        }
    }
    for (ordinal, precision) in ORDERS.into_iter().zip(Precision::ALL) {
        let Some(device) = device(ordinal) else { return };
        for name in ["cartpole", "mountain_car", "pendulum"] {
            Check(&device, precision).visit(builtin().find(name).expect("registered"));
        }
        Check(&device, precision).visit(&shared(Locks));
    }
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let config = Config { norm_obs: true, norm_reward: true, num_steps: 40, ..config(65, &[32, 32]) };
    let mut all = Vec::new();
    for ordinal in ORDERS {
        let Some(device) = device(ordinal) else { return };
        for precision in Precision::ALL {
            let rollout = CudaRollout::new(&device, &Locks, &config, precision).expect("a rollout");
            rollout.set_params(&params(&Locks, &config)).expect("parameters");
            rollout.roll().and_then(|()| rollout.roll()).expect("two horizons");
            let norms: Vec<u64> = rollout
                .running_norms()
                .expect("statistics")
                .iter()
                .flat_map(|norm| [norm.mean.to_bits(), norm.var.to_bits()])
                .collect();
            all.push((
                ordinal,
                precision,
                rollout.samples().expect("samples"),
                rollout.environments().expect("environments"),
                norms,
            ));
        }
    }
    for (ordinal, precision, samples, environments, norms) in &all[3..] {
        let first = &all[Precision::ALL.iter().position(|p| p == precision).expect("one of them")];
        assert!(
            first.2 == *samples && first.3 == *environments && first.4 == *norms,
            "device {ordinal}, {precision}"
        );
    }
}

#[test]
fn a_horizon_is_one_launch_and_nothing_over_the_bus() {
    let Some(device) = device(0) else { return };
    let config = Config { num_steps: 16, ..config(64, &[32]) };
    let budget = std::time::Duration::ZERO;
    let measured = measure::rollout(&device, &Locks, &config, Precision::F32, budget).expect("a measurement");
    assert_eq!((measured.speed.launches, measured.speed.bus_bytes), (1.0, 0.0));
    let speed = measure::environments(&device, &Locks, [16, 64], true, budget).expect("a measurement");
    assert_eq!((speed.launches, speed.bus_bytes), (1.0, 0.0));
}

#[test]
fn environment_0_is_recorded_on_demand() {
    let Some(device) = device(0) else { return };
    let config = config(3, &[8]);
    let mut rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
    assert_eq!(rollout.scene().expect("no scene"), None);
    rollout.record_scene(true);
    rollout.set_params(&params(&Locks, &config)).expect("parameters");
    let before = rollout.environments().expect("environments");
    rollout.roll().expect("a horizon");
    let scene = rollout.scene().expect("read").expect("a scene");
    let words = scene.len() / config.num_steps;
    let first: Vec<u32> = before.iter().step_by(config.num_envs).copied().collect();
    assert_eq!(scene[..words - 2], first);
    let flags: Vec<u32> = rollout
        .returns()
        .expect("flags")
        .flags
        .iter()
        .step_by(config.num_envs)
        .map(|f| u32::from(*f))
        .collect();
    assert_eq!(scene.iter().skip(words - 2).step_by(words).copied().collect::<Vec<_>>(), flags);
}

#[test]
fn kernels_stay_within_their_memory_and_the_language() {
    for test in ["small_rollouts_of_every_kind", "environment_0_is_recorded_on_demand"] {
        let Some(output) = stand_in::rerun_sanitized(test) else { return };
        stand_in::must_pass(&output);
    }
}

/// What the sanitizers run: every memory of weights, every head, masks, bits, statistics and ends of episodes.
#[test]
fn small_rollouts_of_every_kind() {
    struct Check<'a>(&'a Device, Precision);
    impl Check<'_> {
        fn visit(self, env: &Arc<dyn AnyEnv>) {
            let bits = env.spec().obs.words() != env.spec().obs.size();
            let config = Config { norm_obs: !bits, norm_reward: true, num_steps: 12, ..config(17, &[20]) };
            let rollout = CudaRollout::new(self.0, &**env, &config, self.1).expect("a rollout");
            rollout.set_params(&params(&**env, &config)).expect("parameters");
            rollout.roll().and_then(|()| rollout.roll()).expect("two horizons");
            assert!(rollout.returns().expect("values").values.iter().all(|value| value.is_finite()));
            let differing = differing_environments(self.0, &**env, 33, 64).expect("random play");
            assert!(differing.is_empty(), "{}: environments {differing:?}", env.spec().name);
        }
    }
    let Some(device) = device(2) else { return };
    for (precision, name) in [
        (Precision::F32, "pendulum"),
        (Precision::Bf16, "cartpole"),
        (Precision::Tf32, "minatar_breakout"),
        (Precision::F32, "minatar_breakout"),
    ] {
        Check(&device, precision).visit(builtin().find(name).expect("registered"));
    }
    Check(&device, Precision::Bf16).visit(&shared(Locks));
    let wide = Config { num_steps: 2, ..config(16, &[256, 256]) };
    let rollout = CudaRollout::new(&device, &Locks, &wide, Precision::F32).expect("a rollout");
    assert_eq!(rollout.specialisation().map(|it| it.weights_at), Some(WeightPlacement::Global));
    rollout.set_params(&params(&Locks, &wide)).and_then(|()| rollout.roll()).expect("a horizon");
    rollout.samples().expect("samples");
}

#[test]
fn tolerances_stay_as_they_were_calibrated() {
    assert_eq!(Precision::ALL.map(tolerance), [1e-5, 2e-3, 2e-2]);
}
