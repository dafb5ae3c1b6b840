//! Rewards for exploring: what is added to the task's rewards, that reported returns leave it out, and that neither threads, tiles,
//! processes nor a resumed run change a bit.

use std::collections::HashMap;
use std::sync::Arc;

use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::inference::{Inference, ObsRows};
use operant_learn::cpu::{CpuOptions, Instrumented, ROLLOUT_TILES, backend, backend_in, backend_with};
use operant_learn::group::threads;
use operant_learn::network::{Architecture, Network};
use operant_learn::{
    Alone, Config, CoreKind, Group, Intrinsic, LearnError, ShuffleKind, Snapshot, Tensor, TrainedPolicy,
};
use operant_parity::reference;

use crate::support::{Trained, train, world};

/// Episodes here end at the goal alone, with a reward.
const ENV: &str = "minigrid_empty_random_5x5";

fn config(num_envs: usize) -> Config {
    Config {
        seed: 6,
        total_timesteps: 100_000,
        num_envs,
        num_steps: 96,
        num_minibatches: 4,
        update_epochs: 2,
        hidden: vec![16],
        shuffle: ShuffleKind::Blocks,
        norm_reward: true,
        intrinsic: Intrinsic::Counts,
        intrinsic_coef: 0.125,
        ..Config::default()
    }
}

/// With gamma = 0 the return of a step is its reward. The first rollout plays the same steps with and without rewards for exploring, so
/// they are the difference, and counting whole observations gives the same.
#[test]
fn the_nth_time_of_an_observation_in_an_episode_gives_one_by_the_root_of_n() {
    let with = Config { gamma: 0.0, norm_reward: false, ..config(33) };
    let without = Config { intrinsic: Intrinsic::None, ..with.clone() };
    let played = |config: &Config| {
        let options = CpuOptions::new(1);
        let mut backend = backend_with(world(ENV), config, &options).expect("a good configuration").backend;
        let pool = backend.pool();
        pool.install(|| backend.roll()).expect("a rollout");
        backend
    };
    let (with, without) = (played(&with), played(&without));
    let (with, without) = (with.batch(), without.batch());
    let layout = without.layout().clone();
    let reward = |batch: &operant_learn::cpu::batch::Batch, sample| {
        batch.float(sample, layout.advantage) + batch.float(sample, layout.value)
    };
    let (mut repeated, mut ended) = (0, 0);
    for env in 0..33 {
        let first = env / 16 * 16 * 96 + env % 16;
        let lanes = if env < 32 { 16 } else { 1 };
        let obs = |t: usize| &without.sample(first + t * lanes)[layout.obs..layout.obs + layout.obs_words];
        let mut counts = HashMap::from([(obs(0), 1)]);
        for t in 0..95 {
            let sample = first + t * lanes;
            let bonus = reward(with, sample) - reward(without, sample);
            let ends = reward(without, sample) > 0.01;
            if ends {
                counts.clear();
                ended += 1;
            }
            let n = counts.entry(obs(t + 1)).or_insert(0);
            *n += 1;
            repeated += usize::from(*n > 1);
            let expected = if ends { 0.0 } else { 0.125 / (*n as f32).sqrt() };
            assert!((bonus - expected).abs() < 1e-6, "environment {env}, step {t}: {bonus}, {expected}");
        }
    }
    assert!(repeated > 500 && ended > 20, "{repeated} repeated, {ended} ended");
}

fn updates(
    config: &Config,
    options: &CpuOptions,
    group: Arc<dyn Group>,
    from: Option<&Snapshot>,
    count: usize,
) -> Trained {
    train(backend_in(world(ENV), config, options, group).expect("valid").backend, from, count)
}

/// Two processes with different tiles.
fn two(config: &Config, from: Option<&Snapshot>, count: usize) -> Trained {
    std::thread::scope(|scope| {
        let start = |group: Arc<dyn Group>| {
            let options = CpuOptions { rollout_tile: 16 << group.rank(), ..CpuOptions::new(1) };
            scope.spawn(move || updates(config, &options, group, from, count))
        };
        let members: Vec<_> = threads::group(2).into_iter().map(start).collect();
        members.into_iter().map(|it| it.join().expect("no panic")).next_back().expect("two")
    })
}

