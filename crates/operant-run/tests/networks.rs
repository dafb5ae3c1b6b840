//! Networks of every kind, with observations for them: what exports are compared with.

use std::sync::Arc;

use operant_env::{ActionSpace, ObsSpace};
use operant_learn::algorithms::Algorithm;
use operant_learn::network::{
    Architecture, Bins, Cell, Conv, Core, Embed, Head, Image, Input, Network, Outputs, Pool, init_params,
};
use operant_learn::{ActionDistribution, Activation, Config, LogStd, ObsNorm, TrainedPolicy};
use operant_run::{Mark, SavedPolicy};

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
        intrinsic_value: real.intrinsic_gamma > 0.0,
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

/// `rows` observations in words, `(N, words)`; each part is also given to `write`, as bytes in the type of the model's input.
pub fn observations(space: &ObsSpace, rows: usize, mut write: impl FnMut(&str, Vec<u8>)) -> Vec<u32> {
    let (width, mut words, mut first) = (space.words(), vec![0; rows * space.words()], 0);
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
        for row in 0..rows {
            for (item, below) in bounds.iter().enumerate() {
                let number = (row * part.size() + item + first) as u32;
                let value = (number.wrapping_mul(0x9e37_79b9) >> 12) % 1009 % below;
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

/// Policies of all kinds of networks, observations and actions.
pub fn all() -> Vec<SavedPolicy> {
    let mut policies = Vec::new();
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
        policies.push(saved(obs, actions, masked, shared_trunk, Layers::default()));
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
        policies.push(saved(
            obs,
            four(),
            masked,
            shared_trunk,
            Layers { conv: Some(conv), ..Layers::default() },
        ));
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
        policies.push(saved(obs, four(), masked, shared_trunk, Layers { conv, core, ..Layers::default() }));
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
        policies.push(saved(symbols.clone(), four(), true, false, layers));
    }
    let floats = ObsSpace::symmetric(&[1.0; 5]);
    for (actions, masked, core) in [
        (four(), false, None),
        (ActionSpace::Discrete(vec![3, 6, 4]), true, None),
        (ActionSpace::Discrete(vec![3, 6]), false, core(Cell::Gru, 9, 1)),
    ] {
        let layers = Layers { core, outputs: Some(Outputs::ActionValues), ..Layers::default() };
        policies.push(saved(floats.clone(), actions, masked, true, layers));
    }
    for (shared_trunk, log_std) in
        [(true, LogStd::Network), (false, LogStd::Network), (false, LogStd::Parameter)]
    {
        let real = Config { action_distribution: ActionDistribution::Tanh, log_std, ..Config::default() };
        let core = core(Cell::Lstm, 6, 1).filter(|_| shared_trunk);
        let bounds = ActionSpace::Box { low: vec![-0.2, -2.0], high: vec![0.1, 9.0] };
        let layers = Layers { core, real, ..Layers::default() };
        policies.push(saved(floats.clone(), bounds, false, shared_trunk, layers));
    }
    let real = Config { dueling: true, ..Config::default() };
    let dueling = Layers { outputs: Some(Outputs::ActionValues), real, ..Layers::default() };
    policies.push(saved(floats.clone(), ActionSpace::Discrete(vec![3, 4]), true, true, dueling));
    let real = Config { value_bins: 7, ..Config::default() };
    for (outputs, shared_trunk) in [(Some(Outputs::ActionValues), true), (None, true), (None, false)] {
        let bins = Layers { outputs, real: real.clone(), ..Layers::default() };
        policies.push(saved(floats.clone(), four(), true, shared_trunk, bins));
    }
    let real = Config { intrinsic_gamma: 0.9, ..Config::default() };
    for (shared_trunk, core) in [(true, core(Cell::Gru, 9, 1)), (false, None)] {
        let layers = Layers { core, real: real.clone(), ..Layers::default() };
        policies.push(saved(floats.clone(), four(), true, shared_trunk, layers));
    }
    for algorithm in [Algorithm::Sac, Algorithm::Td3] {
        let action_distribution = ActionDistribution::Tanh;
        let log_std = LogStd::Network;
        let real = Config { algorithm, action_distribution, log_std, value_bins: 5, ..Config::default() };
        let bounds = ActionSpace::Box { low: vec![-0.2, -2.0], high: vec![0.1, 9.0] };
        let layers = Layers { outputs: Some(algorithm.declaration().outputs), real, ..Layers::default() };
        policies.push(saved(floats.clone(), bounds, false, false, layers));
    }
    let candidates = parts(&[("now", &index(&[3, 2], &[7, 5])), ("next", &index(&[4, 3, 2], &[7, 5]))]);
    for (shared_trunk, pool) in [(true, None), (false, None), (false, Some(Pool::Concat))] {
        let layers = Layers { pool, items: Some(5), ..Layers::default() };
        policies.push(saved(candidates.clone(), four(), true, shared_trunk, layers));
    }
    let layers = Layers { items: Some(5), outputs: Some(Outputs::ActionValues), ..Layers::default() };
    policies.push(saved(candidates, four(), true, true, layers));
    for shared_trunk in [true, false] {
        let layers = Layers { residual_blocks: 2, ..Layers::default() };
        policies.push(saved(ObsSpace::symmetric(&[1.0; 5]), four(), false, shared_trunk, layers));
    }
    let real = Config { action_distribution: ActionDistribution::Beta, ..Config::default() };
    let bounds = ActionSpace::Box { low: vec![-0.2, -2.0], high: vec![0.1, 9.0] };
    policies.push(saved(floats, bounds, false, true, Layers { real, ..Layers::default() }));
    policies
}
