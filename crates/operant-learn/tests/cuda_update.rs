//! The GPU's update without a GPU: the real kernel on the host's stand-in, against the CPU's learner over the same samples.

#[path = "../../operant-env/tests/support/locks.rs"]
mod locks;
#[path = "../../operant-cuda/tests/support/stand_in.rs"]
mod stand_in;

use locks::Locks;
use operant_cuda::{Cuda, Device};
use operant_env::{Env, Visitor, registry};
use operant_learn::cpu::adam::LearnerState;
use operant_learn::cpu::batch::Batch;
use operant_learn::cpu::update::Learner;
use operant_learn::cuda::{CudaLearner, CudaRollout};
use operant_learn::network::init_params;
use operant_learn::{Activation, Config, Precision};

fn device(ordinal: usize) -> Option<Device> {
    let directory = stand_in::directory("the GPU's update on the host")?;
    let cuda = Cuda::find_in(Some(&directory)).expect("the stand-in is found");
    let cuda = cuda.cached_in(Some(&stand_in::cache(&directory)));
    Some(cuda.open(ordinal).expect("the stand-in has this device"))
}

fn config(num_envs: usize, num_steps: usize, hidden: &[usize]) -> Config {
    Config {
        seed: 5,
        num_envs,
        num_steps,
        hidden: hidden.to_vec(),
        shared_trunk: true,
        total_timesteps: 100_000,
        ..Config::default()
    }
}

/// ||got - expected|| / ||expected||.
fn distance(got: &[f32], expected: &[f32]) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for (&a, &b) in got.iter().zip(expected) {
        difference += (f64::from(a) - f64::from(b)).powi(2);
        norm += f64::from(b).powi(2);
    }
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

struct Compare<'a> {
    device: &'a Device,
    config: Config,
    updates: u64,
    phases: bool,
}

impl Visitor for Compare<'_> {
    /// The learner's state on the device.
    type Output = LearnerState;

    fn visit<E: Env>(self, env: E) -> LearnerState {
        let Self { device, config, updates, phases } = self;
        let what = format!("{} {:?} {config:?}", env.spec().name, config.hidden);
        let rollout = CudaRollout::new(device, &env, &config, Precision::F32).expect("a rollout");
        let network = rollout.network().clone();
        let params = init_params(&network, 2);
        rollout.set_params(&params).expect("parameters");
        rollout.roll().expect("a horizon");
        let samples = rollout.samples().expect("samples");

        // Weights other than those that played, so that ratios are clipped here and there.
        let mut moved = params;
        moved.iter_mut().enumerate().for_each(|(k, w)| *w += 0.05 * (k as f32 * 0.7).sin());
        let mut state = LearnerState::new(moved);
        let stream = rollout.stream();
        let mut learner =
            CudaLearner::new(device, stream, &env, &network, &config, Precision::F32).expect("a learner");
        if phases {
            learner.without_cooperative_launch();
        }
        learner.load(stream, &state, 0, 0).expect("a state");

        // One row of B environments has the device's order of samples.
        let count = config.num_envs * config.num_steps;
        let mut batch = Batch::new(rollout.layout().clone(), count, 1, 64);
        let mut next = samples.as_slice();
        for tile in batch.tiles_mut() {
            let (own, rest) = next.split_at(tile.words.len());
            tile.words.copy_from_slice(own);
            next = rest;
        }
        let mut cpu = Learner::new(network, rollout.layout().clone(), config.clone());
        for update in 0..updates {
            learner.update(stream, rollout.samples_buffer()).expect("an update");
            let expected = cpu.update(&mut state, &batch, update);
            let (got, report) =
                (learner.state(stream).expect("state"), learner.report(stream).expect("report"));
            // Differences grow with the steps of Adam, whose first ones divide small numbers by small ones.
            let most = 1e-5 * (1.0 + 3.0 * update as f64);
            for (name, got, expected) in [
                ("parameters", &got.params, &state.params),
                ("exp_avg", &got.exp_avg, &state.exp_avg),
                ("exp_avg_sq", &got.exp_avg_sq, &state.exp_avg_sq),
            ] {
                let distance = distance(got, expected);
                let most = if name == "parameters" { most } else { 20.0 * most };
                assert!(
                    distance <= most,
                    "{what}: update {update}: {name} differ by {distance:.2e}, more than {most:.0e}"
                );
            }
            assert_eq!(got.step, state.step, "{what}");
            assert_eq!(
                (report.nonfinite, report.epochs as usize),
                (expected.nonfinite, expected.epochs),
                "{what}"
            );
            let n = report.minibatches;
            let variance = |sums: [f64; 2]| sums[1] - sums[0] * sums[0] / count as f64;
            for (name, got, expected) in [
                ("policy_loss", report.policy / n, expected.policy_loss),
                ("value_loss", report.value / n, expected.value_loss),
                ("entropy", report.entropy / n, expected.entropy),
                ("approx_kl", report.kl / n, expected.approx_kl),
                ("clipfrac", report.clipped / n, expected.clipfrac),
                ("grad_norm", report.norms / n, expected.grad_norm),
                (
                    "explained_variance",
                    1.0 - variance(report.errors) / variance(report.returns),
                    expected.explained_variance,
                ),
                ("learning_rate", report.learning_rate, expected.learning_rate),
            ] {
                let close = (got - expected).abs() <= 2e-3 * expected.abs() + 2e-5;
                assert!(close, "{what}: update {update}: {name} is {got}, on the CPU {expected}");
            }
        }
        learner.state(stream).expect("state")
    }
}

