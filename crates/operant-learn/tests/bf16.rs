//! Products in bf16: gradients near those of the reference, and the same bits for every unit, thread, tile and lane.

use std::sync::Arc;

use operant_env::builtin;
use operant_learn::cpu::update::Learner;
use operant_learn::cpu::{CpuOptions, LANE_WIDTHS, ROLLOUT_TILES, Unit};
use operant_learn::network::{Form, Network};
use operant_learn::{Activation, Config, LearnerState};
use operant_parity::{distance, reference};
use rayon::ThreadPoolBuilder;

use crate::cases::{self, Case};
use crate::support::after;

/// The state after an update in bf16.
fn update(case: &Case, unit: Unit, threads: usize) -> LearnerState {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let network = Network { bf16: Some(unit), ..case.network.clone() };
    let mut learner = Learner::new(network, case.layout.clone(), case.config.clone());
    let mut state = LearnerState::new(case.params.clone());
    pool.install(|| learner.update(&mut state, &mut case.batch.clone(), 0)).unwrap();
    state
}

#[test]
fn gradients_are_near_those_of_the_reference() {
    for mut case in cases::all() {
        // One step with a norm that is never clipped leaves (1 - beta1) x gradient in the first moment. The loss has no clipping, where
        // rounding decides on which side a sample is, and no difference of large numbers.
        case.config =
            Config { num_minibatches: 1, update_epochs: 1, max_grad_norm: 1e9, ..case.config.clone() }
                .ppo(|ppo| (ppo.norm_adv, ppo.clip_coef) = (false, 1e6));
        let found = update(&case, Unit::TILES_TWIN, 1).exp_avg;
        let expected = reference::update(&case.network, &case.config, &case.params, &case.batch, 0).exp_avg;
        let distance = distance(&found, &expected);
        let is_dense = case.network.layers().all(|layer| matches!(layer.form, Form::Dense(_)));
        // On which side of zero a sum is decides a ReLU's slope.
        let is_smooth = is_dense && case.config.activation == Activation::Tanh;
        let most = if is_smooth { 2e-2 } else { 6e-2 };
        assert!(distance < most, "{}: {distance:e}", case.name);
        let has_numbers = case.network.layers().any(|layer| matches!(layer.form, Form::Dense(_)));
        assert!(!has_numbers || distance > 1e-5, "{}: {distance:e} is as exact as f32", case.name);
    }
}

#[test]
fn updates_have_the_same_bits_on_every_unit_and_any_threads() {
    for case in cases::all() {
        for unit in Unit::all().into_iter().chain([Unit::TILES_TWIN]) {
            let twin = update(&case, unit.twin(), 1);
            for threads in [2, 5] {
                let found = update(&case, unit, threads);
                assert_eq!(found.params, twin.params, "{}, {unit}, {threads} threads", case.name);
                assert_eq!(found.exp_avg_sq, twin.exp_avg_sq, "{}, {unit}", case.name);
            }
        }
    }
}

#[test]
fn training_has_the_same_bits_on_every_unit_thread_tile_and_lane() {
    for (name, activation, hidden) in
        [("cartpole", Activation::Tanh, vec![24, 16]), ("pendulum", Activation::Relu, vec![40])]
    {
        let env = Arc::clone(builtin().find(name).expect("an environment"));
        let (num_envs, num_steps) = (72, 16);
        let config = Config { num_envs, num_steps, activation, hidden, ..Config::default() };
        let with = |unit, threads| CpuOptions { bf16: Some(unit), ..CpuOptions::new(threads) };
        for unit in Unit::all().into_iter().chain([Unit::TILES_TWIN]) {
            let twin = after(&env, &config, &with(unit.twin(), 1), 2);
            assert!(twin != after(&env, &config, &CpuOptions::new(1), 2), "{name}: f32 has other bits");
            for rollout_tile in ROLLOUT_TILES {
                for lane_width in LANE_WIDTHS {
                    let options = CpuOptions { rollout_tile, lane_width, ..with(unit, 2) };
                    let what = format!("{name}, {unit}, tiles of {rollout_tile}, {lane_width} lanes");
                    assert!(after(&env, &config, &options, 2) == twin, "{what}");
                }
            }
        }
    }
}
