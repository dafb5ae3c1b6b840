//! MinAtar Seaquest: a submarine shoots fish and enemy submarines, collects divers and surfaces for air (10 x 10 grid).
//!
//! Row 0 is the surface, rows 1 to 8 are the sea, row 9 shows the air and the divers. Only the front cell of the
//! submarine can be hit. Objects move in the order of the package: own bullets, divers, enemy submarines, enemy
//! bullets, fish. If several objects hit the same bullet or one bullet hits several, their ages decide.
//!
//! Fish, enemy submarines and enemy bullets are lists ordered by age and stored as bit planes: bit k of a word belongs
//! to the k-th oldest, and a word holds one bit of all columns, rows or timers. All objects of a list therefore move,
//! count down and are compared with a cell in parallel, and the oldest or newest of a set is the lowest or highest bit.
//! A removed object leaves a hole; holes are closed when a list is nearly full.
//!
//! A list holds 32 objects, which is more than the game can need: an enemy crosses the board in 10 moves of at most 6
//! steps when one appears every 14 steps or more, and of 3 steps when one appears in every step, so there are at most
//! 31 enemies, and about 9 bullets. The cannon fires every 5 steps and a bullet exists for 9 steps; a diver appears
//! every 30 steps and leaves after 60. There are therefore at most two of each.

use core::num::Wrapping;

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use super::planes::{
    RIGHTWARDS, SHOT, THERE, TIMER, X, Y, all, append, cell, count_down, highest, in_cell, lowest, plane,
    swim, tidy,
};
use super::{About, DOWN, FIRE, Game, LEFT, MinAtar, RIGHT, SIDE, TIME_LIMIT, UP, moved, square};
use crate::replay::CaseError;
use crate::{BLUE, GREEN, GREY, RED, Shape, Step, YELLOW, grid};

/// Channels of the observation; the first two are the front and the back of the submarine.
const CHANNELS: u32 = 10;
/// What each of them shows.
const CHANNEL_NAMES: [&str; CHANNELS as usize] = [
    "front of the submarine",
    "its back",
    "own bullets",
    "trails of fish, submarines and divers",
    "enemy bullets",
    "fish",
    "enemy submarines",
    "oxygen (bottom row)",
    "divers on board (bottom row)",
    "divers",
];
const BULLET: u32 = 2;
const TRAIL: u32 = 3;
const ENEMY_BULLET: u32 = 4;
const FISH: u32 = 5;
const ENEMY: u32 = 6;
const AIR: u32 = 7;
const CARRIED: u32 = 8;
const DIVER: u32 = 9;
/// Words of the observation's 1,000 bits.
const OBS_WORDS: usize = 32;
/// The lowest row.
const DEEPEST: u32 = 8;
/// Steps under water with full oxygen.
const OXYGEN: i32 = 200;
/// Oxygen per cell of the air bar, and per point when six divers are rescued.
const OXYGEN_PER_CELL: i32 = 20;
/// Maximum number of divers on board.
const FULL: i32 = 6;
/// Steps between two shots.
const SHOT_PERIOD: u32 = 5;
/// Steps between two new divers.
const DIVER_PERIOD: u32 = 30;
/// Steps between two moves of a diver.
const DIVER_TIMER: u32 = 5;
/// Steps between two shots of an enemy submarine.
const ENEMY_SHOT_TIMER: u32 = 10;
/// Steps between two moves of an enemy: initially, and at least.
const MOVE_TIMER: u32 = 5;
const LEAST_MOVE_TIMER: u32 = 2;

/// The number of bit planes of enemy bullets, fish and submarines.
const BULLET_PLANES: usize = 9;
const FISH_PLANES: usize = 12;
const SUB_PLANES: usize = 16;

