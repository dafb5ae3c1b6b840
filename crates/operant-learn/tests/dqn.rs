//! DQN against an independent scalar implementation in f64; its draws by priority, its bits over threads, tiles and a resume, and what it
//! learns.

use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::off_policy::replay::ReplayLayout;
use operant_learn::cpu::{CpuOptions, backend_with};
use operant_learn::network::{Architecture, Head, Input};
use operant_learn::{
    ActionDistribution, Activation, Backend, Config, CoreKind, EvalActions, LearnError, LearnerState, LogStd,
    LrSchedule, ValueLoss,
};
use operant_parity::reference::{dqn, sac};

use crate::sac::{Minibatches, assert_slopes};
use crate::support::{assert_same, continued, train, update, world};

/// A small network, four environments.
fn config() -> Config {
    Config {
        algorithm: Algorithm::Dqn,
        total_timesteps: 4_000,
        num_envs: 4,
        num_steps: 50,
        num_minibatches: 1,
        learning_rate: 1e-3,
        lr_schedule: LrSchedule::Constant,
        max_grad_norm: 10.0,
        hidden: vec![24, 17],
        activation: Activation::Relu,
        batch_size: 200,
        learning_starts: 250,
        buffer_size: 600,
        updates_per_step: 0.3,
        ..Config::default()
    }
}

fn backend(env: &str, config: &Config, options: &CpuOptions) -> Box<dyn Backend> {
    backend_with(world(env), config, options).expect("a good configuration").backend
}

/// Odd widths, partial tiles, and what changes the networks, the samples, the targets and the steps.
pub fn minibatches() -> Vec<Minibatches> {
    let case = |name, counts: &[usize], input, masked, change: &dyn Fn(&mut Config)| {
        let mut config = Config { num_envs: 5, learning_rate: 1e-2, tau: 0.1, ..config() };
        change(&mut config);
        Minibatches::of(name, config, input, Head::MultiDiscrete(counts.to_vec()), masked)
    };
    vec![
        case("two choices, a tile of three vectors", &[2], Input::Dense(4), false, &|c| c.batch_size = 100),
        case("from zero moments, not double, one tile", &[3], Input::Dense(3), false, &|c| {
            (c.algorithms.dqn.double_q, c.batch_size) = (false, 64);
        }),
        case("masks, three steps, normalised", &[5], Input::Dense(11), true, &|c| {
            (c.layer_norm, c.n_step, c.norm_obs, c.activation) = (true, 3, true, Activation::Tanh);
        }),
        case("masks, not double, bits", &[4], Input::Bits(70), true, &|c| {
            (c.algorithms.dqn.double_q, c.batch_size) = (false, 77);
        }),
        case("components, bits, copied targets", &[3, 2, 4], Input::Bits(33), true, &|c| {
            (c.tau, c.target_network_frequency) = (1.0, 3);
        }),
        case("dueling, bits, masks", &[3, 2], Input::Bits(40), true, &|c| c.dueling = true),
        case("distributions, masks", &[4], Input::Dense(6), true, &|c| {
            (c.value_bins, c.value_min, c.value_max) = (11, -0.8, 1.3);
        }),
        case("gru, masks, three steps, normalised", &[3], Input::Dense(5), true, &|c| {
            (c.core, c.core_layers, c.n_step, c.norm_obs) = (CoreKind::Gru, 2, 3, true);
            (c.sequence_length, c.batch_size) = (5, 200);
        }),
        case("lstm, components, bits, burn-in, not double", &[3, 2], Input::Bits(40), false, &|c| {
            (c.core, c.core_width, c.algorithms.dqn.double_q) = (CoreKind::Lstm, 7, false);
            (c.sequence_length, c.batch_size, c.burn_in) = (6, 60, 3);
        }),
        case("mingru, distributions, burn-in, by priority", &[4], Input::Dense(6), false, &|c| {
            (c.core, c.value_bins, c.value_min, c.value_max) = (CoreKind::MinGru, 11, -0.8, 1.3);
            (c.sequence_length, c.batch_size, c.burn_in) = (8, 160, 4);
            (c.priority_exponent, c.n_step) = (0.8, 2);
        }),
        case("gru, dueling, masks, huber, by priority", &[2, 3], Input::Dense(6), true, &|c| {
            (c.core, c.dueling, c.value_loss, c.huber_delta) = (CoreKind::Gru, true, ValueLoss::Huber, 0.3);
            (c.sequence_length, c.batch_size, c.priority_exponent) = (3, 99, 0.6);
        }),
        case("by priority, huber, clipping, decay", &[3], Input::Dense(5), false, &|c| {
            (c.priority_exponent, c.priority_beta, c.n_step) = (0.8, 0.6, 2);
            (c.value_loss, c.huber_delta) = (ValueLoss::Huber, 0.3);
            (c.max_grad_norm, c.weight_decay) = (0.05, 0.1);
        }),
    ]
}