#[test]
fn neither_threads_tiles_processes_nor_a_resumed_run_change_a_bit() {
    for (intrinsic, tensor, core, algorithm) in [
        (Intrinsic::Counts, "intrinsic.counts", CoreKind::Mlp, Algorithm::Ppo),
        (Intrinsic::Counts, "intrinsic.counts", CoreKind::MinGru, Algorithm::Ppo),
        (Intrinsic::Counts, "intrinsic.counts", CoreKind::Mlp, Algorithm::Pqn),
        (Intrinsic::Rnd, "rnd.return", CoreKind::Mlp, Algorithm::Pqn),
        (Intrinsic::Rnd, "rnd.exp_avg.q.bias", CoreKind::MinGru, Algorithm::Ppo),
        (Intrinsic::Rnd, "exp_avg.intrinsic_value.bias", CoreKind::Mlp, Algorithm::Ppo),
        (Intrinsic::Rnd, "exp_avg.intrinsic_value.bias", CoreKind::Gru, Algorithm::Ppo),
    ] {
        let sequence_length = if core == CoreKind::Mlp { 0 } else { 8 };
        let intrinsic_gamma = if tensor.contains("intrinsic_value") { 0.9 } else { 0.0 };
        let config = Config { core, sequence_length, algorithm, intrinsic, intrinsic_gamma, ..config(96) };
        let alone =
            |options: &CpuOptions, from, count| updates(&config, options, Arc::new(Alone), from, count);
        let (stats, whole) = alone(&CpuOptions::new(1), None, 4);
        for rollout_tile in ROLLOUT_TILES {
            let options = CpuOptions { rollout_tile, ..CpuOptions::new(2) };
            assert_eq!(
                alone(&options, None, 4).1,
                whole,
                "{intrinsic}, {core}, {algorithm}, tiles of {rollout_tile}"
            );
        }
        let (_, early) = two(&config, None, 2);
        assert!(early.tensors.iter().any(|it| it.name == tensor));
        assert_eq!(alone(&CpuOptions::new(2), Some(&early), 2).1, whole, "{intrinsic}, {core}, {algorithm}");
        let (late, end) = two(&config, Some(&early), 2);
        assert_eq!(format!("{late:?}"), format!("{:?}", &stats[2..]), "{intrinsic}, {core}, {algorithm}");
        assert_eq!(end, whole, "{intrinsic}, {core}, {algorithm}");
    }
}

#[test]
fn reports_have_it_apart_from_returns() {
    let report = |config: &Config| {
        let mut backend = backend(world(ENV), config, 1).expect("a good configuration");
        crate::support::update(&mut *backend).metrics
    };
    let with = report(&config(16));
    let without = report(&Config { intrinsic: Intrinsic::None, ..config(16) });
    assert!(with.intrinsic_reward > 0.0 && with.intrinsic_reward < 0.125);
    assert!(without.intrinsic_reward.is_nan());
    assert_eq!(with.episodic_return.to_bits(), without.episodic_return.to_bits());
}

#[test]
fn real_numbers_are_not_counted_and_have_to_be_normalised_for_networks() {
    let (none, normalise) = ("set intrinsic = \"none\"", "set norm_obs = true");
    for (env, clip_obs, intrinsic, expected) in [
        ("cartpole", 10.0, Intrinsic::Counts, Some(none)),
        ("cartpole", 10.0, Intrinsic::Rnd, Some(normalise)),
        // A part of its observations is real numbers from -1 to 1.
        ("breakout_large", 0.5, Intrinsic::Rnd, Some(none)),
        ("breakout_large", 1.0, Intrinsic::Rnd, None),
    ] {
        let config = Config { intrinsic, clip_obs, ..config(16) };
        let refused = backend(world(env), &config, 1).err();
        let remedy = refused.as_ref().map(|refused| match refused {
            LearnError::Config { key: "intrinsic", remedy, .. } => remedy.as_str(),
            _ => panic!("{refused}"),
        });
        assert_eq!(remedy, expected, "{env}: {refused:?}");
    }
}

/// Every step of CartPole gives a reward of 1, and also once it is normalised and clipped; with a core, samples say where episodes begin.
fn distilled() -> Config {
    Config {
        intrinsic: Intrinsic::Rnd,
        gamma: 0.0,
        clip_reward: 1.0,
        norm_obs: true,
        num_steps: 32,
        num_minibatches: 1,
        hidden: vec![8],
        core: CoreKind::MinGru,
        sequence_length: 8,
        max_grad_norm: 1e9,
        shuffle: ShuffleKind::Samples,
        ..config(33)
    }
}

