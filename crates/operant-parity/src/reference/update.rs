//! A whole update: epochs, minibatches, optimisers, returns and advantages.

use super::*;

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
                adam(config, rate, step, g, [&mut params[k], &mut m[k], &mut v[k]]);
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

/// Step number `step` of a parameter and its moments along `g`.
pub(super) fn adam(config: &Config, rate: f64, step: i32, g: f64, [param, m, v]: [&mut f64; 3]) {
    let (beta1_t, beta2_t) = (config.adam_beta1.powi(step), config.adam_beta2.powi(step));
    let rho = 2.0 / (1.0 - config.adam_beta2) - 1.0;
    let rho_t = rho - 2.0 * f64::from(step) * beta2_t / (1.0 - beta2_t);
    *param *= 1.0 - rate * config.weight_decay;
    *m = config.adam_beta1 * *m + (1.0 - config.adam_beta1) * g;
    *v = config.adam_beta2 * *v + (1.0 - config.adam_beta2) * g * g;
    let adaptive = 1.0 / ((*v / (1.0 - beta2_t)).sqrt() + config.adam_eps);
    let factor = match config.optimizer {
        Optimizer::Adam | Optimizer::Muon => adaptive,
        Optimizer::RAdam if rho_t <= 5.0 => 1.0,
        Optimizer::RAdam => {
            let rectified = (rho_t - 4.0) * (rho_t - 2.0) * rho / ((rho - 4.0) * (rho - 2.0) * rho_t);
            rectified.sqrt() * adaptive
        }
    };
    *param -= rate * *m / (1.0 - beta1_t) * factor;
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

/// Advantages of one environment whose players move in turn, `movers` with one more number than there are steps. `rewards` are those of the
/// players with even numbers, and `next_value` is that of the player who moves next.
pub fn gae_of_players(
    [rewards, values]: [&[f64]; 2],
    done: &[bool],
    movers: &[u8],
    next_value: f64,
    gamma: f64,
    lambda: f64,
) -> Vec<f64> {
    let steps = rewards.len();
    let side = |t: usize| if movers[t].is_multiple_of(2) { 1.0 } else { -1.0 };
    let mut advantages = vec![0.0; steps];
    for t in (0..steps).rev() {
        // The step of the same player's next move, or of the end.
        let end = (t..steps).find(|&step| done[step] || step + 1 < steps && movers[step + 1] == movers[t]);
        let reward: f64 = (t..=end.unwrap_or(steps - 1)).map(|step| side(t) * rewards[step]).sum();
        let (value, advantage) = match end {
            Some(step) if done[step] => (0.0, 0.0),
            Some(step) => (values[step + 1], advantages[step + 1]),
            None => (side(t) * side(steps) * next_value, 0.0),
        };
        advantages[t] = reward + gamma * value - values[t] + gamma * lambda * advantage;
    }
    advantages
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
