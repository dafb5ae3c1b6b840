//! Exported ONNX models compute what the policy computes, by onnxruntime: several components, masks, bounds, and observations of every kind.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use operant_env::{ActionSpace, ObsSpace};
use operant_learn::algorithms::Algorithm;
use operant_learn::cpu::inference::{Choice, Inference, ObsRows};
use operant_learn::network::{
    Architecture, Bins, Cell, Conv, Core, Embed, Head, Image, Input, Network, Outputs, Pool, init_params,
};
use operant_learn::{ActionDistribution, Activation, Config, LogStd, ObsNorm, TrainedPolicy};
use operant_run::{Mark, SavedPolicy, export};

/// Rows of each comparison.
const ROWS: usize = 100;

/// Checks the model in the working directory, and writes its outputs for the inputs there.
const SCRIPT: &str = "
import numpy as np, onnx, onnxruntime, sys
model = onnx.load('m.onnx')
onnx.checker.check_model(model, full_check=True)
names = [x.name for x in [*model.graph.input, *model.graph.initializer]] + [x for node in model.graph.node for x in node.output]
assert len(names) == len(set(names)), 'a name is assigned twice'
session = onnxruntime.InferenceSession('m.onnx')
feed = {i.name: np.fromfile(i.name, {'tensor(float)': 'f4', 'tensor(bool)': '?', 'tensor(int64)': 'i8', 'tensor(uint8)': 'u1'}[i.type])
        .reshape(-1, *i.shape[1:]) for i in session.get_inputs()}
for output, value in zip(session.get_outputs(), session.run(None, feed)):
    value.astype('f4').tofile(output.name)
";

/// What a network has besides hidden layers.
#[derive(Default)]
struct Layers<'a> {
    conv: Option<&'a [[usize; 3]]>,
    core: Option<Core>,
    pool: Option<Pool>,
    residual_blocks: usize,
    /// Items of a pointer head.
    items: Option<usize>,
    /// What it computes instead of a policy and a value.
    outputs: Option<Outputs>,
    /// The distribution of real actions.
    real: Config,
}

fn saved(
    obs: ObsSpace,
    actions: ActionSpace,
    masked: bool,
    shared_trunk: bool,
    layers: Layers<'_>,
) -> SavedPolicy {
    let Layers { conv, core, pool, residual_blocks, items, outputs, ref real } = layers;
    let features = obs.features();
    let input = if obs.is_binary() { Input::Bits(features) } else { Input::Dense(features) };
    let obs_norm =
        obs.is_real().then(|| ObsNorm { shift: vec![0.5; features], scale: vec![3.0; features], clip: 1.5 });
    let head = match &actions {
        ActionSpace::Discrete(choices) => Head::MultiDiscrete(choices.clone()),
        ActionSpace::Box { low, .. } => Head::continuous(low.len(), real),
    };
    let activation = if shared_trunk { Activation::Relu } else { Activation::Tanh };
    let hidden = vec![24, 17];
    let mut embed = pool.map(|pool| Embed::of(&obs, 7, pool).expect("indices"));
    let items = items.map(|count| {
        let image = Image { first: 0, extents: [count, 1, features / count] };
        embed = embed.take().map(|embed| embed.shared(image));
        image.embedded(embed.as_ref()).expect("items of tables")
    });
    let network = Network::new(Architecture {
        input,
        dueling: real.dueling,
        bins: Bins::of(real),
        packing: obs.packing(),
        conv: conv.map_or_else(Vec::new, |convs| {
            let image = Image::of(&obs).and_then(|image| image.embedded(embed.as_ref())).expect("an image");
            Conv::stack(image, convs).expect("convolutions that fit")
        }),
        items,
        hidden,
        embed: embed.clone(),
        layer_norm: embed.is_some(),
        residual_blocks,
        core,
        activation,
        shared_trunk: shared_trunk || outputs == Some(Outputs::ActionValues),
        head,
        outputs: outputs.unwrap_or(Outputs::PolicyAndValue),
        exploration: 0.0,
        log_std_init: -0.5,
        init: operant_learn::WeightInit::Orthogonal,
        temperature: None,
    });
    let params = init_params(&network, 3).iter().map(|x| 3.0 * x).collect();
    let policy = TrainedPolicy { env: "test".to_owned(), obs, actions, masked, network, params, obs_norm };
    SavedPolicy {
        config: String::new(),
        statistics: Vec::new(),
        is_changed: false,
        mark: Mark::Kept(None),
        run: "test".to_owned(),
        path: "test".into(),
        env_steps: 1,
        policy,
        env: Arc::clone(operant_env::builtin().find("cartpole").expect("built in")),
        env_options: Default::default(),
        seed: 1,
        opponent: None,
        warnings: Vec::new(),
    }
}

