//! The gradient of the whole loss for random networks, against JAX's automatic differentiation in float64 (`gradients.py`): encoders,
//! cores, layers, heads, masks, lengths of sequences and resets within them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::off_policy::compare::Transition;
use operant_learn::cpu::update::Learner;
use operant_learn::network::{
    Architecture, Continuous, Conv, Core, Embed, EmbedPart, Head, Image, Input, Network, Pool,
};
use operant_learn::{ActionDistribution, Activation, Config, CoreKind, LearnerState, LogStd};
use operant_parity::distance;
use operant_parity::reference::{self, sac};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::cases::{self, Case, Encoding};
use crate::dqn;
use crate::sac::{Minibatches, minibatches};
use crate::support::parts::Part;

/// Networks that are drawn.
const COUNT: usize = 32;

/// The largest distance from JAX's gradient, relative to its norm.
const TOLERANCE: f64 = 1e-5;

/// A network, a batch for it, and what they are called in a failure.
#[derive(Debug, Clone)]
struct Description {
    seed: u64,
    config: Config,
    input: Input,
    head: Head,
    masked: bool,
    encoding: Encoding,
}

/// Any description. Minibatches are whole batches, so that one gradient is all there is.
fn description() -> impl Strategy<Value = Description> {
    let core = prop::sample::select(vec![CoreKind::Mlp, CoreKind::MinGru, CoreKind::Gru, CoreKind::Lstm]);
    let shape = (1usize..=20, 1usize..=6, 1usize..=3, core, 1usize..=2, prop::option::of(1usize..=9));
    let layers = (prop::collection::vec(1usize..=12, 1..=2), any::<bool>(), any::<bool>(), 0usize..=5);
    let image = prop::option::of((3usize..=5, 3usize..=5, 1usize..=3, 0usize..=2, 1usize..=18, 1usize..=2));
    let input = (any::<bool>(), 1usize..=40, image, any::<bool>());
    let distribution = prop::sample::select(ActionDistribution::ALL.to_vec());
    let log_std = prop::sample::select(LogStd::ALL.to_vec());
    let head = prop_oneof![
        prop::collection::vec(1usize..=5, 1..=3).prop_map(Head::MultiDiscrete),
        (1usize..=3, distribution, log_std).prop_map(|(actions, distribution, log_std)| {
            Head::Continuous(Continuous { actions, distribution, log_std: Some(log_std) })
        }),
    ];
    let loss = (any::<bool>(), any::<bool>(), any::<bool>());
    let pool = prop::option::of(prop::sample::select(vec![Pool::Concat, Pool::Sum, Pool::Mean]));
    let tables = (pool, 1usize..=18);
    let candidates = prop::option::weighted(0.25, (1usize..=6, 1usize..=3, 1usize..=4));
    let has_values = prop::bool::weighted(0.25);
    (any::<u64>(), shape, layers, input, head, loss, tables, (candidates, has_values)).prop_map(
        |(seed, shape, layers, input, head, loss, tables, (candidates, has_values))| {
            let (num_envs, length, parts, core, core_layers, width) = shape;
            let (core, head) = match candidates {
                Some((choices, ..)) => (CoreKind::Mlp, Head::MultiDiscrete(vec![choices])),
                None => (core, head),
            };
            let (hidden, shared_trunk, is_tanh, blocks) = layers;
            let (is_bits, features, image, masked) = input;
            let mut features = features;
            let mut encoding = Encoding::default();
            if let Some((choices, positions, rows)) = candidates {
                let (pool, columns) = tables;
                let positions = positions * (choices + 1);
                features = positions * rows;
                let embed = |pool| {
                    let part = EmbedPart { name: String::new(), first: 0, positions, indices: 1, rows };
                    Embed { parts: vec![part], width: columns, pool }
                };
                encoding.embed = pool.filter(|&pool| pool == Pool::Concat).map(embed);
                let image = Image { first: 0, extents: [choices + 1, 1, features / (choices + 1)] };
                encoding.items = Some(image.embedded(encoding.embed.as_ref()).expect("items of tables"));
            } else if let Some((height, width, depth, first, channels, stride)) = image {
                let image = Image { first, extents: [height, width, depth] };
                features = first + height * width * depth + features % 4;
                // Tables instead of the pixels' bits, or for the other features.
                let (pool, columns) = tables;
                let part = |first, positions, rows| EmbedPart {
                    name: String::new(),
                    first,
                    positions,
                    indices: 1,
                    rows,
                };
                encoding.embed = pool.map(|pool| Embed {
                    parts: vec![part(first, height * width, depth)],
                    width: columns,
                    pool,
                });
                if let Ok(image) = image.embedded(encoding.embed.as_ref()) {
                    encoding.conv =
                        Conv::stack(image, &[[channels, 2, stride], [3, 1, 1]]).expect("they fit");
                }
            }
            let (core_width, core_layers, sequence_length) = match core {
                CoreKind::Mlp => (0, 1, 0),
                CoreKind::MinGru => (0, core_layers, length),
                _ => (width.unwrap_or(0), core_layers, length),
            };
            let is_pqn = has_values && matches!(head, Head::MultiDiscrete(_));
            let config = Config {
                algorithm: if is_pqn { Algorithm::Pqn } else { Algorithm::Ppo },
                hidden,
                shared_trunk,
                core,
                core_width,
                core_layers,
                sequence_length,
                layer_norm: loss.2,
                value_bins: if loss.1 || is_pqn || candidates.is_some() || shared_trunk == is_tanh {
                    1
                } else {
                    2 + features % 9
                },
                value_min: -1.5,
                value_max: 1.0,
                // Half of them without.
                residual_blocks: if candidates.is_some() { 0 } else { blocks.saturating_sub(3) },
                activation: if is_tanh { Activation::Tanh } else { Activation::Relu },
                num_minibatches: 1,
                update_epochs: 1,
                // The first moment after one step is (1 - beta1) times the gradient.
                max_grad_norm: 1e9,
                adam_beta1: 0.0,
                ..cases::config(num_envs, length * parts, 1)
            }
            .ppo(|ppo| {
                (ppo.norm_adv, ppo.clip_vloss) = (loss.0 && num_envs * length * parts > 1, loss.1);
                let is_normal =
                    matches!(head, Head::Continuous(of) if of.distribution != ActionDistribution::Beta);
                ppo.rpo_alpha = if is_normal { 0.2 * parts as f64 } else { 0.0 };
            });
            let input = if is_bits { Input::Bits(features) } else { Input::Dense(features) };
            let masked = masked && matches!(head, Head::MultiDiscrete(_));
            Description { seed, config, input, head, masked, encoding }
        },
    )
}

