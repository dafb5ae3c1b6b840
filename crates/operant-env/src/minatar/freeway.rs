//! MinAtar Freeway: a chicken crosses a road of eight lanes on a 10 x 10 grid, a car in each.
//!
//! An episode has 2,501 steps, and its end is a termination.
//!
//! A car of speed s moves one cell every s + 1 steps, so speed 1 is the fastest. A crossing draws all cars' speeds and
//! directions again and keeps their positions.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use super::{About, DOWN, Game, MinAtar, SIDE, UP, square};
use crate::{Shape, Step, grid};

/// Cars; number i drives in row i + 1.
const CARS: usize = 8;
/// Column of the chicken.
const COLUMN: u32 = 4;
/// Row in which the chicken starts.
const START: u32 = 9;
/// Steps from one move of the chicken to the next.
const MOVE_PERIOD: u32 = 3;
/// Steps on the clock at the start; one more is played.
const TIME: i32 = 2500;
/// The slowest speed.
const SLOWEST: u32 = 5;
/// Channels of the observation: chicken, car, and a trail for each speed.
const CHANNELS: u32 = 7;
/// What each of them shows.
const CHANNEL_NAMES: [&str; CHANNELS as usize] = [
    "chicken",
    "cars",
    "trails of cars that move every second step",
    "trails of cars that move every third step",
    "trails of cars that move every fourth step",
    "trails of cars that move every fifth step",
    "trails of cars that move every sixth step",
];
/// Bits of a row of the observation.
const ROW_BITS: u32 = SIDE * CHANNELS;
/// Words of the observation.
const OBS_WORDS: usize = (SIDE * ROW_BITS).div_ceil(32) as usize;

bundle! {
    /// The road.
    pub struct State {
        /// Row of the chicken, 0 at the top.
        y: Uint,
        /// Steps until the chicken can move.
        move_timer: Uint,
        /// Steps left; the episode ends below 0.
        time_left: Int,
        /// Column of each car.
        x: [Uint; 8],
        /// Steps until each car moves.
        timer: [Uint; 8],
        /// Speed of each car, positive to the right.
        speed: [Int; 8],
        /// The action last executed, for sticky actions.
        last_action: Uint,
    }
}

/// Timers and speeds of the cars.
type Traffic<L> = ([<L as Lane>::Uint; CARS], [<L as Lane>::Int; CARS]);

/// The game.
#[derive(Debug, Clone, Copy)]
pub struct Freeway;

/// Draws speed and direction of every car: all speeds first.
#[inline(always)]
fn lottery<L: Lane>(draws: &mut Draws<L>) -> Traffic<L> {
    let timers: [L::Uint; CARS] = core::array::from_fn(|_| draws.integer(1, SLOWEST).named("timer"));
    let speeds = timers.map(|timer| {
        let left = draws.unit().lt(L::Float::splat(0.5));
        left.select(-timer.to_int(), timer.to_int()).named("speed")
    });
    (timers, speeds)
}

/// The column to the right of `x`, or to its left, around the board.
#[inline(always)]
fn next_cell<L: Lane>(x: L::Uint, right: L::Mask) -> L::Uint {
    let u = L::Uint::splat;
    let last = u(SIDE - 1);
    right.select(x.eq(last).select(u(0), x + u(1)), x.eq(u(0)).select(last, x - u(1)))
}

/// A speed without its direction.
#[inline(always)]
fn pace<L: Lane>(speed: L::Int) -> L::Uint {
    speed.max(-speed).to_uint()
}

