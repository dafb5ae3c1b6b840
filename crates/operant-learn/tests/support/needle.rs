//! Needle: a test-only environment with an index as its observation and a real number as its action.

use operant_env::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, Uint, bundle};

/// Marks on the dial.
const MARKS: u32 = 9;

bundle! {
    /// The needle.
    pub struct State {
        /// The mark that it points to.
        mark: Uint,
    }
}

/// Answer the mark with a number; the reward is minus the distance from the mark in units of the dial. A ninth of the steps ends the
/// episode.
#[derive(Debug, Clone, Default)]
pub struct Needle;

impl Env for Needle {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 1];
    type Action<L: Lane> = [L::Float; 1];

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "needle".into(),
            summary: "answer a mark with a number".into(),
            obs: ObsSpace::index(MARKS),
            actions: ActionSpace::Box { low: vec![-1.0], high: vec![1.0] },
            time_limit: 11,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { mark: draws.below(MARKS) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &[L::Float; 1], draws: &mut Draws<L>) -> Step<L, State<L>> {
        let f = L::Float::splat;
        let answer = L::Float::from_uint(s.mark) * f(0.25) - f(1.0);
        let mark = draws.below(MARKS);
        Step {
            state: State { mark },
            reward: -(action[0] - answer).abs(),
            terminated: mark.eq(L::Uint::splat(0)),
        }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 1] {
        [s.mark]
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}
