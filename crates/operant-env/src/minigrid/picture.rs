//! Draws a grid: coloured cells, open, closed and locked doors, and the agent as an arrowhead.

use super::cell::{self, BALL, BOX, CLOSED_DOOR, EMPTY, GOAL, KEY, KIND, LAVA, LOCKED_DOOR, OPEN_DOOR, WALL};
use crate::{BLUE, GREEN, GREY, PURPLE, Point, RED, Scene, Shape, YELLOW};

/// Palette entries of the six colours.
const TONES: [u8; 6] = [RED, GREEN, BLUE, PURPLE, YELLOW, GREY];
/// Palette entry of the mission.
const BODY: u8 = 1;
/// Palette entry of details on a filled cell.
const MARK: u8 = 0;

/// Draws the content of a cell whose centre is `center`.
fn thing(shapes: &mut Vec<Shape>, code: u32, center: Point) {
    let [x, y] = center;
    let tone = TONES[cell::colour(core::num::Wrapping(code)).0.min(5) as usize];
    let square = |side: f32, tone| Shape::rectangle(center, side, side, tone);
    let frame = |r: f32, tone| {
        Shape::line([[x - r, y - r], [x + r, y - r], [x + r, y + r], [x - r, y + r], [x - r, y - r]], tone)
    };
    match code & KIND {
        kind if kind == WALL & KIND => shapes.push(square(1.0, GREY)),
        kind if kind == GOAL & KIND => shapes.push(square(1.0, GREEN)),
        LAVA => {
            shapes.push(square(1.0, RED));
            let wave = [-0.5, -0.25, 0.0, 0.25, 0.5].map(|dx: f32| [x + dx, y + (dx * 12.6).sin() * 0.2]);
            shapes.push(Shape::line(wave, YELLOW));
        }
        // An open door is a strip, a closed one a frame with a handle, a locked one a filled square with a keyhole.
        OPEN_DOOR => shapes.push(Shape::rectangle([x, y + 0.42], 1.0, 0.16, tone)),
        CLOSED_DOOR => {
            shapes.push(frame(0.42, tone));
            shapes.push(Shape::circle([x + 0.2, y], 0.12, tone));
        }
        LOCKED_DOOR => {
            shapes.push(square(1.0, tone));
            shapes.push(Shape::circle(center, 0.15, MARK));
        }
        KEY => {
            shapes.push(Shape::circle([x, y + 0.2], 0.2, tone));
            shapes.push(Shape::rectangle([x, y - 0.1], 0.12, 0.5, tone));
            shapes.push(Shape::rectangle([x + 0.12, y - 0.25], 0.2, 0.1, tone));
        }
        BALL => shapes.push(Shape::circle(center, 0.33, tone)),
        BOX => {
            shapes.push(frame(0.35, tone));
            shapes.push(Shape::line([[x - 0.35, y], [x + 0.35, y]], tone));
        }
        _ => {}
    }
}

/// The scene of a grid: its cells row by row, the agent's column, row, direction and carried object, and above the grid the
/// mission, if it has one.
pub fn draw(
    width: u32,
    height: u32,
    cells: &[u32],
    [x, y, dir, carried]: [u32; 4],
    mission: String,
) -> Scene {
    let center = |x: u32, y: u32| [x as f32 + 0.5, (height - 1).wrapping_sub(y) as f32 + 0.5];
    let mut shapes = Vec::new();
    for (place, &code) in cells.iter().enumerate().filter(|&(_, &code)| code != EMPTY) {
        thing(&mut shapes, code, center(place as u32 % width, place as u32 / width));
    }
    let [cx, cy] = center(x, y);
    let corner = |ahead: f32, aside: f32| match dir {
        0 => [cx + ahead, cy - aside],
        1 => [cx - aside, cy - ahead],
        2 => [cx - ahead, cy + aside],
        _ => [cx + aside, cy + ahead],
    };
    shapes.push(Shape::polygon([corner(0.4, 0.0), corner(-0.35, 0.3), corner(-0.35, -0.3)], 2));
    if carried != 0 {
        // The carried object: a small mark in its colour.
        let tone = TONES[cell::colour(core::num::Wrapping(carried)).0.min(5) as usize];
        shapes.push(Shape::circle(corner(-0.1, 0.0), 0.15, tone));
    }
    let (width, height) = (width as f32, height as f32);
    if mission.is_empty() {
        return Scene { low: [0.0, 0.0], high: [width, height], shapes };
    }
    shapes.push(Shape::Text { center: [width / 2.0, height + 0.5], text: mission, tone: BODY });
    Scene { low: [0.0, 0.0], high: [width, height + 1.0], shapes }
}
