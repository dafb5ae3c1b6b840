//! Networks that run as matrix products: the real kernels between products, and products by a stand-in for cuBLASLt, against the CPU
//! backend.

use operant_cuda::Device;
use operant_env::AnyEnv;
use operant_learn::cuda::specialise::Limits;
use operant_learn::cuda::{CudaRollout, Kernels, NetworkOptions, choose};
use operant_learn::network::{Architecture, Network};
use operant_learn::{
    ActionDistribution, Activation, ClipGrad, Config, CoreKind, Encoder, LogStd, LrSchedule, Precision,
    ShuffleKind, ValueLoss,
};
use operant_parity::{UpdatePath, check_gae, check_horizon};

use super::{Share, precisions};
use crate::support::crane::Crane;
use crate::support::gpu::{
    config, device, gemm, gradient_agrees, params, rollout_agrees, same_bits_in_every_order, sanitized,
    stand_in, updates_agree,
};
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::world;
use crate::support::worlds::number;

/// A rollout, and what an update is made of: updates in single precision, a gradient in another.
fn agrees(device: &Device, env: &dyn AnyEnv, config: &Config, precision: Precision, updates: u64) {
    let one_step = Config { num_steps: 1, sequence_length: 0, ..config.clone() };
    rollout_agrees(device, env, &one_step, gemm(precision), 8);
    if precision == Precision::F32 {
        updates_agree(device, env, config, updates, UpdatePath::Gemm);
    } else {
        gradient_agrees(device, env, config, gemm(precision));
    }
}

fn steps_agree(name: &str, ordinal: usize, precision: Precision) {
    let Some(device) = device(ordinal) else { return };
    rollout_agrees(&device, &*world(name), &config(17, 1, &[40, 24]), gemm(precision), 8);
}

fn steps_in_one_order(name: &str) {
    let (ordinal, precision) = precisions()[(number(name) + 1) % 3];
    steps_agree(name, ordinal, precision);
}

fn steps_in_every_order(name: &str) {
    precisions().into_iter().for_each(|(ordinal, precision)| steps_agree(name, ordinal, precision));
}

mod steps_follow_the_cpu {
    representatives! { world_tests! super::steps_in_one_order: }
}

