//! PPO and PQN once more: scalar, in f64, one sample at a time, written from the formulas and sharing nothing with operant-learn but the
//! names of tensors and the order of samples. Gradients come from a tape.

use operant_lane::Packed;
use operant_learn::algorithms::ppo::ValueLoss;
use operant_learn::cpu::batch::Batch;
use operant_learn::cpu::update::noise::MeanNoise;
use operant_learn::network::{Cell, CellSpec, Conv, Embed, Form, Head, Input, Network, Outputs, Pool};
use operant_learn::shuffle::Shuffle;
use operant_learn::{ActionDistribution, Activation, ClipGrad, Config, LogStd, LrSchedule, Optimizer};

use self::tape::{Tape, Var};

mod muon;
pub mod tape;

/// One sample, unpacked.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The observation's features.
    pub obs: Vec<f64>,
    /// One per component.
    pub actions: Vec<f64>,
    /// Log-probability of the actions when they were taken.
    pub logprob: f64,
    /// Value of the observation when the actions were taken.
    pub value: f64,
    /// By GAE.
    pub advantage: f64,
    /// What the value is to be.
    pub target: f64,
    /// Weight of the normalised advantage.
    pub importance: f64,
    /// Per logit; empty if everything is legal.
    pub legal: Vec<bool>,
    /// The state of layers with memory, where a sequence begins.
    pub begins: Option<Vec<f64>>,
    /// Whether an episode begins.
    pub is_first: bool,
    /// What is added to the mean of each action; empty without noise.
    pub noise: Vec<f64>,
}

/// Means over a minibatch, by the names of the metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Losses {
    /// `policy_loss`.
    pub policy: f64,
    /// `value_loss`.
    pub value: f64,
    /// `entropy`.
    pub entropy: f64,
    /// `approx_kl`.
    pub kl: f64,
    /// `clipfrac`.
    pub clipfrac: f64,
    /// `grad_norm`.
    pub grad_norm: f64,
}

/// The features of an observation, which a sample may hold packed.
pub fn observation(network: &Network, words: &[u32]) -> Vec<f64> {
    let input = &network.architecture.input;
    let expanded = network.architecture.packing.as_ref().map(|packing| {
        let packed: Vec<_> = words.iter().map(|&word| f32::load_uint(&[word])).collect();
        let mut words = vec![Default::default(); input.words()];
        packing.expand::<f32>(&packed, &mut words, 1, 0);
        words.iter().map(|word| word.0).collect::<Vec<u32>>()
    });
    let words = expanded.as_deref().unwrap_or(words);
    match input {
        Input::Dense(n) => words[..*n].iter().map(|&word| f64::from(f32::from_bits(word))).collect(),
        Input::Bits(n) => (0..*n).map(|k| f64::from(words[k / 32] >> (k % 32) & 1)).collect(),
    }
}

/// Unpacks sample `index` of `batch`.
pub fn unpack(network: &Network, batch: &Batch, index: usize) -> Sample {
    let (layout, words) = (batch.layout(), batch.sample(index));
    let float = |word: usize| f64::from(f32::from_bits(words[word]));
    let legal = if layout.mask_words == 0 {
        vec![]
    } else {
        (0..network.policy_outputs()).map(|k| words[layout.mask + k / 32] >> (k % 32) & 1 == 1).collect()
    };
    Sample {
        obs: observation(network, &words[layout.obs..layout.obs + layout.obs_words]),
        actions: (0..layout.components).map(|k| float(layout.actions + k)).collect(),
        logprob: layout.logprob.map_or(f64::NAN, float),
        value: float(layout.value),
        advantage: float(layout.advantage),
        target: float(layout.advantage) + float(layout.value),
        importance: 1.0,
        legal,
        begins: None,
        is_first: layout.keep.is_some_and(|word| float(word) == 0.0),
        noise: vec![],
    }
}

/// The samples of sequences, one sequence after the other; without memory each sample is one.
pub fn sequences(network: &Network, batch: &Batch, sequences: impl Iterator<Item = usize>) -> Vec<Sample> {
    let of_sequence = |sequence: usize| {
        let [first, stride] = batch.steps_of(sequence);
        (0..batch.sequence()).map(move |t| {
            let mut sample = unpack(network, batch, first + t * stride);
            let begins = || batch.state(sequence).iter().map(|&x| f64::from(x)).collect();
            sample.begins = (t == 0).then(begins);
            sample
        })
    };
    sequences.flat_map(of_sequence).collect()
}

/// A layer named by its tensors, as all products that it consists of.
struct Layer {
    /// Input, output and parameter index of each product.
    products: Vec<[usize; 3]>,
    /// The parameter that is added to each output.
    biases: Vec<usize>,
    /// The input that is an output as it is, of outputs after those.
    passed: Vec<usize>,
    inputs: usize,
    hidden: bool,
}

impl Layer {
    fn outputs(&self) -> usize {
        self.biases.len() + self.passed.len()
    }
}

fn layer(network: &Network, weight: &str, hidden: bool) -> Layer {
    let find =
        |name: &str| network.tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"));
    let tensor = find(weight);
    let bias = find(&weight.replace(".weight", ".bias"));
    let (outputs, inputs) = (tensor.shape[0], tensor.shape[1]);
    let products = (0..outputs).flat_map(|j| (0..inputs).map(move |i| [i, j, j * inputs + i]));
    Layer {
        products: products.map(|[i, j, w]| [i, j, tensor.offset + w]).collect(),
        biases: (0..outputs).map(|j| bias.offset + j).collect(),
        passed: vec![],
        inputs,
        hidden,
    }
}

