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

/// The loss, its gradient, and the means of squared errors and values.
pub fn loss(
    network: &Network,
    config: &Config,
    state: &State,
    samples: &[Transition],
) -> (f64, Vec<f64>, [f64; 2]) {
    let Head::MultiDiscrete(counts) = &network.architecture.head else { panic!("choices have values") };
    let (share, n) = (1.0 / counts.len() as f64, samples.len() as f64);
    let (mut net, mut target) = (OnTape::new(network, &state.params), OnTape::new(network, &state.targets));
    let (mut terms, mut means) = (vec![], [0.0; 2]);
    for sample in samples {
        let [obs, next_obs] = [0, 1].map(|k| sample.obs[k].iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        let values_of = |of: &mut OnTape<'_>| -> Vec<f64> {
            let values = forward(network, &mut of.tape, &of.paths[0], &next_obs, &mut []);
            values.into_iter().map(|value| of.tape.value(value)).collect()
        };
        let (by_target, by_net) = (values_of(&mut target), values_of(&mut net));
        let judge = if config.algorithms.dqn.double_q { &by_net } else { &by_target };
        let next_actions = best(counts, judge, &sample.legal);
        let actions: Vec<usize> = sample.actions.iter().map(|&action| action as usize).collect();
        let values = forward(network, &mut net.tape, &net.paths[0], &obs, &mut []);
        if let Some(Step::Expected(_)) = net.paths[0].last() {
            let (next_obs, obs) = (target.leaves(next_obs), net.leaves(obs));
            let (next, bins) = target.distribution(0, next_obs, next_actions[0]);
            let next: Vec<f64> = next.into_iter().map(|ln_p| target.tape.value(ln_p).exp()).collect();
            let (own, _) = net.distribution(0, obs, actions[0]);
            let moved = moved(&bins, &next, [sample.reward, sample.discount].map(f64::from));
            let loss = cross_entropy(&mut net.tape, own, moved);
            terms.push((loss, f64::from(sample.weight) / n));
            means[0] += net.tape.value(loss) / n;
            means[1] += net.tape.value(values[actions[0]]) / n;
            continue;
        }
        let next: f64 = chosen(counts, &next_actions).iter().map(|&k| by_target[k] * share).sum();
        let expected = f64::from(sample.reward) + f64::from(sample.discount) * next;
        let of_action: Vec<(Var, f64)> =
            chosen(counts, &actions).into_iter().map(|k| (values[k], share)).collect();
        let value = net.tape.sum(&of_action);
        let error = net.tape.value(value) - expected;
        let (mut loss, mut slope, d) = (0.5 * error * error, error, config.huber_delta);
        if config.value_loss == ValueLoss::Huber && error.abs() > d {
            (loss, slope) = (d * (error.abs() - 0.5 * d), d.copysign(error));
        }
        terms.push((net.tape.of(value, loss, slope), f64::from(sample.weight) / n));
        means[0] += error * error / n;
        means[1] += net.tape.value(value) / n;
    }
    let loss = net.tape.sum(&terms);
    (net.tape.value(loss), net.tape.gradient(loss, state.params.len()), means)
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
