//! Random network distillation on the GEMM path against the CPU, whose rewards and gradients `tests/intrinsic.rs` compares with a plain computation.

use std::sync::Arc;

use operant_cuda::Device;
use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::footprint::Footprint;
use operant_learn::cuda::{GpuOptions, backend, backend_in};
use operant_learn::group::threads;
use operant_learn::{
    Alone, Backend, Config, CoreKind, Encoder, Group, Intrinsic, Precision, ShuffleKind, Snapshot, cpu,
};
use operant_metrics::METRICS;
use operant_parity::distance;

use super::ORDERS;
use crate::support::gpu::{config, device, gemm, sanitized, stand_in};
use crate::support::parts::Part;
use crate::support::{Trained, assert_same, numbers, run, train, update, world};

/// One minibatch, since the devices number their samples differently and so shuffle them differently.
fn exploring(config: Config) -> Config {
    Config { intrinsic: Intrinsic::Rnd, intrinsic_coef: 0.25, num_minibatches: 1, ..config }
}

/// Normalised real numbers; bits through convolutions; indices in tables, also with masks; memory, with advantages computed again; two values.
fn cases() -> [(&'static str, Config); 6] {
    let base = || exploring(config(20, 12, &[24]));
    let tables = || Config { encoder: Encoder::Embed, embed_width: 6, ..base() };
    let pqn = Config { algorithm: Algorithm::Pqn, max_grad_norm: 10.0, ..tables() };
    let again = Config { recompute_advantages: true, update_epochs: 2, ..base() };
    [
        ("cartpole", Config { norm_obs: true, norm_reward: true, gamma: 0.9, ..base() }),
        ("minigrid_empty_random_5x5", pqn),
        ("cartpole", Config { intrinsic_gamma: 0.8, shared_trunk: false, norm_obs: true, ..base() }),
        ("t_maze", Config { core: CoreKind::Gru, core_width: 11, sequence_length: 4, ..again }),
        ("minatar_breakout", Config { conv: vec![[4, 3, 1]], gamma: 1.0, ..base() }),
        ("taxi", Config { intrinsic_gamma: 0.9, core: CoreKind::MinGru, ..tables() }),
    ]
}

fn options(precision: Precision) -> GpuOptions {
    GpuOptions { network: gemm(precision), ..GpuOptions::default() }
}

fn on_gpu(device: &Device, (name, config): &(&str, Config), precision: Precision) -> Box<dyn Backend> {
    backend(world(name), config, device, options(precision)).expect("a backend")
}

/// The variance of discounted errors, and the rollouts that it is of.
fn variance(snapshot: &Snapshot) -> [f64; 2] {
    ["rnd.norm.var", "rnd.norm.count"].map(|name| {
        let tensor = snapshot.tensors.iter().find(|tensor| tensor.name == name).expect(name);
        f64::from_le_bytes(tensor.data[..].try_into().expect("one number"))
    })
}

fn assert_close(a: &Snapshot, b: &Snapshot, what: &str) {
    for tensors in ["rnd.params", "rnd.exp_avg.", "rnd.exp_avg_sq", "rnd.return", "params."] {
        let (a, b) = (numbers(a, tensors), numbers(b, tensors));
        let error = distance(&a, &b);
        // Before there are errors, all of them are zero.
        assert!(error < 2e-4 || a == b, "{what}: {tensors} {error:e}");
    }
    assert_eq!(numbers(a, "rnd.target"), numbers(b, "rnd.target"), "{what}");
    let ([a, rollouts], [b, expected]) = (variance(a), variance(b));
    assert!((a - b).abs() <= 2e-4 * b && rollouts == expected, "{what}: {a} {rollouts}, {b} {expected}");
}

in_parts! { updates_in_a_row_follow_the_cpu, a_restored_backend_continues_bit_for_bit }

fn updates_in_a_row_follow_the_cpu(part: Part) {
    for (number, case) in part.of(2, cases()).into_iter().enumerate() {
        let Some(device) = device(ORDERS[number % 3]) else { return };
        let (name, config) = &case;
        let mut gpu = on_gpu(&device, &case, Precision::F32);
        let mut cpu = cpu::backend(world(name), config, 1).expect("a CPU");
        let (mut rewarded, mut ended) = (0, 0);
        for k in 0..4 {
            let (on_gpu, on_cpu) = (update(&mut *gpu), update(&mut *cpu));
            assert_eq!((on_gpu.episodes, on_gpu.nonfinite), (on_cpu.episodes, 0), "{name}");
            let both = on_gpu.metrics.values().into_iter().zip(on_cpu.metrics.values());
            let compared = METRICS.iter().zip(both).filter(|it| !["time", "bus"].contains(&it.0.group));
            for (metric, (gpu, cpu)) in compared {
                let close = (gpu - cpu).abs() <= 1e-3 * cpu.abs() + 1e-5 || gpu.is_nan() && cpu.is_nan();
                assert!(close, "{name}, {}: {gpu} on the GPU, {cpu} on the CPU", metric.name);
            }
            let snapshots = [&mut gpu, &mut cpu].map(|it| it.save().expect("a snapshot"));
            assert_close(&snapshots[0], &snapshots[1], &format!("{name}, update {k}"));
            rewarded += usize::from(on_gpu.metrics.intrinsic_reward > 0.0);
            ended += on_gpu.episodes;
        }
        // Of the first rollout there is no deviation yet, and of normalised observations it takes one more.
        assert_eq!(rewarded, if config.norm_obs { 2 } else { 3 }, "{name}");
        // In 48 steps no episode of the others ends.
        assert!(ended > 0 || ["t_maze", "taxi"].contains(name), "{name}");
    }
}

fn a_restored_backend_continues_bit_for_bit(part: Part) {
    let Some(device) = device(2) else { return };
    for (name, config) in part.of(5, cases()) {
        let case = (name, Config { num_minibatches: 4, ..config });
        let backend = || on_gpu(&device, &case, Precision::F32);
        let (mut straight, mut first, mut second) = (backend(), backend(), backend());
        run(&mut *straight, 5);
        run(&mut *first, 3);
        let saved = first.save().expect("a snapshot");
        run(&mut *second, 1);
        second.load(&saved).expect("the same environment and configuration");
        assert_same(&second.save().expect("a snapshot"), &saved, "what was loaded");
        run(&mut *second, 2);
        let whole = straight.save().expect("a snapshot");
        assert_same(&second.save().expect("a snapshot"), &whole, name);
        let mut cpu = cpu::backend(world(name), &case.1, 1).expect("a CPU");
        cpu.load(&saved).expect("the CPU takes it");
        assert_same(&cpu.save().expect("a snapshot"), &saved, "on the CPU");
        run(&mut *cpu, 1);
        let saved = cpu.save().expect("a snapshot");
        second.load(&saved).expect("the GPU takes it");
        assert_same(&second.save().expect("a snapshot"), &saved, "on the GPU");
    }
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let precisions = [Precision::Bf16, Precision::F32, Precision::Bf16, Precision::Tf32];
    for (case, precision) in cases().into_iter().zip(precisions) {
        let case = (case.0, Config { num_envs: 9, num_steps: 8, num_minibatches: 2, ..case.1 });
        let mut states = Vec::new();
        for ordinal in ORDERS {
            let Some(device) = device(ordinal) else { return };
            let mut backend = on_gpu(&device, &case, precision);
            let reports = run(&mut *backend, 4);
            let rewards = reports.iter().map(|stats| stats.metrics.intrinsic_reward.to_bits());
            states.push((rewards.collect::<Vec<_>>(), backend.save().expect("a snapshot")));
        }
        assert!(states.iter().all(|state| *state == states[0]), "bits differ in {}", case.0);
    }
}

#[test]
fn the_loop_allocates_nothing_and_construction_the_predicted_bytes() {
    const PINNED: u64 = 4 * 4;
    if !stand_in::is_child() {
        // By itself: other tests would take memory of the same device.
        let test = "cuda::rnd::the_loop_allocates_nothing_and_construction_the_predicted_bytes";
        let Some(output) = stand_in::rerun(test) else { return };
        return stand_in::must_pass(&output);
    }
    let precisions = [Precision::F32, Precision::Bf16, Precision::F32];
    for (case, precision) in cases().into_iter().zip(precisions) {
        let (Some(device), (name, config)) = (device(0), &case) else { return };
        let predicted = Footprint::new(&*world(name), config, options(precision), device.properties());
        let predicted = predicted.expect("a footprint").of(config.num_envs).expect("kernels for it");
        let before = (device.allocations(), device.memory().expect("a size").free);
        let mut backend = on_gpu(&device, &case, precision);
        let after = (device.allocations(), device.memory().expect("a size").free);
        // Each of three libraries for products has memory to work in.
        assert_eq!(after.0 - before.0, 1 + PINNED + 3, "one arena, and where reports arrive");
        assert_eq!((before.1 - after.1) as usize, predicted + (3 << 25), "{name}");
        run(&mut *backend, 4);
        assert_eq!(device.allocations(), after.0, "the loop allocates");
        drop(backend);
        assert_eq!(device.memory().expect("a size").free, before.1);
    }
}

/// Updates on this many GPUs, from a snapshot if one is given.
fn together(config: &Config, gpus: usize, from: Option<&Snapshot>, count: usize) -> Option<Trained> {
    let updates = |group: Arc<dyn Group>| {
        let device = device(ORDERS[group.rank()])?;
        let backend = backend_in(world("cartpole"), config, &device, options(Precision::F32), group);
        Some(train(backend.expect("a backend"), from, count))
    };
    if gpus == 1 {
        return updates(Arc::new(Alone));
    }
    std::thread::scope(|scope| {
        let start = |group: Arc<dyn Group>| scope.spawn(move || updates(group));
        let all: Vec<_> = threads::group(gpus).into_iter().map(start).collect();
        let all: Option<Vec<_>> = all.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let all = all?;
        assert!(all.iter().all(|(_, snapshot)| *snapshot == all[0].1), "{gpus} GPUs agree");
        all.into_iter().next()
    })
}

/// In the third update there is a deviation, which a rollout on all of them gives.
#[test]
fn two_gpus_give_the_same_weights_but_for_rounding() {
    let [(_, config), ..] = cases();
    let config = Config { num_envs: 32, shuffle: ShuffleKind::Blocks, ..config };
    let Some((_, first)) = together(&config, 1, None, 2) else { return };
    let (_, one) = together(&config, 1, Some(&first), 1).expect("the stand-in");
    let (_, both) = together(&config, 2, Some(&first), 1).expect("the stand-in");
    assert_eq!(variance(&one)[1], 2.0);
    assert_close(&both, &one, "on two GPUs");
}

#[test]
fn a_predictor_that_is_not_finite_is_counted_as_on_the_cpu() {
    let [case, ..] = cases();
    let Some(device) = device(1) else { return };
    let mut cpu = cpu::backend(world(case.0), &case.1, 1).expect("a CPU");
    let mut broken = cpu.save().expect("a snapshot");
    let bias = broken.tensors.iter_mut().find(|tensor| tensor.name == "rnd.params.q.bias").expect("a bias");
    bias.data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    // Its errors give no reward in the first rollout.
    for mut backend in [cpu, on_gpu(&device, &case, Precision::F32)] {
        backend.load(&broken).expect("it fits");
        let stats = update(&mut *backend);
        assert_eq!((stats.nonfinite, stats.nonfinite_in_a_row), (1, 1));
        let after = backend.save().expect("a snapshot");
        assert_eq!((after.counters["nonfinite_in_a_row"], after.counters["rnd_step"]), (1, 0));
        assert!(numbers(&after, "params.").iter().all(|w| w.is_finite()));
    }
}

#[test]
fn rollouts_that_overlap_updates_are_refused() {
    let Some(device) = device(0) else { return };
    let [(name, config), ..] = cases();
    let options = GpuOptions { overlap: true, ..options(Precision::F32) };
    let error = backend(world(name), &config, &device, options).err().expect("refused").to_string();
    assert!(
        error.starts_with("overlap: intrinsic = \"rnd\"") && error.contains("overlap = false"),
        "{error}"
    );
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_its_networks_stay_within_their_memory_and_the_language() {
    sanitized(&["cuda::rnd::the_order_of_threads_changes_no_bit"]);
}