/// A convolution: PyTorch's Conv2d over the image, whose channels are last; then the other inputs.
fn conv_layer(network: &Network, name: &str, conv: &Conv, inputs: usize) -> Layer {
    let offset = |of: &str| network.tensors.iter().find(|t| t.name == format!("{name}.{of}")).unwrap().offset;
    let (weight, bias) = (offset("weight"), offset("bias"));
    let Conv { first, image: [height, width, depth], channels, kernel, stride } = *conv;
    let (rows, columns) = ((height - kernel) / stride + 1, (width - kernel) / stride + 1);
    let mut products = vec![];
    for y in 0..rows {
        for x in 0..columns {
            for o in 0..channels {
                for c in 0..depth {
                    for ky in 0..kernel {
                        for kx in 0..kernel {
                            let input = first + ((y * stride + ky) * width + x * stride + kx) * depth + c;
                            let output = (y * columns + x) * channels + o;
                            products.push([
                                input,
                                output,
                                weight + ((o * depth + c) * kernel + ky) * kernel + kx,
                            ]);
                        }
                    }
                }
            }
        }
    }
    let image = first..first + height * width * depth;
    Layer {
        products,
        biases: (0..rows * columns * channels).map(|k| bias + k % channels).collect(),
        passed: (0..inputs).filter(|i| !image.contains(i)).collect(),
        inputs,
        hidden: true,
    }
}

/// A hidden layer of every item of an image of one column, of which nothing else is seen.
fn items_layer(network: &Network, name: &str, first: usize, items: usize, hidden: bool) -> Layer {
    let one = layer(network, &format!("{name}.weight"), hidden);
    let (inputs, outputs) = (one.inputs, one.outputs());
    let of_item = |item: usize| {
        one.products
            .iter()
            .map(move |&[i, j, weight]| [first + item * inputs + i, item * outputs + j, weight])
    };
    Layer {
        products: (0..items).flat_map(of_item).collect(),
        biases: (0..items).flat_map(|_| one.biases.iter().copied()).collect(),
        passed: vec![],
        inputs,
        hidden,
    }
}

/// A layer of a path.
enum Step {
    Products(Layer),
    /// Tables by the number of their first parameter.
    Embed(Embed, usize),
    /// Layer normalisation of groups of this many features; then the offsets of the first weight and bias, and whether the nonlinearity
    /// follows.
    Norm(usize, [usize; 2], bool),
    /// A residual block: the offsets of its normalisation, and its two layers.
    Block([usize; 2], [Layer; 2]),
    /// Scores of candidates, by the query of the state's features.
    Scores(Layer),
    Cell {
        name: String,
        cell: CellSpec,
    },
}

/// The layers from the observation to `head`.
fn path(network: &Network, head: &str) -> Vec<Step> {
    let trunk = match (network.architecture.shared_trunk, head) {
        (true, _) => "trunk",
        (false, "policy" | "log_std") => "actor",
        _ => "critic",
    };
    let architecture = &network.architecture;
    let mut steps: Vec<Step> = vec![];
    let mut inputs = architecture.input.features();
    if let Some(embed) = &architecture.embed {
        let tables = network.tensors.iter().find(|t| t.name.starts_with(&format!("{trunk}.embed"))).unwrap();
        inputs = embed.outputs() + embed.passed(inputs).count();
        steps.push(Step::Embed(embed.clone(), tables.offset));
    }
    for (k, conv) in architecture.conv.iter().enumerate() {
        let layer = conv_layer(network, &format!("{trunk}.conv.{k}"), conv, inputs);
        inputs = layer.outputs();
        steps.push(Step::Products(layer));
    }
    let mut first = architecture.items.map(|image| image.first);
    let norm = |name: String| {
        let at =
            |what: &str| network.tensors.iter().find(|t| t.name == format!("{name}.{what}")).unwrap().offset;
        [at("weight"), at("bias")]
    };
    for (k, &width) in architecture.hidden.iter().enumerate() {
        // Residual blocks begin with sums.
        let is_linear = architecture.residual_blocks > 0 && k + 1 == architecture.hidden.len();
        let is_hidden = !architecture.layer_norm && !is_linear;
        steps.push(Step::Products(match first.replace(0).filter(|_| architecture.items.is_some()) {
            None => layer(network, &format!("{trunk}.{k}.weight"), is_hidden),
            Some(first) => {
                let items = if trunk == "critic" { 1 } else { 1 + architecture.head.outputs() };
                items_layer(network, &format!("{trunk}.{k}"), first, items, is_hidden)
            }
        }));
        if architecture.layer_norm && !is_linear {
            steps.push(Step::Norm(width, norm(format!("{trunk}.{k}.norm")), true));
        }
    }
    for k in 0..architecture.residual_blocks {
        let name = format!("{trunk}.blocks.{k}");
        let of = |what: &str, hidden| layer(network, &format!("{name}.{what}.weight"), hidden);
        steps.push(Step::Block(norm(format!("{name}.norm")), [of("up", true), of("down", false)]));
    }
    if let (1.., Some(&width)) = (architecture.residual_blocks, architecture.hidden.last()) {
        steps.push(Step::Norm(width, norm(format!("{trunk}.norm")), false));
    }
    steps.extend(network.layers().filter_map(|layer| match layer.form {
        Form::Cell(cell) if layer.name.starts_with(trunk) => {
            Some(Step::Cell { name: layer.name.clone(), cell })
        }
        _ => None,
    }));
    let head_layer = layer(network, &format!("{head}.weight"), false);
    let is_pointer = architecture.items.is_some() && head != "value";
    steps.push(if is_pointer { Step::Scores(head_layer) } else { Step::Products(head_layer) });
    steps
}

