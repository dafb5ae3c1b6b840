//! Sequences drawn by the sums of their |advantages|, in place of a shuffle.

use std::sync::Arc;

use super::Minibatches;
use crate::cpu::batch::Batch;
use crate::shuffle::Shuffle;

/// Added to the sum of a sequence's |advantages|, so that each can be drawn.
const LEAST: f64 = 1e-6;

impl Minibatches<'_, '_> {
    /// Before an epoch: draws a sequence for each of its positions, with a probability p proportional to the sum of its |advantages| to the
    /// power `alpha` among the sequences of its block. Returns `(S p)^-beta` of each sample, S being the block's sequences: weights that make up
    /// for the draws at a `beta` of 1. A block without finite advantages has its shuffle.
    pub fn draw(&mut self, epoch: usize, [alpha, beta]: [f64; 2]) -> Arc<Vec<f32>> {
        let (plan, seed) = (self.plan, self.config.seed);
        let mut weights = Vec::new();
        self.team.round(0, |round| {
            weights = vec![1.0f32; round.batch.len()];
            round.drawn.clear();
            for own in 0..plan.blocks.own {
                let block = plan.blocks.block(own);
                let sums = sums(round.batch, block.first..block.first + block.sequences, alpha);
                let total = sums.last().copied().unwrap_or(f64::NAN);
                let (epoch, number, count) = (epoch as u32, block.number as u32, block.sequences as u32);
                let shuffle = Shuffle::of_block(seed, plan.update, epoch, number, count);
                if !total.is_finite() {
                    round.drawn.push((0..count).map(|position| shuffle.index(position)).collect());
                    continue;
                }
                let mut before = 0.0;
                for (sequence, sum) in (block.first..).zip(&sums) {
                    let share = (sum - before) / total * block.sequences as f64;
                    let [first, stride] = round.batch.steps_of(sequence);
                    for t in 0..plan.length {
                        weights[first + t * stride] = share.powf(-beta) as f32;
                    }
                    before = *sum;
                }
                // Evenly spaced from a random start, then shuffled: a sequence comes S p times, rounded down or up.
                let start = Shuffle::fraction(seed, plan.update, epoch, number);
                let draw = |position: u32| {
                    let at = (f64::from(shuffle.index(position)) + start) / f64::from(count) * total;
                    (sums.partition_point(|sum| *sum <= at) as u32).min(count - 1)
                };
                round.drawn.push((0..count).map(draw).collect());
            }
        });
        Arc::new(weights)
    }
}

/// Running sums over sequences of their share of draws.
fn sums(batch: &Batch, sequences: std::ops::Range<usize>, alpha: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let of_sequence = |sequence: usize| {
        let [first, stride] = batch.steps_of(sequence);
        let advantage = |t: usize| f64::from(batch.float(first + t * stride, batch.layout().advantage)).abs();
        sum += ((0..batch.sequence()).map(advantage).sum::<f64>() + LEAST).powf(alpha);
        sum
    };
    sequences.map(of_sequence).collect()
}
