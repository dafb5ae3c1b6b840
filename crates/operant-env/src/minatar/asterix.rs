//! MinAtar Asterix: a player collects gold and avoids enemies, which cross eight rows of a 10 x 10 grid.
//!
//! A row holds at most one thing, an enemy or gold. In a step, a new thing enters an empty row from one side; the
//! player moves; then, every few steps, all things move by one cell. The player touches a thing that is in the same
//! cell before or after things move. Every 102 steps things appear more often, and every second time they also move
//! faster.
//!
//! The things of all rows are stored in a few words, one nibble for each of the rows 1 to 8, so all of them are moved
//! and compared in parallel.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use super::{About, CELLS, DOWN, Game, LEFT, MinAtar, RIGHT, SIDE, TIME_LIMIT, UP, moved, square};
use crate::{Shape, Step, YELLOW, grid};

/// Rows with things.
const ROWS: usize = 8;
/// Channels of the observation: player, enemy, trail, gold.
const CHANNELS: usize = 4;
/// What each of them shows.
const CHANNEL_NAMES: [&str; CHANNELS] = ["player", "enemies", "trails of enemies and gold", "gold"];
/// Words of the observation's 400 bits.
const OBS_WORDS: usize = (CELLS * CHANNELS).div_ceil(32);
/// The lowest bit of each nibble.
const ONES: u32 = 0x1111_1111;
/// Steps between two increases of difficulty, minus two.
const RAMP: i32 = 100;

bundle! {
    /// The state of the game.
    pub struct State {
        /// Row of the player, 1 to 8.
        y: Uint,
        /// Column of the player.
        x: Uint,
        /// Steps until a new thing appears.
        spawn_timer: Uint,
        /// Interval at which new things appear, in steps.
        spawn_speed: Uint,
        /// Steps until all things move.
        move_timer: Uint,
        /// Interval at which all things move, in steps.
        move_speed: Uint,
        /// Steps until the difficulty increases, which happens one step after -1.
        ramp_timer: Int,
        /// Number of difficulty increases so far.
        ramp_index: Uint,
        /// Column of the thing in each row, one nibble per row.
        things: Uint,
        /// One nibble per row, 1 for an enemy.
        enemies: Uint,
        /// One nibble per row, 1 for gold.
        gold: Uint,
        /// One nibble per row, 1 if its thing moves to the right.
        rightwards: Uint,
        /// The previously executed action, for sticky actions.
        last_action: Uint,
    }
}

/// The game.
#[derive(Debug, Clone, Copy)]
pub struct Asterix;

/// The lowest bit of each nibble that equals `value`.
#[inline(always)]
fn equal<U: Uint>(nibbles: U, value: U) -> U {
    let differs = nibbles ^ (value * U::splat(ONES));
    !(differs | differs.shr(1) | differs.shr(2) | differs.shr(3)) & U::splat(ONES)
}

/// Adds a new thing to an empty row, if there is one.
#[inline(always)]
fn spawn<L: Lane>(s: State<L>, draws: &mut Draws<L>) -> State<L> {
    let u = L::Uint::splat;
    let right = draws.unit().lt(L::Float::splat(0.5)).named("right");
    let is_gold = draws.unit().lt(L::Float::splat(1.0 / 3.0)).named("is_gold");
    let empty = !(s.enemies | s.gold) & u(ONES);
    // Each nibble holds the number of empty rows up to and including its own.
    let numbers = (empty * u(ONES)).named("numbers");
    let count = numbers.shr(28);
    let chosen = L::when(count.ne(u(0)), u(0), |_| draws.below_each(count));
    let row = (empty & equal(numbers, chosen + u(1))).named("row");
    let column = right.select(u(0), row * u(SIDE - 1));
    State {
        things: (s.things & !(row * u(15))) | column,
        enemies: s.enemies | is_gold.select(u(0), row),
        gold: s.gold | is_gold.select(row, u(0)),
        rightwards: (s.rightwards & !row) | right.select(row, u(0)),
        ..s
    }
}