/// A tensor as JSON.
fn array(shape: &[usize], values: impl IntoIterator<Item = f64>) -> Value {
    json!({"shape": shape, "values": values.into_iter().collect::<Vec<_>>()})
}

/// The samples of the first epoch, in their order there.
fn samples(case: &Case) -> Vec<reference::Sample> {
    reference::minibatch(&case.network, &case.config, &case.batch, (0, 0), 0..case.batch.sequences())
}

/// What the script reads of a network.
fn network_json(network: &Network) -> Value {
    let architecture = &network.architecture;
    let Architecture { embed, conv, items, hidden, activation, shared_trunk, head, core, .. } = architecture;
    let embed = embed.as_ref().map(|embed| {
        let part = &embed.parts[0];
        let pool = embed.pool.encoder().name();
        json!({"first": part.first, "positions": part.positions, "rows": part.rows, "pool": pool})
    });
    json!({
        "embed": embed,
        "layer_norm": architecture.layer_norm,
        "residual_blocks": architecture.residual_blocks,
        "conv": conv.iter().map(|conv| json!({"first": conv.first, "image": conv.image, "stride": conv.stride})).collect::<Vec<_>>(),
        "items": items.map(|Image { first, extents }| json!({"first": first, "count": extents[0], "features": extents[2]})),
        "bins": architecture.bins.map(|bins| json!([f64::from(bins.bounds()[0]), f64::from(bins.bounds()[1]), bins.count])),
        "hidden": hidden.len(),
        "activation": activation.name(),
        "shared_trunk": shared_trunk,
        "core": core.map(|Core { cell, width, layers }| json!({"cell": cell.name(), "width": width, "layers": layers})),
        "choices": match head { Head::MultiDiscrete(counts) => Some(counts), Head::Continuous(_) => None },
        "distribution": match head { Head::Continuous(of) => of.distribution.name(), Head::MultiDiscrete(_) => "" },
    })
}

