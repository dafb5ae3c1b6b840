//! PQN on the GEMM path against the CPU, whose rollouts and updates `tests/pqn.rs` compares with a reference in f64.

use std::sync::Arc;

use operant_env::AnyEnv;
use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::{CudaLearner, CudaRollout, GpuOptions, Kernels};
use operant_learn::network::init_params;
use operant_learn::{
    Activation, Backend, Config, CoreKind, Encoder, EvalActions, LearnerState, Optimizer, Precision, cpu,
    cuda,
};
use operant_metrics::METRICS;
use operant_parity::{UpdatePath, batch_of, check_gae, check_horizon, distance, reference};

use super::ORDERS;
use crate::support::gpu::{
    config, device, gemm, gradient_agrees, params, rollout_agrees, same_bits_in_every_order, sanitized,
    updates_agree,
};
use crate::support::parts::Part;
use crate::support::{assert_same, run, world};

/// A configuration of PQN in whose rollouts of one step epsilon falls for 12 updates.
fn pqn(config: Config) -> Config {
    Config {
        algorithm: Algorithm::Pqn,
        optimizer: Optimizer::RAdam,
        layer_norm: true,
        activation: Activation::Relu,
        max_grad_norm: 10.0,
        total_timesteps: 24 * config.num_envs as u64,
        start_e: 0.8,
        end_e: 0.1,
        exploration_fraction: 0.5,
        ..config
    }
}

