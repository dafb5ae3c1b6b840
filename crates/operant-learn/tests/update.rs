//! The learner against an independent scalar implementation in f64, and that one against finite differences.

use operant_lane::isa::f32x16;
use operant_learn::LearnerState;
use operant_learn::UpdateStats;
use operant_learn::cpu::gae::gae;
use operant_learn::cpu::network::tile::Row;
use operant_learn::cpu::update::Learner;
use operant_learn::network::Head;
use operant_learn::normalise::RunningNorm;
use operant_learn::{ActionDistribution, Config};
use operant_parity::{distance, reference};
use rayon::ThreadPoolBuilder;

use crate::cases::{self, Case, Random};
use crate::support::parts::Part;

fn run(case: &Case, updates: u64, threads: usize) -> (LearnerState, UpdateStats) {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let mut learner = Learner::new(case.network.clone(), case.layout.clone(), case.config.clone());
    let mut state = LearnerState::new(case.params.clone());
    let mut batch = case.batch.clone();
    let report = pool
        .install(|| (0..updates).map(|u| learner.update(&mut state, &mut batch, u).unwrap()).last().unwrap());
    (state, report)
}

in_parts! { reference_gradient_matches_finite_differences, threads_never_change_a_bit }

fn reference_gradient_matches_finite_differences(part: Part) {
    let mut cases = cases::all();
    cases.swap(2, 4); // the first with a Gaussian head is one of the few
    cases.splice(4..4, cases::two_values());
    for mut case in part.of(4, cases) {
        let head = &case.network.architecture.head;
        if matches!(head, Head::Continuous(of) if of.distribution == ActionDistribution::Tanh) {
            // The gradient of an estimated entropy is not that of the estimate.
            case.config.algorithms.ppo.ent_coef = 0.0;
        }
        let params: Vec<f64> = case.params.iter().map(|&p| f64::from(p)).collect();
        let count = case.batch.sequences().min(60 / case.batch.sequence());
        let samples = reference::sequences(&case.network, &case.batch, 0..count);
        let (_, _, gradient) = reference::loss(&case.network, &case.config, &params, &samples);
        let scale = gradient.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        let mut random = Random(5);
        for _ in 0..60 {
            let k = random.bits() as usize % params.len();
            let difference = case.difference(&params, &samples, k);
            let error = (difference - gradient[k]).abs();
            assert!(
                error < 1e-6 * scale.max(1.0),
                "{}: parameter {k}: {} vs {difference}",
                case.name,
                gradient[k]
            );
        }
    }
}

#[test]
fn gradient_matches_the_reference() {
    for mut case in cases::all().into_iter().chain(cases::two_values()) {
        // One step with a norm that is never clipped leaves (1 - beta1) x gradient in the first moment.
        (case.config.num_minibatches, case.config.update_epochs, case.config.max_grad_norm) = (1, 1, 1e9);
        case.config.algorithms.ppo.vf_epochs = 0;
        let (state, _) = run(&case, 1, 2);
        let expected = reference::update(&case.network, &case.config, &case.params, &case.batch, 0);
        let distance = distance(&state.exp_avg, &expected.exp_avg);
        assert!(distance < 5e-6, "{}: {distance:e}", case.name);
        // Tensor by tensor too: a small one must not hide behind a large one.
        for tensor in &case.network.tensors {
            let range = tensor.range();
            let distance = operant_parity::distance(&state.exp_avg[range.clone()], &expected.exp_avg[range]);
            assert!(distance < 5e-5, "{}: {}: {distance:e}", case.name, tensor.name);
        }
    }
}

#[test]
fn whole_update_matches_the_reference() {
    for case in cases::all().into_iter().chain(cases::options()) {
        let (state, report) = run(&case, 1, 2);
        let expected = reference::update(&case.network, &case.config, &case.params, &case.batch, 0);
        let error = distance(&state.params, &expected.params);
        assert!(error < 1e-5, "{}: parameters {error:e}", case.name);
        let moved = |params: &[f64]| -> Vec<f64> {
            params.iter().zip(&case.params).map(|(a, &b)| a - f64::from(b)).collect()
        };
        let ours: Vec<f32> = state
            .params
            .iter()
            .zip(&case.params)
            .map(|(&a, &b)| (f64::from(a) - f64::from(b)) as f32)
            .collect();
        let error = distance(&ours, &moved(&expected.params));
        assert!(error < 2e-3, "{}: change of parameters {error:e}", case.name);
        let close = |name: &str, a: f64, b: f64| {
            assert!((a - b).abs() < 1e-4 * b.abs().max(0.01), "{}: {name} {a} is not {b}", case.name);
        };
        close("policy_loss", report.metrics.policy_loss, expected.losses.policy);
        close("value_loss", report.metrics.value_loss, expected.losses.value);
        close("entropy", report.metrics.entropy, expected.losses.entropy);
        close("approx_kl", report.metrics.approx_kl, expected.losses.kl);
        close("clipfrac", report.metrics.clipfrac, expected.losses.clipfrac);
        close("grad_norm", report.metrics.grad_norm, expected.losses.grad_norm);
        assert!(report.metrics.clipfrac > 0.01, "{}: the case never clips", case.name);
        assert_eq!((report.epochs, report.nonfinite), (expected.epochs, 0));
        let epochs = case.config.update_epochs + case.config.algorithms.ppo.vf_epochs;
        assert_eq!(state.step, (epochs * case.config.num_minibatches) as u64);
    }
}