bundle! {
    /// The state of the game.
    pub struct State {
        /// Row of the submarine, 0 at the surface.
        y: Uint,
        /// Column of its front cell.
        x: Uint,
        /// 1 if it faces right.
        faces_right: Uint,
        /// Steps of oxygen left.
        oxygen: Int,
        /// Divers on board; -1 for a while after six were rescued.
        carried: Int,
        /// Steps until the submarine can shoot.
        shot_timer: Uint,
        /// Steps until an enemy appears.
        enemy_spawn_timer: Uint,
        /// Interval at which enemies appear, in steps.
        enemy_spawn_speed: Uint,
        /// Steps until a diver appears.
        diver_spawn_timer: Uint,
        /// Steps between two moves of an enemy.
        move_speed: Uint,
        /// Number of difficulty increases so far.
        ramp_index: Uint,
        /// 1 if the submarine was already at the surface in the previous step.
        surfaced: Uint,
        /// Own bullets, oldest first: column in the low bits, row from bit 4, direction in bit 8, 1 in bit 9; 0 for
        /// none.
        bullets: [Uint; 2],
        /// Divers in the same format, with a timer from bit 10.
        divers: [Uint; 2],
        /// Bit planes of the enemies' bullets.
        enemy_bullets: [Uint; 9],
        /// Bit planes of the fish.
        fish: [Uint; 12],
        /// Bit planes of the enemy submarines.
        subs: [Uint; 16],
        /// The previously executed action, for sticky actions.
        last_action: Uint,
    }
}

/// The game.
#[derive(Debug, Clone, Copy)]
pub struct Seaquest;

/// Adds an enemy at one side, unless another enemy in its row moves the opposite way.
#[inline(always)]
fn spawn_enemy<L: Lane>(
    s: &State<L>,
    draws: &mut Draws<L>,
) -> ([L::Uint; FISH_PLANES], [L::Uint; SUB_PLANES]) {
    let half = draws.unit().lt(L::Float::splat(0.5));
    let is_sub = draws.unit().lt(L::Float::splat(1.0 / 3.0)).named("is_sub");
    let row = (draws.integer(1, DEEPEST) - L::Uint::splat(1)).named("row");
    let right = all::<L>(half).named("right");
    let (mut fish, mut subs) = (s.fish, s.subs);
    let rows: [L::Uint; 3] = core::array::from_fn(|bit| plane::<L>(row, bit));
    let opposite = |there: L::Uint, list: &[L::Uint]| {
        let differs = (0..3).fold(L::Uint::splat(0), |differs, bit| differs | (list[Y + bit] ^ rows[bit]));
        there & !differs & (list[RIGHTWARDS] ^ right)
    };
    let free =
        (opposite(fish[THERE], &fish) | opposite(subs[THERE], &subs)).eq(L::Uint::splat(0)).named("free");
    let planes = |k: usize| match k {
        X..Y => L::Uint::splat(if 9 >> (k - X) & 1 == 1 { u32::MAX } else { 0 }) & !right,
        Y..RIGHTWARDS => rows[k - Y],
        RIGHTWARDS => right,
        TIMER..SHOT => plane::<L>(s.move_speed, k - TIMER),
        _ => L::Uint::splat(if ENEMY_SHOT_TIMER >> (k - SHOT) & 1 == 1 { u32::MAX } else { 0 }),
    };
    append(&mut fish, all::<L>(free & !is_sub), planes);
    append(&mut subs, all::<L>(free & is_sub), planes);
    (fish, subs)
}

/// Column, row and direction of an own bullet or a diver.
#[inline(always)]
fn fields<U: Uint>(thing: U) -> (U, U, U::Mask) {
    let (x, y) = (thing & U::splat(15), thing.shr(4) & U::splat(15));
    (x, y, (thing & U::splat(1 << 8)).ne(U::splat(0)))
}

/// Moves an own bullet or a diver by one cell; 0 if it left the board.
#[inline(always)]
fn drifted<U: Uint>(thing: U) -> U {
    let u = U::splat;
    let (x, _, right) = fields(thing);
    let x = right.select(x + u(1), x - u(1));
    x.lt(u(SIDE)).select((thing & !u(15)) | x, u(0))
}

/// Stores an object in the first free slot, if there is one.
#[inline(always)]
fn add<L: Lane>(things: [L::Uint; 2], thing: L::Uint) -> [L::Uint; 2] {
    let u = L::Uint::splat;
    let (first, second) = (things[0].eq(u(0)), things[1].eq(u(0)));
    [first.select(thing, things[0]), (!first & second).select(thing, things[1])]
}

/// Moves the only remaining object to the first slot, so that the older one comes first.
#[inline(always)]
fn in_order<L: Lane>(things: [L::Uint; 2]) -> [L::Uint; 2] {
    let u = L::Uint::splat;
    let gone = things[0].eq(u(0));
    [gone.select(things[1], things[0]), gone.select(u(0), things[1])]
}

