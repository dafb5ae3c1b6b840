//! PQN's loss over one tile and its gradient with respect to the action values.

use operant_lane::isa::f32x16;
use operant_lane::{Float, Mask};

use crate::cpu::network::tile::{Row, TILE_VECTORS, fma, row_sum, splat};
use crate::cpu::update::{Loss, LossTile, SUMS, Sums};

/// A row of a tile.
type TileRow = Row<TILE_VECTORS>;

/// The loss of a minibatch, `(Q(s, a) - return)^2 / 2`, averaged over it.
#[derive(Debug, Clone, Copy)]
pub struct SquaredError {
    /// 1 / M.
    scale: f32,
}

/// Sums over samples; divide by their number for means.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossSums {
    /// (Q(s, a) - return)^2.
    pub squares: f64,
    /// Q(s, a).
    pub values: f64,
}

impl SquaredError {
    /// The loss of a minibatch of `samples`.
    pub fn new(samples: usize) -> Self {
        Self { scale: 1.0 / samples as f32 }
    }
}

impl LossSums {
    /// Those of a loss.
    pub fn of([squares, values, ..]: Sums) -> Self {
        Self { squares, values }
    }
}

impl Loss for SquaredError {
    fn tile(&self, tile: LossTile<'_>) -> Sums {
        let LossTile { samples, layout, actions, weight, outputs, head, deltas, .. } = tile;
        let counts = head.choices();
        // The value of an action is the mean over its components.
        let share = f32x16::splat(1.0 / counts.len() as f32);
        let (mut value, mut first): (TileRow, usize) = (splat(0.0), 0);
        for (&count, action) in counts.iter().zip(actions) {
            for (k, q) in outputs.policy()[first..first + count].iter().enumerate() {
                for v in 0..TILE_VECTORS {
                    let taken = Float::eq(action[v], f32x16::splat(k as f32));
                    value[v] = taken.select(fma(q[v], share, value[v]), value[v]);
                }
            }
            first += count;
        }
        let [rollout_value, advantage] = [layout.value, layout.advantage].map(|field| samples.float(field));
        let error: TileRow = core::array::from_fn(|v| value[v] - (advantage[v] + rollout_value[v]));
        let scale = share * f32x16::splat(self.scale);
        let by_value: TileRow = core::array::from_fn(|v| error[v] * (weight[v] * scale));
        let mut d_outputs = deltas.policy_mut().iter_mut();
        for (&count, action) in counts.iter().zip(actions) {
            for (k, to) in d_outputs.by_ref().take(count).enumerate() {
                *to = core::array::from_fn(|v| {
                    Float::eq(action[v], f32x16::splat(k as f32)).select(by_value[v], f32x16::ZERO)
                });
            }
        }
        let sum = |of: &dyn Fn(usize) -> f32x16| row_sum::<TILE_VECTORS>(&core::array::from_fn(of));
        let mut sums = [0.0; SUMS];
        sums[0] = sum(&|v| weight[v] * (error[v] * error[v]));
        sums[1] = sum(&|v| weight[v] * value[v]);
        sums
    }
}
