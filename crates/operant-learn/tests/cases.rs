//! The shapes that the learner's tests run through: every head, masks, packed observations, both trunks, both
//! nonlinearities, awkward sizes; and batches of random samples for them.

use std::sync::LazyLock;

use operant_lane::isa::f32x16;
use operant_learn::cpu::batch::Batch;
use operant_learn::network::{
    Architecture, Conv, Core, Embed, EmbedPart, Head, Image, Input, Network, Pool, init_params,
};
use operant_learn::sample::SampleLayout;
use operant_learn::{
    ActionDistribution, Activation, Config, CoreKind, Intrinsic, LogStd, ShuffleKind, ValueLoss,
};
use operant_parity::reference;

/// A configuration and what it trains on.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    pub config: Config,
    pub network: Network,
    pub layout: SampleLayout,
    pub params: Vec<f32>,
    pub batch: Batch,
}

/// What comes before the hidden layers.
#[derive(Debug, Clone, Default)]
pub struct Encoding {
    pub embed: Option<Embed>,
    pub conv: Vec<Conv>,
    pub items: Option<Image>,
}

/// A small generator (Steele, Lea and Flood's SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [-1, 1).
    pub fn float(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

pub fn config(num_envs: usize, num_steps: usize, num_minibatches: usize) -> Config {
    Config {
        seed: 3,
        total_timesteps: 10 * (num_envs * num_steps) as u64,
        num_envs,
        num_steps,
        learning_rate: 1e-3,
        num_minibatches,
        update_epochs: 3,
        shared_trunk: true,
        log_std_init: -0.3,
        ..Config::default()
    }
    .ppo(|ppo| ppo.ent_coef = 0.02)
}

impl Case {
    /// The central difference of the reference's loss by parameter `k`.
    pub fn difference(&self, params: &[f64], samples: &[reference::Sample], k: usize) -> f64 {
        let at = |step: f64| {
            let mut moved = params.to_vec();
            moved[k] += step;
            let (tape, total, _) = reference::on_tape(&self.network, &self.config, &moved, samples);
            tape.value(total)
        };
        (at(1e-6) - at(-1e-6)) / 2e-6
    }

    pub fn new(name: &'static str, config: Config, input: Input, head: Head, masked: bool) -> Self {
        Self::with_conv(name, config, input, head, masked, vec![])
    }

    /// With convolutions.
    pub fn with_conv(
        name: &'static str,
        config: Config,
        input: Input,
        head: Head,
        masked: bool,
        conv: Vec<Conv>,
    ) -> Self {
        let encoding = Encoding { conv, ..Encoding::default() };
        Self::seeded(name, name.len() as u64 * 1_000 + 17, config, input, head, masked, encoding)
    }

    /// Like `with_conv`, with other random numbers.
    pub fn seeded(
        name: &'static str,
        seed: u64,
        config: Config,
        input: Input,
        head: Head,
        masked: bool,
        encoding: Encoding,
    ) -> Self {
        let core = Core::of(&config).expect("a core that fits");
        let Encoding { embed, conv, items } = encoding;
        let architecture =
            Architecture { embed, conv, items, core, ..Architecture::new(&config, input, head) };
        let layout = SampleLayout::new(&architecture, masked);
        let network = Network::new(architecture);
        let mut random = Random(seed);
        let mut params = init_params(&network, config.seed);
        // Away from the initial near-uniform policy, whose gradients are too simple.
        params.iter_mut().for_each(|p| *p += 0.2 * random.float() as f32);
        let batch = random_batch(&config, &network, &layout, &params, &mut random);
        Self { name, config, network, layout, params, batch }
    }
}

/// Samples near `params`' own policy and values, some ratios and values beyond the clipping range.
fn random_batch(
    config: &Config,
    network: &Network,
    layout: &SampleLayout,
    params: &[f32],
    random: &mut Random,
) -> Batch {
    let params: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
    let mut batch = Batch::new(layout.clone(), config.num_envs, config.num_steps)
        .with_states(config.sequence(), network.states)
        .with_outcomes(config.recomputes());
    let head = &network.architecture.head;
    for tile in batch.tiles_mut(1) {
        for words in tile.words.chunks_exact_mut(layout.stride) {
            match network.architecture.input {
                Input::Dense(n) => {
                    (0..n).for_each(|k| words[layout.obs + k] = (random.float() as f32).to_bits())
                }
                Input::Bits(n) => {
                    // Indices are not one-hot here: the arithmetic is that of any bits.
                    for k in (0..n).filter(|_| random.bits().is_multiple_of(4)).collect::<Vec<_>>() {
                        words[layout.obs + k / 32] |= 1 << (k % 32);
                    }
                }
            }
            let mut actions = Vec::new();
            match head {
                Head::MultiDiscrete(counts) => {
                    let mut first = 0;
                    for &count in counts {
                        let action = random.bits() as usize % count;
                        for k in (first..first + count).filter(|_| layout.mask_words > 0) {
                            if k == first + action || !random.bits().is_multiple_of(3) {
                                words[layout.mask + k / 32] |= 1 << (k % 32);
                            }
                        }
                        actions.push(action as f32);
                        first += count;
                    }
                }
                Head::Continuous(of) => {
                    let number = |_| match of.distribution {
                        ActionDistribution::Beta => 0.5 + 0.49 * random.float() as f32,
                        _ => random.float() as f32,
                    };
                    actions.extend((0..of.actions).map(number));
                }
            }
            for (k, action) in actions.into_iter().enumerate() {
                words[layout.actions + k] = action.to_bits();
            }
            words[layout.advantage] = (2.0 * random.float() as f32 + 0.3).to_bits();
            // Values within and beyond the clipping range, and advantages.
            for field in layout.intrinsic.into_iter().flat_map(|field| [field, field + 1]) {
                words[field] = (random.float() as f32).to_bits();
            }
        }
    }
    if network.states > 0 {
        let row = |random: &mut Random| [f32x16::new(core::array::from_fn(|_| random.float() as f32))];
        for mut tile in batch.tiles_mut(1) {
            for t in 0..config.num_steps {
                let states: Vec<_> = (0..network.states).map(|_| row(random)).collect();
                tile.put_states(t, &states);
                // An episode begins at about every seventh step.
                let keep = row(random)[0].to_array().map(|x| if x > 0.7 { 0.0 } else { 1.0 });
                tile.put(t, layout.keep.expect("memory"), &[f32x16::new(keep)]);
            }
        }
    }
    if config.recomputes() {
        let row = |random: &mut Random| [f32x16::new(core::array::from_fn(|_| random.float() as f32))];
        for mut tile in batch.tiles_mut(1) {
            let rewards: Vec<_> = (0..config.num_steps).map(|_| row(random)).collect();
            let ended = |x: f32| f32::from(x > 0.8);
            let done: Vec<_> =
                (0..config.num_steps).map(|_| [f32x16::new(row(random)[0].to_array().map(ended))]).collect();
            tile.put_outcomes(&rewards, &done, &row(random));
        }
    }
    // Log-probabilities and values follow from the rest.
    let samples = reference::sequences(network, &batch, 0..batch.sequences());
    let mut made = reference::logprobs_and_values(network, &params, &samples).into_iter();
    let mut values = vec![[0.0; 2]; batch.len()];
    for sequence in 0..batch.sequences() {
        let [first, stride] = batch.steps_of(sequence);
        (0..batch.sequence()).for_each(|t| values[first + t * stride] = made.next().expect("a sample"));
    }
    let mut i = 0;
    for tile in batch.tiles_mut(1) {
        for words in tile.words.chunks_exact_mut(layout.stride) {
            let [logprob, value] = values[i];
            if let Some(field) = layout.logprob {
                words[field] = ((logprob + 0.4 * random.float()) as f32).to_bits();
            }
            words[layout.value] = ((value + 0.4 * random.float()) as f32).to_bits();
            i += 1;
        }
    }
    batch
}

/// Layers with memory.
fn memories() -> Vec<Case> {
    let with = |mut config: Config, change: &dyn Fn(&mut Config)| {
        change(&mut config);
        config
    };
    let discrete = |counts: &[usize]| Head::MultiDiscrete(counts.to_vec());
    vec![
        Case::new(
            "mingru, two layers",
            with(config(18, 10, 3), &|c| {
                (c.core, c.hidden, c.core_layers) = (CoreKind::MinGru, vec![9, 12], 2)
            }),
            Input::Dense(5),
            discrete(&[3]),
            false,
        ),
        Case::new(
            "gru, separate, masked, sequences of five",
            with(config(7, 15, 3), &|c| {
                (c.core, c.core_width, c.sequence_length) = (CoreKind::Gru, 11, 5);
                (c.hidden, c.shared_trunk, c.activation) = (vec![8], false, Activation::Relu);
            }),
            Input::Bits(40),
            discrete(&[2, 3]),
            true,
        ),
        Case::new(
            "lstm, gaussian",
            with(config(20, 8, 2), &|c| {
                (c.core, c.core_width, c.sequence_length, c.hidden) = (CoreKind::Lstm, 17, 4, vec![13]);
            }),
            Input::Dense(6),
            Head::gaussian(2),
            false,
        ),
        Case::new(
            "lstm, two layers, separate, one environment",
            with(config(1, 24, 2), &|c| {
                (c.core, c.core_width, c.core_layers, c.sequence_length) = (CoreKind::Lstm, 6, 2, 12);
                (c.hidden, c.shared_trunk) = (vec![7], false);
            }),
            Input::Dense(3),
            discrete(&[4]),
            false,
        ),
    ]
}

/// Convolutions.
fn convolutions() -> Vec<Case> {
    let conv = |first, extents, convs: &[[usize; 3]]| {
        Conv::stack(Image { first, extents }, convs).expect("convolutions that fit")
    };
    let mut over_bits = config(6, 44, 2);
    (over_bits.hidden, over_bits.activation) = (vec![24], Activation::Relu);
    let mut over_numbers = config(5, 30, 1);
    (over_numbers.hidden, over_numbers.shared_trunk) = (vec![], false);
    let discrete = |counts: &[usize]| Head::MultiDiscrete(counts.to_vec());
    vec![
        Case::with_conv(
            "convolutions over bits, some of which are not of the image, relu, masked",
            over_bits,
            Input::Bits(3 + 7 * 6 * 2 + 5),
            discrete(&[5]),
            true,
            conv(3, [7, 6, 2], &[[17, 3, 1], [4, 2, 2]]),
        ),
        Case::with_conv(
            "a convolution over numbers, separate, tanh",
            over_numbers,
            Input::Dense(2 + 5 * 5 * 3),
            discrete(&[2, 3]),
            false,
            conv(2, [5, 5, 3], &[[6, 2, 1]]),
        ),
    ]
}

/// Embeddings and normalised layers.
fn tables() -> Vec<Case> {
    let part = |name: &str, first, positions, rows| EmbedPart {
        name: name.into(),
        first,
        positions,
        indices: 1,
        rows,
    };
    let case = |name: &'static str, seed, change: &dyn Fn(&mut Config), encoding: Encoding| {
        let mut config = config(8, 30, 2);
        change(&mut config);
        let head = Head::MultiDiscrete(vec![3, 2]);
        Case::seeded(name, seed, config, Input::Bits(4 + 6 * 5 + 3 + 7), head, true, encoding)
    };
    let grid = |pool, width| Embed { parts: vec![part("a", 4, 6, 5), part("b", 37, 1, 7)], width, pool };
    let image = Image { first: 0, extents: [2, 3, 18] };
    vec![
        case(
            "tables side by side, convolutions over them, normalised layers, relu",
            1,
            &|c| (c.hidden, c.layer_norm, c.activation) = (vec![20, 9], true, Activation::Relu),
            Encoding {
                embed: Some(grid(Pool::Concat, 18)),
                conv: Conv::stack(image, &[[5, 2, 1]]).expect("they fit"),
                items: None,
            },
        ),
        case(
            "sums of tables, separate, normalised, gru",
            2,
            &|c| {
                (c.hidden, c.layer_norm, c.shared_trunk) = (vec![12], true, false);
                (c.core, c.sequence_length) = (CoreKind::Gru, 10);
            },
            Encoding { embed: Some(grid(Pool::Sum, 5)), ..Encoding::default() },
        ),
        case(
            "means of tables",
            3,
            &|c| c.hidden = vec![16],
            Encoding { embed: Some(grid(Pool::Mean, 33)), ..Encoding::default() },
        ),
        case_over_numbers("tables among numbers", 4, Pool::Concat, &grid),
        case_over_numbers("means of tables among numbers, separate", 5, Pool::Mean, &grid),
    ]
}

