//! Minibatches of SAC and TD3.

use operant_learn::LearnerState;
use operant_learn::algorithms::{Algorithm, td3};
use operant_learn::cpu::off_policy::compare::Transition;

use super::bins::{cross_entropy, moved};
use super::update::adam;
use super::*;

/// What a minibatch changes.
#[derive(Debug, Clone)]
pub struct State {
    /// Parameters.
    pub params: Vec<f64>,
    /// Those of the target networks.
    pub targets: Vec<f64>,
    /// Both of Adam's.
    pub moments: [Vec<f64>; 2],
    /// Minibatches before.
    pub step: u64,
}

/// Means over a minibatch.
#[derive(Debug, Clone, Copy)]
pub struct Minibatch {
    /// Half the squared error, the sum over both critics; of distributions half the cross-entropies.
    pub critics: f64,
    /// Norm of its gradient.
    pub grad_norm: f64,
    /// The policy's loss, and the log-probability of its actions; none in a minibatch that does not train it.
    pub policy: Option<[f64; 2]>,
}

impl State {
    /// In f64.
    pub fn of(state: &LearnerState) -> Self {
        let exact = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let LearnerState { params, targets, exp_avg, exp_avg_sq, step, .. } = state;
        let moments = [exact(exp_avg), exact(exp_avg_sq)];
        Self { params: exact(params), targets: exact(targets), moments, step: *step }
    }

    /// Targets go a share `tau` of the way to these parameters.
    pub fn follow(&mut self, tau: f64, own: impl Iterator<Item = usize>) {
        for k in own {
            self.targets[k] += tau * (self.params[k] - self.targets[k]);
        }
    }

    /// A step of Adam of these parameters. Returns the norm of their gradient.
    pub fn step(
        &mut self,
        (network, config): (&Network, &Config),
        own: impl Iterator<Item = usize>,
        gradient: &[f64],
        (rate, number): (f64, u64),
    ) -> f64 {
        let own: Vec<usize> = own.collect();
        let norm = own.iter().map(|&k| gradient[k].powi(2)).sum::<f64>().sqrt();
        let scale = (config.max_grad_norm / (norm + 1e-6)).min(1.0);
        let Self { params, moments: [m, v], .. } = self;
        // A temperature does not decay.
        let is_temperature = network.log_alpha.is_some_and(|at| own == [at]);
        let decay = if is_temperature { 0.0 } else { config.weight_decay };
        let config = &Config { weight_decay: decay, ..config.clone() };
        for k in own {
            let at = [&mut params[k], &mut m[k], &mut v[k]];
            adam(config, rate, number as i32, gradient[k] * scale, at);
        }
        norm
    }
}

/// The parameters of the policy (`actor`), of both critics (`critics`), or the temperature's (`log_alpha`).
pub fn parameters(network: &Network, group: &str) -> impl Iterator<Item = usize> {
    let of = |name: &str| match name.split('.').next() {
        Some("policy" | "log_std") => "actor".to_owned(),
        first => first.unwrap_or_default().to_owned(),
    };
    network.tensors.iter().filter(move |t| of(&t.name) == group).flat_map(|t| t.range())
}