/// Layers of every kind, one and several components, masks, packed observations, and bootstraps at time limits of 24 steps.
fn networks() -> [(&'static str, Config); 12] {
    let base = |hidden: &[usize]| pqn(config(17, 8, hidden));
    let with = |core| Config { core, core_width: 11, sequence_length: 4, ..base(&[20]) };
    [
        ("locks", base(&[24, 16])),
        ("cartpole", base(&[64, 64])),
        ("t_maze", with(CoreKind::Gru)),
        ("switchboard", base(&[20])),
        ("minatar_breakout", Config { conv: vec![[4, 3, 1]], ..base(&[24]) }),
        ("locks", with(CoreKind::Lstm)),
        ("cartpole_no_velocity", Config { core_width: 0, ..with(CoreKind::MinGru) }),
        ("taxi", Config { encoder: Encoder::Embed, embed_width: 6, ..base(&[24]) }),
        ("prover", Config { pointer: true, ..base(&[12, 9]) }),
        ("locks", Config { dueling: true, ..base(&[24, 15]) }),
        // Two players, whose turn is not every other step.
        ("leduc_poker", base(&[16])),
        // A linear network.
        ("mixed_cards", Config { layer_norm: false, ..base(&[]) }),
    ]
}

in_parts! {
    steps_follow_the_cpu,
    updates_follow_the_cpu,
    horizons_are_their_steps,
    a_restored_backend_continues_bit_for_bit,
}

fn steps_follow_the_cpu(part: Part) {
    for (case, (name, config)) in part.of(5, networks()).into_iter().enumerate() {
        let Some(device) = device(ORDERS[case % 3]) else { return };
        rollout_agrees(&device, &*world(name), &config, gemm(Precision::F32), 30);
    }
}

fn updates_follow_the_cpu(part: Part) {
    for (case, (name, config)) in part.of(5, networks()).into_iter().enumerate() {
        let Some(device) = device(ORDERS[case % 3]) else { return };
        updates_agree(&device, &*world(name), &config, 2, UpdatePath::Gemm);
    }
}

/// The samples of a rollout on the device, and its update of them, against the reference in f64.
#[test]
fn an_update_matches_the_reference() {
    let gru = |c: Config| Config { core: CoreKind::Gru, core_width: 11, sequence_length: 4, ..c };
    let base = pqn(config(16, 8, &[12]));
    for (name, config) in [("locks", base.clone()), ("t_maze", gru(base))] {
        let (Some(device), env) = (device(1), world(name)) else { return };
        let options = gemm(Precision::F32);
        let rollout = CudaRollout::new(&device, &*env, &config, options).expect("a rollout");
        let (network, stream) = (rollout.network().clone(), rollout.stream());
        let mut params = init_params(&network, 2);
        rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
        // Other weights than those of the rollout, so that no error is zero.
        params.iter_mut().enumerate().for_each(|(k, w)| *w += 0.05 * (k as f32 * 0.7).sin());
        let learner =
            CudaLearner::new(&device, stream, &*env, &network, &config, options).expect("a learner");
        learner.load(stream, &LearnerState::new(params.clone()), 0, 0).expect("a state");
        learner.update(stream, rollout.samples_buffer()).expect("an update");
        let batch = batch_of(&rollout, &config).expect("samples");
        let expected = reference::update(&network, &config, &params, &batch, 0);
        let error = distance(&learner.state(stream).expect("a state").params, &expected.params);
        assert!(error < 1e-5, "{name}: parameters {error:e}");
        let losses = learner.report(stream).expect("a report").losses[0] / config.num_minibatches as f64;
        assert!((losses - expected.losses.value).abs() < 1e-4 * losses, "{name}: {losses}");
    }
}

/// With an epsilon that does not change from step to step.
fn horizons_are_their_steps(part: Part) {
    let Some(device) = device(2) else { return };
    let always = |config: Config| Config { start_e: 0.3, end_e: 0.3, ..pqn(config) };
    let cases = [
        ("locks", always(config(18, 60, &[20]))),
        ("locks", Config { core: CoreKind::Lstm, sequence_length: 8, ..always(config(33, 24, &[20])) }),
        ("mountain_car", always(config(3, 450, &[8]))),
    ];
    for (name, config) in part.of(3, cases) {
        let env = world(name);
        let (params, options) = (params(&*env, &config), gemm(Precision::F32));
        let mut problems = check_horizon(&device, &*env, &config, options, &params).expect("a horizon");
        problems.extend(check_gae(&device, &*env, &config, options, &params).expect("advantages"));
        assert!(problems.is_empty(), "{name}: {problems:#?}");
    }
}

#[test]
#[ignore = "cargo xtask test --all"]
fn lower_precisions_follow_single_precision() {
    for (ordinal, precision) in [(0, Precision::Bf16), (2, Precision::Tf32)] {
        let Some(device) = device(ordinal) else { return };
        for (name, config) in networks() {
            gradient_agrees(&device, &*world(name), &config, gemm(precision));
        }
        // Only of networks without normalisation a rollout's choices are checked for near ties.
        let plain = Config { layer_norm: false, ..pqn(config(17, 1, &[24])) };
        rollout_agrees(&device, &*world("locks"), &plain, gemm(precision), 12);
    }
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let config = pqn(config(33, 4, &[16]));
    same_bits_in_every_order(&*world("locks"), &config, gemm(Precision::F32));
}

// ---- the backend ----------------------------------------------------------------------------------------------------

/// Epsilon falls for 5 updates.
fn training(core: CoreKind) -> Config {
    let sequence_length = if core == CoreKind::Mlp { 0 } else { 6 };
    let sizes = Config { num_minibatches: 2, update_epochs: 2, ..config(20, 12, &[32]) };
    let whole = Config { total_timesteps: 20 * 12 * 10, norm_obs: true, norm_reward: true, ..pqn(sizes) };
    Config { core, sequence_length, ..whole }
}

fn on_gpu(ordinal: usize, env: &Arc<dyn AnyEnv>, config: &Config, overlap: bool) -> Option<Box<dyn Backend>> {
    let options = GpuOptions { overlap, ..GpuOptions::default() };
    Some(cuda::backend(Arc::clone(env), config, &device(ordinal)?, options).expect("a backend"))
}

#[test]
fn early_updates_report_what_the_cpu_reports() {
    // One minibatch, since the devices number their samples differently and so shuffle them differently.
    let config = Config { num_minibatches: 1, ..training(CoreKind::Mlp) };
    let env = world("cartpole");
    let Some(mut gpu) = on_gpu(0, &env, &config, false) else { return };
    assert!(gpu.how().is_some_and(|how| {
        how.starts_with("kernels: gemm; the fused kernels support only networks with a policy")
    }));
    let mut cpu = cpu::backend(env, &config, 1).expect("a CPU");
    let shares = [0.8, 0.66, 0.52, 0.38];
    for ((gpu, cpu), share) in run(&mut *gpu, 4).iter().zip(run(&mut *cpu, 4)).zip(shares) {
        assert_eq!(gpu.episodes, cpu.episodes);
        assert!((gpu.metrics.epsilon - share).abs() < 1e-12, "{}", gpu.metrics.epsilon);
        let both = gpu.metrics.values().into_iter().zip(cpu.metrics.values());
        let compared = METRICS.iter().zip(both).filter(|it| !["time", "bus"].contains(&it.0.group));
        for (metric, (gpu, cpu)) in compared {
            let close = (gpu - cpu).abs() <= 1e-3 * cpu.abs() + 1e-5;
            let what = metric.name;
            assert!(close || gpu.is_nan() && cpu.is_nan(), "{what}: {gpu} on the GPU, {cpu} on the CPU");
        }
    }
}

fn a_restored_backend_continues_bit_for_bit(part: Part) {
    let cases =
        [(CoreKind::Mlp, false), (CoreKind::Mlp, true), (CoreKind::Gru, false), (CoreKind::Lstm, true)];
    for (core, overlap) in part.of(4, cases) {
        let (env, config) = (world("locks"), training(core));
        let backend = || on_gpu(2, &env, &config, overlap);
        let (Some(mut straight), Some(mut first), Some(mut second)) = (backend(), backend(), backend())
        else {
            return;
        };
        run(&mut *straight, 5);
        run(&mut *first, 3);
        let saved = first.save().expect("a snapshot");
        run(&mut *second, 1);
        second.load(&saved).expect("the same environment and configuration");
        let stats = run(&mut *second, 2);
        assert!((stats[1].metrics.epsilon - 0.24).abs() < 1e-12, "{}", stats[1].metrics.epsilon);
        assert_same(&second.save().expect("a snapshot"), &straight.save().expect("a snapshot"), "continued");
    }
}

#[test]
fn snapshots_move_between_devices() {
    let (env, config) = (world("locks"), training(CoreKind::Mlp));
    let Some(mut gpu) = on_gpu(0, &env, &config, false) else { return };
    let mut cpu = cpu::backend(env, &config, 1).expect("a CPU");
    run(&mut *gpu, 2);
    let saved = gpu.save().expect("a snapshot");
    cpu.load(&saved).expect("the CPU takes it");
    assert_same(&cpu.save().expect("a snapshot"), &saved, "on the CPU");
    run(&mut *cpu, 1);
    gpu.load(&cpu.save().expect("a snapshot")).expect("the GPU takes it");
    assert_eq!(run(&mut *gpu, 1)[0].env_steps, 4 * 240);
}

#[test]
fn the_fused_kernels_refuse_pqn() {
    let Some(device) = device(0) else { return };
    let config = training(CoreKind::Mlp);
    let options = GpuOptions { network: gemm(Precision::F32), ..GpuOptions::default() };
    let refused = |options| {
        cuda::backend(world("locks"), &config, &device, options).err().expect("refused").to_string()
    };
    let mut fused = options;
    fused.network.kernels = Kernels::Fused;
    let text = refused(fused);
    assert!(
        text.contains("only networks with a policy") && text.contains("set kernels = \"gemm\""),
        "{text}"
    );
    let text = refused(GpuOptions { deterministic: true, ..options });
    assert!(text.starts_with("deterministic: "), "{text}");
}

#[test]
#[ignore = "cargo xtask test --all"]
fn pqn_learns_cartpole() {
    let sizes = Config { seed: 1, learning_rate: 1e-3, update_epochs: 2, ..config(16, 32, &[64, 64]) };
    // RAdam's first hundreds of steps are short: too few are left here.
    let optimizer = Optimizer::Adam;
    let config = Config { total_timesteps: 60_000, start_e: 1.0, end_e: 0.05, optimizer, ..pqn(sizes) };
    let Some(mut gpu) = on_gpu(2, &world("cartpole"), &config, false) else { return };
    let stats = run(&mut *gpu, config.updates() as usize);
    assert!(stats.iter().all(|stats| stats.nonfinite == 0));
    let returns = gpu.evaluate(0..50, 0, EvalActions::Greedy).expect("episodes").returns;
    let mean = returns.iter().sum::<f64>() / 50.0;
    assert!(mean > 195.0, "{mean}");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_pqn_stays_within_its_memory_and_the_language() {
    sanitized(&[
        "cuda::pqn::the_order_of_threads_changes_no_bit",
        "cuda::pqn::few_cases::updates_follow_the_cpu",
    ]);
}
