//! Initial states: a fixed grid for each task, and the objects that are drawn into it.

use std::sync::Arc;

use operant_lane::{Draws, Lane, Mask, Uint, array};

use super::board::{Board, Rect, any, at, gap};
use super::cell::{
    self, BALL, BLUE, BOX, CLOSED_DOOR, COLOURS, EMPTY, GOAL, GREEN, KEY, LAVA, LOCKED_DOOR, RED, WALL,
    YELLOW,
};
use super::tasks::{Kind, Task};
use super::{MiniGrid, SEEN, View, corridor, multiroom};
use crate::AnyEnv;

/// The two rooms of the tasks with a locked door between two rooms, and a cell near which no object is placed.
const LEFT_ROOM: Rect = [0, 0, 6, 6];
const RIGHT_ROOM: Rect = [5, 0, 6, 6];
const KEPT_FREE: (u32, u32) = (8, 3);

/// The cells that all initial states of a task share, row by row.
pub fn fixed(task: &Task) -> Vec<u32> {
    let (right, bottom) = (task.width - 1, task.height - 1);
    let is_border = |x, y| x == 0 || y == 0 || x == right || y == bottom;
    let wall = |x: u32, y: u32| match task.kind {
        Kind::MultiRoom { .. } => false,
        Kind::FourRooms => is_border(x, y) || x == 9 || y == 9,
        Kind::Unlock | Kind::UnlockPickup | Kind::BlockedUnlockPickup | Kind::ObstructedMaze => {
            is_border(x, y) || x == 5
        }
        Kind::KeyCorridor => {
            let in_corridor = x == 3 && !is_border(x, y);
            !in_corridor && (x.is_multiple_of(2) || y.is_multiple_of(2))
        }
        Kind::RedBlueDoors => is_border(x, y) || x == 3 || x == 8,
        Kind::LockedRoom => {
            is_border(x, y) || x == 7 || x == 11 || (y.is_multiple_of(6) && !(8..11).contains(&x))
        }
        _ => is_border(x, y),
    };
    let has_goal = |x, y| match task.kind {
        Kind::DistShift => (x, y) == (right - 1, 1),
        Kind::Empty { .. }
        | Kind::DoorKey
        | Kind::LavaGap
        | Kind::Crossing { .. }
        | Kind::DynamicObstacles { .. } => (x, y) == (right - 1, bottom - 1),
        _ => false,
    };
    let lava = |x: u32, y: u32| task.kind == Kind::DistShift && (3..6).contains(&x) && (y == 1 || y == 2);
    let cell = |x, y| match () {
        () if wall(x, y) => WALL,
        () if has_goal(x, y) => GOAL,
        () if lava(x, y) => LAVA,
        () => EMPTY,
    };
    (0..task.height).flat_map(|y| (0..task.width).map(move |x| (x, y))).map(|(x, y)| cell(x, y)).collect()
}

/// Grid sizes, by the number of words that the cells take. Each size contains only the layouts of its own tasks, so
/// that no others are compiled for it.
pub trait Layouts: Clone + Send + Sync + 'static {
    /// The environment of a task with this kind of observation.
    fn of(task: &'static Task, view: View) -> Arc<dyn AnyEnv>;

    /// Draws the layout of a task.
    fn lay<L: Lane, const W: usize>(task: &Task, b: &mut Board<L, W>, draws: &mut Draws<L>);
}

/// Words of the cells of grids with up to 84 cells, up to 364 cells, and 25 x 25.
const SMALL: usize = 21;
const MEDIUM: usize = 91;
const LARGE: usize = 157;

/// Words of a full view, with direction and mission, for a grid whose cells take `words` words.
const fn full(words: usize) -> usize {
    3 * words + 2
}

/// The environment of a task.
pub fn of(task: &'static Task, view: View) -> Arc<dyn AnyEnv> {
    match task.cells().div_ceil(4) {
        words if words <= SMALL => Small::of(task, view),
        words if words <= MEDIUM => Medium::of(task, view),
        _ => Large::of(task, view),
    }
}

/// Grids of up to 84 cells.
#[derive(Debug, Clone)]
pub struct Small;
/// Grids of up to 364 cells.
#[derive(Debug, Clone)]
pub struct Medium;
/// Grids of 625 cells.
#[derive(Debug, Clone)]
pub struct Large;