/// Objects and events that the parts of a step share.
struct Events<L: Lane> {
    submarine: [L::Uint; 8],
    /// The cells of the own bullets.
    bullets: [[L::Uint; 8]; 2],
    /// Number of enemies shot.
    shot: L::Uint,
    /// Nonzero if the submarine was hit.
    hit: L::Uint,
}

impl<L: Lane> Events<L> {
    /// Removes a bullet that hit something, and counts the hit; `taken` is the enemy that it hit.
    #[inline(always)]
    fn shoot(&mut self, bullet: usize, taken: L::Uint) {
        let u = L::Uint::splat;
        let hits = taken.ne(u(0));
        self.shot = self.shot + hits.select(u(1), u(0));
        self.bullets[bullet][THERE] = hits.select(u(0), self.bullets[bullet][THERE]);
    }

    /// Moves fish or submarines. They collide with the submarine before or after they move; otherwise own bullets hit
    /// them after the move, the newest first.
    #[inline(always)]
    fn advance<const N: usize>(&mut self, list: &mut [L::Uint; N], speed: &[L::Uint; 3]) {
        self.hit = self.hit | in_cell(list, &self.submarine);
        let there = list[THERE];
        let due = count_down(&mut list[TIMER..SHOT], there, |bit| speed[bit]);
        let left = swim(list, due);
        list[THERE] = there & !left;
        let met = due & in_cell(list, &self.submarine);
        self.hit = self.hit | met;
        for bullet in 0..2 {
            let taken = highest(due & !met & in_cell(list, &self.bullets[bullet]));
            list[THERE] = list[THERE] & !taken;
            self.shoot(bullet, taken);
        }
    }
}

/// Appends one bullet for each submarine that fires, the newest submarine first.
#[inline(always)]
fn fire<L: Lane>(
    bullets: [L::Uint; BULLET_PLANES],
    subs: &[L::Uint; SUB_PLANES],
    fires: L::Uint,
) -> [L::Uint; BULLET_PLANES] {
    let none = L::Uint::splat(0);
    let shots = L::when(fires.ne(none), (bullets, fires), |shots| {
        L::repeat_while(
            32,
            shots,
            |(_, rest)| rest.ne(none),
            |_, (mut bullets, rest)| {
                let one = highest(rest);
                append(&mut bullets, all::<L>(rest.ne(none)), |k| all::<L>((subs[k] & one).ne(none)));
                (bullets, rest & !one)
            },
        )
    });
    shots.0
}

/// Moves the own bullets, the newest first. Each hits the oldest fish in its cell or, if there is none, the oldest
/// submarine.
#[inline(always)]
fn fly<L: Lane>(s: &mut State<L>, events: &mut Events<L>) {
    let u = L::Uint::splat;
    for bullet in [1, 0] {
        let there = s.bullets[bullet].ne(u(0));
        s.bullets[bullet] = there.select(drifted(s.bullets[bullet]), u(0));
        let (x, y, _) = fields(s.bullets[bullet]);
        events.bullets[bullet] = cell::<L>(s.bullets[bullet].ne(u(0)), x, y);
        let fish = lowest(in_cell(&s.fish, &events.bullets[bullet]));
        s.fish[THERE] = s.fish[THERE] & !fish;
        events.shoot(bullet, fish);
        let sub = lowest(in_cell(&s.subs, &events.bullets[bullet]));
        s.subs[THERE] = s.subs[THERE] & !sub;
        events.shoot(bullet, sub);
        s.bullets[bullet] = (fish | sub).ne(u(0)).select(u(0), s.bullets[bullet]);
    }
}

/// Moves the divers, the newest first. A diver that meets the submarine is taken on board if there is room.
#[inline(always)]
fn rescue<L: Lane>(s: &mut State<L>) {
    let u = L::Uint::splat;
    for diver in [1, 0] {
        let before = s.divers[diver];
        let room = s.carried.lt(L::Int::splat(FULL));
        let meets = |diver: L::Uint| {
            let (x, y, _) = fields(diver);
            room & diver.ne(u(0)) & x.eq(s.x) & y.eq(s.y)
        };
        let met = meets(before).named("met");
        let moves = (!met & before.ne(u(0)) & before.shr(10).eq(u(0))).named("moves");
        let after = moves.select(drifted(before | u(DIVER_TIMER << 10)), before - u(1 << 10));
        let met_later = moves & meets(after);
        s.divers[diver] = (met | met_later | before.eq(u(0))).select(u(0), after);
        s.carried = s.carried + (met | met_later).select(L::Int::splat(1), L::Int::splat(0));
    }
    s.divers = in_order::<L>(s.divers);
}

