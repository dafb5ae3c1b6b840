//! A run on several GPUs and a stand-in for NCCL: each GPU in its own thread.

use std::sync::Arc;

use operant_learn::algorithms::Algorithm;
use operant_learn::cuda::{GpuOptions, Kernels, NetworkOptions, backend_in};
use operant_learn::group::threads;
use operant_learn::{
    Alone, Backend, Config, CoreKind, Group, LearnError, Optimizer, Precision, ShuffleKind, Snapshot,
};

use crate::support::gpu::device;
use crate::support::locks::Locks;
use crate::support::parts::Part;
use crate::support::{Trained, train};

/// Devices of the stand-in that train; they differ in the order of their threads.
const DEVICES: [usize; 4] = [0, 1, 2, 4];

fn config() -> Config {
    Config {
        seed: 4,
        num_envs: 64,
        num_steps: 32,
        num_minibatches: 2,
        total_timesteps: 64 * 32 * 50,
        hidden: vec![32],
        norm_obs: true,
        norm_reward: true,
        shuffle: ShuffleKind::Blocks,
        ..Config::default()
    }
}

fn options(deterministic: bool, kernels: Kernels) -> GpuOptions {
    let network = NetworkOptions { precision: Precision::F32, kernels };
    GpuOptions { network, deterministic, ..GpuOptions::default() }
}

fn backend(
    config: &Config,
    options: GpuOptions,
    group: Arc<dyn Group>,
) -> Option<Result<Box<dyn Backend>, LearnError>> {
    let device = device(DEVICES[group.rank()])?;
    Some(backend_in(Arc::new(Locks), config, &device, options, group))
}

fn updates(
    config: &Config,
    options: GpuOptions,
    group: Arc<dyn Group>,
    from: Option<&Snapshot>,
    count: usize,
) -> Option<Trained> {
    Some(train(backend(config, options, group)?.expect("a backend"), from, count))
}

/// Like `updates`, on this number of GPUs, all of which must agree.
fn together(
    config: &Config,
    options: GpuOptions,
    gpus: usize,
    from: Option<&Snapshot>,
    count: usize,
) -> Option<Trained> {
    std::thread::scope(|scope| {
        let start = |group: Arc<dyn Group>| scope.spawn(move || updates(config, options, group, from, count));
        let all: Vec<_> = threads::group(gpus).into_iter().map(start).collect();
        let mut all: Vec<Trained> =
            all.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Option<_>>()?;
        let first = all.remove(0);
        assert!(all.iter().all(|(_, snapshot)| *snapshot == first.1), "{gpus} GPUs agree");
        Some(first)
    })
}

/// The parameters of a snapshot.
fn parameters(snapshot: &Snapshot) -> Vec<f32> {
    let is_parameter = |name: &str| name.starts_with("params.");
    let tensors = snapshot.tensors.iter().filter(|tensor| is_parameter(&tensor.name));
    let words = tensors.flat_map(|tensor| tensor.data.chunks_exact(4));
    let all: Vec<f32> = words.map(|word| f32::from_le_bytes(word.try_into().expect("four bytes"))).collect();
    assert!(!all.is_empty());
    all
}

fn assert_close(a: &Snapshot, b: &Snapshot, tolerance: f32) {
    for (i, (a, b)) in parameters(a).into_iter().zip(parameters(b)).enumerate() {
        assert!((a - b).abs() <= tolerance, "parameter {i}: {a} and {b}");
    }
}

#[test]
fn any_number_of_gpus_has_the_bits_of_one() {
    for target_kl in [0.0, 0.002] {
        let config = config().ppo(|ppo| ppo.target_kl = target_kl);
        assert_eq!(config.blocks(), 4);
        let options = options(true, Kernels::Fused);
        let Some(one) = updates(&config, options, Arc::new(Alone), None, 3) else { return };
        for gpus in [2, 4] {
            let several = together(&config, options, gpus, None, 3).expect("the stand-in");
            assert_eq!(several.1, one.1, "{gpus} GPUs, target_kl {target_kl}");
            for (several, one) in several.0.iter().flatten().zip(one.0.iter().flatten()) {
                // Sums that only metrics are made of may be rounded in another order.
                assert!((several - one).abs() <= 1e-9 * one.abs().max(1.0), "{several} and {one}");
            }
        }
    }
}

/// Also in the second rollout, whose epsilon depends on the steps of all GPUs.
#[test]
fn pqn_on_two_gpus_gives_the_same_weights_but_for_rounding() {
    let config = Config {
        algorithm: Algorithm::Pqn,
        num_minibatches: 1,
        update_epochs: 1,
        total_timesteps: 64 * 32 * 4,
        ..config()
    };
    let options = options(false, Kernels::Auto);
    let Some((_, first)) = updates(&config, options, Arc::new(Alone), None, 1) else { return };
    let (stats, one) = updates(&config, options, Arc::new(Alone), Some(&first), 1).expect("the stand-in");
    let (of_both, both) = together(&config, options, 2, Some(&first), 1).expect("the stand-in");
    assert_close(&one, &both, 2e-5);
    assert_eq!(of_both[0][..2], stats[0][..2], "steps and episodes");
}

