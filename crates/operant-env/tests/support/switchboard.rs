//! Switchboard: a test-only environment with five action components, 40 logits in two mask words, an observation of bits
//! whose last word is not full, an illegal first choice, and a time limit so short that it often falls together with a
//! termination; many metrics, and a score of them. Shared by the suites that need what neither the shipped environments nor Locks have.

use operant_env::{ActionSpace, Env, EnvMetric, EnvSpec, ObsSpace, Scene, Step};
use operant_lane::{Draws, Float, Lane, Mask, Select, Uint, bundle};

/// Panels, each with a row of eight lamps.
const PANELS: usize = 5;
/// Choices of each action component; the last component's lie on both sides of the first mask word's end.
const CHOICES: [usize; PANELS] = [9, 2, 12, 4, 13];
/// Lamps of which a metric says whether they are on at the end.
const MEASURED: usize = 22;
/// Steps to the time limit.
pub const LIMIT: u32 = 5;

bundle! {
    /// The lamps.
    pub struct State {
        /// Lamps of each panel, the first lowest.
        lamps: [Uint; 5],
    }
}

/// Press one switch of each of five panels: it turns its lamp on and its neighbour's over. A lamp that is on holds its
/// switch. Ends when the first two lamps of the first panel are on.
#[derive(Debug, Clone, Default)]
pub struct Switchboard;

impl Env for Switchboard {
    type State<L: Lane> = State<L>;
    type Obs<L: Lane> = [L::Uint; 2];
    type Action<L: Lane> = [L::Uint; 5];

    const MASKED: bool = true;

    fn spec(&self) -> EnvSpec {
        let lamp = |k| EnvMetric::new(&format!("lamp_{k}"), "Whether the lamp is on at the end.");
        let mut metrics: Vec<_> = (0..MEASURED).map(lamp).collect();
        let score = EnvMetric::score("lamps", "Score of all.", metrics.iter().map(|it| it.name.as_str()));
        metrics.push(score);
        EnvSpec {
            name: "switchboard".into(),
            summary: "light lamps".into(),
            obs: ObsSpace::Binary { shape: vec![PANELS, 8] },
            actions: ActionSpace::Discrete(CHOICES.to_vec()),
            metrics,
            time_limit: LIMIT,
            fps: 10.0,
            ..EnvSpec::default()
        }
    }

    fn reset<L: Lane>(&self, draws: &mut Draws<L>) -> State<L> {
        State { lamps: core::array::from_fn(|_| draws.below(128)) }
    }

    fn step<L: Lane>(&self, s: &State<L>, action: &[L::Uint; 5], draws: &mut Draws<L>) -> Step<L, State<L>> {
        let (u, f) = (L::Uint::splat, L::Float::splat);
        // Every action component has its own price, so that none can be taken for another.
        let prices = [0.5, 0.25, 0.125, 0.0625, 0.03125];
        let mut reward = f(-1.0);
        let lamps: [L::Uint; PANELS] = core::array::from_fn(|panel| {
            let (pressed, price) = (action[panel], prices[panel]);
            reward = L::Float::from_uint(pressed).mul_add(f(price), reward);
            let place = pressed & u(7);
            let on = s.lamps[panel] | u(1).shl_by(place);
            let flickers = draws.below(8).eq(u(0));
            let over = <L::Uint as Select<L::Mask>>::select(flickers, u(255), u(2).shl_by(place));
            (on ^ over) & u(255)
        });

        let terminated = (lamps[0] & u(3)).eq(u(3));
        Step { state: State { lamps }, reward, terminated }
    }

    fn observe<L: Lane>(&self, s: &State<L>) -> [L::Uint; 2] {
        let [a, b, c, d, e] = s.lamps;
        [a | b.shl(8) | c.shl(16) | d.shl(24), e]
    }

    /// A lamp that is on holds its switch; the last switch of a panel is never held.
    fn legal<L: Lane>(&self, s: &State<L>, component: usize, choice: usize) -> L::Mask {
        if choice + 1 == CHOICES[component] || choice > 7 {
            return L::Mask::splat(true);
        }
        (s.lamps[component].shr(choice as u32) & L::Uint::splat(1)).eq(L::Uint::splat(0))
    }

    fn metric<L: Lane>(&self, last: &Step<L, State<L>>, index: usize) -> L::Float {
        L::Float::from_uint(last.state.lamps[index / 8].shr(index as u32 % 8) & L::Uint::splat(1))
    }

    fn draw(&self, _: &State<f32>) -> Scene {
        Scene { low: [0.0, 0.0], high: [1.0, 1.0], shapes: Vec::new() }
    }
}
