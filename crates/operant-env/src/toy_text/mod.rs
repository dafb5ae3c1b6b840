//! Toy text: Gymnasium's small worlds whose observation is the number of a state, and Blackjack.
//!
//! The tabular ones draw one uniform number a step, as Gymnasium does, and pick by cumulative probability. Their public state is
//! Gymnasium's number of a state.

use std::sync::Arc;

use operant_lane::{Float, Lane, Mask, Uint};

use crate::{ObsSpace, Registry, Scene, Shape, grid};

pub mod blackjack;
pub mod cliff_walking;
pub mod frozen_lake;
pub mod taxi;

/// The name under which lists group them.
const FAMILY: &str = "toy text";

/// Adds the family to a registry.
pub fn family(registry: Registry) -> Registry {
    registry
        .with(frozen_lake::FrozenLake::four())
        .with(frozen_lake::FrozenLake::eight())
        .with(cliff_walking::CliffWalking::default())
        .with(taxi::Taxi::default())
        .with(blackjack::Blackjack::default())
}

/// The observation of a tabular world: one index.
fn one_index(below: u32) -> ObsSpace {
    ObsSpace::Index { shape: Vec::new(), below: vec![below] }
}

/// A picture of a walker on a board of cells with tones.
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

/// Where each of four moves leads from each cell of a board, and what happens there.
#[derive(Debug, Clone)]
struct Moves {
    /// `(cells, 4)`: next cell, and an event from bit 16 on.
    table: Arc<[u32]>,
}

impl Moves {
    /// Of a board of `columns` columns; move number k goes by `ways[k]` columns and rows, and stops at the walls. `outcome` gives
    /// the next cell and the event of the cell that is entered.
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

/// The move that is made on slippery ground: `action`, or with the chance `aside` each the one before and the one after it in the
/// order of the four. `aside` is None on firm ground.
#[inline(always)]
fn slipped<L: Lane>(aside: Option<f64>, success: f64, action: L::Uint, uniform: L::Float) -> L::Uint {
    let Some(aside) = aside else { return action };
    let u = L::Uint::splat;
    let before = uniform.lt(L::Float::splat(aside));
    let wanted = uniform.lt(L::Float::splat(aside + success));
    let turn = before.select(u(3), wanted.select(u(0), u(1)));
    ((action + turn) & u(3)).named("moved")
}
