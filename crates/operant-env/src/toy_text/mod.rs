//! Toy text: Gymnasium's small environments whose observation is a state number, and Blackjack.
//!
//! The tabular environments draw one uniform number per step, as Gymnasium does, and select the outcome by cumulative
//! probability. Their public state is Gymnasium's state number.

use std::sync::Arc;

use operant_lane::{Float, Lane, Mask, Uint};

use crate::{Registry, Scene, Shape, grid};

pub mod blackjack;
pub mod cliff_walking;
pub mod frozen_lake;
pub mod taxi;

/// The family name in lists.
const FAMILY: &str = "toy text";

/// Registers the environments of the family.
pub fn family(registry: Registry) -> Registry {
    registry
        .with(frozen_lake::FrozenLake::four())
        .with(frozen_lake::FrozenLake::eight())
        .with(cliff_walking::CliffWalking::default())
        .with(taxi::Taxi::default())
        .with(blackjack::Blackjack::default())
}

/// A scene with a walker on a board of cells; `tone` gives the tone of each cell.
fn board(columns: u32, rows: u32, walker: u32, tone: impl Fn(u32) -> u8) -> Scene {
    let place = |cell: u32| [(cell % columns) as f32, (cell / columns) as f32];
    let square = |cell| {
        let [x, y] = place(cell);
        grid::square(rows, x, y, tone(cell))
    };
    let mut shapes: Vec<Shape> = (0..columns * rows).map(square).collect();
    let [x, y] = place(walker);
    shapes.push(Shape::circle([x + 0.5, rows as f32 - 0.5 - y], 0.3, 2));
    Scene { low: [0.0, 0.0], high: [columns as f32, rows as f32], shapes }
}

/// Transition table of four moves: the next cell and the event.
#[derive(Debug, Clone)]
struct Moves {
    /// `(cells, 4)`: the next cell in the low 16 bits, and the event in the high ones.
    table: Arc<[u32]>,
}

impl Moves {
    /// The table for a board of `columns` columns. Move k changes column and row by `ways[k]` and stops at the walls.
    /// `outcome` maps the entered cell to the next cell and the event.
    fn new(cells: i32, columns: i32, ways: [[i32; 2]; 4], outcome: impl Fn(u32) -> (u32, u32)) -> Self {
        let entry = |cell: i32, [x, y]: [i32; 2]| {
            let column = (cell % columns + x).clamp(0, columns - 1);
            let row = (cell / columns + y).clamp(0, cells / columns - 1);
            let (next, event) = outcome((row * columns + column) as u32);
            next | event << 16
        };
        Moves { table: (0..cells).flat_map(|cell| ways.map(|way| entry(cell, way))).collect() }
    }

    /// The next cell and the event of a move.
    #[inline(always)]
    fn go<U: Uint>(&self, cell: U, way: U) -> (U, U) {
        let entry = U::gather(&self.table, cell.shl(2) + way).named("entry");
        ((entry & U::splat(0xffff)).named("next"), entry.shr(16))
    }
}

/// The executed move on slippery ground: `action`, or, each with probability `aside`, the previous or the next of the
/// four moves in their order. `None` for `aside` means that the ground is not slippery.
#[inline(always)]
fn slipped<L: Lane>(aside: Option<f64>, success: f64, action: L::Uint, uniform: L::Float) -> L::Uint {
    let Some(aside) = aside else { return action };
    let u = L::Uint::splat;
    let before = uniform.lt(L::Float::splat(aside));
    let wanted = uniform.lt(L::Float::splat(aside + success));
    let turn = before.select(u(3), wanted.select(u(0), u(1)));
    ((action + turn) & u(3)).named("moved")
}
