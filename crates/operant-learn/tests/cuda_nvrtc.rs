//! Every kernel by the real compiler, where there is one: `OPERANT_NVRTC_DIR` names the directory of libnvrtc. No driver is needed.

#![cfg(feature = "cuda")]

use std::io::Write;

use operant_cuda::{Compiler, Program, SearchPaths};
use operant_env::{
    AnyEnv, Autoreset, builtin,
    cartpole::CartPole,
    minatar::{Breakout, MinAtar},
    pendulum::Pendulum,
    t_maze::TMaze,
};
use operant_learn::cuda::specialise::{Limits, Specialisation, UpdateSpecialisation};
use operant_learn::cuda::{
    GemmLayout, KernelEnv, Local, gae_program, gemm_cells_program, gemm_lookup_program, gemm_math_program,
    gemm_rollout_program, gemm_update_program, pack_program, play_program, replay_program, rollout_program,
    step_program, update_program,
};
use operant_learn::network::{Architecture, Network};
use operant_learn::{Config, CoreKind, Encoder, Precision, ShuffleKind};

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
    fused.into_iter().chain(around).chain(of_layers.into_iter().flatten()).collect()
}

#[test]
fn every_kernel_compiles_without_a_warning() {
    let Some(directory) = std::env::var_os("OPERANT_NVRTC_DIR").filter(|value| !value.is_empty()) else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED every_kernel_compiles_without_a_warning: no OPERANT_NVRTC_DIR with libnvrtc; cargo xtask python brings it"
        );
        return;
    };
    let compiler =
        Compiler::find_at(&SearchPaths::only(&[directory]), None).expect("a compiler").cached_in(None);
    let mut all = programs(&CartPole::default(), &[64, 64], Precision::F32);
    all.extend(programs(&Pendulum::default(), &[64, 64], Precision::Bf16));
    all.extend(programs(&MinAtar::<Breakout>::default(), &[64, 64], Precision::Tf32));
    all.extend(programs(&MinAtar::<Breakout>::default(), &[], Precision::Bf16));
    // Few one-hot inputs.
    all.extend(programs(&TMaze::default(), &[64, 64], Precision::Bf16));
    all.extend(programs(&TMaze::default(), &[], Precision::Tf32));
    let core = |core| Config { core, ..Config::default() };
    all.extend(with_layers(&TMaze::default(), core(CoreKind::MinGru), Precision::Bf16));
    all.extend(with_layers(&CartPole::default(), core(CoreKind::Gru), Precision::Tf32));
    all.extend(with_layers(&Pendulum::default(), core(CoreKind::Lstm), Precision::F32));
    for (name, precision) in [("minigrid_empty_8x8", Precision::Bf16), ("taxi", Precision::F32)] {
        let tables = Config { encoder: Encoder::Embed, ..Config::default() };
        all.extend(with_layers(&**builtin().find(name).expect("registered"), tables, precision));
    }
    let blocks = |core| Config { shuffle: ShuffleKind::Blocks, num_envs: 1_024, core, ..Config::default() };
    all.extend(with_layers(&CartPole::default(), blocks(CoreKind::Mlp), Precision::Tf32));
    all.extend(with_layers(&Pendulum::default(), blocks(CoreKind::MinGru), Precision::F32));
    for program in all {
        let image = compiler.compile(&program, 90).unwrap_or_else(|error| panic!("{error}"));
        assert!(!image.log.contains("warning"), "{}: {}", program.name, image.log);
    }
}