/// Collects the gold in the player's cell. Returns its amount, and whether an enemy is there.
#[inline(always)]
fn touch<L: Lane>(s: &mut State<L>) -> (L::Uint, L::Mask) {
    let u = L::Uint::splat;
    let here = equal(s.things, s.x) & u(1).shl_by((s.y - u(1)).shl(2));
    let gold = (s.gold & here).named("found");
    s.gold = s.gold & !gold;
    (gold.ne(u(0)).select(u(1), u(0)), (s.enemies & here).ne(u(0)))
}

/// Moves all things by one cell where `due`; things that leave the board are removed.
#[inline(always)]
fn advance<L: Lane>(s: &mut State<L>, due: L::Mask) {
    let u = L::Uint::splat;
    let moving = due.select(s.enemies | s.gold, u(0)).named("moving");
    let (right, left) = (moving & s.rightwards, moving & !s.rightwards);
    let gone = (right & equal(s.things, u(SIDE - 1))) | (left & equal(s.things, u(0)));
    let gone = gone.named("gone");
    s.things = (s.things + (right & !gone) - (left & !gone)).named("things");
    s.enemies = s.enemies & !gone;
    s.gold = s.gold & !gone;
}

/// Counts down to the next increase of difficulty.
#[inline(always)]
fn ramp<L: Lane>(s: &mut State<L>) {
    let (u, int) = (L::Uint::splat, L::Int::splat);
    let active = u(1).lt(s.spawn_speed) | u(1).lt(s.move_speed);
    let waits = s.ramp_timer.ge(int(0));
    let faster = (active & !waits).named("faster");
    let moves_faster = faster & u(1).lt(s.move_speed) & (s.ramp_index & u(1)).eq(u(1));
    let comes_faster = faster & u(1).lt(s.spawn_speed);
    s.move_speed = s.move_speed - moves_faster.select(u(1), u(0));
    s.spawn_speed = s.spawn_speed - comes_faster.select(u(1), u(0));
    s.ramp_index = s.ramp_index + faster.select(u(1), u(0));
    let counted = active.select(s.ramp_timer - int(1), s.ramp_timer);
    s.ramp_timer = faster.select(int(RAMP), counted);
}

