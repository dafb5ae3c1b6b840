//! What the training loop asks of a [`Backend`].

use std::sync::Arc;

use operant_cuda::Device;
use operant_env::{ActionSpace, AnyEnv, Env, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};
use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::{GpuOptions, Kernels, NetworkOptions};
use operant_learn::{
    Backend, Config, CoreKind, EvalActions, Intrinsic, LearnError, Precision, Snapshot, Tensor, cpu, cuda,
};
use operant_metrics::METRICS;

use crate::support::gpu::{device, little_device, stand_in};
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::{assert_same, run, shared, world};

fn config() -> Config {
    Config {
        seed: 4,
        num_envs: 20,
        num_steps: 12,
        total_timesteps: 20 * 12 * 50,
        hidden: vec![32],
        norm_obs: true,
        norm_reward: true,
        ..Config::default()
    }
}

fn on_gpu(device: &Device, env: Arc<dyn AnyEnv>, config: &Config) -> Box<dyn Backend> {
    cuda::backend(env, config, device, GpuOptions::default()).expect("a backend")
}

/// Networks with this memory, or none.
fn with(core: CoreKind) -> Config {
    let sequence_length = if core == CoreKind::Mlp { 0 } else { 6 };
    Config { core, sequence_length, ..config() }
}

in_parts! { a_restored_backend_continues_bit_for_bit }

fn a_restored_backend_continues_bit_for_bit(part: Part) {
    let Some(device) = device(2) else { return };
    let cores = [CoreKind::Mlp, CoreKind::MinGru, CoreKind::Gru, CoreKind::Lstm];
    let cases = cores.into_iter().flat_map(|core| [false, true].map(|overlap| (core, overlap)));
    for (core, overlap) in part.of(5, cases) {
        continues_bit_for_bit(&device, shared(Locks), &with(core), overlap);
    }
}

fn continues_bit_for_bit(device: &Device, env: Arc<dyn AnyEnv>, config: &Config, overlap: bool) {
    let backend = || {
        let options = GpuOptions { overlap, ..GpuOptions::default() };
        cuda::backend(env.clone(), config, device, options).expect("a backend")
    };
    let mut straight = backend();
    run(&mut *straight, 5);
    let mut first = backend();
    run(&mut *first, 3);
    let saved = first.save().expect("a snapshot");
    assert_eq!(saved.counters["updates"], 3);
    let mut second = backend();
    run(&mut *second, 1);
    second.load(&saved).expect("the same environment and configuration");
    assert_same(&second.save().expect("a snapshot"), &saved, "what was loaded");
    let stats = run(&mut *second, 2);
    assert_eq!((stats[1].ticket.0, stats[1].env_steps), (4, 5 * 240));
    assert_same(&second.save().expect("a snapshot"), &straight.save().expect("a snapshot"), "continued");
}

/// Rewards for exploring in an environment of bytes.
fn exploring() -> (Arc<dyn AnyEnv>, Config) {
    let intrinsic = Intrinsic::Counts;
    let config = Config { intrinsic, intrinsic_coef: 0.125, norm_obs: false, ..config() };
    (world("minigrid_empty_random_5x5"), config)
}

/// After a rollout with the same weights the tables are those of the CPU.
#[test]
fn rewards_for_exploring_follow_the_cpu() {
    let Some(device) = device(2) else { return };
    let (env, config) = exploring();
    let tables = |mut backend: Box<dyn Backend>| {
        let reports = run(&mut *backend, 1);
        let snapshot = backend.save().expect("a snapshot");
        let counts = snapshot.tensors.into_iter().find(|tensor| tensor.name == "intrinsic.counts");
        (counts.expect("tables"), reports[0].metrics.intrinsic_reward)
    };
    let (on_gpu, reported) = tables(on_gpu(&device, env.clone(), &config));
    let (on_cpu, expected) = tables(cpu::backend(env.clone(), &config, 1).expect("a CPU"));
    assert_eq!(on_gpu, on_cpu);
    assert!((reported - expected).abs() < 1e-6, "{reported}, {expected}");
    continues_bit_for_bit(&device, env.clone(), &config, false);
    moves(&device, env, &config);
    let report = Config { norm_reward: false, num_minibatches: 1, num_steps: 64, ..config };
    report_alike(&device, world("minigrid_empty_random_5x5"), &report, Kernels::Auto);
}