fn read(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Observations in words, `(N, words)`; each part is also given to `write`, as bytes in the type of the model's input.
fn observations(space: &ObsSpace, mut write: impl FnMut(&str, Vec<u8>)) -> Vec<u32> {
    let (width, mut words, mut first) = (space.words(), vec![0; ROWS * space.words()], 0);
    for (name, part) in space.parts() {
        let bounds: Vec<u32> = match part {
            ObsSpace::Index { .. } => part.bounds().collect(),
            ObsSpace::Binary { .. } => vec![2; part.size()],
            _ => vec![256; part.size()],
        };
        let per_word = match part {
            ObsSpace::Box { .. } => 1,
            ObsSpace::Binary { .. } => 32,
            ObsSpace::Index { below, .. } if below.iter().any(|&below| below > 256) => 2,
            _ => 4,
        };
        let mut bytes = Vec::new();
        for row in 0..ROWS {
            for (item, below) in bounds.iter().enumerate() {
                let value = ((row * part.size() + item + first) * 7919 % 1009) as u32 % below;
                let float = value as f32 / 128.0 - 1.0;
                match part {
                    ObsSpace::Box { .. } => bytes.extend(float.to_le_bytes()),
                    ObsSpace::Index { .. } => bytes.extend(i64::from(value).to_le_bytes()),
                    _ => bytes.push(value as u8),
                }
                let field = if per_word == 1 { float.to_bits() } else { value };
                words[row * width + first + item / per_word] |= field << (item % per_word * 32 / per_word);
            }
        }
        write(if name.is_empty() { "obs" } else { name }, bytes);
        first += part.words();
    }
    words
}

/// Compares onnxruntime's outputs with the engine's.
fn compare(python: &Path, saved: &SavedPolicy) {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let outputs = saved.policy.network.policy_outputs();
    let words = observations(&saved.policy.obs, |name, bytes| {
        let is_other = ["action", "value"].contains(&name);
        let file = if is_other { at(&format!("obs.{name}")) } else { at(name) };
        std::fs::write(file, bytes).expect("written");
    });
    let obs = ObsRows::Words(&words);
    // At least one choice of each component is legal: every third and every fifth.
    let legal: Vec<i8> = (0..ROWS * outputs)
        .map(|i| i8::from((i % outputs).is_multiple_of(3) || i.is_multiple_of(5)))
        .collect();
    std::fs::write(at("action_mask"), legal.iter().map(|&x| x as u8).collect::<Vec<u8>>()).expect("written");
    let states: Vec<f32> =
        (0..ROWS * saved.policy.network.states).map(|i| (i * 31 % 17) as f32 / 9.0 - 0.9).collect();
    let bytes: Vec<u8> = states.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(at("core_state"), bytes).expect("written");
    export::write_onnx(saved, &at("m.onnx")).expect("written");
    let ran = Command::new(python).args(["-c", SCRIPT]).current_dir(dir.path()).output().expect("started");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let inference = Inference::new(saved.policy.clone());
    let (mut logits, mut values) = (vec![0.0; ROWS * outputs], vec![0.0; ROWS]);
    let mut next = states.clone();
    inference.evaluate(obs, &mut next, &mut logits, &mut values);
    let mut actions = vec![0.0; ROWS * saved.policy.actions.components()];
    let mask = saved.policy.masked.then_some(&legal[..]);
    let mut after = states.clone();
    inference.act(obs, mask, Choice::Greedy, &mut after, &mut actions);
    assert_eq!(next, after);
    let close = |name: &str, ours: &[f32]| {
        let theirs = read(&at(name));
        assert_eq!(theirs.len(), ours.len(), "{name}");
        let scale = ours.iter().fold(1.0f32, |most, x| most.max(x.abs()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() <= 1e-5 * scale, "{name}: {ours} and {theirs}");
        }
    };
    let name = match saved.policy.network.architecture.outputs {
        Outputs::ActionValues => "q_values",
        _ => "logits",
    };
    if saved.policy.masked {
        let theirs = read(&at(name));
        for ((ours, theirs), legal) in logits.iter().zip(theirs).zip(&legal) {
            let expected = if *legal == 1 { *ours } else { -1e8 };
            assert!((theirs - expected).abs() <= 1e-4, "{name}: {expected} and {theirs}");
        }
    } else if let Head::Continuous(of) = saved.policy.network.architecture.head {
        let of_side = |side: usize, f: &dyn Fn(f32) -> f32| -> Vec<f32> {
            let rows = logits.chunks_exact(outputs);
            rows.flat_map(|row| row.chunks_exact(of.actions).nth(side).unwrap().iter().map(|&x| f(x)))
                .collect()
        };
        if of.distribution == ActionDistribution::Beta {
            let shape = |x: f32| 1.0 + x.exp().ln_1p();
            close("alpha", &of_side(0, &shape));
            close("beta", &of_side(1, &shape));
        } else {
            close("mean", &of_side(0, &|x| x));
        }
        if of.computes_log_std() {
            close("log_std", &of_side(1, &|x| -1.5 + 3.5 * ((x + 1.5) / 3.5).tanh()));
        }
    } else {
        close(name, &logits);
    }
    if !saved.policy.network.architecture.outputs.has_critics() {
        close("value", &values);
    }
    if !states.is_empty() {
        close("next_core_state", &next);
    }
    close("action", &actions);
}

#[test]
fn onnxruntime_computes_what_the_engine_does() {
    let Some(python) = std::env::var_os("OPERANT_TEST_PYTHON") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED onnxruntime_computes_what_the_engine_does: no OPERANT_TEST_PYTHON with onnxruntime; cargo xtask python makes one"
        );
        return;
    };
    let floats = ObsSpace::symmetric(&[1.0; 5]);
    let bits = ObsSpace::Binary { shape: vec![3, 4, 5] };
    let bounds = ActionSpace::Box { low: vec![-0.2, -2.0], high: vec![0.1, 9.0] };
    let index =
        |shape: &[usize], below: &[u32]| ObsSpace::Index { shape: shape.to_vec(), below: below.to_vec() };
    let parts = |parts: &[(&str, &ObsSpace)]| {
        ObsSpace::Parts(parts.iter().map(|&(name, part)| (name.to_owned(), part.clone())).collect())
    };
    let image = ObsSpace::Bytes { shape: vec![3, 5] };
    let cells = index(&[3, 2, 3], &[11, 6, 3]);
    let all = parts(&[
        ("image", &image),
        ("cells", &cells),
        ("direction", &index(&[], &[4])),
        ("speed", &floats),
        ("flags", &bits),
    ]);
    let symbols = parts(&[("cells", &cells), ("flags", &bits)]);
    let numbers = parts(&[("speed", &floats), ("position", &floats)]);
    // Names of other inputs and outputs, and of inner results.
    let others = parts(&[
        ("action", &index(&[], &[4])),
        ("value", &bits),
        ("pose_one_hot", &cells),
        ("pose", &index(&[2], &[3])),
        ("obs_features", &floats),
        ("logits_of_all", &image),
    ]);
    let four = || ActionSpace::Discrete(vec![4]);
    for (obs, actions, masked, shared_trunk) in [
        (index(&[], &[500]), four(), false, true),
        (index(&[3], &[32, 11, 2]), four(), false, false),
        (index(&[2, 5], &[1000]), four(), true, false),
        (image, four(), false, true),
        (all, four(), true, false),
        (symbols, four(), false, false),
        (numbers, bounds.clone(), false, true),
        (others, four(), true, false),
        (floats.clone(), ActionSpace::Discrete(vec![4]), false, true),
        (floats.clone(), ActionSpace::Discrete(vec![6]), true, false),
        (bits, ActionSpace::Discrete(vec![3, 6, 4]), true, true),
        (floats, bounds, false, false),
    ] {
        compare(Path::new(&python), &saved(obs, actions, masked, shared_trunk, Layers::default()));
    }
    let planes = ObsSpace::Binary { shape: vec![7, 6, 2] };
    let pixels = ObsSpace::Bytes { shape: vec![9, 9, 3] };
    let cells = parts(&[
        ("speed", &index(&[], &[3])),
        ("cells", &index(&[5, 4, 3], &[11, 6, 3])),
        ("direction", &index(&[], &[4])),
    ]);
    for (obs, masked, shared_trunk, conv) in [
        (planes, false, true, &[[5, 3, 2]][..]),
        (pixels, false, false, &[[4, 3, 2], [17, 2, 1]]),
        (cells, true, true, &[[6, 2, 1], [3, 2, 2]]),
    ] {
        compare(
            Path::new(&python),
            &saved(obs, four(), masked, shared_trunk, Layers { conv: Some(conv), ..Layers::default() }),
        );
    }
    let floats = ObsSpace::symmetric(&[1.0; 5]);
    let planes = ObsSpace::Binary { shape: vec![7, 6, 2] };
    let core = |cell, width, layers| Some(Core { cell, width, layers });
    // A part may have the name that a state would have.
    let named = parts(&[("state", &index(&[2, 3], &[5])), ("flags", &ObsSpace::Binary { shape: vec![3] })]);
    for (obs, masked, shared_trunk, conv, core) in [
        (named, true, true, None, core(Cell::Gru, 5, 1)),
        (floats.clone(), false, true, None, core(Cell::MinGru, 17, 2)),
        (floats, true, false, None, core(Cell::Gru, 9, 1)),
        (planes, false, false, Some(&[[5, 3, 2]][..]), core(Cell::Lstm, 6, 2)),
    ] {
        compare(
            Path::new(&python),
            &saved(obs, four(), masked, shared_trunk, Layers { conv, core, ..Layers::default() }),
        );
    }
    let symbols = parts(&[
        ("speed", &index(&[], &[3])),
        ("flags", &ObsSpace::Binary { shape: vec![3] }),
        ("cells", &index(&[5, 4, 3], &[11, 6, 3])),
    ]);
    for (pool, conv) in
        [(Pool::Concat, Some(&[[6, 2, 1]][..])), (Pool::Concat, None), (Pool::Sum, None), (Pool::Mean, None)]
    {
        let layers = Layers { conv, pool: Some(pool), ..Layers::default() };
        compare(Path::new(&python), &saved(symbols.clone(), four(), true, false, layers));
    }
    let floats = ObsSpace::symmetric(&[1.0; 5]);
    for (actions, masked, core) in [
        (four(), false, None),
        (ActionSpace::Discrete(vec![3, 6, 4]), true, None),
        (ActionSpace::Discrete(vec![3, 6]), false, core(Cell::Gru, 9, 1)),
    ] {
        let layers = Layers { core, outputs: Some(Outputs::ActionValues), ..Layers::default() };
        compare(Path::new(&python), &saved(floats.clone(), actions, masked, true, layers));
    }
    for (shared_trunk, log_std) in
        [(true, LogStd::Network), (false, LogStd::Network), (false, LogStd::Parameter)]
    {
        let real = Config { action_distribution: ActionDistribution::Tanh, log_std, ..Config::default() };
        let core = core(Cell::Lstm, 6, 1).filter(|_| shared_trunk);
        let bounds = ActionSpace::Box { low: vec![-0.2, -2.0], high: vec![0.1, 9.0] };
        let layers = Layers { core, real, ..Layers::default() };
        compare(Path::new(&python), &saved(floats.clone(), bounds, false, shared_trunk, layers));
    }
    let real = Config { dueling: true, ..Config::default() };
    let dueling = Layers { outputs: Some(Outputs::ActionValues), real, ..Layers::default() };
    compare(
        Path::new(&python),
        &saved(floats.clone(), ActionSpace::Discrete(vec![3, 4]), true, true, dueling),
    );
    let real = Config { value_bins: 7, ..Config::default() };
    for (outputs, shared_trunk) in [(Some(Outputs::ActionValues), true), (None, true), (None, false)] {
        let bins = Layers { outputs, real: real.clone(), ..Layers::default() };
        compare(Path::new(&python), &saved(floats.clone(), four(), true, shared_trunk, bins));
    }
    for algorithm in [Algorithm::Sac, Algorithm::Td3] {
        let action_distribution = ActionDistribution::Tanh;
        let log_std = LogStd::Network;
        let real = Config { algorithm, action_distribution, log_std, value_bins: 5, ..Config::default() };
        let bounds = ActionSpace::Box { low: vec![-0.2, -2.0], high: vec![0.1, 9.0] };
        let layers = Layers { outputs: Some(algorithm.declaration().outputs), real, ..Layers::default() };
        compare(Path::new(&python), &saved(floats.clone(), bounds, false, false, layers));
    }
    let candidates = parts(&[("now", &index(&[3, 2], &[7, 5])), ("next", &index(&[4, 3, 2], &[7, 5]))]);
    for (shared_trunk, pool) in [(true, None), (false, None), (false, Some(Pool::Concat))] {
        let layers = Layers { pool, items: Some(5), ..Layers::default() };
        compare(Path::new(&python), &saved(candidates.clone(), four(), true, shared_trunk, layers));
    }
    let layers = Layers { items: Some(5), outputs: Some(Outputs::ActionValues), ..Layers::default() };
    compare(Path::new(&python), &saved(candidates, four(), true, true, layers));
    for shared_trunk in [true, false] {
        let layers = Layers { residual_blocks: 2, ..Layers::default() };
        compare(
            Path::new(&python),
            &saved(ObsSpace::symmetric(&[1.0; 5]), four(), false, shared_trunk, layers),
        );
    }
}
