//! Large Breakout: a paddle, a ball and walls of 6 x 18 bricks, with five balls per episode.
//!
//! The field is 144 wide and 168 high, with y downwards. From the top, the rows of bricks are worth 7, 7, 4, 4, 1 and 1
//! points per brick, so a wall is worth 432. There are two walls, so the maximum return is 864. A step has four frames.
//! In each frame:
//!
//! 1. The paddle, 16 wide, moves 3 to one side or stays.
//! 2. The ball moves sideways, then up or down. A side wall, the ceiling or a brick reflects that component of the
//!    motion; a brick that the ball hits breaks. For collisions with walls and bricks the ball is a point.
//! 3. If the ball hits the paddle, the position on the paddle sets the angle: vertical from the middle, 58 degrees from
//!    vertical at the ends. A small random deflection prevents paths that repeat forever.
//! 4. A ball below the floor is lost, and nothing moves for the rest of the step.
//!
//! The ball moves 2.4 per frame, and 0.4 more after each of these events: its fourth hit by the paddle, its twelfth,
//! its first brick in the rows worth 4, and its first in the rows worth 7. A new ball starts automatically below the
//! bricks, moving downwards at the initial speed. The second wall appears when the ball returns to the paddle or is
//! lost. The episode ends when the fifth ball is lost or the second wall is cleared.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, array, bundle};

use crate::spec::names;
use crate::{ActionSpace, BLUE, Env, EnvSpec, GREEN, ObsSpace, RED, Scene, Shape, Step, YELLOW, grid};

/// Frames per step.
const FRAMES: u32 = 4;
/// Width of the field.
const WIDTH: f64 = 144.0;
/// Height of the field; the floor is at the bottom.
const HEIGHT: f64 = 168.0;
/// Rows of bricks.
const ROWS: usize = 6;
/// Bricks per row.
const COLUMNS: usize = 18;
/// Bricks per wall.
const BRICKS: usize = ROWS * COLUMNS;
/// Words of the bit map of a wall.
const WORDS: usize = BRICKS.div_ceil(32);
/// The bit map of a complete wall.
const WALL: [u32; WORDS] = grid::mask(0, BRICKS);
/// Top of the bricks.
const TOP: f64 = 24.0;
/// Width of a brick.
const BRICK_WIDTH: f64 = WIDTH / COLUMNS as f64;
/// Height of a brick.
const BRICK_HEIGHT: f64 = 6.0;
/// Height of the paddle's surface.
const SURFACE: f64 = 156.0;
/// Half the width of the paddle.
const PADDLE: f64 = 8.0;
/// Maximum distance from the paddle's middle at which it hits the ball.
const REACH: f64 = PADDLE + 1.0;
/// Distance that the paddle moves per frame.
const PADDLE_SPEED: f64 = 3.0;
/// Initial speed of the ball, per frame.
const SLOWEST: f64 = 2.4;
/// Increase of the speed for each of the four events.
const FASTER: f64 = 0.4;
/// Maximum speed of the ball.
const FASTEST: f64 = SLOWEST + 4.0 * FASTER;
/// Horizontal component of the ball's direction after a hit at an end of the paddle.
const SLANT: f64 = 0.85;
/// Maximum random change of that component.
const DEFLECTION: f64 = 0.04;
/// Balls per episode.
const BALLS: u32 = 5;