/// The outputs of a path. The parameters are the first variables of the tape; `state` moves on by a step.
fn forward(network: &Network, tape: &mut Tape, path: &[Step], obs: &[f64], state: &mut [Var]) -> Vec<Var> {
    let mut x: Vec<Var> = obs.iter().map(|&x| tape.leaf(x)).collect();
    for step in path {
        x = match step {
            Step::Embed(embed, tables) => embed_step(tape, embed, *tables, &x),
            Step::Norm(width, params, hidden) => {
                x.chunks(*width).flat_map(|x| norm_step(network, tape, (*params, *hidden), x)).collect()
            }
            Step::Block(norm, [up, down]) => {
                let normal = norm_step(network, tape, (*norm, false), &x);
                let inner = products_step(network, tape, up, &normal);
                let outer = products_step(network, tape, down, &inner);
                x.iter().zip(outer).map(|(&x, y)| tape.sum(&[(x, 1.0), (y, 1.0)])).collect()
            }
            Step::Scores(l) => {
                let (state, candidates) = x.split_at(l.inputs);
                let query = products_step(network, tape, l, state);
                let (zero, share) = (tape.leaf(0.0), 1.0 / (query.len() as f64).sqrt());
                let scores = candidates.chunks(query.len()).map(|candidate| {
                    let products = query.iter().zip(candidate).map(|(&q, &e)| [q, e]);
                    let sum = tape.dot(zero, products);
                    tape.sum(&[(sum, share)])
                });
                scores.collect()
            }
            Step::Cell { name, cell } => cell_step(network, tape, name, cell, &x, &mut state[cell.states()]),
            Step::Products(l) => products_step(network, tape, l, &x),
        };
    }
    x
}

/// All products of a layer, which may be of a part of its inputs.
fn products_step(network: &Network, tape: &mut Tape, l: &Layer, x: &[Var]) -> Vec<Var> {
    let mut products: Vec<Vec<[Var; 2]>> = vec![vec![]; l.biases.len()];
    for &[input, output, weight] in &l.products {
        products[output].push([weight, x[input]]);
    }
    let mut y = vec![];
    for (&bias, products) in l.biases.iter().zip(products) {
        let z = tape.dot(bias, products.into_iter());
        y.push(match network.architecture.activation {
            _ if !l.hidden => z,
            Activation::Tanh => tape.tanh(z),
            Activation::Relu => tape.relu(z),
        });
    }
    y.extend(l.passed.iter().map(|&i| x[i]));
    y
}

/// Rows of tables, each as often as its feature says.
fn embed_step(tape: &mut Tape, embed: &Embed, tables: usize, x: &[Var]) -> Vec<Var> {
    let (mut y, mut first, zero) = (vec![], tables, tape.leaf(0.0));
    for part in &embed.parts {
        let places = if embed.pool == Pool::Concat { part.positions } else { 1 };
        for place in 0..places {
            let positions = if embed.pool == Pool::Concat { place..place + 1 } else { 0..part.positions };
            let uses = positions
                .flat_map(|p| (0..part.rows).map(move |row| (part.first + p * part.rows + row, row)));
            let uses: Vec<(usize, usize)> = uses.collect();
            for column in 0..embed.width {
                let terms =
                    uses.iter().map(|&(feature, row)| [first + row * embed.width + column, x[feature]]);
                let sum = tape.dot(zero, terms);
                let share = if embed.pool == Pool::Mean { 1.0 / part.positions as f64 } else { 1.0 };
                y.push(tape.sum(&[(sum, share)]));
            }
        }
        first += part.rows * embed.width;
    }
    y.extend(embed.passed(x.len()).map(|i| x[i]));
    y
}

/// PyTorch's LayerNorm, then the nonlinearity if it is hidden.
fn norm_step(
    network: &Network,
    tape: &mut Tape,
    ([weight, bias], hidden): ([usize; 2], bool),
    x: &[Var],
) -> Vec<Var> {
    let share = 1.0 / x.len() as f64;
    let terms = |vars: &[Var]| vars.iter().map(|&var| (var, share)).collect::<Vec<_>>();
    let mean = tape.sum(&terms(x));
    let distances: Vec<Var> = x.iter().map(|&x| tape.sum(&[(x, 1.0), (mean, -1.0)])).collect();
    let squares: Vec<Var> = distances.iter().map(|&d| tape.mul(d, d)).collect();
    let variance = tape.sum(&terms(&squares));
    let root = 1.0 / (tape.value(variance) + 1e-5).sqrt();
    let root = tape.of(variance, root, -0.5 * root.powi(3));
    let normal: Vec<Var> = distances.iter().map(|&d| tape.mul(d, root)).collect();
    let mut y = vec![];
    for (k, n) in normal.into_iter().enumerate() {
        let z = tape.dot(bias + k, [[weight + k, n]].into_iter());
        y.push(match network.architecture.activation {
            _ if !hidden => z,
            Activation::Tanh => tape.tanh(z),
            Activation::Relu => tape.relu(z),
        });
    }
    y
}

/// One step of units with memory: GRUCell and LSTMCell as PyTorch documents them, the minimal unit of Feng et al. (2024) with the
/// candidate's function of their appendix B and a highway gate.
fn cell_step(
    network: &Network,
    tape: &mut Tape,
    name: &str,
    cell: &CellSpec,
    x: &[Var],
    state: &mut [Var],
) -> Vec<Var> {
    let width = cell.width;
    let before = state.to_vec();
    let gate = |tape: &mut Tape, suffix: &str, gate: usize, j: usize, x: &[Var]| {
        let at = |what: &str| {
            let name = format!("{name}.{what}{suffix}");
            network.tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}")).offset
        };
        let row = gate * width + j;
        let weights = at("weight") + row * x.len();
        tape.dot(at("bias") + row, x.iter().enumerate().map(|(i, &x)| [weights + i, x]))
    };
    let one = tape.leaf(1.0);
    (0..width)
        .map(|j| match cell.cell {
            Cell::MinGru => {
                let z = gate(tape, "", 0, j, x);
                let candidate = if tape.value(z) >= 0.0 {
                    let half = tape.leaf(0.5);
                    tape.add(z, half)
                } else {
                    tape.sigmoid(z)
                };
                let [update, highway] = [1, 2].map(|k| {
                    let z = gate(tape, "", k, j, x);
                    tape.sigmoid(z)
                });
                state[j] = tape.mix(before[j], candidate, update);
                tape.mix(x[j], state[j], highway)
            }
            Cell::Gru => {
                let h = &before[..width];
                let [reset, update] = [0, 1].map(|k| {
                    let of_both = [gate(tape, "_ih", k, j, x), gate(tape, "_hh", k, j, h)];
                    let z = tape.add(of_both[0], of_both[1]);
                    tape.sigmoid(z)
                });
                let (of_x, of_h) = (gate(tape, "_ih", 2, j, x), gate(tape, "_hh", 2, j, h));
                let scaled = tape.mul(reset, of_h);
                let z = tape.add(of_x, scaled);
                let new = tape.tanh(z);
                // (1 - update) new + update h
                let keeps = tape.mul(update, h[j]);
                let takes = tape.sum(&[(one, 1.0), (update, -1.0)]);
                let takes = tape.mul(takes, new);
                state[j] = tape.add(takes, keeps);
                state[j]
            }
            Cell::Lstm => {
                let (h, c) = before.split_at(width);
                let [input, forget, cell, output] = [0, 1, 2, 3].map(|k| {
                    let of_both = [gate(tape, "_ih", k, j, x), gate(tape, "_hh", k, j, h)];
                    let z = tape.add(of_both[0], of_both[1]);
                    if k == 2 { tape.tanh(z) } else { tape.sigmoid(z) }
                });
                let (keeps, takes) = (tape.mul(forget, c[j]), tape.mul(input, cell));
                state[width + j] = tape.add(keeps, takes);
                let bounded = tape.tanh(state[width + j]);
                state[j] = tape.mul(output, bounded);
                state[j]
            }
        })
        .collect()
}