/// Weights `(outputs, inputs)` and biases of each layer.
type Layers = Vec<[Vec<f64>; 2]>;

fn numbers(snapshot: &Snapshot, name: &str) -> Vec<f64> {
    let is_it = |tensor: &&Tensor| tensor.name == name;
    let Tensor { shape, data, .. } = snapshot.tensors.iter().find(is_it).expect(name);
    match data.len() / shape.iter().product::<usize>() {
        4 => data.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        _ => data.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
    }
}

fn layers(snapshot: &Snapshot, prefix: &str, hidden: usize) -> Layers {
    let names = (0..hidden).map(|k| format!("trunk.{k}")).chain(["q".to_owned()]);
    names
        .map(|it| ["weight", "bias"].map(|part| numbers(snapshot, &format!("{prefix}.{it}.{part}"))))
        .collect()
}

fn outputs(layers: &Layers, x: &[f64]) -> Vec<f64> {
    let mut x = x.to_vec();
    for (k, [weights, biases]) in layers.iter().enumerate() {
        let sum = |(row, bias): (&[f64], &f64)| row.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>() + bias;
        let sums = weights.chunks_exact(x.len()).zip(biases).map(sum);
        x = sums.map(|sum| if k + 1 < layers.len() { sum.max(0.0) } else { sum }).collect();
    }
    x
}

/// The mean squared difference of the outputs of target and predictor.
fn error([target, predictor]: [&Layers; 2], x: &[f64]) -> f64 {
    let (target, own) = (outputs(target, x), outputs(predictor, x));
    target.iter().zip(&own).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / own.len() as f64
}

/// An observation of CartPole as the networks take it, and whether an episode begins there.
type Step = (Vec<f64>, bool);
/// What a rollout observed, `[environment][step]`.
type Seen = Vec<Vec<Step>>;

fn seen(backend: &dyn Instrumented) -> Seen {
    let (batch, layout) = (backend.batch(), backend.batch().layout());
    let sample = |sample| {
        let begins = batch.float(sample, layout.keep.expect("a core")) == 0.0;
        ((0..4).map(|k| f64::from(batch.float(sample, layout.obs + k))).collect(), begins)
    };
    let environment = |[first, stride]: [usize; 2]| (0..32).map(|t| sample(first + t * stride)).collect();
    (0..33).map(|env| environment(batch.samples_of(env))).collect()
}

/// The observations alone.
fn observations(seen: &Seen) -> Vec<Vec<f64>> {
    seen.iter().flatten().map(|(x, _)| x.clone()).collect()
}

/// Features normalised with the statistics of one snapshot as those of another would do it.
fn normalised_again(x: &[f64], by: &Snapshot, as_by: &Snapshot) -> Vec<f64> {
    let [(mean, deviation), (to_mean, to_deviation)] = [by, as_by].map(|snapshot| {
        let roots =
            numbers(snapshot, "norm_obs.var").iter().map(|var| (var + 1e-8).sqrt()).collect::<Vec<_>>();
        (numbers(snapshot, "norm_obs.mean"), roots)
    });
    let feature = |k: usize| (x[k] * deviation[k] + mean[k] - to_mean[k]) / to_deviation[k];
    (0..x.len()).map(feature).collect()
}

