//! PQN against an independent scalar implementation in f64, and its learning.

use std::sync::Arc;

use operant_env::AnyEnv;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::update::Learner;
use operant_learn::network::{Architecture, Head, Input, Network, init_params};
use operant_learn::{
    Activation, Config, CoreKind, EvalActions, LearnError, LearnerState, Optimizer, Snapshot, UpdateStats,
    cpu,
};
use operant_parity::{distance, reference};
use rayon::ThreadPoolBuilder;

use crate::cases::{self, Case};
use crate::support::{assert_same, train, update, world};

fn with(config: Config, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config {
        algorithm: Algorithm::Pqn,
        optimizer: Optimizer::RAdam,
        layer_norm: true,
        max_grad_norm: 10.0,
        ..config
    };
    change(&mut config);
    config
}

fn cases() -> Vec<Case> {
    let discrete = |counts: &[usize]| Head::MultiDiscrete(counts.to_vec());
    let gru = |c: &mut Config| (c.core, c.core_width, c.sequence_length) = (CoreKind::Gru, 11, 5);
    let relu = |c: &mut Config| (c.activation, c.hidden) = (Activation::Relu, vec![20, 9]);
    vec![
        Case::new(
            "the smallest samples",
            with(cases::config(16, 8, 2), |_| ()),
            Input::Dense(1),
            discrete(&[2]),
            false,
        ),
        Case::new(
            "one component",
            with(cases::config(32, 16, 4), |_| ()),
            Input::Dense(4),
            discrete(&[2]),
            false,
        ),
        Case::new("masks", with(cases::config(17, 9, 3), relu), Input::Dense(7), discrete(&[5]), true),
        Case::new(
            "components",
            with(cases::config(16, 8, 2), relu),
            Input::Bits(70),
            discrete(&[3, 2, 4]),
            true,
        ),
        Case::new("memory", with(cases::config(20, 20, 4), gru), Input::Dense(6), discrete(&[3]), false),
        Case::new(
            "dueling",
            with(cases::config(17, 9, 3), |c| c.dueling = true),
            Input::Dense(5),
            discrete(&[3, 2]),
            true,
        ),
    ]
}

fn run(case: &Case, threads: usize) -> (LearnerState, UpdateStats) {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let mut learner = Learner::new(case.network.clone(), case.layout.clone(), case.config.clone());
    let mut state = LearnerState::new(case.params.clone());
    let report = pool.install(|| learner.update(&mut state, &mut case.batch.clone(), 0).unwrap());
    (state, report)
}

#[test]
fn an_update_of_pqn_matches_the_reference_with_any_number_of_threads() {
    for case in cases() {
        let (state, report) = run(&case, 2);
        let expected = reference::update(&case.network, &case.config, &case.params, &case.batch, 0);
        let error = distance(&state.params, &expected.params);
        assert!(error < 1e-5, "{}: parameters {error:e}", case.name);
        let error = distance(&state.exp_avg, &expected.exp_avg);
        assert!(error < 1e-5, "{}: first moments {error:e}", case.name);
        let (ours, theirs) = (report.metrics.td_loss, expected.losses.value);
        assert!((ours - theirs).abs() < 1e-4 * theirs, "{}: {ours} is not {theirs}", case.name);
        assert!(report.metrics.policy_loss.is_nan() && report.metrics.q_values.is_finite());
        assert_eq!((report.epochs, report.nonfinite), (case.config.update_epochs, 0));
        for threads in [1, 3] {
            assert!(run(&case, threads).0 == state, "{}: {threads} threads", case.name);
        }
    }
}

#[test]
fn the_references_gradient_of_pqn_matches_finite_differences() {
    for case in cases() {
        let params: Vec<f64> = case.params.iter().map(|&p| f64::from(p)).collect();
        let count = case.batch.sequences().min(40 / case.batch.sequence());
        let samples = reference::sequences(&case.network, &case.batch, 0..count);
        let (_, _, gradient) = reference::loss(&case.network, &case.config, &params, &samples);
        for k in (0..params.len()).step_by(params.len() / 40) {
            let difference = case.difference(&params, &samples, k);
            assert!((difference - gradient[k]).abs() < 1e-6, "{}: {k}", case.name);
        }
    }
}

fn cartpole(total_timesteps: u64) -> (Arc<dyn AnyEnv>, Config) {
    let config = Config {
        total_timesteps,
        num_envs: 16,
        num_steps: 32,
        num_minibatches: 4,
        update_epochs: 2,
        learning_rate: 1e-3,
        hidden: vec![64, 64],
        activation: Activation::Relu,
        ..Config::default()
    };
    (world("cartpole"), with(config, |_| ()))
}