/// Log-probability of a sample's action, and entropy.
fn evaluate(tape: &mut Tape, head: &Head, outputs: &[Var], log_std: &[Var], sample: &Sample) -> [Var; 2] {
    let (mut logprobs, mut entropies) = (vec![], vec![]);
    match head {
        Head::MultiDiscrete(counts) => {
            let mut first = 0;
            for (&count, action) in counts.iter().zip(&sample.actions) {
                let legal = |k: &usize| sample.legal.is_empty() || sample.legal[first + k];
                let legal: Vec<usize> = (0..count).filter(legal).collect();
                let exps: Vec<(Var, f64)> =
                    legal.iter().map(|k| (tape.exp(outputs[first + k]), 1.0)).collect();
                let total = tape.sum(&exps);
                let ln_total = tape.ln(total);
                for &k in &legal {
                    let ln_p = tape.sum(&[(outputs[first + k], 1.0), (ln_total, -1.0)]);
                    let p = tape.exp(ln_p);
                    entropies.push((tape.mul(p, ln_p), -1.0));
                    if k == *action as usize {
                        logprobs.push((ln_p, 1.0));
                    }
                }
                first += count;
            }
        }
        Head::Continuous(of) => {
            let half_ln_tau = tape.leaf(0.5 * std::f64::consts::TAU.ln());
            let one = tape.leaf(1.0);
            for k in 0..of.actions {
                if of.distribution == ActionDistribution::Beta {
                    let [logprob, entropy] =
                        beta(tape, [outputs[k], outputs[of.actions + k]], sample.actions[k]);
                    logprobs.push((logprob, 1.0));
                    entropies.push((entropy, 1.0));
                    continue;
                }
                let action = tape.leaf(sample.actions[k]);
                let precision = tape.sum(&[(log_std[k], -1.0)]);
                let precision = tape.exp(precision);
                let noise = tape.leaf(sample.noise.get(k).copied().unwrap_or(0.0));
                let error = tape.sum(&[(action, 1.0), (outputs[k], -1.0), (noise, -1.0)]);
                let z = tape.mul(error, precision);
                let square = tape.mul(z, z);
                logprobs.extend([(square, -0.5), (log_std[k], -1.0), (half_ln_tau, -1.0)]);
                entropies.extend([(one, 0.5), (half_ln_tau, 1.0), (log_std[k], 1.0)]);
                if of.distribution == ActionDistribution::Tanh {
                    logprobs.push((ln_slope(tape, action), -1.0));
                    // The action again, at a constant distance.
                    let (z, std) = (tape.value(z), tape.exp(log_std[k]));
                    let moved = tape.sum(&[(outputs[k], 1.0), (noise, 1.0), (std, z)]);
                    entropies.push((ln_slope(tape, moved), 1.0));
                }
            }
        }
    }
    [tape.sum(&logprobs), tape.sum(&entropies)]
}

/// Log-probability of `x` and entropy of a Beta distribution with alpha and beta of 1 + ln(1 + exp(output)).
fn beta(tape: &mut Tape, outputs: [Var; 2], x: f64) -> [Var; 2] {
    let one = tape.leaf(1.0);
    let shapes = outputs.map(|output| {
        let exp = tape.exp(output);
        let sum = tape.add(exp, one);
        let softplus = tape.ln(sum);
        tape.add(softplus, one)
    });
    let sum = tape.add(shapes[0], shapes[1]);
    let mut of = |z: Var| {
        let [ln, psi, curvature] = gamma(tape.value(z));
        (tape.of(z, ln, psi), tape.of(z, psi, curvature))
    };
    let ([a, b], whole) = (shapes.map(&mut of), of(sum));
    let ln_norm = [(a.0, 1.0), (b.0, 1.0), (whole.0, -1.0)];
    let mut logprob = ln_norm.map(|(var, sign)| (var, -sign)).to_vec();
    let mut entropy = ln_norm.to_vec();
    for (shape, psi, ln) in [(shapes[0], a.1, x.ln()), (shapes[1], b.1, (1.0 - x).ln())] {
        let less = tape.sum(&[(shape, 1.0), (one, -1.0)]);
        logprob.push((less, ln));
        entropy.push((tape.mul(less, psi), -1.0));
    }
    let less = tape.sum(&[(sum, 1.0), (one, -2.0)]);
    entropy.push((tape.mul(less, whole.1), 1.0));
    [tape.sum(&logprob), tape.sum(&entropy)]
}

