//! The rules of a step: the actions that all tasks share, and the conditions that end an episode of each task.

use operant_lane::{Draws, Float, Lane, Mask, Memory, Uint};

use super::State;
use super::board::gap;
use super::cell::{
    self, BALL, BLUE, BOX, CLOSED_DOOR, COLOURS, EMPTY, GOAL, KEY, KIND, LAVA, LOCKED_DOOR, OPEN_DOOR, RED,
};
use super::tasks::{Kind, Task};
use crate::Step;

/// The actions, in the package's order. The last one, `done`, has an effect in one task only.
const ACTIONS: [&str; 7] = ["left", "right", "forward", "pickup", "drop", "toggle", "done"];

/// The effects of an action.
struct Acted<L: Lane> {
    /// Which action it was, as one mask per action.
    is: [L::Mask; ACTIONS.len()],
    /// The cell in front of the agent before the action.
    front: (L::Uint, L::Uint),
    /// The content of that cell.
    seen: L::Uint,
    moved: L::Mask,
    dropped: L::Mask,
}

/// Indices into [`Acted::is`].
const FORWARD: usize = 2;
const PICKUP: usize = 3;
const DROP: usize = 4;
const TOGGLE: usize = 5;
const DONE: usize = 6;

/// The cell in front of the agent.
#[inline(always)]
fn front<L: Lane, const W: usize>(s: &State<L, W>) -> (L::Uint, L::Uint) {
    let u = L::Uint::splat;
    let across = (s.dir & u(1)).eq(u(0));
    let one = s.dir.lt(u(2)).select(u(1), u(u32::MAX));
    (across.select(s.x + one, s.x), across.select(s.y, s.y + one))
}

/// Executes an action by the rules that all tasks share.
fn act<L: Lane, const W: usize>(task: &Task, s: &mut State<L, W>, action: L::Uint) -> Acted<L> {
    let u = L::Uint::splat;
    let mut is: [L::Mask; ACTIONS.len()] = core::array::from_fn(|k| action.eq(u(k as u32)));
    if matches!(task.kind, Kind::Memory { .. }) {
        // In this task `pickup` has the same effect as `toggle`.
        is[TOGGLE] = is[TOGGLE] | is[PICKUP];
        is[PICKUP] = L::Mask::splat(false);
    }
    let front = front(s);
    let index = front.1 * u(task.width) + front.0;
    let seen = s.cells.byte(index).named("seen");
    let what = cell::kind(seen);
    let is_kind = |kind: u32| what.eq(u(kind & KIND));

    let free = is_kind(EMPTY) | is_kind(GOAL) | is_kind(LAVA) | is_kind(OPEN_DOOR);
    let moved = (is[FORWARD] & free).named("moved");
    let hands_free = s.carried.eq(u(0));
    let picked = is[PICKUP] & hands_free & (is_kind(KEY) | is_kind(BALL) | is_kind(BOX));
    let dropped = (is[DROP] & !hands_free & seen.eq(u(EMPTY))).named("dropped");
    let has_key = s.carried.eq(cell::coloured(KEY, cell::colour(seen)));
    let toggles = |mask: L::Mask| is[TOGGLE] & mask;
    let opens = toggles(is_kind(CLOSED_DOOR) | (is_kind(LOCKED_DOOR) & has_key));
    let closes = toggles(is_kind(OPEN_DOOR));
    let vanishes = picked | toggles(is_kind(BOX));
    let door = cell::coloured(0, cell::colour(seen)) | opens.select(u(OPEN_DOOR), u(CLOSED_DOOR));
    let after = vanishes.select(u(EMPTY), dropped.select(s.carried, door)).named("after");
    s.cells.set_byte(vanishes | dropped | opens | closes, index, after);

    let turn = is[0].select(u(3), is[1].select(u(1), u(0)));
    s.carried = picked.select(seen, dropped.select(u(0), s.carried)).named("carried");
    s.x = moved.select(front.0, s.x).named("x");
    s.y = moved.select(front.1, s.y).named("y");
    s.dir = ((s.dir + turn) & u(3)).named("dir");
    s.steps = (s.steps + u(1)).named("steps");
    Acted { is, front, seen, moved, dropped }
}

/// Whether there is an open door of one of these colours in a column, in the rows 1 to 4.
fn open_door<L: Lane, const W: usize>(
    task: &Task,
    s: &State<L, W>,
    column: u32,
    colours: impl Iterator<Item = u32> + Clone,
) -> L::Mask {
    (1..5).fold(L::Mask::splat(false), |open, y| {
        let cell = s.cells.byte(L::Uint::splat(y * task.width + column));
        colours.clone().fold(open, |open, colour| open | cell.eq(L::Uint::splat(cell::of(OPEN_DOOR, colour))))
    })
}

