//! SAC and TD3: their bits over threads, tiles and a resume, the exact ratio of minibatches to steps, and what they learn.

use std::sync::Arc;

use operant_env::{ActionSpace, AnyEnv};
use operant_lane::isa::f32x16;
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::network::tile::Row;
use operant_learn::cpu::off_policy::compare::{self, Transition};
use operant_learn::cpu::off_policy::given::Given;
use operant_learn::cpu::off_policy::replay::{Replay, ReplayLayout};
use operant_learn::cpu::{CpuOptions, backend_in, backend_with};
use operant_learn::group::threads;
use operant_learn::network::{Architecture, Core, Head, Input, Network, init_params};
use operant_learn::{
    ActionDistribution, Activation, Backend, Config, CoreKind, EvalActions, LearnerState, LogStd, LrSchedule,
    ShuffleKind,
};
use operant_metrics::Record;
use operant_parity::distance;
use operant_parity::reference::sac;

use crate::cases::Random;
use crate::support::{assert_same, continued, train, update, world};

const BOTH: [Algorithm; 2] = [Algorithm::Sac, Algorithm::Td3];

/// Small networks, four environments.
pub fn config(algorithm: Algorithm) -> Config {
    Config {
        algorithm,
        total_timesteps: 100_000,
        num_envs: 4,
        num_steps: 50,
        num_minibatches: 1,
        learning_rate: 1e-3,
        lr_schedule: LrSchedule::Constant,
        max_grad_norm: 1e9,
        hidden: vec![24, 17],
        activation: Activation::Relu,
        action_distribution: ActionDistribution::Tanh,
        log_std: LogStd::Network,
        batch_size: 200,
        learning_starts: 250,
        buffer_size: 600,
        updates_per_step: 0.3,
        policy_frequency: if algorithm == Algorithm::Td3 { 2 } else { 1 },
        ..Config::default()
    }
}

/// The table of docs/sac.md is what the layouts are.
#[test]
fn transitions_take_the_documented_bytes() {
    let page = include_str!("../../../docs/sac.md");
    for (env, name) in [
        ("pendulum", "Pendulum"),
        ("hopper", "Hopper"),
        ("half_cheetah", "HalfCheetah"),
        ("ant", "Ant"),
        ("minatar_breakout", "MinAtar Breakout"),
        ("minigrid_doorkey_8x8", "MiniGrid DoorKey-8x8"),
    ] {
        let spec = world(env).spec();
        let config = match spec.actions {
            ActionSpace::Box { .. } => config(Algorithm::Sac),
            ActionSpace::Discrete(_) => Config { algorithm: Algorithm::Dqn, ..Config::default() },
        };
        let architecture = Architecture::of(&spec, &config).expect("trains");
        let bytes = 4 * ReplayLayout::new(&architecture, false).stride;
        let (obs, actions) = (&spec.obs, &spec.actions);
        let line = format!("| {name} | {obs}; {actions} | {bytes} | {bytes} MB |");
        assert!(page.contains(&line), "{line}");
    }
}

#[test]
fn what_it_does_not_do_is_refused_with_the_reason() {
    let refused = |env: &str, options: CpuOptions, processes: usize| {
        let group = threads::group(processes).remove(0);
        // Blocks that two processes could share.
        let config = Config { shuffle: ShuffleKind::Blocks, num_envs: 64, ..config(Algorithm::Sac) };
        backend_in(world(env), &config, &options, group).err().expect("refused").to_string()
    };
    let one = || CpuOptions::new(1);
    assert!(refused("pendulum", one(), 2).contains("learns in one process and on one device"));
    assert!(refused("cartpole", one(), 1).contains("needs actions that are real numbers"));
}

fn backend(env: &str, config: &Config, options: &CpuOptions) -> Box<dyn Backend> {
    let env: Arc<dyn AnyEnv> = world(env);
    backend_with(env, config, options).expect("a good configuration").backend
}