/// Parameters by their names.
fn params_json(network: &Network, params: &[f32]) -> Value {
    let tensors = network.tensors.iter().map(|tensor| {
        let values = params[tensor.range()].iter().map(|&x| f64::from(x));
        (tensor.name.clone(), array(&tensor.shape, values))
    });
    Value::Object(tensors.collect())
}

/// An object with the fields of both.
fn merged(mut object: Value, other: Value) -> Value {
    let Value::Object(fields) = other else { panic!("no object") };
    object.as_object_mut().expect("an object").extend(fields);
    object
}

/// What the script reads.
fn to_json(case: &Case) -> Value {
    let (sequences, steps) = (case.batch.sequences(), case.batch.sequence());
    let samples = samples(case);
    let of = |width: usize, values: &dyn Fn(&reference::Sample) -> Vec<f64>| {
        array(&[sequences, steps, width], samples.iter().flat_map(values))
    };
    let number =
        |value: &dyn Fn(&reference::Sample) -> f64| array(&[sequences, steps], samples.iter().map(value));
    let outputs = case.network.policy_outputs();
    let legal = |s: &reference::Sample| match s.legal[..] {
        [] => vec![1.0; outputs],
        _ => s.legal.iter().map(|&legal| f64::from(legal)).collect(),
    };
    let begins = samples.iter().filter_map(|s| s.begins.clone()).flatten();
    let fields = json!({
        "algorithm": case.config.algorithm.name(),
        "coefficients": {
            "clip_coef": case.config.algorithms.ppo.clip_coef,
            "clip_vloss": case.config.algorithms.ppo.clip_vloss,
            "ent_coef": case.config.algorithms.ppo.ent_coef,
            "vf_coef": case.config.algorithms.ppo.vf_coef,
            "norm_adv": case.config.algorithms.ppo.norm_adv,
        },
        "params": params_json(&case.network, &case.params),
        "obs": of(case.network.architecture.input.features(), &|s| s.obs.clone()),
        "actions": of(case.layout.components, &|s| s.actions.clone()),
        "noise": of(case.layout.components, &|s| if s.noise.is_empty() { vec![0.0; s.actions.len()] } else { s.noise.clone() }),
        "legal": of(outputs, &legal),
        "logprob": number(&|s| s.logprob),
        "value": number(&|s| s.value),
        "advantage": number(&|s| s.advantage),
        "keep": number(&|s| f64::from(!s.is_first)),
        "begins": array(&[sequences, case.network.states], begins),
    });
    merged(network_json(&case.network), fields)
}

/// A minibatch from a replay as the script reads it.
fn minibatch_json(case: &Minibatches, samples: &[Transition]) -> Value {
    let of = |values: &dyn Fn(&Transition) -> &[f32]| {
        let numbers: Vec<f64> = samples.iter().flat_map(values).map(|&x| f64::from(x)).collect();
        array(&[samples.len(), numbers.len() / samples.len()], numbers)
    };
    let number = |value: &dyn Fn(&Transition) -> f32| {
        array(&[samples.len()], samples.iter().map(|s| f64::from(value(s))))
    };
    // Of sequences all rows, those that count with the weight of all.
    let (has_memory, each) = (case.network.states > 0, case.config.sequence_rows());
    let sequences = if has_memory { samples.len() / each } else { 0 };
    let share = samples.len() as f64 / case.config.batch_size as f64;
    let weight = |s: &Transition| match has_memory {
        true => f64::from(s.weight) * share * f64::from(s.row.counts),
        false => f64::from(s.weight),
    };
    let then: Vec<usize> = samples.iter().enumerate().map(|(k, s)| k + s.row.ahead).collect();
    let keep = samples.iter().take(sequences * each).map(|s| f64::from(!s.row.is_first));
    let begins = samples.iter().filter_map(|s| s.row.begins.as_ref()).flatten().map(|&x| f64::from(x));
    let outputs = case.network.policy_outputs();
    let legal = samples
        .iter()
        .flat_map(|s| (0..outputs).map(|k| f64::from(u8::from(s.legal.get(k).is_none_or(|legal| *legal)))));
    let fields = json!({
        "algorithm": case.config.algorithm.name(),
        "target_entropy": case.config.algorithms.sac.target_entropy,
        "policy_noise": case.config.algorithms.td3.policy_noise,
        "noise_clip": case.config.algorithms.td3.noise_clip,
        "double_q": case.config.algorithms.dqn.double_q,
        "huber": case.config.huber().map(|_| case.config.huber_delta),
        "legal": array(&[samples.len(), outputs], legal),
        "weight": array(&[samples.len()], samples.iter().map(weight)),
        "then": then,
        "burn_in": case.config.burn_in,
        "keep": array(&[sequences, each], keep),
        "begins": array(&[sequences, case.network.states], begins),
        "params": params_json(&case.network, &case.state.params),
        "targets": params_json(&case.network, &case.state.targets),
        "obs": of(&|s| &s.obs[0]),
        "next_obs": of(&|s| &s.obs[usize::from(!has_memory)]),
        "actions": of(&|s| &s.actions),
        "next_normals": of(&|s| &s.normals[0]),
        "normals": of(&|s| &s.normals[1]),
        "reward": number(&|s| s.reward),
        "discount": number(&|s| s.discount),
    });
    merged(network_json(&case.network), fields)
}

