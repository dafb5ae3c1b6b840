//! Acrobot: swing the tip of a two-link arm above a line with a motor in its elbow.
//!
//! After Sutton, "Generalization in reinforcement learning" (1996), with the "book" dynamics and constants of
//! Gymnasium's Acrobot-v1.

use core::f64::consts::{FRAC_PI_2, PI};

use operant_lane::{Draws, Float, Int, Lane, Mask, Uint, bundle};

use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Shape, Step};

/// Gravity, m/s^2.
const GRAVITY: f64 = 9.8;
/// Mass of each link, kg.
const MASS: f64 = 1.0;
/// Length of the first link, m.
const LENGTH: f64 = 1.0;
/// Distance of a link's centre of mass from its joint, m.
const CENTER: f64 = 0.5;
/// Moment of inertia of each link, kg m^2.
const INERTIA: f64 = 1.0;
/// Time between steps, s.
const DT: f64 = 0.2;
/// Maximum angular velocities, rad/s.
const MAX_SPEED: [f64; 2] = [4.0 * PI, 9.0 * PI];
/// First states are uniform within this of hanging still.
const SPREAD: f64 = 0.1;

bundle! {
    /// The arm.
    pub struct State {
        /// Angle of the first link from hanging, rad.
        theta1: Float,
        /// Angle of the second link from the first, rad.
        theta2: Float,
        /// Angular velocity of the first link, rad/s.
        theta1_dot: Float,
        /// Angular velocity of the second link, rad/s.
        theta2_dot: Float,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct Acrobot;

/// Time derivatives of (theta1, theta2, theta1_dot, theta2_dot) under a torque at the elbow.
#[inline(always)]
fn derivatives<L: Lane>(
    [theta1, theta2, dtheta1, dtheta2]: [L::Float; 4],
    torque: L::Float,
) -> [L::Float; 4] {
    let f = L::Float::splat;
    let (sin2, cos2) = theta2.sin_cos();
    let d1 = cos2.mul_add(
        f(2.0 * MASS * LENGTH * CENTER),
        f(MASS * CENTER * CENTER + MASS * (LENGTH * LENGTH + CENTER * CENTER) + 2.0 * INERTIA),
    );
    let d2 = cos2.mul_add(f(MASS * LENGTH * CENTER), f(MASS * CENTER * CENTER + INERTIA));
    let phi2 = (theta1 + theta2 - f(FRAC_PI_2)).cos() * f(MASS * CENTER * GRAVITY);
    let coriolis = sin2 * f(MASS * LENGTH * CENTER);
    let phi1 = (theta1 - f(FRAC_PI_2)).cos().mul_add(f((MASS * CENTER + MASS * LENGTH) * GRAVITY), phi2);
    let phi1 = (coriolis * dtheta2).mul_add(-(dtheta2 + dtheta1 * f(2.0)), phi1);
    let ratio = d2 / d1;
    let drive = ratio.mul_add(phi1, torque) - (coriolis * dtheta1).mul_add(dtheta1, phi2);
    let ddtheta2 = drive / ratio.mul_add(-d2, f(MASS * CENTER * CENTER + INERTIA));
    let ddtheta1 = -(d2.mul_add(ddtheta2, phi1) / d1);
    [dtheta1, dtheta2, ddtheta1, ddtheta2]
}

/// An angle into -pi .. pi, by whole turns until it is inside; a step turns a link by less than two.
#[inline(always)]
fn wrap<F: Float>(mut angle: F) -> F {
    let turn = F::splat(2.0 * PI);
    for _ in 0..2 {
        angle = angle.gt(F::splat(PI)).select(angle - turn, angle);
        angle = angle.lt(F::splat(-PI)).select(angle + turn, angle);
    }
    angle
}

impl Env for Acrobot {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 6];
    type Action<L: Lane> = L::Uint;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "acrobot".into(),
            aliases: vec!["Acrobot-v1".into(), "Acrobot".into()],
            family: "classic control".into(),
            summary: "swing a two-link arm above a line; -1 per step".into(),
            rules: "Two links hang from a joint; torque is applied between them. Every step costs 1 \
                    until the end swings above one link over the joint."
                .into(),
            reference: "Identical to Gymnasium's Acrobot-v1 up to float rounding.".into(),
            obs: ObsSpace::symmetric(&[1.0, 1.0, 1.0, 1.0, MAX_SPEED[0], MAX_SPEED[1]]),
            obs_names: names([
                "cosine of the first link's angle from hanging",
                "its sine",
                "cosine of the second link's angle from the first",
                "its sine",
                "angular velocity of the first angle (rad/s)",
                "of the second",
            ]),
            actions: ActionSpace::Discrete(vec![3]),
            action_names: names(["left", "none", "right"]),
            time_limit: 500,
            fps: 15.0,
            preset: Some(include_str!("../presets/acrobot.toml").into()),
            ..EnvSpec::default()
        }
    }

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let mut near_zero = || draws.between(-SPREAD, SPREAD);
        State { theta1: near_zero(), theta2: near_zero(), theta1_dot: near_zero(), theta2_dot: near_zero() }
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, _: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let torque = L::Float::from_int(action.to_int() - L::Int::splat(1)).named("torque");

        // One step of the classic Runge-Kutta method.
        let y0 = [s.theta1, s.theta2, s.theta1_dot, s.theta2_dot];
        let advance =
            |slope: [L::Float; 4], time: f64| core::array::from_fn(|i| slope[i].mul_add(f(time), y0[i]));
        let k1 = derivatives::<L>(y0, torque);
        let k2 = derivatives::<L>(advance(k1, DT / 2.0), torque);
        let k3 = derivatives::<L>(advance(k2, DT / 2.0), torque);
        let k4 = derivatives::<L>(advance(k3, DT), torque);
        let [theta1, theta2, dtheta1, dtheta2] = core::array::from_fn(|i| {
            let sum = (k2[i] + k3[i]).mul_add(f(2.0), k1[i] + k4[i]);
            sum.mul_add(f(DT / 6.0), y0[i])
        });

        let state: State<L> = State {
            theta1: wrap(theta1).named("theta1"),
            theta2: wrap(theta2).named("theta2"),
            theta1_dot: dtheta1.clamp(f(-MAX_SPEED[0]), f(MAX_SPEED[0])).named("theta1_dot"),
            theta2_dot: dtheta2.clamp(f(-MAX_SPEED[1]), f(MAX_SPEED[1])).named("theta2_dot"),
        };
        let height = -state.theta1.cos() - (state.theta2 + state.theta1).cos();
        let terminated = height.gt(f(1.0)).named("above");
        Step { state, reward: terminated.select(f(0.0), f(-1.0)), terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 6] {
        let (sin1, cos1) = s.theta1.sin_cos();
        let (sin2, cos2) = s.theta2.sin_cos();
        [cos1, sin1, cos2, sin2, s.theta1_dot, s.theta2_dot]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        let elbow = [s.theta1.sin(), -s.theta1.cos()];
        let tip = [elbow[0] + (s.theta1 + s.theta2).sin(), elbow[1] - (s.theta1 + s.theta2).cos()];
        Scene {
            low: [-2.2, -2.2],
            high: [2.2, 2.2],
            shapes: vec![
                Shape::line([[-2.2, 1.0], [2.2, 1.0]], 3),
                Shape::line([[0.0, 0.0], elbow, tip], 2),
                Shape::circle([0.0, 0.0], 0.08, 1),
                Shape::circle(elbow, 0.08, 1),
            ],
        }
    }
}