/// Updates the oxygen and handles surfacing. Returns the reward, and whether the episode ends.
#[inline(always)]
fn breathe<L: Lane>(s: &mut State<L>, ramping: bool) -> (L::Uint, L::Mask) {
    let (u, int) = (L::Uint::splat, L::Int::splat);
    let suffocated = s.oxygen.le(int(0)).named("suffocated");
    let submerged = s.y.ne(u(0)).named("submerged");
    let arrives = !submerged & s.surfaced.eq(u(0));
    let empty = (arrives & s.carried.eq(int(0))).named("empty");
    let surfaces = (arrives & !empty).named("surfaces");
    let saved = (surfaces & s.carried.eq(int(FULL))).named("saved");
    let reward = saved.select(cells_of_air::<L>(s.oxygen), u(0));
    let carried = saved.select(int(0), s.carried);
    s.carried = surfaces.select(carried - int(1), carried);
    let oxygen = submerged.select(s.oxygen - int(1), s.oxygen);
    s.oxygen = surfaces.select(int(OXYGEN), oxygen);
    s.surfaced = surfaces.select(u(1), submerged.select(u(0), s.surfaced));
    if ramping {
        let slow = u(LEAST_MOVE_TIMER).lt(s.move_speed);
        let rare = u(1).lt(s.enemy_spawn_speed);
        let ramps = (surfaces & (slow | rare)).named("ramps");
        let faster = ramps & slow & (s.ramp_index & u(1)).eq(u(1));
        s.move_speed = s.move_speed - faster.select(u(1), u(0));
        s.enemy_spawn_speed = s.enemy_spawn_speed - (ramps & rare).select(u(1), u(0));
        s.ramp_index = s.ramp_index + ramps.select(u(1), u(0));
    }
    (reward, suffocated | empty)
}

/// Cells of the air bar: an integer division by multiplication, exact up to full oxygen.
#[inline(always)]
fn cells_of_air<L: Lane>(oxygen: L::Int) -> L::Uint {
    let part = (1 << 16) / OXYGEN_PER_CELL as u32 + 1;
    (oxygen.max(L::Int::splat(0)).to_uint() * L::Uint::splat(part)).shr(16)
}

/// Decrements a timer, but not below zero.
#[inline(always)]
fn less_one<U: Uint>(timer: U) -> U {
    timer.max(U::splat(1)) - U::splat(1)
}

/// Adds the new objects of a step: an enemy, a diver.
#[inline(always)]
fn spawn<L: Lane>(s: &mut State<L>, draws: &mut Draws<L>, diver_draws: &mut Draws<L>) {
    let u = L::Uint::splat;
    s.enemy_bullets = tidy::<L, BULLET_PLANES>(s.enemy_bullets);
    s.fish = tidy::<L, FISH_PLANES>(s.fish);
    s.subs = tidy::<L, SUB_PLANES>(s.subs);
    let enemy = s.enemy_spawn_timer.eq(u(0)).named("enemy");
    (s.fish, s.subs) = L::when(enemy, (s.fish, s.subs), |_| spawn_enemy(s, draws));
    s.enemy_spawn_timer = enemy.select(s.enemy_spawn_speed, s.enemy_spawn_timer);
    let diver = s.diver_spawn_timer.eq(u(0)).named("diver");
    let new = L::when(diver, u(0), |_| {
        let right = diver_draws.unit().lt(L::Float::splat(0.5));
        let row = diver_draws.integer(1, DEEPEST);
        right.select(u(1 << 8), u(SIDE - 1)) | row.shl(4) | u(1 << 9)
    });
    s.divers = diver.select(add::<L>(s.divers, new | u(DIVER_TIMER << 10)), s.divers);
    s.diver_spawn_timer = diver.select(u(DIVER_PERIOD), s.diver_spawn_timer);
}

