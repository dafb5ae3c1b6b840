//! Draws what is around the player, how it is, what it has, and what it has achieved.
//!
//! What the agent observes is bright, and darker columns beside it are not observed. Thirteen columns leave room for the lines of text; twelve
//! rows are the most that small panels of a terminal show.

use operant_lane::Memory;

use super::blocks::{self, SIDE};
use super::mobs;
use super::player::{ACHIEVEMENTS, DOWN, LEFT, RIGHT, TOOLS};
use super::view::{COLUMNS, ROWS};
use super::{DAY, Day, State, hour};
use crate::tone::darker;
use crate::{BLUE, BROWN, DARK_GREEN, GREEN, GREY, PURPLE, Point, RED, Scene, Shape, WHITE, YELLOW};

/// Palette entries: furnaces, texts, ores and arrows, paths.
const GROUND: u8 = 0;
const TEXT: u8 = 1;
const ORANGE: u8 = 2;
const FAINT: u8 = 4;

/// Columns that are drawn on each side of the view.
const BESIDE: i32 = 2;
const WIDTH: i32 = COLUMNS as i32 + 2 * BESIDE;
/// Lines of text below the view.
const LINES: i32 = 5;

/// The items that are no tools, and what tools are made of.
const MATERIALS: [&str; TOOLS] = ["wood", "stone", "coal", "iron", "diamond", "sapling"];
const MADE_OF: [&str; 3] = ["wood", "stone", "iron"];

/// Palette entry of a block's ground.
fn ground(block: u32) -> u8 {
    match block {
        blocks::GRASS | blocks::PLANT | blocks::RIPE => GREEN,
        blocks::WATER => BLUE,
        blocks::TREE => DARK_GREEN,
        blocks::PATH => FAINT,
        blocks::TABLE => BROWN,
        blocks::FURNACE => GROUND,
        blocks::SAND => YELLOW,
        blocks::LAVA => RED,
        _ => GREY,
    }
}

/// What lies on it, at a centre.
fn thing(block: u32, [x, y]: Point) -> Option<Shape> {
    let circle = |tone| Shape::circle([x, y], 0.25, tone);
    let triangle = |tone| Shape::polygon([[x - 0.35, y - 0.35], [x + 0.35, y - 0.35], [x, y + 0.4]], tone);
    Some(match block {
        blocks::COAL => circle(FAINT),
        blocks::IRON => circle(ORANGE),
        blocks::DIAMOND => Shape::polygon([[x, y + 0.4], [x + 0.3, y], [x, y - 0.4], [x - 0.3, y]], TEXT),
        blocks::TABLE => Shape::rectangle([x, y], 0.5, 0.45, ORANGE),
        blocks::FURNACE => Shape::rectangle([x, y], 0.4, 0.45, RED),
        blocks::LAVA => {
            let wave = [-0.4f32, -0.2, 0.0, 0.2, 0.4].map(|dx| [x + dx, y + (dx * 7.85).sin() * 0.2]);
            Shape::line(wave, YELLOW)
        }
        blocks::PLANT => triangle(DARK_GREEN),
        blocks::RIPE => triangle(YELLOW),
        _ => return None,
    })
}

/// The block of a cell, if the cell is on the map.
fn block(state: &State<f32>, row: i32, column: i32) -> Option<u32> {
    let side = 0..SIDE as i32;
    let word = (8 * row + column / 8) as usize;
    (side.contains(&row) && side.contains(&column))
        .then(|| Memory::<f32, { blocks::WORDS }>::word(&state.map, word).0 >> (4 * (column % 8)) & 15)
}

/// An arrowhead towards a direction of rows and columns.
fn arrowhead([x, y]: Point, [rows, columns]: [f32; 2], [length, width]: [f32; 2], tone: u8) -> Shape {
    let corner =
        |ahead: f32, aside: f32| [x + ahead * columns - aside * rows, y - ahead * rows - aside * columns];
    Shape::polygon([corner(length, 0.0), corner(-length, width), corner(-length, -width)], tone)
}

/// The lines of text below the view.
fn lines(state: &State<f32>, time: &str) -> [String; LINES as usize] {
    let asleep = if state.sleeping { ", asleep" } else { "" };
    let needs = [state.food, state.drink, state.energy].map(|need| need.0);
    let items: Vec<String> = MATERIALS
        .iter()
        .zip(&state.items)
        .filter(|(_, count)| count.0 > 0)
        .map(|(name, count)| format!("{name} {}", count.0))
        .collect();
    let tools = |name: &str, first: usize| {
        let made: Vec<&str> = (0..3).filter(|k| state.items[first + k].0 > 0).map(|k| MADE_OF[k]).collect();
        if made.is_empty() { String::new() } else { format!("  {name} {}", made.join(" ")) }
    };
    // The names of achievements that begin with a verb; making is seen from the tools.
    let done = |verb: &str, word: &str| {
        let earned = (0..ACHIEVEMENTS.len()).filter(|k| state.achievements.0 >> k & 1 == 1);
        let whats: Vec<&str> = earned.filter_map(|k| ACHIEVEMENTS[k].strip_prefix(verb)).collect();
        (!whats.is_empty()).then(|| format!("{word} {}", whats.join(" ")))
    };
    let joined = |parts: [Option<String>; 3]| parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    [
        format!(
            "health {} food {} drink {} energy {}  day {}{time}{asleep}",
            state.health.0,
            needs[0],
            needs[1],
            needs[2],
            state.time.0 / DAY + 1
        ),
        if items.is_empty() { "no items".to_owned() } else { items.join("  ") },
        format!(
            "{}/22 achieved{}{}",
            state.achievements.0.count_ones(),
            tools("pickaxe", TOOLS),
            tools("sword", TOOLS + 3)
        ),
        joined([done("collect_", "got"), done("eat_", "ate"), None]),
        joined([done("place_", "placed"), done("defeat_", "beat"), done("wake_", "woke")]),
    ]
}

