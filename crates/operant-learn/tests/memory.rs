//! Policies with memory as the backend runs them: their states in a rollout equal those of the update, of evaluations,
//! of snapshots and of a caller's own steps; the end of an episode resets them.

use std::sync::Arc;

use operant_env::pendulum::Pendulum;
use operant_env::play::Outputs;
use operant_env::{ActionSpace, AnyEnv, Env, EnvOptions, EnvSpec, ObsSpace, Scene, Step, TileSpec, builtin};
use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::cpu::{CpuOptions, backend, backend_with};
use operant_learn::{Config, CoreKind, EvalActions, LearnError, TrainedPolicy};

use crate::support::locks::Locks;
use crate::support::update;

const CORES: [CoreKind; 3] = [CoreKind::MinGru, CoreKind::Gru, CoreKind::Lstm];

fn config(core: CoreKind) -> Config {
    Config {
        seed: 4,
        total_timesteps: 200_000,
        num_envs: 37,
        num_steps: 20,
        sequence_length: 10,
        learning_rate: 3e-3,
        num_minibatches: 2,
        update_epochs: 2,
        hidden: vec![12, 9],
        core,
        core_layers: 2,
        shared_trunk: core == CoreKind::Gru,
        ..Config::default()
    }
}

bundle! {
    /// How many steps the episode has.
    pub struct Time {
        /// Steps so far.
        steps: Uint,
    }
}

/// Shows the steps of an episode so far, which only a time limit ends. There is no reward.
#[derive(Debug, Clone, Default)]
struct Clock;

const LIMIT: usize = 7;

impl Env for Clock {
    type State<L: Lane> = Time<L>;
    type Obs<L: Lane> = [L::Float; 1];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "clock".into(),
            obs: ObsSpace::symmetric(&[10.0]),
            actions: ActionSpace::Discrete(vec![3]),
            time_limit: LIMIT as u32,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, _: &mut Draws<L>) -> Time<L> {
        Time { steps: L::Uint::splat(0) }
    }

    fn step<L: Lane>(&self, s: &Time<L>, _: &L::Uint, _: &mut Draws<L>) -> Step<L, Time<L>> {
        let state = Time { steps: s.steps + L::Uint::splat(1) };
        Step { state, reward: L::Float::splat(0.0), terminated: L::Mask::splat(false) }
    }

    fn observe<L: Lane>(&self, s: &Time<L>) -> [L::Float; 1] {
        [L::Float::from_uint(s.steps)]
    }

    fn draw(&self, _: &Time<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}

/// The network computes for the update what it computed in the rollout, to the last bit: all ratios are exactly 1 before the first step.
#[test]
fn ratios_are_one_before_the_first_step() {
    let breakout = builtin().find("minatar_breakout").expect("built in").clone();
    for core in CORES {
        let one = Config { num_minibatches: 1, update_epochs: 1, ..config(core) };
        for (env, config) in [
            (Arc::new(Locks) as Arc<dyn AnyEnv>, one.clone()),
            (Arc::new(Pendulum::default()), Config { norm_obs: true, num_steps: 210, ..one.clone() }),
            (breakout.clone(), Config { conv: vec![[4, 3, 2]], sequence_length: 0, ..one.clone() }),
        ] {
            let mut backend = backend(env.clone(), &config, 2).expect("a good configuration");
            for _ in 0..3 {
                let stats = update(&mut *backend);
                assert_eq!(
                    (stats.metrics.approx_kl, stats.metrics.clipfrac),
                    (0.0, 0.0),
                    "{core}, {}",
                    env.spec().name
                );
                assert!(stats.metrics.grad_norm > 0.0 && stats.nonfinite == 0);
            }
        }
    }
}