#[test]
fn minibatches_match_the_reference_with_any_number_of_threads() {
    for mut case in minibatches() {
        if case.name.contains("zero moments") {
            case.state = LearnerState { targets: case.state.targets, ..LearnerState::new(case.state.params) };
        }
        for count in [1, 4] {
            let (state, minibatches) = case.learn(count, 2);
            let mut expected = sac::State::of(&case.state);
            let [mut illegal, mut weighted] = [false; 2];
            for (samples, losses) in minibatches {
                illegal |= samples.iter().any(|sample| sample.legal.contains(&false));
                weighted |= samples.iter().any(|sample| sample.weight < 0.9);
                let made = dqn::minibatch(&case.network, &case.config, &mut expected, &samples);
                for (name, ours, theirs) in [
                    ("td_loss", losses.td_loss, made.squares),
                    ("q_values", losses.q_values, made.values),
                    ("grad_norm", losses.grad_norm, made.grad_norm),
                ] {
                    let error = (ours - theirs).abs() / theirs.abs();
                    assert!(error < 2e-6, "{}: {name} {ours} is not {theirs}", case.name);
                }
            }
            let named = |word: &str| case.name.contains(word);
            assert_eq!(illegal, named("masks") || named("copied"), "{}", case.name);
            // All sequences of the first minibatch may be new.
            assert!(weighted == named("priority") || count == 1 && case.network.states > 0);
            let all: Vec<usize> = (0..case.network.len()).collect();
            case.assert_near(&state, &expected, &all, "all");
            assert!(case.learn(count, 3).0 == state, "{}: three threads", case.name);
        }
    }
}

#[test]
fn the_references_gradient_matches_finite_differences() {
    for case in minibatches() {
        let mut state = sac::State::of(&case.state);
        // Slopes of the loss include those of what leads to the state after the burn-in.
        if case.config.burn_in > 0 {
            continue;
        }
        let count = if case.network.states > 0 { 2 * case.config.sequence_rows() } else { 8 };
        let samples = &case.learn(1, 1).1[0].0[..count];
        let loss = |state: &sac::State| {
            let (loss, gradient, _) = dqn::loss(&case.network, &case.config, state, samples);
            (loss, gradient)
        };
        let all: Vec<usize> = (0..case.network.len()).collect();
        assert_slopes(&mut state, &loss, &all, case.name);
    }
}

/// Rows are drawn in proportion to a power of their errors: chi-square of 40,000 draws with some 250 degrees of freedom.
#[test]
fn draws_follow_the_priorities() {
    let cases = minibatches();
    let case = cases.iter().find(|case| case.name.starts_with("by priority")).expect("one");
    let (expected, drawn) = case.draws(200);
    let total: u32 = drawn.iter().sum();
    let chi: f64 = expected
        .iter()
        .zip(&drawn)
        .filter(|(share, _)| **share > 0.0)
        .map(|(share, &count)| {
            let mean = share * f64::from(total);
            (f64::from(count) - mean).powi(2) / mean
        })
        .sum();
    let freedom = expected.iter().filter(|share| **share > 0.0).count() as f64 - 1.0;
    assert!(
        expected.iter().zip(&drawn).all(|(share, &count)| *share > 0.0 || count == 0),
        "what has no priority"
    );
    // Draws from equal parts vary less than independent ones.
    assert!(freedom > 200.0 && chi < freedom + 3.0 * (2.0 * freedom).sqrt(), "{chi} of {freedom}");
    let uniform: f64 = expected.iter().map(|share| share * share).sum::<f64>() * freedom;
    assert!(uniform > 1.1, "the priorities differ: {uniform}");
}

#[test]
fn transitions_take_few_bytes() {
    for (env, bytes) in [("cartpole", 32), ("minatar_breakout", 64), ("cards", 32)] {
        let env = world(env);
        let architecture = Architecture::of(&env.spec(), &config()).expect("trains");
        let layout = ReplayLayout::new(&architecture, env.masked());
        assert_eq!(4 * layout.stride, bytes, "{}", env.spec().name);
    }
}

