//! CartPole: balance a pole on a cart that is pushed left or right.
//!
//! After Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems"
//! (1983), with the constants and the explicit Euler step of Gymnasium's CartPole-v1.

use operant_lane::{Draws, Float, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Shape, Step, hidden};

/// Gravity, m/s^2.
const GRAVITY: f64 = 9.8;
/// Mass of the cart, kg.
const CART_MASS: f64 = 1.0;
/// Mass of the pole, kg.
const POLE_MASS: f64 = 0.1;
/// Both together, kg.
const TOTAL_MASS: f64 = CART_MASS + POLE_MASS;
/// Half the length of the pole, m.
const HALF_LENGTH: f64 = 0.5;
/// The push, N.
const FORCE: f64 = 10.0;
/// Time between steps, s.
const TAU: f64 = 0.02;
/// The episode ends when the cart is further out than this, m.
const X_LIMIT: f64 = 2.4;
/// The episode ends when the pole leans more than 12 degrees, rad.
const THETA_LIMIT: f64 = 12.0 * 2.0 * core::f64::consts::PI / 360.0;
/// First states are uniform within this of the origin.
const SPREAD: f64 = 0.05;

bundle! {
    /// Cart and pole.
    pub struct State {
        /// Position of the cart, m.
        x: Float,
        /// Velocity of the cart, m/s.
        x_dot: Float,
        /// Angle of the pole from upright, rad.
        theta: Float,
        /// Angular velocity of the pole, rad/s.
        theta_dot: Float,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct CartPole {
    /// Whether observations exclude the velocities.
    hides_velocity: bool,
}

impl Env for CartPole {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 4];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "cartpole".into(),
            aliases: vec!["CartPole-v1".into(), "CartPole".into()],
            family: "classic control".into(),
            summary: "balance a pole on a cart; +1 per step".into(),
            rules: "A cart on a track carries a pole; push it left or right at 50 Hz. The episode ends \
                    when the pole leans 12 degrees or the cart is 2.4 m from the centre."
                .into(),
            reference: "Identical to Gymnasium's CartPole-v1 up to float rounding.".into(),
            variant_of: None,
            obs: ObsSpace::symmetric(&[2.0 * X_LIMIT, f64::INFINITY, 2.0 * THETA_LIMIT, f64::INFINITY]),
            obs_names: names(["position (m)", "velocity (m/s)", "angle (rad)", "angular velocity (rad/s)"]),
            actions: ActionSpace::Discrete(vec![2]),
            action_names: names(["left", "right"]),
            metrics: Vec::new(),
            time_limit: 500,
            fps: 50.0,
            options: vec![hidden::option()],
            preset: Some(include_str!("../presets/cartpole.toml").into()),
            ..EnvSpec::default()
        }
    }

    hidden::hides_velocity!([0, 2]);

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let mut near_zero = || draws.between(-SPREAD, SPREAD);
        State { x: near_zero(), x_dot: near_zero(), theta: near_zero(), theta_dot: near_zero() }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let right = action.eq(L::Uint::splat(1));
        let force = right.select(f(FORCE), f(-FORCE)).named("force");
        let (sin, cos) = s.theta.sin_cos();
        let (sin, cos) = (sin.named("sin"), cos.named("cos"));

        let swing = s.theta_dot * s.theta_dot * f(POLE_MASS * HALF_LENGTH);
        let temp = (swing.mul_add(sin, force) * f(1.0 / TOTAL_MASS)).named("temp");
        let lever = (cos * cos).mul_add(f(-HALF_LENGTH * POLE_MASS / TOTAL_MASS), f(HALF_LENGTH * 4.0 / 3.0));
        let theta_acc = (sin.mul_add(f(GRAVITY), -(cos * temp)) / lever).named("theta_acc");
        let x_acc = (theta_acc * cos).mul_add(f(-POLE_MASS * HALF_LENGTH / TOTAL_MASS), temp).named("x_acc");

        // Explicit Euler: positions move with the velocities from before the step.
        let state: State<L> = State {
            x: s.x_dot.mul_add(f(TAU), s.x),
            x_dot: x_acc.mul_add(f(TAU), s.x_dot),
            theta: s.theta_dot.mul_add(f(TAU), s.theta),
            theta_dot: theta_acc.mul_add(f(TAU), s.theta_dot),
        };
        let terminated = state.x.abs().gt(f(X_LIMIT)) | state.theta.abs().gt(f(THETA_LIMIT));
        Step { state, reward: f(1.0), terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 4] {
        [s.x, s.x_dot, s.theta, s.theta_dot]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let tip =
            [s.x + s.theta.sin() * 2.0 * HALF_LENGTH as f32, 0.2 + s.theta.cos() * 2.0 * HALF_LENGTH as f32];
        let limit = X_LIMIT as f32;
        Scene {
            low: [-limit - 0.2, -0.4],
            high: [limit + 0.2, 1.6],
            shapes: vec![
                Shape::line([[-limit, 0.0], [limit, 0.0]], 0),
                Shape::rectangle([s.x, 0.1], 0.5, 0.2, 1),
                Shape::line([[s.x, 0.2], tip], 2),
                Shape::circle([s.x, 0.2], 0.04, 3),
            ],
        }
    }
}
