//! PPO once more, for the tests: scalar, in f64, one sample at a time, written from the formulas and sharing nothing with
//! the crate but the names of tensors and the order of samples.

#![allow(dead_code, reason = "each test binary uses its part")]

use operant_learn::cpu::batch::Batch;
use operant_learn::network::{Conv, Head, Input, Network};
use operant_learn::shuffle::Shuffle;
use operant_learn::{Activation, Config};

/// One sample, unpacked.
#[derive(Debug, Clone)]
pub struct Sample {
    pub obs: Vec<f64>,
    pub actions: Vec<f64>,
    pub logprob: f64,
    pub value: f64,
    pub advantage: f64,
    /// Per logit; empty if everything is legal.
    pub legal: Vec<bool>,
}

/// Sums of what a minibatch reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Losses {
    pub policy: f64,
    pub value: f64,
    pub entropy: f64,
    pub kl: f64,
    pub clipfrac: f64,
    pub grad_norm: f64,
}

/// Unpacks sample `index` of `batch`.
pub fn unpack(network: &Network, batch: &Batch, index: usize) -> Sample {
    let (layout, words) = (batch.layout(), batch.sample(index));
    let float = |word: usize| f64::from(f32::from_bits(words[word]));
    let obs = match network.architecture.input {
        Input::Dense(n) => (0..n).map(|k| float(layout.obs + k)).collect(),
        Input::Bits(n) => (0..n).map(|k| f64::from(words[layout.obs + k / 32] >> (k % 32) & 1)).collect(),
    };
    let legal = if layout.mask_words == 0 {
        vec![]
    } else {
        (0..network.policy_outputs()).map(|k| words[layout.mask + k / 32] >> (k % 32) & 1 == 1).collect()
    };
    Sample {
        obs,
        actions: (0..layout.components).map(|k| float(layout.actions + k)).collect(),
        logprob: float(layout.logprob),
        value: float(layout.value),
        advantage: float(layout.advantage),
        legal,
    }
}