impl OnTape<'_> {
    /// TD3's action, which these standard normals disturb.
    fn noisy(&mut self, config: &Config, obs: &[f64], normals: Option<&[f32]>) -> Vec<Var> {
        let Self { network, paths, tape, .. } = self;
        let td3::Settings { policy_noise, noise_clip, .. } = config.algorithms.td3;
        let outputs = forward(network, tape, &paths[0], obs, &mut []);
        let mut actions = vec![];
        for (k, output) in outputs.into_iter().enumerate() {
            let action = tape.tanh(output);
            // Only targets are disturbed, which have no gradient.
            let disturbed = normals.map(|normals| {
                let noise = (f64::from(normals[k]) * policy_noise).clamp(-noise_clip, noise_clip);
                tape.leaf((tape.value(action) + noise).clamp(-1.0, 1.0))
            });
            actions.push(disturbed.unwrap_or(action));
        }
        actions
    }

    /// The action of these standard normals, within -1 and 1, and its log-probability.
    fn draw(&mut self, obs: &[f64], normals: &[f32]) -> (Vec<Var>, Var) {
        let Self { network, paths, tape, .. } = self;
        let [means, spreads] = [0, 1].map(|head| forward(network, tape, &paths[head], obs, &mut []));
        let (mut actions, mut terms) = (vec![], vec![]);
        for ((mean, spread), normal) in means.into_iter().zip(spreads).zip(normals) {
            let normal = f64::from(*normal);
            let log_std = bounded(tape, spread);
            let std = tape.exp(log_std);
            let before = tape.sum(&[(mean, 1.0), (std, normal)]);
            actions.push(tape.tanh(before));
            let constant = tape.leaf(-0.5 * normal * normal - 0.5 * std::f64::consts::TAU.ln());
            terms.extend([(constant, 1.0), (log_std, -1.0), (ln_slope(tape, before), -1.0)]);
        }
        (actions, tape.sum(&terms))
    }

    /// The inputs of a critic.
    fn inputs(&mut self, obs: &[f64], actions: &[Var]) -> Vec<Var> {
        let mut inputs = self.leaves(obs.iter().copied());
        inputs.extend(actions);
        inputs
    }

    /// The values of an action by both critics.
    fn values(&mut self, obs: &[f64], actions: &[Var]) -> [Var; 2] {
        let inputs = self.inputs(obs, actions);
        let Self { network, paths, tape, .. } = self;
        let [.., a, b] = &paths[..] else { panic!("two critics come last") };
        [a, b].map(|path| along(network, tape, path, inputs.clone(), &mut [])[0])
    }

    /// Log-probabilities of the distribution of an action's value by a critic, and its values.
    fn distribution_by(&mut self, critic: usize, obs: &[f64], actions: &[Var]) -> (Vec<Var>, Vec<f64>) {
        let inputs = self.inputs(obs, actions);
        self.distribution(self.paths.len() - 2 + critic, inputs, 0)
    }
}