/// Tables whose indices are next to real numbers.
fn case_over_numbers(name: &'static str, seed: u64, pool: Pool, grid: &dyn Fn(Pool, usize) -> Embed) -> Case {
    let config = Config { shared_trunk: pool == Pool::Concat, hidden: vec![14], ..config(9, 20, 2) };
    let encoding = Encoding { embed: Some(grid(pool, 19)), ..Encoding::default() };
    let head = Head::MultiDiscrete(vec![4]);
    Case::seeded(name, seed, config, Input::Dense(4 + 6 * 5 + 3 + 7), head, true, encoding)
}

/// Pointer heads.
fn pointers() -> Vec<Case> {
    let case = |name: &'static str, config: Config, input, choices: usize, encoding: Encoding| {
        Case::seeded(name, 5, config, input, Head::MultiDiscrete(vec![choices]), true, encoding)
    };
    let items = |first, count, depth| Some(Image { first, extents: [count, 1, depth] });
    let (mut over_bits, mut over_numbers, mut over_tables) =
        (config(9, 20, 2), config(4, 33, 1), config(16, 16, 2));
    over_bits.hidden = vec![24, 17];
    (over_numbers.hidden, over_numbers.shared_trunk) = (vec![12], false);
    (over_tables.hidden, over_tables.shared_trunk) = (vec![20, 16], false);
    (over_tables.layer_norm, over_tables.activation) = (true, Activation::Relu);
    let part = EmbedPart { name: "state".into(), first: 0, positions: 4 * 3, indices: 1, rows: 6 };
    let embed = Embed { parts: vec![part], width: 7, pool: Pool::Concat };
    vec![
        case(
            "candidates of bits",
            over_bits,
            Input::Bits(3 + 6 * 11),
            5,
            Encoding { items: items(3, 6, 11), ..Encoding::default() },
        ),
        case(
            "candidates of numbers, separate",
            over_numbers,
            Input::Dense(36 * 5),
            35,
            Encoding { items: items(0, 36, 5), ..Encoding::default() },
        ),
        case(
            "candidates of tables, separate, normalised layers, relu",
            over_tables,
            Input::Bits(4 * 3 * 6),
            3,
            Encoding { embed: Some(embed), items: items(0, 4, 3 * 7), ..Encoding::default() },
        ),
    ]
}