fn compare(name: &str, compare: Compare<'_>) -> LearnerState {
    if name == "locks" {
        return compare.visit(Locks);
    }
    registry::with_env(name, &Default::default(), compare).expect("a registered name")
}

#[test]
fn updates_follow_the_cpu() {
    let Some(device) = device(0) else { return };
    let base = |envs: usize, steps: usize, hidden: &[usize]| config(envs, steps, hidden);
    for (name, config) in [
        ("cartpole", base(16, 16, &[64, 64])),
        ("cartpole", Config { num_minibatches: 3, clip_vloss: false, ..base(17, 9, &[64, 64]) }),
        ("pendulum", Config { shared_trunk: false, norm_adv: false, ..base(16, 16, &[32]) }),
        ("minatar_breakout", Config { activation: Activation::Relu, ..base(16, 8, &[64]) }),
        ("acrobot", Config { num_minibatches: 1, anneal_lr: false, ..base(1, 65, &[]) }),
        ("locks", Config { shared_trunk: false, ent_coef: 0.1, ..base(33, 8, &[20, 40]) }),
        ("locks", Config { target_kl: 1e-4, max_grad_norm: 0.01, ..base(65, 4, &[128, 32]) }),
    ] {
        compare(name, Compare { device: &device, config, updates: 2, phases: false });
    }
}

/// One update in another precision: the gradient, which the first moments are a tenth of, and the losses.
struct Rounded<'a> {
    device: &'a Device,
    config: Config,
    precision: Precision,
    most: f64,
}

impl Visitor for Rounded<'_> {
    type Output = ();

    fn visit<E: Env>(self, env: E) {
        let Self { device, config, precision, most } = self;
        let what = format!("{} {precision} {:?}", env.spec().name, config.hidden);
        let rollout = CudaRollout::new(device, &env, &config, Precision::F32).expect("a rollout");
        let network = rollout.network().clone();
        let params = init_params(&network, 2);
        rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
        let mut moved = params;
        moved.iter_mut().enumerate().for_each(|(k, w)| *w += 0.05 * (k as f32 * 0.7).sin());
        let (stream, state) = (rollout.stream(), LearnerState::new(moved));
        let updated = |precision: Precision| {
            let learner =
                CudaLearner::new(device, stream, &env, &network, &config, precision).expect("a learner");
            learner.load(stream, &state, 0, 0).expect("a state");
            learner.update(stream, rollout.samples_buffer()).expect("an update");
            (learner.state(stream).expect("state"), learner.report(stream).expect("report"))
        };
        let ((got, report), (expected, exact)) = (updated(precision), updated(Precision::F32));
        let distance = distance(&got.exp_avg, &expected.exp_avg);
        eprintln!("{what}: gradient within {distance:.1e}");
        assert!(distance <= most, "{what}: the gradient differs by {distance:.2e}, more than {most:.0e}");
        assert!(distance > 0.0, "{what}: not computed in another precision");
        // Matrix by matrix, so that a small one cannot hide behind a large one. The bias of a value is one sum that nearly cancels.
        for tensor in network.tensors.iter().filter(|tensor| tensor.shape.len() == 2) {
            let (a, b) = (&got.exp_avg[tensor.range()], &expected.exp_avg[tensor.range()]);
            let distance = self::distance(a, b);
            assert!(distance <= 3.0 * most, "{what}: {} differs by {distance:.2e}", tensor.name);
        }
        for (name, got, exact) in [
            ("policy", report.policy, exact.policy),
            ("value", report.value, exact.value),
            ("entropy", report.entropy, exact.entropy),
        ] {
            assert!((got - exact).abs() <= most * exact.abs() + 1e-3, "{what}: {name} {got} and {exact}");
        }
    }
}