/// ln gamma(z), its derivative and its second derivative: Stirling's series from 12 on, recurrences below.
fn gamma(z: f64) -> [f64; 3] {
    if z < 12.0 {
        let [ln, psi, curvature] = gamma(z + 1.0);
        return [ln - z.ln(), psi - 1.0 / z, curvature + 1.0 / (z * z)];
    }
    let t = 1.0 / (z * z);
    // Bernoulli numbers over 2k (2k - 1), over 2k, and themselves.
    let rest = ((-t / 1680.0 + 1.0 / 1260.0) * t - 1.0 / 360.0) * t + 1.0 / 12.0;
    let slope = (((-t / 132.0 + 1.0 / 240.0) * t - 1.0 / 252.0) * t + 1.0 / 120.0) * t - 1.0 / 12.0;
    let curvature = (((t * 5.0 / 66.0 - 1.0 / 30.0) * t + 1.0 / 42.0) * t - 1.0 / 30.0) * t + 1.0 / 6.0;
    let half_ln_tau = 0.5 * std::f64::consts::TAU.ln();
    [
        (z - 0.5) * z.ln() - z + half_ln_tau + rest / z,
        z.ln() - 0.5 / z + slope * t,
        1.0 / z + 0.5 * t + curvature * t / z,
    ]
}

/// ln(1 - tanh(x)^2)
fn ln_slope(tape: &mut Tape, x: Var) -> Var {
    let value = tape.value(x);
    let ln_cosh = value.abs() + (-2.0 * value.abs()).exp().ln_1p() - std::f64::consts::LN_2;
    tape.of(x, -2.0 * ln_cosh, -2.0 * value.tanh())
}

/// A network on a tape, whose first variables are its parameters.
struct OnTape<'a> {
    network: &'a Network,
    /// Of each head.
    paths: Vec<Vec<Step>>,
    log_std: Vec<Var>,
    tape: Tape,
    state: Vec<Var>,
}

impl<'a> OnTape<'a> {
    fn new(network: &'a Network, params: &[f64]) -> Self {
        let mut tape = Tape::default();
        params.iter().for_each(|&p| _ = tape.leaf(p));
        let log_std = network.tensors.iter().find(|t| t.name == "log_std");
        let heads: &[&str] = match network.architecture.outputs {
            Outputs::PolicyAndValue if computes_log_std(network) => &["policy", "value", "log_std"],
            Outputs::PolicyAndValue => &["policy", "value"],
            Outputs::ActionValues => &["q"],
        };
        let paths = heads.iter().map(|head| path(network, head)).collect();
        let log_std = log_std.map_or(vec![], |t| t.range().collect());
        let state = (0..network.states).map(|_| tape.leaf(0.0)).collect();
        Self { network, paths, log_std, tape, state }
    }

    /// The value of the action of the next sample: the mean over its components.
    fn action_value(&mut self, sample: &Sample) -> Var {
        let Self { network, paths, tape, state, .. } = self;
        begin(tape, state, sample);
        let values = forward(network, tape, &paths[0], &sample.obs, state);
        let Head::MultiDiscrete(counts) = &network.architecture.head else { panic!("choices have values") };
        let mut first = 0;
        let of_component = |(count, action): (&usize, &f64)| {
            first += count;
            (values[first - count + *action as usize], 1.0 / counts.len() as f64)
        };
        let terms: Vec<_> = counts.iter().zip(&sample.actions).map(of_component).collect();
        tape.sum(&terms)
    }

    /// Log-probability, entropy and value of the next sample.
    fn next(&mut self, sample: &Sample) -> [Var; 3] {
        let Self { network, paths, log_std, tape, state } = self;
        begin(tape, state, sample);
        let before = state.clone();
        let policy = forward(network, tape, &paths[0], &sample.obs, state);
        let mut computed = vec![];
        if let Some(path) = paths.get(2) {
            // All heads see one step of a trunk.
            state.copy_from_slice(&before);
            for raw in forward(network, tape, path, &sample.obs, state) {
                let [centre, radius] = LogStd::CENTRE_AND_RADIUS.map(f64::from);
                let centre = tape.leaf(centre);
                let share = tape.sum(&[(raw, 1.0 / radius), (centre, -1.0 / radius)]);
                let share = tape.tanh(share);
                computed.push(tape.sum(&[(share, radius), (centre, 1.0)]));
            }
        }
        if network.architecture.shared_trunk {
            state.copy_from_slice(&before);
        }
        let value = forward(network, tape, &paths[1], &sample.obs, state)[0];
        let log_std = if paths.len() > 2 { &computed } else { &*log_std };
        let [logprob, entropy] = evaluate(tape, &network.architecture.head, &policy, log_std, sample);
        [logprob, entropy, value]
    }
}

/// Whether log standard deviations are outputs of the network.
fn computes_log_std(network: &Network) -> bool {
    matches!(network.architecture.head, Head::Continuous(of) if of.computes_log_std())
}

/// The state before a sample that begins a sequence or an episode.
fn begin(tape: &mut Tape, state: &mut Vec<Var>, sample: &Sample) {
    if let Some(begins) = &sample.begins {
        *state = begins.iter().map(|&x| tape.leaf(x)).collect();
    }
    if sample.is_first {
        state.iter_mut().for_each(|var| *var = tape.leaf(0.0));
    }
}

/// Log-probabilities of the samples' actions and values of their observations under `params`; of a network of action values NaN and the
/// values of their actions.
pub fn logprobs_and_values(network: &Network, params: &[f64], samples: &[Sample]) -> Vec<[f64; 2]> {
    let mut net = OnTape::new(network, params);
    let of = |sample| {
        if network.architecture.outputs == Outputs::ActionValues {
            let value = net.action_value(sample);
            return [f64::NAN, net.tape.value(value)];
        }
        let [logprob, _, value] = net.next(sample);
        [net.tape.value(logprob), net.tape.value(value)]
    };
    samples.iter().map(of).collect()
}

/// The outputs of a policy without memory for one observation, as samples hold it.
pub fn logits(network: &Network, params: &[f32], obs: &[u32]) -> Vec<f64> {
    let params: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
    let OnTape { paths, mut tape, mut state, .. } = OnTape::new(network, &params);
    let outputs = forward(network, &mut tape, &paths[0], &observation(network, obs), &mut state);
    outputs.into_iter().map(|output| tape.value(output)).collect()
}

