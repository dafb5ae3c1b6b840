//! Passes over a batch that see every sample once: the scale of advantages, and how well the values explained the returns.

use rayon::prelude::*;

use crate::cpu::batch::Batch;
use crate::cpu::network::tile::TILE;
use crate::cpu::update::statistics::{BLOCK, Moments};

/// Shift and scale that make advantages zero-mean and unit-deviation: `(A - shift) scale` with scale = 1 / (std + 1e-8), std with
/// Bessel's correction. A single sample has no deviation; it becomes 0.
pub fn shift_scale(advantages: Moments) -> (f32, f32) {
    let deviation = advantages.sample_variance().sqrt();
    (advantages.mean() as f32, (1.0 / (deviation + 1e-8)) as f32)
}

/// 1 - Var(returns - values) / Var(returns), of the moments of both.
pub fn explained_variance(moments: [Moments; 2]) -> f64 {
    let [errors, returns] = moments.map(|moments| moments.variance());
    if returns == 0.0 { f64::NAN } else { 1.0 - errors / returns }
}

/// Differences between returns and values, and returns, of samples `first .. end`; the difference is the advantage. Two value functions are
/// added.
pub fn errors_and_returns(batch: &Batch, first: usize, end: usize) -> [Moments; 2] {
    let layout = batch.layout();
    let blocks: Vec<[Moments; 2]> = (0..(end - first).div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut parts = [Moments::default(); 2];
            let block = first + block * BLOCK;
            let end = end.min(block + BLOCK);
            for tile in (block..end).step_by(TILE) {
                let size = TILE.min(end - tile);
                let mut values = [[0.0; TILE]; 2];
                let [errors, returns] = &mut values;
                for ((s, error), target) in (tile..tile + size).zip(errors).zip(returns) {
                    *error = f64::from(batch.float(s, layout.advantage));
                    let value = |field: usize| f64::from(batch.float(s, field));
                    *target = *error + value(layout.value) + layout.intrinsic.map_or(0.0, value);
                }
                for (part, values) in parts.iter_mut().zip(&values) {
                    part.add(&values[..size]);
                }
            }
            parts
        })
        .collect();
    Moments::merged(blocks)
}