impl Layouts for Small {
    fn of(task: &'static Task, view: View) -> Arc<dyn AnyEnv> {
        match view {
            View::Full => Arc::new(MiniGrid::<Self, SMALL, { full(SMALL) }>::new(task, view)),
            _ => Arc::new(MiniGrid::<Self, SMALL, SEEN>::new(task, view)),
        }
    }

    fn lay<L: Lane, const W: usize>(task: &Task, b: &mut Board<L, W>, draws: &mut Draws<L>) {
        let n = task.width;
        match task.kind {
            Kind::Empty { random: true } => b.place_agent(b.all(), draws),
            Kind::DoorKey => door_key(b, n, draws),
            Kind::Unlock => locked_room(b, None, false, draws),
            Kind::UnlockPickup => locked_room(b, Some(BOX), false, draws),
            Kind::BlockedUnlockPickup => locked_room(b, Some(BOX), true, draws),
            Kind::ObstructedMaze => locked_room(b, Some(BALL), false, draws),
            Kind::KeyCorridor => corridor::lay(b, task.height / 2, draws),
            Kind::LavaGap => strip(b, LAVA, [2, n - 3], n - 2, draws),
            Kind::Crossing { lava } => strip(b, if lava { LAVA } else { WALL }, [0, 0], n - 2, draws),
            Kind::Memory { random } => memory(b, n, random, draws),
            Kind::DynamicObstacles { balls } => obstacles(b, balls, draws),
            Kind::RedBlueDoors => red_blue_doors(b, draws),
            Kind::GoToDoor => go_to_door(b, draws),
            Kind::Fetch => fetch(b, draws),
            Kind::PutNear => put_near(b, draws),
            // This layout has no random part.
            _ => {}
        }
    }
}

impl Layouts for Medium {
    fn of(task: &'static Task, view: View) -> Arc<dyn AnyEnv> {
        match view {
            View::Full => Arc::new(MiniGrid::<Self, MEDIUM, { full(MEDIUM) }>::new(task, view)),
            _ => Arc::new(MiniGrid::<Self, MEDIUM, SEEN>::new(task, view)),
        }
    }

    fn lay<L: Lane, const W: usize>(task: &Task, b: &mut Board<L, W>, draws: &mut Draws<L>) {
        match task.kind {
            Kind::FourRooms => four_rooms(b, draws),
            Kind::DoorKey => door_key(b, task.width, draws),
            Kind::Memory { random } => memory(b, task.width, random, draws),
            Kind::LockedRoom => six_rooms(b, draws),
            other => unreachable!("{other:?} has no medium grid"),
        }
    }
}

impl Layouts for Large {
    fn of(task: &'static Task, view: View) -> Arc<dyn AnyEnv> {
        match view {
            View::Full => Arc::new(MiniGrid::<Self, LARGE, { full(LARGE) }>::new(task, view)),
            _ => Arc::new(MiniGrid::<Self, LARGE, SEEN>::new(task, view)),
        }
    }

    fn lay<L: Lane, const W: usize>(task: &Task, b: &mut Board<L, W>, draws: &mut Draws<L>) {
        let Kind::MultiRoom { rooms, smallest, largest } = task.kind else {
            unreachable!("{:?} has no large grid", task.kind)
        };
        multiroom::lay(b, rooms, [smallest, largest], draws);
    }
}

fn four_rooms<L: Lane, const W: usize>(b: &mut Board<L, W>, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    for (first, vertical) in [(1, true), (1, false), (10, false), (10, true)] {
        let along = draws.integer(first, first + 7);
        b.put_fixed(if vertical { (u(9), along) } else { (along, u(9)) }, EMPTY);
    }
    b.place_agent(b.all(), draws);
    let agent = b.agent();
    let goal = b.place(b.all(), draws, |at| at.0.eq(agent.0) & at.1.eq(agent.1));
    b.put_fixed(goal, GOAL);
}

fn door_key<L: Lane, const W: usize>(b: &mut Board<L, W>, n: u32, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    let split = draws.integer(2, n - 3);
    (1..n - 1).for_each(|y| b.put_fixed((split, u(y)), WALL));
    b.state.x = u(1) + draws.below_each(split - u(1));
    b.state.y = draws.integer(1, n - 2);
    b.state.dir = draws.below(4);
    let door = draws.integer(1, n - 3);
    b.put_fixed((split, door), cell::of(LOCKED_DOOR, YELLOW));
    let agent = b.agent();
    let key =
        b.place([1, 1, n - 4, n - 2], draws, |at| at.0.ge(split) | (at.0.eq(agent.0) & at.1.eq(agent.1)));
    b.put_fixed(key, cell::of(KEY, YELLOW));
}

