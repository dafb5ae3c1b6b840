//! The fused rollout and environments under random play, against the CPU backend and the scalar lane.

use operant_env::AnyEnv;
use operant_learn::cuda::specialise::WeightPlacement;
use operant_learn::cuda::{CudaPlay, CudaRollout, Kernels, NetworkOptions, PlayOptions};
use operant_learn::{Activation, Config, Encoder, LearnError, Precision};
use operant_parity::{check_gae, check_horizon, differing_environments, tolerance};

use super::{ORDERS, Share, precisions};
use crate::support::cards::MixedCards;
use crate::support::gpu::{config, device, params, rollout_agrees, sanitized};
use crate::support::locks::Locks;
use crate::support::world;
use crate::support::worlds::number;

fn random_play_agrees(ordinal: usize, env: &dyn AnyEnv) {
    let Some(device) = device(ordinal) else { return };
    // A large state takes long where the text runs on a CPU.
    let (num_envs, steps) = if env.leaves().len() > 256 { (17, 300) } else { (65, 4_096) };
    let differing = differing_environments(&device, env, num_envs, steps).expect("random play");
    assert!(differing.is_empty(), "{}: environments {differing:?}", env.spec().name);
}

/// Checks that kernels play the emitted text; operant-env's `emitted.rs` checks that text against the scalar lane.
fn random_play_is_that_of_the_scalar_lane(name: &str) {
    random_play_agrees(ORDERS[number(name) % 3], &*world(name));
}

fn random_play_of_masks_and_parts(name: &str) {
    random_play_agrees(0, &*world(name));
}

fn random_play_with_every_option(name: &str) {
    let env = world(name);
    for options in env.spec().variants() {
        random_play_agrees(ORDERS[number(name) % 3], &*env.with_options(&options).expect("known options"));
    }
}

mod random_play {
    representatives! { world_tests! super::random_play_is_that_of_the_scalar_lane: }
    world_tests! { super::random_play_of_masks_and_parts: locks cards fuses }
}