/// JAX's gradients of cases of these networks, each in the order of the parameters.
fn by_jax(python: &Path, cases: &[(&Network, Value)]) -> Vec<Vec<f64>> {
    let dir = tempfile::tempdir().expect("a directory");
    let all: Vec<&Value> = cases.iter().map(|(_, case)| case).collect();
    std::fs::write(dir.path().join("cases.json"), json!(all).to_string()).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gradients.py");
    let ran = Command::new(python).arg(script).arg(dir.path()).output().expect("started");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(dir.path().join("gradients.json")).expect("written");
    let gradients: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(gradients.len(), cases.len());
    let of = |network: &Network, gradient: &Value| {
        let tensor = |name: &str| {
            gradient[name].as_array().expect("a gradient").iter().map(|x| x.as_f64().expect("a number"))
        };
        network.tensors.iter().flat_map(|t| tensor(&t.name).collect::<Vec<_>>()).collect()
    };
    cases.iter().zip(&gradients).map(|((network, _), gradient)| of(network, gradient)).collect()
}

/// The Python with JAX, if there is one.
fn python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("OPERANT_TEST_PYTHON");
    if python.is_none() {
        let problem = "no OPERANT_TEST_PYTHON with jax; cargo xtask python makes one";
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {problem}");
    }
    python.map(PathBuf::from)
}

#[test]
fn gradients_of_sac_and_td3_are_those_of_automatic_differentiation() {
    let Some(python) = python("gradients_of_sac_and_td3_are_those_of_automatic_differentiation") else {
        return;
    };
    let mut cases = minibatches();
    for Minibatches { config, .. } in &mut cases {
        // Neither the parameters nor the first moments remember anything but this gradient.
        (config.learning_rate, config.adam_beta1) = (0.0, 0.0);
        (config.vf_learning_rate, config.weight_decay, config.max_grad_norm) = (0.0, 0.0, 1e9);
        config.algorithms.sac.autotune = true;
    }
    let learned: Vec<_> = cases.iter().map(|case| case.learn(1, 1)).collect();
    let all = cases.iter().zip(&learned);
    let read: Vec<_> =
        all.clone().map(|(case, (_, made))| (&case.network, minibatch_json(case, &made[0].0))).collect();
    for ((case, (state, made)), expected) in all.zip(by_jax(&python, &read)) {
        let (network, samples) = (&case.network, &made[0].0);
        let before = sac::State::of(&case.state);
        let of = (network, &case.config);
        let (_, of_critics, _) = sac::critics(of, &before, samples);
        let ([_, logprob], of_policy) = sac::policy(of, &before, samples);
        let of_log_alpha = vec![sac::by_log_alpha(network, &case.config, logprob); network.len()];
        let engine: Vec<f64> = state.exp_avg.iter().map(|&x| f64::from(x)).collect();
        let gradients = [("critics", of_critics), ("actor", of_policy), ("log_alpha", of_log_alpha)];
        for (group, reference) in gradients {
            if group == "log_alpha" && network.log_alpha.is_none() {
                continue;
            }
            let of = |all: &[f64]| sac::parameters(network, group).map(|k| all[k]).collect::<Vec<f64>>();
            for (whose, gradient, bound) in [("reference", &reference, 1e-9), ("engine", &engine, 1e-6)] {
                let distance = distance(&of(gradient), &of(&expected));
                assert!(distance < bound, "{}: {group} of the {whose} {distance:e}", case.name);
            }
        }
    }
}

