//! Networks that run as matrix products, without a GPU: the real kernels between products on the host's stand-in, products by a
//! stand-in for cuBLASLt, against the CPU backend.

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
use operant_bench::parity::{
    UpdatePath, check_gae, check_horizon, compare_gradient, compare_rollout, compare_update,
};
use operant_cuda::Device;
use operant_env::{AnyEnv, builtin};
use operant_learn::LearnerState;
use operant_learn::cuda::{CudaLearner, CudaRollout, Kernels, NetworkOptions};
use operant_learn::network::{Architecture, Network, init_params};
use operant_learn::{Activation, Config, CoreKind, Encoder, Precision};

fn shared(env: impl AnyEnv) -> Arc<dyn AnyEnv> {
    Arc::new(env)
}

fn config(num_envs: usize, num_steps: usize, hidden: &[usize]) -> Config {
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

fn layers(precision: Precision) -> NetworkOptions {
    NetworkOptions { precision, kernels: Kernels::Gemm }
}

/// Initial weights, the policy's last layer scaled up so that choices matter, and values away from zero.
fn params(env: &dyn AnyEnv, config: &Config) -> Vec<f32> {
    let network = Network::new(Architecture::of(&env.spec(), config).expect("the environment's network"));
    let mut params = init_params(&network, 11);
    for tensor in &network.tensors {
        match tensor.name.as_str() {
            "policy.weight" => params[tensor.range()].iter_mut().for_each(|w| *w *= 100.0),
            "value.bias" => params[tensor.range()].iter_mut().for_each(|b| *b = 0.5),
            _ => {}
        }
    }
    params
}

struct Rollouts<'a> {
    device: &'a Device,
    config: Config,
    precision: Precision,
}

impl Rollouts<'_> {
    fn visit(self, env: &Arc<dyn AnyEnv>) {
        let Self { device, config, precision } = self;
        let params = params(&**env, &config);
        let found =
            compare_rollout(device, &**env, &config, layers(precision), &params, 8).expect("a rollout");
        let problems = found.problems(precision);
        assert!(problems.is_empty(), "{} {precision}: {problems:#?} {found:?}", env.spec().name);
        assert_eq!(found.samples, 8 * config.num_envs);
    }
}

#[test]
fn rollouts_of_every_environment_follow_the_cpu() {
    for (ordinal, precision) in Precision::ALL.into_iter().enumerate() {
        let Some(device) = device(ordinal) else { return };
        for env in builtin().of_each_kind().envs() {
            let config = config(17, 1, &[40, 24]);
            let check = Rollouts { device: &device, config, precision };
            check.visit(env);
        }
        for config in [
            Config { shared_trunk: false, activation: Activation::Relu, ..config(33, 1, &[33, 20]) },
            config(1, 1, &[]),
            config(130, 1, &[300]),
        ] {
            Rollouts { device: &device, config, precision }.visit(&shared(Locks));
        }
        for env in [shared(Cards), shared(MixedCards)] {
            Rollouts { device: &device, config: config(17, 1, &[24]), precision }.visit(&env);
        }
    }
}