/// Distributions of real actions.
fn reals() -> Vec<Case> {
    let case = |name: &'static str, actions, change: &dyn Fn(&mut Config)| {
        let mut config = config(18, 12, 3);
        config.hidden = vec![20, 9];
        change(&mut config);
        let head = Head::continuous(actions, &config);
        Case::new(name, config, Input::Dense(5), head, false)
    };
    vec![
        case("normal with noise", 3, &|c| c.algorithms.ppo.rpo_alpha = 0.5),
        case("deviations of the network", 3, &|c| c.log_std = LogStd::Network),
        case("deviations of the network, separate, lstm, noise", 2, &|c| {
            (c.log_std, c.shared_trunk, c.core) = (LogStd::Network, false, CoreKind::Lstm);
            (c.sequence_length, c.algorithms.ppo.rpo_alpha) = (6, 0.4);
        }),
        case("squashed", 1, &|c| c.action_distribution = ActionDistribution::Tanh),
        case("squashed, separate, deviations of the network, noise, gru", 3, &|c| {
            (c.action_distribution, c.log_std) = (ActionDistribution::Tanh, LogStd::Network);
            (c.shared_trunk, c.core, c.algorithms.ppo.rpo_alpha) = (false, CoreKind::Gru, 0.2);
        }),
        case("beta", 2, &|c| c.action_distribution = ActionDistribution::Beta),
        case("beta, separate, mingru", 3, &|c| {
            (c.action_distribution, c.core) = (ActionDistribution::Beta, CoreKind::MinGru);
            c.shared_trunk = false;
        }),
    ]
}

