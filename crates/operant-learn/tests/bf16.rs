//! Products in bf16: gradients near those of the reference, and the same bits for every unit, thread, tile and lane.

use std::sync::Arc;

use operant_env::builtin;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::update::Learner;
use operant_learn::cpu::{CpuOptions, LANE_WIDTHS, ROLLOUT_TILES, Unit};
use operant_learn::network::{Form, Network};
use operant_learn::{Activation, Config, LearnerState};
use operant_parity::{distance, reference};
use rayon::ThreadPoolBuilder;

use crate::cases::{self, Case};
use crate::sac::Minibatches;
use crate::support::after;
use crate::{dqn, sac};

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

/// The state after some minibatches of a replay, in f32 without a unit.
fn learn(case: &Minibatches, unit: Option<Unit>, count: usize, threads: usize) -> LearnerState {
    let network = Network { bf16: unit, ..case.network.clone() };
    case.of_network(network).learn(count, threads).0
}

#[test]
fn minibatches_of_a_replay_have_gradients_near_those_of_f32() {
    for case in sac::minibatches().into_iter().chain(dqn::minibatches()) {
        let [found, expected] = [Some(Unit::TILES_TWIN), None].map(|unit| {
            let (after, before) = (learn(&case, unit, 1, 1).exp_avg, &case.state.exp_avg);
            after.iter().zip(before).map(|(after, before)| after - 0.9 * before).collect::<Vec<f32>>()
        });
        // Chains apart: a policy's gradient is much smaller than that of its critics. The choice of the best action is by rounded values.
        for chain in 0..case.network.chains.len() {
            let params = case.network.params_of(chain..chain + 1);
            let (found, expected) = (&found[params.clone()], &expected[params]);
            if found == expected {
                assert!(expected.iter().all(|x| x.abs() < 1e-6), "{}: chain {chain} is as in f32", case.name);
                continue;
            }
            let distance = distance(found, expected);
            assert!((1e-5..0.1).contains(&distance), "{}: {distance:e} of chain {chain}", case.name);
        }
    }
}

#[test]
fn minibatches_of_a_replay_have_the_same_bits_on_every_unit_and_any_threads() {
    for case in sac::minibatches().into_iter().chain(dqn::minibatches()) {
        for unit in Unit::all().into_iter().chain([Unit::TILES_TWIN]) {
            let twin = learn(&case, Some(unit.twin()), 3, 1);
            assert!(learn(&case, Some(unit), 3, 3) == twin, "{}, {unit}", case.name);
        }
    }
}

#[test]
fn training_has_the_same_bits_on_every_unit_thread_tile_and_lane() {
    let ppo =
        |activation, hidden| Config { num_envs: 72, num_steps: 16, activation, hidden, ..Config::default() };
    let sac = Config { hidden: vec![40, 24], ..sac::config(Algorithm::Sac) };
    for (name, config) in [
        ("cartpole", ppo(Activation::Tanh, vec![24, 16])),
        ("pendulum", ppo(Activation::Relu, vec![40])),
        ("pendulum", Config { num_envs: 40, ..sac }),
    ] {
        let env = Arc::clone(builtin().find(name).expect("an environment"));
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
