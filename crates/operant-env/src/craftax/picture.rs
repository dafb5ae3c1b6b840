//! Draws what the player sees, what it has, and how it is.

use operant_lane::Memory;

use super::blocks::{self, SIDE};
use super::player::{DOWN, ITEMS, LEFT, RIGHT};
use super::view::{COLUMNS, ROWS};
use super::{DAY, Day, State, hour};
use crate::{BLUE, GREEN, GREY, PURPLE, Point, RED, Scene, Shape, YELLOW, grid};

/// Palette entries of texts, and of the player.
const TEXT: u8 = 1;
const PLAYER: u8 = 2;
/// Lines of text above the view.
const LINES: u32 = 3;

/// Names of the items in the picture.
const NAMES: [&str; ITEMS] = [
    "wood",
    "stone",
    "coal",
    "iron",
    "diamond",
    "sapling",
    "wood pickaxe",
    "stone pickaxe",
    "iron pickaxe",
    "wood sword",
    "stone sword",
    "iron sword",
];

/// Palette entry and sign of a block.
fn look(block: u32) -> (u8, &'static str) {
    match block {
        blocks::GRASS => (GREEN, ""),
        blocks::WATER => (BLUE, ""),
        blocks::STONE => (GREY, ""),
        blocks::TREE => (GREEN, "♣"),
        blocks::COAL => (GREY, "●"),
        blocks::IRON => (GREY, "◐"),
        blocks::DIAMOND => (GREY, "◆"),
        blocks::TABLE => (YELLOW, "T"),
        blocks::FURNACE => (GREY, "F"),
        blocks::SAND => (YELLOW, ""),
        blocks::LAVA => (RED, ""),
        blocks::PLANT => (GREEN, "ψ"),
        blocks::RIPE => (GREEN, "Y"),
        _ => (TEXT, ""),
    }
}

fn block(state: &State<f32>, row: i32, column: i32) -> u32 {
    let side = SIDE as i32;
    if !(0..side).contains(&row) || !(0..side).contains(&column) {
        return blocks::OUTSIDE;
    }
    let word = Memory::<f32, { blocks::WORDS }>::word(&state.map, (8 * row + column / 8) as usize).0;
    word >> (4 * (column % 8)) & 15
}

/// The scene of a state.
pub fn draw(state: &State<f32>) -> Scene {
    let (top, left) = (state.row.0 - ROWS as i32 / 2, state.column.0 - COLUMNS as i32 / 2);
    let (rows, columns) = (ROWS as u32, COLUMNS as u32);
    let center = |row: i32, column: i32| -> Point {
        [(column - left) as f32 + 0.5, (top - row) as f32 + ROWS as f32 - 0.5]
    };
    let mut shapes = Vec::new();
    let mut signs = Vec::new();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let (r, c) = (top + row as i32, left + column as i32);
        let of = block(state, r, c);
        let (tone, sign) = look(of);
        if of != blocks::OUTSIDE && of != blocks::PATH {
            shapes.push(grid::square(rows, column as f32, row as f32, tone));
        }
        if !sign.is_empty() {
            signs.push(Shape::text(center(r, c), sign, TEXT));
        }
    }
    shapes.append(&mut signs);
    let seen = |row: i32, column: i32| {
        (top..top + ROWS as i32).contains(&row) && (left..left + COLUMNS as i32).contains(&column)
    };
    for mob in (0..8).filter(|&mob| state.mob_live[mob]) {
        let place = state.mob_place[mob].0;
        let (row, column) = ((place / SIDE) as i32, (place % SIDE) as i32);
        let (sign, tone) = [("Z", RED), ("C", PURPLE), ("S", YELLOW)][mob / 3];
        if seen(row, column) {
            shapes.push(Shape::text(center(row, column), sign, tone));
        }
    }
    for arrow in (0..3).filter(|&arrow| state.arrow_live[arrow]) {
        let (row, column) = (state.arrow_row[arrow].0, state.arrow_column[arrow].0);
        let sign = if state.arrow_rows[arrow].0 == 0 { "─" } else { "│" };
        if seen(row, column) {
            shapes.push(Shape::text(center(row, column), sign, RED));
        }
    }
    let [x, y] = center(state.row.0, state.column.0);
    let corner = |ahead: f32, aside: f32| match state.facing.0 {
        LEFT => [x - ahead, y + aside],
        RIGHT => [x + ahead, y - aside],
        DOWN => [x + aside, y - ahead],
        _ => [x + aside, y + ahead],
    };
    shapes.push(Shape::polygon([corner(0.4, 0.0), corner(-0.35, 0.3), corner(-0.35, -0.3)], PLAYER));

    let light = Day::shared().light[hour::<f32>(state.time).0 as usize];
    let time = if light < 0.3 {
        "night"
    } else if light < 0.7 {
        "dusk"
    } else {
        "day"
    };
    let asleep = if state.sleeping { ", asleep" } else { "" };
    let items: Vec<String> = NAMES
        .iter()
        .zip(&state.items)
        .filter(|(_, count)| count.0 > 0)
        .map(|(name, count)| format!("{name} {}", count.0))
        .collect();
    let lines = [
        format!(
            "health {}  food {}  drink {}  energy {}",
            state.health.0, state.food.0, state.drink.0, state.energy.0
        ),
        if items.is_empty() { "no items".to_owned() } else { items.join("  ") },
        format!(
            "{} of 22 achievements, day {}, {time}{asleep}",
            state.achievements.0.count_ones(),
            state.time.0 / DAY + 1
        ),
    ];
    for (line, text) in lines.into_iter().rev().enumerate() {
        shapes.push(Shape::text([COLUMNS as f32 / 2.0, (rows + line as u32) as f32 + 0.5], text, TEXT));
    }
    Scene { low: [0.0, 0.0], high: [columns as f32, (rows + LINES) as f32], shapes }
}
