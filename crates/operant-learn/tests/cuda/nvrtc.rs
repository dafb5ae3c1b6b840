//! Kernels by the real compiler, where there is one: `OPERANT_NVRTC_DIR` names the directory of libnvrtc. No driver is needed.

use std::io::Write;

use operant_cuda::{Compiler, Program, SearchPaths};
use operant_env::{AnyEnv, Autoreset};
use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::specialise::{Limits, Specialisation, UpdateSpecialisation};
use operant_learn::cuda::{
    GemmLayout, KernelEnv, Local, gae_program, gemm_cells_program, gemm_lookup_program, gemm_math_program,
    gemm_minibatch_program, gemm_muon_program, gemm_rnd_program, gemm_rollout_program, gemm_update_program,
    pack_program, play_program, replay_program, rollout_program, step_program, update_program,
};
use operant_learn::network::{Architecture, Network};
use operant_learn::{
    ActionDistribution, Config, CoreKind, Encoder, Intrinsic, LogStd, LrSchedule, Optimizer, Precision,
    ShuffleKind,
};

use crate::support::world;

const H200: Limits = Limits { shared: 232_448, multiprocessors: 132 };

/// Every program of an environment for a network with these hidden layers.
fn programs(env: &dyn AnyEnv, hidden: &[usize], precision: Precision) -> Vec<Program> {
    let config = Config { hidden: hidden.to_vec(), norm_obs: true, norm_reward: true, ..Config::default() };
    let bits = !env.spec().obs.is_real();
    let config = Config { norm_obs: !bits, ..config };
    let kernel_env = KernelEnv::of(env).expect("CUDA source");
    let network = Network::new(Architecture::of(&kernel_env.spec, &config).expect("a network"));
    let rollout = Specialisation::new(&network, &config, precision, H200).expect("it fits");
    let update = UpdateSpecialisation::new(&network, &config, precision, H200).expect("it fits");
    let (gemm_layout, local) = (GemmLayout::new(&network, precision), Local::from(&config));
    vec![
        rollout_program(&kernel_env, &network, &local, &rollout),
        pack_program(&network, &config, &rollout),
        update_program(&kernel_env, &network, &local, &update),
        gemm_math_program(&gemm_layout),
        gemm_rollout_program(&kernel_env, &network, &local, &gemm_layout, rollout.norms),
        gemm_update_program(&kernel_env, &network, &local, &gemm_layout),
        play_program(&kernel_env, 64, true, true),
        replay_program(&kernel_env),
        step_program(&kernel_env, Autoreset::SameStep),
        step_program(&kernel_env, Autoreset::NextStep),
        step_program(&kernel_env, Autoreset::Disabled),
        gae_program(),
    ]
}

/// Programs of an environment for networks with memory or embeddings, on the second of two GPUs.
fn with_layers(env: &dyn AnyEnv, config: Config, precision: Precision) -> Vec<Program> {
    let config = Config { hidden: vec![32], num_minibatches: 3, ..config };
    let kernel_env = KernelEnv::of(env).expect("CUDA source");
    let network = Network::new(Architecture::of(&kernel_env.spec, &config).expect("a network"));
    let (gemm_layout, local) = (GemmLayout::new(&network, precision), Local::of(&config, 1, 2, true));
    let fused = match UpdateSpecialisation::new(&network, &config, precision, H200) {
        Ok(update) => vec![
            rollout_program(&kernel_env, &network, &local, &update.forward),
            pack_program(&network, &config, &update.forward),
            update_program(&kernel_env, &network, &local, &update),
        ],
        Err(_) => Vec::new(),
    };
    let around = [
        gemm_rollout_program(&kernel_env, &network, &local, &gemm_layout, 0),
        gemm_update_program(&kernel_env, &network, &local, &gemm_layout),
    ];
    let of_layers = [gemm_cells_program(&gemm_layout), gemm_lookup_program(&gemm_layout)];
    let muon = gemm_muon_program(&network, &config, &gemm_layout);
    fused.into_iter().chain(around).chain(of_layers.into_iter().flatten()).chain(muon).collect()
}

