//! Pong: two paddles and a ball; the player on the right plays to 21 points against a scripted opponent.
//!
//! The court is 2 wide and 1.5 high, with the origin in its centre. A step has four frames of 1/60 s. In each frame:
//!
//! 1. The player's paddle moves up or down by 0.03, or stays.
//! 2. The opponent's paddle moves by at most 0.01: towards the height of the ball while the ball approaches it,
//!    otherwise back to the middle. It aims to hit the ball off the centre of the paddle, by an offset that is drawn
//!    for each serve.
//! 3. Spin curves the ball's path, and the ball moves. The wall at the top or bottom reflects it and removes its spin.
//! 4. A ball that passes the front of a paddle within reach is hit. The position on the paddle sets the angle:
//!    horizontal from the middle, steepest from the ends. A hit in the middle makes the ball 3% faster and a hit at an
//!    end 10%, up to a horizontal speed of 0.05 per frame. A moving paddle adds spin.
//! 5. A ball behind a paddle scores a point, and nothing moves for the rest of the step.
//!
//! After a point the ball is served from the centre line, at a random height and angle, to a random side. The reward is
//! 1 for a point of the player and -1 for one of the opponent, so the return is the difference in points, as in the
//! Atari game.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Shape, Step};

/// Frames per step.
const FRAMES: u32 = 4;
/// Points needed to win.
const POINTS: u32 = 21;
/// Half the height of the court.
const COURT: f64 = 0.75;
/// Radius of the ball.
const RADIUS: f64 = 0.02;
/// Height at which a wall reflects the centre of the ball.
const WALL: f64 = COURT - RADIUS;
/// Half the length of a paddle.
const PADDLE: f64 = 0.12;
/// Maximum height of a paddle's centre.
const HIGHEST: f64 = COURT - PADDLE;
/// Distance from a paddle's front to the centre line.
const FRONT: f64 = 0.9;
/// Maximum vertical distance between the centres of ball and paddle for a hit.
const REACH: f64 = PADDLE + RADIUS;
/// Distance that the player's paddle moves per frame.
pub(crate) const PLAYER_SPEED: f64 = 0.03;
/// Maximum distance that the opponent's paddle moves per frame.
const OPPONENT_SPEED: f64 = 0.01;
/// Horizontal speed of a serve, per frame.
const SERVE: f64 = 0.02;
/// Maximum horizontal speed, per frame.
const FASTEST: f64 = 0.05;
/// Factor by which a hit in the middle increases the speed.
const FASTER: f64 = 1.03;
/// Amount by which this factor is larger for a hit at an end.
const FASTER_AT_END: f64 = 0.07;
/// Ratio of vertical to horizontal speed after a hit at an end.
const STEEP: f64 = 0.9;
/// Spin (change of the vertical speed per frame) per unit of the paddle's speed.
const SPIN: f64 = 0.01;
/// Maximum offset from its centre at which the opponent aims to hit the ball, as a fraction of the reach.
const AIM: f64 = 0.8;