/// Residual blocks.
fn residuals() -> Vec<Case> {
    let with = |mut config: Config, change: &dyn Fn(&mut Config)| {
        change(&mut config);
        config
    };
    let discrete = |counts: &[usize]| Head::MultiDiscrete(counts.to_vec());
    vec![
        Case::new(
            "residual blocks, separate, normalised, relu",
            with(config(6, 20, 2), &|c| {
                (c.hidden, c.residual_blocks, c.layer_norm) = (vec![7, 19], 2, true);
                (c.shared_trunk, c.activation) = (false, Activation::Relu);
            }),
            Input::Dense(5),
            discrete(&[3]),
            false,
        ),
        Case::new(
            "residual blocks over bits, gru",
            with(config(5, 12, 2), &|c| {
                (c.hidden, c.residual_blocks) = (vec![10], 1);
                (c.core, c.sequence_length) = (CoreKind::Gru, 6);
            }),
            Input::Bits(37),
            discrete(&[2, 3]),
            true,
        ),
    ]
}

/// Distributions of values.
fn distributions() -> Vec<Case> {
    let with = |config: Config, change: &dyn Fn(&mut Config)| {
        let mut config = Config { value_bins: 9, value_min: -1.0, value_max: 1.5, ..config }
            .ppo(|ppo| ppo.clip_vloss = false);
        change(&mut config);
        config
    };
    vec![
        Case::new(
            "distributions of values, again, masked",
            with(config(17, 12, 3), &|c| {
                c.recompute_advantages = true;
            }),
            Input::Bits(40),
            Head::MultiDiscrete(vec![2, 3]),
            true,
        ),
        Case::new(
            "distributions of values, separate, gru, gaussian",
            with(config(7, 15, 3), &|c| {
                (c.shared_trunk, c.hidden) = (false, vec![20, 9]);
                (c.core, c.sequence_length) = (CoreKind::Gru, 5);
            }),
            Input::Dense(5),
            Head::gaussian(2),
            false,
        ),
    ]
}

