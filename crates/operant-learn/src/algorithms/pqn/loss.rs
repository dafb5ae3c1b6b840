//! PQN's loss over one tile and its gradient with respect to the action values.

use operant_lane::isa::f32x16;

use crate::cpu::network::tile::{Row, TILE_VECTORS, row_sum};
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
        let value = head.value_of(outputs.policy(), actions);
        let [rollout_value, advantage] = [layout.value, layout.advantage].map(|field| samples.float(field));
        let error: TileRow = core::array::from_fn(|v| value[v] - (advantage[v] + rollout_value[v]));
        head.gradient_of_value(&error, weight, self.scale, actions, deltas.policy_mut());
        let sum = |of: &dyn Fn(usize) -> f32x16| row_sum::<TILE_VECTORS>(&core::array::from_fn(of));
        let mut sums = [0.0; SUMS];
        sums[0] = sum(&|v| weight[v] * (error[v] * error[v]));
        sums[1] = sum(&|v| weight[v] * value[v]);
        sums
    }
}
