//! SAC, TD3 and DQN on the GEMM path against the CPU, whose minibatches `tests/sac.rs` and `tests/dqn.rs` compare with a reference in f64.

use std::sync::Arc;

use operant_cuda::Device;
use operant_env::AnyEnv;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::off_policy::given::Given;
use operant_learn::cpu::off_policy::replay::{Replay, ReplayLayout};
use operant_learn::cuda::footprint::Footprint;
use operant_learn::cuda::{GpuOptions, Kernels, NetworkOptions};
use operant_learn::network::Architecture;
use operant_learn::{
    ActionDistribution, Activation, Backend, Config, CoreKind, Encoder, LearnError, LogStd, LrSchedule,
    Precision, Snapshot, ValueLoss, WeightInit, cpu, cuda,
};
use operant_metrics::METRICS;
use operant_parity::distance;

use super::ORDERS;
use crate::support::gpu::{device, gemm, little_device, sanitized, stand_in};
use crate::support::parts::Part;
use crate::support::{assert_same, numbers, run, update, world};

/// Small networks, five environments, and a checkpoint with the replay. The first episodes of Pendulum end after four updates, minibatches begin in
/// the fifth.
fn config(algorithm: Algorithm) -> Config {
    let defaults = Config::default();
    let (action_distribution, log_std) = match algorithm {
        Algorithm::Dqn => (defaults.action_distribution, defaults.log_std),
        _ => (ActionDistribution::Tanh, LogStd::Network),
    };
    Config {
        algorithm,
        seed: 3,
        total_timesteps: 100_000,
        num_envs: 5,
        num_steps: 50,
        num_minibatches: 1,
        learning_rate: 1e-3,
        lr_schedule: LrSchedule::Constant,
        max_grad_norm: 1e9,
        hidden: vec![24, 17],
        activation: Activation::Relu,
        init: WeightInit::PyTorch,
        action_distribution,
        log_std,
        batch_size: 200,
        learning_starts: 1_010,
        buffer_size: 1_100,
        updates_per_step: 0.02,
        policy_frequency: if algorithm == Algorithm::Td3 { 2 } else { 1 },
        exploration_fraction: 0.02,
        checkpoint_replay: true,
        ..defaults
    }
}

