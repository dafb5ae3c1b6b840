//! The optimiser: norm of the gradient, clipping, Adam and rectified Adam.
//!
//! Sums run in f64 in an order set by the number of parameters alone.

use std::ops::Range;

use rayon::prelude::*;

use super::muon;
use crate::LearnerState;
use crate::config::{ClipGrad, Config, Optimizer};
use crate::network::Network;

/// Parameters per block of the norm and of parallel steps.
const BLOCK: usize = 4_096;
/// Partial sums of a block's norm, side by side.
const LANES: usize = 16;
/// Below this many parameters a step is not worth spreading over threads.
const PARALLEL: usize = 1 << 16;

/// Whether norm and step are spread over threads.
pub(crate) fn is_parallel(gradient: &[f32]) -> bool {
    gradient.len() >= PARALLEL
}

pub(crate) fn norm(gradient: &[f32]) -> f64 {
    let block = |block: &[f32]| {
        let mut sums = [0.0f64; LANES];
        let chunks = block.chunks_exact(LANES);
        for (sum, &g) in sums.iter_mut().zip(chunks.remainder()) {
            *sum += f64::from(g) * f64::from(g);
        }
        for chunk in chunks {
            for (sum, &g) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(g) * f64::from(g);
            }
        }
        sums.iter().sum::<f64>()
    };
    // Partial sums of blocks are added one after another, so threads do not matter.
    let total: f64 = if is_parallel(gradient) {
        gradient.par_chunks(BLOCK).map(block).collect::<Vec<_>>().iter().sum()
    } else {
        gradient.chunks(BLOCK).map(block).sum()
    };
    total.sqrt()
}

/// What is the same for all parameters in a step: `parameter -= step_size m / (root sqrt(v) + eps)`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Factors {
    step_size: f32,
    root: f32,
    eps: f32,
}

impl Factors {
    /// Of step number `step`, from 1.
    fn new(config: &Config, learning_rate: f64, step: i32) -> Self {
        let Config { adam_beta1: beta1, adam_beta2: beta2, adam_eps, .. } = *config;
        let step_size = learning_rate / (1.0 - beta1.powi(step));
        let root = 1.0 / (1.0 - beta2.powi(step)).sqrt();
        let of = |step_size: f64, root: f64, eps: f64| Self {
            step_size: step_size as f32,
            root: root as f32,
            eps: eps as f32,
        };
        match config.optimizer {
            Optimizer::Adam | Optimizer::Muon => of(step_size, root, adam_eps),
            Optimizer::RAdam => match rectification(beta2, step) {
                Some(factor) => of(step_size * factor, root, adam_eps),
                None => of(step_size, 0.0, 1.0),
            },
        }
    }
}

/// The factor of a step's size by which RAdam makes up for the variance of its second moments (Liu et al., "On the Variance of the
/// Adaptive Learning Rate and Beyond", ICLR 2020). None in the first steps, which do without second moments; the bound of 5 is
/// PyTorch's and Optax's.
fn rectification(beta2: f64, step: i32) -> Option<f64> {
    let last = 2.0 / (1.0 - beta2) - 1.0;
    let power = beta2.powi(step);
    let now = last - 2.0 * f64::from(step) * power / (1.0 - power);
    let part = |rho: f64| (rho - 4.0) * (rho - 2.0) / rho;
    (now > 5.0).then(|| (part(now) / part(last)).sqrt())
}

/// Neighbouring parameters whose steps are computed alike.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stretch {
    range: Range<usize>,
    /// Whether they are the value network's, with a step size or a norm of its own.
    is_value: bool,
    /// Rows and columns, if Muon steps them.
    matrix: Option<[usize; 2]>,
}

impl Stretch {
    /// All parameters: one stretch, unless the configuration distinguishes some.
    pub fn of(config: &Config, network: &Network) -> Vec<Self> {
        let value = network.value_params().filter(|_| config.steps_apart()).unwrap_or(0..0);
        let matrices = network.hidden_matrices().filter(|_| config.optimizer == Optimizer::Muon);
        let matrices: Vec<_> = matrices.map(|(range, shape)| (range, Some(shape))).collect();
        let mut stretches: Vec<Self> = Vec::new();
        for tensor in &network.tensors {
            let own = |(range, _): &&(Range<usize>, _)| tensor.range().contains(&range.start);
            let mut parts: Vec<_> = matrices.iter().filter(own).cloned().collect();
            if parts.is_empty() {
                parts.push((tensor.range(), None));
            }
            for (range, matrix) in parts {
                let is_value = value.contains(&range.start);
                match stretches.last_mut() {
                    Some(Self { range: before, is_value: same, matrix: None })
                        if matrix.is_none() && *same == is_value =>
                    {
                        before.end = range.end;
                    }
                    _ => stretches.push(Self { range, is_value, matrix }),
                }
            }
        }
        stretches
    }
}