/// Rewards for exploring with a value of their own.
pub fn two_values() -> Vec<Case> {
    let config = |num_envs, num_steps, num_minibatches| Config {
        intrinsic: Intrinsic::Rnd,
        intrinsic_gamma: 0.9,
        hidden: vec![14],
        ..config(num_envs, num_steps, num_minibatches)
    };
    vec![
        Case::new(
            "two values, masked, gru",
            Config { core: CoreKind::Gru, core_width: 11, sequence_length: 5, ..config(7, 15, 3) },
            Input::Bits(40),
            Head::MultiDiscrete(vec![2, 3]),
            true,
        ),
        Case::new(
            "two values, separate, critic alone, huber, gaussian, draws by priority",
            Config {
                shared_trunk: false,
                value_loss: ValueLoss::Huber,
                huber_delta: 0.3,
                ..config(6, 40, 4)
            }
            .ppo(|ppo| (ppo.vf_epochs, ppo.prio_alpha, ppo.clip_vloss) = (2, 0.5, false)),
            Input::Dense(5),
            Head::gaussian(2),
            false,
        ),
    ]
}

/// Options of advantages and values.
pub fn options() -> Vec<Case> {
    let with = |mut config: Config, rho, c, change: &dyn Fn(&mut Config)| {
        config.recompute_advantages = true;
        (config.algorithms.ppo.vtrace_rho, config.algorithms.ppo.vtrace_c) = (rho, c);
        change(&mut config);
        config
    };
    let discrete = Head::MultiDiscrete(vec![2, 3]);
    let gru = |c: &mut Config| (c.core, c.core_width, c.sequence_length) = (CoreKind::Gru, 11, 5);
    let separate = |c: &mut Config| (c.shared_trunk, c.hidden) = (false, vec![20, 9]);
    vec![
        Case::new(
            "advantages again, gaussian",
            with(config(21, 24, 4), 0.0, 0.0, &separate),
            Input::Dense(5),
            Head::gaussian(2),
            false,
        ),
        Case::new(
            "V-trace, masked",
            with(config(6, 40, 4), 1.0, 1.2, &separate),
            Input::Bits(40),
            discrete.clone(),
            true,
        ),
        Case::new(
            "V-trace, gru",
            with(config(7, 15, 3), 1.1, 0.0, &gru),
            Input::Dense(4),
            discrete.clone(),
            true,
        ),
        Case::new(
            "normalised values, again",
            with(config(21, 24, 4), 0.0, 0.0, &|c| c.algorithms.ppo.norm_value = true),
            Input::Dense(5),
            discrete,
            false,
        ),
        Case::new(
            "draws by priority",
            Config { recompute_advantages: false, ..with(config(21, 24, 4), 0.0, 0.0, &separate) }
                .ppo(|ppo| ppo.prio_alpha = 0.8),
            Input::Dense(5),
            Head::gaussian(2),
            false,
        ),
        Case::new(
            "draws by priority, blocks, gru",
            Config {
                recompute_advantages: false,
                shuffle: ShuffleKind::Blocks,
                ..with(config(32, 30, 2), 0.0, 0.0, &gru)
            }
            .ppo(|ppo| ppo.prio_alpha = 0.5),
            Input::Dense(4),
            Head::MultiDiscrete(vec![3]),
            false,
        ),
        Case::new(
            "critic alone, huber, gaussian",
            with(config(6, 40, 4), 0.0, 0.0, &|c| {
                separate(c);
                (c.value_loss, c.huber_delta, c.algorithms.ppo.vf_epochs) = (ValueLoss::Huber, 0.3, 2);
            }),
            Input::Dense(5),
            Head::gaussian(2),
            false,
        ),
    ]
    .into_iter()
    .chain(two_values())
    .collect()
}

