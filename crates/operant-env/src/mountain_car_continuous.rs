//! MountainCarContinuous: the same hill with a throttle, and fuel that costs.
//!
//! The constants of Gymnasium's MountainCarContinuous-v0.

use operant_lane::{Draws, Float, Lane, Mask, bundle};

use crate::mountain_car::{MAX_POSITION, MAX_SPEED, MIN_POSITION, State, picture, roll, valley};
use crate::spec::names;
use crate::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step, hidden};

/// Velocity that full throttle gives per step.
const POWER: f64 = 0.0015;
/// The flag.
const GOAL: f64 = 0.45;
/// Reward at the flag.
const PRIZE: f64 = 100.0;
/// Price of the squared action, which is not clipped for it.
const FUEL: f64 = 0.1;

bundle! {
    /// The driver's action.
    pub struct Action {
        /// Throttle, -1 .. 1; clipped by the engine.
        throttle: Float,
    }
}

/// The environment.
#[derive(Debug, Clone, Default)]
pub struct MountainCarContinuous {
    /// Whether observations exclude the velocities.
    hides_velocity: bool,
}

impl Env for MountainCarContinuous {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 2];
    type Action<L: Lane> = Action<L>;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "mountain_car_continuous".into(),
            aliases: vec!["MountainCarContinuous-v0".into(), "MountainCarContinuous".into()],
            family: "classic control".into(),
            summary: "rock a weak car up a hill with little fuel; +100 at the flag".into(),
            rules: "A car too weak for the hill is pushed with a force of -1 to 1. Reaching the \
                    flag at 0.45 gives 100; force costs 0.1 times its square."
                .into(),
            reference: "Identical to Gymnasium's MountainCarContinuous-v0 up to float rounding.".into(),
            obs: ObsSpace::Box { low: vec![MIN_POSITION, -MAX_SPEED], high: vec![MAX_POSITION, MAX_SPEED] },
            obs_names: names(["position", "velocity per step"]),
            actions: ActionSpace::Box { low: vec![-1.0], high: vec![1.0] },
            time_limit: 999,
            fps: 30.0,
            options: vec![hidden::option()],
            preset: Some(include_str!("../presets/mountain_car_continuous.toml").into()),
            ..EnvSpec::default()
        }
    }

    hidden::hides_velocity!([0]);

    #[inline(always)]
    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        valley(draws)
    }

    #[inline(always)]
    fn step<L: Lane>(&self, s: &State<L>, action: &Action<L>, _: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let force = action.throttle.clamp(f(-1.0), f(1.0)).named("force");
        let state = roll(s, force * f(POWER));
        let terminated = (state.position.ge(f(GOAL)) & state.velocity.ge(f(0.0))).named("arrived");
        let prize = terminated.select(f(PRIZE), f(0.0));
        let reward = (action.throttle * action.throttle).mul_add(f(-FUEL), prize);
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 2] {
        [s.position, s.velocity]
    }

    fn draw(&self, s: &State<f32>) -> Scene {
        picture(s, GOAL)
    }
}
