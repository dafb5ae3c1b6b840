//! Options of PPO's update that the fused kernels do not have, on the GEMM path against the CPU: epochs of the critic alone, normalised values,
//! sequences drawn by priority, distributions of values, and two values.

use std::sync::Arc;

use operant_learn::cuda::{CudaLearner, CudaRollout, GpuOptions};
use operant_learn::normalise::RunningNorm;
use operant_learn::{
    Config, CoreKind, Intrinsic, LearnerState, LrSchedule, Optimizer, Precision, ShuffleKind, cpu, cuda,
};
use operant_parity::{UpdatePath, distance};

use super::ORDERS;
use crate::support::gpu::{
    config, device, gemm, params, rollout_agrees, same_bits_in_every_order, sanitized, updates_agree,
};
use crate::support::parts::Part;
use crate::support::{assert_same, numbers, run, update, world};

fn base() -> Config {
    Config { shared_trunk: false, num_minibatches: 3, update_epochs: 3, ..config(16, 15, &[24]) }
}

/// Advantages are computed again with weighted errors, in sequences of a layer with memory.
fn with_memory(config: Config) -> Config {
    let sizes = Config { core: CoreKind::Gru, core_width: 12, sequence_length: 4, num_steps: 16, ..config };
    Config { num_minibatches: 4, recompute_advantages: true, ..sizes }
        .ppo(|ppo| (ppo.vtrace_rho, ppo.vtrace_c) = (1.0, 1.1))
}

fn bins(config: Config) -> Config {
    Config { value_bins: 11, value_min: -3.0, value_max: 20.0, ..config }.ppo(|ppo| ppo.clip_vloss = false)
}

fn two_values(config: Config) -> Config {
    let rnd = Config { intrinsic: Intrinsic::Rnd, norm_obs: true, ..config };
    Config { intrinsic_gamma: 0.8, recompute_advantages: false, ..rnd }
        .ppo(|ppo| (ppo.vtrace_rho, ppo.vtrace_c) = (0.0, 0.0))
}

fn normalised(config: Config) -> Config {
    config.ppo(|ppo| ppo.norm_value = true)
}

fn drawn(config: Config) -> Config {
    config.ppo(|ppo| (ppo.prio_alpha, ppo.prio_beta0) = (0.7, 0.4))
}

fn with_critic_epochs(config: Config) -> Config {
    config.ppo(|ppo| ppo.vf_epochs = 2)
}

fn all(config: Config) -> Config {
    with_critic_epochs(normalised(drawn(config)))
}

in_parts! { options_follow_the_cpu, the_order_of_threads_changes_no_bit }

fn options_follow_the_cpu(part: Part) {
    let Some(device) = device(2) else { return };
    let blocks = |config| Config { shuffle: ShuffleKind::Blocks, num_envs: 64, ..with_memory(config) };
    assert_eq!(blocks(base()).blocks(), 4);
    let stopping = Config { optimizer: Optimizer::Muon, ..with_critic_epochs(base()) };
    let stopping = stopping.ppo(|ppo| ppo.target_kl = 1e-5);
    let cases = [
        ("cartpole", stopping),
        ("cartpole", normalised(Config { shared_trunk: true, ..base() })),
        ("cartpole", drawn(base())),
        ("repeat_previous", bins(with_memory(Config { shared_trunk: true, ..base() }))),
        ("pendulum", with_critic_epochs(Config { lr_schedule: LrSchedule::Kl, ..base() })),
        ("locks", drawn(with_memory(base()))),
        ("repeat_previous", all(with_memory(base()))),
        ("locks", bins(blocks(base()))),
        ("locks", two_values(blocks(Config { shared_trunk: true, ..base() }))),
        ("pendulum", with_critic_epochs(two_values(drawn(base())))),
        ("pendulum", with_critic_epochs(bins(drawn(base())))),
        ("locks", all(blocks(base()))),
        ("pendulum", normalised(Config { recompute_advantages: true, ..base() })),
    ];
    for (name, config) in part.of(3, cases) {
        let own = [config.optimiser_problem(), (config.algorithm.declaration().problem)(&config)];
        assert_eq!(own, [None, None], "{name}");
        updates_agree(&device, &*world(name), &config, 3, UpdatePath::Gemm);
    }
}

#[test]
fn distributions_of_values_play_as_on_the_cpu() {
    let Some(device) = device(1) else { return };
    for (name, shared_trunk) in [("locks", true), ("pendulum", false)] {
        let config = Config { shared_trunk, num_steps: 1, num_minibatches: 1, ..bins(base()) };
        rollout_agrees(&device, &*world(name), &config, gemm(Precision::F32), 8);
    }
}

