//! The optimiser: norm of the gradient, clipping, Adam, and annealing.
//!
//! Sums run in f64 in an order set by the number of parameters alone.

use rayon::prelude::*;

use crate::LearnerState;
use crate::config::Config;

/// Parameters per block of the norm and of parallel steps.
const BLOCK: usize = 4_096;
/// Partial sums of a block's norm, side by side.
const LANES: usize = 16;
/// Below this many parameters a step is not worth spreading over threads.
const PARALLEL: usize = 1 << 16;

/// Adam's step size in update `update` (from 0): constant, or falling linearly towards zero, which it would reach in the
/// update after the last.
pub fn learning_rate(config: &Config, update: u64) -> f64 {
    if !config.anneal_lr {
        return config.learning_rate;
    }
    let updates = config.updates();
    config.learning_rate * (1.0 - update.min(updates) as f64 / updates as f64)
}

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

/// One step of Adam along `gradient`, which is first scaled down to `max_grad_norm` if its `norm` is greater.
pub(crate) fn step(
    state: &mut LearnerState,
    gradient: &[f32],
    norm: f64,
    learning_rate: f64,
    config: &Config,
) {
    state.step += 1;
    let steps = i32::try_from(state.step).unwrap_or(i32::MAX);
    let (beta1, beta2) = (config.adam_beta1, config.adam_beta2);
    let scale = (config.max_grad_norm / (norm + 1e-6)).min(1.0) as f32;
    let step_size = (learning_rate / (1.0 - beta1.powi(steps))) as f32;
    let root = (1.0 / (1.0 - beta2.powi(steps)).sqrt()) as f32;
    let (keep1, take1) = (beta1 as f32, (1.0 - beta1) as f32);
    let (keep2, take2) = (beta2 as f32, (1.0 - beta2) as f32);
    let eps = config.adam_eps as f32;
    let block = |params: &mut [f32], exp_avg: &mut [f32], exp_avg_sq: &mut [f32], gradient: &[f32]| {
        let moments = exp_avg.iter_mut().zip(exp_avg_sq);
        for ((param, (m, v)), &g) in params.iter_mut().zip(moments).zip(gradient) {
            let g = g * scale;
            *m = *m * keep1 + g * take1;
            *v = *v * keep2 + g * g * take2;
            *param -= step_size * *m / (v.sqrt() * root + eps);
        }
    };
    if !is_parallel(gradient) {
        block(&mut state.params, &mut state.exp_avg, &mut state.exp_avg_sq, gradient);
    } else {
        let moments = state.exp_avg.par_chunks_mut(BLOCK).zip(state.exp_avg_sq.par_chunks_mut(BLOCK));
        let params = state.params.par_chunks_mut(BLOCK).zip(gradient.par_chunks(BLOCK));
        params.zip(moments).for_each(|((params, gradient), (m, v))| block(params, m, v, gradient));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norm_is_euclidean() {
        for len in [1, 15, 16, 17, 4_096, 5_000, 70_001] {
            let gradient: Vec<f32> = (0..len).map(|i| ((i * 7919 % 1_000) as f32 - 500.0) / 100.0).collect();
            let expected = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
            assert!((norm(&gradient) / expected - 1.0).abs() < 1e-12);
        }
    }
}