/// Lets the submarine shoot or move.
#[inline(always)]
fn steer<L: Lane>(s: &mut State<L>, action: L::Uint) {
    let u = L::Uint::splat;
    let fires = (action.eq(u(FIRE)) & s.shot_timer.eq(u(0))).named("fires");
    let bullet = s.x | s.y.shl(4) | s.faces_right.shl(8) | u(1 << 9);
    s.bullets = fires.select(add::<L>(s.bullets, bullet), s.bullets);
    s.shot_timer = fires.select(u(SHOT_PERIOD), s.shot_timer);
    let (left, right) = (action.eq(u(LEFT)), action.eq(u(RIGHT)));
    s.x = moved::<L>(s.x, left, right, 0, SIDE - 1).named("x");
    s.y = moved::<L>(s.y, action.eq(u(UP)), action.eq(u(DOWN)), 0, DEEPEST).named("y");
    s.faces_right = right.select(u(1), left.select(u(0), s.faces_right));
}

impl Game for Seaquest {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];

    const ABOUT: About = About {
        title: "Seaquest",
        name: "seaquest",
        summary: "shoot, dive and surface on a 10x10 grid; +1 per enemy, up to 9 for rescuing six divers",
        rules: "A submarine shoots fish and submarines, 1 each, and collects divers. It must surface for air with at least one \
                diver on board; with six, the remaining oxygen gives a bonus. A collision or a bullet ends the episode.",
        channels: &CHANNEL_NAMES,
        actions: &[0, LEFT, UP, RIGHT, DOWN, FIRE],
        ramps: true,
        time_limit: TIME_LIMIT,
        preset: include_str!("../../presets/minatar_seaquest.toml"),
    };

    fn reset<L: Lane>(_: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        State {
            y: u(0),
            x: u(5),
            faces_right: u(0),
            oxygen: L::Int::splat(OXYGEN),
            carried: L::Int::splat(0),
            shot_timer: u(0),
            enemy_spawn_timer: u(20),
            enemy_spawn_speed: u(20),
            diver_spawn_timer: u(DIVER_PERIOD),
            move_speed: u(MOVE_TIMER),
            ramp_index: u(0),
            surfaced: u(1),
            bullets: [u(0); 2],
            divers: [u(0); 2],
            enemy_bullets: [u(0); BULLET_PLANES],
            fish: [u(0); FISH_PLANES],
            subs: [u(0); SUB_PLANES],
            last_action: u(0),
        }
    }

    fn step<L: Lane>(
        play: &MinAtar<Self>,
        s: &State<L>,
        action: L::Uint,
        draws: &mut Draws<L>,
    ) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        // Two blocks of the stream: one for the sticky action followed by the enemy, one for the diver.
        let (mut draws, mut diver_draws) = (draws.reserve(4), draws.reserve(2));
        let action = play.executed::<L>(action, s.last_action, &mut draws);
        let mut s = State { last_action: action, ..*s };
        spawn(&mut s, &mut draws, &mut diver_draws);
        steer(&mut s, action);

        let submarine = cell::<L>(L::Mask::splat(true), s.x, s.y);
        let mut events = Events { submarine, bullets: [submarine; 2], shot: u(0), hit: u(0) };
        fly(&mut s, &mut events);
        rescue(&mut s);

        let speed: [L::Uint; 3] = core::array::from_fn(|bit| plane::<L>(s.move_speed, bit));
        let subs = s.subs[THERE];
        events.advance(&mut s.subs, &speed);
        let fires = count_down(&mut s.subs[SHOT..], subs, |bit| {
            u(if ENEMY_SHOT_TIMER >> bit & 1 == 1 { u32::MAX } else { 0 })
        });
        s.enemy_bullets = fire::<L>(s.enemy_bullets, &s.subs, fires);

        events.hit = events.hit | in_cell(&s.enemy_bullets, &submarine);
        let flying = s.enemy_bullets[THERE];
        let left = swim(&mut s.enemy_bullets, flying);
        s.enemy_bullets[THERE] = flying & !left;
        events.hit = events.hit | in_cell(&s.enemy_bullets, &submarine);

        events.advance(&mut s.fish, &speed);

        for bullet in 0..2 {
            let flies = events.bullets[bullet][THERE].ne(u(0)) | fields(s.bullets[bullet]).1.eq(u(0));
            s.bullets[bullet] = flies.select(s.bullets[bullet], u(0));
        }
        s.bullets = in_order::<L>(s.bullets);
        s.enemy_spawn_timer = less_one(s.enemy_spawn_timer);
        s.diver_spawn_timer = less_one(s.diver_spawn_timer);
        s.shot_timer = less_one(s.shot_timer);
        let (reward, ends) = breathe(&mut s, play.difficulty_ramping);
        let reward = L::Float::from_uint(reward + events.shot);
        Step { state: s, reward, terminated: ends | events.hit.ne(u(0)) }
    }

    fn observe<L: Lane>(s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let mut picture = Picture::<L> { rows: [u(0); 8], ends: [u(0); 2] };
        picture.put_list(&s.enemy_bullets, ENEMY_BULLET);
        picture.put_list(&s.fish, FISH);
        picture.put_list(&s.subs, ENEMY);
        for diver in s.divers {
            let (x, y, right) = fields(diver);
            picture.put(diver.ne(u(0)), x, y - u(1), DIVER, Some(right));
        }
        let mut words = picture.words();
        let mut mark = |there: L::Mask, x: L::Uint, y: L::Uint, channel: u32| {
            let bit = (y * u(SIDE) + x) * u(CHANNELS) + u(channel);
            let bit = (there & x.lt(u(SIDE))).select(bit, u(u32::MAX));
            // The lowest row has none of these.
            for (at, word) in words.iter_mut().enumerate().take(29) {
                *word = *word | grid::bit(bit, at);
            }
        };
        let always = L::Mask::splat(true);
        mark(always, s.x, s.y, 0);
        mark(always, s.faces_right.ne(u(0)).select(s.x - u(1), s.x + u(1)), s.y, 1);
        for (things, channel) in [(s.bullets, BULLET), (s.divers, DIVER)] {
            for thing in things {
                let (x, y, _) = fields(thing);
                mark(thing.ne(u(0)), x, y, channel);
            }
        }
        let air = cells_of_air::<L>(s.oxygen);
        let mut bar = |on: L::Mask, x: u32, channel: u32| {
            let bit = (9 * SIDE + x) * CHANNELS + channel;
            let word = &mut words[bit as usize / 32];
            *word = *word | on.select(u(1 << (bit % 32)), u(0));
        };
        (0..SIDE).for_each(|x| bar(u(x).lt(air), x, AIR));
        (1..=FULL).for_each(|count| bar(s.carried.ge(L::Int::splat(count)), 9 - count as u32, CARRIED));
        words
    }

    fn draw(s: &State<f32>) -> Vec<Shape> {
        let mut shapes: Vec<Shape> = (0..SIDE).map(|x| square(x, 0, 4)).collect();
        let mut put = |x: u32, y: u32, tone: u8| {
            if x < SIDE {
                shapes.push(square(x, y, tone));
            }
        };
        let behind = |x: u32, right: u32| if right == 1 { x.wrapping_sub(1) } else { x + 1 };
        for (list, tone) in [(&s.fish[..], GREEN), (&s.subs[..], RED)] {
            for [x, y, right, ..] in records(list) {
                put(behind(x, right), y, 4);
                put(x, y, tone);
            }
        }
        records(&s.enemy_bullets).into_iter().for_each(|[x, y, ..]| put(x, y, 3));
        for (things, tone) in [(s.divers, YELLOW), (s.bullets, 2)] {
            for thing in things.into_iter().filter(|thing| thing.0 != 0) {
                put(thing.0 & 15, thing.0 >> 4 & 15, tone);
            }
        }
        put(behind(s.x.0, s.faces_right.0), s.y.0, 1);
        put(s.x.0, s.y.0, 2);
        (0..cells_of_air::<f32>(s.oxygen).0).for_each(|x| put(x, 9, BLUE));
        (0..s.carried.0.max(0) as u32).for_each(|k| put(8 - k, 9, if k < 5 { GREY } else { YELLOW }));
        shapes
    }

    /// y, x, whether it faces right, oxygen, carried, shot_timer, enemy_spawn_timer, enemy_spawn_speed,
    /// diver_spawn_timer, move_speed, ramp_index, surfaced; then five lists, each a count and its records, oldest
    /// first: own bullets (y, x, right), enemy bullets (y, x, right), fish (y, x, right, timer), submarines (y, x,
    /// right, timer, shot_timer), divers (y, x, right, timer). The previous action is not included and starts as 0.
    fn unpack(public: &[f64]) -> Vec<f64> {
        let (lists, _) = lists(public).expect("the length was requested");
        let pair = |list: &[&[f64]]| {
            let word = |record: &&[f64]| {
                let field = |k: usize| record.get(k).map_or(0, |&value| value as u32);
                f64::from(field(1) | field(0) << 4 | field(2) << 8 | 1 << 9 | field(3) << 10)
            };
            [list.first().map_or(0.0, word), list.get(1).map_or(0.0, word)]
        };
        let planes = |list: &[&[f64]], count: usize| -> Vec<f64> {
            let bit = |record: &[f64], k: usize| {
                let (field, bit) = match k {
                    THERE => return 1,
                    X..Y => (record[1], k - X),
                    Y..RIGHTWARDS => (record[0] - 1.0, k - Y),
                    RIGHTWARDS => (record[2], 0),
                    TIMER..SHOT => (record[3], k - TIMER),
                    _ => (record[4], k - SHOT),
                };
                field as u32 >> bit & 1
            };
            let plane =
                |k| list.iter().enumerate().fold(0, |plane, (at, record)| plane | bit(record, k) << at);
            (0..count).map(|k| f64::from(plane(k))).collect()
        };
        [
            &public[..HEAD],
            &pair(&lists[0]),
            &pair(&lists[4]),
            &planes(&lists[1], BULLET_PLANES),
            &planes(&lists[2], FISH_PLANES),
            &planes(&lists[3], SUB_PLANES),
            &[0.0],
        ]
        .concat()
    }

    fn pack(leaves: &[f64]) -> Vec<f64> {
        let words: Vec<Wrapping<u32>> = leaves[HEAD..].iter().map(|&leaf| Wrapping(leaf as u32)).collect();
        let (pairs, planes) = words.split_at(4);
        let (enemy_bullets, planes) = planes.split_at(BULLET_PLANES);
        let (fish, subs) = planes.split_at(FISH_PLANES);
        let pair = |things: &[Wrapping<u32>]| {
            let there = things.iter().filter(|thing| thing.0 != 0);
            there
                .map(|Wrapping(thing)| [thing & 15, thing >> 4 & 15, thing >> 8 & 1, thing >> 10, 0])
                .collect()
        };
        let lists: [Vec<[u32; 5]>; 5] = [
            pair(&pairs[..2]),
            records(enemy_bullets),
            records(fish),
            records(&subs[..SUB_PLANES]),
            pair(&pairs[2..]),
        ];
        let mut public = leaves[..HEAD].to_vec();
        for (list, (_, length, _)) in lists.iter().zip(LISTS) {
            public.push(list.len() as f64);
            for &[x, y, right, timer, shot_timer] in list {
                public.extend([y, x, right, timer, shot_timer].map(f64::from).iter().take(length));
            }
        }
        public
    }

    fn public_len(public: &[f64]) -> Result<usize, CaseError> {
        lists(public).map(|(_, length)| length)
    }
}