#[test]
fn threads_and_tiles_change_no_bit() {
    let prioritised = Config { priority_exponent: 0.6, n_step: 3, ..config() };
    let envs = ["cartpole", "locks", "minatar_breakout"];
    let cases = envs.into_iter().flat_map(|env| [(env, config()), (env, prioritised.clone())]);
    let with_memory = [CoreKind::Gru, CoreKind::Lstm, CoreKind::MinGru].map(|core| {
        // Three chunks.
        let sizes =
            Config { sequence_length: 4, burn_in: 1, batch_size: 180, learning_starts: 300, ..config() };
        ("locks", Config { core, priority_exponent: if core == CoreKind::Gru { 0.6 } else { 0.0 }, ..sizes })
    });
    for (env, config) in cases.chain(with_memory) {
        let config = Config { num_envs: 40, ..config };
        let one = train(backend(env, &config, &CpuOptions::new(1)), None, 2).1;
        for (threads, rollout_tile) in [(2, 16), (3, 32)] {
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(threads) };
            assert_same(&one, &train(backend(env, &config, &options), None, 2).1, env);
        }
    }
}

#[test]
fn a_run_with_its_replay_continues_to_the_bit_and_one_without_fills_another() {
    let cases =
        [("cartpole", 0.0, CoreKind::Mlp), ("cartpole", 0.6, CoreKind::Mlp), ("locks", 0.6, CoreKind::Mlp)];
    let with_memory = [("locks", 0.0, CoreKind::Lstm), ("cartpole_no_velocity", 0.6, CoreKind::Gru)];
    for (env, priority_exponent, core) in cases.into_iter().chain(with_memory) {
        let without = match core {
            CoreKind::Mlp => Config { priority_exponent, ..config() },
            _ => Config { core, sequence_length: 10, burn_in: 5, n_step: 2, priority_exponent, ..config() },
        };
        let with = Config { checkpoint_replay: true, ..without.clone() };
        let options = CpuOptions::new(1);
        let mut first = backend(env, &with, &options);
        (0..5).for_each(|_| _ = update(&mut *first));
        let middle = first.save().expect("saved");
        let has_tree = middle.tensors.iter().any(|tensor| tensor.name == "replay.priorities");
        assert_eq!(has_tree, priority_exponent > 0.0);
        let whole = train(backend(env, &with, &options), None, 8).1;
        let second = continued(backend(env, &with, &options), &mut *first);
        assert_same(&whole, &train(second, None, 3).1, "resumed");

        let mut again = backend(env, &without, &options);
        again.load(&train(backend(env, &without, &options), None, 5).1).expect("it fits");
        let reports: Vec<_> = (0..2).map(|_| update(&mut *again)).collect();
        assert_eq!(reports[0].metrics.minibatches, 0.0);
        assert!(reports[1].metrics.minibatches > 0.0 && reports[1].metrics.td_loss.is_finite());
    }
}

#[test]
fn actions_are_random_at_first_and_then_epsilon_falls() {
    let config = Config { exploration_fraction: 0.5, end_e: 0.2, learning_starts: 200, ..config() };
    let mut backend = backend("cartpole", &config, &CpuOptions::new(1));
    let shares: Vec<f64> = (0..20).map(|_| update(&mut *backend).metrics.epsilon).collect();
    let expected = |k: usize| (1.0 - 0.08 * k as f64).max(0.2);
    assert!(shares.iter().enumerate().all(|(k, share)| (share - expected(k)).abs() < 1e-12), "{shares:?}");
    // Until there are enough steps, epsilon changes nothing; afterwards it does.
    let rows = |epsilon: f64| -> Vec<Vec<u32>> {
        let config = Config { start_e: epsilon, end_e: epsilon, learning_starts: 200, ..self::config() };
        let mut backend = self::backend("cartpole", &config, &CpuOptions::new(1));
        (0..2).for_each(|_| _ = update(&mut *backend));
        let replay = backend.replay().expect("read").expect("a replay");
        replay.written_rows().map(<[u32]>::to_vec).collect()
    };
    let stride = ReplayLayout::new(
        &Architecture::of(&world("cartpole").spec(), &self::config()).expect("trains"),
        false,
    )
    .stride;
    for (greedy, random) in rows(0.0).iter().zip(&rows(1.0)) {
        let [greedy, random] = [greedy, random].map(|rows| rows.split_at(50 * stride));
        assert_eq!(greedy.0, random.0);
        assert_ne!(greedy.1, random.1);
    }
}

#[test]
fn a_minibatch_that_is_not_finite_changes_nothing() {
    for mut case in minibatches().into_iter().chain(crate::sac::minibatches()) {
        // Targets are infinite, however the loss bounds their slope; a distribution's are not.
        if case.config.value_bins > 1 {
            continue;
        }
        case.config.gamma = f64::from(f32::MAX);
        case.state.targets.iter_mut().for_each(|target| *target *= 1e3);
        let (state, _) = case.learn(3, 2);
        assert_eq!(state.step, case.state.step + 3, "{}", case.name);
        assert!(state.params == case.state.params && state.exp_avg == case.state.exp_avg, "{}", case.name);
    }
}