/// Minibatches of a random replay from a random state.
#[derive(Clone)]
pub struct Minibatches {
    pub name: &'static str,
    pub config: Config,
    pub network: Network,
    pub state: LearnerState,
    replay: Replay,
    obs_norm: Vec<(f32, f32)>,
}

impl Minibatches {
    fn new(name: &'static str, features: usize, actions: usize, change: impl FnOnce(&mut Config)) -> Self {
        let algorithm = if name.starts_with("td3") { Algorithm::Td3 } else { Algorithm::Sac };
        let mut config = Config { num_envs: 5, learning_rate: 1e-2, tau: 0.1, ..config(algorithm) };
        change(&mut config);
        let head = Head::continuous(actions, &config);
        Self::of(name, config, Input::Dense(features), head, false)
    }

    /// Those of any network; with `masked`, some choices after steps are illegal.
    pub fn of(name: &'static str, config: Config, input: Input, head: Head, masked: bool) -> Self {
        let features = input.features();
        let core = Core::of(&config).expect("a good core");
        let network = Network::new(Architecture { core, ..Architecture::new(&config, input, head) });
        let mut random = Random(name.len() as u64 * 1_000 + 17);
        let mut around = |values: &[f32], size: f32| {
            values.iter().map(|x| x + size * random.float() as f32).collect::<Vec<f32>>()
        };
        let params = around(&init_params(&network, 3), 0.2);
        let (targets, zeros) = (around(&params, 0.1), vec![0.0; params.len()]);
        let exp_avg_sq = around(&zeros, 0.01).iter().map(|x| x.abs()).collect();
        let exp_avg = around(&zeros, 0.01);
        let state = LearnerState { targets, exp_avg, exp_avg_sq, step: 6, ..LearnerState::new(params) };
        let obs_norm = if config.norm_obs { vec![(0.1, 1.7); features] } else { vec![] };
        let replay = replay(&network, &config, masked, &mut random);
        Self { name, config, network, state, replay, obs_norm }
    }

    /// The same of another network with the same parameters.
    pub fn of_network(&self, network: Network) -> Self {
        Self { network, ..self.clone() }
    }

    /// The shares of draws that the rows of the replay are due by their priorities, and the draws of `count` minibatches.
    pub fn draws(&self, count: u64) -> (Vec<f64>, Vec<u32>) {
        compare::draws(&self.config, &self.replay, count)
    }

    /// The state after `count` minibatches on this many threads, their samples and losses.
    pub fn learn(&self, count: usize, threads: usize) -> (LearnerState, Vec<(Vec<Transition>, Record)>) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let (mut state, from) = (self.state.clone(), (&self.replay, &self.obs_norm[..]));
        let minibatches =
            pool.install(|| compare::learn(&self.network, &self.config, &mut state, from, count));
        (state, minibatches)
    }
}

impl Minibatches {
    /// What minibatches made of this state and what the reference made of it, of some parameters.
    pub fn assert_near(&self, ours: &LearnerState, expected: &sac::State, own: &[usize], group: &str) {
        assert_eq!(ours.step, expected.step, "{}", self.name);
        let (ours, before) = (sac::State::of(ours), sac::State::of(&self.state));
        let of = |values: &[f64]| own.iter().map(|&k| values[k]).collect::<Vec<f64>>();
        let check = |what: &str, ours: Vec<f64>, theirs: Vec<f64>, bound: f64| {
            // What does not learn has no change to compare.
            let error = if ours == theirs { 0.0 } else { distance(&ours, &theirs) };
            assert!(error < bound, "{}: {what} of {group} {error:e}", self.name);
        };
        check("parameters", of(&ours.params), of(&expected.params), 1e-6);
        check("targets", of(&ours.targets), of(&expected.targets), 1e-6);
        check("first moments", of(&ours.moments[0]), of(&expected.moments[0]), 1e-6);
        check("second moments", of(&ours.moments[1]), of(&expected.moments[1]), 1e-6);
        // Parameters are rounded to f32, and their change is a hundredth of them.
        let [ours, theirs] = [&ours, expected].map(|state| {
            let pairs = of(&state.params).into_iter().zip(of(&before.params));
            pairs.map(|(after, before)| after - before).collect()
        });
        check("change of the parameters", ours, theirs, 1e-4);
    }
}