fn snapshots_move(cores: [CoreKind; 2]) {
    let Some(device) = device(0) else { return };
    cores.map(with).iter().for_each(|config| moves(&device, shared(Locks), config));
}

fn moves(device: &Device, env: Arc<dyn AnyEnv>, config: &Config) {
    let (mut gpu, mut cpu) =
        (on_gpu(device, env.clone(), config), cpu::backend(env, config, 1).expect("a CPU"));
    run(&mut *gpu, 2);
    let saved = gpu.save().expect("a snapshot");
    cpu.load(&saved).expect("the CPU takes it");
    assert_same(&cpu.save().expect("a snapshot"), &saved, "on the CPU");
    run(&mut *cpu, 1);
    let saved = cpu.save().expect("a snapshot");
    gpu.load(&saved).expect("the GPU takes it");
    assert_same(&gpu.save().expect("a snapshot"), &saved, "on the GPU");
    run(&mut *gpu, 1);
}

#[test]
fn snapshots_move_between_devices() {
    snapshots_move([CoreKind::Mlp, CoreKind::Lstm]);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn snapshots_with_other_memory_move_between_devices() {
    snapshots_move([CoreKind::MinGru, CoreKind::Gru]);
}

#[test]
fn early_updates_report_what_the_cpu_reports() {
    let Some(device) = device(0) else { return };
    // One minibatch, since the devices number their samples differently and so shuffle them differently.
    let config =
        Config { norm_obs: false, norm_reward: false, num_minibatches: 1, num_steps: 64, ..config() };
    for (name, kernels) in [
        ("cartpole", Kernels::Auto),
        ("snake", Kernels::Auto),
        ("snake", Kernels::Gemm),
        ("switchboard", Kernels::Auto),
    ] {
        report_alike(&device, world(name), &config, kernels);
    }
}

/// Compares what the first updates report.
fn report_alike(device: &Device, env: Arc<dyn AnyEnv>, config: &Config, kernels: Kernels) {
    let has_metrics = !env.spec().metrics.is_empty();
    let network = NetworkOptions { precision: Precision::F32, kernels };
    let options = GpuOptions { network, ..GpuOptions::default() };
    let mut gpu = cuda::backend(env.clone(), config, device, options).expect("a backend");
    let mut cpu = cpu::backend(env, config, 1).expect("a CPU");
    for (gpu, cpu) in run(&mut *gpu, 4).iter().zip(run(&mut *cpu, 4)) {
        // The means of numbers of which both devices have the same, in another order.
        let close =
            |(gpu, cpu): (&f64, &f64)| (gpu - cpu).abs() <= 1e-6 * cpu.abs() || gpu.is_nan() && cpu.is_nan();
        let (on_gpu, on_cpu) = (gpu.metrics.env, cpu.metrics.env);
        assert!(on_gpu.iter().zip(&on_cpu).all(close), "{on_gpu:?} on the GPU, {on_cpu:?} on the CPU");
        assert_eq!(on_cpu[0].is_finite(), has_metrics && cpu.episodes > 0);
        assert_eq!(gpu.episodes, cpu.episodes);
        let both = gpu.metrics.values().into_iter().zip(cpu.metrics.values());
        for (metric, (gpu, cpu)) in
            METRICS.iter().zip(both).filter(|it| !["time", "bus"].contains(&it.0.group))
        {
            let close = (gpu - cpu).abs() <= 1e-3 * cpu.abs() + 1e-5;
            let what = metric.name;
            assert!(close || gpu.is_nan() && cpu.is_nan(), "{what}: {gpu} on the GPU, {cpu} on the CPU");
        }
        assert!(gpu.metrics.bytes_h2d + gpu.metrics.bytes_d2h <= 4_096.0);
    }
}

bundle! {
    /// A gate.
    pub struct Gate {
        /// Steps so far.
        steps: Uint,
    }
}

/// From the third step on no choice of its second component is legal, although the episode goes on.
#[derive(Debug, Clone)]
struct Stuck;

impl Env for Stuck {
    type State<L: Lane> = Gate<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = [L::Uint; 2];

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "stuck".into(),
            summary: "a gate that shuts".into(),
            obs: ObsSpace::index(9),
            actions: ActionSpace::Discrete(vec![2, 2]),
            time_limit: 8,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> Gate<L> {
        Gate { steps: L::Uint::splat(0) }
    }

    fn step<L: Lane>(&self, s: &Gate<L>, _: &[L::Uint; 2], _: &mut Draws<L>) -> Step<L, Gate<L>> {
        let state = Gate { steps: s.steps + L::Uint::splat(1) };
        Step { state, reward: L::Float::splat(1.0), terminated: L::Mask::splat(false) }
    }

    fn observe<L: Lane>(&self, s: &Gate<L>) -> [L::Uint; 1] {
        [s.steps]
    }

    fn legal<L: Lane>(&self, s: &Gate<L>, component: usize, _: usize) -> L::Mask {
        if component == 1 { s.steps.lt(L::Uint::splat(3)) } else { L::Mask::splat(true) }
    }

    fn draw(&self, _: &Gate<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}

#[test]
#[ignore = "cargo xtask test --all"]
fn nothing_is_learnt_from_a_state_without_a_legal_action() {
    let Some(device) = device(1) else { return };
    for (hidden, algorithm) in [(32, Algorithm::Ppo), (160, Algorithm::Ppo), (32, Algorithm::Pqn)] {
        let config = Config { hidden: vec![hidden], norm_obs: false, algorithm, ..config() };
        let mut backend = on_gpu(&device, shared(Stuck), &config);
        let before = backend.save().expect("a snapshot");
        for stats in run(&mut *backend, 2) {
            assert!(stats.nonfinite > 0, "{stats:?}");
        }
        let after = backend.save().expect("a snapshot");
        let weights = |snapshot: &Snapshot| -> Vec<_> {
            let is_weight = |tensor: &&Tensor| tensor.name.ends_with("weight");
            snapshot.tensors.iter().filter(is_weight).cloned().collect()
        };
        assert!(weights(&before).len() > 1);
        assert_eq!(weights(&before), weights(&after));
    }
}

#[test]
fn evaluation_and_scene_serve_the_loop() {
    let Some(device) = device(1) else { return };
    let mut backend = on_gpu(&device, shared(Locks), &config());
    assert!(backend.poll(false).expect("nothing yet").is_none());
    let before = backend.evaluate(0..8, 1, EvalActions::Greedy).expect("episodes");
    assert_eq!((before.returns.len(), before.lengths.len()), (8, 8));
    assert_eq!(before, backend.evaluate(0..8, 1, EvalActions::Greedy).expect("the same again"));
    assert!(backend.scene().is_none());
    let pulse = backend.pulse().load(std::sync::atomic::Ordering::Relaxed);
    let stats = run(&mut *backend, 6);
    assert!(stats.iter().any(|stats| stats.metrics.bytes_d2h > 600.0), "the scene is counted");
    let episode = backend.scene().expect("episodes of 24 steps ended in 72");
    assert!((1..=24).contains(&episode.frames.len()) && episode.episodic_return.is_finite());
    assert!(backend.pulse().load(std::sync::atomic::Ordering::Relaxed) > pulse);
}

#[test]
fn a_lost_device_is_an_error_and_never_a_hang() {
    if !stand_in::is_child() {
        let test = "cuda::backend::a_lost_device_is_an_error_and_never_a_hang";
        let Some(output) = stand_in::rerun(test) else { return };
        return stand_in::must_pass(&output);
    }
    let Some(device) = device(5) else { return };
    let outcome =
        cuda::backend(shared(Locks), &config(), &device, GpuOptions::default()).and_then(|mut backend| {
            for _ in 0..4 {
                backend.enqueue_update()?;
                backend.poll(true)?;
            }
            Ok(())
        });
    let error = outcome.expect_err("its launches fail");
    assert!(matches!(&error, LearnError::Cuda(error) if error.is_lost()), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_with_its_size() {
    let Some((_alone, device)) = little_device() else { return };
    let config = Config { num_envs: 8_192, num_steps: 12, num_minibatches: 1, ..config() };
    let error = cuda::backend(shared(Locks), &config, &device, GpuOptions::default()).err().expect("no room");
    let text = error.to_string();
    assert!(text.starts_with("num_envs: 8192 environments take") && text.contains("MiB"), "{text}");
    let most = text.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let most: usize = most.parse().expect("a number");
    // What fits is no empty promise.
    let config = Config { num_envs: most, ..config };
    let mut backend =
        cuda::backend(shared(Locks), &config, &device, GpuOptions::default()).expect("as many as it said");
    run(&mut *backend, 1);
}