bundle! {
    /// The state of the game.
    pub struct State {
        /// x of the ball.
        x: Float,
        /// y of the ball, upwards.
        y: Float,
        /// Horizontal velocity of the ball, per frame.
        dx: Float,
        /// Vertical velocity of the ball, per frame, upwards.
        dy: Float,
        /// Spin: change of `dy` per frame.
        spin: Float,
        /// y of the player's paddle.
        player: Float,
        /// Its motion in the last frame.
        player_dy: Float,
        /// y of the opponent's paddle.
        opponent: Float,
        /// Its motion in the last frame.
        opponent_dy: Float,
        /// Offset from its centre at which the opponent aims to hit the ball, as a fraction of the reach.
        aim: Float,
        /// Points of the player.
        points: Uint,
        /// Points of the opponent.
        opponent_points: Uint,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Pong;

/// The court before the first serve.
#[inline(always)]
pub(crate) fn empty<L: Lane>() -> State<L> {
    let (zero, none) = (L::Float::splat(0.0), L::Uint::splat(0));
    State {
        x: zero,
        y: zero,
        dx: zero,
        dy: zero,
        spin: zero,
        player: zero,
        player_dy: zero,
        opponent: zero,
        opponent_dy: zero,
        aim: zero,
        points: none,
        opponent_points: none,
    }
}

/// Serves from the centre line.
#[inline(always)]
pub(crate) fn serve<L: Lane>(s: State<L>, draws: &mut Draws<L>) -> State<L> {
    let f = L::Float::splat;
    let y = draws.between(-0.5, 0.5).named("serve_y");
    let dy = draws.between(-0.5 * SERVE, 0.5 * SERVE).named("serve_dy");
    let dx = draws.unit().lt(f(0.5)).select(f(-SERVE), f(SERVE));
    State { x: f(0.0), y, dx, dy, spin: f(0.0), ..s }
}

/// [`serve`], and draws the opponent's aim.
#[inline(always)]
fn serve_and_aim<L: Lane>(s: State<L>, draws: &mut Draws<L>) -> State<L> {
    let s = serve(s, draws);
    State { aim: draws.between(-AIM, AIM), ..s }
}

/// How far the scripted opponent moves in a frame, as far as the court allows it.
#[inline(always)]
fn scripted<L: Lane>(s: &State<L>) -> L::Float {
    let f = L::Float::splat;
    let comes = s.dx.lt(f(0.0));
    let target = comes.select(s.aim.mul_add(f(-REACH), s.y), f(0.0)).named("target");
    (target - s.opponent).clamp(f(-OPPONENT_SPEED), f(OPPONENT_SPEED))
}

/// How far a paddle moves in a frame by a player's action.
#[inline(always)]
pub(crate) fn push<L: Lane>(action: L::Uint) -> L::Float {
    let (f, u) = (L::Float::splat, L::Uint::splat);
    let down = action.eq(u(2)).select(f(-PLAYER_SPEED), f(0.0));
    action.eq(u(1)).select(f(PLAYER_SPEED), down).named("push")
}

/// Simulates one frame, in which the paddles move by `push` and `motion`. Returns the new state and who scored: 1 for the player, -1 for the opponent, 0 for
/// nobody.
#[inline(always)]
fn frame<L: Lane>(s: State<L>, push: L::Float, motion: L::Float) -> (State<L>, L::Int) {
    let (f, int) = (L::Float::splat, L::Int::splat);
    let player = (s.player + push).clamp(f(-HIGHEST), f(HIGHEST)).named("player");
    let opponent = (s.opponent + motion).clamp(f(-HIGHEST), f(HIGHEST)).named("opponent");
    let (player_dy, opponent_dy) = (player - s.player, opponent - s.opponent);

    let dy = (s.dy + s.spin).named("dy");
    let (x, y) = ((s.x + s.dx).named("x"), (s.y + dy).named("y"));
    let (above, below) = (y.gt(f(WALL)), y.lt(f(-WALL)));
    let y = above.select(f(2.0 * WALL) - y, below.select(f(-2.0 * WALL) - y, y)).named("y");
    let bounced = (above | below).named("bounced");
    let dy = bounced.select(-dy, dy);
    let spin = bounced.select(f(0.0), s.spin);

    let right = x.gt(f(0.0));
    let (paddle, paddle_dy) = (right.select(player, opponent), right.select(player_dy, opponent_dy));
    let place = ((y - paddle) * f(1.0 / REACH)).named("place");
    let passes = s.x.abs().lt(f(FRONT)) & x.abs().ge(f(FRONT));
    let hit = (passes & place.abs().le(f(1.0))).named("hit");
    let factor = place.abs().mul_add(f(FASTER_AT_END), f(FASTER));
    let pace = (s.dx.abs() * factor).min(f(FASTEST)).named("pace");
    let front = right.select(f(2.0 * FRONT), f(-2.0 * FRONT));

    let state = State {
        x: hit.select(front - x, x),
        y,
        dx: hit.select(right.select(-pace, pace), s.dx),
        dy: hit.select(place * f(STEEP) * pace, dy),
        spin: hit.select(paddle_dy * f(SPIN), spin),
        player,
        player_dy,
        opponent,
        opponent_dy,
        ..s
    };
    let out = state.x.abs().gt(f(1.0));
    (state, out.select(right.select(int(-1), int(1)), int(0)).named("scored"))
}

/// A step: frames until one side scores, the points, and the next serve, which takes at most four draws.
#[inline(always)]
pub(crate) fn play<L: Lane>(
    s: State<L>,
    push: L::Float,
    motion: impl Fn(&State<L>) -> L::Float,
    serve: impl FnOnce(State<L>, &mut Draws<L>) -> State<L>,
    draws: &mut Draws<L>,
) -> Step<L, State<L>> {
    let (f, u, int) = (L::Float::splat, L::Uint::splat, L::Int::splat);
    let (s, scored) = L::repeat(FRAMES, (s, int(0)), |_, (s, scored)| {
        let runs = scored.eq(int(0)).named("runs");
        runs.select(frame(s, push, motion(&s)), (s, scored))
    });

    let (won, lost) = (scored.gt(int(0)).named("won"), scored.lt(int(0)).named("lost"));
    let points = s.points + won.select(u(1), u(0));
    let opponent_points = s.opponent_points + lost.select(u(1), u(0));
    let mut draws = draws.reserve(4);
    let s = L::when(won | lost, s, |s| serve(s, &mut draws));
    Step {
        state: State { points, opponent_points, ..s },
        reward: won.select(f(1.0), lost.select(f(-1.0), f(0.0))),
        terminated: points.eq(u(POINTS)) | opponent_points.eq(u(POINTS)),
    }
}

/// What the player on the right sees: the state without the opponent's aim, scaled to a range of about -1 to 1.
#[inline(always)]
pub(crate) fn view<L: Lane>(s: &State<L>, opponent_speed: f64) -> [L::Float; 11] {
    let scaled = |value: L::Float, most: f64| value * L::Float::splat(1.0 / most);
    let share = |points: L::Uint| scaled(L::Float::from_uint(points), f64::from(POINTS));
    [
        s.x,
        scaled(s.y, COURT),
        scaled(s.dx, FASTEST),
        scaled(s.dy, FASTEST),
        scaled(s.spin, PLAYER_SPEED * SPIN),
        scaled(s.player, COURT),
        scaled(s.player_dy, PLAYER_SPEED),
        scaled(s.opponent, COURT),
        scaled(s.opponent_dy, opponent_speed),
        share(s.points),
        share(s.opponent_points),
    ]
}

impl Env for Pong {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 11];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        let any = f64::INFINITY;
        EnvSpec {
            name: "pong".into(),
            aliases: vec!["Pong".into()],
            family: "arcade".into(),
            summary: "beat a scripted opponent to 21 points; +1 per point scored, -1 per point conceded".into(),
            rules: "Stay, move up or move down to hit the ball past the opponent's paddle. Where a paddle hits the ball sets its \
                    angle and speed, and a moving paddle gives it spin. The first to 21 points wins."
                .into(),
            reference: "No external reference, similar to the arcade game; tests compare with a second implementation."
                .into(),
            // Rounding may make the opponent's velocity slightly larger than its limit.
            obs: ObsSpace::symmetric(&[any, 1.0, 1.0, any, 1.0, 1.0, 1.0, 1.0, 1.001, 1.0, 1.0]),
            obs_names: names([
                "the ball's x (-1 to 1 on the court)",
                "its y (all y as a fraction of half the court's height)",
                "its velocity in x",
                "in y (both as fractions of the maximum in x)",
                "its spin (fraction of the maximum)",
                "y of the own paddle",
                "its velocity (fraction of the maximum)",
                "y of the opponent's paddle",
                "its velocity (fraction of the maximum)",
                "own points",
                "the opponent's points (both as fractions of 21)",
            ]),
            actions: ActionSpace::Discrete(vec![3]),
            action_names: names(["stay", "up", "down"]),
            time_limit: 10_000,
            preset: Some(include_str!("../presets/pong.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        serve_and_aim(empty(), draws)
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        play(*s, push::<L>(*action), scripted, serve_and_aim, draws)
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 11] {
        view(s, OPPONENT_SPEED)
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        picture(s)
    }
}

/// The court, the player on the right.
pub(crate) fn picture(s: &State<f32>) -> Scene {
    let (court, front, thickness) = (COURT as f32, FRONT as f32, 0.04);
    let wall = |y| Shape::line([[-1.0, y], [1.0, y]], 0);
    let paddle = |x, y, tone| Shape::rectangle([x, y], thickness, 2.0 * PADDLE as f32, tone);
    let score = |x, points: u32, tone| Shape::text([x, court + 0.1], points.to_string(), tone);
    Scene {
        low: [-1.05, -court - 0.05],
        high: [1.05, court + 0.2],
        shapes: vec![
            wall(court),
            wall(-court),
            Shape::line([[0.0, -court], [0.0, court]], 4),
            paddle(-front - thickness / 2.0, s.opponent, 1),
            paddle(front + thickness / 2.0, s.player, 3),
            Shape::circle([s.x, s.y], RADIUS as f32, 2),
            score(-0.2, s.opponent_points.0, 1),
            score(0.2, s.points.0, 3),
        ],
    }
}