/// One step of the optimiser along `gradient`, which is first scaled down to `max_grad_norm` if its `norm` is greater.
pub(crate) fn step(
    state: &mut LearnerState,
    gradient: &[f32],
    norm: f64,
    learning_rate: f64,
    config: &Config,
    stretches: &[Stretch],
) {
    state.step += 1;
    let steps = i32::try_from(state.step).unwrap_or(i32::MAX);
    let parallel = is_parallel(gradient);
    let norms = match config.clip_grad {
        ClipGrad::Global => [norm; 2],
        ClipGrad::Network => [false, true].map(|is_value| {
            let own = stretches.iter().filter(|stretch| stretch.is_value == is_value);
            own.map(|stretch| self::norm(&gradient[stretch.range.clone()]).powi(2)).sum::<f64>().sqrt()
        }),
    };
    for Stretch { range, is_value, matrix } in stretches {
        let rate = if *is_value { config.value_rate(learning_rate) } else { learning_rate };
        let scale = (config.max_grad_norm / (norms[usize::from(*is_value)] + 1e-6)).min(1.0) as f32;
        let gradient = &gradient[range.clone()];
        let params = &mut state.params[range.clone()];
        let exp_avg = &mut state.exp_avg[range.clone()];
        decay(params, rate, config);
        if let Some(shape) = matrix {
            muon::step(params, exp_avg, gradient, scale, *shape, (rate, config.muon_momentum), parallel);
        } else {
            let factors = Factors::new(config, rate, steps);
            let exp_avg_sq = &mut state.exp_avg_sq[range.clone()];
            adam(params, [exp_avg, exp_avg_sq], gradient, scale, factors, config, parallel);
        }
    }
}

/// A step of Adam of neighbouring parameters without decay, their step number `steps`, along a gradient of this `norm`.
pub(crate) fn step_of(
    state: &mut LearnerState,
    range: Range<usize>,
    gradient: &[f32],
    (norm, rate): (f64, f64),
    steps: u64,
    config: &Config,
) {
    let steps = i32::try_from(steps).unwrap_or(i32::MAX);
    let scale = (config.max_grad_norm / (norm + 1e-6)).min(1.0) as f32;
    let (gradient, params) = (&gradient[range.clone()], &mut state.params[range.clone()]);
    let moments = [&mut state.exp_avg[range.clone()], &mut state.exp_avg_sq[range]];
    adam(params, moments, gradient, scale, Factors::new(config, rate, steps), config, false);
}

/// Decoupled weight decay.
pub(crate) fn decay(params: &mut [f32], rate: f64, config: &Config) {
    if config.weight_decay > 0.0 {
        let keep = (1.0 - rate * config.weight_decay) as f32;
        params.iter_mut().for_each(|param| *param *= keep);
    }
}

/// Adam's step of these parameters.
fn adam(
    params: &mut [f32],
    [exp_avg, exp_avg_sq]: [&mut [f32]; 2],
    gradient: &[f32],
    scale: f32,
    Factors { step_size, root, eps }: Factors,
    config: &Config,
    parallel: bool,
) {
    let keep_and_take = |beta: f64| (beta as f32, (1.0 - beta) as f32);
    let ((keep1, take1), (keep2, take2)) =
        (keep_and_take(config.adam_beta1), keep_and_take(config.adam_beta2));
    let block = |params: &mut [f32], exp_avg: &mut [f32], exp_avg_sq: &mut [f32], gradient: &[f32]| {
        let moments = exp_avg.iter_mut().zip(exp_avg_sq);
        for ((param, (m, v)), &g) in params.iter_mut().zip(moments).zip(gradient) {
            let g = g * scale;
            *m = *m * keep1 + g * take1;
            *v = *v * keep2 + g * g * take2;
            *param -= step_size * *m / (v.sqrt() * root + eps);
        }
    };
    if !parallel {
        block(params, exp_avg, exp_avg_sq, gradient);
    } else {
        let moments = exp_avg.par_chunks_mut(BLOCK).zip(exp_avg_sq.par_chunks_mut(BLOCK));
        let params = params.par_chunks_mut(BLOCK).zip(gradient.par_chunks(BLOCK));
        params.zip(moments).for_each(|((params, gradient), (m, v))| block(params, m, v, gradient));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radam_starts_without_second_moments_and_tends_to_adam() {
        // rho_t of beta2 = 0.999 passes 5 in step 6; the factors are the paper's formula, evaluated in Python.
        assert_eq!([1, 5].map(|step| rectification(0.999, step)), [None; 2]);
        for (step, factor) in [(6, 0.025_821_113), (100, 0.215_335_437), (10_000, 0.999_773_305)] {
            let rectified = rectification(0.999, step).expect("past the first steps");
            assert!((rectified - factor).abs() < 1e-9, "step {step}: {rectified}");
        }
        let radam = Config { optimizer: Optimizer::RAdam, ..Config::default() };
        let first = Factors::new(&radam, 1e-3, 1);
        assert_eq!(first, Factors { step_size: 1e-2, root: 0.0, eps: 1.0 });
    }

    #[test]
    fn norm_is_euclidean() {
        for len in [1, 15, 16, 17, 4_096, 5_000, 70_001] {
            let gradient: Vec<f32> = (0..len).map(|i| ((i * 7919 % 1_000) as f32 - 500.0) / 100.0).collect();
            let expected = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            assert!((norm(&gradient) / expected - 1.0).abs() < 1e-12);
        }
    }
}