/// Steps a policy by hand through the clock's episodes, whose observations are known: the values are the rollout's, and a time limit
/// is worth the value of the last observation in the state before the reset.
#[test]
fn values_are_those_of_the_state_since_the_episode_began() {
    let env: Arc<dyn AnyEnv> = Arc::new(Clock);
    for core in CORES {
        let config = config(core).ppo(|ppo| ppo.gae_lambda = 0.0);
        let mut backend =
            backend_with(env.clone(), &config, &CpuOptions::new(2)).expect("a good configuration").backend;
        update(&mut *backend);
        let snapshot = backend.save().expect("a snapshot");
        let policy = TrainedPolicy::from_snapshot(&*env, &config, &snapshot).expect("a policy");
        let inference = Inference::new(policy);
        let pool = backend.pool();
        pool.install(|| backend.roll()).expect("a rollout");
        let (batch, states) = (backend.batch(), inference.states());
        let layout = batch.layout().clone();
        assert_eq!(batch.sequences(), config.num_envs * 2);
        let evaluate = |time: usize, state: &mut [f32]| {
            let (mut outputs, mut value) = ([0.0; 3], [0.0]);
            inference.evaluate(ObsRows::Floats(&[time as f32]), state, &mut outputs, &mut value);
            value[0]
        };
        // All environments are at the same step. The first rollout ended within an episode.
        let mut time = config.num_steps % LIMIT;
        let mut state = vec![0.0; states];
        let tensor = snapshot.tensors.iter().find(|tensor| tensor.name == "core.state").expect("the state");
        assert_eq!(tensor.shape, [config.num_envs, states]);
        for (to, bytes) in state.iter_mut().zip(tensor.data.as_chunks::<4>().0) {
            *to = f32::from_le_bytes(*bytes);
        }
        assert!(state.iter().any(|&x| x != 0.0));
        let gamma = config.gamma as f32;
        for t in 0..config.num_steps {
            let sequence = t / config.sequence_length;
            if t.is_multiple_of(config.sequence_length) {
                assert_eq!(batch.state(sequence), state, "{core}, step {t}");
            }
            let [first, stride] = batch.steps_of(sequence);
            let sample = first + t % config.sequence_length * stride;
            assert_eq!(batch.float(sample, layout.obs), time as f32);
            assert_eq!(batch.float(sample, layout.keep.expect("memory")), f32::from(time > 0));
            let value = evaluate(time, &mut state);
            assert_eq!(batch.float(sample, layout.value), value, "{core}, step {t}");
            time += 1;
            if time == LIMIT {
                let last = evaluate(time, &mut state.clone());
                assert_eq!(batch.float(sample, layout.advantage), gamma * last - value, "{core}, step {t}");
                time = 0;
                state.fill(0.0);
            }
        }
    }
}

/// Steps a network by hand along the rows of a replay, which begins with whole episodes.
#[test]
fn a_replay_has_the_state_before_each_step() {
    let env: Arc<dyn AnyEnv> = Arc::new(Clock);
    for core in CORES {
        let (algorithm, learning_starts) = (Algorithm::Dqn, 100_000);
        let config = Config { algorithm, learning_starts, buffer_size: 10_000, ..config(core) };
        let mut backend = backend(env.clone(), &config, 2).expect("a good configuration");
        (0..2).for_each(|_| _ = update(&mut *backend));
        let snapshot = backend.save().expect("a snapshot");
        let inference =
            Inference::new(TrainedPolicy::from_snapshot(&*env, &config, &snapshot).expect("a policy"));
        let replay = backend.replay().expect("read").expect("a replay");
        let (layout, mut episodes) = (replay.layout(), 0);
        for rows in replay.written_rows() {
            let (mut state, mut time) = (vec![0.0; inference.states()], 0);
            for row in rows.chunks_exact(layout.stride).take(40) {
                assert_eq!(f32::from_bits(row[layout.obs]), time as f32);
                time += 1;
                // A row with a final observation, after which an episode begins.
                if time > LIMIT {
                    (time, episodes) = (0, episodes + 1);
                    state.fill(0.0);
                    continue;
                }
                let stored: Vec<f32> =
                    row[layout.state..][..state.len()].iter().map(|&bits| f32::from_bits(bits)).collect();
                assert_eq!(stored, state, "{core}, step {time}");
                let obs = [f32::from_bits(row[layout.obs])];
                inference.evaluate(ObsRows::Floats(&obs), &mut state, &mut [0.0; 3], &mut [0.0]);
            }
        }
        assert_eq!(episodes, 37 * 5);
    }
}