/// Length of a public state before its lists.
const HEAD: usize = 12;
/// The lists of a public state: the maximum number of records, the length of a record, and a description of the limit.
const LISTS: [(usize, usize, &str); 5] = [
    (2, 3, "a count of at most 2 own bullets"),
    (32, 3, "a count of at most 32 enemy bullets"),
    (32, 4, "a count of at most 32 fish"),
    (32, 5, "a count of at most 32 submarines"),
    (2, 4, "a count of at most 2 divers"),
];

/// The records of each list.
type Lists<'a> = [Vec<&'a [f64]>; 5];

/// Splits the records of the lists of a public state, and returns them with the length of the state that the counts
/// imply.
fn lists(public: &[f64]) -> Result<(Lists<'_>, usize), CaseError> {
    let mut at = HEAD;
    let mut found = Lists::default();
    for ((most, length, what), list) in LISTS.into_iter().zip(&mut found) {
        let count = public.get(at).copied().unwrap_or(0.0);
        if count.fract() != 0.0 || !(0.0..=most as f64).contains(&count) {
            let env = format!("minatar_{}", Seaquest::ABOUT.name);
            return Err(CaseError::Entry { env, index: at, value: count, what: what.to_owned() });
        }
        let end = at + 1 + count as usize * length;
        *list = public.get(at + 1..end).map_or_else(Vec::new, |records| records.chunks(length).collect());
        at = end;
    }
    Ok((found, at))
}