/// Programs of a run that random network distillation makes explore, on the second of two GPUs if there are blocks.
fn with_rnd(env: &dyn AnyEnv, config: Config, precision: Precision) -> Vec<Program> {
    let norm_obs = env.spec().obs.is_real();
    // With two values for real numbers.
    let intrinsic_gamma = if norm_obs { 0.9 } else { 0.0 };
    let config = Config { hidden: vec![32], intrinsic: Intrinsic::Rnd, intrinsic_gamma, norm_obs, ..config };
    let devices = if config.shuffle == ShuffleKind::Blocks { 2 } else { 1 };
    let kernel_env = KernelEnv::of(env).expect("CUDA source");
    let network = Network::new(Architecture::of(&kernel_env.spec, &config).expect("a network"));
    let (gemm_layout, local) =
        (GemmLayout::new(&network, precision), Local::of(&config, devices - 1, devices, false));
    let norms = if norm_obs { network.architecture.input.features() } else { 0 };
    let rnd = gemm_rnd_program(&kernel_env, &network, &local, precision).expect("it explores");
    let rollout = gemm_rollout_program(&kernel_env, &network, &local, &gemm_layout, norms);
    vec![rollout, rnd, gemm_update_program(&kernel_env, &network, &local, &gemm_layout)]
}

/// Programs of an algorithm with a replay.
fn with_replay(env: &dyn AnyEnv, algorithm: Algorithm, config: Config, precision: Precision) -> Vec<Program> {
    let values = Config { algorithm, hidden: vec![32], ..config };
    let (action_distribution, log_std) = (ActionDistribution::Tanh, LogStd::Network);
    let config = match algorithm {
        Algorithm::Dqn => values,
        _ => Config { action_distribution, log_std, ..values },
    };
    let kernel_env = KernelEnv::of(env).expect("CUDA source");
    let network = Network::new(Architecture::of(&kernel_env.spec, &config).expect("a network"));
    let gemm_layout = GemmLayout::new(&network, precision);
    let rollout = gemm_rollout_program(&kernel_env, &network, &(&config).into(), &gemm_layout, 0);
    let minibatch = gemm_minibatch_program(&kernel_env, &network, &config, &gemm_layout);
    vec![rollout, minibatch.expect("it has a replay")]
}

/// Compiles for the H200's architecture.
fn compile(test: &str, programs: impl IntoIterator<Item = Program>) {
    let Some(directory) = std::env::var_os("OPERANT_NVRTC_DIR").filter(|value| !value.is_empty()) else {
        let reason = "no OPERANT_NVRTC_DIR with libnvrtc; cargo xtask python brings it";
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
        return;
    };
    let compiler =
        Compiler::find_at(&SearchPaths::only(&[directory]), None).expect("a compiler").cached_in(None);
    for program in programs {
        let image = compiler.compile(&program, 90).unwrap_or_else(|error| panic!("{error}"));
        assert!(!image.log.contains("warning"), "{}: {}", program.name, image.log);
    }
}

fn core(core: CoreKind) -> Config {
    Config { core, ..Config::default() }
}

fn pqn(core: CoreKind) -> Config {
    Config { algorithm: Algorithm::Pqn, layer_norm: true, ..self::core(core) }
}

/// Options of updates that the fused kernels do not have.
fn with_options() -> Config {
    let blocks =
        Config { shuffle: ShuffleKind::Blocks, num_envs: 1_024, shared_trunk: false, ..core(CoreKind::Gru) };
    blocks.ppo(|ppo| (ppo.norm_value, ppo.vf_epochs, ppo.prio_alpha) = (true, 1, 0.5))
}

/// Options of a replay.
fn from_priorities() -> Config {
    Config { value_bins: 51, priority_exponent: 0.6, ..Config::default() }
}