#[test]
fn what_it_does_not_do_is_refused_with_the_reason() {
    let refused = |env: &str, change: &dyn Fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        match backend_with(world(env), &config, &CpuOptions::new(1)) {
            Err(LearnError::Config { key, problem, .. }) => format!("{key} {problem}"),
            other => panic!("{:?}", other.err()),
        }
    };
    assert!(refused("pendulum", &|_| ()).contains("algorithm \"dqn\" chooses among actions"));
    let bins = |env: &str, change: &dyn Fn(&mut Config)| {
        refused(env, &|config| {
            config.value_bins = 51;
            change(config);
        })
    };
    assert!(
        bins("locks", &|_| ()).contains("value_bins 51, but distributions need actions with one component")
    );
    assert!(bins("cartpole", &|config| config.dueling = true).contains("neither dueling nor pointer"));
    assert!(bins("cartpole", &|config| config.value_max = -10.0).contains("value_min = -10 is not below"));
    assert!(bins("cartpole", &|config| config.value_loss = ValueLoss::Huber).contains("cross-entropy"));
    let narrow = refused("cartpole", &|config| (config.dueling, config.hidden) = (true, vec![1]));
    assert!(narrow.contains("dueling true, but hidden = [1] cannot be split into two halves"), "{narrow}");
    let with_memory = |change: &dyn Fn(&mut Config)| {
        let mut config = Config { core: CoreKind::Gru, sequence_length: 20, ..config() };
        change(&mut config);
        (config.algorithm.declaration().problem)(&config).map(|(key, problem, _)| format!("{key} {problem}"))
    };
    assert_eq!(with_memory(&|_| ()), None);
    for (change, problem) in [
        (&(|c: &mut Config| c.sequence_length = 0) as &dyn Fn(&mut Config), "sequence_length = 32"),
        (&|c| c.sequence_length = 7, "batch_size batch_size = 200 is no multiple of sequence_length = 7"),
        (
            &|c| c.burn_in = 43,
            "learning_starts = 250 gives num_envs = 4 environments no more than the 63 steps",
        ),
        (
            &|c| {
                c.algorithm = Algorithm::Sac;
                (c.action_distribution, c.log_std) = (ActionDistribution::Tanh, LogStd::Network);
            },
            "core = \"gru\": networks with critics of actions have no memory",
        ),
    ] {
        let refused = with_memory(change).expect("refused");
        assert!(refused.contains(problem), "{refused}");
    }
    let unread = refused("cartpole", &|c| c.burn_in = 4);
    assert!(unread.contains("burn_in 4, but core = \"mlp\" has no memory"), "{unread}");
}

#[test]
fn cartpole_is_learned() {
    for (priority_exponent, value_bins) in [(0.0, 1), (0.6, 1), (0.0, 51)] {
        let config = Config {
            total_timesteps: 20_000,
            num_envs: 1,
            num_steps: 500,
            hidden: vec![64, 64],
            batch_size: 64,
            learning_starts: 500,
            buffer_size: 10_000,
            updates_per_step: 0.5,
            end_e: 0.04,
            exploration_fraction: 0.2,
            n_step: 3,
            lr_schedule: LrSchedule::Linear,
            target_network_frequency: 32,
            priority_exponent,
            value_bins,
            value_min: 0.0,
            value_max: 100.0,
            ..config()
        };
        let mut backend = backend("cartpole", &config, &CpuOptions::new(1));
        (0..config.updates()).for_each(|_| assert_eq!(update(&mut *backend).nonfinite, 0));
        let greedy = backend.evaluate(0..50, 0, EvalActions::Greedy).expect("an evaluation");
        let mean = greedy.returns.iter().sum::<f64>() / 50.0;
        // Seeds 1 to 5 reach 250 to 500.
        assert!(mean > 195.0, "{priority_exponent} {value_bins}: a mean return of {mean}");
    }
}

#[test]
fn a_symbol_of_four_steps_ago_is_named_with_memory() {
    let config = Config {
        total_timesteps: 60_000,
        num_envs: 16,
        num_steps: 64,
        gamma: 0.5,
        hidden: vec![64],
        core: CoreKind::Gru,
        sequence_length: 16,
        batch_size: 256,
        learning_starts: 2_000,
        buffer_size: 100_000,
        updates_per_step: 0.03,
        target_network_frequency: 50,
        ..config()
    };
    let mut backend = backend("repeat_previous", &config, &CpuOptions::new(1));
    (0..35).for_each(|_| assert_eq!(update(&mut *backend).nonfinite, 0));
    let greedy = backend.evaluate(0..20, 0, EvalActions::Greedy).expect("an evaluation");
    // Without memory 16 of 64 are right.
    assert!(greedy.returns.iter().all(|&right| right >= 60.0), "{:?}", greedy.returns);
}