/// Column, row, direction, timer and shot timer of all objects of a list, oldest first; fields that the list does not
/// have are 0.
fn records(list: &[Wrapping<u32>]) -> Vec<[u32; 5]> {
    let number = |at: u32, from: usize, to: usize| {
        let planes = list.iter().take(to).skip(from).enumerate();
        planes.fold(0, |number, (bit, plane)| number | (plane.0 >> at & 1) << bit)
    };
    let there = (0..32).filter(|at| list[THERE].0 >> at & 1 == 1);
    there
        .map(|at| {
            let (x, y) = (number(at, X, Y), number(at, Y, RIGHTWARDS) + 1);
            [x, y, number(at, RIGHTWARDS, TIMER), number(at, TIMER, SHOT), number(at, SHOT, SUB_PLANES)]
        })
        .collect()
}

/// The objects in the rows 1 to 8, without the submarine, its bullets and divers.
#[derive(Clone, Copy)]
struct Picture<L: Lane> {
    /// A nibble for each of the columns 0 to 7 of a row: trail, enemy bullet, fish, submarine.
    rows: [L::Uint; 8],
    /// The columns 8 and 9: a byte for each row, four to a word.
    ends: [L::Uint; 2],
}

impl<L: Lane> Picture<L> {
    /// Adds an object at column `x` of row `row` + 1, and its trail.
    #[inline(always)]
    fn put(&mut self, there: L::Mask, x: L::Uint, row: L::Uint, channel: u32, trail: Option<L::Mask>) {
        let u = L::Uint::splat;
        let nibble = |channel: u32| u(1 << (channel - TRAIL));
        let column = |there: L::Mask, x: L::Uint, nibble: L::Uint| {
            let bits = (there & x.lt(u(SIDE))).select(nibble.shl_by(x.shl(2)), u(0));
            let first = x.lt(u(8));
            (first.select(bits, u(0)), first.select(u(0), bits))
        };
        let thing = if channel == DIVER { u(0) } else { nibble(channel) };
        let (mut first, mut last) = column(there, x, thing);
        if let Some(right) = trail {
            let behind = right.select(x - u(1), x + u(1));
            let (a, b) = column(there, behind, nibble(TRAIL));
            (first, last) = (first | a, last | b);
        }
        for (at, cells) in self.rows.iter_mut().enumerate() {
            *cells = *cells | row.eq(u(at as u32)).select(first, u(0));
        }
        let last = last.shl_by((row & u(3)).shl(3));
        for (half, cells) in self.ends.iter_mut().enumerate() {
            *cells = *cells | row.shr(2).eq(u(half as u32)).select(last, u(0));
        }
    }

