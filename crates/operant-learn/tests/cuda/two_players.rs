//! Self-play on the GEMM path against the CPU, whose advantages `cpu/gae.rs` compares with plain sums.

use std::sync::Arc;

use operant_env::AnyEnv;
use operant_env::search::Scripted;
use operant_env::versus::Versus;
use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::{GpuOptions, Kernels, NetworkOptions};
use operant_learn::{Config, CoreKind, Intrinsic, Precision, cpu, cuda};
use operant_parity::distance;

use super::ORDERS;
use crate::support::gpu::{config, device, gemm};
use crate::support::{assert_same, numbers, run, update, world};

/// Games end within a rollout, and go on after it. One minibatch, since the devices number their samples differently.
fn config_of(algorithm: Algorithm) -> Config {
    let sizes = Config { num_minibatches: 1, update_epochs: 1, ..config(21, 37, &[24]) };
    Config { algorithm, total_timesteps: 1_000_000, gamma: 0.97, learning_rate: 1e-3, ..sizes }
}

/// Players who alternate, who may move twice in a row, and four of them in two teams.
#[test]
fn self_play_follows_the_cpu() {
    let games = [
        ("connect_four", Algorithm::Ppo),
        ("leduc_poker", Algorithm::Ppo),
        ("capture_the_flag", Algorithm::Ppo),
        ("connect_four", Algorithm::Pqn),
    ];
    let mut ended = 0;
    for (case, (name, algorithm)) in games.into_iter().enumerate() {
        let (env, config) = (world(name), config_of(algorithm));
        let Some(device) = device(ORDERS[case % 3]) else { return };
        let mut gpu =
            cuda::backend(Arc::clone(&env), &config, &device, GpuOptions::default()).expect("a backend");
        let mut cpu = cpu::backend(env, &config, 1).expect("a CPU");
        for number in 0..3 {
            let what = format!("{name} by {algorithm}, update {number}");
            let (of_gpu, of_cpu) = (update(&mut *gpu), update(&mut *cpu));
            assert_eq!(of_gpu.episodes, of_cpu.episodes, "{what}");
            ended += of_gpu.episodes;
            let [on_gpu, on_cpu] = [&mut gpu, &mut cpu].map(|backend| backend.save().expect("a snapshot"));
            for (prefix, bound) in [("params.", 1e-5), ("exp_avg.", 2e-4), ("exp_avg_sq.", 2e-4)] {
                let error = distance(&numbers(&on_gpu, prefix), &numbers(&on_cpu, prefix));
                assert!(error < bound, "{what}: {prefix} {error:e}");
            }
            cpu.load(&on_gpu).expect("the same environment and configuration");
        }
    }
    assert!(ended > 100, "{ended} games");
}

#[test]
fn a_restored_game_continues_bit_for_bit_in_any_order_of_threads() {
    let (env, config) = (world("connect_four"), config_of(Algorithm::Ppo));
    let backend = |ordinal| {
        Some(
            cuda::backend(Arc::clone(&env), &config, &device(ordinal)?, GpuOptions::default())
                .expect("a backend"),
        )
    };
    let (Some(mut straight), Some(mut first), Some(mut second)) = (backend(0), backend(1), backend(2)) else {
        return;
    };
    run(&mut *straight, 4);
    run(&mut *first, 2);
    second.load(&first.save().expect("a snapshot")).expect("the same environment and configuration");
    run(&mut *second, 2);
    assert_same(&second.save().expect("a snapshot"), &straight.save().expect("a snapshot"), "continued");
}

#[test]
fn what_self_play_does_not_do_is_refused_with_the_reason() {
    let Some(device) = device(0) else { return };
    let refused = |env: Arc<dyn AnyEnv>, change: fn(&mut Config), kernels| {
        let mut config = config_of(Algorithm::Ppo);
        change(&mut config);
        let network = NetworkOptions { kernels, ..gemm(Precision::F32) };
        let options = GpuOptions { network, ..GpuOptions::default() };
        cuda::backend(env, &config, &device, options).err().expect("refused").to_string()
    };
    let game = || world("connect_four");
    let text = refused(game(), |_| (), Kernels::Fused);
    assert!(text.starts_with("kernels: \"fused\" does not support self-play"), "{text}");
    let text = refused(game(), |config| config.core = CoreKind::Gru, Kernels::Auto);
    assert!(text.starts_with("core: \"gru\" is not supported in self-play"), "{text}");
    let text = refused(game(), |config| config.intrinsic = Intrinsic::Counts, Kernels::Auto);
    assert!(text.starts_with("intrinsic: "), "{text}");
    let text = refused(Arc::new(Versus::new(game(), Scripted::Random.opponent())), |_| (), Kernels::Auto);
    assert!(text.contains("has no CUDA source"), "{text}");
}
