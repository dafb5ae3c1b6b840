//! Minibatches of DQN.

use operant_learn::cpu::off_policy::compare::Transition;

use super::bins::{cross_entropy, moved};
use super::sac::State;
use super::*;

/// Means over a minibatch.
#[derive(Debug, Clone, Copy)]
pub struct Minibatch {
    /// The squared error.
    pub squares: f64,
    /// Values of the actions taken.
    pub values: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
}

/// The index of each component's choice among all outputs.
fn chosen(counts: &[usize], actions: &[usize]) -> Vec<usize> {
    let firsts = counts.iter().scan(0, |first, count| Some(std::mem::replace(first, *first + count)));
    firsts.zip(actions).map(|(first, action)| first + action).collect()
}

/// The greatest legal choice of each component.
fn best(counts: &[usize], values: &[f64], legal: &[bool]) -> Vec<usize> {
    let mut first = 0;
    let of_component = |&count: &usize| {
        first += count;
        let at = |k: usize| first - count + k;
        let legal = (0..count).filter(|&k| legal.is_empty() || legal[at(k)]);
        legal.max_by(|&a, &b| values[at(a)].total_cmp(&values[at(b)])).expect("a legal choice")
    };
    counts.iter().map(of_component).collect()
}

/// The logits of all distributions, none without any, and the action values; `state` moves on by a step.
fn outputs(net: &mut OnTape<'_>, obs: &[f32], state: &mut [Var]) -> [Vec<Var>; 2] {
    let OnTape { network, paths, tape, .. } = net;
    let obs: Vec<f64> = obs.iter().map(|&x| f64::from(x)).collect();
    if let [path @ .., Step::Expected(_)] = &paths[0][..] {
        let logits = forward(network, tape, path, &obs, state);
        return [logits.clone(), along(network, tape, &paths[0][path.len()..], logits, state)];
    }
    [vec![], forward(network, tape, &paths[0], &obs, state)]
}

/// The loss, its gradient, and the means of squared errors and values; with memory the samples are the rows of sequences.
pub fn loss(
    network: &Network,
    config: &Config,
    state: &State,
    samples: &[Transition],
) -> (f64, Vec<f64>, [f64; 2]) {
    let mut nets = [&state.params, &state.targets].map(|params| OnTape::new(network, params));
    let (mut terms, mut sums) = (vec![], [0.0; 2]);
    let each = if network.states > 0 { config.sequence_rows() } else { 1 };
    for rows in samples.chunks(each) {
        let all: Vec<[[Vec<Var>; 2]; 2]> = match network.states {
            0 => [0, 1].map(|k| nets.each_mut().map(|net| outputs(net, &rows[0].obs[k], &mut []))).to_vec(),
            _ => along_sequence(&mut nets, config, rows),
        };
        let counts = |sample: &Transition| network.states == 0 || sample.row.counts;
        for (k, sample) in rows.iter().enumerate().filter(|(_, sample)| counts(sample)) {
            let then = if network.states == 0 { 1 } else { k + sample.row.ahead };
            let legal = &rows.get(then).unwrap_or(sample).legal;
            let of = [&all[k][0], &all[then][0], &all[then][1]];
            terms.push(term(&mut nets, config, sample, of, legal, &mut sums));
        }
    }
    let n = (samples.len() / each * config.sequence()) as f64;
    terms.iter_mut().for_each(|(_, weight)| *weight /= n);
    let [net, _] = &mut nets;
    let loss = net.tape.sum(&terms);
    (net.tape.value(loss), net.tape.gradient(loss, state.params.len()), sums.map(|sum| sum / n))
}