#[test]
fn target_kl_stops_the_epochs() {
    let mut case = cases::all().remove(0);
    case.config.algorithms.ppo.target_kl = 1e-4;
    let (state, report) = run(&case, 1, 2);
    let expected = reference::update(&case.network, &case.config, &case.params, &case.batch, 0);
    assert_eq!((report.epochs, expected.epochs), (1, 1));
    assert_eq!(state.step, case.config.num_minibatches as u64);
}

#[test]
fn the_value_layer_takes_the_units_of_normalised_values() {
    let returns = RunningNorm { mean: vec![-40.0], var: vec![9.0], count: 7.0 };
    for case in cases::options() {
        let values = |params: &[f32]| {
            let params: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
            let samples = reference::sequences(&case.network, &case.batch, 0..3);
            reference::logprobs_and_values(&case.network, &params, &samples)
        };
        let with_values = case.network.with_values(&case.params, &returns);
        for ([logprob, value], [same, in_units]) in values(&with_values).into_iter().zip(values(&case.params))
        {
            assert_eq!(logprob, same, "{}", case.name);
            assert!((value - (3.0 * in_units - 40.0)).abs() < 1e-4, "{}: {value} {in_units}", case.name);
        }
        assert_eq!(&*case.network.with_values(&case.params, &RunningNorm::new(0)), &case.params[..]);
    }
}

fn threads_never_change_a_bit(part: Part) {
    let mut cases = cases::all();
    // Enough tiles for several chunks of several tiles.
    let config = cases::config(256, 64, 2);
    let input = operant_learn::network::Input::Dense(4);
    let head = Head::MultiDiscrete(vec![3]);
    cases.insert(0, Case::new("many tiles", config, input, head, false));
    cases.extend(cases::options());
    for case in part.of(3, cases) {
        let (one, one_report) = run(&case, 2, 1);
        assert!(one.params.iter().all(|p| p.is_finite()));
        assert_ne!(one.params, case.params);
        for threads in [2, 3, 7] {
            let (state, report) = run(&case, 2, threads);
            assert!(state == one, "{}: {threads} threads", case.name);
            assert_eq!(format!("{report:?}"), format!("{one_report:?}"), "{}: {threads} threads", case.name);
        }
    }
}

#[test]
fn nonfinite_minibatches_are_skipped_and_counted() {
    for poison in [f32::NAN, f32::INFINITY] {
        let mut case = cases::all().remove(0);
        let layout = case.layout.clone();
        case.config.algorithms.ppo.norm_adv = false;
        case.batch.tiles_mut(1)[0].put(3, layout.advantage, &[f32x16::splat(poison)]);
        // Sixteen poisoned samples of 512: in each epoch some minibatches hold one.
        let (state, report) = run(&case, 1, 2);
        let minibatches = (case.config.update_epochs * case.config.num_minibatches) as u64;
        assert!(report.nonfinite > 0);
        assert_eq!(state.step + report.nonfinite, minibatches);
        assert!(state.params.iter().chain(&state.exp_avg).chain(&state.exp_avg_sq).all(|x| x.is_finite()));
        if state.step == 0 {
            assert_eq!(state.params, case.params);
        }
    }
}

#[test]
fn one_poisoned_minibatch_leaves_the_state_untouched() {
    let mut case = cases::all().remove(0);
    case.config.num_minibatches = 1;
    let layout = case.layout.clone();
    case.batch.tiles_mut(1)[0].put(0, layout.obs, &[f32x16::splat(f32::NAN)]);
    let (state, report) = run(&case, 1, 2);
    assert_eq!((state.step, report.nonfinite), (0, case.config.update_epochs as u64));
    assert!(state == LearnerState::new(case.params.clone()));
    assert!(report.metrics.policy_loss.is_nan());
}

#[test]
fn explained_variance_is_that_of_the_rollout() {
    for case in [cases::all().remove(3), cases::two_values().remove(0)] {
        let (_, report) = run(&case, 1, 2);
        let samples: Vec<_> =
            (0..case.batch.len()).map(|i| reference::unpack(&case.network, &case.batch, i)).collect();
        let variance = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64
        };
        let errors = variance(samples.iter().map(|s| s.advantage).collect());
        let value = |s: &reference::Sample| s.value + s.exploring.map_or(0.0, |[value, _]| value);
        let returns = variance(samples.iter().map(|s| s.advantage + value(s)).collect());
        assert!((report.metrics.explained_variance - (1.0 - errors / returns)).abs() < 1e-9);
    }
}