/// A layer named by its tensors, as all products that it consists of.
struct Layer {
    /// Input, output and parameter of each weight's every use.
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

/// The layers from the observation to `head`.
fn path(network: &Network, head: &str) -> Vec<Layer> {
    let trunk = match (network.architecture.shared_trunk, head) {
        (true, _) => "trunk",
        (false, "policy") => "actor",
        _ => "critic",
    };
    let mut layers: Vec<Layer> = vec![];
    for (k, conv) in network.architecture.conv.iter().enumerate() {
        let inputs = layers.last().map_or(network.architecture.input.features(), Layer::outputs);
        layers.push(conv_layer(network, &format!("{trunk}.conv.{k}"), conv, inputs));
    }
    let hidden = 0..network.architecture.hidden.len();
    layers.extend(hidden.map(|k| layer(network, &format!("{trunk}.{k}.weight"), true)));
    layers.push(layer(network, &format!("{head}.weight"), false));
    layers
}

/// Outputs of every layer of a path, the observation first.
fn forward(network: &Network, params: &[f64], layers: &[Layer], obs: &[f64]) -> Vec<Vec<f64>> {
    let mut outputs = vec![obs.to_vec()];
    for l in layers {
        let x = outputs.last().unwrap();
        let mut z: Vec<f64> = l.biases.iter().map(|&bias| params[bias]).collect();
        for &[input, output, weight] in &l.products {
            z[output] += params[weight] * x[input];
        }
        let y = z.into_iter().map(|z| match network.architecture.activation {
            _ if !l.hidden => z,
            Activation::Tanh => z.tanh(),
            Activation::Relu => z.max(0.0),
        });
        let y = y.chain(l.passed.iter().map(|&i| x[i])).collect();
        outputs.push(y);
    }
    outputs
}

/// Adds to `gradient` what `delta`, the gradient of the path's outputs, makes of it.
fn backward(
    network: &Network,
    params: &[f64],
    layers: &[Layer],
    outputs: &[Vec<f64>],
    delta: &[f64],
    gradient: &mut [f64],
) {
    let mut delta = delta.to_vec();
    for (k, l) in layers.iter().enumerate().rev() {
        if l.hidden {
            for (d, y) in delta.iter_mut().zip(&outputs[k + 1]).take(l.biases.len()) {
                *d *= match network.architecture.activation {
                    Activation::Tanh => 1.0 - y * y,
                    Activation::Relu => f64::from(*y > 0.0),
                };
            }
        }
        let mut below = vec![0.0; l.inputs];
        for (&bias, delta) in l.biases.iter().zip(&delta) {
            gradient[bias] += delta;
        }
        for &[input, output, weight] in &l.products {
            gradient[weight] += delta[output] * outputs[k][input];
            below[input] += delta[output] * params[weight];
        }
        for (&input, delta) in l.passed.iter().zip(&delta[l.biases.len()..]) {
            below[input] += delta;
        }
        delta = below;
    }
}

/// What the head makes of its outputs and the action taken.
struct Evaluated {
    logprob: f64,
    entropy: f64,
    /// Gradient of the log-probability with respect to the outputs, then log_std.
    d_logprob: (Vec<f64>, Vec<f64>),
    /// Gradient of the entropy.
    d_entropy: (Vec<f64>, Vec<f64>),
}

fn evaluate(head: &Head, outputs: &[f64], log_std: &[f64], sample: &Sample) -> Evaluated {
    match head {
        Head::MultiDiscrete(counts) => {
            let (mut logprob, mut entropy, mut d_logprob, mut d_entropy) = (0.0, 0.0, vec![], vec![]);
            let mut first = 0;
            for (count, action) in counts.iter().zip(&sample.actions) {
                let legal = |k: usize| sample.legal.is_empty() || sample.legal[first + k];
                let total: f64 = (0..*count).filter(|&k| legal(k)).map(|k| outputs[first + k].exp()).sum();
                let p: Vec<f64> = (0..*count)
                    .map(|k| if legal(k) { outputs[first + k].exp() / total } else { 0.0 })
                    .collect();
                let h: f64 = p.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
                let taken = *action as usize;
                logprob += p[taken].ln();
                entropy += h;
                for (k, &p) in p.iter().enumerate() {
                    d_logprob.push(f64::from(k == taken) - p);
                    d_entropy.push(if p > 0.0 { -p * (p.ln() + h) } else { 0.0 });
                }
                first += count;
            }
            Evaluated { logprob, entropy, d_logprob: (d_logprob, vec![]), d_entropy: (d_entropy, vec![]) }
        }
        Head::DiagonalGaussian(n) => {
            let (mut logprob, mut entropy, mut d_mean, mut d_std) = (0.0, 0.0, vec![], vec![]);
            for k in 0..*n {
                let std = log_std[k].exp();
                let z = (sample.actions[k] - outputs[k]) / std;
                logprob += -0.5 * z * z - log_std[k] - 0.5 * std::f64::consts::TAU.ln();
                entropy += 0.5 + 0.5 * std::f64::consts::TAU.ln() + log_std[k];
                d_mean.push(z / std);
                d_std.push(z * z - 1.0);
            }
            Evaluated {
                logprob,
                entropy,
                d_logprob: (d_mean, d_std),
                d_entropy: (vec![0.0; *n], vec![1.0; *n]),
            }
        }
    }
}

/// Log-probability of a sample's action and value of its observation under `params`.
pub fn logprob_and_value(network: &Network, params: &[f64], sample: &Sample) -> (f64, f64) {
    let policy = forward(network, params, &path(network, "policy"), &sample.obs).pop().unwrap();
    let value = forward(network, params, &path(network, "value"), &sample.obs).pop().unwrap()[0];
    (evaluate(&network.architecture.head, &policy, log_std(network, params), sample).logprob, value)
}

fn log_std<'a>(network: &Network, params: &'a [f64]) -> &'a [f64] {
    network.tensors.iter().find(|t| t.name == "log_std").map_or(&[], |t| &params[t.range()])
}

