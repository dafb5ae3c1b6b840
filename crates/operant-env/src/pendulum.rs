//! Pendulum: swing a pendulum up and hold it with a weak motor.
//!
//! The constants of Gymnasium's Pendulum-v1.

use core::f64::consts::PI;
use operant_lane::{Draws, Float, Lane, Mask, bundle};

use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Shape, Step, hidden};

/// Gravity, m/s^2.
const GRAVITY: f64 = 10.0;
/// Mass, kg.
const MASS: f64 = 1.0;
/// Length, m.
const LENGTH: f64 = 1.0;
/// Time between steps, s.
const DT: f64 = 0.05;
/// Maximum torque, N m.
const MAX_TORQUE: f64 = 2.0;
/// Maximum angular velocity, rad/s.
const MAX_SPEED: f64 = 8.0;

bundle! {
    /// The pendulum.
    pub struct State {
        /// Angle from upright, rad; not wrapped.
        theta: Float,
        /// Angular velocity, rad/s.
        theta_dot: Float,
    }
}

bundle! {
    /// The motor's action.
    pub struct Action {
        /// Torque, N m; clipped to the motor's strength.
        torque: Float,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Pendulum {
    /// Whether observations exclude the velocities.
    hides_velocity: bool,
}

/// An angle into -pi .. pi.
#[inline(always)]
fn wrap<F: Float>(angle: F) -> F {
    let turns = ((angle + F::splat(PI)) * F::splat(1.0 / (2.0 * PI))).floor();
    turns.mul_add(F::splat(-2.0 * PI), angle)
}

impl Env for Pendulum {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 3];
    type Action<L: Lane> = Action<L>;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "pendulum".into(),
            aliases: vec!["Pendulum-v1".into(), "Pendulum".into()],
            family: "classic control".into(),
            summary: "swing a pendulum up with a weak motor; at most 0 per step".into(),
            rules: "A pendulum that hangs down is swung up and held with a torque of -2 to 2. \
                    Each step costs its angle, speed and torque, squared and weighted."
                .into(),
            reference: "Identical to Gymnasium's Pendulum-v1 up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[1.0, 1.0, MAX_SPEED]),
            obs_names: names(["cosine of the angle from upright", "its sine", "angular velocity (rad/s)"]),
            actions: ActionSpace::Box { low: vec![-MAX_TORQUE], high: vec![MAX_TORQUE] },
            time_limit: 200,
            fps: 30.0,
            options: vec![hidden::option()],
            preset: Some(include_str!("../presets/pendulum.toml").into()),
            ..EnvSpec::default()
        }
    }

    hidden::hides_velocity!([0, 1]);

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { theta: draws.between(-PI, PI), theta_dot: draws.between(-1.0, 1.0) }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &Action<L>, _: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let u = action.torque.clamp(f(-MAX_TORQUE), f(MAX_TORQUE)).named("u");
        // The cost is of the state before the step.
        let angle = wrap(s.theta).named("angle");
        let cost = (s.theta_dot * s.theta_dot).mul_add(f(0.1), angle * angle);
        let cost = (u * u).mul_add(f(0.001), cost).named("cost");

        let gravity = s.theta.sin() * f(3.0 * GRAVITY / (2.0 * LENGTH));
        let acceleration = u.mul_add(f(3.0 / (MASS * LENGTH * LENGTH)), gravity);
        let theta_dot = acceleration.mul_add(f(DT), s.theta_dot).clamp(f(-MAX_SPEED), f(MAX_SPEED));
        let theta_dot = theta_dot.named("theta_dot");
        let state: State<L> = State { theta: theta_dot.mul_add(f(DT), s.theta), theta_dot };
        Step { state, reward: -cost, terminated: L::Mask::splat(false) }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 3] {
        let (sin, cos) = s.theta.sin_cos();
        [cos, sin, s.theta_dot]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let tip = [s.theta.sin(), s.theta.cos()];
        Scene {
            low: [-1.3, -1.3],
            high: [1.3, 1.3],
            shapes: vec![
                Shape::line([[0.0, 0.0], tip], 2),
                Shape::circle(tip, 0.1, 1),
                Shape::circle([0.0, 0.0], 0.05, 3),
            ],
        }
    }
}