bundle! {
    /// The state of the game.
    pub struct State {
        /// x of the ball.
        x: Float,
        /// y of the ball, downwards.
        y: Float,
        /// Horizontal component of the ball's direction; (`dx`, `dy`) is a unit vector.
        dx: Float,
        /// Vertical component of the ball's direction, downwards.
        dy: Float,
        /// x of the paddle's middle.
        paddle: Float,
        /// Number of times that the paddle has hit this ball.
        hits: Uint,
        /// Bit 0: this ball has broken a brick worth 4. Bit 1: one worth 7.
        deep: Uint,
        /// Balls left, including the one in play.
        balls: Uint,
        /// Index of the wall, 0 or 1.
        wall: Uint,
        /// Bit map of the wall; the bit of a brick is 18 row + column.
        bricks: [Uint; 4],
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct BreakoutLarge;

bundle! {
    /// The events of a step.
    struct Met {
        /// Points scored.
        points: Uint,
        /// Whether the ball is lost.
        lost: Mask,
    }
}

/// The vertical component of a unit direction with this horizontal component.
#[inline(always)]
fn upright<L: Lane>(sideways: L::Float) -> L::Float {
    let f = L::Float::splat;
    sideways.mul_add(-sideways, f(1.0)).sqrt()
}

/// A new ball below the bricks, moving down.
#[inline(always)]
fn serve<L: Lane>(s: State<L>, [place, slant]: [L::Float; 2]) -> State<L> {
    let (f, u) = (L::Float::splat, L::Uint::splat);
    let dx = slant.mul_add(f(1.4), f(-0.7)).named("serve_dx");
    let x = place.mul_add(f(WIDTH / 2.0), f(WIDTH / 4.0));
    State { x, y: f(HEIGHT / 2.0), dx, dy: upright::<L>(dx), hits: u(0), deep: u(0), ..s }
}

/// Starts the second wall if the first one is cleared and `now` holds.
#[inline(always)]
fn next_wall<L: Lane>(s: State<L>, now: L::Mask) -> State<L> {
    let u = L::Uint::splat;
    let comes = (now & cleared(&s)).named("comes");
    let bricks = core::array::from_fn(|w| comes.select(u(WALL[w]), s.bricks[w]));
    State { bricks, wall: comes.select(u(1), s.wall), ..s }
}

/// Whether all bricks are broken.
#[inline(always)]
fn cleared<L: Lane>(s: &State<L>) -> L::Mask {
    (s.bricks[0] | s.bricks[1] | s.bricks[2] | s.bricks[3]).eq(L::Uint::splat(0))
}

/// Breaks the brick at a point. Returns the new state, whether there was a brick, and its points.
#[inline(always)]
fn strike<L: Lane>(s: State<L>, x: L::Float, y: L::Float) -> (State<L>, L::Mask, L::Uint) {
    let (f, u, int) = (L::Float::splat, L::Uint::splat, L::Int::splat);
    let row = ((y - f(TOP)) * f(1.0 / BRICK_HEIGHT)).floor().to_int().named("row");
    let column = (x * f(1.0 / BRICK_WIDTH)).to_int().min(int(COLUMNS as i32 - 1)).named("column");
    let inside = row.ge(int(0)) & row.lt(int(ROWS as i32));
    let row = row.to_uint();
    let cell = (row * u(COLUMNS as u32) + column.to_uint()).named("cell");
    let word = array::get(&s.bricks, cell.shr(5));
    let struck = (inside & (word.shr_by(cell) & u(1)).ne(u(0))).named("struck");
    let bricks = core::array::from_fn(|w| struck.select(s.bricks[w] & !grid::bit(cell, w), s.bricks[w]));
    let worth = row.lt(u(2)).select(u(7), row.lt(u(4)).select(u(4), u(1)));
    let depth = row.lt(u(2)).select(u(2), row.lt(u(4)).select(u(1), u(0)));
    let deep = s.deep | struck.select(depth, u(0));
    (State { bricks, deep, ..s }, struck, struck.select(worth, u(0)))
}

/// The speed of the ball, per frame.
#[inline(always)]
fn speed<L: Lane>(s: &State<L>) -> L::Float {
    let (f, u) = (L::Float::splat, L::Uint::splat);
    let by_hits = s.hits.ge(u(4)).select(u(1), u(0)) + s.hits.ge(u(12)).select(u(1), u(0));
    let level = by_hits + (s.deep & u(1)) + s.deep.shr(1);
    L::Float::from_uint(level).mul_add(f(FASTER), f(SLOWEST)).named("speed")
}

/// Simulates one frame; `deflection` is added to the horizontal component when the paddle hits the ball.
#[inline(always)]
fn frame<L: Lane>(s: State<L>, push: L::Float, deflection: L::Float) -> (State<L>, Met<L>) {
    let (f, u) = (L::Float::splat, L::Uint::splat);
    let pace = speed(&s);
    let paddle = (s.paddle + push).clamp(f(PADDLE), f(WIDTH - PADDLE)).named("paddle");

    // Horizontal motion: side wall, then brick.
    let x = s.dx.mul_add(pace, s.x).named("x");
    let (left, right) = (x.lt(f(0.0)), x.gt(f(WIDTH)));
    let x = left.select(-x, right.select(f(2.0 * WIDTH) - x, x)).named("x");
    let (s, struck, side_points) = strike(s, x, s.y);
    let x = struck.select(s.x, x).named("x");
    let dx = (left | right | struck).select(-s.dx, s.dx).named("dx");

    // Vertical motion: ceiling, then brick.
    let y = s.dy.mul_add(pace, s.y).named("y");
    let ceiling = y.lt(f(0.0));
    let y = ceiling.select(-y, y);
    let (s, struck, points) = strike(s, x, y);
    let y = struck.select(s.y, y).named("y");
    let dy = (ceiling | struck).select(-s.dy, s.dy).named("dy");

    // The paddle.
    let place = ((x - paddle) * f(1.0 / REACH)).named("place");
    let passes = s.y.lt(f(SURFACE)) & y.ge(f(SURFACE));
    let hit = (passes & place.abs().le(f(1.0))).named("hit");
    let slant = place.mul_add(f(SLANT), deflection).named("slant");
    let state = State {
        x,
        y: hit.select(f(2.0 * SURFACE) - y, y),
        dx: hit.select(slant, dx),
        dy: hit.select(-upright::<L>(slant), dy),
        paddle,
        hits: hit.select(s.hits + u(1), s.hits),
        ..s
    };
    let lost = y.gt(f(HEIGHT)).named("lost");
    (next_wall(state, hit & state.wall.eq(u(0))), Met { points: side_points + points, lost })
}

impl Env for BreakoutLarge {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = ([L::Float; 7], [L::Uint; WORDS]);
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "breakout_large".into(),
            aliases: vec!["Breakout-Large".into()],
            family: "arcade".into(),
            summary: "break two walls of 108 bricks with five balls; 864 points".into(),
            rules: "Stay, move left or move right to keep the ball in play. Bricks are worth 7, 7, 4, 4, 1 and 1 points by row; the \
                    ball speeds up after hits and in high rows. The episode ends when the fifth ball is lost or the second wall is cleared."
                .into(),
            reference: "No external reference, with the bricks and points of the Atari game; tests compare with a second implementation."
                .into(),
            obs: ObsSpace::Parts(vec![
                ("motion".into(), ObsSpace::symmetric(&[1.0; 7])),
                ("bricks".into(), ObsSpace::Binary { shape: vec![ROWS, COLUMNS] }),
            ]),
            obs_names: names(["motion: ball's x and y, its velocity in x and y, the paddle's x (each -1 to 1, y downwards), balls left (fraction of 5), whether this is the second wall", "bricks: 1 where one is, by row from the top"]),
            actions: ActionSpace::Discrete(vec![3]),
            action_names: names(["stay", "left", "right"]),
            time_limit: 10_000,
            preset: Some(include_str!("../presets/breakout_large.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let (f, u) = (L::Float::splat, L::Uint::splat);
        let zero = f(0.0);
        let field = State {
            x: zero,
            y: zero,
            dx: zero,
            dy: zero,
            paddle: f(WIDTH / 2.0),
            hits: u(0),
            deep: u(0),
            balls: u(BALLS),
            wall: u(0),
            bricks: WALL.map(u),
        };
        serve(field, [draws.unit(), draws.unit()])
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (f, u) = (L::Float::splat, L::Uint::splat);
        // The paddle hits the ball at most once per step.
        let deflection = draws.between(-DEFLECTION, DEFLECTION).named("deflection");
        let start = [draws.unit(), draws.unit()];
        let right = action.eq(u(2)).select(f(PADDLE_SPEED), f(0.0));
        let push = action.eq(u(1)).select(f(-PADDLE_SPEED), right).named("push");

        let none = Met { points: u(0), lost: L::Mask::splat(false) };
        let (s, met) = L::repeat(FRAMES, (*s, none), |_, (s, met)| {
            let (after, more) = frame(s, push, deflection);
            let all = Met { points: met.points + more.points, lost: more.lost };
            met.lost.select((s, met), (after, all))
        });

        let done = s.wall.eq(u(1)) & cleared(&s);
        let balls = s.balls - met.lost.select(u(1), u(0));
        let served = next_wall(serve(s, start), s.wall.eq(u(0)));
        let state: State<L> = State { balls, ..met.lost.select(served, s) };
        Step { state, reward: L::Float::from_uint(met.points), terminated: done | balls.eq(u(0)) }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> ([L::Float; 7], [L::Uint; WORDS]) {
        let f = L::Float::splat;
        let centred = |value: L::Float, half: f64| value.mul_add(f(1.0 / half), f(-1.0));
        let pace = speed(s) * f(1.0 / FASTEST);
        let motion = [
            centred(s.x, WIDTH / 2.0),
            centred(s.y, HEIGHT / 2.0),
            s.dx * pace,
            s.dy * pace,
            centred(s.paddle, WIDTH / 2.0),
            L::Float::from_uint(s.balls) * f(1.0 / f64::from(BALLS)),
            L::Float::from_uint(s.wall),
        ];
        (motion, s.bricks)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let (width, height) = (WIDTH as f32, HEIGHT as f32);
        let tones = [RED, RED, YELLOW, YELLOW, GREEN, BLUE];
        let bricks = s.bricks.map(|word| word.0);
        let brick = |cell: usize| {
            let (row, column) = ((cell / COLUMNS) as f32, (cell % COLUMNS) as f32);
            let center = [
                (column + 0.5) * BRICK_WIDTH as f32,
                height - TOP as f32 - (row + 0.5) * BRICK_HEIGHT as f32,
            ];
            Shape::rectangle(
                center,
                BRICK_WIDTH as f32 - 1.0,
                BRICK_HEIGHT as f32 - 1.0,
                tones[cell / COLUMNS],
            )
        };
        let mut shapes = vec![Shape::line([[0.0, 0.0], [0.0, height], [width, height], [width, 0.0]], 0)];
        shapes.extend((0..BRICKS).filter(|cell| grid::holds(&bricks, *cell)).map(brick));
        shapes.push(Shape::rectangle([s.paddle, height - SURFACE as f32 - 2.0], 2.0 * PADDLE as f32, 4.0, 3));
        shapes.push(Shape::circle([s.x, height - s.y], 2.0, 2));
        shapes.push(Shape::text([10.0, height - 8.0], format!("balls {}", s.balls.0), 1));
        Scene { low: [-4.0, -4.0], high: [width + 4.0, height + 4.0], shapes }
    }
}