/// Settings with layers of every kind, and environments for them.
fn kinds() -> [(&'static str, Config); 12] {
    let base = || Config { hidden: vec![24], ..config(17, 8, &[]) };
    [
        ("minatar_breakout", Config { conv: vec![[5, 3, 1]], activation: Activation::Relu, ..base() }),
        ("minatar_asterix", Config { conv: vec![[8, 4, 2], [3, 2, 1]], shared_trunk: false, ..base() }),
        (
            "minigrid_empty_8x8",
            Config { encoder: Encoder::Embed, embed_width: 6, conv: vec![[4, 3, 2]], ..base() },
        ),
        ("minigrid_empty_8x8", Config { encoder: Encoder::EmbedMean, embed_width: 9, ..base() }),
        ("taxi", Config { encoder: Encoder::EmbedSum, shared_trunk: false, ..base() }),
        ("cartpole", Config { hidden: vec![20, 33], layer_norm: true, ..base() }),
        ("prover", Config { pointer: true, encoder: Encoder::Embed, embed_width: 4, ..base() }),
        (
            "prover",
            Config { pointer: true, shared_trunk: false, layer_norm: true, hidden: vec![12, 9], ..base() },
        ),
        (
            "cartpole_no_velocity",
            Config { core: CoreKind::MinGru, core_layers: 2, sequence_length: 4, ..base() },
        ),
        (
            "t_maze",
            Config { core: CoreKind::Gru, core_width: 13, sequence_length: 8, shared_trunk: false, ..base() },
        ),
        ("repeat_previous", Config { core: CoreKind::Lstm, core_width: 10, sequence_length: 4, ..base() }),
        (
            "minigrid_memory_s7",
            Config {
                core: CoreKind::Lstm,
                core_layers: 2,
                layer_norm: true,
                conv: vec![[4, 3, 2]],
                ..base()
            },
        ),
    ]
}

#[test]
fn other_layers_follow_the_cpu() {
    for (ordinal, precision) in [(1, Precision::F32), (2, Precision::Tf32), (0, Precision::Bf16)] {
        let Some(device) = device(ordinal) else { return };
        for (name, config) in kinds() {
            let env = builtin().find(name).expect("registered").clone();
            let one_step = Config { num_steps: 1, sequence_length: 0, ..config.clone() };
            Rollouts { device: &device, config: one_step, precision }.visit(&env);
            if precision == Precision::F32 {
                Compare { device: &device, config: config.clone(), updates: 10 }.visit(&env);
            } else {
                Rounded { device: &device, config: config.clone(), precision }.visit(&env);
            }
        }
        // Indices among reals, bits and bytes.
        for encoder in [Encoder::Embed, Encoder::EmbedSum] {
            let config = Config { encoder, hidden: vec![24], ..config(17, 8, &[]) };
            if precision == Precision::F32 {
                let one_step = Config { num_steps: 1, ..config.clone() };
                Rollouts { device: &device, config: one_step, precision }.visit(&shared(MixedCards));
                Compare { device: &device, config, updates: 10 }.visit(&shared(MixedCards));
            } else {
                Rounded { device: &device, config, precision }.visit(&shared(MixedCards));
            }
        }
    }
}

#[test]
fn normalisation_follows_the_cpu() {
    let Some(device) = device(2) else { return };
    for name in ["acrobot", "mountain_car_continuous"] {
        let config = Config { norm_obs: true, norm_reward: true, ..config(21, 1, &[16]) };
        let check = Rollouts { device: &device, config, precision: Precision::F32 };
        check.visit(builtin().find(name).expect("registered"));
    }
}

#[test]
fn a_horizon_is_its_steps_and_its_advantages_are_gae() {
    struct Check<'a>(&'a Device, Config);
    impl Check<'_> {
        fn visit(self, env: &Arc<dyn AnyEnv>) {
            let params = params(&**env, &self.1);
            for precision in [Precision::F32, Precision::Bf16] {
                let options = layers(precision);
                let horizon = check_horizon(self.0, &**env, &self.1, options, &params).expect("a horizon");
                let gae = check_gae(self.0, &**env, &self.1, options, &params).expect("advantages");
                assert!(horizon.is_empty() && gae.is_empty(), "{horizon:#?} {gae:#?}");
            }
        }
    }
    let Some(device) = device(2) else { return };
    Check(&device, config(33, 24, &[20])).visit(&shared(Locks));
    for core in [CoreKind::MinGru, CoreKind::Gru, CoreKind::Lstm] {
        let config = Config { core, sequence_length: 8, ..config(33, 24, &[20]) };
        Check(&device, config).visit(&shared(Locks));
    }
    // Every environment meets its time limit of 200 steps twice or three times.
    let check = Check(&device, Config { shared_trunk: false, ..config(3, 450, &[8]) });
    check.visit(builtin().find("mountain_car").expect("registered"));
    let check = Check(&device, Config { core: CoreKind::Lstm, ..config(3, 450, &[8]) });
    check.visit(builtin().find("mountain_car").expect("registered"));
}

struct Compare<'a> {
    device: &'a Device,
    config: Config,
    updates: u64,
}

impl Compare<'_> {
    /// The learner's state on the device.
    fn visit(self, env: &Arc<dyn AnyEnv>) -> LearnerState {
        let Self { device, config, updates } = self;
        let found = compare_update(device, &**env, &config, updates, UpdatePath::Gemm).expect("updates");
        assert!(found.problems.is_empty(), "{} {config:?}: {:#?}", env.spec().name, found.problems);
        found.state
    }
}

#[test]
fn updates_follow_the_cpu() {
    let Some(device) = device(2) else { return };
    let base = |envs: usize, steps: usize, hidden: &[usize]| config(envs, steps, hidden);
    for (name, updates, config) in [
        ("cartpole", 10, base(16, 16, &[64, 64])),
        ("cartpole", 2, Config { num_minibatches: 3, clip_vloss: false, ..base(17, 9, &[64, 64]) }),
        ("pendulum", 2, Config { shared_trunk: false, norm_adv: false, ..base(16, 16, &[32]) }),
        ("minatar_breakout", 2, Config { activation: Activation::Relu, ..base(16, 8, &[64]) }),
        ("acrobot", 2, Config { num_minibatches: 1, anneal_lr: false, ..base(1, 65, &[]) }),
        ("cartpole", 2, Config { activation: Activation::Relu, ..base(8, 8, &[600]) }),
    ] {
        let compare = Compare { device: &device, config, updates };
        compare.visit(builtin().find(name).expect("registered"));
    }
    for config in [
        Config { shared_trunk: false, ent_coef: 0.1, ..base(33, 8, &[20, 40]) },
        Config { target_kl: 1e-4, max_grad_norm: 0.01, ..base(65, 4, &[128, 32, 16]) },
    ] {
        Compare { device: &device, config, updates: 2 }.visit(&shared(Locks));
    }
    for env in [shared(Cards), shared(MixedCards)] {
        Compare { device: &device, config: base(17, 8, &[20]), updates: 2 }.visit(&env);
    }
}