impl Game for Freeway {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];

    const ABOUT: About = About {
        title: "Freeway",
        name: "freeway",
        summary: "cross a road with cars on a 10x10 grid; +1 per crossing",
        rules: "A chicken crosses eight lanes of traffic; a car sends it back to the start; \
                each crossing gives 1; an episode has 2,501 steps.",
        channels: &CHANNEL_NAMES,
        actions: &[0, UP, DOWN],
        ramps: false,
        // Larger than the length of any episode.
        time_limit: TIME as u32 + 2,
        preset: include_str!("../../presets/minatar_freeway.toml"),
    };

    #[inline(always)]
    fn reset<L: Lane>(draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let (timer, speed) = lottery(draws);
        State {
            x: [u(0); CARS],
            timer,
            speed,
            y: u(START),
            move_timer: u(MOVE_PERIOD),
            time_left: L::Int::splat(TIME),
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
        let (u, int) = (L::Uint::splat, L::Int::splat);
        let action = play.executed::<L>(action, s.last_action, draws);

        // The chicken moves first, if it may; at the start row moving down only costs the wait.
        let (up, down) = (action.eq(u(UP)), action.eq(u(DOWN)));
        let moves = ((up | down) & s.move_timer.eq(u(0))).named("moves");
        let move_timer = moves.select(u(MOVE_PERIOD), s.move_timer);
        let above = (moves & up & s.y.ne(u(0))).select(s.y - u(1), s.y);
        let y = (moves & down & s.y.lt(u(START))).select(s.y + u(1), above).named("y");

        // At the top: the cars draw new speeds at their positions.
        let crossed = y.eq(u(0)).named("crossed");
        let (timer, speed) = L::when(crossed, (s.timer, s.speed), |_| lottery(draws));
        let y = crossed.select(u(START), y).named("y");

        // A car hits the chicken at its position before the move or after it.
        let (mut x, mut next_timer, mut hit) = (s.x, timer, L::Mask::splat(false));
        for car in 0..CARS {
            let drives = timer[car].eq(u(0));
            let ahead = next_cell::<L>(s.x[car], speed[car].gt(int(0)));
            x[car] = drives.select(ahead, s.x[car]).named("x");
            next_timer[car] = drives.select(pace::<L>(speed[car]), timer[car] - u(1)).named("timer");
            let met = s.x[car].eq(u(COLUMN)) | x[car].eq(u(COLUMN));
            hit = (hit | (y.eq(u(car as u32 + 1)) & met)).named("hit");
        }

        let time_left = (s.time_left - int(1)).named("time_left");
        let state: State<L> = State {
            y: hit.select(u(START), y),
            move_timer: move_timer.max(u(1)) - u(1),
            time_left,
            x,
            timer: next_timer,
            speed,
            last_action: action,
        };
        let reward = crossed.select(L::Float::splat(1.0), L::Float::splat(0.0));
        Step { state, reward, terminated: time_left.lt(int(0)) }
    }

    #[inline(always)]
    fn observe<L: Lane>(s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        // Cells are seven bits, so a row is 70 of them; the chicken is never in row 0.
        let chicken = s.y * u(ROW_BITS) + u(COLUMN * CHANNELS);
        let cars: [[L::Uint; 2]; CARS] = core::array::from_fn(|car| {
            let place =
                |x: L::Uint, channel: L::Uint| u((car as u32 + 1) * ROW_BITS) + x * u(CHANNELS) + channel;
            let behind = next_cell::<L>(s.x[car], s.speed[car].lt(L::Int::splat(0)));
            let trail = place(behind, pace::<L>(s.speed[car]) + u(1)).named("trail");
            [place(s.x[car], u(1)).named("car"), trail]
        });
        core::array::from_fn(|word| {
            let row = |bit: u32| (bit / ROW_BITS) as usize;
            let (first, last) = (row(32 * word as u32), row(32 * word as u32 + 31));
            let mut bits = if last >= 1 { grid::bit(chicken, word) } else { u(0) };
            for car in first.max(1)..=last.min(CARS) {
                let [car, trail] = cars[car - 1];
                bits = bits | grid::bit(car, word) | grid::bit(trail, word);
            }
            bits
        })
    }

    fn draw(s: &State<f32>) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for car in 0..CARS {
            let behind = next_cell::<f32>(s.x[car], s.speed[car].lt(Int::splat(0)));
            for (x, tone) in [(behind, 4), (s.x[car], 1)] {
                shapes.push(square(x.0, car as u32 + 1, tone));
            }
        }
        shapes.push(square(COLUMN, s.y.0, 2));
        shapes
    }

    /// y, move_timer, time_left, then x, timer and speed car by car. The action before is not part of it and starts as 0.
    fn unpack(public: &[f64]) -> Vec<f64> {
        let mut leaves = public[..3].to_vec();
        leaves.extend((0..3).flat_map(|field| (0..CARS).map(move |car| public[3 + 3 * car + field])));
        leaves.push(0.0);
        leaves
    }

    fn pack(leaves: &[f64]) -> Vec<f64> {
        let mut public = leaves[..3].to_vec();
        public.extend((0..CARS).flat_map(|car| (0..3).map(move |field| leaves[3 + CARS * field + car])));
        public
    }
}
