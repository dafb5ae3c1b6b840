//! MinAtar Breakout: a paddle, a ball and three rows of bricks on a 10 x 10 grid.
//!
//! The paddle moves first. A side wall reflects the ball and keeps its column. Then the first of ceiling, brick and
//! bottom row applies. A broken brick sends the ball back to its previous row but not to its previous column; until it
//! has left the bricks, the ball passes other bricks without breaking them. A cleared wall is rebuilt when the ball
//! next reaches the bottom row, whether it is caught or lost.
//!
//! Grids are bit maps: one bit a cell for the bricks, four for the observation.
//!
//! Directions of the ball: 0 up left, 1 up right, 2 down right, 3 down left. So `^ 1` mirrors left and right, `^ 3` up
//! and down, and `^ 2` both.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, array, bundle};

use super::{About, CELLS, Game, LEFT, MinAtar, RIGHT, SIDE, TIME_LIMIT, moved, square};
use crate::{Shape, Step, grid};

/// Channels of the observation: paddle, ball, trail, brick.
const CHANNELS: usize = 4;
/// What each of them shows.
const CHANNEL_NAMES: [&str; CHANNELS] = ["paddle", "ball", "the ball's last cell", "bricks"];
/// Words of the observation's 400 bits.
const OBS_WORDS: usize = (CELLS * CHANNELS).div_ceil(32);
/// Words of the brick map's 100 bits.
const BRICK_WORDS: usize = CELLS.div_ceil(32);
/// The full wall: rows 1, 2 and 3.
const WALL: [u32; BRICK_WORDS] = grid::mask(10, 40);

bundle! {
    /// The board.
    pub struct State {
        /// Row of the ball, 0 at the top.
        ball_y: Uint,
        ball_x: Uint,
        /// Direction of the ball, 0 .. 3.
        ball_dir: Uint,
        /// Column of the paddle.
        pos: Uint,
        /// 1 while the ball passes bricks after it broke one.
        strike: Uint,
        /// Row of the ball before the last step.
        last_y: Uint,
        /// Column of the ball before the last step.
        last_x: Uint,
        /// The brick map: bit 10 y + x.
        bricks: [Uint; 4],
        /// The action last executed, for sticky actions.
        last_action: Uint,
    }
}

/// The game.
#[derive(Debug, Clone, Copy)]
pub struct Breakout;