/// Two rooms with a locked door between them, the key in the left room, and the object to be taken in the right room.
fn locked_room<L: Lane, const W: usize>(
    b: &mut Board<L, W>,
    wanted: Option<u32>,
    is_blocked: bool,
    draws: &mut Draws<L>,
) {
    let u = L::Uint::splat;
    if let Some(wanted) = wanted {
        let colour = if wanted == BOX { draws.below(COLOURS) } else { u(BLUE) };
        b.put_in_room(RIGHT_ROOM, cell::coloured(wanted, colour), KEPT_FREE, draws);
        if wanted == BOX {
            b.state.extra[0] = colour;
        }
    }
    let (colour, y) = (draws.below(COLOURS), draws.integer(1, 4));
    b.put((u(5), y), cell::coloured(LOCKED_DOOR, colour));
    if is_blocked {
        b.put((u(4), y), cell::coloured(BALL, draws.below(COLOURS)));
    }
    b.put_in_room(LEFT_ROOM, cell::coloured(KEY, colour), KEPT_FREE, draws);
    b.place_agent_in_room(LEFT_ROOM, draws);
}

/// A strip of lava or wall with one gap: a column between the first and the last of `columns`; if both are 0, one of
/// the columns and rows 2, 4 and 6.
fn strip<L: Lane, const W: usize>(
    b: &mut Board<L, W>,
    what: u32,
    [first, last]: [u32; 2],
    length: u32,
    draws: &mut Draws<L>,
) {
    let u = L::Uint::splat;
    let (is_column, across) = if last > 0 {
        (L::Mask::splat(true), draws.integer(first, last))
    } else {
        (draws.below(2).eq(u(0)), u(2) + draws.below(3).shl(1))
    };
    let gap = draws.integer(1, length);
    for along in 1..=length {
        let cell = is_column.select((across, u(along)), (u(along), across));
        b.put_where(gap.ne(u(along)), cell, u(what));
    }
}

fn memory<L: Lane, const W: usize>(b: &mut Board<L, W>, n: u32, random: bool, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    let middle = n / 2;
    let end = if random { draws.integer(4, n - 3) } else { u(n - 3) };
    for x in 1..5 {
        b.put_fixed(at::<L>(x, middle - 2), WALL);
        b.put_fixed(at::<L>(x, middle + 2), WALL);
    }
    for x in 4..n - 3 {
        for y in [middle - 1, middle + 1] {
            b.put_where(u(x).lt(end), at::<L>(x, y), u(WALL));
        }
    }
    for y in 1..n - 1 {
        if y != middle {
            b.put_fixed((end, u(y)), WALL);
        }
        b.put_fixed((end + u(2), u(y)), WALL);
    }
    (b.state.x, b.state.y) = (u(1) + draws.below_each(end), u(middle));
    let object = |is_key: L::Mask| is_key.select(u(cell::of(KEY, GREEN)), u(cell::of(BALL, GREEN)));
    let start = draws.below(2).eq(u(0));
    let top = draws.below(2).eq(u(0));
    let side = end + u(1);
    b.put(at::<L>(1, middle - 1), object(start));
    b.put((side, u(middle - 2)), object(top));
    b.put((side, u(middle + 2)), object(!top));
    let same = !(start ^ top);
    let [upper, lower] = [middle - 1, middle + 1].map(u);
    b.state.extra[0] = side;
    b.state.extra[1] = same.select(upper, lower);
    b.state.extra[2] = side;
    b.state.extra[3] = same.select(lower, upper);
}

fn obstacles<L: Lane, const W: usize>(b: &mut Board<L, W>, balls: usize, draws: &mut Draws<L>) {
    let agent = b.agent();
    for ball in 0..balls {
        let cell = b.place(b.all(), draws, |at| at.0.eq(agent.0) & at.1.eq(agent.1));
        b.put_fixed(cell, cell::of(BALL, BLUE));
        (b.state.extra[2 * ball], b.state.extra[2 * ball + 1]) = cell;
    }
}

fn red_blue_doors<L: Lane, const W: usize>(b: &mut Board<L, W>, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    (b.state.x, b.state.y, b.state.dir) = (draws.integer(4, 7), draws.integer(1, 4), draws.below(4));
    for (x, colour) in [(3, RED), (8, BLUE)] {
        let y = draws.integer(1, 4);
        b.put_fixed((u(x), y), cell::of(CLOSED_DOOR, colour));
    }
}

