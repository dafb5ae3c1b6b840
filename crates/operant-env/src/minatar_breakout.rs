//! MinAtar Breakout: a paddle, a ball and three rows of bricks on a 10 x 10 grid.
//!
//! Move for move the Breakout of the MinAtar package (Young and Tian, "MinAtar", 2019), order of checks included: the
//! paddle moves first; a side wall mirrors the ball and holds its column; then the first of ceiling, brick and bottom row
//! applies. A broken brick sends the ball back in its row but not its column, and until it flies free again the ball
//! passes other bricks unharmed. A cleared wall is rebuilt when the ball next reaches the bottom row, caught or lost.
//!
//! Difference to MinAtar: a new episode starts with no action executed before, where the package remembers the one of the episode
//! before; and episodes are truncated after 5,000 steps.
//!
//! Grids are bit maps: one bit a cell for the bricks, four for the observation.
//!
//! Directions of the ball: 0 up left, 1 up right, 2 down right, 3 down left. So `^ 1` mirrors left and right, `^ 3` up
//! and down, and `^ 2` both.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, array, bundle};

use crate::spec::{OptionError, OptionValue};
use crate::{ActionSpace, Env, EnvOption, EnvSpec, ObsSpace, Scene, Shape, Step, grid, sticky};

/// Cells along a side.
const SIDE: u32 = 10;
/// Cells of the board.
const CELLS: usize = 100;
/// Channels of the observation: paddle, ball, trail, brick.
const CHANNELS: usize = 4;
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
        /// Column of the ball.
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

/// The environment.
#[derive(Debug, Clone)]
pub struct MinatarBreakout {
    /// Chance that an action is replaced by the one before.
    sticky_action_prob: f64,
}

impl Default for MinatarBreakout {
    fn default() -> Self {
        MinatarBreakout { sticky_action_prob: sticky::MINATAR }
    }
}

/// Options, with the package's names.
fn options() -> Vec<EnvOption> {
    let help = "accepted as by the package, whose Breakout has a single level: it changes nothing";
    vec![
        sticky::sticky_action_prob(),
        EnvOption::number("difficulty_ramping", 1.0, 0.0, 1.0, help),
    ]
}

impl Env for MinatarBreakout {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; OBS_WORDS];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "minatar_breakout".into(),
            aliases: vec!["MinAtar/Breakout-v0".into(), "Breakout-MinAtar".into(), "breakout".into()],
            family: "minatar".into(),
            summary: "break bricks with a ball on a 10x10 grid; 1 a brick".into(),
            rules: "A paddle bounces a ball into three rows of bricks; each is worth 1, and a cleared \
                    wall comes back. The episode ends when the ball is lost."
                .into(),
            reference: "MinAtar 1.0.15, move for move. A new episode has no action before it; truncated after 5,000 steps.".into(),
            variant_of: None,
            obs: ObsSpace::Binary { shape: vec![SIDE as usize, SIDE as usize, CHANNELS] },
            actions: ActionSpace::Discrete(vec![6]),
            time_limit: 5000,
            fps: 15.0,
            options: options(),
            preset: Some(include_str!("../presets/minatar_breakout.toml").into()),
        }
    }

    fn set_option(&mut self, name: &str, value: &OptionValue) -> Result<(), OptionError> {
        if self.spec().check_option(name, value)?.name == sticky::STICKY_ACTION_PROB {
            self.sticky_action_prob = value.number();
        }
        Ok(())
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
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
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, int) = (L::Uint::splat, L::Int::splat);
        let action = sticky::executed(self.sticky_action_prob, *action, s.last_action, draws);

        // The paddle moves before the ball.
        let left = action.eq(u(1)) & s.pos.ne(u(0));
        let right = action.eq(u(3)) & s.pos.lt(u(SIDE - 1));
        let pos = (s.pos + right.select(u(1), u(0)) - left.select(u(1), u(0))).named("pos");

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
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; OBS_WORDS] {
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

    fn draw(&self, s: &State<f32>) -> Scene {
        let side = SIDE as f32;
        let square = |x: f32, y: f32, tone| grid::square(SIDE, x, y, tone);
        let bricks = s.bricks.map(|word| word.0);
        let mut shapes: Vec<Shape> = (0..CELLS)
            .filter(|cell| grid::holds(&bricks, *cell))
            .map(|cell| square((cell % 10) as f32, (cell / 10) as f32, 1))
            .collect();
        shapes.push(square(s.last_x.0 as f32, s.last_y.0 as f32, 4));
        shapes.push(square(s.ball_x.0 as f32, s.ball_y.0 as f32, 2));
        shapes.push(square(s.pos.0 as f32, side - 1.0, 3));
        Scene { low: [0.0, 0.0], high: [side, side], shapes }
    }

    /// ball_y, ball_x, ball_dir, pos, strike, last_y, last_x, then the brick map cell by cell. The action before is not
    /// part of it and starts as 0.
    fn unpack(&self, public: &[f64]) -> Vec<f64> {
        let mut leaves = public[..7].to_vec();
        leaves.extend(grid::pack::<BRICK_WORDS>(&public[7..]).map(f64::from));
        leaves.push(0.0);
        leaves
    }

    fn pack(&self, leaves: &[f64]) -> Vec<f64> {
        let mut public = leaves[..7].to_vec();
        let bricks: Vec<u32> = leaves[7..7 + BRICK_WORDS].iter().map(|word| *word as u32).collect();
        public.extend((0..CELLS).map(|cell| f64::from(u8::from(grid::holds(&bricks, cell)))));
        public
    }
}