struct Rounded<'a> {
    device: &'a Device,
    config: Config,
    precision: Precision,
}

impl Rounded<'_> {
    fn visit(self, env: &Arc<dyn AnyEnv>) {
        let Self { device, config, precision } = self;
        let problems = compare_gradient(device, &**env, &config, layers(precision)).expect("gradients");
        assert!(problems.is_empty(), "{} {precision} {:?}: {problems:#?}", env.spec().name, config.hidden);
    }
}

#[test]
fn gradients_on_tensor_cores_are_those_of_single_precision() {
    let base = |hidden: &[usize]| config(17, 9, hidden);
    for (ordinal, precision) in [(0, Precision::Bf16), (2, Precision::Tf32)] {
        let Some(device) = device(ordinal) else { return };
        for (name, config) in [
            ("cartpole", base(&[64, 64])),
            ("cartpole", base(&[])),
            ("acrobot", Config { shared_trunk: false, ..base(&[33, 20]) }),
            ("pendulum", base(&[32])),
            ("minatar_breakout", Config { activation: Activation::Relu, ..base(&[40, 32]) }),
        ] {
            let rounded = Rounded { device: &device, config, precision };
            rounded.visit(builtin().find(name).expect("registered"));
        }
        Rounded { device: &device, config: base(&[20, 40]), precision }.visit(&shared(Locks));
    }
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let [_, _, tables, _, _, _, _, pointer, mingru, gru, lstm, _] = kinds();
    let others = [tables, pointer, mingru, gru, lstm].map(|(name, config)| {
        (
            builtin().find(name).expect("registered").clone(),
            Config { num_envs: 5, num_steps: 4, sequence_length: config.sequence_length / 4, ..config },
        )
    });
    for (env, config) in [(shared(Locks), config(33, 8, &[64, 32]))].into_iter().chain(others) {
        let mut states = Vec::new();
        for ordinal in [0, 1, 2] {
            let Some(device) = device(ordinal) else { return };
            let options = layers(Precision::Bf16);
            let rollout = CudaRollout::new(&device, &*env, &config, options).expect("a rollout");
            let network = rollout.network().clone();
            let params = init_params(&network, 2);
            rollout.set_params(&params).expect("parameters");
            let stream = rollout.stream();
            let learner =
                CudaLearner::new(&device, stream, &*env, &network, &config, options).expect("a learner");
            learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
            for _ in 0..2 {
                rollout.roll().expect("a horizon");
                learner.update(stream, rollout.samples_buffer()).expect("an update");
            }
            states.push((learner.state(stream).expect("state"), rollout.samples().expect("samples")));
        }
        assert!(states.iter().all(|state| *state == states[0]), "bits differ in {}", env.spec().name);
    }
}

/// A rollout and updates in each way of rectifying, for a child process whose library lacks something.
#[test]
fn a_small_network_follows_the_cpu() {
    let Some(device) = device(1) else { return };
    for (precision, activation) in [
        (Precision::F32, Activation::Relu),
        (Precision::F32, Activation::Tanh),
        (Precision::Bf16, Activation::Relu),
    ] {
        let config = Config { activation, shared_trunk: false, ..config(9, 4, &[24, 16]) };
        Rollouts { device: &device, config: Config { num_steps: 1, ..config.clone() }, precision }
            .visit(&shared(Locks));
        if precision == Precision::F32 {
            Compare { device: &device, config, updates: 2 }.visit(&shared(Locks));
        } else {
            Rounded { device: &device, config, precision }.visit(&shared(Locks));
        }
    }
    for (name, config) in kinds() {
        let compare = Compare { device: &device, config, updates: 1 };
        compare.visit(builtin().find(name).expect("registered"));
    }
}

#[test]
fn unfused_operations_follow_their_products() {
    for refused in ["relu_bias", "bias,relu_bias", "bias,relu_bias,bias_gradient"] {
        let lacks = [("OPERANT_HOST_BLAS_REFUSES", refused.to_owned())];
        let Some(output) = stand_in::rerun_with("a_small_network_follows_the_cpu", &lacks) else { return };
        stand_in::must_pass(&output);
    }
    // Without products there is nothing to train with, and words say so.
    let lacks = [("OPERANT_HOST_BLAS_REFUSES", "none,bias,relu_bias,bias_gradient".to_owned())];
    let Some(output) = stand_in::rerun_with("a_small_network_follows_the_cpu", &lacks) else { return };
    stand_in::must_fail(&output, &["cuBLASLt cannot compute"]);
}

#[test]
fn products_stay_within_their_memory_and_the_language() {
    let Some(output) = stand_in::rerun_sanitized("the_order_of_threads_changes_no_bit") else { return };
    stand_in::must_pass(&output);
}