#[test]
fn an_evaluation_remembers_what_a_caller_would() {
    let env = builtin().find("repeat_previous").expect("built in").clone();
    for core in CORES {
        let config = config(core);
        let mut backend = backend(env.clone(), &config, 2).expect("a good configuration");
        (0..3).for_each(|_| _ = update(&mut *backend));
        let evaluation = backend.evaluate(0..16, 0, EvalActions::Greedy).expect("an evaluation");
        let snapshot = backend.save().expect("a snapshot");
        let policy = TrainedPolicy::from_snapshot(&*env, &config, &snapshot).expect("a policy");
        let inference = Inference::new(policy);
        let spec = env.spec();
        let tile = TileSpec { evaluation: true, ..TileSpec::new(config.seed, 0, 16) };
        let mut stepper = env.stepper(tile).expect("a stepper");
        let mut outputs = Outputs::new(&spec, env.masked(), 16);
        stepper.observe(outputs.seen()).expect("an observation");
        let (mut states, mut actions) = (vec![0.0; inference.states() * 16], vec![0.0; 16]);
        // All episodes are equally long.
        let mut step = 0;
        while outputs.ended(0) == [false, false] {
            inference.act(ObsRows::Words(&outputs.obs), None, Choice::Greedy, &mut states, &mut actions);
            stepper.submit(&actions, step).expect("a step");
            stepper.collect(outputs.stepped()).expect("a step");
            step += 1;
        }
        let returns: Vec<f64> = outputs.returns.iter().map(|&sum| f64::from(sum)).collect();
        assert_eq!((evaluation.returns, &evaluation.lengths[..]), (returns, &[step; 16][..]), "{core}");
        assert!(states.iter().any(|&x| x != 0.0));
    }
}

#[test]
fn a_corridor_is_remembered() {
    let config = Config {
        num_envs: 64,
        num_steps: 64,
        sequence_length: 32,
        num_minibatches: 4,
        update_epochs: 4,
        learning_rate: 2e-3,
        hidden: vec![32],
        core_layers: 1,
        shared_trunk: true,
        total_timesteps: 400_000,
        ..config(CoreKind::MinGru)
    };
    let env = builtin().make("t_maze", &EnvOptions::new()).expect("built in");
    let mut backend = backend(env, &config, 2).expect("a good configuration");
    while update(&mut *backend).env_steps < config.total_timesteps {}
    let returns = backend.evaluate(0..64, 0, EvalActions::Greedy).expect("an evaluation").returns;
    // Without memory half of the turns are wrong.
    assert!(returns.iter().all(|&sum| sum == 4.0), "{returns:?}");
}

#[test]
fn descriptions_that_do_not_fit_are_refused() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = config(CoreKind::Gru);
        change(&mut config);
        match backend(Arc::new(Locks), &config, 1).err().expect("a bad configuration") {
            LearnError::Config { key, problem, remedy } => (key, format!("{problem}; {remedy}")),
            other => panic!("{other}"),
        }
    };
    for (change, key, word) in [
        (
            &(|c: &mut Config| c.sequence_length = 7) as &dyn Fn(&mut Config),
            "sequence_length",
            "num_steps = 20",
        ),
        (&|c| (c.core, c.core_width) = (CoreKind::MinGru, 5), "core_width", "highway"),
        (&|c| (c.core, c.core_layers) = (CoreKind::Mlp, 1), "sequence_length", "no memory"),
        (&|c| (c.core, c.sequence_length) = (CoreKind::Mlp, 0), "core_layers", "no memory"),
        (
            &|c| (c.core, c.sequence_length, c.core_layers, c.core_width) = (CoreKind::Mlp, 0, 1, 8),
            "core_width",
            "no memory",
        ),
    ] {
        let (at, text) = refused(change);
        assert_eq!(at, key, "{text}");
        assert!(text.contains(word), "{text}");
    }
}