#[test]
fn gradients_of_dqn_are_those_of_automatic_differentiation() {
    let Some(python) = python("gradients_of_dqn_are_those_of_automatic_differentiation") else { return };
    let mut cases = dqn::minibatches();
    for Minibatches { config, .. } in &mut cases {
        (config.learning_rate, config.adam_beta1) = (0.0, 0.0);
        (config.weight_decay, config.max_grad_norm) = (0.0, 1e9);
    }
    let learned: Vec<_> = cases.iter().map(|case| case.learn(1, 1)).collect();
    let all = cases.iter().zip(&learned);
    let read: Vec<_> =
        all.clone().map(|(case, (_, made))| (&case.network, minibatch_json(case, &made[0].0))).collect();
    for ((case, (state, made)), expected) in all.zip(by_jax(&python, &read)) {
        let before = sac::State::of(&case.state);
        let (_, reference, _) = reference::dqn::loss(&case.network, &case.config, &before, &made[0].0);
        let engine: Vec<f64> = state.exp_avg.iter().map(|&x| f64::from(x)).collect();
        for (whose, gradient, bound) in [("reference", reference, 1e-9), ("engine", engine, 1e-6)] {
            let distance = distance(&gradient, &expected);
            assert!(distance < bound, "{}: the {whose} {distance:e}", case.name);
        }
    }
}

in_parts! { gradients_are_those_of_automatic_differentiation }

fn gradients_are_those_of_automatic_differentiation(part: Part) {
    let Some(python) = python("gradients_are_those_of_automatic_differentiation") else { return };
    let mut runner = TestRunner::deterministic();
    let descriptions: Vec<Description> =
        (0..COUNT).map(|_| description().new_tree(&mut runner).expect("a description").current()).collect();
    let made: Vec<Case> = (descriptions.iter().cloned())
        .map(|d| Case::seeded("random", d.seed, d.config, d.input, d.head, d.masked, d.encoding))
        .collect();
    assert!(made.iter().any(|case| case.network.architecture.items.is_some()), "candidates were drawn");
    let cores: std::collections::BTreeSet<&str> = made.iter().map(|case| case.config.core.name()).collect();
    assert_eq!(cores.len(), 4, "every core was drawn");
    assert!(made.iter().any(|case| case.config.algorithm == Algorithm::Pqn), "every algorithm was drawn");
    assert!(made.iter().any(|case| case.config.residual_blocks > 0), "residual blocks were drawn");
    for shared in [false, true] {
        let is_drawn = |case: &Case| case.config.value_bins > 1 && case.config.shared_trunk == shared;
        assert!(made.iter().any(is_drawn), "distributions of values were drawn");
    }
    for distribution in ActionDistribution::ALL {
        let is_drawn = |case: &Case| matches!(case.network.architecture.head, Head::Continuous(of) if of.distribution == distribution);
        assert!(made.iter().any(is_drawn), "{distribution} was drawn");
    }
    let made = part.of(5, made);
    let read: Vec<_> = made.iter().map(|case| (&case.network, to_json(case))).collect();
    let expected = by_jax(&python, &read);
    let mut worst = 0.0f64;
    for ((case, expected), description) in made.iter().zip(&expected).zip(part.of(5, &descriptions)) {
        let what = format!("{}: {description:?}", case.network.architecture);
        // The tests' own reference, in f64.
        let samples = samples(case);
        let params: Vec<f64> = case.params.iter().map(|&p| f64::from(p)).collect();
        let (_, _, gradient) = reference::loss(&case.network, &case.config, &params, &samples);
        assert!(distance(&gradient, expected) < 1e-9, "the reference, {what}");
        // The engine, in f32.
        let mut learner = Learner::new(case.network.clone(), case.layout.clone(), case.config.clone());
        let mut state = LearnerState::new(case.params.clone());
        learner.update(&mut state, &mut case.batch.clone(), 0).expect("alone");
        let gradient: Vec<f64> = state.exp_avg.iter().map(|&x| f64::from(x)).collect();
        let distance = distance(&gradient, expected);
        assert!(distance < TOLERANCE, "{distance:e}, {what}");
        worst = worst.max(distance);
    }
    println!("{} networks, largest distance from JAX's gradients {worst:.1e} of their norm", made.len());
}