/// The errors after the steps of a rollout, `[environment][step]`; 0 where an episode begins. The last step's observation is in the next rollout.
fn errors(networks: [&Layers; 2], rollouts: [&Seen; 2], snapshots: [&Snapshot; 2]) -> Vec<Vec<f64>> {
    let [own, next] = rollouts;
    let of = |x: &[f64], begins: bool| if begins { 0.0 } else { error(networks, x) };
    let environment = |(own, next): (&Vec<Step>, &Vec<Step>)| {
        let (last, begins) = &next[0];
        let last = of(&normalised_again(last, snapshots[1], snapshots[0]), *begins);
        own[1..].iter().map(|(x, begins)| of(x, *begins)).chain([last]).collect()
    };
    own.iter().zip(next).map(environment).collect()
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

#[test]
fn the_reward_is_the_error_of_the_predictor_in_units_of_its_deviation() {
    for gamma in [0.0, 1.0] {
        let config = Config { gamma, ..distilled() };
        let started = backend_with(world("cartpole"), &config, &CpuOptions::new(1)).expect("valid");
        let mut backend = started.backend;
        let (mut snapshots, mut reported, mut rollouts, mut returns) = (vec![], vec![], vec![], vec![]);
        for _ in 0..5 {
            snapshots.push(backend.save().expect("saved"));
            reported.push(crate::support::update(&mut *backend).metrics.intrinsic_reward);
            rollouts.push(seen(&*backend));
            let (batch, layout) = (backend.batch(), backend.batch().layout());
            let of_sample = |it| f64::from(batch.float(it, layout.advantage) + batch.float(it, layout.value));
            let of_env = |[first, stride]: [usize; 2]| (0..32).map(move |t| of_sample(first + t * stride));
            returns.push((0..33).flat_map(|env| of_env(batch.samples_of(env))).collect::<Vec<_>>());
        }
        let target = layers(&snapshots[0], "rnd.target", 1);
        assert_eq!(target, layers(&snapshots[4], "rnd.target", 1));
        // The observations of the first rollout are not normalised.
        assert_eq!((reported[0], numbers(&snapshots[1], "rnd.norm.count")), (0.0, vec![0.0]));
        let (mut sums, mut variances) = (vec![0.0; 33], vec![]);
        for k in 1..4 {
            let predictor = layers(&snapshots[k], "rnd.params", 2);
            let errors = errors(
                [&target, &predictor],
                [&rollouts[k], &rollouts[k + 1]],
                [&snapshots[k], &snapshots[k + 1]],
            );
            let discounted: Vec<f64> = errors
                .iter()
                .zip(&mut sums)
                .flat_map(|(errors, sum)| {
                    errors.iter().map(|error| {
                        *sum = *sum * f64::min(gamma, 0.99) + error;
                        *sum
                    })
                })
                .collect();
            let centre = mean(&discounted);
            variances.push(mean(&discounted.iter().map(|x| (x - centre).powi(2)).collect::<Vec<_>>()));
            let found = numbers(&snapshots[k + 1], "rnd.norm.var")[0];
            assert!((found / mean(&variances) - 1.0).abs() < 1e-4, "rollout {k}: {found}, {variances:?}");

            let var = numbers(&snapshots[k], "rnd.norm.var")[0];
            let scale = if k == 1 { 0.0 } else { 0.125 / (var + 1e-8).sqrt() };
            let bonuses: Vec<f64> = errors.iter().flatten().map(|error| scale * error).collect();
            let found = reported[k];
            assert!(
                (found - mean(&bonuses)).abs() <= 1e-5 * found,
                "rollout {k}: {found}, {}",
                mean(&bonuses)
            );
            if gamma == 0.0 {
                for (sample, (found, bonus)) in returns[k].iter().zip(&bonuses).enumerate() {
                    let expected = 1.0 + bonus;
                    assert!((found - expected).abs() < 1e-5 * expected, "{sample}: {found}, {expected}");
                }
            }
        }
        let ended = rollouts[1..].iter().flatten().flatten().filter(|(_, begins)| *begins).count();
        assert!(ended > 30 && reported[3] > 0.0, "{ended} episodes ended, {reported:?}");
    }
}

/// Three rollouts of one policy and one predictor, of whose episodes none is cut off: returns of the errors go on across their ends.
#[test]
fn a_second_value_function_has_returns_that_go_on_where_episodes_end() {
    const STEPS: usize = 24;
    let config = Config {
        gamma: 0.95,
        intrinsic_gamma: 0.8,
        num_steps: STEPS,
        norm_obs: false,
        norm_reward: false,
        ..distilled()
    };
    let env = world(ENV);
    let network = Network::new(Architecture::of(&env.spec(), &config).expect("a network"));
    let mut backend = backend_with(env, &config, &CpuOptions::new(1)).expect("valid").backend;
    let (mut snapshots, mut rollouts) = (vec![], vec![]);
    for _ in 0..4 {
        snapshots.push(backend.save().expect("saved"));
        let pool = backend.pool();
        pool.install(|| backend.roll()).expect("a rollout");
        rollouts.push(backend.batch().clone());
    }
    let [target, predictor] =
        [("rnd.target", 1), ("rnd.params", 2)].map(|(of, hidden)| layers(&snapshots[0], of, hidden));
    let (mut ended, mut rewarded) = (0, 0);
    for k in 1..3 {
        let var = numbers(&snapshots[k], "rnd.norm.var")[0];
        for env in 0..33 {
            let [first, stride] = rollouts[k].samples_of(env);
            let mut steps: Vec<_> =
                (0..STEPS).map(|t| reference::unpack(&network, &rollouts[k], first + t * stride)).collect();
            steps.push(reference::unpack(&network, &rollouts[k + 1], first));
            let done: Vec<bool> = steps[1..].iter().map(|next| next.is_first).collect();
            let of_errors = |step: &reference::Sample| step.exploring.expect("two values");
            let own: Vec<f64> = steps.iter().map(|step| of_errors(step)[1] - of_errors(step)[0]).collect();
            let bonuses: Vec<f64> = steps[1..]
                .iter()
                .map(|next| match next.is_first {
                    true => 0.0,
                    false => 0.125 * error([&target, &predictor], &next.obs) / (var + 1e-8).sqrt(),
                })
                .collect();
            let values: Vec<f64> = steps.iter().map(|step| of_errors(step)[0]).collect();
            let never = [false; STEPS];
            let expected = reference::gae(&bonuses, &values[..STEPS], &never, values[STEPS], 0.8, 0.95);
            for (t, (found, expected)) in own.iter().zip(expected).enumerate() {
                assert!((found - expected).abs() < 1e-4, "environment {env}, step {t}: {found}, {expected}");
            }
            // What the advantages of the task have besides its value is its reward.
            for t in 0..STEPS - 1 {
                let goes_on = f64::from(!done[t]);
                let of_task = |t: usize| steps[t].advantage - own[t];
                let reward = of_task(t) + steps[t].value
                    - 0.95 * goes_on * (steps[t + 1].value + 0.95 * of_task(t + 1));
                let is_good = if done[t] { reward > 0.01 && reward < 1.0 } else { reward.abs() < 1e-4 };
                assert!(is_good, "environment {env}, step {t}: a reward of {reward}");
                assert!((steps[t].target - steps[t].value - of_task(t)).abs() < 1e-12);
            }
            ended += done.iter().filter(|done| **done).count();
            rewarded += bonuses.iter().filter(|bonus| **bonus > 1e-3).count();
        }
    }
    assert!(ended > 5 && rewarded > 500, "{ended} episodes ended, {rewarded} rewards");
}

#[test]
fn a_trained_policy_plays_without_its_second_value() {
    for (core, shared_trunk, shape) in
        [(CoreKind::Gru, true, "4-8-gru(8)-(2+2)"), (CoreKind::Mlp, false, "4-8-2 and 4-8-2")]
    {
        let (env, intrinsic_gamma) = (world("cartpole"), 0.9);
        let sequence_length = if core == CoreKind::Mlp { 0 } else { 8 };
        let config = Config { core, shared_trunk, intrinsic_gamma, sequence_length, ..distilled() };
        let mut backend = backend(Arc::clone(&env), &config, 1).expect("valid");
        crate::support::run(&mut *backend, 2);
        let snapshot = backend.save().expect("saved");
        let whole = TrainedPolicy::from_snapshot(&*env, &config, &snapshot).expect("a policy");
        let plays = whole.for_playing();
        let plain = Config { intrinsic_gamma: 0.0, ..config.clone() };
        let expected = Network::new(Architecture::of(&env.spec(), &plain).expect("a network"));
        assert_eq!(plays.network, expected);
        assert_eq!(whole.network.architecture.to_string(), shape);
        let evaluated = |policy: TrainedPolicy| {
            let (obs, states) = ([0.3f32.to_bits(); 4 * 20], policy.network.states);
            let (mut states, mut outputs, mut values) =
                (vec![0.5; 20 * states], vec![0.0; 40], vec![0.0; 20]);
            Inference::new(policy).evaluate(ObsRows::Words(&obs), &mut states, &mut outputs, &mut values);
            (states, outputs, values)
        };
        assert_eq!(evaluated(whole), evaluated(plays), "{core}");
    }
}

#[test]
fn a_second_value_function_refuses_by_name_what_it_does_not_support() {
    let two = Config { intrinsic_gamma: 0.9, intrinsic: Intrinsic::Rnd, ..config(16) };
    let problem = |config: &Config| (config.algorithm.declaration().problem)(config);
    assert_eq!(problem(&two), None);
    let with = |change: fn(&mut Config)| {
        let mut config = two.clone();
        change(&mut config);
        let (key, problem, remedy) = problem(&config).expect("refused");
        assert!(key == "intrinsic_gamma" && remedy.contains("intrinsic_gamma = 0"), "{key}: {remedy}");
        problem
    };
    for (text, change) in [
        ("intrinsic = \"counts\" has no value", (|c| c.intrinsic = Intrinsic::Counts) as fn(&mut Config)),
        ("intrinsic = \"none\" has no value", |c| c.intrinsic = Intrinsic::None),
        ("value_bins", |c| (c.value_bins, c.algorithms.ppo.clip_vloss) = (9, false)),
        ("norm_value", |c| c.algorithms.ppo.norm_value = true),
        ("recompute_advantages", |c| c.recompute_advantages = true),
        ("pointer", |c| c.pointer = true),
        ("choose the actions", |c| c.algorithm = Algorithm::Pqn),
    ] {
        let problem = with(change);
        assert!(problem.contains(text), "{problem}");
    }
}

#[test]
fn the_predictor_follows_the_gradient_of_its_error() {
    let mut backend =
        backend_with(world("cartpole"), &distilled(), &CpuOptions::new(1)).expect("valid").backend;
    crate::support::update(&mut *backend);
    let before = backend.save().expect("saved");
    crate::support::update(&mut *backend);
    let after = backend.save().expect("saved");
    let (target, mut predictor) = (layers(&before, "rnd.target", 1), layers(&before, "rnd.params", 2));
    let obs = observations(&seen(&*backend));
    let moments = ["trunk.0", "trunk.1", "q"].map(|layer| {
        ["weight", "bias"].map(|part| {
            let [before, after] =
                [&before, &after].map(|it| numbers(it, &format!("rnd.exp_avg.{layer}.{part}")));
            before.iter().zip(after).map(|(m, next)| (next - 0.9 * m) / 0.1).collect::<Vec<f64>>()
        })
    });
    let greatest = moments.iter().flatten().flatten().fold(0.0f64, |most, g| most.max(g.abs()));
    let mut loss = |(layer, part, k): (usize, usize, usize), by: f64| {
        predictor[layer][part][k] += by;
        let sum: f64 = obs.iter().map(|x| error([&target, &predictor], x)).sum();
        predictor[layer][part][k] -= by;
        sum / obs.len() as f64
    };
    for (layer, parts) in moments.iter().enumerate() {
        for (part, gradient) in parts.iter().enumerate() {
            for (k, found) in gradient.iter().enumerate().step_by(7) {
                let place = (layer, part, k);
                let expected = (loss(place, 1e-6) - loss(place, -1e-6)) / 2e-6;
                assert!((found - expected).abs() < 1e-4 * greatest, "{place:?}: {found}, {expected}");
            }
        }
    }
}

#[test]
fn errors_fall_as_the_predictor_learns_but_not_where_it_never_was() {
    let config = Config { learning_rate: 3e-3, num_minibatches: 4, hidden: vec![32], ..distilled() };
    let mut backend = backend_with(world("cartpole"), &config, &CpuOptions::new(1)).expect("valid").backend;
    let begun = backend.save().expect("saved");
    crate::support::run(&mut *backend, 32);
    let learned = backend.save().expect("saved");
    let target = layers(&begun, "rnd.target", 1);
    let [begun, learned] = [begun, learned].map(|snapshot| layers(&snapshot, "rnd.params", 2));
    let seen = observations(&seen(&*backend));
    // As far from the centre, but the pole leans against the way that it falls.
    let unseen: Vec<_> = seen.iter().map(|x| vec![x[0], x[1], -x[2], x[3]]).collect();
    let mean = |predictor: &Layers, obs: &[Vec<f64>]| {
        mean(&obs.iter().map(|x| error([&target, predictor], x)).collect::<Vec<_>>())
    };
    let [at_first, known, new] = [mean(&begun, &seen), mean(&learned, &seen), mean(&learned, &unseen)];
    assert!(known < 0.2 * at_first && new > 1.5 * known, "{at_first}, {known}, {new}");
}

#[test]
fn actions_that_are_illegal_do_not_concern_the_predictor() {
    let config = Config { intrinsic: Intrinsic::Rnd, ..config(33) };
    let mut backend = backend(world("taxi"), &config, 1).expect("a good configuration");
    let reported: Vec<_> =
        (0..3).map(|_| crate::support::update(&mut *backend).metrics.intrinsic_reward).collect();
    // Half of what it learns would be missing if its outputs were masked like the actions.
    assert!(reported[0] == 0.0 && reported[1] > 0.0 && reported[2] > 0.0, "{reported:?}");
}