/// Mean loss of a minibatch, its parts, and its gradient.
pub fn loss(
    network: &Network,
    config: &Config,
    params: &[f64],
    samples: &[Sample],
) -> (f64, Losses, Vec<f64>) {
    let (tape, total, mut losses) = on_tape(network, config, params, samples);
    let gradient = tape.gradient(total, params.len());
    losses.grad_norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    (tape.value(total), losses, gradient)
}

/// The loss on a tape, and its parts.
pub fn on_tape(
    network: &Network,
    config: &Config,
    params: &[f64],
    samples: &[Sample],
) -> (Tape, Var, Losses) {
    let n = samples.len() as f64;
    let mean = samples.iter().map(|s| s.advantage).sum::<f64>() / n;
    let variance = samples.iter().map(|s| (s.advantage - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let c = config.algorithms.ppo.clip_coef;
    let mut net = OnTape::new(network, params);
    let (mut losses, mut terms) = (Losses::default(), vec![]);
    if network.architecture.outputs == Outputs::ActionValues {
        for s in samples {
            let value = net.action_value(s);
            let error = net.tape.value(value) - s.target;
            losses.value += error * error / n;
            terms.push((net.tape.of(value, 0.5 * error * error, error), 1.0 / n));
        }
        let total = net.tape.sum(&terms);
        return (net.tape, total, losses);
    }
    for s in samples {
        let advantage = if config.algorithms.ppo.norm_adv {
            (s.advantage - mean) / (variance.sqrt() + 1e-8)
        } else {
            s.advantage
        };
        let advantage = advantage * s.importance;
        let [logprob, entropy, value] = net.next(s);
        let tape = &mut net.tape;
        let log_ratio = tape.value(logprob) - s.logprob;
        let ratio = log_ratio.exp();
        let (plain, clipped) = (-advantage * ratio, -advantage * ratio.clamp(1.0 - c, 1.0 + c));
        losses.policy += plain.max(clipped) / n;
        losses.entropy += tape.value(entropy) / n;
        losses.kl += (ratio - 1.0 - log_ratio) / n;
        losses.clipfrac += f64::from((ratio - 1.0).abs() > c) / n;
        let slope = if plain >= clipped { -advantage * ratio } else { 0.0 };
        terms.push((tape.of(logprob, plain.max(clipped), slope), 1.0 / n));
        terms.push((entropy, -config.algorithms.ppo.ent_coef / n));

        let v = tape.value(value);
        let target = s.target;
        let (mut square, mut slope) = ((v - target).powi(2), v - target);
        if config.algorithms.ppo.clip_vloss {
            let bounded = s.value + (v - s.value).clamp(-c, c);
            if (bounded - target).powi(2) > square {
                square = (bounded - target).powi(2);
                slope = if (v - s.value).abs() <= c { bounded - target } else { 0.0 };
            }
        }
        let d = config.algorithms.ppo.huber_delta;
        if config.algorithms.ppo.value_loss == ValueLoss::Huber && square.sqrt() > d {
            square = 2.0 * d * (square.sqrt() - 0.5 * d);
            slope = slope.clamp(-d, d);
        }
        losses.value += 0.5 * square / n;
        terms.push((tape.of(value, 0.5 * square, slope), config.algorithms.ppo.vf_coef / n));
    }
    let total = net.tape.sum(&terms);
    (net.tape, total, losses)
}

/// The sequences at these positions of an epoch of an update in each block of environments, drawn if they have shares.
fn order(
    config: &Config,
    batch: &Batch,
    (update, epoch): (u64, usize),
    positions: std::ops::Range<usize>,
    shares: &[Vec<f64>],
) -> Vec<Vec<usize>> {
    let each = batch.sequences() / config.blocks();
    let of_block = |block: usize| {
        let (seed, number) = (config.seed, block as u32);
        let shuffle = Shuffle::of_block(seed, update, epoch as u32, number, each as u32);
        let fraction = Shuffle::fraction(seed, update, epoch as u32, number);
        let drawn = |index: usize| match shares.get(block).filter(|shares| !shares.is_empty()) {
            None => index,
            Some(shares) => draw(shares, (index as f64 + fraction) / each as f64),
        };
        positions.clone().map(|p| block * each + drawn(shuffle.index(p as u32) as usize)).collect()
    };
    (0..config.blocks()).map(of_block).collect()
}

/// The samples of the sequences at these positions of an epoch of an update, in each block of environments, with their noise.
pub fn minibatch(
    network: &Network,
    config: &Config,
    batch: &Batch,
    at: (u64, usize),
    positions: std::ops::Range<usize>,
) -> Vec<Sample> {
    let order = order(config, batch, at, positions.clone(), &[]);
    samples_of(network, config, batch, at, positions.start, &order)
}

/// The samples of each block's sequences at positions from `first` on, with their noise.
fn samples_of(
    network: &Network,
    config: &Config,
    batch: &Batch,
    (update, epoch): (u64, usize),
    first: usize,
    order: &[Vec<usize>],
) -> Vec<Sample> {
    let of_block = |(block, order): (usize, &Vec<usize>)| {
        let mut samples = sequences(network, batch, order.iter().copied());
        if let Some(noise) = MeanNoise::new(config, update, epoch, block) {
            for (sample, position) in samples.iter_mut().zip(first * batch.sequence()..) {
                let mut noise = noise.of::<f32>(f32::load_uint(&[position as u32]));
                sample.noise = sample.actions.iter().map(|_| f64::from(noise())).collect();
            }
        }
        samples
    };
    order.iter().enumerate().flat_map(of_block).collect()
}

/// The result of one update.
#[derive(Debug, Clone)]
pub struct Updated {
    /// Parameters.
    pub params: Vec<f64>,
    /// First moments.
    pub exp_avg: Vec<f64>,
    /// Means over the last epoch.
    pub losses: Losses,
    /// Epochs that ran.
    pub epochs: usize,
    /// The learning rate of the last step.
    pub rate: f64,
}

/// The whole update, from zero moments.
pub fn update(network: &Network, config: &Config, params: &[f32], batch: &Batch, update: u64) -> Updated {
    let mut params: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
    let (mut m, mut v) = (vec![0.0; params.len()], vec![0.0; params.len()]);
    let updates = (config.total_timesteps as f64 / (config.num_envs * config.num_steps) as f64).ceil();
    let mut rate = match config.lr_schedule {
        LrSchedule::Linear => config.learning_rate * (1.0 - update as f64 / updates),
        LrSchedule::Constant | LrSchedule::Kl => config.learning_rate,
    };
    if config.lr_warmup > 0.0 {
        rate *= ((update as f64 + 1.0) / (config.lr_warmup * updates)).min(1.0);
    }
    let is_muons = |k: usize| {
        config.optimizer == Optimizer::Muon && network.hidden_matrices().any(|(range, _)| range.contains(&k))
    };
    let of_value = |k: usize| network.value_params().is_some_and(|params| params.contains(&k));
    let (mut step, mut epochs) = (0, 0);
    let mut mean = Losses::default();
    let mut again = None;
    // The network's values stay what they are when they get the units of this update's returns.
    let units = returns_of(batch, 0..batch.len());
    if config.algorithms.ppo.norm_value {
        for tensor in network.tensors.iter().filter(|tensor| tensor.name.starts_with("value.")) {
            let shift = if tensor.name.ends_with("bias") { units[0] } else { 0.0 };
            params[tensor.range()].iter_mut().for_each(|p| *p = (*p - shift) / units[1]);
        }
    }
    let of_epochs = config.update_epochs;
    let mut is_stopped = false;
    for epoch in 0..of_epochs + config.algorithms.ppo.vf_epochs {
        let trains_critic_alone = epoch >= of_epochs;
        if is_stopped && !trains_critic_alone {
            continue;
        }
        if epoch > 0 && config.recompute_advantages {
            again = Some(recomputed(network, config, &params, batch, units));
        }
        let each = batch.sequences() / config.blocks();
        let advantage = |index: usize| match &again {
            Some(again) => again[index][1],
            None => unpack(network, batch, index).advantage,
        };
        // Share of the draws of each sequence of a block, if they are drawn.
        let shares: Vec<Vec<f64>> =
            (0..config.blocks()).map(|block| shares(config, batch, block, &advantage)).collect();
        let beta0 = config.algorithms.ppo.prio_beta0;
        let beta = beta0 + (1.0 - beta0) * (update as f64 / updates).min(1.0);
        let share = each / config.num_minibatches;
        if !trains_critic_alone {
            mean = Losses::default();
        }
        let mut kl = 0.0;
        for start in (0..each).step_by(share) {
            let order = order(config, batch, (update, epoch), start..start + share, &shares);
            let mut samples = samples_of(network, config, batch, (update, epoch), start, &order);
            for (of_sequence, sequence) in
                samples.chunks_mut(batch.sequence()).zip(order.iter().flatten().copied())
            {
                if let Some(part) = shares[sequence / each].get(sequence % each) {
                    of_sequence.iter_mut().for_each(|it| it.importance = (part * each as f64).powf(-beta));
                }
            }
            if let Some(again) = &again {
                let indices = order.iter().flatten().copied().flat_map(|sequence| {
                    let [first, stride] = batch.steps_of(sequence);
                    (0..batch.sequence()).map(move |t| first + t * stride)
                });
                for (sample, index) in samples.iter_mut().zip(indices) {
                    [sample.value, sample.advantage] = again[index];
                    sample.target = sample.value + sample.advantage;
                }
            }
            if config.algorithms.ppo.norm_value {
                for sample in &mut samples {
                    sample.value = (sample.value - units[0]) / units[1];
                    sample.target = (sample.target - units[0]) / units[1];
                }
            }
            let mut config = config.clone();
            if trains_critic_alone {
                config.algorithms.ppo.ent_coef = 0.0;
                samples.iter_mut().for_each(|sample| sample.advantage = 0.0);
            }
            let config = &config;
            let (_, losses, gradient) = loss(network, config, &params, &samples);
            let scales = [false, true].map(|is_value| {
                let own = |k: &usize| config.clip_grad == ClipGrad::Global || of_value(*k) == is_value;
                let squares = (0..params.len()).filter(own).map(|k| gradient[k].powi(2)).sum::<f64>();
                (config.max_grad_norm / (squares.sqrt() + 1e-6)).min(1.0)
            });
            if config.lr_schedule == LrSchedule::Kl && losses.kl > 2.0 * config.desired_kl {
                rate = (rate / 1.5).max(config.lr_min);
            } else if config.lr_schedule == LrSchedule::Kl && losses.kl < config.desired_kl / 2.0 {
                rate = (rate * 1.5).min(config.lr_max);
            }
            step += 1;
            let (beta1_t, beta2_t) = (config.adam_beta1.powi(step), config.adam_beta2.powi(step));
            let rho = 2.0 / (1.0 - config.adam_beta2) - 1.0;
            let rho_t = rho - 2.0 * f64::from(step) * beta2_t / (1.0 - beta2_t);
            let rates = match (config.vf_learning_rate, config.lr_schedule) {
                (0.0, _) => [rate; 2],
                (value, LrSchedule::Kl) => [rate, value],
                (value, _) => [rate, value * rate / config.learning_rate],
            };
            if config.optimizer == Optimizer::Muon {
                for (range, [_, columns]) in network.hidden_matrices() {
                    let is_value = usize::from(of_value(range.start));
                    let gradient: Vec<f64> =
                        gradient[range.clone()].iter().map(|g| g * scales[is_value]).collect();
                    let rate = rates[is_value];
                    params[range.clone()]
                        .iter_mut()
                        .for_each(|param| *param *= 1.0 - rate * config.weight_decay);
                    muon::step(config, rate, columns, &mut params[range.clone()], &mut m[range], &gradient);
                }
            }
            for k in (0..params.len()).filter(|k| !is_muons(*k) && (!trains_critic_alone || of_value(*k))) {
                let is_value = usize::from(of_value(k));
                let (g, rate) = (gradient[k] * scales[is_value], rates[is_value]);
                params[k] *= 1.0 - rate * config.weight_decay;
                m[k] = config.adam_beta1 * m[k] + (1.0 - config.adam_beta1) * g;
                v[k] = config.adam_beta2 * v[k] + (1.0 - config.adam_beta2) * g * g;
                let m_hat = m[k] / (1.0 - beta1_t);
                let adaptive = 1.0 / ((v[k] / (1.0 - beta2_t)).sqrt() + config.adam_eps);
                params[k] -= rate
                    * m_hat
                    * match config.optimizer {
                        Optimizer::Adam | Optimizer::Muon => adaptive,
                        Optimizer::RAdam if rho_t <= 5.0 => 1.0,
                        Optimizer::RAdam => {
                            let rectified =
                                (rho_t - 4.0) * (rho_t - 2.0) * rho / ((rho - 4.0) * (rho - 2.0) * rho_t);
                            rectified.sqrt() * adaptive
                        }
                    };
            }
            if trains_critic_alone {
                continue;
            }
            let share = 1.0 / config.num_minibatches as f64;
            mean.policy += losses.policy * share;
            mean.value += losses.value * share;
            mean.entropy += losses.entropy * share;
            mean.kl += losses.kl * share;
            mean.clipfrac += losses.clipfrac * share;
            mean.grad_norm += losses.grad_norm * share;
            kl = losses.kl;
        }
        epochs += usize::from(!trains_critic_alone);
        is_stopped |= config.algorithms.ppo.target_kl > 0.0 && kl > config.algorithms.ppo.target_kl;
    }
    Updated { params, exp_avg: m, losses: mean, epochs, rate }
}

/// The probability of each sequence of a block; none if they are not drawn.
fn shares(config: &Config, batch: &Batch, block: usize, advantage: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let each = batch.sequences() / config.blocks();
    if config.algorithms.ppo.prio_alpha == 0.0 {
        return vec![];
    }
    let of_sequence = |sequence: usize| {
        let [first, stride] = batch.steps_of(sequence);
        let sum: f64 = (0..batch.sequence()).map(|t| advantage(first + t * stride).abs()).sum();
        (sum + 1e-6).powf(config.algorithms.ppo.prio_alpha)
    };
    let weights: Vec<f64> = (block * each..(block + 1) * each).map(of_sequence).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// The first item at which the sum of shares exceeds `at`.
fn draw(shares: &[f64], at: f64) -> usize {
    let mut sum = 0.0;
    let exceeds = |share: &f64| {
        sum += share;
        sum > at
    };
    shares.iter().position(exceeds).unwrap_or(shares.len() - 1)
}

/// Mean and deviation of the returns of samples, merged into statistics of almost no weight.
fn returns_of(batch: &Batch, samples: std::ops::Range<usize>) -> [f64; 2] {
    let layout = batch.layout();
    let of = |i: usize| f64::from(batch.float(i, layout.advantage)) + f64::from(batch.float(i, layout.value));
    let (count, first) = (samples.len() as f64, 1e-4);
    let mean = samples.clone().map(of).sum::<f64>() / count;
    let squares = samples.map(|i| (of(i) - mean).powi(2)).sum::<f64>();
    let total = count + first;
    let variance = (first + squares + mean * mean * first * count / total) / total;
    [mean * count / total, (variance + 1e-8).sqrt()]
}

/// Value and advantage of each sample by these parameters, the latter with the weights of V-trace; the network computes values in `units`,
/// the mean and deviation of returns, if they are normalised.
fn recomputed(
    network: &Network,
    config: &Config,
    params: &[f64],
    batch: &Batch,
    units: [f64; 2],
) -> Vec<[f64; 2]> {
    let samples = sequences(network, batch, 0..batch.sequences());
    let mut made = logprobs_and_values(network, params, &samples).into_iter();
    let mut now = vec![[0.0; 2]; batch.len()];
    for sequence in 0..batch.sequences() {
        let [first, stride] = batch.steps_of(sequence);
        (0..batch.sequence()).for_each(|t| now[first + t * stride] = made.next().expect("a sample"));
    }
    let ppo = &config.algorithms.ppo;
    if ppo.norm_value {
        now.iter_mut().for_each(|[_, value]| *value = *value * units[1] + units[0]);
    }
    let mut again = vec![[0.0; 2]; batch.len()];
    for (env, next_value) in batch.next_values().iter().enumerate() {
        let [first, stride] = batch.samples_of(env);
        let (mut next_value, mut next) = (f64::from(*next_value), 0.0);
        for index in (0..config.num_steps).rev().map(|t| first + t * stride) {
            let ([logprob, value], [reward, done]) = (now[index], batch.outcome(index).map(f64::from));
            let ratio = (logprob - unpack(network, batch, index).logprob).exp();
            let weight = |clip: f64| if clip > 0.0 { ratio.min(clip) } else { 1.0 };
            let (goes_on, lambda) = (1.0 - done, ppo.gae_lambda);
            let error = reward + config.gamma * goes_on * next_value - value;
            next = weight(ppo.vtrace_rho) * error
                + config.gamma * lambda * goes_on * weight(ppo.vtrace_c) * next;
            again[index] = [value, next];
            next_value = value;
        }
    }
    again
}

/// Advantages of one environment.
pub fn gae(
    rewards: &[f64],
    values: &[f64],
    done: &[bool],
    next_value: f64,
    gamma: f64,
    lambda: f64,
) -> Vec<f64> {
    let mut advantages = vec![0.0; rewards.len()];
    for t in (0..rewards.len()).rev() {
        let (value, advantage) = match t + 1 == rewards.len() {
            true => (next_value, 0.0),
            false => (values[t + 1], advantages[t + 1]),
        };
        let goes_on = f64::from(!done[t]);
        advantages[t] =
            rewards[t] + gamma * value * goes_on - values[t] + gamma * lambda * goes_on * advantage;
    }
    advantages
}
