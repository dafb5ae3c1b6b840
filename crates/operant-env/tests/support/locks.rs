//! Locks: a test-only environment with what the shipped ones lack: two action components, action masks, arrays with a
//! dynamic index, a bounded loop, a truth value in the state and chance inside a step. Shared by the suites of
//! operant-env and operant-learn.

use operant_env::{ActionSpace, Env, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, Mask, Uint, array, bundle};

/// Dials to turn.
const DIALS: usize = 3;
/// Positions of a dial.
const POSITIONS: u32 = 8;
/// The position that opens a lock.
const OPEN: u32 = 5;

bundle! {
    /// The dials.
    pub struct State {
        /// Position of each dial.
        dials: [Uint; 3],
        /// Which locks are open.
        open: [Mask; 3],
        /// Positions turned so far in this episode.
        turns: Float,
    }
}

/// Turn one of three dials by 0, 1, 2 or 7 positions; 1 for each lock that opens, -0.02 a step. Open ones stay shut to
/// the hand. One turn in sixteen slips.
#[derive(Debug, Clone, Default)]
pub struct Locks;

impl Env for Locks {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Float; 7];
    type Action<L: Lane> = [L::Uint; 2];

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "locks".into(),
            summary: "open three locks by turning their dials".into(),
            obs: ObsSpace::Box { low: vec![0.0; 7], high: vec![2.0; 7] },
            actions: ActionSpace::Discrete(vec![DIALS, 4]),
            time_limit: 24,
            fps: 10.0,
            preset: Some("solved_at = 2.5".into()),
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        let dials = core::array::from_fn(|_| {
            // Any position but the open one.
            let position = draws.below(POSITIONS - 1);
            position.ge(L::Uint::splat(OPEN)).select(position + L::Uint::splat(1), position)
        });
        State { dials, open: [L::Mask::splat(false); DIALS], turns: L::Float::splat(0.0) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &[L::Uint; 2], draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        let turn = L::Uint::gather(&[0, 1, 2, 7], action[1]);
        let slips = draws.below(16).eq(u(0)).named("slips");
        let before = array::get(&s.dials, action[0]);
        let shut = !array::get(&s.open, action[0]);
        let after = (before + slips.select(u(0), turn)) & u(POSITIONS - 1);
        let dials = array::set(&s.dials, action[0], shut.select(after, before));
        let opens = (shut & after.eq(u(OPEN))).named("opens");
        let open = array::set(&s.open, action[0], opens | !shut);
        // Each of the first three positions turned costs a little.
        let (cost, _) = L::repeat(3, (f(0.0), turn), |_, (cost, left)| {
            let some = left.ne(u(0));
            (L::when(some, cost, |cost| cost + f(0.001)), some.select(left - u(1), left))
        });
        let state = State { dials, open, turns: s.turns + L::Float::from_uint(turn) };
        let reward = opens.select(f(0.98), f(-0.02)) - cost;
        Step { state, reward, terminated: open[0] & open[1] & open[2] }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Float; 7] {
        let f = L::Float::splat;
        let mut obs = [f(0.0); 7];
        for dial in 0..DIALS {
            let away = (u_mod::<L>(L::Uint::splat(OPEN) - s.dials[dial])).min(L::Uint::splat(POSITIONS));
            obs[2 * dial] = L::Float::from_uint(away) * f(0.25);
            obs[2 * dial + 1] = s.open[dial].select(f(1.0), f(0.0));
        }
        obs[6] = (s.turns * f(0.01)).min(f(1.0));
        obs
    }

    /// An open lock has no dial to turn. One is always shut: the episode ends when the last opens.
    fn legal<L: Lane>(&self, s: &State<L>, component: usize, choice: usize) -> L::Mask {
        if component == 0 { !s.open[choice] } else { L::Mask::splat(true) }
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}

fn u_mod<L: Lane>(x: L::Uint) -> L::Uint {
    x & L::Uint::splat(POSITIONS - 1)
}