mod steps_of_each_kind_follow_the_cpu {
    other_kinds! { world_tests! #[ignore = "cargo xtask test --all"] super::steps_in_one_order: }
}

mod nightly_steps_follow_the_cpu {
    nightly_tests!(super::steps_in_every_order);
}

fn awkward_networks_agree(share: Share) {
    let cases = [
        ("locks", Config { shared_trunk: false, activation: Activation::Relu, ..config(33, 1, &[33, 20]) }),
        ("locks", config(1, 1, &[])),
        ("locks", config(130, 1, &[300])),
        ("cards", config(17, 1, &[24])),
        ("mixed_cards", config(17, 1, &[24])),
        ("fuses", config(33, 1, &[24])),
    ];
    for (case, (name, config)) in cases.into_iter().enumerate() {
        for (ordinal, precision) in share.of(precisions(), case) {
            let Some(device) = device(ordinal) else { return };
            rollout_agrees(&device, &*world(name), &config, gemm(precision), 8);
        }
    }
}

#[test]
fn awkward_networks_follow_the_cpu() {
    awkward_networks_agree(Share::One);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn awkward_networks_follow_the_cpu_in_other_precisions() {
    awkward_networks_agree(Share::Others);
}

fn with_layers() -> Config {
    Config { hidden: vec![24], ..config(17, 8, &[]) }
}

/// Declares settings with layers of every kind and environments for them, and tests of each.
macro_rules! kinds {
    ($($(#[$attribute:meta])* $kind:ident: $world:literal, $config:expr;)*) => {
        /// What the setting is called, its world and itself.
        fn kinds() -> Vec<(&'static str, &'static str, Config)> {
            vec![$((stringify!($kind), $world, $config)),*]
        }

        mod other_layers_follow_the_cpu {
            $(
                #[test]
                $(#[$attribute])*
                fn $kind() {
                    super::layers_agree(stringify!($kind), super::Share::One);
                }
            )*
        }

        mod other_layers_in_other_precisions {
            $(
                #[test]
                #[ignore = "cargo xtask test --all"]
                fn $kind() {
                    super::layers_agree(stringify!($kind), super::Share::Others);
                }
            )*
        }
    };
}

kinds! {
    conv: "minatar_breakout", Config { conv: vec![[5, 3, 1]], activation: Activation::Relu, ..with_layers() };
    conv_stack: "minatar_asterix", Config { conv: vec![[8, 4, 2], [3, 2, 1]], shared_trunk: false, ..with_layers() };
    conv_over_tables: "minigrid_empty_8x8",
            Config { encoder: Encoder::Embed, embed_width: 6, conv: vec![[4, 3, 2]], ..with_layers() };
    mean_of_tables: "minigrid_empty_8x8", Config { encoder: Encoder::EmbedMean, embed_width: 9, ..with_layers() };
    sum_of_tables: "taxi", Config { encoder: Encoder::EmbedSum, shared_trunk: false, ..with_layers() };
    layer_norm: "cartpole", Config { hidden: vec![20, 33], layer_norm: true, ..with_layers() };
    residual_blocks: "cartpole", Config { hidden: vec![9, 20], residual_blocks: 2, activation: Activation::Relu, ..with_layers() };
    #[ignore = "cargo xtask test --all"]
    pointer: "prover", Config { pointer: true, encoder: Encoder::Embed, embed_width: 4, ..with_layers() };
    #[ignore = "cargo xtask test --all"]
    pointer_normalised: "prover",
            Config { pointer: true, shared_trunk: false, layer_norm: true, hidden: vec![12, 9], ..with_layers() };
    mingru: "cartpole_no_velocity",
            Config { core: CoreKind::MinGru, core_layers: 2, sequence_length: 4, ..with_layers() };
    gru: "t_maze",
            Config { core: CoreKind::Gru, core_width: 13, sequence_length: 8, shared_trunk: false, ..with_layers() };
    lstm: "repeat_previous", Config { core: CoreKind::Lstm, core_width: 10, sequence_length: 4, ..with_layers() };
    lstm_over_conv: "minigrid_memory_s7",
            Config {
                core: CoreKind::Lstm,
                core_layers: 2,
                layer_norm: true,
                conv: vec![[4, 3, 2]],
                ..with_layers()
            };
    // Indices among reals, bits and bytes.
    #[ignore = "cargo xtask test --all"]
    tables_among_numbers: "mixed_cards", Config { encoder: Encoder::Embed, ..with_layers() };
    sums_among_numbers: "mixed_cards", Config { encoder: Encoder::EmbedSum, ..with_layers() };
    noise_on_means: "crane", Config { shared_trunk: false, ..with_layers() }.ppo(|ppo| ppo.rpo_alpha = 0.3);
    noise_with_memory: "crane",
            Config { core: CoreKind::Gru, sequence_length: 4, ..with_layers() }.ppo(|ppo| ppo.rpo_alpha = 0.5);
    deviations_of_the_network: "crane", Config { log_std: LogStd::Network, ..with_layers() };
    squashed: "crane", Config { action_distribution: ActionDistribution::Tanh, shared_trunk: false, ..with_layers() };
    beta: "crane", Config { action_distribution: ActionDistribution::Beta, ..with_layers() };
    squashed_with_memory: "crane",
            Config {
                action_distribution: ActionDistribution::Tanh,
                log_std: LogStd::Network,
                core: CoreKind::Lstm,
                sequence_length: 4,
                shared_trunk: false,
                ..with_layers()
            };
}

fn layers_agree(kind: &str, share: Share) {
    let kinds = kinds();
    let case = kinds.iter().position(|it| it.0 == kind).expect("a kind");
    let (_, name, config) = &kinds[case];
    for (ordinal, precision) in share.of(precisions(), case) {
        let Some(device) = device(ordinal) else { return };
        agrees(&device, &*world(name), config, precision, 10);
    }
}

#[test]
fn normalisation_follows_the_cpu() {
    let Some(device) = device(2) else { return };
    for name in ["acrobot", "mountain_car_continuous"] {
        let config = Config { norm_obs: true, norm_reward: true, ..config(21, 1, &[16]) };
        rollout_agrees(&device, &*world(name), &config, gemm(Precision::F32), 8);
    }
}

fn horizons_are_their_steps(share: Share) {
    let Some(device) = device(2) else { return };
    let with = |core| Config { core, sequence_length: 8, ..config(33, 24, &[20]) };
    // Every environment of MountainCar meets its time limit of 200 steps twice or three times.
    let long = || Config { shared_trunk: false, ..config(3, 450, &[8]) };
    let cases = [
        ("locks", config(33, 24, &[20])),
        ("fuses", config(33, 40, &[20])),
        ("locks", with(CoreKind::MinGru)),
        ("locks", with(CoreKind::Gru)),
        ("locks", with(CoreKind::Lstm)),
        ("mountain_car", long()),
        ("mountain_car", Config { core: CoreKind::Lstm, shared_trunk: true, ..long() }),
    ];
    for (case, (name, config)) in cases.into_iter().enumerate() {
        let env = world(name);
        let params = params(&*env, &config);
        for precision in share.of([Precision::F32, Precision::Bf16], case) {
            let horizon =
                check_horizon(&device, &*env, &config, gemm(precision), &params).expect("a horizon");
            let gae = check_gae(&device, &*env, &config, gemm(precision), &params).expect("advantages");
            assert!(horizon.is_empty() && gae.is_empty(), "{name}: {horizon:#?} {gae:#?}");
        }
    }
}

#[test]
fn a_horizon_is_its_steps_and_its_advantages_are_gae() {
    horizons_are_their_steps(Share::One);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_horizon_is_its_steps_in_other_precisions() {
    horizons_are_their_steps(Share::Others);
}

in_parts! { updates_follow_the_cpu, own_steps_follow_the_cpu, the_order_of_threads_changes_no_bit }

fn updates_follow_the_cpu(part: Part) {
    let Some(device) = device(2) else { return };
    let base = |envs: usize, steps: usize, hidden: &[usize]| config(envs, steps, hidden);
    let again = |config: Config| {
        let config = Config { recompute_advantages: true, ..config };
        config.ppo(|ppo| (ppo.vtrace_rho, ppo.vtrace_c) = (1.0, 1.1))
    };
    let cases = [
        ("cartpole", 10, base(16, 16, &[64, 64])),
        (
            "cartpole",
            2,
            Config { num_minibatches: 3, ..base(17, 9, &[64, 64]) }.ppo(|ppo| ppo.clip_vloss = false),
        ),
        ("minatar_breakout", 2, Config { activation: Activation::Relu, ..base(16, 8, &[64]) }),
        (
            "pendulum",
            2,
            Config { shared_trunk: false, ..base(16, 16, &[32]) }.ppo(|ppo| ppo.norm_adv = false),
        ),
        ("acrobot", 2, Config { num_minibatches: 1, lr_schedule: LrSchedule::Constant, ..base(1, 65, &[]) }),
        ("cartpole", 2, Config { activation: Activation::Relu, ..base(8, 8, &[600]) }),
        ("locks", 2, Config { shared_trunk: false, ..base(33, 8, &[20, 40]) }.ppo(|ppo| ppo.ent_coef = 0.1)),
        (
            "locks",
            2,
            Config { max_grad_norm: 0.01, ..base(65, 4, &[128, 32, 16]) }.ppo(|ppo| ppo.target_kl = 1e-4),
        ),
        ("cards", 2, base(17, 8, &[20])),
        ("pendulum", 2, Config { shared_trunk: false, ..again(base(16, 16, &[32])) }),
        (
            "locks",
            2,
            Config {
                num_minibatches: 3,
                value_loss: ValueLoss::Huber,
                huber_delta: 0.1,
                ..again(base(15, 7, &[20]))
            },
        ),
        (
            "repeat_previous",
            2,
            again(Config { core: CoreKind::Gru, sequence_length: 4, ..base(17, 8, &[12]) }),
        ),
        ("mixed_cards", 2, base(17, 8, &[20])),
    ];
    for (name, updates, config) in part.of(4, cases) {
        updates_agree(&device, &*world(name), &config, updates, UpdatePath::Gemm);
    }
}

/// Settings of the optimiser that the fused kernels do not have.
fn own_steps_follow_the_cpu(part: Part) {
    let Some(device) = device(2) else { return };
    let base = || Config { lr_warmup: 0.5, weight_decay: 0.1, ..config(16, 16, &[24]) };
    let apart = || Config { shared_trunk: false, vf_learning_rate: 3e-3, ..base() };
    let blocks = ShuffleKind::Blocks;
    let cases = [
        ("cartpole", Config { lr_warmup: 0.0, lr_schedule: LrSchedule::Kl, desired_kl: 1e-4, ..base() }),
        (
            "cartpole",
            Config { shuffle: blocks, clip_grad: ClipGrad::Network, max_grad_norm: 0.05, ..apart() },
        ),
        ("pendulum", apart()),
        ("pendulum", Config { lr_warmup: 0.0, lr_schedule: LrSchedule::Kl, ..apart() }),
        ("locks", base()),
    ];
    for (name, config) in part.of(3, cases) {
        assert_eq!(config.optimiser_problem(), None);
        updates_agree(&device, &*world(name), &config, 2, UpdatePath::Gemm);
    }
}

#[test]
fn what_only_this_path_has_is_chosen_by_it() {
    let Some(device) = device(0) else { return };
    let kernels = |config: &Config| {
        let env = world("cartpole");
        let network = Network::new(Architecture::of(&env.spec(), config).expect("a network"));
        let limits = Limits { shared: 232_448, multiprocessors: 132 };
        choose(&network, config, Precision::F32.into(), limits, || device.has_blas())
    };
    let chosen = kernels(&Config { weight_decay: 0.1, ..config(16, 16, &[24]) }).expect("products run it");
    assert_eq!(chosen.kernels, Kernels::Gemm);
    assert!(chosen.reason.contains("weight_decay = 0.1"), "{}", chosen.reason);
}

/// By default, gradients are those of other layers.
#[test]
#[ignore = "cargo xtask test --all"]
fn gradients_on_tensor_cores_are_those_of_single_precision() {
    let base = |hidden: &[usize]| config(17, 9, hidden);
    let cases = [
        ("cartpole", base(&[64, 64])),
        ("cartpole", base(&[])),
        ("acrobot", Config { shared_trunk: false, ..base(&[33, 20]) }),
        ("pendulum", base(&[32])),
        ("minatar_breakout", Config { activation: Activation::Relu, ..base(&[40, 32]) }),
        ("locks", base(&[20, 40])),
    ];
    for (ordinal, precision) in [(0, Precision::Bf16), (2, Precision::Tf32)] {
        let Some(device) = device(ordinal) else { return };
        for (name, config) in &cases {
            gradient_agrees(&device, &*world(name), config, gemm(precision));
        }
    }
}

fn the_order_of_threads_changes_no_bit(part: Part) {
    let others = ["conv_over_tables", "pointer_normalised", "mingru", "gru", "lstm"].map(|kind| {
        let (_, name, config) = kinds().into_iter().find(|it| it.0 == kind).expect("a kind");
        let sequence_length = config.sequence_length / 4;
        (name, Config { num_envs: 5, num_steps: 4, sequence_length, ..config })
    });
    for (name, config) in part.of(3, [("locks", config(33, 8, &[64, 32]))].into_iter().chain(others)) {
        same_bits_in_every_order(&*world(name), &config, gemm(Precision::Bf16));
    }
}

#[test]
fn other_policies_of_real_actions_always_become_products() {
    let Some(device) = device(0) else { return };
    let plain = || config(16, 4, &[16]);
    for (config, setting) in [
        (plain().ppo(|ppo| ppo.rpo_alpha = 0.1), "rpo_alpha"),
        (Config { log_std: LogStd::Network, ..plain() }, "log_std"),
        (Config { action_distribution: ActionDistribution::Tanh, ..plain() }, "action_distribution"),
        (Config { action_distribution: ActionDistribution::Beta, ..plain() }, "action_distribution"),
    ] {
        let rollout = |kernels| {
            CudaRollout::new(&device, &Crane, &config, NetworkOptions { kernels, precision: Precision::F32 })
        };
        let error = rollout(Kernels::Fused).err().expect("a refusal").to_string();
        assert!(error.contains(setting), "{error}");
        assert!(rollout(Kernels::Auto).expect("products run it").specialisation().is_none());
    }
}

/// A rollout and updates in each way of rectifying, also for a child process whose library lacks something.
#[test]
fn a_small_network_follows_the_cpu() {
    let Some(device) = device(1) else { return };
    for (precision, activation) in [
        (Precision::F32, Activation::Relu),
        (Precision::F32, Activation::Tanh),
        (Precision::Bf16, Activation::Relu),
    ] {
        let config = Config { activation, shared_trunk: false, ..config(9, 4, &[24, 16]) };
        agrees(&device, &Locks, &config, precision, 2);
    }
    for (_, name, config) in kinds().into_iter().filter(|it| ["conv", "mingru"].contains(&it.0)) {
        updates_agree(&device, &*world(name), &config, 1, UpdatePath::Gemm);
    }
}

#[test]
#[ignore = "cargo xtask test --all"]
fn networks_of_every_kind_follow_the_cpu() {
    let Some(device) = device(1) else { return };
    for (_, name, config) in kinds() {
        updates_agree(&device, &*world(name), &config, 1, UpdatePath::Gemm);
    }
}

const SMALL: &str = "cuda::gemm::a_small_network_follows_the_cpu";

fn without(refused: &str, test: &str) {
    let lacks = [("OPERANT_HOST_BLAS_REFUSES", refused.to_owned())];
    let Some(output) = stand_in::rerun_with(test, &lacks) else { return };
    stand_in::must_pass(&output);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn operations_of_which_some_are_unfused_follow_their_products() {
    for refused in ["relu_bias", "bias,relu_bias"] {
        without(refused, SMALL);
    }
    for refused in ["relu_bias", "bias,relu_bias", "bias,relu_bias,bias_gradient"] {
        without(refused, "cuda::gemm::networks_of_every_kind_follow_the_cpu");
    }
}

#[test]
fn unfused_operations_follow_their_products() {
    without("bias,relu_bias,bias_gradient", SMALL);
    // Without products there is nothing to train with, and words say so.
    let lacks = [("OPERANT_HOST_BLAS_REFUSES", "none,bias,relu_bias,bias_gradient".to_owned())];
    let Some(output) = stand_in::rerun_with(SMALL, &lacks) else { return };
    stand_in::must_fail(&output, &["cuBLASLt cannot compute"]);
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_products_stay_within_their_memory_and_the_language() {
    let test = |cases| format!("cuda::gemm::{cases}::the_order_of_threads_changes_no_bit");
    sanitized(&[&test("few_cases"), &test("other_cases")]);
}