#[test]
fn gradients_on_tensor_cores_are_those_of_single_precision() {
    let base = |hidden: &[usize]| Config {
        num_minibatches: 1,
        update_epochs: 1,
        max_grad_norm: 1e9,
        ..config(17, 9, hidden)
    };
    for (ordinal, precision, most) in [(0, Precision::Bf16, 2e-2), (2, Precision::Tf32, 2e-3)] {
        let Some(device) = device(ordinal) else { return };
        for (name, config) in [
            ("cartpole", base(&[64, 64])),
            ("cartpole", base(&[])),
            ("acrobot", Config { shared_trunk: false, ..base(&[33, 20]) }),
            ("pendulum", base(&[32])),
            ("minatar_breakout", Config { activation: Activation::Relu, ..base(&[40, 32]) }),
        ] {
            let rounded = Rounded { device: &device, config, precision, most };
            registry::with_env(name, &Default::default(), rounded).expect("a registered name");
        }
        Rounded { device: &device, config: base(&[20, 40, 20]), precision, most }.visit(Locks);
    }
    // Too large for registers: gradients are added up in memory.
    let Some(device) = device(1) else { return };
    let wide = Config { shared_trunk: false, ..base(&[128, 128]) };
    Rounded { device: &device, config: wide, precision: Precision::Bf16, most: 2e-2 }.visit(Locks);
}

#[test]
fn the_order_of_threads_changes_no_bit_on_tensor_cores() {
    let config = config(33, 8, &[64, 32]);
    let mut states = Vec::new();
    for ordinal in [0, 1, 2] {
        let Some(device) = device(ordinal) else { return };
        let rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
        let network = rollout.network().clone();
        let params = init_params(&network, 2);
        rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
        let stream = rollout.stream();
        let learner =
            CudaLearner::new(&device, stream, &Locks, &network, &config, Precision::Bf16).expect("a learner");
        learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
        for _ in 0..2 {
            learner.update(stream, rollout.samples_buffer()).expect("an update");
        }
        states.push(learner.state(stream).expect("state"));
    }
    assert!(states.iter().all(|state| *state == states[0]), "bits differ");
}

#[test]
fn ten_updates_in_a_row_follow_the_cpu() {
    let Some(device) = device(2) else { return };
    let config = Config { learning_rate: 1e-3, ..config(16, 32, &[64, 64]) };
    compare("cartpole", Compare { device: &device, config, updates: 10, phases: false });
}

#[test]
fn orders_of_threads_and_ways_of_launching_give_the_same_bits() {
    let config = config(33, 8, &[32, 32]);
    let mut states = Vec::new();
    for (ordinal, phases) in [(0, false), (1, false), (2, false), (0, true), (4, false)] {
        let Some(device) = device(ordinal) else { return };
        states
            .push(compare("locks", Compare { device: &device, config: config.clone(), updates: 2, phases }));
    }
    assert!(states.iter().all(|state| *state == states[0]), "bits differ");
}

#[test]
fn a_minibatch_that_is_not_finite_is_skipped_and_counted() {
    let Some(device) = device(0) else { return };
    let config = Config { num_minibatches: 4, update_epochs: 2, ..config(16, 8, &[16]) };
    let rollout = CudaRollout::new(&device, &Locks, &config, Precision::F32).expect("a rollout");
    let network = rollout.network().clone();
    let params = init_params(&network, 2);
    rollout.set_params(&params).and_then(|()| rollout.roll()).expect("a horizon");
    let (stream, layout) = (rollout.stream(), rollout.layout());
    let mut samples = rollout.samples().expect("samples");
    samples[layout.logprob] = f32::NAN.to_bits();
    rollout.samples_buffer().write(stream, &samples).expect("samples");
    let learner =
        CudaLearner::new(&device, stream, &Locks, &network, &config, Precision::F32).expect("a learner");
    learner.load(stream, &LearnerState::new(params), 0, 0).expect("a state");
    for update in 1..=2 {
        learner.update(stream, rollout.samples_buffer()).expect("an update");
        let (report, progress) =
            (learner.report(stream).expect("report"), learner.progress(stream).expect("progress"));
        assert_eq!((report.nonfinite, report.minibatches), (2, 3.0));
        assert_eq!((progress.nonfinite_in_a_row, progress.adam_steps), (update, 6 * update));
        assert!(learner.state(stream).expect("state").params.iter().all(|w| w.is_finite()));
    }
}

#[test]
fn the_update_stays_within_its_memory_and_the_language() {
    for test in [
        "a_minibatch_that_is_not_finite_is_skipped_and_counted",
        "the_order_of_threads_changes_no_bit_on_tensor_cores",
    ] {
        let Some(output) = stand_in::rerun_sanitized(test) else { return };
        stand_in::must_pass(&output);
    }
}