fn the_order_of_threads_changes_no_bit(part: Part) {
    let cases = [all(base()), bins(drawn(with_memory(base())))];
    for config in part.of(2, cases) {
        same_bits_in_every_order(&*world("locks"), &config, gemm(Precision::Bf16));
    }
}

/// Rollouts have values in the rewards' units, whatever the network computes. One minibatch, since the devices number their samples differently.
#[test]
fn training_follows_the_cpu() {
    for (case, change) in [|config| with_critic_epochs(normalised(config)), bins].into_iter().enumerate() {
        let (env, config) = (world("cartpole"), change(Config { num_minibatches: 1, ..base() }));
        let config = Config { norm_reward: case == 0, total_timesteps: 1_000_000, ..config };
        let Some(device) = device(ORDERS[case]) else { return };
        let mut gpu =
            cuda::backend(Arc::clone(&env), &config, &device, GpuOptions::default()).expect("a backend");
        let mut cpu = cpu::backend(env, &config, 1).expect("a CPU");
        for number in 0..3 {
            update(&mut *gpu);
            update(&mut *cpu);
            let [on_gpu, on_cpu] = [&mut gpu, &mut cpu].map(|backend| backend.save().expect("a snapshot"));
            for (prefix, bound) in [("params.", 1e-5), ("exp_avg.", 2e-4), ("exp_avg_sq.", 2e-4)] {
                let error = distance(&numbers(&on_gpu, prefix), &numbers(&on_cpu, prefix));
                assert!(error < bound, "case {case}, update {number}: {prefix} {error:e}");
            }
            cpu.load(&on_gpu).expect("the same environment and configuration");
        }
    }
}

#[test]
fn a_restored_run_continues_bit_for_bit_in_any_order_of_threads() {
    let (env, config) = (world("cartpole"), all(base()));
    let backend = |ordinal| {
        let device = device(ordinal)?;
        Some(cuda::backend(Arc::clone(&env), &config, &device, GpuOptions::default()).expect("a backend"))
    };
    let (Some(mut straight), Some(mut first), Some(mut second)) = (backend(0), backend(1), backend(2)) else {
        return;
    };
    run(&mut *straight, 4);
    run(&mut *first, 2);
    second.load(&first.save().expect("a snapshot")).expect("the same environment and configuration");
    run(&mut *second, 2);
    let last = second.save().expect("a snapshot");
    assert!(last.tensors.iter().any(|tensor| tensor.name.starts_with("norm_value.")));
    assert_same(&last, &straight.save().expect("a snapshot"), "continued");
}

/// Without finite advantages an epoch has its shuffle, and statistics of returns stay.
#[test]
fn advantages_that_are_not_finite_spoil_neither_draws_nor_units() {
    let Some(device) = device(0) else { return };
    let (env, config) = (world("locks"), Config { num_minibatches: 5, update_epochs: 1, ..all(base()) });
    let config = config.ppo(|ppo| ppo.norm_adv = false);
    let options = gemm(Precision::F32);
    let rollout = CudaRollout::new(&device, &*env, &config, options).expect("a rollout");
    let network = rollout.network().clone();
    let weights = params(&*env, &config);
    rollout.set_params(&weights).and_then(|()| rollout.roll()).expect("a horizon");
    let (stream, layout) = (rollout.stream(), rollout.layout());
    let mut samples = rollout.samples().expect("samples");
    samples[7 * layout.stride + layout.advantage] = f32::NAN.to_bits();
    rollout.samples_buffer().write(stream, &samples).expect("samples");
    let learner = CudaLearner::new(&device, stream, &*env, &network, &config, options).expect("a learner");
    learner.load(stream, &LearnerState::new(weights), 0, 0).expect("a state");
    learner.update(stream, rollout.samples_buffer()).expect("an update");
    let (report, state) = (learner.report(stream).expect("report"), learner.state(stream).expect("state"));
    // One of five minibatches, in an epoch of all and two of the critic.
    assert_eq!((report.nonfinite, report.minibatches, state.step), (3, 4.0, 12));
    assert!(state.params.iter().all(|w| w.is_finite()));
    assert_eq!(state.value_norm, RunningNorm::new(1));
}

/// A rollout of older weights would need the units of its time.
#[test]
fn normalised_values_do_not_overlap() {
    let Some(device) = device(0) else { return };
    let options = GpuOptions { overlap: true, ..GpuOptions::default() };
    let error = cuda::backend(world("cartpole"), &normalised(base()), &device, options).err();
    let text = error.expect("refused").to_string();
    assert!(text.starts_with("overlap: norm_value changes the units"), "{text}");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_options_stay_within_their_memory_and_the_language() {
    let test = |cases| format!("cuda::options::{cases}::the_order_of_threads_changes_no_bit");
    sanitized(&[&test("few_cases"), &test("other_cases")]);
}