    /// Adds all objects of a list, four at a time until all are added.
    #[inline(always)]
    fn put_list<const N: usize>(&mut self, list: &[L::Uint; N], channel: u32) {
        let u = L::Uint::splat;
        let number = |of: L::Uint, from: usize, to: usize| {
            let planes = list[from..to].iter().enumerate();
            planes
                .fold(u(0), |number, (bit, &plane)| number | (plane & of).ne(u(0)).select(u(1 << bit), u(0)))
        };
        let (rows, ends, _) = L::repeat(8, (self.rows, self.ends, list[THERE]), |_, picture| {
            L::when(picture.2.ne(u(0)), picture, |picture| {
                L::repeat(4, picture, |_, (rows, ends, rest)| {
                    let mut picture = Self { rows, ends };
                    let one = lowest(rest);
                    let right = (list[RIGHTWARDS] & one).ne(u(0));
                    let trail = (N > BULLET_PLANES).then_some(right);
                    let (x, row) = (number(one, X, Y), number(one, Y, RIGHTWARDS));
                    picture.put(rest.ne(u(0)), x, row, channel, trail);
                    (picture.rows, picture.ends, rest & !one)
                })
            })
        });
        *self = Self { rows, ends };
    }

    /// The observation's bits: nibbles at every tenth bit.
    #[inline(always)]
    fn words(&self) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let mut words = [u(0); OBS_WORDS];
        for (row, &first) in self.rows.iter().enumerate() {
            let last = self.ends[row / 4].shr(8 * (row as u32 % 4));
            let threes = [first, first.shr(12), first.shr(24) | (last & u(15)).shl(8), last.shr(4) & u(15)];
            for (three, nibbles) in threes.into_iter().enumerate() {
                let bits = (nibbles & u(15)) | (nibbles & u(0xf0)).shl(6) | (nibbles & u(0xf00)).shl(12);
                let bit = (row as u32 + 1) * SIDE * CHANNELS + 30 * three as u32 + TRAIL;
                let (word, shift) = (bit as usize / 32, bit % 32);
                words[word] = words[word] | bits.shl(shift);
                if shift > 8 {
                    words[word + 1] = words[word + 1] | bits.shr(32 - shift);
                }
            }
        }
        words
    }
}
