//! Fuses: a test-only environment whose first states are made ahead of time.

use operant_env::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, Memory, Uint, bundle};

/// Words of the wall: enough that a GPU keeps them in memory.
const WORDS: usize = 80;

bundle! {
    /// A fuse in a wall of numbers.
    pub struct State {
        /// The wall.
        wall: (Memory 80),
        /// Steps until the fuse has burnt down.
        left: Uint,
    }
}

/// Read the number behind the fuse, and shift it by the action. The episode ends when the fuse has burnt down, after 1 to 14 steps, or by the time
/// limit.
#[derive(Debug, Clone, Default)]
pub struct Fuses;

impl Env for Fuses {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 2];
    type Action<L: Lane> = L::Uint;

    const AHEAD: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "fuses".into(),
            summary: "shift the number behind a fuse".into(),
            obs: ObsSpace::Box { low: vec![0.0; 2], high: vec![16.0; 2] },
            actions: ActionSpace::Discrete(vec![3]),
            time_limit: 9,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let left = draws.below(14) + L::Uint::splat(1);
        let first = draws.bits();
        let mut wall = L::Memory::<WORDS>::splat(&[0; WORDS]);
        L::turns(WORDS as u32, &mut wall, |word, wall| wall.put(word, first.shr(3) + L::spread(word)));
        State { wall, left }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &L::Uint, draws: &mut Draws<L>) -> Step<L, State<L>> {
        let mut state = *s;
        let number = s.wall.get(s.left) + *action + draws.below(2);
        state.wall.set(action.ne(L::Uint::splat(0)), s.left, number);
        state.left = s.left - L::Uint::splat(1);
        let reward = L::Float::from_uint(number & L::Uint::splat(7));
        Step { state, reward, terminated: state.left.eq(L::Uint::splat(0)) }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 2] {
        [s.left, s.wall.get(s.left) & L::Uint::splat(15)].map(L::Float::from_uint)
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}