/// What both networks make of the rows of a sequence.
fn along_sequence(
    nets: &mut [OnTape<'_>; 2],
    config: &Config,
    rows: &[Transition],
) -> Vec<[[Vec<Var>; 2]; 2]> {
    let begins = rows[0].row.begins.as_ref().expect("a state");
    let leaves = |net: &mut OnTape<'_>, values: &[f64]| values.iter().map(|&x| net.tape.leaf(x)).collect();
    let begins: Vec<f64> = begins.iter().map(|&x| f64::from(x)).collect();
    let mut states = nets.each_mut().map(|net| -> Vec<Var> { leaves(net, &begins) });
    let of_row = |(k, row): (usize, &Transition)| {
        for (net, state) in nets.iter_mut().zip(&mut states) {
            // The state after the burn-in is a constant, and that of an earlier episode is gone.
            if row.row.is_first || k == config.burn_in {
                let now = if row.row.is_first { vec![0.0; state.len()] } else { values(net, state) };
                *state = leaves(net, &now);
            }
        }
        let [own, of_target] = &mut states;
        [outputs(&mut nets[0], &row.obs[0], own), outputs(&mut nets[1], &row.obs[0], of_target)]
    };
    rows.iter().enumerate().map(of_row).collect()
}

/// The values of variables.
fn values(of: &OnTape<'_>, vars: &[Var]) -> Vec<f64> {
    vars.iter().map(|&var| of.tape.value(var)).collect()
}

/// The loss of a sample and its weight, from the trained network's outputs before the step and those of both networks after it; the squared
/// error and the value are added to `sums`.
fn term(
    [net, target]: &mut [OnTape<'_>; 2],
    config: &Config,
    sample: &Transition,
    [[logits, own], [_, by_net], of_target]: [&[Vec<Var>; 2]; 3],
    legal: &[bool],
    sums: &mut [f64; 2],
) -> (Var, f64) {
    let by_target = values(target, &of_target[1]);
    let judge = if config.algorithms.dqn.double_q { values(net, by_net) } else { by_target.clone() };
    let Head::MultiDiscrete(counts) = &net.network.architecture.head else { panic!("choices have values") };
    let share = 1.0 / counts.len() as f64;
    let next_actions = best(counts, &judge, legal);
    let actions: Vec<usize> = sample.actions.iter().map(|&action| action as usize).collect();
    let weight = f64::from(sample.weight);
    if let Some(Step::Expected(bins)) = net.paths[0].last() {
        let (bins, at) = (bins.clone(), |action: usize| action * bins.len()..(action + 1) * bins.len());
        let exps: Vec<f64> =
            of_target[0][at(next_actions[0])].iter().map(|&logit| target.tape.value(logit).exp()).collect();
        let total: f64 = exps.iter().sum();
        let next: Vec<f64> = exps.into_iter().map(|exp| exp / total).collect();
        let of_action = distribution(&mut net.tape, &logits[at(actions[0])]);
        let target = moved(&bins, &next, [sample.reward, sample.discount].map(f64::from));
        let loss = cross_entropy(&mut net.tape, of_action, target);
        sums[0] += net.tape.value(loss);
        sums[1] += net.tape.value(own[actions[0]]);
        return (loss, weight);
    }
    let next: f64 = chosen(counts, &next_actions).iter().map(|&k| by_target[k] * share).sum();
    let expected = f64::from(sample.reward) + f64::from(sample.discount) * next;
    let of_action: Vec<(Var, f64)> = chosen(counts, &actions).into_iter().map(|k| (own[k], share)).collect();
    let value = net.tape.sum(&of_action);
    let error = net.tape.value(value) - expected;
    let (mut loss, mut slope, d) = (0.5 * error * error, error, config.huber_delta);
    if config.value_loss == ValueLoss::Huber && error.abs() > d {
        (loss, slope) = (d * (error.abs() - 0.5 * d), d.copysign(error));
    }
    sums[0] += error * error;
    sums[1] += net.tape.value(value);
    (net.tape.of(value, loss, slope), weight)
}

/// A whole minibatch.
pub fn minibatch(network: &Network, config: &Config, state: &mut State, samples: &[Transition]) -> Minibatch {
    state.step += 1;
    let (_, gradient, [squares, values]) = loss(network, config, state, samples);
    let along = (config.learning_rate, state.step);
    let grad_norm = state.step((network, config), 0..network.len(), &gradient, along);
    if state.step.is_multiple_of(config.target_network_frequency as u64) {
        state.follow(config.tau, 0..network.len());
    }
    Minibatch { squares, values, grad_norm }
}