/// Moves the balls of Dynamic-Obstacles one after the other, each to a random empty cell among its eight neighbours, if
/// there is one. In the package, a ball stays if 101 random cells among the nine are rejected.
fn move_balls<L: Lane, const W: usize>(task: &Task, s: &mut State<L, W>, balls: usize, draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    for ball in 0..balls {
        let (x, y) = (s.extra[2 * ball], s.extra[2 * ball + 1]);
        let near: [(L::Uint, L::Uint); 9] =
            core::array::from_fn(|k| (x + u(k as u32 % 3) - u(1), y + u(k as u32 / 3) - u(1)));
        let (to_x, to_y) = match (draws.given(0, task.width - 1), draws.given(0, task.height - 1)) {
            (Some(x), Some(y)) => (x, y),
            _ => {
                let is_free = near.map(|(x, y)| {
                    let is_agent = x.eq(s.x) & y.eq(s.y);
                    s.cells.byte(y * u(task.width) + x).eq(u(EMPTY)) & !is_agent
                });
                let one = |mask: L::Mask| mask.select(u(1), u(0));
                let count = is_free.iter().fold(u(0), |count, &is_free| count + one(is_free));
                let (mut left, mut to) = (draws.below_each(count), (x, y));
                for (at, is_free) in near.into_iter().zip(is_free) {
                    to = (is_free & left.eq(u(0))).select(at, to);
                    left = left - one(is_free);
                }
                to
            }
        };
        let always = L::Mask::splat(true);
        s.cells.set_byte(always, y * u(task.width) + x, u(EMPTY));
        s.cells.set_byte(always, to_y * u(task.width) + to_x, u(cell::of(BALL, BLUE)));
        (s.extra[2 * ball], s.extra[2 * ball + 1]) = (to_x, to_y);
    }
}

/// Success (which gives the reward) and failure (which ends the episode without a reward) by the rules of the task.
fn verdict<L: Lane, const W: usize>(
    task: &Task,
    before: &State<L, W>,
    s: &State<L, W>,
    acted: &Acted<L>,
) -> [L::Mask; 2] {
    let u = L::Uint::splat;
    let never = L::Mask::splat(false);
    let is = &acted.is;
    let what = cell::kind(acted.seen);
    let goal = acted.moved & what.eq(u(GOAL & KIND));
    let lava = acted.moved & what.eq(u(LAVA & KIND));
    let carries = |kind: u32| cell::kind(s.carried).eq(u(kind));
    let e = &s.extra;
    match task.kind {
        Kind::Unlock => [is[TOGGLE] & open_door(task, s, 5, 0..COLOURS), never],
        Kind::UnlockPickup | Kind::BlockedUnlockPickup => [is[PICKUP] & carries(BOX), never],
        Kind::ObstructedMaze | Kind::KeyCorridor => [is[PICKUP] & carries(BALL), never],
        Kind::Memory { .. } => {
            let on = |k: usize| s.x.eq(e[k]) & s.y.eq(e[k + 1]);
            [on(0), on(2)]
        }
        Kind::RedBlueDoors => {
            let red = open_door(task, before, 3, RED..RED + 1);
            let blue = open_door(task, s, 8, BLUE..BLUE + 1);
            [blue & red, blue & !red]
        }
        Kind::GoToDoor => {
            let beside = (gap(s.x, e[1]) + gap(s.y, e[2])).eq(u(1));
            [is[DONE] & beside, is[TOGGLE] | (is[DONE] & !beside)]
        }
        Kind::Fetch => {
            let holds = s.carried.ne(u(0));
            let right = s.carried.eq(e[2] | e[1].shl(4));
            [holds & right, holds & !right]
        }
        Kind::PutNear => {
            let wrong = is[PICKUP] & s.carried.ne(u(0)) & s.carried.ne(e[1] | e[0].shl(4));
            let near = gap(acted.front.0, e[4]).max(gap(acted.front.1, e[5])).le(u(1));
            let success = acted.dropped & near;
            [success, wrong | (is[DROP] & before.carried.ne(u(0)) & !success)]
        }
        _ => [goal, lava],
    }
}

/// One step of a task.
pub fn step<L: Lane, const W: usize>(
    task: &Task,
    before: &State<L, W>,
    action: L::Uint,
    draws: &mut Draws<L>,
) -> Step<L, State<L, W>> {
    let (u, f) = (L::Uint::splat, L::Float::splat);
    let mut state = *before;
    let mut crash = L::Mask::splat(false);
    if let Kind::DynamicObstacles { balls } = task.kind {
        // A collision counts with the positions of the balls before their move, although the balls move first.
        let (x, y) = front(before);
        let seen = before.cells.byte(y * u(task.width) + x);
        crash = action.eq(u(FORWARD as u32)) & seen.ne(u(EMPTY)) & seen.ne(u(GOAL));
        move_balls(task, &mut state, balls, draws);
    }
    let acted = act(task, &mut state, action);
    let [success, failure] = verdict(task, before, &state, &acted);
    let part = L::Float::from_uint(state.steps) / f(f64::from(task.limit));
    let worth = f(1.0) - f(0.9) * part;
    let reward = crash.select(f(-1.0), success.select(worth, f(0.0)));
    Step { state, reward, terminated: success | failure | crash }
}