/// A loss and its gradient.
pub type Loss<'a> = &'a dyn Fn(&sac::State) -> (f64, Vec<f64>);

/// The gradient with respect to some of these parameters is the loss's slope.
pub fn assert_slopes(state: &mut sac::State, loss: Loss<'_>, own: &[usize], what: &str) {
    let gradient = loss(state).1;
    for k in own.iter().copied().step_by(own.len() / 30) {
        let mut at = |step: f64| {
            let before = state.params[k];
            state.params[k] += step;
            let value = loss(state).0;
            state.params[k] = before;
            value
        };
        let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
        assert!((difference - gradient[k]).abs() < 1e-6, "{what} {k}");
    }
}

/// Random steps; some end an episode, by a time limit or for good.
fn replay(network: &Network, config: &Config, masked: bool, random: &mut Random) -> Replay {
    let Architecture { input, head, .. } = &network.architecture;
    let layout = ReplayLayout::new(&network.architecture, masked);
    let mut replay = Replay::new(layout.clone(), config.num_envs, 60);
    let numbers = |of: &mut dyn FnMut() -> f32| -> Row<1> { [f32x16::new(core::array::from_fn(|_| of()))] };
    let words = |of: &mut dyn FnMut() -> u32| numbers(&mut || f32::from_bits(of()));
    let obs = |random: &mut Random| -> Vec<Row<1>> {
        let word = |k: usize| match input {
            Input::Dense(_) => numbers(&mut || random.float() as f32),
            // Bits past the last feature are clear.
            Input::Bits(n) => {
                words(&mut || random.bits() as u32 & (u32::MAX >> (32 * (k + 1)).saturating_sub(*n)))
            }
        };
        (0..input.words()).map(word).collect()
    };
    for _ in 0..100 {
        for mut columns in replay.tiles_mut(16) {
            columns.put(layout.obs, &obs(random));
            let states: Vec<Row<1>> =
                (0..network.states).map(|_| numbers(&mut || random.float() as f32)).collect();
            columns.put(layout.state, &states);
            if let Head::MultiDiscrete(counts) = head {
                let mut first = 0;
                let legal: Vec<u32> = if masked {
                    // The first choice of each component is legal.
                    counts
                        .iter()
                        .map(|count| {
                            first += count;
                            1 << (first - count)
                        })
                        .collect()
                } else {
                    vec![]
                };
                let legal = legal.iter().sum::<u32>();
                let mask = words(&mut || random.bits() as u32 | legal);
                columns.put(layout.mask, &[mask][..layout.actions - layout.mask]);
                for (k, &count) in counts.iter().enumerate() {
                    columns
                        .put(layout.actions + k, &[numbers(&mut || (random.bits() % count as u64) as f32)]);
                }
            } else {
                let actions: Vec<Row<1>> =
                    (layout.actions..layout.reward).map(|_| numbers(&mut || random.float() as f32)).collect();
                columns.put(layout.actions, &actions);
            }
            let mut row = || numbers(&mut || random.float() as f32);
            let ends = row()[0].as_array().map(|x| f32::from(x > 0.6));
            let by_limit = row()[0];
            let bits = by_limit.as_array().iter().enumerate().map(|(k, &x)| u32::from(x > 0.0) << k);
            let truncated = bits.sum();
            let rewards = row();
            columns.finish(&rewards, &[f32x16::new(ends)], [truncated], &obs(random));
        }
    }
    replay
}