/// Every shape. Their samples follow from the reference, once in a program.
pub fn all() -> Vec<Case> {
    static ALL: LazyLock<Vec<Case>> = LazyLock::new(make);
    ALL.clone()
}

fn make() -> Vec<Case> {
    let discrete = |counts: &[usize]| Head::MultiDiscrete(counts.to_vec());
    let with = |mut config: Config, change: &dyn Fn(&mut Config)| {
        change(&mut config);
        config
    };
    let mut cases = vec![
        Case::new("cartpole", config(16, 32, 4), Input::Dense(4), discrete(&[2]), false),
        Case::new(
            "one environment, separate, relu",
            with(config(1, 96, 4), &|c| {
                (c.shared_trunk, c.activation) = (false, Activation::Relu);
                c.algorithms.ppo.clip_vloss = false;
            }),
            Input::Dense(3),
            discrete(&[5]),
            false,
        ),
        Case::new(
            "17 environments, gaussian",
            with(config(17, 9, 3), &|c| (c.hidden, c.algorithms.ppo.norm_adv) = (vec![20, 70], false)),
            Input::Dense(11),
            Head::gaussian(3),
            false,
        ),
        Case::new(
            "65 environments, masked multi-discrete",
            with(config(65, 6, 2), &|c| c.hidden = vec![33]),
            Input::Dense(7),
            discrete(&[3, 2, 4]),
            true,
        ),
        Case::new(
            "packed bits",
            with(config(8, 40, 5), &|c| (c.hidden, c.activation) = (vec![40, 17], Activation::Relu)),
            Input::Bits(75),
            discrete(&[6]),
            false,
        ),
        Case::new(
            "packed bits, separate, masked, more than a word of logits",
            with(config(5, 50, 1), &|c| (c.hidden, c.shared_trunk) = (vec![18], false)),
            Input::Bits(33),
            discrete(&[30, 7]),
            true,
        ),
        Case::new(
            "linear",
            with(config(4, 25, 2), &|c| c.hidden = vec![]),
            Input::Dense(5),
            Head::gaussian(2),
            false,
        ),
        Case::new(
            "separate gaussian, wide input",
            with(config(3, 70, 2), &|c| (c.hidden, c.shared_trunk) = (vec![24, 32, 16], false)),
            Input::Dense(130),
            Head::gaussian(1),
            false,
        ),
    ];
    cases.extend(convolutions());
    cases.extend(memories());
    cases.extend(tables());
    cases.extend(pointers());
    cases.push(Case::new(
        "four blocks of environments",
        with(config(64, 24, 4), &|c| c.shuffle = ShuffleKind::Blocks),
        Input::Dense(4),
        discrete(&[2]),
        false,
    ));
    cases.extend(residuals());
    cases.extend(reals());
    cases.extend(distributions());
    cases
}