mod random_play_of_each_kind {
    representatives! { world_tests! #[ignore = "cargo xtask test --all"] super::random_play_with_every_option: }
    other_kinds! { world_tests! #[ignore = "cargo xtask test --all"] super::random_play_with_every_option: }
}

fn random_play_with_every_option_in_every_order(name: &str) {
    let env = world(name);
    for options in env.spec().variants() {
        for ordinal in ORDERS {
            random_play_agrees(ordinal, &*env.with_options(&options).expect("known options"));
        }
    }
}

mod nightly_random_play {
    nightly_tests!(super::random_play_with_every_option_in_every_order);
    world_tests! { #[ignore = "cargo xtask test --nightly"] super::random_play_with_every_option_in_every_order: locks cards }
}

fn steps_agree(name: &str, ordinal: usize, precision: Precision) {
    let Some(device) = device(ordinal) else { return };
    rollout_agrees(&device, &*world(name), &config(17, 6, &[64, 64]), precision, 24);
}

mod steps_follow_the_cpu {
    representatives! { world_tests! super::steps_in_one_order: }
    world_tests! { super::steps_in_every_order: locks fuses }
}

mod steps_of_each_kind_follow_the_cpu {
    other_kinds! { world_tests! #[ignore = "cargo xtask test --all"] super::steps_in_one_order: }
}

fn steps_in_one_order(name: &str) {
    let (ordinal, precision) = precisions()[number(name) % 3];
    steps_agree(name, ordinal, precision);
}

fn steps_in_every_order(name: &str) {
    precisions().into_iter().for_each(|(ordinal, precision)| steps_agree(name, ordinal, precision));
}

mod nightly_steps_follow_the_cpu {
    nightly_tests!(super::steps_in_every_order);
}

fn awkward_networks_agree(share: Share) {
    let cases = [
        config(1, 6, &[]),
        config(33, 6, &[5]),
        Config { shared_trunk: false, ..config(17, 6, &[33, 20]) },
        Config { activation: Activation::Relu, ..config(16, 6, &[128]) },
        Config { shared_trunk: false, activation: Activation::Relu, ..config(18, 6, &[64, 32, 16]) },
    ];
    for (case, config) in cases.iter().enumerate() {
        for (ordinal, precision) in share.of(precisions(), case) {
            let Some(device) = device(ordinal) else { return };
            rollout_agrees(&device, &Locks, config, precision, 8);
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

fn tables() -> Config {
    Config { encoder: Encoder::Embed, embed_width: 6, ..config(17, 6, &[24]) }
}

fn embeddings_agree(share: Share) {
    let sums = || Config { encoder: Encoder::EmbedSum, shared_trunk: false, ..tables() };
    let cases = [
        ("minigrid_empty_8x8", tables()),
        ("minigrid_empty_8x8", Config { encoder: Encoder::EmbedMean, embed_width: 9, ..tables() }),
        ("taxi", Config { hidden: vec![20, 33], ..sums() }),
        ("frozen_lake", Config { hidden: vec![], shared_trunk: false, ..tables() }),
        // Bits between two parts with indices.
        ("cards", tables()),
        ("cards", sums()),
    ];
    for (case, (name, config)) in cases.into_iter().enumerate() {
        for (ordinal, precision) in share.of(precisions(), case) {
            let Some(device) = device(ordinal) else { return };
            rollout_agrees(&device, &*world(name), &config, precision, 8);
        }
    }
}

#[test]
fn embeddings_follow_the_cpu() {
    embeddings_agree(Share::One);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn embeddings_follow_the_cpu_in_other_precisions() {
    embeddings_agree(Share::Others);
}

#[test]
fn embeddings_beside_real_numbers_need_matrix_products() {
    let Some(device) = device(2) else { return };
    // Next to real numbers the indices are one-hot.
    rollout_agrees(&device, &MixedCards, &config(17, 6, &[24]), Precision::F32, 8);
    let options = NetworkOptions { kernels: Kernels::Fused, ..Precision::F32.into() };
    let refused = CudaRollout::new(&device, &MixedCards, &tables(), options).err().expect("refused");
    assert!(refused.to_string().contains("no real numbers or bytes"), "{refused}");
}

#[test]
fn wide_networks_read_weights_from_each_memory() {
    let Some(device) = device(1) else { return };
    for (hidden, precision, expected) in [
        (vec![64, 64], Precision::Bf16, WeightPlacement::Registers),
        (vec![128, 128], Precision::Bf16, WeightPlacement::Shared),
        (vec![128, 128], Precision::F32, WeightPlacement::Shared),
        (vec![256, 256], Precision::F32, WeightPlacement::Global),
        (vec![256, 256], Precision::Bf16, WeightPlacement::Shared),
    ] {
        let config = config(16, 6, &hidden);
        let rollout = CudaRollout::new(&device, &Locks, &config, precision).expect("a rollout");
        assert_eq!(
            rollout.specialisation().map(|it| it.weights_at),
            Some(expected),
            "{hidden:?} {precision}"
        );
        rollout_agrees(&device, &Locks, &config, precision, 2);
    }
}

#[test]
fn normalisation_follows_the_cpu() {
    let Some(device) = device(2) else { return };
    let config = Config { norm_obs: true, norm_reward: true, ..config(33, 6, &[32]) };
    for name in ["cartpole", "mountain_car", "pendulum", "locks"] {
        rollout_agrees(&device, &*world(name), &config, Precision::F32, 40);
    }
}

fn horizons_are_their_steps(share: Share) {
    // Long enough for time limits and ends of episodes in between.
    let config = config(18, 230, &[32]);
    for (case, name) in ["cartpole", "mountain_car", "pendulum", "locks", "fuses"].into_iter().enumerate() {
        let env = world(name);
        let params = params(&*env, &config);
        for (ordinal, precision) in share.of(precisions(), case) {
            let Some(device) = device(ordinal) else { return };
            let mut problems = check_horizon(&device, &*env, &config, precision, &params).expect("a horizon");
            problems.extend(check_gae(&device, &*env, &config, precision, &params).expect("advantages"));
            assert!(problems.is_empty(), "{name}: {problems:#?}");
        }
    }
}

#[test]
fn a_horizon_is_its_steps() {
    horizons_are_their_steps(Share::One);
}

#[test]
#[ignore = "cargo xtask test --all"]
fn a_horizon_is_its_steps_in_other_precisions() {
    horizons_are_their_steps(Share::Others);
}

#[test]
fn the_order_of_threads_changes_no_bit() {
    let config = Config { norm_obs: true, norm_reward: true, ..config(65, 40, &[32, 32]) };
    let mut all = Vec::new();
    for ordinal in ORDERS {
        let Some(device) = device(ordinal) else { return };
        for precision in Precision::ALL {
            let rollout = CudaRollout::new(&device, &Locks, &config, precision).expect("a rollout");
            rollout.set_params(&params(&Locks, &config)).expect("parameters");
            rollout.roll().and_then(|()| rollout.roll()).expect("two horizons");
            let norms: Vec<u64> = rollout
                .running_norms()
                .expect("statistics")
                .iter()
                .flat_map(|norm| [norm.mean.to_bits(), norm.var.to_bits()])
                .collect();
            all.push((
                ordinal,
                precision,
                rollout.samples().expect("samples"),
                rollout.environments().expect("environments"),
                norms,
            ));
        }
    }
    for (ordinal, precision, samples, environments, norms) in &all[3..] {
        let first = &all[Precision::ALL.iter().position(|p| p == precision).expect("one of them")];
        assert!(
            first.2 == *samples && first.3 == *environments && first.4 == *norms,
            "device {ordinal}, {precision}"
        );
    }
}

#[test]
fn a_horizon_is_one_launch_and_nothing_over_the_bus() {
    let Some(device) = device(0) else { return };
    let config = config(64, 16, &[32]);
    let rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
    rollout.set_params(&params(&Locks, &config)).expect("parameters");
    let play = CudaPlay::new(&device, &Locks, 64, PlayOptions { writes: Some(16), ..PlayOptions::new(1) });
    let play = play.expect("environments");
    // The first launches load the kernels.
    rollout.roll().and_then(|()| play.play(16)).expect("a horizon");
    let horizons: [&dyn Fn() -> Result<(), LearnError>; 2] = [&|| rollout.roll(), &|| play.play(16)];
    for horizon in horizons {
        let before = device.transfers();
        (0..3).try_for_each(|_| horizon()).expect("horizons");
        let moved = device.transfers().since(&before);
        assert_eq!((moved.launches, moved.bytes_h2d + moved.bytes_d2h), (3, 0));
    }
}

#[test]
fn environment_0_is_recorded_on_demand() {
    let Some(device) = device(0) else { return };
    let config = config(3, 6, &[8]);
    let mut rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
    assert_eq!(rollout.scene().expect("no scene"), None);
    rollout.record_scene(true);
    rollout.set_params(&params(&Locks, &config)).expect("parameters");
    let before = rollout.environments().expect("environments");
    rollout.roll().expect("a horizon");
    let scene = rollout.scene().expect("read").expect("a scene");
    let words = scene.len() / config.num_steps;
    let first: Vec<u32> = before.iter().step_by(config.num_envs).copied().collect();
    assert_eq!(scene[..words - 2], first);
    let flags: Vec<u32> = rollout
        .returns()
        .expect("flags")
        .flags
        .iter()
        .step_by(config.num_envs)
        .map(|f| u32::from(*f))
        .collect();
    assert_eq!(scene.iter().skip(words - 2).step_by(words).copied().collect::<Vec<_>>(), flags);
}

/// What the sanitizers run: every memory of weights, every head, masks, bits, statistics and ends of episodes.
#[test]
fn small_rollouts_of_every_kind() {
    let Some(device) = device(2) else { return };
    for (precision, name) in [
        (Precision::F32, "pendulum"),
        (Precision::Bf16, "cartpole"),
        (Precision::Tf32, "minatar_breakout"),
        (Precision::F32, "minatar_breakout"),
        (Precision::Bf16, "locks"),
    ] {
        let env = world(name);
        let bits = env.spec().obs.words() != env.spec().obs.size();
        let config = Config { norm_obs: !bits, norm_reward: true, ..config(17, 12, &[20]) };
        let rollout = CudaRollout::new(&device, &*env, &config, precision).expect("a rollout");
        rollout.set_params(&params(&*env, &config)).expect("parameters");
        rollout.roll().and_then(|()| rollout.roll()).expect("two horizons");
        assert!(rollout.returns().expect("values").values.iter().all(|value| value.is_finite()));
        let differing = differing_environments(&device, &*env, 33, 64).expect("random play");
        assert!(differing.is_empty(), "{name}: environments {differing:?}");
    }
    let wide = config(16, 2, &[256, 256]);
    let rollout = CudaRollout::new(&device, &Locks, &wide, Precision::F32).expect("a rollout");
    assert_eq!(rollout.specialisation().map(|it| it.weights_at), Some(WeightPlacement::Global));
    rollout.set_params(&params(&Locks, &wide)).and_then(|()| rollout.roll()).expect("a horizon");
    rollout.samples().expect("samples");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn nightly_kernels_stay_within_their_memory_and_the_language() {
    sanitized(&[
        "cuda::rollout::small_rollouts_of_every_kind",
        "cuda::rollout::environment_0_is_recorded_on_demand",
    ]);
}

#[test]
fn tolerances_stay_as_they_were_calibrated() {
    assert_eq!(Precision::ALL.map(tolerance), [1e-5, 2e-3, 2e-2]);
}
