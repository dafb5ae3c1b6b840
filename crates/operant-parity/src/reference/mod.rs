//! PPO, PQN, SAC and DQN once more: scalar, in f64, one sample at a time, written from the formulas and sharing nothing with operant-learn but the
//! names of tensors and the order of samples. Gradients come from a tape.

use operant_lane::Packed;
use operant_learn::cpu::batch::Batch;
use operant_learn::cpu::update::noise::MeanNoise;
use operant_learn::network::{Cell, CellSpec, Conv, Embed, Form, Head, Input, Network, Outputs, Pool};
use operant_learn::shuffle::Shuffle;
use operant_learn::{
    ActionDistribution, Activation, ClipGrad, Config, LogStd, LrSchedule, Optimizer, ValueLoss,
};

mod bins;
pub mod dqn;
mod muon;
mod network;
pub mod sac;
pub mod tape;
mod update;

use self::network::*;
use self::tape::{Tape, Var};
pub use self::update::{Updated, gae, gae_of_players, minibatch, update};

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
    /// The same two of rewards for exploring, if they have a value of their own.
    pub exploring: Option<[f64; 2]>,
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
    let exploring = layout.intrinsic.map(|word| [word, word + 1].map(float));
    Sample {
        obs: observation(network, &words[layout.obs..layout.obs + layout.obs_words]),
        actions: (0..layout.components).map(|k| float(layout.actions + k)).collect(),
        logprob: layout.logprob.map_or(f64::NAN, float),
        value: float(layout.value),
        advantage: float(layout.advantage),
        target: float(layout.advantage) - exploring.map_or(0.0, |[_, advantage]| advantage)
            + float(layout.value),
        exploring: exploring.map(|[value, advantage]| [value, value + advantage]),
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

/// The log standard deviation of an output of the network.
fn bounded(tape: &mut Tape, raw: Var) -> Var {
    let [centre, radius] = LogStd::CENTRE_AND_RADIUS.map(f64::from);
    let centre = tape.leaf(centre);
    let share = tape.sum(&[(raw, 1.0 / radius), (centre, -1.0 / radius)]);
    let share = tape.tanh(share);
    tape.sum(&[(share, radius), (centre, 1.0)])
}

/// A network on a tape, whose first variables are its parameters.
struct OnTape<'a> {
    network: &'a Network,
    /// Of each head.
    paths: Vec<Vec<Step>>,
    /// Of the value of rewards for exploring.
    exploring: Option<Vec<Step>>,
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
            Outputs::PolicyAndCritics => &["policy", "log_std", "critics.0.q", "critics.1.q"],
            Outputs::ActionAndCritics => &["policy", "critics.0.q", "critics.1.q"],
            Outputs::ActionValues => &["q"],
        };
        let paths = heads.iter().map(|head| path(network, head)).collect();
        let exploring = network.architecture.intrinsic_value.then(|| path(network, "intrinsic_value"));
        let log_std = log_std.map_or(vec![], |t| t.range().collect());
        let state = (0..network.states).map(|_| tape.leaf(0.0)).collect();
        Self { network, paths, exploring, log_std, tape, state }
    }

    fn leaves(&mut self, values: impl IntoIterator<Item = f64>) -> Vec<Var> {
        values.into_iter().map(|x| self.tape.leaf(x)).collect()
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

    /// The value of rewards for exploring of the next sample, if they have one of their own; the state does not move on.
    fn exploring(&mut self, sample: &Sample) -> Option<Var> {
        let Self { network, exploring, tape, state, .. } = self;
        let mut state = state.clone();
        begin(tape, &mut state, sample);
        exploring.as_ref().map(|path| forward(network, tape, path, &sample.obs, &mut state)[0])
    }

    /// Log-probability, entropy and value of the next sample, and the log-probabilities of the distribution whose mean the value is.
    fn next(&mut self, sample: &Sample) -> ([Var; 3], Vec<Var>) {
        let Self { network, paths, log_std, tape, state, .. } = self;
        begin(tape, state, sample);
        let before = state.clone();
        let policy = forward(network, tape, &paths[0], &sample.obs, state);
        let mut computed = vec![];
        if let Some(path) = paths.get(2) {
            // All heads see one step of a trunk.
            state.copy_from_slice(&before);
            for raw in forward(network, tape, path, &sample.obs, state) {
                computed.push(bounded(tape, raw));
            }
        }
        if network.architecture.shared_trunk {
            state.copy_from_slice(&before);
        }
        let log_std = if paths.len() > 2 { &computed } else { &*log_std };
        let [logprob, entropy] = evaluate(tape, &network.architecture.head, &policy, log_std, sample);
        if network.architecture.bins.is_some() {
            let obs = self.leaves(sample.obs.iter().copied());
            let (shares, bins) = self.distribution(1, obs, 0);
            let tape = &mut self.tape;
            let terms: Vec<_> = shares.iter().zip(bins).map(|(&ln_p, z)| (tape.exp(ln_p), z)).collect();
            return ([logprob, entropy, tape.sum(&terms)], shares);
        }
        ([logprob, entropy, forward(network, tape, &paths[1], &sample.obs, state)[0]], vec![])
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
        let ([logprob, _, value], _) = net.next(sample);
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
        let exploring = net.exploring(s);
        let ([logprob, entropy, value], shares) = net.next(s);
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

        if let Some(Step::Expected(bins)) = net.paths[1].last() {
            // All of a distribution at the target, whatever its own values are.
            let loss = bins::cross_entropy(tape, shares, bins::moved(bins, &[1.0], [s.target, 0.0]));
            losses.value += tape.value(loss) / n;
            terms.push((loss, config.algorithms.ppo.vf_coef / n));
            continue;
        }
        let second = exploring.zip(s.exploring).map(|(var, [old, target])| (var, old, target));
        for (value, old, target) in [(value, s.value, s.target)].into_iter().chain(second) {
            let v = tape.value(value);
            let (mut square, mut slope) = ((v - target).powi(2), v - target);
            if config.algorithms.ppo.clip_vloss {
                let bounded = old + (v - old).clamp(-c, c);
                if (bounded - target).powi(2) > square {
                    square = (bounded - target).powi(2);
                    slope = if (v - old).abs() <= c { bounded - target } else { 0.0 };
                }
            }
            let d = config.huber_delta;
            if config.value_loss == ValueLoss::Huber && square.sqrt() > d {
                square = 2.0 * d * (square.sqrt() - 0.5 * d);
                slope = slope.clamp(-d, d);
            }
            losses.value += 0.5 * square / n;
            terms.push((tape.of(value, 0.5 * square, slope), config.algorithms.ppo.vf_coef / n));
        }
    }
    let total = net.tape.sum(&terms);
    (net.tape, total, losses)
}