/// Mean loss of a minibatch, its parts, and its gradient.
pub fn loss(
    network: &Network,
    config: &Config,
    params: &[f64],
    samples: &[Sample],
) -> (f64, Losses, Vec<f64>) {
    let n = samples.len() as f64;
    let mean = samples.iter().map(|s| s.advantage).sum::<f64>() / n;
    let variance = samples.iter().map(|s| (s.advantage - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let (policy_path, value_path) = (path(network, "policy"), path(network, "value"));
    let log_std_offset = network.tensors.iter().find(|t| t.name == "log_std").map(|t| t.offset);
    let c = config.clip_coef;
    let mut gradient = vec![0.0; params.len()];
    let mut losses = Losses::default();
    for s in samples {
        let advantage =
            if config.norm_adv { (s.advantage - mean) / (variance.sqrt() + 1e-8) } else { s.advantage };
        let policy = forward(network, params, &policy_path, &s.obs);
        let value = forward(network, params, &value_path, &s.obs);
        let head = evaluate(&network.architecture.head, policy.last().unwrap(), log_std(network, params), s);
        let log_ratio = head.logprob - s.logprob;
        let ratio = log_ratio.exp();
        let (plain, clipped) = (-advantage * ratio, -advantage * ratio.clamp(1.0 - c, 1.0 + c));
        losses.policy += plain.max(clipped) / n;
        losses.entropy += head.entropy / n;
        losses.kl += (ratio - 1.0 - log_ratio) / n;
        losses.clipfrac += f64::from((ratio - 1.0).abs() > c) / n;
        let by_logprob = if plain >= clipped { -advantage * ratio / n } else { 0.0 };
        let by_entropy = -config.ent_coef / n;
        let mix = |a: &[f64], b: &[f64]| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| by_logprob * a + by_entropy * b).collect()
        };
        backward(
            network,
            params,
            &policy_path,
            &policy,
            &mix(&head.d_logprob.0, &head.d_entropy.0),
            &mut gradient,
        );
        for (k, d) in mix(&head.d_logprob.1, &head.d_entropy.1).into_iter().enumerate() {
            gradient[log_std_offset.unwrap() + k] += d;
        }

        let v = value.last().unwrap()[0];
        let target = s.advantage + s.value;
        let (mut square, mut slope) = ((v - target).powi(2), v - target);
        if config.clip_vloss {
            let bounded = s.value + (v - s.value).clamp(-c, c);
            if (bounded - target).powi(2) > square {
                square = (bounded - target).powi(2);
                slope = if (v - s.value).abs() <= c { bounded - target } else { 0.0 };
            }
        }
        losses.value += 0.5 * square / n;
        backward(network, params, &value_path, &value, &[config.vf_coef * slope / n], &mut gradient);
    }
    losses.grad_norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    let total = losses.policy - config.ent_coef * losses.entropy + config.vf_coef * losses.value;
    (total, losses, gradient)
}

/// Parameters, moments and step count after the epochs of one update, and the last epoch's mean losses.
pub struct Updated {
    pub params: Vec<f64>,
    pub exp_avg: Vec<f64>,
    pub losses: Losses,
    pub epochs: usize,
}

/// The whole update, from zero moments.
pub fn update(network: &Network, config: &Config, params: &[f32], batch: &Batch, update: u64) -> Updated {
    let mut params: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
    let (mut m, mut v) = (vec![0.0; params.len()], vec![0.0; params.len()]);
    let updates = (config.total_timesteps as f64 / (config.num_envs * config.num_steps) as f64).ceil();
    let rate = if config.anneal_lr {
        config.learning_rate * (1.0 - update as f64 / updates)
    } else {
        config.learning_rate
    };
    let (mut step, mut epochs) = (0, 0);
    let mut mean = Losses::default();
    for epoch in 0..config.update_epochs {
        let shuffle = Shuffle::new(config.seed, update, epoch as u32, batch.len() as u32);
        let size = batch.len() / config.num_minibatches;
        mean = Losses::default();
        let mut kl = 0.0;
        for start in (0..batch.len()).step_by(size) {
            let samples: Vec<Sample> = (start..start + size)
                .map(|p| unpack(network, batch, shuffle.index(p as u32) as usize))
                .collect();
            let (_, losses, gradient) = loss(network, config, &params, &samples);
            let scale = (config.max_grad_norm / (losses.grad_norm + 1e-6)).min(1.0);
            step += 1;
            for k in 0..params.len() {
                let g = gradient[k] * scale;
                m[k] = config.adam_beta1 * m[k] + (1.0 - config.adam_beta1) * g;
                v[k] = config.adam_beta2 * v[k] + (1.0 - config.adam_beta2) * g * g;
                let m_hat = m[k] / (1.0 - config.adam_beta1.powi(step));
                let v_hat = v[k] / (1.0 - config.adam_beta2.powi(step));
                params[k] -= rate * m_hat / (v_hat.sqrt() + config.adam_eps);
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
        epochs += 1;
        if config.target_kl > 0.0 && kl > config.target_kl {
            break;
        }
    }
    Updated { params, exp_avg: m, losses: mean, epochs }
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