fn bins() -> Config {
    let config = Config { value_bins: 51, recompute_advantages: true, ..Config::default() };
    config.ppo(|ppo| ppo.clip_vloss = false)
}

fn tables() -> Config {
    Config { encoder: Encoder::Embed, ..Config::default() }
}

#[test]
fn kernels_compile_without_a_warning() {
    let mut programs = with_layers(&*world("taxi"), tables(), Precision::F32);
    let muon = Config { optimizer: Optimizer::Muon, lr_schedule: LrSchedule::Kl, ..core(CoreKind::Mlp) };
    programs.extend(with_layers(&*world("cartpole"), muon, Precision::Bf16));
    programs.extend(with_rnd(&*world("taxi"), tables(), Precision::Bf16));
    programs.extend(with_layers(&*world("pendulum"), with_options(), Precision::F32));
    programs.extend(with_replay(&*world("pendulum"), Algorithm::Sac, from_priorities(), Precision::F32));
    let recurrent = Config { priority_exponent: 0.6, sequence_length: 8, burn_in: 4, ..core(CoreKind::Gru) };
    programs.extend(with_replay(&*world("locks"), Algorithm::Dqn, recurrent, Precision::F32));
    compile("kernels_compile_without_a_warning", programs);
}

/// What `cargo xtask kernels --check` leaves out: linear networks, and of several GPUs, blocks, memory and tables.
#[test]
#[ignore = "cargo xtask test --all"]
fn rare_kernels_compile_without_a_warning() {
    let mut all = programs(&*world("minatar_breakout"), &[], Precision::Bf16);
    all.extend(programs(&*world("cartpole"), &[64, 64], Precision::Bf16));
    // Both heads as matrix products in lower precision, and normalisation of observations and rewards.
    all.extend(programs(&*world("pendulum"), &[64, 64], Precision::Bf16));
    all.extend(programs(&*world("minatar_breakout"), &[64, 64], Precision::Tf32));
    // Few one-hot inputs.
    all.extend(programs(&*world("t_maze"), &[64, 64], Precision::Bf16));
    all.extend(programs(&*world("t_maze"), &[], Precision::Tf32));
    let blocks = |core| Config { shuffle: ShuffleKind::Blocks, num_envs: 1_024, core, ..Config::default() };
    for (name, config, precision) in [
        ("t_maze", core(CoreKind::MinGru), Precision::Bf16),
        ("cartpole", core(CoreKind::Gru), Precision::Tf32),
        ("pendulum", core(CoreKind::Lstm), Precision::F32),
        ("cartpole", pqn(CoreKind::Gru), Precision::F32),
        ("locks", pqn(CoreKind::Mlp), Precision::Bf16),
        ("taxi", Config { encoder: Encoder::Embed, ..pqn(CoreKind::Mlp) }, Precision::Tf32),
        ("minigrid_empty_8x8", tables(), Precision::Bf16),
        ("cartpole", blocks(CoreKind::Mlp), Precision::Tf32),
        ("cartpole", bins(), Precision::Bf16),
        ("locks", with_options(), Precision::Bf16),
        ("pendulum", blocks(CoreKind::MinGru), Precision::F32),
    ] {
        all.extend(with_layers(&*world(name), config, precision));
    }
    for (name, config, precision) in [
        ("cartpole", blocks(CoreKind::Gru), Precision::F32),
        ("pendulum", core(CoreKind::Mlp), Precision::Bf16),
        ("minatar_breakout", pqn(CoreKind::Mlp), Precision::Tf32),
    ] {
        all.extend(with_rnd(&*world(name), config, precision));
    }
    all.extend(with_replay(&*world("quadrotor_hover"), Algorithm::Td3, Config::default(), Precision::Bf16));
    all.extend(with_replay(&*world("minatar_breakout"), Algorithm::Dqn, from_priorities(), Precision::Bf16));
    all.extend(with_replay(&*world("taxi"), Algorithm::Dqn, Config::default(), Precision::Tf32));
    compile("rare_kernels_compile_without_a_warning", all);
}