/// The scene of a state.
pub fn draw(state: &State<f32>) -> Scene {
    let (rows, columns) = (ROWS as i32, COLUMNS as i32);
    let (top, left) = (state.row.0 - rows / 2, state.column.0 - WIDTH / 2);
    let light = Day::shared().light[hour::<f32>(state.time).0 as usize];
    let (night, time) = match light {
        ..0.3 => (2, ", night"),
        ..0.7 => (1, ", dusk"),
        _ => (0, ""),
    };
    let center = |row: i32, column: i32| -> Point {
        [(column - left) as f32 + 0.5, (LINES + rows - row + top) as f32 - 0.5]
    };
    let beside = |column: i32| u8::from(!(BESIDE..BESIDE + columns).contains(&(column - left)));

    let (mut shapes, mut things) = (Vec::new(), Vec::new());
    for row in top..top + rows {
        // Neighbours that look alike are one rectangle.
        let mut begun: Option<(i32, u8)> = None;
        for column in left..=left + WIDTH {
            let of = block(state, row, column).filter(|_| column < left + WIDTH);
            let tone = of.map(|block| darker(ground(block), night + beside(column)));
            if let Some((first, tone)) = begun.filter(|(_, before)| Some(*before) != tone) {
                let ([x, y], [end, _]) = (center(row, first), center(row, column));
                shapes.push(Shape::Rectangle { low: [x - 0.5, y - 0.5], high: [end - 0.5, y + 0.5], tone });
                begun = None;
            }
            begun = begun.or(tone.map(|tone| (column, tone)));
            let on_it = of.and_then(|block| thing(block, center(row, column)));
            things.extend(on_it.map(|shape| shape.darker(night + beside(column))));
        }
    }
    shapes.append(&mut things);
    let seen =
        |row: i32, column: i32| (top..top + rows).contains(&row) && (left..left + WIDTH).contains(&column);
    for mob in (0..8).filter(|&mob| state.mob_live[mob]) {
        let place = state.mob_place[mob].0;
        let (row, column) = ((place / SIDE) as i32, (place % SIDE) as i32);
        // Zombies, cows with a spot, skeletons.
        let marks = [&[(0.35, RED)][..], &[(0.4, WHITE), (0.25, BROWN)], &[(0.35, WHITE)]][mobs::kind(mob)];
        if seen(row, column) {
            let circle =
                |&(radius, tone)| Shape::circle(center(row, column), radius, darker(tone, beside(column)));
            shapes.extend(marks.iter().map(circle));
        }
    }
    for arrow in (0..3).filter(|&arrow| state.arrow_live[arrow]) {
        let (row, column) = (state.arrow_row[arrow].0, state.arrow_column[arrow].0);
        let way = [state.arrow_rows[arrow].0 as f32, state.arrow_columns[arrow].0 as f32];
        if seen(row, column) {
            shapes.push(arrowhead(center(row, column), way, [0.4, 0.12], darker(ORANGE, beside(column))));
        }
    }
    let facing = match state.facing.0 {
        LEFT => [0.0, -1.0],
        RIGHT => [0.0, 1.0],
        DOWN => [1.0, 0.0],
        _ => [-1.0, 0.0],
    };
    let player = center(state.row.0, state.column.0);
    shapes.push(match state.sleeping {
        true => Shape::circle(player, 0.4, PURPLE),
        false => arrowhead(player, facing, [0.4, 0.35], PURPLE),
    });

    let is_urgent = state.health.0.min(state.food.0.min(state.drink.0).min(state.energy.0) as i32) <= 2;
    for (line, text) in lines(state, time).into_iter().enumerate() {
        // As long as that, all lines have the same font in a film.
        let text = format!("{text:^46}");
        let tone = if line == 0 && is_urgent { RED } else { TEXT };
        shapes.push(Shape::text([WIDTH as f32 / 2.0, LINES as f32 - line as f32 - 0.5], text, tone));
    }
    Scene { low: [0.0, 0.0], high: [WIDTH as f32, (rows + LINES) as f32], shapes }
}