/// Networks, samples and steps of every kind.
fn cases() -> [(&'static str, Config); 18] {
    let (sac, dqn) = (|| config(Algorithm::Sac), || config(Algorithm::Dqn));
    let recurrent = |core, sequence_length| Config { core, sequence_length, ..dqn() };
    [
        ("pendulum", Config { n_step: 3, norm_obs: true, ..sac() }),
        ("pendulum", config(Algorithm::Td3)),
        ("quadrotor_hover", Config { layer_norm: true, activation: Activation::Tanh, ..sac() }),
        (
            "pendulum",
            Config { hidden: vec![19], residual_blocks: 2, batch_size: 77, policy_frequency: 2, ..sac() },
        ),
        (
            "quadrotor_hover",
            Config {
                n_step: 2,
                norm_obs: true,
                hidden: vec![],
                tau: 0.1,
                target_network_frequency: 2,
                ..config(Algorithm::Td3)
            },
        ),
        (
            "pendulum",
            Config { weight_decay: 0.1, max_grad_norm: 0.05, vf_learning_rate: 3e-3, tau: 0.1, ..sac() }
                .sac(|sac| (sac.autotune, sac.alpha) = (false, 0.3)),
        ),
        ("pendulum", Config { buffer_size: 1_015, lr_schedule: LrSchedule::Linear, lr_warmup: 0.5, ..sac() }),
        ("cartpole", dqn()),
        // Tables, and the ends of episodes by a time limit.
        ("taxi", Config { encoder: Encoder::Embed, n_step: 3, ..dqn() }.dqn(|dqn| dqn.double_q = false)),
        // Packed bits and a convolution.
        (
            "minatar_breakout",
            Config {
                conv: vec![[4, 3, 2]],
                hidden: vec![16],
                value_loss: ValueLoss::Huber,
                huber_delta: 0.01,
                ..dqn()
            },
        ),
        // Masks, and several components of an action.
        ("locks", Config { layer_norm: true, dueling: true, tau: 1.0, target_network_frequency: 2, ..dqn() }),
        ("acrobot", Config { norm_obs: true, max_grad_norm: 0.05, batch_size: 77, ..dqn() }),
        // Sequences, several of which end with the newest row.
        (
            "cartpole",
            Config {
                core_layers: 2,
                core_width: 9,
                n_step: 3,
                norm_obs: true,
                ..recurrent(CoreKind::Gru, 8)
            },
        ),
        // Time limits within sequences, and a burn-in.
        (
            "taxi",
            Config {
                encoder: Encoder::Embed,
                n_step: 2,
                burn_in: 3,
                buffer_size: 1_015,
                ..recurrent(CoreKind::Lstm, 40)
            }
            .dqn(|dqn| dqn.double_q = false),
        ),
        (
            "locks",
            Config { dueling: true, burn_in: 1, value_loss: ValueLoss::Huber, ..recurrent(CoreKind::Gru, 4) },
        ),
        (
            "t_maze",
            Config {
                value_bins: 11,
                value_min: -1.0,
                value_max: 2.0,
                burn_in: 4,
                ..recurrent(CoreKind::MinGru, 5)
            },
        ),
        // Distributions of values, some of which are beyond the bounds.
        ("cartpole", Config { value_bins: 11, value_min: 0.0, value_max: 2.0, n_step: 2, ..dqn() }),
        ("pendulum", Config { value_bins: 21, value_min: -40.0, value_max: 0.0, ..sac() }),
    ]
}

/// Samples by priority, one minibatch in each update: after it rounding may move the end of a draw.
fn by_priority() -> [(&'static str, Config); 4] {
    let of = |config| Config { priority_exponent: 0.7, updates_per_step: 0.004, ..config };
    let [.., (of_values, distributions), _] = cases();
    [
        ("pendulum", of(Config { buffer_size: 1_015, n_step: 2, ..config(Algorithm::Sac) })),
        ("taxi", of(Config { encoder: Encoder::Embed, n_step: 3, ..config(Algorithm::Dqn) })),
        // Sequences from a full replay, with final observations.
        (
            "taxi",
            of(Config {
                core: CoreKind::MinGru,
                sequence_length: 8,
                burn_in: 2,
                buffer_size: 1_015,
                ..config(Algorithm::Dqn)
            }),
        ),
        (of_values, of(distributions)),
    ]
}

in_parts! {
    cycles_follow_the_cpu,
    a_restored_backend_continues_bit_for_bit,
    draws_by_priority_follow_the_cpu,
}

fn options(precision: Precision) -> GpuOptions {
    GpuOptions { network: gemm(precision), ..GpuOptions::default() }
}

fn on_gpu(device: &Device, env: &Arc<dyn AnyEnv>, config: &Config) -> Box<dyn Backend> {
    cuda::backend(Arc::clone(env), config, device, GpuOptions::default()).expect("a backend")
}

fn layout(env: &dyn AnyEnv, config: &Config) -> ReplayLayout {
    ReplayLayout::new(&Architecture::of(&env.spec(), config).expect("trains"), env.masked())
}

/// The state and the replay.
type Whole = (Snapshot, Replay);

fn saved(backend: &mut dyn Backend) -> Whole {
    let snapshot = backend.save().expect("a snapshot");
    (snapshot, backend.replay().expect("read").expect("a replay").into_owned())
}

fn load(backend: &mut dyn Backend, (snapshot, replay): &Whole) {
    backend.load(snapshot).expect("the same environment and configuration");
    let fill = &mut |to: &mut Replay| -> Result<(), LearnError> {
        to.clone_from(replay);
        Ok(())
    };
    backend.fill_replay(fill).expect("filled");
}

/// The words of all rows.
fn rows(replay: &Replay) -> Vec<u32> {
    replay.written_rows().flatten().copied().collect()
}

#[track_caller]
fn assert_equal(one: &Whole, other: &Whole, what: &str) {
    assert_same(&one.0, &other.0, what);
    assert!(one.1.heads() == other.1.heads() && rows(&one.1) == rows(&other.1), "{what}: the replay");
}

/// The replay must have the same steps, and after `updates` updates since the devices had the same state the learner must be near.
#[track_caller]
fn assert_near(
    (gpu, gpu_replay): &Whole,
    (cpu, cpu_replay): &Whole,
    layout: &ReplayLayout,
    bound: f64,
    what: &str,
) {
    assert_eq!(gpu.counters, cpu.counters, "{what}");
    assert_eq!(gpu_replay.heads(), cpu_replay.heads(), "{what}");
    for (prefix, times) in [("params.", 1.0), ("targets.", 1.0), ("exp_avg.", 20.0), ("exp_avg_sq.", 20.0)] {
        let [on_gpu, on_cpu] = [gpu, cpu].map(|snapshot| numbers(snapshot, prefix));
        let error = if on_gpu == on_cpu { 0.0 } else { distance(&on_gpu, &on_cpu) };
        assert!(error < times * bound, "{what}: {prefix} {error:e}");
    }
    let [on_gpu, on_cpu] = [gpu_replay, cpu_replay].map(rows);
    assert!(!on_cpu.is_empty() && on_gpu.len() == on_cpu.len(), "{what}");
    for (gpu, cpu) in on_gpu.chunks(layout.stride).zip(on_cpu.chunks(layout.stride)) {
        assert_eq!(gpu[layout.end], cpu[layout.end], "{what}");
        let reals =
            |row: &[u32]| row[..layout.end].iter().map(|word| f32::from_bits(*word)).collect::<Vec<_>>();
        // Bits and indices are equal, or nothing is.
        let is_near = gpu == cpu || distance(&reals(gpu), &reals(cpu)) < 1e-3;
        assert!(is_near, "{what}: rows {gpu:?} and {cpu:?}");
    }
}

/// Ten updates with minibatches in a row, after those that fill the replay. The CPU takes the GPU's state after every third, since environments
/// magnify rounding.
fn cycles_follow_the_cpu(part: Part) {
    for (case, (name, config)) in part.of(4, cases()).into_iter().enumerate() {
        let (Some(device), env) = (device(ORDERS[case % 3]), world(name)) else { return };
        let layout = layout(&*env, &config);
        let (mut gpu, mut cpu) =
            (on_gpu(&device, &env, &config), cpu::backend(env, &config, 1).expect("a CPU"));
        let mut learned = 0;
        for number in 0..14 {
            let (gpu_stats, cpu_stats) = (update(&mut *gpu), update(&mut *cpu));
            let what = format!("{name}, case {case}, update {number}");
            let (gpu_state, cpu_state) = (saved(&mut *gpu), saved(&mut *cpu));
            learned += usize::from(cpu_stats.metrics.minibatches > 0.0);
            let bound = 1e-5 + 3e-5 * ((learned + 2) % 3) as f64;
            assert_near(&gpu_state, &cpu_state, &layout, bound, &what);
            assert_eq!(
                (gpu_stats.episodes, gpu_stats.epochs),
                (cpu_stats.episodes, cpu_stats.epochs),
                "{what}"
            );
            let both = gpu_stats.metrics.values().into_iter().zip(cpu_stats.metrics.values());
            // The deviation of one return is rounding.
            let is_compared =
                |group, name| !["time", "bus"].contains(&group) && name != "episodic_return_std";
            for (metric, (gpu, cpu)) in
                METRICS.iter().zip(both).filter(|it| is_compared(it.0.group, it.0.name))
            {
                let close = (gpu - cpu).abs() <= 2e-3 * cpu.abs() + 1e-5 || gpu.is_nan() && cpu.is_nan();
                assert!(close, "{what}: {} {gpu} on the GPU, {cpu} on the CPU", metric.name);
            }
            if learned % 3 == 0 {
                load(&mut *cpu, &gpu_state);
            }
        }
        assert_eq!(learned, 10, "{name}");
    }
}

/// A checkpoint has the replay, or a run that continues from it fills another.
fn a_restored_backend_continues_bit_for_bit(part: Part) {
    for (name, config) in part.of(3, cases()) {
        let (Some(device), env) = (device(2), world(name)) else { return };
        let (mut straight, mut first, mut second) =
            (on_gpu(&device, &env, &config), on_gpu(&device, &env, &config), on_gpu(&device, &env, &config));
        run(&mut *straight, 7);
        run(&mut *first, 5);
        let before = saved(&mut *first);
        run(&mut *second, 1);
        load(&mut *second, &before);
        assert_equal(&saved(&mut *second), &before, "what was loaded");
        run(&mut *second, 2);
        assert_equal(&saved(&mut *second), &saved(&mut *straight), "continued");
    }
}

/// Priorities of a snapshot, and the greatest.
fn priorities(snapshot: &Snapshot) -> Vec<f64> {
    let own = snapshot.tensors.iter().filter(|tensor| tensor.name.contains("priorit"));
    own.flat_map(|tensor| tensor.data.as_chunks().0).map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

fn draws_by_priority_follow_the_cpu(part: Part) {
    for (case, (name, config)) in part.of(2, by_priority()).into_iter().enumerate() {
        let (Some(device), env) = (device(ORDERS[case % 3]), world(name)) else { return };
        let layout = layout(&*env, &config);
        let (mut gpu, mut cpu) =
            (on_gpu(&device, &env, &config), cpu::backend(Arc::clone(&env), &config, 1).expect("a CPU"));
        let mut learned = 0.0;
        for number in 0..12 {
            learned += update(&mut *cpu).metrics.minibatches;
            update(&mut *gpu);
            let what = format!("{name}, update {number}");
            let [of_gpu, of_cpu] = [&mut gpu, &mut cpu].map(|backend| saved(&mut **backend));
            assert_near(&of_gpu, &of_cpu, &layout, 1e-5, &what);
            let [on_gpu, on_cpu] = [&of_gpu, &of_cpu].map(|whole| priorities(&whole.0));
            assert!(on_gpu.len() > 250 && on_gpu.len() == on_cpu.len(), "{what}: {}", on_gpu.len());
            for (row, (gpu, cpu)) in on_gpu.into_iter().zip(on_cpu).enumerate() {
                assert!((gpu - cpu).abs() <= 1e-3 * cpu, "{what}, row {row}: {gpu}, on the CPU {cpu}");
            }
            load(&mut *cpu, &of_gpu);
        }
        assert!(learned > 6.0, "{name}: {learned}");
        // A checkpoint has the priorities.
        let mut restored = on_gpu(&device, &env, &config);
        load(&mut *restored, &saved(&mut *gpu));
        let _ = [&mut gpu, &mut restored].map(|backend| run(&mut **backend, 2));
        assert_equal(&saved(&mut *restored), &saved(&mut *gpu), name);
    }
}

#[test]
fn runs_of_steps_end_where_rows_are_cut() {
    let config = Config { n_step: 3, ..config(Algorithm::Sac) };
    let (Some(device), env) = (device(1), world("pendulum")) else { return };
    let (mut gpu, mut cpu) = (on_gpu(&device, &env, &config), cpu::backend(env, &config, 1).expect("a CPU"));
    run(&mut *gpu, 5);
    let (snapshot, replay) = saved(&mut *gpu);
    let (layout, mut rows, mut cut) = (replay.layout(), replay.written_rows(), replay.clone());
    let restored = cut.restore(replay.heads(), replay.shape(), |to| {
        to.copy_from_slice(rows.next().expect("rows"));
        for row in to.chunks_mut(layout.stride).step_by(3).filter(|row| row[layout.end] == 0) {
            row[layout.end] = 4;
        }
        Ok::<_, LearnError>(())
    });
    restored.expect("the same shape");
    let before = (snapshot, cut);
    let [of_gpu, of_cpu] = [&mut gpu, &mut cpu].map(|backend| {
        load(&mut **backend, &before);
        assert!(update(&mut **backend).metrics.minibatches > 0.0);
        saved(&mut **backend)
    });
    assert_near(&of_gpu, &of_cpu, layout, 1e-5, "cut rows");
}

#[test]
fn nonfinite_minibatches_are_skipped_and_counted() {
    for (algorithm, name) in
        [(Algorithm::Sac, "pendulum"), (Algorithm::Td3, "pendulum"), (Algorithm::Dqn, "acrobot")]
    {
        let config = Config { gamma: f64::MAX, ..config(algorithm) };
        let (Some(device), env) = (device(0), world(name)) else { return };
        let layout = layout(&*env, &config);
        let (mut gpu, mut cpu) =
            (on_gpu(&device, &env, &config), cpu::backend(env, &config, 1).expect("a CPU"));
        let [of_gpu, of_cpu] = [&mut gpu, &mut cpu].map(|backend| {
            let nonfinite: Vec<u64> = run(&mut **backend, 6).iter().map(|stats| stats.nonfinite).collect();
            (nonfinite, saved(&mut **backend))
        });
        assert_eq!(of_gpu.0, of_cpu.0, "{algorithm}");
        assert!(of_gpu.0[5] > 0, "{algorithm}: {:?}", of_gpu.0);
        assert_near(&of_gpu.1, &of_cpu.1, &layout, 1e-5, algorithm.name());
    }
}

#[test]
fn without_its_replay_a_run_fills_another_and_snapshots_move_between_devices() {
    let config = Config { checkpoint_replay: false, priority_exponent: 0.6, ..config(Algorithm::Sac) };
    let (Some(device), env) = (device(0), world("pendulum")) else { return };
    let (mut gpu, mut cpu) =
        (on_gpu(&device, &env, &config), cpu::backend(env.clone(), &config, 1).expect("a CPU"));
    run(&mut *gpu, 6);
    let saved = gpu.save().expect("a snapshot");
    cpu.load(&saved).expect("the CPU takes it");
    cpu.fill_replay(&mut |_| Ok(())).expect("it has none");
    assert_same(&cpu.save().expect("a snapshot"), &saved, "on the CPU");
    gpu.load(&cpu.save().expect("a snapshot")).expect("the GPU takes it");
    for stats in run(&mut *gpu, 4) {
        assert_eq!(stats.metrics.minibatches, 0.0);
        assert!(stats.metrics.td_loss.is_nan() && stats.metrics.alpha > 0.0);
    }
    assert!(update(&mut *gpu).metrics.minibatches > 0.0);
}

#[test]
fn the_order_of_threads_and_of_streams_changes_no_bit() {
    let test = "cuda::off_policy::the_order_of_threads_and_of_streams_changes_no_bit";
    if !stand_in::is_child() {
        let streams = [("OPERANT_HOST_STREAMS", "5".to_owned())];
        let Some(output) = stand_in::rerun_with(test, &streams) else { return };
        stand_in::must_pass(&output);
    }
    for (algorithm, name, priority_exponent, core) in [
        (Algorithm::Sac, "pendulum", 0.6, CoreKind::Mlp),
        (Algorithm::Dqn, "cartpole", 0.0, CoreKind::Mlp),
        (Algorithm::Dqn, "cartpole", 0.6, CoreKind::Gru),
    ] {
        let sizes = Config { num_steps: 10, batch_size: 150, learning_starts: 150, ..config(algorithm) };
        let (sequence_length, burn_in) = if core == CoreKind::Mlp { (0, 0) } else { (5, 2) };
        let config = Config { priority_exponent, core, sequence_length, burn_in, ..sizes };
        let env = world(name);
        let states = ORDERS.map(|ordinal| {
            let mut gpu = on_gpu(&device(ordinal)?, &env, &config);
            run(&mut *gpu, 7);
            assert!(update(&mut *gpu).metrics.minibatches > 0.0);
            Some(gpu.save().expect("a snapshot"))
        });
        for state in &states[1..] {
            let (Some(one), Some(other)) = (&states[0], state) else { return };
            assert_same(one, other, "another order");
        }
    }
}

/// One update of few minibatches, from the state that single precision reached.
#[test]
fn lower_precisions_follow_single_precision() {
    for (ordinal, precision, bound) in [(0, Precision::Bf16, 3e-2), (2, Precision::Tf32, 4e-3)] {
        let (Some(device), env) = (device(ordinal), world("pendulum")) else { return };
        let config = config(Algorithm::Sac);
        let [mut exact, mut other] = [Precision::F32, precision].map(|precision| {
            cuda::backend(env.clone(), &config, &device, options(precision)).expect("a backend")
        });
        run(&mut *exact, 5);
        load(&mut *other, &saved(&mut *exact));
        let [exact_loss, other_loss] = [&mut exact, &mut other].map(|it| update(&mut **it).metrics.td_loss);
        assert!(
            (exact_loss - other_loss).abs() < bound * exact_loss,
            "{precision}: {exact_loss}, {other_loss}"
        );
        let [exact, other] = [exact, other].map(|mut it| it.save().expect("a snapshot"));
        for prefix in ["params.", "exp_avg."] {
            let error = distance(&numbers(&other, prefix), &numbers(&exact, prefix));
            assert!(error > 0.0 && error < 3.0 * bound, "{precision}: {prefix} {error:e}");
        }
    }
}

#[test]
fn what_it_does_not_do_is_refused_with_the_reason() {
    let (Some(device), base) = (device(0), config(Algorithm::Sac)) else { return };
    let refused = |config: &Config, options: GpuOptions| {
        let error = cuda::backend(world("pendulum"), config, &device, options).err().expect("refused");
        error.to_string()
    };
    let fused = NetworkOptions { kernels: Kernels::Fused, ..gemm(Precision::F32) };
    let text = refused(&base, GpuOptions { network: fused, ..GpuOptions::default() });
    assert!(text.contains("only networks without critics of actions"), "{text}");
    let text = refused(&base, GpuOptions { overlap: true, ..GpuOptions::default() });
    assert!(text.starts_with("overlap: "), "{text}");
    let text = refused(&base, GpuOptions { deterministic: true, ..GpuOptions::default() });
    assert!(text.starts_with("deterministic: the GEMM path"), "{text}");
    let (env, none) = (world("pendulum"), Box::new(|_: &mut dyn FnMut(&[u64], &[u32])| ()));
    let (spec, layout) =
        (env.spec(), ReplayLayout::new(&Architecture::of(&env.spec(), &base).expect("trains"), false));
    let given = Given { env: spec.name, obs: spec.obs, actions: spec.actions, layout, read: none };
    let text = on_gpu(&device, &env, &base).begin_with(&given).expect_err("refused").to_string();
    assert!(text.contains("device = \"cpu\""), "{text}");
    let text = refused(&Config { encoder: Encoder::Embed, ..base }, GpuOptions::default());
    assert!(text.contains("encoder"), "{text}");
}

#[test]
fn a_replay_that_does_not_fit_is_refused_with_the_largest_that_does() {
    let Some((_alone, device)) = little_device() else { return };
    for priority_exponent in [0.0, 0.6] {
        largest_replay(&device, Config { priority_exponent, ..config(Algorithm::Td3) });
    }
}

fn largest_replay(device: &Device, config: Config) {
    let config = Config { buffer_size: 20_000_000, checkpoint_replay: false, ..config };
    let error = cuda::backend(world("pendulum"), &config, device, GpuOptions::default());
    let text = error.err().expect("no room").to_string();
    assert!(text.starts_with("buffer_size: 20000000: 5 environments with a replay take"), "{text}");
    let most = text.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let buffer_size: usize = most.parse().expect("a number");
    let fits = Config { buffer_size, ..config.clone() };
    run(&mut *on_gpu(device, &world("pendulum"), &fits), 1);
    // Rows are of five environments, and the arena aligns what it holds.
    let more = Config { buffer_size: buffer_size + 5_000, ..config };
    cuda::backend(world("pendulum"), &more, device, GpuOptions::default()).err().expect("no room");
}

#[test]
fn the_loop_allocates_nothing_and_construction_the_predicted_bytes() {
    let test = "cuda::off_policy::the_loop_allocates_nothing_and_construction_the_predicted_bytes";
    if !stand_in::is_child() {
        // By itself: other tests would take memory of the same device.
        let Some(output) = stand_in::rerun(test) else { return };
        return stand_in::must_pass(&output);
    }
    let sac = config(Algorithm::Sac);
    // Minibatches of every kind.
    let rare = Config { policy_frequency: 3, target_network_frequency: 2, ..sac.clone() };
    let td3 = Config { target_network_frequency: 2, ..config(Algorithm::Td3) };
    let dqn = Config { target_network_frequency: 2, encoder: Encoder::Embed, ..config(Algorithm::Dqn) };
    let distributions = Config { value_bins: 21, priority_exponent: 0.5, ..sac.clone() };
    let recurrent =
        Config { core: CoreKind::Lstm, sequence_length: 8, priority_exponent: 0.5, ..dqn.clone() };
    let cases = [
        ("pendulum", sac, Precision::F32),
        ("pendulum", rare.clone(), Precision::F32),
        ("pendulum", rare, Precision::Bf16),
        ("pendulum", td3, Precision::F32),
        ("taxi", dqn, Precision::Bf16),
        ("taxi", recurrent, Precision::Bf16),
        ("pendulum", distributions, Precision::F32),
    ];
    for (name, config, precision) in cases {
        let (Some(device), env) = (device(0), world(name)) else { return };
        let predicted = Footprint::new(&*env, &config, options(precision), device.properties());
        let predicted = predicted.and_then(|it| it.of(config.num_envs)).expect("kernels for it");
        let before = (device.allocations(), device.memory().expect("a size").free);
        let mut backend = cuda::backend(env, &config, &device, options(precision)).expect("a backend");
        let after = (device.allocations(), device.memory().expect("a size").free);
        // Each library for products has memory to work in.
        assert_eq!((before.1 - after.1) as usize, predicted + (2 << 25));
        // The first forward pass is captured where it runs.
        run(&mut *backend, 1);
        let captures = device.captures();
        run(&mut *backend, 6);
        assert_eq!(device.allocations(), after.0, "the loop allocates");
        assert_eq!(device.captures(), captures, "the loop captures minibatches");
    }
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_minibatches_stay_within_their_memory_and_the_language() {
    sanitized(&[
        "cuda::off_policy::the_order_of_threads_and_of_streams_changes_no_bit",
        "cuda::off_policy::few_cases::cycles_follow_the_cpu",
    ]);
}