fn exact(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

fn alpha(network: &Network, state: &State) -> f64 {
    parameters(network, "log_alpha").map(|k| state.params[k].exp()).sum()
}

/// The critics' loss, its gradient, and half the squared error or cross-entropy, the sum over both.
pub fn critics(
    (network, config): (&Network, &Config),
    state: &State,
    samples: &[Transition],
) -> (f64, Vec<f64>, f64) {
    let alpha = alpha(network, state);
    let (mut terms, mut squares) = (vec![], 0.0);
    let (mut net, mut target) = (OnTape::new(network, &state.params), OnTape::new(network, &state.targets));
    for sample in samples {
        let [obs, next_obs] = [0, 1].map(|k| exact(&sample.obs[k]));
        let (next_actions, entropy) = if config.algorithm == Algorithm::Td3 {
            (target.noisy(config, &next_obs, Some(&sample.normals[0])), 0.0)
        } else {
            let (actions, logprob) = net.draw(&next_obs, &sample.normals[0]);
            let actions = target.leaves(actions.iter().map(|&x| net.tape.value(x)));
            (actions, -alpha * net.tape.value(logprob))
        };
        let next = target.values(&next_obs, &next_actions).map(|q| target.tape.value(q));
        let [reward, discount] = [sample.reward, sample.discount].map(f64::from);
        let actions = net.leaves(exact(&sample.actions));
        let share = f64::from(sample.weight) / samples.len() as f64;
        if network.architecture.bins.is_some() {
            let least = usize::from(next[1] < next[0]);
            let (least, bins) = target.distribution_by(least, &next_obs, &next_actions);
            let least: Vec<f64> = least.into_iter().map(|ln_p| target.tape.value(ln_p).exp()).collect();
            let moved = moved(&bins, &least, [reward + discount * entropy, discount]);
            for critic in 0..2 {
                let (own, _) = net.distribution_by(critic, &obs, &actions);
                let loss = cross_entropy(&mut net.tape, own, moved.clone());
                terms.push((loss, share));
                squares += 0.5 * net.tape.value(loss) / samples.len() as f64;
            }
            continue;
        }
        let expected = reward + discount * (next[0].min(next[1]) + entropy);
        for q in net.values(&obs, &actions) {
            let error = net.tape.value(q) - expected;
            terms.push((net.tape.of(q, 0.5 * error * error, error), share));
            squares += 0.5 * error * error / samples.len() as f64;
        }
    }
    let loss = net.tape.sum(&terms);
    (net.tape.value(loss), net.tape.gradient(loss, state.params.len()), squares)
}

/// The policy's loss, the mean log-probability of its actions (NaN with TD3), and the gradient of the loss.
pub fn policy(
    (network, config): (&Network, &Config),
    state: &State,
    samples: &[Transition],
) -> ([f64; 2], Vec<f64>) {
    let (alpha, share) = (alpha(network, state), 1.0 / samples.len() as f64);
    let (mut terms, mut logprobs) = (vec![], 0.0);
    let mut net = OnTape::new(network, &state.params);
    for sample in samples {
        let obs = exact(&sample.obs[0]);
        if config.algorithm == Algorithm::Td3 {
            let actions = net.noisy(config, &obs, None);
            terms.push((net.values(&obs, &actions)[0], -share));
            logprobs = f64::NAN;
            continue;
        }
        let (actions, logprob) = net.draw(&obs, &sample.normals[1]);
        let [a, b] = net.values(&obs, &actions);
        let least = if net.tape.value(a) <= net.tape.value(b) { a } else { b };
        terms.extend([(logprob, alpha * share), (least, -share)]);
        logprobs += net.tape.value(logprob) * share;
    }
    let loss = net.tape.sum(&terms);
    ([net.tape.value(loss), logprobs], net.tape.gradient(loss, state.params.len()))
}

/// The gradient of the temperature's logarithm.
pub fn by_log_alpha(network: &Network, config: &Config, logprob: f64) -> f64 {
    -(logprob + config.algorithms.sac.target_entropy * network.architecture.head.components() as f64)
}

/// A whole minibatch.
pub fn minibatch(network: &Network, config: &Config, state: &mut State, samples: &[Transition]) -> Minibatch {
    let (of, rate) = ((network, config), config.learning_rate);
    let value_rate = if config.vf_learning_rate > 0.0 { config.vf_learning_rate } else { rate };
    let (number, delay) = (state.step, config.policy_frequency as u64);
    state.step += 1;
    let (_, gradient, critics) = critics(of, state, samples);
    let grad_norm = state.step(of, parameters(network, "critics"), &gradient, (value_rate, number + 1));
    let trains_policy = number.is_multiple_of(delay);
    let policy = trains_policy.then(|| {
        let (means, mut gradient) = policy(of, state, samples);
        let along = (rate, number / delay + 1);
        state.step(of, parameters(network, "actor"), &gradient, along);
        if network.log_alpha.is_some() && config.algorithms.sac.autotune {
            parameters(network, "log_alpha")
                .for_each(|k| gradient[k] = by_log_alpha(network, config, means[1]));
            state.step(of, parameters(network, "log_alpha"), &gradient, along);
        }
        means
    });
    // TD3's targets wait for the policy.
    let is_td3 = config.algorithm == Algorithm::Td3;
    let due = if is_td3 { trains_policy.then_some(number / delay + 1) } else { Some(number + 1) };
    if due.is_some_and(|due| due.is_multiple_of(config.target_network_frequency as u64)) {
        let critics = parameters(network, "critics");
        state.follow(config.tau, critics.chain(parameters(network, "actor").filter(|_| is_td3)));
    }
    Minibatch { critics, grad_norm, policy }
}
