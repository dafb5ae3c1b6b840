//! The rooms of KeyCorridor: one column of rooms on each side of a corridor. Doors are drawn until every room is
//! reachable.

use operant_lane::{Draws, Lane, Mask, Uint};

use super::board::{At, Board, at};
use super::cell::{self, BALL, CLOSED_DOOR, COLOURS, KEY, LOCKED_DOOR};

/// A wall that can become a door.
struct Wall {
    x: u32,
    y: u32,
    /// The rows of the adjacent rooms, in the column on the right or on the left.
    rows: Vec<u32>,
    is_right: bool,
}

/// The walls that can become doors, for `n` rows of rooms: first, row by row, the walls between a room and the
/// corridor, then those between two rooms of a column.
fn walls(n: u32) -> Vec<Wall> {
    let beside = (0..n).flat_map(|row| {
        [(2, false), (4, true)].map(|(x, is_right)| Wall { x, y: 2 * row + 1, rows: vec![row], is_right })
    });
    let between = (1..n).flat_map(|row| {
        [(1, false), (5, true)].map(|(x, is_right)| Wall {
            x,
            y: 2 * row,
            rows: vec![row - 1, row],
            is_right,
        })
    });
    beside.chain(between).collect()
}

/// Whether every room is reachable if the walls whose bits are set in `doors` are doors. The locked room always is.
fn is_connected<L: Lane>(walls: &[Wall], n: u32, doors: L::Uint, locked: L::Uint) -> L::Mask {
    let u = L::Uint::splat;
    let is_door = |wall: usize| (doors & u(1 << wall)).ne(u(0));
    let mut all = L::Mask::splat(true);
    for is_right in [false, true] {
        let of_side = |rows: usize| {
            walls
                .iter()
                .enumerate()
                .filter(move |(_, wall)| wall.is_right == is_right && wall.rows.len() == rows)
        };
        let mut reached: Vec<L::Mask> = of_side(1).map(|(wall, _)| is_door(wall)).collect();
        if is_right {
            (0..n).for_each(|row| reached[row as usize] = reached[row as usize] | locked.eq(u(row)));
        }
        // Propagate down the column, then up.
        let between: Vec<L::Mask> = of_side(2).map(|(wall, _)| is_door(wall)).collect();
        for (row, &door) in between.iter().enumerate() {
            reached[row + 1] = reached[row + 1] | (reached[row] & door);
        }
        for (row, &door) in between.iter().enumerate().rev() {
            reached[row] = reached[row] | (reached[row + 1] & door);
        }
        all = reached.into_iter().fold(all, |all, reached| all & reached);
    }
    all
}

/// Draws the layout with `n` rows of rooms.
pub fn lay<L: Lane, const W: usize>(b: &mut Board<L, W>, n: u32, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    let row = |number: L::Uint| number.shl(1) + u(1);
    let (locked, colour) = (draws.below(n), draws.below(COLOURS));
    b.put((u(4), row(locked)), cell::coloured(LOCKED_DOOR, colour));
    let ball = draws.below(COLOURS);
    b.put((u(5), row(locked)), cell::coloured(BALL, ball));
    b.state.extra[0] = ball;
    let key_row = draws.below(n);
    b.put((u(1), row(key_row)), cell::coloured(KEY, colour));
    b.place_agent_in_room([2, n / 2 * 2, 3, 3], draws);
    connect(b, n, locked, draws);
}

/// Turns randomly chosen walls into doors, one after the other, until every room is reachable.
fn connect<L: Lane, const W: usize>(b: &mut Board<L, W>, n: u32, locked: L::Uint, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    let walls = walls(n);
    // The locked room gets no other door.
    let mut left = walls.iter().enumerate().fold(u(0), |left, (number, wall)| {
        let at_locked = |at: L::Mask, row: &u32| at | (L::Mask::splat(wall.is_right) & locked.eq(u(*row)));
        let refused = wall.rows.iter().fold(L::Mask::splat(false), at_locked);
        left | refused.select(u(0), u(1 << number))
    });
    let mut doors = u(0);
    for _ in 0..walls.len() {
        let open = !is_connected::<L>(&walls, n, doors, locked);
        let mut before = draws.below_each(left.count_ones());
        let (mut chosen, mut place): (L::Uint, At<L>) = (u(0), at::<L>(0, 0));
        for (number, wall) in walls.iter().enumerate() {
            let is_left = (left & u(1 << number)).ne(u(0));
            let here = is_left & before.eq(u(0));
            chosen = here.select(u(1 << number), chosen);
            place = here.select(at::<L>(wall.x, wall.y), place);
            before = is_left.select(before - u(1), before);
        }
        let colour = draws.below(COLOURS);
        b.put_where(open & chosen.ne(u(0)), place, cell::coloured(CLOSED_DOOR, colour));
        doors = open.select(doors | chosen, doors);
        left = left & !chosen;
    }
}
