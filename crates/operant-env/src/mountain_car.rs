//! MountainCar: drive an underpowered car up a hill by rocking.
//!
//! After Moore, "Efficient memory-based learning for robot control" (1990), with the constants of Gymnasium's
//! MountainCar-v0.

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Point, Scene, Shape, Step, hidden};

/// Left wall.
pub(crate) const MIN_POSITION: f64 = -1.2;
/// Right end of the track.
pub(crate) const MAX_POSITION: f64 = 0.6;
/// Maximum speed per step.
pub(crate) const MAX_SPEED: f64 = 0.07;
/// Velocity that gravity gives per step on the steepest slope.
pub(crate) const GRAVITY: f64 = 0.0025;
/// Velocity that the engine gives per step.
const FORCE: f64 = 0.001;
/// The flag.
const GOAL: f64 = 0.5;

bundle! {
    /// The car.
    pub struct State {
        /// Position on the track, -1.2 .. 0.6.
        position: Float,
        /// Distance per step.
        velocity: Float,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct MountainCar {
    /// Whether observations exclude the velocities.
    hides_velocity: bool,
}

/// The car after a step with acceleration `push`; the hill is sin(3 x).
#[inline(always)]
pub(crate) fn roll<L: Lane>(s: &State<L>, push: L::Float) -> State<L> {
    let f = L::Float::splat;
    let slope = (s.position * f(3.0)).cos().named("slope");
    let velocity = slope.mul_add(f(-GRAVITY), s.velocity + push).clamp(f(-MAX_SPEED), f(MAX_SPEED));
    let position = (s.position + velocity).clamp(f(MIN_POSITION), f(MAX_POSITION)).named("position");
    // The left wall stops the car.
    let stopped = position.eq(f(MIN_POSITION)) & velocity.lt(f(0.0));
    State { position, velocity: stopped.select(f(0.0), velocity).named("velocity") }
}

/// A first state: at rest in the valley.
#[inline(always)]
pub(crate) fn valley<L: Lane>(draws: &mut Draws<L>) -> State<L> {
    State { position: draws.between(-0.6, -0.4), velocity: L::Float::splat(0.0) }
}

/// The hill, the flag and the car.
pub(crate) fn picture(s: &State<f32>, goal: f64) -> Scene {
    let height = |x: f32| (3.0 * x).sin() * 0.45 + 0.55;
    let hill: Vec<Point> = (0..=60).map(|i| -1.2 + 1.8 * i as f32 / 60.0).map(|x| [x, height(x)]).collect();
    let flag = goal as f32;
    Scene {
        low: [-1.25, 0.0],
        high: [0.65, 1.3],
        shapes: vec![
            Shape::line(hill, 0),
            Shape::line(
                [[flag, height(flag)], [flag, height(flag) + 0.2], [flag + 0.06, height(flag) + 0.16]],
                3,
            ),
            Shape::circle([s.position, height(s.position) + 0.05], 0.05, 2),
        ],
    }
}

impl Env for MountainCar {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 2];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "mountain_car".into(),
            aliases: vec!["MountainCar-v0".into(), "MountainCar".into()],
            family: "classic control".into(),
            summary: "rock a weak car up a hill; -1 per step".into(),
            rules: "A car too weak for the hill accelerates left, not at all or right. \
                    Every step costs 1 until it passes the flag at 0.5."
                .into(),
            reference: "Identical to Gymnasium's MountainCar-v0 up to float rounding.".into(),
            variant_of: None,
            obs: ObsSpace::Box { low: vec![MIN_POSITION, -MAX_SPEED], high: vec![MAX_POSITION, MAX_SPEED] },
            obs_names: names(["position", "velocity per step"]),
            actions: ActionSpace::Discrete(vec![3]),
            action_names: names(["left", "none", "right"]),
            metrics: Vec::new(),
            time_limit: 200,
            fps: 30.0,
            options: vec![hidden::option()],
            preset: Some(include_str!("../presets/mountain_car.toml").into()),
            ..EnvSpec::default()
        }
    }

    hidden::hides_velocity!([0]);

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        valley(draws)
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let direction = L::Float::from_int(action.to_int() - L::Int::splat(1)).named("direction");
        let state = roll(s, direction * f(FORCE));
        let terminated = state.position.ge(f(GOAL)) & state.velocity.ge(f(0.0));
        Step { state, reward: f(-1.0), terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 2] {
        [s.position, s.velocity]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        picture(s, GOAL)
    }
}