impl Game for Asterix {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];

    const ABOUT: About = About {
        title: "Asterix",
        name: "asterix",
        summary: "collect gold between enemies on a 10x10 grid; +1 per piece",
        rules: "Enemies and gold cross eight rows with increasing speed. Gold gives 1; touching an enemy \
                ends the episode.",
        channels: &CHANNEL_NAMES,
        actions: &[0, LEFT, UP, RIGHT, DOWN],
        ramps: true,
        time_limit: TIME_LIMIT,
        preset: include_str!("../../presets/minatar_asterix.toml"),
    };

    #[inline(always)]
    fn reset<L: Lane>(_: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        State {
            y: u(5),
            x: u(5),
            spawn_timer: u(10),
            spawn_speed: u(10),
            move_timer: u(5),
            move_speed: u(5),
            ramp_timer: L::Int::splat(RAMP),
            ramp_index: u(0),
            things: u(0),
            enemies: u(0),
            gold: u(0),
            rightwards: u(0),
            last_action: u(0),
        }
    }

    #[inline(always)]
    fn step<L: Lane>(
        play: &MinAtar<Self>,
        s: &State<L>,
        action: L::Uint,
        draws: &mut Draws<L>,
    ) -> Step<L, State<L>> {
        let u = L::Uint::splat;
        let action = play.executed::<L>(action, s.last_action, draws);

        // The draws for new things are the last ones of a step, so skipping them changes no other draw.
        let comes = s.spawn_timer.eq(u(0)).named("comes");
        let mut s = L::when(comes, *s, |s| spawn(s, draws));
        s.spawn_timer = comes.select(s.spawn_speed, s.spawn_timer) - u(1);

        s.x = moved::<L>(s.x, action.eq(u(LEFT)), action.eq(u(RIGHT)), 0, SIDE - 1).named("x");
        s.y = moved::<L>(s.y, action.eq(u(UP)), action.eq(u(DOWN)), 1, ROWS as u32).named("y");
        s.last_action = action;
        let (found, hit) = touch(&mut s);

        // If nothing moves, the second test gives the same result as the first.
        let moves = s.move_timer.eq(u(0)).named("moves");
        advance(&mut s, moves);
        s.move_timer = moves.select(s.move_speed, s.move_timer) - u(1);
        let (found_later, hit_later) = touch(&mut s);

        if play.difficulty_ramping {
            ramp(&mut s);
        }
        Step { state: s, reward: L::Float::from_uint(found + found_later), terminated: hit | hit_later }
    }

    #[inline(always)]
    fn observe<L: Lane>(s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let player = s.y * u(SIDE) + s.x;
        let mut obs = core::array::from_fn(|word| grid::mark(player, 0, word));
        for row in 0..ROWS {
            let nibble = |words: L::Uint| words.shr(4 * row as u32) & u(15);
            let (x, enemy, gold) = (nibble(s.things), nibble(s.enemies), nibble(s.gold));
            let right = nibble(s.rightwards).ne(u(0));
            let thing = enemy.shl(1) | gold.shl(3);
            let behind = right.select(x - u(1), x + u(1));
            let trail = (thing.ne(u(0)) & behind.lt(u(SIDE))).select(u(4), u(0));
            // A row takes ten nibbles (one and a quarter words) and starts at a byte boundary.
            let place = |bits: L::Uint, x: L::Uint| {
                let (bits, first) = (bits.shl_by(x.shl(2)), x.lt(u(8)));
                [first.select(bits, u(0)), first.select(u(0), bits)]
            };
            let ([a, b], [c, d]) = (place(thing, x), place(trail, behind));
            let ten = [(a | c).named("cells"), (b | d).named("last_cells")];
            let (word, shift) = ((row + 1) * 5 / 4, (row as u32 + 1) % 4 * 8);
            obs[word] = obs[word] | ten[0].shl(shift);
            obs[word + 1] = obs[word + 1] | ten[1].shl(shift);
            if shift > 0 {
                obs[word + 1] = obs[word + 1] | ten[0].shr(32 - shift);
            }
        }
        obs
    }

    fn draw(s: &State<f32>) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for row in 0..ROWS as u32 {
            let nibble = |words: core::num::Wrapping<u32>| words.0 >> (4 * row) & 15;
            let (x, enemy, gold) = (nibble(s.things), nibble(s.enemies), nibble(s.gold));
            if enemy + gold == 0 {
                continue;
            }
            let behind = if nibble(s.rightwards) == 1 { x.wrapping_sub(1) } else { x + 1 };
            if behind < SIDE {
                shapes.push(square(behind, row + 1, 4));
            }
            shapes.push(square(x, row + 1, if gold == 1 { YELLOW } else { 3 }));
        }
        shapes.push(square(s.x.0, s.y.0, 2));
        shapes
    }

    /// player_y, player_x, spawn_timer, spawn_speed, move_timer, move_speed, ramp_timer, ramp_index, then for each row
    /// kind (0 none, 1 enemy, 2 gold), x and whether it moves right. The previous action is not included and starts as
    /// 0.
    fn unpack(public: &[f64]) -> Vec<f64> {
        let (head, rows) = public.split_at(8);
        let words = |nibble: fn(&[f64]) -> u32| {
            let shifted = rows.chunks(3).enumerate().map(|(row, thing)| nibble(thing) << (4 * row));
            f64::from(shifted.fold(0, |word, nibble| word | nibble))
        };
        let things = [
            words(|thing| thing[1] as u32 & 15),
            words(|thing| u32::from(thing[0] == 1.0)),
            words(|thing| u32::from(thing[0] == 2.0)),
            words(|thing| u32::from(thing[2] != 0.0)),
        ];
        [head, &things, &[0.0]].concat()
    }

    fn pack(leaves: &[f64]) -> Vec<f64> {
        let mut public = leaves[..8].to_vec();
        for row in 0..ROWS {
            let nibble = |leaf: usize| f64::from(leaves[leaf] as u32 >> (4 * row) & 15);
            let kind = nibble(9) + 2.0 * nibble(10);
            let there = |value: f64| if kind == 0.0 { 0.0 } else { value };
            public.extend([kind, there(nibble(8)), there(nibble(11))]);
        }
        public
    }
}