/// Of n legal choices a random one is the greedy one with a probability of 1 / n.
#[test]
fn rollouts_of_pqn_take_the_greatest_legal_value_or_with_epsilon_any_legal_choice() {
    for name in ["cartpole", "locks"] {
        let config = Config { start_e: 0.4, end_e: 0.4, num_envs: 64, ..cartpole(1_000_000).1 };
        let env = world(name);
        let mut backend =
            cpu::backend_with(env.clone(), &config, &cpu::CpuOptions::new(1)).expect("a backend").backend;
        let pool = backend.pool();
        pool.install(|| backend.roll()).expect("a rollout");
        let network = Network::new(Architecture::of(&env.spec(), &config).expect("a network"));
        let params = init_params(&network, config.seed);
        let (batch, mut others, mut expected, mut choices) = (backend.batch(), 0.0, 0.0, 0.0);
        let Head::MultiDiscrete(counts) = &network.architecture.head else { panic!("no choices") };
        for index in 0..batch.len() {
            let sample = reference::unpack(&network, batch, index);
            let layout = batch.layout();
            let obs = &batch.sample(index)[layout.obs..][..layout.obs_words];
            let values = reference::logits(&network, &params, obs);
            let (mut first, mut greatest) = (0, 0.0);
            for (&count, &action) in counts.iter().zip(&sample.actions) {
                let is_legal = |k: &usize| sample.legal.get(first + k).is_none_or(|legal| *legal);
                let legal: Vec<usize> = (0..count).filter(is_legal).collect();
                assert!(legal.contains(&(action as usize)), "{name}: an illegal choice");
                let value = |k: usize| values[first + k];
                let best = legal.iter().map(|&k| value(k)).fold(f64::NEG_INFINITY, f64::max);
                greatest += best / counts.len() as f64;
                choices += 1.0;
                expected += 0.4 * (1.0 - 1.0 / legal.len() as f64);
                others += f64::from(value(action as usize) < best - 1e-5);
                first += count;
            }
            assert!((sample.value - greatest).abs() < 1e-4, "{name}: {} is not {greatest}", sample.value);
        }
        let [others, expected] = [others, expected].map(|sum| sum / choices);
        // Five standard deviations of some two thousand draws.
        assert!(expected > 0.1 && (others - expected).abs() < 0.05, "{name}: {others}, not {expected}");
    }
}

#[test]
fn the_reported_epsilon_follows_its_schedule() {
    let (env, config) = cartpole(16 * 32 * 10);
    let config = Config { start_e: 0.8, end_e: 0.2, exploration_fraction: 0.5, ..config };
    let mut backend = cpu::backend(env, &config, 2).expect("a backend");
    let shares: Vec<f64> = (0..10).map(|_| update(&mut *backend).metrics.epsilon).collect();
    let expected = [0.8, 0.68, 0.56, 0.44, 0.32, 0.2, 0.2, 0.2, 0.2, 0.2];
    assert!(shares.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{shares:?}");
}

#[test]
fn a_resumed_run_of_pqn_has_the_bits_of_one_that_was_not_stopped() {
    let (env, config) = cartpole(16 * 32 * 6);
    let fresh = || cpu::backend(env.clone(), &config, 2).expect("a backend");
    let (_, whole) = train(fresh(), None, 6);
    let (_, half) = train(fresh(), None, 3);
    let (_, resumed) = train(fresh(), Some(&half), 3);
    assert_same(&whole, &resumed, "resumed");
    assert!(names(&whole).contains(&"params.q.weight"), "{:?}", names(&whole));
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

#[test]
fn pqn_learns_cartpole() {
    let (env, config) = cartpole(100_000);
    let mut backend = cpu::backend(env, &config, 2).expect("a backend");
    let updates = config.updates();
    for _ in 0..updates {
        let stats = update(&mut *backend);
        assert_eq!(stats.nonfinite, 0);
    }
    let mean = |actions| {
        let returns = backend.evaluate(0..50, 0, actions).expect("episodes").returns;
        returns.iter().sum::<f64>() / returns.len() as f64
    };
    let [greedy, sampled] = [EvalActions::Greedy, EvalActions::Sampled].map(mean);
    assert!(greedy > 195.0 && sampled > 100.0, "{greedy} and {sampled}");
}

#[test]
fn pqn_refuses_continuous_actions() {
    let (_, config) = cartpole(1_000);
    let error = cpu::backend(world("pendulum"), &config, 1).err().expect("refused");
    assert!(matches!(error, LearnError::Config { key: "algorithm", .. }), "{error}");
}