/// Returns of all GPUs have the same units, and each GPU draws from its own blocks.
#[test]
fn options_on_two_gpus_give_the_same_weights_but_for_rounding() {
    let config = Config { num_minibatches: 1, shared_trunk: false, ..config() };
    let config = config.ppo(|ppo| (ppo.norm_value, ppo.vf_epochs, ppo.prio_alpha) = (true, 1, 0.6));
    let options = options(false, Kernels::Auto);
    let Some((_, one)) = updates(&config, options, Arc::new(Alone), None, 2) else { return };
    let (_, both) = together(&config, options, 2, None, 2).expect("the stand-in");
    assert_close(&one, &both, 1e-4);
}

/// Each takes the same step along the sum of all gradients.
#[test]
fn muon_on_two_gpus_gives_the_same_weights_but_for_rounding() {
    let config = Config { optimizer: Optimizer::Muon, num_minibatches: 1, update_epochs: 2, ..config() };
    let options = options(false, Kernels::Auto);
    let Some((stats, one)) = updates(&config, options, Arc::new(Alone), None, 1) else { return };
    let (of_both, both) = together(&config, options, 2, None, 1).expect("the stand-in");
    assert_close(&one, &both, 2e-5);
    assert_eq!(of_both[0][..2], stats[0][..2], "steps and episodes");
}

in_parts! { nccls_own_sums_give_the_same_weights_but_for_rounding, a_minibatch_of_all_blocks_is_one_of_all_samples }

fn nccls_own_sums_give_the_same_weights_but_for_rounding(part: Part) {
    let kinds =
        [(Kernels::Fused, CoreKind::Mlp), (Kernels::Gemm, CoreKind::Mlp), (Kernels::Gemm, CoreKind::Gru)];
    for (kernels, core) in part.of(3, kinds) {
        let sequence_length = if core == CoreKind::Mlp { 0 } else { 8 };
        let config = Config { core, sequence_length, num_minibatches: 1, ..config() };
        let options = options(false, kernels);
        let Some((stats, one)) = updates(&config, options, Arc::new(Alone), None, 1) else { return };
        let (of_both, both) = together(&config, options, 2, None, 1).expect("the stand-in");
        assert_close(&one, &both, 2e-5);
        assert_eq!(of_both[0][..2], stats[0][..2], "steps and episodes");
    }
}

fn a_minibatch_of_all_blocks_is_one_of_all_samples(part: Part) {
    let blocks = Config { num_minibatches: 1, update_epochs: 1, ..config() };
    let samples = Config { shuffle: ShuffleKind::Samples, ..blocks.clone() };
    let kinds =
        [(Kernels::Fused, CoreKind::Mlp), (Kernels::Gemm, CoreKind::Mlp), (Kernels::Gemm, CoreKind::MinGru)];
    for (kernels, core) in part.of(3, kinds) {
        let sequence_length = if core == CoreKind::Mlp { 0 } else { 8 };
        let [blocks, samples] =
            [&blocks, &samples].map(|config| Config { core, sequence_length, ..config.clone() });
        let of = |config: &Config| updates(config, options(false, kernels), Arc::new(Alone), None, 1);
        let (Some((in_blocks, a)), Some((at_once, b))) = (of(&blocks), of(&samples)) else { return };
        assert_close(&a, &b, 2e-5);
        for (a, b) in in_blocks.iter().flatten().zip(at_once.iter().flatten()) {
            assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{in_blocks:?} and {at_once:?}");
        }
    }
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_run_continues_on_another_number_of_gpus() {
    let (config, options) = (config(), options(true, Kernels::Fused));
    let Some((_, whole)) = updates(&config, options, Arc::new(Alone), None, 4) else { return };
    let (_, early) = together(&config, options, 4, None, 2).expect("the stand-in");
    let (_, end) = together(&config, options, 2, Some(&early), 2).expect("the stand-in");
    assert_eq!(end, whole);
}

#[test]
fn what_several_gpus_cannot_do_is_refused() {
    let refused = |config: &Config, options: GpuOptions, gpus: usize| {
        std::thread::scope(|scope| {
            let start = |group: Arc<dyn Group>| {
                scope
                    .spawn(move || Some(backend(config, options, group)?.err().expect("refused").to_string()))
            };
            let all: Vec<_> = threads::group(gpus).into_iter().map(start).collect();
            let all: Option<Vec<String>> =
                all.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            Some(all?.swap_remove(0))
        })
    };
    let fused = options(false, Kernels::Fused);
    let samples = Config { shuffle: ShuffleKind::Samples, ..config() };
    for (config, options, gpus, text) in [
        (config(), fused, 3, "4 blocks, which 3 GPUs cannot share"),
        (samples.clone(), fused, 2, "set shuffle = \"blocks\""),
        (samples, options(true, Kernels::Fused), 1, "deterministic: "),
        (config(), options(true, Kernels::Gemm), 2, "a network that fits the fused kernels"),
        (config(), GpuOptions { overlap: true, ..fused }, 2, "set overlap = false"),
    ] {
        let Some(error) = refused(&config, options, gpus) else { return };
        assert!(error.contains(text), "{error}");
    }
}