impl Game for Breakout {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];

    const ABOUT: About = About {
        title: "Breakout",
        name: "breakout",
        summary: "break bricks with a ball on a 10x10 grid; +1 per brick",
        rules: "A paddle bounces a ball into three rows of bricks; each gives 1, and a cleared \
                wall is rebuilt. The episode ends when the ball is lost.",
        channels: &CHANNEL_NAMES,
        actions: &[0, LEFT, RIGHT],
        ramps: false,
        time_limit: TIME_LIMIT,
        preset: include_str!("../../presets/minatar_breakout.toml"),
    };

    #[inline(always)]
    fn reset<L: Lane>(draws: &mut Draws<L>) -> State<L> {
        let u = L::Uint::splat;
        let right = draws.below(2).eq(u(1));
        let ball_x = right.select(u(SIDE - 1), u(0)).named("ball_x");
        State {
            ball_y: u(3),
            ball_x,
            ball_dir: right.select(u(3), u(2)),
            pos: u(4),
            strike: u(0),
            last_y: u(3),
            last_x: ball_x,
            bricks: WALL.map(u),
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

        // The paddle moves before the ball.
        let pos = moved::<L>(s.pos, action.eq(u(LEFT)), action.eq(u(RIGHT)), 0, SIDE - 1).named("pos");

        let rightwards = s.ball_dir.eq(u(1)) | s.ball_dir.eq(u(2));
        let downwards = s.ball_dir.ge(u(2));
        let x = s.ball_x.to_int() + rightwards.select(int(1), int(-1));
        let y = s.ball_y.to_int() + downwards.select(int(1), int(-1));

        // A side wall mirrors the ball's direction and keeps its column.
        let at_wall = (x.lt(int(0)) | x.ge(int(SIDE as i32))).named("at_wall");
        let x = x.max(int(0)).min(int(SIDE as i32 - 1)).to_uint().named("x");
        let direction = at_wall.select(s.ball_dir ^ u(1), s.ball_dir).named("direction");

        // Then the first applicable case: ceiling, brick, bottom row.
        let ceiling = y.lt(int(0)).named("ceiling");
        let y = y.max(int(0)).to_uint().named("y");
        let cell = (y * u(SIDE) + x).named("cell");
        let word = array::get(&s.bricks, cell.shr(5));
        let on_brick = (!ceiling & (word.shr_by(cell) & u(1)).ne(u(0))).named("on_brick");
        let breaks = (on_brick & s.strike.eq(u(0))).named("breaks");
        let bottom = (!ceiling & !on_brick & y.eq(u(SIDE - 1))).named("bottom");

        // A cleared wall is rebuilt when the ball comes down, caught or not.
        let cleared = (s.bricks[0] | s.bricks[1] | s.bricks[2] | s.bricks[3]).eq(u(0));
        let rebuild = (bottom & cleared).named("rebuild");
        let bricks = core::array::from_fn(|w| {
            let kept = breaks.select(s.bricks[w] & !grid::bit(cell, w), s.bricks[w]);
            rebuild.select(u(WALL[w]), kept)
        });

        // The paddle's middle is under the ball's old column, its edge under the new one.
        let caught = (bottom & s.ball_x.eq(pos)).named("caught");
        let edge = (bottom & !caught & x.eq(pos)).named("edge");
        let terminated = (bottom & !caught & !edge).named("lost");
        let flip = (ceiling | breaks | caught).select(u(3), edge.select(u(2), u(0)));
        let stays = breaks | caught | edge;

        let state: State<L> = State {
            ball_y: stays.select(s.ball_y, y),
            ball_x: x,
            ball_dir: direction ^ flip,
            pos,
            strike: on_brick.select(u(1), u(0)),
            last_y: s.ball_y,
            last_x: s.ball_x,
            bricks,
            last_action: action,
        };
        Step { state, reward: breaks.select(L::Float::splat(1.0), L::Float::splat(0.0)), terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(s: &State<L>) -> [L::Uint; OBS_WORDS] {
        let u = L::Uint::splat;
        let paddle = u(9 * SIDE) + s.pos;
        let ball = s.ball_y * u(SIDE) + s.ball_x;
        let trail = s.last_y * u(SIDE) + s.last_x;
        // Cell c has its four bits in word c / 8 from bit 4 (c mod 8) on.
        core::array::from_fn(|word| {
            let byte = s.bricks[word / 4].shr(8 * (word as u32 % 4)) & u(0xff);
            let bricks = grid::spread(byte).shl(3);
            // The paddle lives in the bottom row alone: cells 90 to 99.
            let paddle = if word >= 11 { grid::mark(paddle, 0, word) } else { u(0) };
            bricks | paddle | grid::mark(ball, 1, word) | grid::mark(trail, 2, word)
        })
    }

    fn draw(s: &State<f32>) -> Vec<Shape> {
        let bricks = s.bricks.map(|word| word.0);
        let wall = (0..CELLS).filter(|cell| grid::holds(&bricks, *cell));
        let mut shapes: Vec<Shape> =
            wall.map(|cell| square(cell as u32 % SIDE, cell as u32 / SIDE, 1)).collect();
        shapes.push(square(s.last_x.0, s.last_y.0, 4));
        shapes.push(square(s.ball_x.0, s.ball_y.0, 2));
        shapes.push(square(s.pos.0, SIDE - 1, 3));
        shapes
    }

    /// ball_y, ball_x, ball_dir, pos, strike, last_y, last_x, then the brick map cell by cell. The action before is not
    /// part of it and starts as 0.
    fn unpack(public: &[f64]) -> Vec<f64> {
        let mut leaves = public[..7].to_vec();
        leaves.extend(grid::pack::<BRICK_WORDS>(&public[7..]).map(f64::from));
        leaves.push(0.0);
        leaves
    }

    fn pack(leaves: &[f64]) -> Vec<f64> {
        let mut public = leaves[..7].to_vec();
        let bricks: Vec<u32> = leaves[7..7 + BRICK_WORDS].iter().map(|word| *word as u32).collect();
        public.extend((0..CELLS).map(|cell| f64::from(u8::from(grid::holds(&bricks, cell)))));
        public
    }
}