/// Odd widths, partial tiles, and what changes the networks, the samples and the steps.
pub fn minibatches() -> Vec<Minibatches> {
    vec![
        Minibatches::new("relu, a tile of three vectors", 4, 1, |c| c.batch_size = 100),
        Minibatches::new("from zero moments, one tile", 3, 1, |c| {
            (c.batch_size, c.activation) = (64, Activation::Tanh);
        }),
        Minibatches::new("normalised layers, three actions", 11, 3, |c| {
            (c.layer_norm, c.activation, c.n_step, c.norm_obs) = (true, Activation::Tanh, 3, true);
        }),
        Minibatches::new("residual blocks, delayed policy", 7, 3, |c| {
            (c.hidden, c.residual_blocks, c.batch_size, c.policy_frequency) = (vec![19], 2, 77, 2);
        }),
        Minibatches::new("decay, clipping, two rates, fixed temperature", 5, 2, |c| {
            (c.weight_decay, c.max_grad_norm, c.vf_learning_rate) = (0.1, 0.05, 3e-2);
            (c.algorithms.sac.autotune, c.algorithms.sac.alpha) = (false, 0.3);
        }),
        Minibatches::new("by priority, seldom targets", 4, 1, |c| {
            (c.priority_exponent, c.target_network_frequency) = (0.7, 2);
        }),
        Minibatches::new("td3, a tile of two vectors", 4, 2, |c| {
            (c.algorithms.td3.policy_noise, c.batch_size, c.activation) = (0.5, 90, Activation::Tanh);
        }),
        Minibatches::new("td3 in every minibatch, by priority, normalised", 7, 1, |c| {
            (c.priority_exponent, c.norm_obs, c.n_step, c.policy_frequency) = (0.7, true, 2, 1);
        }),
        Minibatches::new("distributions, by priority", 5, 2, |c| {
            (c.value_bins, c.value_min, c.value_max) = (13, -0.7, 1.1);
            (c.priority_exponent, c.n_step, c.layer_norm) = (0.6, 3, true);
        }),
        Minibatches::new("td3 with distributions", 3, 3, |c| {
            (c.value_bins, c.value_min, c.value_max, c.batch_size) = (8, -1.5, 0.4, 77);
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
            for (samples, losses) in minibatches {
                let made = sac::minibatch(&case.network, &case.config, &mut expected, &samples);
                let [policy, logprob] = made.policy.unwrap_or([f64::NAN; 2]);
                for (name, ours, theirs) in [
                    ("td_loss", losses.td_loss, made.critics),
                    ("grad_norm", losses.grad_norm, made.grad_norm),
                    ("actor_loss", losses.actor_loss, policy),
                    ("entropy", losses.entropy, -logprob),
                ] {
                    let is_close = (ours - theirs).abs() < 1e-6 * theirs.abs();
                    let has_none =
                        made.policy.is_none() || (name == "entropy" && case.network.log_alpha.is_none());
                    let neither = ours.is_nan() && theirs.is_nan() && has_none;
                    assert!(is_close || neither, "{}: {name} {ours} is not {theirs}", case.name);
                }
            }
            for group in ["actor", "critics", "log_alpha"] {
                let own: Vec<usize> = sac::parameters(&case.network, group).collect();
                case.assert_near(&state, &expected, &own, group);
            }
            assert!(case.learn(count, 3).0 == state, "{}: three threads", case.name);
        }
    }
}

#[test]
fn the_references_gradients_match_finite_differences() {
    for case in minibatches() {
        let (network, mut state) = (&case.network, sac::State::of(&case.state));
        let (of, samples) = ((network, &case.config), &case.learn(1, 1).1[0].0[..8]);
        let of_critics = |state: &sac::State| {
            let (loss, gradient, _) = sac::critics(of, state, samples);
            (loss, gradient)
        };
        let of_policy = |state: &sac::State| {
            let ([loss, _], gradient) = sac::policy(of, state, samples);
            (loss, gradient)
        };
        let losses: [(&str, Loss<'_>); 2] = [("critics", &of_critics), ("actor", &of_policy)];
        for (group, loss) in losses {
            let own: Vec<usize> = sac::parameters(network, group).collect();
            assert_slopes(&mut state, loss, &own, &format!("{}: {group}", case.name));
        }
    }
}

#[test]
fn threads_and_tiles_change_no_bit() {
    let cases =
        BOTH.map(|algorithm| [(algorithm, "pendulum", false, 1, 1), (algorithm, "hopper", true, 3, 21)]);
    for (algorithm, env, norm_obs, n_step, value_bins) in cases.into_iter().flatten() {
        let config = Config { norm_obs, n_step, value_bins, num_envs: 40, ..config(algorithm) };
        let one = train(backend(env, &config, &CpuOptions::new(1)), None, 2).1;
        for (threads, rollout_tile) in [(2, 16), (3, 32)] {
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(threads) };
            assert_same(&one, &train(backend(env, &config, &options), None, 2).1, env);
        }
    }
}

#[test]
fn a_run_with_its_replay_continues_to_the_bit_and_one_without_fills_another() {
    for (algorithm, value_bins) in [(Algorithm::Sac, 1), (Algorithm::Td3, 1), (Algorithm::Sac, 21)] {
        let (config, options) = (Config { value_bins, ..config(algorithm) }, CpuOptions::new(1));
        let mut first = backend("pendulum", &config, &options);
        (0..5).for_each(|_| _ = update(&mut *first));
        let middle = first.save().expect("saved");
        let mut second = continued(backend("pendulum", &config, &options), &mut *first);
        (0..3).for_each(|_| _ = update(&mut *second));
        let whole = train(backend("pendulum", &config, &options), None, 8).1;
        assert_same(&whole, &second.save().expect("saved"), "resumed");

        let mut again = backend("pendulum", &config, &options);
        again.load(&middle).expect("it fits");
        let reports: Vec<_> = (0..2).map(|_| update(&mut *again)).collect();
        assert_eq!((reports[0].metrics.replay_size, reports[0].metrics.minibatches), (200.0, 0.0));
        assert!(reports[1].metrics.minibatches > 0.0 && reports[1].metrics.td_loss.is_finite());
    }
}

/// The replay of a run of five updates, as a program gives it.
fn given(env: &str, config: &Config) -> Given {
    let mut backend = backend(env, config, &CpuOptions::new(1));
    (0..5).for_each(|_| _ = update(&mut *backend));
    let replay = backend.replay().expect("read").expect("a replay").into_owned();
    let layout = replay.layout().clone();
    let read = move |take: &mut dyn FnMut(&[u64], &[u32])| {
        let words: Vec<u32> = replay.written_rows().flatten().copied().collect();
        take(replay.heads(), &words);
    };
    let spec = world(env).spec();
    Given { env: env.to_owned(), obs: spec.obs, actions: spec.actions, layout, read: Box::new(read) }
}

#[test]
fn a_run_begins_with_given_transitions_and_continues_with_the_same_bits() {
    for (norm_obs, priority_exponent) in [(false, 0.6), (true, 0.0)] {
        let checkpoint_replay = true;
        let config = Config {
            norm_obs,
            priority_exponent,
            checkpoint_replay,
            buffer_size: 2_000,
            num_envs: 3,
            ..config(Algorithm::Sac)
        };
        let given = given("pendulum", &config);
        let began = |threads: usize, learning_starts: usize| {
            let config = Config { num_envs: 7, learning_starts, ..config.clone() };
            let mut backend = backend("pendulum", &config, &CpuOptions::new(threads));
            // All but the newest of each environment, whose next observation is not known.
            assert_eq!(backend.begin_with(&given).expect("it fits"), 5 * 50 * 3 - 3);
            backend
        };
        let mut backends = [began(1, 747), began(3, 747)];
        let reports = backends.each_mut().map(|backend| update(&mut **backend).metrics);
        assert_eq!(reports[0].minibatches, 105.0, "every step of 50 x 7 learns 0.3 minibatches");
        assert!(reports[0].td_loss.is_finite());
        let [one, three] = backends.each_mut().map(|backend| backend.save().expect("saved"));
        assert_same(&one, &three, "threads");
        let mut resumed = continued(began(1, 747), &mut *backends[0]);
        let [whole, resumed] = [&mut backends[0], &mut resumed].map(|backend| {
            update(&mut **backend);
            backend.save().expect("saved")
        });
        assert_same(&whole, &resumed, "resumed");
        // Of 817 transitions 70 are missing: ten steps of random actions.
        assert_eq!(update(&mut *began(1, 817)).metrics.minibatches, 84.0);
    }
}

#[test]
fn given_transitions_that_do_not_fit_are_refused() {
    let of = |buffer_size: usize| Config { buffer_size, num_envs: 3, ..config(Algorithm::Sac) };
    let refused = |env: &str, config: &Config| {
        let mut backend = backend(env, config, &CpuOptions::new(1));
        backend.begin_with(&given("pendulum", &of(2_000))).expect_err("refused").to_string()
    };
    let small = refused("pendulum", &of(300));
    assert!(small.contains("takes 753 rows") && small.contains("at least 753"), "{small}");
    assert!(
        backend("pendulum", &of(753), &CpuOptions::new(1)).begin_with(&given("pendulum", &of(2_000))).is_ok()
    );
    let other = refused("hopper", &of(2_000));
    assert!(other.contains("the replay is of pendulum") && other.contains("hopper"), "{other}");
    let (action_distribution, log_std) = (ActionDistribution::Normal, LogStd::Parameter);
    let dqn = Config { algorithm: Algorithm::Dqn, action_distribution, log_std, ..of(2_000) };
    let with_memory = Config { core: CoreKind::Gru, sequence_length: 10, ..dqn.clone() };
    for (config, of, problem) in [
        (&with_memory, &dqn, "a run with core = \"gru\" cannot begin with given transitions"),
        (&dqn, &with_memory, "the replay is of a run with a core"),
    ] {
        let mut backend = backend("cartpole", config, &CpuOptions::new(1));
        let refused = backend.begin_with(&given("cartpole", of)).expect_err("refused").to_string();
        assert!(refused.contains(problem), "{refused}");
    }
}

#[test]
fn minibatches_keep_their_ratio_to_steps() {
    for (num_envs, updates_per_step) in [(1, 1.0), (4, 0.3), (16, 0.01), (2, 3.0)] {
        let config = Config { num_envs, updates_per_step, ..config(Algorithm::Sac) };
        let mut backend = backend("pendulum", &config, &CpuOptions::new(1));
        let reports: Vec<_> = (0..8).map(|_| update(&mut *backend)).collect();
        let steps = reports.last().expect("reports").env_steps as usize;
        let before = config.learning_starts.div_ceil(num_envs) * num_envs;
        let due = ((steps.saturating_sub(before)) as f64 * updates_per_step).floor();
        let taken: f64 = reports.iter().map(|report| report.metrics.minibatches).sum();
        assert_eq!(taken, due, "{num_envs} environments, {updates_per_step} for each step");
    }
}

#[test]
fn pendulum_is_learned() {
    for algorithm in BOTH {
        let config = Config {
            num_envs: 1,
            num_steps: 500,
            hidden: vec![64, 64],
            batch_size: 128,
            learning_starts: 500,
            buffer_size: 10_000,
            updates_per_step: 1.0,
            ..config(algorithm)
        };
        let mut backend = backend("pendulum", &config, &CpuOptions::new(1));
        (0..12).for_each(|_| _ = update(&mut *backend));
        let greedy = backend.evaluate(0..50, 0, EvalActions::Greedy).expect("an evaluation");
        let mean = greedy.returns.iter().sum::<f64>() / 50.0;
        assert!(mean > -300.0, "{algorithm}: a mean return of {mean} after 6,000 steps");
    }
}
