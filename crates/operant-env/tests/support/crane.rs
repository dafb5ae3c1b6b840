//! Crane: a test-only environment with an odd number of real actions, each with its own bounds that are not symmetric,
//! and a time limit so short that it often falls together with a termination. Shared by the suites that need what the
//! shipped environments, whose real actions are one, do not have.

use operant_env::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, bundle};

/// Axes.
const AXES: usize = 3;
/// Least forces along each axis.
pub const LOW: [f64; AXES] = [-1.0, -0.25, 0.0];
/// Maximum.
pub const HIGH: [f64; AXES] = [0.5, 0.75, 2.0];
/// Steps to the time limit.
pub const LIMIT: u32 = 6;

bundle! {
    /// Where the hook is.
    pub struct State {
        /// Position along each axis.
        position: [Float; 3],
    }
}

/// Push a hook along three axes; the first may not leave its rail.
#[derive(Debug, Clone, Default)]
pub struct Crane;

impl Env for Crane {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 3];
    type Action<L: Lane> = [L::Float; 3];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "crane".into(),
            summary: "push a hook".into(),
            obs: ObsSpace::Box { low: vec![-20.0; AXES], high: vec![20.0; AXES] },
            actions: ActionSpace::Box { low: LOW.to_vec(), high: HIGH.to_vec() },
            time_limit: LIMIT,
            fps: 10.0,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { position: core::array::from_fn(|_| draws.between(-1.0, 1.0)) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &[L::Float; 3], draws: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let gust = draws.between(-0.125, 0.125);
        // Every action component has its own price, so that none can be taken for another.
        let prices = [1.0, -0.5, 0.25];
        let mut reward = gust;
        let position: [L::Float; AXES] = core::array::from_fn(|axis| {
            reward = action[axis].mul_add(f(prices[axis]), reward);
            s.position[axis] + action[axis] + gust
        });

        let terminated = position[0].lt(f(-1.5));
        Step { state: State { position }, reward, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 3] {
        s.position
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}
