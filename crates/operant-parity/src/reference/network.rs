//! Layers on the tape, one sample at a time.

use super::*;

/// A layer named by its tensors, as all products that it consists of.
pub(super) struct Layer {
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

pub(super) fn layer(network: &Network, weight: &str, hidden: bool) -> Layer {
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
pub(super) fn conv_layer(network: &Network, name: &str, conv: &Conv, inputs: usize) -> Layer {
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
pub(super) fn items_layer(network: &Network, name: &str, first: usize, items: usize, hidden: bool) -> Layer {
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
pub(super) enum Step {
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
    /// The means of distributions over these values.
    Expected(Vec<f64>),
    /// Choices of each component, and the layers of advantages and of the value, each of its half of the features.
    Dueling(Vec<usize>, [Layer; 2]),
    Cell {
        name: String,
        cell: CellSpec,
    },
}

/// The layers from the observation to `head`.
pub(super) fn path(network: &Network, head: &str) -> Vec<Step> {
    let trunk = match (network.architecture.shared_trunk, head) {
        (true, _) => "trunk",
        (false, "policy" | "log_std") => "actor",
        _ => head.strip_suffix(".q").unwrap_or("critic"),
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
    if architecture.dueling {
        let [advantages, value] =
            ["advantage", "value"].map(|part| layer(network, &format!("{head}.{part}.weight"), false));
        let Head::MultiDiscrete(choices) = &architecture.head else { panic!("choices have values") };
        steps.push(Step::Dueling(choices.clone(), [advantages, value]));
        return steps;
    }
    let head_layer = layer(network, &format!("{head}.weight"), false);
    if let Some(bins) = architecture.bins.filter(|_| head == "value" || head.ends_with('q')) {
        let [least, greatest] = bins.bounds().map(f64::from);
        let step = (greatest - least) / (bins.count - 1) as f64;
        let values = (0..bins.count).map(|k| least + k as f64 * step).collect();
        steps.extend([Step::Products(head_layer), Step::Expected(values)]);
        return steps;
    }
    let is_pointer = architecture.items.is_some() && head != "value";
    steps.push(if is_pointer { Step::Scores(head_layer) } else { Step::Products(head_layer) });
    steps
}

/// The outputs of a path. The parameters are the first variables of the tape; `state` moves on by a step.
pub(super) fn forward(
    network: &Network,
    tape: &mut Tape,
    path: &[Step],
    obs: &[f64],
    state: &mut [Var],
) -> Vec<Var> {
    let x = obs.iter().map(|&x| tape.leaf(x)).collect();
    along(network, tape, path, x, state)
}

/// The outputs of a path from variables.
pub(super) fn along(
    network: &Network,
    tape: &mut Tape,
    path: &[Step],
    mut x: Vec<Var>,
    state: &mut [Var],
) -> Vec<Var> {
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
            Step::Expected(values) => (x.chunks(values.len()))
                .map(|logits| {
                    let of = distribution(tape, logits);
                    let terms: Vec<_> =
                        of.into_iter().zip(values).map(|(ln_p, &z)| (tape.exp(ln_p), z)).collect();
                    tape.sum(&terms)
                })
                .collect(),
            Step::Dueling(choices, [advantages, value]) => {
                let (first, second) = x.split_at(advantages.inputs);
                let value = products_step(network, tape, value, second)[0];
                let advantages = products_step(network, tape, advantages, first);
                let (mut rest, mut y) = (&advantages[..], vec![]);
                for &count in choices {
                    let (own, after) = rest.split_at(count);
                    rest = after;
                    let mean: Vec<_> = own.iter().map(|&a| (a, -1.0 / count as f64)).collect();
                    let mean = tape.sum(&mean);
                    y.extend(own.iter().map(|&a| tape.sum(&[(value, 1.0), (a, 1.0), (mean, 1.0)])));
                }
                y
            }
            Step::Cell { name, cell } => cell_step(network, tape, name, cell, &x, &mut state[cell.states()]),
            Step::Products(l) => products_step(network, tape, l, &x),
        };
    }
    x
}

/// Log-probabilities.
pub(super) fn distribution(tape: &mut Tape, logits: &[Var]) -> Vec<Var> {
    let exps: Vec<_> = logits.iter().map(|&logit| (tape.exp(logit), 1.0)).collect();
    let total = tape.sum(&exps);
    let ln_total = tape.ln(total);
    logits.iter().map(|&logit| tape.sum(&[(logit, 1.0), (ln_total, -1.0)])).collect()
}

/// All products of a layer, which may be of a part of its inputs.
pub(super) fn products_step(network: &Network, tape: &mut Tape, l: &Layer, x: &[Var]) -> Vec<Var> {
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
pub(super) fn embed_step(tape: &mut Tape, embed: &Embed, tables: usize, x: &[Var]) -> Vec<Var> {
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
pub(super) fn norm_step(
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
pub(super) fn cell_step(
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