/// A random permutation of the colours.
fn shuffled_colours<L: Lane>(draws: &mut Draws<L>) -> [L::Uint; COLOURS as usize] {
    let u = L::Uint::splat;
    let mut colours: [L::Uint; COLOURS as usize] = core::array::from_fn(|k| u(k as u32));
    for place in 0..COLOURS - 1 {
        let other = u(place) + draws.below(COLOURS - place);
        let (here, there) = (colours[place as usize], array::get(&colours, other));
        colours = array::set(&colours, other, here);
        colours[place as usize] = there;
    }
    colours
}

fn go_to_door<L: Lane, const W: usize>(b: &mut Board<L, W>, draws: &mut Draws<L>) {
    let doors = [(2, 0), (2, 4), (0, 2), (4, 2)].map(|(x, y)| at::<L>(x, y));
    let colours = shuffled_colours(draws);
    for (door, colour) in doors.into_iter().zip(colours) {
        b.put(door, cell::coloured(CLOSED_DOOR, colour));
    }
    b.place_agent(b.all(), draws);
    let target = draws.below(4);
    let (x, y) = array::get(&doors, target);
    b.state.extra[..3].copy_from_slice(&[array::get(&colours, target), x, y]);
}

fn fetch<L: Lane, const W: usize>(b: &mut Board<L, W>, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    let objects = [(); 2].map(|()| {
        let (kind, colour) = (u(KEY) + draws.below(2), draws.below(COLOURS));
        let cell = b.place(b.all(), draws, any::<L>);
        b.put(cell, colour.shl(4) | kind);
        (colour, kind)
    });
    b.place_agent(b.all(), draws);
    let (colour, kind) = draws.below(2).eq(u(0)).select(objects[0], objects[1]);
    b.state.extra[..3].copy_from_slice(&[draws.below(5), colour, kind]);
}

fn put_near<L: Lane, const W: usize>(b: &mut Board<L, W>, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    // Type and colour form one number, so that the second object can be drawn from all except the first.
    let first = draws.below(3 * COLOURS);
    let second = draws.below(3 * COLOURS - 1);
    let second = second + second.ge(first).select(u(1), u(0));
    let objects = [first, second].map(|number| {
        let row = number.ge(u(COLOURS)).select(u(1), u(0)) + number.ge(u(2 * COLOURS)).select(u(1), u(0));
        (number - row * u(COLOURS), u(KEY) + row)
    });
    let one = b.place(b.all(), draws, any::<L>);
    b.put(one, objects[0].0.shl(4) | objects[0].1);
    let near = |(x, y): (L::Uint, L::Uint)| gap(x, one.0).max(gap(y, one.1)).le(u(1));
    let two = b.place(b.all(), draws, near);
    b.put(two, objects[1].0.shl(4) | objects[1].1);
    b.place_agent(b.all(), draws);
    let is_first = draws.below(2).eq(u(0));
    let (moved, target) = is_first.select((objects[0], objects[1]), (objects[1], objects[0]));
    let (x, y) = is_first.select(two, one);
    b.state.extra[..6].copy_from_slice(&[moved.0, moved.1, target.0, target.1, x, y]);
}

/// LockedRoom: three rooms on each side of a corridor.
fn six_rooms<L: Lane, const W: usize>(b: &mut Board<L, W>, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    let inside = |room: L::Uint, draws: &mut Draws<L>| {
        let left = (room & u(1)).eq(u(0)).select(u(1), u(12));
        (left + draws.below(6), room.shr(1) * u(6) + u(1) + draws.below(5))
    };
    let locked = draws.below(6);
    let goal = inside(locked, draws);
    b.put_fixed(goal, GOAL);
    let colours = shuffled_colours(draws);
    for (room, colour) in (0..6).zip(colours) {
        let thing = locked.eq(u(room)).select(u(LOCKED_DOOR), u(CLOSED_DOOR));
        b.put(at::<L>([7, 11][room as usize % 2], room / 2 * 6 + 3), colour.shl(4) | thing);
    }
    let other = draws.below(5);
    let key_room = other + other.ge(locked).select(u(1), u(0));
    let colour = array::get(&colours, locked);
    let key = inside(key_room, draws);
    b.put(key, cell::coloured(KEY, colour));
    (b.state.x, b.state.y, b.state.dir) = (draws.integer(8, 10), draws.integer(1, 17), draws.below(4));
    b.state.extra[..2].copy_from_slice(&[colour, array::get(&colours, key_room)]);
}