#[test]
fn gae_matches_the_reference() {
    let mut random = Random(11);
    for steps in [1, 2, 37, 128] {
        let rows = |random: &mut Random, f: fn(f64) -> f32| -> Vec<Row<2>> {
            (0..steps)
                .map(|_| core::array::from_fn(|_| f32x16::new(core::array::from_fn(|_| f(random.float())))))
                .collect()
        };
        let rewards = rows(&mut random, |x| x as f32);
        let values = rows(&mut random, |x| 5.0 * x as f32);
        let done = rows(&mut random, |x| if x > 0.8 { 1.0 } else { 0.0 });
        let next = rows(&mut random, |x| x as f32)[0];
        let mut advantages = vec![[f32x16::ZERO; 2]; steps];
        let discounts =
            Config { gamma: 0.97, ..Config::default() }.ppo(|ppo| ppo.gae_lambda = 0.9).discounts();
        gae(&rewards, &values, &done, next, discounts, &mut advantages);
        for lane in 0..32 {
            let column = |rows: &[Row<2>]| -> Vec<f64> {
                rows.iter().map(|row| f64::from(row[lane / 16].as_array()[lane % 16])).collect()
            };
            let ended: Vec<bool> = column(&done).into_iter().map(|d| d > 0.5).collect();
            let (gamma, lambda) = (f64::from(0.97f32), f64::from(0.9f32));
            let next = column(&[next])[0];
            let expected = reference::gae(&column(&rewards), &column(&values), &ended, next, gamma, lambda);
            for (a, b) in column(&advantages).into_iter().zip(expected) {
                assert!((a - b).abs() < 1e-4, "{a} is not {b}");
            }
        }
    }
}

/// The parameters' bits after two updates of every case, FNV-1a. They are the same on every instruction set; a change of
/// the arithmetic changes them, and an intended change must update the value here.
const GOLDEN: u64 = 0x8fe2_194b_8ee9_adb0;

/// [`GOLDEN`] with the cases that have convolutions added.
const GOLDEN_WITH_CONVOLUTIONS: u64 = 0x3087_8d8c_bf1c_d8ea;

/// The same, with the cases that have memory added.
const GOLDEN_WITH_MEMORY: u64 = 0x4dfe_aee2_104a_478d;

/// The same, with the cases that have embeddings added.
const GOLDEN_WITH_TABLES: u64 = 0xc021_5059_82b9_94b0;

/// The same, with the cases that have pointer heads added.
const GOLDEN_WITH_POINTERS: u64 = 0xa13f_63e5_e15e_00ea;

/// The same, with the case of blocks added.
const GOLDEN_WITH_BLOCKS: u64 = 0x8474_f3d9_8337_cb20;

/// The same, with the cases that have residual blocks added.
const GOLDEN_WITH_RESIDUALS: u64 = 0xf80c_0f63_0ce0_02d6;

/// The same, with the cases that have noise on means or another distribution of real actions than [`Head::gaussian`] added.
const GOLDEN_WITH_REALS: u64 = 0x98ac_886d_aa00_fa37;

/// The same, with the cases that have distributions of values added.
const GOLDEN_WITH_BINS: u64 = 0x2508_8728_5dcf_f73f;

fn is_plain(head: &Head) -> bool {
    matches!(head, Head::MultiDiscrete(_)) || *head == Head::gaussian(head.components())
}

#[test]
fn bits_are_the_same_on_every_machine() {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    // The hash so far and the number of cases: of MLPs, with convolutions, with memory, with tables, with pointers, of blocks, with
    // residual blocks, with other policies of real actions, with distributions of values.
    let mut groups = [(0, 0); 9];
    for case in cases::all() {
        let (state, _) = run(&case, 2, 2);
        for byte in state.params.iter().flat_map(|p| p.to_bits().to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        let architecture = &case.network.architecture;
        let group = match (&architecture.embed, architecture.core) {
            _ if architecture.bins.is_some() => 8,
            _ if case.config.algorithms.ppo.rpo_alpha > 0.0 || !is_plain(&architecture.head) => 7,
            _ if architecture.residual_blocks > 0 => 6,
            _ if case.config.blocks() > 1 => 5,
            _ if architecture.items.is_some() => 4,
            (Some(_), _) => 3,
            (None, Some(_)) => 2,
            (None, None) => usize::from(!architecture.conv.is_empty()),
        };
        assert!(
            groups[group + 1..].iter().all(|(_, cases)| *cases == 0),
            "{}: cases are in groups",
            case.name
        );
        groups[group] = (hash, groups[group].1 + 1);
    }
    let golden = [
        (GOLDEN, 8),
        (GOLDEN_WITH_CONVOLUTIONS, 2),
        (GOLDEN_WITH_MEMORY, 4),
        (GOLDEN_WITH_TABLES, 5),
        (GOLDEN_WITH_POINTERS, 3),
        (GOLDEN_WITH_BLOCKS, 1),
        (GOLDEN_WITH_RESIDUALS, 2),
        (GOLDEN_WITH_REALS, 7),
        (GOLDEN_WITH_BINS, 2),
    ];
    assert_eq!(groups, golden, "{groups:#x?}");
}
